"""`kfast report`: one page of HTML on a cluster, to act on and to hand on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kfast.capacity import CapacityPlan, PartitionLoad
from kfast.capacity.planning.capacity_forecasts import forecast_months
from kfast.cli.capacity_options import CapacityInput, capacity_options, fetch_options, take_capacity
from kfast.cli.capacity_planning import growth_options, take_growth
from kfast.cli.command import command
from kfast.cli.options import (
    FilePath,
    Inputs,
    conditions_option,
    input_text,
    seed_option,
    take_cluster,
    threads_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError, require_extra
from kfast.report.page.report import REPORT_METRICS, report_answer
from kfast.report.page.sections import CapacityQuestion
from kfast.report.writing import PAGE, STANDARD_OUTPUT, check_place
from kfast.sweeps.scenario_makers import every_broker

__all__ = ["report_command"]


CAPACITY_ONLY = (
    "load_files", "window", "seconds", "instances", "bytes_out_has_replication", "capacity_file",
    "preset", "normal_limits", "failed_limits", "cpu_model", "cpu_coefficients", "fetch_from",
    "consumer_racks",
)
"""Options that say nothing without loads and capacities."""


@command("report")
@capacity_options(required=False)
@fetch_options()
@growth_options(12)
@click.option("--since", type=FilePath(), metavar="OLD",
              help="The cluster earlier, of any kind that INPUT may be: what changed since.")
@seed_option("Of chances that are drawn at random.")
@threads_option()
@click.option("-o", "--output", type=FilePath(), required=True, metavar="FILE",
              help="Write the page to this file, whole or not at all.")
@conditions_option(REPORT_METRICS)
def report_command(
    sources: Inputs, since: Path | None, seed: int, threads: int, output: Path, months: int,
    **options: Any,
) -> None:
    r"""Write a report of a cluster: one page of HTML to act on or to hand on.

    Whether it holds, the worst failure step by step, what to do first; every single failure, racks
    and pairs; restarts, risk, misconfigured topics with the commands that mend them; with --load
    and --capacity how full brokers get, and with --growth when they are too full; with --since what
    changed. The file needs nothing else: it opens offline, in light and dark, and prints.

    \b
    Examples:
      kfast report describe.txt -o report.html
      kfast report describe.txt --brokers-file brokers.csv --since monday.txt -o report.html
      kfast report describe.txt --load loads.csv --capacity capacities.csv --growth 4%/month \
        -o report.html --fail-on 'brokers_offline>0'
    """
    require_extra("report", "kfast report")
    if output != STANDARD_OUTPUT:
        check_place(output)
    destination = Destination(
        PAGE, None if output == STANDARD_OUTPUT else output, {}, options.pop("conditions")
    )
    old = None
    if since is not None:
        old = str(since), take_cluster((str(since),), {**options, "at": None})
    growth = take_growth(options)
    inputs = _take_inputs(sources, options)
    if growth is not None and inputs is None:
        raise ArgumentError("--growth goes with --load and --capacity")
    state = take_cluster(sources, options) if inputs is None else inputs.state
    with progress_bar("Asking every question") as progress:
        question = None
        if inputs is not None:
            question = _capacity_question(inputs, growth, months, threads)
        answer = report_answer(
            input_text(sources), state, old=old, capacity=question, seed=seed, threads=threads,
            progress=progress,
        )
    destination.write(answer)


def _take_inputs(sources: Inputs, options: dict[str, Any]) -> CapacityInput | None:
    """Take loads and capacities out of a command's options; None where neither is named.

    Raises
    ------
    ArgumentError
        One is named without the other, or an option that goes with both.
    """
    has_load, has_capacity = bool(options["load_files"]), options["capacity_file"] is not None
    if has_load and has_capacity:
        return take_capacity(sources, options)
    if has_load or has_capacity:
        raise ArgumentError("--load and --capacity go together")
    context = click.get_current_context()
    for name in CAPACITY_ONLY:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            option = next(one for one in context.command.params if one.name == name)
            raise ArgumentError(f"{option.opts[0]} goes with --load and --capacity")
        del options[name]
    return None


def _capacity_question(
    inputs: CapacityInput, growth: Any, months: int, threads: int
) -> CapacityQuestion:
    """Loads and capacities made ready; with a growth, the months too."""
    plan = inputs.plan(threads)
    forecast, words = None, ""
    if growth is not None:
        grow, words = growth

        def prepare(load: PartitionLoad) -> CapacityPlan:
            return replace(inputs, load=load).plan(threads)

        forecast = forecast_months(
            grow(inputs.state, inputs.load, inputs.weights, plan.consumers),
            every_broker(inputs.state), months, prepare,
        )
    return CapacityQuestion(
        plan, lambda name: inputs.head(name, plan), forecast, words
    )
