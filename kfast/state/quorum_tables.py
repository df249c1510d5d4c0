"""What only a KRaft cluster has, from Arrow tables and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.errors import InputError
from kfast.kernels import member_lists
from kfast.kernels import tables as kernels
from kfast.state.arrays import StateArrays
from kfast.state.kraft_releases import (
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
)
from kfast.state.metadata_records import ResourceType
from kfast.state.quorum import MIGRATING_ROW, NO_LAST_KNOWN, NOT_REGISTERED, Quorum
from kfast.state.quorum_flat import last_known_lists
from kfast.state.records import Rows
from kfast.state.table_columns import ListColumn, TableColumns, ids_to_rows

_SETTINGS = ("features", "static_configuration", "configurations")
_BROKER_LISTS = ("feature_ranges", "directories", "cordoned")


def load_quorum(state: StateArrays, settings: TableColumns, brokers: TableColumns) -> Quorum:
    """Make what the tables of the cluster and the brokers say; topics and brokers are loaded."""
    for table, names in ((settings, _SETTINGS), (brokers, _BROKER_LISTS)):
        for name in names:
            table.refuse_nulls_within(name)
    quorum = state.quorum = Quorum(state)
    quorum.features = {
        entry["name"]: entry["level"] for entry in settings.scalar("features") or ()
    } or {METADATA_VERSION: quorum.release.latest_metadata_version}
    quorum.static_configuration = {
        entry["key"]: entry["value"] for entry in settings.scalar("static_configuration") or ()
    }
    configurations = settings.scalar("configurations")
    if configurations is None:
        quorum.configurations = configurations_of(state, quorum.static_configuration)
    for entry in configurations or ():
        resource = entry["resource_type"], entry["resource"]
        quorum.configurations.setdefault(resource, {})[entry["key"]] = entry["value"]
    quorum.derive_settings()
    ids = brokers.integers("broker_id", -1)
    rows = state.broker_rows(ids.astype(np.int32))
    _load_status(state, brokers, rows)
    quorum.registration_offset[rows] = brokers.integers("registration_offset", -1)
    for name in NOT_REGISTERED:
        if brokers.given(name):
            column = getattr(quorum, name)
            for row, value in zip(rows.tolist(), brokers.array(name).to_pylist(), strict=True):
                if value is not None:
                    column[row] = _broker_value(name, value)
    return quorum


def _broker_value(name: str, value: Any) -> Any:
    if name == "incarnation_id":
        return value
    if name == "feature_ranges":
        return {of["name"]: (of["min"], of["max"]) for of in value}
    return tuple(value)


def _load_status(state: StateArrays, brokers: TableColumns, rows: Rows) -> None:
    """Fill in who is fenced or shutting down; who is only said to be down stays registered."""
    if not brokers.given("fenced"):
        down = rows[~state.registered[rows]]
        state.broker_status[down] = schema.BROKER_REGISTERED | schema.BROKER_FENCED
    for column, bit in (
        ("fenced", schema.BROKER_FENCED), ("in_controlled_shutdown", schema.BROKER_SHUTTING_DOWN),
    ):
        state.broker_status[rows] |= (bit * brokers.integers(column, 0)).astype(np.uint8)


def configurations_of(
    state: StateArrays, static: Mapping[str, str]
) -> dict[tuple[int, str], dict[str, str]]:
    """Configurations that say what the columns of topics and the brokers' defaults say."""
    configurations: dict[tuple[int, str], dict[str, str]] = {}

    def put(kind: int, name: str, key: str, value: str) -> None:
        configurations.setdefault((kind, name), {})[key] = value

    minimum, unclean = state.topic_min_insync_replicas, state.topic_unclean_leader_election
    for row in np.flatnonzero(minimum >= 0).tolist():
        put(ResourceType.TOPIC, state.topic[row].as_py(), MIN_INSYNC_REPLICAS, str(minimum[row]))
    for row in np.flatnonzero(unclean >= 0).tolist():
        allowed = "true" if unclean[row] else "false"
        put(ResourceType.TOPIC, state.topic[row].as_py(), UNCLEAN_LEADER_ELECTION, allowed)
    if state.default_min_insync_replicas != 1 and MIN_INSYNC_REPLICAS not in static:
        value = str(state.default_min_insync_replicas)
        put(ResourceType.BROKER, "", MIN_INSYNC_REPLICAS, value)
    if state.default_unclean_leader_election and UNCLEAN_LEADER_ELECTION not in static:
        put(ResourceType.BROKER, "", UNCLEAN_LEADER_ELECTION, "true")
    return configurations


