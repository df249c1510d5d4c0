"""What `kfast schema` answers: every column of a cluster's tables."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from rich.console import Console

from kfast import __version__, schema
from kfast.report.answer import Answer, Document
from kfast.report.drawing import draw_rows
from kfast.report.tables import text_column

__all__ = ["columns_answer"]

TABLES: Mapping[str, tuple[schema.Column, ...]] = {
    "cluster": schema.CLUSTER,
    "brokers": schema.BROKERS,
    "topics": schema.TOPICS,
    "partitions": (*schema.PARTITIONS, *schema.FLAG_COLUMNS),
    "replicas": schema.REPLICAS,
}


def columns_answer() -> Answer:
    """The answer of `kfast schema`."""
    columns = [
        {
            "table": table,
            "column": column.name,
            "axes": list(column.axes),
            "array": column.dtype,
            "arrow": None if column.arrow is None else str(column.arrow),
            "null": column.null,
            "meaning": column.meaning,
        }
        for table, of_table in TABLES.items()
        for column in of_table
    ]
    document = {
        "kfast": __version__,
        "command": "schema",
        "verdict": [f"A cluster is {len(TABLES)} tables with {len(columns)} columns."],
        "columns": columns,
    }
    return Answer(document, _draw, {"columns": lambda: pa.Table.from_pylist(columns)})


def _draw(console: Console, document: Document) -> None:
    shown = [*map(text_column, ("column", "meaning", "arrow", "null", "array"))]
    for name in TABLES:
        draw_rows(console, name, shown, [c for c in document["columns"] if c["table"] == name])
