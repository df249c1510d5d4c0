"""Kernels of ISR and ELR as lists: `kernels/member_lists.pyx`."""

import numpy as np
import pytest

from kfast.kernels import digests, member_lists
from kfast.kernels.quorum_columns import QuorumColumns
from tests.support.kraft_states import random_twin, state_of_twin

pytestmark = pytest.mark.kernels


def random_lists(rng, replicas, of):
    """Offsets and broker rows of a list of each row, with the slots that `of` allows."""
    lists = [rng.permutation(row[allowed]) for row, allowed in zip(replicas, of, strict=True)]
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return lists, offsets, np.concatenate(lists).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_orders_are_those_of_the_lists(dtype):
    """`are_in_slot_order`, `fill_order` and `list_members` against lists of Python."""
    rng = np.random.default_rng(3)
    replicas = np.array([rng.permutation(9)[:5] for _ in range(50)], dtype)
    in_isr = rng.random((50, 5)) < 0.5
    in_elr = ~in_isr & (rng.random((50, 5)) < 0.5)
    ids = np.arange(100, 109, dtype=np.int32)
    order, filled = np.full((50, 5), 255, np.uint8), np.zeros(50, np.uint8)
    everything, rows = [], np.arange(50, dtype=np.int32)
    for chosen in (in_isr, in_elr):
        lists, offsets, values = random_lists(rng, replicas, chosen)
        sorted_lists = [row[c] for row, c in zip(replicas, chosen, strict=True)]
        same = all(np.array_equal(a, b) for a, b in zip(lists, sorted_lists, strict=True))
        assert member_lists.are_in_slot_order(replicas, offsets, values) == same
        naturally = np.concatenate(sorted_lists).astype(np.int32)
        assert member_lists.are_in_slot_order(replicas, offsets, naturally)
        member_lists.fill_order(replicas, offsets, values, filled, order)
        everything.append(ids[values])
    isr, elr = ((m @ (1 << np.arange(5))).astype(np.uint64) for m in (in_isr, in_elr))
    for before, members, wanted in (
        (np.zeros_like(isr), isr, everything[0]), (isr, elr, everything[1]),
    ):
        found = np.empty(wanted.size, np.int32)
        member_lists.list_members(replicas, order, ids, rows, before, members, found)
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_the_digest_of_partitions_is_a_sum_over_rows(layout):
    """`digest_quorum` of some rows, and of the others, is that of all."""
    state = state_of_twin(random_twin(4), layout)
    quorum, total = state.quorum, 0
    quorum.allocate_elr()
    quorum.allocate_orders()
    quorum.allocate_directories()
    topics = np.arange(1, state.n_topics + 1, dtype=np.uint64)
    directories = np.arange(len(quorum.directory_ids), dtype=np.uint64)

    def digest(of):
        cold = of.quorum.elr, of.quorum.last_known_elr, of.quorum.member_order, of.quorum.directory
        columns = QuorumColumns(of.columns, of.broker_id, *cold)
        return digests.digest_quorum(columns, of.partition, topics, directories)

    for chosen in (state.partition < 2, state.partition >= 2):
        part = state.copy()
        part.partition[~chosen] = -1
        total += digest(part)
    assert total % 2**64 == digest(state) != 0
