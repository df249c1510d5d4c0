"""Blast radius: copysets, the worst failures, and chances (`kfast.risk`)."""

from __future__ import annotations

import sys
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb, isclose
from random import Random

import numpy as np
import pytest
from scipy.stats import binomtest

import kfast
from kfast import ArgumentError, ClusterState, MissingExtraError, generate, loss_probability
from kfast.analysis import loss_chances as chances
from kfast.analysis.copyset_risk import RISK_METRICS
from kfast.analysis.loss_chances import Sets, count_exactly, tail
from kfast.analysis.replica_sets import list_by_broker
from kfast.kernels import risk as kernel
from tests.analysis.test_impact import random_cluster
from tests.support import reference_risk as reference

pytestmark = pytest.mark.kernels
EXACT = {"rel_tol": 1e-12, "abs_tol": 1e-300}


def sets_of(groups):
    """Sets with thresholds as `Sets`; one partition each."""
    begin = np.cumsum([0, *(len(some) for some, _ in groups)]).astype(np.int64)
    members = np.array([m for some, _ in groups for m in some], np.int32)
    threshold = np.array([t for _, t in groups], np.int32)
    return Sets(begin, members, threshold, np.ones(len(groups), np.int64))


def random_sets(seed, most_brokers=9):
    """Some brokers, and sets of them with thresholds."""
    generator = Random(seed)
    n = generator.randint(2, most_brokers)
    groups = []
    for _ in range(generator.randint(1, 8)):
        some = tuple(sorted(generator.sample(range(n), generator.randint(1, min(4, n)))))
        groups.append((some, generator.randint(1, len(some))))
    return n, groups


def is_lost(groups, failing):
    return any(len(set(some) & set(failing)) >= threshold for some, threshold in groups)


# --- laws ---------------------------------------------------------------------------------------


def test_the_hypergeometric_law():
    """100 brokers, three down, RF 3: the figures of issue 5."""
    assert tail(100, 3, 3, 3) == Fraction(1, 161700)
    assert f"{float(tail(100, 3, 3, 3)):.5e}" == "6.18429e-06"
    assert f"{float(tail(100, 3, 3, 2)):.5e}" == "1.80581e-03"
    assert f"{loss_probability(10**6, brokers=100, down=3):.6f}" == "0.997938"


def test_a_ring_has_as_many_copysets_as_brokers():
    """Row i on brokers i, i+1, i+2: 100 sets of 161 700, whatever the number of partitions."""
    found = kfast.risk(generate(brokers=100, partitions=10_000, placement="ring"))
    assert found.n_copysets == 100
    chance = found.chance(3)
    assert f"{chance.probability:.3e}" == "6.184e-04"
    assert (chance.low, chance.high, chance.method) == (chance.probability,) * 2 + ("exact",)
    assert set(found.brokers["scatter_width"].to_pylist()) == {4}


def test_a_random_placement_follows_the_law():
    """100 brokers, 10^6 random partitions: counted exactly, it is what the law expects."""
    state = generate(brokers=100, partitions=1_000_000, placement="uniform",
                     min_insync_replicas=2, seed=5)
    found = kfast.risk(state)
    expected = -np.expm1(1e6 * np.log1p(-1 / comb(100, 3)))
    spread = 4 * np.sqrt(expected * (1 - expected) / comb(100, 3))
    exact = found.chance(3)
    assert exact.method == "exact"
    assert exact.probability == found.n_copysets / comb(100, 3)
    assert abs(exact.probability - expected) < spread
    table = {(row["brokers_down"], row["metric"]): row for row in found.chances([3]).to_pylist()}
    assert isclose(table[3, "offline_if_clean"]["random_probability"], expected, rel_tol=1e-9)
    assert isclose(table[3, "offline_if_clean"]["mean_partitions"], 1e6 / comb(100, 3))
    assert f"{table[3, 'under_min_isr']['mean_partitions'] / 1e6:.5e}" == "1.80581e-03"


