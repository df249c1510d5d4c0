"""What `kfast capacity cost` answers: what a cluster costs in a month."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.capacity.planning.monthly_costs import SECONDS_OF_MONTH, CapacityCost
from kfast.report.answer import Answer, Document
from kfast.report.capacity_wording import load_warnings
from kfast.report.drawing import draw_rows
from kfast.report.tables import text_column

__all__ = ["COST_METRICS", "COST_TABLES", "capacity_cost_answer"]

COST_TABLES = ("items",)
COST_METRICS = {
    "total": "cost of a month, in the currency of the prices",
    "brokers": "brokers",
    "bytes_cross_rack": "bytes that cross racks, a second",
}


def capacity_cost_answer(head: Document, cost: CapacityCost) -> Answer:
    """The answer of `kfast capacity cost`.

    Parameters
    ----------
    head : dict
        Of `load_head`; goes on as the document.
    """
    rows = cost.items.to_pylist()
    crossing = [row["quantity"] for row in rows if row["unit"] == "B/s"]
    document = {
        **head,
        "total": cost.total,
        "seconds_of_month": SECONDS_OF_MONTH,
        "items": rows,
        "summary": {
            "total": float(cost.total),
            "brokers": sum(row["quantity"] for row in rows if row["unit"] == "brokers"),
            "bytes_cross_rack": sum(crossing) if crossing else None,
        },
    }
    document["assumptions"] += cost.assumptions
    without = [row["item"] for row in rows if row["price"] is None]
    document["verdict"] = [
        f"A month costs {cost.total:,f}, in the currency of the prices.",
        *([f"Without a price, and not in it: {', '.join(without)}."] if without else []),
        *load_warnings(document),
    ]
    return Answer(document, _draw, {"items": lambda: cost.items})


def _draw(console: Console, document: Document) -> None:
    draw_rows(console, "Costs of a month", [
        text_column("item", _item), "cost", text_column("quantity", _quantity),
        text_column("price", _price),
    ], [
        {**row, "cost": None if row["cost"] is None else f"{row['cost']:,f}"}
        for row in document["items"]
    ], if_empty=True)


def _item(row: Mapping[str, Any]) -> str:
    return f"{row['item']}, {row['class']}" if row["class"] else str(row["item"])


def _quantity(row: Mapping[str, Any]) -> str:
    """How much, with its unit; of a rate also what comes together in a month."""
    if row["unit"] == "brokers":
        return str(row["quantity"])
    if row["unit"] == "bytes":
        return format_bytes(row["quantity"])
    in_month = format_bytes(row["quantity"] * SECONDS_OF_MONTH)
    return f"{format_rate(row['quantity'])}, {in_month} a month"


def _price(row: Mapping[str, Any]) -> str | None:
    if row["price"] is None:
        return None
    units = {"brokers": "a broker", "bytes": "a GB", "B/s": "a GB"}
    return f"{row['price'].normalize():f} {units[row['unit']]}"
