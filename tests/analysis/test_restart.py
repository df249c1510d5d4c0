"""Who may restart now, and the fewest batches: `kfast.may_restart` and `kfast.restart_plan`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import ArgumentError, ClusterState, generate, may_restart, restart_plan
from kfast.analysis.batch_coloring import find_batches
from kfast.analysis.restart_readiness import CAUSES
from tests.analysis.test_impact import random_cluster
from tests.support import reference_planning as reference
from tests.support.kernel_calls import LAYOUTS
from tests.support.states import read_state

pytestmark = pytest.mark.kernels


def batches_of(plan):
    """Batches as lists of broker ids."""
    return plan.batches["brokers"].to_pylist()


def three_racks(*lines, min_isr=2, **more):
    """Six brokers in three racks: 1,2 in a, 3,4 in b, 5,6 in c."""
    text = "partition ar isr leader epoch\n" + "\n".join(lines)
    state = read_state(text, brokers=range(1, 7), default_min_insync_replicas=min_isr, **more)
    state.rack = pa.array(["a", "a", "b", "b", "c", "c"])
    return state


RACK_AWARE = (
    "t-0 1,3,5 1,3,5 1 0", "t-1 2,4,6 2,4,6 2 0", "t-2 1,4,5 1,4,5 1 0", "t-3 2,3,6 2,3,6 2 0",
    "t-4 1,4,6 1,4,6 1 0", "t-5 2,3,5 2,3,5 2 0", "t-6 1,3,6 1,3,6 1 0", "t-7 2,4,5 2,4,5 2 0",
)


@pytest.mark.parametrize("by_rack", [False, True])
def test_three_racks_restart_in_three_batches(by_rack):
    """Rack-aware RF 3, min ISR 2, margin 0: brokers that share no partition are a rack's."""
    plan = restart_plan(three_racks(*RACK_AWARE), by_rack=by_rack, seconds_per_broker=90)
    assert batches_of(plan) == [[1, 2], [3, 4], [5, 6]]
    assert plan.batches["racks"].to_pylist() == [["a"], ["b"], ["c"]]
    assert (plan.n_batches, plan.lower_bound, plan.is_optimal) == (3, 3, True)
    assert (plan.total_s, plan.one_by_one_s) == (270, 540)
    assert plan.batches["starts_after_s"].to_pylist() == [0, 90, 180]
    assert plan.batches["ends_after_s"].to_pylist() == [90, 180, 270]
    assert plan.readiness.counts["may_restart"] == 6
    assert plan.harm.tolist() == [[0, 0]] * 3


def test_a_margin_of_one_leaves_nothing():
    """RF 3 has one above min ISR 2; with a margin of 1 nobody may restart, and the plan says so."""
    plan = restart_plan(three_racks(*RACK_AWARE), isr_margin=1)
    assert plan.readiness.counts["unsatisfiable_isr_margin"] == 8
    assert plan.readiness.counts["may_not_restart"] == 6
    assert plan.n_batches == 3
    assert plan.harm.tolist() == [[0, 0]] * 3


def test_min_isr_1_lets_two_racks_go_together():
    """A partition of three can spare two, so one rack is enough to stay up."""
    plan = restart_plan(three_racks(*RACK_AWARE, min_isr=1))
    assert plan.n_batches == plan.lower_bound == 2
    assert restart_plan(three_racks(*RACK_AWARE, min_isr=1), by_rack=True).n_batches == 3
    assert restart_plan(three_racks(*RACK_AWARE, min_isr=1), isr_margin=1).n_batches == 3


@pytest.mark.parametrize(("min_isr", "margin", "batches"), [(1, 0, 2), (2, 0, 2), (3, 0, 3),
                                                            (4, 0, 5), (3, 1, 5), (2, 1, 3)])
def test_rf_5(min_isr, margin, batches):
    """Five brokers, RF 5: a batch may have as many as are above min ISR and margin."""
    state = read_state("""
        partition  ar         isr        leader  epoch
        t-0        1,2,3,4,5  1,2,3,4,5  1       0
    """, default_min_insync_replicas=min_isr)
    plan = restart_plan(state, margin)
    assert plan.n_batches == plan.lower_bound == batches
    assert max(map(len, batches_of(plan))) == min(5 - min_isr - margin, 5)


def test_a_shrunken_isr_forbids_its_members_only():
    """ISR 1,3 of 1,3,5 with min ISR 2: 1 and 3 must wait, 5 may go; the cause will pass."""
    state = three_racks("t-0 1,3,5 1,3 1 0", *RACK_AWARE[1:])
    found = may_restart(state)
    may = dict(zip(state.broker_id.tolist(), found.may_restart.tolist(), strict=True))
    assert may == {1: False, 2: True, 3: False, 4: True, 5: True, 6: True}
    assert found.forbidding(5).num_rows == 0
    assert found.forbidding(1).to_pylist() == [
        {"topic": "t", "partition": 0, "partition_row": 0, "replicas": [1, 3, 5], "isr": [1, 3],
         "in_sync": 2, "min_isr": 2, "min_insync_replicas": 2, "set_by": "brokers", "spare": 0,
         "cause": "isr"}
    ]
    plan = restart_plan(state)
    assert plan.n_batches == 3
    harmful = plan.batches.filter(plan.batches["newly_under_min_isr"].to_numpy() > 0)
    assert harmful["batch"].to_pylist() == [2, 3]
    assert {1, 3} <= {b for batch in harmful["brokers"].to_pylist() for b in batch}


