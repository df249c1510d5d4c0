"""The figure of a restart plan: its batches, and what they bring under min ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kfast.figures.drawing import AMBER, BLUE, RED, bars, figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["restart_figure"]


def restart_figure(batches: pa.Table, title: str = "Batches of restarts, in order") -> Figure:
    """Brokers of every batch (`schema.RESTART_BATCHES`), coloured by what the batch does."""
    columns = batches.select(
        ["batch", "n_brokers", "newly_offline", "newly_under_min_isr"]
    ).to_pydict()
    numbers, sizes, offline, under = columns.values()
    drawn = figure(title, "batch", "brokers", barmode="stack")
    kinds = [
        "offline" if down else "refused" if refused else "safe"
        for down, refused in zip(offline, under, strict=True)
    ]
    return bars(drawn, numbers, [
        (name, colour, [n if is_kind == kind else 0
                        for n, is_kind in zip(sizes, kinds, strict=True)])
        for kind, name, colour in (
            ("safe", "no partition notices", BLUE), ("refused", "some refuse acks=all", AMBER),
            ("offline", "some go offline", RED),
        ) if kind in kinds
    ])
