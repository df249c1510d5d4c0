"""Answers of brokers that were asked to delete replicas, as traces of requests name them.

Source: ControllerChannelManager.scala, `sendStopReplicaRequests`: a broker answers its requests in
the order in which they were sent, and only what was to be deleted, of queued topics, is handled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kfast.log_replay.events.batches import Batch
from kfast.log_replay.events.events import TIE_MS
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition

RESUMES = frozenset({"delete_topics", "topics_to_delete", "queued_replicas_up"})
"""Lines after which the controller goes on with deletions, if there are any."""

ANSWERED = frozenset({"ReplicaDeletionSuccessful", "ReplicaDeletionIneligible"})
"""States that an answer puts replicas into."""


Results = dict[tuple[str, int, int], bool]
"""Replicas whose deletion ended, and whether it failed."""


@dataclass
class Answer:
    """An answer: when the controller received it, and which replicas could not be deleted."""

    time: int
    broker: int
    failures: Results


def read_answers(statements: Sequence[Statement], numbers: Sequence[int]) -> list[Answer]:
    """Answers of a term about replicas of topics that are queued for deletion."""
    found: list[Answer] = []
    queued: set[str] = set()
    traced: dict[int, dict[Partition, bool]] = {}
    sent: dict[int, list[dict[Partition, bool]]] = {}
    for number in numbers:
        statement = statements[number]
        fields, kind = statement.fields, statement.kind
        if kind in ("delete_topics", "topics_to_delete", "deletion_handled"):
            queued.update(fields["topics"])
        elif kind == "sent_stop_replica_partition":
            traced.setdefault(fields["broker"], {})[fields["partition"]] = fields["delete"]
        elif kind == "sent_stop_replica" and fields["broker"] in traced:
            sent.setdefault(fields["broker"], []).append(traced.pop(fields["broker"]))
        elif kind == "stop_answered":
            broker, errors = fields["broker"], fields["errors"]
            requests = sent.get(broker, [])
            while requests and requests[0].keys() != errors.keys():
                del requests[0]
            deletes = requests.pop(0) if requests else {}
            failures = {
                (*partition, broker): bool(fields["error"] or errors[partition])
                for partition, delete in deletes.items() if delete and partition[0] in queued
            }
            if failures:
                found.append(Answer(statement.entry.time, broker, failures))
    return found


def deletion_resumptions(
    statements: Sequence[Statement], numbers: Sequence[int]
) -> list[tuple[int, int]]:
    """When a controller went on with deletions for no reason that the line before says.

    With the time of the last deletion that was complete before, since when the reason came.
    """
    times: list[tuple[int, int]] = []
    has_reason, done = False, 0
    for number in numbers:
        statement = statements[number]
        kind = statement.kind
        if kind == "deletion_handled":
            if not has_reason:
                times.append((done, statement.entry.time))
            has_reason = False
        elif kind == "deletion_done":
            done = statement.entry.time
        elif kind in RESUMES:
            has_reason = bool(statement.fields.get("topics", True))
    return times


def deletion_results(batch: Batch) -> Results:
    """Replicas whose deletion a batch ends, and whether it failed."""
    return _results(
        line for line in batch.lines
        if line.kind == "replica_moved" and line.fields["before"] == "ReplicaDeletionStarted"
    )


def refused_results(batch: Batch) -> Results:
    """The same of replicas that are no longer being deleted when their broker answers."""
    return _results(line for line in batch.failed if line.fields["after"] in ANSWERED)


def _results(lines: Iterable[Statement]) -> Results:
    return {
        (*line.fields["partition"], line.fields["replica"]):
            line.fields["after"] == "ReplicaDeletionIneligible" for line in lines
    }


def deletion_halts(statements: Sequence[Statement], numbers: Sequence[int]) -> list[Statement]:
    """Lines that deletions halt, for which an answer may be the reason."""
    return [statements[number] for number in numbers if statements[number].fields.get("failed")]


def take_answer(answers: list[Answer], batch: Batch, failures: Results) -> Answer | None:
    """The first answer that a batch with these results may handle."""
    brokers = {broker for *_, broker in failures}
    for at, answer in enumerate(answers):
        if answer.time <= batch.time + TIE_MS and brokers == {answer.broker}:
            return answers.pop(at)
    return None
