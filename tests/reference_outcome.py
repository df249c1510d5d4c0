"""What one event of the twin did, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfast.schema import AlterCode, Code

from .reference_context import Partition, Record
from .reference_journal import Journal


@dataclass
class Happened:
    """What one event did: its journal, and what it answers."""

    event: str
    journal: Journal = field(default_factory=Journal)
    failure: Code | None = None
    replies: dict[Partition, int | str] = field(default_factory=dict)
    alter_codes: dict[Partition, AlterCode] = field(default_factory=dict)
    remaining: list[Partition] = field(default_factory=list)
    error: str | None = None
    codes: dict[Any, Code] = field(default_factory=dict)
    results: dict[Partition, Record | Code] = field(default_factory=dict)
