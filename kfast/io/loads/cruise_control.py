"""What Cruise Control knows: its capacity files, and its answers `partition_load` and `load`.

Its units: DISK and `disk` are MB of 1 048 576 bytes, NW_IN, NW_OUT and `network...` KB/s of 1024
bytes a second, CPU percent of all cores that a broker has, unless `num.cores` says how many.
`networkOutbound` of a partition has replication in it, which is taken off again.

Source: docs/formats.md, section "Loads and capacities"; Cruise Control, config/capacity.json,
capacityCores.json, capacityJBOD.json; `PartitionLoadState`, `BrokerStats`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Struct

from kfast.arguments import MAX_INT, plural
from kfast.errors import InputError
from kfast.io.files import abbreviate
from kfast.io.json_documents import decode_document
from kfast.io.loads.tables import (
    CapacityTable,
    LoadTable,
    Unit,
    check_capacity,
    check_load,
    ids,
    of_broker,
    to_integers,
)

__all__ = ["read_broker_capacity", "read_broker_load", "read_capacity_file", "read_partition_load"]

MB, KB = 1 << 20, 1 << 10
DEFAULT_BROKER = -1
_DISK = Unit("disk_bytes", MB, "MB of 1048576 bytes")
_NW = {name: Unit(name, KB, "KB/s of 1024 bytes/s") for name in ("nw_in", "nw_out")}
_RATES = {name: Unit(name, KB, "KB/s of 1024 bytes/s") for name in ("bytes_in", "bytes_out")}
_MESSAGES = Unit("milli_msgs_in", 1000, "messages/s")
_CORES = Unit("cpu_microcores", 10**6, "cores")

_Id = Annotated[int, Meta(ge=0, le=MAX_INT)]
Answer = TypeVar("Answer", bound=Struct)


class _Cores(Struct):
    cores: str | float = msgspec.field(name="num.cores")


class _Capacity(Struct):
    disk: str | float | dict[str, str | float] | None = msgspec.field(name="DISK", default=None)
    cpu: str | float | _Cores | None = msgspec.field(name="CPU", default=None)
    nw_in: str | float | None = msgspec.field(name="NW_IN", default=None)
    nw_out: str | float | None = msgspec.field(name="NW_OUT", default=None)


class _Entry(Struct, rename="camel"):
    broker_id: str | int
    capacity: _Capacity


class _CapacityFile(Struct, rename="camel"):
    broker_capacities: list[_Entry]


class _Record(Struct, rename="camel", gc=False):
    topic: str
    partition: _Id
    followers: list[_Id] = []
    disk: float | None = None
    network_inbound: float | None = None
    network_outbound: float | None = None
    messages: float | None = msgspec.field(name="msg_in", default=None)


class _PartitionLoad(Struct):
    records: list[_Record]


class _BrokerStats(Struct, rename="pascal"):
    broker: _Id
    disk: float | None = msgspec.field(name="DiskMB", default=None)
    cpu_pct: float | None = None
    leader_nw_in_rate: float | None = None
    disk_capacity: float | None = msgspec.field(name="DiskCapacityMB", default=None)
    network_in_capacity: float | None = None
    network_out_capacity: float | None = None
    num_core: float | None = None


class _Load(Struct):
    brokers: list[_BrokerStats]


def _decode(name: str, data: bytes, start: int, kind: type[Answer]) -> tuple[str, Answer]:
    """The answer that begins at a byte, and where it stands."""
    return decode_document(name, data, start, kind, "what Cruise Control writes")


def read_capacity_file(name: str, data: bytes, start: int) -> CapacityTable:
    """Read `capacity.json`, `capacityCores.json` or `capacityJBOD.json`.

    Raises
    ------
    InputError
        It is damaged, a number is not right, a broker stands twice, or a capacity is 0.
    """
    where, file = _decode(name, data, start, _CapacityFile)
    entries = file.broker_capacities
    texts = [str(entry.broker_id) for entry in entries]
    brokers = ids(
        "brokerId", pa.array(texts, pa.string()), lambda row: f"{where} (entry {row})", low=-1
    )

    def place(row: int) -> str:
        return f"{where} ({of_broker(brokers[row].as_py())})"

    columns: dict[str, pa.Array] = {"broker_id": brokers}
    columns |= _disks(entries, place)
    for column, unit in _NW.items():
        cells = [getattr(entry.capacity, column) for entry in entries]
        columns[column] = _numbers(column.upper(), cells, unit, place)
    cpus = [entry.capacity.cpu for entry in entries]
    cores = [cpu.cores if isinstance(cpu, _Cores) else None for cpu in cpus]
    columns["cpu_microcores"] = _numbers("num.cores", cores, _CORES, place)
    check_capacity(columns, place if entries else _always(where))
    notes = []
    coreless = [row for row, cpu in enumerate(cpus) if not isinstance(cpu, _Cores)]
    if coreless:
        which = abbreviate([of_broker(brokers[row].as_py()) for row in coreless])
        with_cores = brokers.filter(pc.is_valid(columns["cpu_microcores"])).to_pylist()
        there = "the default's cores count" if DEFAULT_BROKER in with_cores else "it has no limit"
        notes.append(f"{name}: CPU is not given in cores for {which}: there {there}")
    return CapacityTable(name, pa.table(columns), tuple(notes))


def _disks(entries: Sequence[_Entry], place: Callable[[int], str]) -> dict[str, pa.Array]:
    """Bytes of each broker, and those of its directories where it lists them."""
    totals: list[int | None] = []
    directories: list[list[tuple[str, int]] | None] = []
    for row, entry in enumerate(entries):
        disk = entry.capacity.disk
        by_name = disk if isinstance(disk, dict) else {"": disk}
        numbers = _numbers("DISK", [*by_name.values()], _DISK, _always(place(row)))
        sizes = dict(zip(by_name, numbers.to_pylist(), strict=True))
        empty = [directory for directory, size in sizes.items() if size == 0]
        if empty and isinstance(disk, dict):
            raise InputError(f"{place(row)}: found DISK 0 of {empty[0]}; right is more than 0")
        known = [size for size in sizes.values() if size is not None]
        totals.append(sum(known) if known else None)
        directories.append([*sizes.items()] if isinstance(disk, dict) and disk else None)
    columns = {"disk_bytes": pa.array(totals, pa.int64())}
    if any(by_name is not None for by_name in directories):
        columns["log_dirs"] = pa.array(directories, pa.map_(pa.string(), pa.int64()))
    return columns


def _always(where: str) -> Callable[[int], str]:
    return lambda _: where


def _numbers(
    name: str, cells: Sequence[str | float | None], unit: Unit, where: Callable[[int], str]
) -> pa.Int64Array:
    """Cells that are numbers or texts of numbers, as integers."""
    texts = [None if cell is None else str(cell).strip() for cell in cells]
    return to_integers(name, pa.array(texts, pa.string()), unit, where)


def read_partition_load(name: str, data: bytes, start: int) -> LoadTable:
    """Read an answer of `partition_load`.

    Raises
    ------
    InputError
        It is damaged, a number is not right, or a partition stands twice.
    """
    where, answer = _decode(name, data, start, _PartitionLoad)
    records = answer.records

    def place(row: int) -> str:
        return f"{where} ({records[row].topic}-{records[row].partition})"

    def numbers(field: str, key: str, unit: Unit) -> pa.Int64Array:
        cells = [getattr(record, field) for record in records]
        return to_integers(key, pa.array(cells, pa.float64()), unit, place)

    bytes_in = numbers("network_inbound", "networkInbound", _RATES["bytes_in"])
    all_out = numbers("network_outbound", "networkOutbound", _RATES["bytes_out"])
    followers = pa.array([len(record.followers) for record in records], pa.int64())
    bytes_out = pc.subtract(all_out, pc.multiply(bytes_in, followers))
    notes = [(
        f"{name}: networkInbound for each follower is taken off networkOutbound, and the CPU"
        " of partitions left out"
    )]
    less = pc.sum(pc.less(bytes_out, 0)).as_py() or 0
    if less:
        bytes_out = pc.max_element_wise(bytes_out, 0, skip_nulls=False)
        notes.append(
            f"{name}: 0 bytes out are taken for {plural(less, 'partition')} whose networkOutbound"
            " is less than the replication"
        )
    columns = {
        "topic": pa.array([record.topic for record in records], pa.string()).dictionary_encode(),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "milli_msgs_in": numbers("messages", "msg_in", _MESSAGES),
        "disk_bytes": numbers("disk", "disk", _DISK),
    }
    check_load(columns, place if records else _always(where))
    return LoadTable(name, pa.table(columns), assumptions=tuple(notes))


def read_broker_load(name: str, data: bytes, start: int) -> LoadTable:
    """Read an answer of `load` as what each broker uses: bytes in as a leader, disk, CPU.

    Raises
    ------
    InputError
        It is damaged, or a number is not right.
    """
    where, answer = _decode(name, data, start, _Load)
    brokers = answer.brokers
    place = _place(where, brokers)
    cores = [
        None if row.cpu_pct is None or row.num_core is None else row.cpu_pct / 100 * row.num_core
        for row in brokers
    ]
    columns = {
        "broker_id": pa.array([row.broker for row in brokers], pa.int32()),
        "bytes_in": to_integers(
            "LeaderNwInRate", pa.array([row.leader_nw_in_rate for row in brokers], pa.float64()),
            _RATES["bytes_in"], place,
        ),
        "cpu_microcores": to_integers("CpuPct", pa.array(cores, pa.float64()), _CORES, place),
        "disk_bytes": to_integers(
            "DiskMB", pa.array([row.disk for row in brokers], pa.float64()), _DISK, place
        ),
    }
    check_load(columns, place if brokers else _always(where))
    notes = []
    coreless = [row.broker for row, cpu in zip(brokers, cores, strict=True)
                if cpu is None and row.cpu_pct is not None]
    if coreless:
        notes.append(f"{name}: CPU of brokers without NumCore is left out: {abbreviate(coreless)}")
    return LoadTable(name, pa.table(columns), assumptions=tuple(notes))


def read_broker_capacity(name: str, data: bytes, start: int) -> CapacityTable:
    """Read an answer of `load` as the capacities of brokers.

    Raises
    ------
    InputError
        It is damaged, has no capacities (as before 2021), or one is 0.
    """
    where, answer = _decode(name, data, start, _Load)
    place = _place(where, answer.brokers)
    columns: dict[str, pa.Array] = {
        "broker_id": pa.array([row.broker for row in answer.brokers], pa.int32())
    }
    for field, key, unit in (
        ("disk_capacity", "DiskCapacityMB", _DISK),
        ("network_in_capacity", "NetworkInCapacity", _NW["nw_in"]),
        ("network_out_capacity", "NetworkOutCapacity", _NW["nw_out"]),
        ("num_core", "NumCore", _CORES),
    ):
        cells = pa.array([getattr(row, field) for row in answer.brokers], pa.float64())
        columns[unit.column] = to_integers(key, cells, unit, place)
    if all(values.null_count == len(values) for key, values in columns.items()
           if key != "broker_id"):
        raise InputError(
            f"{where}: the load has no capacities; right is DiskCapacityMB, NetworkInCapacity,"
            " NetworkOutCapacity or NumCore"
        )
    check_capacity(columns, place if answer.brokers else _always(where))
    return CapacityTable(name, pa.table(columns))


def _place(where: str, brokers: Sequence[_BrokerStats]) -> Callable[[int], str]:
    return lambda row: f"{where} (broker {brokers[row].broker})"
