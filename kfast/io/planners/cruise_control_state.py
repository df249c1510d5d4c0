"""Clusters as Cruise Control shows them: its `kafka_cluster_state`, and brokers from its `load`.

The state lists healthy partitions only with `verbose=true`. It has no racks; `load` has them.

Source: docs/formats.md, section "Metadata of clients"; Cruise Control, ClusterPartitionState.java,
ClusterBrokerState.java, BasicStats.java.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.errors import InputError
from kfast.io.file_kinds import json_part
from kfast.io.files import line_of, quote
from kfast.io.json_documents import decode_document
from kfast.io.placement_rows import Broker, PlacementRows, broker_table
from kfast.io.source_tables import NO_PARTITIONS, Coverage, SourceTables

__all__ = ["read_cluster_state", "read_load_brokers"]

_Id = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
_Leader = Annotated[int, Meta(ge=-1, le=MAX_BROKER_ID)]
_Number = Annotated[int, Meta(ge=0, le=MAX_INT)]
_STATES = ("ALIVE", "NEW", "DEMOTED", "BAD_DISKS", "DEAD")
_MIN_ISR = "min.insync.replicas"
_HOW = "right is what kafka_cluster_state?json=true&verbose=true answers"


class _Partition(Struct, gc=False, rename="kebab"):
    topic: str
    partition: _Number
    leader: _Leader
    replicas: list[_Id] | str
    in_sync: list[_Id] | str
    min_isr: Annotated[int, Meta(ge=1, le=MAX_INT)] | None = None


class _Partitions(Struct, rename="kebab"):
    offline: list[_Partition]
    urp: list[_Partition]
    with_offline_replicas: list[_Partition] = []
    under_min_isr: list[_Partition] = []
    other: list[_Partition] = []


class _Summary(Struct, rename="pascal"):
    replicas: int = 0


class _Brokers(Struct, rename="pascal"):
    is_controller: dict[_Id, bool] | None = None
    summary: _Summary = msgspec.field(default_factory=_Summary)


class _ClusterState(Struct):
    brokers: _Brokers = msgspec.field(name="KafkaBrokerState")
    partitions: _Partitions = msgspec.field(name="KafkaPartitionState")


class _LoadBroker(Struct, rename="pascal"):
    broker: _Id
    broker_state: str
    host: str | None = None
    rack: str | None = None


class _Load(Struct):
    brokers: list[_LoadBroker]


@dataclass
class _Rows:
    """Partitions of a state, each once."""

    placement: PlacementRows
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    replicas: list[int] = field(default_factory=list)


def _rows(name: str, where: str, lists: _Partitions) -> _Rows:
    """Partitions of all lists; one may stand in several."""
    rows = _Rows(PlacementRows(name))
    seen: dict[tuple[str, int], _Partition] = {}
    for partition in chain(
        lists.offline, lists.urp, lists.with_offline_replicas, lists.under_min_isr, lists.other
    ):
        key = partition.topic, partition.partition
        first = seen.setdefault(key, partition)
        if first is not partition:
            if first != partition:
                raise InputError(
                    f"{where}: {key[0]}-{key[1]} stands twice and differs; right is one answer"
                )
            continue
        replicas = _ids(partition.replicas)
        rows.placement.add(*key, partition.leader, replicas, _ids(partition.in_sync))
        rows.replicas += replicas
        if partition.min_isr is not None:
            rows.settings[partition.topic] = {_MIN_ISR: str(partition.min_isr)}
    return rows


def _ids(ids: list[int] | str) -> list[int]:
    """Broker ids, which old servers write as the text of a list."""
    return msgspec.json.decode(ids, type=list[_Id]) if isinstance(ids, str) else ids


def read_cluster_state(name: str, data: bytes, start: int) -> SourceTables:
    """Read the answer of `kafka_cluster_state` that begins at a byte.

    Raises
    ------
    InputError
        It is damaged, contradicts itself, or lists no partition.
    """
    where = f"{name} line {line_of(data, start)}"
    try:
        # Old servers write numbers as strings.
        state = msgspec.json.decode(json_part(data, start), type=_ClusterState, strict=False)
        rows = _rows(name, where, state.partitions)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{where}: not what Cruise Control writes: {error}; {_HOW}") from error
    listed, total = len(rows.replicas), state.brokers.summary.replicas
    if not len(rows.placement):
        raise InputError(f"{where}: lists no partition; {_HOW}")
    if listed < total:
        rows.placement.notes.append(
            f"{name} is partial: it lists {listed} of {total} replicas, without verbose=true those"
            " of healthy partitions are left out"
        )
    alive = state.brokers.is_controller
    tables = rows.placement.tables(
        None if alive is None else [Broker(broker) for broker in alive], settings=rows.settings
    )
    return replace(tables, coverage=Coverage.PARTITIONS) if listed < total else tables


def read_load_brokers(name: str, data: bytes, start: int) -> SourceTables:
    """Read the brokers of an answer of `load` that begins at a byte: racks, and who is up.

    Raises
    ------
    InputError
        It is damaged, or a broker stands twice.
    """
    where, load = decode_document(name, data, start, _Load, "what Cruise Control writes")
    brokers: dict[int, Broker] = {}
    for row in load.brokers:
        if row.broker in brokers:
            raise InputError(f"{where}: broker {row.broker} stands twice; right is once")
        if row.broker_state not in _STATES:
            raise InputError(
                f"{where}: broker {row.broker} is {quote(row.broker_state)}; allowed:"
                f" {', '.join(_STATES)}"
            )
        # Where brokers have no rack, Cruise Control takes the host for one.
        rack = None if row.rack == row.host else row.rack
        brokers[row.broker] = Broker(row.broker, rack, row.broker_state != "DEAD")
    return SourceTables(
        name, NO_PARTITIONS, brokers=broker_table(name, brokers.values()),
        coverage=Coverage.NOTHING,
    )
