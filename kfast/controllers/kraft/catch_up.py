"""Leaders report that replicas have caught up: AlterPartition of many partitions at once.

Each leader sends a request with what it knows, which is what the controller knows; the members
that it adds are active. So no partition is refused (section 7.1), and each is built with its ISR
and the members in the order of the assignment.

Source: docs/kraft.md, section 7.1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.controllers.kraft.engine import NOBODY, QuorumEngine
from kfast.controllers.kraft.partition_requests import stop_at_faults
from kfast.journal import QuorumOutcome
from kfast.kernels.change_log import ChangeLog
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.changes import CHANGE, NOBODY_KNOWN, Election, Field
from kfast.state.quorum import NO_MEMBER
from kfast.state.records import Rows, Slots


def joining_slots(state: ClusterState, rows: Rows, wanted: Slots) -> Slots:
    """Which of some assigned slots may join each ISR: active, not in it, under a leader."""
    records = state.records.take(rows)
    live = np.append(state.live, False)
    replicas = state.replicas[rows].astype(np.int64)
    replicas[replicas >= state.n_brokers] = NOBODY
    active = np.bitwise_or.reduce(
        live[replicas].astype(np.uint64) << np.arange(state.n_slots, dtype=np.uint64), axis=1
    )
    led = live[records["leader"]]
    joining: Slots = wanted & first_slots(records["n_replicas"]) & active
    joining &= ~records["isr"].astype(np.uint64)
    joining[~led] = 0
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
    assert state.quorum is not None
    slots = np.arange(state.n_slots)
    isr = state.records["isr"][rows].astype(np.uint64)
    member = (isr[:, None] >> slots.astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    # Sort keys: members by their place in the ISR, then those that join, then all others.
    keys = np.where(member, slots, 2 * NO_MEMBER)
    if state.quorum.member_order is not None:
        keys = np.full(member.shape, 2 * NO_MEMBER)
        order, n = state.quorum.member_order[rows], member.sum(axis=1)
        at, place = np.nonzero(slots < n[:, None])
        keys[at, order[at, place]] = place
    joins = (joining[:, None] >> slots.astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    keys[joins] = (NO_MEMBER + slots)[np.nonzero(joins)[1]]
    chosen: npt.NDArray[np.bool_] = np.sort(keys, axis=1) < 2 * NO_MEMBER
    brokers = np.take_along_axis(
        state.replicas[rows].astype(np.int32), np.argsort(keys, axis=1, kind="stable"), axis=1
    )
    lengths = chosen.sum(axis=1)
    changes = np.zeros(rows.size, CHANGE)
    changes["row"], changes["mode"] = rows, Election.CONFIGURED
    changes["fields"] = Field.ISR | Field.RECOVERY
    changes["n_isr"], changes["begin"] = lengths, np.cumsum(lengths) - lengths
    changes["request"] = changes["leader"] = changes["leader_before"] = NOBODY
    changes["last_known"] = NOBODY_KNOWN
    log = ChangeLog()
    log.extend(changes, np.ascontiguousarray(brokers[chosen]))
    return log
