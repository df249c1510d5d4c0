"""What traffic costs processors: published examples, weights, and brokers that nobody measured.

The models are compared with their twin on random clusters by `test_capacity_sweep.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import CpuWeights
from kfast.errors import ArgumentError
from tests.capacity.test_partition_loads import BROKERS, cluster, loads

MB = 10**6


def sweep(partitions, used=(), cores=(10, 10, 10, 10), **arguments):
    """Micro-cores by broker, and the row of the sweep, without a failure and after each broker's.

    `partitions` are replicas, bytes in and bytes out; `used` are micro-cores by broker.
    """
    state = cluster([(f"t{at}", 0, replicas, replicas[0])
                     for at, (replicas, _, _) in enumerate(partitions)])
    rows = [{"topic": f"t{at}", "partition": 0, "bytes_in": into, "bytes_out": out}
            for at, (_, into, out) in enumerate(partitions)]
    measured = [{"broker_id": broker, "cpu_microcores": amount} for broker, amount in used]
    lines = "".join(f"{broker},{n}\n" for broker, n in zip(BROKERS, cores, strict=True))
    plan = kfast.prepare_capacity(
        state,
        kfast.partition_load(state, [loads(*rows), *([loads(*measured)] if measured else [])]),
        kfast.broker_capacity(
            state, kfast.read_capacity(("cores", f"broker_id,cores\n{lines}".encode()))),
        **arguments,
    )
    scenarios = kfast.every_broker(state)
    amounts = plan.broker_loads(*scenarios.down(0, len(scenarios)))[:, :, 2].tolist()
    table = kfast.capacity_sweep(plan, scenarios).to_pylist()
    return [(dict(zip(BROKERS, cores, strict=True)), row)
            for cores, row in zip(amounts, table, strict=True)]


def test_a_partition_accounts_for_its_share_of_the_work():
    """Leader bytes in 20, out 40, follower bytes in 40 MB/s use 40 %: 14 + 6 + 6 = 26 of work.

    A partition of 2 in and 4 out accounts for 3.077 % of the broker, as a follower for 0.4615 %:
    so much more does its leadership cost broker 1, when broker 2 fails.
    Source: Cruise Control, SamplingUtils.estimateLeaderCpuUtil, with its default weights.
    """
    answers = sweep([
        ([2, 1, 5], 2 * MB, 2 * MB), ([1, 5], 20 * MB, 20 * MB), ([5, 1], 38 * MB, 0),
    ], used=[(1, 4_000_000)])
    assert answers[0][0][1] == 4_000_000
    after = answers[1 + BROKERS.index(2)]
    assert after[0][1] == round(4_000_000 * (1 + (2.0 - 0.3) / 26))
    assert 100 * after[1]["cpu_max"] == pytest.approx(40 + 3.077 - 0.4615, abs=0.0005)


def test_a_managed_cluster_is_as_large_as_google_plans_it():
    """Produce 100, consume 200 MB/s, three replicas: 40 vCPU, half of them in use.

    Write 300 and read 400 are 400 MB/s of write-equivalent bytes, 20 cores at 20 MB/s each.
    Source: Google, Managed Service for Apache Kafka, "Plan your cluster size", the example.
    """
    partitions = [([1, 2, 5], 100 * MB, 200 * MB)]
    vcpus = (20, 10, 10, 1)
    baseline, row = sweep(partitions, cores=vcpus, cpu_model="write-equivalent")[0]
    assert sum(baseline.values()) == 20 * 10**6
    assert sum(vcpus[:3]) == 40
    assert (row["cpu_max"], row["over_limit_cpu"], row["headroom"]) == (0.5, 0, 0.0)
    fewer = sweep(partitions, cores=(20, 9, 10, 1), cpu_model="write-equivalent")[0][1]
    assert (fewer["cpu_broker"], fewer["over_limit_cpu"]) == (2, 1)
    looser = sweep(partitions, cores=(20, 9, 10, 1), cpu_model="write-equivalent",
                   normal_limits={"cpu": 0.6})[0][1]
    assert looser["over_limit_cpu"] == 0


def test_what_is_not_known_is_null_and_no_limit_is_checked():
    """Cores that nobody measured are no cores that nobody uses."""
    partitions = [([1, 2, 5], 100 * MB, 200 * MB)]
    for _, row in sweep(partitions):
        assert row["cpu_max"] is row["cpu_broker"] is row["binding"] is row["headroom"] is None
        assert row["over_limit_cpu"] == 0
    partly = sweep(partitions, used=[(2, 9_999_999)])
    assert (partly[0][1]["cpu_broker"], partly[0][1]["over_limit_cpu"]) == (2, 1)
    assert partly[1 + BROKERS.index(2)][1]["cpu_max"] is None


def test_weights_are_in_relation_to_each_other():
    partitions = [([2, 1, 5], 7 * MB, 2 * MB), ([1, 5], 20 * MB, 20 * MB), ([5, 1], 38 * MB, 0)]
    used = [(1, 4_000_000), (5, 123_457)]
    assert CpuWeights.in_lowest_terms(7000, 1500, 1500) == CpuWeights()
    assert sweep(partitions, used) == sweep(partitions, used, weights=CpuWeights(7000, 1500, 1500))
    assert sweep(partitions, used) != sweep(partitions, used, weights=CpuWeights(1, 1, 1))


def test_wrong_models_are_refused():
    with pytest.raises(ArgumentError, match="leader_out is -1: from 0 to 100000000 is allowed"):
        CpuWeights(1, -1, 0)
    with pytest.raises(ArgumentError, match=r"follower_in is 0\.15: a whole number is needed"):
        CpuWeights(1, 1, 0.15)
    with pytest.raises(ArgumentError, match="all weights of the processor are 0"):
        CpuWeights(0, 0, 0)
    with pytest.raises(ArgumentError, match="cpu_model is 'google'; allowed are measured, write-e"):
        sweep([([1], 1, 1)], cpu_model="google")
    with pytest.raises(ArgumentError, match="weights go with cpu_model 'measured'"):
        sweep([([1], 1, 1)], cpu_model="write-equivalent", weights=CpuWeights())


# --- weights that fit measurements ---------------------------------------------------------------


def samples(generator, n, coefficients, noise):
    """Samples of brokers whose use follows coefficients, in micro-cores per B/s, and chance."""
    traffic = generator.integers(10**6, 10**8, (n, 3))
    used = traffic @ np.array(coefficients) + generator.normal(0, noise, n) + 10 * noise
    return pa.table({
        **dict(zip(("leader_in", "leader_out", "follower_in"), traffic.T, strict=True)),
        "cpu_microcores": used,
    })


def test_weights_that_made_the_samples_are_fitted():
    fit = kfast.fit_cpu(samples(np.random.default_rng(3), 40, (0.07, 0.015, 0.015), 0))
    assert fit.weights == CpuWeights()
    assert fit.coefficients == pytest.approx((0.07, 0.015, 0.015))
    assert fit.r_squared == pytest.approx(1)
    assert fit.residuals == pytest.approx(np.zeros(40), abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_no_other_weights_fit_better(seed):
    """The conditions of Karush, Kuhn and Tucker: more of none, less of those above 0, helps."""
    generator = np.random.default_rng(seed)
    table = samples(generator, 30, (0.05, 0.02, -0.01), 10**5)
    fit = kfast.fit_cpu(table)
    traffic = np.stack([table[name] for name in table.column_names[:3]], axis=1).astype(float)
    used = table["cpu_microcores"].to_numpy()
    assert fit.residuals == pytest.approx(used - traffic @ fit.coefficients)
    assert fit.r_squared == pytest.approx(1 - fit.residuals.var() / used.var() - (
        fit.residuals.mean() ** 2 / used.var()))
    gain = traffic.T @ fit.residuals / np.abs(traffic).max() / np.abs(used).max()
    assert (fit.coefficients >= 0).all()
    assert gain[fit.coefficients > 0] == pytest.approx(0, abs=1e-9)
    assert (gain < 1e-9).all()
    assert fit.coefficients[2] == 0 == fit.weights.follower_in
    assert fit.weights.leader_in / fit.weights.leader_out == pytest.approx(
        fit.coefficients[0] / fit.coefficients[1], rel=1e-3)


BAD_SAMPLES = {
    "samples has no column leader_out; found leader_in": {"leader_in": [1]},
    "samples row 1: leader_in is None; right is a number from 0": {"leader_in": [1, None, 3]},
    "samples row 2: leader_out is -3; right": {"leader_out": [1, 2, -3]},
    "samples row 0: follower_in is nan; right": {"follower_in": [float("nan"), 2, 3]},
    "samples row 0: cpu_microcores is inf; right": {"cpu_microcores": [float("inf"), 2, 3]},
    "leader_in is of type string; right are numbers": {"leader_in": ["1", "2", "3"]},
    "cpu_microcores is the same in all rows": {"cpu_microcores": [7, 7, 7]},
    "no byte costs anything": {
        "leader_in": [0, 0, 0], "leader_out": [0, 0, 0], "follower_in": [0, 0, 0],
    },
}


@pytest.mark.parametrize("message", BAD_SAMPLES)
def test_samples_that_say_nothing_are_refused(message):
    columns = {
        "leader_in": [1, 2, 3], "leader_out": [1, 2, 3], "follower_in": [1, 2, 3],
        "cpu_microcores": [3, 6, 9], **BAD_SAMPLES[message],
    }
    if "no column" in message:
        columns = BAD_SAMPLES[message]
    with pytest.raises(ArgumentError, match=message):
        kfast.fit_cpu(pa.table(columns))
    with pytest.raises(ArgumentError, match="samples has 2 rows; right are at least three"):
        kfast.fit_cpu(samples(np.random.default_rng(1), 2, (1, 1, 1), 0))
