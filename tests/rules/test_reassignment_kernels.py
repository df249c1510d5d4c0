"""Kernels of reassignment, called directly, against plain Python.

Source: docs/controller.md, sections 1.3, 6.6 and 6.7.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kfast import Code, ReplicaState
from kfast.journal.effects import (
    EFFECT,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_QUEUED,
    LAYOUT,
)
from kfast.kernels import reassign
from kfast.state import mutators
from tests.support.kernel_calls import LAYOUTS, all_rows, new_tally, row_names, take_counters
from tests.support.random_clusters import random_context
from tests.support.reference import Assignment
from tests.support.states import read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels
SEEDS = range(12)

@pytest.fixture(params=LAYOUTS)
def layout(request):
    """Both layouts, one after the other."""
    return request.param


def random_states(layout):
    """Random clusters whose replicas are in random states: generator, context, state, names."""
    for seed in SEEDS:
        generator = Random(seed)
        ctx = random_context(generator)
        for p, assignment in ctx.assignments.items():
            for b in assignment.replicas:
                if generator.random() < 0.9:
                    ctx.replica_states[p, b] = generator.choice(list(ReplicaState)[1:])
        state = state_of(ctx, layout)
        yield generator, ctx, state, row_names(state)


def flat(lists):
    """Offsets and values of some lists."""
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    return offsets, np.array([b for listed in lists for b in listed], np.int32)


def ids(state, row, mask):
    """Broker ids of some slots, as a set."""
    return set(state.ids_of(row, int(mask)))


def mask(state, row, brokers):
    """Mask of the slots of some brokers."""
    tracked = state.ids_of(row, (1 << int(state.records["n_slots"][row])) - 1)
    return sum(1 << tracked.index(b) for b in brokers)


def assert_moved(state, ctx, before):
    """Assignments are as in the context; records and states are as they were before."""
    for row, p in enumerate(row_names(state)):
        wanted, found = ctx.assignment(p), state.assignment(row)
        assert found.replicas == wanted.replicas
        assert set(found.adding) == set(wanted.adding)
        assert set(found.removing) == set(wanted.removing)
        assert set(ids(state, row, state.records["isr"][row])) == set(
            ids(before, row, before.records["isr"][row])
        )
        assert state.replica_states_of(row) == before.replica_states_of(row)
        assert ids(state, row, state.records["offline_dir"][row]) == ids(
            before, row, before.records["offline_dir"][row]
        )
    for name in ("leader", "leader_epoch", "version", "partition_state"):
        assert np.array_equal(state.records[name], before.records[name])


# --- checks -------------------------------------------------------------------------------------


def test_check_lists_wants_some_ids_once_and_none_negative():
    """Section 6.7, the first check."""
    lists = [[], [1], [1, 2, 1], [3, -1], [5, 4, 0], [2, 2], [-7]]
    valid = np.full(len(lists), 9, np.uint8)
    reassign.check_lists(*flat(lists), valid)
    assert valid.tolist() == [0, 1, 0, 0, 1, 0, 0]


def test_check_added_wants_what_is_added_to_be_live(layout):
    """Section 6.7, the second check; of a partition that nobody knows, all of the list is added."""
    for generator, ctx, state, names in random_states(layout):
        known = [*state.broker_id.tolist(), 99]
        rows = np.array([*range(len(names)), -1, -1], np.int32)
        lists = [generator.sample(known, generator.randint(0, 3)) for _ in rows]
        offsets, named = flat(lists)
        alive = np.full(rows.size, 9, np.uint8)
        reassign.check_added(state.columns, rows, offsets, state.broker_rows(named), alive)
        wanted = [
            set(old.reassign_to(listed).adding) <= set(ctx.live)
            for old, listed in zip(
                [ctx.assignment(p) for p in (*names, ("n", 0), ("n", 1))], lists, strict=True
            )
        ]
        assert alive.tolist() == wanted


def test_check_safe_finds_what_could_fail_half_way(layout):
    """A record of this controller or an earlier one, and a topic that is not queued."""
    for _, ctx, state, names in random_states(layout):
        safe = np.full(len(names), 9, np.uint8)
        reassign.check_safe(state.columns, all_rows(state), state.controller_epoch, safe)
        assert safe.tolist() == [
            p in ctx.leadership and ctx.leadership[p].controller_epoch <= ctx.epoch
            and not ctx.is_queued(p)
            for p in names
        ]


def test_check_complete_compares_targets_with_an_isr(layout):
    """Section 6.7, step 3: of the cached records, or of what was read."""
    for generator, ctx, state, names in random_states(layout):
        isrs = {p: record.isr for p, record in ctx.leadership.items()}
        complete = np.full(len(names), 9, np.uint8)
        nothing = np.empty(0, np.uint8), np.empty(0, np.uint64)
        reassign.check_complete(state.columns, all_rows(state), *nothing, complete)
        assert complete.tolist() == [is_complete(ctx.assignment(p), isrs.get(p)) for p in names]
        read = {
            p: generator.sample(a.replicas, generator.randint(0, len(a.replicas)))
            for p, a in ctx.assignments.items() if generator.random() < 0.8
        }
        is_stored = np.array([p in read for p in names], np.uint8)
        stored = np.array([mask(state, row, read.get(p, ())) for row, p in enumerate(names)])
        reassign.check_complete(
            state.columns, all_rows(state), is_stored, stored.astype(np.uint64), complete,
        )
        assert complete.tolist() == [is_complete(ctx.assignment(p), read.get(p)) for p in names]


def is_complete(assignment, isr):
    """Section 6.7, step 3."""
    if not assignment.being_reassigned:
        return True
    return isr is not None and set(assignment.target) <= set(isr)


# --- phases -------------------------------------------------------------------------------------


def test_start_reassignments_is_reassign_to(layout):
    """Section 1.3 in slots: order, adding, removing; what is dropped keeps its slot.

    Source: section 6.7, U.
    """
    for generator, ctx, state, names in random_states(layout):
        before = state.copy()
        rows = np.array(sorted(generator.sample(range(len(names)), len(names) * 3 // 4)), np.int32)
        lists = [
            generator.choices(state.broker_id.tolist(), k=generator.randint(1, 4)) for _ in rows
        ]
        offsets, named = flat(lists)
        brokers = state.find_brokers(named)
        mutators.track(state, np.repeat(rows, np.diff(offsets)).astype(np.int32), brokers)
        dropped, tally = np.full(rows.size, 9, np.uint64), new_tally(state)
        reassign.start_reassignments(state.columns, rows, offsets, brokers, dropped, tally)
        take_counters(state, tally)
        for at, (row, listed) in enumerate(zip(rows, lists, strict=True)):
            old = ctx.assignment(names[row])
            ctx.set_assignment(names[row], old.reassign_to(listed))
            fell_out = set(old.replicas) - set(ctx.assignments[names[row]].replicas)
            assert ids(state, row, dropped[at]) == fell_out
        assert_moved(state, ctx, before)
        assert state.preferred_imbalance_count == ctx.preferred_imbalance_count


def test_starting_again_changes_nothing(layout):
    """Section 1.3: `reassign_to(target)` is the identity; slots of others do not move either."""
    state = read_state("""
        partition  ar         adding  removing  isr  leader  epoch  replicas
        t-0        3,4,1,2    4       1,2       1,9  1       7      1:ONLINE,8:OFFLINE
    """, layout=layout)
    before = state.copy()
    dropped = np.full(1, 9, np.uint64)
    reassign.start_reassignments(
        state.columns, all_rows(state), np.array([0, 2], np.int32), state.find_brokers([3, 4]),
        dropped, new_tally(state),
    )
    assert dropped.tolist() == [0]
    for name in ("records", "replicas", "replica_state"):
        assert np.array_equal(getattr(state, name), getattr(before, name))


def test_assign_targets_is_the_end(layout):
    """Section 6.7, B2: the targets in their order; who is removed has a slot behind them."""
    for _, ctx, state, names in random_states(layout):
        before = state.copy()
        removed, tally = np.full(len(names), 9, np.uint64), new_tally(state)
        reassign.assign_targets(state.columns, all_rows(state), removed, tally)
        take_counters(state, tally)
        for row, p in enumerate(names):
            old = ctx.assignment(p)
            ctx.set_assignment(p, Assignment(old.target))
            assert ids(state, row, removed[row]) == set(old.removing)
            assert state.records["n_slots"][row] == before.records["n_slots"][row]
        assert_moved(state, ctx, before)
        assert state.preferred_imbalance_count == ctx.preferred_imbalance_count


@pytest.mark.parametrize("separate", [True, False])
@pytest.mark.parametrize("besides", [True, False])
def test_touch_raises_epochs_and_tells_all(layout, separate, besides):
    """Section 6.6; older forms tell all alike, and others besides (section 8.1)."""
    for generator, ctx, state, names in random_states(layout):
        before, rows = state.copy(), all_rows(state)
        used = state.records["n_slots"].tolist()
        others = np.array([generator.getrandbits(n) for n in used if besides], np.uint64)
        codes, effects = np.full(rows.size, 99, np.uint8), np.zeros(2 * rows.size, EFFECT)
        tally = new_tally(state)
        n = reassign.touch(
            state.columns, rows, others, state.controller_epoch, separate, codes, effects, tally,
        )
        told, counts = [], dict.fromkeys(state.broker_id.tolist(), 0)
        for row, p in enumerate(names):
            record, after = ctx.leadership.get(p), state.leadership(row)
            wanted = Code.NO_RECORD if record is None else Code.MOVED
            if record is not None and record.controller_epoch > ctx.epoch:
                wanted = Code.NEWER_CONTROLLER
            assert codes[row] == wanted
            if wanted != Code.MOVED:
                assert after == before.leadership(row)
                continue
            assert (after.leader_epoch, after.version, after.controller_epoch) == (
                record.leader_epoch + 1, record.version + 1, ctx.epoch
            )
            assert (after.leader, set(after.isr)) == (record.leader, set(record.isr))
            added = set(ctx.assignment(p).adding) if separate else set()
            everyone = set(ctx.assignment(p).replicas)
            everyone |= ids(state, row, others[row]) if besides else set()
            told.append((row, everyone - added, 0))
            told += [(row, added, KIND_IS_NEW)] if separate else []
            for broker in everyone:
                counts[broker] += 1
        found = [
            (e["row"], ids(state, e["row"], e["recipients"]), e["kinds"] & KIND_IS_NEW)
            for e in effects[:n]
        ]
        assert found == told
        for e in effects[:n]:
            queued = KIND_QUEUED if ctx.is_queued(names[e["row"]]) else 0
            assert e["kinds"] & (KIND_LEADER_AND_ISR | KIND_QUEUED) == KIND_LEADER_AND_ISR | queued
            assert (e["leader_epoch"], e["version"]) == tuple(
                state.records[name][e["row"]] for name in ("leader_epoch", "version")
            )
        per_broker = tally[0, LAYOUT["brokers"] :][: state.n_brokers]
        assert per_broker.tolist() == [counts[b] for b in state.broker_id.tolist()]
        assert tally[0, LAYOUT["metadata"]] == np.count_nonzero(codes == Code.MOVED)
        assert reassign.touch(
            before.columns, rows, others, before.controller_epoch, separate, codes, np.zeros(0,
            EFFECT), new_tally(before),
        ) == 0
        assert np.array_equal(before.records, state.records)
