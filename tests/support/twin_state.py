"""The twin's context as kfast's tables, and where a kfast state differs from the twin."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

import pyarrow as pa

from kfast import ClusterState, Store
from kfast.schema import (
    BROKERS_SCHEMA,
    CLUSTER_SCHEMA,
    PARTITIONS_SCHEMA,
    TOPICS_SCHEMA,
    PartitionState,
)
from tests.support.reference import GARBAGE, Context, Partition, Record, TwinStore

NO_TOPIC = {
    "exists": False, "unclean_leader_election": None, "queued_for_deletion": False,
    "deletion_started": False, "ineligible": False,
}
"""What is said of a topic that has no row."""

Layout = Literal["narrow", "wide"]


def partitions_of(ctx: Context, also: Collection[Partition] = ()) -> list[Partition]:
    """Every partition that the context knows something of, in order."""
    known = {*also, *ctx.assignments, *ctx.leadership, *ctx.partition_states}
    known |= {p for p, _ in ctx.replica_states}
    known |= {p for listed in ctx.offline_dir_replicas.values() for p in listed}
    return sorted(known)


def partition_rows(
    ctx: Context, also: Collection[Partition] = ()
) -> dict[Partition, dict[str, Any]]:
    """The table of partitions; what is a set is in ascending order."""
    states: dict[Partition, dict[int, int]] = {}
    for (p, b), state in sorted(ctx.replica_states.items()):
        states.setdefault(p, {})[b] = int(state)
    dirs: dict[Partition, list[int]] = {}
    for b, listed in sorted(ctx.offline_dir_replicas.items()):
        for p in listed:
            dirs.setdefault(p, []).append(b)
    return {
        p: partition_row(ctx, p, states.get(p, {}), dirs.get(p, []))
        for p in partitions_of(ctx, also)
    }


def partition_row(
    ctx: Context, p: Partition, states: dict[int, int], dirs: list[int]
) -> dict[str, Any]:
    """One row of it."""
    assignment, record = ctx.assignments.get(p), ctx.leadership.get(p)
    row: dict[str, Any] = {
        "topic": p[0], "partition": p[1], "replicas": None, "adding": [], "removing": [],
        "offline_dir": dirs,
        "partition_state": int(ctx.partition_states.get(p, PartitionState.NO_ENTRY)),
        "replica_state_broker_ids": list(states), "replica_states": list(states.values()),
        "being_reassigned": p in ctx.being_reassigned, "has_leadership": record is not None,
        "leader": -1, "leader_epoch": 0, "version": 0, "controller_epoch": 0, "isr": [],
        "recovery": 0,
    }
    if assignment is not None:
        row["replicas"] = list(assignment.replicas)
        row["adding"], row["removing"] = sorted(assignment.adding), sorted(assignment.removing)
    if record is not None:
        row |= {
            "leader": record.leader, "leader_epoch": record.leader_epoch,
            "version": record.version, "controller_epoch": record.controller_epoch,
            "isr": sorted(record.isr), "recovery": record.recovery,
        }
    return row


def broker_rows(ctx: Context) -> list[dict[str, Any]]:
    """The table of brokers that are registered or shutting down."""
    return [
        {
            "broker_id": b, "rack": None, "registered": b in ctx.live_broker_epochs,
            "shutting_down": b in ctx.shutting_down, "epoch": ctx.live_broker_epochs.get(b, 0),
        }
        for b in sorted({*ctx.live_broker_epochs, *ctx.shutting_down})
    ]


def topic_rows(ctx: Context, also: Collection[Partition] = ()) -> list[dict[str, Any]]:
    """The table of topics."""
    known = {*ctx.all_topics, *ctx.topics_to_delete, *ctx.topics_ineligible, *ctx.topic_unclean}
    return [
        {
            "topic": topic, "topic_id": None, "exists": topic in ctx.all_topics,
            "unclean_leader_election": ctx.topic_unclean.get(topic), "min_insync_replicas": None,
            "queued_for_deletion": topic in ctx.topics_to_delete,
            "deletion_started": topic in ctx.topics_deletion_started,
            "ineligible": topic in ctx.topics_ineligible,
        }
        for topic in sorted(known | {p[0] for p in partitions_of(ctx, also)})
    ]


def cluster_row(ctx: Context) -> dict[str, Any]:
    """The controller and its counters."""
    return {
        "controller_id": ctx.controller_id, "controller_epoch": ctx.epoch,
        "epoch_store_version": ctx.epoch_store_version,
        "default_unclean_leader_election": ctx.default_unclean, "default_min_insync_replicas": 1,
        "delete_topic_enabled": ctx.delete_topic_enabled,
        "leader_recovery_supported": ctx.leader_recovery_supported,
        "unclean_elections": ctx.unclean_elections,
    }


def tables_of(ctx: Context, also: Collection[Partition] = ()) -> list[pa.Table]:
    """Brokers, topics, partitions and cluster; nothing is left to be assumed."""
    return [
        pa.Table.from_pylist(broker_rows(ctx), BROKERS_SCHEMA),
        pa.Table.from_pylist(topic_rows(ctx, also), TOPICS_SCHEMA),
        pa.Table.from_pylist(list(partition_rows(ctx, also).values()), PARTITIONS_SCHEMA),
        pa.Table.from_pylist([cluster_row(ctx)], CLUSTER_SCHEMA),
    ]


def state_of(
    ctx: Context, layout: Layout | None = None, also: Collection[Partition] = ()
) -> ClusterState:
    """A kfast state that says what the context says, with empty rows for other partitions."""
    # Narrow where it fits: a damaged row may name more brokers than a narrow one holds.
    return ClusterState.from_tables(
        *tables_of(ctx, also), layout=layout if layout == "wide" else None
    )


def store_of(ctx: Context, twin: TwinStore, state: ClusterState) -> Store:
    """A kfast store with the records of the twin's."""
    store = Store(state, empty=True)
    for p, record in twin.records.items():
        put_record(store, p, record)
    return store


