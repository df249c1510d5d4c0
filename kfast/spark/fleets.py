"""The same scenarios of many clusters: a row per cluster and scenario.

A task gets some exports, shared out by the work that they are thought to be: a huge one has a task
for itself, which starts first, and tiny ones share. Where the scenarios are many, several tasks
share a cluster. An export that cannot be read is a row that says why.

Exports may also be the content of a DataFrame's rows. Their sizes go to the driver, the shares come
back, and the contents are shuffled once, to the task that is to read them; a cluster that several
tasks share goes to each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, StringType

from kfast import schema
from kfast.arguments import shown
from kfast.errors import ArgumentError, InputError, KfastError
from kfast.io import SourceTables, read
from kfast.io.file_systems import AnyPath, parse_path
from kfast.io.source_tables import add_defaults
from kfast.schema import FLEET, SWEEP
from kfast.spark.frames import to_dataframe
from kfast.spark.paths import (
    FLAT_MARK,
    MAGIC,
    PARTITION_BYTES,
    check_tasks,
    distribute,
    estimate_partitions,
    find_files,
    hash_file,
    look_at,
)
from kfast.spark.sweep_tasks import slice_for
from kfast.spark.sweeps import ScenarioSpec, check_spec, kind_of, make_scenarios, parse_spec
from kfast.spark.workers import TASK_SECONDS, collect, count_tasks, for_workers, run_tasks
from kfast.state import ClusterState
from kfast.state.cluster import with_controller
from kfast.sweeps import prepare_sweep, sweep_reader, sweep_schema
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import check_counts, words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["ExportReader", "FleetWork", "fleet", "fleet_batch", "fleet_rows", "fleet_schema"]

Unit: TypeAlias = tuple[str, int, int]
"""Work for a task: a cluster, and which part, of how many, of its scenarios."""

EXPORT_SECONDS, PARTITION_SECONDS, COUNT_SECONDS = 3e-3, 0.7e-6, 3e-11
"""What takes time: an export, each partition in it, and each again in each scenario; as measured.
Only the sizes of tasks follow from these, never the rows."""

SCENARIOS = {"every_broker": (0, 300, 45_000, 4_500_000)}
"""How many there are of 300 brokers, by `k`; other makers say it themselves, or make few."""

_PARQUET_HEAD = next(magic for magic, form in MAGIC.items() if form == "parquet").hex().upper()


@dataclass(frozen=True)
class ExportReader:
    """How exports are read.

    Attributes
    ----------
    defaults : mapping
        As for `kfast.read`.
    brokers_name : str
        A file of this name beside an export says where its brokers are (`brokers_file`).
    controller, elr
        As for `kfast.with_controller`; None for what each export tells.
    """

    defaults: Mapping[str, object]
    brokers_name: str
    controller: str | None = None
    elr: bool | None = None

    def checked(self) -> ExportReader:
        """Refuse defaults that are wrong whatever the export; give the same with a copy of them."""
        if not isinstance(self.defaults, Mapping):
            raise ArgumentError(
                f"defaults is {shown(self.defaults)}: names of settings mapped to values are needed"
            )
        add_defaults(SourceTables("", schema.PARTITIONS_SCHEMA.empty_table()), self.defaults)
        if self.controller is not None:
            with_controller(ClusterState.from_tables(), self.controller, elr=self.elr)
        return replace(self, defaults=dict(self.defaults))

    def brokers_file(self, name: str) -> AnyPath | None:
        """The file beside an export that says where its brokers are."""
        beside = parse_path(name).parent / self.brokers_name
        return beside if beside.is_file() else None

    def read(self, name: str) -> ClusterState:
        """Read one export."""
        return self._told(
            read(name, brokers_file=self.brokers_file(name), defaults=self.defaults)
        )

    def _told(self, state: ClusterState) -> ClusterState:
        """The cluster with the controller that was told."""
        if self.controller is None and self.elr is None:
            return state
        return with_controller(state, self.controller or state.controller, elr=self.elr)

    def digest(self, name: str) -> str:
        """Digest of the bytes of an export and its brokers: several tasks must read the same."""
        parts = []
        beside = self.brokers_file(name)
        for path in (parse_path(name), *([] if beside is None else [beside])):
            try:
                parts.append(hash_file(path))
            except OSError as error:
                raise InputError(f"{path} could be read, and then not any more: {error}") from error
        return " ".join(parts)

    def read_content(
        self, name: str, content: bytes | None, brokers: bytes | None
    ) -> ClusterState:
        """Read one export that is a value, perhaps with a brokers file that is another."""
        if content is None:
            raise InputError(f"{name}: content is null")
        beside = (f"{name}: {self.brokers_name}", brokers) if brokers is not None else None
        return self._told(read((name, content), brokers_file=beside, defaults=self.defaults))


@dataclass(frozen=True)
class _Work:
    """All that a task must know, besides its exports."""

    reader: ExportReader
    spec: ScenarioSpec
    counts: tuple[str, ...]
    vectors: str | None

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return fleet_schema(self.counts)

    def seconds(self, partitions: int, scenarios: int) -> float:
        """About how long so many scenarios of a cluster take."""
        return partitions * scenarios * COUNT_SECONDS

    def batches(
        self, name: str, state: ClusterState, scenarios: Scenarios
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one cluster, or of a part of its scenarios."""
        plan = prepare_sweep(state)
        with sweep_reader(plan, scenarios, counts=self.counts, vectors=self.vectors) as reader:
            for batch in reader:
                yield fleet_batch(batch, name, state, scenarios, self.schema)


