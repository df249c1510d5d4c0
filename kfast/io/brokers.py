"""Brokers that an export does not show, or of which it shows too little.

The brokers file is a CSV of what a describe text lacks, the racks. Its columns are `broker_id`,
`rack` (empty for none) and, if wanted, `registered` (true or false). With `registered` the file
decides which brokers are up. Without it, a broker that the source shows keeps what is concluded
from there, and one that only the file names is up and holds no replica.

A caller may add brokers without a file too: ids that nothing names yet, each with a rack or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pyarrow as pa

from kfast import arguments
from kfast.errors import ArgumentError, InputError
from kfast.io.csv_rows import read_csv_rows
from kfast.io.files import Source, abbreviate, name_of, quote
from kfast.io.source_tables import SourceTables, brokers_of, forget_presumed, registered
from kfast.state.from_tables import ALL_REGISTERED

__all__ = ["add_brokers_file", "add_new_brokers", "parse_brokers", "read_brokers_file"]

_COLUMNS = ("broker_id", "rack", "registered")
_BOOLEANS = {"true": True, "false": False, "": None}
_BROKER = re.compile(r"([0-9]{1,10})(?::rack=([^,]+))?")


def read_brokers_file(path: Source) -> pa.Table:
    """Read a brokers file; `registered` is null where the file does not say.

    Raises
    ------
    InputError
        The file has other columns, or a line has a value that is not right.
    """
    name, lines = read_csv_rows(path, _head)
    rows: dict[int, tuple[int, str | None, bool | None]] = {}
    for where, cells in lines:
        row = _row(where, cells)
        if row[0] in rows:
            raise InputError(f"{where}: broker {row[0]} is listed twice; right is once")
        rows[row[0]] = row
    if not rows:
        raise InputError(f"{name}: lists no broker; right is a line for each, as in 1,rack-a")
    ids, racks, up = zip(*rows.values(), strict=True)
    return _table(ids, racks, up)


def _table(
    ids: Iterable[int], racks: Iterable[str | None], registered: Iterable[bool | None]
) -> pa.Table:
    columns = [pa.array(ids, pa.int32()), pa.array(racks, pa.string())]
    return pa.table([*columns, pa.array(registered, pa.bool_())], names=[*_COLUMNS])


def _head(name: str, data: bytes) -> list[str]:
    """Columns that the first line of a brokers file names."""
    line = data.split(b"\n", 1)[0].decode("utf-8", "replace")
    head = [cell.strip().strip('"').lower() for cell in line.split(",")]
    if head[:1] != ["broker_id"] or len(set(head)) < len(head) or not set(head) <= {*_COLUMNS}:
        raise InputError(
            f"{name} line 1: found {quote(line)}; right is a line that names the columns:"
            " broker_id,rack or broker_id,rack,registered"
        )
    return head


def _row(where: str, cells: dict[str, str]) -> tuple[int, str | None, bool | None]:
    """Values of one line."""
    found = cells["broker_id"]
    if not re.fullmatch("[0-9]{1,10}", found) or int(found) > arguments.MAX_BROKER_ID:
        raise InputError(f"{where}: found broker_id {found!r}; right is an integer of at least 0")
    up = cells.get("registered", "").lower()
    if up not in _BOOLEANS:
        raise InputError(f"{where}: found registered {up!r}; right is true or false")
    return int(found), cells.get("rack") or None, _BOOLEANS[up]


def add_brokers_file(tables: SourceTables, path: Source) -> SourceTables:
    """Give the brokers of a source their racks, and add those that only the file names."""
    file = read_brokers_file(path)
    listed = {row["broker_id"]: row for row in file.to_pylist()}
    brokers = brokers_of(tables)
    known = {
        row["broker_id"]: row | {"registered": bool(up)}
        for row, up in zip(brokers.to_pylist(), registered(brokers), strict=True)
    }
    decided = {broker for broker, row in listed.items() if row["registered"] is not None}
    notes = list(tables.notes)
    if tables.brokers is None and not known.keys() <= decided:
        notes.append(ALL_REGISTERED)
    if missing := sorted(known.keys() - listed.keys()):
        ids = abbreviate(missing)
        notes.append(f"brokers that {name_of(path)} does not list have no rack: {ids}")
    if added := sorted(listed.keys() - known.keys()):
        ids = abbreviate(added)
        notes.append(f"brokers that only {name_of(path)} lists hold no replica: {ids}")
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
    tables = forget_presumed(tables, decided)
    return replace(tables, brokers=pa.table(columns), notes=tuple(notes))


def add_new_brokers(tables: SourceTables, brokers: Mapping[int, str | None]) -> SourceTables:
    """Add brokers that are registered and hold no replica.

    Parameters
    ----------
    tables : SourceTables
    brokers : mapping of int to str or None
        Broker id to rack; None for none.

    Raises
    ------
    ArgumentError
        An id that is no broker id or that the source names already, or a rack that is no name.
    """
    if not isinstance(brokers, Mapping):
        raise ArgumentError(
            f"add_brokers is {arguments.shown(brokers)}: broker ids mapped to a rack or None are"
            " needed"
        )
    ids = arguments.possible_ids("add_brokers", list(brokers)).tolist()
    racks = [_rack(broker, rack) for broker, rack in brokers.items()]
    if not ids:
        return tables
    listed = brokers_of(tables)
    named = sorted(set(ids) & set(listed["broker_id"].to_pylist()))
    if named:
        raise ArgumentError(
            f"add_brokers: broker {abbreviate(named)} appears in {tables.source} already; right are"
            " brokers that do not, and a brokers file (brokers_file, --brokers-file) for the racks"
            " of those that do"
        )
    added = _table(ids, racks, [True] * len(ids))
    notes = list(tables.notes)
    if tables.brokers is None:
        notes.append(ALL_REGISTERED)
    places = [
        f"{broker} ({'no rack' if rack is None else f'rack {rack}'})"
        for broker, rack in zip(ids, racks, strict=True)
    ]
    notes.append(f"brokers added, which hold no replica: {abbreviate(places)}")
    together = pa.concat_tables([listed, added], promote_options="default")
    return replace(tables, brokers=together, notes=tuple(notes))


def _rack(broker: int, rack: object) -> str | None:
    """The rack of a broker to be added."""
    if rack is not None and (not isinstance(rack, str) or not rack.strip()):
        raise ArgumentError(
            f"add_brokers: the rack of broker {broker} is {arguments.shown(rack)}; right is a name,"
            " or None for none"
        )
    return rack


def parse_brokers(text: str) -> dict[int, str | None]:
    """Read brokers to be added as options write them: `113:rack=b,114`.

    Raises
    ------
    ArgumentError
        The text is of another form, or names a broker twice.
    """
    brokers: dict[int, str | None] = {}
    for part in text.split(","):
        found = _BROKER.fullmatch(part.strip())
        if found is None:
            raise ArgumentError(
                f"add_brokers: found {quote(part)}; right is a broker id and perhaps a rack, as in"
                " 113:rack=b,114"
            )
        broker = int(found[1])
        if broker in brokers:
            raise ArgumentError(f"add_brokers: broker {broker} is listed twice; right is once")
        brokers[broker] = found[2]
    return brokers
