"""What only a KRaft cluster has of partitions, as columns of a flat table (`flat_table.py`).

Each is there only where the state has allocated it. `elr` is a mask; `last_known_elr` a broker id,
-1 for the id -1, -2 for none; `member_order` has an octal digit for each member of the ISR and then
of the ELR, its slot, the first lowest; `directory_0`, `directory_1`, ... have a text for each slot,
empty where it is no replica.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.state.arrays import StateArrays
from kfast.state.quorum import NO_DIRECTORY, NO_LAST_KNOWN, NO_MEMBER, Quorum
from kfast.state.records import Rows

DIRECTORY = "directory_"
"""What precedes the number of a slot in the name of its column of directories."""
INTEGERS = ("elr", "last_known_elr", "member_order")

Flags = npt.NDArray[np.bool_]


def directory_columns(names: list[str]) -> list[str]:
    """Those of some columns that have directories, by slot."""
    return sorted(name for name in names if name.startswith(DIRECTORY))


def flat_columns(state: StateArrays, part: slice) -> dict[str, Any]:
    """Columns of some rows."""
    quorum, columns = state.quorum, dict[str, Any]()
    if quorum is None:
        return columns
    if quorum.elr is not None and quorum.last_known_elr is not None:
        columns["elr"] = quorum.elr[part].astype(np.int32)
        columns["last_known_elr"] = last_known_ids(state, quorum.last_known_elr[part])
    if quorum.member_order is not None:
        digits = np.where(quorum.member_order[part] == NO_MEMBER, 0, quorum.member_order[part])
        columns["member_order"] = (digits.astype(np.int32) << 3 * np.arange(state.n_slots)).sum(
            axis=1, dtype=np.int32
        )
    if quorum.directory is not None:
        texts = pa.array(["", *quorum.directory_ids])
        for slot in range(state.n_slots):
            places = pa.array(quorum.directory[part, slot] + np.int32(1))
            columns[f"{DIRECTORY}{slot}"] = pa.DictionaryArray.from_arrays(places, texts)
    return columns


@dataclass(frozen=True)
class MemberPlaces:
    """What the digits of `member_order` say.

    Parameters
    ----------
    slots : (n, S) int64
        Slot of each place.
    isr, elr : (n, S) bool
        Places of members of the ISR, and of the ELR.
    wrong : (n,) bool
        Rows whose digits are not the members that the masks have.
    """

    slots: npt.NDArray[np.int64]
    isr: Flags
    elr: Flags
    wrong: Flags


def place_members(isr: Rows, elr: Rows, member_order: Rows, width: int) -> MemberPlaces:
    """Take `member_order` apart, of masks that speak of slots below `width`."""
    places = np.arange(width)
    slots = member_order.astype(np.int64)[:, None] >> 3 * places & 7
    n_isr, n_elr = ((mask[:, None] >> places & 1).sum(axis=1)[:, None] for mask in (isr, elr))
    in_isr, in_elr = places < n_isr, (places >= n_isr) & (places < n_isr + n_elr)
    # As many powers of two as the mask has bits give the mask only if they are its bits.
    sums = (((1 << slots) * chosen).sum(axis=1) for chosen in (in_isr, in_elr))
    wrong = (next(sums) != isr) | (next(sums) != elr) | (member_order < 0)
    return MemberPlaces(slots, in_isr, in_elr, wrong)


def fill_columns(
    state: StateArrays, columns: Mapping[str, Rows], directories: list[pa.DictionaryArray],
    place: Rows,
) -> bool:
    """Fill what only KRaft has from columns of a flat table; False where they contradict.

    `place` is what `table_columns.place_brokers` finds.
    """
    quorum, n = state.quorum, state.n_partitions
    if quorum is None:
        return not directories and not any(name in columns for name in INTEGERS)
    if columns["states"].any():
        return False
    none = np.zeros(n, np.int32)
    isr, elr = state.records["isr"].astype(np.int32), columns.get("elr", none)
    if ((elr < 0) | (elr >> state.records["n_slots"]) | (elr & isr)).any():
        return False
    if "elr" in columns or "last_known_elr" in columns:
        known = columns.get("last_known_elr", none + NO_LAST_KNOWN)
        rows = np.where(known < 0, known, np.append(place, -3)[np.minimum(known, place.size)])
        if rows.size and rows.min() < NO_LAST_KNOWN:
            return False
        quorum.set_elr(elr, rows)
    if "member_order" in columns:
        members = place_members(isr, elr, columns["member_order"], state.n_slots)
        if members.wrong.any():
            return False
        chosen = members.isr | members.elr
        quorum.member_order = np.where(chosen, members.slots, NO_MEMBER).astype(np.uint8)
    return not directories or _fill_directories(state, quorum, directories)


def _fill_directories(
    state: StateArrays, quorum: Quorum, directories: list[pa.DictionaryArray]
) -> bool:
    if len(directories) != state.n_slots:
        return False
    quorum.directory = np.empty(state.replicas.shape, np.int32)
    for slot, column in enumerate(directories):
        places = [
            NO_DIRECTORY if not text else quorum.directory_row(text)
            for text in column.dictionary.to_pylist()
        ]
        quorum.directory[:, slot] = np.asarray(places, np.int32)[column.indices.to_numpy()]
    assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
    return bool(((quorum.directory >= 0) == assigned).all())


def to_list_columns(
    table: pa.Table, wide: npt.NDArray[np.int32], columns: Mapping[str, Rows]
) -> dict[str, Any]:
    """Columns with lists that say what those of a flat table say.

    `wide` has the broker ids of all slots.
    """
    n, width = wide.shape
    listed: dict[str, Any] = {}
    elr = columns.get("elr", np.zeros(n, np.int32))
    if "elr" in columns:
        listed["elr"] = chosen_lists(elr[:, None] >> np.arange(width) & 1 == 1, wide)
    if "member_order" in columns:
        members = place_members(columns["isr"], elr, columns["member_order"], width)
        ordered = np.take_along_axis(wide, np.minimum(members.slots, width - 1), axis=1)
        listed["isr"] = chosen_lists(members.isr, ordered)
        listed["elr"] = chosen_lists(members.elr, ordered)
    if "last_known_elr" in columns:
        known = columns["last_known_elr"][:, None]
        listed["last_known_elr"] = chosen_lists(known != NO_LAST_KNOWN, known)
    if names := directory_columns(table.column_names):
        texts = np.column_stack([table[name].to_numpy().astype(object) for name in names])
        held = texts != ""
        lists = chosen_lists(held, np.arange(texts.size, dtype=np.int32).reshape(texts.shape))
        listed["directories"] = pa.ListArray.from_arrays(
            lists.offsets, pa.array(texts[held], pa.string())
        )
    return listed


def last_known_ids(state: StateArrays, brokers: Rows) -> Rows:
    """Id of each last known leader, given as broker rows; -1 and `NO_LAST_KNOWN` stay."""
    nobody = np.asarray([NO_LAST_KNOWN, schema.NO_LEADER], np.int32)
    return np.append(state.broker_id, nobody)[brokers]


def last_known_lists(state: StateArrays, brokers: Rows) -> pa.ListArray:
    """Those ids as lists, empty where there is none."""
    ids = last_known_ids(state, brokers)[:, None]
    return chosen_lists(ids != NO_LAST_KNOWN, ids)


def chosen_lists(chosen: Flags, values: npt.NDArray[Any]) -> pa.ListArray:
    """A list of each row: the values that are chosen."""
    offsets = np.zeros(chosen.shape[0] + 1, np.int32)
    np.cumsum(chosen.sum(axis=1), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values[chosen]))
