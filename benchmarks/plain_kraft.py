"""KRaft's events written as well as we can without kfast: in numpy, and as loops of numba.

Three replicas of each partition, no reassignment, no unclean election, and no orders of ISR and
ELR, which kfast keeps besides. Brokers are rows, slots are bits, -1 is nobody.

Source: docs/kraft.md, sections 3, 5, 6.1 and 6.2; Kafka 4.1, PartitionChangeBuilder.java.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_numpy import BIT_COUNT, LOWEST_BIT

WIDTH = 3
"""Replicas of each partition."""

NOBODY = -1
UNKNOWN = -2
"""No last known leader."""

CHANGING = ("leader", "isr", "elr", "leader_epoch", "partition_epoch", "last_known")


@dataclass
class Columns:
    """Columns of a KRaft cluster; all the partition's but `live`, which is the broker's."""

    replicas: NDArray[Any]
    leader: NDArray[Any]
    isr: NDArray[Any]
    elr: NDArray[Any]
    leader_epoch: NDArray[Any]
    partition_epoch: NDArray[Any]
    last_known: NDArray[Any]
    min_isr: NDArray[Any]
    live: NDArray[Any]
    elr_on: bool
    begin: NDArray[Any] | None = None
    hosted: NDArray[Any] | None = None

    @classmethod
    def of(cls, state: Any) -> Columns:
        """Columns of a healthy KRaft state of kfast."""
        n, quorum = state.n_partitions, state.quorum
        hot = {name: state.records[name].copy() for name in ("leader", "isr", "leader_epoch")}
        return cls(
            state.replicas[:, :WIDTH].copy(), hot["leader"], hot["isr"], np.zeros(n, np.uint8),
            hot["leader_epoch"], state.records["version"].copy(), np.full(n, UNKNOWN, np.int32),
            np.minimum(quorum.min_insync_replicas, WIDTH)[state.topic_row].astype(np.int32),
            state.live.copy(), quorum.elr_on,
        )

    def copy(self) -> Columns:
        """A copy of all that events change."""
        changing = {name: getattr(self, name).copy() for name in (*CHANGING, "live")}
        return replace(self, **changing)

    def rows_of(self, broker: int) -> NDArray[Any]:
        """Rows of the partitions that a broker hosts."""
        assert self.begin is not None
        assert self.hosted is not None
        return self.hosted[self.begin[broker] : self.begin[broker + 1]]


# ------------------------------------------------------------------------------------------- numpy


def start_numpy(columns: Columns) -> tuple[int, int]:
    """Count leaderless partitions and those led by another, and index the brokers."""
    replicas = columns.replicas.ravel()
    columns.begin = np.zeros(columns.live.size + 1, np.int64)
    np.cumsum(np.bincount(replicas, minlength=columns.live.size), out=columns.begin[1:])
    columns.hosted = (np.argsort(replicas, kind="stable") // WIDTH).astype(np.int32)
    led = columns.leader != columns.replicas[:, 0]
    return int((columns.leader == NOBODY).sum()), int(led.sum())


def fence_numpy(columns: Columns, broker: int) -> int:
    """A broker leaves its ISRs and is fenced; how many partitions change."""
    rows = columns.rows_of(broker)
    replicas = columns.replicas[rows]
    bits = np.uint8(1) << np.arange(WIDTH, dtype=np.uint8)
    gone = ((replicas == broker) * bits).sum(axis=1, dtype=np.uint8)
    before = columns.isr[rows]
    in_isr = np.flatnonzero(before & gone)
    rows, replicas, gone, before = rows[in_isr], replicas[in_isr], gone[in_isr], before[in_isr]
    isr = before & ~gone
    elr = np.zeros_like(isr)
    if columns.elr_on:
        below = BIT_COUNT[isr] < columns.min_isr[rows]
        elr[below] = ((columns.elr[rows] | before) & ~isr)[below]
    live = (columns.live[replicas] * bits).sum(axis=1, dtype=np.uint8) & ~gone
    valid = np.where(isr != 0, isr, elr) & live
    leader = columns.leader[rows]
    leads = ((replicas == leader[:, None]) * bits).sum(axis=1, dtype=np.uint8)
    elected = np.flatnonzero((valid & leads == 0) & (valid != 0))
    slot = LOWEST_BIT[valid[elected]]
    by_elr = elected[isr[elected] == 0]
    chosen = (1 << LOWEST_BIT[valid[by_elr]]).astype(np.uint8)
    isr[by_elr], elr[by_elr] = chosen, elr[by_elr] & ~chosen
    known = columns.last_known[rows]
    known[elected] = UNKNOWN
    lost = np.flatnonzero((valid == 0) & (leader != NOBODY))
    if columns.elr_on:
        known[lost] = np.where(known[lost] == UNKNOWN, leader[lost], known[lost])
    else:
        isr = np.where(isr == 0, before, isr)
    leader[elected] = replicas[elected, slot]
    leader[lost] = NOBODY
    changed = (
        (leader != columns.leader[rows]) | (isr != before) | (elr != columns.elr[rows])
    )
    columns.leader_epoch[rows] += leader != columns.leader[rows]
    columns.partition_epoch[rows] += changed
    columns.leader[rows], columns.isr[rows], columns.elr[rows] = leader, isr, elr
    if columns.elr_on:
        columns.last_known[rows] = known
    columns.live[broker] = False
    return int(changed.sum())


# ------------------------------------------------------------------------------------------- numba


@numba.njit(nogil=True, cache=True)
def _index(replicas, leader, begin, hosted):
    leaderless, imbalanced = 0, 0
    for row in range(leader.size):
        leaderless += leader[row] == NOBODY
        imbalanced += leader[row] != replicas[row, 0]
        for slot in range(WIDTH):
            begin[replicas[row, slot] + 1] += 1
    for broker in range(begin.size - 1):
        begin[broker + 1] += begin[broker]
    place = begin[:-1].copy()
    for row in range(leader.size):
        for slot in range(WIDTH):
            broker = replicas[row, slot]
            hosted[place[broker]] = row
            place[broker] += 1
    return leaderless, imbalanced


def start_numba(columns: Columns) -> tuple[int, int]:
    """The same as `start_numpy`, as one loop and another for the index."""
    columns.begin = np.zeros(columns.live.size + 1, np.int64)
    columns.hosted = np.empty(columns.replicas.size, np.int32)
    return _index(columns.replicas, columns.leader, columns.begin, columns.hosted)


@numba.njit(nogil=True, cache=True)
def _fence(
    rows, broker, replicas, leader, isr, elr, leader_epoch, partition_epoch, last_known, min_isr,
    live, elr_on, bit_count, lowest_bit,
):
    n_changed = 0
    for row in rows:
        gone, up, leads = 0, 0, 0
        for slot in range(WIDTH):
            member = np.int64(replicas[row, slot])
            gone |= np.int64(member == broker) << slot
            up |= np.int64(live[member] and member != broker) << slot
            leads |= np.int64(member == leader[row]) << slot
        before = np.int64(isr[row])
        if not before & gone:
            continue
        after, eligible = before & ~gone, 0
        if elr_on and bit_count[after] < min_isr[row]:
            eligible = (np.int64(elr[row]) | before) & ~after
        valid = (after if after else eligible) & up
        led_before = leader[row]
        if not valid:
            leader[row] = NOBODY
        elif not valid & leads:
            slot = lowest_bit[valid]
            leader[row] = replicas[row, slot]
            if not after:
                after = 1 << slot
                eligible &= ~after
        if elr_on:
            if leader[row] == NOBODY and led_before != NOBODY and last_known[row] == UNKNOWN:
                last_known[row] = led_before
            elif leader[row] != led_before:
                last_known[row] = UNKNOWN
        elif not after:
            after = before
        changed = leader[row] != led_before or after != before or eligible != elr[row]
        leader_epoch[row] += leader[row] != led_before
        partition_epoch[row] += changed
        isr[row], elr[row] = after, eligible
        n_changed += changed
    live[broker] = False
    return n_changed


def fence_numba(columns: Columns, broker: int) -> int:
    """The same as `fence_numpy`, as one loop."""
    return int(_fence(
        columns.rows_of(broker), broker, columns.replicas, columns.leader, columns.isr,
        columns.elr, columns.leader_epoch, columns.partition_epoch, columns.last_known,
        columns.min_isr, columns.live, columns.elr_on, BIT_COUNT, LOWEST_BIT,
    ))


FORMS = {"numpy": (start_numpy, fence_numpy), "numba": (start_numba, fence_numba)}
