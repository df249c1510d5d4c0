"""All questions of kfast.spark about files in a bucket, beside the same files in a folder.

Arguments: the bucket, a folder, and the configuration of a pipeline.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

import kfast
import kfast.spark
from kfast.cli.app import commands
from kfast.io.loads import CapacityTable
from kfast.spark.capacity_sweeps import capacity_from_dataframe, load_from_dataframe
from tests.support import spark_session


def rows(frame, place: str) -> list:
    """Sorted rows of a DataFrame, without where they came from."""
    return sorted(str(row).replace(place, "") for row in frame.toArrow().to_pylist())


def main(bucket: str, folder: str, configuration: str) -> None:
    """Ask, compare, and say `ok` of each."""
    spark = spark_session.start("local[2,2]")
    places = (bucket.replace("s3:", "s3a:") + "/one", folder)

    def same(name: str, ask) -> None:
        remote, local = (rows(ask(place), place.rstrip("/")) for place in places)
        assert remote == local, name
        assert remote, name
        print("ok", name, len(remote), flush=True)

    for table in ("partitions", "replicas"):
        same(table, lambda at, t=table: spark.read.format("kfast").options(table=t, tasks=3).load(
            f"{at}/*.arrow"))
    same("scenarios", lambda at: spark.read.format("kfast").options(
        table="scenarios", scenarios="every_broker", k=2).load(f"{at}/a.arrow"))

    def stream(at: str):
        out = f"{folder}/streamed-{len(at)}"
        arriving = spark.readStream.format("kfast").option("table", "brokers").load(
            at if at != folder else f"{folder}/one")
        arriving.writeStream.trigger(availableNow=True).option(
            "checkpointLocation", f"{out}.log"
        ).format("parquet").start(out).awaitTermination()
        return spark.read.parquet(out).drop("source")

    (Path(folder) / "one").mkdir()
    (Path(folder) / "one/a.arrow").write_bytes((Path(folder) / "a.arrow").read_bytes())
    same("stream", stream)
    same("fleet", lambda at: kfast.spark.fleet(spark, f"{at}/*.arrow", "every_rack"))
    same("sweep", lambda at: kfast.spark.sweep(spark, f"{at}/a.arrow", "every_broker"))
    state = kfast.read(f"{folder}/a.arrow")
    outcomes = {}
    for place in places:
        kfast.spark.split(state, f"{place}/cluster", shards=4)
        outcomes[place] = kfast.spark.fail(
            spark, f"{place}/cluster", [3], output=f"{place}/after", journal="full"
        )
    assert len({done.digest for done in outcomes.values()}) == 1
    same("fail", lambda at: spark.read.format("kfast").load(outcomes[at].state).drop("source"))
    same("requests", lambda at: outcomes[at].requests)
    same("transitions", lambda at: outcomes[at].transitions)
    loads = load_from_dataframe(spark.createDataFrame(
        [(topic, 52428800, 157286400) for topic in state.topic.to_pylist()],
        "topic string, bytes_in long, bytes_out long",
    ), window="p95 of 1 h")
    limits: CapacityTable = capacity_from_dataframe(spark.createDataFrame(
        [(-1, 1250000000, 1250000000)], "broker_id int, nw_in long, nw_out long"))

    def capacity(at: str):
        ready = kfast.spark.prepare_capacity(spark, f"{at}/cluster", loads, limits)
        return kfast.spark.capacity_sweep(spark, ready.plan, kfast.every_broker(ready.brokers))

    same("capacity", capacity)
    spark.stop()
    commands(["pipeline", configuration], standalone_mode=False)
    manifests = [*kfast.io.file_systems.parse_path(f"{bucket}/out/manifests").files_below()]
    assert len(manifests) == 5, manifests
    print("ok pipeline", pa.__version__)


if __name__ == "__main__":
    main(*sys.argv[1:])
