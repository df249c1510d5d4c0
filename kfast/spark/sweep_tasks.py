"""Sweeps in Spark's workers: what travels there as a file, and what a task does with it.

A file travels once to each executor. It has the arrays as they lie in memory, as Arrow tensors, so
that all workers there map it and share its pages, and have no copy. Workers import nothing else of
`kfast.spark` for a sweep, so this needs as little as can be.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import SparkFiles

from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import SweepWork, words_of
from kfast.sweeps.sweep_plan import SweepPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "list_range", "merge_batches", "open_sent", "send", "slice_for", "sweep_range",
    "without_cluster",
]

ALIGNMENT = 64
"""Arrays in a file begin at multiples of this: Arrow's tensors alone do not."""

_lock = threading.RLock()
"""Held while files are written and sent: a driver may sweep in several threads."""

_sent: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""Names of the files that each session has been given."""


def without_cluster(plan: SweepPlan) -> SweepPlan:
    """A plan as workers need it: without its rows and its cluster."""
    return replace(plan, rows=np.empty(0, np.int32), started=None)


def send(spark: SparkSession, content: object) -> str:
    """Give the session something made of arrays as a file, if it has none; the file's name."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    name = f"kfast-{digest.hexdigest()}"
    with _lock:
        known = _sent.setdefault(spark, set())
        if name not in known:
            path = Path(_folder().name) / name
            with pa.OSFile(str(path), "wb") as file:
                for part in parts:
                    pa.ipc.write_tensor(pa.Tensor.from_numpy(np.frombuffer(part, np.uint8)), file)
                    file.write(bytes(-file.tell() % ALIGNMENT))
            spark.addArtifacts(str(path), file=True)
            known.add(name)
    return name


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where files that are sent lie: a classic session reads them again until the process ends."""
    return tempfile.TemporaryDirectory(prefix="kfast-")


def open_sent(name: str) -> Any:
    """What was sent under a name; its arrays are views of the file. Called in a worker."""
    return _open(SparkFiles.get(name))


@functools.lru_cache(maxsize=2)
def _open(path: str) -> Any:
    file, parts = pa.memory_map(path, "r"), []
    while file.tell() < file.size():
        parts.append(pa.ipc.read_tensor(file).to_numpy())
        file.seek(file.tell() + -file.tell() % ALIGNMENT)
    return pickle.loads(parts[0], buffers=parts[1:])


def slice_for(scenarios: Scenarios, tasks: int, task: int) -> Scenarios:
    """Scenarios of one of some tasks."""
    n = len(scenarios)
    start, stop = n * task // tasks, n * (task + 1) // tasks
    return scenarios.slice(scenarios.start + start, scenarios.start + stop)


def list_range(scenarios: Scenarios, tasks: int, task: int) -> Iterator[pa.RecordBatch]:
    """List who fails in a task's scenarios."""
    yield from slice_for(scenarios, tasks, task).to_batches()


def sweep_range(
    name: str, scenarios: Scenarios, counts: tuple[str, ...], vectors: str | None, tasks: int,
    batch: int, task: int,
) -> Iterator[pa.RecordBatch]:
    """Count a task's scenarios; one thread, for every core has a task."""
    plan, failover_order, hosting = open_sent(name)
    work = SweepWork(plan, counts, words_of(vectors), failover_order, hosting)
    yield from merge_batches(work.batches(slice_for(scenarios, tasks, task)), batch)


def merge_batches(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together: each that goes to the JVM costs milliseconds."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(rows)
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(rows)