@pytest.mark.parametrize(("copysets", "percent"), [
    (5000 * 8000 / 3, "99.9996"), (1666, "0.157"), (275_000, "22.81"), (8333, "0.781"),
])
def test_the_figures_of_the_copysets_paper(copysets, percent):
    """Cidon et al., USENIX ATC 2013: 5000 brokers, 1 % down, R = 3."""
    digits = len(percent.split(".")[1])
    loss = 100 * loss_probability(copysets, brokers=5000, down=50)
    assert f"{loss:.{digits}f}" == percent


@pytest.mark.parametrize("copysets", [1666, 8333, 275_000])
def test_simulated_placements_are_within_their_interval(copysets):
    """Random copysets on 5000 brokers, 50 down: the closed form is in the Clopper-Pearson interval.

    One placement's chance differs from the mean over placements, by far less than the interval.
    """
    state = generate(brokers=5000, partitions=copysets, placement="uniform", seed=3)
    drawn = kfast.risk(state, scenarios=4000, confidence=0.999, seed=11).chance(50)
    assert (drawn.method, drawn.scenarios) == ("sampled", 4000)
    assert drawn.low <= loss_probability(copysets, brokers=5000, down=50) <= drawn.high
    assert drawn.low < drawn.probability < drawn.high


@pytest.mark.parametrize(("n", "members", "down", "threshold"), [
    (7, 3, 2, 1), (7, 3, 4, 2), (7, 3, 4, 3), (6, 6, 6, 6), (5, 2, 0, 1), (8, 1, 8, 1),
])
def test_the_tail_by_enumeration(n, members, down, threshold):
    """Every way to take some brokers down."""
    ways = list(combinations(range(n), down))
    hits = sum(sum(b < members for b in way) >= threshold for way in ways)
    assert tail(n, members, down, threshold) == Fraction(hits, len(ways))


# --- chances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(80))
def test_exact_chances_by_enumeration(seed, monkeypatch):
    """Both ways of counting give what trying every failure gives."""
    n, groups = random_sets(seed)
    for down in range(n + 1):
        ways = list(combinations(range(n), down))
        expected = Fraction(sum(is_lost(groups, way) for way in ways), len(ways))
        assert count_exactly(sets_of(groups), n, down) == expected
        with monkeypatch.context() as patched:
            patched.setattr(chances, "EXACT_WORK", -1)
            assert count_exactly(sets_of(groups), n, down) in (expected, None)


@pytest.mark.parametrize("seed", range(40))
def test_few_sets_are_included_and_excluded(seed, monkeypatch):
    """Where trying every group would take too long, up to 14 sets are still counted exactly."""
    monkeypatch.setattr(chances, "EXACT_WORK", -1)
    generator = Random(seed)
    sizes = [generator.randint(2, 4) for _ in range(6)]
    groups = [(tuple(sorted(generator.sample(range(9), size))), size) for size in sizes]
    ways = list(combinations(range(9), 4))
    expected = Fraction(sum(is_lost(groups, way) for way in ways), len(ways))
    assert count_exactly(sets_of(groups), 9, 4) == expected


@pytest.mark.parametrize("seed", range(30))
def test_count_safe_counts_groups_by_their_lowest(seed):
    """Groups of each size that hold no set whole, and nothing is left in the scratch."""
    generator = Random(seed)
    n = generator.randint(2, 8)
    groups = [tuple(sorted(generator.sample(range(n), generator.randint(2, min(3, n)))))
              for _ in range(generator.randint(1, 6))]
    sets = sets_of([(some, len(some)) for some in dict.fromkeys(groups)])
    first, numbers = list_by_broker(sets.begin, sets.members, n)
    most = generator.randint(1, n)
    for broker in range(n):
        held, forbidden = np.zeros(len(sets.partitions), np.int32), np.zeros(n, np.int32)
        down, counts = np.zeros(n, np.uint8), np.zeros(most + 1, np.int64)
        kernel.count_safe(sets.begin, sets.members, first, numbers, broker, held, forbidden, down,
                          counts)
        expected = [0] * (most + 1)
        for size in range(1, most + 1):
            for way in combinations(range(broker, n), size):
                whole = any(set(some) <= set(way) for some in groups)
                expected[size] += way[0] == broker and not whole
        assert counts.tolist() == expected
        assert not held.any()
        assert not forbidden.any()
        assert not down.any()


