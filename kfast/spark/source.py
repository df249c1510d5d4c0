"""`spark.read.format("kfast")`: exports, made-up clusters and streams of snapshots as tables.

Spark finds the format by itself, through the module `pyspark_kfast`.

A large export can be read by many tasks, each of which gives some of its rows: Arrow and Parquet
files whose rows stand topic by topic are read by ranges of rows, a batch at a time. A first look at
topics and partition numbers, and at the small tables, finds out what only the whole file shows:
that no partition stands twice. All other files are read whole, by one task: in a text, a plan or
rows in another order, a row depends on others. (Which brokers are down, and so not in the list of
offline directories, is concluded from all lines of a text. Reading it takes as long as handing its
rows to the JVM, so that tasks that each read all of it would gain nothing.)

The rows are those of `kfast.read`, for any number of tasks. Where part of a file is wrong, the file
is read whole once more, so that the message is that of `kfast.read`, whoever finds the fault.

A made-up cluster is made where it is read, a large one by many tasks: a task makes ranges of rows,
a batch at a time, so that no worker holds a whole cluster. Scenarios too are made where they are
read: a task is a range of scenario numbers, or, of many exports, some files.

Source: Spark 4, `pyspark.sql.datasource`.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kfast.errors import ArgumentError, KfastError
from kfast.io import SourceTables, complete, parse_brokers, read
from kfast.io.arrow import DAMAGED, extract
from kfast.io.file_systems import open_input, open_mapped, parse_path
from kfast.io.source_tables import add_defaults
from kfast.spark.dataset import digest_names
from kfast.spark.frames import (
    BATCH_ROWS,
    BY_ROW,
    TABLES,
    batches_of,
    row_tables,
    schema_with_source,
    with_source,
)
from kfast.spark.paths import (
    distribute,
    distribute_files,
    estimate_partitions,
    find_files,
    look_at,
)
from kfast.spark.sweeps import MAKERS, make_scenarios
from kfast.spark.workers import SentToWorkers
from kfast.state import ClusterState, generate
from kfast.state.generation import Recipe
from kfast.sweeps import scenario_makers
from kfast.sweeps.scenarios import SCENARIO_TABLE, Scenarios

__all__ = ["KfastSource"]

SCENARIOS = "scenarios"
"""Table, and option, of those who fail together."""

SCENARIO_OPTIONS = {"k": int, "n": int, "seed": int, "p": float, "share": float}
"""Arguments of the functions that make scenarios, and their types."""

CLUSTER_OPTIONS = ("brokers", "racks", "first_broker_id")
"""What a cluster needs, so that scenarios of it can be told without an export."""

def _parse_flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


RECIPE_OPTIONS: dict[str, Callable[[str], Any]] = {
    "brokers": int,
    "partitions": int,
    "replication_factor": int,
    "racks": int,
    "topics": int,
    "seed": int,
    "placement": str,
    "topic_sizes": str,
    "zipf_exponent": float,
    "min_insync_replicas": int,
    "unclean_topics": float,
    "first_broker_id": int,
    "controller": str,
    "elr": _parse_flag,
}
"""Options that make up clusters: the arguments of `kfast.generate`, and their types."""

_SETTINGS = {
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "delete.topic.enable",
}
_PATH_OPTIONS = {"path", "table", "brokers_file", "add_brokers", "tasks", "up"}

MADE_UP = "made up"
"""Source of the scenarios of a cluster that no export is of."""

MOST_TASKS = 64
"""Where nothing else is said."""

TASK_SECONDS = 0.5
"""Work of a task, about; a task itself costs 0.05 s."""

ROW_SECONDS = {"partitions": 1.2e-6, "replicas": 1.1e-6, "topics": 4e-7}
"""What takes time: each partition, or topic, on its way to the JVM; as measured."""

TASK_SCENARIOS = 65_536
"""Scenarios that a task makes at least, unless the option `tasks` says more tasks."""

KEY_ROWS = 1 << 20
"""Rows that are looked at together."""

_STREAM = b"\xff\xff\xff\xff"


class KfastSource(SentToWorkers, DataSource):
    """Clusters as tables, and the table of scenarios of them.

    Options
    -------
    table : {"partitions", "brokers", "topics", "replicas", "cluster", "assumptions", "scenarios"}
        Which table; `partitions` by default.
    path : str
        A file, a folder or a glob; what `load` is given.
    brokers_file, add_brokers, up, min.insync.replicas, unclean.leader.election.enable,
    delete.topic.enable
        As `kfast.read` takes them, for every file; `up` is ids with commas, and `add_brokers` is
        `113:rack=b,114`.
    tasks : int
        At most so many tasks, each of one or more files, or of part of a large one; by default
        as many as there is work for, but at most 64.
    clusters, brokers, partitions, seed, ... : instead of a path
        So many made-up clusters, of the seeds seed, seed + 1, ...; the others are the arguments of
        `kfast.generate`.
    scenarios, k, n, seed, p, share : for the table `scenarios`
        Which, as "random_brokers", and their arguments. Without a path they are of a made-up
        cluster, of which brokers, racks and first_broker_id matter.

    A schema that is given (`spark.read.schema`) names the columns that are wanted; what is left out
    does not travel to the JVM.

    Raises
    ------
    ArgumentError
        An option is unknown, missing or has a wrong value. PySpark makes the source when `load` is
        called, so that it is said there; with a schema that is given, when the query runs.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._reader(_columns(self._lowercase_options()))

    @classmethod
    def name(cls) -> str:
        """Name that Spark knows it by."""
        return "kfast"

    def schema(self) -> StructType:
        """Columns of the table that is asked for, after `source`."""
        return from_arrow_schema(_columns(self._lowercase_options()))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give what reads files, or makes clusters."""
        return self._reader(_check_schema(self._lowercase_options(), schema))

    def _lowercase_options(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.options.items()}

    def _reader(self, wanted: pa.Schema) -> DataSourceReader:
        options = self._lowercase_options()
        _check_options(options)
        if _is_scenario_table(options):
            return ScenarioReader(options, wanted)
        return (FileReader if "path" in options else RecipeReader)(options, wanted)

    # PySpark calls its sources by names in camel case.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Give what reads the files of a folder as they arrive, or says why that cannot be."""
        options = self._lowercase_options()
        try:
            if _is_scenario_table(options):
                raise ArgumentError("scenarios do not arrive: read the table without a stream")
            return FolderStream(options, _check_schema(options, schema))
        except ArgumentError as error:
            return RefusedStream(error)


