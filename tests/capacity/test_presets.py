"""Limits that others publish: constants with their sources, and AWS's equation in a sweep."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

import kfast
from kfast.capacity import PRESETS
from kfast.capacity.failures.limits import NORMAL_LIMITS
from tests.capacity.test_partition_loads import BROKERS, cluster, loads

MSK_REPLICAS = {
    "t3.small": 300,
    "m5.large": 1000, "m5.xlarge": 1000, "m5.2xlarge": 2000, "m5.4xlarge": 4000,
    "m5.8xlarge": 4000, "m5.12xlarge": 4000, "m5.16xlarge": 4000, "m5.24xlarge": 4000,
    "m7g.large": 1000, "m7g.xlarge": 1000, "m7g.2xlarge": 2000, "m7g.4xlarge": 4000,
    "m7g.8xlarge": 4000, "m7g.12xlarge": 4000, "m7g.16xlarge": 4000,
}
"""Recommended partitions, leaders and followers, per broker.

Source: Amazon MSK, Best practices for Standard brokers, "Right-size your cluster: Number of
partitions per Standard broker".
"""


def test_msk_recommends_partitions_and_processors():
    """CPU below 60 %. Source: Amazon MSK, Best practices for Standard brokers, "Monitor CPU"."""
    msk = {name: preset for name, preset in PRESETS.items() if name.startswith("kafka.")}
    assert {name: preset.replicas_limit for name, preset in msk.items()} == {
        f"kafka.{size}": replicas for size, replicas in MSK_REPLICAS.items()}
    for preset in msk.values():
        assert preset.normal_limits == {"cpu": 0.6}
        assert "Amazon MSK, Best practices for Standard brokers" in preset.source


def test_cruise_control_has_one_set_of_limits():
    """The same with and without a failure.

    Source: Cruise Control, AnalyzerConfig: `disk.capacity.threshold` 0.8,
    `network.inbound.capacity.threshold` 0.8, `network.outbound.capacity.threshold` 0.8,
    `cpu.capacity.threshold` 0.7, `max.replicas.per.broker` 10000.
    """
    preset = PRESETS["cruise-control"]
    assert preset.normal_limits == preset.failed_limits == {
        "nw_in": 0.8, "nw_out": 0.8, "cpu": 0.7, "disk": 0.8}
    assert {name: points / 10_000 for name, points in NORMAL_LIMITS.items()} == preset.normal_limits
    assert preset.replicas_limit == 10_000
    assert "AnalyzerConfig" in preset.source


def test_netflix_keeps_bandwidth_for_recovery():
    """Network is bandwidth * 1.40, disk state * 2.5.

    Source: Netflix, service-capacity-modeling, models/org/netflix/kafka.py,
    `_estimate_kafka_requirement`.
    """
    limits = PRESETS["netflix"].normal_limits
    assert limits["disk"] == 1 / 2.5
    for name in ("nw_in", "nw_out"):
        points = round(limits[name] * 10_000)
        assert points * Fraction(140, 100) <= 10_000 < (points + 1) * Fraction(140, 100)
    assert "kafka.py" in PRESETS["netflix"].source


def equation_1(brokers, replication, groups, storage, storage_network, network):
    """The most bytes a second that producers may write to a balanced cluster.

    Source: AWS, Best practices for right-sizing your Apache Kafka clusters, equation 1.
    """
    return min(
        Fraction(storage * brokers, replication), Fraction(storage_network * brokers, replication),
        Fraction(network * brokers, groups + replication - 1),
    )


@pytest.mark.parametrize("seed", range(40))
def test_equal_partitions_reach_the_limit_of_equation_1(seed):
    """What brokers receive they write to their storage, over its network; 80 % is the target."""
    generator = Random(seed)
    n, replication, groups = len(BROKERS), generator.randint(1, 4), generator.randint(1, 5)
    storage, storage_network = (
        replication * 1000 * generator.randint(10, 1000) for _ in range(2)
    )
    network = (groups + replication - 1) * 1000 * generator.randint(10, 1000)
    most = equation_1(n, replication, groups, storage, storage_network, network)
    state = cluster([
        ("t", at, [BROKERS[(at + slot) % n] for slot in range(replication)], BROKERS[at])
        for at in range(n)
    ])
    capacity = kfast.broker_capacity(state, kfast.read_capacity((
        "c", b"broker_id,nw_in,nw_out\n-1,%d,%d\n" % (min(storage, storage_network), network)
    )))

    def baseline(target):
        load = kfast.partition_load(state, loads(
            {"topic": "t", "bytes_in": int(target), "bytes_out": int(target) * groups}))
        plan = kfast.prepare_capacity(state, load, capacity, **PRESETS["aws-sizing"].arguments)
        return kfast.capacity_sweep(plan, kfast.every_broker(state).slice(0, 1)).to_pylist()[0]
    row = baseline(most)
    assert max(row["nw_in_max"], row["nw_out_max"]) == 1
    target = baseline(most * Fraction(8, 10))
    assert (target["over_limit"], target["headroom"]) == (0, 0)
    assert baseline(most * Fraction(8, 10) + n)["over_limit"] == n
