"""The flat form of the table of partitions: what the form with lists says, in plain integers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast import io
from kfast.kernels import flat as kernel
from kfast.kernels import hosting
from kfast.state import flat_table, from_tables
from tests.support.kernel_calls import LAYOUTS
from tests.support.random_clusters import random_context
from tests.support.states import read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels
SEEDS = range(40)


def clusters(layout):
    """Random clusters that a flat table can hold."""
    states = [state_of(random_context(Random(seed)), layout) for seed in SEEDS]
    some = [state for state in states if flat_table.can_be_flat(state) and state.n_partitions]
    assert len(some) > 15
    return some


def again(state, partitions, **options):
    """The state that tables make, with these partitions."""
    tables = state.to_tables()
    return kfast.ClusterState.from_tables(
        tables.brokers, tables.topics, partitions, tables.cluster, **options
    )


def is_filled_in(tables, partitions, monkeypatch):
    """Whether a state takes a flat table as it is, rather than by way of lists."""
    ways = []
    with monkeypatch.context() as patched:
        patched.setattr(flat_table, "to_lists", lambda *_: ways.append("lists"))
        patched.setattr(from_tables, "_load_lists", lambda *_: None)
        kfast.ClusterState.from_tables(tables.brokers, tables.topics, partitions, tables.cluster)
    return not ways


def by_hand(partitions: pa.Table, slots: int) -> list[dict]:
    """Rows of the flat table, from the table with lists: the definition, without kernels."""
    rows = []
    for row in partitions.to_pylist():
        tracked = list(row["replicas"] or ())
        for name in ("isr", "adding", "removing", "offline_dir", "replica_state_broker_ids"):
            tracked += [broker for broker in row[name] if broker not in tracked]
        if row["leader"] >= 0 and row["leader"] not in tracked:
            tracked.append(row["leader"])

        def mask(name, tracked=tracked, row=row):
            return sum(1 << tracked.index(broker) for broker in row[name])

        states = dict(zip(row["replica_state_broker_ids"], row["replica_states"], strict=True))
        octal = [row["partition_state"] + 1, *(states.get(broker, 0) for broker in tracked)]
        flags = (row["replicas"] is not None) | row["has_leadership"] << 1
        flags |= row["recovery"] << 2 | row["being_reassigned"] << 3
        rows.append({
            "topic": row["topic"], "partition": row["partition"], "leader": row["leader"],
            **{f"replica_{s}": tracked[s] if s < len(tracked) else -1 for s in range(slots)},
            **{name: row[name] for name in ("leader_epoch", "version", "controller_epoch")},
            "states": sum(digit << 3 * at for at, digit in enumerate(octal)),
            "n_replicas": len(row["replicas"] or ()), "flags": flags,
            **{name: mask(name) for name in ("isr", "adding", "removing", "offline_dir")},
        })
    return rows


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flat_table_says_what_the_lists_say(layout):
    """Made by `list_rows`; a column that few partitions need is there where one needs it."""
    seen = set()
    for state in clusters(layout):
        table = flat_table.to_flat(state)
        lists = state.to_tables().partitions
        # Read again, so that slots are in the order that lists alone can tell.
        wanted = by_hand(lists, state.n_slots)
        read = again(state, lists, layout=layout)
        rows = flat_table.to_flat(read).to_pylist()
        missing = set(flat_table.SOME) - set(table.column_names)
        seen |= missing
        for row, known in zip(rows, wanted, strict=True):
            assert row == {name: known[name] for name in row}
            tracked = sum(known[f"replica_{s}"] >= 0 for s in range(state.n_slots))
            plain = {"n_replicas": tracked, "flags": 3, "adding": 0, "removing": 0}
            plain["offline_dir"] = 0
            assert all(known[name] == plain[name] for name in missing)
        assert flat_table.to_lists(table).to_pylist() == lists.to_pylist()
    assert seen == set(flat_table.SOME)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_state_comes_back_from_a_flat_table(layout, monkeypatch):
    """By `fill_rows` and `fill_optional` where rows are in order, else by way of lists."""
    ways = []
    for state in clusters(layout):
        table = flat_table.to_flat(state)
        back = again(state, table, layout=layout)
        assert state.difference(back) is None
        assert back.digest() == state.digest()
        fresh = back.copy()
        fresh.recount()
        counters = "offline_partition_count", "preferred_imbalance_count", "n_led", "n_reassigned"
        assert [getattr(back, n) for n in counters] == [getattr(fresh, n) for n in counters]
        with monkeypatch.context() as patched:
            patched.setattr(from_tables, "load_flat", lambda *_: False)
            assert again(state, table, layout=layout).difference(back) is None
        order = np.lexsort((state.partition, state.topic_row))
        ordered = flat_table.to_flat(state).take(pa.array(order))
        ways.append(is_filled_in(state.to_tables(), ordered, monkeypatch))
    assert any(ways)


ROOT = Path(__file__).resolve().parents[2]
GOOD = """
    partition  ar     isr  leader  epoch  state   replicas
    t-0        1,2,3  1,2  1       7      ONLINE  1:ONLINE,2:ONLINE,3:OFFLINE
    t-1        2,3    3    3       4      ONLINE  2:ONLINE,3:ONLINE
    u-0        3      3    -       1      OFFLINE 3:OFFLINE
