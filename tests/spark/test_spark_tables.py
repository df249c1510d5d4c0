"""Clusters as DataFrames: conversion both ways, and the data source `kfast`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kfast
from tests.conftest import ROOT

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def busy():
    """Give a cluster with a failed broker, odd topics and racks."""
    state = kfast.generate(
        brokers=9, partitions=700, racks=3, seed=5, min_insync_replicas=2, unclean_topics=0.3
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([4])
    controller.reassign_partitions({(state.topic[0].as_py(), 0): [0, 5, 7]})
    return state


@pytest.fixture(scope="module")
def folder(tmp_path_factory, busy):
    """Give a folder with one cluster in four formats, and files that Spark must not see."""
    where = tmp_path_factory.mktemp("exports")
    kfast.write(busy, where / "a.arrow")
    kfast.write(busy, where / "b.parquet")
    kfast.write(busy, where / "c.txt")
    (where / "deep").mkdir()
    kfast.write(busy, where / "deep" / "d.json")
    (where / "_SUCCESS").write_text("")
    (where / ".e.txt.part").write_text("Topic:")
    return where


def by_key(table: pa.Table) -> pa.Table:
    """Rows in the order of their first columns."""
    keys = [name for name in table.column_names if not pa.types.is_list(table[name].type)]
    return table.sort_by([(name, "ascending") for name in keys[:4]]).combine_chunks()


def test_kfast_imports_neither_pyspark_nor_pandas():
    code = "import kfast, sys; sys.exit(bool({'pyspark', 'pandas'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_cluster_comes_back_from_dataframes_as_it_went(spark, busy):
    from kfast.spark import from_dataframes, to_dataframes

    frames = to_dataframes(spark, busy)
    back = from_dataframes(frames)
    assert back.difference(busy) is None
    assert back.digest() == busy.digest()
    assert from_dataframes(frames, layout="wide").digest() == busy.digest()


def test_columns_of_other_integer_types_and_other_names_are_taken_and_left(spark):
    from kfast.spark import from_dataframes

    rows = [("t", 0, [1, 2], "x"), ("t", 1, [2, 3], "y")]
    frame = spark.createDataFrame(
        rows, "topic string, partition bigint, replicas array<bigint>, owner string"
    )
    state = from_dataframes(partitions=frame)
    assert state.n_partitions == 2
    assert state.broker_id.tolist() == [1, 2, 3]
    assert any("ISR of 2 partitions" in said for said in state.assumptions)


def test_what_does_not_fit_is_refused(spark):
    from kfast.spark import ClusterFrames, from_dataframes, to_dataframe, to_dataframes

    frame = spark.createDataFrame([("t", 2**40, [1])], "topic string, partition bigint, "
                                  "replicas array<int>")
    with pytest.raises(kfast.InputError, match=r"partition is bigint; right .*1099511627776"):
        from_dataframes(partitions=frame)
    with pytest.raises(kfast.InputError, match="no column topic, partition, replicas; found id;"):
        from_dataframes(partitions=spark.range(3))
    for alone in ((frame,), (None, frame), ()):
        with pytest.raises(kfast.ArgumentError, match=r"from_dataframes\(partitions=frame\)"):
            from_dataframes(*alone)
    twice = spark.createDataFrame([("t", 0, [1], "a"), ("t", 0, [2], "b")], "topic string, "
                                  "partition int, replicas array<int>, source string")
    with pytest.raises(kfast.InputError, match=r"stands twice.*; it has a column source: choose"):
        from_dataframes(partitions=twice)
    with pytest.raises(kfast.ArgumentError, match=r"partitions is a pyarrow.lib.Table; right is a"):
        from_dataframes(partitions=pa.table({}))
    with pytest.raises(kfast.ArgumentError, match=r"table is a builtins.int; right is an Arrow"):
        to_dataframe(spark, 3)
    with pytest.raises(kfast.ArgumentError, match="right is a ClusterState"):
        to_dataframes(spark, pa.table({}))
    with pytest.raises(kfast.ArgumentError, match="in the ClusterFrames already"):
        from_dataframes(ClusterFrames(frame, frame, frame, frame), topics=frame)


@pytest.mark.parametrize(
    ("table", "tasks"), [("brokers", 7), ("topics", 2), ("partitions", 1), ("cluster", 7)]
)
def test_the_source_reads_what_kfast_reads(spark, folder, table, tasks):
    frame = spark.read.format("kfast").option("table", table).option("tasks", tasks)
    seen = by_key(frame.load(str(folder)).toArrow())
    paths = [folder / "a.arrow", folder / "b.parquet", folder / "c.txt", folder / "deep/d.json"]
    parts = []
    for path in paths:
        own = getattr(kfast.read(path).to_tables(), table)
        parts.append(own.add_column(0, "source", pa.repeat(str(path), own.num_rows)))
    wanted = by_key(pa.concat_tables(parts))
    assert seen.cast(wanted.schema).equals(wanted)


def test_files_are_found_as_spark_finds_them(folder):
    """Below folders that a glob names too; nothing hidden."""
    from kfast.spark.paths import find_files

    def names(where):
        return [Path(name).name for name in find_files(where)]

    everything = ["a.arrow", "b.parquet", "c.txt", "d.json"]
    assert names(folder) == names(f"file:{folder}/*") == everything
    assert names(folder.parent / f"[{folder.name[0]}]{folder.name[1:]}") == everything
    assert names(folder / "de*") == ["d.json"]
    assert names(folder / "_SUCCESS") == ["_SUCCESS"]
    with pytest.raises(kfast.InputError, match="no file is there"):
        find_files(folder / "_SUC*")
    with pytest.raises(kfast.InputError, match=r"\(not/here in the folder of this process"):
        find_files("not/here")
    with pytest.raises(kfast.InputError, match=r"kfast knows no file system ftp://"):
        find_files("ftp://host/exports")
    assert find_files(f"file://{folder}") == find_files(f"file:{folder}") == find_files(folder)


def test_a_folder_that_may_not_be_read_is_not_passed_over(tmp_path, monkeypatch):
    from kfast.spark.paths import find_files

    (tmp_path / "shut").mkdir()
    (tmp_path / "a.txt").touch()
    look = os.scandir

    def scandir(path):
        if Path(path).name == "shut":
            raise PermissionError(13, "Permission denied", path)
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(kfast.InputError, match="shut: cannot be read: Permission denied"):
        find_files(tmp_path)
    monkeypatch.undo()
    (tmp_path / "a.txt").unlink()
    assert find_files(tmp_path, required=False) == []


def test_spark_says_at_load_what_is_wrong(spark, folder):
    """As far as it asks the source there; a stream's own faults when it is started."""
    for read in (spark.read, spark.readStream):
        with pytest.raises(Exception, match="ArgumentError: option tabel is not one for a path"):
            read.format("kfast").option("tabel", "topics").load(str(folder))
    with pytest.raises(Exception, match="ArgumentError: several paths are given"):
        spark.read.format("kfast").load([str(folder), str(folder / "a.arrow")])
    nothing = spark.readStream.format("kfast").load("/nowhere/at/all").writeStream
    with pytest.raises(Exception, match="ArgumentError: a stream needs a folder") as said:
        nothing.format("noop").trigger(availableNow=True).start().awaitTermination()
    assert "UnboundLocalError" not in str(said.value)


