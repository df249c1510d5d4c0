"""The table `scenarios` of the data source: who fails together, made where it is read.

A task is a range of scenario numbers, or, of many exports, some files.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kfast.errors import ArgumentError
from kfast.spark.columns import batches_of, with_source
from kfast.spark.paths import deal, find_files
from kfast.spark.questions import MAKERS, make_scenarios
from kfast.spark.workers import SentToWorkers
from kfast.state import ClusterState, generate
from kfast.sweeps import scenario_makers as makers
from kfast.sweeps.scenarios import Scenarios

__all__ = ["CLUSTER_OPTIONS", "SCENARIO_OPTIONS", "ScenarioReader"]

SCENARIO_OPTIONS: Mapping[str, Callable[[str], int | float]] = {
    "k": int, "n": int, "seed": int, "p": float, "share": float
}
"""Arguments of the functions that make scenarios, and their types."""

CLUSTER_OPTIONS = ("brokers", "racks", "first_broker_id")
"""What a cluster needs, so that scenarios of it can be told without an export."""

TASK_SCENARIOS = 65_536
"""Scenarios that a task makes at least, unless the option `tasks` says more tasks."""

MADE_UP = "made up"
"""Source of the scenarios of a cluster that no export is of."""


class Range(InputPartition):
    """Scenarios that one task lists, and whose they are."""

    def __init__(self, source: str, scenarios: Scenarios) -> None:
        super().__init__((source, scenarios))


class Exports(InputPartition):
    """Files for which one task makes scenarios."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(list(names))


class ScenarioReader(SentToWorkers, DataSourceReader):
    """Lists scenarios as rows (source, scenario, broker).

    Parameters
    ----------
    options : mapping
        Keys in lower case, and known: `scenarios` names who makes them, as "random_brokers".
    tasks : int
        At most so many.
    read : callable
        Reads an export with the options of the source.
    wanted : pa.Schema
        Columns, among source, scenario and broker.

    Raises
    ------
    ArgumentError
        An option is missing, or not one of these scenarios.
    """

    def __init__(
        self, options: Mapping[str, str], tasks: int, read: Callable[[str], ClusterState],
        wanted: pa.Schema,
    ) -> None:
        name = options.get("scenarios", "")
        if name not in MAKERS:
            raise ArgumentError(f"option scenarios: found {name!r}; allowed: {', '.join(MAKERS)}")
        self.options = dict(options)
        self.question = (name, _arguments(name, options))
        self.tasks = tasks
        self.read_export = read
        self.wanted = wanted
        if "path" not in options and "brokers" not in options:
            raise ArgumentError(
                "option brokers is missing: give a path, or the brokers of a made-up cluster"
            )
        self.made = None if "path" in options else make_scenarios(self.question, self._made_up())

    def partitions(self) -> Sequence[InputPartition]:
        """Deal ranges of one cluster's scenarios, or the files of many clusters, to tasks."""
        if self.made is not None:
            return self._ranges(MADE_UP, self.made)
        files = find_files(self.options["path"])
        if len(files) == 1:
            made = make_scenarios(self.question, self.read_export(files[0]))
            return self._ranges(files[0], made)
        return [Exports(names) for names in deal(files, self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """List a task's scenarios."""
        if isinstance(partition, Range):
            yield from self._rows(*partition.value)
            return
        for name in partition.value:
            yield from self._rows(name, make_scenarios(self.question, self.read_export(name)))

    def _made_up(self) -> ClusterState:
        """A cluster with these brokers; its partitions do not matter."""
        sizes = {key: _number(key, int, self.options) for key in CLUSTER_OPTIONS
                 if key in self.options}
        return generate(partitions=1, replication_factor=1, **sizes)

    def _rows(self, source: str, scenarios: Scenarios) -> Iterator[pa.RecordBatch]:
        for batch in scenarios.to_batches():
            table = with_source(pa.Table.from_batches([batch]), source)
            yield from batches_of(table, self.wanted)

    def _ranges(self, source: str, made: Scenarios) -> Sequence[InputPartition]:
        enough = len(made) if "tasks" in self.options else math.ceil(len(made) / TASK_SCENARIOS)
        n = min(self.tasks, enough)
        edges = [made.start + len(made) * at // n for at in range(n + 1)]
        return [Range(source, made.slice(start, stop)) for start, stop in pairwise(edges)]


def _arguments(name: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of a maker of scenarios among the options."""
    known = inspect.signature(getattr(makers, name)).parameters
    takes = [key for key in known if key in SCENARIO_OPTIONS]
    if strange := sorted((set(SCENARIO_OPTIONS) & set(options)) - set(takes)):
        raise ArgumentError(
            f"option {', '.join(strange)} is not one of {name}, which takes "
            f"{', '.join(takes) or 'none'}"
        )
    missing = [key for key in takes if known[key].default is inspect.Parameter.empty]
    if missing := [key for key in missing if key not in options]:
        raise ArgumentError(f"option {', '.join(missing)} is missing: {name} needs it")
    return {key: _number(key, SCENARIO_OPTIONS[key], options) for key in takes if key in options}


def _number(
    key: str, kind: Callable[[str], int | float], options: Mapping[str, str]
) -> Any:
    try:
        return kind(options[key])
    except ValueError as error:
        raise ArgumentError(f"option {key}: found {options[key]!r}; right is a number") from error
