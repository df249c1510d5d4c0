"""Guess which event wrote a batch of state-change.log that nothing in controller.log announces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from kfast.log_replay.events.batches import Batch
from kfast.log_replay.events.events import CLAIM_MS, COVERED_MS, LogEvent
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.values import Assigned, Partition


class Guesser:
    """Knows what the batches so far told of a term, and guesses what wrote the next ones.

    Parameters
    ----------
    term : Term
    registered : set of int
        Brokers at the beginning.
    deleted : sequence of int
        When brokers have deleted replicas.
    """

    def __init__(self, term: Term, registered: set[int], deleted: Sequence[int]) -> None:
        self.term = term
        self.registered = registered
        self.deleted = deleted
        self.led: dict[Partition, tuple[int, Collection[int]]] = {}
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
        for line in batch.lines:
            record = line.fields.get("record")
            if line.kind in ("partition_led", "shrunk") and record is not None and (
                record.leader is not None
            ):
                self.led[line.fields["partition"]] = (record.leader, record.isr or ())
        self.ahead.update(self._versions_ahead(batch))

    def is_lone_isr(self, batch: Batch) -> bool:
        """Whether a batch is nothing but UpdateMetadata of some partitions, to everybody."""
        return (batch.only_metadata and batch.n_partitions > 0
                and batch.recipients == self.registered)

    def infer(
        self, near: Sequence[Batch], until: int | None, events: Sequence[LogEvent]
    ) -> tuple[LogEvent, int] | None:
        """What event the first of some batches begins, and how many of them are its own."""
        batch = near[0]
        near = [batch, *(
            later for later in near[1:]
            if later.time - batch.time < CLAIM_MS and (until is None or later.time < until)
        )]
        guess = self._guess(batch, near, begins=all(e.time > batch.time for e in events))
        if guess is None:
            return None
        kind, fields, n = guess
        return LogEvent(
            kind, batch.time, batch.statements[0], fields, self.term, inferred=True
        ), n

    def _guess(
        self, batch: Batch, near: Sequence[Batch], *, begins: bool
    ) -> tuple[str, dict[str, Any], int] | None:
        """Kind and arguments of the event that a batch begins, and how many batches are its own."""
        if begins and self._looks_like_failover(near):
            registered = dict.fromkeys(sorted(batch.recipients), 0)
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
        elected = tuple(
            line.fields["partition"] for line in batch.led
            if line.fields["before"] == "OnlinePartition"
        )
        if elected:  # On demand.
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
        """Whether all brokers are told of no partition, and then led and followed."""
        return (
            len(near) > 1 and near[0].n_partitions == 0
            and near[1].recipients == near[0].recipients
            and "sent_leader_and_isr" in near[1].kinds
        )

    def startup(self, near: Sequence[Batch]) -> tuple[frozenset[int], int] | None:
        """Brokers that start, told alone what all others know; and how many batches tell it."""
        for n, batch in enumerate(near[:2]):
            if batch.only_metadata and batch.recipients and (
                batch.recipients.isdisjoint(self.registered)
            ):
                return batch.recipients, n + 1
            if not (batch.only_metadata and batch.n_partitions == 0):
                return None
        return None

    def _shutdown(self, near: Sequence[Batch]) -> int | None:
        """Broker in a controlled shutdown that these batches begin with."""
        batch = near[0]
        for line in batch.failed:
            if "ControlledShutdown" in line.entry.more:
                leader, _ = self.led.get(line.fields["partition"], (-1, ()))
                if leader >= 0:
                    return leader
        left: Counter[int] = Counter()
        for line in batch.led:
            record = line.fields.get("record")
            if line.fields["before"] == "OnlinePartition" and record is not None:
                live = batch.asked & self.registered
                _, isr = self.led.get(line.fields["partition"], (-1, live))
                left.update(set(isr) - set(record.isr))
        if left and max(left.values()) * 2 > len(batch.led):
            return left.most_common(1)[0][0]
        stops = {b for later in near for b in later.stopped}
        deletes = any(0 <= time - batch.time < COVERED_MS for time in self.deleted)
        if batch.stopped and not (deletes or batch.shrunk or batch.led) and len(stops) == 1:
            return next(iter(stops))
        return None

    def tried(self, batch: Batch) -> list[str]:
        """Topics of partitions that got a leader, or were to, as they had none."""
        return sorted({
            line.fields["partition"][0] for line in (*batch.led, *batch.failed)
            if line.fields["before"] == "OfflinePartition"
        })

    def _failure(self, near: Sequence[Batch]) -> set[int]:
        """Brokers that are gone, going by who is told no more or leaves ISRs."""
        for batch in near:
            recipients = batch.recipients
            if recipients and recipients < self.registered and not batch.shrunk and (
                "sent_leader_and_isr" in batch.kinds or batch.led
            ):
                return self.registered - recipients
            removed = set(batch.shrunk.values()) & self.registered
            if removed and recipients and not removed & recipients:  # A deletion tells nobody.
                return removed
        return set()

    def announced(self, batch: Batch) -> dict[Partition, tuple[tuple[int, ...], int | None]]:
        """ISR and version of partitions that traced UpdateMetadata lines say."""
        updates = {}
        for line in batch.lines:
            record = line.fields.get("record")
            if record is not None and record.isr is not None:
                updates[line.fields["partition"]] = (record.isr, record.version)
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
        records = ((line.fields["partition"], line.fields.get("record")) for line in batch.lines
                   if "partition" in line.fields)
        return {partition: record.ahead for partition, record in records
                if record is not None and record.ahead is not None}
