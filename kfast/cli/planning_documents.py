"""What `kfast restart` and `kfast risk` answer, as plain documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from kfast.cli.documents import Document, checked, head, listed
from kfast.cli.options import Condition
from kfast.planning import RestartPlan
from kfast.risk import RISK_METRICS, Risk
from kfast.risk.failures import TRIPLE_BROKERS
from kfast.state import ClusterState

__all__ = ["restart_document", "risk_document"]

NAMED = 5
"""So many partitions of each of the worst failures are named."""

GROUPS = {"broker": 1, "pair": 2, "triple": 3}


def restart_document(
    source: str, state: ClusterState, plan: RestartPlan, top: int, conditions: Sequence[Condition]
) -> Document:
    """What `kfast restart` answers."""
    summary = plan.counts
    readiness = plan.readiness
    brokers = readiness.brokers.to_pylist()
    down = [row["broker_id"] for row in brokers if not row["live"]]
    notes = ["ISRs are taken as they are; a batch waits until the one before is back in them"]
    if down:
        notes.append(f"broker {', '.join(map(str, down))} is not live, and in no batch")
    return {
        **head("restart", source, state),
        "notes": notes,
        "question": {
            "isr_margin": readiness.isr_margin,
            "by_rack": plan.by_rack,
            "seconds_per_broker": plan.seconds_per_broker,
        },
        "summary": summary,
        "is_optimal": plan.is_optimal,
        "total_s": plan.total_s,
        "one_by_one_s": plan.one_by_one_s,
        "batches": plan.batches.to_pylist(),
        "brokers": brokers,
        "top": top,
        **listed("topics", readiness.topics, top),
        **listed("partitions", _worst_first(readiness.partitions), top),
        "fail_on": checked(conditions, summary),
    }


def _worst_first(partitions: pa.Table) -> pa.Table:
    """Partitions in the order of how far they are below what a restart needs."""
    return partitions.sort_by([("spare", "ascending"), ("in_sync", "ascending")])


def risk_document(
    source: str,
    state: ClusterState,
    found: Risk,
    down: Sequence[int],
    top: int,
    conditions: Sequence[Condition],
) -> Document:
    """What `kfast risk` answers."""
    notes = []
    brokers = found.brokers.to_pylist()
    summary = {
        "copysets": found.n_copysets,
        "largest_scatter_width": max((row["scatter_width"] for row in brokers), default=0),
    }
    worst = {}
    for name, k in GROUPS.items():
        many = k == 3 and found.n_live > TRIPLE_BROKERS
        if many:
            notes.append(f"triples are not scored: {found.n_live} brokers are live, and at most "
                         f"{TRIPLE_BROKERS} can be")
        rows = [] if many else found.worst(k, max(top, 1)).to_pylist()
        for metric in ("offline_if_clean", "under_min_isr"):
            summary[f"{name}_{metric}"] = max((row[f"newly_{metric}"] for row in rows), default=0)
        worst[name] = [{**row, **_why(found, row["brokers"])} for row in rows[:top]]
    return {
        **head("risk", source, state),
        "notes": notes,
        "summary": summary,
        "metrics": dict(RISK_METRICS),
        "confidence": found.confidence,
        "chances": found.chances(down).to_pylist(),
        **{f"worst_{name}s": rows for name, rows in worst.items()},
        "copysets": found.copysets.to_pylist(),
        "brokers": brokers,
        "top": top,
        "fail_on": checked(conditions, summary),
    }


def _why(found: Risk, brokers: list[int]) -> Document:
    """Topics that some brokers take down, the worst first, and some partitions by name.

    Those that go offline are what is told; where none does, those that fall under min ISR.
    """
    lost = found.lost(brokers)
    offline = lost["offline_if_clean"].to_numpy()
    metric = "offline_if_clean" if offline.any() else "under_min_isr"
    some = lost.filter(lost[metric])
    counts = Counter(some["topic"].to_pylist())
    named = some.slice(0, NAMED).to_pylist()
    return {
        "because": metric,
        "topics": [
            {"topic": topic, "partitions": count} for topic, count in counts.most_common(NAMED)
        ],
        "n_topics": len(counts),
        "partitions": [f"{row['topic']}-{row['partition']}" for row in named],
    }
