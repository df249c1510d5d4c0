"""Registrations of one partition or one broker of a KRaft cluster: read, and replaced whole.

Source: docs/kraft.md, section 1.1; Kafka 4.1, PartitionRegistration.java, BrokerRegistration.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.errors import ArgumentError
from kfast.state import mutators, partition_rows
from kfast.state.arrays import StateArrays
from kfast.state.metadata_records import (
    MIGRATING,
    NO_FEATURES,
    Brokers,
    Directories,
    sorted_directories,
)
from kfast.state.quorum import NO_DIRECTORY, NO_LAST_KNOWN, NO_MEMBER, Quorum
from kfast.state.records import Rows


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    """State of one partition; lists are broker ids, in order."""

    replicas: Brokers
    directories: Directories
    isr: Brokers
    removing: Brokers = ()
    adding: Brokers = ()
    elr: Brokers = ()
    last_known_elr: Brokers = ()
    leader: int = schema.NO_LEADER
    recovery: int = 0
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """Registration of one broker."""

    id: int
    epoch: int
    incarnation_id: str
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: Directories
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)
    cordoned: Directories = ()


def quorum_of(state: StateArrays) -> Quorum:
    """What only a KRaft cluster has; `ArgumentError` for a ZooKeeper cluster."""
    if state.quorum is None:
        raise ArgumentError(
            f"the cluster's controller is {state.controller}: only a KRaft cluster has"
            " registrations; see kfast.with_controller"
        )
    return state.quorum


def registration(state: StateArrays, row: int) -> PartitionRegistration:
    """See `ClusterState.registration`."""
    quorum, row = quorum_of(state), state.check_row(row)
    record = state.records[row]
    n = int(record["n_replicas"])
    leader, last_known = int(record["leader"]), NO_LAST_KNOWN
    if quorum.last_known_elr is not None:
        last_known = int(quorum.last_known_elr[row])
    places = [0] * n if quorum.directory is None else quorum.directory[row, :n].tolist()
    return PartitionRegistration(
        replicas=state.ids_of(row, (1 << n) - 1),
        directories=tuple(quorum.directory_ids[place] for place in places),
        isr=member_ids(state, row),
        removing=state.ordered_ids(row, "removing"),
        adding=state.ordered_ids(row, "adding"),
        elr=member_ids(state, row, of_elr=True),
        last_known_elr=() if last_known == NO_LAST_KNOWN else (_id(state, last_known),),
        leader=_id(state, leader),
        recovery=int((int(record["flags"]) & schema.FLAG_RECOVERY) != 0),
        leader_epoch=int(record["leader_epoch"]),
        partition_epoch=int(record["version"]),
    )


def _id(state: StateArrays, broker: int) -> int:
    return int(state.broker_id[broker]) if broker >= 0 else broker


def member_ids(state: StateArrays, row: int, *, of_elr: bool = False) -> Brokers:
    """Ids of a partition's ISR, or of its ELR, in order."""
    quorum = quorum_of(state)
    isr = int(state.records["isr"][row])
    elr = 0 if quorum.elr is None else int(quorum.elr[row])
    if quorum.member_order is None:
        return state.ids_of(row, elr if of_elr else isr)
    first = isr.bit_count() if of_elr else 0
    slots = quorum.member_order[row, first : first + (elr if of_elr else isr).bit_count()]
    return tuple(state.broker_id[state.replicas[row, slots]].tolist())


def set_registration(state: StateArrays, row: int, new: PartitionRegistration) -> None:
    """Replace all that is said of a partition; brokers that it names may be unknown."""
    quorum = quorum_of(state)
    if len(new.last_known_elr) > 1:
        raise ArgumentError(
            f"last_known_elr is {new.last_known_elr}: at most one broker is allowed, as in a real"
            " controller"
        )
    led = [new.leader] if new.leader >= 0 else []
    named = list(dict.fromkeys(
        (*new.replicas, *new.isr, *new.elr, *new.adding, *new.removing, *led)
    ))
    known = [broker for broker in new.last_known_elr if broker >= 0]
    brokers = mutators.add_brokers(state, [*named, *known])[: len(named)]
    mutators.grow_slots(state, max(len(named), 1))
    _count(state, np.asarray([row], np.int32), -1)
    place = {broker: slot for slot, broker in enumerate(named)}
    null = -1 if state.layout == "wide" else schema.NARROW_BROKERS
    state.replicas[row] = null
    state.replicas[row, : len(named)] = brokers
    record = state.records[row : row + 1]
    record["leader"] = brokers[place[new.leader]] if led else new.leader
    record["leader_epoch"], record["version"] = new.leader_epoch, new.partition_epoch
    for name in ("isr", "adding", "removing"):
        record[name] = sum(1 << place[broker] for broker in getattr(new, name))
    record["n_replicas"], record["n_slots"] = len(new.replicas), len(named)
    record["flags"] = (
        schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP
        | (schema.FLAG_RECOVERY if new.recovery else 0)
    )
    mutators.note_order(state, "adding", row, new.adding)
    mutators.note_order(state, "removing", row, new.removing)
    _set_cold(state, quorum, row, new, place)
    _count(state, np.asarray([row], np.int32), 1)
    if state._index is not None:
        state._index.append(np.full(brokers.size, row, np.int32), brokers)


