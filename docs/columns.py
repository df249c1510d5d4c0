"""Write `docs/columns.md` from what `kfast schema` answers: `python -m docs.columns`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from kfast.report.columns import columns_answer

PAGE = Path(__file__).resolve().parent / "columns.md"
HEAD = """\
# Columns of a cluster

`python -m docs.columns` generates this page from what `kfast schema` prints; a test keeps it
current. A cluster is a few tables of columns: arrays in memory (`state.leader`), and Arrow
tables outside (`state.to_tables()`, files, Spark). *Arrow* is the type in the Arrow table; a column
without one is made from others there, and `docs/results.md` lists those. *Array* is how the array
holds it: a `mask` has a bit for each slot of a partition, a `broker` is the row of a broker, and
*Null* is the number that means "none".
"""


def page() -> str:
    """The whole page."""
    columns = columns_answer().document["columns"]
    return "\n".join([
        HEAD,
        *(section(table, [*rows]) for table, rows in groupby(columns, lambda row: row["table"])),
    ])


def section(table: str, rows: list[dict[str, Any]]) -> str:
    """The section of one table."""
    lines = [
        f"## {table}", "",
        "| Column | Meaning | Arrow | Null | Array |", "|---|---|---|---|---|",
    ]
    for row in rows:
        null = "" if row["null"] is None else row["null"]
        lines.append(
            f"| `{row['column']}` | {row['meaning']} | {row['arrow'] or ''} | {null} | "
            f"{row['array']} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
