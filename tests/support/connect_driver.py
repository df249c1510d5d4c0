"""What a user's driver script does on Spark Connect, run by itself: `test_spark_connect.py`.

It starts a local Connect server, asks everything of kfast.spark that touches the session, and
writes the answers as Arrow files into the folder that it is given.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
from pyspark.sql import SparkSession

import kfast
import kfast.spark
from kfast.spark import functions
from kfast.spark.fleets import Exports
from kfast.spark.pipeline import run_pipeline
from kfast.spark.snapshots import Job
from kfast.spark.tallies import Sweep
from tests.spark.test_spark_sharded import EVENTS
from tests.support.spark_session import SETTINGS

NOT_FOR_CONNECT = ("spark.driver.bindAddress", "spark.driver.host")


def streamed(spark: SparkSession, folder: Path) -> pa.Table:
    """Brokers of two snapshots, of which the second comes after the first was read."""
    arriving, read = folder / "arriving", folder / "streamed"
    arriving.mkdir()
    for name in ("1.arrow", "2.arrow"):
        shutil.copy(folder / "cluster.arrow", arriving / name)
        frame = spark.readStream.format("kfast").option("table", "brokers").load(str(arriving))
        query = (
            frame.writeStream.format("parquet").trigger(availableNow=True)
            .option("checkpointLocation", str(folder / "log")).start(str(read))
        )
        query.awaitTermination()
    return spark.read.parquet(str(read)).toArrow()


SWEEPS = (Sweep("each", "every_broker"),)


def main(folder: Path) -> None:
    """Ask, and write the answers."""
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        if name not in NOT_FOR_CONNECT:
            builder = builder.config(name, value)
    spark = builder.getOrCreate()
    assert "connect" in type(spark).__module__
    state = kfast.read(folder / "cluster.arrow")
    partitions = spark.read.format("kfast").load(str(folder / "cluster.arrow"))
    frames = kfast.spark.to_dataframes(spark, state)
    after = functions.fail("replicas", "isr", "leader", [2], leader_epoch="leader_epoch")
    done = kfast.spark.fail(
        spark, folder / "shards", events=EVENTS, output=folder / "out", tasks=3
    )
    scenarios = kfast.random_brokers(state, k=3, n=2000, seed=6)
    answers = {
        "read": partitions.toArrow(),
        "digests": pa.table(
            {
                "name": ["dataframes", "shards"],
                "digest": [
                    str(kfast.spark.from_dataframes(frames).digest()), str(done.digest),
                ],
            }
        ),
        "after": partitions.select("topic", "partition", after.alias("after")).toArrow(),
        "requests": done.requests.toArrow(),
        "sweep": kfast.spark.sweep(spark, state, scenarios, tasks=3).toArrow(),
        "partitions": kfast.spark.sweep_partitions(spark, state, scenarios, tasks=3).toArrow(),
        "brokers": kfast.spark.sweep_brokers(spark, state, scenarios, tasks=3).toArrow(),
        "scenarios": spark.read.format("kfast").options(
            table="scenarios", scenarios="random_brokers", k=3, n=2000, seed=6, tasks=3
        ).load(str(folder / "cluster.arrow")).toArrow(),
        "stream": streamed(spark, folder),
        "again": kfast.spark.sweep(spark, state, scenarios.slice(5, 9)).toArrow(),
    }
    answers |= users_frames(spark, folder) | fleets(spark, folder)
    for name, table in answers.items():
        feather.write_feather(table, str(folder / f"{name}.answer"), compression="uncompressed")
    spark.stop()


def users_frames(spark, folder) -> dict[str, pa.Table]:
    """Elections in a column, scenarios as rows, clusters that are made up."""
    partitions = spark.read.format("kfast").load(str(folder / "cluster.arrow"))
    elected = functions.elect("replicas", "isr", "replicas").alias("now")
    made = spark.read.format("kfast").options(clusters=3, brokers=4, partitions=10, tasks=2)
    few = kfast.every_broker(kfast.read(folder / "cluster.arrow"), k=2).slice(3, 9)
    return {
        "elected": partitions.select("topic", "partition", elected).toArrow(),
        "made": made.load().toArrow(),
        "few": kfast.spark.scenario_rows(spark, few, tasks=2).toArrow(),
    }


def fleets(spark, folder) -> dict[str, pa.Table]:
    """Exports in files and in rows, and the pipeline over them."""
    exports = folder / "fleet"
    rows = [(str(path), bytearray(path.read_bytes())) for path in sorted(exports.rglob("*.*"))]
    frame = spark.createDataFrame(rows, "cluster string, content binary")
    job = Job(Exports({}, "brokers.csv"), SWEEPS, str(folder / "made"))
    done = run_pipeline(spark, exports, job, tasks=2)
    return {
        "files": kfast.spark.fleet(spark, exports, "every_broker").toArrow(),
        "rows": kfast.spark.fleet(spark, frame, "every_broker", tasks=3).toArrow(),
        "pipeline": done,
        "later": run_pipeline(spark, exports, job),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
