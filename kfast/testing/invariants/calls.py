"""Rules of section 9 that single calls of the partition machine show.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.journal import Outcome
from kfast.schema import PartitionState
from kfast.state import ClusterState
from kfast.testing.invariants.states import require

TO_ONLINE = f"partitions to {PartitionState.ONLINE.label}"
"""What the machine calls a call that brings partitions Online."""
TRIGGERS = ("trigger online", "enable_unclean_leader_election")
"""Events that are `trigger_online` and nothing else."""
WRITTEN = ("leader_epoch", "version", "controller_epoch", "partition_state")


def results_are_of_those_with_leaders(
    before: ClusterState, rows: npt.NDArray[np.int32], outcome: Outcome
) -> None:
    """Rule 22: the result map has the partitions that were Online or Offline, and no others.

    A call that failed as a whole is left out.
    """
    if outcome.event != TO_ONLINE or outcome.failure is not None:
        return
    led = (PartitionState.ONLINE, PartitionState.OFFLINE)
    wanted = np.isin(before.records["partition_state"][rows], led)
    require(outcome.in_result == wanted, 22, "results are of the Online and Offline", before, rows)


def triggers_leave_the_online_alone(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 23: what was brought Online before is not written again."""
    if outcome.event not in TRIGGERS:
        return
    rows = np.flatnonzero(before.records["partition_state"] == PartitionState.ONLINE)
    for name in WRITTEN:
        same = after.records[name][rows] == before.records[name][rows]
        require(same, 23, f"{name} of a partition that is Online stays", after, rows)
