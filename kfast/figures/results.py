"""`kfast.plot`: any result, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfast.arguments import shown
from kfast.errors import ArgumentError
from kfast.figures.capacity import headroom_figure
from kfast.figures.failures import sweep_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["plot"]


def plot(result: Any) -> Figure:
    """Draw a result as a figure of plotly.

    Parameters
    ----------
    result : object
        What has a method `plot` (a failure, its timeline, a restart plan, a replay, a forecast, a
        failure in bytes), or the table of `kfast.sweep` or `kfast.capacity_sweep`.

    Raises
    ------
    ArgumentError
        It is none of these.
    MissingExtraError
        plotly is not installed (the extra `report`).
    """
    if isinstance(result, pa.Table):
        names = set(result.column_names)
        if names >= {"scenario", "headroom", "binding"}:
            return headroom_figure(result)
        if names >= {"scenario", "offline", "under_min_isr"}:
            return sweep_figure(result)
    elif hasattr(result, "plot"):
        return result.plot()
    raise ArgumentError(
        f"{shown(result)} cannot be drawn; right is the table of kfast.sweep or "
        "kfast.capacity_sweep, or a result that has a method plot"
    )
