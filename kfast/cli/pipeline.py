"""The command that keeps results of many exports up to date: `kfast pipeline`."""

from __future__ import annotations

from pathlib import Path

import click

from kfast.cli.command import command
from kfast.cli.exits import CONDITION_HOLDS, shown_lines
from kfast.cli.notes import echo_error
from kfast.cli.options import FilePath
from kfast.errors import ArgumentError, InputError

__all__ = ["pipeline_command"]


@command("pipeline")
@click.argument("config", type=FilePath(dir_okay=False), metavar="CONFIG.toml")
def pipeline_command(config: Path) -> None:
    r"""Keep tables, sweeps, summaries and alerts of many exports up to date.

    What was made before is left alone; what is new, changed or unfinished is made. Paths in the
    file are relative to it. Needs PySpark and Java 17: pip install 'kfast[spark]'.

    \b
    Examples:
      kfast pipeline bench_data/pipeline.toml
      spark-submit --master yarn kfast_command.py pipeline pipeline.toml
    """
    from kfast.spark.pipeline import find_exports, run_pipeline
    from kfast.spark.pipeline_config import make_job, open_session, path_in, read_config

    configuration = read_config(config)
    try:
        where = path_in(config.parent, "exports", configuration.exports)
        job = make_job(configuration, config.parent)
        find_exports(where, job)
    except ArgumentError as error:
        raise InputError(f"{config}: {error}") from error
    with open_session(configuration.spark) as spark:
        done = run_pipeline(spark, where, job, tasks=configuration.spark.tasks).to_pylist()
    errors = [row for row in done if row["error"] is not None]
    alerts = [row for row in done if row["alerts"]]
    fresh = sum(row["fresh"] for row in done)
    results = path_in(config.parent, "output", configuration.output)
    click.echo(shown_lines(
        f"{len(done)} exports, {fresh} of them new; {len(errors)} cannot be read; "
        f"{len(alerts)} have alerts; results in {results}"
    ))
    for row in alerts:
        for alert in row["alerts"]:
            click.echo(shown_lines(f"{row['cluster']} at {row['captured']}: {alert}"))
    for row in done:
        for warning in row["warnings"]:
            echo_error(f"{row['cluster']} at {row['captured']}: warning: {warning}")
    for row in errors:
        echo_error(f"{row['cluster']} at {row['captured']}: {row['error']}")
    if alerts:
        click.get_current_context().exit(CONDITION_HOLDS)
