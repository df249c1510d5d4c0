"""Leaders report that replicas have caught up: AlterPartition of many partitions at once.

Each leader sends a request with what it knows, which is what the controller knows; the members
that it adds are active. So no partition is refused (section 7.1), and each is built with its ISR
and the members in the order of the assignment.

Source: docs/kraft.md, section 7.1.
"""

from __future__ import annotations

import numpy as np

from kfast.controllers.kraft.engine import QuorumEngine
from kfast.controllers.kraft.partition_requests import requests_of, stop_at_faults
from kfast.journal import QuorumOutcome
from kfast.kernels.change_log import ChangeLog
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.changes import Election
from kfast.state.quorum import NO_MEMBER
from kfast.state.records import Rows, Slots
from kfast.state.registrations import quorum_of


def joining_slots(state: ClusterState, rows: Rows, wanted: Slots) -> Slots:
    """Which of some assigned slots may join each ISR: active, not in it, under a leader."""
    records = state.records.take(rows)
    joining: Slots = wanted & first_slots(records["n_replicas"]) & state.live_slots(rows)
    joining &= ~records["isr"].astype(np.uint64)
    joining[~np.append(state.live, False)[records["leader"]]] = 0
    return joining


def catch_up(engine: QuorumEngine, rows: Rows, joining: Slots) -> list[QuorumOutcome]:
    """Report what joins; one event for each leader, by ascending id.

    Where nothing is being reassigned, no request has a bearing on another: then they are one event.
    """
    state = engine.state
    rows, joining = rows[joining != 0], joining[joining != 0]
    records = state.records.take(rows)
    order = np.argsort(records["leader"], kind="stable")
    cuts = np.flatnonzero(np.diff(records["leader"][order])) + 1
    if not ((records["adding"] | records["removing"]) != 0).any():
        cuts = cuts[:0]
    return [
        _report(engine, rows[at], joining[at]) for at in np.split(order, cuts) if at.size
    ]


def _report(engine: QuorumEngine, rows: Rows, joining: Slots) -> QuorumOutcome:
    """Requests of one event; the response is a code for each partition."""

    def steps() -> list[str]:
        stop_at_faults(engine.build(isr_requests(engine.state, rows, joining)))
        return ["NONE"] * rows.size

    return engine.run("alter_partition", steps)


def isr_requests(state: ClusterState, rows: Rows, joining: Slots) -> ChangeLog:
    """Requests for ISRs that some slots join, behind the members that are in them."""
    slots = np.arange(state.n_slots)
    bits = np.uint64(1) << slots.astype(np.uint64)
    is_member = (state.records["isr"][rows].astype(np.uint64)[:, None] & bits) != 0
    joins = (joining[:, None] & bits) != 0
    place = np.tile(slots, (rows.size, 1))
    member_order = quorum_of(state).member_order
    if member_order is not None:
        row, at = np.nonzero(member_order[rows] != NO_MEMBER)
        place[row, member_order[rows][row, at]] = at
    keys = np.where(is_member, place, np.where(joins, NO_MEMBER + slots, 2 * NO_MEMBER))
    brokers = np.take_along_axis(
        state.replicas[rows].astype(np.int32), np.argsort(keys, axis=1, kind="stable"), axis=1
    )
    n_isr = (is_member | joins).sum(axis=1)
    return requests_of(rows, Election.CONFIGURED, n_isr, brokers[slots < n_isr[:, None]])
