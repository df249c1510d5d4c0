"""A cluster written as text, so that a test reads like its claim.

One line per partition, one column per fact, `-` for none:

    partition  ar     isr  leader  epoch  state
    t-0        1,2,3  1,2  1       7      ONLINE

Columns that may stand as well: version, controller, recovery, adding, removing, offline_dir, and
`replicas`, the state of each replica (`1:ONLINE,2:OFFLINE`). An epoch of `-` says that no
leadership is cached, an `ar` of `-` that nothing is assigned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import pyarrow as pa

from kfast import ClusterState, PartitionState, ReplicaState
from kfast.schema import BROKERS_SCHEMA, CLUSTER_SCHEMA, PARTITIONS_SCHEMA, TOPICS_SCHEMA

CONTROLLER_EPOCH = 3
QUIET = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  1       7      ONLINE
    t-1        2,3,1  2,3    2       5      ONLINE
    u-0        3,1    3      3       1      ONLINE
"""
"""A quiet cluster: every broker is up, every first replica leads."""
LISTS = ("ar", "isr", "adding", "removing", "offline_dir")
NUMBERS = ("leader", "epoch", "version", "controller", "recovery")
COLUMNS = ("partition", *LISTS, *NUMBERS, "state", "replicas")
Row = dict[str, str]


def rows_of(text: str) -> list[Row]:
    """The lines of a text, each as column and word."""
    head, *lines = [line.split() for line in text.strip().splitlines()]
    unknown = set(head) - set(COLUMNS)
    assert not unknown, f"unknown columns {unknown}"
    return [dict(zip(head, line, strict=True)) for line in lines]


def ids(word: str) -> list[int]:
    """Broker ids of a list."""
    return [] if word == "-" else [int(item) for item in word.split(",")]


def replica_states(word: str) -> dict[int, ReplicaState]:
    """States of replicas by broker id."""
    pairs = [item.split(":") for item in word.split(",")] if word != "-" else []
    return {int(broker): ReplicaState[state] for broker, state in pairs}


def name_of(word: str) -> tuple[str, int]:
    """Topic and number of a partition."""
    topic, _, number = word.rpartition("-")
    return topic, int(number)


def partition_row(row: Row, absent: Collection[int]) -> dict[str, Any]:
    """One line as a row of `PARTITIONS_SCHEMA`; what it leaves out is as in a quiet cluster."""
    topic, number = name_of(row["partition"])
    led = row.get("epoch", "0") != "-"
    lists = {name: ids(row.get(name, "-")) for name in LISTS}
    states = {
        b: ReplicaState.OFFLINE if b in absent else ReplicaState.ONLINE for b in lists["ar"]
    }
    if "replicas" in row:
        states = replica_states(row["replicas"])
    state = row.get("state", "-")
    epoch = int(row.get("epoch", "0")) if led else 0
    return {
        "topic": topic, "partition": number,
        "replicas": None if row["ar"] == "-" else lists["ar"],
        "isr": lists["isr"] if "isr" in row else lists["ar"],
        "leader": -1 if row["leader"] == "-" else int(row["leader"]),
        "leader_epoch": epoch,
        "version": int(row.get("version", epoch)),
        "controller_epoch": int(row.get("controller", CONTROLLER_EPOCH)) if led else 0,
        "recovery": int(row.get("recovery", 0)),
        "has_leadership": led,
        "adding": lists["adding"], "removing": lists["removing"],
        "offline_dir": lists["offline_dir"],
        "being_reassigned": bool(lists["adding"] or lists["removing"]),
        "partition_state": int(
            PartitionState.NO_ENTRY if state == "-" else PartitionState[state]
        ),
        "replica_state_broker_ids": list(states), "replica_states": list(states.values()),
    }