def put_record(store: Store, p: Partition, record: Record | str) -> None:
    """Write a record past the controller."""
    if record == GARBAGE or isinstance(record, str):
        store.put_garbage(*p)
        return
    store.put(
        *p, leader=record.leader, leader_epoch=record.leader_epoch, isr=list(record.isr),
        recovery=record.recovery, version=record.version,
        controller_epoch=record.controller_epoch,
    )


def row_of_table(row: dict[str, Any]) -> dict[str, Any]:
    """A row of kfast's table of partitions in the form of `partition_row`."""
    states = dict(zip(row["replica_state_broker_ids"], row["replica_states"], strict=True))
    comparable = dict(row)
    for key in ("adding", "removing", "offline_dir", "isr"):
        comparable[key] = sorted(row[key] or [])
    if row["partition_state"] is None:
        comparable["partition_state"] = int(PartitionState.NO_ENTRY)
    if not row["has_leadership"]:
        comparable |= {"leader": -1, "leader_epoch": 0, "version": 0, "controller_epoch": 0,
                  "isr": [], "recovery": 0}
    comparable["replica_state_broker_ids"] = sorted(states)
    comparable["replica_states"] = [states[b] for b in sorted(states)]
    return comparable


def is_empty(row: dict[str, Any]) -> bool:
    """Whether a row says nothing of its partition; NonExistent is as good as no entry."""
    nothing = (PartitionState.NO_ENTRY, PartitionState.NON_EXISTENT)
    return (
        row["replicas"] is None and not row["has_leadership"] and not row["replica_states"]
        and row["partition_state"] in nothing and not row["offline_dir"]
    )


def partitions_differ(ctx: Context, partitions: pa.Table) -> str | None:
    """The first partition and column in which a state's table differs from the context."""
    actual = {
        (row["topic"], row["partition"]): row_of_table(row) for row in partitions.to_pylist()
    }
    expected = partition_rows(ctx)
    for p in sorted({*actual, *expected}):
        if p not in expected:
            if not is_empty(actual[p]):
                return f"partition {p[0]}-{p[1]} should not be there: {actual[p]}"
            continue
        if p not in actual or is_empty(actual[p]):
            if not is_empty(expected[p]):
                return f"partition {p[0]}-{p[1]} is missing"
            continue
        for column, value in expected[p].items():
            if actual[p][column] != value:
                return (
                    f"partition {p[0]}-{p[1]}, column {column}: "
                    f"the twin has {value}, kfast has {actual[p][column]}"
                )
    return None


def difference(ctx: Context, state: ClusterState) -> str | None:
    """Where a state differs from the context first; None where it does not."""
    tables = state.to_tables()
    ours = tables.cluster.to_pylist()[0]
    for column, value in cluster_row(ctx).items():
        if ours[column] != value:
            return f"cluster, column {column}: the twin has {value}, kfast has {ours[column]}"
    brokers = {row["broker_id"]: row for row in tables.brokers.to_pylist()}
    for b, row in brokers.items():
        wanted = (b in ctx.live_broker_epochs, b in ctx.shutting_down)
        if (row["registered"], row["shutting_down"]) != wanted:
            return f"broker {b}: (registered, shutting down) should be {wanted}, is {row}"
        if wanted[0] and row["epoch"] != ctx.live_broker_epochs[b]:
            return f"broker {b}, epoch: {ctx.live_broker_epochs[b]}, kfast has {row['epoch']}"
    topics = {row["topic"]: row for row in tables.topics.to_pylist()}
    for row in topic_rows(ctx):
        mine = topics.get(row["topic"], NO_TOPIC)
        for column in ("exists", "unclean_leader_election", "queued_for_deletion",
                       "deletion_started", "ineligible"):
            if mine.get(column) != row[column]:
                return (
                    f"topic {row['topic']}, column {column}: "
                    f"the twin has {row[column]}, kfast has {mine.get(column)}"
                )
    for counter in ("offline_partition_count", "preferred_imbalance_count"):
        if getattr(state, counter) != getattr(ctx, counter):
            return (
                f"{counter}: the twin has {getattr(ctx, counter)}, "
                f"kfast has {getattr(state, counter)}"
            )
    return partitions_differ(ctx, tables.partitions)


def store_differs(twin: TwinStore, store: Store) -> str | None:
    """The first stored record in which two stores differ; None where they are equal."""
    records = {p: r for p, r in store.records().items() if r is not None}
    for p in sorted({*records, *twin.records}):
        expected, actual = twin.records.get(p), records.get(p)
        if isinstance(expected, Record) and actual is not None and hasattr(actual, "isr"):
            if stored(expected) != stored(actual):
                return f"stored record of {p}: the twin has {expected}, kfast has {actual}"
        elif (expected is None) != (actual is None) or hasattr(actual, "isr"):
            return f"stored record of {p}: the twin has {expected}, kfast has {actual}"
    return None


def stored(record: Any) -> tuple[Any, ...]:
    """What a record says, its ISR as a set."""
    return (
        record.leader, record.leader_epoch, frozenset(record.isr), record.recovery,
        record.version, record.controller_epoch,
    )
