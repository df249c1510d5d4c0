"""Answers as plain documents: what JSON says, and what the texts are drawn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kfast import __version__, schema
from kfast.census import Census
from kfast.changes import Deletion, Reassignment
from kfast.cli.options import Condition
from kfast.explain import Explanation
from kfast.impact import Failure, Impact
from kfast.profiles import ZK_3_9
from kfast.state import ClusterState

__all__ = [
    "Document",
    "checked",
    "columns_document",
    "deletion_document",
    "failure_document",
    "head",
    "listed",
    "reassignment_document",
    "show_document",
]

Document = dict[str, Any]

_TABLES: Mapping[str, tuple[schema.Column, ...]] = {
    "cluster": schema.CLUSTER,
    "brokers": schema.BROKERS,
    "topics": schema.TOPICS,
    "partitions": (*schema.PARTITIONS, *schema.FLAG_COLUMNS),
    "replicas": schema.REPLICAS,
}


def show_document(
    source: str, state: ClusterState, census: Census, top: int, conditions: Sequence[Condition]
) -> Document:
    """What `kfast show` answers."""
    summary = census.counts
    return {
        **head("show", source, state),
        "summary": summary,
        "brokers": census.brokers.to_pylist(),
        **_worst(census, top),
        "fail_on": checked(conditions, summary),
    }


def failure_document(
    source: str,
    state: ClusterState,
    failure: Failure,
    racks: Sequence[str],
    notes: Sequence[str],
    explanations: Sequence[Explanation],
    top: int,
    conditions: Sequence[Condition],
) -> Document:
    """What `kfast fail` answers."""
    summary = failure.impact.summary
    return {
        **head("fail", source, state),
        "controller": failure.title,
        "notes": [*notes, *(note for e in failure.events for note in e.outcome.notes)],
        "scenario": {
            "brokers": list(failure.broker_ids),
            "racks": list(racks),
            "controlled": failure.controlled,
        },
        "start": {"before": failure.start.before.counts, "summary": failure.start.summary},
        "before": failure.impact.before.counts,
        "summary": summary,
        "remaining": failure.remaining,
        "requests": failure.impact.requests.to_pylist(),
        "brokers": failure.impact.brokers.to_pylist(),
        **_worst(failure.impact, top),
        "explanations": [_explained(explanation) for explanation in explanations],
        "fail_on": checked(conditions, summary),
    }


def reassignment_document(
    source: str,
    plan: str | None,
    state: ClusterState,
    found: Reassignment,
    top: int,
    conditions: Sequence[Condition],
) -> Document:
    """What `kfast reassign` answers."""
    summary = found.summary
    partitions = found.partitions
    status = partitions["status"].to_numpy()
    return {
        **head("reassign", source, state),
        "controller": found.title,
        "notes": [*found.notes, *(n for event in found.events for n in event.outcome.notes)],
        "scenario": {"plan": plan, "brokers": list(found.broker_ids), "pending": found.pending},
        "start": {"before": found.start.before.counts, "summary": found.start.summary},
        "before": found.before.counts,
        "under_way": dict(found.under_way),
        "summary": summary,
        "requests": found.requests.to_pylist(),
        "brokers": found.brokers.to_pylist(),
        "top": top,
        **listed("refused", partitions.filter(status == "refused"), top),
        **listed("pending", partitions.filter(status == "pending"), top),
        **listed("topics", found.topics, top),
        "fail_on": checked(conditions, summary),
    }


def deletion_document(
    source: str,
    state: ClusterState,
    found: Deletion,
    topics: Sequence[str],
    top: int,
    conditions: Sequence[Condition],
) -> Document:
    """What `kfast delete` answers."""
    summary = found.summary
    return {
        **head("delete", source, state),
        "controller": found.title,
        "notes": list(found.notes),
        "scenario": {"topics": list(topics), "brokers": list(found.broker_ids)},
        "start": {"before": found.start.before.counts, "summary": found.start.summary},
        "summary": summary,
        "requests": found.requests.to_pylist(),
        "brokers": found.brokers.to_pylist(),
        "top": top,
        **listed("topics", found.topics, top),
        "fail_on": checked(conditions, summary),
    }


def columns_document() -> Document:
    """What `kfast schema` answers: every column of every table."""
    return {
        "kfast": __version__,
        "command": "schema",
        "columns": [
            {
                "table": table,
                "column": column.name,
                "axes": list(column.axes),
                "array": column.dtype,
                "arrow": None if column.arrow is None else str(column.arrow),
                "null": column.null,
                "meaning": column.meaning,
            }
            for table, columns in _TABLES.items()
            for column in columns
        ],
    }


def head(command: str, source: str, state: ClusterState) -> Document:
    """How every answer on a cluster begins."""
    n_replicas = state.records["n_replicas"]
    factors = np.bincount(n_replicas)
    return {
        "kfast": __version__,
        "command": command,
        "controller": ZK_3_9.title,
        "input": source,
        "assumptions": list(state.assumptions),
        "notes": [],
        "cluster": {
            "brokers": state.n_brokers,
            "registered": int(state.registered.sum()),
            "topics": state.n_topics,
            "partitions": state.n_partitions,
            "replicas": int(n_replicas.sum(dtype=np.int64)),
            "replication_factors": {
                str(factor): int(factors[factor]) for factor in np.flatnonzero(factors).tolist()
            },
        },
    }


def _worst(counted: Census | Impact, top: int) -> Document:
    """The worst topics, and how many there are that something holds of."""
    return {"top": top, **listed("topics", counted.topics, top)}


def listed(name: str, table: pa.Table, top: int) -> Document:
    """The first rows of a table, and how many there are."""
    return {f"{name}_listed_of": table.num_rows, name: table.slice(0, top).to_pylist()}


def _explained(explanation: Explanation) -> Document:
    return {
        "topic": explanation.topic,
        "partition": explanation.partition,
        "sections": [
            {"heading": section.heading, "lines": list(section.lines)}
            for section in explanation.sections
        ],
    }


def checked(conditions: Sequence[Condition], summary: Mapping[str, int]) -> list[Document]:
    """Conditions that were asked about, and whether each holds."""
    return [
        {
            "condition": condition.text,
            "value": summary[condition.metric],
            "holds": condition.holds(summary),
        }
        for condition in conditions
    ]
