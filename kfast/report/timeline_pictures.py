"""Pictures of when: stages by broker, partitions without a leader over time, sweeps and growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from kfast.report.pictures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    SKY,
    WIDTH,
    curve_places,
    styled,
)
from kfast.report.tables import Row
from kfast.report.wording import plural
from kfast.schema import WAITS

if TYPE_CHECKING:
    import altair

__all__ = [
    "compared_picture", "growth_picture", "timeline_picture", "timeline_sweep_picture",
]

CURVE_HEIGHT, LANE_HEIGHT = 170, 18
MOST_LANES = 24
"""Brokers that have a lane: those that are done last."""

MOST_LETTERS = 115
"""Of a line below the title."""

MOST_NAMED = 30
"""So many failures of a sweep have a name along the axis; of more the rank is there."""

PURPLE, GREY = "#CC79A7", "#8a8f98"
VARIANT_COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK, GREY)
STAGE_COLOURS = {
    "decide": BLACK, "store": RED, "commit": RED, "requests": ORANGE, "fetch": ORANGE,
    "LeaderAndIsr": BLUE, "UpdateMetadata": SKY, "load": SKY, "apply": BLUE, "wait": GREEN,
    "stop": PURPLE,
}
"""Both modes: the controller decides, stores, publishes; brokers apply, and show it to clients."""

WAIT_COLOURS = dict(zip(WAITS, (SKY, BLACK, RED, ORANGE, BLUE), strict=True))
MICROS = 1e6


def timeline_picture(
    title: str, subtitle: Sequence[str], stages: Sequence[Row], leaderless: Sequence[Row]
) -> altair.TopLevelMixin:
    """Partitions without a leader over time; below, stages as bars, the slowest brokers first.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    stages : sequence of (mapping of str to Any)
        Rows of `schema.TIMELINE_STAGES`.
    leaderless : sequence of (mapping of str to Any)
        Rows of `schema.TIMELINE_LEADERLESS`.
    """
    import altair as alt

    lines = [*subtitle]
    parts: list[Any] = []
    if leaderless:
        parts.append(_leaderless({"": leaderless}))
    if stages:
        lanes, n_hidden = _lanes(stages)
        if n_hidden:
            lines.append(f"{plural(n_hidden, 'broker')} that are done earlier are not shown.")
        parts.append(_gantt(stages, lanes))
    picture = alt.vconcat(*parts, spacing=20).resolve_scale(color="independent")
    return styled(picture, title, _wrapped(lines))


def compared_picture(
    title: str, subtitle: Sequence[str], leaderless: Mapping[str, Sequence[Row]]
) -> altair.TopLevelMixin:
    """Partitions without a leader over time, a curve for each variant."""
    import altair as alt

    return styled(alt.vconcat(_leaderless(leaderless)), title, _wrapped(subtitle))


def _wrapped(lines: Sequence[str]) -> list[str]:
    return [part for line in lines for part in wrap(line, MOST_LETTERS)]


def _leaderless(curves: Mapping[str, Sequence[Row]]) -> altair.LayerChart | altair.FacetChart:
    """Steps with their ranges; several have a colour and a dash each."""
    import altair as alt

    rows = [
        {"curve": name, "at": row["at_us"] / MICROS, "n": row["leaderless"],
         "low": row["leaderless_low"], "high": row["leaderless_high"]}
        for name, some in curves.items() for row in some
    ]
    # The end of the longest is the end of the picture, and so of every curve.
    end = max((row["at"] for row in rows), default=0.0)
    for name, some in curves.items():
        last = [row for row in rows if row["curve"] == name][-1:] if some else []
        rows += [{**row, "at": end} for row in last if row["at"] < end]
    chart = alt.Chart(alt.InlineData(values=rows), width=WIDTH, height=CURVE_HEIGHT)
    x = alt.X("at:Q", title="seconds after the failure", scale=alt.Scale(nice=False),
              axis=alt.Axis(labelFlush=False))
    y = alt.Y("n:Q", title=["partitions", "without a leader"], axis=alt.Axis(
        format="~s", tickMinStep=1))
    colour: Any = alt.value(ORANGE)
    dash: Any = alt.value([1, 0])
    if len(curves) > 1:
        names = [*curves]
        colour = alt.Color("curve:N", title=None, scale=alt.Scale(
            domain=names, range=[*VARIANT_COLOURS[: len(names)]]))
        dash = alt.StrokeDash("curve:N", title=None, scale=alt.Scale(
            domain=names, range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]] * 2))
    return alt.layer(
        chart.mark_area(interpolate="step-after", fillOpacity=0.25).encode(
            x=x, y=alt.Y("low:Q", title=["partitions", "without a leader"]), y2="high:Q",
            color=colour,
        ),
        chart.mark_line(interpolate="step-after", strokeWidth=1.8).encode(
            x=x, y=y, color=colour, strokeDash=dash,
        ),
    )


def _lanes(stages: Sequence[Row]) -> tuple[list[str], int]:
    """The controller, then brokers that are done last; and how many others there are."""
    done: dict[int, int] = {}
    for row in stages:
        if row["broker_id"] is not None:
            done[row["broker_id"]] = max(done.get(row["broker_id"], 0), row["end_us"])
    slowest = sorted(done, key=lambda broker: (-done[broker], broker))
    return ["controller", *map(str, slowest[:MOST_LANES])], max(len(done) - MOST_LANES, 0)


def _gantt(stages: Sequence[Row], lanes: Sequence[str]) -> altair.Chart:
    """Stages as bars, from the moment at which the controller finds out."""
    import altair as alt

    rows = []
    for row in stages:
        lane = "controller" if row["broker_id"] is None else str(row["broker_id"])
        if lane in lanes and row["end_us"] > row["begin_us"]:
            rows.append({
                "lane": lane, "begin": row["begin_us"] / MICROS, "end": row["end_us"] / MICROS,
                "stage": row["stage"].rpartition(": ")[2].partition(" ")[0], "what": row["stage"],
                "event": row["event"], "items": row["items"],
            })
    names = [*dict.fromkeys([
        *(name for name in STAGE_COLOURS if any(row["stage"] == name for row in rows)),
        *(row["stage"] for row in rows),
    ])]
    begin, end = min(row["begin"] for row in rows), max(row["end"] for row in rows)
    room = max((end - begin) * 0.02, 0.001)
    chart = alt.Chart(alt.InlineData(values=rows), width=WIDTH, height=LANE_HEIGHT * len(lanes))
    drawn: altair.Chart = chart.mark_bar(height=LANE_HEIGHT * 0.7, minBandSize=1, clip=True).encode(
        x=alt.X("begin:Q", title="seconds after the failure, from its detection on",
                scale=alt.Scale(domain=[begin - room, end + room], nice=False, zero=False),
                axis=alt.Axis(labelFlush=False, tickCount=8)),
        x2="end:Q",
        y=alt.Y("lane:N", sort=[*lanes], title="broker", scale=alt.Scale(domain=[*lanes]),
                axis=alt.Axis(labelOverlap="greedy", ticks=False, grid=False)),
        color=alt.Color("stage:N", title=None, scale=alt.Scale(
            domain=names, range=[STAGE_COLOURS.get(name, GREY) for name in names])),
        tooltip=[
            alt.Tooltip("lane:N", title="who"), alt.Tooltip("what:N", title="stage"),
            "event:Q", "items:Q", alt.Tooltip("begin:Q", title="begin, s", format=".6f"),
            alt.Tooltip("end:Q", title="end, s", format=".6f"),
        ],
    )
    return drawn


def timeline_sweep_picture(
    title: str, subtitle: Sequence[str], rows: Sequence[Row], names: Sequence[str]
) -> altair.TopLevelMixin:
    """When all are led, of every failure, the worst first; with its range and what it waits for.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    rows : sequence of (mapping of str to Any)
        Of `schema.TIMELINE_SWEEP`, where some are led again; the worst first.
    names : sequence of str
        Who fails, in the same order.
    """
    import altair as alt

    shown = [
        {"rank": int(place) + 1, "name": f"{names[place]}",
         "value": rows[place]["led_max_us"] / MICROS, "low": rows[place]["led_max_us_low"] / MICROS,
         "high": rows[place]["led_max_us_high"] / MICROS, "waits": rows[place]["binding"]}
        for place in curve_places(len(rows)).tolist()
    ]
    waits = [name for name in WAITS if any(row["waits"] == name for row in shown)]
    if len(rows) <= MOST_NAMED:
        x: Any = alt.X("name:N", title="who fails, the worst first",
                       sort=[row["name"] for row in shown],
                       axis=alt.Axis(labelAngle=-60, labelLimit=160))
    else:
        x = alt.X("rank:Q", title="failures, the worst first",
                  axis=alt.Axis(format="~s", tickMinStep=1),
                  scale=alt.Scale(domain=[0, len(rows) + 1], nice=False))
    y = alt.Y("value:Q", title="seconds until all are led", scale=alt.Scale(zero=False))
    colour = alt.Color("waits:N", title="the last waits longest for", scale=alt.Scale(
        domain=waits, range=[WAIT_COLOURS[name] for name in waits]),
        legend=alt.Legend(symbolOpacity=1))
    chart = alt.Chart(alt.InlineData(values=shown), width=WIDTH, height=2 * CURVE_HEIGHT)
    low = alt.Y("low:Q", title="seconds until all are led", scale=alt.Scale(zero=False))
    # So many lines would be one grey pattern.
    ranges = (
        chart.mark_rule(strokeWidth=2, opacity=0.5).encode(x=x, y=low, y2="high:Q", color=colour)
        if len(shown) <= MOST_NAMED else
        chart.mark_area(color=BLACK, fillOpacity=0.12).encode(x=x, y=low, y2="high:Q")
    )
    return styled(alt.layer(
        ranges,
        chart.mark_point(filled=True, size=45 if len(shown) <= 100 else 16, opacity=1).encode(
            x=x, y=y, color=colour, shape=alt.Shape("waits:N", title="the last waits longest for",
                                                    scale=alt.Scale(domain=waits)),
            tooltip=["name:N", alt.Tooltip("value:Q", title="all are led, s", format=".3f"),
                     alt.Tooltip("low:Q", format=".3f"), alt.Tooltip("high:Q", format=".3f")]),
    ), title, _wrapped(subtitle))


def growth_picture(
    title: str, subtitle: Sequence[str], cases: Mapping[str, Sequence[Row]]
) -> altair.TopLevelMixin:
    """When all are led by the size of the cluster; below, what the last leader waits for.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    cases : mapping of str to sequence of (mapping of str to Any)
        Rows of `schema.TIMELINE_GROWTH` by what they are called; sizes ascend.
    """
    import altair as alt

    names = [*cases]
    rows = [
        {"case": name, "partitions": row["partitions"], "value": row["led_max_us"] / MICROS,
         "low": row["led_max_us_low"] / MICROS, "high": row["led_max_us_high"] / MICROS}
        for name, some in cases.items() for row in some if row["led_max_us"]
    ]
    chart = alt.Chart(alt.InlineData(values=rows), width=WIDTH, height=2 * CURVE_HEIGHT)
    x = alt.X("partitions:Q", title="partitions", scale=alt.Scale(type="log", nice=False),
              axis=alt.Axis(format="~s", values=sorted({row["partitions"] for row in rows}),
                            labelFlush=False, labelOverlap="greedy"))
    y_title = "seconds until all are led"
    span = alt.Scale(type="log", nice=False, domain=[
        min((row["low"] for row in rows), default=1) / 1.25,
        max((row["high"] for row in rows), default=10) * 1.25,
    ])
    colour = alt.Color("case:N", title=None, scale=alt.Scale(
        domain=names, range=[*VARIANT_COLOURS[: len(names)]]))
    lines = alt.layer(
        chart.mark_area(fillOpacity=0.2).encode(
            x=x, color=colour, y=alt.Y("low:Q", title=y_title, scale=span),
            y2="high:Q"),
        chart.mark_line(point=True, strokeWidth=1.8).encode(
            x=x, color=colour,
            y=alt.Y("value:Q", title=y_title, scale=span,
                    axis=alt.Axis(format="~s", tickCount=6)),
            strokeDash=alt.StrokeDash("case:N", legend=None, scale=alt.Scale(
                domain=names, range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]))),
    )
    panels = [_waits(name, some) for name, some in cases.items()]
    grid = alt.vconcat(*(
        alt.hconcat(*panels[at : at + 2], spacing=40) for at in range(0, len(panels), 2)
    ), spacing=14)
    return styled(
        alt.vconcat(lines, grid, spacing=24).resolve_scale(color="independent"), title,
        _wrapped(subtitle),
    )


def _waits(name: str, rows: Sequence[Row]) -> altair.Chart:
    """Shares of what the last leader waits for, a bar for each size."""
    import altair as alt

    values = [
        {"size": _short(row["partitions"]), "waits": wait, "place": place,
         "seconds": row[f"{wait}_us"] / MICROS}
        for row in rows for place, wait in enumerate(WAITS)
    ]
    drawn: altair.Chart = alt.Chart(
        alt.InlineData(values=values), width=(WIDTH - 95) / 2, height=CURVE_HEIGHT * 0.7,
        title=alt.TitleParams(name, fontSize=12, fontWeight="normal", anchor="start"),
    ).mark_bar().encode(
        x=alt.X("size:O", title="partitions", sort=[_short(row["partitions"]) for row in rows],
                axis=alt.Axis(labelAngle=0, labelOverlap="greedy")),
        y=alt.Y("seconds:Q", title="share of the wait", stack="normalize",
                axis=alt.Axis(format=".0%", tickCount=4)),
        color=alt.Color("waits:N", title=None, scale=alt.Scale(
            domain=[*WAITS], range=[WAIT_COLOURS[wait] for wait in WAITS])),
        order="place:Q",
        tooltip=["size:O", "waits:N", alt.Tooltip("seconds:Q", format=".3f")],
    )
    return drawn


def _short(partitions: int) -> str:
    """A size as 300k or 1M."""
    for factor, letter in ((1_000_000, "M"), (1000, "k")):
        if partitions >= factor:
            return f"{partitions / factor:g}{letter}"
    return str(partitions)
