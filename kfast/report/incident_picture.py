"""The picture of an incident: lanes of brokers and controllers, above curves of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from kfast.figures.incidents import IncidentMarks
from kfast.report.pictures import BLACK, GREEN, ORANGE, RED, SKY, WIDTH, styled
from kfast.report.wording import plural

if TYPE_CHECKING:
    import altair

__all__ = ["incident_picture"]

UP, ACTIVE, UNCLEAN = "broker up", "active controller", "unclean election"
COLOURS = {UP: SKY, ACTIVE: BLACK, UNCLEAN: RED}
MOST_LANES_HEIGHT, LANE_HEIGHT, CURVE_HEIGHT = 900, 18, 100
MOST_LETTERS = 115
"""Of a line below the title."""

FEW = 4
"""Counts up to this have a line each."""

SECOND = 1000
FORMATS = (
    (10 * SECOND, "%H:%M:%S.%L"), (600 * SECOND, "%H:%M:%S"), (36 * 3600 * SECOND, "%H:%M"),
    (60 * 86400 * SECOND, "%m-%d %H:%M"),
)
"""How times are written where a picture spans at most so much."""


def incident_picture(
    title: str, subtitle: Sequence[str], marks: IncidentMarks
) -> altair.TopLevelMixin:
    """Who was up and who was the controller, lane by lane; below, what had no leader.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    marks : IncidentMarks
    """
    import altair as alt

    lines = [*subtitle]
    if marks.n_hidden:
        lines.append(f"{plural(marks.n_hidden, 'broker')} that were up all the time are not shown.")
    curves = [("leaderless", ORANGE, marks.leaderless)]
    if any(n for _, n in marks.reassigned):
        curves.append(("being reassigned", GREEN, marks.reassigned))
    parts = [_lanes(marks)]
    for number, (name, colour, steps) in enumerate(curves, 1):
        parts.append(_curve(marks, name, colour, steps, is_last=number == len(curves)))
    return styled(
        alt.vconcat(*parts, spacing=10).resolve_scale(color="shared"), title,
        [part for line in lines for part in wrap(line, MOST_LETTERS)],
    )


def _time(
    marks: IncidentMarks, name: str, *, is_last: bool, is_first_layer: bool = True
) -> altair.X:
    """The axis of time: the lowest panel has its labels, the first layer of a panel its span."""
    import altair as alt

    span = marks.end - marks.begin
    own: dict[str, Any] = {"domain": [marks.begin, marks.end]} if is_first_layer else {}
    text = next((text for most, text in FORMATS if span <= most), "%Y-%m-%d")
    return alt.X(
        f"{name}:T", title="time, by the clock of the log" if is_last else None,
        scale=alt.Scale(type="utc", nice=False, **own),
        axis=alt.Axis(labels=is_last, ticks=is_last, format=text, labelOverlap="greedy",
                      tickCount=8, labelFlush=True, labelSeparation=12),
    )


def _colour(marks: IncidentMarks) -> altair.Color:
    import altair as alt

    names = [UP, ACTIVE, *[UNCLEAN][: len(marks.unclean)]]
    return alt.Color("mark:N", title=None, scale=alt.Scale(
        domain=names, range=[COLOURS[name] for name in names],
    ))


def _lanes(marks: IncidentMarks) -> altair.LayerChart | altair.FacetChart:
    """Brokers that are up as bars, controllers as narrow ones upon them."""
    import altair as alt

    step = max(min(LANE_HEIGHT, MOST_LANES_HEIGHT / max(len(marks.lanes), 1)), 2)
    layers = []
    for name, share, periods in ((UP, 0.75, marks.sessions), (ACTIVE, 0.3, marks.terms)):
        rows = [
            {"lane": lane, "since": since, "until": until, "mark": name}
            for lane, since, until in periods
        ]
        layers.append(alt.Chart(alt.InlineData(values=rows)).mark_bar(
            height=max(step * share, 1), stroke=COLOURS[name], strokeWidth=1,
        ).encode(
            x=_time(marks, "since", is_last=False, is_first_layer=name == UP), x2="until:T",
            y=alt.Y("lane:N", sort=list(marks.lanes), title="broker", scale=alt.Scale(
                domain=list(marks.lanes),
            ), axis=alt.Axis(labelOverlap="greedy", ticks=False, grid=False)),
            color=_colour(marks),
            tooltip=[
                alt.Tooltip("lane:N", title="broker"), alt.Tooltip("mark:N", title="was"),
                *(alt.Tooltip(f"{end}:T", title=end, format="%Y-%m-%d %H:%M:%S.%L")
                  for end in ("since", "until")),
            ],
        ))
    return alt.layer(*layers).properties(width=WIDTH, height=step * max(len(marks.lanes), 1))


def _curve(
    marks: IncidentMarks, name: str, colour: str, steps: Sequence[tuple[int, int]], *,
    is_last: bool,
) -> altair.LayerChart | altair.FacetChart:
    """How many partitions it is over time; unclean elections stand among the leaderless ones."""
    import altair as alt

    rows = [{"time": time, "n": n} for time, n in steps]
    most = max(1, *(n for _, n in steps))
    few: dict[str, Any] = {"values": [*range(most + 1)]} if most <= FEW else {}
    chart = alt.Chart(alt.InlineData(values=rows))
    y = alt.Y("n:Q", title=["partitions", name], scale=alt.Scale(domain=[0, most], nice=True),
              axis=alt.Axis(format="d", tickCount=4, **few))
    x = _time(marks, "time", is_last=is_last, is_first_layer=False)
    layers: list[Any] = [
        chart.mark_area(interpolate="step-after", color=colour, fillOpacity=0.35).encode(
            x=_time(marks, "time", is_last=is_last), y=y,
        ),
        chart.mark_line(interpolate="step-after", color=colour, strokeWidth=1.2).encode(x=x, y=y),
    ]
    if marks.unclean and name == "leaderless":
        data = alt.Chart(alt.InlineData(values=[
            {"time": time, "what": what, "mark": UNCLEAN} for time, what in marks.unclean
        ]))
        layers.append(data.mark_rule(strokeWidth=1).encode(x=x, color=_colour(marks)))
        layers.append(data.mark_point(shape="diamond", filled=True, size=70, opacity=1).encode(
            x=x, y=alt.value(0), color=_colour(marks), tooltip="what:N",
        ))
    return alt.layer(*layers).properties(width=WIDTH, height=CURVE_HEIGHT)
