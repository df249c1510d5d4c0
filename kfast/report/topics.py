"""The table of topics that several answers have: the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from kfast.report.answer import Document, number, titled
from kfast.report.tables import TextTable, text_column

__all__ = ["draw_topics"]


def draw_topics(console: Console, document: Document, metrics: Sequence[str]) -> None:
    """Draw the first of the topics of which some metric holds, the worst first."""
    topics = document["topics"]
    if not topics:
        return
    title = titled("Worst topics", topics, document["topics_listed_of"])
    table = TextTable(title, [
        text_column("topic"), *metrics, "partitions",
    ])
    for row in topics:
        cells = (number(name, row[name]) for name in metrics)
        table.add_row(row["topic"], *cells, str(row["partitions"]))
    table.draw(console)
