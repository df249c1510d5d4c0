"""What all figures share: colours, the layout, and how names come into a figure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from kfast.errors import require_extra

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["AMBER", "BLUE", "FEWEST_STEPS", "GREY", "MOST_TICKS", "RED", "bars", "figure", "labels"]

RED, AMBER, BLUE, GREY = "#d1495b", "#d98e04", "#3f7fbf", "#8a8f98"
"""Colours that are told apart by people who see few, on light and on dark ground."""

HEIGHT = 340
FEWEST_STEPS = 6
"""Counts below this have a line each; others are where plotly puts them."""

MOST_LETTERS = 20
"""Of a name along an axis."""

MOST_TICKS = 24
"""So many names stand along an axis before some are left out."""


def labels(names: Sequence[object]) -> list[str]:
    """Names as a figure shows them: plotly reads markup, and a name is none.

    Long ones are cut, and told apart by their place.
    """
    texts = [
        name if len(name) <= MOST_LETTERS else f"{name[:MOST_LETTERS]}… ({place})"
        for place, name in enumerate(map(str, names), 1)
    ]
    return [escape(text, quote=False) for text in texts]


def figure(
    title: str, x_title: str, y_title: str, *, height: int = HEIGHT, **layout: Any
) -> Figure:
    """An empty figure with its titles."""
    require_extra("report", "a figure")
    from plotly import graph_objects as go

    return go.Figure(layout={
        "template": "none", "title": {"text": title, "x": 0, "xanchor": "left", "font_size": 15},
        "height": height, "margin": {"l": 60, "r": 16, "t": 72, "b": 56},
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": "#30343b"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom",
                   "traceorder": "normal"},
        "showlegend": True,
        "xaxis": {"title": {"text": x_title}, "automargin": True},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "automargin": True},
        "hovermode": "closest", **layout,
    })


def bars(
    drawn: Figure, names: Sequence[object],
    series: Sequence[tuple[str, str, Sequence[float | None]]],
) -> Figure:
    """Bars of some series, each (name, colour, values), at the same places of one axis."""
    for name, colour, values in series:
        drawn.add_bar(
            x=labels(names), y=list(values), name=name, marker_color=colour,
            hovertemplate=f"%{{x}}<br>%{{y}} {name}<extra></extra>",
        )
    drawn.update_xaxes(type="category", nticks=MOST_TICKS)
    if max((value or 0 for *_, values in series for value in values), default=0) < FEWEST_STEPS:
        drawn.update_yaxes(dtick=1)
    return drawn
