"""The order in which a state machine takes brokers: that of the map in which Kafka groups replicas.

`handleStateChanges` groups the replicas of a call by broker id and goes through the groups as the
map gives them. The order decides which member stays last in an ISR when several of its brokers fail
in one event, and so who may lead later. It depends on all the brokers of the call.

Source: docs/controller.md, section 2.3, step 3; Kafka 3.9,
`ZkReplicaStateMachine.handleStateChanges`: `replicas.groupBy(_.replica)` makes an immutable
HashMap. In Scala 2.13 that is a trie of 32 branches over the improved hash of the key, the lowest
five bits first; a node gives the keys that stand alone in a branch, in the order of the branches,
then its sub-nodes. In Scala 2.11 and 2.12 both come in one order of branches, and a map of at most
four keys is no trie: it keeps the order of the mutable hash table of 16 buckets from which it is
filled, the last bucket first. (Keys of one bucket stand in the reverse of the order in which they
came; here they go by id.)
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import numpy as np
import numpy.typing as npt

__all__ = ["GroupOrder", "exceeds_small_map", "group_ranks", "improved_hashes"]

SMALL_MAP = 4
"""Keys of the largest map that is no trie, in Scala 2.11 and 2.12."""
LEVELS, BRANCH_BITS = 7, 5

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]


class GroupOrder(Enum):
    """What orders the broker groups of a call."""

    ASCENDING = "ascending ids"
    SCALA_2_12 = "a map of Scala 2.11 or 2.12"
    SCALA_2_13 = "a map of Scala 2.13"


def group_ranks(broker_ids: Ids, order: GroupOrder, *, is_small: bool | None = None) -> Ids:
    """Rank the brokers of a call in the order in which their groups are taken.

    Parameters
    ----------
    broker_ids : (n,) int32
        Ids of the brokers that have replicas in the call, ascending.
    order : GroupOrder
    is_small : bool, optional
        Whether each call has few enough brokers for a small map; by default these are one call.

    Returns
    -------
    ranks : (n,) int32
        0 for the broker that is taken first. Read-only.
    """
    if is_small is None:
        is_small = broker_ids.size <= SMALL_MAP
    return _ranks(broker_ids.tobytes(), order, is_small)


def improved_hashes(broker_ids: Ids) -> Ids:
    """(n,) improved hash of each id, in 32 bits. Source: Scala 2.13, `Hashing.improve`."""
    mixed = broker_ids.astype(np.uint32)
    mixed += ~(mixed << np.uint32(9))
    mixed ^= mixed >> np.uint32(14)
    mixed += mixed << np.uint32(4)
    mixed ^= mixed >> np.uint32(10)
    return mixed.view(np.int32)


def exceeds_small_map(slots: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """(n,) which masks of slots name more brokers than a small map has keys."""
    for _ in range(SMALL_MAP):
        slots = slots & (slots - np.uint64(1))
    exceeding: npt.NDArray[np.bool_] = slots != 0
    return exceeding


@lru_cache(maxsize=64)
def _ranks(broker_ids: bytes, order: GroupOrder, is_small: bool) -> Ids:
    """`group_ranks`, made once for a set of brokers."""
    ids = np.frombuffer(broker_ids, np.int32)
    keys = ids.astype(np.int64)
    if order is GroupOrder.SCALA_2_12 and is_small:
        keys = _bucket_keys(ids)
    elif order is not GroupOrder.ASCENDING:
        keys = _trie_keys(ids, singles_first=order is GroupOrder.SCALA_2_13)
    ranks = np.empty(ids.size, np.int32)
    ranks[np.argsort(keys, kind="stable")] = np.arange(ids.size, dtype=np.int32)
    ranks.flags.writeable = False
    return ranks


def _trie_keys(ids: Ids, *, singles_first: bool) -> Keys:
    """Numbers that sort as the trie is walked."""
    hashes = improved_hashes(ids).view(np.uint32).astype(np.int64)
    branches = [(hashes >> BRANCH_BITS * level) & 31 for level in range(LEVELS)]
    paths = np.zeros_like(hashes)
    for branch in branches:
        paths = paths << BRANCH_BITS | branch
    if not singles_first:
        return paths
    depths, keys = _depths(paths), np.zeros_like(hashes)
    for level, branch in enumerate(branches):
        inside = np.where(level < depths, 1 << BRANCH_BITS, 0) | branch
        keys = keys << (BRANCH_BITS + 1) | np.where(level > depths, 0, inside)
    return keys


def _depths(paths: Keys) -> Keys:
    """Level of the node in which each path stands alone: how many branches it shares, at most."""
    order = np.argsort(paths)
    differing_bits = np.frexp((paths[order][1:] ^ paths[order][:-1]).astype(np.float64))[1]
    shared = np.pad(LEVELS - -(-differing_bits // BRANCH_BITS), 1)
    depths = np.empty_like(paths)
    depths[order] = np.maximum(shared[1:], shared[:-1])
    return depths


def _bucket_keys(ids: Ids) -> Keys:
    """Numbers that sort as the mutable hash table is walked.

    Source: Scala 2.12, `HashTable.index`, `byteswap32`, `foreachEntry`.
    """
    factor = np.uint32(0x9E3775CD)
    mixed = (ids.astype(np.uint32) * factor).byteswap() * factor
    # A table of 16 turns the hash right by four bits, and then takes the highest four.
    return -(mixed & np.uint32(15)).astype(np.int64)
