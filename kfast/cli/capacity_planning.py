"""The commands that plan ahead in bytes: `kfast capacity forecast`, `cost` and `size`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kfast.capacity import (
    CapacityPlan,
    ClusterSize,
    CpuWeights,
    PartitionLoad,
    broker_capacity,
    capacity_size,
)
from kfast.capacity.loads.client_racks import FETCH_FROM, LEADER, ConsumerRacks
from kfast.capacity.planning.capacity_forecasts import forecast_months
from kfast.capacity.planning.cluster_sizes import MOST_BROKERS, Failures
from kfast.capacity.planning.load_growth import MOST_MONTHS, LoadGrowth, parse_growth, read_growth
from kfast.capacity.planning.monthly_costs import capacity_cost, parse_price, read_prices
from kfast.cli.capacity_options import (
    capacity_file_option,
    capacity_options,
    fetch_options,
    leader_fetch_option,
    load_options,
    once,
    rack_shares_option,
    take_capacity,
    take_loaded_cluster,
    take_racks,
)
from kfast.cli.command import command
from kfast.cli.options import (
    Command,
    FilePath,
    Inputs,
    all_options,
    cluster_options,
    input_text,
    list_option,
    number_option,
    output_options,
    plot_option,
    seed_option,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.sweep import KINDS, scenario_options, take_scenarios
from kfast.errors import ArgumentError, InputError
from kfast.io.files import writing
from kfast.io.kafka_tools.plan_json import write_reassignment
from kfast.io.loads import read_capacity
from kfast.report.capacity_cost import COST_METRICS, COST_TABLES, capacity_cost_answer
from kfast.report.capacity_forecast import (
    FORECAST_METRICS,
    FORECAST_TABLES,
    capacity_forecast_answer,
    forecast_image,
)
from kfast.report.capacity_size import SIZE_METRICS, SIZE_TABLES, capacity_size_answer
from kfast.report.capacity_wording import load_head
from kfast.report.pictures import write_picture
from kfast.report.wording import plural
from kfast.state import ClusterState
from kfast.state.settings import match_topics

__all__ = ["cost_command", "forecast_command", "size_command"]

PRICES = ("disk-gb-month", "cross-rack-gb")


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


Grow = Callable[
    [ClusterState, PartitionLoad, CpuWeights | None, ConsumerRacks | None], LoadGrowth
]


def take_growth(options: dict[str, Any]) -> tuple[Grow, str] | None:
    """Take `growth_options` but the months out of a command's options: loads that grow, in words.

    None where no growth is named.

    Raises
    ------
    InputError
        The file cannot be read; or, when loads grow, it names topics that the cluster does not
        have.
    """
    growth: str | None = options.pop("growth")
    file: Path | None = options.pop("growth_file")
    if growth is None and file is None:
        return None
    rules = () if file is None else read_growth(file)
    rate = "0%" if growth is None else growth.strip().removesuffix("/month").rstrip()
    words = f"{rate} a month"
    if rules:
        words += f" ({plural(len(rules), 'rule')} of {file})"

    def grow(
        state: ClusterState, load: PartitionLoad, weights: CpuWeights | None,
        consumers: ConsumerRacks | None,
    ) -> LoadGrowth:
        try:
            for topics, _ in rules:
                match_topics(state, str(file), topics)
        except ArgumentError as error:
            raise InputError(str(error)) from error
        return LoadGrowth(state, load, rate, rules, weights, None, consumers)

    return grow, words


def take_grown_load(
    options: dict[str, Any],
) -> Callable[[ClusterState, PartitionLoad, CpuWeights | None], PartitionLoad]:
    """Take `growth_options` out of a command's options: what makes the loads of the last month.

    Raises
    ------
    ArgumentError
        There are months without a growth, or a growth without months.
    """
    months: int = options.pop("months")
    growth = take_growth(options)
    if (growth is None) != (months == 0):
        raise ArgumentError("--months goes with --growth or --growth-file")
    if growth is None:
        return lambda _state, load, _weights: load
    grow = growth[0]
    return lambda state, load, weights: grow(state, load, weights, None).after(months)


@command("forecast")
@capacity_options()
@fetch_options()
@growth_options(12)
@scenario_options()
@plot_option("Highest shares month by month")
@output_options(FORECAST_TABLES, FORECAST_METRICS)
def forecast_command(sources: Inputs, months: int, plot: Path | None, **options: Any) -> None:
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
    growth = take_growth(options)
    if growth is None:
        raise ArgumentError("give --growth, such as 4%/month, or --growth-file, or both")
    inputs = take_capacity(sources, options)
    title, scenarios = make(inputs.state)

    def prepare(load: PartitionLoad) -> CapacityPlan:
        return replace(inputs, load=load).plan()

    with progress_bar("Sweeping"):
        plan = inputs.plan()
        head = inputs.head("capacity forecast", plan)
        grow = growth[0](inputs.state, inputs.load, inputs.weights, plan.consumers)
        forecast = forecast_months(grow, scenarios, months, prepare)
    answer = capacity_forecast_answer(head, inputs.state, title, scenarios, forecast, growth[1])
    if plot is not None:
        write_picture(forecast_image(answer.document), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)


def _price(text: str) -> Iterable[tuple[str, str]]:
    """A price, as name=amount."""
    name, _, amount = (part.strip() for part in text.partition("="))
    if name not in PRICES:
        raise ArgumentError(f"{text!r} is no price of {' or '.join(PRICES)}, such as {name}=0.08")
    parse_price(f"--price {name}", amount)
    return ((name, amount),)


@command("cost")
@cluster_options()
@load_options()
@capacity_file_option()
@growth_options(0)
@click.option("--prices", "prices_file", type=FilePath(), required=True, metavar="CSV",
              help="What a broker of each class costs in a month: a CSV with the columns "
              "class,price_month. The classes are those of --capacity.")
@list_option("--price", "prices", parse=_price, metavar="NAME=AMOUNT",
             help="disk-gb-month=0.08, of a GB of disk (10^9 bytes) for a month; "
             "cross-rack-gb=0.01, of a GB that crosses racks.")
@rack_shares_option("--producer-racks", "Where producers are")
@rack_shares_option("--consumer-racks", "Where consumers are")
@click.option("--fetch-from", type=click.Choice(FETCH_FROM), default=LEADER, show_default=True,
              help="Where consumers fetch: from leaders, or from a replica in their own rack.")
@output_options(COST_TABLES, COST_METRICS)
def cost_command(sources: Inputs, **options: Any) -> None:
    r"""Add up what a cluster costs in a month.

    Brokers by the price of their class, the disks that they have, and bytes that cross racks by
    where partitions are led and placed: of producers, of replication, of consumers.

    \b
    Examples:
      kfast capacity cost describe.txt --brokers-file brokers.csv --load loads.csv \
        --capacity capacities.csv --prices prices.csv
      kfast capacity cost describe.txt --brokers-file brokers.csv --load loads.csv \
        --capacity capacities.csv --prices prices.csv --price disk-gb-month=0.08 \
        --price cross-rack-gb=0.01 --fetch-from nearest --growth 4%/month --months 12
    """
    destination = Destination.of(options, COST_TABLES)
    grow = take_grown_load(options)
    prices = once("--price", options.pop("prices"))
    racks = {name: take_racks(options, name) for name in ("producer_racks", "consumer_racks")}
    class_prices = read_prices(options.pop("prices_file"))
    capacity_file, fetch_from = options.pop("capacity_file"), options.pop("fetch_from")
    state, load = take_loaded_cluster(sources, options)
    load = grow(state, load, None)
    cost = capacity_cost(
        state, load, broker_capacity(state, read_capacity(capacity_file)),
        class_prices=class_prices, disk_gb_month=prices.get(PRICES[0]),
        cross_rack_gb=prices.get(PRICES[1]), fetch_from=fetch_from, **racks,
    )
    document = load_head("capacity cost", input_text(sources), state, load)
    destination.write(capacity_cost_answer(document, cost))


@command("size")
@capacity_options()
@leader_fetch_option()
@growth_options(0)
@number_option("--every", type=click.IntRange(1, MOST_BROKERS), metavar="K",
               help="Any K brokers may fail together.")
@click.option("--each-rack", is_flag=True, help="Any rack may fail.")
@click.option("--class", "broker_class", metavar="NAME",
              help="Class of the brokers, as --capacity names it.  [default: all are alike]")
@seed_option("Of the search for placements.")
@click.option("--plan", "plan_file", type=FilePath(), metavar="JSON",
              help="Write what has to change until so many brokers suffice, as a plan of "
              "kafka-reassign-partitions. The brokers that it adds are in --table brokers.")
@output_options(SIZE_TABLES, SIZE_METRICS)
def size_command(sources: Inputs, plan_file: Path | None, **options: Any) -> None:
    r"""Size a cluster: how many brokers carry the load, whatever fails.

    The bound from below takes each resource as if all brokers carried the same. The number that
    suffices has a placement that keeps every limit after every failure: the present one, improved
    for the brokers that stay and those that are added. Racks are those of the cluster, with equally
    many brokers in each.

    \b
    Examples:
      kfast capacity size describe.txt --load loads.csv --capacity capacities.csv --every 1
      kfast capacity size describe.txt --brokers-file brokers.csv --load loads.csv \
        --capacity capacities.csv --class large --every 1 --each-rack --growth 4%/month \
        --months 12 --plan plan.json --table brokers -o brokers.csv
    """
    destination = Destination.of(options, SIZE_TABLES)
    every, each_rack = options.pop("every") or 0, options.pop("each_rack")
    broker_class, seed = options.pop("broker_class"), options.pop("seed")
    if plan_file is not None and plan_file.suffix.lower() != ".json":
        raise ArgumentError(f"--plan {plan_file}: the name has to end in .json")
    grow = take_grown_load(options)
    inputs = take_capacity(sources, options)
    inputs = replace(inputs, load=grow(inputs.state, inputs.load, inputs.weights))
    with progress_bar("Sizing"):
        head = inputs.head("capacity size", inputs.plan())
        size = capacity_size(
            inputs.state, inputs.load, inputs.capacity, every=every, each_rack=each_rack,
            broker_class=broker_class, seed=seed, **inputs.limits,
        )
    racks = {rack for rack in inputs.state.rack.to_pylist() if rack is not None}
    failures = Failures(every, each_rack, len(racks))
    answer = capacity_size_answer(head, size, failures, broker_class)
    if plan_file is not None:
        _write_plan(size, plan_file)
    destination.write(answer)


def _write_plan(size: ClusterSize, path: Path) -> None:
    """Write what has to change to a file, and say so.

    Raises
    ------
    ArgumentError
        There is no placement, or nothing has to change.
    """
    if not size.plan.num_rows:
        reason = "no placement was found" if size.placement is None else "no replica has to change"
        raise ArgumentError(f"--plan {path}: {reason}")
    topics = size.plan["topic"].dictionary_encode()
    with writing(path) as file:
        write_reassignment(size.plan.set_column(0, "topic", topics), file)
    echo(f"Wrote {path}.")
