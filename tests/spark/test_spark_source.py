"""The data source: the rows and errors of one machine, by any number of tasks."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.io import read_tables
from kfast.io.arrow import embed
from tests.conftest import ROOT

pytestmark = pytest.mark.spark

FORMS = (
    "one.arrow", "batches.arrow", "packed.arrow", "stream.arrow", "words.arrow", "one.parquet",
    "groups.parquet", "flat.parquet", "flat-groups.parquet", "shuffled.parquet", "a.txt",
    "b.txt.gz", "c.json",
)
IN_ORDER = FORMS[: FORMS.index("shuffled.parquet")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Give a busy cluster in every form, in files of many batches and row groups too."""
    where = tmp_path_factory.mktemp("parts")
    state = kfast.generate(
        brokers=9, partitions=900, topics=11, racks=3, seed=5, topic_sizes="zipf",
        min_insync_replicas=2, unclean_topics=0.3,
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([4])
    kfast.write(state, where / "flat.parquet", format="parquet-flat")
    flat = pq.read_table(where / "flat.parquet")
    pq.write_table(flat, where / "flat-groups.parquet", row_group_size=70)
    controller.reassign_partitions({(state.topic[0].as_py(), 0): [0, 5, 7]})
    for name in ("one.arrow", "one.parquet", "a.txt", "c.json"):
        kfast.write(state, where / name)
    (where / "b.txt.gz").write_bytes(gzip.compress((where / "a.txt").read_bytes()))
    table = embed(read_tables(where / "one.arrow"))
    words = table.set_column(0, "topic", table["topic"].dictionary_encode())
    plain, packed = None, pa.ipc.IpcWriteOptions(compression="zstd")
    for name, rows, options in (
        ("batches.arrow", table, plain), ("packed.arrow", table, packed),
        ("words.arrow", words, plain),
    ):
        with pa.ipc.new_file(where / name, rows.schema, options=options) as writer:
            writer.write_table(rows, max_chunksize=130)
    with pa.ipc.new_stream(where / "stream.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=130)
    pq.write_table(table, where / "groups.parquet", row_group_size=70)
    order = np.random.default_rng(1).permutation(table.num_rows)
    pq.write_table(table.take(pa.array(order)), where / "shuffled.parquet")
    return where


@pytest.fixture
def small(monkeypatch):
    """Make tasks and batches so small that these files are worth many."""
    from kfast.spark import frames, source

    monkeypatch.setattr(source, "TASK_SECONDS", 1e-5)
    monkeypatch.setattr(source, "KEY_ROWS", 50)
    for module in (frames, source):
        monkeypatch.setattr(module, "BATCH_ROWS", 90)


def cluster_table(state, name):
    from kfast.spark.frames import row_tables

    return pa.concat_tables(row_tables(state, name))


def reader_of(options, schema=None):
    from kfast.spark.source import KfastSource

    source = KfastSource({name: str(value) for name, value in options.items()})
    return source.reader(schema or source.schema())


def read_all(options) -> tuple[list[list], pa.Table]:
    """What each task is dealt, and all rows, tasks in any order."""
    reader = reader_of(options)
    dealt = reader.partitions()
    batches = [batch for one in dealt for batch in reader.read(one)]
    return [one.value for one in dealt], pa.Table.from_batches(batches, reader.wanted)


def in_order(table: pa.Table) -> pa.Table:
    keys = [name for name in ("topic", "partition", "place") if name in table.column_names]
    return table.sort_by([(name, "ascending") for name in keys]).combine_chunks()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("table", ["partitions", "replicas"])
def test_many_tasks_give_the_rows_of_one(folder, small, name, table):
    whole = in_order(cluster_table(kfast.read(folder / name), table))
    assert whole.num_rows > 0
    for tasks in (1, 2, 7, 16):
        options = {"path": folder / name, "table": table, "tasks": tasks}
        dealt, rows = read_all(options)
        assert len(dealt) == (tasks if name in IN_ORDER else 1)
        by_rows = name in IN_ORDER and tasks > 1
        assert all((part.stop >= 0) == by_rows for hand in dealt for part in hand)
        assert in_order(rows.drop_columns("source")).equals(whole)
        assert pc.unique(rows["source"]).to_pylist() == [str(folder / name)]


def test_files_and_parts_of_them_share_the_tasks(folder, small):
    dealt, rows = read_all({"path": folder, "tasks": 2})
    assert len(dealt) == 2
    assert all(part.stop < 0 for hand in dealt for part in hand), "there are files enough"
    assert rows.num_rows == 900 * len(FORMS)
    dealt, rows = read_all({"path": folder / "*.arrow"})
    assert rows.num_rows == 900 * 5
    assert 60 < len(dealt) <= 64
    dealt, rows = read_all({"path": folder / "one.arrow", "table": "topics", "tasks": 5})
    assert (len(dealt), rows.num_rows) == (1, 11)


def test_small_files_are_not_split(folder):
    dealt, _ = read_all({"path": folder})
    assert [len(hand) for hand in dealt] == [1] * len(FORMS)
    assert all(part.stop < 0 for hand in dealt for part in hand)


def _set(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.types[at]))


def _repeated(table):
    return _set(_set(table, "topic", 899, table["topic"][3].as_py()), "partition", 899, 3)


def _topics_twice(table):
    tables = read_tables(("x", _as_arrow(table)))
    again = pa.concat_tables([tables.topics, tables.topics.slice(2, 1)])
    return embed(type(tables)("", tables.partitions, again, tables.brokers, tables.cluster))


def _as_arrow(table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("name", ["one.arrow", "bare.parquet", "a.txt"])
def test_brokers_can_be_added_to_a_file_of_many_tasks(folder, small, tmp_path, name):
    """And one that any row of the file names is refused, in the words of `kfast.read`."""
    path = folder / name
    if name == "bare.parquet":
        path = tmp_path / name
        rows = pq.read_table(folder / "one.parquet").replace_schema_metadata(None)
        pq.write_table(rows, path, row_group_size=70)
    options = {"path": path, "tasks": 4, "add_brokers": "113:rack=b,114"}
    state = kfast.read(path, add_brokers={113: "b", 114: None})
    for table in ("partitions", "replicas"):
        whole = in_order(cluster_table(state, table))
        rows = read_all({**options, "table": table})[1]
        assert in_order(rows.drop_columns("source")).equals(whole)
    brokers = read_all({**options, "table": "brokers"})[1].to_pylist()
    assert [(row["broker_id"], row["rack"]) for row in brokers][-2:] == [(113, "b"), (114, None)]
    with pytest.raises(kfast.ArgumentError) as right:
        kfast.read(path, add_brokers={5: "b"})
    with pytest.raises(kfast.ArgumentError) as raised:
        read_all({**options, "add_brokers": "5:rack=b"})
    assert str(raised.value) == str(right.value)
    with pytest.raises(kfast.ArgumentError, match="add_brokers: found '5:b'"):
        reader_of({**options, "add_brokers": "5:b"})


FAULTS = {
    "a partition that stands twice": (_repeated, "stands twice, first at row"),
    "a broker that stands twice": (lambda t: _set(t, "isr", 700, [1, 1]), "row 700: Isr of"),
    "two wrong rows": (
        lambda t: _set(_set(t, "leader", 800, -7), "leader", 60, -9), "row 60: leader -9",
    ),
    "no topic": (lambda t: _set(t, "topic", 500, None), "row 500: topic is missing"),
    "a negative partition": (lambda t: _set(t, "partition", 0, -1), "row 0: partition -1"),
    "a topic that is listed twice": (_topics_twice, "the topic stands twice"),
    "a row with too few states": (
        lambda t: _set(t, "replica_states", 450, []), "row 450: replica_states",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_what_is_wrong_is_said_as_of_the_whole_file(folder, small, tmp_path, fault, form):
    """By whichever task finds it first, in the words of `kfast.read`: so it comes out once."""
    change, words = FAULTS[fault]
    table = change(embed(read_tables(folder / "one.arrow")))
    path = tmp_path / f"bad.{form}"
    if form == "arrow":
        path.write_bytes(_as_arrow(table))
    else:
        pq.write_table(table, path, row_group_size=100)
    with pytest.raises(kfast.InputError, match=words) as right:
        kfast.read(path)
    reader = reader_of({"path": path, "tasks": 5})
    said = []
    for part in reader.partitions():
        try:
            list(reader.read(part))
        except kfast.InputError as error:
            said.append(str(error))
    assert said
    assert set(said) == {str(right.value)}


@pytest.mark.parametrize("name", IN_ORDER)
def test_damage_is_refused_or_read_as_by_one_task(folder, small, tmp_path, name):
    """Bytes turned over anywhere: the rows of `kfast.read`, or its message."""
    data, found = bytearray((folder / name).read_bytes()), set()
    path = tmp_path / name
    for at in np.random.default_rng(2).integers(0, len(data), 12).tolist():
        damaged = data.copy()
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        try:
            whole = in_order(kfast.read(path).to_tables().partitions)
        except kfast.InputError as error:
            said = str(error)
            with pytest.raises(kfast.InputError) as raised:
                read_all({"path": path, "tasks": 4})
            found.add("refused")
            right = str(raised.value) == said
        else:
            rows = read_all({"path": path, "tasks": 4})[1]
            right = in_order(rows.drop_columns("source")).equals(whole)
            found.add("read")
        assert right, at
    assert "refused" in found


@pytest.mark.parametrize(
    "table", ["partitions", "replicas", "topics", "brokers", "cluster", "assumptions"]
)
@pytest.mark.parametrize(("topic_sizes", "controller", "elr"), [
    ("equal", "zk-3.9", None), ("zipf", "zk-3.9", None), ("equal", "kraft-4.1", False),
    ("zipf", "kraft-4.0", True),
])
def test_a_made_up_cluster_is_the_same_by_any_number_of_tasks(
    small, table, topic_sizes, controller, elr
):
    cluster = {
        "controller": controller, "min_insync_replicas": 2,
        "brokers": 9, "partitions": 700, "topics": 33, "racks": 3, "topic_sizes": topic_sizes,
        "unclean_topics": 0.3, "placement": "uniform" if topic_sizes == "zipf" else "kafka",
    }
    wanted = {
        f"seed {seed}": cluster_table(kfast.generate(**cluster, elr=elr, seed=seed), table)
        for seed in (40, 41, 42)
    }
    for clusters, tasks in ((1, 1), (1, 2), (1, 7), (3, 2), (3, 16)):
        options = {**cluster, "seed": 40, "clusters": clusters, "tasks": tasks, "table": table}
        if elr is not None:
            options["elr"] = str(elr).lower()
        dealt, rows = read_all(options)
        if table in ("partitions", "replicas"):
            assert len(dealt) == (tasks if (clusters, tasks) != (3, 16) else 15)
        for seed in range(40, 40 + clusters):
            mine = rows.filter(pc.equal(rows["source"], f"seed {seed}")).drop_columns("source")
            assert mine.combine_chunks().equals(wanted[f"seed {seed}"].combine_chunks())


@pytest.mark.parametrize(("options", "message"), [
    ({"controller": "kraft-4.1", "elr": "yes"}, "option elr: found 'yes'; right is true or false"),
    ({"controller": "kraft-9"}, "controller is 'kraft-9'"),
    ({"controller": "kraft-3.9", "elr": "true"}, "elr: kraft-3.9 has no eligible leader replicas"),
])
def test_controllers_that_no_made_up_cluster_can_have_are_refused(options, message):
    from kfast.spark.source import KfastSource

    with pytest.raises(kfast.ArgumentError, match=message):
        KfastSource({"brokers": "4", "partitions": "9", **options})


def test_a_stream_is_dealt_as_a_batch_is(folder, small):
    from kfast.spark.source import KfastSource

    source = KfastSource({"path": str(folder), "tasks": "6"})
    stream = source.streamReader(source.schema())
    begin, end = stream.initialOffset(), stream.latestOffset()
    assert sorted(end) == ["files"]
    dealt = stream.partitions(begin, end)
    assert len(dealt) == 6
    rows = pa.Table.from_batches(b for part in dealt for b in stream.read(part))
    batch = read_all({"path": folder, "tasks": 6})
    assert [part.value for part in dealt] == batch[0]
    assert rows.equals(batch[1])
    assert not stream.partitions(end, end)


def test_only_the_columns_of_a_given_schema_are_read(folder, small):
    from pyspark.sql.types import IntegerType, StringType, StructType

    asked = StructType().add("leader", IntegerType()).add("topic", StringType())
    reader = reader_of({"path": folder / "one.parquet", "tasks": 3}, asked)
    rows = pa.Table.from_batches(b for part in reader.partitions() for b in reader.read(part))
    whole = kfast.read(folder / "one.parquet").to_tables().partitions
    assert all(field.nullable for field in rows.schema), "the schema that was given is"
    assert rows.combine_chunks().equals(whole.select(["leader", "topic"]).cast(rows.schema))
    for wrong, words in (
        (StructType().add("boss", IntegerType()), "column boss of the schema is none of this tab"),
        (StructType().add("topic", IntegerType()), "column topic of the schema is int; right is s"),
    ):
        with pytest.raises(kfast.ArgumentError, match=words):
            reader_of({"path": folder}, wrong)

# --- scenarios ---------------------------------------------------------------------------------

EXPORT = str(ROOT / "bench_data" / "describe.txt")


def listed(table):
    keys = [("source", "ascending"), ("scenario", "ascending"), ("broker", "ascending")]
    return table.sort_by(keys).to_pydict()


def wanted(source, scenarios):
    table = scenarios.to_table()
    sources = pa.repeat(pa.scalar(source, pa.string()), table.num_rows)
    return listed(table.add_column(0, "source", sources))


@pytest.mark.parametrize("tasks", [None, 1, 7])
def test_scenarios_of_an_export_are_those_of_one_machine(tasks):
    brokers_file = str(ROOT / "bench_data" / "brokers.csv")
    options = {"table": "scenarios", "scenarios": "random_brokers", "k": 3, "n": 500, "seed": 1,
               "path": EXPORT, "brokers_file": brokers_file}
    dealt, rows = read_all(options if tasks is None else {**options, "tasks": tasks})
    assert len(dealt) == (tasks or 1)
    state = kfast.read(EXPORT, brokers_file=brokers_file)
    assert listed(rows) == wanted(EXPORT, kfast.random_brokers(state, 3, 500, 1))


def test_scenarios_of_a_made_up_cluster_need_its_brokers_only(spark):
    """Through Spark."""
    frame = spark.read.format("kfast").options(
        table="scenarios", scenarios="bursts", share=0.5, n=150_000, seed=9, brokers=30, racks=3,
        first_broker_id=100,
    ).load()
    assert frame.selectExpr("spark_partition_id() as task").distinct().count() == 3
    state = kfast.generate(
        brokers=30, partitions=50, racks=3, first_broker_id=100, seed=77
    )
    assert listed(frame.toArrow()) == wanted("made up", kfast.bursts(state, 0.5, 150_000, 9))


def test_each_of_many_exports_has_its_own_scenarios(tmp_path):
    parts = []
    for brokers in (3, 5, 8):
        state = kfast.generate(brokers=brokers, partitions=40, racks=3, seed=brokers)
        path = tmp_path / f"{brokers}.arrow"
        kfast.write(state, path)
        made = kfast.every_rack_and_broker(state).to_table()
        parts.append(made.add_column(0, "source", pa.repeat(str(path), made.num_rows)))
    options = {"table": "scenarios", "scenarios": "every_rack_and_broker", "path": tmp_path}
    dealt, rows = read_all({**options, "tasks": 2})
    assert len(dealt) == 2
    assert listed(rows) == listed(pa.concat_tables(parts))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option scenarios: found ''; allowed: bursts, every_broker"),
        ({"scenarios": "every_rack", "k": "2"}, "option k is not one of every_rack, which takes n"),
        ({"scenarios": "random_brokers", "n": "9"}, "option k, seed is missing: random_brokers"),
        ({"scenarios": "every_broker", "k": "two"}, "option k: found 'two'; right is a number"),
        ({"scenarios": "every_broker", "clusters": "2"}, "option clusters is not one for made-up"),
        ({"scenarios": "every_broker", "path": EXPORT, "racks": "2"}, "option racks is not one"),
        ({"scenarios": "every_broker", "brokers": "2", "k": "5"}, "k is 5; 2 brokers are"),
    ],
)
def test_wrong_options_of_scenarios_are_refused(options, message):
    from kfast.spark.source import KfastSource

    with pytest.raises(kfast.ArgumentError, match=message):
        KfastSource({"table": "scenarios", **options})


def test_a_made_up_cluster_needs_brokers_and_a_stream_has_no_scenarios():
    from kfast.spark.source import KfastSource

    options = {"table": "scenarios", "scenarios": "every_broker"}
    with pytest.raises(kfast.ArgumentError, match="option brokers is missing: give a path, or"):
        KfastSource(options)
    source = KfastSource({**options, "brokers": "3"})
    with pytest.raises(kfast.ArgumentError, match="scenarios do not arrive"):
        source.streamReader(source.schema()).initialOffset()

# --- other tables and options ------------------------------------------------------------------


def test_replicas_are_rows_of_the_lists(folder):
    rows = read_all({"path": folder / "one.arrow", "table": "replicas"})[1].to_pylist()
    found = {(r["topic"], r["partition"], r["place"]): (r["broker_id"], r["leads"], r["in_sync"])
             for r in rows}
    wanted = {}
    for p in kfast.read(folder / "one.arrow").to_tables().partitions.to_pylist():
        for place, broker in enumerate(p["replicas"]):
            at = (p["topic"], p["partition"], place)
            wanted[at] = (broker, broker == p["leader"], broker in p["isr"])
    assert found == wanted


def test_assumptions_are_a_table(folder):
    rows = read_all({"path": folder / "a.txt", "table": "assumptions"})[1]
    assert rows["assumption"].to_pylist() == [*kfast.read(folder / "a.txt").assumptions]


def test_options_are_those_of_read():
    brokers_file = ROOT / "bench_data" / "brokers.csv"
    options = {"path": EXPORT, "brokers_file": brokers_file, "min.insync.replicas": 2}
    state = kfast.read(
        EXPORT, brokers_file=brokers_file, defaults={"min.insync.replicas": 2}
    )
    rows = read_all({**options, "table": "brokers"})[1]
    assert rows["broker_id"].to_pylist() == state.broker_id.tolist()
    assert rows["rack"].to_pylist() == state.rack.to_pylist()
    [row] = read_all({**options, "table": "cluster"})[1].to_pylist()
    assert row["default_min_insync_replicas"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "partition", "path": "x"}, "table 'partition' is unknown"),
        ({"tabel": "topics", "path": "x"}, "option tabel is not one for a path"),
        ({"paths": '["a","b"]'}, r'paths are given: \["a","b"\]; right is one file, folder'),
        ({"path": "x", "up": "1,b"}, "option up: found '1,b'"),
        ({"path": "x", "tasks": "0"}, "option tasks: found '0'"),
        ({"path": "x", "Min.Insync.Replicas": "two"}, "min.insync.replicas: found 'two'"),
        ({"path": "x", "delete.topic.enable": "si"}, "delete.topic.enable: found 'si'"),
        ({"brokers": "3", "partitions": "9", "replication_factor": "4"}, "replication"),
        ({"brokers": "3"}, "option partitions is missing"),
        ({"brokers": "3", "partitions": "many"}, "found 'many'; right is a number"),
        ({"brokers": "3", "partitions": "1", "clusters": "0"}, "integer of at least 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    from kfast.spark.source import KfastSource

    with pytest.raises(kfast.ArgumentError, match=message):
        KfastSource(options)


def test_a_path_is_looked_at_when_the_query_runs():
    from kfast.spark.source import KfastSource

    source = KfastSource({"path": "/nowhere/at/all"})
    reader = source.reader(source.schema())
    with pytest.raises(kfast.InputError, match="no file is there"):
        reader.partitions()


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"path": "/nowhere/at/all"}, "topic string", "a stream needs a folder; found '/nowhere"),
        ({"brokers": "3", "partitions": "9"}, "topic string", "a stream needs a folder; found ''"),
        ({"path": "/"}, "topik string", "column topik of the schema is none of this table"),
    ],
)
def test_a_stream_says_what_is_wrong_when_it_is_asked(options, schema, message):
    """Not before: PySpark would lose the message."""
    from pyspark.sql.types import StringType, StructType

    from kfast.spark.source import KfastSource

    wanted = StructType().add(schema.split()[0], StringType())
    stream = KfastSource(options).streamReader(wanted)
    for ask in (stream.initialOffset, stream.latestOffset, lambda: stream.read(None)):
        with pytest.raises(kfast.ArgumentError, match=message):
            ask()