"""
WRONG = (
    ("replica_1", 0, 99), ("replica_1", 0, 1), ("replica_1", 1, -1), ("replica_2", 0, -2),
    ("leader", 1, 1), ("leader", 1, 99), ("leader", 1, -2), ("isr", 1, 4), ("isr", 1, -1),
    ("partition", 1, 0), ("partition", 0, -1), ("states", 1, 0o72222), ("states", 1, 5),
)


@pytest.mark.parametrize(("name", "row", "value"), WRONG)
def test_what_a_flat_table_may_not_say_is_left_to_lists(name, row, value, monkeypatch):
    """`fill_rows` names the first row that is not as kfast writes it."""
    state = read_state(GOOD)
    # Taken before: the kernel leaves a row that it refuses half filled.
    table, tables = flat_table.to_flat(state), state.to_tables()
    values = table[name].to_numpy().copy()
    values[row] = value
    at = table.column_names.index(name)
    bad = table.set_column(at, table.schema.field(name), pa.array(values))
    columns = {n: np.ascontiguousarray(bad[n].to_numpy()) for n in bad.column_names[1:]}
    place = np.full(4, -1, np.int32)
    place[[1, 2, 3]] = [0, 1, 2]
    arguments = [columns[n] for n in flat_table.ALWAYS]
    found = kernel.fill_rows(
        [columns[f"replica_{s}"] for s in range(3)], state.topic_row, columns["partition"],
        *arguments, place, state.records, state.replicas, state.replica_state,
    )
    assert found == row
    assert not is_filled_in(tables, bad, monkeypatch)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_replicas", 4), ("flags", 16), ("adding", 8), ("removing", -1), ("offline_dir", 8)],
)
def test_columns_of_few_partitions_are_checked_too(name, value):
    """`fill_optional` names the first row whose mask or number is beyond its slots."""
    state = read_state(GOOD)
    given = {name: np.empty(0, np.int32) for name in flat_table.SOME}
    given[name] = np.array([0, 0, 0], np.int32)
    assert kernel.fill_optional(*given.values(), state.copy().records) == -1
    given[name][1] = value
    assert kernel.fill_optional(*given.values(), state.copy().records) == 1


def test_a_flat_file_is_read_as_any_other(tmp_path):
    """`kfast.read`, `read_tables` and plain pyarrow; a column that is missing is named."""
    state = kfast.generate(brokers=7, partitions=500, topics=9, seed=4, racks=3)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([3])
    path, lists = tmp_path / "flat.parquet", tmp_path / "lists.parquet"
    kfast.write(state, path, format="parquet-flat")
    assert kfast.read(path).difference(state) is None
    assert io.read_tables(path).partitions.to_pylist() == state.to_tables().partitions.to_pylist()
    kfast.write(io.read_tables(path), lists)
    kfast.write(io.gather(path), tmp_path / "again.parquet")
    kfast.write(io.read_tables(lists), tmp_path / "back.parquet", format="parquet-flat")
    for name in ("lists", "again", "back"):
        assert kfast.read(tmp_path / f"{name}.parquet").difference(state) is None
    assert "replicas" in pq.read_schema(tmp_path / "again.parquet").names
    table = pq.read_table(path)
    assert table["leader"].to_pylist() == state.to_tables().partitions["leader"].to_pylist()
    pq.write_table(table.drop_columns("isr"), path)
    with pytest.raises(kfast.InputError, match="no column isr beside replica_0"):
        kfast.read(path)
    null = pa.nulls(table.num_rows, pa.int32())
    pq.write_table(table.drop_columns("isr").append_column("isr", null), path)
    with pytest.raises(kfast.InputError, match="column isr has rows that say nothing"):
        kfast.read(path)


def test_a_flat_file_goes_to_standard_output(tmp_path):
    """To a file or a pipe behind it; its name is no file's."""
    state = read_state(GOOD)
    kfast.write(state, tmp_path / "lists.parquet")
    command = [
        sys.executable, "-c",
        "import kfast; kfast.write(kfast.read('lists.parquet'), '-', format='parquet-flat')",
    ]
    there = {"cwd": tmp_path, "env": dict(os.environ, PYTHONPATH=str(ROOT)), "check": True}
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(command, stdout=out, **there)
    piped = subprocess.run(command, stdout=subprocess.PIPE, **there)
    (tmp_path / "piped").write_bytes(piped.stdout)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["lists.parquet", "out", "piped"]
    for name in ("out", "piped"):
        assert kfast.read(tmp_path / name).difference(state) is None


