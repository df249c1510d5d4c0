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

MOST_PENDING = 10_000
"""So many changes of a table wait for the moment at which its order is asked for."""

LOAD_FACTOR = 0.75
SCATTER = -7046029254386353131
"""BaseHashTable.java, `findSlot`: multiplies a hash, so that its top bits depend on all of it."""
TREEIFY_THRESHOLD = 8
UNTREEIFY_THRESHOLD = 6
MIN_TREEIFY_CAPACITY = 64
HASH_BITS = 0x7FFF_FFFF
"""Java's HashMap and ConcurrentHashMap: when a bucket is a tree, and what they use of a hash."""


def int32(value: int) -> int:
    """The low 32 bits, signed."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


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

    `hash_of` is Java's hash of a key: of an Integer `int`, for it is the number itself.

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


class Node(Generic[K]):
    """A node of a red-black tree; `children` are the left and the right one."""

    __slots__ = ("children", "is_red", "key", "parent", "value")

    def __init__(self, key: K, value: int) -> None:
        self.key, self.value = key, value
        self.children: list[Node[K] | None] = [None, None]
        self.parent: Node[K] | None = None
        self.is_red = False

    def is_black_below(self, side: int) -> bool:
        """Whether a child is black; one that is not there counts as black."""
        child = self.children[side]
        return child is None or not child.is_red


class RedBlackTree(Generic[K]):
    """The tree of a bucket, ordered by spread hash: its shape tells when it is a list again.

    Java breaks ties by the address of the keys; here equal hashes go to the left.

    Source: section 9.4; ConcurrentHashMap.java, `TreeBin`.
    """

    def __init__(self) -> None:
        self.root: Node[K] | None = None
        self.nodes: dict[K, Node[K]] = {}

    @property
    def is_too_small(self) -> bool:
        """Whether a removal makes it a list. Source: `removeTreeNode`, before it removes."""
        if self.root is None or self.root.children[1] is None:
            return True
        left = self.root.children[0]
        return left is None or left.children[0] is None

    def _replace(self, node: Node[K], subtree: Node[K] | None) -> None:
        """Put another subtree where a node is."""
        if node.parent is None:
            self.root = subtree
        else:
            node.parent.children[node.parent.children.index(node)] = subtree
        if subtree is not None:
            subtree.parent = node.parent

    def _rotate(self, node: Node[K], side: int) -> None:
        """Move a node down to this side; its child on the other side takes its place."""
        above = node.children[1 - side]
        if above is None:
            return
        self._replace(node, above)
        inner = above.children[side]
        node.children[1 - side] = inner
        if inner is not None:
            inner.parent = node
        above.children[side], node.parent = node, above

    def insert(self, key: K, value: int) -> None:
        """Add a key that is not there."""
        node = self.nodes[key] = Node(key, value)
        parent, below = None, self.root
        side = 0
        while below is not None:
            parent, side = below, int(value > below.value)
            below = below.children[side]
        if parent is None:
            self.root = node
            return
        parent.children[side], node.parent = node, parent
        node.is_red = True
        self._lift_red(node)

    def _lift_red(self, node: Node[K]) -> None:
        """Balance the tree after a red node came."""
        while (parent := node.parent) is not None and parent.is_red:
            above = parent.parent
            assert above is not None, "the root of a red-black tree is black"
            side = above.children.index(parent)
            uncle = above.children[1 - side]
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                above.is_red = True
                node = above
                continue
            if node is parent.children[1 - side]:
                self._rotate(parent, side)
                parent = node
            parent.is_red, above.is_red = False, True
            self._rotate(above, 1 - side)
            break
        if self.root is not None:
            self.root.is_red = False

    def remove(self, key: K) -> None:
        """Take a key out; of two children, the next one in order takes its place."""
        node = self.nodes.pop(key)
        if node.children[0] is not None and node.children[1] is not None:
            following = node.children[1]
            while following.children[0] is not None:
                following = following.children[0]
            node.key, node.value = following.key, following.value
            self.nodes[node.key] = node
            node = following
        only = node.children[0] or node.children[1]
        if only is not None:
            self._replace(node, only)
            only.is_red = False
            return
        if not node.is_red:
            self._lift_black(node)
        self._replace(node, None)

    def _lift_black(self, node: Node[K]) -> None:
        """Balance the tree before a black leaf goes."""
        while (parent := node.parent) is not None and not node.is_red:
            side = parent.children.index(node)
            sibling = parent.children[1 - side]
            if sibling is not None and sibling.is_red:
                sibling.is_red, parent.is_red = False, True
                self._rotate(parent, side)
                sibling = parent.children[1 - side]
            if sibling is None or (
                sibling.is_black_below(side) and sibling.is_black_below(1 - side)
            ):
                if sibling is not None:
                    sibling.is_red = True
                node = parent
                continue
            if sibling.is_black_below(1 - side):
                self._rotate(sibling, 1 - side)
                sibling.is_red = True
                sibling = sibling.parent
                assert sibling is not None, "a red nephew takes the place of its parent"
            sibling.is_red, parent.is_red = parent.is_red, False
            outer = sibling.children[1 - side]
            if outer is not None:
                outer.is_red = False
            self._rotate(parent, side)
            return
        node.is_red = False


@dataclass
class Bucket(Generic[K]):
    """Keys that share a place: a list, or with a tree one that takes a new key at its front."""

    keys: list[K] = field(default_factory=list)
    tree: RedBlackTree[K] | None = None


class ConcurrentTable(Generic[K]):
    """Java's ConcurrentHashMap of times, as far as its order goes.

    The order follows from all that was put and removed. It is made when it is asked for: most
    controllers are never asked, and a new one puts a session for every broker.

    Source: section 9.4; ConcurrentHashMap.java, `putVal`, `treeifyBin`, `tryPresize`, `transfer`.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        self.hash_of = hash_of
        self.times: dict[K, int] = {}
        self._buckets: list[Bucket[K]] = [Bucket() for _ in range(16)]
        self._hashes: dict[K, int] = {}
        self._pending: list[tuple[K, bool]] = []

    @property
    def buckets(self) -> list[Bucket[K]]:
        """Keys by bucket."""
        self._settle()
        return self._buckets

    def _settle(self) -> None:
        """Let every change that is noted change the buckets, in order."""
        for key, added in self._pending:
            (self._add if added else self._take_out)(key)
        self._pending.clear()

    def _bucket(self, key: K) -> Bucket[K]:
        return self._buckets[self._hashes[key] & (len(self._buckets) - 1)]

    def put(self, key: K, time: int) -> None:
        """Add or replace."""
        self.times[key] = time
        self._note(key, added=True)

    def remove(self, key: K) -> None:
        """Remove a key; the table never shrinks."""
        del self.times[key]
        self._note(key, added=False)

    def _note(self, key: K, *, added: bool) -> None:
        self._pending.append((key, added))
        if len(self._pending) > MOST_PENDING:
            self._settle()

    def _add(self, key: K) -> None:
        """A long bucket or many entries make the table larger."""
        is_new = key not in self._hashes
        if is_new:
            self._hashes[key] = spread(self.hash_of(key)) & HASH_BITS
        bucket = self._bucket(key)
        if bucket.tree is not None:
            if is_new:
                bucket.keys.insert(0, key)
                bucket.tree.insert(key, self._hashes[key])
        else:
            n_before = len(bucket.keys) if is_new else bucket.keys.index(key) + 1
            if is_new:
                bucket.keys.append(key)
            if n_before >= TREEIFY_THRESHOLD:
                self._treeify(bucket)
        while is_new and len(self._hashes) >= LOAD_FACTOR * len(self._buckets):
            self._double()

    def _treeify(self, bucket: Bucket[K]) -> None:
        """Make a long bucket a tree, or a small table larger."""
        size = len(self._buckets)
        if size >= MIN_TREEIFY_CAPACITY:
            bucket.tree = self._tree_of(bucket.keys)
            return
        wanted = 1 << (3 * size).bit_length()
        while LOAD_FACTOR * len(self._buckets) < wanted:
            self._double()

    def _tree_of(self, keys: list[K]) -> RedBlackTree[K]:
        tree: RedBlackTree[K] = RedBlackTree()
        for key in keys:
            tree.insert(key, self._hashes[key])
        return tree

    def _take_out(self, key: K) -> None:
        bucket = self._bucket(key)
        bucket.keys.remove(key)
        if bucket.tree is not None:
            if bucket.tree.is_too_small:
                bucket.tree = None
            else:
                bucket.tree.remove(key)
        del self._hashes[key]

    def _double(self) -> None:
        """Split every bucket by the next bit of the hashes."""
        size = len(self._buckets)
        halves = [self._split(bucket, size) for bucket in self._buckets]
        self._buckets = [low for low, _ in halves] + [high for _, high in halves]

    def _split(self, bucket: Bucket[K], bit: int) -> tuple[Bucket[K], Bucket[K]]:
        """Split a bucket by a bit of the spread hashes.

        A tree keeps both orders; a small half is a list, and one that has all keys is the same
        tree. Of a list, the longest tail of one side keeps its order, and every earlier key goes in
        front.

        Source: section 9.4; ConcurrentHashMap.java, `transfer`.
        """
        if not bucket.keys:
            return Bucket(), Bucket()
        sides = [int(bool(self._hashes[key] & bit)) for key in bucket.keys]
        halves: tuple[list[K], list[K]] = ([], [])
        tail = 0
        if bucket.tree is None:
            tail = len(sides)
            while tail and sides[tail - 1] == sides[-1]:
                tail -= 1
        for key, side in zip(bucket.keys[tail:], sides[tail:], strict=True):
            halves[side].append(key)
        for key, side in zip(bucket.keys[:tail], sides[:tail], strict=True):
            halves[side].insert(0, key)
        low, high = (Bucket(half, self._tree_of_half(bucket, half)) for half in halves)
        return low, high

    def _tree_of_half(self, bucket: Bucket[K], half: list[K]) -> RedBlackTree[K] | None:
        if bucket.tree is None or len(half) <= UNTREEIFY_THRESHOLD:
            return None
        return bucket.tree if len(half) == len(bucket.keys) else self._tree_of(half)

    def __iter__(self) -> Iterator[K]:
        for bucket in self.buckets:
            yield from bucket.keys
