"""Pieces of the controller's events: loading its context, new partitions, and plain questions.

Source: specification, sections 1.5, 1.6, 6.1, 6.3, 6.4 and 6.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import ArgumentError
from kfast.journal.outcome import Counts, Outcome, RequestCounts
from kfast.kernels import hosting
from kfast.schema import PartitionState, ReplicaState
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.records import Rows
from kfast.state.tables import first_slots

if TYPE_CHECKING:
    from kfast.controller import Controller

_NEW = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("replicas", pa.list_(pa.int32())),
])


def load_context(controller: Controller) -> None:
    """Steps 4 to 6 of section 6.1: what the new controller knows.

    What it forgets of each partition is forgotten by the replica machine's start, which visits
    every row anyway.
    """
    state, store = controller.state, controller.store
    state.broker_status &= mutators.REGISTERED
    state.offline_partition_count = 0
    if state.any_offline_dir:
        state.records["offline_dir"] = 0
        state.any_offline_dir = False
    if store is not None:
        store.load_leadership()
    any_queued = state.any_queued
    if any_queued:
        _begin_deletion_manager(state)
    if store is not None or any_queued:
        state.records["partition_state"] = PartitionState.NO_ENTRY
        state.recount()


def _begin_deletion_manager(state: ClusterState) -> None:
    """`init` of section 6.12: which queued topics are ineligible; or the markers are removed."""
    moving = (state.records["adding"] != 0) | (state.records["removing"] != 0)
    queued = state.topic_queued_for_deletion
    flags = state.topic_flags[: state.n_topics]
    flags &= 255 - mutators.STARTED - mutators.INELIGIBLE
    if not state.delete_topic_enabled:
        flags &= 255 - mutators.QUEUED
        return
    rows = np.arange(state.n_partitions, dtype=np.int32)
    live, up = np.empty(rows.size, np.uint64), np.empty(rows.size, np.uint64)
    hosting.live_slots(state.records, state.replicas, state.broker_status, rows, live, up)
    dead = (first_slots(state.records["n_replicas"]) & ~live) != 0
    halted = np.unique(state.topic_row[dead | moving])
    flags[halted[queued[halted]]] |= mutators.INELIGIBLE


def split_queued(state: ClusterState, replicas: Replicas) -> tuple[Replicas, Replicas]:
    """Replicas of queued topics, and the others."""
    if not state.any_queued:
        return Replicas(replicas.rows[:0], replicas.slots[:0]), replicas
    queued = state.topic_queued_for_deletion[state.topic_row[replicas.rows]]
    return (
        Replicas(replicas.rows[queued], replicas.slots[queued]),
        Replicas(replicas.rows[~queued], replicas.slots[~queued]),
    )


def split_led(state: ClusterState, broker: int) -> tuple[Rows, Replicas]:
    """Partitions that a broker leads, and replicas with which it follows (6.3, step 5).

    Only partitions with more than one assigned replica, cached leadership and a topic that is not
    queued count.
    """
    hosted = state.replicas_on(np.asarray([broker], np.int32))
    records = state.records[hosted.rows]
    acted = (records["n_replicas"] > 1) & ((records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0)
    if state.any_queued:
        acted &= ~state.topic_queued_for_deletion[state.topic_row[hosted.rows]]
    led = acted & (records["leader"] == broker)
    followed = acted & ~led
    return hosted.rows[led], Replicas(hosted.rows[followed], hosted.slots[followed])


def partitions_with_leaders(state: ClusterState) -> Rows:
    """Partitions with cached leadership whose topic is not queued (1.5)."""
    rows = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP).astype(np.int32)
    if state.any_queued:
        rows = rows[~state.topic_queued_for_deletion[state.topic_row[rows]]]
    return rows


def slots_on(state: ClusterState, broker_id: int, rows: Rows) -> Replicas:
    """The replicas of some ascending rows on one broker."""
    brokers = np.full(rows.size, mutators.add_brokers(state, [broker_id])[0], np.int32)
    slots = mutators.track(state, rows, brokers)
    return Replicas(rows, np.uint64(1) << slots.astype(np.uint64))


def note_offline_dirs(state: ClusterState, broker_id: int, bad: Rows, good: Rows) -> Rows:
    """Update a broker's offline directories; returns the rows that are newly offline (6.9, 2)."""
    known = [row for row in good.tolist() if not _is_dir_offline(state, broker_id, row)]
    recovered = np.setdiff1d(good, np.asarray(known, np.int32)).astype(np.int32)
    newly = np.asarray(
        [row for row in bad.tolist() if not _is_dir_offline(state, broker_id, row)], np.int32
    )
    if recovered.size:
        state.set_offline_dir(broker_id, recovered, offline=False)
    if newly.size:
        state.set_offline_dir(broker_id, newly)
    return newly


def _is_dir_offline(state: ClusterState, broker_id: int, row: int) -> bool:
    return broker_id in state._ids_of(row, int(state.records["offline_dir"][row]))


def as_table(created: Mapping[str, Mapping[int, Sequence[int]]] | pa.Table) -> pa.Table:
    """New partitions as a table of topic, partition and replicas."""
    if isinstance(created, pa.Table):
        return created.select(_NEW.names).cast(_NEW)
    rows = [(t, p, list(ids)) for t, parts in created.items() for p, ids in parts.items()]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, _NEW, strict=True)], schema=_NEW)


