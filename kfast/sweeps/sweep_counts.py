"""Counting scenarios of a plan: all that a worker of a sweep needs.

Scenarios are taken in ranges; threads share nothing but what they read, and results come in order.

Source: docs/controller.md, sections 6.1 and 6.2: a scenario is `on_controller_failover`, then
`on_broker_failure` of all its brokers in one event; `docs/sweeps.md` defines the counts.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import ArgumentError
from kfast.kernels import sweep as kernel
from kfast.schema import SWEEP, SWEEP_COUNTS
from kfast.state.arrow_views import view
from kfast.state.records import Rows
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.scenarios import Offsets, Scenarios
from kfast.sweeps.sparse_counts import Hosting
from kfast.sweeps.sweep_plan import SweepPlan, down_brokers, padded

__all__ = ["RANGE_SCENARIOS", "SWEEP_COUNTS", "Progress", "SweepWork", "check_counts",
    "sweep_schema", "words_of"]

Progress: TypeAlias = Callable[[int, int], None]
Counts: TypeAlias = npt.NDArray[np.int64]

DENSE_NS = 3.0
SPARSE_NS = 5.0
LISTING_NS = 5.0
"""Nanoseconds for a partition and a vector of scenarios; for a replica on a broker that is down;
for a replica that is listed first. Measured at 1 M partitions of three replicas."""

VECTORS = {"words": 1, "avx2": 4, "avx512": 8}
"""Kinds of vectors, and the words of 64 bits in one."""

VECTORS_VARIABLE = "KFAST_VECTORS"
"""Environment variable that chooses the vectors where no argument does."""

RANGE_SCENARIOS = 2048
"""Scenarios that a thread takes at a time: a few vectors, so that results stay small."""


@dataclass(frozen=True, eq=False)
class SweepWork:
    """A plan, what to count, and what is made of the plan before anything is counted.

    Attributes
    ----------
    counts : tuple of str
        Some of `SWEEP_COUNTS`, in their order.
    words : int
        Words of 64 bits in the vectors of this machine that are used.
    failover_order : FailoverOrder, optional
        Where leaders per broker are counted.
    hosting : Hosting, optional
        Where the method is sparse.
    """

    plan: SweepPlan
    counts: tuple[str, ...]
    words: int
    failover_order: FailoverOrder | None
    hosting: Hosting | None

    @classmethod
    def of(
        cls, plan: SweepPlan, scenarios: Scenarios, counts: tuple[str, ...], words: int,
        method: str | None = None,
    ) -> SweepWork:
        """Make what these scenarios need; without a method, choose one."""
        order = FailoverOrder.of(plan) if "fullest_broker_leaders" in counts else None
        sparse = method == "sparse" or (method is None and _is_sparse(plan, scenarios, words))
        return cls(plan, counts, words, order, Hosting.of(plan) if sparse else None)

    @property
    def wanted(self) -> int:
        """Bit m set: count m of the kernel is asked for."""
        return sum(1 << m for m, name in enumerate(SWEEP_COUNTS) if m < 7 and name in self.counts)

    def batches(
        self, scenarios: Scenarios, threads: int = 1, progress: Progress | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Count scenarios, some thousands at a time, in order."""
        done = 0
        for batch in _in_order(partial(self._count, scenarios), _ranges(scenarios), threads):
            yield batch
            done += batch.num_rows
            if progress is not None:
                progress(done, len(scenarios))

    def _count(self, scenarios: Scenarios, start: int, stop: int) -> pa.RecordBatch:
        """Count one range of scenarios."""
        offsets, down = scenarios.down(start, stop)
        n = stop - start
        columns: dict[str, pa.Array] = {
            "scenario": view(np.arange(start, stop, dtype=np.int64)),
            "brokers_down": view(np.diff(offsets).astype(np.int32)),
        }
        wanted = self.wanted
        if wanted:
            counts = self._counts(offsets, down, n)
            for m, name in enumerate(SWEEP_COUNTS):
                if wanted >> m & 1:
                    columns[name] = view(counts[m, :n])
        if self.failover_order is not None:
            most, fullest = self.failover_order.fullest_brokers(offsets, down, self.words)
            ids = np.append(self.plan.broker_id, np.int32(-1))[fullest]
            columns["fullest_broker"] = view(ids)
            columns["fullest_broker_leaders"] = view(most.astype(np.int64))
        schema = sweep_schema(self.counts)
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)

    def _counts(self, offsets: Offsets, down: Rows, n: int) -> Counts:
        plan, lanes = self.plan, 64 * self.words
        counts = np.zeros((kernel.layout()["counts"], -(-n // lanes) * lanes), np.int64)
        if not plan.n_partitions:
            return counts
        if self.hosting is not None:
            self.hosting.count(offsets, down, self.words, self.wanted, counts)
            return counts
        tables = padded(plan.tables)
        kernel.count_dense(
            plan.groups, plan.sequences, tables,
            down_brokers(offsets, down, plan.n_brokers, self.words), self.wanted, counts,
        )
        return counts


def sweep_schema(counts: Collection[str] = tuple(SWEEP_COUNTS)) -> pa.Schema:
    """Schema of a sweep's rows with these counts: `schema.SWEEP` without the others."""
    wanted = {"scenario", "brokers_down", *counts}
    if "fullest_broker_leaders" in counts:
        wanted.add("fullest_broker")
    return pa.schema([field for field in SWEEP.schema if field.name in wanted])


def _is_sparse(plan: SweepPlan, scenarios: Scenarios, words: int) -> bool:
    """Whether few brokers of many fail, so that to look at what they host costs less."""
    first = min(scenarios.start + RANGE_SCENARIOS, scenarios.stop)
    offsets, _ = scenarios.down(scenarios.start, first)
    seen = max(first - scenarios.start, 1)
    hosted = plan.sequences.size / max(plan.n_brokers, 1)
    visits = len(scenarios) * int(offsets[-1]) / seen * hosted
    vectors = -(-len(scenarios) // (64 * words))
    listing = LISTING_NS * plan.sequences.size
    return SPARSE_NS * visits + listing < DENSE_NS * vectors * plan.n_partitions


def check_counts(counts: Collection[str] | None) -> tuple[str, ...]:
    """Counts that are asked for, in the order of `SWEEP_COUNTS`; others are refused."""
    if counts is None:
        return tuple(SWEEP_COUNTS)
    names: object = counts
    named = isinstance(names, Collection) and not isinstance(names, (str, bytes, np.ndarray))
    if not named or any(name not in tuple(SWEEP_COUNTS) for name in counts):
        raise ArgumentError(f"counts is {counts!r}; allowed are some of {', '.join(SWEEP_COUNTS)}")
    return tuple(name for name in SWEEP_COUNTS if name in counts)


def words_of(vectors: str | None) -> int:
    """Words of 64 bits in the vectors that an argument or the environment asks for."""
    name = vectors or os.environ.get(VECTORS_VARIABLE) or None
    widest = kernel.widest()
    if name is None:
        return widest
    here = [kind for kind, words in VECTORS.items() if words <= widest]
    if name not in here:
        raise ArgumentError(f"vectors is {name!r}; this machine has {', '.join(here)}")
    return VECTORS[name]


def _ranges(scenarios: Scenarios) -> Iterator[tuple[int, int]]:
    """Ranges of scenario numbers, in order; never all at once."""
    for start in range(scenarios.start, scenarios.stop, RANGE_SCENARIOS):
        yield start, min(start + RANGE_SCENARIOS, scenarios.stop)


def _in_order(
    count: Callable[[int, int], pa.RecordBatch], ranges: Iterator[tuple[int, int]], threads: int
) -> Iterator[pa.RecordBatch]:
    """Count ranges on some threads, never many ahead of who reads, and give them in order."""
    if threads == 1:
        for edges in ranges:
            yield count(*edges)
        return
    waiting: deque[Future[pa.RecordBatch]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for edges in ranges:
                waiting.append(pool.submit(count, *edges))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
