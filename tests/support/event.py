"""One thing that happens to a cluster, as data and as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.reference import Partition


@dataclass(frozen=True)
class Event:
    """One thing that happens: its name, and named arguments."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        listed = ", ".join(f"{key}={value!r}" for key, value in self.args.items() if value != [])
        return f"{self.name}({listed})"


def created_by(event: Event) -> list[Partition]:
    """The partitions that an event sets up."""
    if event.name == "on_topic_change":
        created = event.args["created"]
        return [(topic, number) for topic, listed in created.items() for number in listed]
    if event.name != "on_partition_modifications":
        return []
    return [(event.args["topic"], number) for number in event.args["assignments"]]
