"""Rules of section 9 that compare a state with the one before.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.journal import Outcome
from kfast.state import ClusterState
from kfast.testing.invariants.states import has_leadership, leader_in_isr, require

ASKED_BY_LEADERS = ("alter_partition", "catch_up", "on_isr_change_notification")


def _common(before: ClusterState, after: ClusterState) -> npt.NDArray[np.int64]:
    """Rows with leadership in both, of topics that exist in both."""
    n = before.n_partitions
    held = has_leadership(before) & has_leadership(after)[:n]
    return np.flatnonzero(held & after.topic_exists[after.topic_row[:n]])


def records_only_grow(before: ClusterState, after: ClusterState) -> None:
    """Rule 2: neither leader epoch nor version ever decreases."""
    rows = _common(before, after)
    for name in ("leader_epoch", "version"):
        grown = after.records[name][rows] >= before.records[name][rows]
        require(grown, 2, f"{name} never decreases", after, rows)


def isr_never_empties(before: ClusterState, after: ClusterState) -> None:
    """Rule 4."""
    rows = _common(before, after)
    kept = (before.records["isr"][rows] == 0) | (after.records["isr"][rows] != 0)
    require(kept, 4, "a non-empty ISR stays so", after, rows)


def leaders_stay_in_their_isr(before: ClusterState, after: ClusterState) -> None:
    """Rule 3."""
    rows = _common(before, after)
    held = ~leader_in_isr(before)[rows] | leader_in_isr(after)[rows]
    require(held, 3, "the leader is in the ISR or -1", after, rows)


def reassignments_end_complete(before: ClusterState, after: ClusterState) -> None:
    """Rule 25: a partition that is no longer being reassigned has its targets and nothing else."""
    n = before.n_partitions
    moving = before.records["flags"] & schema.FLAG_BEING_REASSIGNED
    kept = after.records["flags"][:n] & schema.FLAG_BEING_REASSIGNED
    rows = np.flatnonzero((moving != 0) & (kept == 0) & (after.partition[:n] >= 0))
    records = after.records.take(rows)
    settled = (records["adding"] == 0) & (records["removing"] == 0)
    require(settled, 25, "a completed reassignment moves nothing", after, rows)


def newer_records_are_left_alone(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 9: the controller does not change what a newer controller wrote.

    Leaders may: where they ask for ISRs, only leaders and their epochs are looked at. ISRs are
    not, as a reassignment gives slots other numbers.
    """
    rows = _common(before, after)
    rows = rows[before.records["controller_epoch"][rows] > after.controller_epoch]
    by_leaders = outcome.event in ASKED_BY_LEADERS
    for name in ("leader", "leader_epoch") if by_leaders else ("leader", "leader_epoch", "version"):
        same = after.records[name][rows] == before.records[name][rows]
        require(same, 9, f"{name} of a newer controller stays", after, rows)
