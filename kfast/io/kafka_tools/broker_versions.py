"""Brokers as `kafka-broker-api-versions` lists them: who is up, racks, and which mode they run in.

The tool lists the brokers that are up; those that it does not list are down. Only a broker of a
ZooKeeper cluster takes LeaderAndIsr requests.

Source: docs/formats.md, section "What supplements a cluster"; Kafka 4.1,
BrokerApiVersionsCommand.java.
"""

from __future__ import annotations

import re
from itertools import zip_longest

import pyarrow as pa

from kfast import schema
from kfast.arguments import MAX_BROKER_ID
from kfast.errors import InputError
from kfast.io.files import abbreviate, line_of, quote
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables
from kfast.state.controller_change import REASON

__all__ = ["read_broker_versions"]

_BROKER = re.compile(
    r"^(?P<host>\S+) \(id: (?P<id>[0-9]{1,10}) rack: (?P<rack>.*?)"
    r"(?: isFenced: (?P<fenced>true|false))?\) -> (?P<answer>\(|ERROR: .*)[ \t\r]*$", re.M,
)
_API = re.compile(r"^[ \t]*LeaderAndIsr\(4\):(?!.*UNSUPPORTED)", re.M)
_END = re.compile(r"^[ \t]*\)[ \t\r]*$", re.M)


def read_broker_versions(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the tool's output.

    Raises
    ------
    InputError
        It is cut off, or a broker in it is not right.
    """
    text = data.decode()
    heads = list(_BROKER.finditer(text))
    for head, after in zip_longest(heads, heads[1:]):
        end = len(text) if after is None else after.start()
        if head["answer"] == "(" and not _END.search(text, head.end(), end):
            raise InputError(
                f"{name} line {line_of(data, len(text[:head.start()].encode()))}: the versions of"
                f" broker {head['id']} are cut off; right is the whole output, to its last )"
            )
    ids = [int(head["id"]) for head in heads]
    if not ids or max(ids) > MAX_BROKER_ID or len(set(ids)) < len(ids):
        raise InputError(
            f"{name}: found brokers {abbreviate(ids) or quote(text)}; right is each broker once, as"
            " in host:9092 (id: 1 rack: a) -> ("
        )
    columns = {
        "broker_id": pa.array(ids, pa.int32()),
        "rack": pa.array([None if head["rack"] == "null" else head["rack"] for head in heads],
                         pa.string()),
        "registered": pa.array([True] * len(ids)),
    }
    if any(head["fenced"] for head in heads):
        columns["fenced"] = pa.array([head["fenced"] == "true" for head in heads])
    notes, cluster = [], None
    if _API.search(text):
        cluster = pa.table({"controller": [schema.DEFAULT_CONTROLLER]})
        notes.append(
            f"{REASON}inferred: brokers in {name} take LeaderAndIsr requests, as only those of"
            " ZooKeeper mode do; --controller overrides"
        )
    silent = [int(head["id"]) for head in heads if head["answer"] != "("]
    if silent:
        notes.append(f"{name}: brokers that did not answer are up: {abbreviate(silent)}")
    return SourceTables(
        name, NO_PARTITIONS, brokers=pa.table(columns), cluster=cluster, notes=tuple(notes),
        kind="kafka-broker-api-versions", exactness=Exactness.SETTINGS, coverage=Coverage.NOTHING,
        lists_live_brokers=True,
    )
