"""How many partitions an export has, about, so that tasks get work of about one size.

Only the sizes of tasks follow from these, never the rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kfast.state.flat import SLOT

__all__ = ["ENDS", "FLAT_MARK", "MAGIC", "PARTITION_BYTES", "about_partitions"]

PARTITION_BYTES = {
    "text": 80, "packed": 10, "arrow": 100, "parquet": 11, "parquet-flat": 4,
}
"""A partition of three replicas in a file of each form, as measured of random placements."""

MAGIC = {b"\x1f\x8b": "packed", b"\x28\xb5": "packed", b"AR": "arrow", b"PA": "parquet"}
"""How gzip, zstd, Arrow and Parquet begin; anything else is text."""

ENDS = {
    ".gz": "packed", ".zst": "packed", ".parquet": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}
"""Ends of names, by which the form of a file is guessed without opening it."""

FLAT_MARK = f"{SLOT.name}0"
"""Name of a column that a Parquet file of the flat form has, and no other."""

LARGE_BYTES = 1 << 20
"""A Parquet file of this size is asked how many rows it has; a smaller one does not matter."""


def about_partitions(name: str | Path) -> int:
    """How many partitions a file has, about; 0 for what is no file."""
    path = Path(name)
    size = path.stat().st_size if path.is_file() else 0
    form = ENDS.get(path.suffix.lower(), "text")
    if form == "parquet" and size >= LARGE_BYTES:
        try:
            return int(pq.read_metadata(path).num_rows)
        except (pa.ArrowException, OSError):
            # Whoever reads the file says what is wrong with it.
            return size // PARTITION_BYTES[form]
    return size // PARTITION_BYTES[form]
