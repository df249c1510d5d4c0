"""What `kfast risk` answers: how far failures reach, and how likely they are to take data away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from kfast.analysis.copyset_risk import Risk
from kfast.analysis.failure_groups import RISK_METRICS, TRIPLE_BROKERS
from kfast.report.answer import (
    FEWEST_BROKERS,
    Answer,
    Document,
    Row,
    cell,
    count,
    draw_foot,
    draw_verdict,
    head,
    number,
    titled,
)
from kfast.report.tables import TextTable, plain, text_column
from kfast.state import ClusterState

__all__ = ["RISK_COUNTS", "risk_answer"]

RISK_COUNTS = {
    "copysets": "distinct replica sets",
    "largest_scatter_width": "most other brokers that one broker shares a partition with",
    **{
        f"{who}_{metric}": f"most partitions that {words} take{ending} down: {metric}"
        for who, words, ending in (
            ("broker", "one broker", "s"), ("pair", "two brokers", ""), ("triple", "three", "")
        )
        for metric in ("offline_if_clean", "under_min_isr")
    },
}
"""What the summary of a risk has."""

NAMED = 5
"""So many topics, and partitions, of each of the worst failures are named."""

GROUPS = {"broker": 1, "pair": 2, "triple": 3}
TITLES = {
    "broker": "Worst brokers to fail alone", "pair": "Worst two brokers to fail together",
    "triple": "Worst three brokers to fail together",
}


def risk_answer(
    source: str, state: ClusterState, risk: Risk, down: Sequence[int], *, top: int
) -> Answer:
    """The answer of `kfast risk`."""
    notes = []
    brokers = risk.brokers.to_pylist()
    summary = {
        "copysets": risk.n_copysets,
        "largest_scatter_width": max((row["scatter_width"] for row in brokers), default=0),
    }
    worst = {}
    for name, k in GROUPS.items():
        many = k == GROUPS["triple"] and risk.n_live > TRIPLE_BROKERS
        if many:
            notes.append(f"triples are not scored: {risk.n_live} brokers are live, and at most "
                         f"{TRIPLE_BROKERS} can be")
        rows = [] if many else risk.worst(k, max(top, 1)).to_pylist()
        for metric in ("offline_if_clean", "under_min_isr"):
            summary[f"{name}_{metric}"] = max((row[f"newly_{metric}"] for row in rows), default=0)
        worst[name] = rows
    chances = risk.chances(down)
    document = {
        **head("risk", source, state, None),
        "verdict": _verdict(worst, chances.to_pylist()),
        "notes": notes,
        "summary": summary,
        "metrics": dict(RISK_METRICS),
        "confidence": risk.confidence,
        "chances": chances.to_pylist(),
        **{
            f"worst_{name}s": [{**row, **_why(risk, row["brokers"])} for row in rows[:top]]
            for name, rows in worst.items()
        },
        "copysets": risk.copysets.to_pylist(),
        "brokers": brokers,
        "top": top,
    }
    return Answer(document, _draw, {
        "pairs": lambda: risk.pairs, "brokers": lambda: risk.brokers,
        "copysets": lambda: risk.copysets, "chances": lambda: chances,
    })


def _verdict(worst: dict[str, list[Document]], chances: Sequence[Row]) -> list[str]:
    lines = [
        f"The worst {name} to lose is {', '.join(map(str, rows[0]['brokers']))}: "
        f"{count(rows[0]['newly_offline_if_clean'], 'partition', 'loses', 'lose')} all in-sync "
        f"replicas, {rows[0]['newly_under_min_isr']} "
        f"{'falls' if rows[0]['newly_under_min_isr'] == 1 else 'fall'} under min ISR."
        for name, rows in worst.items() if rows
    ]
    likely = [
        f"{percent(row['any_probability'])} % with {row['brokers_down']} down"
        for row in chances if row["metric"] == "offline_if_clean"
    ]
    if likely:
        lines.insert(0, (
            "The chance that random failures take all in-sync replicas of some partition, which "
            f"then is offline or elected outside the ISR: {', '.join(likely)}."
        ))
    return lines or ["No broker is live, so none can fail."]


def _why(risk: Risk, brokers: list[int]) -> Document:
    """Topics that some brokers take down, the worst first, and some partitions by name.

    These are those that go offline; where none does, those that fall under min ISR.
    """
    lost = risk.lost(brokers)
    offline = lost["offline_if_clean"].to_numpy()
    metric = "offline_if_clean" if offline.any() else "under_min_isr"
    some = lost.filter(lost[metric])
    counts = Counter(some["topic"].to_pylist())
    named = some.slice(0, NAMED).to_pylist()
    return {
        "because": metric,
        "topics": [
            {"topic": topic, "partitions": n} for topic, n in counts.most_common(NAMED)
        ],
        "n_topics": len(counts),
        "partitions": [f"{row['topic']}-{row['partition']}" for row in named],
    }


def _draw(console: Console, document: Document) -> None:
    draw_verdict(console, document)
    _draw_chances(console, document)
    for name in reversed(GROUPS):
        _draw_worst(console, TITLES[name], document[f"worst_{name}s"])
    names = ("replication_factor", "partitions", "copysets", "possible_copysets")
    table = TextTable("Copysets", [*names])
    for row in document["copysets"]:
        table.add_row(*(str(row[name]) for name in names[:3]), f"{row['possible_copysets']:.15g}")
    table.draw(console)
    _draw_scatter(console, document)
    draw_foot(console, document)


def _draw_chances(console: Console, document: Document) -> None:
    """In percent: probabilities near 0 and near 1 keep the digits that matter."""
    rows: Sequence[Row] = document["chances"]
    if not rows:
        return
    drawn = [row for row in rows if row["method"] != "exact"]
    table = TextTable("Chances when brokers fail at random", [
        "brokers_down", text_column("true of some_partition"),
        "chance_percent", *([text_column("interval_percent")] if drawn else []),
        "if random_percent", "mean_partitions",
    ])
    for row in rows:
        low, high = row["any_probability_low"], row["any_probability_high"]
        interval = "exact" if row["method"] == "exact" else f"{percent(low)}-{percent(high)}"
        table.add_row(
            str(row["brokers_down"]), row["metric"], percent(row["any_probability"]),
            *([interval] if drawn else []), percent(row["random_probability"]),
            f"{row['mean_partitions']:.4g}",
        )
    table.draw(console)
    if drawn:
        console.print(plain(
            f"Intervals have {100 * document['confidence']:g} % confidence, from "
            f"{drawn[0]['scenarios']} drawn failures."
        ))


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
    counts = ("newly_offline_if_clean", "newly_under_min_isr", "newly_no_live_replica")
    table = TextTable(title, [
        text_column("brokers"), "no in-sync replica", "under_min_isr",
        "no live_replica", text_column("racks"), text_column("topics"),
    ])
    for row in rows:
        listed = [f"{topic['topic']} {topic['partitions']}" for topic in row["topics"]]
        more = row["n_topics"] - len(listed)
        why = ", ".join(listed) + (f", {more} more" if more > 0 else "")
        racks = row["racks"] if any(rack is not None for rack in row["racks"]) else []
        table.add_row(
            ", ".join(map(str, row["brokers"])),
            *(number(name.removesuffix("_if_clean"), row[name]) for name in counts), cell(racks),
            why if row["because"] == "offline_if_clean" else f"under min ISR: {why}",
        )
    table.draw(console)


def _draw_scatter(console: Console, document: Document) -> None:
    rows = sorted(document["brokers"], key=lambda row: (-row["scatter_width"], row["broker_id"]))
    shown = rows[: max(document["top"], FEWEST_BROKERS)]
    names = ("broker_id", "rack", "scatter_width", "partitions", "copysets", "closest_broker_id",
             "closest_partitions")
    table = TextTable(titled("Brokers by scatter width", shown, len(rows)), [
        text_column(name) if name == "rack" else name for name in names
    ])
    for row in shown:
        table.add_row(*(cell(row[name]) for name in names))
    table.draw(console)
