"""The brokers file: a CSV of what a describe text lacks, the racks.

Its columns are `broker_id`, `rack` (empty for none) and, if wanted, `registered` (true or false).
With `registered` the file decides which brokers are up. Without it, a broker that the source shows
keeps what is concluded from there, and one that only the file names is up and holds no replica.
"""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pyarrow as pa

from kfast.errors import InputError
from kfast.io.tables import SourceTables, registered
from kfast.io.text import Source, check_utf8, load, name_of, quote, some

__all__ = ["add_brokers_file", "read_brokers_file"]

_COLUMNS = ("broker_id", "rack", "registered")
_BOOLEANS = {"true": True, "false": False, "": None}


def read_brokers_file(path: Source) -> pa.Table:
    """Read a brokers file; `registered` is null where the file does not say.

    Raises
    ------
    InputError
        The file has other columns, or a line has a value that is not right.
    """
    name, data = load(path)
    check_utf8(name, data)
    lines = csv.reader(io.StringIO(data.decode(), newline=""), skipinitialspace=True)
    head = [cell.strip().lower() for cell in next(lines)]
    if head[:1] != ["broker_id"] or len(set(head)) < len(head) or not set(head) <= {*_COLUMNS}:
        raise InputError(
            f"{name} line 1: found {quote(','.join(head))}; right is a line that names the columns:"
            " broker_id,rack or broker_id,rack,registered"
        )
    rows: dict[int, tuple[int, str | None, bool | None]] = {}
    for cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{name} line {lines.line_num}"
        if len(cells) != len(head):
            raise InputError(f"{where}: found {len(cells)} values; right is {','.join(head)}")
        row = _row(where, dict(zip(head, (cell.strip() for cell in cells), strict=True)))
        if row[0] in rows:
            raise InputError(f"{where}: broker {row[0]} is listed twice; right is once")
        rows[row[0]] = row
    if not rows:
        raise InputError(f"{name}: lists no broker; right is a line for each, as in 1,rack-a")
    ids, racks, up = zip(*rows.values(), strict=True)
    return pa.table(
        {
            "broker_id": pa.array(ids, pa.int32()),
            "rack": pa.array(racks, pa.string()),
            "registered": pa.array(up, pa.bool_()),
        }
    )


def _row(where: str, cells: dict[str, str]) -> tuple[int, str | None, bool | None]:
    """Values of one line."""
    found = cells["broker_id"]
    if not found.isascii() or not found.isdecimal() or int(found) >= 2**31:
        raise InputError(f"{where}: found broker_id {found!r}; right is an integer of at least 0")
    up = cells.get("registered", "").lower()
    if up not in _BOOLEANS:
        raise InputError(f"{where}: found registered {up!r}; right is true or false")
    return int(found), cells.get("rack") or None, _BOOLEANS[up]


def add_brokers_file(tables: SourceTables, path: Source) -> SourceTables:
    """Give the brokers of a source their racks, and add those that only the file names."""
    file = read_brokers_file(path)
    listed = {row["broker_id"]: row for row in file.to_pylist()}
    brokers = _brokers_of(tables)
    known = {
        row["broker_id"]: row | {"registered": bool(up)}
        for row, up in zip(brokers.to_pylist(), registered(brokers), strict=True)
    }
    notes = list(tables.notes)
    if missing := sorted(known.keys() - listed.keys()):
        notes.append(f"brokers that {name_of(path)} does not list have no rack: {some(missing)}")
    if added := sorted(listed.keys() - known.keys()):
        notes.append(f"brokers that only {name_of(path)} lists hold no replica: {some(added)}")
    for broker, row in listed.items():
        ours = known.setdefault(broker, {"broker_id": broker, "registered": True})
        ours["rack"] = row["rack"] if row["rack"] is not None else ours.get("rack")
        if row["registered"] is not None:
            ours["registered"] = row["registered"]
    rows = [known[broker] for broker in sorted(known)]
    fields = {"broker_id": pa.int32(), "rack": pa.string(), "registered": pa.bool_()}
    fields |= {f.name: f.type for f in brokers.schema}
    columns = {
        name: pa.array([row.get(name) for row in rows], kind) for name, kind in fields.items()
    }
    return replace(tables, brokers=pa.table(columns), notes=tuple(notes))


def _brokers_of(tables: SourceTables) -> pa.Table:
    """The brokers of a source: those that its partitions name, if it has no table of them."""
    if tables.brokers is not None:
        return tables.brokers
    ids = [np.empty(0, np.int32)]
    for name in ("replicas", "isr", "adding", "removing"):
        if name in tables.partitions.column_names:
            ids.append(tables.partitions[name].combine_chunks().flatten().to_numpy())
    return pa.table({"broker_id": np.unique(np.concatenate(ids)).astype(np.int32)})
