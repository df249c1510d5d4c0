"""How long a tenth of the partitions takes to move by one replica each, and a topic to be deleted.

Both run from the request to the end: the new replicas catch up and the reassignments complete; the
brokers answer and the topic is gone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast

ROUNDS = 7
SHARE = 10


@pytest.fixture(scope="session")
def started(n_partitions, n_brokers):
    """A cluster of ten topics whose controller has started; copy it before use."""
    state = kfast.generate(
        brokers=n_brokers, partitions=n_partitions, topics=SHARE, seed=11, placement="uniform"
    )
    kfast.Controller(state).on_controller_failover()
    assert state.lookup.rows_of_topic(0).size == n_partitions // SHARE
    return state


@pytest.fixture(scope="session")
def plan(started):
    """The first topic's partitions: the last replica of each goes to a broker that has none."""
    state = started
    rows = state.lookup.rows_of_topic(0)
    replicas = state.replicas[rows].astype(np.int32)
    taken = (replicas[:, -1] + 1) % state.n_brokers
    while (clash := (replicas == taken[:, None]).any(axis=1)).any():
        taken[clash] = (taken[clash] + 1) % state.n_brokers
    replicas[:, -1] = taken
    width = replicas.shape[1]
    offsets = np.arange(0, replicas.size + 1, width, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(state.broker_id[replicas].ravel()))
    names = pa.repeat(state.topic[0], rows.size)
    columns = [names, pa.array(state.partition[rows]), lists]
    return pa.table(columns, names=["topic", "partition", "replicas"])


def test_reassignment(benchmark, started, plan, n_partitions):
    """One slot of every partition of a topic moves, from the request to the last update."""
    ends = []

    def setup():
        return (kfast.Controller(started.copy()),), {}

    def run(controller):
        controller.alter_partition_reassignments(plan)
        controller.catch_up(controller.state.broker_id)
        ends[:] = [controller.state]

    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=1)
    state = ends[0]
    rows = state.lookup.rows_of_topic(0)
    moved = state.broker_id[state.replicas[rows, : len(plan["replicas"][0])].astype(np.int64)]
    assert state.n_reassigned == 0
    assert moved.ravel().tolist() == plan["replicas"].combine_chunks().flatten().to_pylist()
    benchmark.extra_info.update(
        partitions=n_partitions, moved=rows.size, digest=state.digest()
    )


def test_deletion(benchmark, started, n_partitions):
    """A topic is deleted, from the request to the last broker's answer."""
    ends = []

    def setup():
        return (kfast.Controller(started.copy()),), {}

    def run(controller):
        controller.delete_topics([started.topic[1].as_py()])
        controller.acknowledge_deletions()
        ends[:] = [controller.state]

    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=1)
    state = ends[0]
    assert state.free_rows.size == n_partitions // SHARE
    benchmark.extra_info.update(
        partitions=n_partitions, deleted=state.free_rows.size, digest=state.digest()
    )
