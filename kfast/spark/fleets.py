"""One question for many clusters: a row per cluster and scenario.

A task gets the names of some exports, the largest apart, and a huge one is shared by several tasks,
each with a part of its scenarios. An export that cannot be read is a row that says why.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from kfast import scenarios as makers
from kfast.errors import ArgumentError, InputError, KfastError
from kfast.io import read
from kfast.scenarios import Scenarios
from kfast.spark.dataset import over_hands
from kfast.spark.paths import deal_sizes, find_files
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, prepare_sweep, sweep_reader, sweep_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Exports", "Question", "check_question", "fleet", "fleet_schema", "labelled", "make_scenarios",
]

Question: TypeAlias = str | tuple[str, Mapping[str, Any]] | Callable[[ClusterState], Scenarios]

SHARED_BYTES = 32 << 20
"""Exports larger than this are shared by several tasks."""

MAKERS = (
    "bursts", "every_broker", "every_rack", "every_rack_and_broker", "independent_brokers",
    "independent_racks", "random_brokers",
)


@dataclass(frozen=True)
class Exports:
    """How exports are read.

    Attributes
    ----------
    defaults : mapping
        As for `kfast.read`.
    brokers_name : str
        A file of this name beside an export says where its brokers are (`brokers_file`).
    """

    defaults: Mapping[str, object]
    brokers_name: str

    def read(self, name: str) -> ClusterState:
        """Read one export."""
        beside = Path(name).parent / self.brokers_name
        return read(
            name, brokers_file=beside if beside.is_file() else None, defaults=self.defaults
        )


@dataclass(frozen=True)
class _Work:
    """All that a task must know; a unit is a file, and which of how many parts of its scenarios."""

    hands: tuple[tuple[tuple[str, int, int], ...], ...]
    exports: Exports
    question: Question
    counts: tuple[str, ...]
    vectors: str | None


def make_scenarios(question: Question, state: ClusterState) -> Scenarios:
    """Make the scenarios that a question means for this cluster."""
    if callable(question):
        return question(state)
    name, arguments = check_question(question)
    made: Scenarios = getattr(makers, name)(state, **arguments)
    return made


def check_question(question: str | tuple[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """Refuse what no cluster can be asked; give the maker's name and its arguments."""
    name, arguments = (question, {}) if isinstance(question, str) else question
    if name not in MAKERS:
        raise ArgumentError(f"scenarios {name!r} are unknown; allowed: {', '.join(MAKERS)}")
    signature = inspect.signature(getattr(makers, name))
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise ArgumentError(
            f"scenarios {name}: {error}; its arguments are {known or 'none'}"
        ) from error
    return name, arguments


def fleet_schema(counts: Collection[str]) -> pa.Schema:
    """Columns of a fleet's rows."""
    fields = [
        pa.field("source", pa.string()), pa.field("error", pa.string()),
        pa.field("partitions", pa.int64()), pa.field("brokers", pa.list_(pa.int32())),
    ]
    return pa.schema([*fields, *sweep_schema(counts)])


