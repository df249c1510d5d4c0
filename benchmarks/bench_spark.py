"""What Spark adds: each path of kfast.spark beside the same work without Spark, in one run.

`python -m pytest benchmarks/bench_spark.py --benchmark-enable --partitions 1000000 --scenarios
100000` takes minutes. Both cores work in each: two threads, or two tasks at a time.
"""

from __future__ import annotations

import timeit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from tests.conftest import spark
from tests.support.sharded import split
from tests.support.worker_memory import workers_with

pytestmark = [pytest.mark.spark, pytest.mark.slow]
__all__ = ["spark"]
ROUNDS = 3
THREADS = 2
CLUSTERS = 8
WORKER_BYTES = 300_000_000
SHARDS = 8
REPEATED = ["topic", "leader_epoch", "version", "controller_epoch", "isr", "states"]
"""Columns that Arrow writes faster with a dictionary; all others are faster plain."""
PLAIN = {
    "compression": "none", "write_statistics": False, "store_schema": False,
    "data_page_size": 1 << 22, "write_batch_size": 1 << 18, "row_group_size": 1 << 26,
    "dictionary_pagesize_limit": 1 << 30,
}


@pytest.fixture(scope="module")
def scenarios(cluster, request):
    return kfast.random_brokers(
        cluster, k=3, n=request.config.getoption("--scenarios"), seed=1
    )


def beside(benchmark, on_spark, plain, rows):
    """Time work on Spark and the same without; say the ratio, and what Spark adds to each row."""
    benchmark.pedantic(on_spark, rounds=ROUNDS, warmup_rounds=1)
    if benchmark.disabled:
        plain()
        return
    plain_s = min(timeit.repeat(plain, number=1, repeat=ROUNDS))
    spark_s = benchmark.stats.stats.median
    benchmark.extra_info.update(
        rows=rows, plain_s=plain_s, ratio=spark_s / plain_s,
        overhead_ns_per_row=(spark_s - plain_s) / rows * 1e9,
    )


