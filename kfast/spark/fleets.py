"""One question for many clusters: a row per cluster and scenario.

A task gets some exports, dealt by the work that they are thought to be: a huge one has a task for
itself, which starts first, and tiny ones share. Where the scenarios are many, several tasks share a
cluster. An export that cannot be read is a row that says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from kfast import schema
from kfast.arguments import shown
from kfast.errors import ArgumentError, InputError, KfastError
from kfast.io import SourceTables, read
from kfast.io.source_tables import add_defaults
from kfast.schema import FLEET, SWEEP
from kfast.spark.columns import spark_schema
from kfast.spark.contents import dealt
from kfast.spark.paths import about_partitions, check_tasks, deal_sizes, find_files
from kfast.spark.questions import (
    Question,
    check_question,
    make_scenarios,
    maker_of,
    what_is,
)
from kfast.spark.tasks import SHORT_SECONDS, TASK_SECONDS, over_hands
from kfast.spark.workers import collect, for_workers
from kfast.state import ClusterState
from kfast.sweeps import prepare_sweep, sweep_reader, sweep_schema
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import check_counts, words_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Exports", "fleet", "fleet_schema", "labelled"]

FEWEST = 16
"""Up to so many tasks are made of less work than a task should have, as long as it is not short."""

EXPORT_SECONDS, PARTITION_SECONDS, COUNT_SECONDS = 3e-3, 0.7e-6, 3e-11
"""What takes time: an export, each partition in it, and each again in each scenario; as measured.
Only the sizes of tasks follow from these, never the rows."""

SCENARIOS = {"every_broker": (0, 300, 45_000, 4_500_000)}
"""How many there are of 300 brokers, by `k`; other makers say it themselves, or make few."""

_TRIED = pa.schema([("source", pa.string()), ("digest", pa.string())])


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

    def checked(self) -> Exports:
        """Refuse defaults that are wrong whatever the export; give the same with a copy of them."""
        if not isinstance(self.defaults, Mapping):
            raise ArgumentError(
                f"defaults is {shown(self.defaults)}: names of settings mapped to values are needed"
            )
        add_defaults(SourceTables("", schema.PARTITIONS_SCHEMA.empty_table()), self.defaults)
        return replace(self, defaults=dict(self.defaults))

    def read(self, name: str) -> ClusterState:
        """Read one export."""
        beside = Path(name).parent / self.brokers_name
        return read(
            name, brokers_file=beside if beside.is_file() else None, defaults=self.defaults
        )


@dataclass(frozen=True)
class _Work:
    """All that a task must know, besides its exports."""

    exports: Exports
    question: Question
    counts: tuple[str, ...]
    vectors: str | None
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of each export that several tasks share, which could be read: the digest of its state."""


def fleet_schema(counts: Collection[str]) -> pa.Schema:
    """Columns of a fleet's rows: `schema.FLEET`, of the counts of a sweep only these."""
    left_out = set(SWEEP.schema.names) - set(sweep_schema(counts).names)
    return pa.schema([field for field in FLEET.schema if field.name not in left_out])


