"""Sweeps: a cluster is made ready once, and each scenario gives one row of counts.

The controller starts on a copy of the cluster; what it leaves behind is sorted by shape, so that
the kernels go through partitions of one shape without branches.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, check_threads
from kfast.controllers import Profile, open_events
from kfast.errors import ArgumentError, InvariantError
from kfast.kernels import sweep as kernel
from kfast.schema import FLAG_HAS_LEADERSHIP, PartitionState
from kfast.state import ClusterState
from kfast.state.min_isr import topic_min_isr
from kfast.state.record_application import quorum_columns, quorum_rules
from kfast.state.records import Rows
from kfast.sweeps.failure_tables import tabulate
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import (
    Progress,
    SweepWork,
    check_counts,
    sweep_schema,
    words_of,
)
from kfast.sweeps.sweep_plan import FIELDS, SweepPlan

__all__ = [
    "SWEEP_METHODS", "Source", "check_same_brokers", "check_sweep", "prepare_sweep", "sweep",
    "sweep_reader",
]

Source: TypeAlias = ClusterState | SweepPlan

SWEEP_METHODS = ("dense", "sparse")
"""How a sweep may be done: every partition for many scenarios at once, or for each scenario the
partitions that its brokers host. The counts are the same."""

FIRST_SHAPES = 1 << 10
"""Memory for shapes in the first table; a cluster with more of them gets a larger one."""


def prepare_sweep(
    state: ClusterState, *, threads: int = 1, profile: str | Profile | None = None
) -> SweepPlan:
    """Start a controller on a copy of the cluster, and make it ready for sweeps.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile, optional
        Another version of the controller that runs the cluster.

    Returns
    -------
    SweepPlan
        Takes the state's place in `kfast.sweep`: to be had once for many sweeps.

    Raises
    ------
    ArgumentError
        The controller could not start on this state; or, in a KRaft cluster, the order in which
        the brokers of a partition fail decides what becomes of it, and they are more than 12.
    """
    check_instance("state", state, ClusterState)
    started = state.copy()
    events = open_events(started, journal="off", threads=threads, profile=profile)
    error = events.start()[-1].outcome.error
    if error is not None:
        raise ArgumentError(f"the controller cannot start on this state: {error}")
    return _plan(started)


def sweep(
    state: Source,
    scenarios: Scenarios,
    *,
    threads: int = 1,
    method: str | None = None,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Count what each scenario would do to the cluster, which is not changed.

    Parameters
    ----------
    state : ClusterState or SweepPlan
        The cluster as it is, or what `prepare_sweep` made of it.
    scenarios : Scenarios
        Made for this cluster; a slice gives the rows of its numbers.
    threads : int
        Threads to use; results do not depend on it.
    method : {"dense", "sparse"}, optional
        How to count (`SWEEP_METHODS`; leaders per broker are always counted densely);
        by default what is expected to be faster. Results do not depend on it.
    counts : collection of str, optional
        Which of `SWEEP_COUNTS` to count; all of them by default.
    vectors : {"words", "avx2", "avx512"}, optional
        Width of the vectors; by default the environment variable KFAST_VECTORS, or else the widest
        that this machine has. Results do not depend on it.
    progress : callable, optional
        Is given the scenarios that are done, and all.

    Returns
    -------
    pa.Table
        One row per scenario, in order (`schema.SWEEP`): scenario, brokers_down, the counts, and
        before `fullest_broker_leaders` the id of that broker, `fullest_broker`: the lowest id where
        several lead as many, -1 where nobody leads.

    Raises
    ------
    ArgumentError
        An argument has another value, or the scenarios are of another cluster.
    """
    with sweep_reader(
        state, scenarios, threads=threads, method=method, counts=counts, vectors=vectors,
        progress=progress,
    ) as reader:
        return reader.read_all()


def sweep_reader(
    state: Source,
    scenarios: Scenarios,
    *,
    threads: int = 1,
    method: str | None = None,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    progress: Progress | None = None,
) -> pa.RecordBatchReader:
    """Give the rows of `sweep`, batch by batch, in memory that does not grow with their number.

    Arguments and errors are those of `sweep`; errors are raised before the work starts.
    """
    check_same_brokers(state, scenarios)
    names = check_counts(counts)
    if method is not None and method not in SWEEP_METHODS:
        raise ArgumentError(f"method is {method!r}; allowed are {', '.join(SWEEP_METHODS)}")
    plan, words = check_sweep(state, scenarios, threads, vectors)
    batches = SweepWork.of(plan, scenarios, names, words, method).batches(
        scenarios, threads, progress
    )
    return pa.RecordBatchReader.from_batches(sweep_schema(names), batches)