@pytest.mark.parametrize("seed", range(20))
def test_draw_hits_draws_every_group_alike(seed):
    """Hits are right for the groups drawn, equally often drawn, and do not depend on slices."""
    n, groups = random_sets(seed, 6)
    down = min(2, n)
    sets = sets_of(groups)
    first, numbers = list_by_broker(sets.begin, sets.members, n)
    threshold = sets.threshold.astype(np.uint8)
    hit = np.full(3000, 7, np.uint8)
    for start, stop in ((0, 1000), (1000, 1001), (1001, 3000)):
        held, marks = np.zeros(len(groups), np.uint8), np.zeros(n, np.uint8)
        chosen = np.empty(down, np.int32)
        kernel.draw_hits(threshold, first, numbers, seed, start, chosen, marks, held,
                         hit[start:stop])
        assert not held.any()
        assert not marks.any()
    whole = np.empty(3000, np.uint8)
    kernel.draw_hits(threshold, first, numbers, seed, 0, chosen, marks, held, whole)
    assert np.array_equal(hit, whole)
    ways = list(combinations(range(n), down))
    expected = sum(is_lost(groups, way) for way in ways) / len(ways)
    assert abs(hit.mean() - expected) < 5 * np.sqrt(0.25 / 3000)
    assert hit.max() <= 1


def test_what_is_drawn_is_near_what_is_counted(monkeypatch):
    """40 brokers, 300 random partitions, 4 down: the exact chance lies in the interval."""
    state = generate(brokers=40, partitions=300, placement="uniform", min_insync_replicas=2)
    exact = {m: kfast.risk(state).chance(4, m) for m in RISK_METRICS}
    monkeypatch.setattr(chances, "EXACT_WORK", -1)
    for metric, counted in exact.items():
        drawn = kfast.risk(state, confidence=0.999).chance(4, metric)
        assert (counted.method, drawn.method) == ("exact", "sampled")
        assert drawn.low <= counted.probability <= drawn.high
        assert drawn == kfast.risk(state, confidence=0.999).chance(4, metric)


def test_the_interval_is_that_of_clopper_and_pearson(monkeypatch):
    """As `scipy.stats` has it; also where every scenario is hit, and where none is."""
    monkeypatch.setattr(chances, "EXACT_WORK", -1)
    state = generate(brokers=40, partitions=300, placement="uniform")
    for down, scenarios in ((4, 400), (5, 7), (36, 50)):
        drawn = kfast.risk(state, scenarios=scenarios, confidence=0.95).chance(down)
        hits = round(drawn.probability * scenarios)
        interval = binomtest(hits, scenarios).proportion_ci(0.95, method="exact")
        assert (drawn.method, drawn.scenarios) == ("sampled", scenarios)
        assert isclose(drawn.low, interval.low, rel_tol=1e-9)
        assert isclose(drawn.high, interval.high, rel_tol=1e-9)
    assert drawn.probability == drawn.high == 1.0


def test_without_scipy_what_must_be_drawn_is_refused(monkeypatch):
    """And the message says what to install; what can be counted is counted."""
    monkeypatch.setattr(chances, "EXACT_WORK", -1)
    monkeypatch.setitem(sys.modules, "scipy", None)
    risk = kfast.risk(generate(brokers=40, partitions=300, placement="uniform"))
    assert risk.chance(3).method == "exact"
    with pytest.raises(MissingExtraError, match=r"pip install 'kfast\[stats\]'"):
        risk.chance(5)


