"""Sweeps against the controller, scenario by scenario."""

from __future__ import annotations

from random import Random

import pytest

import kfast
from kfast import Controller
from kfast.errors import ArgumentError
from kfast.kernels import sweep as kernel

from .test_impact import random_cluster
from .twin_sweep import expected_row

pytestmark = pytest.mark.kernels

VECTORS = [name for name, words in (("words", 1), ("avx2", 4), ("avx512", 8))
           if words <= kernel.widest()]
"""`widest` says which vectors this machine has."""


def starts(state):
    """Whether a controller can start: now and then a reassignment makes Kafka's own fail."""
    controller = Controller(state.copy())
    controller.on_controller_failover()
    return controller.active


def compare(seed):
    """Six scenarios of one random cluster; whether its controller could start at all."""
    generator = Random(seed)
    state = random_cluster(seed, generator.choice(["narrow", "wide"]))[1]
    p = generator.choice([0.1, 0.3, 0.6, 0.9])
    scenarios = kfast.independent_brokers(state, p, 6, seed)
    if not starts(state):
        with pytest.raises(ArgumentError, match="the controller cannot start on this state"):
            kfast.sweep(state, scenarios)
        return False
    plan = kfast.prepare_sweep(state)
    table = kfast.sweep(plan, scenarios, vectors=generator.choice(VECTORS)).to_pylist()
    for number, row in enumerate(table):
        down = scenarios.brokers(number)
        expected = {"scenario": number, **expected_row(state, down)}
        assert row == expected, f"seed {seed}, brokers {down}"
    return True


def test_a_sweep_is_the_controller_run_scenario_by_scenario():
    """Clusters with dead brokers, queued topics, reassignments, newer records, odd ISRs.

    All kernels together: `find_shapes`, `write_sequences`, `count_dense`; `count_heirs`,
    `list_heirs`, `lead_dense`.
    """
    assert sum(compare(seed) for seed in range(120)) > 90


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 10_800, 450))
def test_a_sweep_is_the_controller_on_ten_thousand_clusters(start):
    """10 000 clusters and more whose controller starts; 60 000 scenarios."""
    assert sum(compare(seed) for seed in range(start, start + 450)) > 416
