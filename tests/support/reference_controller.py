"""The controller's event handlers in plain Python (docs/controller.md, section 6).

Reassignment (sections 6.6 and 6.7) and topic deletion (section 6.12) stand apart; their events are
methods here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from kfast.schema import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    AlterCode,
    PartitionState,
    ReplicaState,
    Strategy,
)
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import (
    RECOVERED,
    RECOVERING,
    Assignment,
    Context,
    Partition,
    Record,
    Replica,
    same_allowing_stale_version,
)
from tests.support.reference_core import Core, EventFailedError, Happened
from tests.support.reference_partitions import PartitionStateMachine, Result
from tests.support.reference_profiles import UNSUPPORTED
from tests.support.reference_store import (
    CONFLICT,
    GARBAGE,
    CacheStore,
    CallFailedError,
    ControllerMovedError,
    Store,
    TwinStore,
)

from . import reference_deletion as deletion
from . import reference_reassignment as reassignment


def take_over_epoch(ctx: Context, store: Store) -> None:
    """Section 6.1, step 1: one more than the stored epoch."""
    if isinstance(store, TwinStore):
        store.elect_controller()
        ctx.epoch = store.controller_epoch
        ctx.epoch_store_version = store.epoch_version
    else:
        ctx.epoch += 1
        ctx.epoch_store_version += 1


def load_context(
    ctx: Context, store: Store, legacy_node: Mapping[Partition, tuple[int, ...]]
) -> set[str]:
    """Section 6.1, step 4: a new controller's context is empty; what it knows comes from the store.

    A new assignment that was not written before its controller left (section 6.7, B2) is lost.

    Answers the topics with a deletion marker: those that were queued.
    """
    queued = set(ctx.topics_to_delete)
    for forgotten in (ctx.shutting_down, ctx.offline_dir_replicas, ctx.partition_states,
                      ctx.replica_states, ctx.topics_to_delete, ctx.topics_deletion_started,
                      ctx.topics_ineligible):
        forgotten.clear()
    ctx.assignments |= ctx.unwritten_assignments
    ctx.unwritten_assignments.clear()
    if isinstance(store, TwinStore):
        ctx.leadership = {
            p: record
            for p in ctx.assignments
            if isinstance(record := store.records.get(p), Record)
        }
    ctx.being_reassigned = {p for p, a in ctx.assignments.items() if a.being_reassigned}
    ctx.reassignment_targets.clear()
    if not ctx.profile.cancels_reassignments:
        ctx.reassignment_targets |= {p: t for p, t in legacy_node.items() if p in ctx.assignments}
        ctx.being_reassigned = set(ctx.reassignment_targets)
    ctx.offline_partition_count = 0
    ctx.preferred_imbalance_count = sum(
        ctx.is_imbalanced(p) for p in ctx.leadership if not ctx.is_emptied(p)
    )
    return queued


def ineligible_topics(ctx: Context) -> set[str]:
    """Section 6.1, step 5: a replica is not online, or a partition is being reassigned."""
    offline = {p[0] for p, b in ctx.assigned_replicas() if not ctx.is_replica_online(b, p)}
    return offline | {p[0] for p in ctx.being_reassigned}


def filter_raises(ctx: Context, p: Partition) -> bool:
    """Section 6.8, note: a known partition without cached leadership makes the filter raise."""
    if not ctx.profile.filters_elections:
        return False
    return p in ctx.assignments and not ctx.is_queued(p) and p not in ctx.leadership


def refuses_election(ctx: Context, p: Partition, kind: str) -> str | None:
    """Section 6.8, the filter: why p is not elected for; None where it is."""
    if p not in ctx.assignments:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if ctx.is_queued(p):
        return "INVALID_TOPIC_EXCEPTION"
    if not ctx.profile.filters_elections:
        return None
    leader = ctx.leadership[p].leader
    if kind == "preferred" and leader == ctx.assignment(p).replicas[0]:
        return "ELECTION_NOT_NEEDED"
    if kind == "unclean" and leader != NO_LEADER and leader in ctx.live:
        return "ELECTION_NOT_NEEDED"
    return None


def election_reply(result: Result, kind: str) -> int | str:
    """Section 6.8: the leader, or the error by type of election."""
    if isinstance(result, Record):
        return result.leader
    if result.error != "StateChangeFailed":
        return "UNKNOWN_SERVER_ERROR"
    preferred = kind == "preferred"
    return "PREFERRED_LEADER_NOT_AVAILABLE" if preferred else "ELIGIBLE_LEADERS_NOT_AVAILABLE"


def preferred_groups(ctx: Context) -> dict[int, list[Partition]]:
    """Section 6.8, Auto, step 1: partitions of topics that are not queued, by first replica."""
    groups: dict[int, list[Partition]] = {}
    for p, assignment in ctx.assignments.items():
        if not ctx.is_queued(p):
            groups.setdefault(assignment.replicas[0], []).append(p)
    return groups


def imbalanced_candidates(ctx: Context, b: int, percentage: int) -> list[Partition] | None:
    """Section 6.8, Auto, steps 2 and 3: what is elected for; None where the ratio is low enough.

    Brokers are looked at one after another, so an election of one is seen by the next.
    """
    group = preferred_groups(ctx)[b]
    bad = [p for p in group if p in ctx.leadership and ctx.leadership[p].leader != b]
    if len(bad) * 100 <= percentage * len(group):
        return None
    if ctx.being_reassigned and not ctx.profile.rebalances_while_reassigning:
        return []
    return [
        p
        for p in bad
        if p[0] in ctx.all_topics
        and ctx.is_replica_online(b, p)
        and (b in ctx.leadership[p].isr or not ctx.profile.rebalances_in_isr)
    ]


@dataclass(frozen=True)
class AlterRequest:
    """One broker's request: the record it proposes for each partition."""

    broker: int
    broker_epoch: int
    records: dict[Partition, Record]