# --- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_random_clusters(seed):
    """Brokers, copysets, worst groups, pairs, lost partitions, chances: as plain Python has it."""
    _, state = random_cluster(seed)
    before, found = state.digest(), kfast.risk(state)
    plain = reference.Plain(state)
    check_placement(state, plain, found)
    for k in (1, 2, 3):
        expected = plain.scored(k)
        listed = found.worst(k, 7).to_pylist()
        scores = [(r["newly_offline_if_clean"], r["newly_under_min_isr"]) for r in listed]
        assert scores == [score for score, _ in expected[:7]]
        for row in listed:
            taken = plain.lost(row["brokers"])
            for metric in RISK_METRICS:
                assert row[f"newly_{metric}"] == len(taken[metric])
                alone = plain.together(row["brokers"], metric)
                assert row[f"together_{metric}"] == alone
            table = found.lost(row["brokers"]).to_pylist()
            for metric in RISK_METRICS:
                assert {(r["topic"], r["partition"]) for r in table if r[metric]} == taken[metric]
    for down in range(min(3, len(plain.live)) + 1):
        expected = plain.chances(down)
        for row in found.chances([down]).to_pylist():
            any_lost, mean = map(float, expected[row["metric"]])
            assert isclose(row["any_probability"], any_lost, **EXACT)
            assert isclose(row["mean_partitions"], mean, **EXACT)
    assert state.digest() == before


def check_placement(state, plain, found):
    """Copysets, scatter widths, neighbours, and pairs."""
    sets = reference.replica_sets(state)
    distinct = {frozenset(some) for some in sets.values()}
    assert found.n_copysets == len(distinct)
    for row in found.copysets.to_pylist():
        factor = row["replication_factor"]
        assert row["copysets"] == sum(len(some) == factor for some in distinct)
        assert row["partitions"] == sum(len(some) == factor for some in sets.values())
        assert row["possible_copysets"] == comb(state.n_brokers, factor)
    shared = Counter(pair for some in sets.values() for pair in combinations(sorted(some), 2))
    for row in found.brokers.to_pylist():
        b = row["broker_id"]
        mine = {(set(pair) - {b}).pop(): n for pair, n in shared.items() if b in pair}
        assert row["scatter_width"] == len(mine)
        assert row["copysets"] == sum(b in some for some in distinct)
        assert row["partitions"] == sum(b in some for some in sets.values())
        assert row["closest_partitions"] == max(mine.values(), default=0)
        assert mine.get(row["closest_broker_id"], 0) == row["closest_partitions"]
        if row["live"]:
            for metric, taken in plain.lost([b]).items():
                assert row[f"newly_{metric}"] == len(taken)
    expected = []
    for a, b in combinations(plain.live, 2):
        taken = plain.lost([a, b])
        counts = (shared[a, b], len(taken["offline_if_clean"]), len(taken["under_min_isr"]))
        if any(counts):
            expected.append((a, b, *counts))
    assert [tuple(row.values()) for row in found.pairs.to_pylist()] == expected


@pytest.mark.parametrize("seed", range(6))
def test_pairs_lose_what_a_sweep_says(seed):
    """Beyond the baseline, on a started cluster with shrunken ISRs and a dead broker."""
    state = generate(brokers=9, partitions=80, replication_factor=1 + seed % 4, seed=seed,
                     placement="uniform", min_insync_replicas=1 + seed % 3)
    draws = np.random.default_rng(seed).integers(0, 255, state.n_partitions, np.uint8)
    state.records["isr"] = state.records["isr"] & (draws | 1)
    state.remove_live_brokers([4])
    state.recount()
    kfast.Controller(state).on_controller_failover()
    found, scenarios = kfast.risk(state), kfast.every_broker(state, k=2)
    baseline, *rows = kfast.sweep(state, scenarios).to_pylist()
    offsets, down = scenarios.down(0, len(scenarios))
    for row, start, stop in zip(rows, offsets[1:], offsets[2:], strict=False):
        lost = found.lost(state.broker_id[down[start:stop]].tolist())
        for metric in RISK_METRICS:
            assert row[metric] - baseline[metric] == sum(lost[metric].to_pylist())


