"""The commands about reassignment plans, in bytes: `kfast plan check` and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kfast.capacity.plan_check import PLAN_METRICS, check_plan
from kfast.capacity.units import parse_rate
from kfast.cli.capacity_options import capacity_options, take_capacity
from kfast.cli.exits import Commands
from kfast.cli.options import FilePath, broker_ids, list_option, output_options, top_option
from kfast.cli.output import Destination, progress_bar
from kfast.cli.sweep import scenario_options, take_scenarios
from kfast.errors import ArgumentError
from kfast.io import read_broker_sets, read_plan
from kfast.report.plan_check import PLAN_TABLES, plan_check_answer

__all__ = ["check_command", "plan_group"]

COMMANDS = {
    "check": ("plan", "check_command",
        "Check what a plan does to brokers, and which rules it breaks."),
}
"""Of each command the module in `kfast.cli`, its name there, and the first sentence of its help."""


@click.group("plan", cls=Commands, places=COMMANDS)
def plan_group() -> None:
    r"""Check reassignment plans in bytes.

    What a plan does to partitions and leaders, without loads, is the answer of kfast reassign.

    \b
    Examples:
      kfast plan check describe.txt plan.json --load loads.csv --capacity capacities.csv
    """


@click.command("check")
@capacity_options()
@click.argument("plans", nargs=-1, required=True, metavar="PLAN...")
@scenario_options()
@click.option(
    "--exclude-topics", "excluded_topics", multiple=True, metavar="REGEX",
    help="Topics that the plan must not change, by their whole names: 'payments[.].*'. May be "
    "given more than once.",
)
@list_option("--exclude-brokers", "excluded_brokers", parse=broker_ids, metavar="IDS",
             help="Brokers on which the plan must not add replicas: 3,7.")
@click.option("--broker-sets", type=FilePath(), metavar="FILE",
              help="Broker sets of Cruise Control (brokerSets.json): a plan leaves the replicas of "
              "a partition in their set.")
@click.option("--keep-leaders", is_flag=True,
              help="Do not elect the preferred leaders of a batch's partitions after it.")
@click.option("--throttle", metavar="RATE",
              help="What each broker may send and receive for copies, as the throttle of "
              "kafka-reassign-partitions: 60MB/s.")
@top_option("brokers, partitions and failures")
@output_options(PLAN_TABLES, PLAN_METRICS)
def check_command(
    source: str, plans: Sequence[str], excluded_topics: Sequence[str],
    excluded_brokers: Sequence[int], broker_sets: Path | None, keep_leaders: bool,
    throttle: str | None, top: int, **options: Any,
) -> None:
    r"""Check what a plan does to brokers, and which rules it breaks.

    Each PLAN is a file as kafka-reassign-partitions takes or prints it, as topicmappr writes it, or
    the proposals of Cruise Control; several are batches, one after another. The simulated
    controller executes them. What brokers carry is measured before, at the worst moment and after;
    failures are measured before and after: every broker and every rack, or those that you ask for.

    \b
    Examples:
      kfast plan check describe.txt plan.json --load loads.csv --capacity capacities.csv
      kfast plan check describe.txt batch-001.json batch-002.json --brokers-file brokers.csv \
        --load metrics.prom --load log-dirs.json --capacity capacity.json --each-rack \
        --fail-on 'broken_rules>0' --fail-on 'over_limit_during>0'
    """
    destination = Destination.of(options, PLAN_TABLES)
    make = take_scenarios(options)
    rate = None if throttle is None else parse_rate("--throttle", throttle)
    if [source, *plans].count("-") > 1:
        raise ArgumentError("only one of INPUT and the plans can be standard input")
    inputs = take_capacity(source, options)
    tables = [read_plan(plan) for plan in plans]
    sets = None if broker_sets is None else read_broker_sets(broker_sets)
    scenarios = None if make is None else [make(inputs.state)[1]]
    with progress_bar("Checking"):
        check = check_plan(
            inputs.state, tables, inputs.load, inputs.capacity, scenarios=scenarios,
            normal_limits=inputs.normal_limits, failed_limits=inputs.failed_limits,
            replicas_limit=inputs.replicas_limit, weights=inputs.weights,
            cpu_model=inputs.cpu_model,
            excluded_topics=excluded_topics, excluded_brokers=excluded_brokers,
            broker_sets=sets, elect_preferred=not keep_leaders,
            throttle=rate,
        )
        inputs.refuse_without_capacity(check.before)
        head = inputs.head("plan check", source, check.before)
        answer = plan_check_answer(head, inputs.state, plans, check, top=top)
    destination.write(answer)
