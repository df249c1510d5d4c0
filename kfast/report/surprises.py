"""Partitions of a KRaft cluster that do what operators do not expect, in words and as a table."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from rich.console import Console

from kfast.report.answer import Document
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import plural
from kfast.schema import SURPRISE_KINDS

__all__ = ["draw_surprises", "surprise_sentences"]


def surprise_sentences(surprises: pa.Table) -> list[str]:
    """One sentence on each kind of `schema.SURPRISES`: how many partitions, and what they do."""
    kinds = Counter(surprises["surprise"].to_pylist())
    return [f"{plural(n, 'partition')}: {SURPRISE_KINDS[kind]}." for kind, n in kinds.items()]


def draw_surprises(console: Console, document: Document) -> None:
    """Draw the first of these partitions, each with what happens and the brokers it waits for."""
    draw_rows(
        console, "Partitions that may surprise",
        [text_column("partition", lambda row: f"{row['topic']}-{row['partition']}"),
         TableColumn("leader", value=lambda row: "none" if row["leader"] < 0 else row["leader"]),
         text_column("replicas"), text_column("waits for", _awaited), text_column("surprise")],
        document["surprises"], document["surprises_listed_of"], complete=True,
    )


def _awaited(row: Row) -> str:
    """Brokers whose start brings a partition back."""
    joint = " or " if row["surprise"] == "waits_for_eligible" else " and "
    return joint.join(map(str, row["waits_for"])) or ("nobody" if row["leader"] < 0 else "")
