"""Requests as a broker sees them: one dictionary per request, in the order of emission.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kfast.journal.outcome import Outcome

_RECOVERY = ("RECOVERED", "RECOVERING")


def _leader_and_isr(row: dict[str, Any]) -> dict[str, Any]:
    said = {
        name: row[name]
        for name in ("leader", "leader_epoch", "isr", "version", "controller_epoch", "replicas",
                     "adding", "removing", "is_new")
    }
    return said | {"recovery": _RECOVERY[row["recovery"]]}


def _leader_requests(
    rows: list[dict[str, Any]], batch: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    registered = set(batch["registered"])
    for row in rows:
        request = found.setdefault(row["broker_id"], {
            "kind": "LeaderAndIsr", "controller_epoch": batch["controller_epoch"],
            "broker_epoch": row["broker_epoch"], "partitions": {}, "live_leaders": set(),
        })
        request["partitions"][f"{row['topic']}-{row['partition']}"] = _leader_and_isr(row)
        if row["leader"] in registered:
            request["live_leaders"].add(row["leader"])
    for request in found.values():
        request["live_leaders"] = sorted(request["live_leaders"])
    return found


def _stop_requests(
    rows: list[dict[str, Any]], batch: dict[str, Any], split: bool
) -> dict[int, list[dict[str, Any]]]:
    """StopReplica requests; before protocol 2.6 one for each delete flag, deleting first.

    Source: section 5.3.
    """
    found: dict[int, list[dict[str, Any]]] = {}
    for delete in (True, False) if split else (None,):
        for row in rows:
            if delete is not None and row["delete"] != delete:
                continue
            sent = found.setdefault(row["broker_id"], [])
            if not sent or (split and sent[-1]["delete_all"] != delete):
                sent.append({
                    "kind": "StopReplica", "controller_epoch": batch["controller_epoch"],
                    "broker_epoch": row["broker_epoch"], "partitions": {},
                } | ({"delete_all": delete} if split else {}))
            sent[-1]["partitions"][f"{row['topic']}-{row['partition']}"] = {
                "leader_epoch": row["leader_epoch"], "delete": row["delete"],
            }
    return found


def _metadata_partitions(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    names = ("controller_epoch", "leader", "leader_epoch", "isr", "version", "replicas",
             "offline_replicas")
    return {f"{row['topic']}-{row['partition']}": {n: row[n] for n in names} for row in rows}


def _batch_requests(
    requests: list[dict[str, Any]], metadata: list[dict[str, Any]], brokers: list[int],
    batch: dict[str, Any], split_stop: bool,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Pairs (broker id, request) of one batch, in the order of section 5.3."""
    leads = [row for row in requests if row["kind"] == "LeaderAndIsr"]
    yield from _leader_requests(leads, batch).items()
    partitions = _metadata_partitions(metadata)
    for broker in brokers:
        yield broker, {
            "kind": "UpdateMetadata", "controller_epoch": batch["controller_epoch"],
            "broker_epoch": batch["broker_epochs"][broker],
            "partitions": partitions, "live_brokers": batch["registered"],
        }
    stops = [row for row in requests if row["kind"] == "StopReplica"]
    for broker, sent in _stop_requests(stops, batch, split_stop).items():
        for request in sent:
            yield broker, request


def _by_step(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["step"], []).append(row)
    return found


def _each_partition(
    run: list[dict[str, Any]], requests: dict[int, list[dict[str, Any]]],
    metadata: dict[int, list[dict[str, Any]]], brokers: dict[int, list[int]], split_stop: bool,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Requests of steps in which every partition has batches of its own: one after the other."""
    names = dict.fromkeys(
        (row["topic"], row["partition"])
        for batch in run
        for row in (*requests.get(batch["step"], ()), *metadata.get(batch["step"], ()))
    )
    for name in sorted(names):
        for batch in run:
            step = batch["step"]
            own, told = (
                [row for row in rows.get(step, ()) if (row["topic"], row["partition"]) == name]
                for rows in (requests, metadata)
            )
            if own or told:
                yield from _batch_requests(
                    own, told, brokers.get(step, []), batch, split_stop
                )


def by_broker(outcome: Outcome, *, split_stop: bool = False) -> dict[int, list[dict[str, Any]]]:
    """See `Outcome.by_broker`; `split_stop` is the form before protocol 2.6."""
    requests = _by_step(outcome.requests.to_pylist())
    metadata = _by_step(outcome.update_metadata.to_pylist())
    told = _by_step(outcome.update_metadata_brokers.to_pylist())
    brokers = {step: [row["broker_id"] for row in rows] for step, rows in told.items()}
    found: dict[int, list[dict[str, Any]]] = {}
    for each, run in itertools.groupby(outcome.batches, key=lambda batch: batch["each"]):
        batches = list(run)
        if each:
            pairs = list(_each_partition(batches, requests, metadata, brokers, split_stop))
        else:
            pairs = [
                pair for batch in batches for pair in _batch_requests(
                    requests.get(batch["step"], []), metadata.get(batch["step"], []),
                    brokers.get(batch["step"], []), batch, split_stop,
                )
            ]
        for broker, request in pairs:
            found.setdefault(broker, []).append(request)
    return found
