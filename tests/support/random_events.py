"""Seeded random events and faults of the store: what happens to a cluster, as text and as data.

An event names brokers by id and partitions by name, so that it reads as what happened:
`on_broker_change(started={3: 17}, failed=[5])`.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from kfast.schema import PartitionState, ReplicaState, Strategy
from tests.support.event import Event, created_by
from tests.support.random_clusters import random_record, some
from tests.support.reference import GARBAGE, Context, Partition, Record, TwinStore
from tests.support.reference_controller import Controller

WHOLE_CALL = {
    "read_states": ("throw",), "create_states": ("throw", "controller_moved"),
    "update_states": ("throw", "controller_moved"),
    "write_assignments": ("throw", "controller_moved"),
}
PER_PARTITION = {
    "read_states": ("NONODE", "NOAUTH"), "create_states": ("NODEEXISTS", "NOAUTH"),
    "update_states": ("BADVERSION", "NOAUTH"),
}
FAULTS = frozenset(
    {(op, fault) for table in (WHOLE_CALL, PER_PARTITION) for op in table for fault in table[op]}
    | {("topic_config", "CONFIG_READ_FAILED")}
)

REASSIGNING = frozenset({
    "alter_partition_reassignments", "reassign_partitions", "on_partition_reassignment",
    "catch_up",
})
FAULTY = frozenset({
    "on_broker_change", "on_broker_failure", "on_broker_startup", "controlled_shutdown",
    "on_topic_change", "on_partition_modifications", "elect_leaders", "rebalance_leaders",
    "on_log_dir_failure", "on_leader_and_isr_response", "on_broker_log_dir_failure",
    "enable_unclean_leader_election", "move_replicas", "move_partitions", "alter_partition",
    "on_controller_failover", "delete_topics", "on_stop_replica_response",
    "acknowledge_deletions",
}) | REASSIGNING
"""Events before which faults are injected: those that ask the store through the machines."""


def operation(g: Generator, event: Event) -> str:
    """The operation that is to fail."""
    choices = ["read_states", "create_states", "update_states", "update_states", "topic_config"]
    if event.name == "alter_partition":
        choices = ["update_states"]
    if event.name in REASSIGNING:
        choices = ["read_states", "update_states", "update_states", "write_assignments"]
    if event.name == "on_controller_failover":
        choices = ["create_states", "update_states", "write_assignments"]
    creates = event.name in ("on_topic_change", "on_partition_modifications")
    if creates and g.random.random() < 0.6:
        choices = ["create_states"]
    return g.random.choice(choices)


def concerned(g: Generator, event: Event) -> list[Partition]:
    """The partitions that an event is about, or some others."""
    args = event.args
    asked = args.get("partitions") or args.get("records") or args.get("reassignments") or ()
    named = created_by(event) or [p for p in asked if p in g.ctx.assignments]
    if not named and "topics" in args:
        named = [p for p in sorted(g.ctx.assignments) if p[0] in (args["topics"] or ())][:8]
    return named if named and g.random.random() < 0.7 else g.partitions(12)


def faults(g: Generator, event: Event) -> list[Event]:
    """Faults that an event may meet; none of the same operation twice."""
    if g.store is None or event.name not in FAULTY or g.random.random() < 0.45:
        return []
    if event.name == "catch_up" and not g.ctx.profile.has_alter_partition:
        return []
    if not g.ctx.all_topics:
        return []
    op = operation(g, event)
    named = concerned(g, event)
    if op == "topic_config":
        topics = g.random.sample(sorted(g.ctx.all_topics), 1)
        return [Event("fault", {"op": op, "fault": "CONFIG_READ_FAILED", "topics": topics})]
    by_hand = event.name == "move_replicas" and event.args["target"] == ReplicaState.OFFLINE
    if by_hand and g.random.random() < 0.2:
        # Another controller takes over in the middle of a call.
        return [Event("fault", {
            "op": "update_states", "fault": "controller_moved",
            "partitions": some(g.random, [p for p, _ in event.args["replicas"]], 1), "times": 1,
        })]
    if g.random.random() < 0.3 or op not in PER_PARTITION:
        fault = g.random.choice(WHOLE_CALL[op])
        # Which item is the first of a call that goes item by item is left to its order.
        met = named if g.ctx.profile.batch_per_partition else None
        return [Event("fault", {"op": op, "fault": fault, "partitions": met, "times": 1})]
    return [Event("fault", {
        "op": op, "fault": g.random.choice(PER_PARTITION[op]),
        "partitions": named, "times": g.random.randint(1, 2),
    })]


NOWHERE = ("nowhere", 0)
"""A partition of a topic that never was."""


def targets(g: Generator, p: Partition) -> list[int]:
    """Replicas that somebody may want for p: in half of the cases what is there, changed a bit."""
    live, now = sorted(g.ctx.live), list(g.ctx.assignment(p).origin)
    kind = g.random.randint(0, 9)
    if kind == 0:
        return g.random.sample(now, len(now))
    if kind == 1:
        return list(g.ctx.assignment(p).target)
    if kind == 2:
        return g.random.sample(now, min(len(now), g.random.randint(1, 3)))
    if kind == 3:
        more = g.random.sample(live, min(len(live), 1))
        return list(dict.fromkeys([*more, *now]))[:5]
    known = sorted({*live, *now, *(g.brokers if g.random.random() < 0.15 else ())})
    return g.random.sample(known, min(len(known), g.random.randint(1, 4)))


def damaged(g: Generator, wanted: list[int]) -> list[int]:
    """A list that no controller accepts."""
    return g.random.choice([[], [*wanted, *wanted[:1]], [*wanted, -1], [*wanted, 999]])


def moving(g: Generator, most: int) -> list[Partition]:
    """Partitions to reassign, half of the time some that are being reassigned already."""
    current = sorted(p for p in g.ctx.being_reassigned if p in g.ctx.assignments)
    known = current if current and g.random.random() < 0.5 else sorted(g.ctx.assignments)
    return some(g.random, [p for p in known if g.ctx.assignment(p).replicas], most)


def reassign(g: Generator) -> Event | None:
    """A request through the API: new plans, overrides, cancels, and what is refused."""
    if not g.ctx.profile.cancels_reassignments and g.random.random() < 0.9:
        return reassign_by_node(g)
    asked: dict[Partition, list[int] | None] = {}
    for p in moving(g, 4):
        wanted = targets(g, p)
        if g.random.random() < 0.1:
            wanted = damaged(g, wanted)
        in_progress = g.ctx.assignment(p).being_reassigned
        asked[p] = None if g.random.random() < (0.3 if in_progress else 0.05) else wanted
    unled = sorted(p for p in g.ctx.assignments.keys() - g.ctx.leadership.keys())
    if unled and g.random.random() < 0.2:
        p = g.random.choice(unled)
        asked[p] = list(g.ctx.assignment(p).origin) or None
    if g.random.random() < 0.08:
        live = sorted(g.ctx.live)[:2]
        topic = g.random.choice(sorted(g.ctx.all_topics))
        asked[g.random.choice([NOWHERE, (topic, 99)])] = g.random.choice([live, None])
    return Event("alter_partition_reassignments", {"reassignments": asked})


def reassign_by_node(g: Generator) -> Event | None:
    """The legacy node: it can be created when it is not there."""
    if g.controller.legacy_node:
        return None
    asked = {p: targets(g, p) or list(g.ctx.assignment(p).origin) for p in moving(g, 3)}
    twice = 0.1 if g.ctx.profile.cancels_reassignments else 0.0
    asked = {p: [*wanted, wanted[0]] if g.random.random() < twice else wanted
             for p, wanted in asked.items() if wanted}
    if g.random.random() < 0.1:
        asked[NOWHERE] = g.brokers[:2]
    return Event("reassign_partitions", {"reassignments": asked})


def go_on(g: Generator) -> Event | None:
    """Reassignments are taken up where they are."""
    partitions = moving(g, 3)
    if not g.ctx.profile.cancels_reassignments:
        partitions = some(g.random, sorted(g.ctx.reassignment_targets), 3)
    return Event("on_partition_reassignment", {"partitions": partitions}) if partitions else None


def finish(g: Generator) -> Event | None:
    """The replicas that some reassignments add catch up."""
    added = {b for p in moving(g, 4) for b in g.ctx.assignment(p).target}
    brokers = sorted(added & set(g.ctx.live_broker_epochs))
    if not brokers or not all(map(g.decodes, g.ctx.leadership)):
        return None
    return Event("catch_up", {"brokers": brokers})


def delete(g: Generator) -> Event:
    """Deletion markers, now and then of topics that are not there, or queued already."""
    most = 2 if len(g.ctx.all_topics) > 3 else 1
    topics = g.random.sample(sorted(g.ctx.all_topics), g.random.randint(1, most))
    if g.random.random() < 0.15:
        topics.append("nowhere")
    return Event("delete_topics", {"topics": topics})


def stop_replica_response(g: Generator) -> Event | None:
    """A broker answers for some of the replicas that it was told to delete."""
    told: dict[int, list[Partition]] = {}
    for (p, b), state in sorted(g.ctx.replica_states.items()):
        if state == ReplicaState.DELETION_STARTED and p in g.ctx.assignments:
            told.setdefault(b, []).append(p)
    if not told:
        return None
    b = g.random.choice(sorted(told))
    asked = some(g.random, told[b], 6)
    if g.random.random() < 0.15:
        asked = sorted({*asked, g.random.choice(sorted(g.ctx.assignments))})
    failed = [p for p in asked if g.random.random() < 0.2]
    return Event("on_stop_replica_response", {
        "broker": b, "partitions": asked, "failed": failed,
        "error": g.random.random() < 0.1,
    })


def acknowledge(g: Generator) -> Event:
    """Brokers answer for all that they were told to delete."""
    brokers = None if g.random.random() < 0.5 else sorted(g.random.sample(g.brokers, 3))
    return Event("acknowledge_deletions", {"brokers": brokers})


CHOICES: list[tuple[int, Callable[[Generator], Event | None]]] = [
    (14, reassign), (3, reassign_by_node), (2, go_on), (8, finish), (5, delete),
    (6, stop_replica_response), (10, acknowledge),
]
"""How often each comes up, beside the weights of `random_events.Generator`."""


class Generator:
    """Picks what happens next, from what the twin knows."""

    def __init__(
        self, random: Random, ctx: Context, store: TwinStore | None, controller: Controller
    ) -> None:
        self.random = random
        self.controller = controller
        self.ctx = ctx
        self.store = store
        self.topics_made = 0
        self.first_topics = sorted(ctx.all_topics)
        self.brokers = sorted(
            {*ctx.live_broker_epochs, *(b for _, b in ctx.assigned_replicas())}
        )
        self.choices: list[tuple[int, Callable[[], Event | None]]] = [
            (12, self.broker_change), (6, self.broker_failure), (8, self.broker_startup),
            (6, self.controlled_shutdown), (5, self.topic_change), (6, self.more_partitions),
            (7, self.elect_leaders),
            (5, self.rebalance), (5, self.log_dir), (5, self.response), (7, self.alter),
            (7, self.catch_up), (2, self.notification), (3, self.unclean), (1, self.queue),
            (40, self.move_replicas), (20, self.move_partitions), (2, self.failover),
            (2, self.probe),
        ]
        self.choices += [
            (weight, partial(make, self)) for weight, make in CHOICES
        ]
        if store is not None:
            self.choices += [(7, self.tamper), (1, self.other_controller)]
        if not ctx.profile.has_log_dirs:
            without = (self.probe, self.log_dir, self.response)
            self.choices = [choice for choice in self.choices if choice[1] not in without]
        if random.random() < 0.3:
            # Left to the controller, reassignments and deletions come to their ends more often.
            by_hand = (self.move_replicas, self.move_partitions)
            self.choices = [choice for choice in self.choices if choice[1] not in by_hand]

    def next(self) -> Event:
        """The next event; one whose time has not come is passed over.

        A controller that has resigned soon gets its successor, a cluster without topics one.
        """
        if not self.controller.active and self.random.random() < 0.4:
            return self.failover()
        if not self.ctx.all_topics:
            return self.topic_change()
        weights = [weight for weight, _ in self.choices]
        while True:
            _, make = self.random.choices(self.choices, weights)[0]
            event = make()
            if event is not None:
                return event

    # -- choosing -------------------------------------------------------------------------------

    def _brokers(self, registered: bool, most: int = 3) -> list[int]:
        known = [b for b in self.brokers if (b in self.ctx.live_broker_epochs) == registered]
        return sorted(self.random.sample(known, min(len(known), self.random.randint(1, most))))

    def _epochs(self, brokers: list[int]) -> dict[int, int]:
        return {b: self.random.randint(100, 999) for b in brokers}

    def partitions(self, most: int = 6, led: bool = False) -> list[Partition]:
        known = [p for p in sorted(self.ctx.assignments) if not led or p in self.ctx.leadership]
        return some(self.random, known, most)

    # -- events ---------------------------------------------------------------------------------

    def failover(self) -> Event:
        node = {p: list(wanted) for p, wanted in self.controller.legacy_node.items()}
        return Event("on_controller_failover", {"reassignments": node})

    def broker_change(self) -> Event:
        up, down = self._brokers(True, 4), self._brokers(False, 2)
        bounced = [b for b in up if self.random.random() < 0.4]
        failed = [b for b in up if b not in bounced and self.random.random() < 0.5]
        bounces = {b: self.ctx.live_broker_epochs[b] + 1 for b in bounced}
        return Event("on_broker_change", {
            "started": self._epochs(down), "bounced": bounces, "failed": failed,
        })

    def broker_failure(self) -> Event | None:
        failed = self._brokers(True, 2)
        return Event("on_broker_failure", {"brokers": failed}) if failed else None

    def broker_startup(self) -> Event | None:
        started = self._brokers(False)
        return Event("on_broker_startup", {"brokers": self._epochs(started)}) if started else None

    def controlled_shutdown(self) -> Event:
        b = self.random.choice(self.brokers)
        epoch = self.ctx.live_broker_epochs.get(b)
        choices = [-1, -1, -1] if epoch is None else [-1, epoch, epoch, epoch - 1]
        return Event("controlled_shutdown", {"broker": b, "epoch": self.random.choice(choices)})

    def _replicas(self) -> list[int]:
        return self.random.sample(self.brokers, self.random.randint(1, min(5, len(self.brokers))))

    def topic_change(self) -> Event:
        """A new topic, or one that was there before; now and then one vanishes."""
        self.topics_made += 1
        topic = f"made-{self.random.randint(1, self.topics_made)}"
        gone = sorted({p[0] for p in self.ctx.partition_states} - self.ctx.all_topics)
        if self.random.random() < 0.4:
            topic = self.random.choice(gone or self.first_topics)
        if topic in self.ctx.all_topics:
            topic = f"made-{self.topics_made}"
        created = {topic: {n: self._replicas() for n in range(self.random.randint(1, 3))}}
        known = sorted(self.ctx.all_topics)
        gone = self.random.sample(known, min(len(known), 1))
        gone = [t for t in gone if t not in self.ctx.topics_deletion_started]
        few = len(self.ctx.all_topics) < 4 or self.random.random() < 0.7
        allowed = (None, False, None, True)[self.topics_made % 4]
        configs = {} if allowed is None else {topic: {"unclean.leader.election.enable": allowed}}
        return Event("on_topic_change", {
            "created": created, "gone": [] if few else gone, "configs": configs,
        })

    def more_partitions(self) -> Event:
        topic = self.random.choice(sorted(self.ctx.all_topics))
        numbers = [q[1] for q in self.ctx.assignments if q[0] == topic]
        first = max(numbers, default=-1) + 1 - (self.random.random() < 0.3)
        added = {n: self._replicas() for n in range(max(first, 0), first + 2)}
        return Event("on_partition_modifications", {"topic": topic, "assignments": added})

    def elect_leaders(self) -> Event:
        return Event("elect_leaders", {
            "partitions": self.partitions(8, led=self.random.random() < 0.95),
            "kind": self.random.choice(("preferred", "unclean")),
            "trigger": self.random.choice(("AdminClient", "AdminClient", "ZkTriggered")),
        })

    def rebalance(self) -> Event | None:
        ready = all(
            a.replicas for p, a in self.ctx.assignments.items() if not self.ctx.is_queued(p)
        )
        percentage = self.random.choice((0, 10, 10, 50))
        return Event("rebalance_leaders", {"percentage": percentage}) if ready else None

    def probe(self) -> Event | None:
        brokers = self._brokers(True)
        return Event("on_broker_log_dir_failure", {"brokers": brokers}) if brokers else None

    def log_dir(self) -> Event | None:
        return self._storage("on_log_dir_failure", online=False)

    def response(self) -> Event | None:
        return self._storage("on_leader_and_isr_response", online=True)

    def _storage(self, name: str, online: bool) -> Event | None:
        brokers = self._brokers(True, 1)
        if not brokers:
            return None
        hosted = sorted({p for p, _ in self.ctx.replicas_on_brokers(brokers)})
        args: dict[str, Any] = {"broker": brokers[0], "offline": some(self.random, hosted, 3)}
        if online:
            was = sorted(self.ctx.offline_dir_replicas.get(brokers[0], ()))
            args["online"] = [p for p in some(self.random, was, 3) if p not in args["offline"]]
        return Event(name, args)

    def alter(self) -> Event | None:
        brokers = self._brokers(True, 1)
        if not brokers:
            return None
        b = brokers[0]
        mine = [p for p in sorted(self.ctx.leadership) if self.ctx.leadership[p].leader == b]
        asked = some(self.random, mine, 4) if mine else self.partitions(2)
        if self.random.random() < 0.2:
            asked = sorted({*asked, *self.partitions(2)})
        asked = [p for p in asked if self.decodes(p)]
        unled = sorted(self.ctx.assignments.keys() - self.ctx.leadership.keys())
        if unled and self.random.random() < 0.25:
            asked.append(self.random.choice(unled))
        epoch = self.ctx.live_broker_epochs[b] - (self.random.random() < 0.1)
        records = {p: self._proposal(p, b) for p in asked}
        return Event("alter_partition", {"broker": b, "epoch": epoch, "records": records})

    def decodes(self, p: Partition) -> bool:
        """Whether the store can tell the version of the record."""
        return self.store is None or isinstance(self.store.records.get(p), Record)

    def _proposal(self, p: Partition, b: int) -> Record:
        """What a leader asks for: mostly right, sometimes stale or ahead in one respect."""
        current = self.ctx.leadership.get(p) or Record(b, 0, (b,))
        assigned = self.ctx.assignment(p).replicas
        isr = [r for r in assigned if r == b or self.random.random() < 0.8] or [b]
        if self.random.random() < 0.2:
            isr = list(current.isr)
        version = current.version + self.random.choice((0, 0, 0, 0, 0, -1, 1))
        epoch = current.leader_epoch + self.random.choice((0, 0, 0, 0, 0, 0, -1, 1))
        recovery = self.random.choice((0, 0, 0, 1))
        return replace(
            current, leader=b, isr=tuple(isr), version=version, leader_epoch=epoch,
            recovery=recovery,
        )

    def catch_up(self) -> Event | None:
        brokers = self._brokers(True, 4)
        bad = self.store is not None and not all(self.decodes(p) for p in self.ctx.leadership)
        return Event("catch_up", {"brokers": brokers}) if brokers and not bad else None

    def notification(self) -> Event:
        return Event("on_isr_change_notification", {"partitions": self.partitions()})

    def unclean(self) -> Event:
        if self.random.random() < 0.1:
            return Event("enable_unclean_leader_election", {"topics": None})
        topics = self.random.sample(sorted(self.ctx.all_topics), 1)
        return Event("enable_unclean_leader_election", {"topics": topics})

    def queue(self) -> Event:
        """Deletion begins when no partition is Offline any more (section 6.12, `start`)."""
        topics = self.random.sample(sorted(self.ctx.all_topics), 1)
        states = {s for p, s in self.ctx.partition_states.items() if p[0] in topics}
        begin = PartitionState.OFFLINE not in states and self.random.random() < 0.6
        return Event("queue_topic_deletion", {"topics": topics, "begin": begin})

    # -- the machines by themselves -------------------------------------------------------------

    def move_replicas(self) -> Event:
        """Replicas of one state, so that every cell of the matrix is met."""
        target = self.random.choice([s for s in ReplicaState if s != ReplicaState.NO_ENTRY])
        states = self.ctx.replica_states
        known = sorted({*self.ctx.assigned_replicas(), *states})
        state = self.random.choice(sorted({states.get(r, 0) for r in known}))
        done = ReplicaState.DELETION_SUCCESSFUL
        if target == ReplicaState.NON_EXISTENT and done in states.values():
            state = done
        alike = [r for r in known if states.get(r, 0) == state]
        picked = self.random.sample(alike, min(len(alike), self.random.randint(1, 6)))
        if self.random.random() < 0.2:
            picked.append((self.random.choice(known)[0], self.random.choice(self.brokers)))
        if self.random.random() < 0.2:
            led = sorted((p, r.leader) for p, r in self.ctx.leadership.items() if r.leader >= 0)
            picked += self.random.sample(led, min(len(led), 2))
        queued = [r for r in known if self.ctx.is_queued(r[0])]
        if queued and self.random.random() < 0.15:
            target = ReplicaState.OFFLINE
            picked = self.random.sample(queued, min(len(queued), 5))
        if target == ReplicaState.NON_EXISTENT:
            picked = [r for r in picked if self._may_leave(r[0])][:1]
        return Event("move_replicas", {"replicas": sorted(set(picked)), "target": target})

    def _may_leave(self, p: Partition) -> bool:
        """Taking the last replica of a partition that has leadership is an error (section 1.6)."""
        return p not in self.ctx.leadership or len(self.ctx.assignment(p).replicas) > 1

    def move_partitions(self) -> Event:
        """Partitions to any state, half of the time to Online, by any strategy or none."""
        target = self.random.choice([s for s in PartitionState if s != PartitionState.NO_ENTRY])
        if self.random.random() < 0.4:
            target = PartitionState.ONLINE
        strategy = self.random.choice([*Strategy, None])
        if strategy == Strategy.OFFLINE_ALLOW_UNCLEAN and not self.ctx.profile.has_admin_elections:
            strategy = Strategy.OFFLINE
        if target != PartitionState.ONLINE:
            strategy = None
        return Event("move_partitions", {
            "partitions": self.partitions(5), "target": target, "strategy": strategy,
        })

    # -- others that write to the store -----------------------------------------------------------

    def tamper(self) -> Event | None:
        """A leader, an operator or another controller changes a record."""
        assert self.store is not None
        known = sorted(self.ctx.assignments)
        queued = [p for p in known if self.ctx.is_queued(p)]
        p = self.random.choice(queued if queued and self.random.random() < 0.3 else known)
        stored, kind = self.store.records.get(p), self.random.randint(0, 4)
        if kind == 0:
            return Event("store_delete", {"partition": p})
        if kind == 1:
            return Event("store_put", {"partition": p, "record": GARBAGE})
        replicas = self.ctx.assignment(p).replicas
        if not replicas:
            return None
        record = random_record(self.ctx, self.random, replicas, self.brokers)
        epoch = self.ctx.epoch + (2 if kind == 2 else 0)
        version = stored.version + 1 if isinstance(stored, Record) else 0
        record = replace(record, controller_epoch=epoch, version=version)
        return Event("store_put", {"partition": p, "record": record})

    def other_controller(self) -> Event:
        return Event("other_controller")
