"""The figure of a failure's timeline: partitions without a leader over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kfast.figures.drawing import AMBER, figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["leaderless_figure"]

MICROS = 1e6


def leaderless_figure(leaderless: pa.Table, title: str = "Partitions without a leader") -> Figure:
    """Steps of the central sample (`schema.TIMELINE_LEADERLESS`), with their range as a band."""
    columns = leaderless.to_pydict()
    at = [instant / MICROS for instant in columns["at_us"]]
    drawn = figure(title, "seconds after the failure", "partitions")
    shared = {"mode": "lines", "line_shape": "hv", "x": at}
    for end, fill in (("low", None), ("high", "tonexty")):
        drawn.add_scatter(
            **shared, y=columns[f"leaderless_{end}"], line_width=0, line_color=AMBER, fill=fill,
            fillcolor="rgba(217,142,4,0.22)", showlegend=end == "high", hoverinfo="skip",
            name="5th to 95th percentile",
        )
    drawn.add_scatter(
        **shared, y=columns["leaderless"], line_color=AMBER, name="without a leader",
        hovertemplate="%{y} after %{x:.3f} s<extra></extra>",
    )
    return drawn
