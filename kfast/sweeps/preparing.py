"""How what a sweep reads is made of a cluster.

The controller starts on a copy of the cluster; what it leaves behind is sorted by shape, so that
the kernels go through partitions of one shape without branches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance
from kfast.controllers import DEFAULT_PROFILE, Controller, Profile
from kfast.errors import ArgumentError, InvariantError
from kfast.kernels import sweep as kernel
from kfast.schema import FLAG_HAS_LEADERSHIP, PartitionState
from kfast.state import ClusterState
from kfast.state.records import Rows
from kfast.sweeps.plan import FIELDS, SweepPlan

__all__ = ["prepare_sweep"]

FIRST_SHAPES = 1 << 10
"""Memory for shapes in the first table; a cluster with more of them gets a larger one."""


def prepare_sweep(
    state: ClusterState, *, threads: int = 1, profile: str | Profile = DEFAULT_PROFILE
) -> SweepPlan:
    """Start a controller on a copy of the cluster, and make it ready for sweeps.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile
        Which controller is simulated: a name in `profiles.PROFILES`.

    Returns
    -------
    SweepPlan
        Takes the state's place in `kfast.sweep`: to be had once for many sweeps.

    Raises
    ------
    ArgumentError
        The controller could not start on this state.
    """
    check_instance("state", state, ClusterState)
    started = state.copy()
    controller = Controller(started, journal="off", threads=threads, profile=profile)
    outcome = controller.on_controller_failover()
    if not controller.active:
        raise ArgumentError(f"the controller cannot start on this state: {outcome.error}")
    return _plan(started)


def _plan(state: ClusterState) -> SweepPlan:
    """Sort the partitions of a started cluster by shape."""
    _check_started(state)
    keys, sizes, group = _shapes(state)
    groups = np.zeros((keys.size, len(FIELDS)), np.int64)
    groups[:, 0] = keys & np.uint64(0xFF)
    for field, shift in enumerate((8, 16, 24, 32, 40), 1):
        groups[:, field] = (keys >> np.uint64(shift)) & np.uint64(0xFF)
    groups[:, 5] -= 1
    groups[:, 6] = 1 + groups[:, 1:5].sum(axis=1)
    groups[:, 7] = sizes
    lengths = groups[:, 6] * sizes
    groups[:, 8] = np.cumsum(lengths) - lengths
    first = np.cumsum(sizes) - sizes
    sequences = np.empty(int(lengths.sum()) + 1, np.int32)
    rows = np.empty(int(sizes.sum()), np.int32)
    kernel.write_sequences(
        state.columns, state.controller_epoch, state.n_brokers, group,
        np.ascontiguousarray(groups[:, 6]), np.ascontiguousarray(groups[:, 8]), first.copy(),
        first, sequences, rows,
    )
    return SweepPlan(
        state.broker_id.copy(), state.registered, int(rows.size), state.n_partitions, groups,
        sequences[:-1], rows, state,
    )


def _shapes(
    state: ClusterState
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], Rows]:
    """Number the shapes: their keys, ascending by key, sizes, and the shape of each row."""
    override = state.topic_min_insync_replicas
    min_isr = np.where(override < 0, state.default_min_insync_replicas, override)
    needed = np.ascontiguousarray(min_isr, np.int32)
    group = np.empty(state.n_partitions, np.int32)
    room = FIRST_SHAPES
    while True:
        table, numbers = np.zeros(room, np.uint64), np.zeros(room, np.int32)
        sizes = np.zeros(room // 2, np.int64)
        n = kernel.find_shapes(
            state.columns, needed, state.controller_epoch, table, numbers, sizes, group
        )
        if n >= 0:
            break
        room *= 4
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
