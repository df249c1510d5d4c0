"""Rebalances that look at marked rows only, and brokers that catch up in one visit.

The kernels are `recheck_leaders` of `kfast.kernels.census` and `catch_up_hosted` of
`kfast.kernels.isr`.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import kfast
from kfast.errors import InvariantError
from kfast.kernels import census
from kfast.state.leader_survey import survey_leaders
from kfast.state.mutators import widen
from kfast.testing.invariants import check
from tests.rules.test_fused_events import open_cluster
from tests.support.kernel_calls import LAYOUTS


def cluster(seed, layout="narrow"):
    """A started cluster of some topics, with unclean election in a part of them."""
    state = kfast.generate(
        brokers=9, partitions=300, replication_factor=3, seed=seed, unclean_topics=0.3, topics=7
    )
    if layout == "wide":
        widen(state)
    kfast.Controller(state, journal="off").on_controller_failover()
    return state


def some_event(controller, generator):
    """One of the events that move leaders."""
    state = controller.state
    up = state.broker_id[state.registered].tolist()
    down = state.broker_id[~state.registered].tolist()
    kind = generator.choice(["stop", "start", "shut", "catch", "elect", "reassign", "unclean"])
    if kind == "stop" and up:
        return controller.on_broker_failure(generator.sample(up, generator.randint(1, len(up))))
    if kind == "start" and down:
        return controller.on_broker_startup(generator.sample(down, generator.randint(1, len(down))))
    if kind == "shut" and up:
        return controller.controlled_shutdown(generator.choice(up))
    if kind == "elect":
        return controller.elect_leaders()
    if kind == "reassign":
        name = state.topic[generator.randrange(state.n_topics)].as_py()
        return controller.alter_partition_reassignments({(name, 0): generator.sample(range(9), 3)})
    if kind == "unclean":
        return controller.enable_unclean_leader_election()
    return controller.catch_up(generator.sample(up, len(up) // 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rebalance_of_marked_rows_is_one_of_all_rows(layout):
    """After every event a copy, which has no survey, finds and does the same."""
    surveyed = 0
    for seed in range(8):
        generator = Random(seed)
        state = cluster(seed, layout)
        controller = kfast.Controller(state)
        controller.rebalance_leaders()
        for _ in range(14):
            some_event(controller, generator)
            check(state)
            surveyed += state.survey is not None
            other = state.copy()
            wanted = kfast.Controller(other).rebalance_leaders(20)
            found = controller.rebalance_leaders(20)
            assert found.imbalance == wanted.imbalance
            assert found.counts == wanted.counts
            assert found.actions == wanted.actions
            assert state.difference(other) is None
    assert surveyed > 30


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("profile", ["zk-3.9", "zk-2.4", "zk-2.0"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_rebalance_in_one_pass_is_one_broker_after_the_other(layout, profile, threads):
    """A full journal takes the brokers one by one; steps, requests and states are the same."""
    n_rebalanced = 0
    for seed in range(8):
        generator, made = Random(seed), open_cluster if seed % 2 and profile > "zk-2.0" else cluster
        together, apart = made(seed, layout), made(seed, layout)
        pair = [
            kfast.Controller(together, profile=profile, threads=threads),
            kfast.Controller(apart, profile=profile, journal="full"),
        ]
        for controller in pair:
            controller.on_controller_failover()
        for _ in range(6):
            moves, percentage = generator.random(), generator.choice([0, 0, 25])
            outcomes = []
            for controller in pair:
                alike = Random(moves)
                for _ in range(3):
                    some_event(controller, alike)
                state = controller.state
                controller.on_broker_startup(state.broker_id[~state.registered][:3].tolist())
                controller.catch_up(state.broker_id[state.registered].tolist())
                outcomes.append(controller.rebalance_leaders(percentage))
            one, other = outcomes
            assert one.imbalance == other.imbalance
            assert (one.actions, one.rebalanced) == (other.actions, other.rebalanced)
            assert one.counts == other.counts
            assert one.request_counts == other.request_counts
            assert together.difference(apart) is None
            n_rebalanced += len(one.rebalanced)
    assert n_rebalanced > 30


def test_recheck_leaders_keeps_the_bits_of_rows_that_others_lead():
    """The kernel by itself, on every row and on those that a survey lists."""
    state = cluster(3)
    kfast.Controller(state).on_broker_failure([2, 5])
    preferred, others, rows = survey_leaders(state)
    every = np.arange(state.n_partitions, dtype=np.int32)
    bits = np.full_like(state.pending, ~np.uint64(0))
    counted, found = np.zeros(state.n_brokers, np.int64), np.empty(every.size, np.int32)
    n = census.recheck_leaders(state.columns, every, bits, counted, found)
    first = state.replicas[:, 0].astype(np.int64)
    led = np.flatnonzero(state.records["leader"] != first)
    assert found[:n].tolist() == rows.tolist() == led.tolist()
    assert counted.tolist() == others.tolist()
    assert preferred.tolist() == np.bincount(first, minlength=state.n_brokers).tolist()
    assert state.list_marked(bits)[:n].tolist() == led.tolist()


def test_a_leader_that_moves_unmarked_is_noticed():
    """The rule that random events check can fail."""
    state = cluster(1)
    kfast.Controller(state).rebalance_leaders()
    check(state)
    state.records["leader"][5] = state.replicas[5, 1]
    state.preferred_imbalance_count += 1
    with pytest.raises(InvariantError, match="survey"):
        check(state)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("profile", ["zk-3.9", "zk-2.4", "zk-2.0"])
def test_brokers_catch_up_in_one_visit_as_leader_by_leader(layout, profile):
    """A full journal takes the reports leader by leader; answers, steps and states are the same."""
    n_visited = 0
    for seed in range(10):
        made = open_cluster if seed % 2 and profile != "zk-2.0" else cluster
        together, apart = made(seed, layout), made(seed, layout)
        generator = Random(seed)
        pair = [
            kfast.Controller(together, profile=profile),
            kfast.Controller(apart, profile=profile, journal="full"),
        ]
        ids = together.broker_id.tolist()
        for controller in pair:
            controller.on_controller_failover()
        for _ in range(3):
            up = together.broker_id[together.registered].tolist()
            down = generator.sample(up, len(up) // 2)
            back = generator.sample(ids, generator.randint(1, len(ids)))
            for controller in pair:
                controller.on_broker_failure(down)
                controller.on_broker_startup(down)
            one, other = (controller.catch_up(back) for controller in pair)
            assert one.altered.tolist() == other.altered.tolist()
            assert one.alter_codes.tolist() == other.alter_codes.tolist()
            assert (one.actions, one.error) == (other.actions, other.error)
            assert one.request_counts == other.request_counts
            assert together.difference(apart) is None
            n_visited += one.altered.size if not together.n_reassigned else 0
    assert n_visited > 1000
