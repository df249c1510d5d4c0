"""Changes of single rows that keep counters, bitmaps and index (docs/controller.md, section 1.6).

The machines change rows by kernels; these serve what is done one by one: building a state by
hand, and the edges of an event. `ClusterState` has them as methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments, schema
from kfast.arguments import member, possible_ids, whole
from kfast.errors import ArgumentError
from kfast.kernels import census, hosting
from kfast.schema import PartitionState, ReplicaState
from kfast.state import queries
from kfast.state.records import Replicas, Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState

_INT32 = -arguments.MAX_INT - 1, arguments.MAX_INT


def widen(state: ClusterState) -> None:
    """Change from the narrow to the wide layout; nothing else changes."""
    if state.layout == "wide":
        return
    records = np.zeros(state.n_partitions, schema.record_dtype(narrow=False))
    for name in records.dtype.names or ():
        records[name] = state.records[name]
    replicas = state.replicas.astype(np.int32)
    replicas[state.replicas == np.uint16(schema.NARROW_BROKERS)] = -1
    state.records, state.replicas = records, replicas


def grow_slots(state: ClusterState, n_slots: int) -> None:
    """Make room for more slots per partition."""
    if n_slots > schema.MAX_SLOTS:
        raise ArgumentError(
            f"a partition would name {n_slots} brokers; at most {schema.MAX_SLOTS} are allowed"
        )
    if n_slots > schema.NARROW_SLOTS:
        widen(state)
    added = n_slots - state.n_slots
    if added > 0:
        null = -1 if state.layout == "wide" else schema.NARROW_BROKERS
        block = np.full((state.n_partitions, added), null, state.replicas.dtype)
        state.replicas = np.ascontiguousarray(np.hstack([state.replicas, block]))
        empty = np.zeros((state.n_partitions, added), np.uint8)
        state.replica_state = np.ascontiguousarray(np.hstack([state.replica_state, empty]))


def add_brokers(state: ClusterState, broker_ids: npt.ArrayLike | Iterable[int]) -> Rows:
    """Rows of some brokers; unknown ones are added, not registered. Rows of others may move."""
    ids = possible_ids("broker_ids", broker_ids)
    rows = queries.broker_rows(state, ids)
    if rows.size and rows.min() < 0:
        _insert_brokers(state, np.unique(ids[rows < 0]).astype(np.int32))
        rows = queries.broker_rows(state, ids)
    return rows


def _insert_brokers(state: ClusterState, new: Rows) -> None:
    merged = np.union1d(state.broker_id, new).astype(np.int32)
    if merged.size >= schema.NARROW_BROKERS:
        widen(state)
    moved = np.searchsorted(merged, state.broker_id)
    if moved.size and (moved != np.arange(moved.size)).any():
        used = np.arange(state.n_slots) < state.records["n_slots"][:, None]
        state.replicas[used] = moved[state.replicas[used]].astype(state.replicas.dtype)
        led = state.records["leader"] >= 0
        state.records["leader"][led] = moved[state.records["leader"][led]]
    status = np.zeros(merged.size, np.uint8)
    epoch = np.zeros(merged.size, np.int64)
    status[moved] = state.broker_status[: moved.size]
    epoch[moved] = state.broker_epoch[: moved.size]
    where = np.full(merged.size, -1, np.int64)
    where[moved] = np.arange(moved.size)
    state.rack = state.rack.take(pa.array(where, mask=where < 0))
    state.broker_id, state.broker_status, state.broker_epoch = merged, status, epoch
    state._index, state.survey = None, None


def track(state: ClusterState, rows: Rows, brokers: Rows) -> Rows:
    """Give each broker row a slot of its partition row unless it has one; returns the slots."""
    slots = np.empty(rows.size, np.int32)
    before = state.records["n_slots"][rows]
    done = 0
    while done < rows.size:
        done += hosting.track(state.columns, rows[done:], brokers[done:], slots[done:])
        if done < rows.size:
            grow_slots(state, state.n_slots + 1)
    if state._index is not None:
        new = slots >= before
        if new.any():
            state._index.append(rows[new], brokers[new])
    return slots


def find_replicas(
    state: ClusterState, replicas: Iterable[tuple[str, int, int]]
) -> Replicas:
    """Find (topic, partition, broker id) triples; a broker not tracked yet gets a slot."""
    triples = list(replicas)
    if any(len(triple) != 3 for triple in triples):
        raise ArgumentError("replicas: (topic, partition, broker id) triples are needed")
    rows = state.find_partitions([(t, p) for t, p, _ in triples])
    slots = track(state, rows, add_brokers(state, [b for _, _, b in triples]))
    merged = np.zeros(state.n_partitions, np.uint64)
    np.bitwise_or.at(merged, rows, np.uint64(1) << slots.astype(np.uint64))
    present = np.unique(rows)
    return Replicas(present, merged[present])


def note_order(state: ClusterState, name: str, row: int, broker_ids: Sequence[int]) -> None:
    """Remember the order of an adding or removing list where it is not that of the slots.

    Kafka makes these lists in the order of the assignment; only a hand-made one has another.
    """
    in_slots = state.ids_of(row, int(state.records[name][row]))
    if tuple(broker_ids) == in_slots:
        state.odd_orders.pop((name, row), None)
    else:
        state.odd_orders[name, row] = tuple(broker_ids)


def _imbalance(state: ClusterState, row: int) -> int:
    """1 where a row counts as imbalanced (section 1.6), else 0."""
    if state.topic_flags[state.topic_row[row]] & schema.TOPIC_QUEUED:
        return 0
    return census.count_imbalanced(state.columns, np.asarray([row], np.int32))


def set_assignment(
    state: ClusterState, row: int, replicas: Iterable[int], adding: Iterable[int] = (),
    removing: Iterable[int] = (),
) -> None:
    """Replace a partition's assignment (`set_assignment` of section 1.6); ids are broker ids."""
    row = queries.check_row(state, row)
    given = {"replicas": replicas, "adding": adding, "removing": removing}
    lists = [possible_ids(name, ids).tolist() for name, ids in given.items()]
    for listed in lists:
        if len(set(listed)) != len(listed):
            raise ArgumentError(f"{listed} names a broker twice; nothing was changed")
    before = _imbalance(state, row)
    leadership = state.leadership(row)
    state.forget_survey()
    states = state.replica_states_of(row)
    offline = state.ids_of(row, int(state.records["offline_dir"][row]))
    named = list(dict.fromkeys([
        *lists[0], *lists[1], *lists[2], *(leadership.isr if leadership else ()),
        *([leadership.leader] if leadership and leadership.leader >= 0 else ()),
        *states, *offline,
    ]))
    rows = add_brokers(state, named)
    grow_slots(state, max(len(named), state.n_slots))
    place = {broker: slot for slot, broker in enumerate(named)}
    record = state.records[row : row + 1]
    state.replicas[row] = -1 if state.layout == "wide" else schema.NARROW_BROKERS
    state.replicas[row, : len(named)] = rows
    state.replica_state[row] = 0
    for broker, entry in states.items():
        state.replica_state[row, place[broker]] = entry
    masks: tuple[tuple[str, Sequence[int]], ...] = (
        ("adding", lists[1]), ("removing", lists[2]), ("offline_dir", offline),
        ("isr", leadership.isr if leadership else ()),
    )
    for name, members in masks:
        record[name] = sum(1 << place[b] for b in members)
    record["n_replicas"], record["n_slots"] = len(lists[0]), len(named)
    note_order(state, "adding", row, lists[1])
    note_order(state, "removing", row, lists[2])
    record["flags"] |= schema.FLAG_ASSIGNED
    state.preferred_imbalance_count += _imbalance(state, row) - before
    if state._index is not None:
        state._index.append(np.full(rows.size, row, np.int32), rows)


