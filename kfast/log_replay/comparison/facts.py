"""Facts: what the log said, what was predicted, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from kfast.log_replay.log_files import Logs
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.replay_results.verdicts import ADOPTED, UNKNOWN
from kfast.schema import FACTS

BEFORE, HOLE, BETWEEN, ANSWER, WRITTEN = (
    "written before the log begins", "changed in a hole of the log",
    "changed between two controllers", "a broker's answer that is not logged",
    "an ISR that a leader wrote, heard of later",
)
REPORTED = "decided by a partition's leader"
REGISTERED = "given to a broker when it registered"
REMEMBERED = "remembered by a broker from before the log"
UNNAMED = "an ISR change whose partitions no line names"
INFERRED = "an event that is inferred from these lines"
LAST_MEMBER = "the last member of an ISR, taken from a later line"
WRITES = "the number of ISR writes, taken from a later line"
UNCLEAN = "an election outside the ISR that nothing announced"
"""Reasons for adopting."""

ABSENT = "sent by a controller whose log is not here"
REPLACED = "written by a controller that had been replaced"
NOT_WRITTEN = "no line of its level is in the controller's state-change.log"
NOT_COVERED = "in a hole of state-change.log, or before or after it"
BELOW_LEVEL = "its cause is written at a level that the log does not have"
PARTLY_LOGGED = "of an event that began before the log, or in a hole of it"
UNSEEN = "of a topic whose state from before the log is not known"
UNASSIGNED = "no line names the assignment of its partitions"
UNKNOWN_REASONS = frozenset(
    {ABSENT, REPLACED, NOT_WRITTEN, NOT_COVERED, BELOW_LEVEL, UNASSIGNED, PARTLY_LOGGED, UNSEEN}
)
"""Reasons why a fact cannot be judged: nothing predicts it, and nothing follows from it."""


class Fact(NamedTuple):
    """One value that one line says of one subject.

    `number` is the statement's, of a missing decision that of the one before which it is due;
    `reason` says why a value was adopted, or is unknown.
    """

    number: int
    kind: str
    subject: str
    logged: Any
    predicted: Any
    verdict: str
    reason: str = ""


def unpredicted(reason: str) -> str:
    """The verdict on a value that nothing predicts, by the reason for that."""
    return UNKNOWN if reason in UNKNOWN_REASONS else ADOPTED


NAMED = ("leader", "leader_epoch", "isr", "version", "replicas", "adding", "removing")
"""What a line that cannot be judged may say of a partition."""


def unjudged_facts(line: Statement, number: int, reason: str) -> Iterator[Fact]:
    """What a line says of a controller that is not here, or was replaced: unjudged."""
    def unjudged(kind: str, subject: str, value: Any) -> Fact:
        return Fact(number, kind, subject, value, None, unpredicted(reason), reason)

    if "controller_epoch" in line.fields:
        yield unjudged("controller epoch", "controller", line.fields["controller_epoch"])
    if "n" in line.fields:
        yield unjudged("partitions", f"broker {line.actor_id}", line.fields["n"])
    for partition, fields in subjects(line):
        values = fields["record"]._asdict() if "record" in fields else fields
        for name in NAMED:
            if values.get(name) is not None:
                yield unjudged(name.replace("_", " "), name_of(partition), values[name])


def shown(value: Any) -> str:
    """A value as reports show it."""
    if isinstance(value, (tuple, list, set, frozenset)):
        items = value if isinstance(value, (tuple, list)) else sorted(value, key=str)
        return f"[{','.join(map(shown, items))}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else str(value)


def name_of(partition: tuple[str, int]) -> str:
    """A partition as Kafka prints it."""
    return f"{partition[0]}-{partition[1]}"


def facts_table(facts: Sequence[Fact], logs: Logs, statements: Sequence[Statement]) -> pa.Table:
    """All facts as a table, in the order of the log."""
    ordered = sorted(facts, key=lambda fact: fact.number)
    lines = [statements[fact.number].entry for fact in ordered]
    return FACTS.table({
        "time": [line.time for line in lines],
        "file": [logs.files[line.file] for line in lines],
        "line": [line.line for line in lines],
        "kind": [fact.kind for fact in ordered],
        "subject": [fact.subject for fact in ordered],
        "logged": pa.array((shown(fact.logged) for fact in ordered), pa.string()),
        "predicted": pa.array((shown(fact.predicted) for fact in ordered), pa.string()),
        "verdict": [fact.verdict for fact in ordered],
        "reason": [fact.reason for fact in ordered],
    })
