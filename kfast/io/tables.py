"""What every reader gives, the tables of a cluster, and what a caller adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.errors import ArgumentError
from kfast.io.text import some

__all__ = ["SourceTables", "add_defaults", "cast_columns", "mark_up", "registered", "set_column"]

_DEFAULTS: dict[str, tuple[str, type]] = {
    "min.insync.replicas": ("default_min_insync_replicas", int),
    "unclean.leader.election.enable": ("default_unclean_leader_election", bool),
    "delete.topic.enable": ("delete_topic_enabled", bool),
}
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class SourceTables:
    """The tables of a cluster as far as a source has them.

    Parameters
    ----------
    source : str
        What messages call the file.
    partitions : pa.Table
        Columns as in `schema.PARTITIONS_SCHEMA`, those that the source knows, and perhaps `line`.
    topics, brokers, cluster : pa.Table or None
        Likewise; None where the source says nothing at all.
    taken_for_down : tuple of int
        Brokers that the source seems to show as down, though it does not say so.
    notes : tuple of str
        What was assumed, joined or passed over: one sentence each.
    """

    source: str
    partitions: pa.Table
    topics: pa.Table | None = None
    brokers: pa.Table | None = None
    cluster: pa.Table | None = None
    taken_for_down: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def note_down(tables: SourceTables) -> SourceTables:
    """Say which brokers are taken for down, as far as nothing else was said of them."""
    if tables.brokers is None:
        return tables
    ids = tables.brokers["broker_id"].to_numpy()[~registered(tables.brokers)]
    down = [int(broker) for broker in ids if broker in tables.taken_for_down]
    if not down:
        return tables
    note = (
        "taken for down, because they lead nothing and are in no ISR of a partition that has a"
        f" leader: brokers {some(down)}"
        " (override: --up, up=, or a brokers file with a column `registered`)"
    )
    return replace(tables, notes=(*tables.notes, note))


def set_column(table: pa.Table | None, name: str, values: pa.Array) -> pa.Table:
    """Set a column of a table, or append it."""
    if table is None:
        return pa.table({name: values})
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, values)
    return table.append_column(name, values)


def cast_columns(table: pa.Table, to: pa.Schema) -> pa.Table:
    """Cast the columns that a schema names to its types; leave out all others.

    Raises
    ------
    pa.ArrowInvalid, pa.ArrowNotImplementedError
        A column holds what its type cannot.
    """
    fields = [to.field(name) for name in table.column_names if name in to.names]
    return pa.table([table[f.name].cast(f.type) for f in fields], schema=pa.schema(fields))


def registered(brokers: pa.Table) -> npt.NDArray[np.bool_]:
    """Which brokers are registered: those too of which the table does not say."""
    if "registered" not in brokers.column_names:
        return np.ones(brokers.num_rows, bool)
    return np.asarray(pc.fill_null(brokers["registered"], True).to_numpy(), bool)


def add_defaults(tables: SourceTables, defaults: Mapping[str, object] | None) -> SourceTables:
    """Give the brokers' defaults of settings, which no describe text has.

    Raises
    ------
    ArgumentError
        A setting that kfast does not use, or a value that the setting cannot have.
    """
    cluster = tables.cluster
    for name, value in (defaults or {}).items():
        if name not in _DEFAULTS:
            raise ArgumentError(
                f"default {name!r} is not one that kfast uses; these are: {', '.join(_DEFAULTS)}"
            )
        column, kind = _DEFAULTS[name]
        cell = _truth(name, value) if kind is bool else _count(name, value)
        values = pa.array([cell], schema.CLUSTER_SCHEMA.field(column).type)
        cluster = set_column(cluster, column, values)
    return replace(tables, cluster=cluster)


def _truth(name: str, value: object) -> bool:
    """A setting that is true or false, which may be given as text."""
    word = str(value).lower()
    if word not in _BOOLEANS:
        raise ArgumentError(f"default {name}: found {value!r}; right is true or false")
    return _BOOLEANS[word]


def _count(name: str, value: object) -> int:
    """A setting that is a number of replicas, which may be given as text."""
    word = str(value)
    if not word.isdecimal() or not 1 <= int(word) < 2**31:
        raise ArgumentError(f"default {name}: found {value!r}; right is an integer of at least 1")
    return int(word)


def mark_up(tables: SourceTables, up: Iterable[int]) -> SourceTables:
    """Take brokers for registered, whatever the source shows.

    Raises
    ------
    ArgumentError
        A broker that the source does not name.
    """
    wanted = sorted({int(broker) for broker in up})
    if not wanted or tables.brokers is None:
        return tables
    ids = tables.brokers["broker_id"].to_numpy()
    unknown = [broker for broker in wanted if broker not in ids]
    if unknown:
        raise ArgumentError(
            f"up: broker {some(unknown)} does not appear in {tables.source};"
            f" those that do are {some(np.sort(ids).tolist())}"
        )
    values = pa.array(registered(tables.brokers) | np.isin(ids, wanted))
    return replace(tables, brokers=set_column(tables.brokers, "registered", values))