def set_leadership(
    state: ClusterState, row: int, *, leader: int, isr: Iterable[int], leader_epoch: int = 0,
    version: int = 0, controller_epoch: int | None = None, recovery: int = 0,
) -> None:
    """Replace a partition's cached leadership (`put_leadership` of section 1.6)."""
    row = queries.check_row(state, row)
    leader = whole("leader", leader, schema.LEADER_DURING_DELETE, arguments.MAX_BROKER_ID)
    leader_epoch = whole("leader_epoch", leader_epoch, *_INT32)
    version = whole("version", version, *_INT32)
    if controller_epoch is not None:
        controller_epoch = whole("controller_epoch", controller_epoch, *_INT32)
    recovery = whole("recovery", recovery, 0, 1)
    members = list(dict.fromkeys(possible_ids("isr", isr).tolist()))
    state.forget_survey()
    before = _imbalance(state, row)
    brokers = add_brokers(state, [*members, *([leader] if leader >= 0 else [])])
    at = np.full(brokers.size, row, np.int32)
    slots = track(state, at, brokers)
    record = state.records[row : row + 1]
    record["leader"] = brokers[-1] if leader >= 0 else leader
    record["isr"] = sum(1 << int(s) for s in slots[: len(members)])
    record["leader_epoch"], record["version"] = leader_epoch, version
    record["controller_epoch"] = (
        state.controller_epoch if controller_epoch is None else controller_epoch
    )
    flags = int(record["flags"][0]) & ~schema.FLAG_RECOVERY
    state.n_led += not flags & schema.FLAG_HAS_LEADERSHIP
    record["flags"] = (
        flags | schema.FLAG_HAS_LEADERSHIP | (schema.FLAG_RECOVERY if recovery else 0)
    )
    state.preferred_imbalance_count += _imbalance(state, row) - before
    refresh_rows(state, np.asarray([row], np.int32))


