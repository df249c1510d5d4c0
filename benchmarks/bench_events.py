"""How long Kafka's events take, beside the same work in plain numpy.

Both forms start from the same cluster, and both must end with the same columns and have sent the
same requests: `digest` in the results. Their ratio, in one run, is what to look at.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

import kfast
from benchmarks import plain_numpy

ROUNDS = 9


def sent(outcome, n_brokers):
    """LeaderAndIsr partitions per broker; ids are rows in these clusters."""
    counts = outcome.request_counts
    counts = counts.filter(pc.equal(counts["kind"], "LeaderAndIsr"))
    brokers, partitions = counts["broker_id"].to_numpy(), counts["partitions"].to_numpy()
    return np.bincount(brokers, weights=partitions, minlength=n_brokers).astype(np.int64)


def digest(state, leader_and_isr):
    """The digest that `plain_numpy.Columns` gives."""
    fields = ("leader", "isr", "leader_epoch", "version", "partition_state")
    columns = [state.records[name] for name in fields]
    return plain_numpy.digest(*columns, state.replica_state, leader_and_isr)


@pytest.fixture(scope="session")
def started(cluster):
    """The cluster after the controller's start; copy it before use."""
    state = cluster.copy()
    kfast.Controller(state).on_controller_failover()
    return state


@pytest.fixture(scope="session")
def started_columns(cluster, n_brokers):
    """The same as plain columns, nothing sent yet."""
    columns = plain_numpy.fresh(cluster.replicas, n_brokers)
    plain_numpy.start(columns)
    columns.leader_and_isr[:] = 0
    return columns


@pytest.fixture(scope="session")
def victims(n_brokers):
    """Broker rows that fail: one; a third of all, so that some partitions lose all replicas."""
    return {"one": np.array([n_brokers // 2]), "third": np.arange(n_brokers // 3)}


def report(benchmark, n_partitions, found, **more):
    benchmark.extra_info.update(partitions=n_partitions, digest=found, **more)


class TestStart:
    """A controller takes over a healthy cluster."""

    def test_kfast(self, benchmark, cluster, n_partitions, n_brokers):
        ends = []

        def setup():
            return (kfast.Controller(cluster.copy()),), {}

        def run(controller):
            ends[:] = [(controller.state, controller.on_controller_failover())]

        benchmark.group = "controller start"
        benchmark.pedantic(run, setup=setup, rounds=ROUNDS)
        state, outcome = ends[0]
        expected = plain_numpy.fresh(cluster.replicas, n_brokers)
        plain_numpy.start(expected)
        found = digest(state, sent(outcome, n_brokers))
        assert found == expected.digest()
        report(benchmark, n_partitions, found)

    def test_numpy(self, benchmark, cluster, n_partitions, n_brokers):
        ends = []

        def setup():
            ends[:] = [plain_numpy.fresh(cluster.replicas, n_brokers)]
            return (ends[0],), {}

        benchmark.group = "controller start"
        benchmark.pedantic(plain_numpy.start, setup=setup, rounds=ROUNDS)
        report(benchmark, n_partitions, ends[0].digest())


@pytest.mark.parametrize("many", ["one", "third"])
class TestFailure:
    """Brokers fail together: elections, ISR shrinks, requests."""

    @pytest.mark.parametrize("threads", [1, 2])
    def test_kfast(
        self, benchmark, started, started_columns, victims, many, threads, n_partitions, n_brokers
    ):
        ends = []
        failed = started.broker_id[victims[many]].tolist()

        def setup():
            return (kfast.Controller(started.copy(), threads=threads),), {}

        def run(controller):
            ends[:] = [(controller.state, controller.on_broker_failure(failed))]

        benchmark.group = f"failure of {many}"
        benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=1)
        state, outcome = ends[0]
        expected = started_columns.copy()
        plain_numpy.fail(expected, victims[many])
        found = digest(state, sent(outcome, n_brokers))
        assert found == expected.digest()
        report(benchmark, n_partitions, found, offline=state.offline_partition_count)

    def test_numpy(self, benchmark, started_columns, victims, many, n_partitions):
        ends = []

        def setup():
            ends[:] = [started_columns.copy()]
            return (ends[0], victims[many]), {}

        benchmark.group = f"failure of {many}"
        benchmark.pedantic(plain_numpy.fail, setup=setup, rounds=ROUNDS, warmup_rounds=1)
        report(benchmark, n_partitions, ends[0].digest(), offline=int(ends[0].offline.size))