def check_proposal(ctx: Context, p: Partition, proposed: Record) -> AlterCode | None:
    """Section 6.10, rows 1 to 8; None where the proposal may be written."""
    current = ctx.leadership.get(p)
    if current is None:
        return AlterCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        proposed.version > current.version
        or proposed.leader_epoch > current.leader_epoch
    ):
        return AlterCode.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return AlterCode.FENCED_LEADER_EPOCH
    if same_allowing_stale_version(proposed, current):
        return AlterCode.UNCHANGED
    if proposed.version < current.version:
        return AlterCode.INVALID_UPDATE_VERSION
    if proposed.recovery == RECOVERING and len(proposed.isr) > 1:
        return AlterCode.INVALID_REQUEST
    if proposed.recovery == RECOVERING and current.recovery == RECOVERED:
        return AlterCode.INVALID_REQUEST
    if ctx.profile.requires_live_isr and not set(proposed.isr) <= ctx.live:
        return AlterCode.INELIGIBLE_REPLICA
    return None


def alter_partition(
    ctx: Context, store: Store, request: AlterRequest
) -> dict[Partition, AlterCode]:
    """Section 6.10: a code per partition; what was written is taken into the cache."""
    codes: dict[Partition, AlterCode] = {}
    writes: dict[Partition, Record] = {}
    for p, asked in request.records.items():
        proposed = replace(asked, leader=request.broker, controller_epoch=ctx.epoch)
        refused = check_proposal(ctx, p, proposed)
        if refused is None:
            writes[p] = proposed
        else:
            codes[p] = refused
    try:
        responses = store.update_states(writes, ctx)
    except CallFailedError:
        responses = dict.fromkeys(writes, "throw")
    written = {p: r for p, r in responses.items() if isinstance(r, Record)}
    if isinstance(store, CacheStore):
        for p, record in written.items():
            ctx.put_leadership(p, record)
    reload(ctx, store, list(written))
    for p, response in responses.items():
        if isinstance(response, Record):
            codes[p] = AlterCode.WRITTEN
        else:
            conflict = response == CONFLICT
            codes[p] = AlterCode.INVALID_UPDATE_VERSION if conflict else AlterCode.STORE_ERROR
    return {p: codes[p] for p in request.records}


def reload(ctx: Context, store: Store, partitions: list[Partition]) -> None:
    """Section 6.10: what was written is read again; what does not decode is left out."""
    stored = store.read_states(partitions) if partitions else {}
    if any(not isinstance(r, Record) and r not in (GARBAGE, "NONODE") for r in stored.values()):
        raise CallFailedError
    for p, record in stored.items():
        if isinstance(record, Record):
            ctx.put_leadership(p, record)


