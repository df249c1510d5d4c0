"""What `kfast sweep` answers: counts over all scenarios, and why the worst are the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from kfast.analysis.whatif import racks_by_broker, registrations
from kfast.analysis.worst_scenarios import SORTED_BY, WorstScenarios, scenario_reasons
from kfast.report.answer import Answer, Document, head
from kfast.report.drawing import draw_rows, number
from kfast.report.tables import TableColumn, plain, text_column
from kfast.report.wording import brokers_named, count, out_of, plural
from kfast.state import ClusterState
from kfast.sweeps.scenarios import Scenarios

__all__ = ["failing_brokers", "sweep_answer", "whole_racks"]

REASONS = {"newly_offline": "newly offline", "newly_under_min_isr": "newly under min ISR"}
"""How each reason of `scenario_reasons` is worded."""


def sweep_answer(
    source: str, state: ClusterState, title: str, scenarios: Scenarios,
    worst: WorstScenarios, rows_file: str | None,
) -> Answer:
    """The answer of `kfast sweep`."""
    racks = racks_by_broker(state)
    rows = worst.table(scenarios).to_pylist()
    for row in rows:
        row["racks"] = sorted({rack for b in row["brokers"] if (rack := racks[b]) is not None})
        row["whole_racks"] = whole_racks(state, row["brokers"])
        row["reasons"] = scenario_reasons(state, row["brokers"]) if (
            row["offline"] or row["under_min_isr"]
        ) else []
    document = {
        **head("sweep", source, state),
        "scenarios": {"what": title, "of": len(scenarios), "counted": worst.n},
        "rows": rows_file,
        "counts": worst.counts,
        "summary": worst.summary,
        "n_worse": dict(worst.n_worse),
        "worst": rows,
    }
    document["verdict"] = _verdict(document, worst.n_failures, racks)
    return Answer(document, _draw, {"worst": lambda: worst.table(scenarios)})


def _verdict(document: Document, n: int, racks: Mapping[int, str | None]) -> list[str]:
    what, n_worse = document["scenarios"]["what"], document["n_worse"]
    offline, refused, unclean = (
        n_worse[name] for name in ("offline", "under_min_isr", "unclean")
    )
    most = document["summary"]["unclean"]
    elect = out_of(unclean, n, "scenario", "elects", "elect")
    lost = "records that only other replicas had are lost"
    loss = [f"{elect} leaders outside the ISR, {most} at most: {lost}."] if unclean else []
    if not offline and not refused:
        none = "the one scenario takes no" if n == 1 else f"none of {n} scenarios takes any"
        return [f"{what}: {none} partition offline or under min ISR.", *loss]
    first = (
        f"{what}: {out_of(offline, n, 'scenario', 'takes', 'take')} partitions offline; in "
        f"{refused or 'none'} some fall under min ISR, where acks=all is refused."
    )
    return [first, *(
        f"The worst is scenario {row['scenario']}, {failing_brokers(row, racks)}: "
        f"{count(row['offline'], 'partition', 'is offline', 'are offline')}, "
        f"{row['under_min_isr'] or 'none'} under min ISR." for row in document["worst"][:1]
    ), *loss]


def failing_brokers(row: Mapping[str, Any], racks: Mapping[int, str | None]) -> str:
    """The brokers of a scenario in a sentence, by the racks that fail whole."""
    if not row["brokers"]:
        return "no broker"
    return brokers_named(row["brokers"], row["whole_racks"], racks)


def whole_racks(state: ClusterState, brokers: Sequence[int]) -> list[str]:
    """Racks all of whose registered brokers are among some brokers."""
    racks, up = racks_by_broker(state), registrations(state)
    known = {rack for broker, rack in racks.items() if up[broker] and rack is not None}
    spared = {rack for broker, rack in racks.items() if up[broker] and broker not in brokers}
    return sorted(known.difference(spared))


def _draw(console: Console, document: Document) -> None:
    worst = document["worst"]
    draw_rows(console, f"Worst scenarios ({len(worst)})", [
        "scenario", text_column("brokers"), *SORTED_BY, "fullest_broker_leaders",
        text_column("racks"),
    ], worst, if_empty=True)
    for row in worst:
        for reason in row["reasons"]:
            console.print(plain(_sentence(row, reason)))
    draw_rows(console, "All scenarios but the baseline", [
        text_column("count"), "baseline", "mean",
        TableColumn("most", value=lambda row: number(row["count"], row["most"])),
        TableColumn("in scenario", value="in_scenario"),
    ], document["counts"])


def _sentence(row: Mapping[str, Any], reason: Mapping[str, Any]) -> str:
    """Why a scenario is bad, in one line."""
    what = REASONS[reason["reason"]]
    topics = ", ".join(f"{t['topic']} ({t['partitions']})" for t in reason["most_affected"])
    more = ", ..." if reason["topics"] > len(reason["most_affected"]) else ""
    some = ", ".join(reason["first"])
    rest = ", ..." if reason["partitions"] > len(reason["first"]) else ""
    return (
        f"Scenario {row['scenario']}: {plural(reason['partitions'], 'partition')} {what}, of "
        f"{plural(reason['topics'], 'topic')}: {topics}{more}; such as {some}{rest}"
    )
