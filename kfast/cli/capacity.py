"""The commands that count in bytes: `kfast capacity show`, `kfast capacity sweep`, and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from kfast.capacity import CapacityPlan, capacity_brokers
from kfast.capacity.failures.worst_failures import (
    RESTORATION_METRICS,
    SWEEP_METRICS,
    SlowestRestorations,
    WorstFailures,
)
from kfast.capacity.restorations.restoration_times import RestorationPlan
from kfast.cli.capacity_options import (
    capacity_options,
    fetch_options,
    restoration_options,
    take_capacity,
    take_restoration,
)
from kfast.cli.command import command
from kfast.cli.exits import Commands
from kfast.cli.options import (
    Inputs,
    output_options,
    plot_option,
    threads_option,
    top_option,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.sweep import KINDS, add_batches, from_option, scenario_options, take_scenarios
from kfast.errors import ArgumentError
from kfast.report.capacity_failure import failure_picture
from kfast.report.capacity_restoration import RestorationRows
from kfast.report.capacity_show import (
    SHOW_METRICS,
    SHOW_TABLES,
    capacity_show_answer,
    show_picture,
)
from kfast.report.capacity_sweep import capacity_sweep_answer, sweep_picture, worst_failure
from kfast.report.pictures import write_picture
from kfast.schema import CAPACITY_SWEEP, RESTORATION
from kfast.sweeps.scenario_makers import every_broker

__all__ = ["capacity_group", "show_command", "sweep_command"]

COMMANDS = {
    "show": ("capacity", "show_command",
        "Show what each broker carries, and what share of its capacity."),
    "sweep": ("capacity", "sweep_command",
        "Sweep over failures, and see whether brokers stay within limits."),
    "forecast": ("capacity_planning", "forecast_command",
        "Forecast in which month growing loads exceed a limit."),
    "cost": ("capacity_planning", "cost_command",
        "Add up what a cluster costs in a month."),
    "size": ("capacity_planning", "size_command",
        "Size a cluster: how many brokers carry the load, whatever fails."),
}
"""Of each command the module in `kfast.cli`, its name there, and the first sentence of its help."""

SWEEP_TABLES = ("scenarios", "worst", "brokers")


@click.group("capacity", cls=Commands, places=COMMANDS)
def capacity_group() -> None:
    r"""Measure in bytes what brokers carry, and whether they can when others fail.

    Loads and sizes come from files of your tools (kafka-log-dirs, Prometheus, Cruise Control, CSV),
    capacities from another. Who leads after a failure is what Kafka's controller decides.

    \b
    Examples:
      kfast capacity show describe.txt --load loads.csv --capacity capacities.csv
      kfast capacity sweep describe.txt --load loads.csv --capacity capacities.csv --every 1
    """


@command("show")
@capacity_options()
@fetch_options()
@top_option("brokers of a large cluster")
@plot_option("How full each broker is")
@output_options(SHOW_TABLES, SHOW_METRICS)
def show_command(sources: Inputs, top: int, plot: Path | None, **options: Any) -> None:
    r"""Show what each broker carries, and what share of its capacity.

    Bytes in, bytes out, disk and processor, after the controller has started on the cluster as it
    is; brokers over a limit, and how the loads came to partitions.

    \b
    Examples:
      kfast capacity show describe.txt --load loads.csv --capacity capacities.csv
      kfast capacity show describe.txt --load metrics.prom --load log-dirs.json \
        --capacity capacity.json --fail-on 'over_limit>0' --plot brokers.svg
      kfast capacity show describe.txt --load loads.csv --capacity capacities.csv \
        --table provenance -o provenance.csv
    """
    destination = Destination.of(options, SHOW_TABLES)
    inputs = take_capacity(sources, options)
    plan = inputs.plan()
    baseline = every_broker(inputs.state).slice(0, 1)
    row = pa.Table.from_batches(plan.batches(baseline)).to_pylist()[0]
    answer = capacity_show_answer(
        inputs.head("capacity show", plan), inputs.state, inputs.load, inputs.capacity,
        plan, row, top=top,
    )
    if plot is not None:
        write_picture(show_picture(answer.document), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)


@command("sweep")
@capacity_options()
@fetch_options()
@scenario_options()
@from_option()
@restoration_options()
@threads_option()
@top_option("failures")
@click.option(
    "--explain", type=click.IntRange(0), metavar="BROKER",
    help="Say which partitions of which failed brokers add what to this broker in the worst "
    "failure.",
)
@plot_option("Headroom after every failure, the worst first")
@plot_option(
    "How full each broker is before and after the worst failure, and at worst", "--plot-brokers"
)
@output_options(SWEEP_TABLES, {**SWEEP_METRICS, **RESTORATION_METRICS})
def sweep_command(
    sources: Inputs, first: int, threads: int, top: int, explain: int | None, plot: Path | None,
    plot_brokers: Path | None, **options: Any,
) -> None:
    r"""Sweep over failures, and see whether brokers stay within limits.

    Each scenario is a set of brokers that fail together. Headroom is 1 less the highest share of a
    limit that a broker uses; below 0 it is over. --fail-on compares the extreme of all failures:
    the lowest headroom, the highest of all else. A file of -o has one row per scenario; with
    --restore the rows have times, too, and a restoration that never ends is longer than any limit.

    \b
    Examples:
      kfast capacity sweep describe.txt --load loads.csv --capacity capacities.csv --every 1
      kfast capacity sweep describe.txt --brokers-file brokers.csv --load metrics.prom \
        --load log-dirs.json --capacity capacity.json --each-rack --fail-on 'headroom<0.1'
      kfast capacity sweep describe.txt --load loads.csv --capacity capacities.csv --random 100000 \
        --down 3 --threads 2 -o sweep.parquet --plot headroom.svg
      kfast capacity sweep describe.txt --load loads.csv --capacity capacities.csv --each-rack \
        --explain 102 --plot-brokers brokers.png
      kfast capacity sweep describe.txt --load loads.csv --capacity capacities.csv --every 1 \
        --restore replace --throttle 60MB/s --fail-on 'restore_seconds_fair>86400'
    """
    destination = Destination.of(options, SWEEP_TABLES)
    make, restored_by = take_scenarios(options), take_restoration(options)
    if make is None:
        raise ArgumentError(f"give one kind of failures: {KINDS}")
    if restored_by is None:
        for condition in destination.conditions:
            if condition.metric in RESTORATION_METRICS:
                raise ArgumentError(f"--fail-on {condition.text} goes with --restore")
    inputs = take_capacity(sources, options)
    title, scenarios = make(inputs.state)
    if first >= len(scenarios):
        raise ArgumentError(f"--from {first}: the last scenario is {len(scenarios) - 1}")
    curve: list[pa.RecordBatch] = []
    with progress_bar("Sweeping") as progress:
        plan = inputs.plan(threads)
        measured: CapacityPlan | RestorationPlan = plan
        schema, restored = CAPACITY_SWEEP.schema, None
        if restored_by is not None:
            restored = RestorationRows(restored_by(inputs.state), SlowestRestorations(top))
            measured, schema = RestorationPlan.of(plan, restored.settings), RESTORATION.schema
        worst = WorstFailures(top, schema)

        def add(batch: pa.RecordBatch) -> None:
            worst.add(batch)
            if restored is not None:
                restored.slowest.add(batch)
            if plot is not None:
                curve.append(batch.select(["scenario", "headroom", "binding"]))
            if progress is not None:
                progress(first + worst.n_scenarios, len(scenarios))

        parts = scenarios.slice(0, min(first, 1)), scenarios.slice(first, len(scenarios))
        head = inputs.head("capacity sweep", plan)
        with destination.open_table("scenarios", schema) as rows:
            for batch in measured.batches(parts[0]):
                add(batch)
            add_batches(measured.batches(parts[1]), add, rows, first)
            answer = capacity_sweep_answer(
                head, inputs.state, title, scenarios, worst, plan,
                None if rows is None or rows.path is None else str(rows.path), explain, restored,
            )
            if rows is not None:
                rows.describe(answer)
        if plot is not None:
            write_picture(sweep_picture(answer.document, pa.Table.from_batches(curve)), plot)
            echo(f"Wrote {plot}.")
        if plot_brokers is not None:
            failure = worst_failure("--plot-brokers", plan, scenarios, worst)
            statistics = capacity_brokers(plan, scenarios)
            write_picture(failure_picture(answer.document, failure, statistics), plot_brokers)
            echo(f"Wrote {plot_brokers}.")
    destination.write(answer)
