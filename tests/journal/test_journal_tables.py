"""The journal's tables, made of effects, are those of plain numpy step by step.

The kernels are those of `kfast.kernels.journal` (`copy_partitions`, `fill_columns`,
`list_additions`, `list_requests`); their twin is `tests/support/plain_journal.py`.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.controllers.engine import ExecutionMode
from kfast.controllers.zk.engine import ZkEngine
from kfast.journal import journal, tables
from kfast.journal.effects import EFFECT
from kfast.journal.tables import SCHEMAS, request_counts
from kfast.kernels import census
from kfast.state import arrow_views
from tests.journal.test_journal import some_events
from tests.support import plain_journal
from tests.support.random_clusters import random_context
from tests.support.reference_profiles import PROFILES
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels


class Witness:
    """Remembers the state and the effects of everything recorded, and every step shown.

    Events go step by step; `tests/rules/test_fused_events.py` says that in one visit they are
    the same.
    """

    def __init__(self, monkeypatch):
        self.recorded, self.steps = {}, []
        effect_table, make_table = journal.effect_table, journal.make_table

        def watched_effect_table(state, effects):
            table = effect_table(state, effects)
            self.recorded[id(table)] = table, state.copy(), effects.copy()
            return table

        def watched_make(name, steps, announced):
            self.steps += [step for step in steps if step not in self.steps]
            return make_table(name, steps, announced)

        monkeypatch.setattr(ZkEngine, "way_of", lambda engine, event: ExecutionMode.STEPS)
        monkeypatch.setattr(journal, "effect_table", watched_effect_table)
        monkeypatch.setattr(journal, "make_table", watched_make)

    def plain(self, name, step):
        """A step's share of a table in plain numpy."""
        _, state, effects = self.recorded[id(step.effects)]
        if name == "transitions":
            return plain_journal.transitions(state, effects, step.number)
        if name == "elections":
            return plain_journal.elections(state, effects, step.number, step.strategy)
        if name == "refusals":
            return plain_journal.refusals(
                state, effects, step.number, step.strategy, step.rules
            )
        added = plain_journal.additions_of(effects)
        if name == "additions":
            return plain_journal.additions_table(state, added, step.number)
        if name == "requests":
            sent = plain_journal.send(state, added)
            counts = [sent.counts(kind, state.n_brokers).tolist() for kind in (0, 2)]
            assert request_counts(step.effects.by_row).tolist() == counts
            return plain_journal.requests_table(state, sent, step.number)
        if step.announced is not None:
            _, state, effects = self.recorded[id(step.announced)]
        if step.merges:
            effects = plain_journal.metadata_effects(effects)
        return plain_journal.metadata_table(state, effects, step.number)

    def check(self):
        """Compare every share of every table; returns how many rows each table had."""
        n_rows = Counter()
        for step in self.steps:
            for name in step.shows:
                found = pa.concat_tables([SCHEMAS[name].empty_table(), *step.tables(name)])
                expected = self.plain(name, step)
                assert found.schema == expected.schema
                assert found.equals(expected) or found.to_pylist() == expected.to_pylist(), name
                found.validate(full=True)
                n_rows[name] += found.num_rows
        return n_rows


@pytest.fixture
def witness(monkeypatch):
    """See `Witness`."""
    return Witness(monkeypatch)


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_tables_of_random_events_are_those_of_plain_numpy(witness, layout, with_store):
    """Every step of failovers, failures, starts, shutdowns and elections."""
    for seed in range(12):
        state = state_of(random_context(Random(seed)), layout)
        store = kfast.Store(state) if with_store else None
        for outcome in some_events(state, store=store, journal="full"):
            assert set(outcome.tables) == set(SCHEMAS)
    n_rows = witness.check()
    assert all(n_rows[name] > 100 for name in SCHEMAS if name != "update_metadata_brokers")


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != "zk-3.9"])
def test_tables_of_older_controllers_are_those_of_plain_numpy(witness, profile):
    """What older requests and error logs say differs (section 8.1)."""
    for seed in range(6):
        state = state_of(random_context(Random(seed), PROFILES[profile]))
        for outcome in some_events(state, journal="full", profile=profile):
            assert set(outcome.tables) == set(SCHEMAS)
    assert witness.check()["requests"] > 100


def test_a_table_of_too_many_values_comes_in_pieces(witness, monkeypatch):
    """Arrow counts the values of a list column in 32 bits."""
    monkeypatch.setattr(tables, "MOST_VALUES", 20)
    outcomes = some_events(state_of(random_context(Random(3))), journal="full")
    assert max(outcome.requests.column("isr").num_chunks for outcome in outcomes) > 5
    assert max(outcome.elections.num_rows for outcome in outcomes) > 0
    assert witness.check()["requests"] > 100


def large_cluster(replication_factors):
    """30 000 partitions, some of them with fewer replicas in sync than others."""
    tables = [
        kfast.generate(
            brokers=12, partitions=30_000 // len(replication_factors), replication_factor=k,
            racks=3, seed=k,
        ).to_tables().partitions
        for k in replication_factors
    ]
    tables = [
        table.set_column(0, "topic", pa.array([f"{k}-{t}" for t in table["topic"].to_pylist()]))
        for k, table in zip(replication_factors, tables, strict=True)
    ]
    return kfast.ClusterState.from_tables(partitions=pa.concat_tables(tables))


@pytest.mark.parametrize("replication_factors", [(3,), (1, 3, 4)], ids=["alike", "mixed"])
def test_tables_of_many_blocks_are_those_of_plain_numpy(witness, replication_factors):
    """Lists of one length and of many, columns that are the same everywhere and that are not."""
    state = large_cluster(replication_factors)
    controller = kfast.Controller(state, journal="full")
    outcomes = [
        controller.on_controller_failover(), controller.on_broker_failure([0, 3, 6]),
        controller.on_broker_failure([4]), controller.on_broker_startup([3, 4]),
    ]
    for outcome in outcomes:
        assert set(outcome.tables) == set(SCHEMAS)
    assert outcomes[0].requests.num_rows > 2**16
    assert witness.check()["requests"] > 2**16


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


def test_an_effect_is_the_same_in_numpy_and_in_c():
    """Name, type and order of every field."""
    text = (Path(census.__file__).parent / "slots.pxd").read_text("utf-8")
    body = re.search(r"cdef struct Effect:\n((?:    .+\n)+)", text).group(1)
    fields = [line.split() for line in body.splitlines()]
    assert [(name, kind.removesuffix("_t")) for kind, name in fields] == [
        (name, str(EFFECT[name])) for name in EFFECT.names
    ]


@pytest.mark.parametrize("n", [0, 1, 5, tables.BLOCK, 2 * tables.BLOCK + 3])
def test_a_column_that_says_one_thing_says_it_in_every_row(n):
    """Names, numbers and nulls; long columns are one block again and again."""
    for value, kind in (("a", pa.string()), (7, pa.int32()), (None, pa.bool_())):
        column = tables.repeated(value, kind, n)
        column.validate(full=True)
        assert column.to_pylist() == [value] * n
    assert tables.names(np.full(n, 1), ("a", "b")).to_pylist() == ["b"] * n


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
