"""Made-up clusters as tables: each made where it is read, a large one by many tasks.

A task makes ranges of rows, a batch at a time, so that no worker holds a whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kfast.errors import ArgumentError
from kfast.spark.columns import BATCH_ROWS, BY_ROW, batches_of, row_tables, with_source
from kfast.spark.portions import count_portions
from kfast.spark.workers import SentToWorkers
from kfast.state import ClusterState
from kfast.state.generation import Recipe

__all__ = ["MADE_OPTIONS", "MadeReader"]

MADE_OPTIONS = {
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


class Units(InputPartition):
    """Parts of made-up clusters that one task makes, numbered through all clusters."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__((start, stop))


class MadeReader(SentToWorkers, DataSourceReader):
    """Makes up clusters, some of them or a part of one to a task.

    Parameters
    ----------
    options : mapping
        Keys in lower case, and known: `clusters`, and the arguments of `kfast.generate`.
    table : str
        Which table of them.
    tasks : int
        At most so many.
    wanted : pa.Schema
        Columns, among them perhaps `source`.

    Raises
    ------
    ArgumentError
        An option is missing, or outside its range.
    """

    def __init__(
        self, options: Mapping[str, str], table: str, tasks: int, wanted: pa.Schema
    ) -> None:
        self.table, self.wanted = table, wanted
        self.arguments: dict[str, Any] = {}
        missing = sorted({"brokers", "partitions"} - set(options))
        if missing:
            raise ArgumentError(
                f"option {', '.join(missing)} is missing: give a path, or the brokers and"
                " partitions of made-up clusters"
            )
        for key, kind in {**MADE_OPTIONS, "clusters": int}.items():
            if key in options:
                try:
                    self.arguments[key] = kind(options[key])
                except ValueError as error:
                    raise ArgumentError(
                        f"option {key}: found {options[key]!r}; right is a number"
                    ) from error
        self.clusters = self.arguments.pop("clusters", 1)
        if self.clusters < 1:
            raise ArgumentError(
                f"option clusters: found {self.clusters}; right is an integer of at least 1"
            )
        most = max(1, tasks // self.clusters)
        self.parts = count_portions(table, self._rows(self._recipe(0)), most)
        self.tasks = min(tasks, self.clusters * self.parts)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of clusters and of their parts."""
        units = self.clusters * self.parts
        edges = [units * at // self.tasks for at in range(self.tasks + 1)]
        return [Units(edges[at], edges[at + 1]) for at in range(self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make what a task was dealt."""
        for unit in range(*partition.value):
            number, at = divmod(unit, self.parts)
            recipe = self._recipe(number)
            rows = self._rows(recipe)
            start, stop = rows * at // self.parts, rows * (at + 1) // self.parts
            for state in self._pieces(recipe, start, stop):
                for table in row_tables(state, self.table):
                    yield from batches_of(with_source(table, f"seed {recipe.seed}"), self.wanted)

    def _recipe(self, number: int) -> Recipe:
        """The cluster of this number; each has a seed of its own."""
        return Recipe(**{**self.arguments, "seed": self.arguments.get("seed", 0) + number})

    def _rows(self, recipe: Recipe) -> int:
        """Rows that the table is made of: partitions, topics, or nothing that can be divided."""
        if self.table in BY_ROW:
            return recipe.partitions
        return recipe.n_topics if self.table == "topics" else 1

    def _pieces(self, recipe: Recipe, start: int, stop: int) -> Iterator[ClusterState]:
        """The cluster, as far as the rows from `start` to `stop` need it."""
        if self.table not in (*BY_ROW, "topics"):
            yield recipe.part_of_topics(0, 0)
            return
        make = recipe.part if self.table in BY_ROW else recipe.part_of_topics
        for at in range(start, stop, BATCH_ROWS):
            yield make(at, min(at + BATCH_ROWS, stop))
