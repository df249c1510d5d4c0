"""Guess which event wrote a batch of state-change.log that nothing in controller.log announces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfast.log_replay.events.batches import Batch
from kfast.log_replay.events.events import CLAIM_MS, LogEvent
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, Partition


class Guesser:
    """Knows what the batches so far told of a term, and guesses what wrote the next ones.

    Parameters
    ----------
    statements : sequence of Statement
    term : Term
    registered : set of int
        Brokers at the beginning.
    """

    def __init__(
        self, statements: Sequence[Statement], term: Term, registered: set[int]
    ) -> None:
        self.statements = statements
        self.term = term
        self.registered = registered
        self.led: dict[Partition, tuple[int, tuple[int, ...]]] = {}
        self.ahead: dict[Partition, int] = {}

    def apply(self, event: LogEvent) -> None:
        """Keep up who is registered."""
        fields = event.fields
        if event.kind == "failover":
            self.registered = set(fields["registered"] or ())
        elif event.kind == "brokers":
            self.registered |= set(fields["added"])
            self.registered -= set(fields["deleted"])

    def take(self, batch: Batch) -> None:
        """Keep up who leads what."""
        for number in (*batch.led, *batch.statements):
            statement = self.statements[number]
            record = statement.fields.get("record")
            if statement.kind in ("partition_led", "shrunk") and record is not None:
                self.led[statement.fields["partition"]] = (record.leader, record.isr or ())
        self.ahead.update(self._versions_ahead(batch))

    def is_lone_isr(self, batch: Batch) -> bool:
        """Whether a batch is nothing but UpdateMetadata of some partitions, to everybody."""
        return batch.only_metadata and batch.n_partitions > 0 and (
            batch.recipients == frozenset(self.registered)
        )

    def infer(
        self, batches: Sequence[Batch], place: int, until: int | None, events: Sequence[LogEvent]
    ) -> tuple[LogEvent, int] | None:
        """What event a batch begins, and which batch is the first after it."""
        batch = batches[place]
        near = [
            b for b in batches[place : place + 4]
            if b is batch or (
                b.time - batch.time < CLAIM_MS and (until is None or b.time < until)
            )
        ]
        guess = self._guess(batch, near, begins=all(e.time > batch.time for e in events))
        if guess is None:
            return None
        kind, fields, n = guess
        return LogEvent(
            kind, batch.time, batch.statements[0], fields, self.term, inferred=True
        ), place + n

    def _guess(
        self, batch: Batch, near: Sequence[Batch], *, begins: bool
    ) -> tuple[str, dict[str, Any], int] | None:
        """Kind and arguments of the event that a batch begins, and how many batches are its own."""
        if begins and self._looks_like_failover(near):
            registered = dict.fromkeys(sorted(batch.recipients or ()), 0)
            return "failover", {"registered": registered}, 1
        if batch.created:
            return "topics", {
                "created": {p: Assigned(ids) for p, ids in batch.created.items()},
                "deleted": (), "names": tuple({topic for topic, _ in batch.created}),
            }, 1
        started = self.startup(near)
        if started:
            added = tuple(sorted(started[0]))
            return "brokers", {"added": added, "deleted": (), "bounced": ()}, started[1]
        shutting = self._shutdown(near)
        if shutting is not None:
            return "shutdown", {"broker": shutting}, 1
        elected = self._elected(batch)
        if elected:
            return "election", {"type": "PREFERRED", "partitions": elected, "trigger": ""}, 1
        if len(batch.online_again) == 1:
            # Up to 2.1 no line announces that a log directory failed; all its broker's replicas
            # are asked for.
            return "dir_failure", {"brokers": tuple(batch.online_again)}, 1
        if self.is_lone_isr(batch):  # Only newer or traced lines say of which partitions.
            updates = self.announced(batch)
            return ("isr", {
                "partitions": tuple(updates), "updates": updates, "n_writes": self.n_writes(batch),
            }, 1) if updates else ("hidden_isr", {"n": batch.n_partitions}, 1)
        failed = self._failure(near)
        if failed:
            return "brokers", {"added": (), "deleted": tuple(sorted(failed)), "bounced": ()}, 1
        topics = () if begins else self.tried(batch)
        if topics:  # Up to 2.2 no line announces that a topic may elect outside the ISR.
            return "unclean", {"topics": topics}, 1
        if batch.only_metadata and batch.recipients and batch.recipients == self.registered:
            return "modified", {}, 1
        return None

    def _looks_like_failover(self, near: Sequence[Batch]) -> bool:
        first = near[0]
        return (
            len(near) > 1 and first.only_metadata and first.n_partitions == 0
            and bool(first.recipients) and near[1].recipients == first.recipients
            and "sent_leader_and_isr" in near[1].kinds
        )

    def startup(self, near: Sequence[Batch]) -> tuple[set[int], int] | None:
        """Brokers that start, told alone what all others know; and how many batches tell it."""
        for n, batch in enumerate(near[:2]):
            new = set(batch.recipients or ()) - self.registered
            if batch.only_metadata and new and not set(batch.recipients or ()) & self.registered:
                return new, n + 1
            if not (batch.only_metadata and batch.n_partitions == 0):
                return None
        return None

    def _shutdown(self, near: Sequence[Batch]) -> int | None:
        """Broker in a controlled shutdown that these batches begin with."""
        batch = near[0]
        for number in batch.failed:
            statement = self.statements[number]
            if "ControlledShutdown" in statement.entry.more:
                leader = self.led.get(statement.fields["partition"], (None, ()))[0]
                if leader is not None and leader >= 0:
                    return leader
        left: dict[int, int] = {}
        for number in batch.led:
            fields = self.statements[number].fields
            if fields["before"] != "OnlinePartition" or fields.get("record") is None:
                continue
            before = self.led.get(fields["partition"])
            if before is None:
                others = set(batch.asked) - set(fields["record"].isr or ())
                gone = {b for b in others if b in self.registered}
            else:
                gone = set(before[1]) - set(fields["record"].isr or ())
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
            self.statements[number].fields["partition"] for number in batch.led
            if self.statements[number].fields["before"] == "OnlinePartition"
        )

    def tried(self, batch: Batch) -> list[str]:
        """Topics of partitions that got a leader, or were to, as they had none."""
        statements = [self.statements[number] for number in (*batch.led, *batch.failed)]
        return sorted({
            line.fields["partition"][0] for line in statements if line.kind != "replica_failed"
            and line.fields["before"] == "OfflinePartition"
        })

    def _failure(self, near: Sequence[Batch]) -> set[int]:
        """Brokers that are gone, going by who is told no more or leaves ISRs."""
        for batch in near:
            recipients = batch.recipients
            if recipients and recipients < self.registered and not batch.shrunk and (
                "sent_leader_and_isr" in batch.kinds or batch.led
            ):
                return set(self.registered) - recipients
            removed = set(batch.shrunk.values()) & self.registered
            if removed and recipients and not removed & recipients:  # A deletion tells nobody.
                return removed
        return set()

    def announced(self, batch: Batch) -> dict[Partition, tuple[tuple[int, ...], int | None]]:
        """ISR and version of partitions that traced UpdateMetadata lines say."""
        updates = {}
        for number in batch.statements:
            statement = self.statements[number]
            record = statement.fields.get("record")
            if "partition" in statement.fields and record is not None and record.isr is not None:
                updates[statement.fields["partition"]] = (record.isr, record.version)
        return updates

    def n_writes(self, batch: Batch) -> dict[Partition, int]:
        """How often leaders wrote the ISRs that a batch tells, since lines told them before.

        Every other write raises leader epoch and version alike.
        """
        return {
            partition: ahead - self.ahead[partition]
            for partition, ahead in self._versions_ahead(batch).items() if partition in self.ahead
        }

    def _versions_ahead(self, batch: Batch) -> dict[Partition, int]:
        """By how much versions are above leader epochs in the lines of a batch."""
        ahead = {}
        for number in batch.statements:
            fields = self.statements[number].fields
            record = fields.get("record")
            if "partition" in fields and record is not None and record.leader != -2 and (
                record.version is not None and record.leader_epoch is not None
            ):
                ahead[fields["partition"]] = record.version - record.leader_epoch
        return ahead
