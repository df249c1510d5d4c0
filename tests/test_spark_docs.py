"""The examples of docs/spark.md run as they stand, one after the other."""

from __future__ import annotations

import gzip
import re
import shutil

import pytest

from tests.conftest import ROOT
from tests.test_spark_sharded import split

pytestmark = pytest.mark.spark


def test_the_examples_run(spark, tmp_path, capfd):
    """In a folder with the names that the page uses."""
    import kfast.spark

    state = kfast.generate(brokers=20, partitions=300, racks=3, topics=12, seed=1)
    for name in ("exports", "snapshots", "log"):
        (tmp_path / name).mkdir()
    kfast.write(state, tmp_path / "exports" / "a.arrow")
    kfast.write(state, tmp_path / "snapshots" / "b.parquet")
    shutil.copy(ROOT / "bench_data" / "describe.txt", tmp_path)
    packed = gzip.compress((ROOT / "bench_data" / "describe.txt").read_bytes())
    (tmp_path / "exports" / "c.txt.gz").write_bytes(packed)
    split(state, tmp_path / "cluster", 3)
    controller = kfast.Controller(state.copy(), journal="full")
    controller.on_controller_failover()
    partitions = kfast.spark.to_dataframes(spark, state).partitions
    names = {
        "spark": spark,
        "kfast": kfast,
        "outcome": controller.on_broker_failure([3]),
        "table": partitions.withColumnRenamed("replicas", "r").selectExpr(
            "r as replicas", "isr", "leader", "leader_epoch", "r as live"
        ),
    }
    page = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    places = "exports|snapshots|cluster|after|later|log|streamed|describe"
    for block in blocks:
        block = re.sub(rf'"((?:{places})[/.])', rf'"{tmp_path}/\1', block)
        block = re.sub(r"n=1_000_000", "n=1_000", block)
        block = re.sub(r"\.toTable\(.*\)", f'.start("{tmp_path}/streamed", format="parquet")'
                       ".awaitTermination()", block)
        exec(compile(block, "docs/spark.md", "exec"), names)
    assert names["done"].digest != names["again"].digest
    assert "offline" in capfd.readouterr().out
