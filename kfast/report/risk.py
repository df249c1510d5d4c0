"""What `kfast risk` answers: how far failures reach, and how likely they are to take data away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from kfast.analysis.copyset_risk import RISK_METRICS, TRIPLE_BROKERS, Risk
from kfast.capacity import Durability, PartitionLoad
from kfast.capacity.loads.units import format_bytes
from kfast.capacity.planning.durability_chances import YEAR_SECONDS
from kfast.report.answer import Answer, Document, getters, head
from kfast.report.drawing import broker_columns, draw_rows, first_brokers, number
from kfast.report.tables import Row, TableColumn, plain, text_column
from kfast.report.wording import count, percent, plural, time_span
from kfast.state import ClusterState

__all__ = ["RISK_COUNTS", "RISK_TABLES", "YEARLY_TABLES", "risk_answer"]

RISK_TABLES = ("pairs", "brokers", "copysets", "chances")
YEARLY_TABLES = ("durability", "availability")
"""Tables that an answer has which is also about a year."""

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

INDEPENDENCE = (
    "brokers that fail independently are the best case: in a large company's data centres, failures"
    " in bursts made three copies last 198 times less long (Ford et al., OSDI 2010)"
)

NAMED = 5
"""So many topics, and partitions, of each of the worst failures are named."""

GROUPS = {"broker": 1, "pair": 2, "triple": 3}
TITLES = {
    "broker": "Worst brokers to fail alone", "pair": "Worst two brokers to fail together",
    "triple": "Worst three brokers to fail together",
}


def risk_answer(
    source: str, state: ClusterState, risk: Risk, down: Sequence[int], *, top: int,
    yearly: Durability | None = None, load: PartitionLoad | None = None,
) -> Answer:
    """The answer of `kfast risk`; with `yearly`, also of what failures cost in a year."""
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
        **head("risk", source, state),
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
    tables = {**getters(risk, RISK_TABLES[:-1]), "chances": lambda: chances}
    if yearly is not None:
        document["yearly"] = _yearly(state, yearly, load)
        document["verdict"] += [
            _loss_sentence(document["yearly"]),
            _repair_sentence(document["yearly"]["repairs"], brokers, risk.n_copysets),
        ]
        document["notes"].append(INDEPENDENCE)
        tables |= {"durability": lambda: yearly.copysets,
                   "availability": lambda: yearly.availability}
    return Answer(document, _draw, tables)


def _yearly(state: ClusterState, yearly: Durability, load: PartitionLoad | None) -> Document:
    seconds = zip(state.broker_id.tolist(), yearly.repair_seconds.tolist(), strict=True)
    return {
        "failures_per_year": yearly.failures_per_year,
        "repair_seconds": float(yearly.repair_seconds.max()),
        "repairs": [{"broker_id": broker, "seconds": each} for broker, each in seconds],
        "unavailability": float(yearly.unavailability.max()),
        "losses_per_year": yearly.losses_per_year,
        "loss_probability": yearly.loss_probability(),
        "bytes_lost_per_year": yearly.bytes_lost_per_year,
        "load_warnings": [] if load is None else list(load.warnings),
        "durability": yearly.copysets.to_pylist(),
        "availability": yearly.availability.to_pylist(),
    }


def _loss_sentence(yearly: Document) -> str:
    lost = yearly["bytes_lost_per_year"]
    expected = "" if lost is None else f", {format_bytes(round(lost))} a year on average"
    return (
        f"Data is lost within a year with {percent(yearly['loss_probability'])} %{expected}, if "
        "brokers fail independently."
    )


def _repair_sentence(
    repairs: Sequence[Row], brokers: Sequence[Row], n_copysets: int
) -> str:
    """How long repairs take, beside what they trade against: copysets and scatter widths."""
    by_time = sorted(repairs, key=lambda row: (row["seconds"], row["broker_id"]))
    spans = [
        f"{time_span(round(row['seconds'] * 1000))} (broker {row['broker_id']})"
        for row in (by_time[0], by_time[-1])
    ]
    span = " to ".join(spans)
    if by_time[0]["seconds"] == by_time[-1]["seconds"]:
        span = time_span(round(by_time[0]["seconds"] * 1000))
    widths = [row["scatter_width"] for row in brokers]
    sources = plural(min(widths, default=0), "broker")
    if len(set(widths)) > 1:
        sources = f"{min(widths)} to {plural(max(widths), 'broker')}"
    copysets = plural(n_copysets, "copyset")
    return (
        f"A lost broker is restored within {span}, from the {sources} with which it shares "
        f"partitions. There are {copysets}; fewer would make losses rarer, and repairs slower."
    )


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


# --- drawing -------------------------------------------------------------------------------------


def _draw(console: Console, document: Document) -> None:
    _draw_chances(console, document)
    if "yearly" in document:
        yearly = document["yearly"]
        draw_rows(console, "Losses in a year", LOSS_COLUMNS, yearly["durability"])
        draw_rows(console, "Partitions that stand still in a year", STANDSTILL_COLUMNS,
                  yearly["availability"])
        for warning in yearly["load_warnings"]:
            console.print(plain(f"Warning: {warning}"))
    for name in reversed(GROUPS):
        draw_rows(console, TITLES[name], WORST_COLUMNS, document[f"worst_{name}s"])
    draw_rows(console, "Copysets", COPYSET_COLUMNS, document["copysets"], if_empty=True)
    rows = sorted(document["brokers"], key=lambda row: (-row["scatter_width"], row["broker_id"]))
    draw_rows(console, "Brokers by scatter width", SCATTER_COLUMNS, first_brokers(document, rows),
              len(rows), if_empty=True)


def _draw_chances(console: Console, document: Document) -> None:
    """In percent: probabilities near 0 and near 1 keep the digits that matter."""
    rows: Sequence[Row] = document["chances"]
    drawn = [row for row in rows if row["method"] != "exact"]
    interval = [text_column("interval_percent", _interval)][:len(drawn)]
    draw_rows(console, "Chances when brokers fail at random", [
        "brokers_down", text_column("true of some_partition", "metric"),
        TableColumn("chance_percent", value=lambda row: percent(row["any_probability"])),
        *interval,
        TableColumn("if random_percent", value=lambda row: percent(row["random_probability"])),
        TableColumn("mean_partitions", value=lambda row: f"{row['mean_partitions']:.4g}"),
    ], rows)
    if drawn:
        console.print(plain(
            f"Intervals have {100 * document['confidence']:g} % confidence, from "
            f"{drawn[0]['scenarios']} drawn failures."
        ))


def _interval(row: Row) -> str:
    low, high = (percent(row[f"any_probability_{end}"]) for end in ("low", "high"))
    return "exact" if row["method"] == "exact" else f"{low}-{high}"


def _named_racks(row: Row) -> list[str | None]:
    """Racks of some brokers; none where no rack is known."""
    return row["racks"] if any(rack is not None for rack in row["racks"]) else []


def _worst_topics(row: Row) -> str:
    listed = [f"{topic['topic']} {topic['partitions']}" for topic in row["topics"]]
    more = row["n_topics"] - len(listed)
    why = ", ".join(listed) + (f", {more} more" if more > 0 else "")
    return why if row["because"] == "offline_if_clean" else f"under min ISR: {why}"


def _count_column(heading: str, metric: str) -> TableColumn:
    """A column of what becomes true of partitions, coloured."""
    colour = metric.removesuffix("_if_clean")
    return TableColumn(heading, value=lambda row: number(colour, row[metric]))


WORST_COLUMNS = (
    text_column("brokers"), _count_column("no in-sync replica", "newly_offline_if_clean"),
    _count_column("under_min_isr", "newly_under_min_isr"),
    _count_column("no live_replica", "newly_no_live_replica"),
    text_column("racks", _named_racks), text_column("topics", _worst_topics),
)
COPYSET_COLUMNS = (
    "replication_factor", "partitions", "copysets",
    TableColumn("possible_copysets", value=lambda row: f"{row['possible_copysets']:.15g}"),
)
def _per_year(heading: str, name: str) -> TableColumn:
    """A column of bytes a year."""
    return TableColumn(heading, value=lambda row: (
        None if row[name] is None else format_bytes(round(row[name]))
    ))


def _seconds_column(heading: str, name: str) -> TableColumn:
    """A column of a share of time, as seconds of a year."""
    return TableColumn(heading, value=lambda row: f"{row[name] * YEAR_SECONDS:.3g}")


LOSS_COLUMNS = (
    "copies", "partitions", "copysets",
    TableColumn("mean years_to a loss", value=lambda row: f"{row['mttdl_years']:.3g}"),
    TableColumn("chance in_a year, %", value=lambda row: percent(row["loss_probability"])),
    _per_year("lost_a year", "bytes_lost_per_year"),
)
STANDSTILL_COLUMNS = (
    "replicas", "min_isr", "partitions",
    _seconds_column("seconds_leaderless", "leaderless_probability"),
    _seconds_column("seconds under_min ISR", "under_min_isr_probability"),
    _per_year("bytes refused_a year", "bytes_in_refused_per_year"),
)
SCATTER_COLUMNS = broker_columns(
    "scatter_width", "partitions", "copysets", "closest_broker_id", "closest_partitions"
)
