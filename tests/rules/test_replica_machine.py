"""Kernels that move replicas, called directly, against the rule in plain Python.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kfast import Code, ReplicaState
from kfast.controllers.zk.broker_groups import improved_hashes
from kfast.controllers.zk.profiles import REPLICA_PREVIOUS
from kfast.schema import (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
    NARROW_SLOTS,
)
from tests.support.every_state import every_group
from tests.support.kernel_calls import (
    LAYOUTS,
    assert_same_everywhere,
    change_replicas,
)
from tests.support.reference import CacheStore, Journal
from tests.support.reference import ReplicaStateMachine as Twin
from tests.support.reference_replicas import in_group_order
from tests.support.states import assert_reads, read_state
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels
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
@settings(max_examples=80)
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
