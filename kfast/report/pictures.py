"""Pictures of answers, here of capacity: SVG, PNG, HTML that needs neither network nor server.

One description of a figure (Vega-Lite, made by altair) gives all three forms; vl-convert draws it
without a browser. Colours are those of Okabe and Ito, which colour-blind readers tell apart; shapes
and dashes say the same, so that a picture is readable in grey print.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError, require_extra
from kfast.io.files import writing
from kfast.report.writing import check_place
from kfast.state.display import escape_control

if TYPE_CHECKING:
    import altair

__all__ = [
    "BLACK", "BLUE", "GREEN", "ORANGE", "PICTURE_ENDINGS", "RED", "SKY", "STATES", "WIDTH",
    "check_picture", "curve_places", "forecast_picture", "headroom_picture", "styled",
    "utilisation_picture", "write_picture",
]

PICTURE_ENDINGS = (".svg", ".png", ".html")
NAMES = {"nw_in": "network in", "nw_out": "network out", "cpu": "processor", "disk": "disk"}
"""How pictures call the resources."""

BLUE, SKY, ORANGE, GREEN, RED, BLACK = (
    "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#000000",
)
"""Of the palette of Okabe and Ito (2008), "Color Universal Design"."""

RESOURCE_COLOURS = {"nw_in": SKY, "nw_out": BLUE, "cpu": ORANGE, "disk": GREEN}
RESOURCE_SHAPES = {"nw_in": "circle", "nw_out": "square", "cpu": "triangle-up", "disk": "diamond"}
STATES = ("without a failure", "after the failure", "worst of any failure")
"""Series of `utilisation_picture`: bars, triangles and diamonds."""

STATE_COLOURS = dict(zip(STATES, ("#B8B8B8", RED, BLACK), strict=True))
STATE_SHAPES = dict(zip(STATES, ("square", "triangle-up", "diamond"), strict=True))
LIMIT_DASHES = {"limit": [6, 3], "limit while brokers are down": [2, 2]}
WIDTH, HEIGHT = 720, 150
FEW_BROKERS = 40
"""Of more brokers not every id fits below its bar."""

MOST_POINTS = 1500
"""Failures that a curve shows; of more, the worst third of these, the others evenly spread."""

PNG_SCALE = 2.0


class ScriptEncoder(json.JSONEncoder):
    """JSON that may stand in a script of a page: no text in it can end the script."""

    def encode(self, o: Any) -> str:
        """Write it, with every less-than sign as an escape."""
        return super().encode(o).replace("<", "\\u003c")


def check_picture(path: Path, option: str = "--plot") -> None:
    """Refuse a picture that cannot be written, before anything is computed.

    Raises
    ------
    ArgumentError
        The name ends as no picture does, or its folder does not exist.
    MissingExtraError
        What draws pictures is not installed.
    """
    if path.suffix.lower() not in PICTURE_ENDINGS:
        raise ArgumentError(
            f"{option} {path}: the name has to end in one of {', '.join(PICTURE_ENDINGS)}"
        )
    check_place(path)
    require_extra("plot", option)


def write_picture(picture: altair.TopLevelMixin, path: Path) -> None:
    """Write a picture in the form that the end of the name asks for, whole or not at all."""
    form = path.suffix.lower()
    binary, text = io.BytesIO(), io.StringIO()
    if form == ".png":
        picture.save(binary, format="png", scale_factor=PNG_SCALE)
    elif form == ".svg":
        picture.save(text, format="svg")
    else:
        picture.save(text, format="html", inline=True, json_kwds={"cls": ScriptEncoder})
    with writing(path) as file:
        file.write(binary.getvalue() or text.getvalue().encode())


def utilisation_picture(
    title: str, subtitle: Sequence[str], shares: Mapping[str, Sequence[Mapping[str, Any]]],
    limits: Mapping[str, Mapping[str, int]],
) -> altair.TopLevelMixin:
    """How full each broker is, resource by resource: bars and points, with the limits as lines.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    shares : mapping of str to sequence of (mapping of str to Any)
        Of some of `STATES` a row for each broker: broker_id, and the share of its capacity that it
        uses of each resource; None where it has failed or the capacity is not known.
    limits : mapping of str to (mapping of str to int)
        Basis points, as of `kfast.report.capacity_wording.capacity_head`.
    """
    import altair as alt

    rows = [
        {"broker": row["broker_id"], "resource": resource, "state": state, "share": row[resource]}
        for state, brokers in shares.items() for row in brokers for resource in NAMES
        if row.get(resource) is not None
    ]
    brokers = sorted({row["broker"] for row in rows})
    resources = [name for name in NAMES if any(row["resource"] == name for row in rows)]
    states = [state for state in STATES if state in shares]
    few = len(brokers) <= FEW_BROKERS
    parts = []
    for at, resource in enumerate(resources):
        last = at == len(resources) - 1
        x = alt.X("broker:O", sort=brokers, title="broker id" if last else None, axis=alt.Axis(
            labels=last, labelAngle=0 if len(brokers) <= 16 else -90, labelOverlap="greedy",
            ticks=last and few,
        ))
        y = alt.Y("share:Q", title=[NAMES[resource], "% of capacity"],
                  axis=alt.Axis(format=".0%", tickCount=5))
        own = alt.InlineData(values=[row for row in rows if row["resource"] == resource])
        state = alt.Color("state:N", title=None, scale=alt.Scale(
            domain=states, range=[STATE_COLOURS[name] for name in states],
        ))
        base = alt.Chart(own, width=WIDTH, height=HEIGHT)
        bars = base.transform_filter(alt.datum.state == STATES[0]).mark_bar().encode(
            x=x, y=y, color=state,
        )
        # The last state is an outline around the one before, which may be at the same height.
        points = [
            base.transform_filter(alt.datum.state == name).mark_point(
                filled=name != STATES[2], size=size if few else size / 4, opacity=1,
            ).encode(
                x=x, y=y, color=state,
                shape=alt.Shape("state:N", title=None, scale=alt.Scale(
                    domain=states, range=[STATE_SHAPES[name] for name in states],
                )),
            )
            for name, size in ((STATES[1], 50), (STATES[2], 190)) if name in states
        ]
        parts.append(alt.layer(bars, *points, *_limit_lines(resource, limits)))
    return styled(alt.vconcat(*parts, spacing=12).resolve_scale(
        color="shared", shape="shared", strokeDash="shared",
    ), title, subtitle)


def _limit_lines(
    resource: str, limits: Mapping[str, Mapping[str, int]]
) -> list[altair.LayerChart | altair.Chart]:
    """Lines of the limits of a resource, each with its figure at the right."""
    import altair as alt

    lines: list[altair.LayerChart | altair.Chart] = []
    normal, failed = (limits[kind][resource] / 10_000 for kind in ("normal", "failed"))
    names = LIMIT_DASHES if failed != normal else [*LIMIT_DASHES][:1]
    for name, share in zip(names, (normal, failed), strict=False):
        rule = alt.Chart(alt.InlineData(values=[{
            "share": share, "name": name, "text": f"{100 * share:g} %",
        }]))
        lines.append(rule.mark_rule(color=BLACK, strokeWidth=1.2).encode(
            y="share:Q", strokeDash=alt.StrokeDash("name:N", title=None, scale=alt.Scale(
                domain=[*LIMIT_DASHES], range=[*LIMIT_DASHES.values()],
            )),
        ))
        lines.append(rule.mark_text(align="left", dx=4, fontSize=10).encode(
            x=alt.value(WIDTH), y="share:Q", text="text:N",
        ))
    return lines


def headroom_picture(
    title: str, subtitle: Sequence[str], headroom: npt.NDArray[np.float64], binding: Sequence[str],
    baseline: float | None,
) -> altair.TopLevelMixin:
    """Headroom of every failure, the worst first, and which resource limits it.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    headroom : (n,) float64
        Of every failure that has one.
    binding : sequence of str
        The resource that is nearest to its limit, in the same order.
    baseline : float or None
        Headroom without a failure.
    """
    import altair as alt

    order = np.argsort(headroom, kind="stable")
    places = curve_places(order.size)
    rows = [
        {"rank": int(place) + 1, "headroom": float(headroom[order[place]]),
         "resource": NAMES[binding[int(order[place])]]}
        for place in places.tolist()
    ]
    names = [name for name in NAMES if any(row["resource"] == NAMES[name] for row in rows)]
    labels = [NAMES[name] for name in names]
    x = alt.X("rank:Q", title="failures, the worst first",
              axis=alt.Axis(format="~s", tickMinStep=1),
              scale=alt.Scale(domain=[0, order.size + 1], nice=False))
    y = alt.Y("headroom:Q", title="headroom, % of the limit", axis=alt.Axis(format=".0%"))
    chart = alt.Chart(alt.InlineData(values=rows), width=WIDTH, height=2 * HEIGHT)
    points = chart.mark_point(filled=True, size=45 if len(rows) <= 100 else 18, opacity=1).encode(
        x=x, y=y,
        color=alt.Color("resource:N", title="nearest to its limit", scale=alt.Scale(
            domain=labels, range=[RESOURCE_COLOURS[name] for name in names],
        )),
        shape=alt.Shape("resource:N", title="nearest to its limit", scale=alt.Scale(
            domain=labels, range=[RESOURCE_SHAPES[name] for name in names],
        )),
    )
    marks = [(0.0, "limit reached", [1, 0])]
    if baseline is not None:
        marks.append((baseline, "without a failure", [6, 3]))
    lines: list[Any] = []
    for value, text, dash in marks:
        data = alt.Chart(alt.InlineData(values=[{"headroom": value, "text": text}]))
        lines.append(data.mark_rule(color=BLACK, strokeWidth=1.2, strokeDash=dash).encode(y=y))
        lines.append(data.mark_text(align="left", dx=4, fontSize=10).encode(
            x=alt.value(WIDTH), y=y, text="text:N",
        ))
    return styled(alt.layer(points, *lines), title, subtitle)


def forecast_picture(
    title: str, subtitle: Sequence[str], months: Sequence[Mapping[str, Any]],
    limits: Mapping[str, Mapping[str, int]],
) -> altair.TopLevelMixin:
    """Highest share of each capacity month by month, with the limits as lines.

    Parameters
    ----------
    title : str
    subtitle : sequence of str
    months : sequence of (mapping of str to Any)
        Rows of `schema.CAPACITY_FORECAST`.
    limits : mapping of str to (mapping of str to int)
        Basis points, as of `kfast.report.capacity_wording.capacity_head`.
    """
    import altair as alt

    states = [STATES[0], STATES[2]]
    rows = [
        {"month": row["month"], "resource": row["resource"], "state": state, "share": row[kind]}
        for row in months for state, kind in zip(states, ("normal", "failed"), strict=True)
        if row[kind] is not None
    ]
    resources = [name for name in NAMES if any(row["resource"] == name for row in rows)]
    colours = [BLUE, BLACK]
    parts = []
    for at, resource in enumerate(resources):
        last = at == len(resources) - 1
        own = alt.InlineData(values=[row for row in rows if row["resource"] == resource])
        lines = alt.Chart(own, width=WIDTH, height=HEIGHT).mark_line(point=True).encode(
            x=alt.X("month:Q", title="months of growth" if last else None,
                    axis=alt.Axis(tickMinStep=1, labels=last)),
            y=alt.Y("share:Q", title=[NAMES[resource], "% of capacity"],
                    axis=alt.Axis(format=".0%", tickCount=5)),
            color=alt.Color("state:N", title=None, scale=alt.Scale(domain=states, range=colours)),
            shape=alt.Shape("state:N", title=None, scale=alt.Scale(
                domain=states, range=[STATE_SHAPES[state] for state in states],
            )),
        )
        parts.append(alt.layer(lines, *_limit_lines(resource, limits)))
    return styled(alt.vconcat(*parts, spacing=12).resolve_scale(
        color="shared", shape="shared", strokeDash="shared",
    ), title, subtitle)


def curve_places(n: int) -> npt.NDArray[np.int64]:
    """Places of a curve that are shown."""
    if n <= MOST_POINTS:
        return np.arange(n)
    first = MOST_POINTS // 3
    rest = np.linspace(first, n - 1, MOST_POINTS - first).round().astype(np.int64)
    return np.unique(np.concatenate([np.arange(first), rest]))


def styled(
    picture: altair.VConcatChart | altair.LayerChart | altair.FacetChart, title: str,
    subtitle: Sequence[str],
) -> altair.TopLevelMixin:
    """The picture with its title, on white, with a legend below."""
    import altair as alt

    drawn: altair.TopLevelMixin = picture.properties(
        title=alt.TitleParams(
            escape_control(title), subtitle=[*map(escape_control, subtitle)], anchor="start",
            offset=10,
        ),
        background="white", padding=12,
    ).configure_legend(orient="bottom", labelLimit=300).configure_view(
        stroke="#DDDDDD"
    ).configure_axis(
        gridColor="#E8E8E8", labelFontSize=11, titleFontSize=12, titleFontWeight="normal",
    )
    return drawn
