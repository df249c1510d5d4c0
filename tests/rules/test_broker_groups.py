"""The order of broker groups: Scala's own maps, and the twin of them."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pytest

from kfast.controllers.zk.broker_groups import (
    GroupOrder,
    exceeds_small_map,
    group_ranks,
    improved_hashes,
)
from tests.conftest import ROOT
from tests.support.reference_replicas import bucket, improved, in_group_order

ORDERS = {
    "scala-2.12": GroupOrder.SCALA_2_12, "scala-2.13": GroupOrder.SCALA_2_13,
    "ascending": GroupOrder.ASCENDING,
}
SEEN = json.loads((ROOT / "tests" / "support" / "scala_group_orders.json").read_text())
"""Keys of maps as `List.groupBy` of Scala 2.12.10 and 2.13.14 gave them; 2.11.12 is as 2.12."""


def ordered(ids, order, **options):
    """Ids in the order of their ranks."""
    ascending = np.array(sorted(ids), np.int32)
    return ascending[np.argsort(group_ranks(ascending, order, **options))].tolist()


@pytest.mark.parametrize("name", sorted(SEEN))
def test_groups_go_in_the_order_of_scalas_own_map(name):
    """124 sets of ids for each version; the twin has the same."""
    for seen in SEEN[name]:
        assert ordered(seen, ORDERS[name]) == seen
        assert in_group_order(seen, name) == seen


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_ranks_are_those_of_the_twin(name):
    """Sets of every size, ids of every size."""
    rng = Random(11)
    for _ in range(400):
        most = rng.choice([10, 100, 5000, 2**31 - 1])
        ids = rng.sample(range(most), rng.randint(1, min(most, rng.choice([3, 5, 40, 900]))))
        assert ordered(ids, ORDERS[name]) == in_group_order(ids, name)


def test_the_order_depends_on_all_brokers_of_the_call():
    """In a trie of Scala 2.13 a key that stands alone goes before one that shares its branch."""
    assert ordered([1, 20], GroupOrder.SCALA_2_13) == [20, 1]
    assert ordered([1, 20, 29], GroupOrder.SCALA_2_13) == [1, 20, 29]


def test_a_map_of_at_most_four_keys_is_no_trie_in_older_scalas():
    """And may be asked for where each partition is a call of its own."""
    ids = np.arange(1, 9, dtype=np.int32)
    assert ordered([1, 2, 3, 4], GroupOrder.SCALA_2_12) == [2, 4, 1, 3]
    alone = ordered(ids, GroupOrder.SCALA_2_12, is_small=True)
    assert alone == sorted(ids.tolist(), key=lambda b: (-bucket(b), b))
    assert alone != ordered(ids, GroupOrder.SCALA_2_12)


def test_hashes_are_those_of_the_twin():
    ids = np.array([0, 1, 5, 999, 2**30, 2**31 - 1], np.int32)
    assert improved_hashes(ids).view(np.uint32).tolist() == [improved(int(b)) for b in ids]


def test_masks_with_more_than_four_slots_are_told():
    masks = [0, 1, 0b1111, 0b10111, 0b11111, 2**64 - 1, 1 << 63]
    assert exceeds_small_map(np.array(masks, np.uint64)).tolist() == [
        mask.bit_count() > 4 for mask in masks
    ]
