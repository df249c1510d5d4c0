"""What `kfast capacity forecast` answers: in which month growing loads exceed a limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console

from kfast.analysis.whatif import racks_by_broker
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.units import format_rate
from kfast.capacity.planning.capacity_forecasts import CapacityForecast
from kfast.report.answer import Answer, Document
from kfast.report.capacity_wording import load_sentence, reservation_lines, share, usage_sentence
from kfast.report.drawing import draw_rows
from kfast.report.pictures import forecast_picture
from kfast.report.sweep import failing_brokers, whole_racks
from kfast.report.tables import TableColumn, text_column
from kfast.report.wording import count, plural
from kfast.state import ClusterState
from kfast.sweeps.scenarios import Scenarios

if TYPE_CHECKING:
    import altair

__all__ = ["FORECAST_METRICS", "FORECAST_TABLES", "capacity_forecast_answer", "forecast_image"]

FORECAST_TABLES = ("months",)
FORECAST_METRICS = {
    "months_over_limit": "months in which a broker is over a limit",
    "first_month_over_limit": "the first of them",
    "over_limit_replicas": "brokers with more replicas than they may hold, in every month",
    **{f"{name}_max": f"highest share of {name} that a broker uses in any month, whatever fails"
       for name in RESOURCES},
}


def capacity_forecast_answer(
    head: Document, state: ClusterState, title: str, scenarios: Scenarios,
    forecast: CapacityForecast, growth: str,
) -> Answer:
    """The answer of `kfast capacity forecast`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`, with the loads of month 0; goes on as the document.
    growth : str
        In words.
    """
    rows = forecast.months.to_pylist()
    firsts = forecast.first_month_over_limit
    last = rows[-1]["month"]
    document = {
        **head,
        "growth": growth,
        "months": last,
        "scenarios": {"what": title, "of": len(scenarios)},
        "first_month_over_limit": dict(firsts),
        "last_load": {
            "bytes_in": int(forecast.last_load.bytes_in.sum()),
            "bytes_out": int(forecast.last_load.bytes_out.sum()),
        },
        "summary": {
            "months_over_limit": len({row["month"] for row in rows if row["over_limit"]}),
            "first_month_over_limit": min(
                (month for month in firsts.values() if month is not None), default=None
            ),
            "over_limit_replicas": forecast.over_limit_replicas,
            **{f"{name}_max": _highest(rows, name) for name in RESOURCES},
        },
        "safe": all(month is None for month in firsts.values())
        and not forecast.over_limit_replicas,
        "forecast": rows,
    }
    document["verdict"] = _verdict(document, scenarios, state)
    return Answer(document, _draw, {"months": lambda: forecast.months})


def _highest(rows: list[dict[str, Any]], name: str) -> float | None:
    shares = [row[kind] for row in rows if row["resource"] == name for kind in ("normal", "failed")]
    return max((share for share in shares if share is not None), default=None)


def _verdict(document: Document, scenarios: Scenarios, state: ClusterState) -> list[str]:
    what = f"{document['scenarios']['what']}, loads that grow by {document['growth']}"
    firsts = document["first_month_over_limit"]
    month = document["summary"]["first_month_over_limit"]
    full = document["summary"]["over_limit_replicas"]
    if month is None:
        none = "no other limit is exceeded" if full else "no broker is over a limit"
        lines = [f"{what}: {none} in {plural(document['months'], 'month')}."]
    else:
        over = [name for name in RESOURCES if firsts[name] == month]
        lines = [f"{what}: brokers are over the limit of {' and '.join(over)} in month {month}."]
        lines += [_first_month(row, document["limits"], scenarios, state)
                  for row in document["forecast"]
                  if row["month"] == month and row["resource"] in over]
        later = [f"{name} in month {firsts[name]}" for name in RESOURCES
                 if firsts[name] is not None and firsts[name] > month]
        if later:
            lines.append(f"Over a limit later: {', '.join(later)}.")
    last = document["last_load"]
    lines.append(
        f"In month {document['months']} producers write {format_rate(last['bytes_in'])} and "
        f"consumers fetch {format_rate(last['bytes_out'])}."
    )
    held = count(full, "broker", "holds", "hold")
    first = [f"{held} more replicas than allowed, in every month."] if full else []
    return [*first, *lines, *reservation_lines(document)]


def _first_month(
    row: Mapping[str, Any], limits: Mapping[str, Mapping[str, int]], scenarios: Scenarios,
    state: ClusterState,
) -> str:
    """Who is over a limit in the first month, and after which failure."""
    name = row["resource"]
    normal, failed = (limits[kind][name] for kind in ("normal", "failed"))
    if row["normal"] * 10_000 > normal or row["failed"] is None:
        usage = usage_sentence(row["normal_broker"], name, row["normal"], normal)
        return f"Without a failure: {usage}."
    down = scenarios.brokers(row["scenario"])
    what = failing_brokers(
        {"brokers": down, "whole_racks": whole_racks(state, down)}, racks_by_broker(state)
    )
    usage = usage_sentence(row["failed_broker"], name, row["failed"], failed)
    return f"After scenario {row['scenario']}, {what}: {usage}."


def forecast_image(document: Document) -> altair.TopLevelMixin:
    """Shares of capacities month by month."""
    return forecast_picture(
        f"Forecast: {document['scenarios']['what']}, {document['growth']}",
        [document["input"], load_sentence(document["load"])], document["forecast"],
        document["limits"],
    )


def _draw(console: Console, document: Document) -> None:
    months: dict[int, dict[str, Any]] = {}
    for row in document["forecast"]:
        months.setdefault(row["month"], {"month": row["month"]})[row["resource"]] = row
    columns: list[TableColumn | str] = ["month"]
    present = [name for name in RESOURCES if document["summary"][f"{name}_max"] is not None]
    columns.append(text_column("over limit", lambda month: ", ".join(
        name for name in present if month[name]["over_limit"]
    ) or None))
    for name in present:
        columns += [_share_column(name, "normal", name), _share_column(name, "failed", "at worst")]
    draw_rows(
        console, "Highest share of a capacity, without a failure and at worst of any", columns,
        list(months.values()), if_empty=True,
        style=lambda month: "red" if any(month[name]["over_limit"] for name in present) else "",
    )


def _share_column(name: str, kind: str, heading: str) -> TableColumn:
    return TableColumn(heading, value=lambda month: share(month[name][kind]))
