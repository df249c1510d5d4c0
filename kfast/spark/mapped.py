"""Files that travel once to each executor, and that all workers there map into memory.

A file is uncompressed Arrow, so that what is read of it is a view of the file's own pages: workers
share them, and have no copy.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import SparkFiles

from kfast.state.records import Rows
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.sparse_counts import Hosting
from kfast.sweeps.sweep_plan import SweepPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SentPlan", "open_batches", "open_plan", "send_batches", "send_plan"]

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Part = TypeVar("Part", FailoverOrder, Hosting)

PLAN_ARRAYS = ("broker_id", "registered", "groups", "sequences")
NO_ROWS = np.empty(0, np.int32)

_alone = threading.RLock()
"""Held while files are made and sent: a driver may sweep in several threads."""

_sent: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""Names of the files that each session has been given."""


@dataclass(frozen=True, eq=False)
class SentPlan:
    """A plan that was sent, without its rows and its cluster, and what was sent with it.

    Attributes
    ----------
    order : (n_partitions,) int32
        Partitions of the plan in the order of the cluster's rows; empty where it was not sent.
    """

    plan: SweepPlan
    heirs: FailoverOrder | None
    hosting: Hosting | None
    order: Rows


def send_plan(
    spark: SparkSession, plan: SweepPlan, *, heirs: FailoverOrder | None = None,
    hosting: Hosting | None = None, order: Rows = NO_ROWS,
) -> str:
    """Give the session a plan, and what was made of it, as a file; return the file's name."""
    arrays: Arrays = {name: getattr(plan, name) for name in PLAN_ARRAYS}
    arrays |= {"sizes": np.array([plan.n_partitions, plan.n_rows]), "order": order}
    digest = _digest(arrays)
    made = _arrays_of("heirs", heirs) | _arrays_of("hosting", hosting)
    kinds = "".join(sorted({f"-{name.split('.')[0]}" for name in made}))
    return _send(spark, f"kfast-{digest}{kinds}.arrow", lambda path: _write(path, arrays | made))


def open_plan(name: str) -> SentPlan:
    """What was sent under a name, as views of the file; in a worker."""
    return _open_plan(SparkFiles.get(name))


def send_batches(spark: SparkSession, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> str:
    """Give the session record batches as a file; return the file's name."""
    with _alone:
        unnamed = Path(_folder().name) / "unnamed.arrow"
        with pa.ipc.new_file(str(unnamed), schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        with pa.memory_map(str(unnamed), "r") as mapped:
            digest = hashlib.sha256(mapped.read_buffer()).hexdigest()
        return _send(spark, f"kfast-{digest}.arrow", unnamed.rename)


@functools.lru_cache(maxsize=2)
def open_batches(name: str) -> pa.RecordBatchFileReader:
    """Record batches that were sent under a name; in a worker."""
    return pa.ipc.open_file(pa.memory_map(SparkFiles.get(name), "r"))


def _send(spark: SparkSession, name: str, write: Callable[[Path], object]) -> str:
    """Write a file and give it to the session, unless the session has it."""
    with _alone:
        known = _sent.setdefault(spark, set())
        if name not in known:
            path = Path(_folder().name) / name
            write(path)
            spark.addArtifacts(str(path), file=True)
            known.add(name)
    return name


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where files that are sent lie: a classic session reads them again until the process ends."""
    return tempfile.TemporaryDirectory(prefix="kfast-")


def _digest(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays as the cells of one row; dtype and shape are said in the schema."""
    fields, cells = [], []
    for name, array in arrays.items():
        said = {"dtype": array.dtype.str, "shape": ",".join(map(str, array.shape))}
        fields.append(pa.field(name, pa.large_binary(), metadata=said))
        ends = pa.py_buffer(np.array([0, array.nbytes]))
        data = pa.py_buffer(np.ascontiguousarray(array))
        cells.append(pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, data]))
    schema = pa.schema(fields)
    with pa.ipc.new_file(str(path), schema) as writer:
        writer.write_batch(pa.record_batch(cells, schema=schema))


@functools.lru_cache(maxsize=2)
def _open_plan(path: str) -> SentPlan:
    batch = pa.ipc.open_file(pa.memory_map(path, "r")).get_batch(0)
    arrays: Arrays = {}
    for field, cell in zip(batch.schema, batch.columns, strict=True):
        shape = [int(size) for size in field.metadata[b"shape"].split(b",")]
        # The data buffer itself: a cell taken from the column would be a copy.
        found = np.frombuffer(cell.buffers()[2], field.metadata[b"dtype"].decode())
        arrays[field.name] = found.reshape(shape)
    n_partitions, n_rows = arrays["sizes"].tolist()
    plan = SweepPlan(
        **{name: arrays[name] for name in PLAN_ARRAYS}, n_partitions=n_partitions, n_rows=n_rows,
        rows=NO_ROWS, started=None,
    )
    heirs, hosting = _part_of("heirs", FailoverOrder, arrays), _part_of("hosting", Hosting, arrays)
    return SentPlan(plan, heirs, hosting, arrays["order"])


def _arrays_of(prefix: str, part: FailoverOrder | Hosting | None) -> Arrays:
    """Arrays of something that was made of a plan; `sequences` are the plan's own."""
    if part is None:
        return {}
    names = [field.name for field in dataclasses.fields(part) if field.name != "sequences"]
    return {f"{prefix}.{name}": getattr(part, name) for name in names}


def _part_of(prefix: str, kind: type[Part], arrays: Arrays) -> Part | None:
    """Something that was made of a plan, if it was sent."""
    own = {
        name.removeprefix(f"{prefix}."): array
        for name, array in arrays.items()
        if name.startswith(f"{prefix}.")
    }
    if not own:
        return None
    if kind is Hosting:
        own["sequences"] = arrays["sequences"]
    return kind(**own)
