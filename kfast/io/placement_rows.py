"""Partitions as clients and tools list them, row by row, and the tables that they make."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.errors import InputError
from kfast.io.controller_inference import assume_newest, infer_elr
from kfast.io.files import abbreviate, quote
from kfast.io.id_lists import IdLists, int32s
from kfast.io.placement_checks import check_leaders, presume_brokers
from kfast.io.source_tables import SourceTables, brokers_of
from kfast.io.topic_settings import log_settings, setting_columns

__all__ = ["Broker", "PlacementRows", "broker_table"]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_NO_EPOCH, _UNKNOWN = -1, -2


class Broker(NamedTuple):
    """A broker as a source lists it; None for what it does not say."""

    broker_id: int
    rack: str | None = None
    registered: bool = True
    fenced: bool | None = None


class PlacementRows:
    """Partitions of a source, added in any order.

    Parameters
    ----------
    name : str
        What messages call the source.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
        self._topics: dict[str, int] = {}
        self._topic, self._partition, self._leader, self._epoch = (array("i") for _ in range(4))
        self._replicas, self._isr, self._elr, self._last_known = (IdLists() for _ in range(4))
        self._isr_known = array("b")
        self._has_elr = False

    def __len__(self) -> int:
        return len(self._partition)

    def topic(self, topic: str) -> int:
        """The row of a topic, which may have no partition."""
        row = self._topics.get(topic)
        if row is None:
            if not _TOPIC.fullmatch(topic):
                raise InputError(
                    f"{self.name}: found topic {quote(topic)}; right is at most 249 letters,"
                    " digits, '.', '_' or '-'"
                )
            row = self._topics[topic] = len(self._topics)
        return row

    def add(
        self, topic: str, partition: int, leader: int | None, replicas: Iterable[int],
        isr: Iterable[int] | None, *, leader_epoch: int = _NO_EPOCH, elr: Iterable[int] = (),
        last_known_elr: Iterable[int] = (),
    ) -> None:
        """Add a partition; a leader of -1 is none; None for a leader or an ISR: it is not known.

        Raises
        ------
        InputError
            A number is none that Kafka has.
        """
        elr, last_known_elr = [*elr], [*last_known_elr]
        try:
            self._topic.append(self.topic(topic))
            self._partition.append(partition)
            self._leader.append(_UNKNOWN if leader is None else leader)
            self._epoch.append(leader_epoch)
            self._replicas.append(replicas)
            self._isr.append(isr or ())
            self._isr_known.append(isr is not None)
            self._elr.append(elr)
            self._last_known.append(last_known_elr)
        except OverflowError as error:
            raise InputError(
                f"{self.name}: {topic}-{partition} has a number above {MAX_INT}"
            ) from error
        self._has_elr = self._has_elr or bool(elr or last_known_elr)

    def partitions(self) -> pa.Table:
        """The table of partitions."""
        topics = pa.array(self._topics, pa.string())
        columns = {
            "topic": pa.DictionaryArray.from_arrays(int32s(self._topic), topics),
            "partition": int32s(self._partition),
            "replicas": self._replicas.column(),
            "leader": int32s(self._leader),
            "isr": self._isr.column(),
        }
        if _UNKNOWN in self._leader:
            unknown = pc.equal(columns["leader"], _UNKNOWN)
            columns["leader"] = pc.if_else(unknown, None, columns["leader"])
        if not all(self._isr_known):
            known = pa.array(np.frombuffer(self._isr_known, np.bool_))
            columns["isr"] = pc.if_else(known, columns["isr"], None)
        if self._epoch and max(self._epoch) > _NO_EPOCH:
            columns["leader_epoch"] = int32s(self._epoch)
        if self._has_elr:
            columns["elr"] = self._elr.column()
            columns["last_known_elr"] = self._last_known.column()
        return pa.table(columns)

    def tables(
        self, brokers: Iterable[Broker] | None = None, *,
        topic_ids: Mapping[str, str] | None = None,
        settings: Mapping[str, Mapping[str, str]] | None = None,
    ) -> SourceTables:
        """The tables of the cluster.

        Parameters
        ----------
        brokers : iterable of Broker, optional
            Those that are registered: others that partitions name are not. By default leaders and
            ISRs show who is up.
        topic_ids : mapping of str to str, optional
        settings : mapping of str to mapping of str to str, optional
            Settings of topics that have any.

        Raises
        ------
        InputError
            There is no partition, or a leader holds no replica.
        """
        if not len(self):
            raise InputError(f"{self.name}: lists no partition; right is at least one")
        partitions = self.partitions()
        notes = [*self.notes, *check_leaders(self.name, partitions)]
        topics, settings = [*self._topics], settings or {}
        columns = {"topic": pa.array(topics, pa.string())}
        if topic_ids:
            columns["topic_id"] = pa.array([topic_ids.get(t) for t in topics], pa.string())
        columns |= setting_columns(self.name, topics, settings)
        tables = SourceTables(
            self.name, partitions, pa.table(columns), log_settings=log_settings(settings),
        )
        if brokers is None and any(self._isr_known):
            table, down, up = presume_brokers(tables)
            tables = replace(tables, brokers=table, taken_for_down=down, taken_for_up=up)
        elif brokers is not None:
            table = self._listed(tables, brokers, notes)
            tables = replace(tables, brokers=table, lists_live_brokers=True)
        tables = replace(tables, notes=tuple(notes))
        return infer_elr(tables) if self._has_elr else assume_newest(tables)

    def _listed(
        self, tables: SourceTables, brokers: Iterable[Broker], notes: list[str]
    ) -> pa.Table:
        """Brokers that a source lists, and those that its partitions name besides."""
        listed: dict[int, Broker] = {}
        for broker in brokers:
            if broker.broker_id in listed:
                raise InputError(
                    f"{self.name}: broker {broker.broker_id} stands twice; right is once"
                )
            listed[broker.broker_id] = broker
        missing = sorted(set(brokers_of(tables)["broker_id"].to_pylist()) - listed.keys())
        if missing:
            notes.append(
                f"{self.name}: brokers that it does not list, which are not registered:"
                f" {abbreviate(missing)}"
            )
        down = [Broker(broker, registered=False) for broker in missing]
        return broker_table(self.name, [*listed.values(), *down])


def broker_table(name: str, brokers: Iterable[Broker]) -> pa.Table:
    """The table of the brokers of a source; `InputError` where an id is none."""
    rows = sorted(brokers, key=lambda broker: broker.broker_id)
    if rows and rows[-1].broker_id > MAX_BROKER_ID:
        raise InputError(
            f"{name}: found broker {rows[-1].broker_id}; right is an id of at most {MAX_BROKER_ID}"
        )
    columns = {
        "broker_id": pa.array([row.broker_id for row in rows], pa.int32()),
        "rack": pa.array([row.rack for row in rows], pa.string()),
        "registered": pa.array([row.registered for row in rows], pa.bool_()),
    }
    if any(row.fenced is not None for row in rows):
        columns["fenced"] = pa.array([bool(row.fenced) for row in rows])
    return pa.table(columns)
