"""The commands that plan: `kfast restart` and `kfast risk`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kfast.analysis.copyset_risk import risk
from kfast.analysis.replica_sets import live_brokers
from kfast.analysis.restart_plan import restart_plan
from kfast.analysis.restart_readiness import may_restart
from kfast.capacity import (
    PartitionLoad,
    Restoration,
    broker_capacity,
    durability,
    prepare_capacity,
    repair_hours,
)
from kfast.capacity.loads.units import parse_rate
from kfast.capacity.planning.durability_chances import YEAR_SECONDS
from kfast.cli.capacity_options import capacity_file_option, load_options, take_load
from kfast.cli.command import command
from kfast.cli.options import (
    Inputs,
    broker_ids,
    cluster_options,
    down_option,
    input_text,
    list_option,
    number_option,
    output_options,
    seed_option,
    setting_option,
    take_cluster,
    top_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError
from kfast.io.loads import read_capacity
from kfast.report.restart import (
    PLAN_METRICS,
    READINESS_METRICS,
    RESTART_TABLES,
    plan_answer,
    readiness_answer,
)
from kfast.report.risk import RISK_COUNTS, RISK_TABLES, YEARLY_TABLES, risk_answer
from kfast.state import ClusterState

__all__ = ["parse_years", "restart_command", "risk_command"]


@command("restart")
@cluster_options()
@list_option(
    "--broker", "--brokers", "brokers", parse=broker_ids, metavar="IDS",
    help="Answer for this broker alone, or for several that restart together: YES or NO, and what "
    "would allow it.",
)
@number_option("--isr-margin", type=click.IntRange(0, 63), default=0,
               help="How many live in-sync replicas above min ISR must be left in every partition.")
@click.option("--ignore-topics", metavar="REGEX",
              help="Leave out topics whose whole name matches: they forbid nothing.")
@click.option("--ignore-rf1", is_flag=True,
              help="Leave out partitions with one replica, which every restart takes offline.")
@click.option("--by-rack", is_flag=True, help="Plan rack by rack: a batch is within one rack.")
@number_option(
    "--seconds-per-broker", type=click.FloatRange(0), metavar="SECONDS",
    help="How long a broker takes to restart until it is back in every ISR; predicts the time.",
)
@click.option(
    "--ignore-unsatisfiable", is_flag=True,
    help="Let the members of partitions that no order can satisfy restart together. Without it "
    "they restart one at a time.",
)
@setting_option()
@top_option("partitions and topics")
@output_options(RESTART_TABLES, {**PLAN_METRICS, **READINESS_METRICS})
def restart_command(
    sources: Inputs, brokers: Sequence[int], isr_margin: int, ignore_topics: str | None,
    ignore_rf1: bool, by_rack: bool, seconds_per_broker: float | None, ignore_unsatisfiable: bool,
    top: int, **options: Any,
) -> None:
    r"""Find out which brokers may be restarted now, and in which batches all may.

    A broker may be restarted where every partition keeps as many live in-sync replicas as min ISR
    (and the margin) meanwhile. The plan has the fewest batches that kfast finds in which every live
    broker of INPUT restarts; beside it stand the partitions that no order can satisfy, and the
    settings that cause it.

    \b
    Examples:
      kfast restart describe.txt --broker 105
      kfast restart describe.txt --ignore-topics 'scratch.*' --ignore-rf1
      kfast restart describe.txt --brokers-file brokers.csv --by-rack --seconds-per-broker 180
      kfast restart describe.txt --table partitions -o partitions.parquet
    """
    destination = Destination.of(options, ("partitions",) if brokers else RESTART_TABLES)
    planned = {"--by-rack": by_rack, "--seconds-per-broker": seconds_per_broker is not None,
               "--ignore-unsatisfiable": ignore_unsatisfiable}
    wrong = [name for name, given in planned.items() if given and brokers]
    other = PLAN_METRICS if brokers else ("forbidding",)
    wrong += [f"--fail-on {one.text}" for one in destination.conditions if one.metric in other]
    if wrong:
        raise ArgumentError(f"{wrong[0]} goes {'without' if brokers else 'with'} --broker")
    state = take_cluster(sources, options)
    with progress_bar("Planning restarts"):
        if brokers:
            ready = may_restart(
                state, isr_margin, ignore_topics=ignore_topics, ignore_rf1=ignore_rf1
            )
            answer = readiness_answer(input_text(sources), state, ready, brokers, top=top)
        else:
            plan = restart_plan(
                state, isr_margin, by_rack, ignore_topics=ignore_topics, ignore_rf1=ignore_rf1,
                ignore_unsatisfiable=ignore_unsatisfiable, seconds_per_broker=seconds_per_broker,
            )
            answer = plan_answer(input_text(sources), state, plan, top=top)
    destination.write(answer)


@command("risk")
@cluster_options()
@down_option("How many brokers fail at random, for the chances: 2 or 1,2,5.  [default: 1,2,3]")
@click.option(
    "--mttf", "mttf_years", callback=lambda _ctx, _param, text: text and parse_years(text),
    metavar="TIME",
    help="Mean time in which one broker fails for good, as 3y, 1460d or 30000h: adds how likely "
    "losses are in a year.",
)
@number_option("--replace-hours", type=float, metavar="HOURS",
               help="Mean time until the replicas of such a broker are in sync again elsewhere; or "
               "--load and --capacity, and it follows for each broker from what has to be copied.")
@capacity_file_option(required=False)
@click.option("--throttle", metavar="RATE",
              help="With --capacity: what each broker may send and receive for copies, 60MB/s.")
@number_option("--detect-minutes", type=float, default=None,
               help="With --capacity: until a broker is replaced.  [default: 10]")
@number_option("--outages-per-year", type=float, default=0.0,
               help="Outages of one broker that lose nothing but time.")
@number_option("--outage-seconds", type=float, default=0.0, metavar="SECONDS",
               help="How long such an outage lasts.")
@load_options()
@number_option(
    "--random", "scenarios", type=click.IntRange(1, 100_000_000), default=10_000,
    help="How many failures to draw at random where a chance cannot be counted.",
)
@seed_option("Of --random.")
@setting_option()
@top_option("brokers, pairs and triples")
@output_options((*RISK_TABLES, *YEARLY_TABLES), RISK_COUNTS)
def risk_command(
    sources: Inputs, down: Sequence[int], scenarios: int, seed: int, top: int,
    mttf_years: float | None, outages_per_year: float, outage_seconds: float, **options: Any,
) -> None:
    r"""Measure how far failures reach, and how likely they are to take partitions offline.

    The chance that any partition goes down when brokers fail at random; the brokers, pairs and
    triples that take most down, and which topics; copysets (distinct replica sets) and each
    broker's scatter width (the others that it shares a partition with).

    \b
    Examples:
      kfast risk describe.txt --default min.insync.replicas=2
      kfast risk describe.txt --brokers-file brokers.csv --down 1,2,5 --top 3
      kfast risk describe.txt -o pairs.parquet --fail-on 'pair_offline_if_clean>0'
      kfast risk describe.txt --mttf 3y --replace-hours 4 --load loads.csv
      kfast risk describe.txt --mttf 3y --load loads.csv --capacity capacities.csv --throttle 60MB/s
    """
    tables = RISK_TABLES if mttf_years is None else (*RISK_TABLES, *YEARLY_TABLES)
    destination = Destination.of(options, tables)
    make_load = take_load(options)
    if mttf_years is None and (make_load or outages_per_year or outage_seconds):
        raise ArgumentError("--load and --outages-per-year go with --mttf and --replace-hours")
    make_hours = _take_repair(options, mttf_years is not None, make_load is not None)
    state = take_cluster(sources, options)
    live = live_brokers(state).size
    wrong = [number for number in down if number > live]
    if wrong:
        raise ArgumentError(
            f"--down {wrong[0]}: {input_text(sources)} has {live} live brokers, so at most {live}"
            " can fail"
        )
    numbers = sorted(down) or [number for number in (1, 2, 3) if number <= live]
    load = make_load(state) if make_load else None
    with progress_bar("Counting failures"):
        yearly = None
        if mttf_years is not None and make_hours is not None:
            yearly = durability(
                state, mttf_years=mttf_years, repair_hours=make_hours(state, load),
                outages_per_year=outages_per_year, outage_seconds=outage_seconds, load=load,
            )
        answer = risk_answer(
            input_text(sources), state, risk(state, scenarios=scenarios, seed=seed), numbers,
            top=top, yearly=yearly, load=load,
        )
    destination.write(answer)


def _take_repair(
    options: dict[str, Any], is_yearly: bool, has_load: bool
) -> Callable[[ClusterState, PartitionLoad | None], float | npt.NDArray[np.float64]] | None:
    """Take the options of repair times out of a command's options: what tells them of a cluster.

    None where a year is not asked for.

    Raises
    ------
    ArgumentError
        An option goes with another, or is missing.
    """
    hours, file, throttle, minutes = (
        options.pop(name)
        for name in ("replace_hours", "capacity_file", "throttle", "detect_minutes")
    )
    for name, value in (("--throttle", throttle), ("--detect-minutes", minutes)):
        if value is not None and file is None:
            raise ArgumentError(f"{name} goes with --capacity")
    if not is_yearly and file is None and hours is None:
        return None
    if not is_yearly or (hours is None) == (file is None):
        raise ArgumentError("--mttf and --replace-hours go together, or --mttf and --capacity")
    if file is None:
        return lambda _state, _load: float(hours)
    if not has_load:
        raise ArgumentError("--capacity goes with --load: what a broker's replicas weigh")
    rate = None if throttle is None else parse_rate("--throttle", throttle)
    settings = Restoration("replace", leader_throttle=rate, follower_throttle=rate)

    def make(state: ClusterState, load: PartitionLoad | None) -> npt.NDArray[np.float64]:
        assert load is not None, "it goes with --load"
        plan = prepare_capacity(state, load, broker_capacity(state, read_capacity(file)))
        return repair_hours(plan, settings, detect_minutes=10.0 if minutes is None else minutes)

    return make


def parse_years(text: str) -> float:
    """Years of a time such as 3y, 1460d or 30000h.

    Raises
    ------
    ArgumentError
        It is none.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([ydh])", text.strip())
    if match is None:
        raise ArgumentError(f"--mttf {text!r} is no time, such as 3y, 1460d or 30000h")
    seconds = {"y": YEAR_SECONDS, "d": 86_400, "h": 3600}[match[2]]
    return float(match[1]) * seconds / YEAR_SECONDS
