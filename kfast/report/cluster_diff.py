"""What `kfast diff` answers: what changed, and whether the cluster is better or worse for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from kfast.analysis.cluster_diff import Diff
from kfast.report.answer import Answer, Document, getters, head, listed
from kfast.report.drawing import draw_rows, number
from kfast.report.tables import Row, TableColumn, cell, text_column
from kfast.report.wording import brokers_named, controller_sentence, count, first_names, signed

__all__ = ["DIFF_TABLES", "MEASURES", "diff_answer"]

DIFF_TABLES = (
    "partitions", "topics", "brokers", "settings", "measures", "worst", "newly_fragile",
    "fragile_brokers",
)

CHANGES = {
    "brokers_gone": ("broker", "is gone", "are gone"),
    "brokers_new": ("broker", "is new", "are new"),
    "brokers_down": ("broker", "went down", "went down"),
    "brokers_up": ("broker", "came up", "came up"),
    "racks_changed": ("broker", "is in another rack", "are in another rack"),
    "topics_created": ("topic", "was created", "were created"),
    "topics_deleted": ("topic", "was deleted", "were deleted"),
    "topics_recreated": ("topic", "was deleted and created again",
                         "were deleted and created again"),
    "topics_changed": ("topic", "has another size or setting", "have another size or setting"),
    "replicas_changed": ("partition", "has other replicas", "have other replicas"),
    "replicas_reordered": ("partition", "has its replicas in another order",
                           "have their replicas in another order"),
    "reassignment_started": ("reassignment", "began", "began"),
    "reassignment_ended": ("reassignment", "ended", "ended"),
    "leaders_moved": ("leader", "moved", "moved"),
    "isr_shrunk": ("ISR", "shrank", "shrank"),
    "isr_expanded": ("ISR", "grew", "grew"),
    "elr_shrunk": ("ELR", "shrank", "shrank"),
    "elr_expanded": ("ELR", "grew", "grew"),
    "leader_epoch_changed": ("leader epoch", "differs", "differ"),
    "settings_changed": ("setting of the cluster", "differs", "differ"),
}
"""What changed, in words."""

OTHERS = ("partition", "differs in what its brokers or settings make of it",
          "differ in what their brokers or settings make of them")
"""Partitions that changed though nothing of the above did."""

MEASURES = {
    "offline": "offline",
    "under_min_isr": "under min ISR",
    "at_min_isr": "at min ISR",
    "under_replicated": "under-replicated",
    "no_live_replica": "without a live replica",
    "not_preferred": "led by another than the preferred replica",
    "any_broker_offline": "offline if some single broker fails",
    "any_broker_under_min_isr": "under min ISR if some single broker fails",
    "worst_broker_offline": "offline after one broker's failure, at most",
    "worst_broker_under_min_isr": "under min ISR after one broker's failure, at most",
    "worst_rack_offline": "offline after one rack's failure, at most",
    "worst_rack_under_min_isr": "under min ISR after one rack's failure, at most",
}
"""Partitions that each measure counts, in words."""

MOST_MEASURES = 3
"""Measures that a line of the verdict names; the table below it has all."""

FACTS = {
    "partitions": "partitions", "replication_factor": "replication factor",
    "min_insync_replicas": "min.insync.replicas",
    "unclean_leader_election": "unclean.leader.election.enable",
    "replicas": "replicas", "adding": "adding", "removing": "removing", "leader": "leader",
    "isr": "ISR", "elr": "ELR", "leader_epoch": "leader epoch", "offline": "offline",
    "under_min_isr": "under min ISR",
}
"""What topics and partitions are compared by, in words."""


def diff_answer(old_source: str, source: str, diff: Diff, *, top: int) -> Answer:
    """The answer of `kfast diff`."""
    old = head("diff", old_source, diff.before.state)
    document = {
        **head("diff", source, diff.after.state),
        "old": {name: old[name] for name in ("controller", "input", "assumptions", "cluster")},
        "notes": _notes(diff, old),
        "summary": diff.summary,
        "changed": not diff.is_empty,
        "worse": diff.worse,
        "better": diff.better,
        **{name: getattr(diff, name).to_pylist()
           for name in ("measures", "worst", "settings", "brokers")},
        **{part: value for name in ("fragile_brokers", "newly_fragile", "topics", "partitions")
           for part, value in listed(name, getattr(diff, name), top).items()},
    }
    document["verdict"] = _verdict(document)
    return Answer(document, _draw, getters(diff, DIFF_TABLES))


def _notes(diff: Diff, old: Document) -> list[str]:
    """What is not compared, and another controller of the earlier cluster."""
    notes = [
        f"{name} are not compared: only one of the two clusters tells them"
        for name in diff.not_compared
    ]
    if diff.before.state.controller != diff.after.state.controller:
        notes.append(f"before, the controller was {controller_sentence(old['controller'])}")
    return notes


# --- words ---------------------------------------------------------------------------------------


def _verdict(document: Document) -> list[str]:
    """Whether the cluster is better or worse, and what changed; then the measures that say so."""
    summary = document["summary"]
    if not document["changed"]:
        return ["NO DIFFERENCE: brokers, topics, partitions and settings are the same."]
    judgement = {
        (False, False): "NEITHER BETTER NOR WORSE", (True, False): "WORSE",
        (False, True): "BETTER", (True, True): "PARTLY WORSE, PARTLY BETTER",
    }[bool(summary["worse"]), bool(summary["better"])]
    changes = [count(summary[name], *words) for name, words in CHANGES.items() if summary[name]]
    if not changes:
        changes = [count(summary["partitions_changed"], *OTHERS)]
    lines = [f"{judgement}: {'; '.join(changes)}."]
    values = {row["measure"]: row for row in document["measures"]}
    for title, names in (("Worse", document["worse"]), ("Better", document["better"])):
        if names:
            parts = [
                f"{values[name]['partitions']} {MEASURES[name]} (before: "
                f"{values[name]['partitions_before']})" for name in names
            ]
            lines.append(f"{title}: partitions {first_names(parts, MOST_MEASURES, 'measure')}.")
    return [*lines, *_fragile(document)]


def _fragile(document: Document) -> list[str]:
    """How many partitions are newly fragile, and whose failure matters most."""
    n = document["summary"]["newly_fragile"]
    if not n:
        return []
    first = count(n, "partition", "is newly fragile", "are newly fragile")
    if not document["fragile_brokers"]:
        return [f"{first}."]
    worst = document["fragile_brokers"][0]
    does = [f"{worst[name]} {words}" for name, words in (
        ("newly_offline", "offline"), ("newly_under_min_isr", "under min ISR")) if worst[name]]
    return [f"{first}: broker {worst['broker_id']} alone takes {' and '.join(does)}."]


def _change(row: Row, name: str) -> str:
    """A value at both moments."""
    values = [row[f"{name}_before"], row[name]]
    if name == "leader":
        values = ["none" if leader < 0 else leader for leader in values]
    return " -> ".join("empty" if value == [] else cell(value) for value in values)


def _facts(row: Row, names: Sequence[str]) -> list[str]:
    """What differs in a row of a topic or a partition."""
    return [f"{FACTS[name]} {_change(row, name)}" for name in names
            if row[f"{name}_before"] != row[name]]


def _topic_change(row: Row) -> str:
    names = ("partitions", "replication_factor", "min_insync_replicas", "unclean_leader_election")
    if row["change"] in ("changed", "recreated"):
        facts = _facts(row, names)
        return "; ".join([*(["recreated"] if row["change"] == "recreated" else []), *facts])
    suffix = "_before" if row["change"] == "deleted" else ""
    facts = [f"{FACTS[name]} {cell(row[f'{name}{suffix}'])}" for name in names
             if row[f"{name}{suffix}"] is not None]
    return f"{row['change']}: {', '.join(facts)}"


def _partition_change(row: Row) -> str:
    facts = _facts(row, [name for name in FACTS if name in row and f"{name}_before" in row])
    if not row["leader_epoch_changed"]:
        facts = [fact for fact in facts if not fact.startswith(FACTS["leader_epoch"])]
    return "; ".join(facts)


# --- drawing -------------------------------------------------------------------------------------


def _draw(console: Console, document: Document) -> None:
    _draw_answers(console, document)
    status = text_column("status", lambda row: _change(row, "status"))
    rack = text_column("rack", lambda row: (
        _change(row, "rack") if None not in (row["rack_before"], row["rack"])
        and row["rack_before"] != row["rack"] else row["rack"] or row["rack_before"]
    ))
    draw_rows(console, "Brokers", [
        "broker_id", status, rack,
        TableColumn("leaders", value=lambda row: _change(row, "leaders")),
        TableColumn("replicas", value=lambda row: _change(row, "replicas")),
    ], document["brokers"])
    draw_rows(
        console, "Topics", [text_column("topic"), text_column("change", _topic_change)],
        document["topics"], document["topics_listed_of"], complete=True,
    )
    draw_rows(
        console, "Partitions", [_PARTITION, text_column("change", _partition_change)],
        document["partitions"], document["partitions_listed_of"], complete=True,
    )
    draw_rows(console, "Settings of the cluster", [
        text_column("setting"), text_column("before", lambda row: row["value_before"]),
        text_column("after", lambda row: row["value"]),
    ], document["settings"], complete=True)


def _draw_answers(console: Console, document: Document) -> None:
    """Draw what the difference does to the answers."""
    if not document["changed"]:
        return
    draw_rows(console, "Partitions before and after", [
        text_column("partitions", lambda row: MEASURES[row["measure"]]),
        TableColumn("before", value="partitions_before"),
        TableColumn("after", value=lambda row: number(row["measure"], row["partitions"])),
        TableColumn("change", value=_measure_change),
    ], [row for row in document["measures"]
        if (row["partitions_before"], row["partitions"]) != (None, None)])
    draw_rows(console, "Worst failures", [
        text_column("failure", lambda row: f"{row['when']}: {row['failure']}"),
        "offline", "under_min_isr", "unclean", "leaders_moved",
    ], [moment for row in document["worst"] for moment in _moments(row)])
    draw_rows(console, "Newly fragile partitions", [
        _PARTITION,
        text_column("offline if one fails", lambda row: row["newly_offline_by"]),
        text_column("under min isr if one fails", lambda row: row["newly_under_min_isr_by"]),
        text_column("isr"), text_column("replicas"),
    ], document["newly_fragile"], document["newly_fragile_listed_of"])
    draw_rows(console, "By broker", [
        "broker_id", "newly_offline", "newly_under_min_isr",
    ], document["fragile_brokers"], document["fragile_brokers_listed_of"])


_PARTITION = text_column("partition", lambda row: f"{row['topic']}-{row['partition']}")


def _measure_change(row: Row) -> str:
    """How much a measure has changed, where both clusters have it."""
    if None in (row["partitions_before"], row["partitions"]):
        return ""
    return signed(row["partitions"] - row["partitions_before"])


def _moments(row: Row) -> Iterator[Row]:
    """The worst failure of a kind in each of the two clusters, where there is one."""
    for when, suffix in (("before", "_before"), ("after", "")):
        brokers = row[f"brokers{suffix}"]
        if brokers is not None:
            rack = row[f"rack{suffix}"]
            yield {
                "when": when,
                "failure": brokers_named(brokers, [] if rack is None else [rack]),
                **{name: row[f"{name}{suffix}"]
                   for name in ("offline", "under_min_isr", "unclean", "leaders_moved")},
            }
