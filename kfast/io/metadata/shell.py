"""Texts of `kafka-metadata-shell`: registrations of brokers, and partitions with their paths.

`cat` prints a value without its path, so a partition is read where the text shows the command or
the tree above it, as `tree image/topics/byName` does. Brokers carry their ids.

Source: docs/formats.md, section "Metadata of clients"; Kafka 4.1, PartitionRegistration.java,
BrokerRegistration.java, `toString`; MetadataNodePrinter.java.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kfast.errors import InputError
from kfast.io.files import quote
from kfast.io.placement_rows import Broker, PlacementRows, broker_table
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables

__all__ = ["read_metadata_shell"]

_COMMAND = re.compile(
    r".*\bcat\s+/?(?:image/)?topics/byName/(?P<topic>[^/\s]+)/(?P<number>\d{1,9})\s*"
)
_KEY = re.compile(r"(?P<indent> *)(?P<key>[^\s:]+):")
_PARTITION = re.compile(r" *PartitionRegistration\((?P<fields>.*)\)")
_BROKER = re.compile(
    r" *BrokerRegistration\(id=(?P<id>\d{1,10}), .*, rack=(?:Optional\[(?P<rack>.*?)\]"
    r"|Optional\.empty), fenced=(?P<fenced>true|false),.*\)"
)
_FIELDS = {
    name: re.compile(
        rf"\b{name}=(?:\[(?P<list>(?:\d{{1,10}}(?:, \d{{1,10}})*)?)\]"
        r"|(?P<number>-?\d{1,10}))(?=, |$)"
    )
    for name in ("replicas", "isr", "elr", "lastKnownElr", "leader", "leaderEpoch")
}


def read_metadata_shell(name: str, data: bytes, _start: int) -> SourceTables:
    """Read what the shell printed.

    Raises
    ------
    InputError
        A value is damaged, or nothing says which partition it is of.
    """
    rows, brokers = PlacementRows(name), []
    keys: list[tuple[int, str]] = []
    for line_number, line in enumerate(data.decode().splitlines(), 1):
        where = f"{name} line {line_number}"
        command, key = _COMMAND.fullmatch(line), _KEY.fullmatch(line)
        partition, broker = _PARTITION.fullmatch(line), _BROKER.fullmatch(line)
        if command:
            keys = [(0, command["topic"]), (1, command["number"])]
        elif key:
            indent = len(key["indent"])
            keys = [*(pair for pair in keys if pair[0] < indent), (indent, key["key"])]
        elif partition:
            if len(keys) < 2 or not re.fullmatch(r"\d{1,9}", keys[-1][1]):
                raise InputError(
                    f"{where}: nothing says which partition this is; right is the output of tree"
                    " image/topics/byName, or the command cat image/topics/byName/TOPIC/NUMBER"
                    " before what it printed"
                )
            _add(where, rows, keys[-2][1], int(keys[-1][1]), partition["fields"])
            keys.pop()
        elif broker:
            brokers.append(Broker(int(broker["id"]), broker["rack"], True,
                                  broker["fenced"] == "true"))
        elif "Registration(" in line and "ControllerRegistration(" not in line:
            raise InputError(f"{where}: found {quote(line)}; right is what kafka-metadata-shell"
                             " prints")
    if not len(rows) and not brokers:
        raise InputError(
            f"{name}: has no partition and no broker; right is the output of tree"
            " image/topics/byName or tree image/cluster"
        )
    if not len(rows):
        return SourceTables(
            name, NO_PARTITIONS, brokers=broker_table(name, brokers), exactness=Exactness.RECORDS,
            coverage=Coverage.NOTHING,
        )
    # A value may be one of many: the shell shows what it is asked for.
    return replace(rows.tables(brokers or None), coverage=Coverage.PARTITIONS)


def _add(where: str, rows: PlacementRows, topic: str, number: int, text: str) -> None:
    """Add a partition from the fields of its registration."""
    values: dict[str, re.Match[str]] = {}
    for field, pattern in _FIELDS.items():
        match = pattern.search(text)
        if match is None and field not in ("elr", "lastKnownElr"):
            raise InputError(f"{where}: found {quote(text)}, which has no {field}")
        if match is not None:
            values[field] = match
    lists = {
        field: [int(broker) for broker in re.findall(r"\d+", match["list"] or "")]
        for field, match in values.items()
    }
    if values["leader"]["number"] is None or values["leaderEpoch"]["number"] is None:
        raise InputError(f"{where}: found {quote(text)}; leader and leaderEpoch are numbers")
    rows.add(
        topic, number, int(values["leader"]["number"]), lists["replicas"], lists["isr"],
        leader_epoch=int(values["leaderEpoch"]["number"]), elr=lists.get("elr", ()),
        last_known_elr=lists.get("lastKnownElr", ()),
    )
