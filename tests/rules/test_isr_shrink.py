"""Replicas whose brokers die leave the ISR; the last one stays.

Source: docs/controller.md, sections 2.6 and 2.3; Kafka 3.9, ReplicaStateMachine.scala,
`doRemoveReplicasFromIsr`.
"""

from __future__ import annotations

import pytest

from kfast import Controller, ReplicaState, ReplicaStateMachine, Store
from tests.support.states import assert_reads, read_state


def test_an_isr_of_one_outlives_its_broker():
    """Kafka 3.9, ReplicaStateMachine.scala, `doRemoveReplicasFromIsr`."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1    1       7      ONLINE
        t-1        1,2,3  1,2  1       7      ONLINE
    """)
    Controller(state).on_broker_failure([1])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1    -       8      OFFLINE
        t-1        1,2,3  2    2       8      ONLINE
    """)


def test_taking_the_sole_isr_member_offline_again_bumps_the_epoch_again():
    """Section 2.6, note: every repetition, and leader -1 stays -1."""
    state = read_state("""
        partition  ar   isr  leader  epoch  version
        t-0        1,2  1    1       7      4
    """)
    machine = ReplicaStateMachine(state)
    for epoch in (8, 9, 10):
        machine.handle_state_changes(state.replicas_on_brokers([1]), ReplicaState.OFFLINE)
        assert_reads(state, f"""
            partition  ar   isr  leader  epoch    version
            t-0        1,2  1    -       {epoch}  {epoch - 3}
        """)


@pytest.mark.parametrize("with_store", [False, True])
def test_two_brokers_of_one_isr_leave_in_the_order_of_kafkas_map(with_store):
    """Section 2.3, step 3: 7 goes before 3, and the last one stays."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        7,3,1  7,3  3       4      ONLINE
    """)
    Controller(state, store=Store(state) if with_store else None).on_broker_failure([3, 7])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  state
        t-0        7,3,1  3    -       6      OFFLINE
    """)
