"""What `kfast capacity size` answers: how many brokers of a class a load needs."""

from __future__ import annotations

from rich.console import Console

from kfast.capacity.loads.units import format_bytes
from kfast.capacity.planning.cluster_sizes import ClusterSize, Failures
from kfast.report.answer import Answer, Document
from kfast.report.capacity_wording import amount, reservation_lines
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import brokers_named, count, plural

__all__ = ["SIZE_METRICS", "SIZE_TABLES", "capacity_size_answer"]

SIZE_TABLES = ("bounds", "too_large", "brokers", "placement")
SIZE_METRICS = {
    "at_least": "brokers, at least",
    "suffices": "brokers for which a placement was found",
    "present": "brokers that are up",
    "replicas_moved": "replicas on brokers that did not hold them before",
    "bytes_moved": "bytes of these replicas",
    "too_large": "resources of which one partition needs more than a broker may use",
}
FAILURES = {"normal": "none", "brokers": "brokers", "rack": "a rack"}
MOST_CHANGES = 20
"""Brokers that are drawn; all are in the table brokers."""
STATUS = {
    "UNDER_PROVISIONED": "fewer than needed", "RIGHT_SIZED": "as many as needed",
    "OVER_PROVISIONED": "more than needed",
    "UNDECIDED": "loads are incomplete, or no placement shows that so many suffice",
}


def capacity_size_answer(
    head: Document, size: ClusterSize, failures: Failures, broker_class: str | None
) -> Answer:
    """The answer of `kfast capacity size`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`; goes on as the document.
    """
    present = head["cluster"]["registered"]
    document = {
        **head,
        "class": broker_class,
        "failures": {"brokers": failures.k, "each_rack": failures.each_rack},
        "racks": failures.racks,
        "status": size.status,
        "summary": {
            "at_least": size.at_least, "suffices": size.suffices, "present": present,
            "replicas_moved": size.replicas_moved, "bytes_moved": size.bytes_moved,
            "too_large": size.too_large.num_rows,
        },
        "brokers": size.brokers.to_pylist(),
        "bounds": sorted(size.bounds.to_pylist(), key=lambda row: -row["brokers"]),
        "too_large": size.too_large.to_pylist(),
    }
    document["verdict"] = [
        _verdict(document),
        f"{size.status}: {count(present, 'broker', 'is', 'are')} up, {STATUS[size.status]}.",
        *_change_lines(document),
        *reservation_lines(document),
    ]
    return Answer(document, _draw, {
        "bounds": lambda: size.bounds, "too_large": lambda: size.too_large,
        "brokers": lambda: size.brokers, "placement": lambda: size.assignments,
    })


def _verdict(document: Document) -> str:
    """How many brokers, whatever of the failures happens."""
    failures, at_least = document["failures"], document["summary"]["at_least"]
    kinds = [f"any {plural(failures['brokers'], 'broker')}"] if failures["brokers"] else []
    kinds += ["any rack"] if failures["each_rack"] else []
    what = f"To survive {' or '.join(kinds)}" if kinds else "Without a failure"
    of_class = f" of class {document['class']}" if document["class"] else ""
    suffices = document["summary"]["suffices"]
    if at_least is None:
        return f"{what}: no number of brokers{of_class} suffices, a partition is too large for one."
    if suffices is None:
        return f"{what}: at least {at_least} brokers{of_class}; no placement was found."
    if suffices == at_least:
        return f"{what}: {at_least} brokers{of_class}, the fewest."
    return f"{what}: at least {at_least} brokers{of_class}, {suffices} suffice."


def _change_lines(document: Document) -> list[str]:
    """What has to change until the brokers suffice."""
    summary = document["summary"]
    if summary["suffices"] is None:
        return []
    changes = [
        brokers_named(ids, verb=(f"is {change}", f"are {change}"))
        for change in ("added", "removed")
        if (ids := [row["broker_id"] for row in document["brokers"] if row["change"] == change])
    ]
    changes.append(f"{count(summary['replicas_moved'], 'replica', 'moves', 'move')}, "
                   f"{format_bytes(summary['bytes_moved'])}")
    text = "; ".join(changes)
    return [f"From the present cluster: {text}."]


def _draw(console: Console, document: Document) -> None:
    draw_rows(console, "Partitions that are too large for one broker", [
        text_column("topic"), "partition", text_column("resource"),
        TableColumn("needs", value=lambda row: _amount(row, "amount")),
        TableColumn("allowed", value=lambda row: _amount(row, "allowed")),
        TableColumn("split in", value="parts"),
    ], document["too_large"], complete=True)
    changes = [row for row in document["brokers"] if row["change"] != "stays"]
    draw_rows(console, "Brokers that are added and removed", [
        "broker_id", text_column("rack"), text_column("change"),
    ], changes[:MOST_CHANGES], len(changes))
    draw_rows(console, "Fewest brokers by resource", [
        text_column("resource"), text_column("failure", lambda row: FAILURES[row["failure"]]),
        "brokers",
    ], document["bounds"], if_empty=True)


def _amount(row: Row, name: str) -> str:
    return amount(row["resource"], row[name])