def test_what_no_order_can_satisfy_is_listed_with_the_setting():
    """RF 1, and min ISR as large as RF: apart, with the setting; they do not raise the batches."""
    state = three_racks(*RACK_AWARE, "one-0 6 6 6 0", "all-0 1,4 1,4 1 0", "gone-0 2,4 - - -")
    plan = restart_plan(state)
    assert plan.n_batches == 3
    assert plan.readiness.topics.to_pylist() == [
        {"topic": "one", "cause": "replication_factor", "partitions": 1, "replication_factor": 1,
         "min_insync_replicas": 2, "set_by": "brokers"},
        {"topic": "all", "cause": "min_insync_replicas", "partitions": 1, "replication_factor": 2,
         "min_insync_replicas": 2, "set_by": "brokers"},
        {"topic": "gone", "cause": "min_insync_replicas", "partitions": 1,
         "replication_factor": 2, "min_insync_replicas": 2, "set_by": "brokers"},
    ]
    assert plan.readiness.partitions["cause"].to_pylist() == [
        "replication_factor", "min_insync_replicas", "min_insync_replicas",
    ]
    rows = {row["broker_id"]: row for row in plan.brokers.to_pylist()}
    assert rows[6]["last_in_sync"] == rows[6]["forbidding_replication_factor"] == 1
    assert rows[1]["forbidding_min_insync_replicas"] == 1
    harm = {tuple(row["brokers"]): (row["newly_under_min_isr"], row["newly_offline"])
            for row in plan.batches.to_pylist()}
    assert harm == {(1, 2): (1, 0), (3, 4): (1, 0), (5, 6): (1, 1)}
    assert batches_of(plan)[-1] == [5, 6]


def test_partitions_that_cannot_be_satisfied_bound_no_batch_on_request():
    """Min ISR = RF: one member at a time, or together when they are ignored."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  1       0
        u-0        2,3  2,3  2       0
    """, default_min_insync_replicas=2)
    assert restart_plan(state).n_batches == 2
    plan = restart_plan(state, ignore_unsatisfiable=True)
    assert (plan.n_batches, plan.harm.tolist()) == (1, [[2, 2]])
    assert plan.readiness.counts["unsatisfiable"] == 2


def test_brokers_that_are_not_live_are_not_planned():
    """Neither those that are down, nor those that are shutting down; their ISR places are lost."""
    state = read_state("""
        partition  ar       isr      leader  epoch
        t-0        1,2,3,4  1,2,3,4  1       0
    """, down=[3], shutting_down=[4], default_min_insync_replicas=1)
    plan = restart_plan(state)
    assert sorted(map(tuple, batches_of(plan))) == [(1,), (2,)]
    assert plan.brokers["broker_id"].to_pylist()[2:] == [3, 4]
    assert plan.brokers["batch"].to_pylist() == [1, 2, None, None]
    assert plan.counts["brokers"] == 2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(60))
def test_random_clusters(seed, layout):
    """Readiness by its definition; batches allowed, and as few as trying all ways gives."""
    _, state = random_cluster(seed, layout)
    before = state.digest()
    for margin in (0, 1):
        found = may_restart(state, margin)
        expected = reference.forbidding(state, margin)
        rows = {row["broker_id"]: row for row in found.brokers.to_pylist()}
        assert {b for b, row in rows.items() if row["live"]} == set(expected)
        for b, partitions in expected.items():
            assert rows[b]["may_restart"] == (not partitions)
            assert rows[b]["forbidding"] == len(partitions)
            listed = found.forbidding(b).to_pylist()
            assert {(row["topic"], row["partition"]) for row in listed} == partitions
        live = sorted(expected)
        for ignore in (False, True):
            plan = restart_plan(state, margin, ignore_unsatisfiable=ignore)
            limits = reference.limits_of(state, margin, ignore)
            assert sorted(b for batch in batches_of(plan) for b in batch) == live
            assert reference.is_allowed(batches_of(plan), limits)
            assert plan.lower_bound <= plan.n_batches
            if len(live) <= 7:
                assert plan.is_optimal
                assert plan.n_batches == reference.fewest_batches(live, limits)
    assert state.digest() == before


