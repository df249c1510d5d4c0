"""Partitions that a line speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition


def subjects(line: Statement) -> Iterator[tuple[Partition, dict[str, Any]]]:
    """Partitions that a line speaks of, each with what it says of it."""
    said, kind = line.said, line.kind
    if kind == "all_leaders":
        yield from ((p, {"record": record}) for p, record in said["leaders"].items())
    elif kind == "partition_states":
        yield from ((p, {"state": state}) for p, state in said["states"].items())
    elif kind == "replica_states":
        grouped: dict[Partition, dict[int, str]] = {}
        for (topic, number, broker), state in said["states"].items():
            grouped.setdefault((topic, number), {})[broker] = state
        yield from ((p, {"states": states}) for p, states in grouped.items())
    elif kind in ("not_preferred", "not_preferred_any"):
        yield from (
            (p, {"replicas": ids, "preferred": False}) for p, ids in said["partitions"].items()
        )
    elif kind == "election":
        yield from ((p, said) for p in said["partitions"])
    elif kind == "send_failed":
        request = said["request"]
        yield from (
            (p, {"record": record, "api": request.api, "broker": said["broker"]})
            for p, record in request.partitions.items()
        )
    elif kind == "received_dump":
        received = said["received"]
        yield received.partition, {**said, "record": received.record}
    elif "partition" in said:
        yield said["partition"], said
