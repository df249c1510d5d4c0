"""The pipeline: results as kfast gives them, nothing lost or doubled, whatever was killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kfast
import kfast_command
from kfast.cli.app import commands
from kfast.spark.pipeline_config import make_job, read_config
from tests.support.spark_session import SETTINGS, set_environment

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


CAPACITY = """
[capacity]
load = ["sizes.csv", "loads.csv"]
capacity = "capacity.csv"
window = "p95 of 1 h"
failed_limits = {nw_out = 0.9}
replicas_limit = 7
"""
LOADS = "topic,bytes_in,bytes_out\ntopic-0,90000000,{out}\n"


@pytest.fixture
def loaded(folder):
    """The fleet of `folder`, with loads and capacities beside the exports of each cluster."""
    for name, out in (("east", 500_000_000), ("west", 10_000_000)):
        beside = folder / "fleet" / name
        (beside / "loads.csv").write_text(LOADS.format(out=out))
        (beside / "sizes.csv").write_text("topic,disk_bytes\ntopic-0,5000000000\n")
        (beside / "capacity.csv").write_text(
            "broker_id,nw_in,nw_out,cores\n-1,100000000,150000000,8\n"
        )
    condition = 'fail_on = ["offline>0", "at_min_isr < 1"'
    text = CONFIG.replace(f"{condition}]", f'{condition}, "headroom<0.25"]') + CAPACITY
    (folder / "pipeline.toml").write_text(text)
    return folder


def files(folder) -> dict[str, bytes]:
    """Everything that the pipeline has made; nothing unfinished may be among it."""
    out = folder / "out"
    assert not list(out.rglob("*.part"))
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*")) if path.is_file() and not path.name.startswith(".")
    }


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
            assert seen.select(sweep.column_names).cast(sweep.schema).equals(sweep)
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


def test_sweeps_are_measured_in_bytes_where_loads_lie_beside_the_exports(
    spark, loaded, monkeypatch
):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    config = str(loaded / "pipeline.toml")
    first = CliRunner().invoke(commands, ["pipeline", config])
    assert first.exit_code == 4, first.output
    assert "5 exports, 5 of them new; 1 cannot be read; " in first.output
    check_results(loaded)
    lowest = {}
    for cluster in ("east", "west"):
        beside = loaded / "fleet" / cluster
        label = f"cluster={cluster}/captured=20261120T0600"
        state = kfast.read(beside / "20261120T0600.arrow", defaults={"min.insync.replicas": 2})
        load = kfast.partition_load(state, kfast.read_load(
            beside / "sizes.csv", beside / "loads.csv", window="p95 of 1 h"
        ))
        capacity = kfast.broker_capacity(state, kfast.read_capacity(beside / "capacity.csv"))
        plan = kfast.prepare_capacity(
            state, load, capacity, failed_limits={"nw_out": 0.9}, replicas_limit=7
        )
        wanted = kfast.capacity_sweep(plan, kfast.every_rack(state))
        table = pq.ParquetFile(loaded / "out/capacity/racks" / label / "part.parquet").read()
        assert table.select(wanted.column_names).cast(wanted.schema).equals(wanted)
        assert table["brokers"].to_pylist()[0] == []

        def read(name, label=label):
            return pq.ParquetFile(loaded / "out" / name / label / "part.parquet").read().to_pylist()

        headroom = wanted["headroom"].to_pylist()
        lowest[cluster] = min(headroom)
        [row] = [r for r in read("summaries") if (r["sweep"], r["metric"]) == ("racks", "headroom")]
        assert (row["baseline"], row["worst"]) == (headroom[0], min(headroom))
        assert row["worst_scenario"] == headroom.index(min(headroom))
        metrics = {r["metric"] for r in read("summaries")}
        assert "nw_out_max" in metrics
        assert "cpu_max" not in metrics, "no processor is measured, so none has a worst case"
        alerts = {r["condition"]: r for r in read("alerts")}
        assert ("headroom<0.25" in alerts) == (min(headroom) < 0.25)
        manifest = json.loads((loaded / "out/manifests" / label / "manifest.json").read_text())
        assert {*load.assumptions, *load.warnings} <= {*manifest["assumptions"]}
        assert {"loads.csv", "sizes.csv", "capacity.csv"} <= manifest["inputs"].keys()
    assert lowest["east"] < 0.25 <= lowest["west"]
    before = files(loaded)
    (loaded / "fleet/west/loads.csv").write_text(LOADS.format(out=11_000_000))
    again = CliRunner().invoke(commands, ["pipeline", config])
    assert "5 exports, 3 of them new" in again.output
    after = files(loaded)
    changed = {name for name in before if before[name] != after[name]}
    assert changed
    assert all("cluster=west" in name for name in changed)


def test_processors_that_nobody_measured_are_estimated_where_a_model_is_named(
    spark, loaded, monkeypatch
):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    config = loaded / "pipeline.toml"
    config.write_text(f'{config.read_text()}cpu_model = "write-equivalent"\n')
    CliRunner().invoke(commands, ["pipeline", str(config)])
    baselines = [
        pq.ParquetFile(part).read()["cpu_max"][0].as_py()
        for part in (loaded / "out/capacity/racks").rglob("part.parquet")
    ]
    assert len(baselines) == 4
    assert min(baselines) > 0


def test_an_export_without_its_loads_is_an_error_of_its_own(spark, loaded, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    (loaded / "fleet/east/loads.csv").unlink()
    done = CliRunner().invoke(commands, ["pipeline", str(loaded / "pipeline.toml")])
    assert "3 cannot be read" in done.output
    assert "east/loads.csv" in done.output


def test_consumers_may_fetch_from_the_nearest_replica(loaded):
    from kfast.spark.pipeline import run_snapshot

    config = loaded / "pipeline.toml"
    config.write_text(
        f'{config.read_text()}fetch_from = "nearest"\nconsumer_racks = {{r0 = "1/3", r1 = "2/3"}}\n'
    )
    source = loaded / "fleet/east/20261120T0600.arrow"
    state = kfast.read(source, defaults={"min.insync.replicas": 2})
    racks = sorted({*state.rack.to_pylist()})
    config.write_text(config.read_text().replace("r0", racks[0]).replace("r1", racks[1]))
    row = run_snapshot(make_job(read_config(config), loaded), str(source))
    assert row["error"] is None
    beside = [source.with_name(name) for name in ("sizes.csv", "loads.csv")]
    plan = kfast.prepare_capacity(
        state, kfast.partition_load(state, kfast.read_load(*beside)),
        kfast.broker_capacity(state, kfast.read_capacity(source.with_name("capacity.csv"))),
        failed_limits={"nw_out": 0.9}, replicas_limit=7, fetch_from="nearest",
        consumer_racks=dict(zip(racks, ("1/3", "2/3"), strict=True)),
    )
    wanted = kfast.capacity_sweep(plan, kfast.every_rack(state))
    place = loaded / "out/capacity/racks/cluster=east/captured=20261120T0600/part.parquet"
    table = pq.ParquetFile(place).read()
    assert table.select(wanted.column_names).cast(wanted.schema).equals(wanted)


def test_what_loads_lack_is_said_and_no_results_of_other_loads_stay(loaded):
    """A topic without load counts as 0, which hides alerts: so every answer repeats it."""
    from kfast.spark.pipeline import run_snapshot

    job = make_job(read_config(loaded / "pipeline.toml"), loaded)
    source = loaded / "fleet/east/20261120T0600.arrow"
    loads = source.with_name("loads.csv")
    complete = run_snapshot(job, str(source))
    assert complete["warnings"] == []
    assert any("headroom<0.25" in alert for alert in complete["alerts"])
    place = loaded / "out/manifests/cluster=east/captured=20261120T0600/manifest.json"
    loads.write_text("topic,bytes_in\ntopic-0,\n")
    row = run_snapshot(job, str(source))
    assert "no load is known of 80 of 80 partitions, which count as 0" in row["warnings"][0]
    assert row["warnings"] == json.loads(place.read_text())["warnings"]
    assert run_snapshot(job, str(source)) == row | {"fresh": False}
    for text, message in (
        ("topic,bytes_in,bytes_out\norders,1,2\n", "loads.csv: a load of another cluster: none"),
        ("topic,bytes_in\ntopic-0,-5\n", "loads.csv line 2: found bytes_in '-5'; right is"),
    ):
        loads.write_text(text)
        row = run_snapshot(job, str(source))
        assert message in row["error"]
        assert "\n" not in row["error"]
        assert not [name for name in files(loaded) if name.startswith(("capacity", "sweeps"))]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"loads.csv"', '"../loads.csv"', "'../loads.csv' is no name of a file"),
        ("nw_out = 0.9", "nw_up = 0.9", "limits has 'nw_up'; allowed are nw_in, nw_out, cpu, disk"),
        ('["sizes.csv", "loads.csv"]', "[]", "Expected `array` of length >= 1"),
        ("replicas_limit = 7", "replicas_limit = 0", "Expected `int` >= 1"),
        ("replicas_limit = 7", 'cpu_model = "google"', "cpu_model is 'google'; allowed are"),
        ("replicas_limit = 7", 'fetch_from = "rack"', "fetch_from is 'rack'; allowed are"),
        ("headroom<", "head<", "metric 'head' is unknown"),
        (CAPACITY, "", "metric 'headroom' is unknown"),
    ],
)
def test_wrong_capacities_are_refused_before_spark_starts(loaded, old, new, message):
    config = loaded / "pipeline.toml"
    config.write_text(config.read_text().replace(old, new, 1))
    result = CliRunner().invoke(commands, ["pipeline", str(config)])
    assert result.exit_code == 3
    assert message in result.output


@pytest.mark.slow
def test_the_job_is_submitted(folder):
    """As docs/spark.md says, in a folder that has nothing to do with the checkout."""
    import pyspark

    environ = dict(os.environ)
    set_environment(environ)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = [part for item in SETTINGS.items() for part in ("--conf", "=".join(item))]
    done = subprocess.run(
        [submit, "--master", "local[2]", *settings, kfast_command.__file__, "pipeline",
         "pipeline.toml"],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 4, done.stderr[-2000:]
    assert "5 exports, 5 of them new; 1 cannot be read; " in done.stdout
    check_results(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('exports = "fleet"', "", "missing required field `exports`"),
        ('scenarios = "every_rack"', 'senarios = "x"', "unknown field `senarios`"),
        ("offline>0", "onfline>0", "metric 'onfline' is unknown"),
        ('exports = "fleet"', 'exports = "nothing"', "no file is there"),
        ('"every_rack"', '"every_racks"', "scenarios 'every_racks' are unknown; allowed: bursts"),
        ("n = 50", "m = 50", "required argument: 'n'; its arguments are k, n, seed"),
        ('name = "pairs"', 'name = "racks"', "two sweeps have one name"),
        ('name = "pairs"', 'name = "../pairs"', "a name is a letter or digit, then"),
        ("min.insync.replicas", "min.isr", "default 'min.isr' is not one that kfast uses"),
        ('output = "out"', 'output = "fleet/east"', "lies in"),
        ('"fleet"\noutput = "out"', '"fleet/*/*"\noutput = "fleet/east"', "holds the export"),
        ("[[sweep]]", "spark.tasks = 0\n[[sweep]]", "Expected `int` >= 1 - at `$.spark.tasks`"),
    ],
)
def test_wrong_configurations_are_told(folder, old, new, message):
    (folder / "pipeline.toml").write_text(CONFIG.replace(old, new, 1))
    result = CliRunner().invoke(commands, ["pipeline", str(folder / "pipeline.toml")])
    assert result.exit_code == 3
    assert "pipeline.toml: " in result.output or "no file is there" in message
    assert message in result.output


def test_an_export_that_is_replaced_or_moved_while_it_is_read(folder, monkeypatch):
    """No manifest says that results are of other bytes; results of what was moved away stay."""
    from kfast.spark import pipeline

    config = read_config(folder / "pipeline.toml")
    job = make_job(config, folder)
    source = folder / "fleet" / "east" / "20261120T0600.arrow"
    place = folder / "out/manifests/cluster=east/captured=20261120T0600/manifest.json"
    later = (folder / "fleet" / "east" / "20261121T0600.arrow").read_bytes()
    make = pipeline._make

    def replaced(*arguments):
        source.write_bytes(later)
        return make(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "_make", replaced)
        row = pipeline.run_snapshot(job, str(source))
    assert "was replaced while it was read; the next run reads it again" in row["error"]
    assert not place.exists()
    row = pipeline.run_snapshot(job, str(source))
    assert (row["error"], row["fresh"]) == (None, True)
    before = files(folder)
    source.unlink()
    assert pipeline.run_snapshot(job, str(source)) == row | {"fresh": False}
    assert files(folder) == before
    row = pipeline.run_snapshot(job, str(source.with_name("20261119T0600.arrow")))
    assert row["error"].endswith("20261119T0600.arrow: is not there any more")
    assert files(folder) == before


@pytest.mark.parametrize(("change", "said"), [
    (('output = "out"', 'output = "fleet/out"'), "lies in .*fleet, so results would be taken for"),
    (('exports = "fleet"', 'exports = "ftp://a/b"'), "exports: ftp://a/b: kfast knows no file sys"),
    (('output = "out"', 'output = "s3:///b"'), "output: s3:///b: no bucket is named; right is s3"),
    (("n = 50, seed = 4}", 'n = 50, seed = 4}\n[spark]\nremote = "localhost"'),
     "remote is 'localhost'; right is sc://HOST, sc://HOST:PORT"),
])
def test_places_that_cannot_be_are_refused_before_spark_starts(folder, change, said):
    (folder / "pipeline.toml").write_text(CONFIG.replace(*change))
    done = CliRunner().invoke(commands, ["pipeline", str(folder / "pipeline.toml")])
    assert done.exit_code == 3
    assert re.search(said, done.stderr)
    assert sorted(p.name for p in folder.iterdir()) == ["fleet", "pipeline.toml"]


@pytest.mark.parametrize("junk", [b"", b"{", b"null", b"\xff\xfe", b'{"cluster": "\xff"}'])
def test_a_damaged_manifest_is_none(folder, junk):
    from kfast.spark.pipeline import run_snapshot

    job = make_job(read_config(folder / "pipeline.toml"), folder)
    source = str(folder / "fleet" / "east" / "20261120T0600.arrow")
    row = run_snapshot(job, source)
    before = files(folder)
    place = folder / "out/manifests/cluster=east/captured=20261120T0600/manifest.json"
    place.write_bytes(junk)
    assert run_snapshot(job, source) == row
    assert files(folder) == before


def test_a_configuration_that_is_no_text_is_refused(folder):
    (folder / "pipeline.toml").write_bytes(b'exports = "\xff"')
    with pytest.raises(kfast.InputError, match=r"pipeline.toml: .*can't decode byte 0xff"):
        read_config(folder / "pipeline.toml")