def read_state(
    text: str, *, down: Collection[int] = (), shutting_down: Collection[int] = (),
    brokers: Collection[int] = (), epochs: Mapping[int, int] | None = None,
    queued: Collection[str] = (), started: Collection[str] = (), ineligible: Collection[str] = (),
    unclean: Mapping[str, bool] | None = None, layout: Literal["narrow", "wide"] | None = None,
    **cluster: Any,
) -> ClusterState:
    """Make the cluster that a text describes.

    Every broker named is registered, but for those that are `down`; `brokers` names more of them.
    Replicas are Online, those on brokers that are down Offline. The version is the leader epoch.
    """
    lines = [partition_row(row, down) for row in rows_of(text)]
    named = {*brokers, *down, *shutting_down, *(epochs or {})}
    for line in lines:
        for column in ("replicas", "isr", "adding", "removing", "replica_state_broker_ids"):
            named.update(line[column] or [])
        named.update([line["leader"]] if line["leader"] >= 0 else [])
    broker_rows = [
        {"broker_id": b, "registered": b not in down, "shutting_down": b in shutting_down,
         "epoch": (epochs or {}).get(b, 0)}
        for b in sorted(named)
    ]
    overrides = unclean or {}
    topics = dict.fromkeys([*(line["topic"] for line in lines), *queued, *overrides])
    topic_rows = [
        {"topic": t, "exists": True, "unclean_leader_election": overrides.get(t),
         "queued_for_deletion": t in queued or t in started, "deletion_started": t in started,
         "ineligible": t in ineligible}
        for t in topics
    ]
    controller = {"controller_id": 0, "controller_epoch": CONTROLLER_EPOCH,
                  "epoch_store_version": CONTROLLER_EPOCH, **cluster}
    return ClusterState.from_tables(
        pa.Table.from_pylist(broker_rows, BROKERS_SCHEMA),
        pa.Table.from_pylist(topic_rows, TOPICS_SCHEMA),
        pa.Table.from_pylist(lines, PARTITIONS_SCHEMA),
        pa.Table.from_pylist([controller], CLUSTER_SCHEMA),
        layout=layout,
    )


def list_word(brokers: Collection[int]) -> str:
    """A list as it is written."""
    return ",".join(map(str, brokers)) or "-"


def words_of(state: ClusterState, row: int) -> Row:
    """One partition of a state, every column."""
    assignment, record = state.assignment(row), state.leadership(row)
    states = sorted(state.replica_states_of(row).items())
    entry = state.partition_state(row)
    offline = state.ids_of(row, int(state.records["offline_dir"][row]))
    words = {
        "ar": list_word(assignment.replicas), "adding": list_word(assignment.adding),
        "removing": list_word(assignment.removing), "offline_dir": list_word(sorted(offline)),
        "state": "-" if entry == PartitionState.NO_ENTRY else entry.name,
        "replicas": ",".join(f"{b}:{s.name}" for b, s in states) or "-",
    }
    if record is None:
        return {**words, "isr": "-", **dict.fromkeys(NUMBERS, "-")}
    return {
        **words, "isr": list_word(sorted(record.isr)),
        "leader": "-" if record.leader < 0 else str(record.leader),
        "epoch": str(record.leader_epoch), "version": str(record.version),
        "controller": str(record.controller_epoch), "recovery": str(record.recovery),
    }


def assert_reads(state: ClusterState, text: str) -> None:
    """Compare a state with a text: every partition, and the columns that the text has.

    An ISR is a set; an assignment is a list. Free rows are no partitions.
    """
    expected = rows_of(text)
    for row in expected:
        for name in ("isr", "offline_dir"):
            if name in row:
                row[name] = list_word(sorted(ids(row[name])))
    found = []
    for number, topic_row in enumerate(state.topic_row.tolist()):
        if state.partition[number] < 0:
            continue
        name = f"{state.topic[topic_row].as_py()}-{state.partition[number]}"
        words = {"partition": name, **words_of(state, number)}
        found.append({column: words[column] for column in expected[0]})
    key = "partition"
    assert sorted(found, key=lambda r: r[key]) == sorted(expected, key=lambda r: r[key])
