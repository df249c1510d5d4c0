"""Script: the events of a term, found in the lines of its controller.

Most events announce themselves in controller.log. Where that file has a hole, the batches of
state-change.log tell what must have happened; such an event is marked `inferred`.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any

from kfast.log_replay.events.batches import Batch, split_batches
from kfast.log_replay.events.deletion_answers import (
    Answer,
    deletion_halts,
    deletion_results,
    deletion_resumptions,
    read_answers,
    refused_results,
    take_answer,
)
from kfast.log_replay.events.events import (
    BALANCE_MS,
    CLAIM_MS,
    COVERED_MS,
    MARKS,
    MOVES,
    RESTART_MS,
    TIE_MS,
    LogEvent,
    first_registered,
)
from kfast.log_replay.events.inferred_events import Guesser
from kfast.log_replay.terms.terms import OPENING, Term, is_terse
from kfast.log_replay.terms.uncovered_lines import SEPARATE_MS
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, Partition, distinct

MAKES_ONLINE = frozenset({"failover", "resume", "brokers", "dir_failure", "reassign", "caught_up"})
"""Events that may make replicas Online that are so already."""


MOST_NEAR = 4
"""Batches that are looked at together, to tell which event has written the first of them."""

LISTS = frozenset({"active_brokers", "topics", "replica_states", "partition_states"})
"""Lists that a controller writes as it is elected, and at no other time."""

ANSWERS = frozenset({"stop_response", "replicas_deleted", "replicas_successful"})
"""Lines that tell that a broker has answered what deletes replicas."""

SAME_CHECK_MS = 1000
"""Lines this close together tell of one check for unbalanced leaders."""

FAILS_DELETIONS = frozenset({"brokers", "dir_failure", "failover"})
"""Events that halt deletions: replicas go offline.

