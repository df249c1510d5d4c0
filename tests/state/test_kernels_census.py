"""Kernels that count the whole cluster, and its digest, against counting by hand.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kfast import ClusterState, ReplicaState, schema
from kfast.kernels import census, digests
from kfast.schema import record_dtype
from tests.support.kernel_calls import LAYOUTS, row_names
from tests.support.states import read_state

pytestmark = pytest.mark.kernels
TEXT = """
    partition  ar     isr  leader  epoch  version  adding  removing  offline_dir  state    replicas
    t-0        1,2,3  1,2  1       7      5        -       -         3            ONLINE   1:ONLINE
    t-1        2,3    2    2       4      3        3       2         -            OFFLINE  2:ONLINE
    u-0        3      -    -       -      0        -       -         -            NEW      3:NEW
"""


def digest_of(state: ClusterState, topics: np.ndarray | None = None) -> int:
    """Call the kernel; topics stand for themselves by their row unless told otherwise."""
    named = np.arange(1, state.n_topics + 1, dtype=np.uint64) if topics is None else topics
    return digests.digest(state.columns, state.broker_id, named)


def test_digest_does_not_depend_on_the_order_of_rows():
    """Nor on the rows of topics, nor on the order of slots behind the assignment."""
    lines = TEXT.strip().splitlines()
    one = read_state(TEXT)
    other = read_state("\n".join([lines[0], *reversed(lines[1:])]))
    assert row_names(one) != row_names(other)
    assert one.digest() == other.digest()
    a, b = (
        read_state(f"""
            partition  ar  isr      leader  epoch  replicas
            t-0        1   1,{x}  1       7      1:ONLINE
        """) for x in ("2,3", "3,2")
    )
    assert a.replicas.tolist() != b.replicas.tolist()
    assert digest_of(a) == digest_of(b)


def test_digest_takes_no_entry_for_non_existent():
    """A partition without an entry counts like NonExistentPartition, a replica likewise."""
    text = """
        partition  ar   isr  leader  epoch  state  replicas
        t-0        1,2  1    1       7      {}     1:ONLINE{}
    """
    plain = read_state(text.format("-", ""))
    said = read_state(text.format("NON_EXISTENT", ",2:NON_EXISTENT"))
    assert digest_of(plain) == digest_of(said)
    unknown = read_state("""
        partition  ar  isr  leader  epoch  state
        t-0        -   -    -       -      NON_EXISTENT
    """)
    assert digest_of(unknown) == 0


CHANGES = {
    "leader": ("1       7", "2       7"), "epoch": ("7      5", "8      5"),
    "version": ("5        -", "6        -"), "isr": ("1,2  1", "1    1"),
    "order": ("1,2,3  1,2", "1,3,2  1,2"), "length": ("1,2,3  1,2", "1,2    1,2"),
    "adding": ("3       2", "-       2"), "removing": ("3       2", "3       -"),
    "offline_dir": ("3            ONLINE", "-            ONLINE"),
    "state": ("ONLINE   1:", "OFFLINE  1:"), "replica state": ("3:NEW", "3:ONLINE"),
    "partition": ("t-1", "t-2"), "topic": ("u-0", "v-0"),
    "broker": ("u-0        3", "u-0        4"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_digest_sees_every_column(name):
    """Any one change of any one column gives another digest."""
    old, new = CHANGES[name]
    assert TEXT.count(old) == 1
    one, other = read_state(TEXT, brokers=[4]), read_state(TEXT.replace(old, new), brokers=[4])
    assert one.digest() != other.digest()
    assert one.difference(other) is not None


def test_digest_sees_every_field_of_a_record():
    """One bit of the first record, no two alike; `n_slots` only says how far to look."""
    state = read_state(TEXT)
    seen = {digest_of(state)}
    fields = [name for name in record_dtype(narrow=True).names if name != "n_slots"]
    for field in fields:
        other = state.copy()
        other.records[field][0] ^= 1
        seen.add(digest_of(other))
    assert len(seen) == len(fields) + 1


def test_digest_sees_topics_and_epochs():
    """What is not in the records: replica states, topics' names, controller epochs."""
    state = read_state(TEXT)
    before = digest_of(state)
    assert digest_of(state, np.array([1, 3], np.uint64)) != before
    state.replica_state[0, 1] = ReplicaState.OFFLINE
    assert digest_of(state) != before


