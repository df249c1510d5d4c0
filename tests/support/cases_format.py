"""The format of a cases file (../shared/data/README.md): what is compared, and how."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from kfast.schema import PartitionState, ReplicaState, Strategy

Case = dict[str, Any]
Seen = dict[str, Any]

LISTS = frozenset({
    "replicas", "adding", "removing", "to", "recipients", "origin", "target", "batch_adds",
    "errors_logged", "store_calls", "client_calls", "events", "table", "requests",
})
"""Keys whose lists are ordered; every other list is a set."""

GIVEN = frozenset({
    "assigned", "assignment", "brokers", "controller", "delete_topic_enabled", "ibp", "isr",
    "leader_recovery_supported", "leadership", "live", "offline_dirs", "partition_states",
    "record", "replica_states", "shutting_down", "store", "store_faults", "store_next_version",
    "topic_configs", "topics", "topics_deletion_started", "topics_ineligible",
    "topics_queued_for_deletion", "topics_with_ids", "unclean_enabled",
})
"""What a case may give."""

STATES = ("partition_states", "replica_states")
RECOVERY = ("RECOVERED", "RECOVERING")
STORE_OPS = {
    "read_state": "read_states",
    "create_state": "create_states",
    "write_state": "update_states",
}
"""Store operations: the case's name and the interface's."""

STRATEGIES = {
    "offline": Strategy.OFFLINE,
    "reassign": Strategy.REASSIGN,
    "preferred": Strategy.PREFERRED_REPLICA,
    "controlled_shutdown": Strategy.CONTROLLED_SHUTDOWN,
}
PARTITION_STATES = {state.label: state for state in PartitionState if state >= 0}
REPLICA_STATES = {state.label: state for state in ReplicaState if state > 0}


def partition_of(name: str) -> tuple[str, int]:
    """`topic-partition`; a topic may have hyphens of its own."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def name_of(p: tuple[str, int]) -> str:
    """`topic-partition`."""
    return f"{p[0]}-{p[1]}"


def replica_of(name: str) -> tuple[tuple[str, int], int]:
    """`topic-partition@broker`."""
    partition, _, broker = name.partition("@")
    return partition_of(partition), int(broker)


def strategy_of(spec: dict[str, Any] | None) -> Strategy | None:
    """The strategy that a case names."""
    if spec is None:
        return None
    if spec.get("allow_unclean"):
        return Strategy.OFFLINE_ALLOW_UNCLEAN
    return STRATEGIES[spec["name"]]


def describe_assignment(assignment: Any) -> dict[str, Any]:
    """The three lists."""
    return {
        "replicas": list(assignment.replicas),
        "adding": list(assignment.adding),
        "removing": list(assignment.removing),
    }


def describe_record(record: Any, with_controller: bool = True) -> dict[str, Any]:
    """A record as a case writes it."""
    row = {
        "leader": record.leader, "leader_epoch": record.leader_epoch, "isr": list(record.isr),
        "recovery": RECOVERY[record.recovery], "version": record.version,
    }
    return row | ({"controller_epoch": record.controller_epoch} if with_controller else {})


def as_written(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a journal with names in the place of partitions and recovery states."""
    row = {k: v for k, v in row.items() if k != "step"}
    if "partition" in row:
        row["partition"] = name_of(row["partition"])
    if isinstance(row.get("partitions"), list):
        row["partitions"] = [name_of(p) for p in row["partitions"]]
    elif "partitions" in row:
        row["partitions"] = {name_of(p): as_written(e) for p, e in row["partitions"].items()}
    if "recovery" in row:
        row["recovery"] = RECOVERY[row["recovery"]]
    return row


def describe_requests(by_broker: dict[int, list[dict[str, Any]]]) -> dict[str, Any]:
    """Requests per broker as a case writes them."""
    return {str(b): [as_written(row) for row in rows] for b, rows in by_broker.items()}


class UnknownError(Exception):
    """An operation or a key that an adapter does not know."""


class Adapter(Protocol):
    """What runs the operations: the plain Python twin, or kfast's public interface."""

    def __init__(self, case: Case) -> None: ...

    def run(self, op: str, args: Case) -> Seen:
        """Run one operation; what is to be seen of it beyond the state, by key."""
        ...

    def observe(self, key: str) -> Any:
        """The part of the state that a key of `expect` names."""
        ...


def canonical(value: Any, key: str = "") -> Any:
    """A value in which the order of what the format calls a set no longer shows."""
    if isinstance(value, dict):
        if key == "requests_by_broker":
            return {str(b): canonical(rows, "requests") for b, rows in value.items()}
        return {str(k): canonical(v, str(k)) for k, v in value.items()}
    if not isinstance(value, list | tuple):
        return value
    items = [canonical(v) for v in value]
    if key == "isr":
        return sorted(set(items))
    return items if key in LISTS else sorted(items, key=json.dumps)


def group(rows: list[Case], place: Callable[[Case], str]) -> dict[str, list[Case]]:
    """Rows by place, in order within each place."""
    groups: dict[str, list[Case]] = {}
    for row in rows:
        groups.setdefault(place(row), []).append(row)
    return groups


def place_of_addition(row: Case) -> str:
    """The partition that an addition to a batch concerns."""
    return row.get("partition") or ",".join(sorted(row["partitions"]))


def place_of_error(row: Case) -> str:
    """The partition of a log entry; the failure of a whole call stands apart."""
    if "batch_failure" in row:
        return ""
    return str(row.get("partition") or row["replica"].split("@")[0])


def comparable(key: str, value: Any) -> Any:
    """What is compared for one key of `expect`."""
    if value is None:
        return None
    if key in STATES:
        value = {k: v for k, v in value.items() if v is not None}
    if key == "batch_adds":
        value = [
            {**row, "to": canonical(row["to"])} if row["kind"] == "UpdateMetadata" else row
            for row in value
        ]
        return {p: canonical(rows, key) for p, rows in group(value, place_of_addition).items()}
    if key == "errors_logged":
        return {p: canonical(rows, key) for p, rows in group(value, place_of_error).items()}
    if key == "store_calls":
        split = [call.partition(":") for call in value]
        return [(op, sorted(partitions.split(","))) for op, _, partitions in split]
    return canonical(value, key)


def compare(key: str, expected: Any, found: Any, whole: bool) -> str | None:
    """How what was found differs from what one key of `expect` says; None if it does not.

    A dictionary of a sequence's step names some entries, any other is complete. A state that is
    null means that there must be no entry.
    """
    if not whole and isinstance(expected, dict) and isinstance(found, dict):
        found = {k: v for k, v in found.items() if k in expected}
    try:
        wanted = json.dumps(comparable(key, expected), sort_keys=True)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return f"{key}: the expected value is not of the format ({error!r})"
    seen = json.dumps(comparable(key, found), sort_keys=True)
    if wanted == seen and type(expected) is type(found):
        return None
    return f"{key}: expected {wanted}, found {seen}"


def check(adapter: Adapter, expect: Case, seen: Seen, whole: bool) -> list[str]:
    """Compare every key of an `expect`; what differs, one text each."""
    wrong = []
    for key, expected in expect.items():
        try:
            found = seen[key] if key in seen else adapter.observe(key)
        except UnknownError as error:
            wrong.append(str(error))
            continue
        difference = compare(key, expected, found, whole)
        if difference is not None:
            wrong.append(difference)
    if seen.get("raised") is not None and "raised" not in expect:
        wrong.append(f"raised {seen['raised']}, which the case does not expect")
    return wrong


def load(path: Path) -> list[Case]:
    """The cases of a file."""
    cases: list[Case] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return cases
