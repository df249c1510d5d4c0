"""What a cluster is and what happens to it: `kfast show`, `fail`, `reassign`, `delete`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from kfast.analysis.broker_failure import fail_brokers
from kfast.analysis.explain import explain
from kfast.analysis.impact import CHANGE_METRICS, RECORD_METRICS
from kfast.analysis.plan_execution import REASSIGNMENT_METRICS, execute_plan
from kfast.analysis.surprises import stuck_partitions
from kfast.analysis.topic_deletion import DELETION_METRICS, delete_topics
from kfast.analysis.whatif import select_brokers
from kfast.cli.command import ConfiguredCommand, command
from kfast.cli.options import (
    Command,
    InputName,
    Inputs,
    all_options,
    broker_ids,
    broker_option,
    cluster_options,
    input_text,
    list_option,
    lists_option,
    names,
    order_option,
    output_options,
    setting_option,
    take_cluster,
    threads_option,
    top_option,
    topic_partitions,
    verbose_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError
from kfast.io import read_plan
from kfast.report.cluster import SHOW_TABLES, cluster_answer
from kfast.report.deletion import DELETE_TABLES, deletion_answer
from kfast.report.failure import FAIL_TABLES, failure_answer
from kfast.report.reassignment import REASSIGN_TABLES, reassignment_answer
from kfast.state.census import CENSUS_METRICS, ELR_METRICS, take_census

__all__ = [
    "SteppedCommand", "delete", "fail", "failure_options", "reassign", "show", "take_steps",
]

STEPS = {"then": "fail", "then_start": "start"}
"""Options that are steps, and the kind of each."""

Steps = list[tuple[str, tuple[int, ...]]]


@command()
@cluster_options()
@lists_option()
@click.option("--provenance", is_flag=True, help="Show which file gave what.")
@top_option("topics")
@verbose_option()
@output_options(SHOW_TABLES, {**CENSUS_METRICS, **ELR_METRICS})
def show(
    sources: Inputs, lists: Sequence[str], provenance: bool, top: int, verbose: bool,
    **options: Any,
) -> None:
    r"""Show a cluster as it is: what is offline, refuses acks=all or is under-replicated.

    INPUT is the folder __cluster_metadata-0 of a KRaft controller, a snapshot or a segment in it, a
    describe text, a reassignment plan (JSON), an Arrow or a Parquet file; - is standard input. Text
    may be packed with gzip or zstd. Several INPUTs make one cluster: what kafka-configs,
    kafka-broker-api-versions, kafka-log-dirs and other tools print goes beside one that lists the
    partitions.

    Of a KRaft cluster, the partitions that stay offline are listed with the brokers they wait for.

    \b
    Examples:
      kfast show __cluster_metadata-0
      kfast show describe.txt
      kfast show describe.txt --list under-min-isr
      kfast show describe.txt api-versions.txt configs.txt log-dirs.json --provenance
      kfast show describe.txt --brokers-file brokers.csv --format json
      kafka-topics.sh ... --describe | kfast show - --fail-on 'under_replicated>0'
    """
    destination = Destination.of(options, SHOW_TABLES)
    state = take_cluster(sources, options)
    census = take_census(state)
    destination.write(cluster_answer(
        input_text(sources), state, census, stuck_partitions(state), top=top, lists=lists,
        verbose=verbose, provenance=provenance,
    ))


class SteppedCommand(ConfiguredCommand):
    """A command whose steps count in the order in which they are given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; the order of the steps goes into `ctx.meta`."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        steps = [parameter.name for parameter in order if parameter.name in STEPS]
        rest = super().parse_args(ctx, args)
        from_defaults = (name for name in STEPS if name not in steps for _ in ctx.params[name])
        ctx.meta["steps"] = [*steps, *from_defaults]
        return rest


def failure_options() -> Callable[[Command], Command]:
    """Options that say which brokers fail, how, and what happens then."""
    return all_options(
        broker_option("Brokers that fail: 3,7 or 4-9."),
        list_option("--racks", parse=names, metavar="NAMES",
                    help="Racks all of whose brokers fail: a,b."),
        list_option(
            "--then", parse=broker_ids, metavar="IDS", separate=True,
            help="Brokers that fail later, in a step of their own. May be given more than once; "
            "the answer tells of each step.",
        ),
        list_option(
            "--then-start", parse=broker_ids, metavar="IDS", separate=True,
            help="Brokers that are down and start, in a step of their own, and catch up.",
        ),
        click.option(
            "--controlled", is_flag=True,
            help="Each broker first asks for its controlled shutdown, one after the other.",
        ),
        order_option(),
    )


def take_steps(options: dict[str, Any]) -> Steps:
    """Take the later steps of `failure_options` out of a command's options, in their order."""
    lists_of = {name: iter(options.pop(name)) for name in STEPS}
    order: list[str] = click.get_current_context().meta["steps"]
    return [(STEPS[name], next(lists_of[name])) for name in order]


