"""What one event of the twin did, and what it answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kfast.schema import AlterCode, Code, ReassignmentCode
from tests.support.reference_context import Partition, Record
from tests.support.reference_journal import Journal


@dataclass
class Happened:
    """What one event did: its journal, and what it answers."""

    event: str
    journal: Journal = field(default_factory=Journal)
    failure: Code | None = None
    replies: dict[Partition, int | str] = field(default_factory=dict)
    reassignment_codes: dict[Partition, ReassignmentCode] = field(default_factory=dict)
    marks: Counter[str] = field(default_factory=Counter)
    alter_codes: dict[Partition, AlterCode] = field(default_factory=dict)
    remaining: list[Partition] = field(default_factory=list)
    error: str | None = None
    codes: dict[Any, Code] = field(default_factory=dict)
    results: dict[Partition, Record | Code] = field(default_factory=dict)

    @property
    def apart(self) -> bool:
        """Whether kfast takes steps together that Kafka takes one after another.

        It reassigns many partitions phase by phase, and takes the replicas of all topics away whose
        deletion is finished.
        """
        several = self.marks["deletion finished"] > 1
        apart = any(mark.endswith("one by one") for mark in +self.marks)
        return several or apart or any(mark.startswith("reassignment") for mark in self.marks)
