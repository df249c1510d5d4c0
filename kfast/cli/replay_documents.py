"""The answer of `kfast replay` as a plain document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kfast import __version__
from kfast.cli.options import Condition
from kfast.replay import Place, Replay

__all__ = ["replay_document"]

Document = dict[str, Any]


def replay_document(
    sources: Sequence[str], found: Replay, top: int, conditions: Sequence[Condition]
) -> Document:
    """What `kfast replay` answers."""
    summary = _summary(found)
    return {
        "command": "replay",
        "kfast": __version__,
        "inputs": list(sources),
        "profile": found.profile,
        "release": found.release,
        "files": list(found.files),
        "lines": found.n_lines,
        "notes": list(found.notes),
        "top": top,
        "summary": summary,
        "adopted": dict(found.reasons),
        "kinds": _kinds(found),
        "entries": dict(found.lines),
        "contradictions": [
            {
                "kind": one.kind,
                "subject": one.subject,
                "logged": one.logged,
                "predicted": one.predicted,
                "line": _place(one.place),
                "other": None if one.other is None else _place(one.other),
            }
            for one in found.contradictions
        ],
        "warnings": [
            {"file": one.file, "line": one.line, "what": one.what} for one in found.warnings
        ],
        "not_understood": [_place(place) for place in found.not_understood],
        "timeline": [_timed(row, ("time",)) for row in found.timeline.to_pylist()],
        "outages": [_timed(row, ("since", "until")) for row in found.outages.to_pylist()],
        "fail_on": [
            {"condition": condition.text, "holds": condition.holds(summary)}
            for condition in conditions
        ],
    }


def _summary(found: Replay) -> dict[str, int]:
    """The numbers that conditions are about."""
    counts = found.counts
    total = sum(counts.values())
    spans = [ms for ms in found.outages.column("duration_ms").to_pylist() if ms is not None]
    return {
        "facts": total,
        **counts,
        "adopted_percent": -(-100 * counts["adopted"] // total) if total else 0,
        "warnings": len(found.warnings),
        "not_understood": found.lines["not understood"],
        "events": found.timeline.num_rows,
        "leaderless": found.outages.num_rows,
        "longest_leaderless_s": -(-max(spans, default=0) // 1000),
    }


def _kinds(found: Replay) -> list[Document]:
    """Facts by what they are about, with how many ended how."""
    grouped = found.facts.group_by(["kind", "verdict"]).aggregate([([], "count_all")])
    kinds: dict[str, Document] = {}
    for row in grouped.to_pylist():
        empty = {"kind": row["kind"], "predicted": 0, "adopted": 0, "contradicted": 0}
        kinds.setdefault(row["kind"], empty)[row["verdict"]] = row["count_all"]
    return sorted(kinds.values(), key=lambda one: (-one["predicted"] - one["adopted"], one["kind"]))


def _place(place: Place) -> Document:
    return {"file": place.file, "line": place.line, "time": place.time, "text": place.text}


def _timed(row: Document, names: Sequence[str]) -> Document:
    """A row of a table, with times as texts."""
    said = {
        name: None if row[name] is None else row[name].isoformat(" ", "milliseconds")
        for name in names
    }
    return {**row, **said}