# --- options -----------------------------------------------------------------------------------


def _columns(options: Mapping[str, str]) -> pa.Schema:
    """All columns of the table that is asked for."""
    if _is_scenario_table(options):
        return schema_with_source(SCENARIO_TABLE)
    return schema_with_source(TABLES[_table(options)])


def _table(options: Mapping[str, str]) -> str:
    name = options.get("table", "partitions")
    if name not in TABLES:
        allowed = ", ".join([*TABLES, SCENARIOS])
        raise ArgumentError(f"table {name!r} is unknown; allowed: {allowed}")
    return name


def _is_scenario_table(options: Mapping[str, str]) -> bool:
    """Whether the table is that of scenarios, which is not one of an export."""
    return options.get("table") == SCENARIOS


def _check_schema(options: Mapping[str, str], schema: StructType) -> pa.Schema:
    """The columns of a table that a schema names; others, and other types, are refused."""
    columns = _columns(options)
    types = {field.name: field.dataType.simpleString() for field in from_arrow_schema(columns)}
    for field in schema.fields:
        right = types.get(field.name)
        if right is None:
            raise ArgumentError(
                f"column {field.name} of the schema is none of this table, which has"
                f" {', '.join(types)}"
            )
        if right != field.dataType.simpleString():
            raise ArgumentError(
                f"column {field.name} of the schema is {field.dataType.simpleString()}; right is"
                f" {right}"
            )
    # Spark takes batches only of the schema that it was given, in which a column may be nullable.
    return pa.schema(
        [columns.field(field.name).with_nullable(field.nullable) for field in schema.fields]
    )


