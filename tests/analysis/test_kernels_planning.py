"""Kernels that group partitions by their brokers and brokers by batches, against plain Python."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import numpy as np
import pytest

from kfast.analysis.batch_coloring import Limits
from kfast.analysis.replica_sets import group_sets, list_by_broker, take_isr_margins
from kfast.kernels import batch_bounds as bounds
from kfast.kernels import batch_coloring as planning
from kfast.kernels import replica_sets as sets
from tests.analysis.test_impact import random_cluster
from tests.support import reference_planning as reference
from tests.support.kernel_calls import LAYOUTS, row_names

pytestmark = pytest.mark.kernels
SEEDS = range(60)


def random_limits(seed, most_brokers=7):
    """Some brokers, and limits of 1 to 3 on sets of up to 5 of them."""
    generator = Random(seed)
    n = generator.randint(2, most_brokers)
    limits = []
    for _ in range(generator.randint(1, 2 * n)):
        size = generator.randint(1, min(5, n))
        members = tuple(sorted(generator.sample(range(n), size)))
        limits.append((members, generator.randint(1, 3)))
    return n, limits


def arrays_of(n, limits):
    """Limits as kernels take them."""
    begin = np.cumsum([0, *(len(members) for members, _ in limits)]).astype(np.int64)
    members = np.array([m for some, _ in limits for m in some], np.int32)
    most = np.array([most for _, most in limits], np.int32)
    return begin, members, most, *list_by_broker(begin, members, n)


def scratch(n, width):
    return np.empty(n, np.int32), np.empty((n, width), np.int32), np.empty(n, np.int32)


def batches_of(batch):
    """Batches as lists of brokers."""
    return [np.flatnonzero(batch == k).tolist() for k in range(int(batch.max()) + 1)]


def bits_of(n, limits):
    """`mark_apart`, and the pairs that it should have marked."""
    begin, members, most, *_ = arrays_of(n, limits)
    apart = np.zeros((n, (n + 63) // 64), np.uint64)
    bounds.mark_apart(begin, members, most, apart)
    pairs = {frozenset(pair) for some, m in limits if m == 1 for pair in combinations(some, 2)}
    return apart, pairs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(25))
def test_measure_isrs_counts_what_plain_python_counts(seed, layout):
    """Live ISR members, live replicas and min ISR of every partition; nothing of the others."""
    _, state = random_cluster(seed, layout)
    standing = take_isr_margins(state)
    n = state.n_partitions
    out = np.ones(n, np.uint64), np.ones(n, np.uint64), np.ones(n, np.uint8), np.ones(n, np.uint8)
    setting = np.where(state.topic_min_insync_replicas < 0, state.default_min_insync_replicas,
                       state.topic_min_insync_replicas).astype(np.int32)
    sets.measure_isrs(state.columns, setting, *out)
    expected = reference.kept_alive(state)
    for row, name in enumerate(row_names(state)):
        live, needed, _ = expected.get(name, (frozenset(), 0, 0))
        assert set(state.ids_of(row, int(out[0][row]))) == live
        assert (out[2][row], out[3][row]) == (len(live), needed)
        replicas = state.assignment(row).replicas if name in expected else ()
        assert state.ids_of(row, int(out[1][row])) == tuple(
            b for b in replicas if state.is_replica_online(b, row)
        )
        assert bool(standing.assigned[row]) == (name in expected)
    assert np.array_equal(standing.live_isr, out[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(25))
def test_group_sets_and_list_sets_of_brokers(seed, layout):
    """Each distinct set once, in order of appearance, with its members, tag and partitions."""
    _, state = random_cluster(seed, layout)
    standing = take_isr_margins(state)
    tags = standing.needed
    found = group_sets(state, standing.live_isr, tags)
    keys = [
        (tuple(sorted(np.searchsorted(state.broker_id, state.ids_of(row, int(mask))).tolist())),
         int(tags[row]))
        for row, mask in enumerate(standing.live_isr)
    ]
    numbers = {key: at for at, key in enumerate(dict.fromkeys(k for k in keys if k[0]))}
    assert found.set_of.tolist() == [numbers.get(key, -1) for key in keys]
    listed = np.split(found.members, found.begin[1:-1])
    assert [(tuple(m.tolist()), int(t)) for m, t in zip(listed, found.tags, strict=True)] == list(
        numbers
    )
    counts = Counter(key for key in keys if key[0])
    assert found.partitions.tolist() == [counts[key] for key in numbers]
    first, sets_of = found.list_by_broker(state.n_brokers)
    place, other = first[:-1].copy(), np.empty_like(sets_of)
    sets.list_sets_of_brokers(found.begin, found.members, place, other)
    assert np.array_equal(sets_of, other)
    for broker in range(state.n_brokers):
        mine = sets_of[first[broker] : first[broker + 1]].tolist()
        assert mine == [at for (some, _), at in numbers.items() if broker in some]


@pytest.mark.parametrize("seed", SEEDS)
def test_fill_batches_and_place_all(seed):
    """Both orders as plain Python takes them; `blocked` and the excess by their definitions."""
    n, limits = random_limits(seed, 12)
    arrays = Limits(*arrays_of(n, limits))
    degree = np.array([sum(b in some for some, _ in limits) for b in range(n)], np.int64)
    order = np.array(Random(seed).sample(range(n), n), np.int32)
    for given in (order, np.empty(0, np.int32)):
        room = scratch(n, n)
        used = planning.fill_batches(arrays, degree, given, *room)
        expected = reference.fill(n, limits, degree, given.tolist() or None)
        assert dict(enumerate(room[0].tolist())) == expected
        assert used == max(expected.values()) + 1
        assert reference.is_allowed(batches_of(room[0]), limits)
    generator = Random(seed)
    start = np.array([generator.randint(-1, 1) for _ in range(n)], np.int32)
    room = scratch(n, 2)
    excess = planning.place_all(arrays, start, *room)
    where = dict(enumerate(room[0].tolist()))
    assert all(where[b] == k for b, k in enumerate(start.tolist()) if k >= 0)
    blocked = [[reference.blocked_by(b, k, where, limits) for k in range(2)] for b in range(n)]
    assert room[1].tolist() == blocked
    assert room[2].tolist() == [sum(cell > 0 for cell in cells) for cells in blocked]
    assert excess == sum(
        max(0, sum(where[b] == k for b in some) - most) for some, most in limits for k in range(2)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_search_exactly_finds_the_fewest(seed):
    """The number that trying all ways gives, and batches that are allowed."""
    n, limits = random_limits(seed)
    arrays = Limits(*arrays_of(n, limits))
    best = np.arange(n, dtype=np.int32)
    degree = np.zeros(n, np.int64)
    found, proven = planning.search_exactly(arrays, degree, 1, 10**6, best, *scratch(n, n))
    assert proven
    assert found == best.max() + 1 == reference.fewest_batches(range(n), limits)
    assert reference.is_allowed(batches_of(best), limits)


def test_search_exactly_says_when_it_gave_up():
    """A graph of 12 brokers that needs 3 batches: two steps prove nothing."""
    limits = [((a, (a + 1) % 11), 1) for a in range(11)] + [((0, 11), 1)]
    limits = [(tuple(sorted(some)), most) for some, most in limits]
    arrays, best = Limits(*arrays_of(12, limits)), np.arange(12, dtype=np.int32)
    degree = np.zeros(12, np.int64)
    n, proven = planning.search_exactly(arrays, degree, 1, 2, best, *scratch(12, 12))
    assert not proven
    n, proven = planning.search_exactly(arrays, degree, 1, 10**6, best, *scratch(12, 12))
    assert (n, proven) == (3, True)


@pytest.mark.parametrize("seed", SEEDS)
def test_search_fewer_ends_without_excess(seed):
    """With as many batches as suffice it finds a way, and keeps its counts right; and in slices."""
    n, limits = random_limits(seed)
    arrays = Limits(*arrays_of(n, limits))
    width = max(2, reference.fewest_batches(range(n), limits))
    start = np.zeros(n, np.int32)
    ends = []
    for slice_of_work in (10**6, 40):
        room, until = scratch(n, width), np.zeros((n, width), np.int64)
        excess = planning.place_all(arrays, start, *room)
        memory = np.array([excess, 0, excess, 7], np.int64)
        for _ in range(10**4):
            planning.search_fewer(arrays, np.ones(n, np.int64), *room, until, memory,
                                  slice_of_work)
            if memory[0] == 0:
                break
        assert memory[0] == 0
        assert reference.is_allowed(batches_of(room[0]), limits)
        where = dict(enumerate(room[0].tolist()))
        for b in range(n):
            cells = [reference.blocked_by(b, k, where, limits) for k in range(width)]
            assert room[1][b].tolist() == cells
        ends.append(room[0].tolist())
    assert ends[0] == ends[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_and_what_they_imply(seed):
    """`mark_apart`, `list_apart`, `find_needed` and `label_connected`."""
    n, limits = random_limits(seed, 70 if seed % 3 == 0 else 9)
    apart, pairs = bits_of(n, limits)
    count = bounds.list_apart(apart, np.empty(0, np.int32))
    listed = np.empty(2 * count, np.int32)
    assert bounds.list_apart(apart, listed) == len(pairs)
    assert listed.reshape(-1, 2).tolist() == sorted(sorted(pair) for pair in pairs)
    begin, members, most, *_ = arrays_of(n, limits)
    needed = np.full(len(limits), 9, np.uint8)
    bounds.find_needed(begin, members, most, apart, needed)
    assert needed.tolist() == [int(reference.is_needed(*limit, pairs)) for limit in limits]
    label = np.empty(n, np.int32)
    bounds.label_connected(begin, members, label)
    expected = {b: {b} for b in range(n)}
    for some, _ in limits:
        merged = set().union(*(expected[b] for b in some))
        for b in merged:
            expected[b] = merged
    assert label.tolist() == [min(expected[b]) for b in range(n)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_bound(seed):
    """`grow_clique` gives a clique's size, `largest_batches` no less than any allowed batch."""
    n, limits = random_limits(seed, 9)
    arrays = Limits(*arrays_of(n, limits))
    apart, pairs = bits_of(n, limits)
    cliques = [
        size for size in range(1, n + 1)
        if any(all(frozenset(p) in pairs for p in combinations(some, 2))
               for some in combinations(range(n), size))
    ]
    for broker in range(n):
        size = bounds.grow_clique(apart, broker, np.empty((1, 1), np.uint64))
        assert 1 <= size <= max(cliques)
    largest = np.empty(n, np.int32)
    bounds.largest_batches(arrays, apart, np.empty_like(apart), np.empty((2, 1), np.uint64),
                           largest)
    for broker in range(n):
        others = [b for b in range(n) if b != broker]
        most = max(
            size + 1 for size in range(n) for some in combinations(others, size)
            if reference.is_allowed([[broker, *some]], limits)
        )
        assert largest[broker] >= most


