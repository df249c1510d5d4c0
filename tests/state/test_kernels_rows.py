"""Kernels that find, count and lay out rows, called directly, against plain Python and numpy.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kfast.kernels import hosting, tables
from tests.support.kernel_calls import LAYOUTS, THREADS, all_rows, columns_of, row_names
from tests.support.random_clusters import random_context
from tests.support.states import read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels


@pytest.fixture(params=LAYOUTS)
def layout(request):
    """Both layouts, one after the other."""
    return request.param


def bits_of(rows, n):
    """Bitmap with the bits of some rows."""
    bits = np.zeros(max((n + 63) // 64, 1), np.uint64)
    for row in rows:
        bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    return bits


# --- hosting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.001, 0.2])
def test_rows_are_merged_with_those_that_wait(share):
    """`merge_waiting`: a set of all of them, ascending; with too little room only the first."""
    for seed, n in enumerate((0, 1, 64, 700, 5000)):
        draw = np.random.default_rng(seed)
        rows, first, other = (np.flatnonzero(draw.random(n) < s) for s in (0.1, share, share))
        rows = rows.astype(np.int32)
        wanted = sorted({*rows.tolist(), *first.tolist(), *other.tolist()})
        bits = bits_of(first.tolist(), n), bits_of(other.tolist(), n)
        for room in (len(wanted) + 5, len(wanted), len(wanted) // 2):
            merged = np.full(room, -1, np.int32)
            assert hosting.merge_waiting(rows, *bits, merged) == len(wanted)
            kept = min(room, len(wanted))
            assert merged[:kept].tolist() == wanted[:kept]
            assert (merged[kept:] == -1).all()


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_rows_concerned_are_found_in_all_rows(dtype, width):
    """`list_concerned`: those with a slot on a chosen broker, and those whose bit is set."""
    for n in (0, 1, 64, 700, 5000):
        draw = np.random.default_rng(n)
        replicas = draw.integers(0, 7, (n, width)).astype(dtype)
        replicas[draw.random((n, width)) < 0.2] = np.array(-1).astype(dtype)
        chosen = np.array([0, 1, 0, 0, 0, draw.integers(2), 0, 0], np.uint8)
        first, other = (np.flatnonzero(draw.random(n) < 0.1).tolist() for _ in range(2))
        hit = {row for row, brokers in enumerate(replicas.tolist())
               if any(0 <= b < 7 and chosen[b] for b in brokers)}
        wanted = sorted({*hit, *first, *other})
        columns = columns_of(replicas, bits_of(first, n), bits_of(other, n))
        for threads in THREADS:
            rows = np.empty(n, np.int32)
            found = hosting.list_concerned(columns, chosen, rows, threads)
            assert rows[:found].tolist() == wanted


def test_offline_leaders_are_looked_at_anew(layout):
    """`partitions_with_offline_leader` of section 1.5: `refresh`, and the kernel by itself."""
    for seed in range(12):
        ctx = random_context(Random(seed))
        state = state_of(ctx, layout)
        chosen = np.ones(state.n_brokers, np.uint8)
        rows, slots = all_rows(state), np.empty(state.n_partitions, np.uint64)
        wanted = bits_of([
            row for row, p in enumerate(row_names(state))
            if p in ctx.leadership and not ctx.is_replica_online(ctx.leadership[p].leader, p)
        ], state.n_partitions)
        for stale in (0, ~np.uint64(0)):
            valid = bits_of(range(state.n_partitions), state.n_partitions)
            state.leader_offline = np.full_like(wanted, stale) & valid
            hosting.select_slots(state.columns, chosen, all_rows(state), False, True, rows, slots)
            assert np.array_equal(state.leader_offline, wanted)
            state.leader_offline = np.full_like(wanted, stale) & valid
            hosting.refresh_leader_offline(state.columns, all_rows(state))
            assert np.array_equal(state.leader_offline, wanted)


def test_marked_rows_are_listed_ascending_as_far_as_there_is_room():
    """`mark_rows`, `list_marked`: the count is right even where the room is too little."""
    rows = np.array([200, 3, 64, 63, 127, 0], np.int32)
    bits = np.zeros(4, np.uint64)
    hosting.mark_rows(rows, bits)
    assert np.array_equal(bits, bits_of(rows.tolist(), 256))
    topic_row = np.arange(256, dtype=np.int32) % 2
    flags = np.array([0, 1], np.uint8)
    for queued_too, wanted in ((True, sorted(rows.tolist())), (False, [0, 64, 200])):
        for room in (0, 1, 3, 6, 9):
            listed = np.full(room, -7, np.int32)
            n = hosting.list_marked(bits, topic_row, flags, not queued_too, listed)
            assert n == len(wanted)
            assert listed[:n].tolist() == wanted[:room]
            assert (listed[n:] == -7).all()


def test_track_gives_a_slot_until_none_is_free(layout):
    """A broker that has a slot keeps it; the first one that finds none ends the call."""
    state = read_state("""
        partition  ar     isr  leader  epoch
        t-0        1,2,3  1    1       7
        t-1        4      4    4       7
    """, layout=layout)
    rows = np.array([0, 1, 1, 1, 1, 0, 1], np.int32)
    brokers = state.find_brokers([2, 4, 1, 2, 1, 4, 3])
    slots = np.full(7, -9, np.int32)
    assert hosting.track(state.columns, rows, brokers, slots) == 5
    assert slots.tolist() == [1, 0, 1, 2, 1, -9, -9]
    assert [state.ids_of(row, 7) for row in (0, 1)] == [(1, 2, 3), (4, 1, 2)]
    assert state.records["n_slots"].tolist() == [3, 3]
    assert state.records["n_replicas"].tolist() == [3, 1]


# --- tables -------------------------------------------------------------------------------------


def as_columns(lists, n_columns):
    """Offsets of every list column, and all values in one array."""
    offsets, values = np.zeros((n_columns, len(lists) + 1), np.int32), []
    for column in range(n_columns):
        offsets[column, 0] = len(values)
        for row, listed in enumerate(lists):
            values.extend(listed[column])
            offsets[column, row + 1] = len(values)
    return offsets, np.array(values, np.int32)


def count(lists, leaders):
    """Call `count_slots` on two list columns."""
    offsets, values = as_columns(lists, 2)
    counts, wrong = np.zeros(len(lists), np.uint8), np.full(3, -5, np.int32)
    code = tables.count_slots(offsets, values, np.array(leaders, np.int32), counts, wrong)
    return code, counts.tolist(), wrong.tolist()


def test_count_slots_counts_the_brokers_that_a_row_names():
    """Over all list columns and the leader; each broker once."""
    lists = [([1, 2, 3], [2, 3]), ([], []), ([4], [5, 6]), ([4], [])]
    assert count(lists, [1, -1, 7, -1])[:2] == (0, [3, 0, 4, 1])


def test_count_slots_says_who_stands_twice():
    """Row, list column and broker row."""
    assert count([([1, 2], []), ([1], [3, 4, 3])], [-1, -1])[::2] == (1, [1, 1, 3])
    assert count([([2, 2], [])], [-1])[::2] == (1, [0, 0, 2])


def test_count_slots_refuses_more_than_64():
    """The limit of a mask: named by the lists, or by the lists and the leader."""
    most = list(range(64))
    assert count([(most, [0]), (most, most)], [5, -1])[:2] == (0, [64, 64])
    for lists, leader in (([(most, [64])], -1), ([(most, [])], 64)):
        code, _, wrong = count([([], []), *lists], [-1, leader])
        assert (code, wrong[0]) == (2, 1)


def test_list_dead_lists_who_is_not_live():
    """Against the definition, on random lists; the kernel's columns begin anywhere."""
    generator = Random(5)
    rows = [
        tuple(generator.sample(range(9), generator.randint(0, 5)) for _ in range(3))
        for _ in range(200)
    ]
    known = np.array([generator.random() < 0.8 for _ in rows], np.uint8)
    columns = []
    for lists in zip(*rows, strict=True):
        offsets = np.cumsum([2, *map(len, lists)]).astype(np.int32)
        columns += [offsets, np.array([7, 7, *(b for one in lists for b in one)], np.int32)]
    dead_at, dead = np.empty(201, np.int32), np.empty(2000, np.int32)
    n = tables.list_dead(*columns, known, dead_at, dead)
    found = [part.tolist() for part in np.split(dead[:n], dead_at[1:-1])]
    assert found == [
        [b for b in dict.fromkeys([*replicas, *isr]) if b not in live] if said else []
        for (replicas, isr, live), said in zip(rows, known, strict=True)
    ]
    assert dead_at[0] == 0
