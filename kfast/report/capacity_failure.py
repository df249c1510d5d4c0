"""One failure of a capacity sweep in full: why a broker is so full, and how full each one is."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

from kfast.capacity import CapacityFailure
from kfast.capacity.failures.limits import RESOURCES, USED
from kfast.report.answer import Document
from kfast.report.capacity_wording import amount, load_sentence, share
from kfast.report.drawing import draw_rows
from kfast.report.pictures import STATES, utilisation_picture
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import brokers_named

if TYPE_CHECKING:
    import altair

__all__ = ["draw_explanation", "explanation_document", "failure_picture"]

NETWORK = ("nw_out", "nw_in")
BY_SIZE = [("bytes_out", "descending"), ("bytes_in", "descending")]


def explanation_document(
    failure: CapacityFailure, broker: int, scenario: int, top: int
) -> Document:
    """What a broker uses before and after a failure, and what adds to it.

    Parameters
    ----------
    failure : CapacityFailure
    broker : int
        The id of one that has not failed.
    scenario : int
        The number of the failure in its sweep.
    top : int
        How many topics are listed.
    """
    parts = failure.explain(broker)
    by_broker = _sums(parts, "failed_broker")
    by_topic = _sums(parts, "topic", "failed_broker", "reason")
    row = next(row for row in failure.brokers.to_pylist() if row["broker_id"] == broker)
    return {
        "broker": broker, "scenario": scenario, "brokers": list(failure.failed_brokers),
        "use": row, "by_failed_broker": by_broker, "parts_listed_of": len(by_topic),
        "parts": by_topic[:top],
        "total": {
            name: sum(part[name] for part in by_topic)
            for name in ("partitions", "bytes_in", "bytes_out")
        },
    }


def _sums(parts: pa.Table, *keys: str) -> list[dict[str, Any]]:
    """Sums of the parts by some columns, the most bytes out first."""
    sums = parts.group_by(list(keys)).aggregate([
        ([], "count_all"), ("bytes_in", "sum"), ("bytes_out", "sum"), ("cpu_microcores", "sum"),
    ]).rename_columns([*keys, "partitions", "bytes_in", "bytes_out", "cpu_microcores"])
    rows: list[dict[str, Any]] = sums.sort_by(
        [*BY_SIZE, *((key, "ascending") for key in keys)]
    ).to_pylist()
    return rows


def draw_explanation(console: Console, explanation: Document) -> None:
    """Draw what a broker uses before and after, and what adds to it."""
    use = explanation["use"]
    draw_rows(console, f"Broker {explanation['broker']} in scenario {explanation['scenario']}", [
        text_column("resource"), "before", "after", "of capacity", "change",
    ], [
        {
            "resource": name, "before": amount(name, use[f"{USED[name]}_before"]),
            "after": amount(name, use[f"{USED[name]}_after"]),
            "change": _signed(name, use[f"{USED[name]}_after"] - use[f"{USED[name]}_before"]),
            "of capacity": share(use[f"{name}_after"]),
        }
        for name in RESOURCES[:3] if use[f"{USED[name]}_after"] is not None
    ])
    columns = [TableColumn(USED[name], value=partial(_change, name)) for name in NETWORK]
    if len(explanation["by_failed_broker"]) > 1:
        draw_rows(
            console, "Added, by failed broker",
            ["failed_broker", *columns, "partitions"], explanation["by_failed_broker"],
        )
    draw_rows(console, "Added, by topic", [
        text_column("topic"), *columns, "failed_broker", text_column("reason", _reason),
        "partitions",
    ], [*explanation["parts"], *_rest(explanation)], if_empty=True)


def _rest(explanation: Document) -> list[dict[str, Any]]:
    """Rows of what is not listed, and of all that there is."""
    total, parts = explanation["total"], explanation["parts"]
    none = {"failed_broker": None, "reason": None}
    more = explanation["parts_listed_of"] - len(parts)
    rest = {name: value - sum(part[name] for part in parts) for name, value in total.items()}
    rows = [{"topic": f"({more} more)", **none, **rest}] if more else []
    return [*rows, {"topic": "(all)", **none, **total}] if parts else rows


def _reason(row: Row) -> str | None:
    return None if row["reason"] is None else str(row["reason"]).replace("_", " ")


def _change(resource: str, row: Row) -> str:
    """How much of a resource a row adds."""
    return _signed(resource, row[USED[resource]])


def _signed(resource: str, value: int) -> str:
    """A difference of a resource, with its sign and unit."""
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{amount(resource, abs(value))}"


def failure_picture(
    document: Document, failure: CapacityFailure, statistics: pa.Table
) -> altair.TopLevelMixin:
    """How full each broker is before and after a failure, and in the worst case of all failures.

    Parameters
    ----------
    document : dict
        Of `kfast.report.capacity_sweep.capacity_sweep_answer`.
    failure : CapacityFailure
        The worst one.
    statistics : pa.Table
        Of `kfast.capacity_brokers`.
    """
    rows = failure.brokers.to_pylist()
    # No failure changes disks: bars suffice.
    before = {"disk": "disk"} | {name: f"{name}_before" for name in RESOURCES[:3]}
    return utilisation_picture(
        f"Capacity that brokers use: {document['scenarios']['what']}",
        [
            document["input"], load_sentence(document["load"]),
            f"the failure: {brokers_named(failure.failed_brokers)}, the worst of the sweep",
        ],
        {
            STATES[0]: _shares(rows, before),
            STATES[1]: _shares(rows, {name: f"{name}_after" for name in RESOURCES[:3]}),
            STATES[2]: _shares(
                statistics.to_pylist(), {name: f"{name}_max" for name in RESOURCES[:3]}
            ),
        },
        document["limits"],
    )


def _shares(rows: Sequence[Row], columns: dict[str, str]) -> list[dict[str, Any]]:
    """Shares by broker and resource, each from its column."""
    return [
        {"broker_id": row["broker_id"], **{name: row[column] for name, column in columns.items()}}
        for row in rows
    ]
