"""One call of a machine on a whole cluster: the twin's answer and kfast's, in every setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kfast import ClusterState, PartitionStateMachine, ReplicaStateMachine, Store
from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from tests.support.event_compare import TwinView, journals_differ
from tests.support.reference import CacheStore, Context, Journal, Partition
from tests.support.reference import PartitionStateMachine as TwinPartitions
from tests.support.reference import ReplicaStateMachine as TwinReplicas
from tests.support.twin_state import state_of, tables_of

RUNS = (
    ("narrow", 1, "full", False), ("wide", 2, "counts", False), ("narrow", 2, "off", False),
    ("wide", 1, "full", True),
)
"""Layout, threads, journal level, with a store."""


def run_partitions(
    start: Context, target: PartitionState, strategy: Strategy | None,
    tables: list[pa.Table] | None = None, journal: bool = True,
) -> None:
    """Move every partition of a cluster, and compare; `tables` are the start's, if at hand."""
    names = sorted(start.assignments)
    after = start.copy()
    happened = Journal()
    machine = TwinPartitions(after, CacheStore(after), happened)
    machine.handle(names, target, strategy)
    failed = "IllegalArgument" in happened.batch_failures
    codes = [Code.ILLEGAL_ARGUMENT] * len(names) if failed else list(machine.codes.values())
    wanted, tables = state_of(after), tables or tables_of(start)
    rows, view = wanted.find_partitions(names), TwinView(happened)
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        options = {"journal": level, "threads": threads}
        ours = PartitionStateMachine(state, store, **options)
        outcome = ours.handle_state_changes(rows, target, strategy)
        compare(wanted, after, state, codes, outcome)
        if level == "full" and journal:
            assert journals_differ(view, outcome) is None


def run_replicas(
    start: Context, moved: list[tuple[Partition, int]], target: ReplicaState
) -> None:
    """Move some replicas of a cluster in one call, and compare."""
    after = start.copy()
    happened = Journal()
    machine = TwinReplicas(after, CacheStore(after), happened)
    machine.handle(moved, target)
    codes = [code for _, code in sorted(machine.codes.items())]
    wanted, tables, view = state_of(after), tables_of(start), TwinView(happened)
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        ours = ReplicaStateMachine(state, store, journal=level, threads=threads)
        replicas = state.find_replicas([(*p, b) for p, b in moved])
        outcome = ours.handle_state_changes(replicas, target)
        compare(wanted, after, state, codes, outcome)
        if level == "full":
            assert journals_differ(view, outcome) is None


def compare(
    wanted: ClusterState, after: Context, state: ClusterState, codes: list[Code], outcome: Any
) -> None:
    """The state and the codes are the twin's."""
    found, asked = outcome.codes, np.array(codes, np.uint8)
    differ = np.flatnonzero(found != asked)[:1]
    assert not differ.size, f"target {differ}: {Code(found[differ[0]])}, not {codes[differ[0]]}"
    assert wanted.difference(state) is None
    assert wanted.digest() == state.digest()
    assert state.offline_partition_count == after.offline_partition_count
    assert state.preferred_imbalance_count == after.preferred_imbalance_count