def check_created(state: ClusterState, new: pa.Table, *, exists: bool) -> None:
    """Check topics and assignments of new partitions before anything changes."""
    names = pc.unique(new.column("topic"))
    rows = state.lookup.topics(names.to_pylist())
    known = np.zeros(rows.size, np.bool_)
    known[rows >= 0] = state.topic_exists[rows[rows >= 0]]
    wrong = known != exists
    if wrong.any():
        name = names[int(np.argmax(wrong))].as_py()
        raise ArgumentError(f"topic {name!r} {'is unknown' if exists else 'exists already'}")
    lists = new.column("replicas").combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    if values.size and values.min() < 0:
        raise ArgumentError(f"replicas names broker {values.min()}; broker ids are 0 or more")
    owner = np.repeat(np.arange(lengths.size), lengths.astype(np.int64))
    order = np.lexsort((values, owner))
    same = (values[order][1:] == values[order][:-1]) & (owner[order][1:] == owner[order][:-1])
    if same.any():
        at = int(owner[order][1:][np.argmax(same)])
        raise ArgumentError(
            f"replicas of {new.column('topic')[at].as_py()}-{new.column('partition')[at].as_py()} "
            "names a broker twice"
        )


def without_replicas(state: ClusterState, new: pa.Table) -> pa.Table:
    """The new partitions that have no replicas yet."""
    topics = state.lookup.topics(new.column("topic").to_pylist())
    rows = state.lookup.rows(topics, new.column("partition").to_numpy())
    has = np.zeros(rows.size, np.bool_)
    has[rows >= 0] = state.records["n_replicas"][rows[rows >= 0]] > 0
    return new.filter(pa.array(~has))


def set_assignments(state: ClusterState, new: pa.Table) -> Rows:
    """Add the rows that are missing and give each its assignment."""
    topics = new.column("topic").to_pylist()
    rows = mutators.add_partitions(state, topics, new.column("partition").to_pylist())
    state.topic_flags[state.lookup.known_topics(topics)] |= mutators.EXISTS
    for row, replicas in zip(rows.tolist(), new.column("replicas").to_pylist(), strict=True):
        state.set_assignment(row, replicas)
    return rows


def remove_topics(controller: Controller, topics: Rows) -> None:
    """`remove_topic` of section 1.6: states of partitions and replicas are left alone."""
    state = controller.state
    if not topics.size:
        return
    mutators.flag_topics(state, topics, mutators.QUEUED)
    rows = np.flatnonzero(np.isin(state.topic_row, topics)).astype(np.int32)
    records = state.records
    for name in ("n_replicas", "adding", "removing", "isr"):
        records[name][rows] = 0
    records["leader"][rows] = schema.NO_LEADER
    records["flags"][rows] &= schema.FLAG_BEING_REASSIGNED
    state.topic_flags[topics] &= mutators.UNCLEAN | mutators.INELIGIBLE
    state.refresh_rows(rows)
    if controller.store is not None:
        controller.store.forget(rows)


def joined(event: str, first: Outcome, second: Outcome) -> Outcome:
    """One outcome of two that followed each other."""
    shift = len(first.actions)

    def renumber(table: pa.Table) -> pa.Table:
        steps = pc.add(table.column("step"), pa.scalar(shift, pa.int32()))
        return table.set_column(0, "step", steps)

    both = Outcome(event, first.level)
    both.actions = first.actions + second.actions
    later = [(step + shift, kind, values) for step, kind, values in second.sent.sent]
    both.sent = RequestCounts(first.sent.broker_id, first.sent.sent + later)
    both.batches = first.batches + [{**b, "step": b["step"] + shift} for b in second.batches]
    both.tables = {
        name: pa.concat_tables(
            [first.tables[name], renumber(second.tables[name])], promote_options="permissive"
        )
        for name in first.tables
    }
    a, b = first.counts, second.counts
    both.counts = Counts(
        _sum(a.transitions, b.transitions), _sum(a.codes, b.codes),
        a.leaders_moved + b.leaders_moved, a.unclean_elections + b.unclean_elections,
        _sum(a.requests, b.requests), _sum(a.request_partitions, b.request_partitions),
    )
    both.failure, both.error = second.failure, second.error
    return both


def _sum(first: Mapping[Any, int], second: Mapping[Any, int]) -> dict[Any, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}


def gauges(state: ClusterState, active: bool) -> dict[str, int]:
    """Exported gauges of section 1.6."""
    queued = state.topic_queued_for_deletion
    values = {
        "OfflinePartitionsCount": state.offline_partition_count,
        "PreferredReplicaImbalanceCount": state.preferred_imbalance_count,
        "GlobalTopicCount": int(state.topic_exists.sum()),
        "GlobalPartitionCount": int(
            np.count_nonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP)
        ),
        "TopicsToDeleteCount": int(queued.sum()),
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": int(state.topic_ineligible.sum()),
        "ReplicasIneligibleToDeleteCount": 0,
        "ActiveBrokerCount": int(state.registered.sum()),
    }
    if queued.any():
        rows = np.flatnonzero(queued[state.topic_row])
        assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
        states = state.replica_state[rows]
        done = states == ReplicaState.DELETION_SUCCESSFUL
        halted = states == ReplicaState.DELETION_INELIGIBLE
        values["ReplicasToDeleteCount"] = int((assigned & ~done).sum())
        values["ReplicasIneligibleToDeleteCount"] = int((assigned & halted).sum())
    return values if active else dict.fromkeys(values, 0)
