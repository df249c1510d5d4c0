"""How long restoration takes, in the answer of `kfast capacity sweep --restore`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from kfast.capacity import Restoration
from kfast.capacity.failures.worst_failures import SlowestRestorations
from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.io.files import abbreviate
from kfast.report.answer import Document
from kfast.report.capacity_wording import share_column
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import out_of, plural, time_span
from kfast.sweeps.scenarios import Scenarios

__all__ = [
    "RestorationRows", "draw_slowest", "heal_column", "restoration_document", "restoration_lines",
    "restoration_note",
]

_MODES = {
    "return": "failed brokers come back with their disks, after {}",
    "replace": "failed brokers come back empty",
    "redistribute": "replicas of failed brokers are made on others, {}",
}


@dataclass(frozen=True)
class RestorationRows:
    """How failed brokers are restored, and what a sweep has found."""

    settings: Restoration
    slowest: SlowestRestorations


def restoration_document(rows: RestorationRows, scenarios: Scenarios) -> Document:
    """What the answer says about restoration."""
    settings, slowest = rows.settings, rows.slowest
    return {
        "restore": settings.mode,
        "down_for_seconds": settings.down_for_seconds if settings.mode == "return" else None,
        "throttle": settings.follower_throttle,
        "round_trip_seconds": settings.round_trip_seconds,
        "fetchers": None if settings.round_trip_seconds is None else settings.fetchers,
        "spare_share": settings.spare_share,
        "failures_without_end": slowest.n_endless,
        "failures_without_end_at_any_throttle": slowest.n_hopeless,
        "stuck_brokers": sorted(slowest.stuck_brokers),
        "throttle_needed": slowest.throttle_needed or None,
        "failures_over_limit_restored": slowest.n_over,
        "slowest": slowest.table(scenarios).slice(0, slowest.top).to_pylist(),
    }


def restoration_note(settings: Restoration) -> str:
    """How failed brokers are restored, in a sentence."""
    how = _MODES[settings.mode].format(
        time_span(settings.down_for_seconds * 1000) if settings.mode == "return"
        else "where most room is" if settings.new_replicas is None else "as the plan says"
    )
    throttle, trip = settings.follower_throttle, settings.round_trip_seconds
    return (
        f"restoration: {how}; copies get {100 * settings.spare_share:g} % of what networks and "
        f"disks have free, "
        f"{'no throttle' if throttle is None else f'with a throttle of {format_rate(throttle)}'}; "
        + ("fetchers set no limit, for no round trip is given" if trip is None else
           f"fetchers {settings.fetchers}, round trip {1000 * trip:g} ms")
    )


def restoration_lines(
    rows: RestorationRows, scenarios: Scenarios, name: Callable[[list[int]], str]
) -> list[str]:
    """What the verdict says: the longest restoration, and brokers that are stuck."""
    slowest = rows.slowest
    lines = []
    if slowest.n_endless:
        lines += _stuck_lines(slowest)
    for row in slowest.table(scenarios).slice(0, 1).to_pylist():
        what = f"scenario {row['scenario']}, {name(row['brokers'])}"
        if not row["stuck_brokers"]:
            lines.append(f"The longest restoration is that of {what}: {_sentence(row)}")
    summary = slowest.summary
    if summary["bytes_without_source"]:
        lines.append(
            f"Lost, at most: {format_bytes(int(summary['bytes_without_source']))} of replicas "
            "whose partition has no leader left to copy from."
        )
    if summary["bytes_without_place"]:
        lines.append(
            f"Not made again, at most: {format_bytes(int(summary['bytes_without_place']))} of "
            "replicas for which no broker is left that does not hold the partition."
        )
    if rows.settings.mode == "redistribute":
        lines.append(_limits_line(slowest))
    return lines


def _stuck_lines(slowest: SlowestRestorations) -> list[str]:
    n = slowest.n_endless
    brokers = abbreviate(sorted(slowest.stuck_brokers))
    failures = out_of(n, slowest.n_failures, "failure", "is", "are")
    stuck = plural(len(slowest.stuck_brokers), "broker")
    first = f"{failures} NEVER restored: copies get no faster than producers write on {stuck}"
    lines = [f"{first}: {brokers}."]
    if slowest.throttle_needed:
        of = "" if not slowest.n_hopeless else f" of {n - slowest.n_hopeless} of them"
        lines.append(
            f"The smallest throttle that makes progress{of} is {slowest.throttle_needed} B/s "
            f"({format_rate(slowest.throttle_needed)}); only what a throttle has above that copies."
        )
    if slowest.n_hopeless:
        lines.append(
            f"No throttle is enough for {slowest.n_hopeless} of them: networks, disks or fetchers "
            "have nothing left."
        )
    return lines


def _sentence(row: Row) -> str:
    """How much is copied, and how long that takes."""
    if not row["restore_bytes"]:
        return "nothing has to be copied."
    size, bound = format_bytes(row["restore_bytes"]), _span(row["restore_seconds_bound"])
    text = f"{size} take at least {bound}"
    if row["restore_seconds_fair"] is None:
        return f"{text}; between so many brokers no fair time is computed."
    text += f", {_span(row['restore_seconds_fair'])} where fetchers share networks fairly"
    if row["restore_seconds_min_isr"]:
        text += (
            "; partitions under min ISR have a replica more after "
            f"{_span(row['restore_seconds_min_isr'])}"
        )
    return f"{text}."


def _limits_line(slowest: SlowestRestorations) -> str:
    """Whether brokers carry for good what they have taken over."""
    if not slowest.n_over:
        what = "no failure leaves a broker"
    else:
        failures = out_of(slowest.n_over, slowest.n_failures, "failure", "leaves", "leave")
        what = f"{failures} brokers"
    return f"With the new replicas, {what} over a limit that holds without a failure."


def _span(seconds: float) -> str:
    return time_span(round(seconds * 1000))


def _healed(row: Row) -> str:
    """The fair time, or the bound where there is none."""
    if row["stuck_brokers"]:
        return "never"
    if row["restore_seconds_fair"] is None:
        return f"> {_span(row['restore_seconds_bound'])}"
    return _span(row["restore_seconds_fair"])


def heal_column() -> TableColumn:
    """A column of fair times."""
    return TableColumn("restored_after", value=_healed)


def _seconds(name: str, heading: str) -> TableColumn:
    def value(row: Row) -> Any:
        seconds = row[f"restore_seconds_{name}"]
        return None if seconds is None else _span(seconds)

    return TableColumn(heading, value=value)


def draw_slowest(console: Console, document: Document) -> None:
    """The failures whose restoration takes longest."""
    restoration = document["restoration"]
    rows = restoration["slowest"]
    columns: list[TableColumn | str] = [
        "scenario", text_column("brokers"),
        TableColumn("to copy", value=lambda row: format_bytes(row["restore_bytes"])),
        TableColumn("at least", value=lambda row: (
            "never" if row["stuck_brokers"] else _span(row["restore_seconds_bound"]))),
        _seconds("fair", "shared_fairly"), _seconds("half", "half of_the bytes"),
        _seconds("min_isr", "min ISR"),
    ]
    if restoration["restore"] == "redistribute":
        columns += [
            *(share_column(f"{name}_max_restored", f"then {name}_max")
              for name in ("nw_in", "nw_out", "disk")),
            TableColumn("then over_a limit", value="over_limit_restored"),
        ]
    if restoration["failures_without_end"]:
        columns.append(text_column("stuck", "stuck_brokers"))
    draw_rows(console, f"Longest restorations ({len(rows)})", columns, rows)
