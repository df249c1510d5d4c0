"""The commands that ask the controller for something: `kfast reassign`, `kfast delete`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kfast.census import CENSUS_METRICS
from kfast.changes import DELETION_METRICS, REASSIGNMENT_METRICS, delete_topics, execute_plan
from kfast.cli import documents
from kfast.cli.inputs import read_cluster
from kfast.cli.options import (
    Condition,
    broker_ids,
    input_options,
    names,
    profile_option,
    report_options,
)
from kfast.cli.output import Answer, busy, check_conditions, check_output
from kfast.io import read_plan

__all__ = ["delete", "reassign"]


def _failing_option(when: str) -> Callable[[Any], Any]:
    return click.option(
        "--brokers", type=broker_ids, metavar="IDS", help=f"Brokers that fail {when}: 3,7."
    )


@click.command()
@input_options()
@click.option(
    "--plan",
    metavar="PLAN",
    help="The plan, as kafka-reassign-partitions takes it (JSON) or prints it: of --generate the "
    "proposed plan, of --execute the one for a rollback. Without it, what is being reassigned "
    "in INPUT goes on.",
)
@click.option(
    "--pending",
    is_flag=True,
    help="Show the cluster before the new replicas have caught up.",
)
@_failing_option("while the plan is under way")
@profile_option()
@report_options({**CENSUS_METRICS, **REASSIGNMENT_METRICS})
def reassign(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    plan: str | None,
    pending: bool,
    brokers: tuple[int, ...] | None,
    profile: str,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say what a reassignment plan does to the cluster that INPUT describes.

    The controller starts on the cluster as it is, and is asked for the plan. Then the new replicas
    on live brokers catch up, so that the reassignment of their partitions completes. What waits
    for a broker that is down stays pending.

    \b
    Examples:
      kfast reassign describe.txt --plan plan.json
      kfast reassign describe.txt --plan plan.json --pending
      kfast reassign describe.txt --plan plan.json --brokers 3 --fail-on 'pending>0'
    """
    from kfast.cli.report_changes import draw_reassignment

    kind = check_output(kind, output)
    if source == plan == "-":
        raise click.UsageError("INPUT and --plan cannot both be standard input")
    state = read_cluster(source, brokers_file, defaults, up)
    asked = {} if plan is None else read_plan(plan)
    if plan is None and not state.n_reassigned:
        raise click.UsageError(
            f"nothing is being reassigned in {source}, so a plan is needed: --plan PLAN"
        )
    with busy("Reassigning"):
        found = execute_plan(
            state, asked, broker_ids=brokers or (), pending=pending, profile=profile
        )
    document = documents.reassignment_document(source, plan, state, found, top, conditions)
    Answer(document, draw_reassignment, lambda: found.partitions).give(kind, output)
    check_conditions(conditions, document["summary"])


@click.command()
@input_options()
@click.option(
    "--topics", type=names, required=True, metavar="NAMES", help="Topics to delete: orders,logs."
)
@_failing_option("before any broker has deleted anything")
@profile_option()
@report_options(DELETION_METRICS)
def delete(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    topics: tuple[str, ...],
    brokers: tuple[int, ...] | None,
    profile: str,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say what deleting topics does to the cluster that INPUT describes.

    The controller starts on the cluster as it is, and the topics are marked for deletion. Live
    brokers delete what they are told to delete, and say so. A topic with a replica on a broker that
    is down waits for it.

    \b
    Examples:
      kfast delete describe.txt --topics orders,logs
      kfast delete describe.txt --topics orders --brokers 3 --fail-on 'topics_waiting>0'
    """
    from kfast.cli.report_changes import draw_deletion

    kind = check_output(kind, output)
    state = read_cluster(source, brokers_file, defaults, up)
    with busy("Deleting topics"):
        found = delete_topics(state, topics, broker_ids=brokers or (), profile=profile)
    document = documents.deletion_document(source, state, found, topics, top, conditions)
    Answer(document, draw_deletion, lambda: found.topics).give(kind, output)
    check_conditions(conditions, document["summary"])
