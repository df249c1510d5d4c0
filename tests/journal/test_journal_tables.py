"""The journal's tables, made of effects: in pieces, of many rows, long after the event.

What they say is compared with the plain Python twin after each random event
(`tests/rules/test_random_events.py`), and bit for bit with what is on record
(`tests/style/test_golden.py`). The kernels are those of `kfast.kernels.journal`
(`copy_partitions`, `fill_columns`, `list_additions`, `list_requests`).
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.journal import columns, tables
from kfast.state import arrow_views
from tests.journal.test_journal import some_events
from tests.support.random_clusters import random_context
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels


def test_a_table_of_too_many_values_comes_in_pieces(monkeypatch):
    """Arrow counts the values of a list column in 32 bits."""
    at_once = some_events(state_of(random_context(Random(3))), journal="full")
    wanted = [outcome.tables for outcome in at_once]
    monkeypatch.setattr(tables, "MOST_VALUES", 20)
    outcomes = some_events(state_of(random_context(Random(3))), journal="full")
    assert [outcome.tables for outcome in outcomes] == wanted
    assert max(outcome.requests.column("isr").num_chunks for outcome in outcomes) > 5


def large_cluster(replication_factors):
    """30 000 partitions, some of them with fewer replicas in sync than others."""
    tables = [
        kfast.generate(
            brokers=12, partitions=30_000 // len(replication_factors), replication_factor=k,
            racks=3, seed=k,
        ).to_tables().partitions
        for k in replication_factors
    ]
    return pa.concat_tables(
        table.set_column(0, "topic", pa.array([f"{k}-{t}" for t in table["topic"].to_pylist()]))
        for k, table in zip(replication_factors, tables, strict=True)
    )


def rows_by_key(table, keys):
    """Rows of a table that are of some partitions, without the row of the state."""
    names = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    chosen = pa.array([name in keys for name in names], pa.bool_())
    return table.filter(chosen).drop(["partition_row"])


@pytest.mark.parametrize("replication_factors", [(3,), (1, 3, 4)], ids=["alike", "mixed"])
def test_tables_of_many_rows_say_of_a_partition_what_those_of_few_say(replication_factors):
    """Lists of one length and of many, columns that are the same everywhere and that are not."""
    partitions = large_cluster(replication_factors)
    few = partitions.take(np.arange(0, partitions.num_rows, 97))
    keys = set(zip(few["topic"].to_pylist(), few["partition"].to_pylist(), strict=True))
    outcomes = []
    for table in (partitions, few):
        state = kfast.ClusterState.from_tables(partitions=table)
        controller = kfast.Controller(state, journal="full")
        outcomes.append([
            controller.on_controller_failover(), controller.on_broker_failure([0, 3, 6]),
            controller.on_broker_failure([4]), controller.on_broker_startup([3, 4]),
        ])
    for many, single in zip(*outcomes, strict=True):
        for name in ("transitions", "elections", "additions", "requests", "update_metadata"):
            found = rows_by_key(getattr(many, name), keys)
            assert found.equals(rows_by_key(getattr(single, name), keys)), name
        assert many.update_metadata_brokers.equals(single.update_metadata_brokers)
    assert outcomes[0][0].requests.num_rows > 2**16


def test_later_events_do_not_change_what_was_recorded():
    """Tables are made when they are first asked for, of what was true then."""
    for seed in range(6):
        early = [
            outcome.tables | {"again": outcome.tables}
            for outcome in some_events(state_of(random_context(Random(seed))), journal="full")
        ]
        state = state_of(random_context(Random(seed)))
        late = some_events(state, journal="full")
        state.set_assignment(0, [])
        for before, outcome in zip(early, late, strict=True):
            for name, table in outcome.tables.items():
                assert table.equals(before[name])
                assert table is getattr(outcome, name)


@pytest.mark.parametrize("n", [0, 1, 5, columns.BLOCK, 2 * columns.BLOCK + 3])
def test_a_column_that_says_one_thing_says_it_in_every_row(n):
    """Names, numbers and nulls; long columns are one block again and again."""
    for value, kind in (("a", pa.string()), (7, pa.int32()), (None, pa.bool_())):
        constant = columns.Constant(value, kind, n)
        column = constant.to_arrow()
        column.validate(full=True)
        assert column.to_pylist() == constant.to_list() == [value] * n
    assert columns.names(np.full(n, 1), ("a", "b")).to_arrow().to_pylist() == ["b"] * n


def test_rows_are_those_of_the_tables():
    """Made without Arrow, before the tables are and after them."""
    for seed in range(12):
        outcomes = [some_events(state_of(random_context(Random(seed))), journal="full")
                    for _ in range(2)]
        for early, late in zip(*outcomes, strict=True):
            for name, table in late.tables.items():
                assert early.rows(name) == table.to_pylist() == late.rows(name), name


def test_rows_of_no_table_are_refused_by_name():
    """What the tables are is said."""
    outcome = some_events(state_of(random_context(Random(1))), journal="full")[0]
    with pytest.raises(kfast.ArgumentError, match=r"name is 'request': tables are .*requests"):
        outcome.rows("request")


def test_names_of_too_many_bytes_come_in_pieces(monkeypatch):
    """Arrow counts the bytes of texts in 32 bits, too."""
    names, numbers = pa.array(["a", "bcdef", "g"]), np.arange(3000, dtype=np.int32) % 3
    wanted = names.take(pa.array(numbers))
    monkeypatch.setattr(arrow_views, "MOST_BYTES", 50)
    found = arrow_views.names_at(names, numbers)
    assert found.num_chunks == 300
    assert found.combine_chunks() == pa.chunked_array([wanted]).combine_chunks()


def test_tables_outlive_later_events():
    """Later events of the same size write into memory of no table that is still there."""
    state = kfast.generate(brokers=6, partitions=150_000, replication_factor=3, racks=3, seed=1)
    kfast.Controller(state).on_controller_failover()
    first = kfast.Controller(state.copy(), journal="full").on_broker_failure([0, 3]).tables
    copies = {name: copied(table) for name, table in first.items()}
    for _ in range(2):
        outcome = kfast.Controller(state.copy(), journal="full").on_broker_failure([0, 3])
        assert all(copies[name].equals(table) for name, table in outcome.tables.items())
        del outcome
    assert all(copies[name].equals(table) for name, table in first.items())


def copied(table):
    """The same in memory of its own."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()
