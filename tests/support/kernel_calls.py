"""Kernels called with the arrays of a state: what the machines would pass, and nothing more."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from kfast import ClusterState, PartitionState, Replicas, ReplicaState, Strategy
from kfast.controllers.zk.profiles import PARTITION_PREVIOUS, ZK_3_9, Profile, previous_mask
from kfast.journal.effects import EFFECT, LAYOUT
from kfast.kernels import election, partition_states, replica_states
from kfast.kernels.columns import Columns, make_columns
from kfast.schema import record_dtype
from tests.support.reference import Context, Partition
from tests.support.twin_state import state_of

LAYOUTS = ("narrow", "wide")
THREADS = (1, 2, 5)


def columns_of(
    replicas: np.ndarray, leader_offline: np.ndarray, pending: np.ndarray
) -> Columns:
    """A replica matrix and both bitmaps as kernels take them; all else is empty."""
    n = len(replicas)
    return make_columns(
        np.zeros(n, record_dtype(replicas.dtype == np.uint16)), replicas,
        np.zeros(replicas.shape, np.uint8), np.zeros(1, np.uint8), np.zeros(n, np.int32),
        np.zeros(n, np.int32), np.zeros(1, np.uint8), leader_offline, pending,
    )


def new_tally(state: ClusterState, threads: int = 1) -> np.ndarray:
    """Arena for what a kernel counts, one row per thread."""
    return np.zeros((threads, LAYOUT["brokers"] + 2 * max(state.n_brokers, 1)), np.int64)


def all_rows(state: ClusterState) -> np.ndarray:
    """Every partition row."""
    return np.arange(state.n_partitions, dtype=np.int32)


def row_names(state: ClusterState) -> list[Partition]:
    """Topic and number of every row."""
    topics = state.topic.to_pylist()
    return [(topics[t], int(n)) for t, n in zip(state.topic_row, state.partition, strict=True)]


def take_counters(state: ClusterState, tally: np.ndarray) -> np.ndarray:
    """Add what was counted to the state's counters, and return the sum over threads."""
    total = tally.sum(axis=0)
    state.offline_partition_count += int(total[LAYOUT["offline"]])
    state.preferred_imbalance_count += int(total[LAYOUT["imbalance"]])
    state.unclean_elections += int(total[LAYOUT["unclean"]])
    return total


def change_replicas(
    state: ClusterState, replicas: Replicas, target: ReplicaState, threads: int = 1,
    *, defer: bool = False, keep: bool = True, profile: Profile = ZK_3_9,
    ranks: np.ndarray | None = None, each: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, effects and tally of one call; `keep` asks for the effects.

    Brokers go by ascending id, or by ranks; with `each`, these are their hashes.
    """
    n = replica_states.count_targets(replicas.slots)
    codes, effects = np.full(n, 255, np.uint8), np.zeros(n if keep else 0, EFFECT)
    tally = new_tally(state, threads)
    replica_states.change_replicas(
        state.columns, replicas.rows, replicas.slots, state.broker_id if ranks is None else ranks,
        each, int(target), previous_mask(profile.replica_previous[target]), state.controller_epoch,
        defer, profile.without_leadership, profile.empties_unclean_isr, state.any_queued, True,
        codes, effects, tally,
    )
    return codes, effects, take_counters(state, tally)


def change_partitions(
    state: ClusterState, rows: np.ndarray, target: PartitionState, threads: int = 1,
    *, keep: bool = True,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, effects and tally of one call."""
    codes = np.full(rows.size, 255, np.uint8)
    effects, tally = np.zeros(rows.size if keep else 0, EFFECT), new_tally(state, threads)
    partition_states.change_partitions(
        state.columns, rows, int(target), previous_mask(PARTITION_PREVIOUS[target]),
        state.any_queued, codes, effects, tally,
    )
    return codes, effects, take_counters(state, tally)


NO_RULE = np.empty(0, np.int8)
"""What a user's rule decided: nothing, for there is none."""


def bring_online(
    state: ClusterState, rows: np.ndarray, strategy: Strategy | None, threads: int = 1,
    *, keep: bool = True, profile: Profile = ZK_3_9,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, effects and tally of one call."""
    codes = np.full(rows.size, 255, np.uint8)
    effects, tally = np.zeros(rows.size if keep else 0, EFFECT), new_tally(state, threads)
    election.bring_online(
        state.columns, rows, profile.kernel_strategy(strategy),
        previous_mask(PARTITION_PREVIOUS[PartitionState.ONLINE]), state.controller_epoch,
        state.leader_recovery_supported and profile.marks_recovery, state.any_queued, True,
        NO_RULE, codes, effects, tally,
    )
    return codes, effects, take_counters(state, tally)


def assert_same_everywhere(ctx: Context, call: Any) -> ClusterState:
    """Make one call in both layouts, with every number of threads, with and without effects.

    All give the same state, bitmaps, codes and counts. Returns the state after it.
    """
    seen = []
    for layout in LAYOUTS:
        start = state_of(ctx, layout)
        for threads, keep in product(THREADS, (True, False)):
            state = start.copy()
            codes, effects, total = call(state, threads, keep)
            seen.append((state, codes, total, effects))
    first, codes, total, effects = seen[0]
    for state, other_codes, other_total, other_effects in seen[1:]:
        assert first.digest() == state.digest()
        assert np.array_equal(first.leader_offline, state.leader_offline)
        assert np.array_equal(first.pending, state.pending)
        assert np.array_equal(codes, other_codes)
        assert np.array_equal(total, other_total)
        if other_effects.size:
            assert np.array_equal(effects, other_effects)
    assert first.difference(seen[-1][0]) is None
    return first
