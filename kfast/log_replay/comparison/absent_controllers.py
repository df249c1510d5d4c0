"""Facts in brokers' lines about requests of controllers whose own logs are not here.

Nothing predicts such lines: what they say is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast.log_replay.comparison.facts import ABSENT, Fact, name_of, unpredicted
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Record

TOLD = ("leader", "leader_epoch", "isr", "version", "replicas", "adding", "removing")
"""What such a line may say of a partition."""


def absent_controller_facts(line: Statement, number: int) -> Iterator[Fact]:
    """What such a line says, none of it judged."""
    fields = line.fields
    if "controller_epoch" in fields:
        yield _unjudged(number, "controller epoch", "controller", fields["controller_epoch"])
    if "n" in fields:
        yield _unjudged(number, "partitions", f"broker {line.actor_id}", fields["n"])
    for partition, fields in subjects(line):
        record = fields.get("record")
        values: dict[str, Any] = record._asdict() if isinstance(record, Record) else fields
        for name in TOLD:
            if values.get(name) is not None:
                yield _unjudged(number, name.replace("_", " "), name_of(partition), values[name])


def _unjudged(number: int, kind: str, subject: str, value: Any) -> Fact:
    return Fact(number, kind, subject, value, None, unpredicted(ABSENT), ABSENT)
