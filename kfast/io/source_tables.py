"""What every reader gives, the tables of a cluster, and what a caller adds to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import arguments, schema
from kfast.arguments import config_boolean, config_count
from kfast.errors import ArgumentError
from kfast.io.files import abbreviate
from kfast.state.arrays import how_to_add
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.flat_table import SLOT, count_slots, is_flat
from kfast.state.from_tables import LISTS

__all__ = [
    "NO_PARTITIONS",
    "Coverage",
    "Exactness",
    "SourceTables",
    "add_defaults",
    "brokers_of",
    "cast_columns",
    "default_settings",
    "forget_presumed",
    "mark_up",
    "note_presumed",
    "registered",
    "set_column",
]

_DEFAULTS: dict[str, tuple[str, Callable[[str, object], int]]] = {
    "min.insync.replicas": ("default_min_insync_replicas", config_count),
    "unclean.leader.election.enable": ("default_unclean_leader_election", config_boolean),
    "delete.topic.enable": ("delete_topic_enabled", config_boolean),
}
"""Settings of the brokers: the column of each, and what reads its value."""


NO_PARTITIONS = pa.Table.from_batches(
    [], pa.schema([schema.PARTITIONS_SCHEMA.field(name) for name in ("topic", "partition")])
)
"""Partitions of a source that lists none. (`empty_table()` would import pandas.)"""


class Exactness(IntEnum):
    """How close a source is to what the controller has; where sources differ, the lower counts."""

    RECORDS = 0
    """What the controller itself wrote: its metadata log, the nodes of ZooKeeper."""
    TABLES = 1
    """Tables of a whole cluster, as kfast writes them."""
    SETTINGS = 2
    """What brokers answer to one question: configurations, versions, log directories."""
    ANSWERS = 3
    """What brokers answer of all topics: describe texts, metadata as clients get it."""
    PLANS = 4
    """What is wanted, or who holds what and no more."""


class Coverage(IntEnum):
    """Which partitions a source knows of: one that it could list and does not is none."""

    NOTHING = 0
    """None: it only supplements others."""
    PARTITIONS = 1
    """Those that it lists; there may be others, of the same topics too."""
    TOPICS = 2
    """All of the topics that it lists; there may be other topics."""
    CLUSTER = 3
    """All of the cluster."""


@dataclass(frozen=True)
class SourceTables:
    """The tables of a cluster as far as a source has them.

    Parameters
    ----------
    source : str
        What messages call the file.
    partitions : pa.Table
        Columns as in `schema.PARTITIONS_SCHEMA`, those that the source knows, and perhaps `line`;
        `NO_PARTITIONS` where it lists none.
    topics, brokers, cluster : pa.Table or None
        Likewise; None where the source says nothing at all.
    taken_for_down : tuple of int
        Brokers that the source seems to show as down, though it does not say so.
    taken_for_up : tuple of int
        Brokers of which the source shows neither that they are up nor that they are down.
    notes : tuple of str
        What was assumed, joined or passed over: one sentence each.
    log_settings : mapping of str to mapping of str to str
        Settings of topics that no table has: those that say how large their logs become.
    kind : str
        What the source is: the tool that printed it, or its format.
    version : str
        Version of that tool, or of Kafka, as far as the source says it.
    captured_ms : int or None
        When it was taken, in ms since 1970, if it says that.
    exactness : Exactness
        Which source counts where several differ.
    coverage : Coverage
        Which partitions it knows of. One that covers nothing is read beside others only.
    cluster_id : str
        Empty where the source does not say it.
    lists_live_brokers : bool
        Whether brokers that it does not list are down.
    log_dir_replicas : pa.Table or None
        topic, partition, broker_id, log_dir: what the log directories of brokers hold; without
        topic and partition: a directory that failed.
    provenance : pa.Table or None
        `schema.PROVENANCE` of what was merged.
    """

    source: str
    partitions: pa.Table
    topics: pa.Table | None = None
    brokers: pa.Table | None = None
    cluster: pa.Table | None = None
    taken_for_down: tuple[int, ...] = ()
    taken_for_up: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    log_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    kind: str = ""
    version: str = ""
    captured_ms: int | None = None
    exactness: Exactness = Exactness.ANSWERS
    coverage: Coverage = Coverage.TOPICS
    cluster_id: str = ""
    lists_live_brokers: bool = False
    log_dir_replicas: pa.Table | None = None
    provenance: pa.Table | None = None

    @property
    def is_kraft(self) -> bool:
        """Whether the source says that a KRaft controller runs the cluster."""
        cluster = self.cluster
        if cluster is None or "controller" not in cluster.column_names or not cluster.num_rows:
            return False
        return str(cluster["controller"][0].as_py()).startswith("kraft-")

    def _summary(self) -> Summary:
        tables = {"brokers": self.brokers, "topics": self.topics, "partitions": self.partitions}
        return "SourceTables", {
            "source": self.source,
            **{name: table.num_rows for name, table in tables.items() if table is not None},
            "notes": len(self.notes),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def note_presumed(tables: SourceTables) -> SourceTables:
    """Say which brokers are taken for down or for up, and from what."""
    notes = list(tables.notes)
    if tables.taken_for_down:
        notes.append(
            "taken for down, because they lead nothing and are in no ISR of a partition that has a"
            f" leader: {_brokers(tables.taken_for_down)}"
            " (override: --up, up=, or a brokers file with a column `registered`)"
        )
    if tables.taken_for_up:
        notes.append(
            "taken for up, because they are named only where a reassignment adds them, which shows"
            f" neither up nor down: {_brokers(tables.taken_for_up)}"
            " (override: a brokers file with a column `registered`)"
        )
    return replace(tables, notes=tuple(notes))


def _brokers(ids: Collection[int]) -> str:
    return f"broker{'' if len(ids) == 1 else 's'} {abbreviate(list(ids))}"


def forget_presumed(tables: SourceTables, brokers: Collection[int]) -> SourceTables:
    """Presume nothing of some brokers any more: a caller has said whether they are up."""
    down, up = (
        tuple(broker for broker in presumed if broker not in brokers)
        for presumed in (tables.taken_for_down, tables.taken_for_up)
    )
    return replace(tables, taken_for_down=down, taken_for_up=up)


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


def brokers_of(tables: SourceTables) -> pa.Table:
    """The brokers of a source: those that its partitions name, if it has no table of them."""
    if tables.brokers is not None:
        return tables.brokers
    rows = tables.partitions
    if is_flat(rows):
        n_slots = count_slots(rows.column_names, tables.source)
        columns = [rows[f"{SLOT}{slot}"] for slot in range(n_slots)]
    else:
        columns = [pc.list_flatten(rows[name]) for name in LISTS if name in rows.column_names]
    if "leader" in rows.column_names:
        columns.append(rows["leader"])
    ids = [pc.unique(column).drop_null().to_numpy() for column in columns]
    found = np.unique(np.concatenate([np.empty(0, np.int32), *ids])).astype(np.int32)
    return pa.table({"broker_id": found[found >= 0]})


def default_settings() -> dict[str, str]:
    """Columns of the cluster's table that are defaults of the brokers: the setting of each."""
    return {column: setting for setting, (column, _) in _DEFAULTS.items()}


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
        column, parse = _DEFAULTS[name]
        cell = parse(f"default {name}", value)
        values = pa.array([cell], schema.CLUSTER_SCHEMA.field(column).type)
        cluster = set_column(cluster, column, values)
        if "configurations" in cluster.column_names and cluster["configurations"].null_count == 0:
            cluster = _add_static(cluster, name, str(cell).lower())
    return replace(tables, cluster=cluster)


