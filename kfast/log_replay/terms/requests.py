"""Which request of a controller a broker's line is about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfast.log_replay.wording.forms import Statement

ABOUT_PARTITIONS = frozenset({
    "already_follower", "already_leader", "became_follower", "became_leader",
    "cached_partition", "leader_unavailable", "old_epoch", "received", "received_dump",
    "same_epoch", "stopping",
})
"""Kinds of lines in which a broker says what it made of a partition in a request."""

ABOUT_REQUESTS = ABOUT_PARTITIONS | {"stopped_fetchers"}
"""The same, and what it says of all of a request's partitions."""


def note_sessions(lines: Iterable[Statement]) -> None:
    """Tell lines of brokers which request they are about, where only the line before says it."""
    current: dict[tuple[int | None, str], tuple[int, Any]] = {}
    for number, line in enumerate(lines):
        if line.actor != "broker":
            continue
        if line.kind == "handling":
            current[line.actor_id, line.fields["request"]] = (number, line.fields)
            continue
        request = "StopReplica" if line.fields.get("request") == "StopReplica" else "LeaderAndIsr"
        handled = current.get((line.actor_id, request))
        if handled is None or line.kind not in ABOUT_REQUESTS:
            continue
        session, fields = handled
        if line.fields.get("correlation") in (None, fields["correlation"]) and (
            line.fields.get("controller") in (None, fields["controller"])
        ):
            line.fields["session"] = session
            line.fields.setdefault("controller", fields["controller"])
