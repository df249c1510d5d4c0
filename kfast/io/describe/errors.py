"""What can be wrong with a describe text, and what to say about it: where, what, what is right."""

from __future__ import annotations

import re

import numpy as np

from kfast.errors import InputError
from kfast.io.describe.parser import Parsed
from kfast.io.files import quote
from kfast.kernels.describe import Key, Trouble

__all__ = ["check"]

_IDS = "broker ids with commas between them, as in 1,2,3"
_COUNT = "an integer from 0 to 2147483647"
_RIGHT = {
    Key.TOPIC: "a topic name: at most 249 letters, digits, '.', '_' or '-'",
    Key.PARTITION: _COUNT,
    Key.LEADER: "a broker id, -1 or none",
    Key.REPLICAS: _IDS,
    Key.ISR: _IDS,
    Key.ADDING: _IDS,
    Key.REMOVING: _IDS,
    Key.OFFLINE: _IDS,
    Key.PARTITION_COUNT: _COUNT,
    Key.REPLICATION_FACTOR: _COUNT,
    Key.ELR: f"{_IDS}, or N/A",
    Key.LAST_KNOWN_ELR: f"{_IDS}, or N/A",
    Key.TOPIC_ID: "22 characters of URL-safe base64",
    Key.CONFIGS: "min.insync.replicas=INTEGER, unclean.leader.election.enable=true or false",
    Key.MARKED_FOR_DELETION: "true or false",
}
_SPELLED = {
    Key.ADDING: "Adding Replicas",
    Key.REMOVING: "Removing Replicas",
    Key.PARTITION_COUNT: "PartitionCount",
    Key.REPLICATION_FACTOR: "ReplicationFactor",
    Key.TOPIC_ID: "TopicId",
    Key.MARKED_FOR_DELETION: "MarkedForDeletion",
    Key.LAST_KNOWN_ELR: "LastKnownElr",
    Key.LIVE_OBSERVERS: "LiveObservers",
}
_WHICH = re.compile(rb"topic:[ \t]*([\w.-]{1,249})(?:[ \t]+partition:[ \t]*(\d{1,10}))?", re.I)
_REPLICAS = re.compile(rb"(?<!adding )(?<!removing )replicas:[ \t]*([\d,]*)", re.I)


def _spell(key: Key) -> str:
    """A key as Kafka prints it."""
    return _SPELLED.get(key, key.name.capitalize())


def check(name: str, parsed: Parsed) -> None:
    """Raise an `InputError` for the first thing that is wrong with a text."""
    if parsed.trouble != Trouble.FINE:
        raise InputError(_in_line(name, parsed))
    for message in (_cut_in_last_line, _wrong_count, _lost_header):
        if text := message(parsed):
            raise InputError(f"{name} {text}")


def _in_line(name: str, parsed: Parsed) -> str:
    """Say what is wrong in the line where reading stopped."""
    text, cursor, key = parsed.text, parsed.cursor, parsed.key
    start, at = int(cursor["bad_line_at"]), int(cursor["bad_at"])
    end = text.find(b"\n", start)
    is_last = end < 0 or not text[end:].strip()
    end = len(text) if end < 0 else end
    line, word = text[start:end], (text[at:end].split() or [b""])[0]
    which = _WHICH.search(line)
    where = f"{name} line {cursor['line']}"
    if which and parsed.trouble != Trouble.TEXT_BEFORE:
        where += f" (topic {which[1].decode()}" + (
            f", partition {which[2].decode()})" if which[2] else ")"
        )
    cut = "; the text is cut off here" if is_last else ""
    spelled = _spell(key)
    match parsed.trouble:
        case Trouble.MISSING_KEY:
            tail = f"{spelled!r} is missing after {quote(line[-40:])}{cut}"
            right = "a line of a partition has Topic, Partition, Leader, Replicas and Isr"
            if key == Key.PARTITION:
                right += ", a topic's header has PartitionCount"
        case Trouble.KEY_TWICE:
            tail = f"'{spelled}:' stands there twice"
            right = "each key once: two lines may have run together"
        case Trouble.SETTING_TWICE:
            tail = f"found {quote(word)} for 'Configs:', which has a value for it already"
            right = "each setting once"
        case Trouble.LEADER_NOT_ASSIGNED:
            replicas = _REPLICAS.search(line)
            among = replicas[1].decode() if replicas else ""
            tail = f"found leader {word.decode()}, which is not among the replicas {among}"
            right = (
                "one of them, for Kafka elects no other; a text from ZooKeeper that was taken while"
                " a reassignment ended may mix two assignments: take it again"
            )
        case Trouble.BAD_VALUE:
            found = "nothing" if not word or at >= end else quote(word)
            tail = f"found {found} for '{spelled}:'{cut if at + len(word) >= end else ''}"
            right = _RIGHT[key]
        case Trouble.STRAY_TEXT:
            tail = f"found {quote(word)} between the values{cut}"
            right = "keys such as 'Leader:', each with its value"
        case Trouble.NO_TOPIC:
            tail = "a partition without a topic, and no topic's header before it"
            right = "'Topic: NAME' in this line or in a header"
        case Trouble.TEXT_BEFORE:
            tail = f"text stands before the description of a partition: {quote(line)}"
            right = "a line that begins with 'Topic:'; remove what stands before it"
        case _:
            return f"{where}: {_twice(parsed, line)}"
    return f"{where}: {tail}; right is {right}"


