"""Metadata records change a state, one after the other: `replay` of Kafka's nodes.

Changes of partitions go through the kernels as `ChangeLog`s; a Partition record is such a change of
an empty row.

Source: docs/kraft.md, section 2; Kafka 4.1, the methods `replay` of ClusterControlManager.java,
ReplicationControlManager.java, ConfigurationControlManager.java, FeatureControlManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import InvariantError
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.kernels.quorum_rules import QuorumRules
from kfast.state import mutators, partition_rows
from kfast.state.arrays import StateArrays
from kfast.state.changes import Missing
from kfast.state.kraft_releases import LastKnownLeader
from kfast.state.metadata_records import (
    MIGRATING,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    Fencing,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    sorted_directories,
)
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.records import Rows
from kfast.state.registrations import (
    BrokerRegistration,
    PartitionRegistration,
    quorum_of,
    remove_rows,
    set_broker_registration,
    set_registration,
)

__all__ = [
    "append_change", "apply_changes", "apply_record", "apply_records", "partition_row_of",
    "quorum_columns", "quorum_rules", "set_topic_id", "write_partitions", "write_topics",
]


# ---------------------------------------------------------------------------- what kernels take


def quorum_columns(state: StateArrays) -> QuorumColumns:
    """The columns of a KRaft state as kernels take them; made anew where an array was replaced."""
    quorum = quorum_of(state)
    arrays = (
        state.columns, state.broker_id, quorum.elr, quorum.last_known_elr, quorum.member_order,
        quorum.directory,
    )
    columns = quorum.columns
    if columns is None or not columns.holds(*arrays):
        columns = quorum.columns = QuorumColumns(*arrays)
    return columns


def quorum_rules(state: StateArrays) -> QuorumRules:
    """What decides besides the rows: release, features, configurations, registrations.

    Source: docs/kraft.md, sections 1.4, 1.5 and 11.
    """
    quorum = quorum_of(state)
    if quorum.rules is not None:
        return quorum.rules
    release, version = quorum.release, quorum.version
    listed = [[quorum.directory_row(d) for d in of] for of in quorum.directories]
    begin = np.zeros(len(listed) + 1, np.int32)
    np.cumsum([len(of) for of in listed], out=begin[1:])
    numbers = np.asarray([d for of in listed for d in of], np.int32)
    quorum.rules = QuorumRules(
        completion=release.completion,
        elr_on=quorum.elr_on,
        knows_leader_of_empty_isr=release.last_known_leader is LastKnownLeader.EMPTY_ISR,
        last_known_must_be_acceptable=release.last_known_leader_must_be_acceptable,
        bumps_on_shrink=(
            release.shrink_bump_always or version.is_leader_epoch_bump_required_on_isr_shrink
        ),
        bumps_by_target=release.shrink_bump_by_target,
        recovery_supported=version.is_leader_recovery_supported,
        directories_on=version.is_directory_assignment_supported,
        min_insync=quorum.min_insync_replicas,
        first_partition=quorum.first_partition[: state.n_topics],
        unclean=quorum.unclean_leader_election,
        directory_begin=begin if numbers.size else None,
        directories=numbers if numbers.size else None,
    )
    return quorum.rules


# ------------------------------------------------------------------------- changes of partitions


def apply_changes(state: StateArrays, log: ChangeLog, stop: int = -1) -> None:
    """Apply the changes of a log in order; what the state lacks for them is allocated first.

    With `stop`, those before that place, which a later call goes on with.
    """
    quorum = quorum_of(state)
    while missing := partition_changes.apply(quorum_columns(state), log, stop):
        if missing & Missing.SLOTS:
            mutators.grow_slots(state, log.slots_needed)
        if missing & Missing.ELR:
            quorum.allocate_elr()
        if missing & Missing.ORDERS:
            quorum.allocate_orders()
        if missing & Missing.DIRECTORIES:
            quorum.allocate_directories()
    leaderless, imbalanced = log.take_deltas()
    state.offline_partition_count += leaderless
    state.preferred_imbalance_count += imbalanced
    state.forget_survey()
    tracked = log.take_tracked()
    if tracked is not None and state._index is not None:
        state._index.append(*tracked)


def append_change(
    state: StateArrays, log: ChangeLog, row: int, record: PartitionChangeRecord
) -> None:
    """Append what a PartitionChange record says of a row; new brokers get a row."""
    lists = {
        "isr": record.isr, "replicas": record.replicas, "removing": record.removing_replicas,
        "adding": record.adding_replicas, "elr": record.eligible_leader_replicas,
    }
    known, leader = record.last_known_elr, record.leader
    named = [broker for ids in lists.values() for broker in ids or ()]
    named += [broker for broker in (*(known or ()), leader) if broker is not None and broker >= 0]
    place = dict(zip(named, mutators.add_brokers(state, named).tolist(), strict=True))
    last_known = None if known is None else NO_LAST_KNOWN
    if known:
        last_known = place.get(known[0], known[0])
    quorum, directories = quorum_of(state), record.directories
    rows: dict[str, Any] = {
        name: None if ids is None else [place[b] for b in ids] for name, ids in lists.items()
    }
    log.append(
        row,
        leader=None if leader is None else place.get(leader, leader),
        recovery=record.leader_recovery_state,
        last_known=last_known,
        directories=(
            None if directories is None else [quorum.directory_row(d) for d in directories]
        ),
        **rows,
    )


# --------------------------------------------------------------------------------------- records


def apply_records(state: StateArrays, records: Iterable[MetadataRecord], offset: int) -> None:
    """Apply records of a log in order; the first has this offset.

    Rows of partitions that follow each other are made together.
    """
    for is_partition, run in groupby(
        enumerate(records, start=offset), lambda item: isinstance(item[1], PartitionRecord)
    ):
        if is_partition:
            write_partitions(state, [record for _, record in run])
            continue
        for at, record in run:
            apply_record(state, record, at)


def apply_record(state: StateArrays, record: MetadataRecord, offset: int = -1) -> None:
    """Apply one record, as every node does; kinds without cluster state change nothing.

    Parameters
    ----------
    state : ClusterState
        Of a KRaft cluster.
    record : MetadataRecord
    offset : int
        Where it stands in the log, -1 where that is not known.

    Raises
    ------
    InvariantError
        It speaks of a broker, topic or partition that is not there.
    """
    if isinstance(record, RegisterBrokerRecord):
        _register_broker(state, record, offset)
        return
    apply = APPLICATIONS.get(type(record))
    if apply is not None:
        apply(state, record)


def _register_broker(state: StateArrays, record: RegisterBrokerRecord, offset: int) -> None:
    set_broker_registration(
        state,
        record.broker_id,
        BrokerRegistration(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=bool(record.in_controlled_shutdown),
            directories=record.log_dirs,
            features=record.features,
            cordoned=record.cordoned_log_dirs or (),
        ),
        offset,
    )


def _registered(state: StateArrays, broker: int, epoch: int) -> int:
    row = state.broker_row(broker)
    known = row >= 0 and state.broker_status[row] & schema.BROKER_REGISTERED
    if not known or int(state.broker_epoch[row]) != epoch:
        raise InvariantError(f"broker {broker} is not registered with epoch {epoch}")
    return row


def _unregister_broker(state: StateArrays, record: UnregisterBrokerRecord) -> None:
    _registered(state, record.broker_id, record.broker_epoch)
    set_broker_registration(state, record.broker_id, None)


def _change_registration(state: StateArrays, record: BrokerRegistrationChangeRecord) -> None:
    """Nothing but a new registration ends a controlled shutdown; no directories: no change."""
    row = _registered(state, record.broker_id, record.broker_epoch)
    if record.fenced:
        _set_fenced(state, row, record.fenced == Fencing.FENCE)
    if record.in_controlled_shutdown:
        state.broker_status[row] |= schema.BROKER_SHUTTING_DOWN
    quorum = quorum_of(state)
    if record.log_dirs:
        quorum.directories[row] = sorted_directories(record.log_dirs)
        quorum.rules = None
    if record.cordoned_log_dirs is not None:
        quorum.cordoned[row] = record.cordoned_log_dirs


def _set_fenced(state: StateArrays, row: int, fenced: bool) -> None:
    if fenced:
        state.broker_status[row] |= schema.BROKER_FENCED
    else:
        state.broker_status[row] &= 255 - schema.BROKER_FENCED


def _fence_broker(state: StateArrays, record: FenceBrokerRecord) -> None:
    _set_fenced(state, _registered(state, record.id, record.epoch), True)


def _unfence_broker(state: StateArrays, record: UnfenceBrokerRecord) -> None:
    _set_fenced(state, _registered(state, record.id, record.epoch), False)


def _write_topic(state: StateArrays, record: TopicRecord) -> None:
    write_topics(state, [record])


def write_topics(state: StateArrays, records: Sequence[TopicRecord]) -> Rows:
    """Apply Topic records of different names; the rows of the topics.

    The names and ids of a state cannot be changed in place, so that each call copies all of them.
    """
    names = [record.name for record in records]
    rows = partition_rows.add_topics(state, names)
    state.topic_flags[rows] |= schema.TOPIC_EXISTS
    _set_topic_ids(state, rows, [record.topic_id for record in records])
    quorum_of(state).derive_topics(names)
    return rows


def set_topic_id(state: StateArrays, row: int, topic_id: str | None) -> None:
    """Give a topic row its id, or take it away."""
    _set_topic_ids(state, np.asarray([row], np.int32), [topic_id])


def _set_topic_ids(state: StateArrays, rows: Rows, topic_ids: Sequence[str | None]) -> None:
    place = np.full(state.n_topics, -1, np.int32)
    place[rows] = np.arange(rows.size)
    named = pa.array(place, mask=place < 0)
    state.topic_id = pc.if_else(
        named.is_valid(), pa.array(topic_ids, pa.string()).take(named), state.topic_id
    )


def topic_rows_of(state: StateArrays, topic_ids: Sequence[str]) -> Rows:
    """Rows of topics by their ids."""
    rows = pc.index_in(pa.array(topic_ids, pa.string()), value_set=state.topic_id)
    if rows.null_count:
        unknown = topic_ids[rows.is_null().index(True).as_py()]
        raise InvariantError(f"no topic has the id {unknown}")
    return np.asarray(rows.to_numpy(), np.int32)


def partition_row_of(state: StateArrays, topic_id: str, partition: int) -> int:
    """Row of a partition by its topic's id."""
    topics = topic_rows_of(state, [topic_id])
    row = int(state.lookup.rows(topics, np.asarray([partition], np.int32))[0])
    if row < 0:
        raise InvariantError(f"topic {topic_id} has no partition {partition}")
    return row