def test_a_clique_is_found_beyond_one_word():
    """70 brokers that may not be together at all, and 10 that may be with anybody."""
    apart, _ = bits_of(80, [(tuple(range(5, 75)), 1)])
    row = np.empty((1, 2), np.uint64)
    assert bounds.grow_clique(apart, 5, row) == 70
    assert bounds.grow_clique(apart, 2, row) == 1
    largest = np.empty(80, np.int32)
    arrays = Limits(*arrays_of(80, [((0, 1), 1)]))
    bounds.largest_batches(arrays, apart, np.empty_like(apart), np.empty((2, 2), np.uint64),
                           largest)
    assert set(largest[5:75]) == {11}
    assert set(largest[:5]) == {11}


@pytest.mark.parametrize("seed", SEEDS)
def test_count_harm_counts_what_a_batch_takes(seed):
    """Partitions that fall under min ISR, and that are left nobody, per batch."""
    generator = Random(seed)
    n, limits = random_limits(seed)
    begin, members, *_ = arrays_of(n, limits)
    spare = np.array([generator.randint(-1, 3) for _ in limits], np.int32)
    partitions = np.array([generator.randint(1, 9) for _ in limits], np.int64)
    batch = np.array([generator.randint(-1, 2) for _ in range(n)], np.int32)
    harm = np.full((3, 2), -1, np.int64)
    planning.count_harm(begin, members, spare, partitions, batch, harm)
    expected = [[0, 0] for _ in range(3)]
    for (some, _), s, count in zip(limits, spare, partitions, strict=True):
        for k in range(3):
            held = sum(batch[b] == k for b in some)
            expected[k][0] += count * (held > s >= 0)
            expected[k][1] += count * (held == len(some))
    assert harm.tolist() == expected
