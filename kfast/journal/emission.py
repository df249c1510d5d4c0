"""Requests as a broker sees them: one dictionary per request, in the order of emission."""

from __future__ import annotations

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
    """StopReplica requests; before protocol 2.6 one for each delete flag, deleting first (5.3)."""
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


def by_broker(outcome: Outcome, *, split_stop: bool = False) -> dict[int, list[dict[str, Any]]]:
    """See `Outcome.by_broker`; `split_stop` is the form before protocol 2.6."""
    requests = outcome.requests.to_pylist()
    metadata = outcome.update_metadata.to_pylist()
    brokers = outcome.update_metadata_brokers.to_pylist()
    found: dict[int, list[dict[str, Any]]] = {}
    for batch in outcome.batches:
        step = batch["step"]
        own = [row for row in requests if row["step"] == step]
        leads = [row for row in own if row["kind"] == "LeaderAndIsr"]
        for broker, request in _leader_requests(leads, batch).items():
            found.setdefault(broker, []).append(request)
        partitions = _metadata_partitions([row for row in metadata if row["step"] == step])
        for row in brokers:
            if row["step"] == step:
                found.setdefault(row["broker_id"], []).append({
                    "kind": "UpdateMetadata", "controller_epoch": batch["controller_epoch"],
                    "broker_epoch": batch["broker_epochs"][row["broker_id"]],
                    "partitions": partitions, "live_brokers": batch["registered"],
                })
        stops = [row for row in own if row["kind"] == "StopReplica"]
        for broker, sent in _stop_requests(stops, batch, split_stop).items():
            found.setdefault(broker, []).extend(sent)
    return found
