"""What `kfast show` answers: the cluster as it is described."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from kfast.report.answer import (
    Answer,
    Document,
    cell,
    count,
    draw_foot,
    draw_lists,
    draw_topics,
    draw_verdict,
    first_brokers,
    head,
    listed,
    number,
    partition_lists,
    plural,
    refusals,
    titled,
)
from kfast.report.tables import TextTable, text_column
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS, Census

__all__ = ["cluster_answer"]

BROKER_COLUMNS = ("leaders", "replicas", "in_sync", "registered")


def cluster_answer(
    source: str, state: ClusterState, census: Census, *, top: int, lists: Sequence[str] = (),
    verbose: bool = False,
) -> Answer:
    """The answer of `kfast show`."""
    document = {
        **head("show", source, state, None),
        "summary": census.counts,
        "brokers": census.brokers.to_pylist(),
        "top": top,
        **listed("topics", census.topics, top),
        **partition_lists(lists, lambda: census.partitions),
    }
    refusing = int((census.flags("under_min_isr") & ~census.flags("offline")).sum())
    document["verdict"] = _verdict(document, refusing)
    return Answer(document, partial(_draw, verbose=verbose), {
        "partitions": lambda: census.partitions, "topics": lambda: census.topics,
        "brokers": lambda: census.brokers,
    })


def _verdict(document: Document, refusing: int) -> list[str]:
    summary, cluster = document["summary"], document["cluster"]
    down = cluster["brokers"] - cluster["registered"]
    first = (
        f"{count(summary['offline'], 'partition', 'is offline', 'are offline')}; "
        f"{refusals(refusing, summary['offline'], refusing)}; "
        f"{count(summary['under_replicated'], 'partition', 'is', 'are')} under-replicated"
    )
    return [
        f"{first[0].upper()}{first[1:]}.",
        (f"{plural(summary['at_min_isr'], 'partition')} would refuse acks=all with one in-sync "
        f"replica less; {plural(summary['not_preferred'], 'partition')} "
        f"{'is' if summary['not_preferred'] == 1 else 'are'} led by another than the preferred "
        f"replica; {count(down, 'broker', 'is down', 'are down')}."),
    ]


def _draw(console: Console, document: Document, *, verbose: bool) -> None:
    draw_verdict(console, document)
    draw_lists(console, document)
    draw_topics(console, document, ("offline", "under_min_isr", "at_min_isr", "under_replicated",
                                    "not_preferred"))
    shown = first_brokers(document, lambda row: (row["registered"], -row["leaders"]))
    title = titled("Brokers", shown, len(document["brokers"]))
    brokers = TextTable(title, ["broker_id", text_column("rack"), *BROKER_COLUMNS])
    for row in shown:
        brokers.add_row(*(cell(row[name]) for name in brokers.headings))
    brokers.draw(console)
    meaning = [text_column("meaning")] if verbose else []
    states = TextTable("Partitions", [text_column("metric"), "partitions", *meaning])
    for metric, value in document["summary"].items():
        states.add_row(metric, number(metric, value), *[CENSUS_METRICS[metric]][: len(meaning)])
    states.draw(console)
    factors = TextTable("Replication factors", ["replicas", "partitions"])
    for factor, n in document["cluster"]["replication_factors"].items():
        factors.add_row(factor, str(n))
    factors.draw(console)
    draw_foot(console, document)
