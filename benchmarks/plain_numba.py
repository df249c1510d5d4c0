"""The same work as loops that numba compiles, written as well as we can: the other measure.

The columns are those of `plain_numpy`. Each event is one loop that visits each row once, with an
index from each broker to its rows; where an event touches an eighth of all entries or more, the
rows come from a scan. The number of replicas is known when the loops are compiled, so they are
unrolled, and the lowest bit and the number of bits of a mask come from small tables.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.plain_numpy import (
    BIT_COUNT,
    LOWEST_BIT,
    NO_BROKER,
    NO_ENTRY,
    NO_REPLICA,
    OFFLINE,
    ONLINE,
    REPLICA_OFFLINE,
    REPLICA_ONLINE,
    Columns,
)

WIDTH = 3
"""Replicas of each partition."""


@numba.njit(nogil=True, cache=True)
def _live(replicas, row, registered):
    live = 0
    for slot in range(WIDTH):
        live |= np.int64(registered[replicas[row, slot]]) << slot
    return live


@numba.njit(nogil=True, cache=True)
def _tell(replicas, row, live, times, sent):
    for slot in range(WIDTH):
        sent[replicas[row, slot]] += times * ((live >> slot) & 1)


@numba.njit(nogil=True, cache=True)
def _leave(replicas, row, members, live):
    """Who stays in the ISR: of an ISR that goes as a whole, who leaves last."""
    left = members & live
    if members and not left:
        last = -1
        for slot in range(WIDTH):
            broker = np.int64(replicas[row, slot])
            if (members >> slot) & 1 and broker > last:
                last, left = broker, 1 << slot
    return left


@numba.njit(nogil=True, cache=True)
def _start(replicas, leader, registered, replica_state, partition_state, begin, sent):
    for row in range(leader.size):
        for slot in range(WIDTH):
            replica_state[row, slot] = REPLICA_ONLINE
            begin[replicas[row, slot] + 1] += 1
        up = leader[row] >= 0 and registered[leader[row]]
        partition_state[row] = ONLINE if up else OFFLINE
    for broker in range(registered.size):
        sent[broker] += begin[broker + 1]


@numba.njit(nogil=True, cache=True)
def _take_over(
    replicas, leader, isr, leader_epoch, version, partition_state, replica_state, registered,
    begin, sent, offline,
):
    n_offline = 0
    for row in range(leader.size):
        live = _live(replicas, row, registered)
        for slot in range(WIDTH):
            begin[replicas[row, slot] + 1] += 1
            replica_state[row, slot] = REPLICA_ONLINE if (live >> slot) & 1 else REPLICA_OFFLINE
        told = 1
        head = leader[row]
        if live != (1 << WIDTH) - 1:
            told = 2
            members = np.int64(isr[row])
            epochs = BIT_COUNT[members & ~live]
            left = _leave(replicas, row, members, live)
            if head < 0 or not registered[head]:
                head = np.int32(-1)
                if left & live:
                    head = np.int32(replicas[row, LOWEST_BIT[left]])
                    epochs += 1
                    told = 3
                else:
                    offline[n_offline] = row
                    n_offline += 1
            if epochs:
                leader[row] = head
                isr[row] = left
                leader_epoch[row] += epochs
                version[row] += epochs
        partition_state[row] = ONLINE if head >= 0 else OFFLINE
        _tell(replicas, row, live, told, sent)
    return n_offline


@numba.njit(nogil=True, cache=True)
def _host(replicas, place, hosted):
    for row in range(replicas.shape[0]):
        for slot in range(WIDTH):
            broker = replicas[row, slot]
            hosted[place[broker]] = row
            place[broker] += 1


@numba.njit(nogil=True, cache=True)
def _scan(replicas, chosen):
    """Rows on one of some brokers, ascending."""
    found = 0
    rows = np.empty(replicas.shape[0], np.int32)
    for row in range(replicas.shape[0]):
        rows[found] = row
        found += np.int64(_live(replicas, row, chosen) != 0)
    return rows[:found]


@numba.njit(nogil=True, cache=True)
def _fail(
    rows, replicas, leader, isr, leader_epoch, version, partition_state, replica_state, registered,
    sent, offline,
):
    n_offline = 0
    for row in rows:
        live = _live(replicas, row, registered)
        told, epochs = 1, 0
        members = np.int64(isr[row])
        head = leader[row]
        if head < 0 or not registered[head]:
            if members & live:
                members &= live
                head = np.int32(replicas[row, LOWEST_BIT[members]])
                told, epochs = 2, 1
                partition_state[row] = ONLINE
            else:
                head = np.int32(-1)
                partition_state[row] = OFFLINE
                offline[n_offline] = row
                n_offline += 1
            leader[row] = head
        for slot in range(WIDTH):
            if not (live >> slot) & 1:
                replica_state[row, slot] = REPLICA_OFFLINE
        _tell(replicas, row, live, told, sent)
        epochs += BIT_COUNT[members & ~live]
        if epochs:
            isr[row] = _leave(replicas, row, members, live)
            leader_epoch[row] += epochs
            version[row] += epochs
    return n_offline


@numba.njit(nogil=True, cache=True)
def _prefer(replicas, leader, isr, leader_epoch, version, partition_state, registered, sent):
    for row in range(leader.size):
        first = np.int32(replicas[row, 0])
        if leader[row] != first and isr[row] & 1 and registered[first]:
            leader[row] = first
            leader_epoch[row] += 1
            version[row] += 1
            partition_state[row] = ONLINE
            for slot in range(WIDTH):
                sent[replicas[row, slot]] += np.int64(registered[replicas[row, slot]])


@numba.njit(nogil=True, cache=True)
def _shut_down(
    rows, broker, replicas, leader, isr, leader_epoch, version, replica_state, registered, sent,
    stopped,
):
    for row in rows:
        live = _live(replicas, row, registered)
        own = 0
        for slot in range(WIDTH):
            own |= np.int64(replicas[row, slot] == broker) << slot
        members = np.int64(isr[row])
        left = members & ~own
        if leader[row] == broker:
            if not left & live:
                continue
            leader[row] = np.int32(replicas[row, LOWEST_BIT[left & live]])
        else:
            stopped[broker] += 2
            replica_state[row, LOWEST_BIT[own]] = REPLICA_OFFLINE
            live &= ~own
        _tell(replicas, row, live, 1, sent)
        if members & own:
            isr[row] = left if left else members
            leader_epoch[row] += 1
            version[row] += 1


@numba.njit(nogil=True, cache=True)
def _come_back(
    rows, broker, replicas, leader, isr, leader_epoch, version, partition_state, replica_state,
    registered, sent,
):
    """It starts, catches up, and leads again what it is preferred for."""
    for row in rows:
        own = 0
        for slot in range(WIDTH):
            own |= np.int64(replicas[row, slot] == broker) << slot
        replica_state[row, LOWEST_BIT[own]] = REPLICA_ONLINE
        if not isr[row] & own and leader[row] >= 0 and registered[leader[row]]:
            isr[row] |= own
            version[row] += 1
        first = np.int32(replicas[row, 0])
        if leader[row] != first and isr[row] & 1 and registered[first]:
            leader[row] = first
            leader_epoch[row] += 1
            version[row] += 1
            partition_state[row] = ONLINE
            for slot in range(WIDTH):
                sent[replicas[row, slot]] += np.int64(registered[replicas[row, slot]])
    sent[broker] += rows.size


@numba.njit(nogil=True, cache=True)
def _place(topic_row, partition, start_of, shift_of, rack, n_racks, replicas):
    n = rack.size
    for row in range(replicas.shape[0]):
        first = (partition[row] + start_of[topic_row[row]]) % n
        step = (shift_of[topic_row[row]] + partition[row] // n) * n_racks % (n - 1)
        replicas[row, 0] = first
        for slot in range(1, WIDTH):
            clash = True
            while clash:
                place = (first + 1 + step) % n
                step = (step + 1) % (n - 1)
                clash = False
                for other in range(slot):
                    taken = replicas[row, other]
                    same_rack = slot < n_racks and rack[taken] == rack[place]
                    clash = clash or same_rack or taken == place
            replicas[row, slot] = place


def place_kafka(
    topic_row: NDArray[np.int32], partition: NDArray[np.int32], start_of: NDArray[np.int32],
    shift_of: NDArray[np.int32], rack: NDArray[np.int32],
) -> NDArray[np.uint16]:
    """As `plain_numpy.place_kafka`, partition by partition."""
    replicas = np.empty((partition.size, WIDTH), np.uint16)
    _place(topic_row, partition, start_of, shift_of, rack, int(rack.max()) + 1, replicas)
    return replicas


@numba.njit(nogil=True, cache=True)
def _move(rows, brokers, replicas, leader_epoch, version, sent, stopped):
    for i in range(rows.size):
        row, new = rows[i], brokers[i]
        old = replicas[row, WIDTH - 1]
        for slot in range(WIDTH - 1):
            sent[replicas[row, slot]] += 3
        sent[old] += 1
        sent[new] += 4
        stopped[old] += 2
        leader_epoch[row] += 3
        version[row] += 4
        replicas[row, WIDTH - 1] = new


@numba.njit(nogil=True, cache=True)
def _delete(
    rows, replicas, leader, isr, leader_epoch, version, partition_state, replica_state, stopped
):
    for row in rows:
        for slot in range(WIDTH):
            stopped[replicas[row, slot]] += 2
            replicas[row, slot] = NO_BROKER
            replica_state[row, slot] = NO_REPLICA
        leader[row] = -1
        isr[row] = 0
        leader_epoch[row] = 0
        version[row] = 0
        partition_state[row] = NO_ENTRY


def start(columns: Columns) -> None:
    """As `plain_numpy.start`; the index is the list of each broker's rows, one after the other."""
    begin = np.zeros((1, columns.registered.size + 1), np.int64)
    columns.offline = np.empty(0, np.int64)
    if columns.registered.all():
        _start(
            columns.replicas, columns.leader, columns.registered, columns.replica_state,
            columns.partition_state, begin[0], columns.leader_and_isr,
        )
    else:
        offline = np.empty(columns.leader.size, np.int64)
        n_offline = _take_over(
            columns.replicas, columns.leader, columns.isr, columns.leader_epoch, columns.version,
            columns.partition_state, columns.replica_state, columns.registered, begin[0],
            columns.leader_and_isr, offline,
        )
        columns.offline = offline[:n_offline].copy()
    np.cumsum(begin[0], out=begin[0])
    hosted = np.empty((1, columns.replicas.size), np.int32)
    _host(columns.replicas, begin[0].copy(), hosted[0])
    columns.row_order, columns.row_starts = hosted, begin


