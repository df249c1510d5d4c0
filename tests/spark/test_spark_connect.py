"""Spark Connect: a driver script with a live local server gets the bits of one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pytest

import kfast
from kfast.testing.single_elections import offline_leader
from tests.conftest import ROOT
from tests.spark.test_spark_sharded import EVENTS, cluster
from tests.support.sharded import alone, requests_alone, split
from tests.support.spark_session import need_java, set_environment

pytestmark = pytest.mark.spark
__all__ = ["cluster"]


@pytest.fixture(scope="module")
def answers(cluster, tmp_path_factory):
    """Run the script in a process of its own: a session of each kind cannot share one."""
    need_java()
    folder = tmp_path_factory.mktemp("connect")
    kfast.write(cluster, folder / "cluster.arrow")
    split(cluster, folder / "shards", 4)
    for seed, name in enumerate(("east", "west")):
        (folder / "fleet" / name).mkdir(parents=True)
        state = kfast.generate(brokers=5, partitions=40, seed=seed)
        kfast.write(state, folder / "fleet" / name / "1.parquet")
    (folder / "fleet" / "west" / "2.txt").write_text("cut off")
    environ = dict(os.environ)
    set_environment(environ)
    # The server then takes a port that is free, for another may listen on Spark's own.
    environ["SPARK_TESTING"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.connect_driver", str(folder)],
        capture_output=True, text=True, cwd=ROOT, env=environ, timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert files(folder) == made_here(folder)
    return {path.stem: feather.read_table(str(path)) for path in folder.glob("*.answer")}


def files(folder, name="made") -> dict[str, bytes]:
    """What a pipeline made."""
    found = (folder / name).rglob("*.*")
    return {str(p.relative_to(folder / name)): p.read_bytes() for p in found if p.is_file()}


def made_here(folder) -> dict[str, bytes]:
    """What the pipeline makes without Spark."""
    from kfast.spark.fleets import Exports
    from kfast.spark.snapshots import Job, run_snapshot
    from tests.support.connect_driver import SWEEPS

    job = Job(Exports({}, "brokers.csv"), SWEEPS, str(folder / "here"))
    for path in (folder / "fleet").rglob("*.*"):
        run_snapshot(job, str(path))
    return files(folder, "here")


def test_tables_are_those_of_one_machine(answers, cluster):
    keys = [("topic", "ascending"), ("partition", "ascending")]
    wanted = cluster.to_tables().partitions.sort_by(keys)
    seen = answers["read"].drop_columns("source").sort_by(keys).cast(wanted.schema)
    assert seen.equals(wanted)


def test_states_and_shards_have_the_digests_of_one_machine(answers, cluster):
    digests = dict(zip(*answers["digests"].to_pydict().values(), strict=True))
    after, outcomes = alone(cluster, EVENTS, "counts", "zk-3.9")
    assert digests == {"dataframes": str(cluster.digest()), "shards": str(after.digest())}
    seen = sorted(tuple(row.values()) for row in answers["requests"].to_pylist())
    assert seen == requests_alone(outcomes)


def test_columns_fail_alike(answers, cluster):
    from kfast.spark.functions import fail_batch

    partitions = cluster.to_tables().partitions.combine_chunks()
    lists = {name: pa.concat_arrays(partitions[name].chunks) for name in partitions.column_names}
    n = partitions.num_rows
    wanted = fail_batch(
        lists["replicas"], lists["isr"], lists["leader"], pa.nulls(n, pa.list_(pa.int32())),
        lists["leader_epoch"], pa.nulls(n, pa.bool_()), [2], "zk-3.9",
    )
    names = zip(lists["topic"].to_pylist(), lists["partition"].to_pylist(), strict=True)
    seen = {(r["topic"], r["partition"]): r["after"] for r in answers["after"].to_pylist()}
    assert seen == dict(zip(names, wanted.to_pylist(), strict=True))


def test_sweeps_count_alike(answers, cluster):
    scenarios = kfast.random_brokers(cluster, k=3, n=2000, seed=6)
    for name, asked in (("sweep", scenarios), ("again", scenarios.slice(5, 9))):
        wanted = kfast.sweep(cluster, asked)
        assert answers[name].sort_by("scenario").cast(wanted.schema).equals(wanted)


def test_details_and_scenarios_are_alike(answers, cluster):
    scenarios = kfast.random_brokers(cluster, k=3, n=2000, seed=6)
    wanted = kfast.sweep_partitions(cluster, scenarios)
    wanted = wanted.set_column(0, "topic", wanted["topic"].cast(pa.string()))
    for name, table, keys in (
        ("partitions", wanted, ["topic", "partition"]),
        ("brokers", kfast.sweep_brokers(cluster, scenarios), ["broker_id"]),
        ("scenarios", scenarios.to_table(), ["scenario", "broker"]),
    ):
        order = [(key, "ascending") for key in keys]
        seen = answers[name].select(table.column_names).cast(table.schema).sort_by(order)
        assert seen.combine_chunks().equals(table.sort_by(order).combine_chunks()), name


def test_a_stream_reads_each_snapshot_once(answers, cluster):
    seen = sorted(
        (Path(row["source"]).name, row["broker_id"]) for row in answers["stream"].to_pylist()
    )
    ids = cluster.broker_id.tolist()
    assert seen == [(name, broker) for name in ("1.arrow", "2.arrow") for broker in ids]


def test_fleets_answer_alike(answers):
    """From files and from rows; the pipeline's files are compared by the fixture."""
    tables = [answers[name].sort_by([("source", "ascending"), ("scenario", "ascending")])
              for name in ("files", "rows")]
    assert tables[0].equals(tables[1])
    errors = tables[0].filter(pc.is_valid(tables[0]["error"]))
    assert [source.split("/")[-2:] for source in errors["source"].to_pylist()] == [
        ["west", "2.txt"]
    ]
    good = tables[0].filter(pc.is_null(tables[0]["error"]))
    for seed, source in enumerate(sorted(set(good["source"].to_pylist()))):
        state = kfast.generate(brokers=5, partitions=40, seed=seed)
        wanted = kfast.sweep(state, kfast.every_broker(state))
        mine = good.filter(pc.equal(good["source"], source))
        assert mine.select(wanted.column_names).cast(wanted.schema).equals(wanted)
    assert answers["pipeline"]["fresh"].to_pylist() == [True] * 3
    assert answers["later"]["fresh"].to_pylist() == [False] * 3


def test_columns_elect_and_scenarios_are_rows(answers, cluster):
    elected = {(r["topic"], r["partition"]): r["now"] for r in answers["elected"].to_pylist()}
    for row in cluster.to_tables().partitions.to_pylist():
        choice = offline_leader(row["replicas"], row["isr"], row["replicas"])
        assert elected[row["topic"], row["partition"]]["leader"] == choice.leader
    few = kfast.every_broker(cluster, k=2).slice(3, 9)
    seen = answers["few"].sort_by([("scenario", "ascending"), ("broker", "ascending")])
    wanted = few.to_table().sort_by([("scenario", "ascending"), ("broker", "ascending")])
    assert seen.cast(wanted.schema).equals(wanted)
    assert answers["made"].num_rows == 30