class FleetWork(Protocol):
    """What a question to a fleet has; it travels to workers."""

    @property
    def reader(self) -> ExportReader:
        """How exports are read."""

    @property
    def spec(self) -> ScenarioSpec:
        """How scenarios are made."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""

    def seconds(self, partitions: int, scenarios: int) -> float:
        """About how long so many scenarios of a cluster take."""

    def batches(
        self, name: str, state: ClusterState, scenarios: Scenarios
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one cluster, or of a part of its scenarios."""


def fleet_schema(counts: Collection[str]) -> pa.Schema:
    """Columns of a fleet's rows: `schema.FLEET`, of the counts of a sweep only these."""
    left_out = set(SWEEP.schema.names) - set(sweep_schema(counts).names)
    return pa.schema([field for field in FLEET.schema if field.name not in left_out])


def fleet(
    spark: SparkSession,
    exports: str | Path | DataFrame,
    scenarios: ScenarioSpec,
    *,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    defaults: Mapping[str, object] | None = None,
    brokers_name: str = "brokers.csv",
    controller: str | None = None,
    elr: bool | None = None,
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
    controller, elr
        As for `kfast.with_controller`: which controller runs all clusters, whatever exports tell.
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
    names = check_counts(counts)
    check_spec(scenarios)
    words_of(vectors)
    reader = ExportReader(
        {} if defaults is None else defaults, brokers_name, controller, elr
    ).checked()
    return fleet_rows(spark, exports, _Work(reader, scenarios, names, vectors), tasks)


def fleet_rows(
    spark: SparkSession, exports: str | Path | DataFrame, work: FleetWork, tasks: int | None
) -> DataFrame:
    """Ask a question of each of many clusters; arguments are those of `fleet`."""
    check_tasks(tasks)
    if not isinstance(exports, (str, Path, DataFrame)):
        raise ArgumentError(
            f"exports is {kind_of(exports)}: a folder, a glob, or a DataFrame of Spark is needed"
        )
    brokers_name = work.reader.brokers_name
    if isinstance(exports, DataFrame) and "content" in exports.columns:
        rows = _content_shares(spark, exports, work, tasks, brokers_name)
        count = for_workers(partial(_count_rows, work))
        return rows.mapInArrow(count, from_arrow_schema(work.schema))
    files = [name for name in _files_of(exports) if Path(name).name != brokers_name]
    if not files:
        raise InputError(f"there are no exports besides {brokers_name}")
    shares = _share_units(look_at(files, estimate_partitions), work, tasks)
    shared = {name for share in shares for name, _, parts in share if parts > 1}
    digests = {name: work.reader.digest(name) for name in shared}
    run = partial(_count_share, work, shares, digests)
    return run_tasks(spark, len(shares), run, work.schema)


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


# --- what each task gets -----------------------------------------------------------------------


def _count_scenarios(spec: ScenarioSpec) -> int:
    """How many scenarios a spec means, about."""
    if callable(spec):
        return 1000
    name, arguments = parse_spec(spec)
    if name in SCENARIOS:
        known = SCENARIOS[name]
        k = arguments.get("k", 1)
        return known[k] if isinstance(k, int) and 0 < k < len(known) else known[-1]
    n = arguments.get("n", 1000)
    return n if isinstance(n, int) else 1000


def _share_units(
    partitions: Mapping[str, int], work: FleetWork, tasks: int | None
) -> list[list[Unit]]:
    """Share out exports, or parts of the scenarios of one; the task with most comes first."""
    n = _count_scenarios(work.spec)
    units: dict[Unit, int] = {}
    for name, size in partitions.items():
        counting = work.seconds(size, n)
        parts = max(1, math.ceil(counting / TASK_SECONDS))
        seconds = EXPORT_SECONDS + size * PARTITION_SECONDS + counting / parts
        units.update({(name, part, parts): int(seconds * 1e6) for part in range(parts)})
    if tasks is None:
        tasks = count_tasks(sum(units.values()) / 1e6)
    return distribute(units, tasks)


def _content_shares(
    spark: SparkSession, frame: DataFrame, work: FleetWork, tasks: int | None, brokers_name: str
) -> DataFrame:
    """Rows of exports as (cluster, content, brokers, part, parts), a partition for each task."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    if "cluster" not in types and "path" not in types:
        raise ArgumentError(
            f"the DataFrame has the columns {', '.join(types)}; cluster is missing, or path"
        )
    for name in ("content", "brokers"):
        if name in types and not isinstance(types[name], (BinaryType, StringType)):
            raise ArgumentError(
                f"column {name} is {types[name].simpleString()}; right is binary or string"
            )
    brokers = sql.col("brokers") if "brokers" in types else sql.lit(None)
    path = sql.regexp_replace(sql.col("path").cast("string"), "^file:(//)?", "")
    rows = frame.select(
        (sql.col("cluster").cast("string") if "cluster" in types else path).alias("cluster"),
        sql.col("content").cast("binary").alias("content"),
        brokers.cast("binary").alias("brokers"),
    )
    if "cluster" not in types and "brokers" not in types:
        rows = _with_brokers(rows, brokers_name)
    shares = _share_units(_content_sizes(rows), work, tasks)
    units = [(*unit, task) for task, share in enumerate(shares) for unit in share]
    names, part, parts, task = zip(*units, strict=True)
    plan = pa.table({
        "cluster": pa.array(names), "part": pa.array(part, pa.int32()),
        "parts": pa.array(parts, pa.int32()), "task": pa.array(task, pa.int32()),
    })
    joined = rows.join(sql.broadcast(to_dataframe(spark, plan)), "cluster")
    moved = joined.repartitionById(len(shares), "task")
    return moved.select("cluster", "content", "brokers", "part", "parts")


def _with_brokers(rows: DataFrame, brokers_name: str) -> DataFrame:
    """Rows of files that are exports, with the content of the brokers file of their folder."""
    name = sql.element_at(sql.split("cluster", "/"), -1)
    folder = sql.regexp_replace("cluster", "[^/]*$", "")
    beside = rows.where(name == brokers_name).select(
        folder.alias("folder"), sql.col("content").alias("brokers")
    )
    # A row without a name stays, to be refused.
    exports = rows.where(name.isNull() | (name != brokers_name))
    in_folders = exports.drop("brokers").withColumn("folder", folder)
    return in_folders.join(sql.broadcast(beside), "folder", "left").drop("folder")


def _content_sizes(rows: DataFrame) -> dict[str, int]:
    """About how many partitions each cluster has."""
    clusters = rows.groupBy("cluster").agg(
        sql.count("*").alias("n"), sql.sum(_estimate(sql.col("content"))).alias("partitions")
    )
    sizes = {}
    for row in collect(clusters).to_pylist():
        if row["cluster"] is None:
            raise InputError("a row of the DataFrame has no cluster; each needs a name")
        if row["n"] > 1:
            raise InputError(f"cluster {row['cluster']} stands {row['n']} times in the DataFrame")
        sizes[row["cluster"]] = int(row["partitions"] or 0)
    if not sizes:
        raise InputError("the DataFrame of exports has no rows")
    return sizes


def _estimate(content: Column) -> Column:
    """`estimate_partitions` of a file that is a value."""
    head = sql.hex(sql.substring(content, 1, 2))
    size = sql.lit(PARTITION_BYTES["text"])
    for magic, form in MAGIC.items():
        size = sql.when(head == magic.hex().upper(), PARTITION_BYTES[form]).otherwise(size)
    flat = (head == _PARQUET_HEAD) & sql.contains(content, sql.lit(FLAT_MARK.encode()))
    size = sql.when(flat, PARTITION_BYTES["parquet-flat"]).otherwise(size)
    return (sql.octet_length(content) / size).cast("long")


# --- what a task does --------------------------------------------------------------------------


def _count_share(
    work: FleetWork, shares: list[list[Unit]], digests: Mapping[str, str], task: int
) -> Iterator[pa.RecordBatch]:
    """Rows of the files of a task."""
    for unit in shares[task]:
        name = unit[0]
        yield from _count(work, unit, partial(work.reader.read, name))
        if name in digests and work.reader.digest(name) != digests[name]:
            raise InputError(f"{name} changed while tasks read it; ask again")


def _count_rows(work: FleetWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the exports in the rows of `_content_shares`."""
    for batch in batches:
        for row in range(batch.num_rows):
            name, content, brokers, part, parts = (column[row].as_py() for column in batch.columns)
            load = partial(work.reader.read_content, name, content, brokers)
            yield from _count(work, (name, part, parts), load)


def _count(
    work: FleetWork, unit: Unit, load: Callable[[], ClusterState]
) -> Iterator[pa.RecordBatch]:
    """Rows of one export, or of a part of its scenarios, or why there are none.

    What has no rows has none for all who share it, so the first speaks for all.
    """
    name, part, parts = unit
    try:
        state = load()
        scenarios = slice_for(make_scenarios(work.spec, state), parts, part)
        batches = work.batches(name, state, scenarios)
        first = next(batches, None)
    except KfastError as error:
        if part == 0:
            row = {"source": name, "error": str(error)}
            yield pa.RecordBatch.from_pylist([row], schema=work.schema)
        return
    if first is not None:
        yield first
    yield from batches


def fleet_batch(
    batch: pa.RecordBatch, name: str, state: ClusterState, scenarios: Scenarios, schema: pa.Schema
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
    return pa.record_batch(columns, schema=schema)
