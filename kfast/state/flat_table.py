"""The flat form of the table of partitions: a plain int32 column for everything, no lists.

Arrow reads and writes such columns ten times faster than lists. A column
`replica_0`, `replica_1`, ... for each slot has broker ids; the columns that are masks in a state
are masks here too. What only few partitions have stands in columns that a table may lack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.errors import ArgumentError, InputError
from kfast.kernels import flat as kernel
from kfast.state import quorum_flat
from kfast.state.arrays import StateArrays
from kfast.state.arrow_views import empty
from kfast.state.partition_rows import present_topics, without_free_rows
from kfast.state.quorum_flat import chosen_lists, place_members
from kfast.state.records import Rows

MOST_SLOTS = 8
"""Slots that a flat table has at most: their states are the digits of an int32."""

SLOT = "replica_"
"""What precedes the number of a slot in the name of its column: a broker id, -1 for none; assigned
replicas first, the preferred replica in slot 0."""
ALWAYS = ("leader", "leader_epoch", "version", "controller_epoch", "isr", "states")
"""Beside topic, partition and slots, as the kernels take them. `isr` is a mask. `states` has octal
digits, the lowest first: the partition's `PartitionState` and 1, 0 for none; then the
`ReplicaState` of slots 0, 1, ..."""
SOME = ("n_replicas", "flags", "adding", "removing", "offline_dir")
"""Columns that a table has only where they say something; in the order of the kernel's bits.
Missing: all slots in use are assigned; flags 3 (bits: 1 assigned, 2 has leadership, 4 recovering, 8
being reassigned); masks 0."""

_SLOT_NAME = re.compile(f"{SLOT}[0-9]+")
REQUIRED = ("topic", "partition", "replica_0", *ALWAYS)


def place_topics(state: StateArrays) -> tuple[pa.StringArray, Rows | None]:
    """Names of the topics that say anything, and the place of each topic row; None where all do."""
    present = present_topics(state)
    if present.all():
        return state.topic, None
    return state.topic.filter(pa.array(present)), np.cumsum(present, dtype=np.int32) - np.int32(1)


def _topics(state: StateArrays, start: int, stop: int) -> pa.DictionaryArray:
    """Names of the topics of some rows; of a part of the rows, the dictionary is that part."""
    (names, place), rows = place_topics(state), state.topic_row[start:stop]
    rows = rows if place is None else place[rows]
    if rows.size == state.n_partitions or not rows.size:
        return pa.DictionaryArray.from_arrays(pa.array(rows), names, safe=False)
    first, last = int(rows.min()), int(rows.max())
    names = pa.concat_arrays([names.slice(first, last + 1 - first)])
    return pa.DictionaryArray.from_arrays(pa.array(rows - np.int32(first)), names)


def flat_schema(names: Sequence[str]) -> pa.Schema:
    """Arrow schema of a flat table that has these columns; others are left out."""
    slots = range(MOST_SLOTS)
    known = {"partition", *ALWAYS, *SOME, *quorum_flat.INTEGERS, *(f"{SLOT}{s}" for s in slots)}
    texts = {"topic", *(f"{quorum_flat.DIRECTORY}{s}" for s in slots)}
    kinds = dict.fromkeys(texts, pa.string()) | dict.fromkeys(known, pa.int32())
    return pa.schema([pa.field(n, kinds[n], nullable=False) for n in names if n in kinds])


def with_dictionaries(kinds: pa.Schema, columns: Mapping[str, Any]) -> pa.Schema:
    """The schema in which texts are dictionary-encoded where the columns are."""
    for at, field in enumerate(kinds):
        if pa.types.is_string(field.type) and pa.types.is_dictionary(columns[field.name].type):
            kinds = kinds.set(at, field.with_type(columns[field.name].type))
    return kinds


def is_flat(table: pa.Table | pa.Schema | None) -> bool:
    """Whether a table of partitions is flat, rather than one with lists."""
    if table is None:
        return False
    names = table.names if isinstance(table, pa.Schema) else table.column_names
    return f"{SLOT}0" in names and "replicas" not in names


def is_plain(table: pa.Table) -> bool:
    """Whether a flat table has all columns that it must have, and no null."""
    names = flat_schema(table.column_names).names
    return set(REQUIRED) <= set(names) and not any(table[name].null_count for name in names)


def can_be_flat(state: StateArrays) -> bool:
    """Whether a flat table can hold this state: at most 8 slots, lists in the order of slots."""
    return state.n_slots <= MOST_SLOTS and not state.list_orders and state.n_brokers > 0


def to_flat(state: StateArrays, start: int = 0, stop: int | None = None) -> pa.Table:
    """Some rows of the table of partitions, in the flat form.

    Parameters
    ----------
    start, stop : int
        Partition rows; by default all. A state with free rows is given whole.

    Raises
    ------
    ArgumentError
        A partition names more than 8 brokers, or an adding or removing list is not in the order
        of the replicas: a flat table cannot say so.
    """
    if not can_be_flat(state):
        raise ArgumentError(
            f"a flat table needs a broker, and holds partitions of at most {MOST_SLOTS} brokers"
            " whose adding and removing lists are in the order of the replicas; use the form with"
            " lists"
        )
    state = without_free_rows(state)
    last = state.n_partitions if stop is None else stop
    part = slice(start, last)
    names = [*(f"{SLOT}{slot}" for slot in range(state.n_slots)), *ALWAYS]
    listed = [empty(last - start, np.int32) for _ in names]
    odd = kernel.list_rows(
        listed[: state.n_slots], state.records[part], state.replicas[part],
        state.replica_state[part], state.broker_id, *listed[state.n_slots :],
    )
    topic = _topics(state, start, last)
    columns: dict[str, Any] = {"topic": topic, "partition": state.partition[part]}
    columns |= dict(zip(names, listed, strict=True)) | {
        name: state.records[name][part].astype(np.int32)
        for bit, name in enumerate(SOME) if odd >> bit & 1
    } | quorum_flat.flat_columns(state, part)
    kinds = with_dictionaries(flat_schema(list(columns)), columns)
    return pa.table([pa.array(values) for values in columns.values()], schema=kinds)


def allocate(state: StateArrays, n: int, n_slots: int, narrow: bool) -> None:
    """Make the columns of n partitions; every place is filled later."""
    state.topic_row, state.partition = empty(n, np.int32), empty(n, np.int32)
    state.records = empty(n, schema.record_dtype(narrow))
    state.replicas = empty((n, n_slots), schema.broker_dtype(narrow))
    state.replica_state = empty((n, n_slots), np.uint8)


def fill_columns(state: StateArrays, columns: Mapping[str, Rows], place: Rows) -> bool:
    """Fill records, replicas and states of an allocated state.

    Parameters
    ----------
    state : StateArrays
        Topics and partitions are there already.
    columns : mapping of str to (n,) int32
        Of a flat table.
    place : (n,) int32
        What `table_columns.place_brokers` finds.

    Returns
    -------
    bool
        Whether that could be done: whether the rows are in order, each names a registered table's
        brokers only, and nothing contradicts. Where it is False, the form with lists can say what
        is wrong, or take it.
    """
    slots = [columns[f"{SLOT}{slot}"] for slot in range(state.n_slots)]
    arrays = [
        state.topic_row, state.partition, *(columns[name] for name in ALWAYS), place,
        state.records, state.replicas, state.replica_state,
    ]
    if kernel.fill_rows(slots, *arrays) >= 0:
        return False
    # Topics ascend, so that the first and the last tell whether all are known.
    topics = state.topic_row
    if topics.size and not 0 <= topics[0] <= topics[-1] < state.n_topics:
        return False
    if not any(name in columns for name in SOME):
        return True
    missing = np.empty(0, np.int32)
    optional = [*(columns.get(name, missing) for name in SOME), state.records]
    if kernel.fill_optional(*optional) >= 0:
        return False
    # An ISR beyond the assignment is kept, and said: the form with lists does that.
    return not (state.records["isr"] >> state.records["n_replicas"]).any()


def count_slots(names: Sequence[str], source: str | None = None) -> int:
    """How many slots a flat table with these columns has.

    Raises
    ------
    InputError
        A column of a slot is missing between others, or there are more than 8: replicas would be
        left out.
    """
    found = {name for name in names if _SLOT_NAME.fullmatch(name)}
    if len(found) > MOST_SLOTS or found != {f"{SLOT}{s}" for s in range(len(found))}:
        raise InputError(
            f"{_named(source)}columns {', '.join(sorted(found))} of a flat table; right is"
            f" {SLOT}0, {SLOT}1, ... without a gap, up to {SLOT}{MOST_SLOTS - 1}"
        )
    return len(found)


def _named(source: str | None) -> str:
    return f"{source}: " if source else ""


def to_lists(table: pa.Table, source: str | None = None, is_kraft: bool = False) -> pa.Table:
    """The table with lists that says what a flat one says.

    Parameters
    ----------
    table : pa.Table
        In the flat form; columns that are not of kfast are left out.
    source : str, optional
        File that messages name.
    is_kraft : bool
        Whether adding and removing lists ascend, rather than follow the replicas.

    Returns
    -------
    pa.Table
        Columns as in `schema.PARTITIONS_SCHEMA`.

    Raises
    ------
    InputError
        A slot is empty before one that is not, or a column speaks of slots that are empty: lists
        cannot say so. A row's topic is none of the dictionary of topics.
    """
    try:
        table["topic"].validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{_named(source)}column topic of partitions is damaged: {error}"
        ) from error
    n, n_slots = table.num_rows, count_slots(table.column_names, source)
    wide = np.empty((n, n_slots), np.int32)
    for slot in range(n_slots):
        wide[:, slot] = _column(table, f"{SLOT}{slot}", -1)
    used = wide >= 0
    _check_slots(table, wide, source)
    n_assigned = _column(table, "n_replicas", -1)
    n_assigned = np.where(n_assigned < 0, used.sum(axis=1), n_assigned)
    flags = _column(table, "flags", schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP)
    places = np.arange(n_slots)
    states = _column(table, "states", 0)
    digits = states[:, None] >> (3 * places + 3) & 7

    def masked(name: str) -> pa.ListArray:
        chosen = (_column(table, name, 0)[:, None] >> places & 1).astype(np.bool_) & used
        if not is_kraft or name not in ("adding", "removing"):
            return chosen_lists(chosen, wide)
        ascending = np.argsort(wide, axis=1)
        return chosen_lists(*(np.take_along_axis(of, ascending, axis=1) for of in (chosen, wide)))

    unassigned = pa.array((flags & schema.FLAG_ASSIGNED) == 0)
    replicas = chosen_lists(used & (places < n_assigned[:, None]), wide)
    replicas = pa.ListArray.from_arrays(replicas.offsets, replicas.values, mask=unassigned)
    columns = {
        "topic": table["topic"],
        "replicas": replicas,
        **{name: masked(name) for name in ("isr", "adding", "removing", "offline_dir")},
        "has_leadership": pa.array((flags & schema.FLAG_HAS_LEADERSHIP) != 0),
        "recovery": pa.array(((flags & schema.FLAG_RECOVERY) != 0).astype(np.int8)),
        "being_reassigned": pa.array((flags & schema.FLAG_BEING_REASSIGNED) != 0),
        "replica_state_broker_ids": chosen_lists(digits > 0, wide),
        "replica_states": chosen_lists(digits > 0, digits.astype(np.int8)),
    }
    for name in ("partition", "leader", "leader_epoch", "version", "controller_epoch"):
        columns[name] = table[name]
    columns["partition_state"] = pa.array((states & 7).astype(np.int8) - np.int8(1))
    of_kraft = {
        name: _column(table, name, 0) for name in ("isr", *quorum_flat.INTEGERS)
        if name in table.column_names
    }
    columns |= quorum_flat.to_list_columns(table, wide, of_kraft)
    columns = {c.name: pa.nulls(n, c.arrow) for c in schema.QUORUM_PARTITIONS} | columns
    kinds = schema.PARTITIONS_SCHEMA
    return pa.table([columns[name] for name in kinds.names], names=kinds.names)


def _check_slots(table: pa.Table, wide: npt.NDArray[np.int32], source: str | None) -> None:
    """Refuse a flat table where a column speaks of slots that are not in use."""
    used = wide >= 0
    n_used = used.sum(axis=1)
    gaps = ((wide < -1) | (used != (np.arange(wide.shape[1]) < n_used[:, None]))).any(axis=1)
    wrong = {f"{SLOT}0 to {wide.shape[1] - 1}": gaps}
    masks = ("isr", "adding", "removing", "offline_dir", "elr")
    # What is left of a number when its digits or bits for these slots are taken off; or below 0.
    wrong |= {name: _column(table, name, 0) >> n_used != 0 for name in masks}
    wrong["states"] = _column(table, "states", 0) >> 3 * (n_used + 1) != 0
    n_replicas = _column(table, "n_replicas", 0)
    wrong["n_replicas"] = (n_replicas < 0) | (n_replicas > n_used)
    wrong["flags"] = _column(table, "flags", 0) >> 4 != 0
    if "member_order" in table.column_names:
        isr, elr, order = (_column(table, name, 0) for name in ("isr", "elr", "member_order"))
        wrong["member_order"] = place_members(isr, elr, order, wide.shape[1]).wrong
    for name, rows in wrong.items():
        if rows.any():
            row = int(rows.argmax())
            found = table[name][row].as_py() if name in table.column_names else wide[row].tolist()
            raise InputError(
                f"{_named(source)}partitions row {row}: {name} is {found}, where"
                f" {n_used[row]} slots are in use; see docs/formats.md"
            )


def _column(table: pa.Table, name: str, missing: int) -> Rows:
    """A column as integers; where it is missing, the same value everywhere."""
    if name not in table.column_names:
        return np.full(table.num_rows, missing, np.int32)
    values: Rows = np.asarray(table[name].to_numpy(), np.int32)
    return values
