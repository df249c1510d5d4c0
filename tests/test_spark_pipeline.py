"""The pipeline: results as kfast gives them, nothing lost or doubled, whatever was killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kfast
from kfast.cli.app import commands
from tests.conftest import ROOT
from tests.spark_session import need_java, set_environment

pytestmark = pytest.mark.spark
CONFIG = """
exports = "fleet"
output = "out"
defaults = {"min.insync.replicas" = 2}

[[sweep]]
name = "racks"
scenarios = "every_rack"
fail_on = ["offline>0", "at_min_isr < 1"]

[[sweep]]
name = "pairs"
scenarios = "random_brokers"
arguments = {k = 2, n = 50, seed = 4}
"""


@pytest.fixture
def folder(tmp_path):
    """A fleet of two clusters with two snapshots each, and one export that is damaged."""
    need_java()
    for seed, name in enumerate(("east", "west")):
        (tmp_path / "fleet" / name).mkdir(parents=True)
        for time in ("20261120T0600", "20261121T0600"):
            state = kfast.generate(
                brokers=6, partitions=80, replication_factor=2, racks=2, seed=seed,
                placement="uniform",
            )
            if time.startswith("20261121"):
                kfast.Controller(state).on_broker_failure([1])
            kfast.write(state, tmp_path / "fleet" / name / f"{time}.arrow")
    (tmp_path / "fleet" / "west" / "20261122T0600.parquet").write_bytes(b"PAR1 cut")
    (tmp_path / "pipeline.toml").write_text(CONFIG)
    return tmp_path


def files(folder) -> dict[str, bytes]:
    """Everything that the pipeline has made."""
    out = folder / "out"
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*")) if path.is_file() and not path.name.startswith(".")
    }


def run_tasks(folder, dies_at: int = -1) -> int:
    """Run the pipeline's tasks in a process of their own."""
    environ = dict(os.environ)
    set_environment(environ)
    driver = [sys.executable, "-m", "tests.pipeline_driver", str(folder / "pipeline.toml")]
    return subprocess.run([*driver, str(dies_at)], cwd=ROOT, env=environ).returncode


def check_results(folder) -> None:
    """What is in the files is what kfast says of each export."""
    for cluster in ("east", "west"):
        for time in ("20261120T0600", "20261121T0600"):
            label = f"cluster={cluster}/captured={time}"
            path = folder / "fleet" / cluster / f"{time}.arrow"
            state = kfast.read(path, defaults={"min.insync.replicas": 2})
            manifest = json.loads((folder / "out/manifests" / label / "manifest.json").read_text())
            assert manifest["digest"] == f"{state.digest():016x}"
            assert manifest["error"] is None

            def read(name, label=label):
                return pq.ParquetFile(folder / "out" / name / label / "part.parquet").read()

            tables = state.to_tables()
            assert read("tables/partitions").equals(tables.partitions)
            sweep = kfast.sweep(state, kfast.every_rack(state))
            seen = read("sweeps/racks")
            assert seen.select(sweep.column_names).equals(sweep)
            assert manifest["rows"]["sweeps/racks"] == sweep.num_rows
            summary = read("summaries").to_pylist()
            offline = sweep["offline"].to_pylist()
            [row] = [r for r in summary if (r["sweep"], r["metric"]) == ("racks", "offline")]
            assert (row["baseline"], row["worst"]) == (offline[0], max(offline))
            assert row["worst_scenario"] == offline.index(max(offline))
            alerts = {r["condition"]: r for r in read("alerts").to_pylist()}
            assert ("offline>0" in alerts) == any(offline)
            if any(offline):
                assert alerts["offline>0"]["scenarios"] == sum(n > 0 for n in offline)
                assert alerts["offline>0"]["worst"] == max(offline)
            low = pc.less(sweep["at_min_isr"], 1)
            assert ("at_min_isr<1" in alerts) == pc.any(low).as_py()
    bad = folder / "out/manifests/cluster=west/captured=20261122T0600/manifest.json"
    assert "damaged Parquet" in json.loads(bad.read_text())["error"]


def test_the_command_makes_everything_once(spark, folder, monkeypatch):
    """The session is the tests': `stop` would take it from the others."""
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    runner = CliRunner()
    config = str(folder / "pipeline.toml")
    first = runner.invoke(commands, ["pipeline", config])
    assert first.exit_code == 4, first.output
    assert "5 exports, 5 of them new; 1 cannot be read; " in first.output
    check_results(folder)
    before = files(folder)
    again = runner.invoke(commands, ["pipeline", config])
    assert "5 exports, 0 of them new" in again.output
    assert files(folder) == before
    frame = spark.read.parquet(str(folder / "out" / "tables" / "brokers"))
    seen = {(r.cluster, r["count"]) for r in frame.groupBy("cluster").count().collect()}
    assert seen == {("east", 12), ("west", 12)}
    fresh = kfast.generate(brokers=6, partitions=9, racks=2, seed=7)
    kfast.write(fresh, folder / "fleet/west/20261122T0600.parquet")
    (folder / "pipeline.toml").write_text(CONFIG.replace('name = "pairs"', 'name = "twos"'))
    third = runner.invoke(commands, ["pipeline", config])
    assert "5 exports, 5 of them new; 0 cannot be read" in third.output
    assert not [name for name in files(folder) if name.startswith("sweeps/pairs")]


def killed_at(folder, moments) -> None:
    """Kill runs at these moments one after the other; the last run ends as if none was."""
    assert run_tasks(folder) == 0
    check_results(folder)
    wanted = files(folder)
    for name in wanted:
        (folder / "out" / name).unlink()
    deaths = [run_tasks(folder, moment) == -signal.SIGKILL for moment in moments]
    assert any(deaths)
    assert run_tasks(folder) == 0
    assert files(folder) == wanted


def test_killed_runs_are_gone_on_with(folder):
    killed_at(folder, [2, 9, 40])


@pytest.mark.slow
def test_killed_at_twenty_moments(folder):
    rng = random.Random(11)
    killed_at(folder, [rng.randrange(60) for _ in range(20)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('exports = "fleet"', "", "missing required field `exports`"),
        ('scenarios = "every_rack"', 'senarios = "x"', "unknown field `senarios`"),
        ("offline>0", "onfline>0", "metric 'onfline' is unknown"),
        ('exports = "fleet"', 'exports = "nothing"', "no file is there"),
    ],
)
def test_wrong_configurations_are_told(folder, old, new, message):
    (folder / "pipeline.toml").write_text(CONFIG.replace(old, new))
    result = CliRunner().invoke(commands, ["pipeline", str(folder / "pipeline.toml")])
    assert result.exit_code in (2, 3)
    assert message in result.output