def catch_up_requests(ctx: Context, brokers: Collection[int]) -> list[AlterRequest]:
    """What the leaders ask for when these brokers have caught up: they join the ISR.

    Only leaders that are up ask, for assigned replicas that are online; one request per leader,
    in ascending id.
    """
    requests: dict[int, dict[Partition, Record]] = {}
    for p, record in ctx.leadership.items():
        if record.leader == NO_LEADER or not ctx.is_replica_online(record.leader, p):
            continue
        joining = [
            b
            for b in ctx.assignment(p).replicas
            if b in brokers and b not in record.isr and ctx.is_replica_online(b, p)
        ]
        if joining:
            longer = replace(record, isr=(*record.isr, *joining), recovery=RECOVERED)
            requests.setdefault(record.leader, {})[p] = longer
    return [AlterRequest(b, ctx.live_broker_epochs[b], requests[b]) for b in sorted(requests)]


def write_isrs(ctx: Context, store: Store, request: AlterRequest) -> list[Partition]:
    """Before 2.7 leaders wrote ISRs themselves, where they knew the stored version.

    The version rises, and nothing else changes. Before 2.4 LeaderAndIsr could tell a leader of a
    version that the controller itself had not cached.
    """
    return [
        p
        for p, wanted in request.records.items()
        if store.write_isr(
            p, wanted.isr, wanted.version if ctx.profile.epoch_bump_is_cached else None
        )
    ]


def controlled_shutdown(core: Core, b: int, epoch: int = UNKNOWN_BROKER_EPOCH) -> Happened:
    """6.3."""
    def body() -> None:
        try:
            shut_down(core, b, epoch)
        except ControllerMovedError as moved:
            raise EventFailedError("ControllerMoved") from moved

    return core.event("controlled_shutdown", body, inactive="ControllerMoved")


def refusal(core: Core, b: int, epoch: int) -> str | None:
    """Section 6.3, steps 2 and 3; before 2.2 brokers have no epochs."""
    cached = core.ctx.live_broker_epochs.get(b)
    if epoch != UNKNOWN_BROKER_EPOCH and core.ctx.profile.has_broker_epochs:
        if cached is None:
            return "NoSuchElement"
        if epoch < cached:
            return "StaleBrokerEpoch"
    return "BrokerNotAvailable" if cached is None else None


def shut_down(core: Core, b: int, epoch: int) -> None:
    """Section 6.3, the steps; before 1.1 they are taken for one partition after the other."""
    ctx = core.ctx
    core.now.error = refusal(core, b, epoch)
    if core.now.error is not None:
        return
    ctx.shutting_down.add(b)
    acted_on = [
        p
        for p, _ in ctx.replicas_on_brokers([b])
        if len(ctx.assignment(p).replicas) > 1
        and p in ctx.leadership
        and not (ctx.is_queued(p) and ctx.profile.shutdown_skips_queued)
    ]
    apart = ctx.profile.batch_per_partition
    core.now.marks["shutdown of partitions one by one"] += apart
    for some in [[p] for p in acted_on] if apart else [acted_on]:
        act_on(core, b, some)
    core.now.remaining = ctx.partition_leaders_on_broker(b)


def act_on(core: Core, b: int, partitions: list[Partition]) -> None:
    """Section 6.3, steps 5 to 8."""
    led = [p for p in partitions if core.ctx.leadership[p].leader == b]
    followed = [p for p in partitions if p not in led]
    core.partitions().handle(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)

    def stop_followed(batch: RequestBatch) -> None:
        for p in followed:
            batch.add_stop_replica([b], p, delete=False)

    core.send(stop_followed)
    core.replicas().handle([(p, b) for p in followed], ReplicaState.OFFLINE)