@pytest.mark.parametrize("name", ["replica_4", "replica_8", "replica_01"])
def test_no_slot_of_a_flat_table_is_left_out(name):
    """Slots have a column each, without a gap, up to the eighth."""
    state = read_state(GOOD)
    more = flat_table.to_flat(state).append_column(name, pa.array([3, 1, 2], pa.int32()))
    for read in (flat_table.to_lists, lambda partitions: again(state, partitions)):
        with pytest.raises(kfast.InputError, match=f"columns .*{name}.* without a gap"):
            read(more)


def test_what_no_flat_table_can_hold_is_refused(tmp_path):
    state = kfast.generate(brokers=12, partitions=20, replication_factor=9)
    with pytest.raises(kfast.ArgumentError, match="at most 8 brokers"):
        kfast.write(state, tmp_path / "x.parquet", format="parquet-flat")
    assert not list(tmp_path.iterdir())


def test_part_of_the_rows():
    """Rows from one to another."""
    state = kfast.generate(brokers=5, partitions=100, topics=4, seed=1)
    whole = flat_table.to_flat(state)
    assert flat_table.to_flat(state, 30, 70).to_pylist() == whole.slice(30, 40).to_pylist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_scan_finds_what_the_index_finds(layout):
    """`find_tracking`; after a few scans an index is made."""
    for state in clusters(layout):
        scanned = state.copy()
        scanned.scan_hosting()
        for number in range(12):
            brokers = np.array([number % state.n_brokers, (number * 3) % state.n_brokers])
            brokers = np.unique(brokers).astype(np.int32)
            ours, theirs = scanned.replicas_on(brokers), state.replicas_on(brokers)
            assert ours.rows.tolist() == theirs.rows.tolist()
            assert ours.slots.tolist() == theirs.slots.tolist()
            assert scanned.index_hosting().is_made == (number >= 7)
        chosen = np.ones(state.n_brokers, np.uint8)
        few = np.empty(1, np.int32)
        tracking = np.count_nonzero(state.records["n_slots"])
        found = hosting.find_tracking(state.columns, chosen, few)
        assert found == tracking


GAPS = (
    ("replica_1", 0, -1, "replica_0 to 2 is"), ("replica_2", 0, -2, "replica_0 to 2 is"),
    ("isr", 1, 4, "isr is 4, where 2 slots"), ("isr", 1, -1, "isr is -1"),
    ("states", 1, 0o1222, "states is 658"), ("n_replicas", 1, 3, "n_replicas is 3, where 2"),
    ("flags", 2, 16, "flags is 16"), ("adding", 2, 2, "adding is 2, where 1"),
)


@pytest.mark.parametrize(("name", "row", "value", "message"), GAPS)
def test_what_lists_cannot_say_either_is_refused(tmp_path, name, row, value, message):
    """A bit or a digit of an empty slot would be lost without a word."""
    path, table = tmp_path / "x.parquet", flat_table.to_flat(read_state(GOOD))
    if name not in table.column_names:
        usual = {"n_replicas": [3, 2, 1], "flags": [3, 3, 3]}.get(name, [0, 0, 0])
        table = table.append_column(name, pa.array(usual, pa.int32()))
    pq.write_table(table, path)
    assert kfast.read(path).n_partitions == 3
    values = table[name].to_numpy().copy()
    values[row] = value
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, table.schema.field(name), pa.array(values)), path)
    for read in (kfast.read, io.read_tables):
        with pytest.raises(kfast.InputError, match=f"x.parquet: partitions row {row}: {message}"):
            read(path)


def test_slots_have_no_gap_and_are_eight_at_most(tmp_path):
    path, table = tmp_path / "x.parquet", flat_table.to_flat(read_state(GOOD))
    none = pa.array([-1, -1, -1], pa.int32())
    many = table
    for slot in range(3, 9):
        pq.write_table(many, path)
        assert kfast.read(path).n_partitions == 3
        many = many.append_column(f"replica_{slot}", none)
    for bad in (many, table.drop_columns("replica_1")):
        pq.write_table(bad, path)
        with pytest.raises(kfast.InputError, match=r"x\.parquet: columns .* without a gap"):
            kfast.read(path)
    pq.write_table(table.drop_columns("topic"), path)
    with pytest.raises(kfast.InputError, match="no column topic"):
        kfast.read(path)
