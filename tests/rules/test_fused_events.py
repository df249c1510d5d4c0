"""Events in one visit to each partition are the events step by step.

The kernels are `fail_brokers` of `kfast.kernels.broker_failure`, and `start_brokers` and
`shut_down_broker` of `kfast.kernels.broker_events`.
"""

from __future__ import annotations

from random import Random

import pytest

import kfast
from kfast.controllers.zk import profiles, state_machines
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.schema import TOPIC_UNCLEAN
from tests.support.random_clusters import random_context
from tests.support.twin_state import state_of

PROFILES = [name for name, p in profiles.PROFILES.items() if not p.offlines_only_of_failed]


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


def stepwise(monkeypatch, seed, layout, **options):
    """The state and the outcomes of `failures` where every step is taken on all rows at once."""
    state = open_cluster(seed, layout)
    with monkeypatch.context() as patched:
        patched.setattr(ZkEngine, "way_of", lambda engine, event: ExecutionMode.STEPS)
        return state, failures(state, seed, **options)


@pytest.mark.parametrize(("level", "seeds"), [("counts", 6), ("full", 2)])
@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_failure_in_one_visit_is_the_failure_step_by_step(
    monkeypatch, layout, profile, level, seeds
):
    """States, steps, counts, requests and tables are the same."""
    n_visited = 0
    for seed in range(seeds):
        together, threads = open_cluster(seed, layout), 1 + seed % 2
        fused = failures(together, seed, journal=level, profile=profile, threads=threads)
        apart, single = stepwise(monkeypatch, seed, layout, journal=level, profile=profile)
        assert together.difference(apart) is None
        assert together.digest() == apart.digest()
        for one, other in zip(fused, single, strict=True):
            assert one.actions == other.actions
            assert one.counts == other.counts
            assert one.remaining.tolist() == other.remaining.tolist()
            assert one.request_counts == other.request_counts
            assert one.batches == other.batches
            for name in one.tables:
                assert one.tables[name].equals(other.tables[name]), name
            n_visited += one.event == "on_broker_failure"
    assert n_visited == 4 * seeds


def hurt(brokers, partitions, replication, layout, seed):
    """A running cluster in which brokers and a disk failed, and one broker is shutting down.

    Unclean election is allowed for some topics.
    """
    generated = kfast.generate(
        brokers=brokers, partitions=partitions, replication_factor=replication, seed=seed
    ).to_tables()
    state = kfast.ClusterState.from_tables(
        generated.brokers, generated.topics, generated.partitions, layout=layout
    )
    state.topic_flags[: state.n_topics : 3] |= TOPIC_UNCLEAN
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([1, brokers - 1])
    controller.on_broker_startup([1])
    controller.on_log_dir_failure(2, state.replicas_on_brokers([2]).rows[::2])
    controller.controlled_shutdown(3)
    return state


@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize(("brokers", "partitions", "replication"), [
    (5, 70_000, 3),
    (30, 4000, 1), (30, 4000, 2), (30, 4000, 5),
    (40, 2000, 20),  # more slots than go the short way
])
def test_many_rows_in_one_visit_are_as_step_by_step(
    monkeypatch, brokers, partitions, replication, layout
):
    """A failure of a third, of one more and of the rest; counts, requests and states."""
    if replication > 8 and layout == "narrow":
        layout = None
    together = hurt(brokers, partitions, replication, layout, 3)
    apart = together.copy()
    monkeypatch.setattr(state_machines, "ROWS_PER_THREAD", 1024)
    fused = kfast.Controller(together, threads=2)
    with monkeypatch.context() as patched:
        for failed in (range(0, brokers - 1, 3), [1], [b for b in range(brokers - 1) if b % 3]):
            outcome = fused.on_broker_failure([b for b in failed if together.registered[b]])
            patched.setattr(ZkEngine, "way_of", lambda engine, event: ExecutionMode.STEPS)
            stepwise = kfast.Controller(apart)
            other = stepwise.on_broker_failure([b for b in failed if apart.registered[b]])
            patched.undo()
            assert together.difference(apart) is None
            assert outcome.counts == other.counts
            assert outcome.request_counts == other.request_counts
    assert together.records["leader_epoch"].max() > 1


def test_a_broker_loses_more_replicas_than_16_bits_can_count():
    """The kernel's words per broker are emptied in time."""
    state = kfast.generate(brokers=4, partitions=100_000, replication_factor=3, seed=3)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    n = state.replicas_on_brokers([0]).rows.size
    led = int((state.records["leader"] == 0).sum())
    outcome = controller.on_broker_failure([0])
    assert n > 65_535
    assert outcome.counts.codes == {"MOVED": n + led, "ELECTED": led}


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_threads_keep_what_one_thread_keeps(monkeypatch, layout):
    """What threads kept is put together in the order of the rows."""
    monkeypatch.setattr(state_machines, "ROWS_PER_THREAD", 64)
    tables = []
    for threads in (1, 2, 7):
        small = kfast.generate(brokers=12, partitions=3000, replication_factor=3, racks=3, seed=5)
        tables_of = small.to_tables()
        state = kfast.ClusterState.from_tables(
            tables_of.brokers, tables_of.topics, tables_of.partitions, layout=layout
        )
        controller = kfast.Controller(state, journal="full", threads=threads)
        controller.on_controller_failover()
        outcomes = [controller.on_broker_failure([0, 3, 4, 7])]
        outcomes += [controller.on_broker_startup([3, 7]), controller.on_broker_failure([1])]
        tables.append([outcome.tables for outcome in outcomes])
    assert tables[0][0]["requests"].num_rows > 1000
    assert tables[0] == tables[1] == tables[2]


def test_without_a_journal_the_state_is_the_same():
    """The level `off` counts nothing, and changes as much."""
    for seed in range(16):
        silent, loud = open_cluster(seed, "narrow"), open_cluster(seed, "narrow")
        outcomes = failures(silent, seed, journal="off")
        failures(loud, seed, journal="full")
        assert silent.difference(loud) is None
        assert all(not outcome.counts.requests["LeaderAndIsr"] for outcome in outcomes)
