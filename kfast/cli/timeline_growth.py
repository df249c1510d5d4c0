"""The command that asks how failovers grow: `kfast timeline-growth`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from kfast.cli.command import command
from kfast.cli.options import (
    controller_options,
    list_option,
    number_option,
    output_options,
    plot_option,
    top_option,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.cli.timeline_options import take_question, time_options
from kfast.errors import ArgumentError
from kfast.report.pictures import write_picture
from kfast.report.timeline import TIME_METRICS
from kfast.report.timeline_growth import (
    TIMELINE_GROWTH_TABLES,
    timeline_growth_answer,
    timeline_growth_image,
)
from kfast.timelines.planned_clusters import FAILURES, NEWEST, SIZES, timeline_growth

__all__ = ["timeline_growth_command"]

_SIZE = re.compile(r"([0-9]{1,9})([kM]?)")
_FACTORS = {"": 1, "k": 1000, "M": 1_000_000}


def _sizes(text: str) -> Iterable[int]:
    """A number of partitions, in thousands or millions if it says so."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ArgumentError(f"{text!r} is not a number of partitions; right is 300000, 300k or 1M")
    return (int(match[1]) * _FACTORS[match[2]],)


@command("timeline-growth")
@list_option("--partitions", parse=_sizes, metavar="SIZES",
             help=f"Sizes of the clusters: 100k,1M.  [default: {SIZES[0]} to {SIZES[-1]}]")
@number_option("--brokers", type=click.IntRange(2), default=100, help="How many brokers.")
@number_option("--replication-factor", default=3, help="Replicas of each partition.")
@number_option("--topics", help="How many.  [default: one for every 100 partitions]")
@controller_options(f"{' and '.join(NEWEST)}, off")
@click.option("--failure", type=click.Choice(FAILURES),
              help="Whether one broker fails, or the active controller too.  [default: both]")
@time_options("Seed of the draws.")
@plot_option("When all are led by the size, and what the last leader waits for")
@top_option("parameters and settings", 5)
@output_options(TIMELINE_GROWTH_TABLES, TIME_METRICS)
def timeline_growth_command(
    partitions: Sequence[int], brokers: int, replication_factor: int, topics: int | None,
    controller: str | None, elr: str | None, failure: str | None, plot: Path | None,
    top: int, **options: Any,
) -> None:
    r"""Time failovers of clusters that are planned, by their size, and see what would halve them.

    Each cluster is generated with Kafka's own placement, so that leaders are spread evenly. One
    broker fails, or one broker and the active controller. Below the times is what the last leader
    waits for, and what that depends on most. --fail-on compares the largest value of any.

    \b
    Examples:
      kfast timeline-growth
      kfast timeline-growth --partitions 1M --brokers 100
      kfast timeline-growth --plot growth.svg
      kfast timeline-growth --partitions 100k,1M --controller kraft-4.1 \
        --set broker.session.timeout.ms=6000 --fail-on 'led_max_us>10000000'
    """
    destination = Destination.of(options, TIMELINE_GROWTH_TABLES)
    question = take_question(options)
    with progress_bar("Timing the failures") as progress:
        growth = timeline_growth(
            partitions or SIZES, brokers=brokers, replication_factor=replication_factor,
            topics=topics, controllers=NEWEST if controller is None else (controller,),
            elr=None if elr is None else elr == "on",
            failures=FAILURES if failure is None else (failure,), **question, progress=progress,
        )
    answer = timeline_growth_answer(growth, top)
    if plot is not None:
        write_picture(timeline_growth_image(answer.document), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)
