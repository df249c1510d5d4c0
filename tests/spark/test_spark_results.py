"""What Spark gives has the schemas of `kfast.schema` too, and rows that a join can use."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kfast
import kfast.spark
from tests.conftest import ROOT
from tests.journal.test_results import BY_NAME, NAMES, SPARK, check_schema, cluster, named

pytestmark = pytest.mark.spark

READ_BACK = (
    "sharded.requests", "sharded.transitions", "sharded.elections", "sharded.records",
)
"""Spark takes every column of a file for nullable."""


@pytest.fixture(scope="module")
def results(spark, tmp_path_factory):
    """DataFrames, and tables that are made of some, by name."""
    state, folder = cluster(), tmp_path_factory.mktemp("results")
    every = kfast.every_broker(state)
    (folder / "exports").mkdir()
    kfast.write(state, folder / "exports" / "a.parquet")
    (folder / "exports" / "b.txt").write_text("cut off")
    frames = {
        "sweep": kfast.spark.sweep(spark, state, every),
        "sweep_partitions": kfast.spark.sweep_partitions(spark, state, every),
        "sweep_brokers": kfast.spark.sweep_brokers(spark, state, every),
        "scenarios": kfast.spark.scenario_rows(spark, every),
        "fleet": kfast.spark.fleet(spark, folder / "exports", "every_rack"),
        "fleet.timelines": kfast.spark.timeline_fleet(
            spark, folder / "exports", "every_rack", samples=5
        ),
    }
    for name in ("brokers", "topics", "partitions", "cluster", "replicas", "assumptions"):
        reader = spark.read.format("kfast").option("table", name)
        assumes = ROOT / "bench_data" / "describe.txt"
        export = assumes if name == "assumptions" else folder / "exports" / "a.parquet"
        frames[f"source {name}"] = reader.load(str(export))
    outcome = sharded(spark, state, folder)
    for name in ("requests", "transitions", "elections"):
        frames[f"sharded.{name}"] = getattr(outcome, name)
    frames["sharded.records"] = sharded_quorum(spark, state, folder).records
    tables = {"sharded.counts": outcome.counts, "sharded.brokers": outcome.brokers}
    tables["sharded.imbalance"], = outcome.imbalance
    shards = [kfast.read(path) for path in sorted((folder / "shards").glob("shard-*"))]
    return frames, tables | pipeline(spark, folder), state, shards


def sharded(spark, state, folder):
    """Events of a cluster in three files, one of each kind of answer."""
    kfast.spark.split(state, folder / "shards", shards=3)
    return kfast.spark.fail(
        spark, folder / "shards", output=folder / "out", journal="full", events=[
            "on_controller_failover", ("on_broker_failure", [1]), ("rebalance_leaders", 10),
            ("elect_leaders", {"type": "unclean"}),
        ],
    )


def sharded_quorum(spark, state, folder):
    """A failure of the same cluster as a KRaft controller runs it."""
    quorum = kfast.with_controller(state, "kraft-4.1", elr=True)
    kfast.spark.split(quorum, folder / "quorum", shards=3)
    return kfast.spark.fail(
        spark, folder / "quorum", [1], output=folder / "quorum_out", journal="full"
    )


def pipeline(spark, folder):
    """What the pipeline reports, and what it writes."""
    from kfast.analysis.conditions import Condition
    from kfast.spark.fleets import ExportReader
    from kfast.spark.pipeline import CapacityFiles, Job, Sweep, run_pipeline

    alert = Condition("offline>=0", "offline", np.greater_equal, 0)
    sweeps = (Sweep("racks", "every_rack", (alert,)),)
    (folder / "exports" / "loads.csv").write_text("topic,bytes_in\ntopic-00,1000000\n")
    (folder / "exports" / "capacity.csv").write_text("broker_id,nw_in\n-1,5000000\n")
    files = CapacityFiles(("loads.csv",), "capacity.csv", "mean")
    job = Job(ExportReader({}, "brokers.csv"), sweeps, str(folder / "results"), files)
    tables = {"pipeline": run_pipeline(spark, folder / "exports", job)}
    results = {"summaries": "pipeline.summaries", "alerts": "pipeline.alerts",
               "capacity": "fleet.capacity"}
    for name, result in results.items():
        path, = (folder / "results" / name).rglob("*.parquet")
        tables[result] = pq.ParquetFile(path).read()
    return tables


def test_every_result_of_spark_is_made(results):
    frames, tables, *_ = results
    names = {name.removeprefix("source ") for name in (*frames, *tables)}
    assert names >= SPARK
    assert names - SPARK <= set(NAMES)


def test_a_frame_has_the_types_that_the_schema_says(results):
    """The same names, order, types and nullability; and no null where there may be none."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from kfast.spark.frames import schema_with_source

    for name, frame in results[0].items():
        expected = BY_NAME[name.removeprefix("source ")].schema
        expected = schema_with_source(expected) if name.startswith("source ") else expected
        types = from_arrow_schema(expected)
        if name in READ_BACK:
            assert frame.schema.fieldNames() == types.fieldNames()
            assert all(field.nullable for field in frame.schema)
        else:
            assert frame.schema == types, name
        table = frame.toArrow()
        assert table.num_rows > 0, name
        check_schema(table.cast(expected), expected)


def test_a_table_is_what_the_schema_says(results):
    for name, table in results[1].items():
        assert table.num_rows > 0, name
        check_schema(table, BY_NAME[name].schema)


def test_partition_row_of_a_sweep_is_the_row_of_the_state(results):
    frames, _, state, _ = results
    table = frames["sweep_partitions"].toArrow().sort_by("partition_row")
    rows = table["partition_row"].to_numpy()
    assert rows.tolist() == list(range(state.n_partitions))
    assert table["partition"].to_pylist() == state.partition[rows].tolist()
    assert table.equals(kfast.sweep_partitions(state, kfast.every_broker(state)).cast(table.schema))


def test_partition_row_of_a_shard_is_the_row_of_its_file(results):
    """The files in their order are the shards; each is a cluster of its own."""
    frames, _, _, files = results
    table = frames["sharded.transitions"].toArrow()
    assert set(table["shard"].to_pylist()) == {0, 1, 2}
    for number, part in enumerate(files):
        mine = table.filter(pc.equal(table["shard"], number))
        keys = [named(part, row) for row in mine["partition_row"].to_pylist()]
        assert keys == list(zip(mine["topic"].to_pylist(), mine["partition"].to_pylist(),
                                strict=True))
