"""The same work as loops that numba compiles, written as well as we can: the other measure.

The columns are those of `plain_numpy`; each event is one loop that visits each row once, as kfast's
kernels do, with an index from each broker to its rows.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_numpy import OFFLINE, ONLINE, REPLICA_OFFLINE, REPLICA_ONLINE, Columns


@numba.njit(nogil=True)
def _start(replicas, leader, registered, replica_state, partition_state, begin, sent):
    n, width = replicas.shape
    for row in range(n):
        for slot in range(width):
            replica_state[row, slot] = REPLICA_ONLINE
            begin[replicas[row, slot] + 1] += 1
        up = leader[row] >= 0 and registered[leader[row]]
        partition_state[row] = ONLINE if up else OFFLINE
    for broker in range(registered.size):
        sent[broker] += begin[broker + 1]
        begin[broker + 1] += begin[broker]


@numba.njit(nogil=True)
def _host(replicas, place, hosted):
    n, width = replicas.shape
    for row in range(n):
        for slot in range(width):
            broker = replicas[row, slot]
            hosted[place[broker]] = row
            place[broker] += 1


@numba.njit(nogil=True)
def _mark(hosted, begin, brokers, n):
    """Rows on one of some brokers, ascending, by a bitmap as `numpy.unique` would find them."""
    bits = np.zeros((n + 63) // 64, np.uint64)
    for broker in brokers:
        for at in range(begin[broker], begin[broker + 1]):
            row = hosted[at]
            bits[row >> 6] |= np.uint64(1) << np.uint64(row & 63)
    found = 0
    rows = np.empty(n, np.int32)
    for word in range(bits.size):
        left = bits[word]
        bit = 0
        while left:
            if left & np.uint64(1):
                rows[found] = word * 64 + bit
                found += 1
            left >>= np.uint64(1)
            bit += 1
    return rows[:found]


@numba.njit(nogil=True)
def _fail(
    rows, replicas, leader, isr, leader_epoch, version, partition_state, replica_state, registered,
    sent, offline,
):
    width = replicas.shape[1]
    n_offline = 0
    for row in rows:
        live = 0
        for slot in range(width):
            if registered[replicas[row, slot]]:
                live |= 1 << slot
        told = 1
        members = np.int64(isr[row])
        head = leader[row]
        epochs = 0
        if head < 0 or not registered[head]:
            members &= live
            if members:
                slot = 0
                while not (members >> slot) & 1:
                    slot += 1
                head = np.int32(replicas[row, slot])
                epochs += 1
                told += 1
                partition_state[row] = ONLINE
            else:
                members = np.int64(isr[row])
                head = np.int32(-1)
                partition_state[row] = OFFLINE
                offline[n_offline] = row
                n_offline += 1
        last, last_broker = 0, -1
        for slot in range(width):
            if (live >> slot) & 1:
                sent[replicas[row, slot]] += told
                continue
            replica_state[row, slot] = REPLICA_OFFLINE
            if (members >> slot) & 1:
                epochs += 1
                if replicas[row, slot] > last_broker:
                    last, last_broker = slot, np.int64(replicas[row, slot])
        left = members & live
        if members and not left:
            left = 1 << last
        isr[row] = left
        leader[row] = head
        leader_epoch[row] += epochs
        version[row] += epochs
    return n_offline


@numba.njit(nogil=True)
def _prefer(replicas, leader, isr, leader_epoch, version, partition_state, registered, sent):
    n, width = replicas.shape
    for row in range(n):
        first = np.int32(replicas[row, 0])
        if leader[row] != first and isr[row] & 1 and registered[first]:
            leader[row] = first
            leader_epoch[row] += 1
            version[row] += 1
            partition_state[row] = ONLINE
            for slot in range(width):
                if registered[replicas[row, slot]]:
                    sent[replicas[row, slot]] += 1


def start(columns: Columns) -> None:
    """As `plain_numpy.start`; the index is the list of each broker's rows, one after the other."""
    begin = np.zeros((1, columns.registered.size + 1), np.int64)
    _start(
        columns.replicas, columns.leader, columns.registered, columns.replica_state,
        columns.partition_state, begin[0], columns.leader_and_isr,
    )
    hosted = np.empty((1, columns.replicas.size), np.int64)
    _host(columns.replicas, begin[0].copy(), hosted[0])
    columns.row_order, columns.row_starts = hosted, begin
    columns.offline = np.flatnonzero(columns.partition_state == OFFLINE)


def fail(columns: Columns, brokers: NDArray[np.int64]) -> None:
    """As `plain_numpy.fail`, on columns that `start` of this module began."""
    columns.registered[brokers] = False
    hosted, begin = columns.row_order[0], columns.row_starts[0]
    if brokers.size == 1:
        rows = hosted[begin[brokers[0]] : begin[brokers[0] + 1]].astype(np.int32)
    else:
        rows = _mark(hosted, begin, brokers, columns.leader.size)
    offline = np.empty(rows.size, np.int64)
    n_offline = _fail(
        rows, columns.replicas, columns.leader, columns.isr, columns.leader_epoch,
        columns.version, columns.partition_state, columns.replica_state, columns.registered,
        columns.leader_and_isr, offline,
    )
    columns.offline = np.union1d(columns.offline, offline[:n_offline])


def prefer(columns: Columns) -> None:
    """As `plain_numpy.prefer`."""
    _prefer(
        columns.replicas, columns.leader, columns.isr, columns.leader_epoch, columns.version,
        columns.partition_state, columns.registered, columns.leader_and_isr,
    )