def change_registration(state: StateArrays, row: int, **changes: Any) -> None:
    """Change some fields of a partition's registration.

    New replicas are in the directory that Kafka gives them; members of the ISR leave the ELR.
    """
    quorum, before = quorum_of(state), registration(state, row)
    new = replace(before, **changes)
    mutators.add_brokers(state, new.replicas)
    known = dict(zip(before.replicas, before.directories, strict=True))
    set_registration(state, row, replace(
        new,
        directories=tuple(
            known.get(broker) or
            quorum.directory_ids[quorum.default_directory(state.broker_row(broker))]
            for broker in new.replicas
        ),
        elr=tuple(broker for broker in new.elr if broker not in new.isr),
    ))


def _set_cold(
    state: StateArrays, quorum: Quorum, row: int, new: PartitionRegistration,
    place: Mapping[int, int],
) -> None:
    if new.elr or new.last_known_elr:
        quorum.allocate_elr()
    if quorum.elr is not None and quorum.last_known_elr is not None:
        quorum.elr[row] = sum(1 << place[broker] for broker in new.elr)
        last_known = new.last_known_elr[0] if new.last_known_elr else NO_LAST_KNOWN
        quorum.last_known_elr[row] = (
            state.broker_row(last_known) if last_known >= 0 else last_known
        )
    slots = [place[broker] for broker in new.isr], [place[broker] for broker in new.elr]
    if any(listed != sorted(listed) for listed in slots):
        quorum.allocate_orders()
    if quorum.member_order is not None:
        order = [*slots[0], *slots[1]]
        quorum.member_order[row] = NO_MEMBER
        quorum.member_order[row, : len(order)] = order
    if any(directory != MIGRATING for directory in new.directories):
        quorum.allocate_directories()
    if quorum.directory is not None:
        rows = [quorum.directory_row(text) for text in new.directories]
        quorum.directory[row] = NO_DIRECTORY
        quorum.directory[row, : len(new.replicas)] = rows or 0
    if state.partition[row] == 0:
        quorum.forget_topics()


def _count(state: StateArrays, rows: Rows, sign: int) -> None:
    """Take rows out of the counters and the bitmap of leaderless partitions, or put them in."""
    rows = rows[(state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP) != 0]
    records = state.records.take(rows)
    leader = records["leader"]
    leaderless = rows[leader < 0]
    state.n_led += sign * rows.size
    state.n_reassigned += sign * int(np.count_nonzero(records["adding"] | records["removing"]))
    state.offline_partition_count += sign * leaderless.size
    imbalanced = leader != state.replicas[rows, 0].astype(np.int32)
    state.preferred_imbalance_count += sign * int(np.count_nonzero(imbalanced))
    words = state.leader_offline
    np.bitwise_and.at(words, rows >> 6, ~_bits(rows))
    if sign > 0:
        np.bitwise_or.at(words, leaderless >> 6, _bits(leaderless))


def _bits(rows: Rows) -> npt.NDArray[np.uint64]:
    """Bit of each row in its word of a bitmap."""
    return np.uint64(1) << (rows & 63).astype(np.uint64)


def remove_rows(state: StateArrays, rows: Rows) -> None:
    """Forget partitions whole; their rows become free."""
    _count(state, rows, -1)
    state.records["flags"][rows] = state.records["n_replicas"][rows] = 0
    partition_rows.free(state, rows)


def broker_registration(state: StateArrays, broker_id: int) -> BrokerRegistration | None:
    """See `ClusterState.broker_registration`."""
    quorum, row = quorum_of(state), state.broker_row(broker_id)
    if row < 0 or not state.broker_status[row] & schema.BROKER_REGISTERED:
        return None
    status = int(state.broker_status[row])
    return BrokerRegistration(
        id=broker_id,
        epoch=int(state.broker_epoch[row]),
        incarnation_id=quorum.incarnation_id[row],
        rack=state.rack[row].as_py(),
        fenced=bool(status & schema.BROKER_FENCED),
        in_controlled_shutdown=bool(status & schema.BROKER_SHUTTING_DOWN),
        directories=quorum.directories[row],
        features=quorum.feature_ranges[row],
        cordoned=quorum.cordoned[row],
    )


def set_broker_registration(
    state: StateArrays, broker_id: int, new: BrokerRegistration | None, offset: int = -1
) -> None:
    """Replace a broker's registration; None removes it. The broker may be unknown.

    `offset` is that of its last RegisterBroker record.
    """
    quorum = quorum_of(state)
    row = int(mutators.add_brokers(state, [broker_id])[0])
    if new is None:
        state.broker_status[row] = 0
        new = BrokerRegistration(broker_id, 0, "", None, False, False, ())
    else:
        state.broker_status[row] = (
            schema.BROKER_REGISTERED | (schema.BROKER_FENCED if new.fenced else 0)
            | (schema.BROKER_SHUTTING_DOWN if new.in_controlled_shutdown else 0)
        )
    state.broker_epoch[row] = new.epoch
    if state.rack[row].as_py() != new.rack:
        racks = state.rack.to_pylist()
        racks[row] = new.rack
        state.rack = pa.array(racks, pa.string())
    quorum.incarnation_id[row] = new.incarnation_id
    quorum.directories[row] = sorted_directories(new.directories)
    quorum.cordoned[row] = new.cordoned
    quorum.feature_ranges[row] = new.features
    quorum.registration_offset[row] = offset
    quorum.rules = None
