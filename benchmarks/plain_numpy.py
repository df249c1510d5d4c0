"""The same work in plain numpy, written as well as numpy allows: what kfast is measured against.

Columns of their own, one vectorised step after the other, and an index from each broker to its
rows, so that a failure reads only the rows that it touches. Brokers that fail together are taken
together: what Kafka does to a partition broker by broker follows from masks and bit counts.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

ONLINE, OFFLINE = 1, 2
"""Partition states, with Kafka's bytes."""

REPLICA_ONLINE, REPLICA_OFFLINE = 2, 3
"""Replica states, with Kafka's bytes."""

NO_ENTRY, NO_REPLICA, NO_BROKER = -1, 0, 65535
"""What stands where a partition is gone: its state, a replica's, and a broker row."""

BIT_COUNT = np.array([bin(mask).count("1") for mask in range(256)], np.int32)
LOWEST_BIT = np.array([0] + [(mask & -mask).bit_length() - 1 for mask in range(1, 256)], np.int64)


@dataclass
class Columns:
    """One array per column; brokers are rows, masks are bytes."""

    replicas: NDArray[np.uint16]
    leader: NDArray[np.int32]
    isr: NDArray[np.uint8]
    leader_epoch: NDArray[np.int32]
    version: NDArray[np.int32]
    partition_state: NDArray[np.int8]
    replica_state: NDArray[np.uint8]
    registered: NDArray[np.bool_]
    leader_and_isr: NDArray[np.int64]
    stop_replica: NDArray[np.int64]
    row_order: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    row_starts: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    offline: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    hosted_later: NDArray[np.int64] = field(default_factory=lambda: np.empty((2, 0), np.int64))

    def copy(self) -> Columns:
        """Another with the same values; the index of hosts, which is never written, is shared."""
        shared = ("row_order", "row_starts")
        return Columns(**{
            name: value if name in shared else value.copy() for name, value in vars(self).items()
        })

    def digest(self) -> int:
        """One number for all that an event can change, and for the requests sent."""
        return digest(
            self.leader,
            self.isr,
            self.leader_epoch,
            self.version,
            self.partition_state,
            self.replicas,
            self.replica_state,
            self.leader_and_isr,
            self.stop_replica,
        )


def digest(*columns: NDArray[Any]) -> int:
    """One number for the values of some columns, whatever their types and strides."""
    found = 0
    for column in columns:
        found = zlib.crc32(np.ascontiguousarray(column, "<i8").tobytes(), found)
    return found


def fresh(replicas: NDArray[np.uint16], n_brokers: int) -> Columns:
    """Columns of partitions that were just created: first replica leads, all are in sync."""
    n_partitions, n_slots = replicas.shape
    return Columns(
        replicas=replicas,
        leader=replicas[:, 0].astype(np.int32),
        isr=np.full(n_partitions, (1 << n_slots) - 1, np.uint8),
        leader_epoch=np.zeros(n_partitions, np.int32),
        version=np.zeros(n_partitions, np.int32),
        partition_state=np.full(n_partitions, -1, np.int8),
        replica_state=np.zeros(replicas.shape, np.uint8),
        registered=np.ones(n_brokers, np.bool_),
        leader_and_isr=np.zeros(n_brokers, np.int64),
        stop_replica=np.zeros(n_brokers, np.int64),
    )


def start(columns: Columns) -> None:
    """A controller takes over, whatever brokers died meanwhile: section 6.1."""
    n_brokers = columns.registered.size
    slots = np.ascontiguousarray(columns.replicas.T)
    counts = np.array([np.bincount(slot, minlength=n_brokers) for slot in slots])
    columns.row_order = np.empty((slots.shape[0], slots.shape[1]), np.int64)
    for slot, order in zip(slots, columns.row_order, strict=True):
        order[:] = np.argsort(slot, kind="stable")
    columns.row_starts = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    columns.leader_and_isr += np.where(columns.registered, counts.sum(axis=0), 0)
    columns.offline = np.empty(0, np.int64)
    if columns.registered.all():
        columns.replica_state[:] = REPLICA_ONLINE
    else:
        up = columns.registered.take(columns.replicas)
        columns.replica_state[:] = np.where(up, REPLICA_ONLINE, REPLICA_OFFLINE)
        rows = np.flatnonzero(~up.all(axis=1))
        bits = (1 << np.arange(slots.shape[0])).astype(np.uint8)
        replicas, live = columns.replicas.take(rows, axis=0), up[rows].view(np.uint8) @ bits
        _shrink(columns, rows, replicas, live, bits)
        _elect(columns, rows, replicas, live)
    leads = columns.registered[columns.leader] & (columns.leader >= 0)
    columns.partition_state[:] = np.where(leads, ONLINE, OFFLINE)