def _twice(parsed: Parsed, line: bytes) -> str:
    """Say that a topic has two headers."""
    first = int(parsed.cursor["other_line"])
    row = int(np.flatnonzero(parsed.topics["header_line"] == first)[0])
    at = int(parsed.topics["topic_id_at"][row])
    before = parsed.text[at : at + 22].decode() if at >= 0 else None
    found = re.search(rb"topicid:[ \t]*([\w-]{22})", line, re.I)
    now = found[1].decode() if found else None
    ids = f" with TopicId {now}, there with {before}" if before != now else ""
    kind = "the dumps of two clusters" if before and now and before != now else "two dumps"
    return (
        f"the topic is described again{ids}; its first header is line {first}: the text holds"
        f" {kind}; right is one dump of one cluster"
    )


def _cut_in_last_line(parsed: Parsed) -> str | None:
    """The last line ends without a break and without a key that all lines before it have."""
    missing = int(parsed.cursor["every_keys"]) & ~int(parsed.cursor["last_keys"])
    n = parsed.partitions.size
    if parsed.text.endswith(b"\n") or n < 2 or missing <= 0:
        return None
    row = parsed.partitions[n - 1]
    if row["line"] != parsed.cursor["line"]:
        return None
    key = Key((missing & -missing).bit_length() - 1)
    return (
        f"line {row['line']} ({parsed.partition_name(n - 1)}): {_spell(key)!r} is missing, which"
        " every line before it has, and the line has no break: the text is cut off; right is a"
        " whole line"
    )


def _wrong_count(parsed: Parsed) -> str | None:
    """A topic has another number of partitions than its header says.

    `kafka-topics` makes the header and the lines from one list, so they differ where lines were
    lost. Gaps between the numbers are another matter: the broker that was asked had no more.
    """
    topics = parsed.topics
    wrong = (topics["header_line"] >= 0) & (topics["count"] != topics["lines"])
    if parsed.partitions.size == 0 or not wrong.any():
        return None
    row = int(np.flatnonzero(wrong)[0])
    lines = int(topics["lines"][row])
    return (
        f"line {topics['header_line'][row]} (topic {parsed.topic_name(row)}): found PartitionCount"
        f" {topics['count'][row]}, but the text has {lines} line{'s' if lines != 1 else ''} of its"
        " partitions; right is one for each: the text is cut off, shortened, or of two clusters"
    )


def _lost_header(parsed: Parsed) -> str | None:
    """A topic has no header although others have one."""
    lost = parsed.topics["header_line"] < 0
    if not lost.any() or lost.all():
        return None
    row = int(np.flatnonzero(lost)[0])
    return (
        f"line {parsed.topics['first_line'][row]} (topic {parsed.topic_name(row)}): the topic has"
        " no header with PartitionCount, but others have: the text is cut off or mixed; right is a"
        " header for every topic, or for none"
    )
