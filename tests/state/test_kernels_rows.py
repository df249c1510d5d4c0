"""Kernels that find, count and lay out rows, called directly, against plain Python and numpy.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest

from kfast import schema
from kfast.journal.effects import EFFECT
from kfast.kernels import census, hosting, startup, tables
from kfast.state.arrays import first_slots
from tests.support.kernel_calls import LAYOUTS, THREADS, all_rows, columns_of, row_names
from tests.support.random_clusters import random_context
from tests.support.states import read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels
SLOTS_PXD = Path(schema.__file__).parent / "kernels" / "slots.pxd"


@pytest.fixture(params=LAYOUTS)
def layout(request):
    """Both layouts, one after the other."""
    return request.param


def random_states(layout, n=12):
    """Some random clusters: the context and the state made of it."""
    for seed in range(n):
        ctx = random_context(Random(seed))
        yield ctx, state_of(ctx, layout)


def bits_of(rows, n):
    """Bitmap with the bits of some rows."""
    bits = np.zeros(max((n + 63) // 64, 1), np.uint64)
    for row in rows:
        bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    return bits


def tracked(state, row):
    """Broker rows of a partition's slots."""
    return state.replicas[row, : state.records["n_slots"][row]].tolist()


# --- hosting ------------------------------------------------------------------------------------


def test_the_hosting_index_lists_the_rows_of_each_broker(layout):
    """`count_hosted`, `list_hosted`: what a set per broker would hold, ascending."""
    for _, state in random_states(layout):
        wanted = [
            [row for row in range(state.n_partitions) if b in tracked(state, row)]
            for b in range(state.n_brokers)
        ]
        for threads in THREADS:
            counts = np.zeros((threads, state.n_brokers), np.int64)
            startup.count_hosted(state.columns, counts)
            assert counts.sum(axis=0).tolist() == [len(rows) for rows in wanted]
            begin = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
            position = begin[:-1] + np.cumsum(counts, axis=0) - counts
            hosted = np.empty(begin[-1], np.int32)
            startup.list_hosted(state.columns, position, hosted)
            assert hosted.tolist() == [row for rows in wanted for row in rows]
            assert position[-1].tolist() == begin[1:].tolist()


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


@pytest.mark.parametrize("assigned_only", [True, False])
def test_select_slots_finds_the_slots_of_some_brokers(layout, assigned_only):
    """`replicas_on_brokers` of section 1.5; candidates that have none are left out."""
    for _, state in random_states(layout):
        chosen = np.zeros(state.n_brokers, np.uint8)
        chosen[::3] = 1
        rows, slots = all_rows(state), np.empty(state.n_partitions, np.uint64)
        state.leader_offline[:] = 0xABCD
        n = hosting.select_slots(
            state.columns, chosen, all_rows(state), assigned_only, False, rows, slots
        )
        assert (state.leader_offline == 0xABCD).all()
        wanted = {}
        for row in range(state.n_partitions):
            last = state.records["n_replicas"][row] if assigned_only else None
            found = [s for s, b in enumerate(tracked(state, row)[:last]) if chosen[b]]
            if found:
                wanted[row] = sum(1 << s for s in found)
        assert dict(zip(rows[:n].tolist(), slots[:n].tolist(), strict=True)) == wanted


def test_offline_leaders_are_looked_at_anew(layout):
    """`partitions_with_offline_leader` of section 1.5: `refresh`, and the kernel by itself."""
    for ctx, state in random_states(layout):
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


@pytest.mark.parametrize("some_slots", [False, True])
def test_list_groups_lists_the_brokers_that_have_replicas_in_a_call(layout, some_slots):
    """Of those that are sought, and of the assigned slots, or of some; in any order."""
    rng = np.random.default_rng(3)
    for _, state in random_states(layout):
        rows = np.flatnonzero(rng.random(state.n_partitions) < 0.3).astype(np.int32)
        sought = rng.integers(0, 2, state.n_brokers).astype(np.uint8)
        slots = first_slots(state.records["n_replicas"][rows])
        if some_slots:
            slots &= rng.integers(0, 2**8, rows.size, np.uint64)
        listed = np.empty(state.n_brokers, np.int32)
        n = hosting.list_groups(
            state.columns, rows, slots if some_slots else slots[:0], sought.copy(), listed,
        )
        wanted = {
            b for row, mask in zip(rows.tolist(), slots.tolist(), strict=True)
            for b in state.ids_of(row, mask)
        } & set(state.broker_id[sought != 0].tolist())
        assert sorted(state.broker_id[listed[:n]]) == sorted(wanted)


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


def test_find_slots_is_a_look_up(layout):
    """The slot of one broker per row; -1 where the partition does not track it."""
    for _, state in random_states(layout):
        for broker in range(state.n_brokers):
            slots = np.empty(state.n_partitions, np.int32)
            hosting.find_slots(
                state.columns, all_rows(state), np.full(state.n_partitions, broker, np.int32),
                slots,
            )
            assert slots.tolist() == [
                tracked(state, row).index(broker) if broker in tracked(state, row) else -1
                for row in range(state.n_partitions)
            ]