def load_members(
    state: StateArrays, rows: TableColumns, isr: ListColumn, elr: ListColumn,
    last_known: ListColumn, replicas: ListColumn,
) -> None:
    """Fill in ELRs, last known leaders, orders and directories; slots are filled already."""
    quorum = state.quorum
    if quorum is None:
        return
    n = state.n_partitions
    every = np.arange(n, dtype=np.int32)
    brokers = {"isr": ids_to_rows(state.broker_id, isr.values),
               "elr": ids_to_rows(state.broker_id, elr.values)}
    if elr.values.size or last_known.values.size:
        masks = np.empty(n, np.uint64)
        kernels.masks_of(
            state.replicas, state.records, every, elr.offsets, brokers["elr"], masks,
            np.empty(n, np.uint8),
        )
        both = np.flatnonzero(masks & state.records["isr"])
        if both.size:
            raise InputError(f"{rows.where(int(both[0]))}: a broker is in the ISR and in the ELR")
        quorum.set_elr(masks, _last_known_rows(state, rows, last_known))
    lists = ((isr.offsets, brokers["isr"]), (elr.offsets, brokers["elr"]))
    if not all(member_lists.are_in_slot_order(state.replicas, *each) for each in lists):
        quorum.allocate_orders()
        assert quorum.member_order is not None
        filled = np.zeros(n, np.uint8)
        for offsets, values in lists:
            member_lists.fill_order(state.replicas, offsets, values, filled, quorum.member_order)
    _load_directories(quorum, rows, replicas)


def _last_known_rows(state: StateArrays, rows: TableColumns, listed: ListColumn) -> Rows:
    lengths = np.diff(listed.offsets)
    long = np.flatnonzero(lengths > 1)
    if long.size:
        raise InputError(
            f"{rows.where(int(long[0]))}: last_known_elr has {lengths[long[0]]} brokers; at most"
            " one is allowed, as in a real controller"
        )
    if listed.values.size and listed.values.min() < schema.NO_LEADER:
        row = int(np.flatnonzero(lengths)[listed.values.argmin()])
        raise InputError(
            f"{rows.where(row)}: last_known_elr names broker {listed.values.min()}; broker ids are"
            " 0 or more, and -1 is allowed"
        )
    known = np.full(rows.n_rows, NO_LAST_KNOWN, np.int32)
    known[lengths > 0] = ids_to_rows(state.broker_id, listed.values)
    return known


def _load_directories(quorum: Quorum, rows: TableColumns, replicas: ListColumn) -> None:
    """Fill in directories, where a row lists one for each replica."""
    if not rows.given("directories") or rows.n_null("directories") == rows.n_rows:
        return
    column = rows.array("directories")
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    n_replicas = np.diff(replicas.offsets)
    wrong = np.flatnonzero((lengths > 0) & (lengths != n_replicas))
    if wrong.size:
        row = int(wrong[0])
        raise InputError(
            f"{rows.where(row)}: directories has {lengths[row]} ids for {n_replicas[row]} replicas;"
            " one each is right"
        )
    quorum.allocate_directories()
    assert quorum.directory is not None
    named = column.flatten().dictionary_encode()
    places = np.array([quorum.directory_row(text) for text in named.dictionary.to_pylist()])
    held = np.flatnonzero(lengths)
    chosen = np.zeros(quorum.directory.shape, np.bool_)
    chosen[held] = np.arange(quorum.directory.shape[1]) < lengths[held][:, None]
    quorum.directory[chosen] = places[named.indices.to_numpy()]


