"""kfast's QuorumController as the twin's: the same calls, records and state, for cases and tests.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa

from kfast import QuorumController, QuorumOutcome
from kfast.controllers import (
    AlterPartitionData,
    AlterPartitionReply,
    BrokerHeartbeatReply,
    ConfigChange,
    CreatableTopic,
)
from kfast.state import ClusterState
from kfast.state.kraft_releases import Release
from kfast.state.metadata_records import MetadataRecord
from kfast.state.mutators import widen
from kfast.state.record_application import apply_records
from kfast.state.registrations import BrokerRegistration, PartitionRegistration
from tests.support.kraft_reference.broker_events import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from tests.support.kraft_reference.controller import Outcome
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.state import Topic

ELECTIONS = {0: "preferred", 1: "unclean"}


def empty_state(profile: str, controller_id: int, static: Mapping[str, str]) -> ClusterState:
    """A KRaft cluster in which nothing is said yet."""
    state = ClusterState.from_tables(cluster=pa.table({"controller": [profile]}))
    assert state.quorum is not None
    state.controller_id = controller_id
    state.quorum.static_configuration = dict(static)
    state.quorum.features.clear()
    state.quorum.configurations.clear()
    state.quorum.derive_settings()
    return state


class KfastController:
    """Takes the twin's calls; `records` of an outcome are empty below journal level full."""

    def __init__(
        self, release: str = "kraft-4.1", *, records: Iterable[MetadataRecord] = (),
        controller_id: int = 3000, session_timeout_ms: int = 9000, max_elections: int = 1000,
        static_config: Mapping[str, str] | None = None, journal: str = "full",
        tracks_history: bool = True, wide: bool = False, threads: int = 1,
    ) -> None:
        given = list(records)
        state = empty_state(release, controller_id, static_config or {})
        apply_records(state, given, 0)
        if wide:
            widen(state)
        self.kfast = QuorumController(
            state, journal=journal, tracks_history=tracks_history, max_elections=max_elections,
            session_timeout_ms=session_timeout_ms, next_offset=len(given), threads=threads,
        )
        self.last: QuorumOutcome | None = None

    @property
    def next_offset(self) -> int:
        """Where the next record goes."""
        return self.kfast.next_offset

    @property
    def state(self) -> KfastState:
        """The state in the twin's classes, as it is now."""
        return KfastState(self.kfast)

    def _told(
        self, outcome: QuorumOutcome, response: Callable[[Any], Any] = lambda value: value
    ) -> Outcome[Any]:
        self.last = outcome
        if outcome.fault is not None:
            raise FaultError(outcome.fault)
        if outcome.error is not None:
            return Outcome(error=outcome.error)
        records = outcome.metadata_records if outcome.level == "full" else []
        return Outcome(records, response(outcome.response))

    def _name_of(self, topic_id: str) -> str:
        """Name of a topic, or one that no topic has."""
        ids = self.kfast.state.topic_id.to_pylist()
        if topic_id not in ids:
            return f"no {topic_id}"
        name: str = self.kfast.state.topic[ids.index(topic_id)].as_py()
        return name

    def activate(self) -> None:
        """Become active again."""
        self.kfast.activate()

    def advance_time(self, ms: int, contacts: Iterable[int] = ()) -> None:
        """Let time pass."""
        self.kfast.advance_time(ms, contacts)

    def register_broker(self, request: BrokerRegistrationRequest) -> Outcome[int]:
        """Section 6.7."""
        return self._told(self.kfast.register_broker(
            request.broker_id, request.incarnation_id, rack=request.rack,
            log_dirs=request.log_dirs,
            features=request.features, previous_broker_epoch=request.previous_broker_epoch,
            request_version=request.version, same_cluster=request.same_cluster,
        ))

    def process_broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> Outcome[BrokerHeartbeatReply]:
        """Section 6.4."""
        return self._told(self.kfast.process_broker_heartbeat(
            request.broker_id, request.broker_epoch, request.metadata_offset,
            want_fence=request.want_fence, want_shut_down=request.want_shut_down,
            offline_log_dirs=request.offline_log_dirs,
        ))

    def maybe_fence_stale_broker(self) -> Outcome[bool]:
        """Section 6.5."""
        return self._told(self.kfast.maybe_fence_stale_broker())

    def unregister_broker(self, broker: int) -> Outcome[None]:
        """Section 6.8."""
        return self._told(self.kfast.unregister_broker(broker))

    def alter_partition(
        self, broker: int, broker_epoch: int, wanted: list[Any], with_topic_ids: bool = True
    ) -> Outcome[list[AlterPartitionReply]]:
        """Section 7.1."""
        data = [
            AlterPartitionData(
                self._name_of(one.topic_id), one.partition, one.leader_epoch, one.partition_epoch,
                one.isr, one.recovery,
            )
            for one in wanted
        ]
        return self._told(self.kfast.alter_partition(
            broker, broker_epoch, data, with_topic_ids=with_topic_ids
        ))

    def elect_leaders(
        self, election_type: int, partitions: Mapping[str, list[int]] | None
    ) -> Outcome[dict[tuple[str, int], str]]:
        """Section 7.2."""
        pairs = None
        if partitions is not None:
            pairs = [(topic, number) for topic, listed in partitions.items() for number in listed]
        outcome = self.kfast.elect_leaders(pairs, ELECTIONS.get(election_type, "other"))
        return self._told(outcome, lambda replies: {
            (row["topic"], row["partition"]): row["error"] for row in replies.to_pylist()
        })

    def alter_partition_reassignments(
        self, targets: list[Any], allow_rf_change: bool = True
    ) -> Outcome[list[str]]:
        """Section 7.3."""
        plan = pa.table({
            "topic": pa.array([one.topic for one in targets], pa.string()),
            "partition": pa.array([one.partition for one in targets], pa.int32()),
            "replicas": pa.array([one.replicas for one in targets], pa.list_(pa.int32())),
        })
        return self._told(
            self.kfast.alter_partition_reassignments(plan, allow_rf_change=allow_rf_change)
        )

    def assign_replicas_to_dirs(
        self, broker: int, broker_epoch: int, assignments: list[tuple[str, str, int]]
    ) -> Outcome[list[str]]:
        """Section 7.4."""
        named = [(d, self._name_of(topic), n) for d, topic, n in assignments]
        return self._told(self.kfast.assign_replicas_to_dirs(broker, broker_epoch, named))

    def maybe_balance_partition_leaders(self) -> Outcome[bool]:
        """Section 7.5."""
        return self._told(self.kfast.maybe_balance_partition_leaders())

    def maybe_elect_unclean_leaders(self) -> Outcome[bool]:
        """Section 7.5."""
        return self._told(self.kfast.maybe_elect_unclean_leaders())

    def create_topics(
        self, wanted: list[CreatableTopic], validate_only: bool = False
    ) -> Outcome[dict[str, str]]:
        """Section 8.1."""
        return self._told(self.kfast.create_topics(wanted, validate_only=validate_only))

    def create_partitions(self, wanted: list[tuple[str, int, list[Any]]]) -> Outcome[Any]:
        """Section 8.2."""
        return self._told(self.kfast.create_partitions(wanted))

    def delete_topics(self, topic_ids: list[str]) -> Outcome[dict[str, str]]:
        """Section 8.2."""
        names = {self._name_of(topic_id): topic_id for topic_id in topic_ids}
        outcome = self.kfast.delete_topics(list(names))
        return self._told(
            outcome, lambda codes: {names[name]: code for name, code in codes.items()}
        )

    def incremental_alter_configs(self, changes: list[ConfigChange]) -> Outcome[list[str]]:
        """Section 8.3."""
        return self._told(self.kfast.incremental_alter_configs(changes))

    def update_features(
        self, updates: Mapping[str, int], directions: Mapping[str, str] | None = None
    ) -> Outcome[str]:
        """Section 8.4."""
        return self._told(self.kfast.update_features(updates, directions))


