"""The answer of `kfast timeline-restart`: how long a rolling restart lasts, and what it costs."""

from __future__ import annotations

from rich.console import Console

from kfast.report.answer import Answer, Document, getters, head
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.timeline import in_seconds, time_range
from kfast.report.wording import broker_ranges, plural
from kfast.schema import RESTART_SUMS
from kfast.timelines.failover import NOT_MODELLED
from kfast.timelines.rolling_restart import RestartTimeline

__all__ = ["TIMELINE_RESTART_METRICS", "TIMELINE_RESTART_TABLES", "timeline_restart_answer"]

TIMELINE_RESTART_TABLES = ("batches", "summary", "parameters")
TIMELINE_RESTART_METRICS = {
    "duration_us": "from the begin of the plan to the end of its last batch",
    "batches": "batches of the plan",
    "refusing_batches": "batches in which any partition falls under min ISR",
    "offline_partitions": "partitions without a leader until their brokers return",
    "under_min_partitions": "partitions that fall under min ISR",
    **RESTART_SUMS,
}
RETURN = "leaders that moved return with the next preferred election, which is not in these times"


def timeline_restart_answer(source: str, restart: RestartTimeline) -> Answer:
    """The answer of `kfast timeline-restart`."""
    row = restart.summary.to_pylist()[0]
    document = {
        **head("timeline-restart", source, restart.state),
        "summary": row,
        "metrics": TIMELINE_RESTART_METRICS,
        "settle_us": restart.settle_us,
        "batches": restart.batches.to_pylist(),
    }
    document["verdict"] = _verdict(document, row)
    document["assumptions"] += restart.assumptions
    document["notes"] += [RETURN, NOT_MODELLED]
    return Answer(document, _draw, getters(restart, TIMELINE_RESTART_TABLES))


def _verdict(document: Document, row: Row) -> list[str]:
    batches = document["batches"]
    longest = max(batches, key=lambda one: one["ends_us"] - one["starts_us"])
    took = in_seconds(longest["ends_us"] - longest["starts_us"])
    restart = "restarts" if row["brokers"] == 1 else "restart"
    lines = [(
        f"{plural(row['brokers'], 'broker')} {restart} in "
        f"{plural(row['batches'], 'batch', 'batches')}, which take "
        f"{time_range(row, 'duration_us')}; the longest is batch {longest['batch']}: "
        f"{took}, most of it {longest['binding']}."
    )]
    low, high = (row[f"leaderless_partition_s_{end}"] for end in ("low", "high"))
    lines.append(
        f"{plural(row['moved_partitions'], 'leader')} moved, with {row['leaderless_partition_s']} "
        f"({low} to {high}) partition-seconds without a leader."
    )
    if row["offline_partitions"]:
        lines.append(
            f"{plural(row['offline_partitions'], 'partition')} without a leader until brokers "
            f"return: {row['offline_partition_s']} partition-seconds."
        )
    refusing = [str(one["batch"]) for one in batches if one["under_min_partitions"]]
    if refusing:
        lines.append(
            f"{plural(row['under_min_partitions'], 'partition')} under min ISR, for "
            f"{row['under_min_partition_s']} partition-seconds, in "
            f"{'batch' if len(refusing) == 1 else 'batches'} {', '.join(refusing)}."
        )
    return lines


def _draw(console: Console, document: Document) -> None:
    def time(title: str, name: str) -> TableColumn:
        return TableColumn(title, value=lambda row: in_seconds(row[name]))

    brokers = text_column("brokers", lambda row: broker_ranges(row["brokers"]))
    draw_rows(console, "Batches: when each stage ends, after the begin of the plan", [
        "batch", brokers, time("begin", "starts_us"), time("may stop", "released_us"),
        time("stopped", "stopped_us"), time("booted", "booted_us"),
        time("recovered", "recovered_us"), time("caught up", "caught_up_us"),
        time("in sync", "in_sync_us"), time("low", "in_sync_us_low"),
        time("high", "in_sync_us_high"),
    ], document["batches"])
    draw_rows(console, "Batches: what they cost partitions", [
        "batch", TableColumn("moved", value="moved_partitions"),
        TableColumn("leaderless, partition-seconds", value="leaderless_partition_s"),
        TableColumn("offline", value="offline_partitions"),
        TableColumn("under min ISR", value="under_min_partitions"),
        TableColumn("partition-seconds under it", value="under_min_partition_s"),
    ], document["batches"])
