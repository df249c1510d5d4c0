"""A controller's start in one visit to each partition is the two machines one after the other.

The kernel is `start_machines` of `kfast.kernels.startup`; its twins are `start_replicas` and
`initialize_partitions`, which are compared with plain Python elsewhere.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import kfast
from kfast import PartitionState, ReplicaState
from kfast.controllers.zk.profiles import REPLICA_PREVIOUS, previous_mask
from kfast.journal.effects import EFFECT
from kfast.kernels import partition_states, replica_states, startup
from kfast.state.mutators import widen
from tests.support.kernel_calls import LAYOUTS, THREADS, new_tally, take_counters
from tests.support.random_clusters import random_context
from tests.support.twin_state import state_of

ONLINE = previous_mask(REPLICA_PREVIOUS[ReplicaState.ONLINE])
OFFLINE = previous_mask(REPLICA_PREVIOUS[ReplicaState.OFFLINE])


def start_apart(state, take_offline, counting):
    """The machines one after the other; sums of their tallies."""
    tallies = [new_tally(state) for _ in range(3)]
    none = np.zeros(0, EFFECT)
    replica_states.start_replicas(
        state.columns, state.broker_id, state.broker_id, ONLINE, OFFLINE,
        state.controller_epoch, True, take_offline, state.any_queued, counting, none, none,
        *tallies[:2],
    )
    partition_states.initialize_partitions(state.columns, state.any_queued, tallies[2])
    return [take_counters(state, tally) for tally in tallies]


def start_together(state, take_offline, counting, threads):
    """One visit to each partition; sums of the tallies, and how many rows track each broker."""
    tallies = [new_tally(state, threads) for _ in range(3)]
    healthy, hosted = (np.zeros((threads, state.n_brokers), np.int64) for _ in range(2))
    startup.start_machines(
        state.columns, state.broker_id, OFFLINE, state.controller_epoch,
        take_offline, state.any_queued, counting, *tallies, healthy, hosted,
    )
    return [take_counters(state, tally) for tally in tallies], hosted


def random_cluster(seed, layout):
    """A small cluster in any condition, or a larger one of which a part is damaged."""
    if seed % 2:
        return state_of(random_context(Random(seed)), layout)
    state = kfast.generate(brokers=12, partitions=700, replication_factor=3, seed=seed)
    if layout == "wide":
        widen(state)
    controller = kfast.Controller(state, journal="off")
    controller.on_controller_failover()
    controller.on_broker_failure([seed % 12, 5] if seed % 3 else [5])
    rows = np.random.default_rng(seed).permutation(700)[:90]
    state.records["flags"][rows[:10]] = 0
    state.records["offline_dir"][rows[10:40]], state.any_offline_dir = 2, True
    state.records["adding"][rows[40:60]] = 4
    state.records["leader"][rows[60:90]] = -1
    return state


@pytest.mark.parametrize("counting", [True, False])
@pytest.mark.parametrize("take_offline", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_visit_starts_both_machines(layout, take_offline, counting):
    """States, bitmaps, counters and tallies; and the count that the hosting index needs."""
    for seed in range(12):
        begun = random_cluster(seed, layout)
        begun.offline_partition_count = 0
        apart = begun.copy()
        wanted = start_apart(apart, take_offline, counting)
        counts = np.zeros((1, begun.n_brokers), np.int64)
        startup.count_hosted(begun.columns, counts)
        for threads in THREADS:
            state = begun.copy()
            found, hosted = start_together(state, take_offline, counting, threads)
            assert state.difference(apart) is None
            assert np.array_equal(state.records, apart.records)
            assert np.array_equal(state.replica_state, apart.replica_state)
            assert np.array_equal(state.leader_offline, apart.leader_offline)
            assert np.array_equal(state.pending, apart.pending)
            assert state.offline_partition_count == apart.offline_partition_count
            for one, other in zip(found, wanted, strict=True):
                assert np.array_equal(one, other)
            assert np.array_equal(hosted.sum(axis=0), counts[0])


def test_a_start_is_the_same_for_every_journal_and_thread_count():
    """Level `full` starts the machines one after the other; the counts say the same."""
    for seed in range(0, 12, 2):
        begun = random_cluster(seed, "narrow")
        full, counts = begun.copy(), begun.copy()
        stepwise = kfast.Controller(full, journal="full").on_controller_failover()
        visited = kfast.Controller(counts, threads=2).on_controller_failover()
        assert full.difference(counts) is None
        assert (full.digest(), stepwise.actions) == (counts.digest(), visited.actions)
        assert stepwise.counts == visited.counts
        assert stepwise.request_counts == visited.request_counts
        assert (counts.records["partition_state"] == PartitionState.ONLINE).any()