@pytest.mark.parametrize("seed", range(20))
def test_rack_by_rack(seed):
    """Each batch within one rack, racks one after the other, each with the fewest batches."""
    state = generate(brokers=7, partitions=12, racks=2, replication_factor=3, seed=seed,
                     min_insync_replicas=1 + seed % 2, placement="uniform")
    plan = restart_plan(state, by_rack=True)
    racks = plan.batches["racks"].to_pylist()
    assert racks == sorted(racks)
    assert all(len(rack) == 1 for rack in racks)
    limits = reference.limits_of(state, 0)
    assert reference.is_allowed(batches_of(plan), limits)
    fewest = 0
    for rack in ("a", "b"):
        inside = [int(b) for b, name in zip(state.broker_id, state.rack, strict=True)
                  if name.as_py() == rack]
        fewest += reference.fewest_batches(inside, limits)
    assert plan.n_batches == plan.lower_bound == fewest


def test_a_ring_needs_one_batch_more_than_its_cliques():
    """100 brokers, replicas on i, i+1, i+2: no three batches, for 3 does not divide 100."""
    plan = restart_plan(generate(brokers=100, partitions=100, placement="ring",
                                 min_insync_replicas=2))
    assert plan.n_batches == plan.lower_bound == 4
    plan = restart_plan(generate(brokers=99, partitions=99, placement="ring",
                                 min_insync_replicas=2))
    assert plan.n_batches == plan.lower_bound == 3


def test_a_search_beats_the_greedy_orders_and_more_work_never_hurts():
    """200 brokers, 600 random partitions: results depend on the work alone."""
    state = generate(brokers=200, partitions=600, min_insync_replicas=2, placement="uniform")
    greedy = restart_plan(state, work=0)
    better = restart_plan(state, work=10_000_000)
    assert better.n_batches < greedy.n_batches
    assert batches_of(better) == batches_of(restart_plan(state, work=10_000_000))
    assert reference.is_allowed(batches_of(better), reference.limits_of(state, 0))


def test_large_clusters_keep_every_limit():
    """300 brokers, where limits are 1 and where they are 2 to 3; checked row by row."""
    for shape in ({"racks": 3, "min_insync_replicas": 2}, {"min_insync_replicas": 1},
                  {"replication_factor": 5, "min_insync_replicas": 2}):
        state = generate(brokers=300, partitions=20_000, **shape)
        plan = restart_plan(state, work=5_000_000)
        spare = state.n_slots - shape["min_insync_replicas"]
        in_batch = np.sort(plan.batch[state.replicas.astype(int)], axis=1)
        assert in_batch.min() >= 0
        assert (in_batch[:, spare:] != in_batch[:, : state.n_slots - spare]).all()
        assert plan.lower_bound <= plan.n_batches


def test_empty_clusters():
    """No broker, no partition: no batch; brokers without partitions: one batch."""
    plan = restart_plan(ClusterState.from_tables())
    assert (plan.n_batches, plan.lower_bound, plan.batches.num_rows) == (0, 0, 0)
    brokers = pa.table({"broker_id": pa.array([1, 2, 3], pa.int32())})
    plan = restart_plan(ClusterState.from_tables(brokers))
    assert batches_of(plan) == [[1, 2, 3]]
    assert plan.is_optimal
    assert plan.readiness.partitions.num_rows == plan.readiness.topics.num_rows == 0


@pytest.mark.parametrize(("arguments", "words"), [
    ({"isr_margin": -1}, "isr_margin is -1: from 0 to 63 is allowed"),
    ({"isr_margin": 1.5}, "isr_margin is 1.5: a whole number is needed"),
    ({"seconds_per_broker": -2}, "seconds_per_broker is -2: a number from 0 to .* is allowed"),
    ({"seconds_per_broker": float("nan")}, "seconds_per_broker is nan"),
    ({"work": -1}, "work is -1"),
    ({"by_rack": True}, "brokers without a rack: 1, 2, 3"),
])
def test_what_is_refused(arguments, words):
    """Before any work, with what was found and what is allowed."""
    state = read_state("partition ar isr leader epoch\nt-0 1,2,3 1,2,3 1 0")
    with pytest.raises(ArgumentError, match=words):
        restart_plan(state, **arguments)
    with pytest.raises(ArgumentError, match="broker 9 is unknown"):
        may_restart(state).forbidding(9)


def test_too_many_brokers_are_refused():
    """Their batches would take the square of their number in memory."""
    brokers = pa.table({"broker_id": pa.array(range(8193), pa.int32())})
    with pytest.raises(ArgumentError, match="8193 brokers are live: at most 8192"):
        restart_plan(ClusterState.from_tables(brokers))


def test_every_cause_is_said():
    """`CAUSES` names the columns of the counts; no broker in no limit needs a search."""
    assert {f"unsatisfiable_{name}" for name in CAUSES} < set(
        kfast.may_restart(ClusterState.from_tables()).counts
    )
    none = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32)
    assert find_batches(*none, np.zeros(3, np.int32)).n_batches == 1
