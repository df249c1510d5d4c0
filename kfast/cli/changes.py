"""The commands that ask the controller for something: `kfast reassign`, `kfast delete`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kfast.analysis.plan_execution import REASSIGNMENT_METRICS, execute_plan
from kfast.analysis.topic_deletion import DELETION_METRICS, delete_topics
from kfast.cli.inputs import take_cluster
from kfast.cli.options import (
    broker_option,
    cluster_options,
    controller_option,
    list_option,
    names,
    output_options,
    top_option,
    verbose_option,
)
from kfast.cli.output import Destination, busy
from kfast.errors import ArgumentError
from kfast.io import read_plan
from kfast.report.deletion import deletion_answer
from kfast.report.reassignment import reassignment_answer
from kfast.state.census import CENSUS_METRICS

__all__ = ["delete", "reassign"]

REASSIGN_TABLES = ("partitions", "topics", "brokers", "requests")
DELETE_TABLES = ("topics", "brokers", "requests")


@click.command()
@cluster_options()
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
    help="Stop before the new replicas have caught up.",
)
@broker_option("Brokers that fail while the plan is under way: 3,7.")
@controller_option()
@top_option("partitions and topics")
@verbose_option()
@output_options(REASSIGN_TABLES, {**CENSUS_METRICS, **REASSIGNMENT_METRICS})
def reassign(
    source: str, plan: str | None, pending: bool, brokers: Sequence[int], profile: str, top: int,
    verbose: bool, **options: Any,
) -> None:
    r"""Check whether a reassignment plan is safe, and see what it moves.

    The controller starts on the cluster as it is, and is asked for the plan. Then the new replicas
    on live brokers catch up, so that the reassignment of their partitions completes. What waits
    for a broker that is down stays pending.

    The plan is SAFE if none of it is refused, all of it completes, no partition goes offline or
    falls under min ISR on the way or in the end, and no leader is elected outside the ISR.

    \b
    Examples:
      kfast reassign describe.txt --plan plan.json
      kfast reassign describe.txt --plan plan.json --brokers 3 --fail-on 'pending>0'
      kfast reassign describe.txt --plan onto-113.json --add-brokers 113:rack=b
    """
    destination = Destination.take(options, REASSIGN_TABLES)
    if source == plan == "-":
        raise ArgumentError("INPUT and --plan cannot both be standard input")
    state = take_cluster(source, options)
    requested = {} if plan is None else read_plan(plan)
    if plan is None and not state.n_reassigned:
        raise ArgumentError(
            f"nothing is being reassigned in {source}, so a plan is needed: --plan PLAN"
        )
    with busy("Reassigning"):
        found = execute_plan(
            state, requested, broker_ids=brokers, pending=pending, profile=profile
        )
        answer = reassignment_answer(source, plan, state, found, top=top, verbose=verbose)
    destination.give(answer)


@click.command()
@cluster_options()
@list_option("--topics", parse=names, metavar="NAMES", required=True,
             help="Topics to delete: orders,logs.")
@broker_option("Brokers that fail before any broker has deleted anything: 3,7.")
@controller_option()
@top_option("topics")
@verbose_option()
@output_options(DELETE_TABLES, DELETION_METRICS)
def delete(
    source: str, topics: Sequence[str], brokers: Sequence[int], profile: str, top: int,
    verbose: bool, **options: Any,
) -> None:
    r"""Check whether topics can be deleted, and see what their deletion does.

    The controller starts on the cluster as it is, and the topics are marked for deletion. Live
    brokers delete what they are told to delete, and say so. A topic with a replica on a broker that
    is down waits for it.

    The deletion is SAFE if every topic is deleted, and no partition of another one goes offline or
    falls under min ISR meanwhile.

    \b
    Examples:
      kfast delete describe.txt --topics orders,logs
      kfast delete describe.txt --topics orders --brokers 3 --fail-on 'topics_waiting>0'
    """
    destination = Destination.take(options, DELETE_TABLES)
    state = take_cluster(source, options)
    with busy("Deleting topics"):
        found = delete_topics(state, topics, broker_ids=brokers, profile=profile)
        answer = deletion_answer(source, state, found, topics, top=top, verbose=verbose)
    destination.give(answer)
