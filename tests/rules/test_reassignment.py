"""How a partition moves (docs/controller.md, sections 6.6 and 6.7); one claim per test."""

from __future__ import annotations

import numpy as np
import pytest

from kfast import Controller, Store
from kfast.schema import FLAG_BEING_REASSIGNED
from kfast.testing import invariants
from tests.support.readings import announced, answers, lines, moves, refused, sent
from tests.support.states import assert_reads, read_state

ONE = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  1       7      ONLINE
"""
HALF_WAY = """
    partition  ar         adding  removing  isr    leader  epoch  state   replicas
    t-0        3,4,5,1,2  4,5     1,2       1,2,3  1       8      ONLINE  {}
""".format("1:ONLINE,2:ONLINE,3:ONLINE,4:NEW,5:NEW")


def run(text, **options):
    """A controller of the cluster that a text describes, with a full journal."""
    return Controller(read_state(text, **options), journal="full")


def reassign(controller, *brokers, partition=("t", 0)):
    """Ask for one partition to move; it is accepted, and the state is sound."""
    outcome = controller.alter_partition_reassignments({partition: list(brokers)})
    assert answers(outcome) == ["STARTED"]
    invariants.check(controller.state)
    return outcome


def is_being_reassigned(state, row=0):
    """Whether the controller keeps the partition among those that move."""
    return bool(state.records["flags"][row] & FLAG_BEING_REASSIGNED)


# --- the example --------------------------------------------------------------------------------


def test_a_reassignment_begins_with_a_union_and_an_epoch():
    """The example of section 6.7: U, A1 (`touch`, section 6.6) and A2."""
    controller = run(ONE, brokers=[4, 5])
    outcome = reassign(controller, 3, 4, 5)
    assert_reads(controller.state, HALF_WAY)
    assert is_being_reassigned(controller.state)
    assert sent(outcome) == lines("""
        A1 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 8, ISR 1,2,3
        A1 LeaderAndIsr(new) to 4,5: t-0, leader 1, epoch 8, ISR 1,2,3
        A2 LeaderAndIsr(new) to 4: t-0, leader 1, epoch 8, ISR 1,2,3
        A2 LeaderAndIsr(new) to 5: t-0, leader 1, epoch 8, ISR 1,2,3
    """)
    assert announced(outcome) == ["A1 to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3"] + 2 * [
        "A2 to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3"
    ]
    assert moves(outcome) == lines("""
        A2 t-0/4 NonExistentReplica to NewReplica
        A2 t-0/5 NonExistentReplica to NewReplica
    """)
    told = outcome.requests.to_pylist()
    assert {(*r["replicas"],) for r in told} == {(3, 4, 5, 1, 2)}
    assert {((*r["adding"],), (*r["removing"],)) for r in told} == {((4, 5), (1, 2))}


def test_a_reassignment_ends_when_all_targets_are_in_sync():
    """The example of section 6.7: B1 to B8, from the ISR change that completes it."""
    controller = run(HALF_WAY)
    outcome = controller.alter_partition(1, 0, [0], 8, [[1, 2, 3, 4, 5]], 8)
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  state   replicas
        t-0        3,4,5  -       -         3,4,5  3       11     ONLINE  3:ONLINE,4:ONLINE,5:ONLINE
    """)
    invariants.check(controller.state)
    assert not is_being_reassigned(controller.state)
    assert outcome.actions == (
        "announce the ISRs",
        "B1: replicas to OnlineReplica",
        "B3: partitions to OnlinePartition (REASSIGN)",
        "B4: replicas to OfflineReplica",
        "B4: replicas to ReplicaDeletionStarted",
        "B4: replicas to ReplicaDeletionSuccessful",
        "B4: replicas to NonExistentReplica",
        "B8: announce the assignment",
    )


def test_who_is_told_at_the_end():
    """Section 6.7: B1 tells nobody; all targets hear of the leader; 1 then 2 leave the ISR."""
    outcome = run(HALF_WAY).alter_partition(1, 0, [0], 8, [[1, 2, 3, 4, 5]], 8)
    assert sent(outcome) == lines("""
        B3 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
        B4 StopReplica to 1: t-0, epoch 9
        B4 StopReplica to 2: t-0, epoch 10
        B4 StopReplica(delete) to 1,2: t-0, epoch 11
    """)
    assert announced(outcome) == lines("""
        announce the ISRs to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3,4,5
        B3 to 1,2,3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 to 1,2,3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
        B8 to 1,2,3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
    """)
    assert outcome.counts.requests == {"LeaderAndIsr": 6, "UpdateMetadata": 20, "StopReplica": 4}


