"""The order of broker groups in plain Python: Scala's maps, walked node by node.

Source: docs/controller.md, section 2.3, step 3.
"""

from __future__ import annotations

from collections.abc import Iterable

MASK = 0xFFFFFFFF


def improved(key: int) -> int:
    """The hash that Scala's immutable maps make of an Int."""
    h = key & MASK
    h = (h + ~(h << 9)) & MASK
    h ^= h >> 14
    h = (h + (h << 4)) & MASK
    return h ^ (h >> 10)


def walk_trie(keys: Iterable[int], singles_first: bool, shift: int = 0) -> list[int]:
    """Keys of a node: 2.13 gives single ones before all sub-nodes, 2.12 each at its branch."""
    branches: dict[int, list[int]] = {}
    for key in keys:
        branches.setdefault((improved(key) >> shift) & 31, []).append(key)
    if singles_first:
        ordered = sorted(branches, key=lambda branch: (len(branches[branch]) > 1, branch))
    else:
        ordered = sorted(branches)
    found = []
    for branch in ordered:
        inside = branches[branch]
        found += inside if len(inside) == 1 else walk_trie(inside, singles_first, shift + 5)
    return found


def bucket(key: int) -> int:
    """Bucket of a mutable hash table of 16, as Scala 2.12 has it."""
    h = (key * 0x9E3775CD) & MASK
    h = int.from_bytes(h.to_bytes(4, "little"), "big")
    h = (h * 0x9E3775CD) & MASK
    return ((h >> 4) | (h << 28)) >> 28 & 15


def in_group_order(broker_ids: Iterable[int], order: str) -> list[int]:
    """Brokers of one call in the order in which their replicas are taken."""
    ids = sorted(set(broker_ids))
    if order == "scala-2.13":
        return walk_trie(ids, singles_first=True)
    if order == "scala-2.12" and len(ids) > 4:
        return walk_trie(ids, singles_first=False)
    if order == "scala-2.12":
        return sorted(ids, key=lambda b: (-bucket(b), b))
    return ids
