"""What `kfast restart` answers: whether a broker may be restarted, or in which batches all may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from kfast.analysis.restart_plan import RestartPlan
from kfast.analysis.restart_readiness import CAUSES, TOGETHER, Readiness
from kfast.analysis.whatif import registrations
from kfast.report.answer import Answer, Document, getters, head, listed
from kfast.report.drawing import broker_columns, draw_rows, first_brokers
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import broker_ranges, brokers_named, count, first_names, plural
from kfast.state import ClusterState

__all__ = ["PLAN_METRICS", "READINESS_METRICS", "RESTART_TABLES", "plan_answer", "readiness_answer"]

RESTART_TABLES = ("brokers", "batches", "partitions", "topics")

PLAN_METRICS = {
    "batches": "batches of the plan",
    "lower_bound": "fewer batches are impossible",
    "brokers": "live brokers, all of which are in the plan",
}
"""What the summary of a plan has besides."""

READINESS_METRICS = {
    "forbidding": "with --broker: partitions that forbid the restart",
    "may_restart": "brokers that may be restarted now, each alone",
    "may_not_restart": "brokers that some partition forbids to restart now",
    "unsatisfiable": "partitions that no order of restarts can satisfy",
    **{f"unsatisfiable_{name}": f"those where {meaning}" for name, meaning in CAUSES.items()},
}
"""What the summary of a restart has; `forbidding` goes with `--broker`."""

MOST_TOPICS = 3
"""Topics that a remedy names."""

PARTITION_COLUMNS = (
    text_column("topic"), "partition", text_column("cause"), "spare", "min_isr", text_column("isr"),
    text_column("replicas"),
)
TOPIC_COLUMNS = (
    text_column("topic"), text_column("cause"), "partitions",
    TableColumn("replicas", value="replication_factor"), "min_insync_replicas",
    text_column("set_by"),
)
REMEDY_COLUMNS = (text_column("cause"), "partitions", text_column("remedy"))
IS_OR_ARE = ("is", "are")


# --- one broker, or several together -------------------------------------------------------------


def readiness_answer(
    source: str, state: ClusterState, ready: Readiness, brokers: Sequence[int], *, top: int
) -> Answer:
    """The answer of `kfast restart --broker`."""
    forbidding = ready.forbidding(brokers)
    causes = forbidding["cause"].combine_chunks().value_counts().to_pylist()
    up = registrations(state)
    down = [broker for broker in brokers if not up[broker]]
    document = {
        **head("restart", source, state),
        "notes": _notes(ready),
        "safe": not forbidding.num_rows and not down,
        "question": {"brokers": list(brokers), "isr_margin": ready.isr_margin},
        "down": down,
        "ignored": ready.n_ignored,
        "summary": {"forbidding": forbidding.num_rows, **ready.counts},
        "reasons": {row["values"]: row["counts"] for row in causes},
        "remedies": list(_remedies(state, ready, brokers, forbidding)),
        "top": top,
        **listed("partitions", _worst_first(forbidding), top),
    }
    document["verdict"] = [_yes_or_no(document), *_under_min_isr(ready)]
    return Answer(document, _draw_readiness, {"partitions": lambda: forbidding})


def _yes_or_no(document: Document) -> str:
    brokers, margin = document["question"]["brokers"], document["question"]["isr_margin"]
    broker_phrase, down = brokers_named(brokers), document["down"]
    one = len(brokers) == 1
    together = "" if one else " together"
    if document["safe"]:
        more = f" and {plural(margin, 'in-sync replica')} more" if margin else ""
        but = f", but for the {document['ignored']} left out," if document["ignored"] else ""
        return (
            f"YES: {broker_phrase} may be restarted now{together}: every partition with "
            f"{'it' if one else 'them'} in the ISR{but} keeps min ISR{more} meanwhile."
        )
    reasons = []
    if down:
        reasons.append(f"{brokers_named(down, verb=IS_OR_ARE)} down already")
    if n := document["summary"]["forbidding"]:
        reasons.append(f"{count(n, 'partition', 'forbids', 'forbid')} it")
    return f"NO: {broker_phrase} may not be restarted now{together}: {'; '.join(reasons)}."


def _under_min_isr(ready: Readiness) -> Iterator[str]:
    """A sentence where some partitions are under min ISR, whoever restarts."""
    n = int(((ready.cause >= 0) & ready.margins.under_min_isr).sum())
    if n:
        yield f"{count(n, 'partition', 'is', 'are')} offline or under min ISR already."


def _remedies(
    state: ClusterState, ready: Readiness, brokers: Sequence[int], forbidding: pa.Table
) -> Iterator[Document]:
    """What, all of it together, would allow the restart, and for how many partitions."""
    for cause, remedy in SETTINGS.items():
        partitions = forbidding.filter(pc.equal(forbidding["cause"], cause))
        if partitions.num_rows:
            yield from remedy(ready, partitions)
    yield from _complete_isr(state, forbidding)
    members = [len(set(isr).intersection(brokers)) for isr in forbidding["isr"].to_pylist()]
    several = sum(n > 1 for n in members)
    if several:
        yield {
            "cause": TOGETHER, "partitions": several,
            "remedy": "restart these brokers one after the other, each once the one before is back "
            "in every ISR",
        }


def _remedy(cause: str, partitions: pa.Table, text: str) -> Document:
    return {"cause": cause, "partitions": partitions.num_rows, "remedy": text}


def _more_replicas(_ready: Readiness, partitions: pa.Table) -> Iterator[Document]:
    yield _remedy(
        "replication_factor", partitions,
        f"give {_topics(partitions)} a second replica (kafka-reassign-partitions), or leave out "
        "what has one replica and goes offline meanwhile: --ignore-rf1",
    )


def _smaller_min_isr(ready: Readiness, partitions: pa.Table) -> Iterator[Document]:
    """A smaller setting, or more replicas; one remedy for each setting and number of replicas."""
    kinds: dict[tuple[str, int, int], list[int]] = {}
    columns = partitions.select(["set_by", "min_insync_replicas", "replicas"])
    values = zip(*columns.to_pydict().values(), strict=True)
    for at, (set_by, setting, replicas) in enumerate(values):
        kinds.setdefault((set_by, setting, len(replicas)), []).append(at)
    for (set_by, setting, factor), rows in kinds.items():
        chosen = partitions.take(rows)
        highest = factor - 1 - ready.isr_margin
        whose = _topics(chosen)
        if set_by == "brokers":
            whose = f"{whose} (the brokers' default says {setting})"
        more = f"{setting + 1 + ready.isr_margin} replicas"
        lower = f"set min.insync.replicas of {whose} to {highest}, or give each partition {more}"
        yield _remedy(
            "min_insync_replicas", chosen, lower if highest > 0 else f"give {whose} {more}"
        )


def _smaller_margin(_ready: Readiness, partitions: pa.Table) -> Iterator[Document]:
    factor = pc.list_value_length(partitions["replicas"])
    largest = pc.min(pc.subtract(factor, partitions["min_isr"])).as_py() - 1
    yield _remedy("isr_margin", partitions, f"ask for less to spare: --isr-margin {largest}")


def _complete_isr(state: ClusterState, forbidding: pa.Table) -> Iterator[Document]:
    """Members that are missing from the ISRs, by broker."""
    up = registrations(state)
    missing: dict[int, int] = {}
    for row in forbidding.select(["replicas", "isr"]).to_pylist():
        for broker in set(row["replicas"]) - set(row["isr"]):
            missing[broker] = missing.get(broker, 0) + 1
    for broker, n in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        what = "catches up" if up[broker] else "is up again and catches up"
        yield {"cause": "isr", "partitions": n, "remedy": f"wait until broker {broker} {what}"}


SETTINGS = {
    "replication_factor": _more_replicas, "min_insync_replicas": _smaller_min_isr,
    "isr_margin": _smaller_margin,
}
"""What to change where an ISR is no larger than what it needs even when it is complete."""


def _topics(partitions: pa.Table) -> str:
    """The first topics of some partitions in a sentence, and how many more there are."""
    topics = partitions["topic"].unique().to_pylist()
    names = first_names(topics, MOST_TOPICS, "topic")
    return f"topic{'' if len(topics) == 1 else 's'} {names}"


def _draw_readiness(console: Console, document: Document) -> None:
    _draw_partitions(console, "Partitions that forbid it", document)
    draw_rows(console, "What would allow it, all of it together", REMEDY_COLUMNS,
              document["remedies"])


# --- all brokers ---------------------------------------------------------------------------------


def plan_answer(source: str, state: ClusterState, plan: RestartPlan, *, top: int) -> Answer:
    """The answer of `kfast restart`: who may restart now, and the batches of a plan."""
    ready = plan.readiness
    brokers = ready.brokers.to_pylist()
    down = [row["broker_id"] for row in brokers if not row["live"]]
    notes = [*_notes(ready), "a batch waits until the one before is back in every ISR"]
    if down:
        notes.append(f"{brokers_named(down, verb=IS_OR_ARE)} not live, and in no batch")
    summary = plan.counts
    document = {
        **head("restart", source, state),
        "notes": notes,
        "safe": not summary["unsatisfiable"],
        "reasons": {name: summary[f"unsatisfiable_{name}"] for name in CAUSES
                    if summary[f"unsatisfiable_{name}"]},
        "question": {
            "isr_margin": ready.isr_margin,
            "by_rack": plan.by_rack,
            "seconds_per_broker": plan.seconds_per_broker,
        },
        "summary": summary,
        "ignored": ready.n_ignored,
        "may_restart": [row["broker_id"] for row in brokers if row["may_restart"]],
        "is_optimal": plan.is_optimal,
        "total_s": plan.total_s,
        "one_by_one_s": plan.one_by_one_s,
        "batches": plan.batches.to_pylist(),
        "brokers": brokers,
        "top": top,
        **listed("topics", ready.topics, top),
        **listed("partitions", _worst_first(ready.partitions), top),
    }
    document["verdict"] = [*_plan_sentences(document)]
    ready_tables = getters(ready, ("partitions", "topics"))
    return Answer(document, _draw_plan, getters(plan, ("brokers", "batches")) | ready_tables)


def _plan_sentences(document: Document) -> Iterator[str]:
    summary, question = document["summary"], document["question"]
    batches = plural(summary["batches"], "batch", "batches")
    how = f"{plural(summary['brokers'], 'broker')} in {batches}"
    how += ", rack by rack" if question["by_rack"] else ""
    margin = question["isr_margin"]
    requirement = "min ISR" + (f" and {plural(margin, 'in-sync replica')} more" if margin else "")
    if document["safe"]:
        but = f" but the {document['ignored']} left out" if document["ignored"] else ""
        yield f"SAFE: {how}; every partition{but} keeps {requirement} throughout."
    else:
        causes = "; ".join(f"{n} because {CAUSES[name]}" for name, n in document["reasons"].items())
        yield (
            f"NOT SAFE: {how}; "
            f"{count(summary['unsatisfiable'], 'partition', 'does', 'do')} not keep {requirement}, "
            f"whatever the order: {causes}."
        )
    may = document["may_restart"]
    broker_phrase = f"broker{'' if len(may) == 1 else 's'} {broker_ranges(may)}"
    if summary["may_not_restart"]:
        yield (
            f"Now, alone: {broker_phrase if may else 'no broker'} may be restarted; "
            f"{summary['may_not_restart']} may not."
        )
    else:
        yield "Now, alone: every broker that is up may be restarted."
    n, bound = summary["batches"], summary["lower_bound"]
    proof = "No plan has fewer batches." if n == bound else (
        f"Fewer than {plural(bound, 'batch', 'batches')} are impossible."
    )
    if document["total_s"] is not None:
        proof += (
            f" At {question['seconds_per_broker']:g} s per broker this takes "
            f"{document['total_s']:g} s; one broker at a time {document['one_by_one_s']:g} s."
        )
    yield proof


def _notes(ready: Readiness) -> list[str]:
    notes = ["ISRs are taken as they are"]
    if ready.n_ignored:
        notes.append(
            f"{plural(ready.n_ignored, 'partition')} left out: in no count, and perhaps offline "
            "during a restart"
        )
    return notes


def _worst_first(partitions: pa.Table) -> pa.Table:
    """Partitions in the order of how far they are below what a restart needs."""
    return partitions.sort_by([("spare", "ascending"), ("in_sync", "ascending")])


def _draw_plan(console: Console, document: Document) -> None:
    timed = document["question"]["seconds_per_broker"] is not None
    start = TableColumn("starts_after_s", value=lambda row: f"{row['starts_after_s']:g}")
    draw_rows(console, "Batches", [
        "batch", text_column("brokers", lambda row: broker_ranges(row["brokers"])),
        "newly_offline", "newly_under_min_isr", *[start][:timed], text_column("racks"),
    ], document["batches"])
    _draw_forbidden(console, document)
    draw_rows(console, "Topics that no order can satisfy", TOPIC_COLUMNS, document["topics"],
              document["topics_listed_of"])
    _draw_partitions(console, "Their partitions", document)


def _draw_forbidden(console: Console, document: Document) -> None:
    """Brokers that may not be restarted now, the worst first."""
    rows: list[Row] = [row for row in document["brokers"] if row["forbidding"]]
    rows.sort(key=lambda row: (-row["last_in_sync"], -row["forbidding"], row["broker_id"]))
    causes = [
        TableColumn(name, value=key) for name in CAUSES
        if any(row[key := f"forbidding_{name}"] for row in rows)
    ]
    columns = broker_columns("forbidding", "last_in_sync", *causes, "in_sync")
    draw_rows(console, "Brokers that may not be restarted now", columns,
              first_brokers(document, rows), len(rows))


def _draw_partitions(console: Console, title: str, document: Document) -> None:
    n = document["partitions_listed_of"]
    draw_rows(console, title, PARTITION_COLUMNS, document["partitions"], n)