@dataclass
class Controller(Core):
    """One method per event, in Kafka's order (sections 6.1 to 6.4 and 6.7 to 6.12)."""

    alter_partition_reassignments = reassignment.alter_partition_reassignments
    reassign_partitions = reassignment.reassign_partitions
    on_partition_reassignment = reassignment.on_partition_reassignment
    list_partition_reassignments = reassignment.list_partition_reassignments
    delete_topics = deletion.delete_topics
    on_stop_replica_response = deletion.on_stop_replica_response
    acknowledge_deletions = deletion.acknowledge_deletions
    controlled_shutdown = controlled_shutdown

    # -- section 6.1 ----------------------------------------------------------------------------

    def on_controller_failover(
        self, reassignments: Mapping[Partition, Sequence[int]] | None = None
    ) -> Happened:
        """Section 6.1; `reassignments` is what the legacy node says."""
        self.active = True
        self.legacy_node = self.ctx.reassignment_targets | {
            p: tuple(wanted) for p, wanted in (reassignments or {}).items()
        }
        happened = self.event("on_controller_failover", self._failover)
        self.active = self.active and happened.error is None
        return happened

    def _failover(self) -> None:
        take_over_epoch(self.ctx, self.store)
        queued = load_context(self.ctx, self.store, self.legacy_node)
        deletion.init(self, queued, ineligible_topics(self.ctx))
        self.send_update_metadata(self.ctx.registered, [])
        self.replicas().startup()
        self.partitions().startup()
        reassignment.resume_at_failover(self)
        deletion.resume_deletions(self)

    # -- section 6.2 ----------------------------------------------------------------------------

    def on_broker_change(
        self,
        started: Mapping[int, int] | None = None,
        bounced: Mapping[int, int] | None = None,
        failed: Collection[int] = (),
    ) -> Happened:
        """New brokers while dead ones still look alive, then bounced, then dead ones.

        Source: section 6.2.
        """

        def body() -> None:
            if started:
                self.ctx.live_broker_epochs |= started
                self._broker_startup(started)
            if bounced and self.ctx.profile.has_broker_epochs:
                self._forget_brokers(bounced)
                self._broker_failure(bounced)
                self.ctx.live_broker_epochs |= bounced
                self._broker_startup(bounced)
            if failed:
                self._forget_brokers(failed)
                self._broker_failure(failed)

        return self.event("on_broker_change", body)

    def _forget_brokers(self, brokers: Iterable[int]) -> None:
        for b in brokers:
            del self.ctx.live_broker_epochs[b]

    def _broker_startup(self, brokers: Collection[int]) -> None:
        """Section 6.2, `broker_startup`."""
        ctx = self.ctx
        for b in brokers:
            ctx.offline_dir_replicas.pop(b, None)
        if ctx.profile.tells_starting_apart:
            others = [b for b in ctx.registered if b not in brokers]
            everything = ctx.profile.tells_starting_of_queued
            self.send_update_metadata(others, [])
            self.send_update_metadata(
                brokers, list(ctx.leadership) if everything else ctx.partitions_with_leaders()
            )
        else:
            self.send_update_metadata(ctx.registered, [])
        hosted = ctx.replicas_on_brokers(brokers)
        self.replicas().handle(hosted, ReplicaState.ONLINE)
        self.partitions().trigger_online()
        reassignment.resume_on(self, brokers)
        deletion.resume_deletion_for(self, {p[0] for p, _ in hosted})

    def _broker_failure(self, brokers: Collection[int]) -> None:
        """Section 6.2, `broker_failure`."""
        for b in brokers:
            self.ctx.offline_dir_replicas.pop(b, None)
            self.ctx.shutting_down.discard(b)
        self._replicas_become_offline(self.ctx.replicas_on_brokers(brokers), brokers)

    def _replicas_become_offline(
        self, replicas: list[Replica], brokers: Iterable[int] = ()
    ) -> None:
        """Section 6.2, `replicas_become_offline`; the brokers are those that died."""
        ctx = self.ctx
        deleting = [r for r in replicas if ctx.is_queued(r[0])]
        others = [r for r in replicas if not ctx.is_queued(r[0])]
        partitions = self.partitions()
        leaderless = ctx.partitions_with_offline_leader()
        if ctx.profile.offlines_only_of_failed:
            leaderless = [p for p in leaderless if ctx.leadership[p].leader in brokers]
        partitions.handle(leaderless, PartitionState.OFFLINE)
        results = partitions.trigger_online()
        self.replicas().handle(others, ReplicaState.OFFLINE)
        deletion.fail_replica_deletion(self, deleting)
        elected = any(isinstance(r, Record) for r in results.values())
        quiet = not others and not elected
        if quiet if ctx.profile.announces_unless_elected else not leaderless:
            self.send_update_metadata(ctx.registered, [])

    # -- section 6.4 ----------------------------------------------------------------------------

    def on_topic_change(
        self, created: Mapping[str, Mapping[int, Iterable[int]]], gone: Iterable[str] = (),
        configs: Mapping[str, Mapping[str, bool]] = MappingProxyType({}),
    ) -> Happened:
        """Section 6.4, topic list changed; configurations are of unclean elections alone."""

        def body() -> None:
            stale = {p[0] for p in self.ctx.partition_states} - self.ctx.all_topics
            self.now.marks["topic created again"] += bool(stale & set(created))
            for topic in gone:
                self.ctx.remove_topic(topic)
                self.store.forget(topic)
            for topic, config in configs.items():
                self.ctx.topic_unclean[topic] = config["unclean.leader.election.enable"]
            self._set_up({
                (topic, n): replicas
                for topic, listed in created.items() for n, replicas in listed.items()
            })

        return self.event("on_topic_change", body)

    def on_partition_modifications(
        self, topic: str, assignments: Mapping[int, Iterable[int]]
    ) -> Happened:
        """Section 6.4, topic node modified: nothing is set up of a queued topic."""

        def body() -> None:
            added = {
                (topic, n): replicas
                for n, replicas in assignments.items()
                if not self.ctx.assignment((topic, n)).replicas
            }
            self._set_up({} if topic in self.ctx.topics_to_delete else added)

        return self.event("on_partition_modifications", body)

    def _set_up(self, assignments: Mapping[Partition, Iterable[int]]) -> None:
        for p, replicas in assignments.items():
            self.ctx.all_topics.add(p[0])
            self.ctx.set_assignment(p, Assignment(tuple(replicas)))
        self._new_partitions(list(assignments))

    def _new_partitions(self, new: list[Partition]) -> None:
        """Section 6.4, `new_partitions`."""
        replicas = [(p, b) for p in new for b in self.ctx.assignment(p).replicas]
        self.partitions().handle(new, PartitionState.NEW)
        self.replicas().handle(replicas, ReplicaState.NEW)
        self.partitions().handle(new, PartitionState.ONLINE, Strategy.OFFLINE)
        self.replicas().handle(replicas, ReplicaState.ONLINE)

    # -- section 6.8 ----------------------------------------------------------------------------

    def elect_leaders(
        self,
        partitions: Iterable[Partition] | None,
        kind: str = "preferred",
        trigger: str = "AdminClient",
    ) -> Happened:
        """The filter, then the election; a partition may be missing from the replies.

        Source: section 6.8.
        """

        def body() -> None:
            asked = list(self.ctx.assignments if partitions is None else partitions)
            by_api = kind == "unclean" or trigger == "AdminClient"
            if by_api and not self.ctx.profile.has_admin_elections:
                self.now.error = UNSUPPORTED
                return
            if any(filter_raises(self.ctx, p) for p in asked):
                self.now.error = "NoSuchElement"
                return
            refused = {p: refuses_election(self.ctx, p, kind) for p in asked}
            wanted = [p for p, reply in refused.items() if reply is None]
            machine = self.partitions()
            results = self._elect(wanted, kind, trigger, machine)
            self.now.replies = {p: reply for p, reply in refused.items() if reply is not None}
            self.now.replies |= {p: election_reply(r, kind) for p, r in results.items()}
            self.now.replies |= dict.fromkeys(machine.not_needed, "ELECTION_NOT_NEEDED")

        return self.event("elect_leaders", body)

    def _elect(
        self, partitions: list[Partition], kind: str, trigger: str,
        machine: PartitionStateMachine | None = None,
    ) -> dict[Partition, Result]:
        """Section 6.8, core: unclean elections are permitted to the admin client only."""
        strategy = Strategy.PREFERRED_REPLICA
        if kind == "unclean":
            admin = trigger == "AdminClient"
            strategy = Strategy.OFFLINE_ALLOW_UNCLEAN if admin else Strategy.OFFLINE
        machine = machine or self.partitions()
        return machine.handle(partitions, PartitionState.ONLINE, strategy)

    def rebalance_leaders(self, percentage: int = 10) -> Happened:
        """Section 6.8, Auto: brokers whose imbalance ratio exceeds the percentage."""
        return self.event("rebalance_leaders", lambda: self._rebalance(percentage))

    def _rebalance(self, percentage: int) -> None:
        for b in sorted(preferred_groups(self.ctx)):
            candidates = imbalanced_candidates(self.ctx, b, percentage)
            if candidates is None:
                continue
            apart = self.ctx.profile.batch_per_partition
            self.now.marks["elections one by one"] += apart
            for some in [[p] for p in candidates] if apart else [candidates]:
                self._elect(some, "preferred", "AutoTriggered")

    # -- section 6.9 ----------------------------------------------------------------------------

    def on_log_dir_failure(self, b: int, partitions: Collection[Partition]) -> Happened:
        """Section 6.9: the notification, then a response that names the offline partitions."""

        def body() -> None:
            self._probe([b])
            well = {p for p, _ in self.ctx.replicas_on_brokers([b])} - set(partitions)
            self._leader_and_isr_response(b, partitions, well)

        return self.event("on_log_dir_failure", body)

    def on_broker_log_dir_failure(self, brokers: Collection[int]) -> Happened:
        """Section 6.9, step 1."""
        return self.event("on_broker_log_dir_failure", lambda: self._probe(brokers))

    def on_leader_and_isr_response(
        self, b: int, offline: Collection[Partition] = (), online: Collection[Partition] = ()
    ) -> Happened:
        """Section 6.9, step 2."""
        return self.event(
            "on_leader_and_isr_response",
            lambda: self._leader_and_isr_response(b, offline, online),
        )

    def _probe(self, brokers: Collection[int]) -> None:
        self.replicas().handle(self.ctx.replicas_on_brokers(brokers), ReplicaState.ONLINE)

    def _leader_and_isr_response(
        self, b: int, offline: Collection[Partition], online: Collection[Partition]
    ) -> None:
        before = self.ctx.offline_dir_replicas.get(b, set())
        current = (before - set(online)) | set(offline)
        self.ctx.offline_dir_replicas[b] = current
        newly = current - before
        if newly:
            self._replicas_become_offline([(p, b) for p in sorted(newly)])

    # -- section 6.10 ---------------------------------------------------------------------------

    def alter_partition(self, request: AlterRequest) -> Happened:
        """Section 6.10; before 2.7 nobody knows the request."""

        def body() -> None:
            if self.ctx.profile.has_alter_partition:
                self._alter_partition(request)
            else:
                self.now.error = UNSUPPORTED

        return self.event("alter_partition", body)

    def _alter_partition(self, request: AlterRequest) -> None:
        if self.ctx.live_broker_epochs.get(request.broker) != request.broker_epoch:
            self.now.error = "STALE_BROKER_EPOCH"
            return
        try:
            codes = alter_partition(self.ctx, self.store, request)
        except (ControllerMovedError, CallFailedError):
            self.now.error = "UNKNOWN_SERVER_ERROR"
            return
        self.now.alter_codes |= codes
        self.send_update_metadata(self.ctx.registered, list(request.records))
        accepted = (AlterCode.UNCHANGED, AlterCode.WRITTEN)
        reassignment.resume_completed(self, [p for p, c in codes.items() if c in accepted])

    def catch_up(self, brokers: Collection[int]) -> Happened:
        """What the leaders ask for when these brokers have caught up; one event each.

        Source: section 6.10.
        """

        def body() -> None:
            errors = []
            for request in catch_up_requests(self.ctx, brokers):
                self.now.error = None
                try:
                    self._ask(request)
                except EventFailedError as failed:
                    self.now.error = failed.error
                errors += [self.now.error] if self.now.error else []
            self.now.error = errors[0] if errors else None

        return self.event("catch_up", body)

    def _ask(self, request: AlterRequest) -> None:
        """Before there was AlterPartition, leaders wrote ISRs themselves and notified."""
        if self.ctx.profile.has_alter_partition:
            self._alter_partition(request)
        else:
            written = write_isrs(self.ctx, self.store, request)
            if written:
                self._notified(written)

    def on_isr_change_notification(self, partitions: Collection[Partition]) -> Happened:
        """Section 6.10, legacy notification path."""
        return self.event("on_isr_change_notification", lambda: self._notified(partitions))

    def _notified(self, partitions: Collection[Partition]) -> None:
        for p, stored in self.store.read_states(sorted(partitions)).items():
            if isinstance(stored, Record):
                self.ctx.put_leadership(p, stored)
        self.send_update_metadata(self.ctx.registered, partitions)
        reassignment.resume_completed(self, partitions)

    # -- section 6.11 ---------------------------------------------------------------------------

    def enable_unclean_leader_election(self, topics: Iterable[str] | None = None) -> Happened:
        """Section 6.11: the broker default, or these topics; the configuration is the cluster's."""
        if topics is None:
            self.ctx.default_unclean = True
        else:
            self.ctx.topic_unclean |= dict.fromkeys(topics, True)

        def body() -> None:
            for topic in [None] if topics is None else topics:
                self.partitions().trigger_online(topic)

        return self.event("enable_unclean_leader_election", body)

    def gauges(self) -> dict[str, Any]:
        """Section 1.6: all zero when not the active controller."""
        values = self.ctx.gauges()
        return values if self.active else dict.fromkeys(values, 0)