def _check_options(options: Mapping[str, str]) -> None:
    """Refuse options that are unknown, and values that no file can make right."""
    if "paths" in options:  # so Spark says it to a source
        raise ArgumentError(
            f"several paths are given: {options['paths']}; right is one file, folder or glob"
        )
    if "path" in options:
        origin, allowed = "a path", _PATH_OPTIONS | _SETTINGS
    else:
        origin = "made-up clusters (no path is given)"
        recipe = CLUSTER_OPTIONS if _is_scenario_table(options) else ("clusters", *RECIPE_OPTIONS)
        allowed = {"tasks", "table", *recipe}
    if _is_scenario_table(options):
        allowed |= {SCENARIOS, *SCENARIO_OPTIONS}
    unknown = sorted(set(options) - allowed)
    if unknown:
        raise ArgumentError(
            f"option {', '.join(unknown)} is not one for {origin}; allowed: "
            + ", ".join(sorted(allowed))
        )
    add_defaults(SourceTables("", pa.table({})), _read_options(options)["defaults"])


def _integer(options: Mapping[str, str], name: str, default: int) -> int:
    """An option that counts something."""
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"option {name}: found {text!r}; right is an integer of at least 1")
    return int(text)


def _arguments(
    options: Mapping[str, str], types: Mapping[str, Callable[[str], Any]]
) -> dict[str, Any]:
    """Those of some arguments that are among the options."""
    arguments = {}
    for key in types.keys() & options.keys():
        try:
            arguments[key] = types[key](options[key])
        except ValueError as error:
            right = "true or false" if types[key] is _parse_flag else "a number"
            raise ArgumentError(
                f"option {key}: found {options[key]!r}; right is {right}"
            ) from error
    return arguments


def _read_options(options: Mapping[str, str]) -> dict[str, Any]:
    """What the options say to `kfast.read`."""
    up = options.get("up", "")
    if up and not all(part.strip().isdecimal() for part in up.split(",")):
        raise ArgumentError(f"option up: found {up!r}; right is broker ids with commas, as 3,7")
    return {
        "brokers_file": options.get("brokers_file"),
        "add_brokers": parse_brokers(options["add_brokers"]) if "add_brokers" in options else None,
        "defaults": {key: value for key, value in options.items() if key in _SETTINGS},
        "up": [int(part) for part in up.split(",")] if up else (),
    }


# --- exports -----------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class FileRange:
    """Rows of a file from `start` to `stop`; -1: the file is to be read whole.

    They are counted from the first row of a record batch or row group, so that nothing before this
    `group` is unpacked.
    """

    name: str
    group: int = 0
    start: int = 0
    stop: int = -1