def fail(columns: Columns, brokers: NDArray[np.int64]) -> None:
    """Some brokers fail together: section 6.2, `replicas_become_offline`."""
    columns.registered[brokers] = False
    rows = _rows_on(columns, brokers)
    replicas = columns.replicas.take(rows, axis=0)
    bits = (1 << np.arange(replicas.shape[1])).astype(np.uint8)
    up = columns.registered.take(replicas)
    live = up.view(np.uint8) @ bits
    _elect(columns, rows, replicas, live)
    _shrink(columns, rows, replicas, live, bits)
    states = columns.replica_state.take(rows, axis=0)
    columns.replica_state[rows] = np.where(up, states, np.uint8(REPLICA_OFFLINE))


def _rows_on(columns: Columns, brokers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with a replica on one of these brokers, each once: from the index, or by a scan."""
    starts, ends = columns.row_starts[:, brokers], columns.row_starts[:, brokers + 1]
    if int((ends - starts).sum()) > columns.leader.size // 8:
        wanted = np.zeros(columns.registered.size, np.bool_)
        wanted[brokers] = True
        return np.flatnonzero(wanted.take(columns.replicas).any(axis=1))
    orders = enumerate(columns.row_order)
    parts = [
        order[start:end]
        for slot, order in orders
        for start, end in zip(starts[slot], ends[slot], strict=True)
    ]
    rows = np.concatenate(parts)
    return rows if brokers.size == 1 else np.unique(rows)


def _elect(
    columns: Columns, rows: NDArray[Any], replicas: NDArray[Any], live: NDArray[Any]
) -> None:
    """Offline partition leader election: sections 3.6 and 4.3; unclean election is off."""
    leader = columns.leader.take(rows)
    headless = np.flatnonzero((leader < 0) | ~columns.registered.take(leader))
    at = rows.take(headless)
    candidates = columns.isr.take(at) & live.take(headless)
    found = candidates != 0
    chosen = headless[found]
    elected = at[found]
    isr = candidates[found]
    columns.leader[elected] = replicas[chosen, LOWEST_BIT.take(isr)]
    columns.isr[elected] = isr
    columns.leader_epoch[elected] += 1
    columns.version[elected] += 1
    columns.partition_state[at] = np.where(found, ONLINE, OFFLINE)
    columns.offline = np.union1d(columns.offline, at[~found])
    _send(columns, replicas.take(chosen, axis=0))


def _shrink(
    columns: Columns,
    rows: NDArray[Any],
    replicas: NDArray[Any],
    live: NDArray[Any],
    bits: NDArray[np.uint8],
) -> None:
    """Take the failed brokers out of the ISRs: section 2.6, for all brokers of a row at once.

    Broker by broker, in ascending id, each one in the ISR leaves it and raises the epoch by 1;
    the last member raises the epoch too, but stays.
    """
    isr = columns.isr.take(rows)
    bumps = BIT_COUNT.take(isr & ~live)
    left = isr & live
    emptied = np.flatnonzero((left == 0) & (isr != 0))
    member = np.where(isr[emptied, None] & bits, replicas[emptied].astype(np.int32), -1)
    left[emptied] = bits[np.argmax(member, axis=1)]
    leader = columns.leader.take(rows)
    lost = (leader >= 0) & ~columns.registered.take(leader)
    columns.isr[rows] = left
    columns.leader[rows] = np.where(lost, -1, leader)
    columns.leader_epoch[rows] += bumps
    columns.version[rows] += bumps
    _send(columns, replicas)


def _send(columns: Columns, replicas: NDArray[Any]) -> None:
    """Count a LeaderAndIsr partition for every registered broker in these rows."""
    counts = np.bincount(replicas.ravel(), minlength=columns.registered.size)
    columns.leader_and_isr += np.where(columns.registered, counts, 0)


def place_kafka(
    topic_row: NDArray[np.int32],
    partition: NDArray[np.int32],
    start_of: NDArray[np.int32],
    shift_of: NDArray[np.int32],
    rack: NDArray[np.int32],
    n_replicas: int,
) -> NDArray[np.uint16]:
    """Kafka's rack-aware placement, all partitions at once, candidate by candidate.

    Source: Kafka 3.9, AdminUtils.java, `assignReplicasToBrokersRackAware`.
    """
    n = rack.size
    n_racks = int(rack.max()) + 1
    first = (partition + start_of[topic_row]) % n
    step = (shift_of[topic_row] + partition // n) * n_racks % (n - 1)
    replicas = np.zeros((partition.size, n_replicas), np.uint16)
    replicas[:, 0] = first
    for slot in range(1, n_replicas):
        waiting = np.arange(partition.size)
        while waiting.size:
            place = (first[waiting] + 1 + step[waiting]) % n
            step[waiting] = (step[waiting] + 1) % (n - 1)
            taken = replicas[waiting, :slot]
            if slot < n_racks:
                clash = (rack[taken] == rack[place][:, None]).any(axis=1)
            else:
                clash = (taken == place[:, None]).any(axis=1)
            replicas[waiting[~clash], slot] = place[~clash]
            waiting = waiting[clash]
    return replicas


def prefer(columns: Columns, rows: NDArray[np.int64] | None = None) -> None:
    """Give partitions back to their preferred replicas: section 6.8, `rebalance_leaders(0)`.

    Only these rows are looked at, where they are given.
    """
    if rows is None:
        first = columns.replicas[:, 0].astype(np.int32)
        waiting = np.flatnonzero(columns.leader != first)
        first = first[waiting]
    else:
        first = columns.replicas[rows, 0].astype(np.int32)
        away = columns.leader.take(rows) != first
        waiting, first = rows[away], first[away]
    ready = columns.registered.take(first) & (columns.isr.take(waiting) & 1 != 0)
    at = waiting[ready]
    columns.leader[at] = first[ready]
    columns.leader_epoch[at] += 1
    columns.version[at] += 1
    columns.partition_state[at] = ONLINE
    _send(columns, columns.replicas.take(at, axis=0))


def restart(columns: Columns, broker: int) -> None:
    """A broker is restarted with care: sections 6.3, 6.2, 6.10 and 6.8, on its rows alone."""
    rows = _rows_on(columns, np.array([broker]))
    replicas = columns.replicas.take(rows, axis=0)
    own = (replicas == broker) @ (1 << np.arange(replicas.shape[1])).astype(np.uint8)
    _shut_down(columns, rows, replicas, own, broker)
    fail(columns, np.array([broker]))
    columns.registered[broker] = True
    columns.replica_state[rows, LOWEST_BIT.take(own)] = REPLICA_ONLINE
    columns.leader_and_isr[broker] += rows.size
    leader = columns.leader.take(rows)
    away = (columns.isr.take(rows) & own == 0) & (leader >= 0) & columns.registered.take(leader)
    columns.isr[rows[away]] |= own[away]
    columns.version[rows[away]] += 1
    prefer(columns, rows)


def _shut_down(
    columns: Columns, rows: NDArray[Any], replicas: NDArray[Any], own: NDArray[Any], broker: int
) -> None:
    """Section 6.3: what the broker leads goes to others in sync, and it leaves every ISR."""
    isr = columns.isr.take(rows)
    leads = columns.leader.take(rows) == broker
    live = columns.registered.take(replicas) @ (1 << np.arange(replicas.shape[1])).astype(np.uint8)
    candidates = isr & live & ~own
    elected = np.flatnonzero(leads & (candidates != 0))
    columns.leader[rows[elected]] = replicas[elected, LOWEST_BIT.take(candidates[elected])]
    columns.replica_state[rows[~leads], LOWEST_BIT.take(own[~leads])] = REPLICA_OFFLINE
    written = ~leads & (isr & own != 0)
    written[elected] = True
    shrunk = rows[written & (isr != own)]
    columns.isr[shrunk] &= ~own[written & (isr != own)]
    columns.leader_epoch[rows[written]] += 1
    columns.version[rows[written]] += 1
    _send(columns, replicas.take(elected, axis=0))
    followed = replicas[~leads]
    columns.stop_replica[broker] += 2 * followed.shape[0]
    _send(columns, followed[followed != broker])


def move(columns: Columns, rows: NDArray[np.int64], brokers: NDArray[np.uint16]) -> None:
    """The last replica of each row goes to another broker: section 6.7, from request to end.

    All brokers are up, all replicas in sync, and none of the last ones leads.
    """
    n_brokers, last = columns.registered.size, columns.replicas.shape[1] - 1
    old = columns.replicas[rows, last]
    before = np.bincount(columns.replicas[rows, :last].ravel(), minlength=n_brokers)
    leaving = np.bincount(old, minlength=n_brokers)
    coming = np.bincount(brokers, minlength=n_brokers)
    columns.leader_and_isr += 3 * before + leaving + 4 * coming
    columns.stop_replica += 2 * leaving
    columns.leader_epoch[rows] += 3
    columns.version[rows] += 4
    columns.replicas[rows, last] = brokers
    later = np.stack([rows, brokers.astype(np.int64)])
    columns.hosted_later = np.concatenate([columns.hosted_later, later], axis=1)


def delete(columns: Columns, rows: NDArray[np.int64]) -> None:
    """Partitions are deleted, from the request to the last answer: section 6.12."""
    counts = np.bincount(columns.replicas[rows].ravel(), minlength=columns.registered.size)
    columns.stop_replica += 2 * counts
    columns.leader[rows] = -1
    columns.isr[rows] = 0
    columns.leader_epoch[rows] = 0
    columns.version[rows] = 0
    columns.partition_state[rows] = NO_ENTRY
    columns.replica_state[rows] = NO_REPLICA
    columns.replicas[rows] = NO_BROKER
