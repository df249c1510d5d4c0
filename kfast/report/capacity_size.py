"""What `kfast capacity size` answers: how many brokers of a class a load needs."""

from __future__ import annotations

from rich.console import Console

from kfast.capacity.cluster_sizes import ClusterSize, Failures
from kfast.report.answer import Answer, Document
from kfast.report.capacity_wording import amount, reservation_lines
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import count, plural

__all__ = ["SIZE_METRICS", "SIZE_TABLES", "capacity_size_answer"]

SIZE_TABLES = ("bounds", "too_large", "placement")
SIZE_METRICS = {
    "at_least": "brokers, at least",
    "suffices": "brokers for which a placement was found",
    "present": "brokers that are up",
    "too_large": "resources of which one partition needs more than a broker may use",
}
FAILURES = {"normal": "none", "brokers": "brokers", "rack": "a rack"}
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
            "too_large": size.too_large.num_rows,
        },
        "bounds": sorted(size.bounds.to_pylist(), key=lambda row: -row["brokers"]),
        "too_large": size.too_large.to_pylist(),
    }
    document["verdict"] = [
        _verdict(document),
        f"{size.status}: {count(present, 'broker', 'is', 'are')} up, {STATUS[size.status]}.",
        *reservation_lines(document),
    ]
    return Answer(document, _draw, {
        "bounds": lambda: size.bounds, "too_large": lambda: size.too_large,
        "placement": lambda: size.plan,
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


def _draw(console: Console, document: Document) -> None:
    draw_rows(console, "Partitions that are too large for one broker", [
        text_column("topic"), "partition", text_column("resource"),
        TableColumn("needs", value=lambda row: _amount(row, "amount")),
        TableColumn("allowed", value=lambda row: _amount(row, "allowed")),
        TableColumn("split in", value="parts"),
    ], document["too_large"], complete=True)
    draw_rows(console, "Fewest brokers by resource", [
        text_column("resource"), text_column("failure", lambda row: FAILURES[row["failure"]]),
        "brokers",
    ], document["bounds"], if_empty=True)


def _amount(row: Row, name: str) -> str:
    return amount(row["resource"], row[name])
