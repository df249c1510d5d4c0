"""Kernels that decide, called directly, against the rule in plain Python.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from kfast import AlterCode, Strategy
from kfast.kernels import election, isr
from tests.support.random_clusters import random_context
from tests.support.reference import (
    Record,
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from tests.support.reference_controller import check_proposal
from tests.support.states import read_state

pytestmark = pytest.mark.kernels
SLOTS = range(4)


def members(mask: int) -> list[int]:
    """Slots of a mask."""
    return [s for s in SLOTS if mask >> s & 1]


def mask_of(slots) -> int:
    """Mask of some slots."""
    return sum(1 << s for s in set(slots))


def expected_choice(strategy, assigned, target, in_sync, live, up, down, unclean):
    """Section 4.1 over lists of slots: leader, ISR, recipients, chosen outside the ISR."""
    if strategy == Strategy.REASSIGN:
        return reassign_leader(target, in_sync, live), in_sync, target, False
    if strategy == Strategy.PREFERRED_REPLICA:
        return preferred_leader(assigned, in_sync, live), in_sync, assigned, False
    if strategy == Strategy.CONTROLLED_SHUTDOWN:
        leader = controlled_shutdown_leader(assigned, in_sync, up, down)
        return leader, set(in_sync) - set(down), set(assigned) & set(up), False
    permitted = unclean and not set(in_sync) & set(live)
    leader, outside = offline_leader(assigned, in_sync, live, permitted)
    kept = [leader] if outside else set(in_sync) & set(live)
    return leader, kept, set(assigned) & set(live), outside


@pytest.mark.parametrize("strategy", Strategy)
def test_choose_one_is_section_4_for_every_mask(strategy):
    """Section 4.1: all ISRs, all liveness of four slots, 0 to 4 of them assigned."""
    targets = range(16) if strategy == Strategy.REASSIGN else (15,)
    for kinds, isr_mask, n in product(product(range(3), repeat=4), range(16), range(5)):
        live = mask_of(s for s in SLOTS if kinds[s] == 0)
        down = mask_of(s for s in SLOTS if kinds[s] == 1)
        assigned = (1 << n) - 1
        for target, unclean in product({t & assigned for t in targets}, (False, True)):
            slot, new_isr, told, outside = election.choose_one(
                strategy, assigned, target, isr_mask, live, live | down, down, unclean
            )
            leader, kept, recipients, unclean_choice = expected_choice(
                strategy, *map(members, (assigned, target, isr_mask, live, live | down, down)),
                unclean,
            )
            assert (None if slot < 0 else slot, bool(outside)) == (leader, unclean_choice)
            if leader is not None:
                assert (new_isr, told) == (mask_of(kept), mask_of(recipients))


def alter(state, row, sender=1, epoch=7, version=4, isr_ids="1,2", recovery=0, unknown=0):
    """Ask for one alteration."""
    listed = [] if isr_ids == "-" else [int(b) for b in isr_ids.split(",")]
    slots = {b: s for s, b in enumerate(state.ids_of(row, (1 << state.n_slots) - 1))}
    codes = np.empty(1, np.uint8)
    isr.check_alterations(
        state.columns, np.array([row], np.int32), state.find_brokers([sender]), np.array([epoch],
        np.int32), np.array([version], np.int32), np.array([mask_of(slots[b] for b in listed)],
        np.uint64), np.array([recovery], np.uint8), np.array([unknown], np.uint8), codes,
    )
    return AlterCode(int(codes[0]))


def test_a_recovering_leader_may_propose_one_member_whoever_it_is():
    """Section 6.10, rows 6 and 8: one broker that nobody knows is not live; two are too many."""
    state = read_state("""
        partition  ar   isr  leader  epoch  version  recovery  state
        t-0        1,2  1    1       7      4        1         ONLINE
    """)
    recovering = {"recovery": 1, "isr_ids": "-"}
    assert alter(state, 0, **recovering, unknown=1) == AlterCode.INELIGIBLE_REPLICA
    assert alter(state, 0, **recovering, unknown=2) == AlterCode.INVALID_REQUEST
    assert alter(state, 0, recovery=1, isr_ids="1", unknown=1) == AlterCode.INVALID_REQUEST


def test_check_alterations_agrees_with_the_twin():
    """Section 6.10: every mix of old, equal and new, of ISR and of recovery."""
    ctx = random_context(Random(5))
    ctx.live_broker_epochs = dict.fromkeys((1, 2, 3, 4), 0)
    ctx.shutting_down, ctx.offline_dir_replicas = {4}, {}
    for was_recovering in (0, 1):
        state = read_state(f"""
            partition  ar       isr  leader  epoch  version  recovery  state
            t-0        1,2,3,4  1,2  1       7      4        {was_recovering}  ONLINE
        """, shutting_down=[4])
        ctx.leadership["t", 0] = Record(1, 7, (1, 2), was_recovering, 4)
        for isr_mask, sender, epoch, version, recovery in product(
            range(16), (1, 3), (6, 7, 8), (3, 4, 5), (0, 1)
        ):
            listed = [s + 1 for s in members(isr_mask)]
            proposed = Record(sender, epoch, tuple(listed), recovery, version)
            wanted = check_proposal(ctx, ("t", 0), proposed)
            word = ",".join(map(str, listed)) or "-"
            found = alter(state, 0, sender, epoch, version, word, recovery)
            assert found == (AlterCode.WRITTEN if wanted is None else wanted)


def test_read_only_arrays_pass_where_they_are_only_read():
    """An array that is memory-mapped read-only serves as input."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1    1       7      ONLINE
    """)
    hosted = state.replicas_on_brokers([2])
    for name in ("records", "replicas", "broker_status"):
        getattr(state, name).flags.writeable = False
    hosted.rows.flags.writeable = hosted.slots.flags.writeable = False
    joined = np.empty(1, np.uint64)
    isr.propose_catch_up(state.columns, hosted.rows, hosted.slots, joined)
    assert joined.tolist() == [3]
