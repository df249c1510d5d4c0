"""Kernels that decide and move partitions, called directly, against the rule in plain Python.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from kfast import AlterCode, Code, PartitionState, Strategy
from kfast.kernels import election, isr, partition_states
from kfast.schema import FLAG_RECOVERY
from tests.support.every_state import every_election, every_new_partition, every_partition
from tests.support.kernel_calls import (
    LAYOUTS,
    NO_RULE,
    all_rows,
    assert_same_everywhere,
    bring_online,
    change_partitions,
    new_tally,
    row_names,
    take_counters,
)
from tests.support.random_clusters import random_context
from tests.support.reference import (
    PARTITION_MATRIX,
    CacheStore,
    Journal,
    Record,
    controlled_shutdown_leader,
    elect,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from tests.support.reference import PartitionStateMachine as Twin
from tests.support.reference_controller import catch_up_requests, check_proposal
from tests.support.reference_elections import needs_config, online, unclean_permitted
from tests.support.reference_replicas import removed_from_isr
from tests.support.states import read_state
from tests.support.twin_state import state_of

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


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("strategy", Strategy)
def test_choose_decides_on_the_stored_records(layout, strategy):
    """Section 3.6, step 3: the record is the store's, the rest is the context's."""
    for seed in range(12):
        ctx = random_context(Random(seed))
        state, names = state_of(ctx, layout), sorted(ctx.leadership)
        rows = state.find_partitions(names)
        stored = state.records[rows].copy()
        unreadable = (np.arange(state.n_topics) < 2).astype(np.uint8)
        told, (codes, unclean) = np.empty(rows.size, np.uint64), np.empty((2, rows.size), np.uint8)
        supported = state.leader_recovery_supported
        election.choose(
            state.columns, rows, stored, int(strategy), supported, unreadable, NO_RULE, codes,
            told, unclean,
        )
        for at, p in enumerate(names):
            record = ctx.leadership[p]
            permitted = unclean_permitted(ctx, p, record, strategy)
            wanted = elect(ctx, p, record, strategy, permitted)
            asks = strategy == Strategy.OFFLINE and needs_config(ctx, p, record)
            if asks and unreadable[state.topic_row[rows[at]]]:
                assert codes[at] == Code.CONFIG_LOOKUP_FAILED
                continue
            assert (codes[at] == Code.MOVED) == (wanted.elected is not None)
            if wanted.elected is None:
                assert codes[at] == Code.NO_ELIGIBLE_LEADER
                continue
            state.records[rows[at]] = stored[at]
            found = state.leadership(int(rows[at]))
            assert (found.leader, set(found.isr), found.leader_epoch, found.recovery) == (
                wanted.elected.leader, set(wanted.elected.isr), wanted.elected.leader_epoch,
                wanted.elected.recovery,
            )
            assert set(state.ids_of(int(rows[at]), int(told[at]))) == set(wanted.recipients)
            assert bool(unclean[at]) == wanted.unclean


@pytest.mark.parametrize("layout", LAYOUTS)
def test_propose_initial_takes_all_online_replicas(layout):
    """Section 3.5, steps 1 to 3: whatever is cached."""
    ctx = every_new_partition()
    state = state_of(ctx, layout)
    rows, names = all_rows(state), row_names(state)
    proposed = state.records.copy()
    codes, told = np.empty(rows.size, np.uint8), np.empty(rows.size, np.uint64)
    election.propose_initial(state.columns, rows, proposed, 11, codes, told)
    for row, p in enumerate(names):
        live = online(ctx, ctx.assignments[p].replicas, p)
        assert codes[row] == (Code.MOVED if live else Code.NO_LIVE_REPLICA)
        assert state.ids_of(row, int(told[row])) == live
        if live:
            state.records[row] = proposed[row]
            record = state.leadership(row)
            assert (record.leader, record.isr) == (live[0], live)
            assert (record.leader_epoch, record.version, record.recovery) == (0, 0, 0)
            assert record.controller_epoch == 11


@pytest.mark.parametrize("layout", LAYOUTS)
def test_adopt_is_put_leadership(layout):
    """Section 1.6: the record is replaced, the counter and the bitmap follow."""
    for seed in range(12):
        generator = Random(seed)
        ctx = random_context(generator)
        state, names = state_of(ctx, layout), sorted(ctx.leadership)
        rows = state.find_partitions(names)
        written = state.records[rows].copy()
        for at, p in enumerate(names):
            leader = generator.choice([-1, *ctx.assignments[p].replicas])
            record = Record(leader, at, ctx.leadership[p].isr, at % 2, at + 1, at % 3)
            ctx.put_leadership(p, record)
            written["leader"][at] = -1 if leader < 0 else state.find_brokers([leader])[0]
            written["leader_epoch"][at], written["version"][at] = at, at + 1
            written["controller_epoch"][at] = at % 3
            written["flags"][at] = FLAG_RECOVERY * (at % 2)
        tally = new_tally(state)
        election.adopt(state.columns, rows, written, tally[0])
        take_counters(state, tally)
        assert state.difference(state_of(ctx, layout)) is None
        assert state.preferred_imbalance_count == ctx.preferred_imbalance_count
        offline = {row_names(state)[row] for row in state.list_marked(state.leader_offline)}
        assert offline == {
            p for p, r in ctx.leadership.items() if not ctx.is_replica_online(r.leader, p)
        }


@pytest.mark.parametrize("strategy", [*Strategy, None])
def test_bring_online_is_the_same_everywhere_and_as_the_twin_has_it(strategy):
    """Sections 3.4 to 3.6: layouts, threads, with and without effects."""
    for ctx in (every_partition(), every_election((1, 2)), every_new_partition()):
        names = sorted(ctx.assignments)
        state = assert_same_everywhere(ctx, lambda state, threads, keep: bring_online(
            state, all_rows(state), strategy, threads, keep=keep
        ))
        after = ctx.copy()
        if strategy is not None:
            Twin(after, CacheStore(after), Journal()).handle(
                names, PartitionState.ONLINE, strategy
            )
            assert state.difference(state_of(after)) is None
            assert state.offline_partition_count == after.offline_partition_count
            assert state.preferred_imbalance_count == after.preferred_imbalance_count


@pytest.mark.parametrize(
    "target", [PartitionState.NEW, PartitionState.OFFLINE, PartitionState.NON_EXISTENT]
)
def test_change_partitions_is_the_matrix(target):
    """Section 3.1, and the offline count of section 1.6."""
    ctx = every_partition()
    state = assert_same_everywhere(ctx, lambda state, threads, keep: change_partitions(
        state, all_rows(state), target, threads, keep=keep
    ))
    codes, _, _ = change_partitions(state_of(ctx), all_rows(state), target)
    for row, p in enumerate(row_names(state)):
        before = ctx.partition_states.get(p, PartitionState.NON_EXISTENT)
        legal = (before, target) in PARTITION_MATRIX
        assert codes[row] == (Code.MOVED if legal else Code.ILLEGAL_STATE)
        ctx.put_partition_state(p, target if legal else before)
    assert state.difference(state_of(ctx)) is None
    assert state.offline_partition_count == ctx.offline_partition_count


def test_initialize_partitions_looks_at_the_leader():
    """Section 3.2, step 1."""
    ctx = every_partition()
    ctx.partition_states = {}
    ctx.offline_partition_count = 0

    def call(state, threads, keep):
        tally = new_tally(state, threads)
        partition_states.initialize_partitions(state.columns, state.any_queued, tally)
        return np.empty(0, np.uint8), np.empty(0), take_counters(state, tally)

    state = assert_same_everywhere(ctx, call)
    for p in ctx.assignments:
        record = ctx.leadership.get(p)
        if record is None:
            ctx.put_partition_state(p, PartitionState.NEW)
        elif ctx.is_replica_online(record.leader, p):
            ctx.put_partition_state(p, PartitionState.ONLINE)
        else:
            ctx.put_partition_state(p, PartitionState.OFFLINE)
    assert state.difference(state_of(ctx)) is None
    assert state.offline_partition_count == ctx.offline_partition_count
    waiting = {row_names(state)[row] for row in state.list_marked(state.pending)}
    states = PartitionState.NEW, PartitionState.OFFLINE
    assert waiting == {p for p, s in ctx.partition_states.items() if s in states}


@pytest.mark.parametrize("empties", [False, True], ids=["keeps", "empties"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_shrink_takes_one_broker_out_of_every_isr(layout, empties):
    """Section 2.6, step 2: every ISR of four slots, every leader, every slot.

    Before Kafka 1.1 the last member leaves where unclean election is allowed (section 8.1).
    """
    cases = list(product(range(16), range(-1, 4), SLOTS))
    lines = [f"t-{i}  10,20,30,40  -  -  7" for i in range(len(cases))]
    state = read_state("\n".join(["partition ar isr leader epoch", *lines]), layout=layout)
    stored, rows = state.records.copy(), all_rows(state)
    stored["isr"] = [c[0] for c in cases]
    stored["leader"] = [c[1] for c in cases]
    slots = np.array([c[2] for c in cases], np.int32)
    write = np.full(rows.size, 2, np.uint8)
    isr.shrink(state.columns, rows, slots, write * 0 + empties, stored, write)
    for row, (mask, leader, slot) in enumerate(cases):
        before = Record(leader, 7, tuple(members(mask)))
        wanted = removed_from_isr(before, slot)
        assert write[row] == (wanted is not None)
        after = wanted or before
        if empties and mask == 1 << slot:
            after = replace(after, isr=())
        found = stored[row]
        assert (found["leader"], found["isr"]) == (after.leader, mask_of(after.isr))
        assert found["leader_epoch"] == after.leader_epoch


# Row of the table of section 6.10: sender, leader epoch, version, ISR, recovery -> answer.
ALTERATIONS = (
    (2, {"version": 5, "isr": "1,2"}, AlterCode.NOT_CONTROLLER),
    (2, {"epoch": 8, "isr": "1,2"}, AlterCode.NOT_CONTROLLER),
    (3, {"epoch": 6, "isr": "1,2"}, AlterCode.FENCED_LEADER_EPOCH),
    (4, {}, AlterCode.UNCHANGED),
    (4, {"version": 3}, AlterCode.UNCHANGED),
    (5, {"version": 3, "isr": "1,2,3"}, AlterCode.INVALID_UPDATE_VERSION),
    (5, {"sender": 2, "version": 3}, AlterCode.INVALID_UPDATE_VERSION),
    (6, {"isr": "1,2,3", "recovery": 1}, AlterCode.INVALID_REQUEST),
    (7, {"isr": "1", "recovery": 1}, AlterCode.INVALID_REQUEST),
    (8, {"isr": "1,2,4"}, AlterCode.INELIGIBLE_REPLICA),
    (8, {"isr": "1,2,5"}, AlterCode.INELIGIBLE_REPLICA),
    (9, {"isr": "1,2,3"}, AlterCode.WRITTEN),
    (9, {"sender": 3}, AlterCode.WRITTEN),
    (9, {"isr": "-"}, AlterCode.WRITTEN),
)


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


@pytest.mark.parametrize(("line", "asked", "answer"), ALTERATIONS)
def test_check_alterations_has_every_row_of_the_table(line, asked, answer):
    """Section 6.10: the first row that matches decides."""
    state = read_state("""
        partition  ar         isr  leader  epoch  version  state
        t-0        1,2,3,4,5  1,2  1       7      4        ONLINE
    """, down=[4], shutting_down=[5])
    asked = {("isr_ids" if name == "isr" else name): value for name, value in asked.items()}
    assert alter(state, 0, **asked) == answer


def test_check_alterations_on_what_is_not_there():
    """Section 6.10, row 1, and row 8 for a broker that nobody knows."""
    state = read_state("""
        partition  ar   isr  leader  epoch  version  state
        t-0        1,2  -    -       -      0        NEW
        t-1        1,2  1,2  1       7      4        ONLINE
    """)
    assert alter(state, 0) == AlterCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(state, 1, unknown=1) == AlterCode.INELIGIBLE_REPLICA
    assert alter(state, 1, unknown=1, recovery=1) == AlterCode.INVALID_REQUEST
    assert alter(state, 1, unknown=1, version=3) == AlterCode.INVALID_UPDATE_VERSION


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_propose_catch_up_is_what_live_leaders_ask_for(layout):
    """The ISR with every live assigned replica on these brokers; nothing where none is missing."""
    for seed in range(20):
        ctx = random_context(Random(seed))
        state = state_of(ctx, layout)
        brokers = state.broker_id[::2].tolist()
        hosted = state.replicas_on_brokers(brokers)
        joined = np.full(len(hosted), 99, np.uint64)
        isr.propose_catch_up(state.columns, hosted.rows, hosted.slots, joined)
        found = {
            row_names(state)[row]: set(state.ids_of(int(row), int(mask)))
            for row, mask in zip(hosted.rows, joined, strict=True) if mask
        }
        assert found == {
            p: set(record.isr)
            for request in catch_up_requests(ctx, brokers)
            for p, record in request.records.items()
        }


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
