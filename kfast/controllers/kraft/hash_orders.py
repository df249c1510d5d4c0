"""Orders of Kafka's and Java's hash tables: they decide which partition, or session, comes first.

Source: docs/kraft.md, section 9; server-common, BaseHashTable.java; Java's HashMap and
ConcurrentHashMap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from kfast.state.metadata_records import uuid_halves

K = TypeVar("K")
V = TypeVar("V")

LOAD_FACTOR = 0.75
SCATTER = -7046029254386353131
"""BaseHashTable.java, `findSlot`: multiplies a hash, so that its top bits depend on all of it."""
TREEIFY_THRESHOLD = 8
UNTREEIFY_THRESHOLD = 6
MIN_TREEIFY_CAPACITY = 64
SMALLEST_TREE = 4
"""Java's HashMap and ConcurrentHashMap: when a bucket is a tree.

A tree that loses keys becomes a list again with 2 to 8 of them, as its shape says; here it does
with 4, which shows only where keys then come back (docs/deviations.md).
"""


def int32(value: int) -> int:
    """The low 32 bits, signed."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


def hash_of_int(value: int) -> int:
    """Java's hash of an Integer: itself."""
    return value


def hash_of_long(value: int) -> int:
    """Java's hash of a Long."""
    return int32((value % (1 << 64) >> 32) ^ value)


@lru_cache(maxsize=4096)
def hash_of_string(text: str) -> int:
    """Java's hash of a String, over its UTF-16 units."""
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = 31 * value + int.from_bytes(units[at : at + 2], "big")
    return int32(value)


@lru_cache(maxsize=4096)
def hash_of_uuid(text: str) -> int:
    """Hash of an id of 22 characters. Source: Uuid.java, `hashCode`."""
    high, low = uuid_halves(text)
    return hash_of_long(high ^ low)


def spread(value: int) -> int:
    """Fold the high half of a hash into its low one, as Java's hash maps do."""
    unsigned = value % (1 << 32)
    return unsigned ^ (unsigned >> 16)


class HashTable(Generic[K, V]):
    """Kafka's hash table: iterates by slot, and within a slot from the last to the first.

    Source: section 9.1; BaseHashTable.java, `baseAddOrReplace`, `expand`, `findSlot`.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self.hash_of = hash_of
        self.slots: list[list[K]] = [[], []]
        self.items: dict[K, V] = {}

    def _slot(self, key: K) -> list[K]:
        product = self.hash_of(key) * SCATTER % (1 << 64)
        return self.slots[product >> (65 - len(self.slots).bit_length())]

    def put(self, key: K, value: V) -> None:
        """Add or replace; the table may grow before either."""
        if (len(self.items) + 1) * LOAD_FACTOR > len(self.slots):
            keys = [key for slot in self.slots for key in slot]
            self.slots = [[] for _ in range(2 * len(self.slots))]
            for moved in keys:
                self._slot(moved).append(moved)
        if key not in self.items:
            self._slot(key).append(key)
        self.items[key] = value

    def add(self, key: K, value: V) -> None:
        """Add a key unless it is there, as sets do: then nothing happens at all.

        Source: SnapshottableHashTable.java, `snapshottableAddUnlessPresent`.
        """
        if key not in self.items:
            self.put(key, value)

    def get(self, key: K) -> V | None:
        """The value, or None."""
        return self.items.get(key)

    def remove(self, key: K) -> None:
        """Remove a key that may be there; the table never shrinks."""
        if key in self.items:
            self._slot(key).remove(key)
            del self.items[key]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[K]:
        for slot in self.slots:
            yield from reversed(slot)


def java_hash_set_order(keys: Iterable[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of a Java HashSet to which these keys were added one by one.

    Source: section 9.2; HashMap.java, `resize`, which keeps the order within a bucket.
    """
    distinct = list(dict.fromkeys(keys))
    capacity = 16
    while len(distinct) > LOAD_FACTOR * capacity:
        capacity *= 2
    return sorted(distinct, key=lambda key: spread(hash_of(key)) & (capacity - 1))


@dataclass
class Bucket(Generic[K]):
    """Keys that share a place: a list, or a tree, which takes a new key at its front."""

    keys: list[K] = field(default_factory=list)
    is_tree: bool = False


class ConcurrentTable(Generic[K]):
    """Java's ConcurrentHashMap of times, as far as its order goes.

    Source: section 9.4; ConcurrentHashMap.java, `putVal`, `treeifyBin`, `tryPresize`, `transfer`.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self.hash_of = hash_of
        self.buckets: list[Bucket[K]] = [Bucket() for _ in range(16)]
        self.times: dict[K, int] = {}

    def _bucket(self, key: K) -> Bucket[K]:
        return self.buckets[spread(self.hash_of(key)) & (len(self.buckets) - 1)]

    def put(self, key: K, time: int) -> None:
        """Add or replace; a long bucket or many entries make the table larger."""
        bucket = self._bucket(key)
        is_new = key not in self.times
        self.times[key] = time
        if bucket.is_tree:
            if is_new:
                bucket.keys.insert(0, key)
        else:
            n_before = len(bucket.keys) if is_new else bucket.keys.index(key) + 1
            if is_new:
                bucket.keys.append(key)
            if n_before >= TREEIFY_THRESHOLD:
                self._treeify(bucket)
        while is_new and len(self.times) >= LOAD_FACTOR * len(self.buckets):
            self._double()

    def _treeify(self, bucket: Bucket[K]) -> None:
        """Make a long bucket a tree, or a small table larger."""
        size = len(self.buckets)
        if size >= MIN_TREEIFY_CAPACITY:
            bucket.is_tree = True
            return
        wanted = 1 << (3 * size).bit_length()
        while LOAD_FACTOR * len(self.buckets) < wanted:
            self._double()

    def remove(self, key: K) -> None:
        """Remove a key; the table never shrinks."""
        bucket = self._bucket(key)
        bucket.keys.remove(key)
        bucket.is_tree = bucket.is_tree and len(bucket.keys) > SMALLEST_TREE
        del self.times[key]

    def _double(self) -> None:
        """Split every bucket by the next bit of the hashes."""
        size = len(self.buckets)
        halves = [split(bucket, self.hash_of, size) for bucket in self.buckets]
        self.buckets = [low for low, _ in halves] + [high for _, high in halves]

    def __iter__(self) -> Iterator[K]:
        for bucket in self.buckets:
            yield from bucket.keys


def split(
    bucket: Bucket[K], hash_of: Callable[[K], int], bit: int
) -> tuple[Bucket[K], Bucket[K]]:
    """Split a bucket by a bit of the spread hashes.

    A tree keeps both orders, and a small half is a list. Of a list, the longest tail of one side
    keeps its order, and every earlier key goes in front.

    Source: section 9.4; ConcurrentHashMap.java, `transfer`.
    """
    sides = [int(bool(spread(hash_of(key)) & bit)) for key in bucket.keys]
    halves: tuple[list[K], list[K]] = ([], [])
    tail = 0
    if not bucket.is_tree:
        tail = len(sides)
        while tail and sides[tail - 1] == sides[-1]:
            tail -= 1
    for key, side in zip(bucket.keys[tail:], sides[tail:], strict=True):
        halves[side].append(key)
    for key, side in zip(bucket.keys[:tail], sides[:tail], strict=True):
        halves[side].insert(0, key)
    low, high = (
        Bucket(half, bucket.is_tree and len(half) > UNTREEIFY_THRESHOLD) for half in halves
    )
    return low, high