Source: KafkaController.scala, `onReplicasBecomeOffline`.
"""


def write_script(statements: Sequence[Statement], term: Term) -> list[LogEvent]:
    """Events of a term, in order."""
    writer = _Writer(statements, term)
    writer.read_marks()
    writer.place_batches()
    writer.events.sort(key=lambda event: (event.time, event.at))
    first = term.statements[0]
    if not writer.events or writer.events[0].kind != "failover":
        writer.events.insert(0, LogEvent("resume", statements[first].entry.time, first, {
            "registered": writer.registered,
        }, term, inferred=True))
    return writer.events


class _Writer:
    """Writes the script of one term."""

    def __init__(self, statements: Sequence[Statement], term: Term) -> None:
        self.statements = statements
        self.term = term
        self.lines = [statements[number] for number in term.statements]
        self.events: list[LogEvent] = []
        self.last: LogEvent | None = None
        """The last event that is announced."""
        self.registered = first_registered(statements, term.statements)
        self.guess = Guesser(term, set(self.registered or ()), [
            line.entry.time for line in self.lines if line.kind in ANSWERS
        ])
        self.moving: set[Partition] = set()
        self.assigned: dict[Partition, Assigned] = {}
        self.raises_epoch: set[Partition] = set()
        self.unanswered: list[tuple[int, int]] = []
        self.resumptions = deletion_resumptions(statements, term.statements)
        self.halts = deletion_halts(statements, term.statements)
        self.unnamed: list[LogEvent] = []
        self.answers: list[Answer] = []
        self.answered = self.handled = -1
        self.has_deletion_thread = any(  # Up to 0.10; it waits until answers let it work.
            line.entry.message.startswith("[delete-topics-thread-") for line in self.lines
        )
        self.unbalanced: set[Partition] | None = None
        self.elected_until: int | None = None
        self.ended: LogEvent | None = None
        self.begun = [line.entry.time for line in self.lines if line.kind == "deletion_started"]
        self.restarts = self.begun
        self.done = [
            (line.entry.time, line.fields["topic"]) for line in self.lines
            if line.kind == "deletion_done"
        ]
        self.moves_ended = [
            (line.entry.time, line.fields["partition"]) for line in self.lines
            if line.kind == "assignment_stored" and not any(line.fields["assignment"][1:])
        ]

    # --- events that are announced --------------------------------------------------------------

    def read_marks(self) -> None:
        """Events that lines of controller.log announce.

        Up to 2.2 no line names the broker that answers a StopReplica; the one that names the
        deleted replicas does, up to 1.0 also at INFO.
        """
        kinds = {line.kind for line in self.lines}
        deletes = "replicas_deleted" if "replicas_deleted" in kinds else "replicas_successful"
        answers = "stop_response" in kinds
        terse = is_terse(self.statements, self.term)
        if terse and not answers and deletes not in kinds:
            self.answers = read_answers(self.statements, self.term.statements)
            self.unanswered = [] if self.answers else self._deletions()
        moves = {"assignment_updating", "reassign"}
        if terse and not kinds & moves:  # They are below the log's level: what was stored tells.
            moves = {"assignment_stored"}
        for number, statement in zip(self.term.statements, self.lines, strict=True):
            if statement.kind in ("caught_up", "assignment_updating"):
                self.moving.add(statement.fields["partition"])
            if statement.kind in OPENING or (
                number == self.term.statements[0] and self.begins_within_election
            ):
                if self.last is None:
                    self._add("failover", number, {
                        "registered": self.registered, **self._read_topics(number),
                    })
            elif statement.kind == "all_shutting" and self.last is None and (
                len(statement.fields["brokers"]) == 1
            ):  # The log begins right after the line that announces it.
                broker, = statement.fields["brokers"]
                self._add("shutdown", number, {"broker": broker}).inferred = True
            elif statement.kind == "scheduler_started":
                self.elected_until = statement.entry.time
            elif statement.kind == "broker_epochs" and not statement.fields["initial"]:
                self.ended = self.last
            elif statement.kind in ("not_preferred", "not_preferred_any"):
                self.unbalanced = set(statement.fields["partitions"])
            elif statement.kind in MARKS:
                made = MARKS[statement.kind](statement)
                if made is not None:
                    self._add(made[0], number, self._with_trigger(made[1], statement))
            elif statement.kind == "deletion_done" and self.unanswered:
                self._add("deleted", number, {"broker": None, "topic": statement.fields["topic"]})
            elif statement.kind == "deletion_answered":
                self.answered = number
            elif statement.kind == "deletion_handled":
                self.handled = number
            elif not answers and (statement.kind == deletes or (
                statement.kind == "deletion_failed" and self._is_answered()
            )):
                self._add("deleted", number, {"broker": None, "failures": dict.fromkeys(
                    statement.fields["replicas"], statement.kind == "deletion_failed",
                )})
            elif statement.kind in ("isr_updated", "isr_record"):
                self._isr(number, statement)
            elif statement.kind == "reassign_leader" and "reassign" not in kinds:
                self._reassign_at_once(number, statement)
                if "assignment_stored" not in moves:  # Else the line that it was stored ends it.
                    self.moving.discard(statement.fields["partition"])
            elif statement.kind in moves:
                self._reassign(number, statement)
            elif statement.kind == "epoch_updated" and "reassign" not in kinds:
                self._reassign_again(number, statement.fields["partition"])
            elif statement.kind == "reassign_waits" and (event := self._last_if("reassign")):
                event.fields.setdefault("waiting", set()).add(statement.fields["partition"])
            self._note_assignment(statement)

    @cached_property
    def begins_within_election(self) -> bool:
        """Whether the log begins while the controller is elected, and tells who is there."""
        kinds = [line.kind for line in self.lines]
        first = next((kind for kind in kinds if kind in MARKS.keys() | LISTS), "")
        return first in LISTS and self.registered is not None and "scheduler_started" in kinds

    def _is_answered(self) -> bool:
        """Whether a broker has answered since the last event: else that one failed deletions."""
        return self.last is None or self.last.at < self.answered

    def _with_trigger(self, fields: dict[str, Any], statement: Statement) -> dict[str, Any]:
        """Up to 2.3 an election does not say its trigger: the check that it follows right away.

        A check goes through the brokers, and elects leaders of what it has listed last, where its
        log has these lines.
        """
        if fields.get("trigger") != "":
            return fields
        last = self._last_if("rebalance", "election")
        follows = last is not None and statement.entry.time - last.time < BALANCE_MS and (
            last.fields.get("trigger", "AutoTriggered") == "AutoTriggered"
        ) and (self.unbalanced is None or self.unbalanced.issuperset(fields["partitions"]))
        return {**fields, "trigger": "AutoTriggered" if follows else "ZkTriggered"}

    def _last_if(self, *kinds: str) -> LogEvent | None:
        """The last event that is announced, if it is of one of some kinds."""
        return self.last if self.last is not None and self.last.kind in kinds else None

    def _add(self, kind: str, number: int, fields: dict[str, Any]) -> LogEvent:
        time = self.statements[number].entry.time
        last = self._last_if(kind)
        if last is not None and kind == "rebalance" and time - last.time < SAME_CHECK_MS:
            return last
        if last is not None and kind == "deleted" and self.has_deletion_thread and (
            self.handled < last.at
        ):
            last.fields["resumes"] = False
        self.last = LogEvent(kind, time, number, fields, self.term)
        self.events.append(self.last)
        return self.last

    def _read_topics(self, first: int) -> dict[str, Collection[Any]]:
        """What a new controller reads: topics, those to delete, partitions; if lines list them.

        Source: KafkaController.scala, `initializeControllerContext`,
        `fetchTopicDeletionsInProgress`.
        """
        found: dict[str, Collection[Any]] = {}
        until = self.statements[first].entry.time + CLAIM_MS
        for line in self.statements[first : self.term.statements[-1] + 1]:
            if line.entry.time > until:
                break
            if line.actor_id != self.term.controller:
                continue
            if line.kind == "scheduler_started":
                break
            if line.kind == "partition_states":
                states = line.fields["states"]
                found["partitions"] = frozenset(states)
                found["new"] = frozenset(p for p in states if states[p] == "NewPartition")
            elif line.kind == "topics":
                found["listed"] = line.fields["topics"]
            elif line.kind in ("topics_to_delete", "deletion_handled"):
                found.setdefault("to_delete", line.fields["topics"])
        return found

    def _isr(self, number: int, statement: Statement) -> None:
        """One partition's new ISR: part of the request that was announced before."""
        fields = statement.fields
        values = fields["record"]._asdict() if statement.kind == "isr_record" else fields
        event = self._last_if("isr")
        if event is None or fields["partition"] not in event.fields["partitions"]:
            event = self._add("isr", number, {"partitions": (fields["partition"],)})
        event.fields.setdefault("updates", {})[fields["partition"]] = (
            values["isr"], values["version"]
        )

    def _reassign(self, number: int, statement: Statement) -> None:
        fields, time = statement.fields, statement.entry.time
        partition = fields["partition"]
        adding: tuple[int, ...] = ()
        waits = False
        if statement.kind == "reassign":
            target = distinct(fields["replicas"])
            last = self._last_if("reassign")
            if last is not None and not self._is_separate(number) and (
                partition not in last.fields["targets"]
            ):  # Up to 2.3 one node asks for all of them, and they go one after the other.
                last.fields["targets"][partition] = target
                return
        else:
            after = fields["after"] if "after" in fields else fields["assignment"]
            if "after" not in fields and not self._begins_move(partition, after):
                return
            target = _target(after)
            failover = self._unfinished_failover()
            if failover is not None:  # A new controller reads the node that asks for it.
                failover.fields.setdefault("targets", {})[partition] = target
                return
            adding = after.adding
            waits = bool(adding) or (bool(after.removing) and not any(
                partition == ended and time <= end < time + COVERED_MS
                for end, ended in self.moves_ended
            ))
        self._add("reassign", number, {
            "targets": {partition: target}, "waits": waits, "adding": adding,
        })

    def _is_separate(self, number: int) -> bool:
        """Whether the controller has written nothing for a while before a line."""
        place = bisect.bisect_left(self.term.statements, number)
        before = self.lines[max(place - 1, 0)]
        return self.statements[number].entry.time - before.entry.time > SEPARATE_MS

    def _reassign_at_once(self, number: int, statement: Statement) -> None:
        """From 2.4 on no line announces a reassignment to the replicas there are: it only ends.

        A new controller may find it in ZooKeeper.
        """
        partition = statement.fields["partition"]
        if partition in self.moving or "replicas" not in statement.fields:
            return
        targets = {partition: distinct(statement.fields["replicas"])}
        self.moving.add(partition)  # What is stored next ends it.
        failover = self._unfinished_failover()
        if not self._resumes(statement):
            self._add("reassign", number, {"targets": targets, "waits": False})
        elif failover is not None:
            failover.fields.setdefault("targets", {}).update(targets)

    def _resumes(self, statement: Statement) -> bool:
        """Whether a failover, or brokers that are back, may have a reassignment go on.

        An election of the controller has all of them go on, and lines then name the assignments.
        """
        last = self._last_if("failover", "brokers")
        if last is None or last is self.ended or statement.entry.time - last.time >= COVERED_MS:
            return False
        if last.kind == "failover":
            return self._unfinished_failover() is not None
        assigned = self.assigned.get(statement.fields["partition"])
        return not self.term.opened if assigned is None else any(assigned[1:])

    def _unfinished_failover(self) -> LogEvent | None:
        """The election of a controller, which starts its scheduler in the end and has not yet."""
        return self._last_if("failover") if self.elected_until is None else None

    def _note_assignment(self, statement: Statement) -> None:
        """Keep up assignments, and whose leader epoch a reassignment is about to raise."""
        fields, kind = statement.fields, statement.kind
        if kind in ("assignment_updating", "assignment_stored", "sent_reassignment"):
            assigned = fields.get("after") or fields.get("assignment")
            if assigned is not None:
                self.assigned[fields["partition"]] = assigned
        if kind in ("assignment_updating", "assignment_stored", "reassign_leader"):
            self.raises_epoch.add(fields["partition"])

    def _reassign_again(self, number: int, partition: Partition) -> None:
        """A reassignment to the target that there is: the leader epoch rises, no more is stored.

        Source: KafkaController.scala, `updateCurrentReassignment`, `onPartitionReassignment`.
        """
        assigned = self.assigned.get(partition)
        if partition in self.raises_epoch:
            self.raises_epoch.discard(partition)
        elif assigned is not None and assigned.adding and not self._resumes(
            self.statements[number]
        ):
            targets = {partition: _target(assigned)}
            self._add("reassign", number, {"targets": targets, "waits": True})

    def _deletions(self) -> list[tuple[int, int]]:
        """When topics were being deleted, in a term whose log does not show brokers' answers."""
        first = self.term.statements[0]
        begun = dict.fromkeys(self._read_topics(first).get("to_delete", ()), self.term.start)
        found = []
        for line in self.lines:
            if line.kind == "delete_topics":
                begun = dict.fromkeys(line.fields["topics"], line.entry.time) | begun
            elif line.kind == "deletion_done":
                topic = line.fields["topic"]
                found.append((begun.pop(topic, self.term.start), line.entry.time))
        return [*found, *((time, self.term.end) for time in begun.values())]

    def _answer(self, event: LogEvent | None, near: Sequence[Batch]) -> LogEvent | None:
        """A broker's answer to a deletion that a batch handles: what it moves tells which."""
        batch = near[0]
        fields: dict[str, Any] = {"broker": None}
        failures = deletion_results(batch)
        resumed = self._resumption(near) if (
            failures or batch.failed or batch.tells_nobody
        ) else None
        halted = self._halted(batch, resumed)
        if not failures and resumed is not None:
            failures = refused_results(batch)
            if not self.guess.registered.issuperset(broker for *_, broker in failures):
                failures = {}  # Replicas that are dead when a deletion starts, all at once.
        if event is not None and event.kind in MOVES and any(
            replica[:2] in _reassigned(event) for replica in failures
        ):
            return None  # A reassignment drops replicas without waiting for an answer.
        answer = take_answer(self.answers, batch, failures)
        if answer is not None:
            fields = {"broker": answer.broker, "failures": answer.failures}
        elif failures:
            if not self._is_deleting(batch) or (any(failures.values()) and event is not None and (
                event.kind in FAILS_DELETIONS and batch.time - event.time < COVERED_MS
            )):
                return None
            fields = {"broker": None, "failures": failures}
        elif event is None or resumed is None or not self._is_answer(event, batch):
            return None
        else:
            fields |= {"halted": halted, "refused_by": frozenset(), "completes": next(
                (topic for time, topic in self.done if time >= batch.time), None
            )}
        answered = LogEvent("deleted", batch.time, batch.statements[0], fields, self.term,
                            inferred=answer is None)
        if "halted" in fields:
            self.unnamed.append(answered)
        return answered

    def _is_answer(self, event: LogEvent, batch: Batch) -> bool:
        """Whether the controller goes on with deletions after a batch as a broker has answered."""
        if not batch.tells_nobody:
            return False
        offline = {event.fields["broker"]} if event.kind == "dir_answer" else event.gone
        if offline and batch.time - event.end < SEPARATE_MS and not event.fields.get("resumed"):
            event.fields["resumed"] = True  # Its own replicas are ineligible from now on.
            self._refuse(offline)
            return False
        return self._is_deleting(batch)

    def _resumption(self, near: Sequence[Batch]) -> int | None:
        """When the controller goes on with deletions after a batch, and before the next one.

        Source: TopicDeletionManager.scala, `completeReplicaDeletion`, `failReplicaDeletion`.
        """
        until = near[1].time if len(near) > 1 else self.term.end
        for since, time in self.resumptions:
            if since <= near[0].end <= time <= until:
                self.resumptions.remove((since, time))
                return time
        return None

    def _halted(self, batch: Batch, resumed: int | None) -> tuple[str, ...]:
        """Topics whose deletion halts before the controller goes on with deletions."""
        halt = None if resumed is None else next(
            (one for one in self.halts if batch.end <= one.entry.time <= resumed), None
        )
        if halt is None:
            return ()
        self.halts.remove(halt)
        return tuple(halt.fields["topics"])

    def _refuse(self, brokers: Collection[int]) -> None:
        """Note who has not deleted all replicas, for the answers since a deletion started."""
        for answer in self.unnamed:
            answer.fields["refused_by"] = frozenset(brokers)
        self.unnamed.clear()

    def _is_deleting(self, batch: Batch) -> bool:
        """Whether topics are being deleted whose brokers' answers the log does not show."""
        return any(begin <= batch.time <= end + TIE_MS for begin, end in self.unanswered)

    def _begins_move(self, partition: Partition, stored: Assigned) -> bool:
        """Whether an assignment that was stored begins a reassignment; else it ends one.

        One that is called off is stored first as it was before it began.
        """
        before = self.assigned.get(partition, stored)
        if not any(stored[1:]) and partition in self.moving and (
            stored.replicas == _target(before)
        ):
            self.moving.discard(partition)
            return False
        self.moving.add(partition)
        return True

    # --- batches ---------------------------------------------------------------------------------

    def place_batches(self) -> None:
        """Give each batch to the event that wrote it; infer events for those without one."""
        marks = deque(sorted(self.events, key=lambda event: (event.time, event.at)))
        batches = deque(split_batches(
            self.statements, self.term.statements, [event.time for event in marks]
        ))
        current: LogEvent | None = None
        while batches:
            batch, near = batches[0], list(itertools.islice(batches, MOST_NEAR))
            while marks and marks[0].time <= batch.time + TIE_MS and (
                marks[0].time < batch.time or not self._still(current, batch, marks[0])
            ):
                current = marks.popleft()
                self.guess.apply(current)
            answer, inferred = self._answer(current, near), None
            if answer is not None:
                current = answer
                self.events.append(answer)
            elif not self._is_of(current, near):
                until = marks[0].time if marks else None
                inferred = self.guess.infer(near, until, self.events)
            owner, n_own = inferred or (current, 1)
            for own in [batches.popleft() for _ in range(n_own)]:
                if owner is not None:
                    self._give(owner, own)
            if inferred is not None:
                event = inferred[0]
                self.events.append(event)
                self.guess.apply(event)
                if current is None or current.time <= batch.time:  # Else it is still to come.
                    current = event

    def _is_of(self, event: LogEvent | None, near: Sequence[Batch]) -> bool:
        """Whether a batch is the last event's, or no other can be inferred from it.

        Where controller.log, which would announce a new event, is there at this time, few can.
        """
        batch = near[0]
        if event is None:
            return False
        if self._belongs(event, batch):
            started = self.guess.startup(near)
            if started is None or started[1] == 1 or (
                event.kind == "brokers" and started[0] <= set(event.fields["added"])
            ):  # Else the others are told of new brokers here.
                return True
        return not event.inferred and batch.time - event.end < COVERED_MS and not (
            self.guess.is_lone_isr(batch) or batch.online_again or self.guess.tried(batch)
        )

    def _still(self, event: LogEvent | None, batch: Batch, mark: LogEvent) -> bool:
        """Whether a batch that ends by the time of the next mark is rather this event's."""
        if batch.end > mark.time or (
            mark.kind == "dir_answer" and mark.at < batch.statements[0]  # In the same file.
        ):
            return False
        if mark.kind == "caught_up" and self.guess.is_lone_isr(batch):
            return True  # It is announced at the end of the reassignment.
        named = self.guess.announced(batch) if mark.kind == "isr" and batch.only_metadata else {}
        if named and named.keys() == set(mark.fields["partitions"]):
            return False
        return event is not None and self._belongs(event, batch)

    def _give(self, event: LogEvent, batch: Batch) -> None:
        restart, move_ended = self._restart(event, batch), self._move_ended(event, batch)
        if move_ended is not None and self.guess.is_lone_isr(batch):
            self.moves_ended.remove(move_ended)
        if restart is not None:  # Deletions that start together are announced together.
            self.restarts = [time for time in self.restarts if time > max(restart, batch.time)]
        event.batches.append(batch)
        if batch.stopped and self._is_deleting(batch):
            if any(event.time <= time <= batch.time + TIE_MS for time in self.begun):
                self.unnamed.clear()
            elif event in self.unnamed:  # All have answered; who refused is stopped once more.
                self._refuse(batch.stopped)
        if event.kind == "isr" and event.fields.get("notified"):
            event.fields.setdefault("updates", {}).update(self.guess.announced(batch))
            event.fields.setdefault("n_writes", {}).update(self.guess.n_writes(batch))
        self.guess.take(batch)

    def _belongs(self, event: LogEvent, batch: Batch) -> bool:
        """Whether an event may have written a batch."""
        within_ms = SEPARATE_MS if event.inferred else CLAIM_MS
        if batch.time - event.end > within_ms or batch.time < event.time - TIE_MS:
            return False
        kind, fields = event.kind, event.fields
        if batch.online_again and kind not in MAKES_ONLINE:
            return False
        if kind in MOVES and set().union(*batch.online_again.values()) - _reassigned(event):
            return False
        if batch.created:
            return not batch.created.keys().isdisjoint(fields.get("created", ()))
        if self.guess.is_lone_isr(batch):
            return self._may_announce(event, batch)
        if kind != "failover" and batch.recipients and (
            batch.recipients.isdisjoint(self.guess.registered)
        ):
            return kind == "brokers" and not batch.recipients.isdisjoint(fields["added"])
        if self._is_shutdown_of_another(event, batch):
            return False
        removed = set(batch.shrunk.values())
        if kind in ("brokers", "shutdown"):
            gone = {fields["broker"]} if kind == "shutdown" else event.gone.union(fields["added"])
            return not removed or not removed.isdisjoint(gone)
        if kind in ("isr", "hidden_isr", "modified"):
            return batch.only_metadata or (kind == "isr" and not self.guess.tried(batch))
        if kind in ("rebalance", "election"):
            return not removed and not batch.stopped
        return kind not in ("topics", "partitions") or not removed

    def _is_shutdown_of_another(self, event: LogEvent, batch: Batch) -> bool:
        """Whether a batch moves leaders off a broker that shuts down, and not by this event."""
        moved, elected_again = set[Partition](), set[Partition]()
        for line in (*batch.led, *batch.failed):
            if line.kind == "replica_failed":
                continue
            partition = line.fields["partition"]
            if line.fields["before"] != "OnlinePartition":
                elected_again.add(partition)
            elif partition not in elected_again and (
                line.kind == "partition_led" or "ControlledShutdown" in line.entry.more
            ):
                moved.add(partition)
        if not moved:
            return False
        if event.kind in ("failover", "brokers", "isr", "hidden_isr", "modified"):
            return bool(batch.failed)
        if event.kind != "shutdown":
            return False
        before = {
            line.fields["partition"] for b in event.batches for line in (*b.led, *b.failed)
        }
        leaders = {self.guess.led[p][0] for p in moved if p in self.guess.led}
        return not moved.isdisjoint(before) or not leaders <= {event.fields["broker"], -1}

    def _restart(self, event: LogEvent, batch: Batch) -> int | None:
        """Time of the line that a deletion starts (again) within an event, which a batch announces.

        No other event begins between this one and the line. The end of a reassignment is
        announced first.
        """
        if not self.guess.is_lone_isr(batch) or self._move_ended(event, batch) is not None:
            return None
        for time in self.restarts:
            if event.time <= time <= batch.time < time + RESTART_MS and not any(
                event.time < other.time <= time for other in self.events
            ):
                return time
        return None

    def _move_ended(self, event: LogEvent, batch: Batch) -> tuple[int, Partition] | None:
        """The reassignment that a line ends since an event's last batch, with the time."""
        return next((end for end in self.moves_ended if event.end <= end[0] <= batch.time), None)

    def _may_announce(self, event: LogEvent, batch: Batch) -> bool:
        """Whether an event sends UpdateMetadata of some partitions by itself, and has not yet."""
        if self._restart(event, batch) is not None:
            return True
        if event.kind == "isr":
            return not any(b.only_metadata for b in event.batches)
        if event.kind == "hidden_isr":
            return not event.batches
        if event.kind == "brokers":  # As brokers are back, reassignments end.
            return not event.batches or self.guess.registered <= set(event.fields["added"]) or (
                self._move_ended(event, batch) is not None
            )
        announced = sum(
            self.guess.is_lone_isr(b) or bool(b.moved_away and b.n_partitions)
            for b in event.batches
        )
        if event.kind in MOVES:
            return announced < self._n_announced(event)
        if event.kind in ("delete", "deleted"):  # Once, and after the line that a deletion starts.
            return not announced and not self.begun
        return event.kind == "resume" or (event.kind == "failover" and (
            self.elected_until is None or batch.time <= self.elected_until
        ))

    def _n_announced(self, event: LogEvent) -> int:
        """How often a reassignment announces partitions without asking anybody to lead or follow.

        Each partition whose move ends is announced once, at its end; where it waits for new
        replicas, each of these is that cannot be asked, as its broker is gone.
        """
        if event.kind == "caught_up":
            return 1
        if event.fields.get("waits"):
            return len(set(event.fields.get("adding", ())) - self.guess.registered)
        waiting = event.fields.get("waiting", ())  # Up to 2.3: for new replicas.
        return sum(
            len(set(target) - self.guess.registered) if partition in waiting else 1
            for partition, target in event.fields["targets"].items()
        )


def _target(assigned: Assigned) -> tuple[int, ...]:
    """Replicas that a partition has once its reassignment is over."""
    return distinct(b for b in assigned.replicas if b not in assigned.removing)


def _reassigned(event: LogEvent) -> frozenset[Partition]:
    """Partitions that an event reassigns, or goes on to."""
    return frozenset(event.fields.get("targets", (event.fields.get("partition"),)))