class TestSweep:
    """Random scenarios of three brokers each: all counts, by partition, by broker."""

    def test_scenarios(self, benchmark, spark, cluster, scenarios):
        from kfast.spark import sweep

        n = len(scenarios)
        beside(
            benchmark, lambda: sweep(spark, cluster, scenarios).toArrow(),
            lambda: kfast.sweep(cluster, scenarios, threads=THREADS), n,
        )
        some = sweep(spark, cluster, scenarios).where(f"scenario < {n // 50}").toArrow()
        peaks = [peak - mapped for peak, mapped in workers_with("kfast-").values()]
        benchmark.extra_info.update(worker_peak_beside_mapping_bytes=max(peaks))
        assert max(peaks) < WORKER_BYTES
        wanted = kfast.sweep(cluster, scenarios.slice(0, n // 50))
        seen = some.sort_by("scenario").combine_chunks()
        assert seen.cast(wanted.schema).equals(wanted.combine_chunks())

    def test_partitions(self, benchmark, spark, cluster, scenarios):
        from kfast.spark import sweep_partitions

        beside(
            benchmark, lambda: done(sweep_partitions(spark, cluster, scenarios)),
            lambda: kfast.sweep_partitions(cluster, scenarios, threads=THREADS),
            cluster.n_partitions,
        )

    def test_brokers(self, benchmark, spark, cluster, scenarios):
        from kfast.spark import sweep_brokers

        beside(
            benchmark, lambda: done(sweep_brokers(spark, cluster, scenarios)),
            lambda: kfast.sweep_brokers(cluster, scenarios, threads=THREADS), cluster.n_brokers,
        )


def done(frame):
    """Make all rows of a DataFrame, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


class TestSource:
    """Tables of the data source, and what they are made of without Spark."""

    def test_export(self, benchmark, spark, cluster, tmp_path):
        path = tmp_path / "cluster.arrow"
        kfast.write(cluster, path)
        beside(
            benchmark, lambda: done(spark.read.format("kfast").load(str(path))),
            lambda: kfast.read(path).to_tables().partitions, cluster.n_partitions,
        )

    @pytest.mark.parametrize("clusters", [1, CLUSTERS])
    def test_made_up_clusters(self, benchmark, spark, shape, clusters):
        made = {**shape, "partitions": shape["partitions"] // clusters}

        def plain():
            for seed in range(clusters):
                assert kfast.generate(**{**made, "seed": seed}).to_tables().partitions.num_rows

        frame = spark.read.format("kfast").options(**{**made, "seed": 0, "clusters": clusters})
        beside(
            benchmark, lambda: done(frame.load()), plain, clusters * made["partitions"]
        )

    def test_scenarios(self, benchmark, spark, cluster, scenarios):
        frame = spark.read.format("kfast").options(
            table="scenarios", scenarios="random_brokers", k=scenarios.k, seed=scenarios.seed,
            n=len(scenarios) - 1, brokers=cluster.n_brokers, tasks=THREADS,
        )
        beside(
            benchmark, lambda: done(frame.load()), scenarios.to_table,
            scenarios.k * (len(scenarios) - 1),
        )


@pytest.fixture(scope="module")
def shards(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "shards"
    split(cluster, folder, SHARDS)
    return folder


class TestShards:
    """One broker fails, from Parquet files to Parquet files."""

    def test_pyarrow(self, benchmark, shards, tmp_path):
        """Read and write the same files, nothing else."""

        def run():
            for path in sorted(shards.iterdir()):
                pq.write_table(pq.read_table(path), tmp_path / path.name, compression="zstd")

        benchmark.group = "spark: shards"
        benchmark.pedantic(run, rounds=ROUNDS)
        assert len(list(tmp_path.iterdir())) == SHARDS

    def test_spark(self, benchmark, spark, cluster, shards, tmp_path):
        from kfast.spark import fail

        benchmark.group = "spark: shards"
        done = benchmark.pedantic(
            lambda: fail(spark, shards, broker_ids=[1], output=tmp_path / "out"), rounds=ROUNDS
        )
        after = kfast.fail_brokers(cluster, [1]).state
        assert done.digest == after.digest()


@pytest.fixture(scope="module")
def flat_shards(cluster, tmp_path_factory):
    from kfast.spark import split

    folder = tmp_path_factory.mktemp("bench") / "flat"
    split(cluster, folder, shards=max(SHARDS, cluster.n_partitions // 1_000_000))
    return folder


class TestFlatShards:
    """One broker fails, from flat Parquet to flat Parquet, all files in two tasks.

    The target is 120 ns per partition and core, below 2 GiB per worker, at 50 M partitions:
    `--partitions 50000000 --brokers 3000`, with 10 GB of memory for the cluster that is split.
    """

    def test_pyarrow(self, benchmark, flat_shards, n_partitions, tmp_path):
        """Read and write the same partitions with Arrow alone, on one core, as fast as it can."""

        def run():
            for path in sorted(flat_shards.glob("*.parquet")):
                file = pq.ParquetFile(pa.memory_map(str(path)), read_dictionary=["topic"])
                table = file.read(use_threads=False)
                pq.write_table(table, tmp_path / path.name, use_dictionary=REPEATED, **PLAIN)

        benchmark.group = "spark: flat shards"
        benchmark.pedantic(run, rounds=ROUNDS)
        if benchmark.stats is not None:
            benchmark.extra_info["ns_per_partition"] = (
                benchmark.stats.stats.median * 1e9 / n_partitions
            )

    def test_spark(self, benchmark, spark, cluster, flat_shards, n_partitions, tmp_path):
        from benchmarks.spark_columns import peak_bytes
        from kfast.spark import fail

        benchmark.group = "spark: flat shards"
        done = benchmark.pedantic(
            lambda: fail(spark, flat_shards, broker_ids=[1], output=tmp_path / "out", tasks=2),
            rounds=ROUNDS, warmup_rounds=1,
        )
        if benchmark.stats is not None:
            core_s = 2 * benchmark.stats.stats.median
            benchmark.extra_info["ns_per_partition_and_core"] = core_s * 1e9 / n_partitions
        benchmark.extra_info["peak_mib_per_worker"] = peak_bytes(spark) >> 20
        assert done.partitions == n_partitions
        assert done.digest == kfast.fail_brokers(cluster, [1]).state.digest()


@pytest.fixture(scope="module")
def frame(spark, cluster, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("columns") / "rows.parquet")
    pq.write_table(cluster.to_tables().partitions.select(["replicas", "isr"]), path)
    return spark.read.parquet(path)


class TestColumns:
    """An election in a column, against a column that only crosses to Python and back."""

    @pytest.mark.parametrize("elects", [False, True], ids=["crossing", "elect"])
    def test_columns(self, benchmark, frame, n_partitions, elects):
        from pyspark.sql import functions as sql

        from benchmarks.spark_columns import crossing
        from kfast.spark.functions import elect

        benchmark.group = "spark: columns"
        column = elect("replicas", "isr", "isr") if elects else crossing("replicas", "isr")
        total = benchmark.pedantic(
            lambda: frame.select(sql.sum(column["leader_epoch"])).collect()[0][0], rounds=ROUNDS
        )
        assert total == (n_partitions if elects else 0)


    @pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
    @pytest.mark.parametrize("what", ["elect", "fail"])
    def test_batch(self, benchmark, cluster, n_partitions, what, controller):
        """The same without Spark: from Arrow columns to an Arrow column, one core."""
        from kfast.schema import Strategy
        from kfast.spark.functions import elect_batch, fail_batch

        table = cluster.to_tables().partitions
        ar, isr, leader, epoch = (
            pa.concat_arrays(table[name].chunks)
            for name in ("replicas", "isr", "leader", "leader_epoch")
        )
        columns = {"replicas": ar, "isr": isr}

        def run():
            if what == "elect":
                return elect_batch(columns | {"live": isr}, Strategy.OFFLINE, controller)
            led = columns | {"leader": leader, "leader_epoch": epoch}
            return fail_batch(led, [1], controller)

        benchmark.group = "spark: columns"
        answer = benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
        assert answer.field("state").unique().to_pylist() == ["OnlinePartition"]


@pytest.fixture(scope="module")
def fleet_folder(cluster, tmp_path_factory):
    """One large cluster, and 200 tiny ones."""
    folder = tmp_path_factory.mktemp("fleet")
    kfast.write(cluster, folder / "large.txt")
    for seed in range(200):
        tiny = kfast.generate(brokers=6, partitions=60, seed=seed)
        kfast.write(tiny, folder / f"tiny-{seed}.txt")
    return folder


class TestFleet:
    """Every broker of every cluster; the tasks of the large one and of the tiny ones."""

    @pytest.mark.parametrize("which", ["*", "tiny-*"])
    def test_kfast(self, benchmark, fleet_folder, which):
        def run():
            for path in fleet_folder.glob(which):
                state = kfast.read(path)
                kfast.sweep(state, kfast.every_broker(state))

        benchmark.group = f"spark: fleet {which}"
        benchmark.pedantic(run, rounds=ROUNDS)

    @pytest.mark.parametrize("which", ["*", "tiny-*"])
    def test_spark(self, benchmark, spark, fleet_folder, which):
        from kfast.spark import fleet

        benchmark.group = f"spark: fleet {which}"
        fleet(spark, fleet_folder / "tiny-1*", "every_broker").toArrow()
        table = benchmark.pedantic(
            lambda: fleet(spark, fleet_folder / which, "every_broker").toArrow(), rounds=ROUNDS
        )
        assert table["error"].null_count == table.num_rows > 200


class TestTasks:
    """Tasks with nothing to do: what one costs."""

    @pytest.mark.parametrize("tasks", [2, 34])
    def test_empty_tasks(self, benchmark, spark, cluster, tasks):
        from kfast.spark import scenario_rows

        nothing = kfast.every_broker(cluster).slice(0, 1)
        benchmark.group = "spark: tasks"
        found = benchmark.pedantic(
            lambda: scenario_rows(spark, nothing, tasks=tasks).toArrow(), rounds=ROUNDS
        )
        assert found.num_rows == 0