def test_digest_bytes_tells_strings_apart():
    """Each string by itself: also those that begin alike, and the empty one."""
    names = ["", "a", "b", "ab", "ba", "a\0", "topic", "topic-1"]
    strings = pa.array(names)
    _, offsets, data = strings.buffers()
    found = np.zeros(len(names), np.uint64)
    begin, values = np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8)
    digests.digest_bytes(begin, values, found)
    assert len(set(found.tolist())) == len(names)
    alone = np.zeros(1, np.uint64)
    digests.digest_bytes(np.array([0, 5], np.int32), np.frombuffer(b"topic", np.uint8), alone)
    assert alone[0] == found[names.index("topic")]


# Partition, min.insync.replicas, and its marks: 1 offline, 2 under min ISR, 4 at min ISR,
# 8 under-replicated, 16 no live replica, 32 led by another than the preferred replica.
MARKS = """
    partition  ar     isr    leader  epoch  offline_dir
    a-0        1,2,3  1,2,3  1       7      -
    a-1        1,2,3  1,2,3  2       7      -
    a-2        1,2,3  1,2    1       7      -
    a-3        1,2,3  1      1       7      -
    a-4        4,2    4,2    4       7      -
    a-5        4      4      4       7      -
    a-6        1,2    1,2    -       7      -
    a-7        1,2    1,2    1       7      1
    a-8        1,2    1,2    2       7      1
    a-9        1      1      1       7      -
    a-10       1,5    1,5    1       7      -
    a-11       1,2    -      -       -      -
    a-12       2,3    2,1    2       7      -
    a-13       -      -      -       -      -
"""
WANTED = (0, 32, 4 + 8, 2 + 8, 1 + 2 + 8, 1 + 2 + 8 + 16, 1 + 4, 1 + 2 + 8, 2 + 8 + 32, 4, 2 + 8,
          1 + 2 + 8, 4 + 8, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_take_census_marks_what_an_operator_asks(layout):
    """Min ISR 2, at most the replication factor; ISR members count where they are live."""
    state = read_state(MARKS, down=[4], shutting_down=[5], layout=layout)
    marks = np.full(state.n_partitions, 255, np.uint8)
    per_broker = np.zeros((state.n_brokers, 3), np.int64)
    census.take_census(state.columns, np.array([2], np.int32), marks, per_broker)
    found = {p: int(mark) for p, mark in zip(row_names(state), marks, strict=True)}
    assert found == {("a", number): mark for number, mark in enumerate(WANTED)}
    leaders = [0] * state.n_brokers
    replicas, in_sync = list(leaders), list(leaders)
    for row in range(state.n_partitions):
        record = state.leadership(row)
        if record and state.is_replica_online(record.leader, row):
            leaders[state.find_brokers([record.leader])[0]] += 1
        for b in state.assignment(row).replicas:
            at = state.find_brokers([b])[0]
            replicas[at] += 1
            in_sync[at] += b in (record.isr if record else ()) and state.is_replica_online(b, row)
    assert per_broker.T.tolist() == [leaders, replicas, in_sync]


def test_no_two_counts_share_a_place_in_a_tally():
    """A count per code and per cell of 8 states by 8; counts per broker are the last."""
    places = {name: at for name, at in vars(schema).items() if name.startswith("TALLY_")}
    sizes = {"TALLY_CODES": 32, "TALLY_CELLS": 64, "TALLY_BROKERS": 1}
    taken = [at + i for name, at in places.items() for i in range(sizes.get(name, 1))]
    assert len(set(taken)) == len(taken)
    assert max(taken) == schema.TALLY_BROKERS
