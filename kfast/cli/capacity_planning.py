"""The commands that plan ahead in bytes: `kfast capacity forecast`, and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kfast.capacity import CapacityPlan, PartitionLoad
from kfast.capacity.capacity_forecasts import forecast_months
from kfast.capacity.load_growth import MOST_MONTHS, LoadGrowth, parse_growth, read_growth
from kfast.cli.capacity_options import (
    CapacityInput,
    capacity_options,
    plot_option,
    take_capacity,
)
from kfast.cli.options import Command, FilePath, all_options, number_option, output_options
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.sweep import KINDS, scenario_options, take_scenarios
from kfast.errors import ArgumentError
from kfast.report.capacity_forecast import (
    FORECAST_METRICS,
    FORECAST_TABLES,
    capacity_forecast_answer,
    forecast_image,
)
from kfast.report.pictures import write_picture
from kfast.report.wording import plural

__all__ = ["forecast_command"]


def growth_options(months: int) -> Callable[[Command], Command]:
    """Options that say how loads grow, and for how many months."""
    return all_options(
        click.option(
            "--growth", callback=_check_growth, metavar="SHARE",
            help="How much all loads grow in a month: 4%/month. -1% for loads that shrink.",
        ),
        click.option(
            "--growth-file", type=FilePath(), metavar="CSV",
            help="Growth by topic: a CSV with the columns topic, a regular expression for the "
            "whole name, and growth. Other topics grow by --growth.",
        ),
        number_option("--months", type=click.IntRange(0, MOST_MONTHS), default=months,
                      help="Months of growth."),
    )


def _check_growth(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> str | None:
    if text is not None:
        parse_growth("--growth", text)
    return text


def take_growth(options: dict[str, Any]) -> tuple[Callable[[CapacityInput], LoadGrowth], str]:
    """Take `growth_options` but the months out of a command's options: loads that grow, in words.

    Raises
    ------
    ArgumentError
        No growth is named.
    InputError
        The file cannot be read.
    """
    growth: str | None = options.pop("growth")
    file: Path | None = options.pop("growth_file")
    if growth is None and file is None:
        raise ArgumentError("give --growth, such as 4%/month, or --growth-file, or both")
    rules = () if file is None else read_growth(file)
    rate = "0%" if growth is None else growth.strip().removesuffix("/month").rstrip()
    words = f"{rate} a month"
    if rules:
        words += f" ({plural(len(rules), 'rule')} of {file})"
    return lambda inputs: LoadGrowth(inputs.state, inputs.load, rate, rules, inputs.weights), words


@click.command("forecast")
@capacity_options()
@growth_options(12)
@scenario_options()
@plot_option("Highest shares month by month")
@output_options(FORECAST_TABLES, FORECAST_METRICS)
def forecast_command(source: str, months: int, plot: Path | None, **options: Any) -> None:
    r"""Forecast in which month growing loads exceed a limit.

    Every month from 0 is swept: bytes in, bytes out and messages grow as --growth says, sizes with
    bytes in unless retention.bytes holds them, processors with their work.

    \b
    Examples:
      kfast capacity forecast describe.txt --load loads.csv --capacity capacities.csv \
        --growth 4%/month --every 1
      kfast capacity forecast describe.txt --brokers-file brokers.csv --load loads.csv \
        --capacity capacities.csv --growth 2% --growth-file topics.csv --months 24 --each-rack \
        --fail-on 'months_over_limit>0' --plot forecast.svg
    """
    destination = Destination.of(options, FORECAST_TABLES)
    make = take_scenarios(options)
    if make is None:
        raise ArgumentError(f"give one kind of failures: {KINDS}")
    make_growth, words = take_growth(options)
    inputs = take_capacity(source, options)
    title, scenarios = make(inputs.state)

    def prepare(load: PartitionLoad) -> CapacityPlan:
        return replace(inputs, load=load).plan()

    with progress_bar("Sweeping"):
        head = inputs.head("capacity forecast", source, inputs.plan())
        forecast = forecast_months(make_growth(inputs), scenarios, months, prepare)
    answer = capacity_forecast_answer(head, inputs.state, title, scenarios, forecast, words)
    if plot is not None:
        write_picture(forecast_image(answer.document), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)
