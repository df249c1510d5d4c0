"""`spark.read.format("kfast")`: exports, made-up clusters and streams of snapshots as tables.

Spark finds the format by itself, through the module `pyspark_kfast`.

Source: Spark 4, `pyspark.sql.datasource`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from kfast.errors import ArgumentError
from kfast.io import SourceTables, complete, parse_brokers, read
from kfast.io.source_tables import add_defaults
from kfast.spark.columns import TABLES, batches_of, sourced, spark_schema, with_source
from kfast.spark.made_source import MADE_OPTIONS, MadeReader
from kfast.spark.paths import find_files
from kfast.spark.portions import MOST_TASKS, Portion, deal_portions, read_portion
from kfast.spark.scenario_source import CLUSTER_OPTIONS, SCENARIO_OPTIONS, ScenarioReader
from kfast.spark.workers import SentToWorkers
from kfast.state import ClusterState
from kfast.sweeps.scenarios import SCENARIO_TABLE

__all__ = ["KfastSource"]

_SETTINGS = {
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "delete.topic.enable",
}
SCENARIOS = "scenarios"
"""Table, and option, of those who fail together."""

_OWN = {"path", "table", "brokers_file", "add_brokers", "tasks", "up"}


class Portions(InputPartition):
    """Files, or portions of them, that one task reads."""

    def __init__(self, portions: Sequence[Portion]) -> None:
        super().__init__(list(portions))


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
        self._reader(_columns(self._lowered()))

    @classmethod
    def name(cls) -> str:
        """Name that Spark knows it by."""
        return "kfast"

    def schema(self) -> StructType:
        """Columns of the table that is asked for, after `source`."""
        return spark_schema(_columns(self._lowered()))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Give what reads files, or makes clusters."""
        return self._reader(_wanted(self._lowered(), schema))

    def _lowered(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.options.items()}

    def _reader(self, wanted: pa.Schema) -> DataSourceReader:
        options = self._lowered()
        _check_options(options)
        if _of_scenarios(options):
            tasks = _integer(options, "tasks", MOST_TASKS)
            return ScenarioReader(options, tasks, partial(_read, options=options), wanted)
        if "path" not in options:
            tasks = _integer(options, "tasks", MOST_TASKS)
            return MadeReader(options, _table(options), tasks, wanted)
        return FileReader(options, wanted)

    # PySpark calls its sources by names in camel case.
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Give what reads the files of a folder as they arrive, or says why that cannot be."""
        options = self._lowered()
        try:
            if _of_scenarios(options):
                raise ArgumentError("scenarios do not arrive: read the table without a stream")
            return FolderStream(options, _wanted(options, schema))
        except ArgumentError as error:
            return RefusedStream(error)


def _columns(options: Mapping[str, str]) -> pa.Schema:
    """All columns of the table that is asked for."""
    return sourced(SCENARIO_TABLE if _of_scenarios(options) else TABLES[_table(options)])


def _table(options: Mapping[str, str]) -> str:
    name = options.get("table", "partitions")
    if name not in TABLES:
        allowed = ", ".join([*TABLES, SCENARIOS])
        raise ArgumentError(f"table {name!r} is unknown; allowed: {allowed}")
    return name


def _of_scenarios(options: Mapping[str, str]) -> bool:
    """Whether the table is that of scenarios, which is not one of an export."""
    return options.get("table") == SCENARIOS


def _wanted(options: Mapping[str, str], schema: StructType) -> pa.Schema:
    """The columns of a table that a schema names.

    Raises
    ------
    ArgumentError
        The table has no such column, or it is of another type.
    """
    whole = _columns(options)
    types = {field.name: field.dataType.simpleString() for field in spark_schema(whole).fields}
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
        [whole.field(field.name).with_nullable(field.nullable) for field in schema.fields]
    )


def _check_options(options: Mapping[str, str]) -> None:
    """Refuse options that are unknown, and values that no file can make right."""
    if "paths" in options:  # so Spark says it to a source
        raise ArgumentError(
            f"several paths are given: {options['paths']}; right is one file, folder or glob"
        )
    made = {"clusters", "tasks", "table", *MADE_OPTIONS}
    if _of_scenarios(options):
        made = {"tasks", "table", *CLUSTER_OPTIONS}
    allowed = {*_OWN, *_SETTINGS} if "path" in options else made
    if _of_scenarios(options):
        allowed |= {SCENARIOS, *SCENARIO_OPTIONS}
    unknown = sorted(set(options) - allowed)
    if unknown:
        whence = "a path" if "path" in options else "made-up clusters (no path is given)"
        raise ArgumentError(
            f"option {', '.join(unknown)} is not one for {whence}; allowed: "
            + ", ".join(sorted(allowed))
        )
    add_defaults(SourceTables("", pa.table({})), _said(options)["defaults"])


def _integer(options: Mapping[str, str], name: str, default: int) -> int:
    """An option that counts something."""
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"option {name}: found {text!r}; right is an integer of at least 1")
    return int(text)


class _Reading(SentToWorkers):
    """What a batch and a stream of files have in common."""

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        self.options = dict(options)
        self.table = _table(options)
        self.tasks = _integer(options, "tasks", MOST_TASKS)
        self.wanted = wanted

    def deal(self, names: Sequence[str]) -> Sequence[InputPartition]:
        """Deal files, or parts of large ones, to tasks."""
        said = partial(complete, **_said(self.options))
        return [Portions(hand) for hand in deal_portions(names, self.table, self.tasks, said)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what a task was dealt."""
        for portion in partition.value:
            for table in read_portion(portion, self.table, partial(_read, options=self.options)):
                yield from batches_of(with_source(table, portion.name), self.wanted)


class FileReader(_Reading, DataSourceReader):
    """Reads files, some of them or a part of one to a task."""

    def partitions(self) -> Sequence[InputPartition]:
        """Deal the files to tasks."""
        return self.deal(find_files(self.options["path"]))


def _said(options: Mapping[str, str]) -> dict[str, Any]:
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


def _read(name: str, options: Mapping[str, str]) -> ClusterState:
    """`kfast.read` with the options of the source."""
    return read(name, **_said(options))


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


class FolderStream(_Reading, DataSourceStreamReader):
    """Reads each file of a folder once, whenever it arrives.

    The offset is the list of the files that are there, so nothing is lost where a file arrives with
    an old date. Files must be moved into the folder whole.
    """

    def __init__(self, options: Mapping[str, str], wanted: pa.Schema) -> None:
        super().__init__(options, wanted)
        self.folder = Path(options.get("path", "").removeprefix("file:"))
        if not options.get("path") or not self.folder.is_dir():
            raise ArgumentError(f"a stream needs a folder; found {options.get('path', '')!r}")

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """Before the first file."""
        return {"files": "[]"}

    def latestOffset(self, *_: object) -> dict[str, str]:  # noqa: N802 - PySpark's name
        """All files that are there now; Spark 4.2 and later say where they stand, 4.1 does not."""
        names = find_files(self.folder, some=False)
        return {"files": json.dumps([str(Path(n).relative_to(self.folder)) for n in names])}

    def partitions(
        self, start: Mapping[str, str], end: Mapping[str, str]
    ) -> Sequence[InputPartition]:
        """Files that arrived in between."""
        seen = set(json.loads(start["files"]))
        new = [str(self.folder / n) for n in json.loads(end["files"]) if n not in seen]
        return self.deal(new) if new else []