class _FileReading(SentToWorkers):
    """What a batch and a stream of files have in common."""

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        self.options = dict(options)
        self.table = _table(options)
        self.tasks = _integer(options, "tasks", MOST_TASKS)
        self.wanted = wanted

    def share(self, names: Sequence[str]) -> Sequence[InputPartition]:
        """Divide files where that is worth it, and share all out to tasks."""
        sizes = look_at(names, estimate_partitions)
        total = max(1, sum(sizes.values()))
        ranges: dict[FileRange, int] = {}
        for name, size in sizes.items():
            # No more tasks than the file's share, so that many large files are not looked at.
            most = math.ceil(self.tasks * size / total)
            n = min(_count_parts(self.table, size, self.tasks), most)
            if self.table in BY_ROW and n > 1 and self._is_divisible(name):
                ranges |= dict.fromkeys(_split(name, n), size // n)
            else:
                ranges[FileRange(name)] = size
        shares = distribute(ranges, self.tasks)
        # Rows of one file come in its order, as they do from one task.
        return [InputPartition(share) for share in (sorted(shares) if len(names) == 1 else shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what a task has."""
        for part in partition.value:
            for table in self._tables(part):
                yield from batches_of(with_source(table, part.name), self.wanted)

    def _tables(self, part: FileRange) -> Iterator[pa.Table]:
        load = partial(read, part.name, **_read_options(self.options))
        if part.stop < 0:
            yield from row_tables(load(), self.table)
            return
        try:
            yield from _read_range(part, self.table)
        except (KfastError, *DAMAGED):
            load()
            raise

    def _is_divisible(self, name: str) -> bool:
        """Whether any range of rows of a file can be read alone: it is Arrow or Parquet, in order.

        Whatever is wrong with the file is left to be said by those who read it whole.
        """
        if _magic(name) not in (_STREAM, b"PAR1", b"ARRO"):
            return False
        try:
            schema, keys = _open(name, 0, KEY_ROWS, ("topic", "partition"))
            stored = extract(name, schema.empty_table())
            tables = complete(stored, **_read_options(self.options))
            if stored.brokers is None and tables.brokers is not None:
                # Which brokers the partitions name, and a caller cannot add, all rows tell.
                return False
            ClusterState.from_tables(
                tables.brokers, tables.topics, None, tables.cluster, source=name
            )
            return _are_in_order(_cut(keys, 0, 2**62, KEY_ROWS))
        except (KfastError, *DAMAGED):
            return False


class FileReader(_FileReading, DataSourceReader):
    """Reads files, some of them or a part of one to a task."""

    def partitions(self) -> Sequence[InputPartition]:
        """Share the files out to tasks."""
        return self.share(find_files(self.options["path"]))


class FolderStream(_FileReading, DataSourceStreamReader):
    """Reads each file of a folder once, whenever it arrives.

    The offset is the list of the files that are there, so nothing is lost where a file arrives with
    an old date. Files must be moved into the folder whole.
    """

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        super().__init__(options, wanted)
        self.folder = parse_path(options.get("path", "").removeprefix("file:"))
        if not options.get("path") or not self.folder.is_dir():
            raise ArgumentError(f"a stream needs a folder; found {options.get('path', '')!r}")

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """Before the first file."""
        return {"files": "[]"}

    def latestOffset(self, *_: object) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """All files that are there now; Spark 4.2 and later say where they stand, 4.1 does not."""
        names = find_files(self.folder, required=False)
        return {"files": json.dumps([str(parse_path(n).relative_to(self.folder)) for n in names])}

    def partitions(
        self, start: Mapping[str, str], end: Mapping[str, str]
    ) -> Sequence[InputPartition]:
        """Files that arrived in between."""
        seen = set(json.loads(start["files"]))
        new = [str(self.folder / n) for n in json.loads(end["files"]) if n not in seen]
        return self.share(new) if new else []


class RefusedStream(DataSourceStreamReader):
    """Says what is wrong with a stream when it is first asked for anything.

    An error of `streamReader` itself is lost: PySpark says instead that its own variable `reader`
    has no value.
    """

    def __init__(self, error: ArgumentError) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """Raise the error, for a stream that begins."""
        raise self.error

    def latestOffset(self, *_: object) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """Raise the error, for a stream that goes on."""
        raise self.error

    def read(self, _: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error; no partition is dealt before."""
        raise self.error


def _count_parts(table: str, rows: int, tasks: int) -> int:
    """How many tasks so many partitions (or topics) are worth; at most `tasks`."""
    seconds = rows * ROW_SECONDS.get(table, 0.0)
    return max(1, min(tasks, round(seconds / TASK_SECONDS)))


def _split(name: str, n: int) -> Iterator[FileRange]:
    """Divide the rows of a file into ranges of equal size."""
    begin = np.cumsum([0, *_group_rows(name)])
    edges = [int(begin[-1]) * at // n for at in range(n + 1)]
    for start, stop in pairwise(edges):
        group = max(int(np.searchsorted(begin[:-1], start, "right")) - 1, 0)
        yield FileRange(name, group, start - int(begin[group]), stop - int(begin[group]))


def _group_rows(name: str) -> list[int]:
    """Rows of each record batch or row group; a stream, which has no index, is one group."""
    if _magic(name) == b"PAR1":
        metadata = pq.read_metadata(open_mapped(parse_path(name)))
        return [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    rows = [batch.num_rows for batch in _open(name, 0, KEY_ROWS, ("partition",))[1]]
    return [sum(rows)] if _magic(name) == _STREAM else rows


def _read_range(part: FileRange, table: str) -> Iterator[pa.Table]:
    schema, batches = _open(part.name, part.group, BATCH_ROWS)
    common = extract(part.name, schema.empty_table())
    for batch in _cut(batches, part.start, part.stop, BATCH_ROWS):
        rows = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        rows.validate(full=True)
        # The names of a large file's topics are many more than those of a few of its rows.
        at = rows.column_names.index("topic")
        rows = rows.set_column(at, "topic", rows["topic"].cast(pa.string()))
        partitions = extract(part.name, rows).partitions
        state = ClusterState.from_tables(
            common.brokers, None, partitions, common.cluster, source=part.name
        )
        yield from row_tables(state, table)


def _magic(name: str) -> bytes:
    """The first bytes of a file."""
    with open_input(parse_path(name)) as file:
        return bytes(file.read(4))


def _open(
    name: str, group: int, size: int, columns: Sequence[str] | None = None
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Schema of an Arrow or Parquet file, with its metadata, and its batches from a group on.

    Batches of Parquet have at most so many rows, and names of topics as dictionaries where some
    columns are asked for.
    """
    source, magic = open_mapped(parse_path(name)), _magic(name)
    if magic == b"PAR1":
        file = pq.ParquetFile(source, read_dictionary=["topic"] if columns else None)
        groups = [*range(group, file.metadata.num_row_groups)]
        # Not `file.schema_arrow`: of the metadata, which stand twice, that has the other copy.
        schema = file.read_row_groups([]).schema
        return schema, file.iter_batches(size, groups, columns, use_threads=False)
    opener = pa.ipc.open_stream if magic == _STREAM else pa.ipc.open_file
    schema = opener(source).schema
    source.seek(0)
    fields = [at for at, field in enumerate(schema.names) if columns is None or field in columns]
    opened = opener(source, options=pa.ipc.IpcReadOptions(included_fields=fields))
    if isinstance(opened, pa.RecordBatchReader):
        return schema, opened
    return schema, map(opened.get_batch, range(group, opened.num_record_batches))


def _cut(
    batches: Iterable[pa.RecordBatch], start: int, stop: int, size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of batches that lie in a range, some at a time."""
    at = 0
    for batch in batches:
        last = min(stop - at, batch.num_rows)
        for low in range(max(start - at, 0), last, size):
            yield batch.slice(low, min(size, last - low))
        at += batch.num_rows
        if at >= stop:
            return


def _are_in_order(batches: Iterable[pa.RecordBatch]) -> bool:
    """Whether rows stand topic by topic, and the partitions of each topic ascend."""
    last: tuple[str, int] | None = None
    topics = [np.empty(0, np.uint64)]
    for batch in batches:
        batch.validate(full=True)
        topic, partition = batch.column("topic"), batch.column("partition").cast(pa.int64())
        if not pa.types.is_dictionary(topic.type):
            topic = topic.cast(pa.string()).dictionary_encode()
        names = topic.dictionary.cast(pa.string())
        if topic.null_count or names.null_count or partition.null_count:
            return False
        if not batch.num_rows:
            continue
        indices, numbers = topic.indices.to_numpy(), partition.to_numpy()
        change = indices[1:] != indices[:-1]
        firsts = names.take(topic.indices.take(np.flatnonzero(np.r_[True, change])))
        continued = last is not None and firsts[0].as_py() == last[0]
        if not (change | (numbers[1:] > numbers[:-1])).all():
            return False
        if last is not None and continued and numbers[0] <= last[1]:
            return False
        topics.append(digest_names(firsts[int(continued):]))
        last = firsts[-1].as_py(), int(numbers[-1])
    # No topic may come again after another; two names of one digest count as one.
    values = np.sort(np.concatenate(topics))
    return not (values[1:] == values[:-1]).any()


# --- made-up clusters --------------------------------------------------------------------------


class RecipeReader(SentToWorkers, DataSourceReader):
    """Makes up clusters, some of them or a part of one to a task."""

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        self.table, self.wanted = _table(options), wanted
        missing = sorted({"brokers", "partitions"} - set(options))
        if missing:
            raise ArgumentError(
                f"option {', '.join(missing)} is missing: give a path, or the brokers and"
                " partitions of made-up clusters"
            )
        self.arguments = _arguments(options, RECIPE_OPTIONS)
        self.clusters = _integer(options, "clusters", 1)
        tasks = _integer(options, "tasks", MOST_TASKS)
        self._recipe(0).part_of_topics(0, 0)  # Refuses a controller without ELRs.
        rows = self._count_rows(self._recipe(0))
        self.parts = _count_parts(self.table, rows, max(1, tasks // self.clusters))
        self.tasks = min(tasks, self.clusters * self.parts)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the parts of all clusters."""
        n = self.clusters * self.parts
        edges = [n * task // self.tasks for task in range(self.tasks + 1)]
        return [InputPartition(edge) for edge in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make what a task has."""
        for part in range(*partition.value):
            number, at = divmod(part, self.parts)
            recipe = self._recipe(number)
            rows = self._count_rows(recipe)
            start, stop = rows * at // self.parts, rows * (at + 1) // self.parts
            for state in self._pieces(recipe, start, stop):
                for table in row_tables(state, self.table):
                    yield from batches_of(with_source(table, f"seed {recipe.seed}"), self.wanted)

    def _recipe(self, number: int) -> Recipe:
        """The cluster of this number; each has a seed of its own."""
        return Recipe(**{**self.arguments, "seed": self.arguments.get("seed", 0) + number})

    def _count_rows(self, recipe: Recipe) -> int:
        """Rows that the table is made of: partitions, topics, or nothing that can be divided."""
        if self.table in BY_ROW:
            return recipe.partitions
        return recipe.n_topics if self.table == "topics" else 1

    def _pieces(self, recipe: Recipe, start: int, stop: int) -> Iterator[ClusterState]:
        """The cluster, as far as the rows from `start` to `stop` need it."""
        if self.table not in (*BY_ROW, "topics"):
            # Only where some allow unclean election are configurations of topics among KRaft's.
            yield recipe.part_of_topics(0, recipe.n_topics if recipe.unclean_topics else 0)
            return
        make = recipe.part if self.table in BY_ROW else recipe.part_of_topics
        for at in range(start, stop, BATCH_ROWS):
            yield make(at, min(at + BATCH_ROWS, stop))


# --- scenarios ---------------------------------------------------------------------------------


class ScenarioReader(SentToWorkers, DataSourceReader):
    """Lists scenarios as rows (source, scenario, broker)."""

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        self.options, self.wanted = dict(options), wanted
        self.tasks = _integer(options, "tasks", MOST_TASKS)
        name = options.get(SCENARIOS, "")
        if name not in MAKERS:
            raise ArgumentError(f"option scenarios: found {name!r}; allowed: {', '.join(MAKERS)}")
        self.spec = name, _maker_arguments(name, options)
        if "path" not in options and "brokers" not in options:
            raise ArgumentError(
                "option brokers is missing: give a path, or the brokers of a made-up cluster"
            )
        self.made: Scenarios | None = None
        if "path" not in options:
            # Partitions do not matter.
            sizes = _arguments(options, dict.fromkeys(CLUSTER_OPTIONS, int))
            state = generate(partitions=1, replication_factor=1, **sizes)
            self.made = make_scenarios(self.spec, state)

    def partitions(self) -> Sequence[InputPartition]:
        """Share out ranges of one cluster's scenarios, or the files of many clusters."""
        if self.made is not None:
            return self._ranges(MADE_UP, self.made)
        files = find_files(self.options["path"])
        if len(files) == 1:
            return self._ranges(files[0], self._make(files[0]))
        shares = distribute_files(files, self.tasks)
        return [InputPartition([(name, None) for name in share]) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """List a task's scenarios."""
        for name, scenarios in partition.value:
            for batch in (self._make(name) if scenarios is None else scenarios).to_batches():
                table = with_source(pa.Table.from_batches([batch]), name)
                yield from batches_of(table, self.wanted)

    def _make(self, name: str) -> Scenarios:
        return make_scenarios(self.spec, read(name, **_read_options(self.options)))

    def _ranges(self, name: str, made: Scenarios) -> Sequence[InputPartition]:
        most = len(made) if "tasks" in self.options else math.ceil(len(made) / TASK_SCENARIOS)
        n = min(self.tasks, most)
        edges = [made.start + len(made) * task // n for task in range(n + 1)]
        return [InputPartition([(name, made.slice(*edge))]) for edge in pairwise(edges)]


def _maker_arguments(name: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of a maker of scenarios among the options."""
    known = inspect.signature(getattr(scenario_makers, name)).parameters
    takes = {key: SCENARIO_OPTIONS[key] for key in known if key in SCENARIO_OPTIONS}
    if strange := sorted((set(SCENARIO_OPTIONS) & set(options)) - set(takes)):
        raise ArgumentError(
            f"option {', '.join(strange)} is not one of {name}, which takes "
            f"{', '.join(takes) or 'none'}"
        )
    if missing := [
        key for key in takes
        if known[key].default is inspect.Parameter.empty and key not in options
    ]:
        raise ArgumentError(f"option {', '.join(missing)} is missing: {name} needs it")
    return _arguments(options, takes)
