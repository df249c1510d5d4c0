"""The pipeline as a job: exports in, tables, sweeps, summaries and alerts out.

A task takes the names of some exports and makes the results of each (`kfast.spark.snapshots`). What
is there already is left alone, so a run after new exports came does only these, and a run after a
kill does only what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from kfast.errors import ArgumentError, InputError
from kfast.schema import PIPELINE_RUN
from kfast.spark.dataset import TASK_BYTES
from kfast.spark.paths import check_tasks, deal, find_files, folder_with
from kfast.spark.questions import check_question
from kfast.spark.snapshots import Job, label_of, run_snapshot
from kfast.spark.tasks import over_hands
from kfast.spark.workers import collect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["find_exports", "run_pipeline"]

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
DONE = PIPELINE_RUN.schema


def find_exports(where: str | Path, job: Job) -> list[str]:
    """Exports of a folder or glob, once it is clear that the job can be done.

    Raises
    ------
    InputError
        There are none, or two are of one cluster and time.
    ArgumentError
        A sweep or its name cannot be, two have one name, or the results would lie among the
        exports.
    """
    _check(job)
    files = [f for f in find_files(where) if Path(f).name != job.exports.brokers_name]
    if not files:
        raise InputError(f"{where}: there is nothing but {job.exports.brokers_name}")
    output = Path(job.output).absolute()
    root = folder_with(output, where)
    if root is not None:
        raise ArgumentError(
            f"output {output} lies in {root}, so results would be taken for exports"
        )
    seen: dict[tuple[str, str], str] = {}
    for name in files:
        if output in Path(name).absolute().parents:
            raise ArgumentError(f"output {output} holds the export {name}")
        label = label_of(name)
        if label in seen:
            raise InputError(
                f"{seen[label]} and {name} are both cluster {label[0]} at {label[1]}: the folder"
                " names the cluster, and the file's name up to the first dot the time"
            )
        seen[label] = name
    return files


def _check(job: Job) -> None:
    """Refuse what would be wrong for every export."""
    names = [sweep.name for sweep in job.sweeps]
    if len(set(names)) != len(names):
        raise ArgumentError(f"two sweeps have one name: {', '.join(names)}")
    for sweep in job.sweeps:
        if not _NAME.fullmatch(sweep.name):
            raise ArgumentError(
                f"sweep {sweep.name!r}: a name is a letter or digit, then these and _ - ."
            )
        check_question(sweep.question)
    job.exports.checked()


def run_pipeline(
    spark: SparkSession, where: str | Path, job: Job, *, tasks: int | None = None
) -> pa.Table:
    """Make the results of every export that has none yet.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. Driver and workers must see the files under the same names.
    where : path
        Folder or glob of exports.
    job : Job
    tasks : int, optional
        At most so many tasks. The results do not depend on it.

    Returns
    -------
    pa.Table
        One row per export (`schema.PIPELINE_RUN`): cluster, captured, source, fresh (whether it was
        done in this run), error, alerts (a line for each condition that holds), digest (of the
        state, in hexadecimal).

    Raises
    ------
    InputError, ArgumentError
        As `find_exports`.
    """
    check_tasks(tasks)
    files = find_exports(where, job)
    size = sum(Path(name).stat().st_size for name in files)
    n = tasks if tasks is not None else max(min(len(files), 16), size // TASK_BYTES)
    hands = deal(files, n)
    run = partial(_run_hand, job, hands)
    done = collect(over_hands(spark, len(hands), run, DONE))
    return done.sort_by([("cluster", "ascending"), ("captured", "ascending")]).combine_chunks()


def _run_hand(job: Job, hands: list[list[str]], hand: int) -> Iterator[pa.RecordBatch]:
    for name in hands[hand]:
        yield pa.RecordBatch.from_pylist([run_snapshot(job, name)], schema=DONE)
