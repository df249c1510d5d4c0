"""Values as Scala and Java print them in Kafka's logs: collections, partitions, records.

One function per type, each from text to a Python value. Sets print in no useful order and lists
in theirs; both become tuples, and who compares them decides whether order counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

Partition = tuple[str, int]
Replica = tuple[str, int, int]
Key = TypeVar("Key")
Value = TypeVar("Value")
_NUMBER = re.compile(r"-?\d+")
_ENCLOSED = re.compile(r"\w+\((.*)\)", re.S)
_PARTITION = re.compile(r"^\[?([\w.-]+)(?:-|,\s*|, partition=)(\d+)\]?$")
_RECORD = re.compile(
    r"\(?Leader:(-?\d+),\s*ISR:([-\d,]*),\s*(?:LeaderRecoveryState:(\w+),\s*)?LeaderEpoch:(-?\d+),"
    r"\s*(?:(?:ZkVersion|PartitionEpoch):(-?\d+),\s*)?ControllerEpoch:(-?\d+)\)?"
)
_FIELD = re.compile(
    r"(\w+)=(\w*\([^()]*\)|\[[^\]]*\]|'[^']*'|-?\d+(?:,-?\d+)+|[^,()\[\]']*)"
)
_JSON_NAME = re.compile(r'"(\w+)"\s*:\s*')
_ASSIGNED = re.compile(r"(replicas|addingReplicas|removingReplicas)=([^=a-z]*)")
_ISR_MEMBER = re.compile(r"brokerId=(-?\d+)")
_RECOVERY = {"RECOVERED": 0, "RECOVERING": 1, "0": 0, "1": 1}
_REPLICA = re.compile(r"\[Topic=([\w.-]+),\s*Partition=(\d+),\s*Replica=(\d+)\]")
_ERROR_CODE = re.compile(r"topicName='([\w.-]+)', partitionIndex=(\d+), errorCode=(-?\d+)")


class Record(NamedTuple):
    """What a line says of a partition's state record; None where it does not say."""

    leader: int
    leader_epoch: int | None
    isr: tuple[int, ...]
    version: int | None = None
    controller_epoch: int | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery: int | None = None
    is_new: bool | None = None

    @property
    def ahead(self) -> int | None:
        """Its version less its leader epoch; None where the line does not say both.

        A record that is cached of a topic that is being deleted (its leader is -2) has none.
        """
        if self.version is None or self.leader_epoch is None or self.leader == -2:
            return None
        return self.version - self.leader_epoch

    def stated(self) -> dict[str, Any]:
        """The fields that the line says."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Assigned(NamedTuple):
    """Assignment of a partition as a line says it."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def ids(text: str) -> tuple[int, ...]:
    """Broker ids: `1,2`, `Set(1, 2)`, `List(1, 2)`, `[1, 2]`, or nothing."""
    return tuple(int(number) for number in _NUMBER.findall(text))


def distinct(brokers: Iterable[int]) -> tuple[int, ...]:
    """Brokers in their order, each once: a damaged line may name one twice, Kafka never does."""
    return tuple(dict.fromkeys(brokers))


def partition(text: str) -> Partition:
    """A partition: `topic-0`, `[topic,0]`."""
    match = _search(_PARTITION, text.strip())
    return match[1], int(match[2])


