"""The data source makes scenarios and clusters by options, in parallel."""

from __future__ import annotations

import pyarrow as pa
import pytest

import kfast
from tests.conftest import ROOT

pytestmark = pytest.mark.spark
EXPORT = str(ROOT / "bench_data" / "describe.txt")


def read(spark, path=None, **options):
    reader = spark.read.format("kfast").option("table", "scenarios").options(**options)
    return reader.load(path) if path else reader.load()


def listed(table):
    keys = [("source", "ascending"), ("scenario", "ascending"), ("broker", "ascending")]
    return table.sort_by(keys).to_pydict()


def wanted(source, scenarios):
    table = scenarios.to_table()
    sources = pa.repeat(pa.scalar(source, pa.string()), table.num_rows)
    return listed(table.add_column(0, "source", sources))


@pytest.mark.parametrize("tasks", [None, 1, 7])
def test_scenarios_of_an_export_are_those_of_one_machine(spark, tasks):
    brokers_file = str(ROOT / "bench_data" / "brokers.csv")
    options = {} if tasks is None else {"tasks": tasks}
    frame = read(
        spark, EXPORT, scenarios="random_brokers", k=3, n=500, seed=1, brokers_file=brokers_file,
        **options,
    )
    state = kfast.read(EXPORT, brokers_file=brokers_file)
    assert listed(frame.toArrow()) == wanted(EXPORT, kfast.random_brokers(state, 3, 500, 1))


def test_scenarios_of_a_made_up_cluster_need_its_brokers_only(spark):
    frame = read(
        spark, scenarios="bursts", share=0.5, n=150_000, seed=9, brokers=30, racks=3,
        first_broker_id=100,
    )
    assert frame.selectExpr("spark_partition_id() as task").distinct().count() == 3
    state = kfast.generate(
        brokers=30, partitions=50, racks=3, first_broker_id=100, seed=77
    )
    scenarios = kfast.bursts(state, 0.5, 150_000, 9)
    seen = frame.drop("source").toArrow().sort_by(
        [("scenario", "ascending"), ("broker", "ascending")]
    )
    made = scenarios.to_table().sort_by([("scenario", "ascending"), ("broker", "ascending")])
    assert seen.combine_chunks().cast(made.schema).equals(made.combine_chunks())


def test_each_of_many_exports_has_its_own_scenarios(spark, tmp_path):
    parts = []
    for brokers in (3, 5, 8):
        state = kfast.generate(brokers=brokers, partitions=40, racks=3, seed=brokers)
        path = tmp_path / f"{brokers}.arrow"
        kfast.write(state, path)
        made = kfast.every_rack_and_broker(state).to_table()
        parts.append(made.add_column(0, "source", pa.repeat(str(path), made.num_rows)))
    seen = read(spark, str(tmp_path), scenarios="every_rack_and_broker", tasks=2).toArrow()
    assert listed(seen) == listed(pa.concat_tables(parts))


@pytest.mark.parametrize("table", ["brokers", "topics", "replicas", "cluster", "assumptions"])
def test_made_up_clusters_have_every_table(spark, table):
    from kfast.spark.frames import row_tables

    frame = spark.read.format("kfast").options(
        table=table, clusters=3, brokers=6, partitions=70, racks=2, seed=5, min_insync_replicas=2
    )
    seen = frame.load().toArrow()
    for seed in range(5, 8):
        made = kfast.generate(
            brokers=6, partitions=70, racks=2, seed=seed, min_insync_replicas=2
        )
        rows = pa.concat_tables(row_tables(made, table))
        mine = seen.filter(pa.compute.equal(seen["source"], f"seed {seed}")).drop(["source"])
        keys = [(n, "ascending") for n in rows.column_names[:3]]
        assert mine.cast(rows.schema).sort_by(keys).equals(rows.combine_chunks().sort_by(keys))


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
def test_wrong_options_are_refused(options, message):
    """Asked of the source itself: by way of Spark each would take seconds."""
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
