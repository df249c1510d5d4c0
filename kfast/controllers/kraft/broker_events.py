"""What happens to brokers: registration, heartbeats, sessions, directories, unregistration.

Source: docs/kraft.md, section 6; Kafka 4.1, ClusterControlManager.java,
ReplicationControlManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kfast import arguments, schema
from kfast.controllers.kraft.engine import QuorumEngine
from kfast.controllers.kraft.faults import ApiError
from kfast.controllers.kraft.heartbeats import BrokerControlState
from kfast.kernels import partition_changes
from kfast.state.changes import Visited
from kfast.state.kraft_releases import KRAFT_VERSION, KRAFT_VERSION_LEVEL, METADATA_VERSION
from kfast.state.metadata_records import (
    IN_CONTROLLED_SHUTDOWN,
    BrokerRegistrationChangeRecord,
    Directories,
    FenceBrokerRecord,
    Fencing,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    check_uuids,
    is_reserved_directory,
    uuid_text,
)
from kfast.state.record_application import quorum_columns

NEVER_REGISTERED = -2
"""Epoch of a broker that was never registered."""
NO_PREVIOUS_EPOCH = -1
"""Of a request that knows none."""
NEWEST_VERSION = 4
"""Newest version of BrokerRegistrationRequest that is simulated."""

@dataclass(frozen=True)
class BrokerRegistrationRequest:
    """A broker asks to be registered. Source: BrokerRegistrationRequest.json."""

    broker_id: int
    incarnation_id: str
    features: Mapping[str, tuple[int, int]]
    log_dirs: Directories = ()
    rack: str | None = None
    previous_broker_epoch: int = NO_PREVIOUS_EPOCH
    version: int = NEWEST_VERSION
    same_cluster: bool = True

    def __post_init__(self) -> None:
        check_uuids("incarnation_id", [self.incarnation_id])
        arguments.check_instance("features", self.features, Mapping)
        for name, levels in self.features.items():
            arguments.text("a feature", name)
            for level in arguments.items_of(f"the range of {name}", levels, 2):
                arguments.int32(f"a level of {name}", level)
        if self.rack is not None:
            arguments.text("rack", self.rack)
        arguments.int64("previous_broker_epoch", self.previous_broker_epoch)
        arguments.whole("request_version", self.version, 0, NEWEST_VERSION)


@dataclass(frozen=True)
class BrokerHeartbeatRequest:
    """A heartbeat of a broker. Source: BrokerHeartbeatRequest.json."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: Directories = ()

    def __post_init__(self) -> None:
        arguments.int64("broker_epoch", self.broker_epoch)
        arguments.int64("metadata_offset", self.metadata_offset)


@dataclass(frozen=True)
class BrokerHeartbeatReply:
    """What a heartbeat is answered. Source: BrokerHeartbeatReply.java."""

    caught_up: bool
    fenced: bool
    in_controlled_shutdown: bool
    should_shut_down: bool


def own_directories(engine: QuorumEngine, broker: int) -> Directories:
    """The one log directory of a broker that lists none, where brokers have to."""
    supported = engine.version.is_directory_assignment_supported
    return (uuid_text(broker + 1, 1),) if supported else ()


# --------------------------------------------------------- fencing, unfencing, shutdown: 6.1 to 6.3


def handle_broker_fenced(engine: QuorumEngine, row: int, *, alone: bool = True) -> None:
    """Section 6.1: a broker leaves its ISRs, then it is fenced.

    `alone`: nothing else of the event visits partitions.
    """
    engine.update(engine.visits.in_isr(row), remove=row, at_once=alone)
    broker, epoch = int(engine.state.broker_id[row]), engine.epoch_of(row)
    if engine.version.is_broker_registration_change_record_supported:
        engine.write(BrokerRegistrationChangeRecord(0, broker, epoch, fenced=Fencing.FENCE))
    else:
        engine.write(FenceBrokerRecord(0, broker, epoch))


def fence_broker(engine: QuorumEngine, row: int) -> None:
    """Section 6.1, for a session that expires: the heartbeat state follows."""
    handle_broker_fenced(engine, row)
    engine.heartbeats.fence(int(engine.state.broker_id[row]))


def handle_broker_unfenced(engine: QuorumEngine, row: int) -> None:
    """Section 6.2: a broker is unfenced, then every leaderless partition is built again."""
    broker, epoch = int(engine.state.broker_id[row]), engine.epoch_of(row)
    if engine.version.is_broker_registration_change_record_supported:
        engine.write(BrokerRegistrationChangeRecord(0, broker, epoch, fenced=Fencing.UNFENCE))
    else:
        engine.write(UnfenceBrokerRecord(0, broker, epoch))
    engine.update((engine.visits.leaderless(), Visited.EVERY_ROW), add=row)


