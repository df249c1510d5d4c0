"""`spark.read.format("kfast")`: exports, made-up clusters and streams of snapshots as tables.

Spark finds the format by itself, through the module `pyspark_kfast`.

Source: Spark 4, `pyspark.sql.datasource`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
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
from kfast.io import read
from kfast.scenarios import SCENARIO_TABLE
from kfast.spark.columns import (
    TABLES,
    batches_of,
    cluster_table,
    sourced,
    spark_schema,
    with_source,
)
from kfast.spark.paths import deal, find_files
from kfast.spark.scenario_source import CLUSTER_OPTIONS, SCENARIO_OPTIONS, ScenarioReader
from kfast.state import ClusterState, generate

__all__ = ["KfastSource"]

_SETTINGS = {
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "delete.topic.enable",
}
SCENARIOS = "scenarios"
"""Table, and option, of those who fail together."""

_OWN = {"path", "table", "brokers_file", "tasks", "up"}
_MADE = {
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
}
"""Options that make up clusters: the arguments of `kfast.generate`, and their types."""


class Files(InputPartition):
    """Some files that one task reads."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(list(names))


class Numbers(InputPartition):
    """Numbers of the made-up clusters that one task makes."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__((start, stop))


class KfastSource(DataSource):
    """Clusters as tables, and the table of scenarios of them.

    Options
    -------
    table : {"partitions", "brokers", "topics", "replicas", "cluster", "assumptions", "scenarios"}
        Which table; `partitions` by default.
    path : str
        A file, a folder or a glob; what `load` is given.
    brokers_file, up, min.insync.replicas, unclean.leader.election.enable, delete.topic.enable
        As `kfast.read` takes them, for every file; `up` is ids with commas.
    tasks : int
        At most so many tasks; by default one for each file, but at most 64.
    clusters, brokers, partitions, seed, ... : instead of a path
        So many made-up clusters, of the seeds seed, seed + 1, ...; the others are the arguments of
        `kfast.generate`.
    scenarios, k, n, seed, p, share : for the table `scenarios`
        Which, as "random_brokers", and their arguments. Without a path they are of a made-up
        cluster, of which brokers, racks and first_broker_id matter.
    """

    @classmethod
    def name(cls) -> str:
        """Name that Spark knows it by."""
        return "kfast"

    def schema(self) -> StructType:
        """Columns of the table that is asked for, after `source`."""
        wanted = SCENARIO_TABLE if _of_scenarios(self.options) else TABLES[_table(self.options)]
        return spark_schema(sourced(wanted))

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark gives it
        """Give what reads files, or makes clusters."""
        options = {key.lower(): value for key, value in self.options.items()}
        _check_options(options)
        if _of_scenarios(options):
            tasks = _integer(options, "tasks", 64)
            return ScenarioReader(options, tasks, partial(_read, options=options))
        return GeneratedReader(options) if "path" not in options else FileReader(options)

    # PySpark calls its sources by names in camel case.
    def streamReader(  # noqa: N802
        self, schema: StructType  # noqa: ARG002 - Spark gives it
    ) -> DataSourceStreamReader:
        """Give what reads the files of a folder as they arrive."""
        options = {key.lower(): value for key, value in self.options.items()}
        if _of_scenarios(options):
            raise ArgumentError("scenarios do not arrive: read the table without a stream")
        _check_options(options)
        return FolderStream(options)


def _table(options: Mapping[str, str]) -> str:
    name = options.get("table", "partitions")
    if name not in TABLES:
        allowed = ", ".join([*TABLES, SCENARIOS])
        raise ArgumentError(f"table {name!r} is unknown; allowed: {allowed}")
    return name


def _of_scenarios(options: Mapping[str, str]) -> bool:
    """Whether the table is that of scenarios, which is not one of an export."""
    return options.get("table") == SCENARIOS


def _check_options(options: Mapping[str, str]) -> None:
    made = {"clusters", "tasks", "table", *_MADE}
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


def _integer(options: Mapping[str, str], name: str, default: int) -> int:
    """An option that counts something."""
    text = options.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentError(f"option {name}: found {text!r}; right is an integer of at least 1")
    return int(text)


class FileReader(DataSourceReader):
    """Reads files, some to a task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self.table = _table(options)
        self.tasks = _integer(options, "tasks", 64)

    def partitions(self) -> Sequence[InputPartition]:
        """Deal the files to tasks."""
        return [Files(names) for names in deal(find_files(self.options["path"]), self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files."""
        for name in partition.value:
            yield from _batches(_read(name, self.options), self.table, name)


def _read(name: str, options: Mapping[str, str]) -> ClusterState:
    """`kfast.read` with the options of the source."""
    up = options.get("up", "")
    if up and not all(part.strip().isdecimal() for part in up.split(",")):
        raise ArgumentError(f"option up: found {up!r}; right is broker ids with commas, as 3,7")
    return read(
        name,
        brokers_file=options.get("brokers_file"),
        defaults={key: value for key, value in options.items() if key in _SETTINGS},
        up=[int(part) for part in up.split(",")] if up else (),
    )


def _batches(state: ClusterState, table: str, source: str) -> Iterator[pa.RecordBatch]:
    yield from batches_of(with_source(cluster_table(state, table), source), sourced(TABLES[table]))


class GeneratedReader(DataSourceReader):
    """Makes up clusters, some to a task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.table = _table(options)
        self.clusters = _integer(options, "clusters", 1)
        self.tasks = min(_integer(options, "tasks", 64), self.clusters)
        self.arguments: dict[str, Any] = {}
        missing = sorted({"brokers", "partitions"} - set(options))
        if missing:
            raise ArgumentError(
                f"option {', '.join(missing)} is missing: give a path, or the brokers and"
                " partitions of made-up clusters"
            )
        for key, kind in _MADE.items():
            if key in options:
                try:
                    self.arguments[key] = kind(options[key])
                except ValueError as error:
                    raise ArgumentError(
                        f"option {key}: found {options[key]!r}; right is a number"
                    ) from error

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of clusters."""
        edges = [self.clusters * at // self.tasks for at in range(self.tasks + 1)]
        return [Numbers(start, stop) for start, stop in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make a task's clusters."""
        start, stop = partition.value
        for number in range(start, stop):
            seed = self.arguments.get("seed", 0) + number
            state = generate(**{**self.arguments, "seed": seed})
            yield from _batches(state, self.table, f"seed {seed}")


class FolderStream(DataSourceStreamReader):
    """Reads each file of a folder once, whenever it arrives.

    The offset is the list of the files that are there, so nothing is lost where a file arrives with
    an old date. Files must be moved into the folder whole.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)
        self.table = _table(options)
        self.tasks = _integer(options, "tasks", 64)
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
        return [Files(names) for names in deal(new, self.tasks)] if new else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task's files."""
        for name in partition.value:
            yield from _batches(_read(name, self.options), self.table, name)
