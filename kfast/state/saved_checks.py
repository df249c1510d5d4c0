"""What the arrays of a saved state must satisfy before a kernel may follow them.

Kernels check no bounds: a broker row, a slot or a topic row in a file from elsewhere that points
outside its table would let them read and write there. Each rule names the file, the row and what
is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.errors import InputError
from kfast.schema import PartitionState, ReplicaState
from kfast.state.arrays import StateArrays, first_slots
from kfast.state.hosting import HostingIndex
from kfast.state.partition_rows import NO_PARTITION
from kfast.state.quorum import NO_DIRECTORY, NO_LAST_KNOWN, NO_MEMBER, NOT_REGISTERED, Quorum
from kfast.state.records import n_bits

CHUNK_ROWS = 1 << 18
"""Rows that are checked at once: their intermediate arrays stay in the cache."""
MASKS = ("isr", "adding", "removing", "offline_dir")
FLAGS = (
    schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP | schema.FLAG_RECOVERY
    | schema.FLAG_BEING_REASSIGNED
)

Mask = npt.NDArray[np.bool_]
Rule = tuple[str, str, Mask]
"""Column, what is allowed, and where it holds: (n,) or (n, S)."""


def check_loaded(state: StateArrays, index: HostingIndex, place: Path) -> None:
    """Check that everything in a state points into its tables.

    Raises
    ------
    InputError
        With the file and the first row that does not.
    """
    _require(place, 0, _of_tables(state, index))
    for begin in range(0, state.n_partitions, CHUNK_ROWS):
        rows = slice(begin, min(begin + CHUNK_ROWS, state.n_partitions))
        _require(place, begin, _of_partitions(state, rows))
        if state.quorum is not None:
            _require(place, begin, _of_quorum(state, state.quorum, rows))


def _require(place: Path, begin: int, rules: Iterator[Rule]) -> None:
    for column, allowed, holds in rules:
        if not holds.all():
            row = begin + int(np.argwhere(~holds)[0][0])
            raise InputError(f"{place}: {column}, row {row}: right is {allowed}")


def _between(values: npt.NDArray[Any], first: int | npt.NDArray[Any], last: int) -> Mask:
    inside: Mask = (values >= first) & (values <= last)
    return inside


def _once(holds: bool) -> Mask:
    """Where a rule holds that is about a column as a whole: (1,)."""
    return np.asarray([holds])


def _of_tables(state: StateArrays, index: HostingIndex) -> Iterator[Rule]:
    """What stands for every broker, every topic and the index."""
    n, n_brokers, n_topics = state.n_partitions, state.n_brokers, state.n_topics
    for name, size in (
        ("rack", n_brokers), ("topic_id", n_topics), ("broker_epoch", n_brokers),
        ("topic_unclean_leader_election", n_topics), ("topic_min_insync_replicas", n_topics),
        ("topic_row", n), ("partition", n),
    ):
        yield name, f"{size} entries", _once(len(getattr(state, name)) == size)
    for name, size in (("broker_status", n_brokers), ("topic_flags", n_topics)):
        yield name, f"{size} entries or more", _once(getattr(state, name).size >= size)
    ids = state.broker_id
    yield "broker_id", "0 or more, ascending", _once(
        bool((ids >= 0).all() and (ids[1:] > ids[:-1]).all())
    )
    free = state.free_rows
    yield "free_rows", f"a free row of 0..{n - 1}", _between(free, 0, n - 1)
    yield "free_rows", "a free row", state.partition[free] == NO_PARTITION
    yield "free_rows", "each free row once", _once(
        np.unique(free).size == free.size == np.count_nonzero(state.partition == NO_PARTITION)
    )
    for name in ("leader_offline", "pending"):
        bits, beyond = getattr(state, name), n % 64
        fits = bits.size == state.new_bitmap().size
        if fits and (beyond or not n):
            fits = int(bits[-1]) >> beyond == 0
        yield name, f"one bit for each of {n} rows", _once(fits)
    begin, hosted = index.begin, index.hosted
    spans_hosted = begin.size == n_brokers + 1 and begin[0] == 0 and begin[-1] == hosted.size
    yield "index_begin", f"{n_brokers + 1} ascending places in index_hosted", _once(
        bool(spans_hosted and (begin[1:] >= begin[:-1]).all())
    )
    yield "index_hosted", f"a row of 0..{n - 1}", _between(hosted, 0, n - 1)
    ascending = np.append(hosted[1:] > hosted[:-1], True)[: hosted.size]
    ascending[begin[(begin > 0) & (begin <= hosted.size)] - 1] = True
    yield "index_hosted", "ascending rows of each broker", ascending


def _of_partitions(state: StateArrays, rows: slice) -> Iterator[Rule]:
    """What stands for some partitions in every cluster."""
    records, replicas = state.records[rows], state.replicas[rows]
    topic_row, partition = state.topic_row[rows], state.partition[rows]
    n_brokers, n_slots = state.n_brokers, records["n_slots"]
    first = np.where(partition == NO_PARTITION, -1, 0)
    yield "topic_row", f"a row of 0..{state.n_topics - 1}", (
        (topic_row >= first) & (topic_row < state.n_topics)
    )
    yield "partition", f"{NO_PARTITION} or more", partition >= NO_PARTITION
    yield "records", f"n_slots of at most {state.n_slots}", n_slots <= state.n_slots
    yield "records", "n_replicas of at most n_slots", records["n_replicas"] <= n_slots
    used = first_slots(n_slots)
    for name in MASKS:
        within = (records[name].astype(np.uint64) & ~used) == 0
        yield "records", f"{name} that names slots in use", within
    states = records["partition_state"]
    known = _between(states, min(PartitionState), max(PartitionState))
    yield "records", "a partition_state of Kafka's", known
    yield "records", f"flags within {FLAGS}", (records["flags"] & ~np.uint8(FLAGS)) == 0
    yield "replica_state", "a state of Kafka's", state.replica_state[rows] <= max(ReplicaState)
    leader, has_slot = records["leader"], records["leader"] < 0
    yield "records", f"a leader of {schema.LEADER_DURING_DELETE}..{n_brokers - 1}", _between(
        leader, schema.LEADER_DURING_DELETE, n_brokers - 1
    )
    null = schema.NARROW_BROKERS if state.layout == "narrow" else -1
    for slot in range(state.n_slots):
        brokers, in_use = replicas[:, slot], n_slots > slot
        known = _between(brokers, 0, n_brokers - 1)
        yield "replicas", f"a row of 0..{n_brokers - 1} in each slot in use", np.where(
            in_use, known, known | (brokers == null)
        )
        has_slot = has_slot | (in_use & (brokers == leader))
        once = (replicas[:, :slot] != replicas[:, slot : slot + 1]).all(axis=1)
        yield "replicas", "one slot for each broker", ~in_use | once
        entry = state.replica_state[rows, slot] == ReplicaState.NO_ENTRY
        yield "replica_state", "a state in slots in use alone", in_use | entry
    yield "records", "a leader that has a slot", has_slot


def _of_quorum(state: StateArrays, quorum: Quorum, rows: slice) -> Iterator[Rule]:
    """What stands for some partitions in a KRaft cluster."""
    records = state.records[rows]
    members = records["isr"].astype(np.uint64)
    if quorum.elr is not None:
        elr = quorum.elr[rows].astype(np.uint64)
        yield "elr", "slots in use", (elr & ~first_slots(records["n_slots"])) == 0
        members |= elr
    if quorum.last_known_elr is not None:
        yield "last_known_elr", f"{NO_LAST_KNOWN}..{state.n_brokers - 1}", _between(
            quorum.last_known_elr[rows], NO_LAST_KNOWN, state.n_brokers - 1
        )
    if quorum.member_order is not None:
        n_members = n_bits(members)
        for place in range(state.n_slots):
            slot = quorum.member_order[rows, place].astype(np.uint64)
            bit = np.uint64(1) << np.minimum(slot, 63).astype(np.uint64)
            listed = (slot < schema.MAX_SLOTS) & (members & bit != 0)
            yield "member_order", "each member of ISR and ELR once, then 255", np.where(
                n_members > place, listed, slot == NO_MEMBER
            )
            members = np.where(listed, members & ~bit, members)
    if quorum.directory is not None:
        last = len(quorum.directory_ids) - 1
        numbers = quorum.directory[rows]
        assigned = np.arange(state.n_slots) < records["n_replicas"][:, None]
        yield "directory", f"0..{last} for each replica", _between(
            numbers, np.where(assigned, 0, NO_DIRECTORY), last
        )


def check_quorum_lists(state: StateArrays, quorum: Quorum, place: Path) -> None:
    """Check that what is listed by broker has an entry for each; `InputError` otherwise."""
    for name in (*NOT_REGISTERED, "registration_offset"):
        if len(getattr(quorum, name)) != state.n_brokers:
            raise InputError(
                f"{place / 'state.json'}: {name}: right is {state.n_brokers} entries, one a broker"
            )