def set_partition_state(state: ClusterState, row: int, new: PartitionState) -> None:
    """Set a partition's state (`put_partition_state` of section 1.6)."""
    row, new = queries.check_row(state, row), member("state", PartitionState, new)
    old = state.partition_state(row)
    if not state.topic_flags[state.topic_row[row]] & schema.TOPIC_STARTED:
        offline = PartitionState.OFFLINE
        state.offline_partition_count += (new == offline) - (old == offline)
    state.records["partition_state"][row] = new
    bit = np.uint64(1) << np.uint64(row & 63)
    waiting = new in (PartitionState.NEW, PartitionState.OFFLINE)
    word = state.pending[row >> 6]
    state.pending[row >> 6] = word | bit if waiting else word & ~bit


def set_replica_state(state: ClusterState, row: int, broker_id: int, new: ReplicaState) -> None:
    """Set a replica's state; `ReplicaState.NO_ENTRY` removes it."""
    row, new = queries.check_row(state, row), member("state", ReplicaState, new)
    brokers = add_brokers(state, [broker_id])
    slot = track(state, np.asarray([row], np.int32), brokers)[0]
    state.replica_state[row, slot] = new


def set_offline_dir(state: ClusterState, broker_id: int, rows: Rows, offline: bool = True) -> None:
    """Note that a broker's log directories of some partitions are offline, or online again."""
    rows = queries.check_rows(state, rows)
    brokers = np.full(rows.size, add_brokers(state, [broker_id])[0], np.int32)
    slots = track(state, rows, brokers)
    masks = (np.uint64(1) << slots.astype(np.uint64)).astype(state.records["offline_dir"].dtype)
    old = state.records["offline_dir"][rows]
    state.records["offline_dir"][rows] = old | masks if offline else old & ~masks
    state.any_offline_dir |= offline
    refresh_rows(state, rows)


def clear_offline_dir(state: ClusterState, brokers: Rows) -> None:
    """Forget offline log directories of some broker rows."""
    if not state.any_offline_dir:
        return
    hosted = state.replicas_on(brokers, assigned_only=False)
    masks = hosted.slots.astype(state.records["offline_dir"].dtype)
    state.records["offline_dir"][hosted.rows] &= ~masks
    state.refresh_rows(hosted.rows)


def refresh_rows(state: ClusterState, rows: Rows) -> None:
    """Bring the bitmap of offline leaders up to date for some rows."""
    hosting.refresh_leader_offline(state.columns, rows)


def mark_topics_ineligible(state: ClusterState, topics: Rows) -> None:
    """Mark those of some topic rows that are queued as ineligible (section 6.12)."""
    if not state.delete_topic_enabled:
        return
    queued = topics[(state.topic_flags[topics] & schema.TOPIC_QUEUED) != 0]
    state.topic_flags[queued] |= schema.TOPIC_INELIGIBLE


