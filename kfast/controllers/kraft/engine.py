"""QuorumEngine: the KRaft controller without its events, which is what handlers take.

A handler decides on the state before its event: it writes changes of partitions, which kernels
build, and other records, and answers the response. Then all of it is applied, in that order.

Source: docs/kraft.md, sections 1.3, 2 and 5; Kafka 4.1, QuorumController.java,
`ControllerWriteEvent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from kfast import schema
from kfast.controllers.kraft.faults import ApiError, Fault
from kfast.controllers.kraft.heartbeats import Heartbeats
from kfast.controllers.kraft.kafka_indexes import KafkaIndexes
from kfast.controllers.kraft.visits import Visit, Visits
from kfast.errors import ArgumentError
from kfast.journal import LEVELS, QuorumOutcome
from kfast.journal.quorum_outcome import EventRecords
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.state import ClusterState
from kfast.state.changes import Visited
from kfast.state.controller_change import change_controller
from kfast.state.kraft_releases import MetadataVersion, find_release
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kfast.state.record_application import (
    apply_changes,
    apply_record,
    quorum_columns,
    quorum_rules,
    write_partitions,
)
from kfast.state.records import Rows

T = TypeVar("T")

MAX_RECORDS_PER_USER_OP = 10_000
"""No operation of a user writes more. Source: QuorumController.java."""

NOBODY = -1


class QuorumEngine:
    """What the handlers of KRaft share. Parameters are those of `QuorumController`."""

    def __init__(
        self, state: ClusterState, *, journal: str, tracks_history: bool, now_ms: int,
        session_timeout_ms: int, max_elections: int, next_offset: int | None,
        profile: str | None,
    ) -> None:
        if state.quorum is None:
            raise ArgumentError(
                f"the state is run by {state.controller}; QuorumController is KRaft's: take "
                "kfast.open_controller(state), or give it another controller by "
                "kfast.with_controller(state, 'kraft-4.1')"
            )
        state.check_writable()
        if journal not in LEVELS:
            raise ArgumentError(f"journal {journal!r} is unknown; allowed: {', '.join(LEVELS)}")
        if profile is not None and find_release(profile).name != state.controller:
            change_controller(state, profile)
        self.state, self.quorum = state, state.quorum
        self.release = state.quorum.release
        self.journal = journal
        self.session_timeout_ms, self.max_elections = session_timeout_ms, max_elections
        self.active = True
        offsets = (state.quorum.registration_offset, state.broker_epoch, np.asarray([-1]))
        last = max(int(of.max(initial=-1)) for of in offsets)
        self.next_offset = last + 1 if next_offset is None else next_offset
        self.indexes = KafkaIndexes(state, self.release) if tracks_history else None
        self.visits = Visits(state, self.indexes)
        self.heartbeats = Heartbeats(self.release, session_timeout_ms, now_ms)
        self.written = EventRecords(ChangeLog(keeps_all=journal == "full"))

    # -------------------------------------------------------------------------- what is asked often

    @property
    def version(self) -> MetadataVersion:
        """Gates of the finalized metadata version."""
        return self.quorum.version

    @property
    def elr_on(self) -> bool:
        """Whether eligible leader replicas are on."""
        return self.quorum.elr_on

    def broker_row(self, broker: int) -> int:
        """Row of a registered broker, -1 for none."""
        row = self.state.broker_row(broker)
        registered = row >= 0 and self.state.broker_status[row] & schema.BROKER_REGISTERED
        return row if registered else NOBODY

    def is_registered(self, broker: int) -> bool:
        """Whether a broker id is registered."""
        return self.broker_row(broker) >= 0

    def rows_of(self, brokers: Sequence[int]) -> list[int]:
        """Rows of known broker ids, in order."""
        rows: list[int] = self.state.broker_rows(np.asarray(brokers, np.int64)).tolist()
        return rows

    def epoch_of(self, row: int) -> int:
        """Epoch of a broker row."""
        return int(self.state.broker_epoch[row])

    def check_broker_epoch(self, broker: int, epoch: int) -> int:
        """Row of a broker; a request of an older incarnation is refused.

        Source: ClusterControlManager.java, `checkBrokerEpoch`.
        """
        row = self.broker_row(broker)
        if row < 0 or self.epoch_of(row) != epoch:
            raise ApiError("STALE_BROKER_EPOCH")
        return row

    def registered_feature_ranges(self) -> list[Mapping[str, tuple[int, int]]]:
        """Feature levels that each registered broker supports."""
        rows = np.flatnonzero(self.state.registered).tolist()
        return [self.quorum.feature_ranges[row] for row in rows]

    def topic_row(self, name: str) -> int | None:
        """Row of a topic that exists."""
        row = self.state.lookup.topic_or_none(name)
        if row is None or not self.state.topic_flags[row] & schema.TOPIC_EXISTS:
            return None
        return row

    # ------------------------------------------------------------------------------------- writing

    def write(self, *records: MetadataRecord) -> None:
        """Write records other than changes of partitions."""
        self.written.add(records)

    def update(
        self, visit: Visit, *, remove: int = NOBODY, add: int = NOBODY, unclean: int = NOBODY,
        at_once: bool = False,
    ) -> None:
        """Rebuild partitions because a broker goes, comes, or has stopped uncleanly (section 5).

        With `at_once` the event visits no partition again: where nobody asks for the records,
        changes may be applied on the way.

        Source: ReplicationControlManager.java, `generateLeaderAndIsrUpdates`.
        """
        rows, visited = visit
        if at_once and visited is Visited.IN_ISR and self.quorum.has_first_partitions:
            visited = Visited.IN_ISR_AT_ONCE
        failed = partition_changes.update(
            quorum_columns(self.state), quorum_rules(self.state), rows, visited, remove, add,
            unclean, self.written.changes,
        )
        if failed >= 0:
            raise Fault(f"partition row {failed} cannot be built")

    def build(self, requests: ChangeLog, most: int = -1) -> Rows:
        """Build changes of partitions that have targets of their own (section 3).

        Returns
        -------
        results : (n,) int32
            Place of the change that each request made, or a `BuildResult`; faults are left to the
            caller.
        """
        results = np.empty(len(requests), np.int32)
        partition_changes.build(
            quorum_columns(self.state), quorum_rules(self.state), requests, self.written.changes,
            results, most,
        )
        return results

    # -------------------------------------------------------------------------------------- events

    def run(
        self, event: str, decide: Callable[[], T], *, is_user_op: bool = False
    ) -> QuorumOutcome:
        """Decide on the state before the event, then apply all that was written.

        Source: QuorumController.java, `ControllerWriteEvent`; section 7.5 for the limit.
        """
        outcome = QuorumOutcome(event, self.journal, self.next_offset)
        if not self.active:
            outcome.error = "NOT_CONTROLLER"
            return outcome
        if self.journal == "full":
            self.written = EventRecords(ChangeLog())
        else:
            self.written.clear()
        try:
            outcome.response = decide()
            limited = is_user_op and self.release.limits_records
            if limited and len(self.written) > MAX_RECORDS_PER_USER_OP:
                raise ApiError("POLICY_VIOLATION")
            version = self.version.partition_record_version
            self._apply()
        except ApiError as error:
            outcome.error = error.code
            return outcome
        except Fault as fault:
            outcome.fault, self.active = str(fault), False
            return outcome
        self.next_offset += len(self.written)
        outcome.keep(self.written, self.state, version)
        return outcome

    def _apply(self) -> None:
        """Apply everything; where no order is tracked, changes at once, new partitions at once.

        Changes of partitions and the other records of an event do not touch the same fields.
        """
        if self.indexes is not None:
            self._apply_in_order(self.indexes)
            return
        if self.written.n_changes:
            apply_changes(self.state, self.written.changes)
        created = []
        for at, (before, record) in enumerate(self.written.others):
            if isinstance(record, PartitionRecord):
                created.append(record)
            else:
                self._apply_record(record, self.next_offset + at + before)
        write_partitions(self.state, created)

    def _apply_in_order(self, indexes: KafkaIndexes) -> None:
        changes, done = self.written.changes, 0
        for at, (before, record) in enumerate(self.written.others):
            indexes.apply_changes(changes, done, before)
            self._apply_record(record, self.next_offset + at + before)
            done = before
        indexes.apply_changes(changes, done, len(changes))

    def _apply_record(self, record: MetadataRecord, offset: int) -> None:
        """Apply one other record, to the state and to what only an active controller keeps.

        Source: section 2; ClusterControlManager.java, `replay`.
        """
        known = isinstance(record, RegisterBrokerRecord) and self.is_registered(record.broker_id)
        if self.indexes is None:
            apply_record(self.state, record, offset)
        else:
            self.indexes.apply_record(record, offset)
        match record:
            case RegisterBrokerRecord(broker_id=broker):
                if known:
                    self.heartbeats.remove(broker)
                self.heartbeats.register(broker, record.fenced)
            case UnregisterBrokerRecord(broker_id=broker):
                self.heartbeats.remove(broker)
            case (
                BrokerRegistrationChangeRecord(broker_id=broker)
                | FenceBrokerRecord(id=broker) | UnfenceBrokerRecord(id=broker)
            ):
                row = self.state.broker_row(broker)
                fenced = bool(self.state.broker_status[row] & schema.BROKER_FENCED)
                self.heartbeats.register(broker, fenced)
