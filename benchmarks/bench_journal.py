"""What a record of everything costs: the same events at journal levels off, counts and full.

At level full an event counts as done when every one of its tables is made. The state must end alike
at every level (`digest`), and the tables must say what the counts say. Beside the time stand the
bytes of the tables: a table cannot be made faster than its bytes are written.
"""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import kfast
from benchmarks.bench_events import ROUNDS

LEVELS = ("off", "counts", "full")
EVENTS = ("start", "one", "third")


@pytest.fixture(scope="session")
def taken_over(cluster):
    """The cluster after the controller's start, hosts indexed; copy it before use."""
    state = cluster.copy()
    kfast.Controller(state, journal="off").on_controller_failover()
    state.index_hosting()
    return state


@pytest.fixture(scope="session")
def end_digests(cluster, taken_over, n_brokers):
    """Digest of the state after each event without a journal."""
    ends = {}
    for event in EVENTS:
        state = (cluster if event == "start" else taken_over).copy()
        take_place(kfast.Controller(state, journal="off"), event, n_brokers)
        ends[event] = state.digest()
    return ends


def take_place(controller, event, n_brokers):
    """The event that a benchmark is about; returns its outcome."""
    if event == "start":
        return controller.on_controller_failover()
    failed = [n_brokers // 2] if event == "one" else range(n_brokers // 3)
    return controller.on_broker_failure(controller.state.broker_id[list(failed)].tolist())


def check(outcome):
    """The tables say what the counts say."""
    tables, counts = outcome.tables, outcome.counts
    assert tables["transitions"].num_rows == sum(counts.transitions.values())
    kinds = pc.value_counts(tables["requests"]["kind"])
    told = {row["values"]: row["counts"] for row in kinds.to_pylist()}
    assert told.get("LeaderAndIsr", 0) == counts.request_partitions["LeaderAndIsr"]
    assert tables["refusals"].num_rows == counts.codes.get("NO_ELIGIBLE_LEADER", 0)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("level", LEVELS)
def test_level(
    benchmark, cluster, taken_over, end_digests, level, event, n_partitions, n_brokers
):
    """How long an event takes, and how long with every row of it as Arrow tables."""
    ends = []
    begin = cluster if event == "start" else taken_over

    def setup():
        ends.clear()
        return (kfast.Controller(begin.copy(), journal=level),), {}

    def run(controller):
        outcome = take_place(controller, event, n_brokers)
        ends[:] = [(controller.state, outcome, outcome.tables)]

    benchmark.group = f"journal of {event}"
    benchmark.pedantic(run, setup=setup, rounds=ROUNDS, warmup_rounds=1)
    state, outcome, tables = ends[0]
    found = state.digest()
    assert found == end_digests[event]
    if level == "full":
        check(outcome)
    n_bytes = sum(table.nbytes for table in tables.values())
    n_rows = sum(table.num_rows for table in tables.values())
    benchmark.extra_info.update(
        partitions=n_partitions, digest=found, table_bytes=n_bytes, table_rows=n_rows
    )


@pytest.mark.parametrize("event", EVENTS)
def test_tables_are_the_same_for_any_number_of_threads(taken_over, cluster, event, n_brokers):
    """Not timed: each thread keeps its part, and the parts are put together in order."""
    found = []
    for threads in (1, 2):
        state = (cluster if event == "start" else taken_over).copy()
        outcome = take_place(
            kfast.Controller(state, journal="full", threads=threads), event, n_brokers
        )
        found.append(outcome.tables)
    assert found[0] == found[1]
    assert found[0]["requests"].num_rows > 0
