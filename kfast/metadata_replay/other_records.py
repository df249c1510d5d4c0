"""Records that are no change of a partition: causes, and decisions that follow from them.

Source: docs/kraft.md, sections 6.7, 8 and 12.2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kfast.metadata_replay import verdicts as v
from kfast.replay_results.verdicts import ADOPTED, CONTRADICTED, MISSING, PREDICTED
from kfast.state.kraft_releases import ELR_VERSION, MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from kfast.state.metadata_records import (
    MIGRATING,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    LeaderChangeRecord,
    PartitionRecord,
    Recovery,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

if TYPE_CHECKING:
    from kfast.io.metadata.log import LoggedRecord
    from kfast.metadata_replay.simulation import Simulation
    from kfast.replay_results.timeline import Timeline

BROKER_RECORDS = (
    RegisterBrokerRecord, UnregisterBrokerRecord, BrokerRegistrationChangeRecord,
    FenceBrokerRecord, UnfenceBrokerRecord,
)
"""Records after which other brokers may be live."""

NEW_PARTITION = "replicas of a new partition"
"""Why a Partition record is adopted."""

WATCHED_CONFIGURATIONS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION)
"""Configurations that decide about leaders (docs/kraft.md, section 1.5)."""


class OtherRecords:
    """Checks them and applies them.

    Parameters
    ----------
    simulation : Simulation
    verdicts : Verdicts
    timeline : Timeline
    """

    def __init__(
        self, simulation: Simulation, verdicts: v.Verdicts, timeline: Timeline
    ) -> None:
        self.simulation = simulation
        self.verdicts = verdicts
        self.timeline = timeline
        self.clearings: list[str] = []
        """Topics whose ELRs are still to be cleared in this group; "" stands for all."""
        self.new_topics: dict[str, TopicRecord] = {}
        """By id those that were checked and are to be applied."""
        self.new_names: set[str] = set()
        """Their names."""
        self.new_partitions: list[PartitionRecord] = []
        """The same of partitions."""
        self.created: set[str] = set()
        """Topics that are created in this group."""
        self.in_transaction = False

    def take(self, logged: LoggedRecord) -> None:
        """Check one record, and apply it unless nothing can take it."""
        record = logged.record
        check = _CHECKS.get(type(record))
        if check is None or check(self, logged, record):
            self.simulation.apply(record, logged.offset)
            if isinstance(record, BROKER_RECORDS):
                self.timeline.note_brokers(self.simulation.brokers_up(), logged.timestamp_ms)

    def create(self) -> None:
        """Apply the Topic and Partition records that have come since the last call.

        Each call takes time in proportion to the state, so that topics which are created one
        after another, as clusters begin, are applied together.
        """
        if self.new_topics or self.new_partitions:
            self.simulation.create([*self.new_topics.values()], self.new_partitions)
            self.new_topics, self.new_partitions, self.new_names = {}, [], set()

    def end(self, last: LoggedRecord) -> None:
        """Batches that belong together end: what should have followed is missing."""
        for topic in self.clearings:
            predicted = ClearElrRecord(0, topic)
            self._add(last, v.CLEARING, topic or "all topics", MISSING, None, predicted)
        self.clearings, self.created = [], set()

    def _add(
        self, logged: LoggedRecord, kind: str, subject: str, verdict: str, record: Any,
        predicted: Any = None, reason: str = "",
    ) -> None:
        self.verdicts.add(
            logged.offset, logged.timestamp_ms, subject, (kind, kind, verdict, reason), record,
            predicted,
        )

    def _event(self, logged: LoggedRecord, event: str, what: str) -> None:
        self.timeline.begin(event, what, logged.timestamp_ms)

    def _leader_change(self, logged: LoggedRecord, record: LeaderChangeRecord) -> bool:
        self.timeline.begin_term(record.leader_id, logged.epoch, logged.timestamp_ms)
        self._event(
            logged, "activation",
            f"controller {record.leader_id} becomes active, epoch {logged.epoch}",
        )
        return True

    def _begin(self, _logged: LoggedRecord, _record: BeginTransactionRecord) -> bool:
        self.in_transaction = True
        return True

    def _end(self, _logged: LoggedRecord, _record: EndTransactionRecord) -> bool:
        self.in_transaction = False
        return True

    def _registration(self, logged: LoggedRecord, record: RegisterBrokerRecord) -> bool:
        """A new incarnation is fenced; the same one stays as it was."""
        present = self.simulation.broker(record.broker_id)
        predicted = record
        if present is None or present.incarnation_id != record.incarnation_id:
            if not record.fenced or record.in_controlled_shutdown:
                predicted = replace(record, fenced=True, in_controlled_shutdown=False)
        elif self.simulation.release.registers_again_as_it_was:
            predicted = replace(record, fenced=present.fenced)
        same = predicted == record
        self._add(
            logged, v.REGISTRATION, f"broker {record.broker_id}",
            PREDICTED if same else CONTRADICTED, record, predicted,
        )
        return True

    def _broker(
        self, logged: LoggedRecord,
        record: BrokerRegistrationChangeRecord | UnregisterBrokerRecord,
    ) -> bool:
        return self._is_registered(logged, record.broker_id, record.broker_epoch)

    def _fencing(
        self, logged: LoggedRecord, record: FenceBrokerRecord | UnfenceBrokerRecord
    ) -> bool:
        return self._is_registered(logged, record.id, record.epoch)

    def _is_registered(self, logged: LoggedRecord, broker: int, epoch: int) -> bool:
        """A broker's record names its registration."""
        present = self.simulation.broker(broker)
        if present is not None and present.epoch == epoch:
            return True
        record = logged.record
        self._add(logged, v.REGISTRATION, f"broker {broker}", CONTRADICTED, record)
        return present is not None

    def _topic(self, logged: LoggedRecord, record: TopicRecord) -> bool:
        is_new = record.name in self.new_names or record.topic_id in self.new_topics
        if is_new or self.simulation.has_topic(record):
            self._add(logged, v.CREATION, record.name, CONTRADICTED, record)
            return False
        self.created.add(record.name)
        self.new_topics[record.topic_id] = record
        self.new_names.add(record.name)
        self._event(logged, "topics", f"topic {record.name} is created")
        return False

    def _partition(self, logged: LoggedRecord, record: PartitionRecord) -> bool:
        """Replicas are asked for, or drawn; the rest follows (section 8.1)."""
        new = self.new_topics.get(record.topic_id)
        topic = self.simulation.topic_name(record.topic_id) if new is None else new.name
        name = f"{topic or record.topic_id}-{record.partition_id}"
        if topic is None:
            self._add(logged, v.CREATION, name, CONTRADICTED, record)
            return False
        predicted = record if self.in_transaction else self._new_partition(record)
        if predicted == record:
            self._add(logged, v.CREATION, name, ADOPTED, record, None, NEW_PARTITION)
        else:
            self._add(logged, v.CREATION, name, CONTRADICTED, record, predicted)
        if topic not in self.created:
            self._event(logged, "partitions", f"partition {name} is added")
        self.new_partitions.append(record)
        return False

    def _new_partition(self, record: PartitionRecord) -> PartitionRecord:
        """The record of a new partition with these replicas (section 8.1)."""
        simulation = self.simulation
        active = simulation.request_rules.active
        isr = tuple(broker for broker in record.replicas if broker in active)
        directories = record.directories
        if simulation.directories_on:
            directories = tuple(map(simulation.default_directory, record.replicas))
        elif directories and set(directories) != {MIGRATING}:
            directories = ()
        return replace(
            record, isr=isr, removing_replicas=(), adding_replicas=(),
            leader=isr[0] if isr else -1, leader_recovery_state=Recovery.RECOVERED, leader_epoch=0,
            partition_epoch=0, directories=directories,
            eligible_leader_replicas=record.eligible_leader_replicas and (),
            last_known_elr=record.last_known_elr and (),
        )

    def _remove_topic(self, logged: LoggedRecord, record: RemoveTopicRecord) -> bool:
        topic = self.simulation.topic_name(record.topic_id)
        if topic is None:
            self._add(logged, v.DELETION, record.topic_id, CONTRADICTED, record)
            return False
        self._event(logged, "deletion", f"topic {topic} is deleted")
        numbers = self.simulation.partitions_of(record.topic_id)
        self.timeline.delete([f"{topic}-{number}" for number in numbers], logged.timestamp_ms)
        return True

    def _config(self, logged: LoggedRecord, record: ConfigRecord) -> bool:
        """With ELR on, min.insync.replicas clears ELRs (section 8.3)."""
        of_topic = record.resource_type == ResourceType.TOPIC
        clears = self.simulation.elr_on and not self.in_transaction
        if record.name == MIN_INSYNC_REPLICAS and clears:
            self.clearings.append(record.resource_name if of_topic else "")
        decides = of_topic or record.resource_type == ResourceType.BROKER
        if record.name in WATCHED_CONFIGURATIONS and decides:
            owner = f"{'topic' if of_topic else 'broker'} {record.resource_name}"
            value = "is removed" if record.value is None else f"becomes {record.value}"
            if not of_topic or record.resource_name not in self.created:
                whose = owner if record.resource_name else "the cluster"
                self._event(logged, "configuration", f"{record.name} of {whose} {value}")
        return True

    def _feature(self, logged: LoggedRecord, record: FeatureLevelRecord) -> bool:
        """Switching ELR on writes configurations that clear nothing (section 8.4)."""
        if record.name == ELR_VERSION and record.feature_level:
            self.clearings = [topic for topic in self.clearings if topic]
        self._event(logged, "features", f"{record.name} is set to {record.feature_level}")
        return True

    def _clear_elr(self, logged: LoggedRecord, record: ClearElrRecord) -> bool:
        topic = record.topic_name
        follows = topic in self.clearings
        if follows:
            self.clearings.remove(topic)
        self._add(
            logged, v.CLEARING, topic or "all topics", PREDICTED if follows else CONTRADICTED,
            record,
        )
        return True


_CHECKS: dict[type, Any] = {
    LeaderChangeRecord: OtherRecords._leader_change,
    BeginTransactionRecord: OtherRecords._begin,
    EndTransactionRecord: OtherRecords._end,
    RegisterBrokerRecord: OtherRecords._registration,
    UnregisterBrokerRecord: OtherRecords._broker,
    BrokerRegistrationChangeRecord: OtherRecords._broker,
    FenceBrokerRecord: OtherRecords._fencing,
    UnfenceBrokerRecord: OtherRecords._fencing,
    TopicRecord: OtherRecords._topic,
    PartitionRecord: OtherRecords._partition,
    RemoveTopicRecord: OtherRecords._remove_topic,
    ConfigRecord: OtherRecords._config,
    FeatureLevelRecord: OtherRecords._feature,
    ClearElrRecord: OtherRecords._clear_elr,
}
