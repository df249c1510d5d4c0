"""Scenarios: what each kind holds, that slices keep their numbers, and the laws of random ones."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import ClusterState, generate
from kfast.errors import ArgumentError, InputError
from kfast.kernels import scenario_sampling as draws

pytestmark = pytest.mark.kernels


def cluster(brokers=9, racks=3, down=()):
    """A small cluster; some of its brokers are not registered."""
    tables = generate(brokers=brokers, partitions=40, replication_factor=3, racks=racks,
                      seed=7).to_tables()
    rows = tables.brokers.to_pylist()
    for row in rows:
        row["registered"] = row["broker_id"] not in down
    brokers = pa.Table.from_pylist(rows, tables.brokers.schema)
    return ClusterState.from_tables(brokers, tables.topics, tables.partitions, tables.cluster)


KINDS = {
    "every 1": lambda s: kfast.every_broker(s),
    "every 2": lambda s: kfast.every_broker(s, 2),
    "every 3": lambda s: kfast.every_broker(s, k=3),
    "every rack": lambda s: kfast.every_rack(s),
    "rack and broker": lambda s: kfast.every_rack_and_broker(s),
    "random": lambda s: kfast.random_brokers(s, 3, 200, 5),
    "independent": lambda s: kfast.independent_brokers(s, 0.2, 300, 5),
    "racks": lambda s: kfast.independent_racks(s, 0.5, 100, 5),
    "bursts": lambda s: kfast.bursts(s, 0.5, 100, 5),
    "table": lambda s: kfast.scenarios_from_table(
        s, pa.table({"scenario": [2, 5, 2, 2], "broker": [3, 1, 4, 3]})
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_keeps_its_numbers(kind):
    """Any slice, pickled or not, says what the whole says of the same numbers."""
    whole = KINDS[kind](cluster(down=(2,)))
    sets = [whole.brokers(i) for i in range(len(whole))]
    assert sets[0] == []
    assert 2 not in set(itertools.chain(*sets))
    for start, stop in ((0, 0), (0, 1), (0, len(whole)), (1, 2), (2, len(whole))):
        part = pickle.loads(pickle.dumps(whole.slice(start, stop)))
        assert len(part) == stop - start
        offsets, rows = part.down(start, stop)
        assert offsets.dtype == np.int64
        assert rows.dtype == np.int32
        assert offsets[0] == 0
        assert offsets[-1] == rows.size
        found = [
            sorted(whole.broker_id[rows[a:b]].tolist()) for a, b in itertools.pairwise(offsets)
        ]
        assert found == sets[start:stop]
        assert all(len(set(ids)) == len(ids) for ids in found)
    listed = whole.to_table()
    expected = [(i, b) for i, ids in enumerate(sets) for b in ids]
    assert sorted(zip(*listed.to_pydict().values(), strict=True)) == sorted(expected)
    assert len(pickle.dumps(whole)) < 4000


@pytest.mark.parametrize("k", [1, 2, 3, 4, 8])
def test_every_set_is_there_once_in_order(k):
    """`every_broker` is `itertools.combinations` of the registered brokers."""
    state = cluster(down=(4,))
    up = [b for b in range(9) if b != 4]
    found = kfast.every_broker(state, k)
    assert [found.brokers(i) for i in range(1, len(found))] == [
        list(c) for c in itertools.combinations(up, k)
    ]


def test_racks_and_one_more_broker():
    """Every rack; every rack with every broker outside it."""
    state = cluster(down=(2,))
    racks = {}
    for row in state.to_tables().brokers.to_pylist():
        if row["registered"]:
            racks.setdefault(row["rack"], []).append(row["broker_id"])
    found = kfast.every_rack(state)
    assert [found.brokers(i + 1) for i in range(len(racks))] == [racks[r] for r in sorted(racks)]
    more = kfast.every_rack_and_broker(state)
    expected = [
        sorted([*racks[rack], b])
        for rack in sorted(racks) for b in range(9) if b != 2 and b not in racks[rack]
    ]
    assert [more.brokers(i) for i in range(1, len(more))] == expected


def test_philox_gives_the_published_numbers():
    """Known answers of Philox4x32-10 (Random123, kat_vectors): counter 0, key 0, and all ones."""
    assert draws.philox_block(0, 0, 0, 0) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    ones = 2**64 - 1
    assert draws.philox_block(ones, ones, 2**32 - 1, 2**32 - 1) == (
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD
    )


def test_every_set_is_drawn_as_often_as_any_other():
    """K of n: chi-squared over all sets of 3 of 6 (`sample_brokers`)."""
    n = 100_000
    found = kfast.random_brokers(cluster(brokers=6), 3, n, seed=11)
    _, rows = found.down(1, n + 1)
    sets = np.sort(rows.reshape(n, 3), axis=1)
    counts = np.unique(sets, axis=0, return_counts=True)[1]
    assert counts.size == math.comb(6, 3)
    expected = n / counts.size
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # 0.999 quantile, 19 degrees


def test_brokers_fail_independently():
    """The share of failures is p, and of two at once p squared (`draw_independent`)."""
    n, p = 50_000, 0.3
    offsets, rows = kfast.independent_brokers(cluster(), p, n, seed=3).down(1, n + 1)
    down = np.zeros((n, 9), bool)
    down[np.repeat(np.arange(n), np.diff(offsets)), rows] = True
    margin = 5 * math.sqrt(0.25 / n)
    assert np.abs(down.mean(axis=0) - p).max() < margin
    both = (down[:, :, None] & down[:, None, :]).mean(axis=0)
    assert np.abs(both[~np.eye(9, dtype=bool)] - p * p).max() < margin
    assert len(kfast.independent_brokers(cluster(), 1, 3, 0).brokers(2)) == 9
    assert kfast.independent_brokers(cluster(), 0, 3, 0).brokers(2) == []


def test_a_burst_takes_a_share_of_one_rack():
    """`draw_bursts`: half of three is two, and every rack is met about as often."""
    state = cluster()
    rack = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
    found = kfast.bursts(state, 0.5, 3000, seed=1)
    seen = {}
    for number in range(1, 3001):
        ids = found.brokers(number)
        assert len(ids) == 2
        assert len({rack[b] for b in ids}) == 1
        seen[tuple(ids)] = seen.get(tuple(ids), 0) + 1
    assert len(seen) == 9
    assert min(seen.values()) > 240


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: kfast.every_broker(s, 10), "k is 10; 9 brokers"),
        (lambda s: kfast.every_broker(s, 0), "k is 0"),
        (lambda s: kfast.random_brokers(s, 10, 5, 0), "k is 10"),
        (lambda s: kfast.random_brokers(s, 2, -1, 0), "n is -1"),
        (lambda s: kfast.random_brokers(s, 2, 10**10, 0), "at most 1000000000"),
        (lambda s: kfast.random_brokers(s, 2, 5, -1), "seed is -1"),
        (lambda s: kfast.independent_brokers(s, 1.5, 5, 0), "p is 1.5"),
        (lambda s: kfast.independent_brokers(s, float("nan"), 5, 0), "p is nan"),
        (lambda s: kfast.bursts(s, -0.1, 5, 0), "share is -0.1"),
        (lambda s: kfast.every_rack(cluster(racks=0)), "no broker that is up has a rack"),
        (lambda s: kfast.every_broker(s).slice(3, 11), "not all among 0 up to 10"),
        (lambda s: KINDS["table"](cluster(down=(4,))), "broker 4 of scenario 2 is not registered"),
    ],
)
def test_a_callers_mistake_is_refused(make, message):
    """Before any work, by name, with what was found and what is allowed."""
    with pytest.raises(ArgumentError, match=message):
        make(cluster())


def test_too_many_sets_are_refused_with_their_cost():
    """Sets of 5 of 1000 brokers: the hours that they would take."""
    with pytest.raises(ArgumentError, match=r"sets of 5 of 1000 brokers make 8.25e\+12 scenarios"):
        kfast.every_broker(generate(brokers=1000, partitions=1000, replication_factor=3), 5)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"scenario": [1]}, InputError, "no column 'broker'"),
        ({"scenario": [1.5], "broker": [1]}, InputError, "column 'scenario' is double"),
        ({"scenario": [1], "broker": [None]}, InputError, "column 'broker'"),
        ({"scenario": [0], "broker": [1]}, ArgumentError, "0 is the baseline"),
        ({"scenario": [1], "broker": [77]}, ArgumentError, "broker 77 is unknown"),
    ],
)
def test_a_bad_table_is_refused(table, error, message):
    """By column, scenario or broker."""
    with pytest.raises(error, match=message):
        kfast.scenarios_from_table(cluster(), pa.table(table))