def test_removed_replicas_go_through_four_states():
    """Section 6.7, `stop_removed`: one call each over all of them; nobody waits for an answer."""
    outcome = run(HALF_WAY).alter_partition(1, 0, [0], 8, [[1, 2, 3, 4, 5]], 8)
    assert moves(outcome) == lines("""
        B1 t-0/5 NewReplica to OnlineReplica
        B1 t-0/4 NewReplica to OnlineReplica
        B3 t-0 OnlinePartition to OnlinePartition
        B4 t-0/1 OnlineReplica to OfflineReplica
        B4 t-0/2 OnlineReplica to OfflineReplica
        B4 t-0/1 OfflineReplica to ReplicaDeletionStarted
        B4 t-0/2 OfflineReplica to ReplicaDeletionStarted
        B4 t-0/1 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        B4 t-0/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        B4 t-0/1 ReplicaDeletionSuccessful to NonExistentReplica
        B4 t-0/2 ReplicaDeletionSuccessful to NonExistentReplica
    """)


def test_targets_that_come_one_by_one_complete_it_with_the_last():
    """Section 6.7, step 3: all targets must be in the ISR; until then nothing happens."""
    controller = run(HALF_WAY)
    first = controller.catch_up([4])
    assert first.actions == ("announce the ISRs",)
    assert is_being_reassigned(controller.state)
    controller.catch_up([5])
    assert not is_being_reassigned(controller.state)
    assert controller.state.leadership(0).isr == (3, 4, 5)


# --- B3: who leads afterwards -------------------------------------------------------------------


def test_a_leader_that_stays_gets_a_new_epoch():
    """Section 6.7, B3: L in TRS and online is touched, with {TRS}: no adding replicas are left."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,3  3  "))
    outcome = controller.catch_up([4, 5])
    assert "B3: raise the leader epoch" in outcome.actions
    assert sent(outcome)[:2] == lines("""
        B3 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
    """)
    assert controller.state.leadership(0).leader_epoch == 11


def test_the_first_target_that_is_live_and_in_sync_leads():
    """Section 4.1, Reassign: all targets are told, dead ones dropped when it is sent."""
    controller = run("""
        partition  ar         adding  removing  isr        leader  epoch  state
        t-0        3,4,5,1,2  4,5     1,2       1,2,3,4,5  1       8      ONLINE
    """, down=[3])
    outcome = controller.on_partition_reassignment([0])
    assert controller.state.leadership(0).leader == 4
    assert sent(outcome)[:3] == lines("""
        B1 LeaderAndIsr to 4,5: t-0, leader 1, epoch 8, ISR 1,2,3,4,5
        B3 LeaderAndIsr to 4,5: t-0, leader 4, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 4,5: t-0, leader 4, epoch 11, ISR 3,4,5
    """)


@pytest.mark.parametrize("how", ["down", "shutting_down"])
def test_a_leader_that_is_a_target_but_dead_gives_way(how):
    """Section 6.7, B3, third case: L in TRS but not online, dead or in controlled shutdown."""
    controller = run("""
        partition  ar     adding  removing  isr    leader  epoch  state
        t-0        3,4,1  4       1         3,4,1  3       8      ONLINE
    """, **{how: [3]})
    outcome = controller.on_partition_reassignment([0])
    assert "B3: partitions to OnlinePartition (REASSIGN)" in outcome.actions
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch
        t-0        3,4  3,4  4       10
    """)


def test_a_target_with_a_failed_log_directory_does_not_lead():
    """Section 4.3: a candidate whose log directory is offline is not live."""
    controller = run("""
        partition  ar     adding  removing  isr    leader  epoch  offline_dir  state
        t-0        3,4,1  4       1         3,4,1  3       8      3            ONLINE
    """)
    controller.on_partition_reassignment([0])
    assert controller.state.leadership(0).leader == 4


def test_without_a_target_that_can_lead_the_reassignment_ends_all_the_same():
    """Sections 6.7, B3, and 9, rule 25: the failed election is logged, and B4 takes the leader."""
    controller = run("""
        partition  ar   adding  removing  isr  leader  epoch  state
        t-0        3,1  3       1         3,1  1       8      ONLINE
    """, down=[3])
    outcome = controller.on_partition_reassignment([0])
    assert refused(outcome) == ["B3 t-0 OnlinePartition to OnlinePartition: StateChangeFailed"]
    assert_reads(controller.state, """
        partition  ar  isr  leader  epoch  adding  removing  state   replicas
        t-0        3   3    -       9      -       -         ONLINE  3:ONLINE
    """)
    assert outcome.error is None
    invariants.check(controller.state)


