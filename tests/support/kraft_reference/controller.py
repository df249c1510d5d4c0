"""The active controller: one method an event, which decides, then applies what it wrote.

Source: docs/kraft.md, sections 2, 6, 7 and 8; Kafka 4.1, QuorumController.java,
`ControllerWriteEvent`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kfast.controllers import (
    AlterPartitionReply,
    BrokerHeartbeatReply,
    ConfigChange,
    CreatableTopic,
)
from kfast.state.kraft_releases import RELEASES
from kfast.state.metadata_records import Brokers, MetadataRecord
from tests.support.kraft_reference import (
    broker_events,
    partition_requests,
    settings,
    topics,
)
from tests.support.kraft_reference.broker_events import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    Records,
)
from tests.support.kraft_reference.errors import MAX_RECORDS_PER_USER_OP, ApiError
from tests.support.kraft_reference.partition_requests import (
    AlterPartitionData,
    ReassignablePartition,
)
from tests.support.kraft_reference.state import ClusterState

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """Records of one event, and its response; an error refuses the whole request."""

    records: Records = field(default_factory=list)
    response: T | None = None
    error: str | None = None


class QuorumController:
    """Kafka's active controller over a state; `next_offset` is where its next record goes."""

    def __init__(
        self,
        release: str = "kraft-4.1",
        *,
        records: Iterable[MetadataRecord] = (),
        controller_id: int = 3000,
        session_timeout_ms: int = 9000,
        max_elections: int = 1000,
        static_config: Mapping[str, str] | None = None,
    ) -> None:
        self.state = ClusterState(RELEASES[release], controller_id, static_config)
        self.session_timeout_ms = session_timeout_ms
        self.max_elections = max_elections
        self.now_ms = 0
        self.next_offset = 0
        for record in records:
            self._append(record)
        self.activate()

    def _append(self, record: MetadataRecord) -> None:
        self.state.replay(record, self.next_offset)
        self.next_offset += 1

    def _run(
        self, decide: Callable[[], tuple[Records, T]], is_user_op: bool = False
    ) -> Outcome[T]:
        """Decide on the state before the event, then apply all records."""
        try:
            records, response = decide()
            limited = is_user_op and self.state.release.limits_records
            if limited and len(records) > MAX_RECORDS_PER_USER_OP:
                raise ApiError("POLICY_VIOLATION")
        except ApiError as error:
            return Outcome(error=error.code)
        for record in records:
            self._append(record)
        return Outcome(records, response)

    # ----------------------------------------------------------------------------- the controller

    def activate(self) -> None:
        """Become active; an older soft state is lost, the indexes keep their order."""
        broker_events.activate(self.state, self.session_timeout_ms, self.now_ms)

    def advance_time(self, ms: int, contacts: Iterable[int] = ()) -> None:
        """Let time pass; then these brokers make contact."""
        self.now_ms += ms
        heartbeats = self.state.active_heartbeats
        heartbeats.now_ms = self.now_ms
        for broker in contacts:
            registration = self.state.brokers.get(broker)
            if registration is not None:
                heartbeats.contact(broker, registration.epoch)

    # --------------------------------------------------------------------------------- the brokers

    def register_broker(self, request: BrokerRegistrationRequest) -> Outcome[int]:
        """Section 6.7."""
        return self._run(
            lambda: broker_events.register_broker(self.state, request, self.next_offset)
        )

    def process_broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> Outcome[BrokerHeartbeatReply]:
        """Section 6.4."""
        outcome = self._run(lambda: broker_events.process_broker_heartbeat(self.state, request))
        if outcome.response is not None and outcome.response.in_controlled_shutdown:
            broker_events.update_controlled_shutdown_offset(
                self.state.active_heartbeats, request.broker_id, self.next_offset - 1
            )
        return outcome

    def maybe_fence_stale_broker(self) -> Outcome[bool]:
        """Section 6.5."""
        return self._run(lambda: broker_events.maybe_fence_one_stale_broker(self.state))

    def unregister_broker(self, broker: int) -> Outcome[None]:
        """Section 6.8."""
        return self._run(
            lambda: (broker_events.unregister_broker(self.state, broker), None),
            is_user_op=True,
        )

    # ------------------------------------------------------------------------------ the partitions

    def alter_partition(
        self,
        broker: int,
        broker_epoch: int,
        wanted: list[AlterPartitionData],
        with_topic_ids: bool = True,
    ) -> Outcome[list[AlterPartitionReply]]:
        """Section 7.1; requests of version 0 and 1 have no topic ids."""
        return self._run(
            lambda: partition_requests.alter_partition(
                self.state, broker, broker_epoch, wanted, with_topic_ids
            )
        )

    def elect_leaders(
        self, election_type: int, partitions: Mapping[str, list[int]] | None
    ) -> Outcome[dict[tuple[str, int], str]]:
        """Section 7.2."""
        return self._run(
            lambda: partition_requests.elect_leaders(self.state, election_type, partitions),
            is_user_op=True,
        )

    def alter_partition_reassignments(
        self, targets: list[ReassignablePartition], allow_rf_change: bool = True
    ) -> Outcome[list[str]]:
        """Section 7.3."""
        return self._run(
            lambda: partition_requests.alter_partition_reassignments(
                self.state, targets, allow_rf_change
            )
        )

    def assign_replicas_to_dirs(
        self, broker: int, broker_epoch: int, assignments: list[tuple[str, str, int]]
    ) -> Outcome[list[str]]:
        """Section 7.4."""
        return self._run(
            lambda: partition_requests.assign_replicas_to_dirs(
                self.state, broker, broker_epoch, assignments
            )
        )

    def maybe_balance_partition_leaders(self) -> Outcome[bool]:
        """Section 7.5, the preferred balance."""
        return self._run(
            lambda: partition_requests.maybe_balance_partition_leaders(
                self.state, self.max_elections
            )
        )

    def maybe_elect_unclean_leaders(self) -> Outcome[bool]:
        """Section 7.5, the unclean elections."""
        return self._run(
            lambda: partition_requests.maybe_elect_unclean_leaders(self.state, self.max_elections)
        )

    # ------------------------------------------------------------------------ topics and settings

    def create_topics(
        self, wanted: list[CreatableTopic], validate_only: bool = False
    ) -> Outcome[dict[str, str]]:
        """Section 8.1."""
        return self._run(
            lambda: topics.create_topics(self.state, wanted, validate_only),
            is_user_op=True,
        )

    def create_partitions(
        self, wanted: list[tuple[str, int, list[Brokers]]]
    ) -> Outcome[dict[str, str]]:
        """Section 8.2: topic, number of partitions, replicas of those in addition."""
        return self._run(
            lambda: topics.create_partitions_of_topics(self.state, wanted)
        )

    def delete_topics(self, topic_ids: list[str]) -> Outcome[dict[str, str]]:
        """Section 8.2."""
        return self._run(
            lambda: topics.delete_topics(self.state, topic_ids)
        )

    def incremental_alter_configs(
        self, changes: list[ConfigChange]
    ) -> Outcome[list[str]]:
        """Section 8.3."""
        return self._run(
            lambda: settings.incremental_alter_configs(self.state, changes),
            is_user_op=True,
        )

    def update_features(
        self, updates: Mapping[str, int], directions: Mapping[str, str] | None = None
    ) -> Outcome[str]:
        """Section 8.4."""
        return self._run(
            lambda: settings.update_features(self.state, updates, directions or {}),
            is_user_op=True,
        )
