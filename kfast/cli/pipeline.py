"""The command that keeps results of many exports up to date: `kfast pipeline`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kfast.cli.exits import CONDITION_HOLDS
from kfast.cli.options import condition_on
from kfast.errors import InputError
from kfast.sweeps import SWEEP_COUNTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kfast.spark.snapshots import Job

__all__ = ["pipeline_command"]

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which says itself what Python its workers run."""


class SweepConfig(msgspec.Struct, forbid_unknown_fields=True):
    """One `[[sweep]]`."""

    name: str
    scenarios: str
    arguments: dict[str, Any] = {}
    fail_on: list[str] = []


class SparkConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`[spark]`: how to get a session."""

    remote: str | None = None
    settings: dict[str, str] = {}
    tasks: int | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """A configuration file."""

    exports: str
    output: str
    sweep: list[SweepConfig]
    brokers_name: str = "brokers.csv"
    defaults: dict[str, Any] = {}
    spark: SparkConfig = msgspec.field(default_factory=SparkConfig)


@click.command("pipeline")
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False), metavar="CONFIG.toml")
def pipeline_command(config: Path) -> None:
    r"""Make tables, sweeps, summaries and alerts of the exports that CONFIG.toml names.

    What was made before is left alone; what is new, changed or unfinished is made. Paths in the
    file are relative to it. Needs PySpark and Java 17: pip install 'kfast[spark]'.

    \b
    Examples:
      kfast pipeline bench_data/pipeline.toml
      spark-submit --master yarn kfast_job.py pipeline pipeline.toml
    """
    asked = read_config(config)
    job = _job(asked, config.parent)
    from kfast.spark.pipeline import find_exports, run_pipeline

    where = config.parent / asked.exports
    find_exports(where, job)
    spark = _session(asked.spark)
    try:
        done = run_pipeline(spark, where, job, tasks=asked.spark.tasks).to_pylist()
    finally:
        spark.stop()
    errors = [row for row in done if row["error"] is not None]
    alerts = [row for row in done if row["alerts"]]
    for row in errors:
        click.echo(f"{row['cluster']} at {row['captured']}: {row['error']}", err=True)
    for row in alerts:
        click.echo(f"{row['cluster']} at {row['captured']}: {row['alerts']} alerts")
    fresh = sum(row["fresh"] for row in done)
    click.echo(
        f"{len(done)} exports, {fresh} of them new; {len(errors)} cannot be read; "
        f"{len(alerts)} have alerts; results in {job.output}"
    )
    if alerts:
        click.get_current_context().exit(CONDITION_HOLDS)


def read_config(path: Path) -> Config:
    """Read a configuration file.

    Raises
    ------
    InputError
        It cannot be read, or says something else than a configuration should.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Config)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: {error}") from error


def _job(asked: Config, folder: Path) -> Job:
    from kfast.spark.fleets import Exports
    from kfast.spark.snapshots import Alert, Job, Sweep

    condition = condition_on(SWEEP_COUNTS)
    sweeps = []
    for sweep in asked.sweep:
        conditions = [condition(text) for text in sweep.fail_on]
        alerts = tuple(Alert(c.text, c.metric, c.compare, c.limit) for c in conditions)
        sweeps.append(Sweep(sweep.name, (sweep.scenarios, sweep.arguments), alerts))
    exports = Exports(asked.defaults, asked.brokers_name)
    return Job(exports, tuple(sweeps), str((folder / asked.output).absolute()))


def _session(asked: SparkConfig) -> SparkSession:
    from pyspark.sql import SparkSession

    if asked.remote is None and SUBMITTED not in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    if asked.remote is not None:
        builder = builder.remote(asked.remote)
    for name, value in asked.settings.items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session
