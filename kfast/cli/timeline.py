"""The command that asks when: `kfast timeline`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from kfast.analysis.whatif import select_brokers
from kfast.cli.calibration import calibration_option
from kfast.cli.capacity_options import load_options, take_load
from kfast.cli.command import command
from kfast.cli.options import (
    Inputs,
    broker_option,
    cluster_options,
    input_text,
    list_option,
    names,
    output_options,
    plot_option,
    take_cluster,
    threads_option,
    top_option,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.sweep import KINDS, scenario_options, take_scenarios
from kfast.cli.timeline_options import take_question, time_options
from kfast.errors import ArgumentError
from kfast.report.pictures import write_picture
from kfast.report.timeline import (
    TIMELINE_METRICS,
    TIMELINE_TABLES,
    timeline_answer,
    timeline_image,
)
from kfast.report.timeline_compare import (
    TIMELINE_COMPARE_TABLES,
    timeline_compare_answer,
    timeline_compare_image,
)
from kfast.report.timeline_sweep import (
    TIMELINE_SWEEP_TABLES,
    timeline_sweep_answer,
    timeline_sweep_image,
)
from kfast.timelines.comparison import parse_variants, timeline_compare
from kfast.timelines.failover import timeline
from kfast.timelines.failure_sweep import timeline_sweep

__all__ = ["timeline_command"]


def _tables(fails: bool, compare: Sequence[str]) -> tuple[str, ...]:
    """Tables of the answer."""
    if compare:
        return TIMELINE_COMPARE_TABLES
    return TIMELINE_TABLES if fails else TIMELINE_SWEEP_TABLES


@command("timeline")
@cluster_options()
@broker_option("Brokers that fail at one instant: 3,7 or 4-9.")
@list_option("--racks", parse=names, metavar="NAMES", help="Racks all of whose brokers fail: a,b.")
@click.option("--controller-fails", is_flag=True, help="The active controller fails too.")
@click.option("--controlled", is_flag=True,
              help="The brokers do not fail: they ask for their controlled shutdown, and stop.")
@scenario_options(seeded=False)
@list_option("--compare", parse=names, metavar="VARIANTS",
             help="Two or more variants of one failure, the first to compare with: zk,kraft. Each "
             "is a controller, unclean or controlled, NAME=VALUE of a setting or parameter, or "
             "several joined by +.")
@click.option("--sensitivity", is_flag=True,
              help="Show what the end depends on: each parameter, setting and phase alone.")
@load_options()
@time_options("Seed of the draws, and of --random.")
@threads_option()
@plot_option("Stages, and partitions without a leader over time; of a sweep when all are led")
@top_option("partitions, or failures of a sweep,")
@output_options((*TIMELINE_TABLES, "intervals"), TIMELINE_METRICS)
@calibration_option()
def timeline_command(
    sources: Inputs, brokers: Sequence[int], racks: Sequence[str], controller_fails: bool,
    controlled: bool, compare: Sequence[str], sensitivity: bool, threads: int, plot: Path | None,
    top: int, **options: Any,
) -> None:
    r"""Time a failure, or many: when each is found and decided, and how long nobody leads.

    Decisions and counts are those of the controller that is simulated; how long each takes follows
    from parameters, each with a range and a source. Every time has the 5th and the 95th percentile
    of the samples beside it. A sweep (--every and others) has a row for each failure, and --fail-on
    compares the largest value of any. With --load bytes that are refused are counted too.

    \b
    Examples:
      kfast timeline describe.txt --brokers 3
      kfast timeline describe.txt --racks a --param epoch_sync=200us --plot rack.svg
      kfast timeline describe.txt --brokers 3 --controlled
      kfast timeline describe.txt --brokers 3 --load loads.csv
      kfast timeline describe.txt --every 1 -o failures.parquet
      kfast timeline describe.txt --brokers 3 --compare zk,kraft
      kfast timeline describe.txt --brokers 3 --compare unclean,controlled
      kfast timeline describe.txt --brokers 3 \
        --compare broker.session.timeout.ms=9000,broker.session.timeout.ms=6000
      kfast timeline describe.txt --brokers 3 --controller kraft-4.1 \
        --set broker.session.timeout.ms=6000 --fail-on 'led_max_us>8000000'
      kfast timeline --calibrate /var/log/kafka -o params.json
    """
    make = take_scenarios(options, options["seed"])
    fails = bool(brokers or racks or controller_fails)
    if fails == (make is not None):
        raise click.UsageError(
            f"give what fails: --brokers IDS, --racks NAMES, --controller-fails, or {KINDS}"
        )
    if controlled and (compare or sensitivity or make is not None):
        raise ArgumentError(
            "--controlled goes without --compare (it is a variant there), --sensitivity and "
            f"{KINDS}"
        )
    if compare and make is not None:
        raise ArgumentError(f"give one of --compare and {KINDS}")
    if sensitivity and (compare or make is not None):
        raise ArgumentError(f"give one of --sensitivity, --compare and {KINDS}")
    destination = Destination.of(options, _tables(fails, compare))
    question, make_load = take_question(options), take_load(options)
    if compare:
        parse_variants(compare)
    state, source = take_cluster(sources, options), input_text(sources)
    if make_load is not None:
        question["load"] = make_load(state)
    if make is not None:
        title, scenarios = make(state)
        with progress_bar("Timing the failures") as progress:
            sweep = timeline_sweep(
                state, scenarios, **question, threads=threads, progress=progress
            )
        answer = timeline_sweep_answer(source, sweep, title, top)
        picture = partial(timeline_sweep_image, answer.document, sweep)
    else:
        ids, notes = list(brokers), list[str]()
        if brokers or racks:
            ids, notes = select_brokers(state, brokers, racks, source)
        question["controller_fails"] = controller_fails
        with progress_bar("Timing the failure"):
            if compare:
                compared = timeline_compare(state, ids, compare, **question)
                answer = timeline_compare_answer(source, compared)
                picture = partial(timeline_compare_image, answer.document, compared)
            else:
                found = timeline(state, ids, **question, controlled=controlled)
                answer = timeline_answer(source, found, top, sensitivity=sensitivity)
                picture = partial(timeline_image, answer.document, found)
        answer.document["notes"] += notes
    if plot is not None:
        write_picture(picture(), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)
