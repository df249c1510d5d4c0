"""Orders of Kafka's and Java's hash tables: they decide which partition comes first.

Doubling never changes the order within a slot, so a table here is a dict, in the order of its puts,
and a capacity; its order is worked out when somebody asks for it.

Source: docs/kraft.md, sections 9.1 and 9.2; server-common, BaseHashTable.java; Java's HashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Generic, NamedTuple, TypeVar

from kfast.state.metadata_records import uuid_halves

K = TypeVar("K")
V = TypeVar("V")

SCATTER = -7046029254386353131


class TopicIdPartition(NamedTuple):
    """A partition by the id of its topic."""

    topic_id: str
    partition_id: int


def int32(value: int) -> int:
    """The low 32 bits, signed."""
    return (value + 2**31) % 2**32 - 2**31


def hash_of_int(value: int) -> int:
    """Java's hash of an Integer."""
    return value


@cache
def hash_of_string(text: str) -> int:
    """Java's hash of a String; the names here have no character beyond 16 bits."""
    value = 0
    for character in text:
        value = 31 * value + ord(character)
    return int32(value)


@cache
def hash_of_uuid(text: str) -> int:
    """Hash of an id: both words of the XOR of its halves, XORed (Uuid.java, `hashCode`)."""
    high, low = uuid_halves(text)
    return int32(high ^ low ^ (high ^ low) >> 32)


class HashTable(dict[K, V], Generic[K, V]):
    """Kafka's hash table (section 9.1): use `put` to write, and `order` to iterate."""

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        super().__init__()
        self.hash_of = hash_of
        self.capacity = 2

    def put(self, key: K, value: V) -> None:
        """Add or replace; before either the table may double."""
        if (len(self) + 1) * 0.75 > self.capacity:
            self.capacity *= 2
        self[key] = value

    def add(self, key: K, value: V) -> None:
        """Add to a set: what is there already does nothing at all."""
        if key not in self:
            self.put(key, value)

    def _slot(self, key: K) -> int:
        """The top bits of a product of 64 bits."""
        return self.hash_of(key) * SCATTER % 2**64 * self.capacity // 2**64

    def order(self) -> list[K]:
        """Keys by ascending slot; in a slot the last one comes first."""
        last_first = list(reversed(self))
        return sorted(last_first, key=self._slot)


def java_hash_set_order(
    keys: Iterable[K], hash_of: Callable[[K], int], copied: int = 0
) -> list[K]:
    """The order of a Java HashSet that got these keys, the first `copied` by its constructor.

    Source: section 9.2; HashMap.java, `putVal`, `treeifyBin`: a ninth key of a bucket doubles a
    table of less than 64 buckets. In a larger one the bucket is a tree, which is left out.
    """
    capacity = 16
    while capacity < int(copied / 0.75) + 1:
        capacity *= 2

    def bucket(key: K) -> int:
        value = hash_of(key) % 2**32
        return (value ^ value // 2**16) % capacity

    table: list[K] = []
    for key in dict.fromkeys(keys):
        longer = 1 + [bucket(other) for other in table].count(bucket(key))
        if longer > 8 and capacity < 64:
            capacity *= 2
        table.append(key)
        if len(table) > capacity * 0.75:
            capacity *= 2
    return sorted(table, key=bucket)
