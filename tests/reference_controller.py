"""The controller's event handlers in plain Python (section 6 of the specification).

Reassignment (6.6, 6.7) and topic deletion (6.12) are left out; queued topics and markers are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kfast.schema import (
    UNKNOWN_BROKER_EPOCH,
    Code,
    PartitionState,
    ReplicaState,
    Strategy,
)

from .reference_alter import AlterRequest, alter_partition, catch_up_requests
from .reference_batch import RequestBatch
from .reference_context import Assignment, Context, Partition, Record, Replica
from .reference_failover import init_deletion, load_context, take_over_epoch
from .reference_on_demand import (
    election_reply,
    filter_raises,
    imbalanced_candidates,
    preferred_groups,
    refuses_election,
)
from .reference_outcome import Happened
from .reference_partitions import PartitionStateMachine, Result
from .reference_replicas import ReplicaStateMachine
from .reference_store import ControllerMovedError, Store


@dataclass
class Controller:
    """One method per event, in Kafka's order (6.1 to 6.4, 6.8 to 6.11)."""

    ctx: Context
    store: Store
    active: bool = True
    now: Happened = field(default_factory=lambda: Happened(""))

    def _event(
        self, name: str, body: Callable[[], None], inactive: str = "NOT_CONTROLLER"
    ) -> Happened:
        """6.0: only the active controller acts; one that finds itself replaced stops, resigns."""
        self.now = Happened(name)
        if not self.active:
            self.now.error = inactive
            return self.now
        try:
            body()
        except ControllerMovedError:
            self.now.failure = Code.CONTROLLER_MOVED
            self.active = False
        return self.now

    # -- the machines and the controller's own batch ------------------------------------------

    def _replicas(self) -> ReplicaStateMachine:
        return ReplicaStateMachine(self.ctx, self.store, self.now.journal)

    def _partitions(self) -> PartitionStateMachine:
        return PartitionStateMachine(self.ctx, self.store, self.now.journal)

    def _send(self, fill: Callable[[RequestBatch], None]) -> None:
        """6.0: open the controller's own batch, add, send."""
        self.now.journal.step += 1
        batch = RequestBatch(self.ctx)
        fill(batch)
        self.now.journal.added(batch.additions)
        self.now.journal.send(batch.send(self.ctx.epoch))

    def _send_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[Partition]
    ) -> None:
        """6.0, Send UpdateMetadata."""
        self._send(lambda batch: batch.add_update_metadata(brokers, partitions))

    # -- 6.1 ------------------------------------------------------------------------------------

    def on_controller_failover(self) -> Happened:
        """6.1, without reassignments (step 9) and running deletions (step 10)."""
        self.active = True
        return self._event("on_controller_failover", self._failover)

    def _failover(self) -> None:
        take_over_epoch(self.ctx, self.store)
        load_context(self.ctx, self.store)
        init_deletion(self.ctx)
        self._send_update_metadata(self.ctx.registered, [])
        self._replicas().startup()
        self._partitions().startup()

    # -- 6.2 ------------------------------------------------------------------------------------

    def on_broker_change(
        self,
        started: Mapping[int, int] | None = None,
        bounced: Mapping[int, int] | None = None,
        failed: Collection[int] = (),
    ) -> Happened:
        """6.2: new brokers while dead ones still look alive, then bounced, then dead ones."""

        def body() -> None:
            if started:
                self.ctx.live_broker_epochs |= started
                self._broker_startup(started)
            if bounced:
                self._forget_brokers(bounced)
                self._broker_failure(bounced)
                self.ctx.live_broker_epochs |= bounced
                self._broker_startup(bounced)
            if failed:
                self._forget_brokers(failed)
                self._broker_failure(failed)

        return self._event("on_broker_change", body)

    def _forget_brokers(self, brokers: Iterable[int]) -> None:
        for b in brokers:
            del self.ctx.live_broker_epochs[b]

    def _broker_startup(self, brokers: Collection[int]) -> None:
        """6.2, `broker_startup`, without reassignments and deletions (steps 6 and 7)."""
        ctx = self.ctx
        for b in brokers:
            ctx.offline_dir_replicas.pop(b, None)
        others = [b for b in ctx.registered if b not in brokers]
        self._send_update_metadata(others, [])
        self._send_update_metadata(brokers, ctx.partitions_with_leaders())
        self._replicas().handle(ctx.replicas_on_brokers(brokers), ReplicaState.ONLINE)
        self._partitions().trigger_online()

    def _broker_failure(self, brokers: Collection[int]) -> None:
        """6.2, `broker_failure`."""
        for b in brokers:
            self.ctx.offline_dir_replicas.pop(b, None)
            self.ctx.shutting_down.discard(b)
        self._replicas_become_offline(self.ctx.replicas_on_brokers(brokers))

    def _replicas_become_offline(self, replicas: list[Replica]) -> None:
        """6.2, `replicas_become_offline`."""
        ctx = self.ctx
        deleting = [r for r in replicas if ctx.is_queued(r[0])]
        kept = [r for r in replicas if not ctx.is_queued(r[0])]
        partitions = self._partitions()
        partitions.handle(ctx.partitions_with_offline_leader(), PartitionState.OFFLINE)
        results = partitions.trigger_online()
        self._replicas().handle(kept, ReplicaState.OFFLINE)
        if deleting and ctx.delete_topic_enabled:
            self._replicas().handle(deleting, ReplicaState.DELETION_INELIGIBLE)
            ctx.topics_ineligible |= {p[0] for p, _ in deleting}
        if not kept and not any(isinstance(r, Record) for r in results.values()):
            self._send_update_metadata(ctx.registered, [])

    # -- 6.3 ------------------------------------------------------------------------------------

    def controlled_shutdown(self, b: int, epoch: int = UNKNOWN_BROKER_EPOCH) -> Happened:
        """6.3."""
        body = lambda: self._controlled_shutdown(b, epoch)  # noqa: E731
        return self._event("controlled_shutdown", body, inactive="ControllerMoved")

    def _controlled_shutdown(self, b: int, epoch: int) -> None:
        ctx = self.ctx
        cached = ctx.live_broker_epochs.get(b)
        if epoch != UNKNOWN_BROKER_EPOCH:
            if cached is None:
                self.now.error = "NoSuchElement"
                return
            if epoch < cached:
                self.now.error = "StaleBrokerEpoch"
                return
        if cached is None:
            self.now.error = "BrokerNotAvailable"
            return
        ctx.shutting_down.add(b)
        acted_on = [
            p
            for p, _ in ctx.replicas_on_brokers([b])
            if len(ctx.assignment(p).replicas) > 1
            and p in ctx.leadership
            and not ctx.is_queued(p)
        ]
        led = [p for p in acted_on if ctx.leadership[p].leader == b]
        followed = [p for p in acted_on if ctx.leadership[p].leader != b]
        self._partitions().handle(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)

        def stop_followed(batch: RequestBatch) -> None:
            for p in followed:
                batch.add_stop_replica([b], p, delete=False)

        self._send(stop_followed)
        self._replicas().handle([(p, b) for p in followed], ReplicaState.OFFLINE)
        self.now.remaining = ctx.partition_leaders_on_broker(b)

    # -- 6.4 ------------------------------------------------------------------------------------

    def on_topic_change(
        self, created: Mapping[str, Mapping[int, Iterable[int]]], gone: Iterable[str] = ()
    ) -> Happened:
        """6.4, topic list changed."""

        def body() -> None:
            for topic in gone:
                self.ctx.remove_topic(topic)
                self.store.forget(topic)
            self._set_up({
                (topic, n): replicas
                for topic, listed in created.items() for n, replicas in listed.items()
            })

        return self._event("on_topic_change", body)

    def on_partition_modifications(
        self, topic: str, assignments: Mapping[int, Iterable[int]]
    ) -> Happened:
        """6.4, topic node modified: nothing is set up of a queued topic."""

        def body() -> None:
            added = {
                (topic, n): replicas
                for n, replicas in assignments.items()
                if not self.ctx.assignment((topic, n)).replicas
            }
            self._set_up({} if topic in self.ctx.topics_to_delete else added)

        return self._event("on_partition_modifications", body)

    def _set_up(self, assignments: Mapping[Partition, Iterable[int]]) -> None:
        for p, replicas in assignments.items():
            self.ctx.all_topics.add(p[0])
            self.ctx.set_assignment(p, Assignment(tuple(replicas)))
        self._new_partitions(list(assignments))

    def _new_partitions(self, new: list[Partition]) -> None:
        """6.4, `new_partitions`."""
        replicas = [(p, b) for p in new for b in self.ctx.assignment(p).replicas]
        self._partitions().handle(new, PartitionState.NEW)
        self._replicas().handle(replicas, ReplicaState.NEW)
        self._partitions().handle(new, PartitionState.ONLINE, Strategy.OFFLINE)
        self._replicas().handle(replicas, ReplicaState.ONLINE)

    # -- 6.8 ------------------------------------------------------------------------------------

    def elect_leaders(
        self,
        partitions: Iterable[Partition] | None,
        kind: str = "preferred",
        trigger: str = "AdminClient",
    ) -> Happened:
        """6.8: the filter, then the election; a partition may be missing from the replies."""

        def body() -> None:
            asked = list(self.ctx.assignments if partitions is None else partitions)
            if any(filter_raises(self.ctx, p) for p in asked):
                self.now.error = "NoSuchElement"
                return
            refused = {p: refuses_election(self.ctx, p, kind) for p in asked}
            wanted = [p for p, reply in refused.items() if reply is None]
            results = self._elect(wanted, kind, trigger)
            self.now.replies = {p: reply for p, reply in refused.items() if reply is not None}
            self.now.replies |= {p: election_reply(r, kind) for p, r in results.items()}

        return self._event("elect_leaders", body)

    def _elect(
        self, partitions: list[Partition], kind: str, trigger: str
    ) -> dict[Partition, Result]:
        """6.8, core: unclean elections are permitted to the admin client only."""
        strategy = Strategy.PREFERRED_REPLICA
        if kind == "unclean":
            admin = trigger == "AdminClient"
            strategy = Strategy.OFFLINE_ALLOW_UNCLEAN if admin else Strategy.OFFLINE
        return self._partitions().handle(partitions, PartitionState.ONLINE, strategy)

    def rebalance_leaders(self, percentage: int = 10) -> Happened:
        """6.8, Auto: brokers whose imbalance ratio exceeds the percentage."""
        return self._event("rebalance_leaders", lambda: self._rebalance(percentage))

    def _rebalance(self, percentage: int) -> None:
        for b in sorted(preferred_groups(self.ctx)):
            candidates = imbalanced_candidates(self.ctx, b, percentage)
            if candidates is not None:
                self._elect(candidates, "preferred", "AutoTriggered")

    # -- 6.9 ------------------------------------------------------------------------------------

    def on_log_dir_failure(self, b: int, partitions: Collection[Partition]) -> Happened:
        """6.9: the notification, then a response that names the offline partitions."""

        def body() -> None:
            self._probe([b])
            well = {p for p, _ in self.ctx.replicas_on_brokers([b])} - set(partitions)
            self._leader_and_isr_response(b, partitions, well)

        return self._event("on_log_dir_failure", body)

    def on_broker_log_dir_failure(self, brokers: Collection[int]) -> Happened:
        """6.9, step 1."""
        return self._event("on_broker_log_dir_failure", lambda: self._probe(brokers))

    def on_leader_and_isr_response(
        self, b: int, offline: Collection[Partition] = (), online: Collection[Partition] = ()
    ) -> Happened:
        """6.9, step 2."""
        return self._event(
            "on_leader_and_isr_response",
            lambda: self._leader_and_isr_response(b, offline, online),
        )

    def _probe(self, brokers: Collection[int]) -> None:
        self._replicas().handle(self.ctx.replicas_on_brokers(brokers), ReplicaState.ONLINE)

    def _leader_and_isr_response(
        self, b: int, offline: Collection[Partition], online: Collection[Partition]
    ) -> None:
        before = self.ctx.offline_dir_replicas.get(b, set())
        current = (before - set(online)) | set(offline)
        self.ctx.offline_dir_replicas[b] = current
        newly = current - before
        if newly:
            self._replicas_become_offline([(p, b) for p in sorted(newly)])

    # -- 6.10 -----------------------------------------------------------------------------------

    def alter_partition(self, request: AlterRequest) -> Happened:
        """6.10."""
        return self._event("alter_partition", lambda: self._alter_partition(request))

    def _alter_partition(self, request: AlterRequest) -> None:
        if self.ctx.live_broker_epochs.get(request.broker) != request.broker_epoch:
            self.now.error = "STALE_BROKER_EPOCH"
            return
        try:
            self.now.alter_codes |= alter_partition(self.ctx, self.store, request)
        except ControllerMovedError:
            self.now.error = "UNKNOWN_SERVER_ERROR"
            return
        self._send_update_metadata(self.ctx.registered, list(request.records))

    def catch_up(self, brokers: Collection[int]) -> Happened:
        """6.10: what the leaders ask for when these brokers have caught up."""

        def body() -> None:
            for request in catch_up_requests(self.ctx, brokers):
                self._alter_partition(request)

        return self._event("catch_up", body)

    def on_isr_change_notification(self, partitions: Collection[Partition]) -> Happened:
        """6.10, legacy notification path."""

        def body() -> None:
            for p, found in self.store.read_states(sorted(partitions)).items():
                if isinstance(found, Record):
                    self.ctx.put_leadership(p, found)
            self._send_update_metadata(self.ctx.registered, partitions)

        return self._event("on_isr_change_notification", body)

    # -- 6.11 -----------------------------------------------------------------------------------

    def enable_unclean_leader_election(self, topics: Iterable[str] | None = None) -> Happened:
        """6.11: the broker default, or these topics; the configuration is the cluster's."""
        if topics is None:
            self.ctx.default_unclean = True
        else:
            self.ctx.topic_unclean |= dict.fromkeys(topics, True)

        def body() -> None:
            for topic in [None] if topics is None else topics:
                self._partitions().trigger_online(topic)

        return self._event("enable_unclean_leader_election", body)

    def gauges(self) -> dict[str, Any]:
        """1.6: all zero when not the active controller."""
        values = self.ctx.gauges()
        return values if self.active else dict.fromkeys(values, 0)
