"""What each broker of a cluster can carry.

A row of the table speaks of one broker, that of broker -1 of all that have no row of their own;
what a broker's row does not say comes from that default too.

Source: docs/capacity.md, section "Capacities".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kfast.arguments import check_instance
from kfast.capacity.loads.shares import Amounts
from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.errors import InputError
from kfast.io.files import abbreviate
from kfast.io.loads import CapacityTable
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text

__all__ = ["UNKNOWN", "BrokerCapacity", "broker_capacity"]

UNKNOWN = -1
"""Capacity of which the source says nothing: no limit is checked there."""
DEFAULT_BROKER = -1
_COLUMNS = (
    "nw_in", "nw_out", "disk_bytes", "cpu_microcores", "disk_write", "disk_read", "replicas_max",
)


@dataclass(frozen=True)
class BrokerCapacity:
    """What each broker can carry, by broker row; -1 where the source does not say.

    Parameters
    ----------
    nw_in, nw_out : (B,) int64
        Bytes a second that it can receive and send.
    disk_bytes : (B,) int64
        Bytes of all its directories.
    cpu_microcores : (B,) int64
        Millionths of a core.
    disk_write, disk_read : (B,) int64
        Bytes a second that its disks can write and read.
    replicas_max : (B,) int64
        Replicas that it may hold.
    log_dirs : tuple of mapping of str to int
        Of each broker the bytes of its directories; empty where they are not listed.
    price_class : tuple of str or None
        Of each broker the name of its class in price lists.
    source : str
        What messages call the file.
    assumptions : tuple of str
    """

    nw_in: Amounts
    nw_out: Amounts
    disk_bytes: Amounts
    cpu_microcores: Amounts
    disk_write: Amounts
    disk_read: Amounts
    replicas_max: Amounts
    log_dirs: tuple[Mapping[str, int], ...]
    price_class: tuple[str | None, ...]
    source: str
    assumptions: tuple[str, ...] = ()

    def _summary(self) -> Summary:
        def total(values: Amounts) -> int:
            return sum(values[values > 0].tolist())

        return "BrokerCapacity", {
            "source": self.source, "brokers": self.nw_in.size,
            "in": format_rate(total(self.nw_in)), "out": format_rate(total(self.nw_out)),
            "disk": format_bytes(total(self.disk_bytes)), "assumptions": len(self.assumptions),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def broker_capacity(state: ClusterState, table: CapacityTable) -> BrokerCapacity:
    """Bring capacities to the brokers of a cluster.

    Parameters
    ----------
    state : ClusterState
    table : CapacityTable
        What `kfast.read_capacity` gives.

    Returns
    -------
    BrokerCapacity

    Raises
    ------
    InputError
        A broker of the cluster has no row, and there is no default.
    """
    check_instance("state", state, ClusterState)
    check_instance("table", table, CapacityTable)
    rows = table.rows
    row_of = {broker: row for row, broker in enumerate(rows["broker_id"].to_pylist())}
    default = row_of.pop(DEFAULT_BROKER, None)
    ids = state.broker_id.tolist()
    without = [broker for broker in ids if broker not in row_of]
    if without and default is None:
        raise InputError(
            f"{table.source}: no capacity of broker {abbreviate(without)}, and no default; right"
            f" is a row for each broker, or one of broker {DEFAULT_BROKER}"
        )
    notes = list(table.assumptions)
    absent = sorted(row_of.keys() - set(ids))
    if absent:
        notes.append(
            f"{table.source}: brokers that the cluster does not have are left out:"
            f" {abbreviate(absent)}"
        )
    places = [row_of.get(broker, default) for broker in ids]
    columns = {name: _column(rows, name, places, default) for name in _COLUMNS}
    amounts = {
        name: np.array([UNKNOWN if cell is None else cell for cell in cells], np.int64)
        for name, cells in columns.items()
    }
    disk_write = amounts["disk_write"]
    slow = state.broker_id[(disk_write >= 0) & (disk_write < amounts["nw_in"])]
    if slow.size:
        notes.append(
            f"{table.source}: bytes in are compared with nw_in, although disk_write is less, of"
            f" broker {abbreviate(slow.tolist())}"
        )
    return BrokerCapacity(
        **amounts,
        log_dirs=tuple(dict(cell or ()) for cell in _directories(rows, places, default)),
        price_class=tuple(_column(rows, "class", places, default)),
        source=table.source,
        assumptions=tuple(notes),
    )


def _column(
    rows: pa.Table, name: str, places: list[int | None], default: int | None
) -> list[Any]:
    """Cells of some rows, those that are null from the default's row; None where that is too."""
    if name not in rows.column_names:
        return [None] * len(places)
    cells = rows[name].to_pylist()
    fallback = None if default is None else cells[default]
    return [fallback if place is None or cells[place] is None else cells[place]
            for place in places]


def _directories(
    rows: pa.Table, places: list[int | None], default: int | None
) -> list[Any]:
    """Directories of each broker; a broker whose row has a total only does not list them."""
    if "log_dirs" not in rows.column_names:
        return [None] * len(places)
    directories, totals = rows["log_dirs"].to_pylist(), rows["disk_bytes"].to_pylist()
    return [
        directories[default] if default is not None and (place is None or totals[place] is None)
        else None if place is None else directories[place]
        for place in places
    ]