def check_sweep(
    state: Source, scenarios: Scenarios, threads: int, vectors: str | None
) -> tuple[SweepPlan, int]:
    """The plan, and the words of the vectors; what cannot be is refused before anything starts."""
    check_same_brokers(state, scenarios)
    words, threads = words_of(vectors), check_threads(threads)
    return state if isinstance(state, SweepPlan) else prepare_sweep(state, threads=threads), words


def check_same_brokers(state: Source, scenarios: Scenarios) -> None:
    """Refuse scenarios of another cluster: rows would mean other brokers."""
    check_instance("state", state, ClusterState, SweepPlan)
    check_instance("scenarios", scenarios, Scenarios)
    if not np.array_equal(state.broker_id, scenarios.broker_id):
        raise ArgumentError(
            f"the scenarios are of a cluster with {scenarios.broker_id.size} brokers, this one has "
            f"{state.broker_id.size} or other ids; make them from the same state"
        )


# --- partitions by shape -------------------------------------------------------------------------


def _plan(state: ClusterState) -> SweepPlan:
    """Sort the partitions of a started cluster by shape."""
    _check_started(state)
    shaping = kernel.Shaping(
        topic_min_isr(state), state.controller_epoch, state.n_brokers,
        quorum_columns(state) if state.is_kraft else None,
        quorum_rules(state) if state.is_kraft else None,
    )
    keys, sizes, group = _shapes(state, shaping)
    groups = np.zeros((keys.size, len(FIELDS)), np.int64)
    groups[:, 0] = keys & np.uint64(0xFF)
    for field, shift in {1: 8, 2: 16, 3: 24, 4: 32, 5: 40, 9: 48}.items():
        groups[:, field] = (keys >> np.uint64(shift)) & np.uint64(0xFF)
    groups[:, 5] -= 1
    groups[:, 6] = 1 + groups[:, [1, 2, 3, 4, 9]].sum(axis=1)
    groups[:, 7] = sizes
    lengths = groups[:, 6] * sizes
    groups[:, 8] = np.cumsum(lengths) - lengths
    first = np.cumsum(sizes) - sizes
    sequences = np.empty(int(lengths.sum()) + 1, np.int32)
    rows = np.empty(int(sizes.sum()), np.int32)
    kernel.write_sequences(
        state.columns, shaping, groups, group, np.stack([first, groups[:, 8]]), sequences, rows
    )
    tables = live_places = in_sync_places = np.empty(0, np.uint16)
    left = np.flatnonzero(group == kernel.layout()["tabulated"]).astype(np.int32)
    if left.size:
        more = tabulate(state, left)
        more.groups[:, 8] += sequences.size - 1
        groups, tables = np.concatenate([groups, more.groups]), more.tables
        live_places, in_sync_places = more.live_places, more.in_sync_places
        sequences = np.concatenate([sequences[:-1], more.sequences, sequences[-1:]])
        rows = np.concatenate([rows, more.rows])
    return SweepPlan(
        state.broker_id.copy(), state.up, int(rows.size), state.n_partitions, groups,
        sequences[:-1], tables, live_places, in_sync_places, rows, state,
    )


def _shapes(
    state: ClusterState, shaping: kernel.Shaping
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], Rows]:
    """Number the shapes: their keys, ascending by key, sizes, and the shape of each row."""
    group = np.empty(state.n_partitions, np.int32)
    cells = FIRST_SHAPES
    while True:
        table, numbers = np.zeros(cells, np.uint64), np.zeros(cells, np.int32)
        sizes = np.zeros(cells // 2, np.int64)
        n = kernel.find_shapes(state.columns, shaping, table, numbers, sizes, group)
        if n >= 0:
            break
        cells *= 4
    keys = np.zeros(n, np.uint64)
    keys[numbers[table != 0]] = table[table != 0]
    return keys, sizes[:n], group


def _check_started(state: ClusterState) -> None:
    """No partition waits for an election that a live leader does not need."""
    records = state.records
    waiting = records["partition_state"] == PartitionState.OFFLINE
    if not waiting.any():
        return
    waiting &= (records["flags"] & FLAG_HAS_LEADERSHIP) != 0
    waiting[state.list_marked(state.leader_offline)] = False
    if waiting.any():
        row = int(np.flatnonzero(waiting)[0])
        raise InvariantError(f"partition row {row} is Offline though its leader is live")
