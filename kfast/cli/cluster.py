"""The commands that show a cluster and what failures do to it: `kfast show`, `kfast fail`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from kfast.analysis.broker_failure import fail_brokers
from kfast.analysis.explain import explain
from kfast.analysis.impact import CHANGE_METRICS
from kfast.cli.inputs import take_cluster
from kfast.cli.options import (
    broker_ids,
    broker_option,
    cluster_options,
    controller_option,
    list_option,
    lists_option,
    names,
    output_options,
    setting_option,
    threads_option,
    top_option,
    topic_partitions,
    verbose_option,
)
from kfast.cli.output import Destination, busy
from kfast.errors import ArgumentError
from kfast.report.cluster import cluster_answer
from kfast.report.failure import failure_answer
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS, take_census

__all__ = ["fail", "show"]

SHOW_TABLES = ("partitions", "topics", "brokers")
FAIL_TABLES = ("partitions", "topics", "brokers", "requests")
STEPS = {"then": "fail", "then_start": "start"}
"""Options that are steps, and the kind of each."""


@click.command()
@cluster_options()
@lists_option()
@top_option("topics")
@verbose_option()
@output_options(SHOW_TABLES, CENSUS_METRICS)
def show(source: str, lists: Sequence[str], top: int, verbose: bool, **options: Any) -> None:
    r"""Show a cluster as it is: what is offline, refuses acks=all or is under-replicated.

    INPUT is a describe text, a reassignment plan (JSON), an Arrow or a Parquet file; - is standard
    input. Text may be packed with gzip or zstd.

    \b
    Examples:
      kfast show describe.txt
      kfast show describe.txt --list under-min-isr
      kfast show describe.txt --brokers-file brokers.csv --format json
      kafka-topics.sh ... --describe | kfast show - --fail-on 'under_replicated>0'
    """
    destination = Destination.take(options, SHOW_TABLES)
    state = take_cluster(source, options)
    census = take_census(state)
    destination.give(cluster_answer(source, state, census, top=top, lists=lists, verbose=verbose))


class FailCommand(click.Command):
    """`kfast fail`, whose steps count in the order in which they are given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; the order of the steps goes into `ctx.meta`."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta["steps"] = [parameter.name for parameter in order if parameter.name in STEPS]
        return super().parse_args(ctx, args)


@click.command(cls=FailCommand)
@cluster_options()
@broker_option("Brokers that fail: 3,7 or 4-9.")
@list_option("--racks", parse=names, metavar="NAMES",
             help="Racks all of whose brokers fail: a,b.")
@list_option("--then", parse=broker_ids, metavar="IDS", separate=True,
             help="Brokers that fail later, in a step of their own. May be given more than once; "
             "the answer tells of each step.")
@list_option("--then-start", parse=broker_ids, metavar="IDS", separate=True,
             help="Brokers that are down and start, in a step of their own, and catch up.")
@click.option("--controlled", is_flag=True,
              help="Each broker first asks for its controlled shutdown, one after the other.")
@setting_option()
@list_option("--explain", "explained", parse=topic_partitions, metavar="TOPIC-PARTITION",
             help="Explain step by step why this partition ends as it does.")
@controller_option()
@threads_option()
@lists_option()
@top_option("topics")
@verbose_option()
@output_options(FAIL_TABLES, {**CENSUS_METRICS, **CHANGE_METRICS})
def fail(
    source: str, brokers: Sequence[int], racks: Sequence[str], then: list[tuple[int, ...]],
    then_start: list[tuple[int, ...]], controlled: bool, explained: Sequence[tuple[str, int]],
    profile: str, threads: int, lists: Sequence[str], top: int, verbose: bool, **options: Any,
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
    destination = Destination.take(options, FAIL_TABLES)
    lists_of = {"then": iter(then), "then_start": iter(then_start)}
    order: list[str] = click.get_current_context().meta["steps"]
    steps = [(STEPS[name], next(lists_of[name])) for name in order]
    if explained and destination.tables:
        raise ArgumentError("--explain needs --format table or json")
    if explained and steps:
        raise ArgumentError("--explain is about the first failure: leave out --then")
    if not brokers and not racks:
        raise ArgumentError("give the brokers that fail: --brokers IDS, or --racks NAMES")
    state = take_cluster(source, options)
    failing = [*_failing(source, state, brokers, racks)]
    with busy("Failing brokers"):
        failure = fail_brokers(
            state, failing, controlled=controlled, then=steps, threads=threads, profile=profile
        )
        explanations = explain(
            state, failing, explained, controlled=controlled, profile=profile
        ) if explained else []
        answer = failure_answer(
            source, state, failure, racks=racks, notes=[*_notes(state, racks)],
            explanations=explanations, top=top, lists=lists, verbose=verbose,
        )
    destination.give(answer)


def _failing(
    source: str, state: ClusterState, brokers: Sequence[int], racks: Sequence[str]
) -> Iterator[int]:
    """Ids of the brokers that fail."""
    rack_of = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
    known = sorted({rack for rack in rack_of.values() if rack is not None})
    if racks and not known:
        raise ArgumentError(
            f"{source} has no racks, so --racks cannot be used; supply them with --brokers-file "
            "CSV, a file with the columns broker_id,rack"
        )
    unknown = [rack for rack in racks if rack not in known]
    if unknown:
        raise ArgumentError(
            f"rack {', '.join(unknown)} is unknown; the cluster has racks {', '.join(known)}"
        )
    up = dict(zip(state.broker_id.tolist(), state.registered.tolist(), strict=True))
    off = [broker for broker in brokers if not up.get(broker, True)]
    if off:
        raise ArgumentError(
            f"broker {', '.join(map(str, off))} is down already in {source}, so it cannot fail; "
            f"--up {','.join(map(str, off))} says that it is up"
        )
    inside = [broker for broker, rack in rack_of.items() if rack in racks and up[broker]]
    if not brokers and not inside:
        raise ArgumentError(f"no broker of rack {', '.join(racks)} is up, so none can fail")
    yield from dict.fromkeys([*brokers, *inside])


def _notes(state: ClusterState, racks: Sequence[str]) -> Iterator[str]:
    columns = (state.broker_id.tolist(), state.rack.to_pylist(), state.registered.tolist())
    down = [broker for broker, rack, up in zip(*columns, strict=True) if rack in racks and not up]
    if down:
        yield f"broker {', '.join(map(str, down))} of these racks is down already"
