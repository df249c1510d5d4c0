"""Published and live rows with default parameters, each within its factor.

Source: docs/timeline.md, section "Validation".
"""

from __future__ import annotations

import pytest

import kfast
from kfast.errors import ArgumentError


def row_of(state, *args, **options):
    return kfast.timeline(state, *args, samples=40, **options).summary.to_pylist()[0]


def within(value, published, factor):
    return published / factor <= value <= published * factor


@pytest.mark.parametrize(("controller", "topics", "partitions", "rf", "published", "factor"), [
    ("zk-1.0", 2_000, 100_000, 1, 28.0, 1.6),
    ("zk-1.1", 2_000, 100_000, 1, 14.0, 1.6),
    ("zk-1.0", 100_000, 100_000, 1, 59.6, 1.3),
    ("zk-1.1", 22_000, 140_000, 1, 9.9, 3.0),
])
def test_controller_failovers_take_as_long_as_published(
    controller, topics, partitions, rf, published, factor
):
    """From the controller's event to its last decision, the dead broker's partitions aside."""
    state = kfast.generate(
        brokers=100, partitions=partitions, topics=topics, replication_factor=rf,
        controller=controller,
    )
    stages = kfast.timeline(state, [7], controller_fails=True, samples=1).stages.to_pylist()
    start = sum(
        row["end_us"] - row["begin_us"] for row in stages
        if row["broker_id"] is None and row["stage"].startswith(("context", "all replicas"))
    )
    assert within(start / 1e6, published, factor), start


def test_linkedins_failover_of_more_than_200_000_partitions_is_shorter_here():
    """About 60 s, of which they blame a slow traversal of the store: not fitted."""
    state = kfast.generate(brokers=200, partitions=200_000, controller="zk-1.1")
    stages = kfast.timeline(state, [7], controller_fails=True, samples=1).stages.to_pylist()
    start = sum(
        row["end_us"] - row["begin_us"] for row in stages
        if row["broker_id"] is None and row["stage"].startswith(("context", "all replicas"))
    )
    assert within(start / 1e6, 60.0, 2.5), start


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "controller_fails", "published"), [
    ("zk-2.8", True, 503.0), ("kraft-4.1", False, 37.0),
])
def test_the_laboratorys_failures_are_consistent(controller, controller_fails, published):
    """2 M partitions; 14 brokers, RF 3 and the placement are chosen."""
    state = kfast.generate(
        brokers=14, partitions=2_000_000, controller=controller, placement="uniform"
    )
    found = kfast.timeline(state, [3], controller_fails=controller_fails, samples=1)
    row = found.summary.to_pylist()[0]
    assert within(row["led_max_us"] / 1e6, published, 2), row["led_max_us"]


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "failing", "measured"), [
    ("zk-3.9", 1, 0.382), ("zk-3.9", 100, 23.0), ("kraft-4.1", 1, 0.070), ("kraft-4.1", 100, 8.2),
])
def test_the_controllers_own_work_is_that_of_kafkas_classes(controller, failing, measured):
    """A broker and a rack of 100 of 300, 1 M partitions; without what is stored and sent."""
    state = kfast.generate(brokers=300, partitions=1_000_000, racks=3, controller=controller)
    free = {"zk_read": "0us", "zk_write": "0us", "zk_rtt": "0us", "zk_entry": "0us"}
    brokers = state.broker_id[17:18] if failing == 1 else state.broker_id[::3]
    assert brokers.size == failing
    found = kfast.timeline(state, brokers.tolist(), params=free, samples=1)
    work = sum(
        row["end_us"] - row["begin_us"] for row in found.stages.to_pylist()
        if row["broker_id"] is None and not row["stage"].startswith(("commit", "fetch"))
    )
    assert within(work / 1e6, measured, 1.6), work


@pytest.mark.parametrize(("controller", "led", "low", "high"), [
    ("zk-3.9", 17.6, 13.5, 23.0), ("kraft-4.1", 8.7, 7.1, 10.4),
])
def test_growth_table_of_a_broker_of_300(controller, led, low, high):
    state = kfast.generate(brokers=300, partitions=1_000_000, controller=controller)
    row = kfast.timeline(state, [17]).summary.to_pylist()[0]
    assert abs(row["led_max_us"] / 1e6 - led) < 0.1
    assert low <= row["led_max_us_low"] / 1e6 <= row["led_max_us_high"] / 1e6 <= high


@pytest.mark.parametrize(("controller", "session", "seen"), [
    ("kraft-4.1", {"broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 1000},
     (5983, 5375, 5389, 5296, 5692, 6292)),
    ("zk-3.9", {"zookeeper.session.timeout.ms": 6000, "tickTime": 1000},
     (5434, 5102, 6505, 5280, 6280)),
])
def test_live_detections_are_within_the_range(controller, session, seen):
    state = kfast.generate(brokers=5, partitions=100, controller=controller)
    values = kfast.timeline(state, [2], settings=session, samples=400).measures.values["detect_us"]
    assert all(values.min() / 1000 <= one <= values.max() / 1000 for one in seen)


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_without_costs_all_are_led_when_the_failure_is_found(controller):
    state = kfast.generate(brokers=6, partitions=200, controller=controller)
    free = dict.fromkeys(kfast.timeline(state, [1]).parameters["name"].to_pylist(), "0us")
    row = row_of(state, [1], params=free)
    assert row["led_max_us"] == row["first_led_us"] == row["detect_us"]


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_no_result_falls_when_a_cost_rises(controller):
    """With one event; takes of several events may be fewer where a cost is higher."""
    state = kfast.generate(brokers=6, partitions=200, controller=controller)
    before = row_of(state, [1])
    for name in kfast.timeline(state, [1]).parameters["name"].to_pylist():
        unit = kfast.timeline(state, [1]).question.params[name]
        after = row_of(state, [1], params={name: f"{2 * unit.value}{unit.unit}"})
        for measure in ("detect_us", "led_p50_us", "led_max_us", "isr_max_us", "served_p99_us"):
            assert after[measure] >= before[measure], (name, measure)


@pytest.mark.parametrize(("options", "message"), [
    ({"params": {"epoch_sink": "1ms"}}, "the nearest is epoch_sync"),
    ({"params": {"epoch_sync": "-1ms"}}, "cannot be negative"),
    ({"params": {"epoch_sync": "nan"}}, "right is a time with its unit"),
    ({"params": {"log_sync": "1.5us"}}, "kept in whole us"),
    ({"params": {"epoch_sync": "1ms,2ms,3ms"}}, "low <= value <= high"),
    ({"settings": {"broker.session.timeout.ms": 1000}}, "shorter than the heartbeats"),
    ({"settings": {"zookeeper.session.timeout.ms": 3000}}, "no less than two ticks"),
    ({"horizon": "0s"}, "horizon is 0"),
    ({"horizon": "999999999999h"}, "2.62"),
    ({"loss": "rack"}, "process or host"),
])
def test_wrong_arguments_are_refused_by_name(options, message):
    state = kfast.generate(brokers=3, partitions=3)
    with pytest.raises(ArgumentError, match=message):
        kfast.timeline(state, [1], **options)
