"""Fleets, datasets and the pipeline on an object store: the same bytes, whoever is killed."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
import kfast.spark
from kfast.errors import InputError
from kfast.spark import dataset
from tests.conftest import ROOT
from tests.spark.test_spark_kills import finished
from tests.spark.test_spark_pipeline import CONFIG, folder
from tests.support.killed_runs import (
    EVENTS,
    READER,
    run_against,
    run_pipeline,
    run_sharded_remotely,
)
from tests.support.long_tests import only_whole
from tests.support.s3_server import contents, upload
from tests.support.sharded import without_session
from tests.support.spark_session import set_environment

pytestmark = pytest.mark.spark
__all__ = ["folder"]

MOMENTS = pytest.mark.parametrize(
    "n", [2, pytest.param(20, marks=[pytest.mark.slow, only_whole])], ids=["few", "many"]
)


def moments(n):
    """So many moments all over a run, as shares of it."""
    rng = random.Random(n)
    return [(at + rng.random()) / n * 0.99 for at in range(n)]


@pytest.fixture
def moved(folder, bucket):
    """The fleet in a bucket, and a configuration that keeps its results there."""
    upload(folder / "fleet", bucket / "fleet")
    point_at(bucket, folder)
    return folder


def point_at(bucket, folder):
    """Let the configuration name the bucket."""
    text = CONFIG.replace('"fleet"', f'"{bucket}fleet"').replace('"out"', f'"{bucket}out"')
    (folder / "pipeline.toml").write_text(text)


def tables(files):
    """Results without where exports were read."""
    read = {name: pq.read_table(pa.BufferReader(data)) for name, data in files.items()
            if name.endswith(".parquet")}
    return {
        name: table.drop_columns("source") if "source" in table.column_names else table
        for name, table in read.items()
    }


@MOMENTS
def test_a_pipeline_that_is_killed_ends_with_the_files_of_one_that_is_not(
    folder, moved, bucket, s3, n
):
    assert run_against(s3, run_pipeline, folder)
    n_writes, wanted = s3.writes, contents(bucket / "out")
    (folder / "pipeline.toml").write_text(CONFIG)
    run_pipeline(folder)
    assert tables(wanted) == tables(finished(folder))
    assert sum(name.endswith("manifest.json") for name in wanted) == 5
    point_at(bucket, folder)
    for moment in moments(n):
        for path in (bucket / "out").files_below():
            path.unlink()
        dies_at = int(moment * n_writes)
        assert not run_against(s3, run_pipeline, folder, dies_at)
        left = contents(bucket / "out")
        assert all(wanted[name] == data for name, data in left.items()), "half a file"
        run_pipeline(folder)
        assert contents(bucket / "out") == wanted, f"killed at write {dies_at} of {n_writes}"


@MOMENTS
def test_sharded_events_that_are_killed_happen_again(bucket, s3, tmp_path, n):
    state = kfast.generate(brokers=6, partitions=90, topics=9, seed=3)
    kfast.spark.split(state, tmp_path / "in", shards=3)
    kfast.spark.split(state, str(bucket / "in"), shards=3)
    assert contents(bucket / "in") == {
        path.name: path.read_bytes() for path in (tmp_path / "in").iterdir()
    }
    with pytest.MonkeyPatch.context() as patched:
        without_session(patched)
        kfast.spark.fail(
            READER, tmp_path / "in", events=EVENTS, output=tmp_path / "out", journal="full"
        )
    wanted = finished(tmp_path)

    def left():
        return {
            name: data for name, data in contents(bucket / "out").items() if ".token" not in name
        }

    assert run_against(s3, run_sharded_remotely, bucket)
    n_writes = s3.writes
    assert left() == wanted
    for moment in moments(n):
        assert not run_against(s3, run_sharded_remotely, bucket, int(moment * n_writes))
        assert left() == wanted or "state/_cluster.arrow" not in left(), "half a dataset"
        run_sharded_remotely(bucket)
        assert left() == wanted


def test_a_run_that_another_has_taken_the_folder_from_ends(bucket, monkeypatch):
    """There are no locks; the token of the later run ends the earlier one."""
    state = kfast.generate(brokers=6, partitions=90, topics=9, seed=3)
    kfast.spark.split(state, str(bucket / "in"), shards=3)
    without_session(monkeypatch)
    check = dataset.check_topics

    def overtaken(*arguments):
        check(*arguments)
        (bucket / "out" / dataset.TOKEN).write_text("of another run")

    monkeypatch.setattr("kfast.spark.sharded.check_topics", overtaken)
    with pytest.raises(InputError, match=r"out was taken by another run; this one has ended"):
        run_sharded_remotely(bucket)
    assert "state/_cluster.arrow" not in contents(bucket / "out")


@pytest.mark.slow
def test_everything_of_spark_takes_urls(moved, bucket, s3, tmp_path):
    """A session of its own: workers get the environment that Spark starts with."""
    environ = dict(os.environ) | s3.environment
    set_environment(environ)
    state = kfast.generate(brokers=12, partitions=3000, racks=3, topics=30, seed=1)
    kfast.write(state, tmp_path / "a.arrow")
    kfast.write(state, str(bucket / "one/a.arrow"))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.object_store_run", str(bucket).rstrip("/"),
         str(tmp_path), str(moved / "pipeline.toml")],
        cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"^ok (\w+)", done.stdout, re.M) == [
        "partitions", "replicas", "scenarios", "stream", "fleet", "sweep", "fail", "requests",
        "transitions", "capacity", "pipeline",
    ]
