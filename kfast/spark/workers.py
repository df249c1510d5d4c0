"""Functions that run in Spark's workers, which refuse in one line where their kfast is another.

A worker that cannot import kfast, or has another, would fail with a bare `ModuleNotFoundError`, or
give other rows without an error. So all that is sent is packed: a function that is pickled by value
looks for kfast before anything else of kfast is unpickled.

Workers import this module for every task, so it needs as little as can be.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema

from kfast import __version__
from kfast.errors import KfastError
from kfast.state.build import build_digest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "TASK_SECONDS", "SentToWorkers", "check_workers", "collect", "count_tasks", "for_workers",
    "gather", "run_tasks",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Run: TypeAlias = Callable[[int], Iterator[pa.RecordBatch]]
Answer = TypeVar("Answer")

EMPTY_TASK_SECONDS = 0.06
"""What a task costs a core whatever it does, as measured (`docs/scale.md`, What things cost)."""

SHORT_SECONDS = 8 * EMPTY_TASK_SECONDS
"""Work for less time than this is not divided among tasks."""

TASK_SECONDS = 2.0
"""How long a task should last, if there is work for that."""

FEWEST_TASKS = 8
"""Up to so many tasks are made of less work than a task should have, as long as it is not short."""

_REFUSAL = re.compile(r"the Python of Spark's workers \(.*")
"""How the line begins with which a worker refuses."""

PIECE_BYTES = 32 << 20
"""What one row carries of an answer: a cell of the JVM holds less than 2 GiB."""

CODEC = "zstd"
"""Answers are packed: sums by broker have many zeros, and the driver takes no more than
`spark.driver.maxResultSize`."""

_ANSWER = pa.schema([
    ("task", pa.int32()), ("piece", pa.int32()), ("size", pa.int64()), ("packed", pa.binary()),
])
"""A piece of an answer, and how many bytes all of it has unpacked."""


def for_workers(function: Function) -> Function:
    """Pack a function of positional arguments so that a worker without this kfast refuses it."""
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    version, build, pickled = __version__, build_digest(), dumps(function)

    def call(*arguments: Any) -> Any:
        import pickle
        import platform
        import sys

        worker = f"the Python of Spark's workers ({sys.executable} on {platform.node()})"
        remedy = (
            f"install kfast {version} there as a wheel or an archive (--py-files carries no "
            "compiled code), or name a Python that has it in PYSPARK_PYTHON before the session "
            "starts"
        )
        try:
            import kfast

            worker_build = kfast.__version__, getattr(kfast, "build_digest", lambda: "unknown")()
        except ImportError as error:
            raise ImportError(f"{worker} cannot import kfast: {error}; {remedy}") from error
        if worker_build == (version, build):
            return pickle.loads(pickled)(*arguments)
        raise kfast.KfastError(
            f"{worker} has kfast {worker_build[0]} (build {worker_build[1]}), the driver kfast "
            f"{version} (build {build}), and their rows may differ; {remedy}"
        )

    return cast(Function, call)


class SentToWorkers:
    """What Spark itself pickles, as readers of the data source; it is packed likewise."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return for_workers(partial(_restore, type(self), self.__dict__)), ()


def _restore(kind: type, attributes: dict[str, Any]) -> Any:
    restored: Any = object.__new__(kind)
    restored.__dict__.update(attributes)
    return restored


def count_tasks(seconds: float, task_seconds: float = TASK_SECONDS) -> int:
    """How many tasks so much work is worth, if each should last so long at most."""
    enough = min(FEWEST_TASKS, int(seconds / SHORT_SECONDS))
    return max(1, enough, math.ceil(seconds / task_seconds))


def run_tasks(spark: SparkSession, n: int, run: Run, schema: pa.Schema) -> DataFrame:
    """Run a function of the numbers 0 to n - 1, one task for each; it gives batches."""
    each = for_workers(partial(_run_each, run))
    return spark.range(0, n, 1, n).mapInArrow(each, from_arrow_schema(schema))


def _run_each(run: Run, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from run(number)


def gather(spark: SparkSession, n: int, run: Callable[[int], Answer]) -> list[Answer]:
    """Run a function of the numbers 0 to n - 1 in as many tasks; what it returns, in order.

    Raises
    ------
    KfastError
        What it raised in the first of the tasks that did.
    """
    rows = collect(run_tasks(spark, n, partial(_answer, run), _ANSWER))
    rows = rows.sort_by([("task", "ascending"), ("piece", "ascending")])
    pieces: dict[tuple[int, int], list[bytes]] = {}
    for task, size, piece in zip(*(column.to_pylist() for column in rows.drop_columns("piece")),
                                 strict=True):
        pieces.setdefault((task, size), []).append(piece)
    answers = []
    for (_, size), of_task in pieces.items():
        answer = pickle.loads(pa.decompress(b"".join(of_task), size, CODEC))
        if isinstance(answer, _WorkerError):
            raise answer.error
        answers.append(answer)
    return answers


@dataclass(frozen=True)
class _WorkerError:
    """What a function raised in a worker."""

    error: KfastError


def _answer(run: Callable[[int], object], task: int) -> Iterator[pa.RecordBatch]:
    answer: object
    try:
        answer = run(task)
    except KfastError as error:
        answer = _WorkerError(error)
    pickled = pickle.dumps(answer)
    packed = pa.compress(pickled, CODEC, asbytes=True)
    for piece, start in enumerate(range(0, len(packed), PIECE_BYTES)):
        row = {"task": task, "piece": piece, "size": len(pickled),
               "packed": packed[start : start + PIECE_BYTES]}
        yield pa.RecordBatch.from_pylist([row], schema=_ANSWER)


def collect(frame: DataFrame) -> pa.Table:
    """Run a job of kfast's own, and bring its rows to the driver; a worker may refuse it."""
    try:
        return frame.toArrow()
    except PySparkException as error:
        refusal = _REFUSAL.search(str(error))
        if refusal is None:
            raise
        raise KfastError(refusal[0]) from error


def check_workers(spark: SparkSession) -> None:
    """Run one task, to learn whether the Python of the workers has this kfast.

    Every function of kfast finds that out by itself; `spark.read.format("kfast")` says no more than
    DATA_SOURCE_NOT_FOUND where it has none.

    Raises
    ------
    KfastError
        It has no kfast, or another.
    """
    gather(spark, 1, abs)
