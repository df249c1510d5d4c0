"""What happens to brokers: registration, heartbeats, sessions, directories, unregistration.

Each function answers the records of one event; they are applied after all of them were made.

Source: docs/kraft.md, sections 5 and 6; Kafka 4.1, ClusterControlManager.java,
ReplicationControlManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kfast.controllers import BrokerHeartbeatReply
from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import KRAFT_VERSION, METADATA_VERSION
from kfast.state.metadata_records import (
    IN_CONTROLLED_SHUTDOWN,
    BrokerRegistrationChangeRecord,
    Directories,
    FenceBrokerRecord,
    Fencing,
    MetadataRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    is_reserved_directory,
)
from kfast.state.registrations import BrokerRegistration
from tests.support.kraft_reference.errors import ApiError
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.heartbeats import (
    CONTROLLED_SHUTDOWN,
    NOT_ACTIVE,
    SHUTDOWN_NOW,
    UNFENCED,
    Heartbeats,
)
from tests.support.kraft_reference.partition_change import (
    Election,
    PartitionChangeBuilder,
    without,
)
from tests.support.kraft_reference.state import ClusterState

Records = list[MetadataRecord]

NO_PREVIOUS_EPOCH = -2
"""Epoch of a broker that was never registered; a request that knows none has -1."""


def generate_leader_and_isr_updates(
    state: ClusterState,
    records: Records,
    partitions: Iterable[TopicIdPartition],
    *,
    remove: int = NO_LEADER,
    add: int = NO_LEADER,
    unclean_shutdown: int = NO_LEADER,
) -> None:
    """Rebuild partitions because a broker goes, comes, or has stopped uncleanly (section 5).

    Source: ReplicationControlManager.java, `generateLeaderAndIsrUpdates`.
    """
    gone = {remove, unclean_shutdown} - {NO_LEADER}

    def can_lead(broker: int) -> bool:
        if broker in (remove, unclean_shutdown):
            return False
        return broker == add or state.is_active(broker)

    for place in partitions:
        partition = state.partition(place)
        unclean = state.unclean(state.topics[place.topic_id])
        record = PartitionChangeBuilder(
            state,
            place,
            partition,
            election=Election.UNCLEAN if unclean else Election.ONLINE,
            isr=without(partition.isr, gone),
            uncleanly_shut_down=() if unclean_shutdown == NO_LEADER else (unclean_shutdown,),
            can_lead=can_lead,
        ).build()
        if record is not None:
            records.append(record)


# ---------------------------------------------------------------------------------- the four steps


def handle_broker_fenced(state: ClusterState, broker: int, records: Records) -> None:
    """Section 6.1: out of its ISRs, then fenced."""
    epoch = state.brokers[broker].epoch
    generate_leader_and_isr_updates(
        state, records, state.isr_index.partitions(broker), remove=broker
    )
    if state.metadata_version.is_broker_registration_change_record_supported:
        records.append(BrokerRegistrationChangeRecord(0, broker, epoch, fenced=Fencing.FENCE))
    else:
        records.append(FenceBrokerRecord(0, broker, epoch))


def handle_broker_unfenced(state: ClusterState, broker: int, records: Records) -> None:
    """Section 6.2: unfenced, then every leaderless partition is built again."""
    epoch = state.brokers[broker].epoch
    if state.metadata_version.is_broker_registration_change_record_supported:
        records.append(BrokerRegistrationChangeRecord(0, broker, epoch, fenced=Fencing.UNFENCE))
    else:
        records.append(UnfenceBrokerRecord(0, broker, epoch))
    generate_leader_and_isr_updates(
        state, records, state.isr_index.partitions(NO_LEADER), add=broker
    )


def handle_broker_in_controlled_shutdown(
    state: ClusterState, broker: int, records: Records
) -> None:
    """Section 6.3: recorded once, then out of its ISRs."""
    registration = state.brokers[broker]
    supported = state.metadata_version.is_in_controlled_shutdown_state_supported
    if supported and not registration.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                1, broker, registration.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
            )
        )
    generate_leader_and_isr_updates(
        state, records, state.isr_index.partitions(broker), remove=broker
    )


def handle_broker_shutdown(
    state: ClusterState, broker: int, clean: bool, records: Records
) -> None:
    """What is left of an older incarnation leaves ISRs, and ELRs after an unclean stop.

    Source: section 6.7; ReplicationControlManager.java, `handleBrokerShutdown`; before 4.0 nothing.
    """
    if not state.release.restart_leaves_isrs:
        return
    in_isr = state.isr_index.partitions(broker)
    if state.elr_on and not clean:
        in_elr = state.elr_index.partitions(broker)
        generate_leader_and_isr_updates(state, records, in_isr, unclean_shutdown=broker)
        generate_leader_and_isr_updates(state, records, in_elr, unclean_shutdown=broker)
    else:
        generate_leader_and_isr_updates(state, records, in_isr, remove=broker)


def handle_directories_offline(
    state: ClusterState, broker: int, reported: Directories, records: Records
) -> None:
    """Section 6.6: partitions of directories that fail, then the directories that remain."""
    registration = state.brokers[broker]
    offline = [directory for directory in registration.directories if directory in reported]
    if not offline:
        return
    for directory in offline:
        generate_leader_and_isr_updates(
            state, records, state.directory_index.partitions(directory), remove=broker
        )
    remaining = tuple(d for d in registration.directories if d not in reported)
    records.append(
        BrokerRegistrationChangeRecord(2, broker, registration.epoch, log_dirs=remaining)
    )


# ---------------------------------------------------------------------------------------- requests


@dataclass(frozen=True)
class BrokerRegistrationRequest:
    """A broker asks to be registered. Source: BrokerRegistrationRequest.json."""

    broker_id: int
    incarnation_id: str
    features: Mapping[str, tuple[int, int]]
    log_dirs: Directories = ()
    rack: str | None = None
    previous_broker_epoch: int = -1
    version: int = 4
    same_cluster: bool = True


def check_log_dirs(state: ClusterState, request: BrokerRegistrationRequest) -> None:
    """Directories must be there, real, distinct and the broker's own (section 6.7)."""
    dirs = request.log_dirs
    owned = {
        directory
        for registration in state.brokers.values()
        if registration.id != request.broker_id
        for directory in registration.directories
    }
    if (
        not dirs
        or any(is_reserved_directory(directory) for directory in dirs)
        or len(set(dirs)) != len(dirs)
        or owned & set(dirs)
    ):
        raise ApiError("INVALID_REGISTRATION")


