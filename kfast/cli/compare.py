"""`kfast compare`: one question, answered by several controllers or with several settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from kfast.analysis.compare_answers import COMPARED_SETTINGS, compare
from kfast.analysis.impact import CHANGE_METRICS, RECORD_METRICS
from kfast.analysis.whatif import select_brokers
from kfast.cli.cluster import SteppedCommand, failure_options, take_steps
from kfast.cli.command import command
from kfast.cli.options import (
    Inputs,
    broker_ids,
    cluster_options,
    input_text,
    output_options,
    setting_option,
    take_cluster,
    threads_option,
    top_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.cli.sweep import KINDS, scenario_options, take_scenarios
from kfast.errors import ArgumentError
from kfast.report.comparison import COMPARE_TABLES, comparison_answer
from kfast.state.census import CENSUS_METRICS, ELR_METRICS
from kfast.sweeps import SWEEP_COUNTS

__all__ = ["compare_command"]

FAILURE_METRICS = {**CENSUS_METRICS, **ELR_METRICS, **CHANGE_METRICS, **RECORD_METRICS}


def _parse_with(
    _ctx: click.Context, _param: click.Parameter, texts: Iterable[str]
) -> list[dict[str, object]]:
    """Settings of each further answer; what has no equals sign goes on with the value before."""
    answers = []
    for text in texts:
        settings: dict[str, str] = {}
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if name and not equals and settings:
                settings[[*settings][-1]] += f",{name}"
            elif name and value and name not in settings:
                settings[name] = value
            else:
                raise click.BadParameter(
                    f"{text!r} is not NAME=VALUE, such as elr=off or controller=zk-3.9"
                )
        answers.append(_with_order(settings))
    return answers


def _with_order(settings: Mapping[str, str]) -> dict[str, object]:
    """Settings of an answer, the ids of an order read."""
    return {
        name: [broker for one in value.split(",") for broker in broker_ids(one)]
        if name == "order" else value
        for name, value in settings.items()
    }


@command("compare", cls=SteppedCommand)
@cluster_options()
@click.option(
    "--with", "answers", multiple=True, required=True, callback=_parse_with,
    metavar="NAME=VALUE", help="One more answer, in which this differs; with commas between them, "
    f"several at once. Names: {', '.join(COMPARED_SETTINGS)}; a setting of topics is given to all.",
)
@failure_options()
@scenario_options()
@setting_option()
@threads_option()
@top_option("partitions or scenarios that differ")
@output_options(COMPARE_TABLES, {**FAILURE_METRICS, **SWEEP_COUNTS})
def compare_command(
    sources: Inputs, answers: Sequence[Mapping[str, object]], brokers: Sequence[int],
    racks: Sequence[str], controlled: bool, order: Sequence[int], threads: int, top: int,
    **options: Any,
) -> None:
    r"""Compare what several controllers, or several settings, make of one failure or one sweep.

    The first answer is for the cluster as it is; each --with adds one. What would eligible leader
    replicas save? What does a migration to KRaft change? A condition of --fail-on is tested for
    each answer.

    \b
    Examples:
      kfast compare describe.txt --brokers 3,7 --with elr=on --with elr=off
      kfast compare describe.txt --brokers 3 --with controller=zk-3.9,min.insync.replicas=1
      kfast compare __cluster_metadata-0 --every 2 --with elr=off
    """
    destination = Destination.of(options, COMPARE_TABLES)
    steps, make = take_steps(options), take_scenarios(options)
    fails = bool(brokers or racks)
    if fails == (make is not None):
        raise ArgumentError(f"give the brokers that fail (--brokers, --racks), or {KINDS}")
    if make is not None and (steps or controlled or order):
        raise ArgumentError("--then, --then-start, --controlled and --order go with --brokers")
    metrics = FAILURE_METRICS if make is None else SWEEP_COUNTS
    wrong = [one.text for one in destination.conditions if one.metric not in metrics]
    if wrong:
        kind = "a failure" if make is None else "a sweep"
        raise ArgumentError(f"--fail-on {wrong[0]}: {kind} has the metrics {', '.join(metrics)}")
    state = take_cluster(sources, options)
    with progress_bar("Comparing"):
        if make is None:
            failing, notes = select_brokers(state, brokers, racks, input_text(sources))
            comparison = compare(
                state, failing, settings=answers, controlled=controlled, then=steps,
                order=order or None, threads=threads,
            )
            answer = comparison_answer(
                input_text(sources), state, comparison, racks=racks, notes=notes, top=top
            )
        else:
            title, scenarios = make(state)
            comparison = compare(state, settings=answers, scenarios=scenarios, threads=threads)
            answer = comparison_answer(input_text(sources), state, comparison, title=title, top=top)
    destination.write(answer)
