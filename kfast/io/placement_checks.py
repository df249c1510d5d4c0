"""What the leaders and the ISRs of a source show: contradictions, and which brokers are up.

Source: docs/formats.md, sections "Which brokers are up" and "Bad input".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.errors import InputError
from kfast.io.source_tables import SourceTables, brokers_of
from kfast.state.from_tables import LISTS

__all__ = ["check_leaders", "presume_brokers"]


def check_leaders(name: str, partitions: pa.Table) -> list[str]:
    """Refuse a leader that holds no replica; say which leaders are not in their ISR.

    Parameters
    ----------
    name : str
        What messages call the file.
    partitions : pa.Table
        With replicas, leader (-1 for none) and isr.

    Returns
    -------
    list of str
        Notes.

    Raises
    ------
    InputError
        A leader is not among the replicas.
    """
    outside = _leads_outside(partitions, "replicas")
    if outside.size:
        raise InputError(
            f"{name}: the leader of {_label(partitions, outside[0])},"
            f" {_leader(partitions, outside)}, is not among its replicas; right is one of them, or"
            " -1 for none"
        )
    outside = _leads_outside(partitions, "isr")
    if not outside.size:
        return []
    more = outside.size - 1
    return [
        f"{name}: the leader of {_label(partitions, outside[0])}, {_leader(partitions, outside)},"
        " is not in the ISR; kept" + (f", as in {more} more partitions" if more else "")
    ]


def _leads_outside(partitions: pa.Table, lists: str) -> npt.NDArray[np.int64]:
    """Rows whose leader is in none of its lists."""
    leader = pc.fill_null(partitions["leader"], -1).to_numpy()
    column = partitions[lists].combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    row = np.repeat(np.arange(leader.size), lengths)
    within = np.zeros(leader.size, bool)
    within[row[column.flatten().to_numpy() == leader[row]]] = True
    known = np.asarray(column.is_valid())
    return np.flatnonzero(~within & known & (leader >= 0))


def _label(partitions: pa.Table, row: np.int64) -> str:
    return f"{partitions['topic'][row].as_py()}-{partitions['partition'][row].as_py()}"


def _leader(partitions: pa.Table, rows: npt.NDArray[np.int64]) -> int:
    return int(partitions["leader"][rows[0]].as_py())


def presume_brokers(tables: SourceTables) -> tuple[pa.Table, tuple[int, ...], tuple[int, ...]]:
    """Conclude which brokers are up from leaders and ISRs, where a source does not say it.

    Returns
    -------
    brokers : pa.Table
        broker_id, registered.
    taken_for_down, taken_for_up : tuple of int
        As `SourceTables` has them.
    """
    rows = tables.partitions
    ids = np.sort(brokers_of(tables)["broker_id"].to_numpy())
    led = rows.filter(pc.greater_equal(rows["leader"], 0))
    alive = _count(led, "isr", ids) + np.isin(ids, led["leader"].to_numpy())
    elsewhere = _count(rows, "replicas", ids) - _count(rows, "adding", ids) + sum(
        _count(rows, name, ids) for name in LISTS if name not in ("replicas", "adding")
    )
    down, up = ids[(alive == 0) & (elsewhere > 0)], ids[(alive == 0) & (elsewhere <= 0)]
    table = pa.table({
        "broker_id": pa.array(ids), "registered": pa.array(np.isin(ids, down, invert=True)),
    })
    return table, tuple(down.tolist()), tuple(up.tolist())


def _count(
    rows: pa.Table, lists: str, ids: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """How often each broker stands in some lists."""
    if lists not in rows.column_names:
        return np.zeros(ids.size, np.int64)
    named = pc.list_flatten(rows[lists]).to_numpy()
    return np.bincount(np.searchsorted(ids, named), minlength=ids.size)
