"""Metadata of a cluster as clients print it in JSON: kcat, Python's admin clients, REST, MSK.

`metadata_shapes.py` says how each names what it lists.

Brokers come from the listing itself or from an answer to `describe_cluster` beside it.

Source: docs/formats.md, section "Metadata of clients".
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from kfast.errors import InputError
from kfast.io.clients.metadata_shapes import BrokerId, Node, Topic, listed_brokers
from kfast.io.file_kinds import json_part
from kfast.io.files import line_of, quote
from kfast.io.placement_rows import Broker, PlacementRows
from kfast.io.source_tables import Coverage, SourceTables

__all__ = ["read_client_metadata"]

_LEFT_OUT = {
    "describe_configs": "kafka-configs.sh --describe",
    "list_partition_reassignments": "kafka-reassign-partitions.sh --list",
}
_CAPITALS = re.compile(rb'"(Partitions?|Leader|Replicas|Isr)"(?=\s*:)')
"""Keys as the AWS command line writes them."""


class _Metadata(Struct):
    """One answer, or several by the method that gave each."""

    topics: list[Raw] | dict[str, Raw] | UnsetType = UNSET
    partitions: Raw | UnsetType = UNSET
    brokers: list[Node] | dict[BrokerId, Node] | UnsetType = UNSET
    nodes: list[Node] | UnsetType = UNSET
    describe_cluster: Raw | UnsetType = UNSET
    list_topics: Raw | UnsetType = UNSET
    describe_topics: list[Raw] | dict[str, Raw] | UnsetType = UNSET
    describe_topic_partitions: Raw | UnsetType = UNSET
    next_cursor: Any = None
    describe_configs: Any = None
    list_partition_reassignments: Any = None
    cluster_id: str | None = None


class _Reader:
    """What is read of one file."""

    def __init__(self, name: str, where: str) -> None:
        self.where = where
        self.rows = PlacementRows(name)
        self.brokers: dict[int, Broker] | None = None
        self.topic_ids: dict[str, str] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.cluster_id = ""
        self.is_partial = False
        self._decode_topic = msgspec.json.Decoder(Topic).decode

    def decode(self, text: Any, kind: Any, what: str) -> Any:
        """Part of the file, decoded."""
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.wrong(what, error) from error

    def wrong(self, what: str, error: object) -> InputError:
        """The error for a part that is not right."""
        return InputError(f"{self.where}: {what} is not what the client prints: {error}")

    def add_metadata(self, text: Any, what: str) -> None:
        """Read an answer, and those in it."""
        document = self.decode(text, _Metadata, what)
        if document.partitions is not UNSET:
            self.add_topic(None, text)
        self.cluster_id = document.cluster_id or self.cluster_id
        if document.next_cursor:
            self.is_partial = True
            self.rows.notes.append(
                f"{self.rows.name} is partial: it has a next_cursor, so more topics follow"
            )
        nodes = document.brokers if document.brokers is not UNSET else document.nodes
        if nodes is not UNSET:
            self.add_brokers(what, nodes)
        for key, command in _LEFT_OUT.items():
            if getattr(document, key):
                self.rows.notes.append(
                    f"{self.rows.name}: what {key} answered is not read; right is the output of"
                    f" {command} beside it"
                )
        # `describe_cluster` comes last, for it alone knows racks and who is fenced.
        for key in ("list_topics", "describe_topic_partitions", "describe_cluster"):
            part = getattr(document, key)
            if part is not UNSET:
                self.add_metadata(part, key)
        topics = document.topics
        if topics is UNSET and not len(self.rows):
            topics = document.describe_topics
        if topics is not UNSET:
            items = topics.items() if isinstance(topics, dict) else ((None, t) for t in topics)
            for label, topic in items:
                self.add_topic(label, topic)

    def add_brokers(self, what: str, nodes: list[Node] | dict[int, Node]) -> None:
        """Keep the brokers of an answer; one that has racks counts more than one without."""
        try:
            brokers = listed_brokers(nodes.values() if isinstance(nodes, dict) else nodes)
        except ValueError as error:
            raise self.wrong(what, error) from error
        self.brokers = (self.brokers or {}) | brokers

    def add_topic(self, label: str | None, text: Any) -> None:
        """Read a topic and its partitions."""
        try:
            topic = self._decode_topic(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = label or bytes(memoryview(text)[:200])
            raise self.wrong(f"topic {quote(what)}", error) from error
        name = topic.label or label
        if name is None:
            raise self.wrong("a topic", 'it has no name; right is one, {"topic":"t"}')
        if topic.error_code or (topic.error and not topic.partitions):
            self.rows.notes.append(
                f"{self.rows.name}: topic {quote(name)} is not read, for it has the error"
                f" {topic.error_code or quote(str(topic.error))}"
            )
            return
        if label is not None and label != name:
            raise self.wrong(f"topic {quote(label)}", f"it calls itself {quote(name)}")
        self.rows.topic(name)
        self.settings[name] = {
            key: value for key, value in (topic.configs or {}).items() if isinstance(value, str)
        }
        try:
            topic_id = topic.printed_id
            placements = [partition.placement() for partition in topic.listed()]
        except ValueError as error:
            raise self.wrong(f"topic {name}", error) from error
        for placement in placements:
            self.rows.add(name, **placement)
        if topic_id:
            self.topic_ids[name] = topic_id


def read_client_metadata(name: str, data: bytes, start: int) -> SourceTables:
    """Read the metadata that begins at a byte of a file.

    Raises
    ------
    InputError
        It lists no partition, or something in it is not what a client prints.
    """
    reader = _Reader(name, f"{name} line {line_of(data, start)}")
    text = _CAPITALS.sub(lambda match: match[0].lower(), json_part(data, start))
    if text.startswith(b"["):
        for topic in reader.decode(text, list[Raw], "the list"):
            reader.add_topic(None, topic)
    else:
        reader.add_metadata(text, "the document")
    tables = reader.rows.tables(
        None if reader.brokers is None else reader.brokers.values(),
        topic_ids=reader.topic_ids, settings=reader.settings,
    )
    coverage = Coverage.PARTITIONS if reader.is_partial else Coverage.TOPICS
    return replace(tables, cluster_id=reader.cluster_id, coverage=coverage)