def cluster_columns(state: StateArrays) -> list[pa.Array]:
    """Columns of `schema.QUORUM_CLUSTER`."""
    quorum = state.quorum
    if quorum is None:
        return [pa.nulls(1, column.arrow) for column in schema.QUORUM_CLUSTER]
    configurations = [
        {"resource_type": int(kind), "resource": name, "key": key, "value": value}
        for (kind, name), values in sorted(quorum.configurations.items())
        for key, value in sorted(values.items())
    ]
    values = (
        [{"name": name, "level": level} for name, level in sorted(quorum.features.items())],
        configurations,
        [{"key": key, "value": text} for key, text in sorted(quorum.static_configuration.items())],
    )
    return [
        pa.array([value], column.arrow)
        for value, column in zip(values, schema.QUORUM_CLUSTER, strict=True)
    ]


def broker_columns(state: StateArrays) -> list[pa.Array]:
    """Columns of `schema.QUORUM_BROKERS`."""
    quorum = state.quorum
    if quorum is None:
        return [pa.nulls(state.n_brokers, column.arrow) for column in schema.QUORUM_BROKERS]
    ranges = [
        [{"name": name, "min": low, "max": high} for name, (low, high) in sorted(of.items())]
        for of in quorum.feature_ranges
    ]
    offset = quorum.registration_offset
    values: Sequence[Any] = (
        state.fenced, state.shutting_down, [text or None for text in quorum.incarnation_id],
        quorum.directories, quorum.cordoned, pa.array(offset, mask=offset < 0), ranges,
    )
    return [
        pa.array(value, column.arrow)
        for value, column in zip(values, schema.QUORUM_BROKERS, strict=True)
    ]


def partition_columns(state: StateArrays, rows: Rows) -> dict[str, pa.Array]:
    """Columns of `schema.QUORUM_PARTITIONS` of some rows."""
    quorum = state.quorum
    if quorum is None:
        return {c.name: pa.nulls(rows.size, c.arrow) for c in schema.QUORUM_PARTITIONS}
    nobody = np.zeros(rows.size + 1, np.int32)
    empty = pa.ListArray.from_arrays(pa.array(nobody), pa.array([], pa.int32()))
    columns = {"elr": empty, "last_known_elr": empty}
    if quorum.elr is not None and quorum.last_known_elr is not None:
        isr, elr = state.records["isr"][rows], quorum.elr[rows]
        columns["elr"] = members(state, rows, elr, isr)
        columns["last_known_elr"] = last_known_lists(state, quorum.last_known_elr[rows])
    columns["directories"] = _directory_lists(quorum, rows)
    return columns


def members(
    state: StateArrays, rows: Rows, masks: npt.NDArray[Any], before: npt.NDArray[Any] | None = None
) -> pa.ListArray:
    """Ids of ISR members in their order; of ELR members where `before` is the ISR."""
    quorum = state.quorum
    slots = np.ascontiguousarray(masks, np.uint64)
    offsets = np.empty(slots.size + 1, np.int32)
    kernels.measure_lists(slots, offsets)
    values = np.empty(int(offsets[-1]), np.int32)
    if quorum is None or quorum.member_order is None:
        kernels.expand_masks(state.replicas, state.broker_id, rows, slots, values)
    else:
        first = np.zeros_like(slots) if before is None else np.ascontiguousarray(before, np.uint64)
        member_lists.list_members(
            state.replicas, quorum.member_order, state.broker_id, rows, first, slots, values
        )
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _directory_lists(quorum: Quorum, rows: Rows) -> pa.ListArray:
    """Directories of assigned replicas; null for a row in which all are MIGRATING."""
    if quorum.directory is None:
        return pa.nulls(rows.size, pa.list_(pa.string()))
    places = quorum.directory[rows]
    missing: npt.NDArray[np.bool_] = np.all(places <= MIGRATING_ROW, axis=1)
    held = (places >= 0) & ~missing[:, None]
    offsets = np.concatenate([[0], np.cumsum(held.sum(axis=1))]).astype(np.int32)
    texts = pa.array(quorum.directory_ids, pa.string()).take(pa.array(places[held]))
    return pa.ListArray.from_arrays(pa.array(offsets), texts, mask=pa.array(missing))