def test_live_slots_are_is_replica_online(layout):
    """Section 1.5, with and without brokers that are shutting down."""
    for ctx, state in random_states(layout):
        live, up = np.empty(state.n_partitions, np.uint64), np.empty(state.n_partitions, np.uint64)
        hosting.live_slots(state.columns, all_rows(state), live, up)
        for row, p in enumerate(row_names(state)):
            ids = [int(state.broker_id[b]) for b in tracked(state, row)]
            for mask, too in ((live, False), (up, True)):
                assert set(state.ids_of(row, int(mask[row]))) == {
                    b for b in ids if ctx.is_replica_online(b, p, too)
                }


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


@pytest.mark.parametrize("given", [(0, 1, 2, 3, 4, 5), (0, 1, 5)])
@pytest.mark.parametrize(("narrow", "most"), [(True, 8), (False, 64)])
def test_lists_become_slots_and_come_back(narrow, most, given):
    """`fill_slots` and back by `measure_lists`, `expand_masks`, `mask_states`, `expand_states`.

    Columns that are not given are empty lists.
    """
    generator = Random(most)
    n, n_brokers = 40, 70
    rows = np.arange(n, dtype=np.int32)
    lists = []
    for _ in range(n):
        known = generator.sample(range(n_brokers), generator.randint(1, most))
        pick = [[b for b in known if generator.random() < 0.5] for _ in range(6)]
        lists.append([listed if c in given else [] for c, listed in enumerate(pick)])
    offsets, values = as_columns(lists, 6)
    first = offsets[5, 0]
    states = np.array([generator.randint(1, 6) for _ in values[first:]], np.int8)
    records = np.zeros(n, schema.record_dtype(narrow))
    records["leader"] = [pick[0][-1] if pick[0] else -1 for pick in lists]
    replicas = np.full((n, most), -1).astype(schema.broker_dtype(narrow))
    replica_state = np.zeros((n, most), np.uint8)
    which = np.array(given, np.int32)
    tables.fill_slots(
        records, replicas, replica_state, offsets[which].copy(), which, values, states
    )
    assert [
        (r, s) for r, s in zip(records["n_replicas"], records["n_slots"], strict=True)
    ] == [(len(pick[0]), len({b for some in pick for b in some})) for pick in lists]
    ids = np.arange(n_brokers, dtype=np.int32) * 10
    masks = {1: "isr", 2: "adding", 3: "removing", 4: "offline_dir"}
    for column, name in masks.items():
        wide = records[name].astype(np.uint64)
        begin = np.empty(n + 1, np.int32)
        tables.measure_lists(wide, begin)
        listed = np.empty(begin[-1], np.int32)
        tables.expand_masks(replicas, ids, rows, wide, listed)
        found = [sorted(part.tolist()) for part in np.split(listed, begin[1:-1])]
        assert found == [sorted(10 * b for b in pick[column]) for pick in lists]
        again, unknown = np.empty(n, np.uint64), np.empty(n, np.uint8)
        at = offsets[column] - offsets[column, 0]
        own = values[offsets[column, 0] : offsets[column, -1]]
        tables.masks_of(replicas, records, rows, at, own, again, unknown)
        assert np.array_equal(again, wide)
        assert not unknown.any()
    assert [replicas[row, : len(p[0])].tolist() for row, p in enumerate(lists)] == [
        pick[0] for pick in lists
    ]
    entries = np.empty(n, np.uint64)
    tables.mask_states(records, replica_state, entries)
    found_states = np.empty(len(states), np.int8)
    tables.expand_states(replica_state, rows, entries, found_states)
    named = np.empty(len(states), np.int32)
    tables.expand_masks(replicas, np.arange(n_brokers, dtype=np.int32), rows, entries, named)
    owner = np.repeat(rows, np.diff(offsets[5]))
    assert set(zip(owner, named, found_states, strict=True)) == set(
        zip(owner, values[first:], states, strict=True)
    )


def test_masks_of_marks_brokers_without_a_slot(layout):
    """An unknown broker is no slot and leaves the others alone."""
    state = read_state("""
        partition  ar     isr  leader  epoch
        t-0        1,2,3  1    1       7
        t-1        3,4    3    3       7
    """, layout=layout)
    masks, unknown = np.empty(2, np.uint64), np.empty(2, np.uint8)
    offsets = np.array([0, 2, 4], np.int32)
    values = np.array([*state.find_brokers([3, 1]), -1, state.find_brokers([4])[0]], np.int32)
    tables.masks_of(
        state.replicas, state.records, all_rows(state), offsets, values, masks, unknown
    )
    assert (masks.tolist(), unknown.tolist()) == ([0b101, 0b10], [0, 1])


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


# --- layouts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("struct", "dtype", "key"),
    [
        ("NarrowRecord", schema.record_dtype(True), "narrow_record"),
        ("WideRecord", schema.record_dtype(False), "wide_record"),
        ("Effect", EFFECT, "effect"),
    ],
)
def test_a_struct_is_the_same_in_numpy_and_in_c(struct, dtype, key):
    """Size, and name, type and order of every field."""
    body = re.search(rf"cdef struct {struct}:\n((?:    .+\n)+)", SLOTS_PXD.read_text("utf-8"))
    fields = [line.split() for line in body.group(1).splitlines()]
    assert [(name, kind.removesuffix("_t")) for kind, name in fields] == [
        (name, str(dtype[name])) for name in dtype.names
    ]
    assert census.layout()[key] == dtype.itemsize
