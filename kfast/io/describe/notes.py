"""What was concluded from a describe text, joined or passed over: one sentence each.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from kfast.io.describe.parser import Parsed
from kfast.io.files import line_of, quote
from kfast.kernels.describe import Key

__all__ = ["PARTIAL", "notes"]

PARTIAL = "is partial: kafka-topics printed no line"
"""What is assumed of an export with gaps begins with its name and these words."""

_SHOWN = 3
"""How many topics or numbers a note names; the others are counted."""


def notes(name: str, parsed: Parsed) -> Iterator[str]:
    """Say what a reader of a text should know of how it was read.

    Parameters
    ----------
    name : str
        What messages call the file.
    parsed : Parsed
        Of which `describe_errors.check` finds nothing wrong.
    """
    yield from _missing(name, parsed)
    yield from _lines(parsed)
    yield from _columns(parsed)
    yield from _unusual(parsed)


def _missing(name: str, parsed: Parsed) -> Iterator[str]:
    """What the text leaves out: headers, partitions, settings."""
    if parsed.partitions.size == 0:
        yield f"{name} is partial: it has topic headers only and no partition"
    elif not (parsed.topics["header_line"] >= 0).any():
        yield (
            f"{name} is partial: it has no topic headers, so other partitions may be missing and"
            " the topics' own settings are not known"
        )
    else:
        yield from _gaps(name, parsed)
    cut = parsed.cursor["cut_line"]
    if cut >= 0:
        yield f"line {cut}: the settings end in '...'; those left out are taken for unset"


def _gaps(name: str, parsed: Parsed) -> Iterator[str]:
    """The numbers of partitions that a broker did not know when it was asked."""
    topics = parsed.topics
    unprinted = topics["highest"].astype(np.int64) + 1 - topics["lines"]
    gaps = np.flatnonzero(unprinted > 0)
    if gaps.size == 0:
        return
    named = []
    for topic in gaps[:_SHOWN].tolist():
        rows = parsed.partitions[parsed.partitions["topic"] == topic]
        present = set(rows["partition"].tolist())
        absent = (number for number in range(topics["highest"][topic]) if number not in present)
        numbers = ", ".join(map(str, islice(absent, _SHOWN)))
        more = ", ..." if unprinted[topic] > _SHOWN else ""
        named.append(f"{parsed.topic_name(topic)} ({numbers}{more})")
    more = f" and {gaps.size - _SHOWN} more" if gaps.size > _SHOWN else ""
    yield (
        f"{name} {PARTIAL} for {_plural(int(unprinted[gaps].sum()), 'partition')} of"
        f" {_plural(gaps.size, 'topic')}, numbers that lie between others: {', '.join(named)}{more}"
        "; what is not printed, higher numbers too, is unknown and not in the cluster"
    )


def _plural(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _lines(parsed: Parsed) -> Iterator[str]:
    """Lines that were joined, passed over or have no end."""
    cursor = parsed.cursor
    if cursor["n_prose"]:
        end = parsed.text.find(b"\n", cursor["prose_at"])
        first = parsed.text[cursor["prose_at"] : end if end >= 0 else None]
        yield (
            f"lines passed over because they describe nothing: {cursor['n_prose']}, the first is"
            f" line {cursor['prose_line']}: {quote(first)}"
        )
    if parsed.joined[0]:
        yield (
            f"wrapped lines joined to the line before: {parsed.joined[0]}, the first is line"
            f" {parsed.joined[1]}"
        )
    if not parsed.text.endswith(b"\n") and cursor["last_was"]:
        yield (f"the last line, {cursor['line']}, has no line break; its last value may be cut off")


def _columns(parsed: Parsed) -> Iterator[str]:
    """Columns that kfast does not keep, and what they tell."""
    cursor = parsed.cursor
    if cursor["unknown_at"] >= 0:
        at = int(cursor["unknown_at"])
        word = parsed.text[at : at + 256].split()[0]
        yield (
            f"columns that kfast does not know are passed over, the first is {quote(word)} in line"
            f" {line_of(parsed.text, at)}"
        )
    if parsed.has(Key.OBSERVERS) or parsed.has(Key.LIVE_OBSERVERS):
        yield "observers are taken for ordinary replicas"


def _unusual(parsed: Parsed) -> Iterator[str]:
    """What a controller of Kafka's does not do by itself, and what a header has wrong."""
    cursor, topics = parsed.cursor, parsed.topics
    if cursor["n_outside"]:
        row = int(cursor["outside_row"])
        more = cursor["n_outside"] - 1
        yield (
            f"line {parsed.partitions['line'][row]} ({parsed.partition_name(row)}): the leader,"
            f" {parsed.partitions['leader'][row]}, is not in the ISR; kept"
            + (f", as in {more} more partitions" if more else "")
        )
    if cursor["n_stale"]:
        row = int(cursor["stale_row"])
        more = cursor["n_stale"] - 1
        yield (
            f"line {parsed.partitions['line'][row]} ({parsed.partition_name(row)}): Adding Replicas"
            " or Removing Replicas name a broker that is no replica, so the reassignment began or"
            " ended after the replicas had been read; it is left out"
            + (f", as in {more} more partitions" if more else "")
        )
    factor = topics["factor"]
    wrong = np.flatnonzero(
        (topics["lines"] > 0)
        & (factor >= 0)
        & ((factor < topics["fewest"]) | (factor > topics["most"]))
    )
    if wrong.size:
        first = int(wrong[0])
        more = wrong.size - 1
        yield (
            f"line {topics['header_line'][first]} (topic {parsed.topic_name(first)}):"
            f" ReplicationFactor {factor[first]} is that of no partition, they list"
            f" {topics['most'][first]} replicas or fewer; the lists count"
            + (f", as in {more} more topics" if more else "")
        )