def fail(columns: Columns, brokers: NDArray[np.int64]) -> None:
    """As `plain_numpy.fail`, on columns that `start` of this module began."""
    columns.registered[brokers] = False
    if brokers.size == 1:
        rows = _rows_of(columns, int(brokers[0]))
    else:
        chosen = np.zeros(columns.registered.size, np.bool_)
        chosen[brokers] = True
        rows = _scan(columns.replicas, chosen)
    offline = np.empty(rows.size, np.int64)
    n_offline = _fail(
        rows, columns.replicas, columns.leader, columns.isr, columns.leader_epoch,
        columns.version, columns.partition_state, columns.replica_state, columns.registered,
        columns.leader_and_isr, offline,
    )
    if n_offline:
        columns.offline = np.union1d(columns.offline, offline[:n_offline])


def _rows_of(columns: Columns, broker: int) -> NDArray[np.int32]:
    hosted, begin = columns.row_order[0], columns.row_starts[0]
    rows: NDArray[np.int32] = hosted[begin[broker] : begin[broker + 1]]
    return rows


def prefer(columns: Columns) -> None:
    """As `plain_numpy.prefer`, on all rows."""
    _prefer(
        columns.replicas, columns.leader, columns.isr, columns.leader_epoch, columns.version,
        columns.partition_state, columns.registered, columns.leader_and_isr,
    )


