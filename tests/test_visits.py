"""Events in one visit to each partition are the events step by step.

The kernels are `fail_hosted`, `start_hosted` and `shut_down_hosted` of `kfast.kernels.visits`.
"""

from __future__ import annotations

from random import Random

import pytest

import kfast
from kfast import profiles
from tests.random_clusters import random_context
from tests.twin_state import state_of

PROFILES = [name for name, p in profiles.PROFILES.items() if not p.blames_dead_brokers]


def open_cluster(seed, layout):
    """A random cluster in which no topic is queued for deletion."""
    ctx = random_context(Random(seed))
    ctx.topics_to_delete.clear()
    ctx.topics_deletion_started.clear()
    ctx.offline_dir_replicas.clear()
    return state_of(ctx, layout)


def failures(state, seed, **options):
    """Outcomes of some failures, and of startups between them."""
    generator = Random(seed)
    controller = kfast.Controller(state, **options)
    outcomes = [controller.on_controller_failover()] if generator.random() < 0.5 else []
    for _ in range(4):
        up = state.broker_id[state.registered].tolist()
        down = state.broker_id[~state.registered].tolist()
        failed = generator.sample(up, generator.randint(0, len(up)))
        outcomes.append(controller.on_broker_failure(failed))
        outcomes.append(controller.on_broker_startup(generator.sample(down, len(down) // 2)))
        left = [broker for broker in up if broker not in failed]
        outcomes += [controller.controlled_shutdown(broker) for broker in left]
    return outcomes


@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_failure_in_one_visit_is_the_failure_step_by_step(layout, profile):
    """States, steps, counts and requests are the same; a full journal goes step by step."""
    n_visited = 0
    for seed in range(16):
        together, apart = open_cluster(seed, layout), open_cluster(seed, layout)
        threads = 1 + seed % 2
        fused = failures(together, seed, journal="counts", profile=profile, threads=threads)
        stepwise = failures(apart, seed, journal="full", profile=profile)
        assert together.difference(apart) is None
        assert together.digest() == apart.digest()
        for one, other in zip(fused, stepwise, strict=True):
            assert one.actions == other.actions
            assert one.counts == other.counts
            assert one.remaining.tolist() == other.remaining.tolist()
            assert one.request_counts == other.request_counts
            n_visited += one.event == "on_broker_failure"
    assert n_visited == 64


def test_without_a_journal_the_state_is_the_same():
    """The level `off` counts nothing, and changes as much."""
    for seed in range(16):
        silent, loud = open_cluster(seed, "narrow"), open_cluster(seed, "narrow")
        outcomes = failures(silent, seed, journal="off")
        failures(loud, seed, journal="full")
        assert silent.difference(loud) is None
        assert all(not outcome.counts.requests["LeaderAndIsr"] for outcome in outcomes)
