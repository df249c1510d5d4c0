"""Loads of partitions and capacities of brokers, as operators' tools print them.

`own_table.py` reads kfast's own columns (CSV, Parquet, Arrow), `log_dirs.py` the sizes of
`kafka-log-dirs`, `cruise_control.py` its capacity files and answers, `prometheus.py` scrapes and
query answers; `tables.py` has the tables that all of them make, and the checks of every number;
`kinds.py` tells the files apart. What they mean for a cluster is `kfast.capacity`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kfast.arguments import number, text
from kfast.errors import ArgumentError
from kfast.io.files import Source, check_utf8, load
from kfast.io.loads.cruise_control import (
    read_broker_capacity,
    read_broker_load,
    read_capacity_file,
    read_partition_load,
)
from kfast.io.loads.kinds import recognise_capacity, recognise_load
from kfast.io.loads.log_dirs import read_log_dirs
from kfast.io.loads.own_table import read_own_capacity, read_own_load
from kfast.io.loads.prometheus import Scrape, parse_query, parse_text, read_prometheus
from kfast.io.loads.tables import CapacityTable, LoadTable

__all__ = ["CapacityTable", "LoadTable", "read_capacity", "read_load"]

_YEAR_SECONDS = 366 * 86400


def read_load(
    *paths: Source,
    window: str | None = None,
    seconds: float | None = None,
    instances: Mapping[str, int] | None = None,
) -> tuple[LoadTable, ...]:
    """Read what partitions, topics and brokers carry.

    A file may be a table of kfast's own columns in CSV, Parquet or Arrow IPC; the output of
    `kafka-log-dirs --describe`; an answer `partition_load` or `load` of Cruise Control; Prometheus
    metrics as text or as an answer of its query API. All Prometheus files together make one table,
    for a counter needs two samples. Files may be packed with gzip or zstd.

    Parameters
    ----------
    *paths : path, or (str, bytes)
        The files, the most trusted first; `-` is standard input.
    window : str, optional
        What the rates are, for example "p95 of 1 h, 2026-11"; by default what a file says.
    seconds : float, optional
        Time between two Prometheus files whose samples have no time.
    instances : mapping of str to int, optional
        Broker ids of Prometheus' labels `instance`, `pod` or `host`, where no label has the id; and
        of files of one broker each, whose series have no such label.

    Returns
    -------
    tuple of LoadTable
        In the order of the files, that of Prometheus at its first: what `kfast.partition_load`
        takes.

    Raises
    ------
    InputError
        A file cannot be read, is no load, is damaged, or a number in it is not right. The message
        names the file, the row, what was found and what is allowed.
    """
    if not paths:
        raise ArgumentError("paths: no file is given; right is at least one")
    if seconds is not None:
        number("seconds", seconds, 1e-3, _YEAR_SECONDS)
    tables: list[LoadTable | None] = []
    scrapes: list[Scrape] = []
    place = 0
    for path in paths:
        name, data, (kind, start) = load(path, recognise_load)
        if kind.startswith("prometheus"):
            if not scrapes:
                place = len(tables)
                tables.append(None)
            scrapes.append(_scrape(name, data, kind, start))
        else:
            tables.append(_read(name, data, kind, start))
    if scrapes:
        tables[place] = read_prometheus(scrapes, seconds=seconds, instances=instances)
    made = tuple(table for table in tables if table is not None)
    if window is None:
        return made
    return tuple(replace(table, window=text("window", window)) for table in made)


def _scrape(name: str, data: bytes, kind: str, start: int) -> Scrape:
    check_utf8(name, data)
    if kind == "prometheus text":
        return parse_text(name, data)
    return parse_query(name, data, start)


def _read(name: str, data: bytes, kind: str, start: int) -> LoadTable:
    if kind == "log-dirs":
        return read_log_dirs(name, data, start)
    if kind == "partition load":
        return read_partition_load(name, data, start)
    if kind == "broker load":
        return read_broker_load(name, data, start)
    return read_own_load(name, data, kind)


def read_capacity(path: Source) -> CapacityTable:
    """Read what brokers can carry.

    The file may be a table of kfast's own columns in CSV, Parquet or Arrow IPC, a capacity file of
    Cruise Control (`capacity.json`, `capacityCores.json`, `capacityJBOD.json`), or its answer
    `load`. It may be packed with gzip or zstd.

    Parameters
    ----------
    path : path, or (str, bytes)
        The file; `-` is standard input.

    Returns
    -------
    CapacityTable
        What `kfast.broker_capacity` takes.

    Raises
    ------
    InputError
        The file cannot be read, is no capacity, is damaged, a number in it is not right, or a
        capacity is 0.
    """
    name, data, (kind, start) = load(path, recognise_capacity)
    if kind == "capacity file":
        return read_capacity_file(name, data, start)
    if kind == "broker load":
        return read_broker_capacity(name, data, start)
    return read_own_capacity(name, data, kind)