def handle_broker_in_controlled_shutdown(
    engine: QuorumEngine, row: int, *, alone: bool = True
) -> None:
    """Section 6.3: the shutdown is recorded once, then the broker leaves its ISRs."""
    supported = engine.version.is_in_controlled_shutdown_state_supported
    if supported and not engine.state.broker_status[row] & schema.BROKER_SHUTTING_DOWN:
        engine.write(BrokerRegistrationChangeRecord(
            1, int(engine.state.broker_id[row]), engine.epoch_of(row),
            in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN,
        ))
    engine.update(engine.visits.in_isr(row), remove=row, at_once=alone)


# ------------------------------------------------------------------------- heartbeats: 6.4 and 6.6


def process_broker_heartbeat(
    engine: QuorumEngine, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatReply:
    """Section 6.4, steps 1 to 7.

    Source: ClusterControlManager.java, `processBrokerHeartbeat`;
    ReplicationControlManager.java, `processBrokerHeartbeat`.
    """
    heartbeats, broker = engine.heartbeats, request.broker_id
    if engine.release.sessions_by_epoch:
        heartbeats.contact(broker, request.broker_epoch)
    row = engine.check_broker_epoch(broker, request.broker_epoch)
    caught_up = request.metadata_offset >= int(engine.quorum.registration_offset[row])
    stops = request.want_shut_down or heartbeats.state(broker).shutting_down
    current, following = heartbeats.next_state(
        broker, request.want_fence, request.want_shut_down, caught_up,
        stops and has_leaderships(engine, row),
    )
    alone = not request.offline_log_dirs
    if current != following:
        if following.fenced:
            handle_broker_fenced(engine, row, alone=alone)
        elif following is BrokerControlState.UNFENCED:
            handle_broker_unfenced(engine, row)
        else:
            handle_broker_in_controlled_shutdown(engine, row, alone=alone)
    heartbeats.touch(broker, following.fenced, request.metadata_offset)
    if engine.version.is_directory_assignment_supported and request.offline_log_dirs:
        handle_directories_offline(engine, row, request.offline_log_dirs)
    return BrokerHeartbeatReply(
        caught_up,
        following.fenced,
        following is BrokerControlState.CONTROLLED_SHUTDOWN,
        following is BrokerControlState.SHUTDOWN_NOW,
    )


def has_leaderships(engine: QuorumEngine, row: int) -> bool:
    """Whether a broker row leads a partition."""
    rows, _ = engine.visits.in_isr(row)
    return partition_changes.leads_any(quorum_columns(engine.state), rows, row)


def handle_directories_offline(engine: QuorumEngine, row: int, reported: Directories) -> None:
    """Section 6.6: partitions of directories that fail, then the directories that remain.

    Source: ReplicationControlManager.java, `handleDirectoriesOffline`.
    """
    listed = engine.quorum.directories[row]
    offline = [directory for directory in listed if directory in reported]
    if not offline:
        return
    for directory in offline:
        engine.update((engine.visits.in_directory(directory), Visited.EVERY_ROW), remove=row)
    remaining = tuple(directory for directory in listed if directory not in reported)
    engine.write(BrokerRegistrationChangeRecord(
        2, int(engine.state.broker_id[row]), engine.epoch_of(row), log_dirs=remaining
    ))


def update_controlled_shutdown_offset(engine: QuorumEngine, broker: int) -> None:
    """Section 6.4, step 8. Source: `maybeUpdateControlledShutdownOffset`."""
    state = engine.heartbeats.state(broker)
    if not state.shutting_down:
        state.shutdown_offset = engine.next_offset - 1


# ------------------------------------------------------------------------------------ sessions: 6.5


def maybe_fence_stale_broker(engine: QuorumEngine) -> bool:
    """Section 6.5: one expired session ends; answers whether to call again.

    Source: ReplicationControlManager.java, `maybeFenceOneStaleBroker`; section 11 for 3.x.
    """
    heartbeats = engine.heartbeats
    if not engine.release.sessions_by_epoch:
        stale = heartbeats.first_stale_broker()
        if stale is None:
            return False
        fence_broker(engine, engine.state.broker_row(stale))
        return True
    expired = heartbeats.remove_expired_session()
    if expired is None:
        return False
    broker, epoch = expired
    row = engine.broker_row(broker)
    if row < 0:
        heartbeats.remove(broker)
    elif engine.epoch_of(row) == epoch:
        fence_broker(engine, row)
    return True


# ----------------------------------------------------------------- registration: 6.7, 6.8 and 1.3


def register_broker(engine: QuorumEngine, request: BrokerRegistrationRequest) -> int:
    """Section 6.7; answers the broker epoch.

    Source: ClusterControlManager.java, `registerBroker`.
    """
    heartbeats, broker = engine.heartbeats, request.broker_id
    if not request.same_cluster:
        raise ApiError("INCONSISTENT_CLUSTER_ID")
    row = engine.broker_row(broker)
    is_known = row >= 0
    is_new = not is_known or engine.quorum.incarnation_id[row] != request.incarnation_id
    if is_known and is_new and heartbeats.has_valid_session(broker, engine.epoch_of(row)):
        raise ApiError("DUPLICATE_BROKER_REGISTRATION")
    if is_new and not engine.release.amends_registrations:
        heartbeats.remove(broker)
    if engine.version.is_directory_assignment_supported:
        check_log_dirs(engine, request)
    check_features(engine, request)
    tracked = engine.state.broker_row(broker)
    if is_new and tracked >= 0:
        stored = engine.epoch_of(row) if is_known else NEVER_REGISTERED
        clean = request.version >= 3 and request.previous_broker_epoch == stored
        handle_broker_shutdown(engine, tracked, clean)
    record = registration_record(engine, request, -1 if is_new else row)
    engine.write(record)
    if is_new:
        heartbeats.remove(broker)
    heartbeats.register(broker, record.fenced)
    return record.broker_epoch


def check_log_dirs(engine: QuorumEngine, request: BrokerRegistrationRequest) -> None:
    """Directories must be there, real, distinct and the broker's own."""
    requested, quorum, state = request.log_dirs, engine.quorum, engine.state
    owned = {
        directory
        for broker, listed in zip(state.broker_id.tolist(), quorum.directories, strict=True)
        if broker != request.broker_id
        for directory in listed
    }
    if (
        not requested
        or any(is_reserved_directory(directory) for directory in requested)
        or len(set(requested)) != len(requested)
        or not owned.isdisjoint(requested)
    ):
        raise ApiError("INVALID_REGISTRATION")


def check_features(engine: QuorumEngine, request: BrokerRegistrationRequest) -> None:
    """Every finalized level must lie in the broker's range; a range that is not given is 0-0.

    Source: ClusterControlManager.java, `registerBroker`, `processRegistrationFeature`.
    """
    finalized = {**engine.quorum.features, KRAFT_VERSION: KRAFT_VERSION_LEVEL}
    ranges = dict(request.features)
    if engine.release.metadata_levels[0] == 1:
        ranges.setdefault(METADATA_VERSION, (1, 1))
    for name, (lowest, highest) in ranges.items():
        if not lowest <= finalized.get(name, 0) <= highest:
            raise ApiError("UNSUPPORTED_VERSION")
    if METADATA_VERSION not in ranges:
        raise ApiError("INVALID_REGISTRATION")
    unlisted = (name for name, level in finalized.items() if level and name not in ranges)
    if engine.release.amends_registrations and any(unlisted):
        raise ApiError("UNSUPPORTED_VERSION")


def handle_broker_shutdown(engine: QuorumEngine, row: int, clean: bool) -> None:
    """An older incarnation leaves what ISRs it is in, and ELRs after an unclean stop.

    Source: section 6.7; ReplicationControlManager.java, `handleBrokerShutdown`; before 4.0 nothing.
    """
    if not engine.release.restart_leaves_isrs:
        return
    if clean or not engine.elr_on:
        engine.update(engine.visits.in_isr(row), remove=row)
        return
    engine.update(engine.visits.in_isr(row), unclean=row)
    engine.update(engine.visits.in_elr(row), unclean=row)


def registration_record(
    engine: QuorumEngine, request: BrokerRegistrationRequest, amended: int
) -> RegisterBrokerRecord:
    """The same incarnation (`amended`, its row) keeps its epoch, and whether it is fenced."""
    state, version, release = engine.state, engine.version, engine.release
    status = schema.BROKER_FENCED
    epoch = engine.next_offset
    if amended >= 0:
        if release.registers_again_as_it_was:
            status = int(state.broker_status[amended])
        if release.amends_registrations:
            epoch = engine.epoch_of(amended)
    recorded = version.is_in_controlled_shutdown_state_supported
    return RegisterBrokerRecord(
        version=version.register_broker_record_version,
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        rack=request.rack,
        fenced=bool(status & schema.BROKER_FENCED),
        in_controlled_shutdown=(
            bool(status & schema.BROKER_SHUTTING_DOWN) if recorded else None
        ),
        log_dirs=request.log_dirs if version.is_directory_assignment_supported else (),
        features=request.features,
    )


def unregister_broker(engine: QuorumEngine, broker: int) -> None:
    """Section 6.8: a broker leaves its ISRs; those whose ELR it is in are built again.

    Source: ReplicationControlManager.java, `unregisterBroker`.
    """
    row = engine.broker_row(broker)
    if row < 0:
        raise ApiError("BROKER_ID_NOT_REGISTERED")
    engine.update(engine.visits.in_isr(row), remove=row)
    engine.update(engine.visits.in_elr(row), remove=row)
    engine.write(UnregisterBrokerRecord(0, broker, engine.epoch_of(row)))


def start_heartbeats(engine: QuorumEngine) -> None:
    """The soft state of a new active controller, from the registrations.

    Source: section 1.3; ClusterControlManager.java, `activate`; section 11 for 4.0.
    """
    heartbeats, state = engine.heartbeats, engine.state
    for broker in engine.visits.registrations():
        row = state.broker_row(broker)
        fenced = bool(state.broker_status[row] & schema.BROKER_FENCED)
        heartbeats.register(broker, fenced)
        if not fenced or engine.release.fenced_have_sessions_on_activation:
            heartbeats.contact(broker, engine.epoch_of(row))