class KfastState:
    """What the runner of cases reads of the twin's state."""

    def __init__(self, controller: QuorumController) -> None:
        self.controller = controller
        self.active_heartbeats = controller.heartbeats

    @cached_property
    def brokers(self) -> dict[int, BrokerRegistration]:
        """Registered brokers by id."""
        state = self.controller.state
        found = {b: state.broker_registration(b) for b in state.broker_id.tolist()}
        return {b: registration for b, registration in found.items() if registration is not None}

    @cached_property
    def topics_by_name(self) -> dict[str, str]:
        """Ids of topics."""
        state = self.controller.state
        ids = state.topic_id.to_pylist()
        return {
            name: ids[row]
            for row, name in enumerate(state.topic.to_pylist())
            if state.topic_exists[row]
        }

    @property
    def release(self) -> Release:
        """The release that decides."""
        return self.controller.release

    @property
    def elr_on(self) -> bool:
        """Whether eligible leader replicas are on."""
        return self.controller.elr_on

    def partition(self, place: TopicIdPartition) -> PartitionRegistration:
        """One partition."""
        return self.topics[place.topic_id].partitions[place.partition_id]

    @cached_property
    def topics(self) -> dict[str, Topic]:
        """Topics with their partitions by number."""
        state = self.controller.state
        found = {}
        for name, topic_id in self.topics_by_name.items():
            topic = found[topic_id] = Topic(name, topic_id)
            for row in state.topic_partitions(name).tolist():
                topic.partitions.put(int(state.partition[row]), state.registration(row))
        return found