def _add_static(cluster: pa.Table, key: str, value: str) -> pa.Table:
    """Put a setting into the controller's file, which dynamic configurations overrule."""
    column = "static_configuration"
    listed = cluster[column][0].as_py() if column in cluster.column_names else None
    entries = [entry for entry in listed or () if entry["key"] != key]
    kind = schema.CLUSTER_SCHEMA.field(column).type
    return set_column(
        cluster, column, pa.array([[*entries, {"key": key, "value": value}]], kind)
    )


def mark_up(tables: SourceTables, up: Iterable[int]) -> SourceTables:
    """Take brokers for registered, whatever the source shows.

    Raises
    ------
    ArgumentError
        A broker that the source does not name, or no whole number.
    """
    wanted = arguments.broker_ids("up", up)
    if not wanted.size:
        return tables
    ids = brokers_of(tables)["broker_id"].to_numpy()
    unknown = np.setdiff1d(wanted, ids).tolist()
    if unknown:
        raise ArgumentError(
            f"up: broker {abbreviate(unknown)} does not appear in {tables.source};"
            f" those that do are {abbreviate(np.sort(ids).tolist())}; {how_to_add(unknown[0])}"
        )
    if tables.brokers is None:
        return tables
    values = pa.array(registered(tables.brokers) | np.isin(ids, wanted))
    tables = forget_presumed(tables, set(wanted.tolist()))
    brokers = set_column(tables.brokers, "registered", values)
    if "fenced" in brokers.column_names and brokers["fenced"].null_count == 0:
        fenced = np.asarray(brokers["fenced"].to_numpy(), bool) & ~np.isin(ids, wanted)
        brokers = set_column(brokers, "fenced", pa.array(fenced))
    return replace(tables, brokers=brokers)