def test_a_leaderless_partition_gets_a_target_as_its_leader():
    """Section 6.7, B3: -1 is not in TRS; the partition comes from OfflinePartition."""
    controller = run("""
        partition  ar   adding  removing  isr  leader  epoch  state
        t-0        3,1  3       1         3,1  -       8      OFFLINE
    """)
    outcome = controller.on_partition_reassignment([0])
    assert "B3 t-0 OfflinePartition to OnlinePartition" in moves(outcome)
    assert controller.state.offline_partition_count == 0
    assert controller.state.leadership(0).leader == 3


# --- nothing to copy ----------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [(1, 2, 3), (3, 2, 1)])
def test_a_reassignment_that_adds_nobody_is_complete_at_once(targets):
    """Section 6.7, note: reordering, or changing nothing, still bumps the epoch and notifies."""
    controller = run(ONE)
    outcome = reassign(controller, *targets)
    assert outcome.actions == ("B3: raise the leader epoch", "B8: announce the assignment")
    assert sent(outcome) == ["B3 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 8, ISR 1,2,3"]
    assert_reads(controller.state, f"""
        partition  ar                         adding  removing  isr    leader  epoch
        t-0        {",".join(map(str, targets))}  -   -         1,2,3  1       8
    """)
    assert not is_being_reassigned(controller.state)
    assert controller.state.preferred_imbalance_count == int(targets[0] != 1)


def test_a_reassignment_that_changes_nothing_is_written_all_the_same():
    """Section 6.7, note: the store is rewritten once, at B6."""
    state = read_state(ONE)
    store = Store(state)
    reassign(Controller(state, store=store), 1, 2, 3)
    assert [call for call, _ in store.calls] == ["read", "update", "assign"]
    assert store.get("t", 0).leader_epoch == 8


def test_shrinking_to_replicas_in_sync_is_complete_at_once():
    """Section 6.7, note: no replica is added, so it is synchronous."""
    controller = run(ONE)
    outcome = reassign(controller, 2, 3)
    assert_reads(controller.state, """
        partition  ar   adding  removing  isr  leader  epoch  replicas
        t-0        2,3  -       -         2,3  2       9      2:ONLINE,3:ONLINE
    """)
    assert sent(outcome) == lines("""
        B3 LeaderAndIsr to 2,3: t-0, leader 2, epoch 8, ISR 1,2,3
        B4 LeaderAndIsr to 2,3: t-0, leader 2, epoch 9, ISR 2,3
        B4 StopReplica to 1: t-0, epoch 8
        B4 StopReplica(delete) to 1: t-0, epoch 9
    """)


