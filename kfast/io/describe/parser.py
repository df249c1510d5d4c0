"""A describe text as the kernel parses it: records of topics and partitions, and their lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import InputError
from kfast.kernels import describe as kernel
from kfast.kernels.describe import Key, Trouble
from kfast.kernels.unwrap import unwrap

__all__ = ["MAX_VALUES", "Parsed", "Progress", "parse"]

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes there are."""

MAX_VALUES = 2**31 - 1
"""A text may have this many lines and broker ids together: Arrow's lists count in int32."""

_CHUNK = 1 << 23
_N_LISTS = 7
_PLACES = (
    "header_topic", "last_topic", "last_keys", "every_keys", "unknown_at", "cut_line", "elr_line",
    "outside_row", "stale_row",
)

# The structs of `kernels/describe.pxd`; the kernel refuses an array of another layout.
CURSOR = np.dtype(
    [
        *((name, np.int64) for name in ("at", "line", "n_topics", "n_partitions")),
        ("n_values", np.int64, (_N_LISTS,)),
        *((name, np.int64) for name in ("header_topic", "last_topic", "last_was", "last_keys")),
        *((name, np.int64) for name in ("every_keys", "any_keys", "lower_case", "n_prose")),
        *((name, np.int64) for name in ("prose_at", "prose_line", "unknown_at", "cut_line")),
        *((name, np.int64) for name in ("elr_line", "n_outside", "outside_row")),
        *((name, np.int64) for name in ("n_stale", "stale_row")),
        *((name, np.int64) for name in ("maybe_wrapped", "bad_at", "bad_line_at", "other_line")),
    ]
)
TOPIC = np.dtype(
    [
        *((name, np.int64) for name in ("name_at", "topic_id_at")),
        *((name, np.int32) for name in ("name_length", "first_line", "header_line", "count")),
        *((name, np.int32) for name in ("factor", "lines", "highest", "fewest", "most")),
        ("min_insync_replicas", np.int32),
        *((name, np.int8) for name in ("unclean", "marked")),
    ],
    align=True,
)
PARTITION = np.dtype(
    [(name, np.int32) for name in ("topic", "partition", "leader", "line", "keys")]
)


@dataclass(frozen=True)
class Parsed:
    """What the kernel found in a text.

    Parameters
    ----------
    text : bytes or (n,) uint8
        The text, with wrapped lines joined.
    cursor : np.void
        A `CURSOR`: where reading ended, and what was seen.
    topics, partitions : structured arrays
        A `TOPIC` and a `PARTITION` each, in order of appearance.
    offsets, values : (7, ...) int32
        The lists Replicas, Isr, Adding, Removing, Offline, Elr, LastKnownElr.
    trouble, key
        What is wrong, if anything.
    joined : (int, int)
        How many lines were joined to the one before, and the first of them.
    """

    text: bytes
    cursor: np.void
    topics: npt.NDArray[np.void]
    partitions: npt.NDArray[np.void]
    offsets: npt.NDArray[np.int32]
    values: npt.NDArray[np.int32]
    trouble: Trouble
    key: Key
    joined: tuple[int, int] = (0, 0)

    def has(self, key: Key) -> bool:
        """Whether any line has a key."""
        return bool(int(self.cursor["any_keys"]) >> key & 1)

    def values_of(self, key: Key) -> npt.NDArray[np.int32]:
        """All values of one of the lists, one list behind the other."""
        row = key - Key.REPLICAS
        return self.values[row, : int(self.cursor["n_values"][row])]

    def offsets_of(self, key: Key) -> npt.NDArray[np.int32]:
        """Where each partition's list begins in `values_of`, and where the last one ends."""
        return self.offsets[key - Key.REPLICAS, : self.partitions.size + 1]

    def list_of(self, key: Key) -> pa.ListArray:
        """One of the lists, for every partition; its arrays are those of the text, not copied."""
        values = self.values_of(key)
        offsets = self.offsets_of(key)
        if not values.size:
            offsets = np.zeros(offsets.size, np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))

    def topic_name(self, topic: int) -> str:
        """Name of a topic."""
        at = int(self.topics["name_at"][topic])
        return self.text[at : at + int(self.topics["name_length"][topic])].decode()

    def partition_name(self, row: int) -> str:
        """Name a partition in a message."""
        partition = self.partitions[row]
        topic = self.topic_name(int(partition["topic"]))
        return f"topic {topic}, partition {partition['partition']}"


def _parse_once(text: bytes, joined: tuple[int, int], progress: Progress | None) -> Parsed:
    """Run the kernel over a text, chunk by chunk, until its end or until something is wrong."""
    lines, commas, _ = kernel.survey(text)
    lines += 1
    cursor = np.zeros(1, CURSOR)
    for name in _PLACES:
        cursor[name] = -1
    table = np.zeros(1 << max(4, (2 * lines).bit_length()), np.int32)
    topics = np.empty(lines, TOPIC)
    partitions = np.empty(lines, PARTITION)
    offsets = np.empty((_N_LISTS, lines + 1), np.int32)
    offsets[:, 0] = 0
    values = np.empty((_N_LISTS, commas + lines), np.int32)
    trouble, key = Trouble.FINE, Key.NO_KEY
    while trouble == Trouble.FINE and cursor["at"][0] < len(text):
        stop = int(cursor["at"][0]) + _CHUNK
        trouble, key = kernel.parse(text, stop, cursor, table, topics, partitions, offsets, values)
        if progress is not None:
            progress(min(int(cursor["at"][0]), len(text)), len(text))
    return Parsed(
        text,
        cursor[0],
        topics[: int(cursor["n_topics"][0])],
        partitions[: int(cursor["n_partitions"][0])],
        offsets,
        values,
        trouble,
        key,
        joined,
    )


def parse(name: str, text: bytes, progress: Progress | None = None) -> Parsed:
    """Parse a text; where something is wrong or looks wrapped, join wrapped lines and try again."""
    if len(text) > MAX_VALUES and sum(kernel.survey(text)[:2]) > MAX_VALUES:
        raise InputError(f"{name}: has more than {MAX_VALUES} broker ids and lines; split it")
    found = _parse_once(text, (0, 0), progress)
    if found.trouble == Trouble.FINE and not found.cursor["maybe_wrapped"]:
        return found
    buffer = np.empty(len(text) + text.count(b"\n") + 1, np.uint8)
    length, n_joined, first = unwrap(text, buffer)
    if n_joined == 0:
        return found
    again = _parse_once(buffer[:length].tobytes(), (n_joined, first), progress)
    if again.trouble == Trouble.FINE:
        return again
    if found.trouble == Trouble.FINE or found.cursor["line"] >= again.cursor["line"]:
        return found
    return again
