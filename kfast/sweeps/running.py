"""Sweeps: one row of counts per scenario."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from kfast.arguments import check_instance, check_threads
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.sweeps.counting import (
    Progress,
    SweepWork,
    check_counts,
    sweep_schema,
    words_of,
)
from kfast.sweeps.plan import SweepPlan
from kfast.sweeps.preparing import prepare_sweep
from kfast.sweeps.scenarios import Scenarios

__all__ = ["SWEEP_METHODS", "Source", "check_same_brokers", "sweep", "sweep_reader"]

Source: TypeAlias = ClusterState | SweepPlan

SWEEP_METHODS = ("dense", "sparse")
"""How a sweep may be done: every partition for many scenarios at once, or for each scenario the
partitions that its brokers host. The counts are the same."""


def sweep(
    state: Source,
    scenarios: Scenarios,
    *,
    threads: int = 1,
    method: str | None = None,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Count what each scenario would do to the cluster, which is not changed.

    Parameters
    ----------
    state : ClusterState or SweepPlan
        The cluster as it is, or what `prepare_sweep` made of it.
    scenarios : Scenarios
        Made for this cluster; a slice gives the rows of its numbers.
    threads : int
        Threads to use; results do not depend on it.
    method : {"dense", "sparse"}, optional
        How to count (`SWEEP_METHODS`; leaders per broker are always counted densely);
        by default what is expected to be faster. Results do not depend on it.
    counts : collection of str, optional
        Which of `SWEEP_COUNTS` to count; all of them by default.
    vectors : {"words", "avx2", "avx512"}, optional
        Width of the vectors; by default the environment variable KFAST_VECTORS, or else the widest
        that this machine has. Results do not depend on it.
    progress : callable, optional
        Is given the scenarios that are done, and all.

    Returns
    -------
    pa.Table
        One row per scenario, in order (`schema.SWEEP`): scenario, brokers_down, the counts, and
        before `fullest_broker_leaders` the id of that broker, `fullest_broker`: the lowest id where
        several lead as many, -1 where nobody leads.

    Raises
    ------
    ArgumentError
        An argument has another value, or the scenarios are of another cluster.
    """
    with sweep_reader(
        state, scenarios, threads=threads, method=method, counts=counts, vectors=vectors,
        progress=progress,
    ) as reader:
        return reader.read_all()


def sweep_reader(
    state: Source,
    scenarios: Scenarios,
    *,
    threads: int = 1,
    method: str | None = None,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    progress: Progress | None = None,
) -> pa.RecordBatchReader:
    """Give the rows of `sweep`, batch by batch, in memory that does not grow with their number.

    Arguments and errors are those of `sweep`; errors are raised before the work starts.
    """
    check_same_brokers(state, scenarios)
    asked = check_counts(counts)
    words = words_of(vectors)
    if method is not None and method not in SWEEP_METHODS:
        raise ArgumentError(f"method is {method!r}; allowed are {', '.join(SWEEP_METHODS)}")
    threads = check_threads(threads)
    plan = state if isinstance(state, SweepPlan) else prepare_sweep(state, threads=threads)
    batches = SweepWork.of(plan, scenarios, asked, words, method).batches(
        scenarios, threads, progress
    )
    return pa.RecordBatchReader.from_batches(sweep_schema(asked), batches)


def check_same_brokers(state: Source, scenarios: Scenarios) -> None:
    """Refuse scenarios of another cluster: rows would mean other brokers."""
    check_instance("state", state, ClusterState, SweepPlan)
    check_instance("scenarios", scenarios, Scenarios)
    if not np.array_equal(state.broker_id, scenarios.broker_id):
        raise ArgumentError(
            f"the scenarios are of a cluster with {scenarios.broker_id.size} brokers, this one has "
            f"{state.broker_id.size} or other ids; make them from the same state"
        )
