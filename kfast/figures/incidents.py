"""An incident as a figure: who was up, who was the controller, which partitions had no leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfast.figures.drawing import AMBER, BLUE, FEWEST_STEPS, RED, figure
from kfast.schema import UNCLEAN_ELECTION
from kfast.state.display import escape_control

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["IncidentMarks", "incident_figure", "incident_marks"]

FEWEST_MS = 1000
"""A figure spans this at least."""

MOST_LANES = 60
"""Brokers that a figure shows; of more, those that were down at some time, and controllers."""

MOST_STEPS = 1500
"""Steps of a curve; of more, the highest of each stretch of time."""

LANE_HEIGHT, CURVE_HEIGHT, MOST_LANES_HEIGHT = 18, 110, 900
"""In pixels."""

INK = "#30343b"


@dataclass(frozen=True)
class IncidentMarks:
    """What a figure of an incident consists of; times are milliseconds.

    Attributes
    ----------
    begin, end : int
        What the figure spans.
    lanes : sequence of str
        Names of the brokers and controllers, in order.
    n_hidden : int
        Brokers that were up all the time and have no lane.
    sessions, terms : sequence of (str, int, int)
        Lane, since, until: of brokers that were up, of controllers that were active.
    leaderless, reassigned : sequence of (int, int)
        From which time on how many partitions were without a leader, were being reassigned.
    unclean : sequence of (int, str)
        Unclean elections: time, and what happened.
    """

    begin: int
    end: int
    lanes: Sequence[str]
    n_hidden: int
    sessions: Sequence[tuple[str, int, int]]
    terms: Sequence[tuple[str, int, int]]
    leaderless: Sequence[tuple[int, int]]
    reassigned: Sequence[tuple[int, int]]
    unclean: Sequence[tuple[int, str]]


def incident_marks(
    timeline: pa.Table, outages: pa.Table, reassignments: pa.Table, broker_sessions: pa.Table,
    controller_terms: pa.Table,
) -> IncidentMarks:
    """Marks of a figure, of the tables of a replay (`schema.TIMELINE` and those after it)."""
    spans = _spans(timeline, outages, reassignments, broker_sessions, controller_terms)
    first, last = min(one for one, _ in spans.values()), max(one for _, one in spans.values())
    margin = max((last - first) // 50, FEWEST_MS // 2)
    begin, end = first - margin, last + margin
    spans = {
        cluster: (begin if since == first else since, end if until == last else until)
        for cluster, (since, until) in spans.items()
    }
    up = _periods(broker_sessions, "broker_id", spans)
    active = _periods(controller_terms, "controller", spans)
    brokers = {key for key, *_ in up}
    keys = sorted({*brokers, *(key for key, *_ in active)})
    if len(keys) > MOST_LANES:
        moving = {key for key, *ends in up if tuple(ends) != spans[key[0]]}
        moving |= {key for key, *_ in active}
        keys = [key for key in keys if key in moving]
    names = {
        key: (f"cluster {key[0]}: " if len(spans) > 1 else "")
        + (f"{key[1]}" if key in brokers else f"controller {key[1]}") for key in keys
    }
    return IncidentMarks(
        begin, end, [*names.values()], len(brokers - names.keys()),
        [(names[key], since, until) for key, since, until in up if key in names],
        [(names[key], since, until) for key, since, until in active if key in names],
        _steps(outages, begin, end), _steps(reassignments, begin, end),
        [
            (time, escape_control(what)) for time, event, what in zip(
                _milliseconds(timeline["time"]), timeline["event"].to_pylist(),
                timeline["what"].to_pylist(), strict=True,
            ) if event == UNCLEAN_ELECTION
        ],
    )


def _milliseconds(column: pa.ChunkedArray) -> list[Any]:
    return list(column.cast(pa.timestamp("ms")).cast(pa.int64()).to_pylist())


def _spans(*tables: pa.Table) -> dict[int, tuple[int, int]]:
    """Cluster: first and last time that any table has of it; one of nothing where none has any."""
    spans: dict[int, tuple[int, int]] = {}
    for table in tables:
        for name in {"time", "since", "until"}.intersection(table.column_names):
            for cluster, time in zip(
                table["cluster"].to_pylist(), _milliseconds(table[name]), strict=True
            ):
                if time is not None:
                    since, until = spans.get(cluster, (time, time))
                    spans[cluster] = min(since, time), max(until, time)
    return spans or {0: (0, 0)}


def _periods(
    table: pa.Table, name: str, spans: Mapping[int, tuple[int, int]]
) -> list[tuple[tuple[int, int], int, int]]:
    """Cluster and id, since, until; what has no begin or end is as long as its cluster."""
    return [
        (
            (cluster, number), spans[cluster][0] if since is None else since,
            spans[cluster][1] if until is None else until,
        )
        for cluster, number, since, until in zip(
            table["cluster"].to_pylist(), table[name].to_pylist(), _milliseconds(table["since"]),
            _milliseconds(table["until"]), strict=True,
        ) if cluster in spans
    ]


def _steps(table: pa.Table, begin: int, end: int) -> list[tuple[int, int]]:
    """From which time on how many of the periods of a table last."""
    changes = Counter({begin: 0, end: 0})
    for since, until in zip(
        _milliseconds(table["since"]), _milliseconds(table["until"]), strict=True
    ):
        changes[begin if since is None else since] += 1
        if until is not None:
            changes[until] -= 1
    times = sorted(changes)
    steps = list(zip(times, accumulate(changes[time] for time in times), strict=True))
    return steps if len(steps) <= MOST_STEPS else [*_highest(steps, begin, end)]


def _highest(
    steps: Iterable[tuple[int, int]], begin: int, end: int
) -> Iterable[tuple[int, int]]:
    """The highest step of each stretch of time, and the last."""
    stretches: dict[int, list[tuple[int, int]]] = {}
    for step in steps:
        place = (step[0] - begin) * (MOST_STEPS // 2) // (end - begin)
        stretches.setdefault(place, []).append(step)
    for stretch in stretches.values():
        yield stretch[0][0], max(n for _, n in stretch)
        if len(stretch) > 1:
            yield stretch[-1]


def incident_figure(marks: IncidentMarks, title: str = "The incident") -> Figure:
    """Brokers and controllers as lanes; below, partitions without a leader, and reassigned ones."""
    curves = [("leaderless partitions", RED, marks.leaderless)]
    if any(n for _, n in marks.reassigned):
        curves.append(("partitions being reassigned", AMBER, marks.reassigned))
    n_lanes = max(len(marks.lanes), 1)
    lanes = min(LANE_HEIGHT * n_lanes, MOST_LANES_HEIGHT)
    total = lanes + (CURVE_HEIGHT + 30) * len(curves)
    drawn = figure(title, "time, by the clock of the log", "broker", height=total + 140)
    for name, colour, share, periods in (
        ("broker up", BLUE, 0.7, marks.sessions), ("controller", INK, 0.3, marks.terms),
    ):
        drawn.add_scatter(
            x=[time for _, *ends in periods for time in (*ends, None)],
            y=[place for lane, *_ in periods for place in (lane, lane, None)],
            name=name, mode="lines", line={"color": colour, "width": share * lanes / n_lanes},
            hovertemplate=f"%{{y}}: %{{x}}<extra>{name}</extra>",
        )
    drawn.update_layout(
        xaxis={"type": "date", "range": [marks.begin, marks.end], "anchor": f"y{len(curves) + 1}"},
        yaxis={"type": "category", "categoryorder": "array", "categoryarray": marks.lanes,
               "range": [n_lanes - 0.5, -0.5], "domain": [1 - lanes / total, 1]},
        legend_y=1 + 10 / total,
    )
    top = 1 - lanes / total
    for number, (name, colour, steps) in enumerate(curves, 2):
        bottom = top - (CURVE_HEIGHT + 30) / total
        drawn.update_layout({f"yaxis{number}": {
            "title": {"text": name.replace(" ", "<br>", 1)}, "rangemode": "tozero",
            "automargin": True, "domain": [max(bottom, 0), bottom + CURVE_HEIGHT / total],
            "tickformat": "d", "anchor": "x", "nticks": FEWEST_STEPS,
            "dtick": 1 if max(n for _, n in steps) < FEWEST_STEPS else None,
        }})
        top = bottom
        drawn.add_scatter(
            x=[time for time, _ in steps], y=[n for _, n in steps], name=name, yaxis=f"y{number}",
            mode="lines", line={"color": colour, "shape": "hv", "width": 1.5}, fill="tozeroy",
            hovertemplate=f"%{{x}}: %{{y}} {name}<extra></extra>",
        )
    if marks.unclean:
        drawn.add_scatter(
            x=[time for time, _ in marks.unclean], yaxis="y2",
            y=[max(n for _, n in marks.leaderless)] * len(marks.unclean),
            name="unclean election", mode="markers",
            marker={"color": INK, "symbol": "diamond", "size": 10}, cliponaxis=False,
            hovertext=[escape(what) for _, what in marks.unclean],
            hovertemplate="%{x}: %{hovertext}<extra>unclean election</extra>",
        )
    return drawn
