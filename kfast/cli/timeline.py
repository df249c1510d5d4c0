"""The command that asks when: `kfast timeline`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from kfast.analysis.whatif import select_brokers
from kfast.cli.command import command
from kfast.cli.options import (
    FilePath,
    Inputs,
    broker_option,
    cluster_options,
    input_text,
    list_option,
    names,
    number_option,
    output_options,
    take_cluster,
    threads_option,
    top_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.cli.sweep import KINDS, scenario_options, take_scenarios
from kfast.errors import ArgumentError
from kfast.report.timeline import TIMELINE_METRICS, TIMELINE_TABLES, timeline_answer
from kfast.report.timeline_compare import TIMELINE_COMPARE_TABLES, timeline_compare_answer
from kfast.report.timeline_sweep import TIMELINE_SWEEP_TABLES, timeline_sweep_answer
from kfast.timelines.comparison import parse_variants, timeline_compare
from kfast.timelines.failover import LOSSES, timeline
from kfast.timelines.failure_sweep import timeline_sweep
from kfast.timelines.parameters import PROFILES, Parameters, read_params

__all__ = ["timeline_command"]


def _pairs(_ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Values by name, each given as NAME=VALUE."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param=param)
        pairs[name.strip()] = value.strip()
    return pairs


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
@scenario_options(seeded=False)
@list_option("--compare", parse=names, metavar="VARIANTS",
             help="Two or more variants of one failure, the first to compare with: zk,kraft. Each "
             "is a controller, or NAME=VALUE of a setting or parameter, or several joined by +.")
@click.option("--loss", type=click.Choice(LOSSES), default="process", show_default=True,
              help="Whether clients learn of the failure at once, or by their timeouts.")
@click.option("--params", type=FilePath(), metavar="FILE",
              help="Parameters of your cluster: JSON, a time for each name.")
@click.option("--time-profile", type=click.Choice(tuple(PROFILES)), default="default",
              show_default=True, help="Named set of parameters that --param starts from.")
@click.option("--param", "param_texts", multiple=True, callback=_pairs, metavar="NAME=VALUE",
              help="A parameter, as epoch_sync=800us, or with its range, as "
              "epoch_sync=800us,500us,2ms.")
@click.option("--set", "settings", multiple=True, callback=_pairs, metavar="NAME=VALUE",
              help="A setting of Kafka in milliseconds: broker.session.timeout.ms=6000.")
@number_option("--samples", type=click.IntRange(1, 100_000), default=200,
               help="Draws of parameters from which ranges are made.")
@number_option("--seed", type=click.IntRange(0, 2**64 - 1), default=0,
               help="Seed of the draws, and of --random.")
@click.option("--horizon", default="1h", show_default=True, metavar="TIME",
              help="Until when time without a leader counts.")
@threads_option()
@top_option("partitions, or failures of a sweep,")
@output_options(TIMELINE_TABLES, TIMELINE_METRICS)
def timeline_command(
    sources: Inputs, brokers: Sequence[int], racks: Sequence[str], controller_fails: bool,
    compare: Sequence[str], loss: str, params: Path | None, time_profile: str,
    param_texts: dict[str, str], settings: dict[str, str], samples: int, seed: int, horizon: str,
    threads: int, top: int, **options: Any,
) -> None:
    r"""Time a failure, or many: when each is found and decided, and how long nobody leads.

    Decisions and counts are those of the controller that is simulated; how long each takes follows
    from parameters, each with a range and a source. Every time has the 5th and the 95th percentile
    of the samples beside it. A sweep (--every and others) has a row for each failure, and --fail-on
    compares the largest value of any.

    \b
    Examples:
      kfast timeline describe.txt --brokers 3
      kfast timeline describe.txt --racks a --param epoch_sync=200us
      kfast timeline describe.txt --every 1 -o failures.parquet
      kfast timeline describe.txt --brokers 3 --compare zk,kraft
      kfast timeline describe.txt --brokers 3 \
        --compare broker.session.timeout.ms=9000,broker.session.timeout.ms=6000
      kfast timeline describe.txt --brokers 3 --controller kraft-4.1 \
        --set broker.session.timeout.ms=6000 --fail-on 'led_max_us>8000000'
    """
    make = take_scenarios(options, seed)
    fails = bool(brokers or racks or controller_fails)
    if fails == (make is not None):
        raise click.UsageError(
            f"give what fails: --brokers IDS, --racks NAMES, --controller-fails, or {KINDS}"
        )
    if compare and make is not None:
        raise ArgumentError(f"give one of --compare and {KINDS}")
    destination = Destination.of(options, _tables(fails, compare))
    wrong = [f"{name}={value}" for name, value in settings.items() if not value.isdecimal()]
    if wrong:
        raise ArgumentError(f"--set {wrong[0]}: right is a whole number")
    if params is not None and param_texts:
        raise ArgumentError("give one of --param and --params")
    if compare:
        parse_variants(compare)
    values = Parameters.of(param_texts, profile=time_profile) if params is None else read_params(
        params, profile=time_profile)
    state = take_cluster(sources, options)
    question: dict[str, Any] = {
        "params": values, "settings": {name: int(value) for name, value in settings.items()},
        "samples": samples, "seed": seed, "horizon": horizon, "loss": loss,
    }
    if make is not None:
        title, scenarios = make(state)
        with progress_bar("Timing the failures") as progress:
            sweep = timeline_sweep(
                state, scenarios, **question, threads=threads, progress=progress
            )
        destination.write(timeline_sweep_answer(input_text(sources), sweep, title, top))
        return
    ids, notes = list(brokers), list[str]()
    if brokers or racks:
        ids, notes = select_brokers(state, brokers, racks, input_text(sources))
    if compare:
        with progress_bar("Timing the failure"):
            compared = timeline_compare(
                state, ids, compare, controller_fails=controller_fails, **question
            )
        answer = timeline_compare_answer(input_text(sources), compared)
        answer.document["notes"] += notes
        destination.write(answer)
        return
    with progress_bar("Timing the failure"):
        found = timeline(state, ids, controller_fails=controller_fails, **question)
    answer = timeline_answer(input_text(sources), found, top)
    answer.document["notes"] += notes
    destination.write(answer)