def fleet(
    spark: SparkSession,
    exports: str | Path | DataFrame,
    scenarios: Question,
    *,
    counts: Collection[str] | None = None,
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
        A folder or glob of files that `kfast.read` reads, or a DataFrame: with a column `path`, or
        with `cluster` (a name, each once) and `content` (binary or string, what such a file holds)
        and perhaps `brokers` (likewise, of a brokers file). `path` stands for `cluster` where there
        is none, as Spark's format "binaryFile" has it. A DataFrame is evaluated twice.
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
        The scenarios or counts are unknown, an argument or a default can be of no cluster; there
        are no exports, or two of one cluster.
    """
    asked = check_counts(counts)
    check_question(scenarios)
    words_of(vectors)
    check_tasks(tasks)
    if not isinstance(exports, (str, Path, DataFrame)):
        raise ArgumentError(
            f"exports is {what_is(exports)}: a folder, a glob, or a DataFrame of Spark is needed"
        )
    how = Exports({} if defaults is None else defaults, brokers_name).checked()
    work = _Work(how, scenarios, asked, vectors)
    schema = fleet_schema(asked)
    if not isinstance(exports, (str, Path)) and "content" in exports.columns:
        share = partial(_share_out, question=scenarios, tasks=tasks)
        rows = dealt(spark, exports, share, brokers_name)
        return rows.mapInArrow(for_workers(partial(_answer_rows, work)), spark_schema(schema))
    files = [name for name in _files_of(exports) if Path(name).name != brokers_name]
    if not files:
        raise InputError(f"there are no exports besides {brokers_name}")
    sizes = {name: about_partitions(name) for name in files}
    hands = _share_out(sizes, scenarios, tasks)
    shared = sorted({name for hand in hands for name, _, parts in hand if parts > 1})
    if shared:
        found = collect(over_hands(spark, len(shared), partial(_try, work, shared), _TRIED))
        digests = dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
        work = replace(work, digests=digests)
        hands = _share_out(sizes, scenarios, tasks, whole=set(shared) - set(digests))
    return over_hands(spark, len(hands), partial(_answer_hand, work, hands), schema)


def _files_of(exports: str | Path | DataFrame) -> list[str]:
    if isinstance(exports, (str, Path)):
        return find_files(exports)
    if "path" not in exports.columns:
        raise ArgumentError(
            f"the DataFrame has the columns {', '.join(exports.columns)}; right is a column path,"
            " or the columns cluster and content"
        )
    paths = collect(exports.select("path").distinct())["path"].to_pylist()
    return sorted(str(path).removeprefix("file:") for path in paths)


def _scenarios_of(question: Question) -> int:
    """How many scenarios a question means, about."""
    if callable(question):
        return 1000
    name, arguments = maker_of(question)
    if name in SCENARIOS:
        known = SCENARIOS[name]
        k = arguments.get("k", 1)
        return known[k] if isinstance(k, int) and 0 < k < len(known) else known[-1]
    n = arguments.get("n", 1000)
    return n if isinstance(n, int) else 1000


def _share_out(
    partitions: Mapping[str, int], question: Question, tasks: int | None,
    whole: Collection[str] = (),
) -> list[list[tuple[str, int, int]]]:
    """Deal exports, or parts of the scenarios of one, to tasks; whoever has most comes first."""
    n = _scenarios_of(question)
    units: dict[tuple[str, int, int], int] = {}
    for name, size in partitions.items():
        counting = size * n * COUNT_SECONDS
        parts = 1 if name in whole else max(1, math.ceil(counting / TASK_SECONDS))
        seconds = EXPORT_SECONDS + size * PARTITION_SECONDS + counting / parts
        units.update({(name, part, parts): int(seconds * 1e6) for part in range(parts)})
    if tasks is None:
        seconds = sum(units.values()) / 1e6
        tasks = max(
            min(FEWEST, math.ceil(seconds / SHORT_SECONDS)), math.ceil(seconds / TASK_SECONDS)
        )
    return deal_sizes(units, tasks)


def _answer_hand(
    work: _Work, hands: list[list[tuple[str, int, int]]], hand: int
) -> Iterator[pa.RecordBatch]:
    """Answer for the files of a task."""
    for name, part, parts in hands[hand]:
        yield from _answer(work, name, partial(work.exports.read, name), part, parts)


def _answer_rows(
    work: _Work, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Answer for rows of `kfast.spark.contents`."""
    for batch in batches:
        for row in range(batch.num_rows):
            name, content, brokers, part, parts = (column[row].as_py() for column in batch.columns)
            make = partial(_read_content, work, name, content, brokers)
            yield from _answer(work, name, make, part, parts)


def _read_content(
    work: _Work, name: str, content: bytes | None, brokers: bytes | None
) -> ClusterState:
    if content is None:
        raise InputError(f"{name}: content is null")
    beside = (f"{name}: {work.exports.brokers_name}", brokers) if brokers is not None else None
    return read((name, content), brokers_file=beside, defaults=work.exports.defaults)


def _try(work: _Work, names: Sequence[str], number: int) -> Iterator[pa.RecordBatch]:
    """Digest of an export that several tasks are to share; nothing where it has no answer."""
    name = names[number]
    try:
        state, _, reader = _ready(work, partial(work.exports.read, name), 0, 1)
    except KfastError:
        # Whoever answers for all of the export says why.
        return
    reader.close()
    yield pa.RecordBatch.from_pylist([{"source": name, "digest": _said(state)}], schema=_TRIED)


def _answer(
    work: _Work, name: str, make: Callable[[], ClusterState], part: int, parts: int
) -> Iterator[pa.RecordBatch]:
    """Rows of one export, or of a part of its scenarios, or why there are none.

    Where a file has no answer, whoever has all of it says so. A file that tasks share had one when
    it was tried: if one of them finds it gone or changed, rows would be missing, and the job fails.
    What lies in a DataFrame is the same for all who share it, so the first speaks for all.
    """
    digest = work.digests.get(name)
    try:
        state, mine, reader = _ready(work, make, part, parts)
    except KfastError as error:
        if digest is not None:
            raise InputError(f"{name} could be read, and then not any more: {error}") from error
        if part == 0:
            row = {"source": name, "error": str(error)}
            yield pa.RecordBatch.from_pylist([row], schema=fleet_schema(work.counts))
        return
    with reader:
        if digest not in {None, _said(state)}:
            raise InputError(f"{name} changed while tasks read it; ask again")
        for batch in reader:
            yield labelled(batch, name, state, mine, work.counts)


def _said(state: ClusterState) -> str:
    return f"{state.digest():016x}"


def _ready(
    work: _Work, make: Callable[[], ClusterState], part: int, parts: int
) -> tuple[ClusterState, Scenarios, pa.RecordBatchReader]:
    """A cluster, the scenarios of a part, and who counts them; errors are raised here."""
    state = make()
    whole = make_scenarios(work.question, state)
    n = len(whole)
    start, stop = n * part // parts, n * (part + 1) // parts
    mine = whole.slice(whole.start + start, whole.start + stop)
    plan = prepare_sweep(state)
    return state, mine, sweep_reader(plan, mine, counts=work.counts, vectors=work.vectors)


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
