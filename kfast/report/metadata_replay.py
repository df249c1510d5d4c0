"""What `kfast replay` answers for a metadata log: verdicts, contradictions, the timeline."""

from __future__ import annotations

from rich.console import Console

from kfast.metadata_replay import MetadataReplay
from kfast.replay_results.verdicts import MISSING, NO_DECISION, PREDICTED
from kfast.report.answer import Answer, Document, getters
from kfast.report.replay import (
    REPLAY_TABLES,
    draw_first,
    draw_incident,
    draw_source,
    replay_head,
    summarize,
    verdict_on_facts,
    verdict_on_leaders,
)
from kfast.report.tables import plain
from kfast.report.wording import plural

__all__ = ["metadata_replay_answer"]


def metadata_replay_answer(replay: MetadataReplay, *, top: int) -> Answer:
    """The answer of `kfast replay` for a metadata log."""
    document: Document = {
        **replay_head(replay, [replay.source], replay.why, top),
        "settings": dict(replay.settings),
        "records": replay.n_records,
        "first_offset": replay.first_offset,
        "end_offset": replay.end_offset,
        "summary": summarize(
            replay.counts, replay.counts[PREDICTED] + replay.counts[MISSING], replay.timeline,
            replay.outages,
        ),
        "why_no_recall": "" if replay.counts[PREDICTED] + replay.counts[MISSING] else NO_DECISION,
        "unknown": {},
        "kinds": [{"kind": kind, **counts} for kind, counts in replay.kinds.items()],
        "causes": dict(replay.causes),
        "contradictions": [
            {
                "offset": one.offset,
                "kind": one.kind,
                "subject": one.subject,
                "cause": one.cause,
                "logged": one.logged,
                "predicted": one.predicted,
                "missing": one.is_missing,
            }
            for one in replay.contradictions
        ],
    }
    document["verdict"] = [_verdict(document), verdict_on_leaders(document)]
    return Answer(document, _draw, getters(replay, REPLAY_TABLES))


def _verdict(document: Document) -> str:
    summary = document["summary"]
    if not summary["facts"] and not summary["missing"]:
        return "No decision of a controller is in the log, so nothing was compared."
    return verdict_on_facts(document, "decision")


def _draw(console: Console, document: Document) -> None:
    for row in draw_first(console, "Contradictions", document, "contradictions"):
        logged = "is not there" if row["missing"] else f"logged {row['logged']}"
        console.print(plain(
            f"offset {row['offset']}, {row['cause']}: {row['kind']} of {row['subject']}: {logged}; "
            f"predicted {row['predicted'] or 'nothing'}", "red",
        ))
    draw_incident(console, document)
    draw_source(console, document, (
        f"Log: {', '.join(document['inputs'])}: {plural(len(document['files']), 'segment')}, "
        f"{plural(document['records'], 'record')} from offset {document['first_offset']} to "
        f"{document['end_offset'] - 1}"
    ))
