"""Kernels that move replicas, called directly, against the rule in plain Python.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kfast import Code, PartitionState, ReplicaState
from kfast.controllers.zk.broker_groups import improved_hashes
from kfast.controllers.zk.profiles import REPLICA_PREVIOUS, previous_mask
from kfast.journal.effects import (
    EFFECT,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
)
from kfast.kernels import replica_states
from kfast.schema import NARROW_SLOTS
from tests.support.every_state import every_group, every_replica
from tests.support.kernel_calls import (
    LAYOUTS,
    THREADS,
    assert_same_everywhere,
    change_replicas,
    new_tally,
    take_counters,
)
from tests.support.random_clusters import random_context
from tests.support.reference import CacheStore, Journal
from tests.support.reference import ReplicaStateMachine as Twin
from tests.support.reference_replicas import in_group_order
from tests.support.states import assert_reads, read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels
TARGETS = [s for s in ReplicaState if s != ReplicaState.NO_ENTRY]


@pytest.mark.parametrize("target", TARGETS)
def test_change_replicas_is_the_same_everywhere_and_as_the_twin_has_it(target):
    """Sections 2.1 and 2.4: every cell, ISR and leader of up to four replicas."""
    ctx, moved = every_replica(target)
    state = assert_same_everywhere(ctx, lambda state, threads, keep: change_replicas(
        state, state.find_replicas([(*p, b) for p, b in moved]), target, threads, keep=keep
    ))
    Twin(ctx, CacheStore(ctx), Journal()).handle(moved, target)
    assert state.difference(state_of(ctx)) is None
    assert state.preferred_imbalance_count == ctx.preferred_imbalance_count


@pytest.mark.parametrize("target", [ReplicaState.OFFLINE, ReplicaState.ONLINE])
def test_change_replicas_visits_the_brokers_of_a_partition_by_rank(target):
    """Section 2.3: the order decides who stays as the last ISR member."""
    ctx, moved = every_group(target)
    order = in_group_order((b for _, b in moved), "scala-2.13")

    def call(state, threads, keep):
        ranks = np.zeros(state.n_brokers, np.int32)
        ranks[state.find_brokers(order)] = np.arange(len(order))
        replicas = state.find_replicas([(*p, b) for p, b in moved])
        return change_replicas(state, replicas, target, threads, keep=keep, ranks=ranks)

    state = assert_same_everywhere(ctx, call)
    Twin(ctx, CacheStore(ctx), Journal()).handle(moved, target)
    assert state.difference(state_of(ctx)) is None


@pytest.mark.parametrize("target", [ReplicaState.OFFLINE, ReplicaState.ONLINE])
def test_change_replicas_orders_the_brokers_of_each_partition_by_their_hashes(target):
    """Section 2.3, step 3, where each partition is a call of its own, as in reassignments."""
    ctx, moved = every_group(target)
    state = assert_same_everywhere(ctx, lambda state, threads, keep: change_replicas(
        state, state.find_replicas([(*p, b) for p, b in moved]), target, threads, keep=keep,
        ranks=improved_hashes(state.broker_id), each=True,
    ))
    twin = Twin(ctx, CacheStore(ctx), Journal())
    for partition in dict.fromkeys(p for p, _ in moved):
        twin.handle([(p, b) for p, b in moved if p == partition], target)
    assert state.difference(state_of(ctx)) is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_last_of_many_members_stays(layout):
    """Up to eight members of an ISR leave in one call; ids of every size."""
    rng = Random(5)
    for _ in range(60):
        ids = rng.sample(range(rng.choice([12, 2000, 2**31 - 1])), rng.randint(2, 8))
        listed = ",".join(map(str, ids))
        state = read_state(f"""
            partition  ar        isr       leader  epoch
            t-0        {listed}  {listed}  {ids[0]}  4
        """, layout=layout)
        for b in ids:
            state.set_replica_state(0, b, ReplicaState.ONLINE)
        moved = state.replicas_on_brokers(ids)
        change_replicas(state, moved, ReplicaState.OFFLINE, each=True,
                        ranks=improved_hashes(state.broker_id))
        assert state.leadership(0).isr == (in_group_order(ids, "scala-2.13")[-1],)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_new_replica_that_is_not_assigned_is_appended(layout):
    """Section 2.4, OnlineReplica from NewReplica; masks move with the slots."""
    state = read_state("""
        partition  ar   isr    leader  epoch  offline_dir  replicas
        t-0        7,2  7,9,2  7       4      9            9:OFFLINE,5:NEW,3:NEW
        t-1        7,2  7,9,2  7       4      9            2:NEW
    """, layout=layout)
    codes, effects, _ = change_replicas(
        state, state.find_replicas([("t", 0, 5), ("t", 0, 3), ("t", 1, 2)]), ReplicaState.ONLINE
    )
    assert_reads(state, """
        partition  ar       isr    leader  epoch  offline_dir  replicas
        t-0        7,2,3,5  7,9,2  7       4      9            3:ONLINE,5:ONLINE,9:OFFLINE
        t-1        7,2      7,9,2  7       4      9            2:ONLINE
    """)
    assert codes.tolist() == [Code.APPENDED, Code.APPENDED, Code.MOVED]
    for effect in effects[:2]:
        assert set(state.ids_of(0, int(effect["isr"]))) == {2, 7, 9}
        assert not effect["kinds"] & KIND_LEADER_AND_ISR


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_replica_that_is_gone_leaves_assignment_and_states(layout):
    """Section 2.4, NonExistentReplica; the leader and the ISR may still name it."""
    words = "1:DELETION_SUCCESSFUL,2:DELETION_SUCCESSFUL,3:ONLINE"
    state = read_state(f"""
        partition  ar     isr  leader  epoch  adding  removing  replicas
        t-0        1,2,3  2,3  3       4      2       1         {words}
        t-1        1,2,3  2,3  1       4      -       -         {words}
    """, layout=layout)
    gone = state.find_replicas([("t", 0, 1), ("t", 0, 2), ("t", 1, 1), ("t", 1, 3)])
    codes, _, _ = change_replicas(state, gone, ReplicaState.NON_EXISTENT)
    assert codes.tolist() == [Code.MOVED] * 3 + [Code.ILLEGAL_STATE]
    assert_reads(state, """
        partition  ar   isr  leader  epoch  adding  removing  replicas
        t-0        3    2,3  3       4      -       -         3:ONLINE
        t-1        2,3  2,3  1       4      -       -         2:DELETION_SUCCESSFUL,3:ONLINE
    """)


MEMBERS = st.lists(st.booleans(), min_size=10, max_size=10)


@st.composite
def damaged_rows(draw):
    """One partition in which every list names brokers as it likes."""
    n = draw(st.integers(1, 10))
    brokers = draw(st.permutations(range(10)))[:n]
    n_assigned = draw(st.integers(0, n))
    pick = {
        name: [b for b, chosen in zip(brokers, draw(MEMBERS), strict=False) if chosen]
        for name in ("isr", "adding", "removing", "offline_dir", "moved")
    }
    return brokers, brokers[:n_assigned], pick, draw(st.sampled_from([-1, *brokers]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", [ReplicaState.ONLINE, ReplicaState.NON_EXISTENT])
@given(damaged_rows())
@settings(max_examples=80, deadline=None)
def test_moving_slots_keeps_every_membership(layout, target, row):
    """Whatever moves in the assignment, every list goes on naming the same brokers."""
    brokers, assigned, pick, leader = row
    assume(layout == "wide" or len(brokers) <= NARROW_SLOTS)
    states = dict.fromkeys(brokers, ReplicaState.OFFLINE)
    source = min(REPLICA_PREVIOUS[target])
    states |= dict.fromkeys(pick["moved"], source)
    words = {name: ",".join(map(str, listed)) or "-" for name, listed in pick.items()}
    state = read_state(f"""
        partition  ar  isr  leader  epoch  adding  removing  offline_dir  replicas
        t-0  {",".join(map(str, assigned)) or "-"}  {words["isr"]}  {leader}  4  {words["adding"]}
    """.rstrip() + f"  {words['removing']}  {words['offline_dir']}  "
        + ",".join(f"{b}:{s.name}" for b, s in states.items()), layout=layout)
    change_replicas(
        state, state.find_replicas([("t", 0, b) for b in pick["moved"]]), target, keep=False
    )
    gone = set(pick["moved"]) if target == ReplicaState.NON_EXISTENT else set()
    joined = sorted(set(pick["moved"]) - set(assigned) - gone)
    kept = {name: set(pick[name]) - (gone if name in ("adding", "removing") else set())
            for name in pick}
    after = state.assignment(0)
    assert after.replicas == (*(b for b in assigned if b not in gone), *joined)
    assert (set(after.adding), set(after.removing)) == (kept["adding"], kept["removing"])
    record = state.leadership(0)
    assert (record.leader, set(record.isr)) == (leader, kept["isr"])
    dirs = state.ids_of(0, int(state.records["offline_dir"][0]))
    assert set(dirs) == kept["offline_dir"]
    moved = dict.fromkeys(pick["moved"], target)
    assert state.replica_states_of(0) == {
        b: s for b, s in {**states, **moved}.items() if s != ReplicaState.NON_EXISTENT
    }


def test_what_each_target_adds_to_the_batch():
    """Sections 2.4 and 2.5: StopReplica, LeaderAndIsr, UpdateMetadata."""
    text = """
        partition  ar     isr    leader  epoch  replicas
        t-0        1,2,3  1,2,3  1       4      1:{0},2:{0},3:{0}
        t-1        1,2,3  -      -       -      1:{0},2:{0},3:{0}
    """
    lai, stop, new = KIND_LEADER_AND_ISR, KIND_STOP, KIND_IS_NEW
    for source, target, led, unled in (
        ("NON_EXISTENT", ReplicaState.NEW, lai | new, 0),
        ("NEW", ReplicaState.ONLINE, 0, 0),
        ("OFFLINE", ReplicaState.ONLINE, lai, 0),
        ("ONLINE", ReplicaState.OFFLINE, lai | stop, stop | KIND_METADATA),
        ("OFFLINE", ReplicaState.DELETION_STARTED, stop | KIND_DELETE, stop | KIND_DELETE),
        ("DELETION_STARTED", ReplicaState.DELETION_SUCCESSFUL, 0, 0),
        ("DELETION_STARTED", ReplicaState.DELETION_INELIGIBLE, 0, 0),
        ("DELETION_SUCCESSFUL", ReplicaState.NON_EXISTENT, 0, 0),
    ):
        state = read_state(text.format(source))
        moved = state.replicas_on_brokers([2])
        _, effects, _ = change_replicas(state, moved, target)
        assert effects["kinds"].tolist() == [led, unled], target
        epochs = [4, -1] if led & stop else [0, 0]
        assert effects["stop_epoch"].tolist() == epochs


def test_a_deferred_shrink_leaves_the_record_alone():
    """Section 2.5, step 1: StopReplica is added; what follows the store decides."""
    state = read_state("""
        partition  ar   isr  leader  epoch  replicas
        t-0        1,2  1,2  1       4      1:ONLINE,2:ONLINE
        t-1        1,2  -    -       -      1:ONLINE,2:ONLINE
    """)
    moved = state.replicas_on_brokers([1])
    codes, effects, _ = change_replicas(state, moved, ReplicaState.OFFLINE, defer=True)
    assert codes.tolist() == [Code.NOT_ASKED, Code.MOVED]
    assert effects["kinds"].tolist() == [KIND_STOP, KIND_STOP | KIND_METADATA]
    assert_reads(state, """
        partition  ar   isr  leader  epoch  replicas
        t-0        1,2  1,2  1       4      1:ONLINE,2:ONLINE
        t-1        1,2  -    -       -      1:OFFLINE,2:ONLINE
    """)


def start(state, threads=1, *, keep=False, reset=False, take_offline=True):
    """Call `start_replicas`; counters go to the state."""
    counted = replica_states.count_started(state.columns)
    sizes = counted if keep else (0, 0)
    effects = [np.zeros(n, EFFECT) for n in sizes]
    tallies = new_tally(state, threads), new_tally(state, threads)
    replica_states.start_replicas(
        state.columns, state.broker_id, state.broker_id,
        previous_mask(REPLICA_PREVIOUS[ReplicaState.ONLINE]),
        previous_mask(REPLICA_PREVIOUS[ReplicaState.OFFLINE]), state.controller_epoch, reset,
        take_offline, state.any_queued, True, *effects, *tallies,
    )
    return effects, [take_counters(state, tally) for tally in tallies]


def split_online(state):
    """Assigned replicas that are online, and the others."""
    online, offline = [], []
    for row in range(state.n_partitions):
        name = state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row])
        for b in state.assignment(row).replicas:
            (online if state.is_replica_online(b, row) else offline).append((*name, b))
    return state.find_replicas(online), state.find_replicas(offline)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_start_replicas_is_two_calls_of_change_replicas(layout):
    """Section 2.2: all the online ones to Online, then the others to Offline."""
    for seed in range(10):
        begun = state_of(random_context(Random(seed)), layout)
        online, offline = split_online(begun)
        one_by_one = begun.copy()
        for replicas, entry in (
            (online, ReplicaState.ONLINE), (offline, ReplicaState.DELETION_INELIGIBLE)
        ):
            for row, slots in zip(replicas.rows, replicas.slots, strict=True):
                for b in one_by_one.ids_of(int(row), int(slots)):
                    one_by_one.set_replica_state(int(row), b, entry)
        _, first, first_total = change_replicas(one_by_one, online, ReplicaState.ONLINE)
        _, then, then_total = change_replicas(one_by_one, offline, ReplicaState.OFFLINE)
        for threads, keep in [*((t, False) for t in THREADS), (1, True)]:
            state = begun.copy()
            effects, totals = start(state, threads, keep=keep)
            assert state.difference(one_by_one) is None
            assert state.digest() == one_by_one.digest()
            assert np.array_equal(state.leader_offline, one_by_one.leader_offline)
            assert np.array_equal(totals[0], first_total)
            assert np.array_equal(totals[1], then_total)
            if keep:
                assert np.array_equal(effects[0], first)
                assert np.array_equal(effects[1], then)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_new_controller_forgets_what_the_last_one_knew(layout):
    """Section 6.1, step 4: states, offline directories; the offline wait."""
    state = read_state("""
        partition  ar   isr    leader  epoch  adding  offline_dir  state    replicas
        t-0        1,2  1,2    1       4      2       1            ONLINE   1:DELETION_STARTED
        t-1        2,3  3      3       4      -       -            OFFLINE  2:NEW,4:ONLINE
    """, down=[3], layout=layout)
    _, totals = start(state, reset=True, take_offline=False)
    assert_reads(state, """
        partition  ar   isr  leader  epoch  adding  offline_dir  state  replicas
        t-0        1,2  1,2  1       4      2       -            -      1:ONLINE,2:ONLINE
        t-1        2,3  3    3       4      -       -            -      2:ONLINE,3:{}
    """.format("DELETION_INELIGIBLE"))
    assert state.list_marked(state.leader_offline).tolist() == [1]
    assert not totals[1].any()
    assert state.partition_state(1) == PartitionState.NO_ENTRY


@pytest.mark.parametrize("layout", LAYOUTS)
def test_replicas_are_counted(layout):
    """Bits of slots, and assigned replicas that are online or not."""
    for seed in range(10):
        ctx = random_context(Random(seed))
        state = state_of(ctx, layout)
        online, _ = split_online(state)
        assert replica_states.count_targets(online.slots) == sum(
            int(mask).bit_count() for mask in online.slots
        )
        everyone = list(ctx.assigned_replicas())
        live = sum(ctx.is_replica_online(b, p) for p, b in everyone)
        assert replica_states.count_started(state.columns) == (live, len(everyone) - live)
