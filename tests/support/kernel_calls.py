"""Kernels called with the arrays of a state: what the machines would pass, and nothing more."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from kfast import ClusterState, Replicas, ReplicaState
from kfast.controllers.zk.profiles import ZK_3_9
from kfast.journal.effects import EFFECT
from kfast.kernels import replica_states
from kfast.kernels.columns import Columns, make_columns
from kfast.schema import (
    TALLY_BROKERS,
    TALLY_IMBALANCE,
    TALLY_OFFLINE,
    TALLY_UNCLEAN,
    record_dtype,
)
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
    return np.zeros((threads, TALLY_BROKERS + 2 * max(state.n_brokers, 1)), np.int64)


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
    state.offline_partition_count += int(total[TALLY_OFFLINE])
    state.preferred_imbalance_count += int(total[TALLY_IMBALANCE])
    state.unclean_elections += int(total[TALLY_UNCLEAN])
    return total


def change_replicas(
    state: ClusterState, replicas: Replicas, target: ReplicaState, threads: int = 1,
    *, keep: bool = True, ranks: np.ndarray | None = None, each: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, effects and tally of one call; `keep` asks for the effects.

    Brokers go by ascending id, or by ranks; with `each`, these are their hashes.
    """
    n = replica_states.count_targets(replicas.slots)
    codes, effects = np.full(n, 255, np.uint8), np.zeros(n if keep else 0, EFFECT)
    tally = new_tally(state, threads)
    replica_states.change_replicas(
        state.columns, ZK_3_9.rules(state, counting=True), replicas,
        (state.broker_id if ranks is None else ranks, each), int(target), codes, effects, tally,
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
