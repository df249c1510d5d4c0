"""Kernels of topic deletion, called directly, against plain Python.

Source: docs/controller.md, sections 1.6 and 6.12.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import PartitionState, ReplicaState, schema
from kfast.kernels import deletion
from kfast.state import mutators
from tests.rules.test_reassignment_kernels import ids, mask, random_states
from tests.support.kernel_calls import LAYOUTS, all_rows
from tests.support.states import read_state

pytestmark = pytest.mark.kernels
DELETION = (
    ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.DELETION_INELIGIBLE,
)


@pytest.fixture(params=LAYOUTS)
def layout(request):
    """Both layouts, one after the other."""
    return request.param


def test_deletion_status_sees_what_all_replicas_are_in(layout):
    """Section 6.12, `resume_deletions`: under way before all else; any hint gives the same."""
    for generator, ctx, state, names in random_states(layout):
        for topic in sorted(ctx.all_topics):
            rows = np.array([r for r, p in enumerate(names) if p[0] == topic], np.int32)
            if generator.random() < 0.6:
                only = generator.sample(DELETION, generator.randint(1, 2))
                for row in rows:
                    for s in range(int(state.records["n_replicas"][row])):
                        state.replica_state[row, s] = generator.choice(only)
            seen = {
                state.replica_states_of(row).get(b, ReplicaState.NO_ENTRY)
                for row in rows for b in state.assignment(row).replicas
            }
            wanted = 1 if ReplicaState.DELETION_STARTED in seen else (
                2 * (ReplicaState.DELETION_INELIGIBLE in seen)
                + 4 * (seen <= {ReplicaState.DELETION_SUCCESSFUL})
                + 8 * (ReplicaState.NO_ENTRY in seen)
            )
            for hint in (*range(-1, rows.size + 2), 10**9):
                status, at = deletion.deletion_status(state.columns, rows, hint)
                assert status == wanted
                assert 0 <= at <= rows.size
                again = deletion.deletion_status(state.columns, rows, at)
                assert again == (status, at)


def test_deletion_status_of_no_replicas_is_all_successful(layout):
    """Section 6.12: all DelSuccessful, or no replicas."""
    state = read_state("partition ar isr leader epoch\n t-0 - - - -", layout=layout)
    for rows in (all_rows(state), all_rows(state)[:0]):
        assert deletion.deletion_status(state.columns, rows, 0) == (4, 0)


def test_slots_in_state_are_assigned_slots_only(layout):
    """Any set of states at once."""
    for generator, _, state, names in random_states(layout):
        wanted = {s for s in ReplicaState if generator.random() < 0.4}
        slots = np.full(len(names), 9, np.uint64)
        deletion.slots_in_state(state.columns, all_rows(state), sum(1 << s for s in wanted), slots)
        for row in range(len(names)):
            held = state.replica_states_of(row)
            assert ids(state, row, slots[row]) == {
                b for b in state.assignment(row).replicas
                if held.get(b, ReplicaState.NO_ENTRY) in wanted
            }


def test_replicas_are_counted_and_listed_by_broker(layout):
    """`count_by_broker`, `list_by_broker`: a list per broker, in the order of the rows."""
    for generator, _, state, names in random_states(layout):
        rows = np.array(generator.sample(range(len(names)), len(names) // 2), np.int32)
        used = state.records["n_slots"][rows].tolist()
        slots = np.array([generator.getrandbits(n) for n in used], np.uint64)
        wanted = [
            [(row, mask(state, row, [b])) for row, some in zip(rows.tolist(), slots, strict=True)
             if b in ids(state, row, some)]
            for b in state.broker_id.tolist()
        ]
        counts = np.zeros(state.n_brokers, np.int64)
        deletion.count_by_broker(state.columns, rows, slots, counts)
        assert counts.tolist() == [len(listed) for listed in wanted]
        begin = np.concatenate([[0], np.cumsum(counts)])
        place, hosted = begin[:-1].copy(), np.empty(begin[-1], np.int32)
        slot = np.empty(begin[-1], np.uint64)
        deletion.list_by_broker(state.columns, rows, slots, place, hosted, slot)
        assert list(zip(hosted.tolist(), slot.tolist(), strict=True)) == [
            pair for listed in wanted for pair in listed
        ]
        assert place.tolist() == begin[1:].tolist()


def test_forget_partitions_leaves_the_states(layout):
    """Section 1.6, `remove_topic`: assignment and leadership go, everything else stays."""
    for _, _, state, names in random_states(layout):
        before, rows = state.copy(), all_rows(state)[::2].copy()
        deletion.forget_partitions(state.columns, rows)
        for row in range(len(names)):
            assert state.replica_states_of(row) == before.replica_states_of(row)
            assert ids(state, row, state.records["offline_dir"][row]) == ids(
                before, row, before.records["offline_dir"][row]
            )
            if row % 2:
                assert state.records[row] == before.records[row]
                continue
            assert (state.assignment(row).replicas, state.leadership(row)) == ((), None)
            kept = int(before.records["flags"][row]) & schema.FLAG_BEING_REASSIGNED
            assert (state.records["flags"][row], state.records["leader"][row]) == (kept, -1)


def test_free_partitions_frees_what_says_nothing(layout):
    """A state, an assignment, leadership, an offline directory, a mark: each keeps its row."""
    state = read_state("""
        partition  ar   isr  leader  epoch  offline_dir  state         replicas
        t-0        -    -    -       -      -            NON_EXISTENT  -
        t-1        1,2  -    -       -      -            NON_EXISTENT  -
        t-2        -    1    1       4      -            NON_EXISTENT  -
        t-3        -    -    -       -      2            NON_EXISTENT  -
        t-4        -    -    -       -      -            NON_EXISTENT  3:OFFLINE
        t-5        -    -    -       -      -            OFFLINE       -
        t-6        -    -    -       -      -            -             -
        t-7        -    -    -       -      -            -             -
        t-8        -    -    -       -      -            -             -
    """, layout=layout)
    state.records["flags"][7] |= schema.FLAG_BEING_REASSIGNED
    mutators.track(state, np.array([6, 6], np.int32), state.find_brokers([1, 3]))
    before, freed = state.copy(), np.full(8, -9, np.int32)
    n = deletion.free_partitions(state.columns, all_rows(state)[:8].copy(), freed)
    assert freed[:n].tolist() == [0, 6]
    assert state.partition.tolist() == [-1, 1, 2, 3, 4, 5, -1, 7, 8]
    kept = [1, 2, 3, 4, 5, 7, 8]
    for name in ("records", "replicas", "replica_state"):
        assert np.array_equal(getattr(state, name)[kept], getattr(before, name)[kept])
    for row in (0, 6):
        record = state.records[row]
        assert (record["n_slots"], record["leader"]) == (0, -1)
        assert record["partition_state"] == PartitionState.NO_ENTRY
        assert np.unique(state.replicas[row]).tolist() in ([65535], [-1])
