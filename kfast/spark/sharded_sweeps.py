"""Sweeps of a cluster that lies in many files: each task makes the plan of its shards.

A plan knows nothing of a partition but the order of its brokers, so those of all shards together
are that of the cluster: the driver joins them (24 bytes for a partition of three replicas), and the
sweep goes on as that of one file.

Source: docs/controller.md, section 6.1: the controller's start is local to a partition.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kfast.spark.dataset import check_topics, digest_names, inspect_files
from kfast.spark.paths import ENDS, absolute, find_files
from kfast.spark.sharded import check_deletions
from kfast.spark.sharded_tasks import Run
from kfast.spark.sweep_tasks import without_cluster
from kfast.spark.workers import gather
from kfast.state import ClusterState
from kfast.state.flat_table import place_topics
from kfast.sweeps import SweepPlan, prepare_sweep
from kfast.sweeps.sweep_plan import join_plans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_dataset", "prepare_dataset"]

TEXT = ".txt"
"""End of the names of describe texts."""


def is_dataset(path: str | Path) -> bool:
    """Whether a path is a folder or glob of shards, and no file or metadata log."""
    return not absolute(path).is_file() and any(
        Path(name).suffix.lower() in (*ENDS, TEXT) for name in find_files(path, required=False)
    )


def prepare_dataset(spark: SparkSession, dataset: str | Path) -> SweepPlan:
    """Make a cluster that lies in many files ready for sweeps; it has no single partitions.

    Raises
    ------
    ArgumentError
        As `kfast.prepare_sweep`.
    InputError
        The files are not shards of one cluster, or topics in two of them are being deleted.
    """
    shards = inspect_files(spark, dataset)
    brokers = ClusterState.from_tables(shards.brokers, None, None, shards.cluster)
    run: Run[Any] = Run(shards, (), "off", None, None, "")
    parts = gather(spark, len(shards.shares), partial(_plan_shards, run))
    answers = sorted((one for part in parts for one in part), key=lambda one: one[0])
    check_topics(shards.files, [topics for _, topics, _, _ in answers])
    check_deletions(shards.files, [number for number, _, deleting, _ in answers if deleting])
    return join_plans(prepare_sweep(brokers), [plan for *_, plan in answers])


def _plan_shards(run: Run[Any], task: int) -> list[tuple[int, bytes, bool, SweepPlan]]:
    """Of each shard of a task its number, its topics, whether some are being deleted, its plan."""
    return [
        (
            number, digest_names(place_topics(state)[0]).tobytes(),
            bool(state.any_queued and state.delete_topic_enabled),
            without_cluster(prepare_sweep(state)),
        )
        for number, state in run.load_shards(task)
    ]