@pytest.mark.parametrize("seed", range(20))
def test_add_shared_and_note_triples(seed):
    """Sums over pairs and triples of weighted sets, by adding up every triple."""
    generator = Random(seed)
    n, groups = random_sets(seed)
    sets = sets_of([(some, 1) for some, _ in groups])
    first, numbers = list_by_broker(sets.begin, sets.members, n)
    weight = np.array([generator.randint(-3, 9) for _ in groups], np.int64)
    alone = np.array([generator.randint(0, 5) for _ in range(n)], np.int64)
    pairs = np.zeros((n, n), np.int64)
    for a in range(n):
        kernel.add_shared(sets.begin, sets.members, weight, first, numbers, a, pairs[a])
        for b in range(n):
            both = sum(w for (some, _), w in zip(groups, weight, strict=True)
                       if a != b and a in some and b in some)
            assert pairs[a, b] == both
    scores, triples = np.zeros(4, np.int64), np.full((4, 3), -1, np.int32)
    link = np.zeros((n, n), np.int64)
    for a in range(n):
        kernel.note_triples(sets.begin, sets.members, weight, first, numbers, alone, pairs, link, a,
                            scores, triples)
    assert not link.any()
    every = []
    for way in combinations(range(n), 3):
        score = sum(alone[b] for b in way) + sum(pairs[a, b] for a, b in combinations(way, 2))
        score += sum(w for (some, _), w in zip(groups, weight, strict=True) if {*way} <= {*some})
        if score > 0:
            every.append((-score, way))
    best = sorted(every)[:4]
    assert [(-s, tuple(t)) for s, t in zip(scores, triples, strict=True) if s] == best


def test_empty_clusters():
    """Nothing can fail."""
    found = kfast.risk(ClusterState.from_tables())
    assert found.n_copysets == found.copysets.num_rows == found.brokers.num_rows == 0
    assert found.pairs.num_rows == 0
    assert [found.worst(k).num_rows for k in (1, 2, 3)] == [0, 0, 0]
    assert found.chance(0).probability == 0.0
    assert found.lost([]).num_rows == 0


@pytest.mark.parametrize(("ask", "words"), [
    (lambda r: r.worst(4), "k is 4: from 1 to 3 is allowed"),
    (lambda r: r.worst(2, 0), "top is 0"),
    (lambda r: r.chance(13), "down is 13: from 0 to 12 is allowed"),
    (lambda r: r.chances([1, -1]), "down is -1"),
    (lambda r: r.chance(1, "lost"), "metric 'lost' is unknown; these are: offline_if_clean"),
    (lambda r: r.lost([99]), "broker 99 is unknown"),
    (lambda r: kfast.risk(r.state, confidence=1.0), "confidence is 1.0"),
    (lambda r: kfast.risk(r.state, scenarios=0), "scenarios is 0"),
    (lambda r: kfast.risk(r.state, seed=0.5), "seed is 0.5: a whole number is needed"),
    (lambda _: loss_probability(1, brokers=3, down=4), "down is 4"),
    (lambda _: loss_probability(-1, brokers=3, down=1), "copysets is -1"),
    (lambda _: loss_probability(1, brokers=3, down=1, replication_factor=4), "replication_factor"),
])
def test_what_is_refused(ask, words):
    """With the argument, what was found and what is allowed."""
    with pytest.raises(ArgumentError, match=words):
        ask(kfast.risk(generate(brokers=12, partitions=40)))


def test_brokers_that_are_down_cannot_fail():
    """And triples of very many brokers are refused before any work."""
    state = generate(brokers=12, partitions=40)
    state.remove_live_brokers([3])
    with pytest.raises(ArgumentError, match="broker 3 is not live"):
        kfast.risk(state).lost([2, 3])
    with pytest.raises(ArgumentError, match="2049 brokers are live: triples of at most 2048"):
        kfast.risk(generate(brokers=2049, partitions=10)).worst(3)
