"""Texts of what `kfast restart` and `kfast risk` answer."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kfast.cli.drawing import (
    Document,
    Row,
    cell,
    draw_head,
    draw_table,
    new_table,
    number,
    titled,
)
from kfast.readiness import CAUSES

__all__ = ["draw_restart", "draw_risk"]

RUN = 3
"""So many ids in a row are written as a range."""

FEWEST_BROKERS = 16


def draw_restart(console: Console, document: Document) -> None:
    """Draw what `kfast restart` answers."""
    draw_head(console, document, _restart_title(document["question"]))
    for line in _restart_lines(document):
        console.print(Text(line))
    _draw_batches(console, document)
    _draw_forbidden(console, document)
    topics = document["topics"]
    if topics:
        total = document["topics_listed_of"]
        title = f"Topics that no order can satisfy ({len(topics)} of {total})"
        columns = ("topic", "cause", "partitions", "replicas", "min_insync_replicas", "set_by")
        table = new_table(title, columns, left=2)
        for row in topics:
            table.add_row(
                row["topic"], row["cause"], str(row["partitions"]), str(row["replication_factor"]),
                str(row["min_insync_replicas"]), row["set_by"],
            )
        draw_table(console, table)
        _draw_partitions(console, document)


def _restart_title(question: Document) -> str:
    margin = question["isr_margin"]
    how = "rack by rack" if question["by_rack"] else "in as few batches as can be"
    more = f", with {margin} in-sync replica{'' if margin == 1 else 's'} to spare" if margin else ""
    return f"Restart every broker, {how}{more}."


def _restart_lines(document: Document) -> list[str]:
    """The answer in sentences."""
    summary, seconds = document["summary"], document["question"]["seconds_per_broker"]
    n, bound = summary["batches"], summary["lower_bound"]
    proof = "no plan has fewer" if n == bound else f"fewer than {bound} are impossible"
    lines = [f"{summary['brokers']} brokers in {n} batch{'' if n == 1 else 'es'}; {proof}."]
    if seconds is not None:
        lines.append(
            f"At {seconds:g} s per broker this takes {document['total_s']:g} s; one broker at a "
            f"time {document['one_by_one_s']:g} s."
        )
    lines.append(
        f"Now, alone: {summary['may_restart']} brokers may be restarted, "
        f"{summary['may_not_restart']} may not."
    )
    causes = [
        f"{summary[f'unsatisfiable_{name}']} because {meaning}"
        for name, meaning in CAUSES.items()
        if summary[f"unsatisfiable_{name}"]
    ]
    if causes:
        lines.append(
            f"No order satisfies {summary['unsatisfiable']} partitions: " + "; ".join(causes) + "."
        )
    return lines


def _draw_batches(console: Console, document: Document) -> None:
    if not document["batches"]:
        return
    timed = document["question"]["seconds_per_broker"] is not None
    columns = ["batch", "brokers", "racks", "newly_offline", "newly_under_min_isr"]
    table = new_table("Batches", [*columns, *(["starts_after_s"] if timed else [])])
    table.columns[1].justify = table.columns[2].justify = "left"
    for row in document["batches"]:
        cells = [
            str(row["batch"]), ids(row["brokers"]), ",".join(row["racks"]) or "-",
            number("newly_offline", row["newly_offline"]),
            number("newly_under_min_isr", row["newly_under_min_isr"]),
        ]
        table.add_row(*cells, *([f"{row['starts_after_s']:g}"] if timed else []))
    draw_table(console, table)


def _draw_forbidden(console: Console, document: Document) -> None:
    """Brokers that may not be restarted now, the worst first."""
    rows = [row for row in document["brokers"] if row["forbidding"]]
    rows.sort(key=lambda row: (-row["last_in_sync"], -row["forbidding"], row["broker_id"]))
    if not rows:
        return
    shown = rows[: max(document["top"], FEWEST_BROKERS)]
    causes = [name for name in CAUSES if any(row[f"forbidding_{name}"] for row in rows)]
    title = titled("Brokers that may not be restarted now", shown, rows)
    columns = ("broker_id", "rack", "in_sync", "last_in_sync", "forbidding", *causes)
    table = new_table(title, columns)
    for row in shown:
        cells = (cell(row[name]) for name in columns[:5])
        table.add_row(*cells, *(str(row[f"forbidding_{name}"]) for name in causes))
    draw_table(console, table)


def _draw_partitions(console: Console, document: Document) -> None:
    rows = document["partitions"]
    title = f"Their partitions ({len(rows)} of {document['partitions_listed_of']})"
    columns = ("topic", "partition", "replicas", "isr", "min_isr", "spare", "cause")
    table = new_table(title, columns, left=1)
    for row in rows:
        table.add_row(*(cell(row[name]) for name in columns))
    draw_table(console, table)


def ids(brokers: Sequence[int]) -> str:
    """Ascending broker ids, runs of them as ranges."""
    runs: list[list[int]] = []
    for broker in brokers:
        if runs and runs[-1][-1] + 1 == broker:
            runs[-1].append(broker)
        else:
            runs.append([broker])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) >= RUN else map(str, run)
    return ", ".join(parts)


def draw_risk(console: Console, document: Document) -> None:
    """Draw what `kfast risk` answers."""
    draw_head(console, document, "How far failures reach.")
    _draw_chances(console, document)
    for name, title in (("triple", "Worst three brokers to fail together"),
                        ("pair", "Worst two brokers to fail together"),
                        ("broker", "Worst brokers to fail alone")):
        _draw_worst(console, title, document[f"worst_{name}s"])
    table = new_table("Copysets", ("replication_factor", "partitions", "copysets",
                                   "possible_copysets"))
    for row in document["copysets"]:
        table.add_row(str(row["replication_factor"]), str(row["partitions"]),
                      str(row["copysets"]), f"{row['possible_copysets']:.15g}")
    draw_table(console, table)
    _draw_scatter(console, document)


def _draw_chances(console: Console, document: Document) -> None:
    """In percent: probabilities near 0 and near 1 keep the digits that matter."""
    rows: Sequence[Row] = document["chances"]
    drawn = [row for row in rows if row["method"] != "exact"]
    columns = ["brokers_down", "true of some_partition", "chance_percent", "if random_percent",
               "mean_partitions"]
    if drawn:
        columns.insert(3, "interval_percent")
    if not rows:
        return
    title = "Chances when brokers fail at random"
    table = new_table(title, columns)
    table.columns[1].justify = "left"
    for row in rows:
        low, high = row["any_probability_low"], row["any_probability_high"]
        interval = "exact" if row["method"] == "exact" else f"{percent(low)}-{percent(high)}"
        table.add_row(
            str(row["brokers_down"]), row["metric"], percent(row["any_probability"]),
            *([interval] if drawn else []), percent(row["random_probability"]),
            f"{row['mean_partitions']:.4g}",
        )
    draw_table(console, table)
    if drawn:
        console.print(
            f"Intervals have {100 * document['confidence']:g} % confidence, from "
            f"{drawn[0]['scenarios']} drawn failures."
        )


def percent(probability: float) -> str:
    """A probability in percent, rounded, but never to 0 or 100 unless it is that."""
    if 0.5 < probability < 1:
        digits = 2
        while digits < 14 and float(f"{100 * probability:.{digits}f}") == 100:
            digits += 1
        return f"{100 * probability:.{digits}f}"
    return f"{100 * probability:.4g}"


def _draw_worst(console: Console, title: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    columns = ("brokers", "racks", "newly_offline", "no live_replica", "under_min_isr", "topics")
    table = new_table(title, columns, left=2)
    table.columns[-1].justify = "left"
    for row in rows:
        listed = [f"{topic['topic']} {topic['partitions']}" for topic in row["topics"]]
        more = row["n_topics"] - len(listed)
        said = ", ".join(listed) + (f", {more} more" if more > 0 else "")
        known = [rack if rack is not None else "-" for rack in row["racks"]]
        racks = ",".join(known) if set(known) != {"-"} else "-"
        table.add_row(
            ", ".join(map(str, row["brokers"])), racks,
            number("newly_offline", row["newly_offline_if_clean"]),
            number("no_live_replica", row["newly_no_live_replica"]),
            number("under_min_isr", row["newly_under_min_isr"]),
            said if row["because"] == "offline_if_clean" else f"under min ISR: {said}",
        )
    draw_table(console, table)


def _draw_scatter(console: Console, document: Document) -> None:
    rows = sorted(document["brokers"], key=lambda row: (-row["scatter_width"], row["broker_id"]))
    shown = rows[: max(document["top"], FEWEST_BROKERS)]
    columns = ("broker_id", "rack", "partitions", "copysets", "scatter_width",
               "closest_broker_id", "closest_partitions")
    table = new_table(titled("Brokers by scatter width", shown, rows), columns)
    for row in shown:
        table.add_row(*(cell(row[name]) for name in columns))
    draw_table(console, table)
