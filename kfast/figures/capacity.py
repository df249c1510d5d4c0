"""Figures in bytes: headroom after every failure, and forecasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kfast.figures.drawing import AMBER, BLUE, GREY, MOST_TICKS, RED, bars, figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["forecast_figure", "headroom_figure", "utilisation_figure"]

COLOURS = {"nw_in": BLUE, "nw_out": RED, "disk": AMBER, "cpu": GREY}
NAMES = {"nw_in": "network in", "nw_out": "network out", "disk": "disk", "cpu": "processor"}
SYMBOLS = {"nw_in": "circle", "nw_out": "square", "disk": "diamond", "cpu": "cross"}

MOST_POINTS = 2000
"""Failures that a figure shows: the worst of them."""


def headroom_figure(rows: pa.Table, title: str = "Headroom after every failure") -> Figure:
    """Headroom of every failure (`schema.CAPACITY_SWEEP`), the lowest first."""
    known = rows.select(["scenario", "headroom", "binding"])
    baseline = known.filter(pc.equal(known["scenario"], 0))["headroom"].to_pylist()
    known = known.filter(pc.and_(pc.greater(known["scenario"], 0), pc.is_valid(known["headroom"])))
    known = known.sort_by([("headroom", "ascending")]).slice(0, MOST_POINTS)
    drawn = figure(title, "failures, the worst first", "headroom, share of the limit")
    headroom, binding = known["headroom"].to_pylist(), known["binding"].to_pylist()
    for resource, name in NAMES.items():
        places = [at for at, nearest in enumerate(binding) if nearest == resource]
        if places:
            drawn.add_scatter(
                x=[at + 1 for at in places], y=[headroom[at] for at in places], name=name,
                mode="markers", marker={"color": COLOURS[resource], "symbol": SYMBOLS[resource]},
                hovertemplate=f"rank %{{x}}<br>%{{y:.1%}}, nearest: {name}<extra></extra>",
            )
    drawn.update_yaxes(tickformat=".0%", rangemode="normal")
    if len(headroom) < MOST_TICKS:
        drawn.update_xaxes(dtick=1)
    drawn.add_hline(y=0, line_color=RED, annotation_text="limit reached")
    if baseline and baseline[0] is not None:
        drawn.add_hline(y=baseline[0], line_color=GREY, line_dash="dash",
                        annotation_text="without a failure")
    return drawn


def utilisation_figure(brokers: pa.Table, resource: str, title: str = "") -> Figure:
    """Share of one capacity that every broker uses before and after a failure.

    Parameters
    ----------
    brokers : pa.Table
        `schema.CAPACITY_FAILURE_BROKERS`.
    resource : str
        nw_in, nw_out, cpu or disk; the last is the same before and after.
    title : str
    """
    before = resource if resource == "disk" else f"{resource}_before"
    after = resource if resource == "disk" else f"{resource}_after"
    drawn = figure(title or f"{NAMES[resource]} of every broker".capitalize(), "broker",
                   "share of the capacity", barmode="group")
    bars(drawn, brokers["broker_id"].to_pylist(), [
        ("before", GREY, brokers[before].to_pylist()), ("after", BLUE, brokers[after].to_pylist()),
    ])
    drawn.update_yaxes(tickformat=".0%", dtick=None)
    return drawn


def forecast_figure(
    months: Iterable[Mapping[str, Any]], title: str = "Highest share of each capacity, by month"
) -> Figure:
    """Shares of every month (rows of `schema.CAPACITY_FORECAST`), without a failure and with."""
    drawn = figure(title, "months of growth", "share of the capacity")
    rows: Sequence[Mapping[str, Any]] = list(months)
    for resource, name in NAMES.items():
        for kind, words, dash in (("normal", "", "dot"), ("failed", ", after a failure", "solid")):
            points = [
                (row["month"], row[kind]) for row in rows
                if row["resource"] == resource and row[kind] is not None
            ]
            if points:
                drawn.add_scatter(
                    x=[month for month, _ in points], y=[used for _, used in points],
                    name=f"{name}{words}", mode="lines+markers",
                    line={"color": COLOURS[resource], "dash": dash},
                    marker={"symbol": SYMBOLS[resource]},
                    hovertemplate=f"month %{{x}}: %{{y:.1%}} {name}{words}<extra></extra>",
                )
    drawn.update_yaxes(tickformat=".0%")
    return drawn