def check_features(state: ClusterState, request: BrokerRegistrationRequest) -> None:
    """Every finalized level must lie in the broker's range; a range that is not given is 0-0.

    Source: section 6.7; ClusterControlManager.java, `registerBroker`,
    `processRegistrationFeature`.
    """
    finalized = {**state.features, KRAFT_VERSION: state.kraft_version}
    ranges = dict(request.features)
    if METADATA_VERSION not in ranges and state.release.metadata_levels[0] == 1:
        ranges[METADATA_VERSION] = (1, 1)
    for name, (lowest, highest) in ranges.items():
        if not lowest <= finalized.get(name, 0) <= highest:
            raise ApiError("UNSUPPORTED_VERSION")
    if METADATA_VERSION not in ranges:
        raise ApiError("INVALID_REGISTRATION")
    listed = not state.release.amends_registrations or all(
        level == 0 or name in ranges for name, level in finalized.items()
    )
    if not listed:
        raise ApiError("UNSUPPORTED_VERSION")


def register_broker(
    state: ClusterState, request: BrokerRegistrationRequest, new_broker_epoch: int
) -> tuple[Records, int]:
    """Section 6.7: the records, and the broker epoch that is answered."""
    heartbeats, broker = state.active_heartbeats, request.broker_id
    if not request.same_cluster:
        raise ApiError("INCONSISTENT_CLUSTER_ID")
    existing = state.brokers.get(broker)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    if existing is not None and is_new and heartbeats.has_valid_session(broker, existing.epoch):
        raise ApiError("DUPLICATE_BROKER_REGISTRATION")
    if is_new and not state.release.amends_registrations:
        heartbeats.remove(broker)
    with_dirs = state.metadata_version.is_directory_assignment_supported
    if with_dirs:
        check_log_dirs(state, request)
    check_features(state, request)
    records: Records = []
    if is_new:
        stored_epoch = NO_PREVIOUS_EPOCH if existing is None else existing.epoch
        clean = request.version >= 3 and request.previous_broker_epoch == stored_epoch
        handle_broker_shutdown(state, broker, clean, records)
    record = _registration_record(state, request, None if is_new else existing, new_broker_epoch)
    records.append(record)
    if is_new:
        heartbeats.remove(broker)
    heartbeats.register(broker, record.fenced)
    return records, record.broker_epoch