def _write_partition(state: StateArrays, record: PartitionRecord) -> None:
    write_partitions(state, [record])


def write_partitions(state: StateArrays, records: Sequence[Any]) -> None:
    """Apply Partition records: each replaces what was there."""
    if not records:
        return
    topics = topic_rows_of(state, [record.topic_id for record in records])
    numbers = np.asarray([record.partition_id for record in records], np.int32)
    rows = partition_rows.add_rows(state, topics, numbers).tolist()
    for row, record in zip(rows, records, strict=True):
        set_registration(state, row, registration_of(record))


def registration_of(record: PartitionRecord) -> PartitionRegistration:
    """What a Partition record says; without directories all are MIGRATING."""
    return PartitionRegistration(
        replicas=record.replicas,
        directories=record.directories or (MIGRATING,) * len(record.replicas),
        isr=record.isr,
        removing=record.removing_replicas,
        adding=record.adding_replicas,
        elr=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader=record.leader,
        recovery=record.leader_recovery_state,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def _change_partition(state: StateArrays, record: PartitionChangeRecord) -> None:
    log = ChangeLog()
    row = partition_row_of(state, record.topic_id, record.partition_id)
    append_change(state, log, row, record)
    apply_changes(state, log)


def _remove_topic(state: StateArrays, record: RemoveTopicRecord) -> None:
    topic = int(topic_rows_of(state, [record.topic_id])[0])
    remove_rows(state, np.sort(state.lookup.rows_of_topic(topic)))
    quorum_of(state).remove_topic_configurations(state.topic[topic].as_py())
    state.topic_flags[topic] &= schema.TOPIC_UNCLEAN
    set_topic_id(state, topic, None)
    state.forget_survey()


def _clear_elr(state: StateArrays, record: ClearElrRecord) -> None:
    """The partition epoch rises where there was an ELR or a last known leader."""
    quorum = quorum_of(state)
    if quorum.elr is None or quorum.last_known_elr is None:
        return
    has_elr = (quorum.elr != 0) | (quorum.last_known_elr != NO_LAST_KNOWN)
    if record.topic_name:
        topic = state.lookup.topic_or_none(record.topic_name)
        if topic is None:
            raise InvariantError(f"a ClearElr record names topic {record.topic_name!r}")
        has_elr &= state.topic_row == topic
    rows = np.flatnonzero(has_elr).astype(np.int32)
    log = ChangeLog()
    for row in rows.tolist():
        log.append(row, elr=(), last_known=NO_LAST_KNOWN)
    apply_changes(state, log)


def _set_configuration(state: StateArrays, record: ConfigRecord) -> None:
    quorum_of(state).set_configuration(
        record.resource_type, record.resource_name, record.name, record.value
    )


def _set_feature(state: StateArrays, record: FeatureLevelRecord) -> None:
    quorum_of(state).set_feature(record.name, record.feature_level)


APPLICATIONS: Mapping[type, Callable[[StateArrays, Any], None]] = {
    UnregisterBrokerRecord: _unregister_broker,
    BrokerRegistrationChangeRecord: _change_registration,
    FenceBrokerRecord: _fence_broker,
    UnfenceBrokerRecord: _unfence_broker,
    TopicRecord: _write_topic,
    PartitionRecord: _write_partition,
    PartitionChangeRecord: _change_partition,
    RemoveTopicRecord: _remove_topic,
    ClearElrRecord: _clear_elr,
    ConfigRecord: _set_configuration,
    FeatureLevelRecord: _set_feature,
}