def fleet(
    spark: SparkSession,
    exports: str | Path | DataFrame,
    scenarios: Question,
    *,
    counts: Collection[str] = tuple(SWEEP_COUNTS),
    vectors: str | None = None,
    defaults: Mapping[str, object] | None = None,
    brokers_name: str = "brokers.csv",
    tasks: int | None = None,
) -> DataFrame:
    """Count what scenarios would do to each of many clusters.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. Driver and workers must see the files under the same names.
    exports : path or DataFrame
        A folder or glob of files that `kfast.read` reads, or a DataFrame with a column `path`.
    scenarios : str, (str, mapping) or callable
        Name of a maker of scenarios, as "every_rack", with its arguments, as
        `("random_brokers", {"k": 2, "n": 1000, "seed": 1})`; or a function of a ClusterState from
        an installed module.
    counts, vectors
        As for `kfast.sweep`.
    defaults : mapping, optional
        As for `kfast.read`.
    brokers_name : str
        A file of this name is no export; it says where the brokers of the exports beside it are.
    tasks : int, optional
        At most so many tasks. The rows do not depend on it.

    Returns
    -------
    DataFrame
        source, error, partitions (how many), brokers (ids of those that fail), and the columns of
        `kfast.sweep`, in no order. Where `error` says why an export cannot be read, or has no such
        scenarios, all else is null.

    Raises
    ------
    ArgumentError, InputError
        The scenarios or counts are unknown; there are no files.
    """
    asked = tuple(name for name in SWEEP_COUNTS if name in set(counts))
    if isinstance(counts, str) or len(asked) != len(set(counts)):
        raise ArgumentError(f"counts is {counts!r}; allowed are some of {', '.join(SWEEP_COUNTS)}")
    if not callable(scenarios):
        check_question(scenarios)
    files = [name for name in _files_of(exports) if Path(name).name != brokers_name]
    if not files:
        raise InputError(f"there are no exports besides {brokers_name}")
    hands = _share_out(files, tasks)
    work = _Work(hands, Exports(dict(defaults or {}), brokers_name), scenarios, asked, vectors)
    return over_hands(spark, len(hands), partial(_answer_hand, work), fleet_schema(asked))


def _files_of(exports: str | Path | DataFrame) -> list[str]:
    if isinstance(exports, (str, Path)):
        return find_files(exports)
    if "path" not in exports.columns:
        raise ArgumentError(
            f"the DataFrame has the columns {', '.join(exports.columns)}; right is a column path"
        )
    paths = exports.select("path").distinct().toArrow()["path"].to_pylist()
    return sorted(str(path).removeprefix("file:") for path in paths)


def _share_out(
    files: Collection[str], tasks: int | None
) -> tuple[tuple[tuple[str, int, int], ...], ...]:
    """Deal files, or parts of huge ones, to tasks."""
    units: dict[tuple[str, int, int], int] = {}
    for name in files:
        path = Path(name)
        size = path.stat().st_size if path.is_file() else 0
        parts = max(1, math.ceil(size / SHARED_BYTES))
        units.update({(name, part, parts): size // parts for part in range(parts)})
    n = tasks if tasks is not None else max(min(len(units), 16), sum(units.values()) >> 25)
    return tuple(tuple(hand) for hand in deal_sizes(units, n))


def _answer_hand(work: _Work, hand: int) -> Iterator[pa.RecordBatch]:
    for name, part, parts in work.hands[hand]:
        try:
            yield from _answer(work, name, part, parts)
        except KfastError as error:
            if part == 0:
                row = {"source": name, "error": str(error)}
                yield pa.RecordBatch.from_pylist([row], schema=fleet_schema(work.counts))


def _answer(work: _Work, name: str, part: int, parts: int) -> Iterator[pa.RecordBatch]:
    """Rows of one export, or of a part of its scenarios."""
    state = work.exports.read(name)
    whole = make_scenarios(work.question, state)
    n = len(whole)
    start, stop = n * part // parts, n * (part + 1) // parts
    mine = whole.slice(whole.start + start, whole.start + stop)
    with sweep_reader(
        prepare_sweep(state), mine, counts=work.counts, vectors=work.vectors
    ) as reader:
        for batch in reader:
            yield labelled(batch, name, state, mine, work.counts)


def labelled(
    batch: pa.RecordBatch, name: str, state: ClusterState, scenarios: Scenarios,
    counts: Collection[str],
) -> pa.RecordBatch:
    """A batch of a sweep with the columns of a fleet before its own."""
    rows = batch.num_rows
    numbers = batch.column("scenario").to_numpy()
    start = int(numbers[0]) if rows else scenarios.start
    offsets, down = scenarios.down(start, start + rows)
    brokers = pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), pa.array(state.broker_id[down])
    )
    columns = [
        pa.repeat(pa.scalar(name, pa.string()), rows), pa.nulls(rows, pa.string()),
        pa.array(np.full(rows, state.n_partitions, np.int64)), brokers, *batch.columns,
    ]
    return pa.record_batch(columns, schema=fleet_schema(counts))
