"""What a case gives, as the Arrow tables that `ClusterState.from_tables` takes.

Every column is written, so that nothing is left to be assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kfast.schema import (
    BROKERS_SCHEMA,
    CLUSTER_SCHEMA,
    PARTITIONS_SCHEMA,
    TOPICS_SCHEMA,
    PartitionState,
)
from tests.support.cases_format import (
    PARTITION_STATES,
    RECOVERY,
    REPLICA_STATES,
    partition_of,
    replica_of,
)

UNCLEAN = "unclean.leader.election.enable"


def assignments(case: dict[str, Any]) -> dict[str, Any]:
    """Assignment by partition; some cases give one assignment of no partition."""
    given: dict[str, Any] = case["given"].get("assignment", {})
    return {} if "replicas" in given else given


def named_in(value: Any, key: str = "") -> Iterator[str]:
    """Every partition name in the arguments of an operation."""
    if isinstance(value, dict):
        for inner, part in value.items():
            yield from named_in(part, inner)
    elif isinstance(value, list):
        for item in value:
            yield from named_in(item, key)
    elif isinstance(value, str) and key in ("partition", "partitions", "replicas"):
        yield value.partition("@")[0]


def partition_names(case: dict[str, Any]) -> list[str]:
    """Every partition that a case names, in order of topic and number."""
    given, when = case["given"], case["when"]
    names = [*assignments(case)]
    for key in ("leadership", "store", "partition_states"):
        names += given.get(key, {})
    names += [replica.partition("@")[0] for replica in given.get("replica_states", {})]
    names += [p for listed in given.get("offline_dirs", {}).values() for p in listed]
    if when["op"] != "context.get_assignment":
        names += named_in(when["args"])
    return sorted(set(names), key=partition_of)


def replica_states(case: dict[str, Any]) -> dict[str, dict[int, int]]:
    """States by partition and broker id."""
    found: dict[str, dict[int, int]] = {}
    for replica, state in case["given"].get("replica_states", {}).items():
        partition = replica.partition("@")[0]
        found.setdefault(partition, {})[replica_of(replica)[1]] = int(REPLICA_STATES[state])
    return found


def partitions_table(case: dict[str, Any]) -> pa.Table:
    """The partitions, with everything that the case says of them."""
    given, listed, states = case["given"], assignments(case), replica_states(case)
    dirs = given.get("offline_dirs", {})
    rows = []
    for name in partition_names(case):
        topic, partition = partition_of(name)
        assignment, record = listed.get(name), given.get("leadership", {}).get(name)
        state = given.get("partition_states", {}).get(name)
        row: dict[str, Any] = {
            "topic": topic, "partition": partition, "replicas": None, "adding": [], "removing": [],
            "offline_dir": [int(b) for b, names in dirs.items() if name in names],
            "partition_state": PARTITION_STATES[state] if state else PartitionState.NO_ENTRY,
            "replica_state_broker_ids": list(states.get(name, {})),
            "replica_states": list(states.get(name, {}).values()),
            "being_reassigned": False, "has_leadership": record is not None,
            "leader": -1, "isr": [], "leader_epoch": 0, "version": 0, "controller_epoch": 0,
            "recovery": 0,
        }
        if assignment is not None:
            row |= {"adding": [], "removing": [], **assignment}
        if record is not None:
            row |= {**record, "recovery": RECOVERY.index(record["recovery"])}
        rows.append(row)
    return pa.Table.from_pylist(rows, PARTITIONS_SCHEMA)


def brokers_table(case: dict[str, Any]) -> pa.Table:
    """The registered brokers, and those that are only said to be shutting down."""
    given = case["given"]
    epochs = {int(b): entry["epoch"] for b, entry in given.get("brokers", {}).items()}
    down = set(given.get("shutting_down", ()))
    rows = [
        {
            "broker_id": b, "rack": None, "registered": b in epochs, "shutting_down": b in down,
            "epoch": epochs.get(b, 0),
        }
        for b in sorted(set(epochs) | down)
    ]
    return pa.Table.from_pylist(rows, BROKERS_SCHEMA)


def topics_table(case: dict[str, Any]) -> pa.Table:
    """Every topic that a case names."""
    given = case["given"]
    configs = {t: c for t, c in given.get("topic_configs", {}).items() if t != "__broker__"}
    queued = set(given.get("topics_queued_for_deletion", ()))
    started = set(given.get("topics_deletion_started", ()))
    ineligible = set(given.get("topics_ineligible", ()))
    names = {partition_of(p)[0] for p in partition_names(case)} | set(given.get("topics", ()))
    rows = []
    for topic in sorted(names | set(configs) | queued | started | ineligible):
        unclean = configs.get(topic, {}).get(UNCLEAN)
        rows.append({
            "topic": topic, "topic_id": None, "exists": True,
            "unclean_leader_election": None if unclean is None else unclean == "true",
            "min_insync_replicas": None, "queued_for_deletion": topic in queued,
            "deletion_started": topic in started, "ineligible": topic in ineligible,
        })
    return pa.Table.from_pylist(rows, TOPICS_SCHEMA)


def cluster_table(case: dict[str, Any]) -> pa.Table:
    """The controller and the broker defaults."""
    given = case["given"]
    controller = given.get("controller", {})
    default = given.get("topic_configs", {}).get("__broker__", {}).get(UNCLEAN)
    row = {
        "controller_id": controller.get("id", -1), "controller_epoch": controller.get("epoch", 0),
        "epoch_store_version": 0, "default_unclean_leader_election": default == "true",
        "default_min_insync_replicas": 1,
        "delete_topic_enabled": given.get("delete_topic_enabled", True),
        "leader_recovery_supported": given.get("leader_recovery_supported", True),
        "unclean_elections": 0,
    }
    return pa.Table.from_pylist([row], CLUSTER_SCHEMA)