def test_shrinking_to_a_replica_that_lags_waits_for_it():
    """Section 6.7, step 3: removing is enough to be reassigned; A2 has nobody to start."""
    controller = run(ONE.replace("1,2,3  1  ", "1,3    1  "))
    outcome = reassign(controller, 2)
    assert outcome.actions == ("A1: raise the leader epoch",)
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr  leader  epoch
        t-0        2,1,3  -       1,3       1,3  1       8
    """)
    assert is_being_reassigned(controller.state)
    controller.catch_up([2])
    assert controller.state.assignment(0).replicas == (2,)


def test_a_removed_replica_outside_the_isr_costs_no_epoch():
    """Section 6.7: each removed broker that was in the ISR costs one, the others none."""
    controller = run(ONE.replace("1,2,3  1  ", "1,2    1  "))
    reassign(controller, 1, 2)
    record = controller.state.leadership(0)
    assert (record.leader_epoch, record.isr) == (8, (1, 2))


def test_a_removed_replica_of_a_dead_broker_goes_as_well():
    """Section 6.7, `stop_removed`: Offline may become Offline again; its requests are dropped."""
    controller = run("""
        partition  ar       adding  removing  isr    leader  epoch  state
        t-0        3,4,1,2  4       1,2       3,4,1  3       8      ONLINE
    """, down=[2])
    outcome = controller.on_partition_reassignment([0])
    assert "B4 t-0/2 OfflineReplica to OfflineReplica" in moves(outcome)
    assert "B4 t-0/2 ReplicaDeletionSuccessful to NonExistentReplica" in moves(outcome)
    assert [line for line in sent(outcome) if "Stop" in line] == lines("""
        B4 StopReplica to 1: t-0, epoch 9
        B4 StopReplica(delete) to 1: t-0, epoch 10
    """)
    assert controller.state.leadership(0).leader_epoch == 10
    assert controller.state.replicas_on_brokers([2]).rows.size == 0


def test_the_future_first_replica_counts_as_the_rules_say():
    """Section 1.6: while it is being added, joining the ISR makes the partition imbalanced."""
    controller = run(ONE, brokers=[4])
    reassign(controller, 4, 1)
    state = controller.state
    assert state.preferred_imbalance_count == 0
    state.set_leadership(0, leader=1, isr=[1, 2, 3, 4], leader_epoch=8, version=8)
    assert state.preferred_imbalance_count == 1
    controller.on_partition_reassignment(np.array([0]))
    assert (state.leadership(0).leader, state.preferred_imbalance_count) == (1, 1)
    controller.rebalance_leaders()
    assert (state.leadership(0).leader, state.preferred_imbalance_count) == (4, 0)


# --- override and cancel ------------------------------------------------------------------------


def test_another_target_drops_what_was_half_added():
    """Sections 1.3 and 6.7, phase U: it starts from the origin; 4 is stopped, 5 goes on."""
    controller = run(HALF_WAY, brokers=[6])
    outcome = reassign(controller, 5, 6, 1)
    assert_reads(controller.state, """
        partition  ar         adding  removing  isr    leader  epoch  replicas
        t-0        5,6,1,3,2  5,6     3,2       1,2,3  1       9      {}
    """.format("1:ONLINE,2:ONLINE,3:ONLINE,5:NEW,6:NEW"))
    assert moves(outcome) == lines("""
        U t-0/4 NewReplica to OfflineReplica
        U t-0/4 OfflineReplica to ReplicaDeletionStarted
        U t-0/4 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        U t-0/4 ReplicaDeletionSuccessful to NonExistentReplica
        A2 t-0/6 NonExistentReplica to NewReplica
    """)
    assert refused(outcome) == ["A2 t-0/5 NewReplica to NewReplica: IllegalState"]
    assert sent(outcome) == lines("""
        U LeaderAndIsr to 1,2,3,5,6: t-0, leader 1, epoch 8, ISR 1,2,3
        U StopReplica to 4: t-0, epoch 8
        U StopReplica(delete) to 4: t-0, epoch 8
        A1 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 9, ISR 1,2,3
        A1 LeaderAndIsr(new) to 5,6: t-0, leader 1, epoch 9, ISR 1,2,3
        A2 LeaderAndIsr(new) to 6: t-0, leader 1, epoch 9, ISR 1,2,3
    """)


def test_a_dropped_replica_in_the_isr_leaves_it():
    """Section 6.7, phase U: `stop_removed` shrinks it, and takes the leader; B3 elects a target."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,4  4  "))
    outcome = reassign(controller, 1, 2)
    assert_reads(controller.state, """
        partition  ar   adding  removing  isr  leader  epoch  replicas
        t-0        1,2  -       -         1,2  1       10     1:ONLINE,2:ONLINE
    """)
    assert "U StopReplica(delete) to 4,5: t-0, epoch 9" in sent(outcome)
    assert "B3 LeaderAndIsr to 1,2: t-0, leader 1, epoch 10, ISR 1,2" in sent(outcome)


def test_cancelling_goes_back_to_the_origin():
    """Section 6.7: null; the replicas that were added are dropped, and it is complete at once.

    Section 1.3, note: the original order cannot be restored, the targets are in front.
    """
    controller = run(HALF_WAY)
    outcome = controller.alter_partition_reassignments({("t", 0): None})
    assert answers(outcome) == ["STARTED"]
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  replicas
        t-0        3,1,2  -       -         1,2,3  1       9      1:ONLINE,2:ONLINE,3:ONLINE
    """)
    assert not is_being_reassigned(controller.state)
    assert [line.split(" ")[0] for line in moves(outcome)] == 8 * ["U"]
    assert "B3 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 9, ISR 1,2,3" in sent(outcome)
    invariants.check(controller.state)


def test_reassigning_back_to_the_origin_is_cancelling():
    """Section 1.3: the result is no longer being reassigned; the order is the one asked for."""
    controller = run(HALF_WAY)
    reassign(controller, 1, 2, 3)
    assert controller.state.assignment(0).replicas == (1, 2, 3)
    assert not is_being_reassigned(controller.state)


def test_asking_again_for_the_same_targets_begins_again():
    """Sections 1.3 and 6.7: `reassign_to(target)` is the identity, so only A1 and A2 run again."""
    controller = run(HALF_WAY)
    outcome = reassign(controller, 3, 4, 5)
    assert_reads(controller.state, HALF_WAY.replace("8   ", "9   "))
    assert {line.split(" ")[0] for line in sent(outcome)} == {"A1"}
    assert refused(outcome) == lines("""
        A2 t-0/4 NewReplica to NewReplica: IllegalState
        A2 t-0/5 NewReplica to NewReplica: IllegalState
    """)