def _set_status(state: ClusterState, brokers: Rows, flag: int, value: bool) -> Replicas:
    """Change the liveness of brokers; returns the replicas assigned to them."""
    if value:
        state.broker_status[brokers] |= flag
    else:
        state.broker_status[brokers] &= 255 - flag
    return state.replicas_on(brokers, refresh=True)


def add_live_brokers(
    state: ClusterState, epochs: Mapping[int, int], *, find: bool = True
) -> Replicas:
    """Register brokers with their epochs; unknown ones are added. Returns their replicas."""
    epochs = arguments.epochs_of("epochs", epochs)
    brokers = add_brokers(state, list(epochs))
    state.broker_epoch[brokers] = np.asarray(list(epochs.values()), np.int64)
    if not find:
        state.broker_status[brokers] |= schema.BROKER_REGISTERED
        return Replicas(np.empty(0, np.int32), np.empty(0, np.uint64))
    return _set_status(state, brokers, schema.BROKER_REGISTERED, True)


def remove_live_brokers(state: ClusterState, broker_ids: Iterable[int]) -> Replicas:
    """Unregister brokers; they stay known, and in the set of those shutting down."""
    return _set_status(state, state.find_brokers(broker_ids), schema.BROKER_REGISTERED, False)


def set_shutting_down(
    state: ClusterState, broker_ids: Iterable[int], shutting_down: bool = True
) -> Replicas:
    """Put brokers into the set of those in controlled shutdown, or take them out."""
    brokers = add_brokers(state, broker_ids)
    return _set_status(state, brokers, schema.BROKER_SHUTTING_DOWN, shutting_down)


def queue_topic_deletion(state: ClusterState, topics: Sequence[str]) -> None:
    """Queue topics for deletion; their partitions no longer count as imbalanced."""
    flag_topics(state, state.find_topics(topics), schema.TOPIC_QUEUED)


def begin_topic_deletion(state: ClusterState, topics: Sequence[str]) -> None:
    """Mark queued topics as started; their partitions no longer move the offline count."""
    flag_topics(state, state.find_topics(topics), schema.TOPIC_STARTED)


def flag_topics(state: ClusterState, rows: Rows, flag: int, value: bool = True) -> None:
    """Set or clear one flag of some topic rows.

    Queueing takes their imbalanced partitions out of the count; starting keeps the offline count
    as it is, as Kafka does.
    """
    state.forget_survey()
    queues = flag == schema.TOPIC_QUEUED and value
    fresh = rows[(state.topic_flags[rows] & flag) == 0] if queues else rows[:0]
    if fresh.size:
        parts = [state.lookup.rows_of_topic(topic) for topic in np.unique(fresh).tolist()]
        state.preferred_imbalance_count -= census.count_imbalanced(
            state.columns, np.concatenate(parts),
        )
    if value:
        state.topic_flags[rows] |= flag
    else:
        state.topic_flags[rows] &= 255 - flag
    note_queued(state)


def note_queued(state: ClusterState) -> None:
    """Note whether some topic is queued for deletion, after flags of topics changed."""
    state.any_queued = bool((state.topic_flags & schema.TOPIC_QUEUED).any())


def set_unclean_leader_election(
    state: ClusterState, allowed: bool | None, topics: Sequence[str] | None = None
) -> None:
    """Set unclean.leader.election.enable of some topics (None: no override), or the default."""
    if allowed is not None and not isinstance(allowed, (bool, np.bool_)):
        raise ArgumentError(f"allowed is {arguments.shown(allowed)}: true, false or None is needed")
    if topics is None:
        state.default_unclean_leader_election = bool(allowed)
    else:
        rows = state.find_topics(topics)
        state.topic_unclean_leader_election[rows] = -1 if allowed is None else int(allowed)
    refresh_unclean(state)


def refresh_unclean(state: ClusterState) -> None:
    """Make the flag that says whether unclean election is allowed for each topic."""
    override = state.topic_unclean_leader_election
    allowed = np.where(override < 0, state.default_unclean_leader_election, override > 0)
    flags = state.topic_flags[: override.size]
    unclean = schema.TOPIC_UNCLEAN
    state.topic_flags[: override.size] = np.where(allowed, flags | unclean, flags & (255 - unclean))
