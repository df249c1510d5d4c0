"""What a task of a sweep does; workers import nothing else of `kfast.spark` but what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from kfast.spark.mapped import open_plan
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import SweepWork, words_of

__all__ = ["list_range", "merged", "slice_of", "sweep_range"]

def slice_of(scenarios: Scenarios, tasks: int, task: int) -> Scenarios:
    """Scenarios of one of some tasks."""
    n = len(scenarios)
    start, stop = n * task // tasks, n * (task + 1) // tasks
    return scenarios.slice(scenarios.start + start, scenarios.start + stop)


def list_range(scenarios: Scenarios, tasks: int, task: int) -> Iterator[pa.RecordBatch]:
    """List who fails in a task's scenarios."""
    yield from slice_of(scenarios, tasks, task).to_batches()


def sweep_range(
    name: str, scenarios: Scenarios, counts: tuple[str, ...], vectors: str | None, tasks: int,
    batch: int, task: int,
) -> Iterator[pa.RecordBatch]:
    """Count a task's scenarios; one thread, for every core has a task."""
    sent = open_plan(name)
    work = SweepWork(sent.plan, counts, words_of(vectors), sent.heirs, sent.hosting)
    yield from merged(work.batches(slice_of(scenarios, tasks, task)), batch)


def merged(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together: each that goes to the JVM costs milliseconds."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(rows)
            waiting = []
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches(rows)