def restart(columns: Columns, broker: int) -> None:
    """As `plain_numpy.restart`: three loops over the broker's rows."""
    rows = _rows_of(columns, broker)
    _shut_down(
        rows, broker, columns.replicas, columns.leader, columns.isr, columns.leader_epoch,
        columns.version, columns.replica_state, columns.registered, columns.leader_and_isr,
        columns.stop_replica,
    )
    fail(columns, np.array([broker]))
    columns.registered[broker] = True
    _come_back(
        rows, broker, columns.replicas, columns.leader, columns.isr, columns.leader_epoch,
        columns.version, columns.partition_state, columns.replica_state, columns.registered,
        columns.leader_and_isr,
    )


def move(columns: Columns, rows: NDArray[np.int64], brokers: NDArray[np.uint16]) -> None:
    """As `plain_numpy.move`."""
    _move(
        rows, brokers, columns.replicas, columns.leader_epoch, columns.version,
        columns.leader_and_isr, columns.stop_replica,
    )
    later = np.stack([rows, brokers.astype(np.int64)])
    columns.hosted_later = np.concatenate([columns.hosted_later, later], axis=1)


def delete(columns: Columns, rows: NDArray[np.int64]) -> None:
    """As `plain_numpy.delete`."""
    _delete(
        rows, columns.replicas, columns.leader, columns.isr, columns.leader_epoch, columns.version,
        columns.partition_state, columns.replica_state, columns.stop_replica,
    )
