"""The commands about reassignment plans, in bytes: `kfast plan check` and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kfast.capacity.loads.units import parse_bytes, parse_rate
from kfast.capacity.placements.placement_problem import PROTECTIONS
from kfast.capacity.placements.placement_search import improve_placement
from kfast.capacity.placements.plan_check import PLAN_METRICS, check_plan
from kfast.capacity.placements.reassignment_batches import MOVES_PER_BROKER, plan_batches
from kfast.cli.capacity_options import capacity_options, leader_fetch_option, take_capacity
from kfast.cli.command import command
from kfast.cli.exits import Commands
from kfast.cli.options import (
    FilePath,
    InputName,
    Inputs,
    broker_ids,
    list_option,
    names,
    number_option,
    output_options,
    seed_option,
    top_option,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.sweep import scenario_options, take_scenarios
from kfast.io import read_broker_sets, read_plan
from kfast.io.files import check_new_folder
from kfast.report.capacity_wording import refuse_without_capacity
from kfast.report.plan_check import PLAN_TABLES, plan_check_answer
from kfast.report.plan_improve import IMPROVE_METRICS, IMPROVE_TABLES, plan_improve_answer
from kfast.schema import PLAN
from kfast.state import ClusterState
from kfast.sweeps.scenario_makers import every_broker, every_rack
from kfast.sweeps.scenarios import Scenarios

__all__ = ["check_command", "improve_command", "plan_group"]

COMMANDS = {
    "check": ("plan", "check_command",
        "Check what a plan does to brokers, and which rules it breaks."),
    "improve": ("plan", "improve_command",
        "Find a better placement, and write its plan in batches."),
}
"""Of each command the module in `kfast.cli`, its name there, and the first sentence of its help."""


@click.group("plan", cls=Commands, places=COMMANDS)
def plan_group() -> None:
    r"""Check and make reassignment plans in bytes.

    What a plan does to partitions and leaders, without loads, is the answer of kfast reassign.

    \b
    Examples:
      kfast plan check describe.txt --plan plan.json --load loads.csv --capacity capacities.csv
      kfast plan improve describe.txt --load loads.csv --capacity capacities.csv -o plans
    """


@command("check")
@capacity_options()
@leader_fetch_option()
@click.option("--plan", "plans", type=InputName(), multiple=True, required=True, metavar="PLAN",
              help="The plan; given more than once, batches in this order.")
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
@click.option("--goals", type=click.Choice(["cruise-control"]),
              help="Say too which default goals of Cruise Control are met before and after.")
@click.option("--keep-leaders", is_flag=True,
              help="Do not elect the preferred leaders of a batch's partitions after it.")
@list_option("--throttle", "rates", parse=lambda text: (parse_rate("--throttle", text),),
             metavar="RATE", repeats=True,
             help="What each broker may send and receive for copies, as the throttle of "
             "kafka-reassign-partitions: 60MB/s; or one for each PLAN: 60MB/s,40MB/s.")
@top_option("brokers, partitions and failures")
@output_options(PLAN_TABLES, PLAN_METRICS)
def check_command(
    sources: Inputs, plans: Sequence[str], excluded_topics: Sequence[str],
    excluded_brokers: Sequence[int], broker_sets: Path | None, goals: str | None,
    keep_leaders: bool, rates: Sequence[int], top: int, **options: Any,
) -> None:
    r"""Check what a plan does to brokers, and which rules it breaks.

    Each PLAN is a file as kafka-reassign-partitions takes or prints it, as topicmappr writes it, or
    the proposals of Cruise Control; several are batches, one after another. The simulated
    controller executes them. What brokers carry is measured before, at the worst moment and after;
    failures are measured before and after: every broker and every rack, or those that you ask for.

    \b
    Examples:
      kfast plan check describe.txt --plan plan.json --load loads.csv --capacity capacities.csv
      kfast plan check describe.txt --plan batch-001.json --plan batch-002.json \
        --brokers-file brokers.csv --load metrics.prom --load log-dirs.json \
        --capacity capacity.json --each-rack --fail-on 'broken_rules>0' \
        --fail-on 'over_limit_during>0'
    """
    destination = Destination.of(options, PLAN_TABLES)
    make = take_scenarios(options)
    inputs = take_capacity(sources, options)
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
            throttle=rates if len(rates) > 1 else (*rates, None)[0],
        )
        refuse_without_capacity(inputs.capacity, check.before)
        head = inputs.head("plan check", check.before)
        answer = plan_check_answer(head, inputs.state, plans, check, top=top, goals=bool(goals))
    destination.write(answer)


@command("improve")
@capacity_options()
@leader_fetch_option()
@list_option(
    "--protect", parse=names, metavar="FAILURES",
    help="Failures after which brokers should be within limits, besides none: every-broker, "
    "every-rack, none.  [default: every-broker]",
)
@click.option("--leadership-only", is_flag=True,
              help="Move leaders alone: no replica is copied.")
@list_option("--remove-brokers", parse=broker_ids, metavar="IDS",
             help="Brokers that give up all replicas: 3,7. Those that are down do anyway.")
@list_option("--keep-brokers", parse=broker_ids, metavar="IDS",
             help="Brokers that keep their replicas, down or not, and get no more.")
@click.option("--keep-topics", metavar="REGEX",
              help="Topics that stay as they are, by their whole names: 'payments[.].*'.")
@click.option("--max-bytes", metavar="SIZE", help="How much may be copied in all: 2TB.")
@number_option("--search-seconds", type=click.FloatRange(0), metavar="SECONDS",
               help="When the search ends at the latest. Without it, the same input gives the same "
               "plan.")
@number_option("--gap", type=click.FloatRange(0, 10), default=0.02, metavar="SHARE",
               help="Good enough: so close to the best conceivable, as a part of it.")
@seed_option("Of the order in which changes are tried.")
@number_option("--batch-seconds", type=click.IntRange(1, 10**9), default=3600, metavar="SECONDS",
               help="How long a batch may copy.")
@number_option("--moves-per-broker", type=click.IntRange(1, 1000), default=MOVES_PER_BROKER,
               help="How many replicas a batch may copy to and from a broker.")
@click.option("--throttle", metavar="RATE",
              help="What each broker may send and receive for copies at most: 60MB/s.  [default: "
              "90 % of what networks leave free]")
@click.option("-o", "--output", "folder", type=FilePath(), metavar="FOLDER",
              help="Write plan.json, rollback.json, batch-001.json and so on into this new folder, "
              "all of them or none.")
@top_option("brokers, partitions and failures")
@output_options(IMPROVE_TABLES, IMPROVE_METRICS, to_file=False)
def improve_command(
    sources: Inputs, protect: Sequence[str], max_bytes: str | None, search_seconds: float | None,
    batch_seconds: int, moves_per_broker: int, throttle: str | None, folder: Path | None, top: int,
    **options: Any,
) -> None:
    r"""Find a better placement, and write its plan in batches.

    Replicas and leaders move until every broker is as far within its limits as possible, without a
    failure and after each of --protect; no placement is better than the bound that the answer
    names. The simulated controller executes the batches, and they are checked as by kfast plan
    check. To replace broker 3 by 13: --remove-brokers 3 --add-brokers 13:rack=a.

    \b
    Examples:
      kfast plan improve describe.txt --load loads.csv --capacity capacities.csv -o plans
      kfast plan improve describe.txt --brokers-file brokers.csv --load loads.csv \
        --capacity capacities.csv --protect every-broker,every-rack --leadership-only
      kfast plan improve describe.txt --load loads.csv --capacity capacities.csv \
        --remove-brokers 3 --max-bytes 2TB --batch-seconds 14400 -o plans
    """
    destination = Destination.of(options, IMPROVE_TABLES)
    if folder is not None:
        check_new_folder(folder)
    rate = None if throttle is None else parse_rate("--throttle", throttle)
    budget = None if max_bytes is None else parse_bytes("--max-bytes", max_bytes)
    free = ("leadership_only", "remove_brokers", "keep_brokers", "keep_topics", "gap", "seed")
    freedom = {name: options.pop(name) for name in free}
    inputs = take_capacity(sources, options)
    limits = inputs.limits
    plan = inputs.plan()
    with progress_bar("Searching"):
        better = improve_placement(
            inputs.state, inputs.load, inputs.capacity, protect=protect or PROTECTIONS[:1],
            max_bytes=budget, seconds=search_seconds, **freedom, **limits,
        )
    with progress_bar("Making batches"):
        batches = plan_batches(
            inputs.state, better.plan, inputs.load, inputs.capacity, batch_seconds=batch_seconds,
            moves_per_broker=moves_per_broker, throttle=rate, **limits,
        )
        check = check_plan(
            inputs.state, batches.batches or [PLAN.schema.empty_table()], inputs.load,
            inputs.capacity, scenarios=_failures(inputs.state, better.protect),
            throttle=batches.throttles or None, **limits,
        )
        head = inputs.head("plan improve", plan)
        answer = plan_improve_answer(
            head, inputs.state, better, batches, check, folder=folder, top=top
        )
    if folder is None:
        echo("No plan is written: -o FOLDER writes its batches.")
    elif batches.batches:
        batches.write(folder)
        echo(f"Wrote {len(batches.batches) + 2} files to {folder}.")
    destination.write(answer)


def _failures(state: ClusterState, protect: Sequence[str]) -> list[Scenarios]:
    """The failures that a placement is measured after."""
    makers = {"every-broker": every_broker, "every-rack": every_rack}
    return [makers[name](state) for name in protect]
