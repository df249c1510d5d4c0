"""Script: the events of a term, found in the lines of its controller.

Most events announce themselves in controller.log. Where that file has a hole, the batches of
state-change.log tell what must have happened; such an event is marked `inferred`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfast.replay.batches import Batch, split_batches
from kfast.replay.forms import Statement
from kfast.replay.marks import (
    BALANCE_MS,
    CLAIM_MS,
    COVERED_MS,
    MARKS,
    TIE_MS,
    Event,
    first_registered,
)
from kfast.replay.scala import Assigned, Partition
from kfast.replay.terms import OPENING, Term

__all__ = ["TIE_MS", "Event", "first_registered", "write_script"]


def write_script(statements: Sequence[Statement], term: Term) -> list[Event]:
    """Events of a term, in order."""
    writer = _Writer(statements, term)
    writer.read_marks()
    writer.place_batches()
    writer.events.sort(key=lambda event: (event.time, event.at))
    first = term.statements[0]
    if not writer.events or writer.events[0].kind != "failover":
        writer.events.insert(0, Event("resume", statements[first].entry.time, first, {
            "registered": first_registered(statements, term),
        }, term, inferred=True))
    return writer.events


class _Writer:
    """Writes the script of one term."""

    def __init__(self, statements: Sequence[Statement], term: Term) -> None:
        self.statements = statements
        self.term = term
        self.events: list[Event] = []
        self.registered = set(first_registered(statements, term) or ())
        self.led: dict[Partition, tuple[int, tuple[int, ...]]] = {}

    # --- events that are announced --------------------------------------------------------------

    def read_marks(self) -> None:
        """Events that lines of controller.log announce.

        Up to 2.2 no line names the broker that answers a StopReplica; the one that names the
        deleted replicas does.
        """
        answers = any(self.statements[n].kind == "stop_response" for n in self.term.statements)
        for number in self.term.statements:
            statement = self.statements[number]
            if statement.kind in OPENING:
                self._failover(number)
            elif statement.kind in MARKS:
                made = MARKS[statement.kind](statement)
                if made is not None:
                    self._add(made[0], number, self._with_trigger(made[1], statement))
            elif statement.kind == "replicas_deleted" and not answers:
                self._add("deleted", number, {
                    "broker": None, "replicas": statement.said["replicas"],
                })
            elif statement.kind in ("isr_updated", "isr_record"):
                self._isr(number, statement)
            elif statement.kind in ("assignment_updating", "reassign"):
                self._reassign(number, statement)

    def _with_trigger(self, said: dict[str, Any], statement: Statement) -> dict[str, Any]:
        """Up to 2.3 an election does not say its trigger: the check that it follows right away."""
        if said.get("trigger") != "":
            return said
        last = self.events[-1] if self.events else None
        follows = last is not None and statement.entry.time - last.time < BALANCE_MS and (
            last.kind == "rebalance"
            or (last.kind == "election" and last.said["trigger"] == "AutoTriggered")
        )
        return {**said, "trigger": "AutoTriggered" if follows else "ZkTriggered"}

    def _add(self, kind: str, number: int, said: dict[str, Any]) -> Event:
        time = self.statements[number].entry.time
        if kind == "rebalance" and self.events and self.events[-1].kind == "rebalance" and (
            time - self.events[-1].time < 1000
        ):
            return self.events[-1]
        event = Event(kind, time, number, said, self.term)
        self.events.append(event)
        return event

    def _failover(self, number: int) -> None:
        if not self.events or self.events[-1].kind != "failover":
            self._add("failover", number, {
                "registered": first_registered(self.statements, self.term),
            })

    def _isr(self, number: int, statement: Statement) -> None:
        """One partition's new ISR: part of the request that was announced before."""
        last = next((e for e in reversed(self.events) if e.kind == "isr"), None)
        said = statement.said
        told = said["record"]._asdict() if statement.kind == "isr_record" else said
        update = {said["partition"]: (told["isr"], told["version"])}
        if last is None or said["partition"] not in last.said["partitions"] or (
            statement.entry.time - last.time > CLAIM_MS
        ):
            last = self._add("isr", number, {"partitions": (said["partition"],)})
        last.said.setdefault("updates", {}).update(update)

    def _reassign(self, number: int, statement: Statement) -> None:
        said = statement.said
        if statement.kind == "reassign":
            target = said["replicas"]
        else:
            after = said["after"]
            target = tuple(b for b in after.replicas if b not in after.removing)
        self._add("reassign", number, {"targets": {said["partition"]: target}})

    # --- batches ---------------------------------------------------------------------------------

    def place_batches(self) -> None:
        """Give each batch to the event that wrote it; infer events for those without one."""
        numbers = self.term.statements
        marks = sorted(self.events, key=lambda event: (event.time, event.at))
        batches = split_batches(self.statements, numbers, [event.time for event in marks])
        current: Event | None = None
        at = 0
        ahead = 0
        for place, batch in enumerate(batches):
            if place < ahead:
                continue
            while at < len(marks) and marks[at].time <= batch.time + TIE_MS and (
                marks[at].time < batch.time or not self._still(current, batch)
            ):
                current = marks[at]
                self._apply(current)
                at += 1
            if current is not None and self._belongs(current, batch) and not (
                self._begins_startup(current, batches[place : place + 2])
            ):
                self._give(current, batch)
                continue
            inferred = None
            if not self._covered(current, batch) or self._is_lone_isr(batch):
                inferred = self._infer(batches, place)
            if inferred is None:
                if current is not None:
                    self._give(current, batch)
                continue
            event, ahead = inferred
            for given in batches[place:ahead]:
                self._give(event, given)
            self.events.append(event)
            self._apply(event)
            current = event
        for mark in marks[at:]:
            self._apply(mark)

    def _covered(self, event: Event | None, batch: Batch) -> bool:
        """Whether controller.log, which would announce a new event, is there at this time."""
        if event is None or event.inferred:
            return False
        last = event.batches[-1].end if event.batches else event.time
        return batch.time - last < COVERED_MS

    def _begins_startup(self, event: Event, near: Sequence[Batch]) -> bool:
        """Whether the others are told here of brokers that the event knows nothing of."""
        started = self._startup(near)
        if started is None or started[1] != 2:
            return False
        return event.kind != "brokers" or not started[0] <= set(event.said["added"])

    def _still(self, event: Event | None, batch: Batch) -> bool:
        """Whether a batch of the same millisecond as the next mark is rather this event's."""
        return event is not None and batch.end <= batch.time and self._belongs(event, batch)

    def _give(self, event: Event, batch: Batch) -> None:
        event.batches.append(batch)
        for number in (*batch.led, *batch.statements):
            statement = self.statements[number]
            record = statement.said.get("record")
            if statement.kind in ("partition_led", "shrunk") and record is not None:
                self.led[statement.said["partition"]] = (record.leader, record.isr or ())
        if event.kind == "isr" and event.said.get("notified"):
            event.said.setdefault("updates", {}).update(self._announced(batch))

    def _apply(self, event: Event) -> None:
        """Keep up who is registered."""
        said = event.said
        if event.kind == "failover":
            self.registered = set(said["registered"] or ())
        elif event.kind == "brokers":
            self.registered |= set(said["added"])
            self.registered -= set(said["deleted"])

    def _belongs(self, event: Event, batch: Batch) -> bool:
        """Whether an event may have written a batch."""
        last = event.batches[-1].end if event.batches else event.time
        if batch.time - last > CLAIM_MS or batch.time < event.time - TIE_MS:
            return False
        kind, said = event.kind, event.said
        if batch.created:
            wanted = said.get("created", ())
            return kind in ("topics", "partitions") and any(p in wanted for p in batch.created)
        if self._is_lone_isr(batch):
            return self._may_announce(event, batch)
        if batch.told and not batch.told & self.registered and kind != "failover":
            return kind == "brokers" and bool(batch.told & set(said["added"]))
        removed = set(batch.shrunk.values())
        if self._is_shutdown_of_another(event, batch):
            return False
        if kind == "brokers":
            gone = set(said["deleted"]) | set(said["bounced"])
            return not removed or bool(removed & gone)
        if kind == "shutdown":
            return not removed or said["broker"] in removed
        if kind in ("isr", "hidden_isr", "modified"):
            return batch.only_metadata or kind == "isr"
        if kind in ("rebalance", "election"):
            return not removed and not batch.stopped
        if kind in ("topics", "partitions"):
            return not removed
        return True

    def _is_shutdown_of_another(self, event: Event, batch: Batch) -> bool:
        """Whether a batch moves leaders off a broker that shuts down, and not by this event."""
        moved = set()
        for number in (*batch.led, *batch.failed):
            statement = self.statements[number]
            if statement.said["before"] != "OnlinePartition" or statement.kind == "replica_failed":
                continue
            strategy = " ".join(statement.entry.more[:1])
            if statement.kind == "partition_led" or "ControlledShutdown" in strategy:
                moved.add(statement.said["partition"])
        if not moved:
            return False
        if event.kind in ("failover", "brokers", "isr", "hidden_isr", "modified"):
            return bool(batch.failed)
        if event.kind != "shutdown":
            return False
        before = {
            self.statements[number].said["partition"]
            for b in event.batches for number in (*b.led, *b.failed)
        }
        leaders = {self.led[p][0] for p in moved if p in self.led}
        return bool(moved & before) or bool(leaders - {event.said["broker"], -1})

    def _is_lone_isr(self, batch: Batch) -> bool:
        return batch.only_metadata and batch.n_told > 0 and batch.told == frozenset(self.registered)

    def _may_announce(self, event: Event, _batch: Batch) -> bool:
        """Whether an event sends UpdateMetadata of some partitions by itself, and has not yet."""
        if event.kind == "isr":
            return not any(b.only_metadata for b in event.batches)
        if event.kind == "hidden_isr":
            return not event.batches
        if event.kind == "brokers" and event.said["added"]:
            return not event.batches or len(self.registered) == 1
        return event.kind in ("reassign", "delete", "deleted", "failover", "resume")

    # --- events that no line announces ----------------------------------------------------------

    def _infer(self, batches: Sequence[Batch], place: int) -> tuple[Event, int] | None:
        """What event a batch begins, and which batch is the first after it."""
        batch = batches[place]
        near = [b for b in batches[place : place + 4] if b.time - batch.time < CLAIM_MS]
        begins = all(event.time > batch.time for event in self.events)
        if begins and self._looks_like_failover(near):
            registered = dict.fromkeys(sorted(batch.told or ()), 0)
            return self._event("failover", batch, {"registered": registered}), place + 1
        if batch.created:
            return self._event("topics", batch, {
                "created": {p: Assigned(ids) for p, ids in batch.created.items()},
                "deleted": (), "names": tuple({topic for topic, _ in batch.created}),
            }), place + 1
        started = self._startup(near)
        if started:
            live = tuple(sorted(self.registered | started[0]))
            return self._event("brokers", batch, {
                "added": tuple(sorted(started[0])), "deleted": (), "bounced": (), "live": live,
            }), place + started[1]
        shutting = self._shutdown(near)
        if shutting is not None:
            return self._event("shutdown", batch, {"broker": shutting}), place + 1
        elected = self._elected(batch)
        if elected:
            return self._event("election", batch, {
                "type": "PREFERRED", "partitions": elected, "trigger": "",
            }), place + 1
        failed = self._failure(near)
        if failed:
            live = tuple(sorted(self.registered - failed))
            return self._event("brokers", batch, {
                "added": (), "deleted": tuple(sorted(failed)), "bounced": (), "live": live,
            }), place + 1
        if self._is_lone_isr(batch):
            return self._hidden_isr(batch), place + 1
        if batch.only_metadata and batch.told == frozenset(self.registered) and batch.told:
            return self._event("modified", batch, {}), place + 1
        return None

    def _event(self, kind: str, batch: Batch, said: dict[str, Any]) -> Event:
        return Event(kind, batch.time, batch.statements[0], said, self.term, inferred=True)

    def _looks_like_failover(self, near: Sequence[Batch]) -> bool:
        first = near[0]
        return (
            len(near) > 1 and first.only_metadata and first.n_told == 0 and bool(first.told)
            and "sent_leader_and_isr" in near[1].kinds and near[1].told == first.told
        )

    def _startup(self, near: Sequence[Batch]) -> tuple[set[int], int] | None:
        """Brokers that start, told alone what all others know; and how many batches tell it."""
        for n, batch in enumerate(near[:2]):
            new = set(batch.told or ()) - self.registered
            if batch.only_metadata and new and not set(batch.told or ()) & self.registered:
                return new, n + 1
            if not (batch.only_metadata and batch.n_told == 0):
                return None
        return None

    def _shutdown(self, near: Sequence[Batch]) -> int | None:
        """Broker in a controlled shutdown that these batches begin with."""
        batch = near[0]
        for number in batch.failed:
            statement = self.statements[number]
            if any("ControlledShutdown" in line for line in statement.entry.more[:1]):
                leader = self.led.get(statement.said["partition"], (None, ()))[0]
                if leader is not None and leader >= 0:
                    return leader
        left: dict[int, int] = {}
        for number in batch.led:
            said = self.statements[number].said
            if said["before"] != "OnlinePartition" or said.get("record") is None:
                continue
            before = self.led.get(said["partition"])
            if before is None:
                others = set(batch.asked) - set(said["record"].isr or ())
                gone = {b for b in others if b in self.registered}
            else:
                gone = set(before[1]) - set(said["record"].isr or ())
            for broker in gone:
                left[broker] = left.get(broker, 0) + 1
        if left and max(left.values()) * 2 > len(batch.led):
            return max(left, key=lambda broker: left[broker])
        stops = {b for later in near for b in later.stopped}
        if batch.stopped and not batch.shrunk and not batch.led and len(stops) == 1:
            return next(iter(stops))
        return None

    def _elected(self, batch: Batch) -> tuple[Partition, ...]:
        """Partitions of an election on demand."""
        return tuple(
            self.statements[number].said["partition"] for number in batch.led
            if self.statements[number].said["before"] == "OnlinePartition"
        )

    def _failure(self, near: Sequence[Batch]) -> set[int]:
        """Brokers that are gone, going by who is told no more or leaves ISRs."""
        for batch in near:
            if not batch.shrunk and batch.told and batch.told < frozenset(self.registered) and (
                "sent_leader_and_isr" in batch.kinds or batch.led
            ):
                return set(self.registered) - set(batch.told)
            removed = set(batch.shrunk.values()) & self.registered
            if removed and batch.told is not None and not removed & set(batch.told):
                return removed
        return set()

    def _hidden_isr(self, batch: Batch) -> Event:
        """Leaders changed ISRs; only newer or traced lines say of which partitions."""
        updates = self._announced(batch)
        if updates:
            return self._event("isr", batch, {"partitions": tuple(updates), "updates": updates})
        return self._event("hidden_isr", batch, {"n": batch.n_told})

    def _announced(self, batch: Batch) -> dict[Partition, tuple[tuple[int, ...], int | None]]:
        """ISR and version of partitions that traced UpdateMetadata lines say."""
        updates = {}
        for number in batch.statements:
            statement = self.statements[number]
            record = statement.said.get("record")
            if "partition" in statement.said and record is not None and record.isr is not None:
                updates[statement.said["partition"]] = (record.isr, record.version)
        return updates
