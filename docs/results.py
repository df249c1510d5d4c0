"""Write `docs/results.md` from `kfast.schema`: `python -m docs.results`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from kfast.schema import RESULTS, ResultTable

PAGE = Path(__file__).resolve().parent / "results.md"
HEAD = """\
# Every result table

`python -m docs.results` generates this page from `kfast.schema.RESULTS`; a test keeps it current.
Each result is an Arrow table, or a Spark DataFrame, with exactly these columns in this order. A
column with an empty *Null* field is not nullable, and its Arrow and Spark types say so. (Columns
that Spark reads back from files are always nullable: `requests`, `transitions`, `elections` and
`records` of `kfast.spark.fail`, and everything the pipeline wrote.) Text columns are plain strings,
so `table.sort_by` works on every column except lists.

The last word of a name is its unit: `_ms`, `_s`. Brokers are identified by id, topics by name.

`partition_row` is the row of a partition in the queried state, from 0:
`state.partition[partition_row]` is its number. Your own data per row joins by index:
`loads.take(table["partition_row"])`. Rows are those of `state.to_tables().partitions` until a topic
is deleted. A deletion frees the rows of its partitions and moves no other; new partitions take free
rows first. So a partition has the same row before and after an event, and in the copy on which a
what-if works. Only `state.compact()` moves rows. It returns the previous row of each remaining
partition, so `loads = loads.take(state.compact())` keeps `loads` aligned. Tables of
`kfast.spark.fail` name the file and the row in it: `shard` and `partition_row`.

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
    """The section of one table."""
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
    """The name of a type."""
    return f"list of {arrow.value_type}" if pa.types.is_list(arrow) else str(arrow)


if __name__ == "__main__":
    PAGE.write_text(page())