def _search(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """Where a text has a pattern; ValueError where nothing has it: the line is damaged."""
    match = pattern.search(text)
    if match is None:
        raise ValueError(f"{text[:60]!r} is no such value")
    return match


def split(text: str) -> list[str]:
    """Parts between the commas that stand outside all brackets."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def inside(text: str) -> str:
    """Content of `Set(...)`, `Map(...)`; a bare list is its own content."""
    enclosed = _ENCLOSED.fullmatch(text.strip())
    return text if enclosed is None else enclosed[1]


def names(text: str) -> tuple[str, ...]:
    """Topic names of a set or a list."""
    return tuple(split(inside(text)))


def partitions(text: str) -> tuple[Partition, ...]:
    """Partitions of a set or a list."""
    return tuple(map(partition, split(inside(text))))


def mapping(
    read_key: Callable[[str], Key], read: Callable[[str], Value]
) -> Callable[[str], dict[Key, Value]]:
    """What reads `Map(key -> value, ...)`, keys and values each by a function."""

    def read_map(text: str) -> dict[Key, Value]:
        pairs = (part.split("->", 1) for part in split(inside(text)))
        return {read_key(key.strip()): read(value.strip()) for key, value in pairs}

    return read_map


def error_codes(text: str) -> dict[Partition, int]:
    """`[StopReplicaPartitionError(topicName='t', partitionIndex=0, errorCode=0), ...]`."""
    return {(t, int(p)): int(code) for t, p, code in _ERROR_CODE.findall(text)}


def record(text: str) -> Record:
    """A record with its controller epoch: `(Leader:1,ISR:1,2,LeaderEpoch:3,ControllerEpoch:5)`."""
    match = _search(_RECORD, text)
    version = None if match[5] is None else int(match[5])
    return Record(
        int(match[1]), int(match[4]), ids(match[2]), version, int(match[6]),
        recovery=_RECOVERY.get(match[3]),
    )


_FIELD_NAMES = {
    "leader": "leader", "leaderepoch": "leader_epoch", "leader_epoch": "leader_epoch",
    "zkversion": "version", "partitionepoch": "version", "controllerepoch": "controller_epoch",
    "controller_epoch": "controller_epoch",
}
_LIST_NAMES = {
    "isr": "isr", "isrwithbrokerepoch": "isr", "replicas": "replicas", "adding": "adding",
    "addingreplicas": "adding", "removing": "removing", "removingreplicas": "removing",
}


def fields(text: str) -> Record:
    """A record of `name=value` fields: `LeaderAndIsr(leader=1, ...)`, and those of requests."""
    fields: dict[str, Any] = {"leader_epoch": None}
    for name, value in _FIELD.findall(text):
        low = name.lower()
        if low in _FIELD_NAMES:
            fields[_FIELD_NAMES[low]] = int(value)
        elif low in _LIST_NAMES:
            fields[_LIST_NAMES[low]] = ids(value)
        elif low == "leaderrecoverystate":
            fields["recovery"] = _RECOVERY.get(value)
        elif low == "isnew":
            fields["is_new"] = value == "true"
    if members := _ISR_MEMBER.findall(text):
        fields["isr"] = tuple(map(int, members))
    if not fields.keys() >= {"leader", "isr"}:
        raise ValueError(f"{text[:60]!r} is no leader and ISR")
    return Record(**fields)


def any_record(text: str) -> Record:
    """A record in whichever form it stands; old ones are `{"leader":1,"isr":[1,2]}`."""
    if "Leader:" in text:
        return record(text)
    return fields(_JSON_NAME.sub(r"\1=", text.strip(" {}")).replace(" = ", "=").replace(" ;", ","))


def assigned(text: str) -> Assigned:
    """`ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=)`, or a bare list."""
    if "replicas=" not in text:
        return Assigned(ids(text))
    lists = {name: ids(listed) for name, listed in _ASSIGNED.findall(text)}
    return Assigned(
        lists["replicas"], lists.get("addingReplicas", ()), lists.get("removingReplicas", ())
    )


def assignments(text: str) -> dict[Partition, Assigned]:
    """Every `partition -> assignment` in a text, whatever encloses them."""
    return {partition(name): assigned(value) for name, value in re.findall(
        r"(\[[\w.-]+,\s?\d+\]|[\w.-]+-\d+) -> "
        r"(ReplicaAssignment\([^()]*\)|\w+\([\d, ]*\)|\[[\d, ]*\])", text
    )}


def replicas(text: str) -> tuple[Replica, ...]:
    """Every `[Topic=t,Partition=0,Replica=1]` in a text."""
    return tuple((t, int(p), int(b)) for t, p, b in _REPLICA.findall(text))


def replica(text: str) -> Replica:
    """`[Topic=t,Partition=0,Replica=1]`."""
    first, *_ = replicas(text)
    return first


class Request(NamedTuple):
    """A request that a line prints in full."""

    api: str
    controller: int | None
    controller_epoch: int | None
    broker_epoch: int | None
    partitions: dict[Partition, Record]


_API = re.compile(r"type[=:]\s*(\w+?)(?:Request)?[=,]")
_DUMPED = re.compile(
    r"(?:(?:topicName='([\w.-]+)',\s*)?partitionIndex=(\d+),|([\w.-]+)-(\d+)=PartitionState\()"
    r"([^()]*(?:\([^()]*\)[^()]*)*)\)"
)
"""A partition in a request; up to 2.3 `t-0=PartitionState(leader=1, ...)`."""


def request(text: str) -> Request:
    """A request as its `toString` prints it: header fields, and the records of its partitions."""
    return Request(
        _search(_API, text)[1], _header(text, "controllerId"), _header(text, "controllerEpoch"),
        _header(text, "brokerEpoch"), dict(_dumped(text)),
    )


def _header(text: str, key: str) -> int | None:
    """A field of a request that stands before its partitions."""
    found = re.search(rf"\b{key}=(-?\d+)", text)
    return int(found[1]) if found else None


def _dumped(text: str) -> Iterator[tuple[Partition, Record]]:
    """Every `LeaderAndIsrPartitionState(topicName='t', partitionIndex=0, ...)` in a text."""
    for place in _DUMPED.finditer(text):
        topic, number = place[1] or place[3], place[2] or place[4]
        if topic and "leader=" in place[5]:
            yield (topic, int(number)), fields(place[5])


def received(text: str) -> tuple[Partition, Record]:
    """A partition's part of a LeaderAndIsr request, as the broker that got it prints it."""
    first, *_ = _dumped(text)
    return first
