"""What `kfast show` answers: the cluster as it is described."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from rich.console import Console

from kfast.report.answer import Answer, Document, getters, head, listed, partition_lists
from kfast.report.drawing import draw_brokers, draw_rows, draw_topics, is_kraft, metric_column
from kfast.report.surprises import draw_surprises, surprise_sentences
from kfast.report.tables import TableColumn, text_column
from kfast.report.wording import count, refusals
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS, ELR_METRICS, Census

__all__ = ["SHOW_TABLES", "cluster_answer"]

SHOW_TABLES = ("partitions", "topics", "brokers")
TOPIC_COLUMNS = ("offline", "under_min_isr", "at_min_isr", "under_replicated", "not_preferred")
METRICS = {**CENSUS_METRICS, **ELR_METRICS}
BROKER_COLUMNS = ("leaders", "replicas", "in_sync")


def cluster_answer(
    source: str, state: ClusterState, census: Census, surprises: pa.Table, *, top: int,
    lists: Sequence[str] = (), verbose: bool = False, provenance: bool = False,
) -> Answer:
    """The answer of `kfast show`."""
    document = {
        **head("show", source, state),
        "summary": census.counts,
        "brokers": census.brokers.to_pylist(),
        "top": top,
        **listed("topics", census.topics, top),
        **listed("surprises", surprises, top),
        **partition_lists(lists, lambda: census.partitions),
    }
    refusing = int((census.flags("under_min_isr") & ~census.flags("offline")).sum())
    document["verdict"] = [*_verdict(document, refusing), *surprise_sentences(surprises)]
    draw = partial(_draw, verbose=verbose, provenance=provenance)
    return Answer(document, draw, getters(census, SHOW_TABLES))


def _verdict(document: Document, refusing: int) -> list[str]:
    summary, cluster = document["summary"], document["cluster"]
    down = cluster["brokers"] - cluster["registered"]
    first = (
        f"{count(summary['offline'], 'partition', 'is offline', 'are offline')}; "
        f"{refusals(refusing, summary['offline'], refusing)}; "
        f"{count(summary['under_replicated'], 'partition', 'is', 'are')} under-replicated"
    )
    led_by_others = count(
        summary["not_preferred"], "partition", "is led by another than the preferred replica",
        "are led by another than the preferred replica",
    )
    second = (
        f"{count(summary['at_min_isr'], 'partition', 'would refuse', 'would refuse')} acks=all "
        f"with one in-sync replica less; {led_by_others}; "
        f"{count(down, 'broker', 'is down', 'are down')}"
    )
    return [
        f"{first[0].upper()}{first[1:]}.",
        f"{second[0].upper()}{second[1:]}.",
    ]


def _draw(console: Console, document: Document, *, verbose: bool, provenance: bool) -> None:
    if provenance:
        texts = [text_column(name) for name in ("columns", "source", "kind", "version", "captured")]
        draw_rows(console, "Which file gave what", [*texts, "values", "contradictions"],
                  document["provenance"], if_empty=True)
    draw_topics(console, document, TOPIC_COLUMNS)
    # A broker of KRaft that is down stays registered, and is fenced.
    up = TableColumn("up" if is_kraft(document) else "registered", value="registered")
    draw_brokers(console, "Brokers", document, (*BROKER_COLUMNS, up),
                 lambda row: (row["registered"], -row["leaders"]))
    meaning = [text_column("meaning", lambda row: METRICS[row["metric"]])]
    draw_rows(
        console, "Partitions",
        [text_column("metric"), metric_column("partitions"), *meaning[:verbose]],
        [{"metric": name, "partitions": n} for name, n in document["summary"].items()],
    )
    factors = document["cluster"]["replication_factors"]
    draw_rows(
        console, "Replication factors", ["replicas", "partitions"],
        [{"replicas": factor, "partitions": n} for factor, n in factors.items()], if_empty=True,
    )
    draw_surprises(console, document)
