"""Orders of Kafka's and Java's hash tables: they decide which partition comes first.

Source: docs/kraft.md, section 9; server-common, BaseHashTable.java; Java's HashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LOAD_FACTOR = 0.75
SCATTER = -7046029254386353131
"""BaseHashTable.java, `findSlot`: multiplies a hash, so that its top bits depend on all of it."""


class Uuid(NamedTuple):
    """128 bits in two signed halves; uuids sort as their halves do (Uuid.java, `compareTo`)."""

    high: int
    low: int


class TopicIdPartition(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: Uuid
    partition_id: int


def int32(value: int) -> int:
    """The low 32 bits, signed."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


def hash_of_int(value: int) -> int:
    """Java's hash of an Integer: itself."""
    return value


def hash_of_string(text: str) -> int:
    """Java's hash of a String, over its UTF-16 units."""
    units = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = 31 * value + int.from_bytes(units[i : i + 2], "big")
    return int32(value)


def hash_of_long(value: int) -> int:
    """Java's hash of a Long."""
    return int32((value % (1 << 64) >> 32) ^ value)


def hash_of_uuid(value: Uuid) -> int:
    """Hash of a Uuid. Source: Uuid.java, `hashCode`."""
    return hash_of_long(value.high ^ value.low)


def spread(value: int) -> int:
    """How Java's hash maps fold a hash: its high half into its low one."""
    unsigned = value % (1 << 32)
    return unsigned ^ (unsigned >> 16)


class HashTable(Generic[K, V]):
    """Kafka's hash table: iterates by slot, and within a slot from the last to the first.

    Source: section 9.1; BaseHashTable.java, `baseAddOrReplace`, `expand`, `findSlot`.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self.hash_of = hash_of
        self.slots: list[list[K]] = [[], []]
        self.values_by_key: dict[K, V] = {}

    def _slot(self, key: K, capacity: int) -> int:
        product = self.hash_of(key) * SCATTER % (1 << 64)
        return product >> (65 - capacity.bit_length())

    def _expand(self) -> None:
        capacity = 2 * len(self.slots)
        slots: list[list[K]] = [[] for _ in range(capacity)]
        for slot in self.slots:
            for key in slot:
                slots[self._slot(key, capacity)].append(key)
        self.slots = slots

    def put(self, key: K, value: V) -> None:
        """Add or replace; the table may grow before either."""
        if (len(self.values_by_key) + 1) * LOAD_FACTOR > len(self.slots):
            self._expand()
        if key not in self.values_by_key:
            self.slots[self._slot(key, len(self.slots))].append(key)
        self.values_by_key[key] = value

    def get(self, key: K) -> V | None:
        """The value, or None."""
        return self.values_by_key.get(key)

    def remove(self, key: K) -> None:
        """Remove a key that may be there; the table never shrinks."""
        if key in self.values_by_key:
            self.slots[self._slot(key, len(self.slots))].remove(key)
            del self.values_by_key[key]

    def __getitem__(self, key: K) -> V:
        return self.values_by_key[key]

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def __len__(self) -> int:
        return len(self.values_by_key)

    def __iter__(self) -> Iterator[K]:
        for slot in self.slots:
            yield from reversed(slot)

    def values(self) -> Iterator[V]:
        """Values in the order of iteration."""
        return (self.values_by_key[key] for key in self)


class HashSet(Generic[K]):
    """Kafka's hash set: adding what is there does nothing at all.

    Source: section 9.1; SnapshottableHashTable.java, `snapshottableAddUnlessPresent`.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self.table: HashTable[K, None] = HashTable(hash_of)

    def add(self, key: K) -> None:
        """Add a key unless it is there."""
        if key not in self.table:
            self.table.put(key, None)

    def discard(self, key: K) -> None:
        """Remove a key that may be there."""
        self.table.remove(key)

    def __contains__(self, key: object) -> bool:
        return key in self.table

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[K]:
        return iter(self.table)


def java_hash_set_order(
    keys: Iterable[K], hash_of: Callable[[K], int], copied: int = 0
) -> list[K]:
    """The order of a Java HashSet that got these keys, the first `copied` by its constructor.

    Source: section 9.2; HashMap.java, `tableSizeFor`, `resize` (which keeps the order of a bucket).
    """
    distinct = list(dict.fromkeys(keys))
    capacity = 16
    while capacity < int(copied / LOAD_FACTOR) + 1:
        capacity *= 2
    while len(distinct) > LOAD_FACTOR * capacity:
        capacity *= 2
    return sorted(distinct, key=lambda key: spread(hash_of(key)) & (capacity - 1))
