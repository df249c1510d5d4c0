"""The journal's tables, made by kernels of what was kept, are those of plain numpy.

The kernels are those of `kfast.kernels.journal` (`keep`, `kept_sizes`, `list_metadata`),
`journal_columns` (`spread`, `take_numbers`, `take_lists`, `measure_names`, `spell_names`),
`journal_tables` (`fill_additions`, `list_codes`) and `journal_requests` (`block_size`,
`count_requests`, `count_values`, `deliver`, `fill_brokers`); their twin is
`tests/support/plain_journal.py`.

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
from kfast import journal
from kfast.controllers.engine import Way
from kfast.controllers.zk.engine import ZkEngine
from kfast.journal import columns, spread
from kfast.journal import kept as keeping
from kfast.journal.kept import kept_dtype
from kfast.journal.steps import SCHEMAS
from kfast.kernels import journal as kernels
from kfast.state import arrow_views
from tests.journal.test_journal import some_events
from tests.support import plain_journal
from tests.support.random_clusters import random_context
from tests.support.reference_profiles import PROFILES
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels


class Witness:
    """Remembers the state and the effects of everything that is kept, and every step shown.

    Events go step by step; `tests/rules/test_fused_events.py` says that in one visit they are
    the same.
    """

    def __init__(self, monkeypatch):
        self.kept, self.steps = {}, []
        keep, make_table = journal.keep, journal.make_table

        def watched_keep(state, effects):
            kept = keep(state, effects)
            self.kept[id(kept)] = kept, state.copy(), effects.copy()
            return kept

        def watched_make(name, steps, announced):
            self.steps += [step for step in steps if step not in self.steps]
            return make_table(name, steps, announced)

        monkeypatch.setattr(ZkEngine, "way_of", lambda engine, event: Way.STEPS)
        monkeypatch.setattr(journal, "keep", watched_keep)
        monkeypatch.setattr(journal, "make_table", watched_make)

    def plain(self, name, step):
        """A step's share of a table in plain numpy."""
        _, state, effects = self.kept[id(step.kept)]
        if name == "transitions":
            return plain_journal.transitions(state, effects, step.number)
        if name == "elections":
            return plain_journal.elections(state, effects, step.number, step.strategy)
        if name == "refusals":
            return plain_journal.refusals(
                state, effects, step.number, step.strategy, step.profile
            )
        added = plain_journal.additions_of(effects)
        if name == "additions":
            return plain_journal.additions_table(state, added, step.number)
        if name == "requests":
            sent = plain_journal.send(state, added)
            counts = [sent.counts(kind, state.n_brokers).tolist() for kind in (0, 2)]
            assert step.kept.request_counts.tolist() == counts
            return plain_journal.requests_table(state, sent, step.number)
        if step.told is not None:
            _, state, effects = self.kept[id(step.told)]
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
    monkeypatch.setattr(keeping, "MOST_VALUES", 20)
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


def test_later_events_do_not_change_what_was_kept():
    """Tables are made when they are first asked for, of what was true then."""
    for seed in range(6):
        early = [
            outcome.tables | {"again": outcome.tables}
            for outcome in some_events(state_of(random_context(Random(seed))), journal="full")
        ]
        state = state_of(random_context(Random(seed)))
        late = some_events(state, journal="full")
        state.set_assignment(0, [])
        for tables, outcome in zip(early, late, strict=True):
            for name, table in outcome.tables.items():
                assert table.equals(tables[name])
                assert table is getattr(outcome, name)


def shifted(text):
    """A number as C says it: `1 << 16`."""
    number, _, places = text.partition(" << ")
    return int(number) << int(places or 0)


def test_what_effects_are_like_is_the_same_in_python_and_in_c():
    """Bits of `Keeper.seen`, and the order of numbers and lists."""
    text = (Path(kernels.__file__).parent / "kept.pxd").read_text("utf-8")
    found = dict(re.findall(r"    SEEN_(\w+) = (.+)\n", text))
    assert {name: shifted(value) for name, value in found.items()} == {
        "LACKS": keeping.LIKE_LACKS, "TWICE": keeping.LIKE_TWICE,
        "UNORDERED": keeping.LIKE_UNORDERED, "CHANGING": keeping.LIKE_CHANGING,
        "RUNS": keeping.LIKE_RUNS, "LONGEST": keeping.LIKE_LONGEST, "CODES": keeping.LIKE_CODES,
    }
    text = (Path(kernels.__file__).parent / "journal_columns.pyx").read_text("utf-8")
    for names in (spread.NUMBERS, spread.LISTS):
        for number, name in enumerate(names):
            assert f"    {name.upper()} = {number}\n" in text


@pytest.mark.parametrize("narrow", [True, False], ids=["narrow", "wide"])
@pytest.mark.parametrize("n_slots", [1, 2, 3, 8])
def test_a_kept_effect_is_the_same_in_numpy_and_in_c(narrow, n_slots):
    """Size, and name, type and order of every field; slots stand right behind the struct."""
    dtype = kept_dtype(narrow, n_slots)
    text = (Path(kernels.__file__).parent / "kept.pxd").read_text("utf-8")
    struct = "NarrowKept" if narrow else "WideKept"
    body = re.search(rf"cdef struct {struct}:\n((?:    .+\n)+)", text).group(1)
    fields = [line.split() for line in body.splitlines()]
    assert [(name, kind.removesuffix("_t")) for kind, name in fields] == [
        (name, str(dtype[name])) for name in dtype.names[:-1]
    ]
    assert kernels.kept_sizes()[0 if narrow else 1] == dtype.fields["replicas"][1]
    assert dtype["replicas"].base == (np.uint16 if narrow else np.int32)
    assert dtype.alignment == (4 if narrow else 8)
    assert dtype.itemsize == 64 if narrow and n_slots <= 6 else dtype.itemsize > 64


@pytest.mark.parametrize("last", ["last", ""])
@pytest.mark.parametrize("begin", [0, 3])
def test_names_are_those_that_pyarrow_takes(begin, last):
    """Of any length, empty ones and the last of all among them, and of a part of an array."""
    generator = np.random.default_rng(4)
    names = pa.array(["\u00e4" * int(n) for n in generator.integers(0, 130, 40)] + ["", last])
    names = names[begin:]
    for n in (0, 1, 5, 3000):
        numbers = generator.integers(0, len(names), n).astype(np.int32)
        found = columns.named(numbers, n, names)
        found.validate(full=True)
        assert found.equals(names.take(pa.array(numbers)))
    assert columns.named(2, 70_000, names).to_pylist() == [names[2].as_py()] * 70_000


def test_names_of_too_many_bytes_come_in_pieces(monkeypatch):
    """Arrow counts the bytes of texts in 32 bits, too."""
    names, numbers = pa.array(["a", "bcdef", "g"]), np.arange(3000, dtype=np.int32) % 3
    wanted = names.take(pa.array(numbers))
    for module in (columns, arrow_views):
        monkeypatch.setattr(module, "MOST_BYTES", 50)
    found = columns.named(numbers, numbers.size, names)
    assert found.num_chunks == 300
    assert found.combine_chunks() == pa.chunked_array([wanted]).combine_chunks()
