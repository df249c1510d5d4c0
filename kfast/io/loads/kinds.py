"""Which kind of load or capacity a file is, by its first bytes."""

from __future__ import annotations

import re

from kfast.errors import InputError
from kfast.io.file_kinds import first_line, identify
from kfast.io.files import quote
from kfast.io.loads.own_table import csv_header

__all__ = ["CAPACITIES", "LOADS", "recognise_capacity", "recognise_load"]

LOADS = (
    "CSV, Parquet and Arrow with topic or broker_id and columns such as bytes_in, the JSON of"
    " kafka-log-dirs --describe, partition_load and load of Cruise Control, and Prometheus metrics"
    " as text or as query JSON"
)
CAPACITIES = (
    "CSV, Parquet and Arrow with broker_id and columns such as nw_in, and capacity.json,"
    " capacityCores.json, capacityJBOD.json and load of Cruise Control"
)
_JSON_KINDS = (
    (re.compile(rb'"logDirs"\s*:'), "log-dirs"),
    (re.compile(rb'"brokerCapacities"\s*:'), "capacity file"),
    (re.compile(rb'"records"\s*:'), "partition load"),
    (re.compile(rb'"BrokerState"\s*:|"LeaderNwInRate"\s*:'), "broker load"),
    (re.compile(rb'"resultType"\s*:|"errorType"\s*:'), "prometheus query"),
)
_SERIES = re.compile(rb"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})?[ \t]+[-+0-9.eEINnaf]+([ \t]+-?\d+)?\s*$",
                     re.MULTILINE)
_TABLES = ("csv", "parquet", "arrow")
_OF_LOAD = (*_TABLES, "log-dirs", "partition load", "broker load", "prometheus query",
            "prometheus text")
_OF_CAPACITY = (*_TABLES, "capacity file", "broker load")
_IN_WORDS = {
    "log-dirs": "output of kafka-log-dirs, a load",
    "capacity file": "a Cruise Control capacity file",
    "partition load": "a partition load of Cruise Control",
    "prometheus query": "the answer of a Prometheus query, a load",
    "prometheus text": "Prometheus metrics, a load",
    "describe": "the output of kafka-topics --describe, a cluster",
    "metadata": "a metadata log, a cluster",
    "metadata dump": "the text of a metadata log, a cluster",
}


def recognise_load(name: str, head: bytes) -> tuple[str, int]:
    """Say which kind of load a file is, and where its JSON begins; `load` calls it.

    Raises
    ------
    InputError
        It is none.
    """
    return _recognise(name, head, _OF_LOAD, LOADS)


def recognise_capacity(name: str, head: bytes) -> tuple[str, int]:
    """Say which kind of capacity a file is, and where its JSON begins; `load` calls it.

    Raises
    ------
    InputError
        It is none.
    """
    return _recognise(name, head, _OF_CAPACITY, CAPACITIES)


def _recognise(name: str, head: bytes, kinds: tuple[str, ...], right: str) -> tuple[str, int]:
    kind, start = _identify(head)
    if kind in kinds:
        return kind, start
    unknown = f"not recognised, it begins with {quote(first_line(head))}"
    actual = _IN_WORDS.get(kind, kind) or unknown
    raise InputError(f"{name}: is {actual}; right is one of {right}")


def _identify(head: bytes) -> tuple[str, int]:
    """Kind of a file, empty where it is not known, and where its JSON begins."""
    if csv_header(head):
        return "csv", 0
    kind, start = identify(head) or ("", 0)
    if kind == "json":
        for pattern, of_json in _JSON_KINDS:
            if pattern.search(head, start):
                return of_json, start
        return "JSON of another kind", start
    if kind == "Prometheus metrics" or (not kind and _SERIES.search(head)):
        return "prometheus text", 0
    return kind, start
