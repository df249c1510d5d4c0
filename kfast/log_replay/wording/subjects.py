"""Partitions that a line speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition


def subjects(line: Statement) -> Iterator[tuple[Partition, dict[str, Any]]]:
    """Partitions that a line speaks of, each with what it says of it."""
    fields, kind = line.fields, line.kind
    if kind == "all_leaders":
        yield from ((p, {"record": record}) for p, record in fields["leaders"].items())
    elif kind == "partition_states":
        yield from ((p, {"state": state}) for p, state in fields["states"].items())
    elif kind == "replica_states":
        grouped: dict[Partition, dict[int, str]] = {}
        for (topic, number, broker), state in fields["states"].items():
            grouped.setdefault((topic, number), {})[broker] = state
        yield from ((p, {"states": states}) for p, states in grouped.items())
    elif kind in ("not_preferred", "not_preferred_any"):
        yield from (
            (p, {"replicas": ids, "preferred": False}) for p, ids in fields["partitions"].items()
        )
    elif kind == "preferred_replicas":
        for lists in fields["brokers"].values():
            yield from ((p, {"replicas": ids}) for p, ids in lists.items())
    elif kind == "election":
        yield from ((p, fields) for p in fields["partitions"])
    elif kind in ("send_failed", "not_sent"):
        request = fields["request"]
        yield from (
            (p, {"record": record, "api": request.api, "broker": fields["broker"]})
            for p, record in request.partitions.items()
        )
    elif kind == "received_dump":
        partition, record = fields["received"]
        yield partition, {**fields, "record": record}
    elif "partition" in fields:
        yield fields["partition"], fields