@command(cls=SteppedCommand)
@cluster_options()
@failure_options()
@setting_option()
@list_option("--explain", "explained", parse=topic_partitions, metavar="TOPIC-PARTITION",
             help="Explain step by step why this partition ends as it does.")
@threads_option()
@lists_option()
@top_option("topics")
@verbose_option()
@output_options(
    FAIL_TABLES, {**CENSUS_METRICS, **ELR_METRICS, **CHANGE_METRICS, **RECORD_METRICS}
)
def fail(
    sources: Inputs, brokers: Sequence[int], racks: Sequence[str], controlled: bool,
    order: Sequence[int], explained: Sequence[tuple[str, int]], threads: int, lists: Sequence[str],
    top: int, verbose: bool, **options: Any,
) -> None:
    r"""Fail brokers or racks, and see what goes offline, refuses acks=all, and moves.

    The controller starts on the cluster as it is; then the brokers fail, all at once, and further
    steps follow. "Before" in the answer is after the controller's start, or after the step before.
    A condition of --fail-on is tested after each step.

    \b
    Examples:
      kfast fail describe.txt --brokers 3,7 --list offline
      kfast fail describe.txt --brokers 3 --controlled --explain orders-7
      kfast fail describe.txt --brokers-file brokers.csv --racks a --then 7 --then-start 3
      kfast fail describe.txt --brokers 3 --set '.*:min.insync.replicas=2' \
          --fail-on 'offline>0' --fail-on 'newly_under_min_isr>0'
    """
    destination = Destination.of(options, FAIL_TABLES)
    steps = take_steps(options)
    if explained and destination.tables:
        raise ArgumentError("--explain needs --format table or json")
    if explained and steps:
        raise ArgumentError("--explain is about the first failure: leave out --then")
    if not brokers and not racks:
        raise ArgumentError("give the brokers that fail: --brokers IDS, or --racks NAMES")
    state = take_cluster(sources, options)
    failing, notes = select_brokers(state, brokers, racks, input_text(sources))
    with progress_bar("Failing brokers"):
        failure = fail_brokers(
            state, failing, controlled=controlled, then=steps, threads=threads, order=order or None
        )
        explanations = explain(
            state, failing, explained, controlled=controlled, order=order or None
        ) if explained else []
        answer = failure_answer(
            input_text(sources), state, failure, racks=racks, notes=notes,
            explanations=explanations, top=top, lists=lists, verbose=verbose,
        )
    destination.write(answer)


@command()
@cluster_options()
@click.option(
    "--plan", type=InputName(), metavar="PLAN",
    help="The plan, as kafka-reassign-partitions takes it (JSON) or prints it: of --generate the "
    "proposed plan, of --execute the one for a rollback. Without it, what is being reassigned "
    "in INPUT goes on.",
)
@click.option("--pending", is_flag=True, help="Stop before the new replicas have caught up.")
@broker_option("Brokers that fail while the plan is under way: 3,7.")
@order_option()
@top_option("partitions and topics")
@verbose_option()
@output_options(REASSIGN_TABLES, {
    **CENSUS_METRICS, **ELR_METRICS, **REASSIGNMENT_METRICS, **RECORD_METRICS,
})
def reassign(
    sources: Inputs, plan: str | None, pending: bool, brokers: Sequence[int], order: Sequence[int],
    top: int, verbose: bool, **options: Any,
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
    destination = Destination.of(options, REASSIGN_TABLES)
    state = take_cluster(sources, options)
    requested = {} if plan is None else read_plan(plan)
    if plan is None and not state.n_reassigned:
        raise ArgumentError(
            f"nothing is being reassigned in {input_text(sources)}, so a plan is needed: --plan"
            " PLAN"
        )
    with progress_bar("Reassigning"):
        reassignment = execute_plan(
            state, requested, broker_ids=brokers, pending=pending, order=order or None
        )
        answer = reassignment_answer(
            input_text(sources), plan, state, reassignment, top=top, verbose=verbose
        )
    destination.write(answer)


@command()
@cluster_options()
@list_option("--topics", parse=names, metavar="NAMES", required=True,
             help="Topics to delete: orders,logs.")
@broker_option("Brokers that fail before any broker has deleted anything: 3,7.")
@order_option()
@top_option("topics")
@verbose_option()
@output_options(DELETE_TABLES, {**DELETION_METRICS, **RECORD_METRICS})
def delete(
    sources: Inputs, topics: Sequence[str], brokers: Sequence[int], order: Sequence[int], top: int,
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
    destination = Destination.of(options, DELETE_TABLES)
    state = take_cluster(sources, options)
    with progress_bar("Deleting topics"):
        deletion = delete_topics(state, topics, broker_ids=brokers, order=order or None)
        answer = deletion_answer(
            input_text(sources), state, deletion, topics, top=top, verbose=verbose
        )
    destination.write(answer)
