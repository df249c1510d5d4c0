"""Every range holds its central value, and no partition or second is lost on the way.

Source: docs/timeline.md, section "Validation".
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import kfast
from kfast.schema import TIMES, TIMES_IN_SECONDS
from kfast.timelines.failover import percentiles
from tests.timelines.test_twin import random_failure

CONTROLLERS = ["zk-3.9", "kraft-4.1", "kraft-3.5"]
LIMITS = {
    "params": {"epoch_sync": "100us,100us,29ms", "zk_write": "310us,140us,310us"},
    "settings": {"zookeeper.session.timeout.ms": 6000, "tickTime": 1000},
}
"""Parameters whose central value is at an end of their range."""


@pytest.mark.parametrize("options", [{}, LIMITS], ids=["defaults", "limits"])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_range_holds_its_central_value(controller, options):
    for seed in range(12):
        state, failing, _ = random_failure(seed, controller)
        found = kfast.timeline(state, failing, samples=9, seed=seed, **options)
        rows = [(name, row) for row in found.summary.to_pylist()
                for name in (*TIMES, *TIMES_IN_SECONDS) if row[name] is not None]
        rows += [(name, row) for row in found.stages.to_pylist()
                 for name in ("begin_us", "end_us")]
        for name, row in rows:
            low, value, high = row[f"{name}_low"], row[name], row[f"{name}_high"]
            assert low <= value <= high, (seed, name, row)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_central_sample_is_like_the_others(controller):
    """Its order of events is one of theirs: no measure is beyond all samples of its own."""
    for seed in range(3):
        state = kfast.generate(brokers=24, partitions=600, racks=3, controller=controller)
        failing = random.Random(seed).sample(state.broker_id.tolist(), 8)
        values = kfast.timeline(state, failing, seed=seed, samples=120).measures.values
        for name in ("detect_us", "decide_us", "led_p50_us", "led_max_us", "isr_max_us",
                     "leaderless_partition_s", "stalled_partition_s"):
            central, drawn = int(values[name][0]), values[name][1:]
            assert drawn.min() <= central <= drawn.max(), (seed, name)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_partitions_and_their_time_are_conserved(controller):
    for seed in range(12):
        state, failing, fails = random_failure(seed, controller)
        found = kfast.timeline(
            state, failing, samples=5, seed=seed, controller_fails=fails and state.is_kraft
        )
        measures, before = found.measures, kfast.fail_brokers(state, [])
        leaders = before.state.records["leader"]
        gone = np.flatnonzero(np.isin(state.broker_id, failing))
        lost = int(np.isin(leaders, gone).sum())
        after = kfast.fail_brokers(state, failing).state.records["leader"]
        assert measures.lost_partitions == lost, seed
        assert measures.offline_partitions == int((np.isin(leaders, gone) & (after < 0)).sum())
        led = lost - measures.offline_partitions
        values = measures.values
        assert (values["leaderless_partition_s"] >= led * values["detect_us"]).all()
        if led:
            assert (values["leaderless_partition_s"] <= led * values["led_max_us"]).all()
            assert (values["served_p50_us"] >= values["led_p50_us"]).all()
            assert (values["served_p99_us"] >= values["led_p99_us"]).all()


def test_percentiles_hold_a_central_value_beyond_them():
    assert percentiles(np.array([5, 7, 8, 9])) == (5, 5, 9)
    assert percentiles(np.array([12, 7, 8, 9])) == (12, 7, 12)
    assert percentiles(np.arange(-1, 101)) == (-1, -1, 95)
