"""Write `docs/results.md` from `kfast.schema`: `python -m docs.results`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kfast.schema import RESULTS, ResultTable

PAGE = Path(__file__).resolve().parent / "results.md"
HEAD = """\
# Every table that kfast gives

`python -m docs.results` writes this page from `kfast.schema.RESULTS`, and a test keeps it current.
Each of these tables is an Arrow table, or a DataFrame of Spark, with just these columns in this
order. Where the field *Null* is empty, a column has no nulls, and its type says so; Spark's types
are made of the same statement. (What Spark reads back from files is nullable in every column:
`requests`, `transitions` and `elections` of `kfast.spark.fail`, and all that the pipeline wrote.)
Texts are plain strings, so that `table.sort_by` sorts by every column that is no list.

Units are the last word of a name: `_ms`, `_s`. Brokers are named by their ids, topics by their
names.

`partition_row` is the row of a partition in the state that was asked about, from 0:
`state.partition[partition_row]` is its number. What you know of each row joins by an index:
`loads.take(table["partition_row"])`. Rows are those of `state.to_tables().partitions` as long as no
topic was deleted. A deletion frees the rows of its partitions and moves no other; new partitions
take free rows first. So a row is the same before and after an event, and in a what-if, which works
on a copy, the same as in the state that was given. Only `state.compact()` moves rows. It returns
where each row that is left was before, so `loads = loads.take(state.compact())` follows it. A table
of `kfast.spark.fail` names the file and the row in it: `shard` and `partition_row`.

```python
import kfast, numpy as np, pyarrow as pa
state = kfast.generate(brokers=6, partitions=100, seed=1)
loads = pa.array(np.random.default_rng(1).uniform(0, 1e6, state.n_partitions))  # of each row
after = kfast.fail_brokers(state, [3]).impact.partitions
after = after.append_column("load", loads.take(after["partition_row"]))
after.group_by("leader").aggregate([("load", "sum")])               # per broker after the failure
```
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(section(result) for result in RESULTS)])


def section(result: ResultTable) -> str:
    """What the page says of one table."""
    lines = [
        f"## {result.name}", "", f"`{result.source}`. Rows: {result.rows}.", "",
        "| Column | Type | Null | Meaning |", "|---|---|---|---|",
    ]
    for column in result.columns:
        meaning, _, null = column.meaning.partition("; null ")
        null = null or ("yes" if column.nullable else "")
        lines.append(f"| `{column.name}` | {kind(column.arrow)} | {null} | {meaning} |")
    return "\n".join([*lines, ""])


def kind(arrow: pa.DataType) -> str:
    """A type in words."""
    return f"list of {arrow.value_type}" if pa.types.is_list(arrow) else str(arrow)


if __name__ == "__main__":
    PAGE.write_text(page())
