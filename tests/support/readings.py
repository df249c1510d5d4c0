"""Outcomes as lines of text, so that a test of an event reads like its claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast import Outcome
from kfast.schema import ReassignmentCode
from tests.support.states import list_word

Line = dict[str, Any]


def phase(outcome: Outcome, step: int) -> str:
    """Phase of a reassignment that an action names (`B1: ...`), and a blank; or nothing."""
    before, colon, _ = outcome.actions[step].partition(":")
    return f"{before} " if colon else ""


def name(row: Line) -> str:
    """A partition, or with a broker a replica: `t-0`, `t-0/4`."""
    broker = row.get("broker_id")
    partition = f"{row['topic']}-{row['partition']}"
    return partition if broker is None else f"{partition}/{broker}"


def moves(outcome: Outcome) -> list[str]:
    """Every transition: `B1 t-0/4 NewReplica to OnlineReplica`, without a phase where none is."""
    return [
        f"{phase(outcome, t['step'])}{name(t)} {t['from_state']} to {t['to_state']}"
        for t in outcome.transitions.to_pylist()
    ]


def refused(outcome: Outcome) -> list[str]:
    """Every refusal: `A2 t-0/4 NewReplica to NewReplica: IllegalState`."""
    return [
        f"{phase(outcome, r['step'])}{name(r)} {r['from_state']} to {r['to_state']}: {r['error']}"
        for r in outcome.refusals.to_pylist()
    ]


def _record_words(row: Line) -> str:
    leader = "-" if row["leader"] == -1 else row["leader"]
    return f"leader {leader}, epoch {row['leader_epoch']}, ISR {list_word(sorted(row['isr']))}"


def _requests(outcome: Outcome) -> Iterator[tuple[int, int, str, str]]:
    """(broker, step, kind, what it says) of LeaderAndIsr and StopReplica."""
    for r in outcome.requests.to_pylist():
        if r["kind"] == "LeaderAndIsr":
            kind, words = "LeaderAndIsr(new)" if r["is_new"] else "LeaderAndIsr", _record_words(r)
        else:
            kind = "StopReplica(delete)" if r["delete"] else "StopReplica"
            words = f"epoch {r['leader_epoch']}"
        partition = f"{r['topic']}-{r['partition']}"
        yield r["broker_id"], r["step"], kind, f"{partition}, {words}"


def sent(outcome: Outcome) -> list[str]:
    """LeaderAndIsr and StopReplica, in order: `A1 LeaderAndIsr to 1,2: t-0, leader 1, ...`.

    Brokers that are told the same in one step share a line.
    """
    recipients: dict[tuple[int, str, str], list[int]] = {}
    for broker, step, kind, words in _requests(outcome):
        recipients.setdefault((step, kind, words), []).append(broker)
    return [
        f"{phase(outcome, step)}{kind} to {list_word(brokers)}: {words}"
        for (step, kind, words), brokers in recipients.items()
    ]


def announced(outcome: Outcome) -> list[str]:
    """UpdateMetadata, a line for each partition of each step: `B8 to 1,2: t-0, leader 1, ...`.

    Where no phase is named the action is; a step that tells of no partition has a line as well.
    """
    entries: dict[int, list[str]] = {}
    for row in outcome.update_metadata.to_pylist():
        words = f"{row['topic']}-{row['partition']}, {_record_words(row)}"
        entries.setdefault(row["step"], []).append(words)
    brokers: dict[int, list[int]] = {}
    for row in outcome.update_metadata_brokers.to_pylist():
        brokers.setdefault(row["step"], []).append(row["broker_id"])
    return [
        f"{outcome.actions[step].partition(':')[0]} to {list_word(to)}: {words}"
        for step, to in brokers.items() for words in entries.get(step, ["nothing"])
    ]


def answers(outcome: Outcome) -> list[str]:
    """What a request for reassignments was answered, in the order asked."""
    return [ReassignmentCode(int(code)).name for code in outcome.reassignment_codes]


def lines(text: str) -> list[str]:
    """The lines of a text."""
    return [line.strip() for line in text.strip().splitlines()]
