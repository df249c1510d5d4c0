"""The answer of `kfast timeline` about many failures: the worst of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from kfast.analysis.whatif import racks_by_broker
from kfast.report.answer import Answer, Document, getters, head
from kfast.report.capacity_wording import add_load, load_warnings
from kfast.report.drawing import draw_rows
from kfast.report.sweep import failing_brokers, whole_racks
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.timeline import TIMELINE_METRICS, in_seconds, refused_columns, time_range
from kfast.report.timeline_pictures import timeline_sweep_picture
from kfast.report.wording import out_of, plural
from kfast.timelines.failover import NOT_MODELLED
from kfast.timelines.failure_sweep import WORST_BY, TimelineSweep

if TYPE_CHECKING:
    import altair

__all__ = ["TIMELINE_SWEEP_TABLES", "timeline_sweep_answer", "timeline_sweep_image"]

TIMELINE_SWEEP_TABLES = ("summary", "parameters")


def timeline_sweep_answer(source: str, sweep: TimelineSweep, title: str, top: int) -> Answer:
    """The answer of `kfast timeline` about the failures of a sweep."""
    racks = racks_by_broker(sweep.state)

    def shown(row: Row) -> Row:
        whole = whole_racks(sweep.state, row["brokers"])
        return {**row, "failing": failing_brokers({**row, "whole_racks": whole}, racks)}

    first = {by: [shown(row) for row in sweep.worst(by).to_pylist()] for by in WORST_BY}
    document = {
        **head("timeline", source, sweep.state),
        "scenarios": {"what": title, "of": sweep.summary.num_rows},
        "metrics": TIMELINE_METRICS,
        # Where a measure occurs in no failure it has no largest value.
        "summary": {name: rows[0][name] if (rows := sweep.worst(name).to_pylist()) else None
                    for name in TIMELINE_METRICS},
        "worst_by": {by: rows[0] if rows else None for by, rows in first.items()},
        "worst": [shown(row) for row in sweep.worst(top=top).to_pylist()],
    }
    n_offline = sum(n > 0 for n in sweep.summary["offline_partitions"].to_pylist())
    document["verdict"] = _verdict(document, n_offline)
    document["assumptions"] += sweep.assumptions
    document["notes"].append(NOT_MODELLED)
    if sweep.question.load is not None:
        add_load(document, sweep.question.load)
        document["verdict"] += load_warnings(document)
    return Answer(document, _draw, getters(sweep, TIMELINE_SWEEP_TABLES))


def timeline_sweep_image(document: Document, sweep: TimelineSweep) -> altair.TopLevelMixin:
    """When all are led, of every failure, as a picture."""
    racks = racks_by_broker(sweep.state)
    rows = sweep.worst(top=sweep.summary.num_rows).to_pylist()
    names = [
        failing_brokers(
            {**row, "whole_racks": whole_racks(sweep.state, row["brokers"])}, racks
        ) for row in rows
    ]
    title = f"{document['scenarios']['what']} of {document['input']}"
    return timeline_sweep_picture(
        f"{title}, {document['controller']['name']}", document["verdict"], rows, names
    )


def _verdict(document: Document, n_offline: int) -> list[str]:
    what, n = document["scenarios"]["what"], document["scenarios"]["of"]
    slowest, longest, offline = (document["worst_by"][by] for by in WORST_BY)
    if slowest is None:
        return [f"{what}: in {plural(n, 'failure')} nobody is led again."]
    back = (
        f"{what}: the last leader is back {time_range(slowest, 'led_max_us')} after the worst of "
        f"{plural(n, 'failure')}, scenario {slowest['scenario']}: {slowest['failing']}; the last "
        f"waits longest for {slowest['binding']}."
    )
    least, most = (longest[f"leaderless_partition_s_{end}"] for end in ("low", "high"))
    waited = (
        f"The most time without a leader is {longest['leaderless_partition_s']} partition-seconds "
        f"({least} to {most}), in scenario {longest['scenario']}: {longest['failing']}."
    )
    lines = [back, waited]
    if n_offline:
        takes = out_of(n_offline, n, "failure", "takes", "take")
        lines.append(
            f"Offline for good, and in no time here: {takes} partitions offline, at most "
            f"{offline['offline_partitions']}, in scenario {offline['scenario']}: "
            f"{offline['failing']}."
        )
    return lines


def _draw(console: Console, document: Document) -> None:
    def time(title: str, name: str) -> TableColumn:
        return TableColumn(title, value=lambda row: in_seconds(row[name]))

    draw_rows(console, f"Worst failures ({len(document['worst'])}), by when all are led again", [
        "scenario", text_column("failing"), time("found", "detect_us"),
        time("half are led", "led_p50_us"), time("all are led", "led_max_us"),
        time("low", "led_max_us_low"), time("high", "led_max_us_high"),
        TableColumn("partition-seconds", value="leaderless_partition_s"),
        *refused_columns(document["worst"]),
        TableColumn("offline", value="offline_partitions"), text_column("waits for", "binding"),
    ], document["worst"], if_empty=True)
