"""Figures of failures: what one does to brokers, and what many do to partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.figures.drawing import AMBER, BLUE, GREY, RED, bars, figure, labels

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["broker_leaders_figure", "pairs_figure", "sweep_figure"]

MOST_BARS = 400
"""Failures that a figure shows; of more, the worst."""

HEAT = [[0.0, "#f6d8a8"], [0.35, "#e59a3c"], [0.7, "#cf5a4b"], [1.0, "#8f1f4f"]]


def broker_leaders_figure(brokers: pa.Table, title: str = "Leaders per broker") -> Figure:
    """Leaders of every broker before and after (`schema.IMPACT_BROKERS`)."""
    columns = brokers.select(["broker_id", "leaders_before", "leaders"]).to_pydict()
    ids, before, after = columns.values()
    drawn = figure(title, "broker", "leaders", barmode="group")
    return bars(drawn, ids, [("before", GREY, before), ("after", BLUE, after)])


def sweep_figure(
    rows: pa.Table, names: Sequence[object] | None = None, title: str = "What each failure does"
) -> Figure:
    """Partitions that are offline, and that refuse acks=all, after every failure.

    Parameters
    ----------
    rows : pa.Table
        `schema.SWEEP`; the baseline is left out.
    names : sequence, optional
        Of every failure, in order. By default failures stand by their numbers, the worst first.
    title : str
    """
    scenario = rows["scenario"].to_numpy()
    offline, under = (rows[name].to_numpy() for name in ("offline", "under_min_isr"))
    place = np.flatnonzero(scenario > 0)
    if names is None or place.size > MOST_BARS:
        place = place[np.lexsort([-under[place], -offline[place]])][:MOST_BARS]
    called: Sequence[Any] = [
        number if names is None else names[number - 1] for number in scenario[place].tolist()
    ]
    drawn = figure(title, "failure" if names is None else "", "partitions", barmode="stack")
    # A partition that is offline counts as under min ISR, too.
    refused = np.maximum(under - offline, 0)
    return bars(drawn, called, [
        ("offline", RED, offline[place].tolist()),
        ("refuse acks=all", AMBER, refused[place].tolist()),
    ])


def pairs_figure(
    broker_ids: Sequence[int], partitions: npt.NDArray[np.int64],
    title: str = "Two brokers fail together: further partitions in trouble",
) -> Figure:
    """A heat map over pairs of brokers: (n, n) partitions; pairs without any stay blank."""
    drawn = figure(title, "broker", "broker", height=520)
    worst = float(partitions.max(initial=0))
    shown = np.where(partitions > 0, partitions, np.nan).astype(np.float32)
    names = labels(broker_ids)
    drawn.add_heatmap(
        x=names, y=names, z=shown, colorscale=HEAT, zmin=0, zmax=max(worst, 1),
        hoverongaps=False, colorbar={"title": {"text": "partitions"}, "thickness": 12},
        hovertemplate="brokers %{x} and %{y}<br>%{z} partitions<extra></extra>",
    )
    drawn.update_xaxes(type="category", nticks=20, showgrid=False)
    drawn.update_yaxes(type="category", nticks=20, showgrid=False, autorange="reversed")
    return drawn