def test_a_damaged_export_is_named(spark, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(Exception, match=r"bad\.parquet: damaged Parquet"):
        spark.read.format("kfast").load(str(tmp_path)).collect()


def test_made_up_clusters_are_those_of_generate(spark):
    options = {"clusters": "5", "brokers": "7", "partitions": "90", "racks": "3", "seed": "40"}
    frame = spark.read.format("kfast").options(**options, tasks=5).load()
    seen = frame.toArrow()
    for seed in range(40, 45):
        mine = seen.filter(pa.compute.equal(seen["source"], f"seed {seed}")).drop(["source"])
        made = kfast.generate(brokers=7, partitions=90, racks=3, seed=seed).to_tables().partitions
        assert by_key(mine).cast(made.schema).equals(by_key(made))


def test_a_large_cluster_is_read_and_made_by_many_tasks(spark, tmp_path):
    """As large as it must be for that; only a column is asked for."""
    from pyspark.sql import functions as sql

    cluster = {"brokers": 7, "partitions": 900_000, "seed": 3, "placement": "uniform"}
    state = kfast.generate(**cluster)
    kfast.write(state, tmp_path / "a.parquet", format="parquet-flat")
    wanted = dict(enumerate(np.bincount(state.records["leader"]).tolist()))
    reader = spark.read.format("kfast").schema("leader int")
    for frame in (reader.load(str(tmp_path / "a.parquet")), reader.options(**cluster).load()):
        assert frame.columns == ["leader"]
        rows = frame.groupBy("leader", sql.spark_partition_id().alias("task")).count().collect()
        assert len({row.task for row in rows}) == 2
        found: Counter[int] = Counter()
        for row in rows:
            found[row.leader] += row["count"]
        assert found == wanted


def test_a_stream_reads_each_snapshot_once(spark, busy, tmp_path):
    arriving, out = tmp_path / "in", tmp_path / "out"
    arriving.mkdir()

    def run():
        frame = spark.readStream.format("kfast").option("table", "brokers").load(str(arriving))
        query = (
            frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "log"))
            .trigger(availableNow=True).start(str(out))
        )
        query.awaitTermination()
        seen = spark.read.parquet(str(out)).groupBy("source").count().collect()
        return {Path(row.source).name: row["count"] for row in seen}

    kfast.write(busy, arriving / "2.arrow")
    assert run() == {"2.arrow": 9}
    kfast.write(busy, arriving / "1.parquet")
    assert run() == {"1.parquet": 9, "2.arrow": 9}
