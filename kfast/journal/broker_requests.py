"""Requests as a broker sees them: one dictionary per request, in the order of emission.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

_RECOVERY = ("RECOVERED", "RECOVERING")
_LEADER_AND_ISR = (
    "leader", "leader_epoch", "isr", "version", "controller_epoch", "replicas", "adding",
    "removing", "is_new",
)
_METADATA = (
    "controller_epoch", "leader", "leader_epoch", "isr", "version", "replicas", "offline_replicas",
)

Row = dict[str, Any]
Batch = Mapping[str, Any]


def _name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _leader_and_isr_requests(rows: list[Row], batch: Batch) -> Iterator[tuple[int, Row]]:
    registered = set(batch["registered"])
    for broker, named in itertools.groupby(rows, key=lambda row: int(row["broker_id"])):
        partitions = list(named)
        yield broker, {
            "kind": "LeaderAndIsr", "controller_epoch": batch["controller_epoch"],
            "broker_epoch": partitions[0]["broker_epoch"],
            "partitions": {
                _name(row): {name: row[name] for name in _LEADER_AND_ISR}
                | {"recovery": _RECOVERY[row["recovery"]]}
                for row in partitions
            },
            "live_leaders": sorted({row["leader"] for row in partitions} & registered),
        }


def _stop_replica_requests(
    rows: list[Row], batch: Batch, split_stop: bool
) -> Iterator[tuple[int, Row]]:
    """Before protocol 2.6 one for each delete flag, deleting first (section 5.3)."""
    for broker, named in itertools.groupby(rows, key=lambda row: int(row["broker_id"])):
        partitions = list(named)
        for delete in (True, False) if split_stop else (None,):
            chosen = [row for row in partitions if delete is None or row["delete"] == delete]
            if chosen:
                yield broker, {
                    "kind": "StopReplica", "controller_epoch": batch["controller_epoch"],
                    "broker_epoch": chosen[0]["broker_epoch"],
                    "partitions": {
                        _name(row): {"leader_epoch": row["leader_epoch"], "delete": row["delete"]}
                        for row in chosen
                    },
                } | ({"delete_all": delete} if split_stop else {})


def _batch_requests(
    requests: list[Row], metadata: list[Row], brokers: list[int], batch: Batch, split_stop: bool
) -> Iterator[tuple[int, Row]]:
    """Pairs (broker id, request) of one batch, in the order of section 5.3."""
    leader_and_isr = [row for row in requests if row["kind"] == "LeaderAndIsr"]
    yield from _leader_and_isr_requests(leader_and_isr, batch)
    partitions = {_name(row): {name: row[name] for name in _METADATA} for row in metadata}
    for broker in brokers:
        yield broker, {
            "kind": "UpdateMetadata", "controller_epoch": batch["controller_epoch"],
            "broker_epoch": batch["broker_epochs"][broker],
            "partitions": partitions, "live_brokers": batch["registered"],
        }
    stop_replica = [row for row in requests if row["kind"] == "StopReplica"]
    yield from _stop_replica_requests(stop_replica, batch, split_stop)


def _by_step(table: pa.Table) -> dict[int, list[Row]]:
    rows = defaultdict(list)
    for row in table.to_pylist():
        rows[row["step"]].append(row)
    return rows


def by_broker(
    requests_table: pa.Table, metadata_table: pa.Table, metadata_brokers: pa.Table,
    batches: Sequence[Batch], *, split_stop: bool = False,
) -> dict[int, list[Row]]:
    """See `Outcome.by_broker`; with `split_stop` in the form before protocol 2.6.

    Where every partition has batches of its own, those of all steps of one partition come before
    those of the next.
    """
    requests, metadata = _by_step(requests_table), _by_step(metadata_table)
    brokers = {
        step: [row["broker_id"] for row in rows]
        for step, rows in _by_step(metadata_brokers).items()
    }
    sent: dict[int, list[Row]] = defaultdict(list)
    for per_partition, run in itertools.groupby(batches, key=lambda b: b["per_partition"]):
        steps = [(batch, requests[batch["step"]], metadata[batch["step"]]) for batch in run]
        parts = [steps]
        if per_partition:
            rows = [row for _, *both in steps for table in both for row in table]
            keys = sorted({(row["topic"], row["partition"]) for row in rows})
            parts = [
                [(batch, _of(key, named), _of(key, announced)) for batch, named, announced in steps]
                for key in keys
            ]
        for batch, named, announced in itertools.chain.from_iterable(parts):
            if named or announced or not per_partition:
                recipients = brokers.get(batch["step"], [])
                for broker, request in _batch_requests(
                    named, announced, recipients, batch, split_stop
                ):
                    sent[broker].append(request)
    return dict(sent)


def _of(key: tuple[str, int], rows: list[Row]) -> list[Row]:
    return [row for row in rows if (row["topic"], row["partition"]) == key]