def _registration_record(
    state: ClusterState,
    request: BrokerRegistrationRequest,
    amended: BrokerRegistration | None,
    new_broker_epoch: int,
) -> RegisterBrokerRecord:
    """The same incarnation keeps its epoch, and whether it is fenced or shutting down."""
    version = state.metadata_version
    kept = amended if state.release.registers_again_as_it_was else None
    recorded = version.is_in_controlled_shutdown_state_supported
    shutting_down = kept is not None and kept.in_controlled_shutdown
    epoch = new_broker_epoch
    if amended is not None and state.release.amends_registrations:
        epoch = amended.epoch
    return RegisterBrokerRecord(
        version=version.register_broker_record_version,
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        rack=request.rack,
        fenced=True if kept is None else kept.fenced,
        in_controlled_shutdown=shutting_down if recorded else None,
        log_dirs=request.log_dirs if version.is_directory_assignment_supported else (),
        features=request.features,
    )


@dataclass(frozen=True)
class BrokerHeartbeatRequest:
    """A heartbeat of a broker. Source: BrokerHeartbeatRequest.json."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Directories = ()


def process_broker_heartbeat(
    state: ClusterState, request: BrokerHeartbeatRequest
) -> tuple[Records, BrokerHeartbeatReply]:
    """Section 6.4, steps 1 to 7; step 8 comes after the records were applied."""
    heartbeats, broker = state.active_heartbeats, request.broker_id
    if state.release.sessions_by_epoch:
        heartbeats.contact(broker, request.broker_epoch)
    registration_offset = state.registration_offsets.get(broker)
    if registration_offset is None:
        raise ApiError("STALE_BROKER_EPOCH")
    state.check_broker_epoch(broker, request.broker_epoch)
    caught_up = request.metadata_offset >= registration_offset
    current = heartbeats.state(broker).name
    following = heartbeats.next_state(
        broker, request.want_fence, request.want_shut_down, caught_up,
        state.isr_index.has_leaderships(broker),
    )
    records: Records = []
    if current != following:
        if following in NOT_ACTIVE:
            handle_broker_fenced(state, broker, records)
        elif following == UNFENCED:
            handle_broker_unfenced(state, broker, records)
        else:
            handle_broker_in_controlled_shutdown(state, broker, records)
    heartbeats.touch(broker, following in NOT_ACTIVE, request.metadata_offset)
    if state.metadata_version.is_directory_assignment_supported:
        handle_directories_offline(state, broker, request.offline_log_dirs, records)
    return records, BrokerHeartbeatReply(
        caught_up,
        following in NOT_ACTIVE,
        following == CONTROLLED_SHUTDOWN,
        following == SHUTDOWN_NOW,
    )


def update_controlled_shutdown_offset(heartbeats: Heartbeats, broker: int, offset: int) -> None:
    """Section 6.4, step 8. Source: `maybeUpdateControlledShutdownOffset`."""
    state = heartbeats.state(broker)
    if state.shutdown_offset < 0:
        state.shutdown_offset = offset


def maybe_fence_one_stale_broker(state: ClusterState) -> tuple[Records, bool]:
    """Section 6.5: one expired session, and whether to call again."""
    heartbeats, records = state.active_heartbeats, Records()
    if state.release.sessions_by_epoch:
        expired = heartbeats.remove_expired_session()
        if expired is None:
            return records, False
        broker, epoch = expired
        registration = state.brokers.get(broker)
        if registration is None:
            heartbeats.remove(broker)
            return records, True
        if registration.epoch != epoch:
            return records, True
    else:
        stale = heartbeats.stale_broker()
        if stale is None:
            return records, False
        broker = stale
    handle_broker_fenced(state, broker, records)
    if broker in heartbeats.states:
        heartbeats.states[broker].fenced = True
    return records, True


def unregister_broker(state: ClusterState, broker: int) -> Records:
    """Section 6.8: out of its ISRs; those whose ELR it is in are built again."""
    registration = state.brokers.get(broker)
    if registration is None:
        raise ApiError("BROKER_ID_NOT_REGISTERED")
    records: Records = []
    for index in (state.isr_index, state.elr_index):
        generate_leader_and_isr_updates(state, records, index.partitions(broker), remove=broker)
    records.append(UnregisterBrokerRecord(0, broker, registration.epoch))
    return records


def activate(state: ClusterState, session_timeout_ms: int, now_ms: int) -> None:
    """Become the active controller: soft state starts anew from the registrations.

    Source: section 1.3; ClusterControlManager.java, `activate`; section 11 for 4.0.
    """
    heartbeats = Heartbeats(state.release, session_timeout_ms, now_ms)
    state.heartbeats = heartbeats
    for broker in state.brokers.order():
        registration = state.brokers[broker]
        heartbeats.register(broker, registration.fenced)
        if not registration.fenced or state.release.fenced_have_sessions_on_activation:
            heartbeats.contact(broker, registration.epoch)
