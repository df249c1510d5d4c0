"""The command that asks how long a rolling restart lasts: `kfast timeline-restart`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from kfast.analysis.replica_sets import live_brokers
from kfast.analysis.restart_plan import restart_plan
from kfast.capacity import CapacityPlan, PartitionLoad, Restoration, broker_capacity
from kfast.capacity import prepare_capacity as prepare
from kfast.capacity.loads.units import parse_rate
from kfast.cli.capacity_options import capacity_file_option, load_options, take_load
from kfast.cli.command import command
from kfast.cli.options import (
    Inputs,
    cluster_options,
    input_text,
    number_option,
    output_options,
    take_cluster,
)
from kfast.cli.output import Destination, progress_bar
from kfast.cli.timeline_options import take_question, time_options
from kfast.errors import ArgumentError
from kfast.io.loads import read_capacity
from kfast.report.timeline_restart import (
    TIMELINE_RESTART_METRICS,
    TIMELINE_RESTART_TABLES,
    timeline_restart_answer,
)
from kfast.state import ClusterState
from kfast.timelines.rolling_restart import timeline_restart

__all__ = ["timeline_restart_command"]

Loads = Callable[[ClusterState], PartitionLoad]


@command("timeline-restart")
@cluster_options()
@click.option("--one-by-one", is_flag=True,
              help="Restart one broker after the other, not in the batches of kfast restart.")
@number_option("--isr-margin", type=click.IntRange(0, 63), default=0,
               help="How many live in-sync replicas above min ISR a batch must leave.")
@click.option("--ignore-topics", metavar="REGEX",
              help="Topics whose whole name matches put no bound on batches.")
@click.option("--ignore-rf1", is_flag=True,
              help="Partitions with one replica put no bound on batches.")
@click.option("--by-rack", is_flag=True, help="Each batch is within one rack.")
@click.option("--settle", default="0s", show_default=True, metavar="TIME",
              help="Between a batch that is in sync and the next one: 2min.")
@load_options()
@capacity_file_option(required=False)
@click.option("--throttle", metavar="RATE",
              help="With --capacity: what each broker may send and receive for copies, 60MB/s.")
@time_options("Seed of the draws.", failures=False)
@output_options(TIMELINE_RESTART_TABLES, TIMELINE_RESTART_METRICS)
def timeline_restart_command(
    sources: Inputs, one_by_one: bool, isr_margin: int, ignore_topics: str | None,
    ignore_rf1: bool, by_rack: bool, settle: str, capacity_file: Path | None,
    throttle: str | None, **options: Any,
) -> None:
    r"""Time a rolling restart, batch after batch, and what it costs partitions.

    All live brokers of INPUT restart in the batches of kfast restart; those of a batch ask for
    their controlled shutdown together, and the next one begins when they are back in every ISR.
    In ZooKeeper mode the batch of the controller is the last. With --load and --capacity what
    brokers lack when they return has to be copied.

    \b
    Examples:
      kfast timeline-restart describe.txt --settle 2min
      kfast timeline-restart describe.txt --one-by-one --param boot=30s,20s,60s
      kfast timeline-restart describe.txt --load loads.csv --capacity capacities.csv
      kfast timeline-restart describe.txt --fail-on 'duration_us>600000000'
    """
    destination = Destination.of(options, TIMELINE_RESTART_TABLES)
    question, make_load = take_question(options), take_load(options)
    if (make_load is None) != (capacity_file is None):
        raise ArgumentError("--load and --capacity go together: what brokers lack, and how fast")
    if throttle is not None and capacity_file is None:
        raise ArgumentError("--throttle goes with --capacity")
    planned = {"--isr-margin": isr_margin, "--ignore-topics": ignore_topics,
               "--ignore-rf1": ignore_rf1, "--by-rack": by_rack}
    wrong = [name for name, given in planned.items() if given and one_by_one]
    if wrong:
        raise ArgumentError(f"{wrong[0]} goes without --one-by-one")
    rate = None if throttle is None else parse_rate("--throttle", throttle)
    state = take_cluster(sources, options)
    capacity = _capacity(state, make_load, capacity_file)
    with progress_bar("Timing the restart"):
        plan = restart_plan(
            state, isr_margin, by_rack, ignore_topics=ignore_topics, ignore_rf1=ignore_rf1,
        ) if not one_by_one else _one_by_one(state)
        found = timeline_restart(
            state, plan, settle=settle, capacity=capacity,
            restore=None if rate is None else Restoration(
                leader_throttle=rate, follower_throttle=rate),
            **question,
        )
    destination.write(timeline_restart_answer(input_text(sources), found))


def _one_by_one(state: ClusterState) -> list[list[int]]:
    """Each live broker by itself, by ascending id, in ZooKeeper mode the controller last."""
    ids = state.broker_id[live_brokers(state)]
    last = (ids == state.controller_id) & (not state.is_kraft)
    return [[int(one)] for one in ids[np.argsort(last, kind="stable")]]


def _capacity(
    state: ClusterState, make_load: Loads | None, file: Path | None
) -> CapacityPlan | None:
    if make_load is None or file is None:
        return None
    return prepare(state, make_load(state), broker_capacity(state, read_capacity(file)))
