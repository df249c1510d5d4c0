"""What `kfast report` answers: a page, its data, and the few lines that a terminal shows."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console

from kfast.analysis.topic_faults import FAULTS, topic_faults
from kfast.arguments import check_instance
from kfast.capacity import BrokerCapacity, PartitionLoad, prepare_capacity
from kfast.errors import ArgumentError, require_extra
from kfast.report.answer import Answer, Document, head
from kfast.report.capacity_wording import capacity_head, refuse_without_capacity
from kfast.report.page.failure_story import failure_story
from kfast.report.page.html import page_html
from kfast.report.page.remedies import fault_documents, first_actions
from kfast.report.page.sections import CapacityQuestion, ReportSections, report_sections
from kfast.report.page.verdict import resilience, tiles, verdict
from kfast.report.tables import plain
from kfast.report.writing import PAGE, write_answer
from kfast.state import ClusterState

__all__ = ["REPORT_METRICS", "report_answer", "write_report"]

REPORT_METRICS = {
    "offline": "partitions that are offline now",
    "under_min_isr": "partitions that are under min ISR now",
    "under_replicated": "partitions that are under-replicated now",
    **{
        f"{kind}_{name}": f"most partitions that {words} take: {name}"
        for kind, words in (("brokers", "one broker's failure"), ("racks", "one rack's failure"),
                            ("pairs", "two brokers' failure"))
        for name in ("offline", "under_min_isr")
    },
    "may_not_restart": "brokers that some partition forbids to restart now",
    **{f"topics_{kind}": f"topics of which partitions have this fault: {meaning}"
       for kind, meaning in FAULTS.items()},
    "headroom": "lowest headroom after the failure of a broker, with --capacity",
}
"""What conditions on a report may be about."""


def report_answer(
    source: str, state: ClusterState, *, old: tuple[str, ClusterState] | None = None,
    capacity: CapacityQuestion | None = None, seed: int = 0, threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Answer:
    """The answer of `kfast report`; arguments are those of `report_sections`."""
    require_extra("report", "kfast report")
    sections = report_sections(
        source, state, old=old, capacity=capacity, seed=seed, threads=threads, progress=progress,
    )
    faults = fault_documents(state, topic_faults(state))
    census, documents = sections.census, sections.documents
    rows = resilience(documents)
    level, headline, lines = verdict(census.counts, rows)
    document = {
        **head("report", source, state),
        "generated": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": {
            "Python": platform.python_version(), "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
        "seed": seed, "level": level, "headline": headline, "verdict": [f"{headline}.", *lines],
        "resilience": rows, "tiles": tiles(census.counts, rows, documents),
        "actions": first_actions(census, faults, documents),
        "story": None if sections.failure is None else failure_story(state, sections.failure),
        "faults": faults,
        "months": _months(documents.get("forecast")),
        "summary": _summary(sections, faults),
        "sections": documents,
    }
    if "diff" in documents:
        old_source, change = documents["diff"]["old"]["input"], documents["diff"]["verdict"][0]
        document["verdict"].append(f"Since {old_source}: {change}")
    for part in documents.values():
        document["assumptions"] = [*dict.fromkeys([*document["assumptions"], *part["assumptions"]])]
        document["notes"] = [*dict.fromkeys([*document["notes"], *part["notes"]])]
    return Answer(document, _draw, {}, page=lambda: page_html(document, sections.figures))


def _months(forecast: Document | None) -> list[Document]:
    """Highest share of each capacity after the worst failure, a row for each month."""
    months: dict[int, Document] = {}
    for row in () if forecast is None else forecast["forecast"]:
        month = months.setdefault(row["month"], {"month": row["month"], "over_limit": ""})
        month[row["resource"]] = row["failed"]
        if row["over_limit"]:
            month["over_limit"] = "yes"
    return [*months.values()]


def _summary(sections: ReportSections, faults: list[Document]) -> Document:
    """The metrics of `REPORT_METRICS`; None where the report has no such section."""
    documents, counts = sections.documents, sections.census.counts
    own = {fault["kind"]: fault["topics_listed_of"] for fault in faults}
    capacity = documents.get("capacity_brokers")
    return {
        **{name: counts[name] for name in ("offline", "under_min_isr", "under_replicated")},
        **{
            f"{kind}_{name}": documents[kind]["summary"][name] if kind in documents else None
            for kind in ("brokers", "racks", "pairs") for name in ("offline", "under_min_isr")
        },
        "may_not_restart": documents["restart"]["summary"]["may_not_restart"]
        if "restart" in documents else None,
        **{f"topics_{kind}": own.get(kind, 0) for kind in FAULTS},
        "headroom": None if capacity is None else capacity["summary"]["headroom"],
    }


def _draw(console: Console, document: Document) -> None:
    """What to do first, below the verdict."""
    if document["story"] is not None:
        console.print(plain(f"The worst failure: {document['story']['title']}."))
    for number, action in enumerate(document["actions"], 1):
        console.print(plain(f"{number}. {action['title']}: {action['why']}"))


def write_report(
    state: ClusterState, path: str | os.PathLike[str], *, old: ClusterState | None = None,
    load: PartitionLoad | None = None, capacity: BrokerCapacity | None = None, seed: int = 0,
    threads: int = 1,
) -> None:
    """Write a report of a cluster: one page of HTML that needs nothing else.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    path : str or os.PathLike
        The page takes its place when it is written in full.
    old : ClusterState, optional
        The cluster earlier: the page says what changed since.
    load : PartitionLoad, optional
        With `capacity`: the page says how full brokers get after each failure.
    capacity : BrokerCapacity, optional
    seed : int
        Of chances that are drawn at random.
    threads : int
        Threads to use; results do not depend on it.

    Raises
    ------
    MissingExtraError
        plotly, jinja2 or scipy is not installed (the extra `report`).
    ArgumentError
        The controller cannot start on this state, the file cannot be written, or there are loads
        without capacities or capacities without loads.
    InputError
        No broker has a capacity that its load can be compared with.
    """
    check_instance("state", state, ClusterState)
    earlier = None if old is None else ("the cluster before", old)
    source, question = "the cluster", None
    if load is not None and capacity is not None:
        plan = prepare_capacity(state, load, capacity, threads=threads)
        refuse_without_capacity(capacity, plan)
        question = CapacityQuestion(
            plan, lambda name: capacity_head(name, source, state, load, capacity, plan)
        )
    elif load is not None or capacity is not None:
        raise ArgumentError("load and capacity go together; nothing was written")
    answer = report_answer(
        source, state, old=earlier, capacity=question, seed=seed, threads=threads
    )
    write_answer(answer, PAGE, Path(path))
