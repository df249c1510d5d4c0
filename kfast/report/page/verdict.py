"""Whether a cluster holds, in a sentence and in a few tiles: the first screen of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kfast.report.answer import Document
from kfast.report.wording import brokers_named, count, plural

__all__ = ["resilience", "tiles", "verdict"]

KINDS = {
    "brokers": ("One broker fails", "broker"), "racks": ("One rack fails", "rack"),
    "pairs": ("Two brokers fail", "pair"),
}
LEVELS = ("holds", "loses", "refuses", "fails")
"""What failures of a kind do at worst: nothing, elect leaders outside the ISR, make some refuse
acks=all, take partitions offline.
"""


def resilience(sections: Mapping[str, Document]) -> list[Document]:
    """Of each kind of failure: how many there are, and how many do harm."""
    rows = []
    for kind, (title, noun) in KINDS.items():
        document = sections.get(kind)
        if document is None:
            continue
        worse, n = document["n_worse"], document["scenarios"]["counted"] - 1
        [unclean] = (row["most"] - row["baseline"] for row in document["counts"]
                     if row["count"] == "unclean")
        level = (
            "fails" if worse["offline"] else "refuses" if worse["under_min_isr"]
            else "loses" if unclean > 0 else "holds"
        )
        row = {
            "kind": kind, "title": title, "noun": noun, "failures": n, "level": level,
            "offline": worse["offline"], "refused": worse["under_min_isr"],
            "unclean": max(unclean, 0),
        }
        rows.append({**row, "sentence": _sentence(row), "worst": _worst(document)})
    return rows


def verdict(census: Mapping[str, int], rows: list[Document]) -> tuple[str, str, list[str]]:
    """The verdict as a level, a headline, and sentences."""
    levels = {row["kind"]: row["level"] for row in rows}
    single = [levels[kind] for kind in ("brokers", "racks") if kind in levels]
    level = max(single, key=LEVELS.index, default="holds")
    if not rows:
        level, headline = "fails", "No broker is up"
    elif census["offline"]:
        level, headline = "fails", "Part of this cluster is down now"
    elif levels.get("brokers") == "fails":
        headline = "It does not hold: one broker's failure takes partitions offline"
    elif levels.get("racks") == "fails":
        headline = "It does not hold: a rack's failure takes partitions offline"
    elif census["under_min_isr"]:
        level, headline = "refuses", "Reading holds, writing does not: acks=all is refused now"
    elif "refuses" in single:
        cause = "one broker" if levels.get("brokers") == "refuses" else "a rack"
        headline = f"Reading holds, writing does not: when {cause} fails, acks=all is refused"
    elif level == "loses":
        cause = "one broker" if levels.get("brokers") == "loses" else "a rack"
        headline = f"It stays up, but may lose records when {cause} fails"
    else:
        what = "broker or rack" if "racks" in levels else "broker"
        headline = f"It holds: no failure of a single {what} stops anything"
    return level, headline, list(_sentences(census, rows))


def _sentences(census: Mapping[str, int], rows: list[Document]) -> Iterator[str]:
    if census["offline"] or census["under_min_isr"]:
        yield (
            f"Now {count(census['offline'], 'partition', 'is', 'are')} offline and "
            f"{count(census['under_min_isr'], 'partition', 'is', 'are')} under min ISR."
        )
    yield from (row["sentence"] for row in rows)


def _sentence(row: Document) -> str:
    """How many failures of a kind do harm."""
    total = plural(row["failures"], row["noun"])
    if row["level"] == "holds":
        return f"{row['title']}: none of {total} does any harm."
    loss = ""
    if row["unclean"]:
        elected = count(row["unclean"], "leader", "is elected", "are elected")
        loss = f"; at worst {elected} outside the ISR, which may lose records"
    return (
        f"{row['title']}: {row['offline'] or 'none'} of {total} "
        f"{'takes' if row['offline'] < 2 else 'take'} partitions offline, "
        f"{row['refused'] or 'none'} "
        f"{'makes' if row['refused'] < 2 else 'make'} some refuse acks=all{loss}."
    )


def _worst(document: Document) -> str:
    """The worst failure of a sweep."""
    if not document["n_worse"]["offline"] and not document["n_worse"]["under_min_isr"]:
        return ""
    row = document["worst"][0]
    racks = row["whole_racks"]
    return (
        f"The worst: {brokers_named(row['brokers'], racks)}, with {row['offline']} offline and "
        f"{row['under_min_isr']} under min ISR."
    )


def _harm(row: Document) -> str:
    """How many failures of a kind do harm, in a few words."""
    if row["level"] == "loses":
        return f"at worst {plural(row['unclean'], 'leader')} from outside the ISR"
    n = max(row["offline"], row["refused"])
    return f"{n} of {plural(row['failures'], row['noun'])} {'does' if n == 1 else 'do'} harm"


def tiles(
    census: Mapping[str, int], rows: list[Document], sections: Mapping[str, Document]
) -> list[dict[str, Any]]:
    """Short facts: a title, a value, a level and a note each."""
    words = {"holds": "holds", "loses": "may lose records", "refuses": "writes refused",
             "fails": "goes offline"}
    facts = [
        {
            "title": row["title"], "level": row["level"], "value": words[row["level"]],
            "note": _harm(row),
        }
        for row in rows
    ]
    refused = census["under_min_isr"]
    reserve = census["at_min_isr"] + refused
    facts.append({
        "title": "Headroom in replicas", "level": "refuses" if reserve else "holds",
        "value": f"{reserve} without" if reserve else "all have some",
        "note": f"partitions that refuse acks=all {'now, or ' if refused else ''}"
                "with one in-sync replica less",
    })
    capacity = sections.get("capacity_racks") or sections.get("capacity_brokers")
    if capacity is not None and capacity["summary"]["headroom"] is not None:
        share = capacity["summary"]["headroom"]
        facts.append({
            "title": "Headroom in bytes", "level": "holds" if capacity["safe"] else "fails",
            "value": f"{100 * share:.1f} %",
            "note": "of the limit, after the worst failure of one "
                    + ("rack" if "capacity_racks" in sections else "broker"),
        })
    if "restart" in sections:
        summary = sections["restart"]["summary"]
        facts.append({
            "title": "Restart now", "level": "refuses" if summary["may_not_restart"] else "holds",
            "value": f"{summary['may_restart']} of {plural(summary['brokers'], 'broker')}",
            "note": f"all in {plural(summary['batches'], 'batch', 'batches')}",
        })
    return facts
