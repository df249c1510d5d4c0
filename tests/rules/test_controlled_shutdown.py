"""Controlled shutdown (docs/controller.md, section 6.3; Kafka 3.9, `doControlledShutdown`)."""

from __future__ import annotations

import pytest

from kfast import Controller, Store
from tests.support.states import QUIET, assert_reads, read_state


def test_leaders_move_and_followers_leave_the_isr():
    """Steps 5 to 8: led partitions are elected for, followed ones shrink; epochs rise by one."""
    state = read_state("""
        partition  ar     isr    leader  epoch  state
        t-0        1,2,3  1,2,3  1       7      ONLINE
        t-1        2,1,3  2,1,3  2       7      ONLINE
        t-2        3,2    3,2    3       7      ONLINE
    """)
    outcome = Controller(state).controlled_shutdown(1)
    assert_reads(state, """
        partition  ar     isr  leader  epoch  state   replicas
        t-0        1,2,3  2,3  2       8      ONLINE  1:ONLINE,2:ONLINE,3:ONLINE
        t-1        2,1,3  2,3  2       8      ONLINE  1:OFFLINE,2:ONLINE,3:ONLINE
        t-2        3,2    2,3  3       7      ONLINE  2:ONLINE,3:ONLINE
    """)
    assert (outcome.error, outcome.remaining.tolist()) == (None, [])
    assert state.shutting_down.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("broker", "epoch", "error"),
    [
        (9, 4, "NoSuchElement"), (9, -1, "BrokerNotAvailable"),
        (2, 4, "NoSuchElement"), (2, -1, "BrokerNotAvailable"),
        (1, 4, "StaleBrokerEpoch"), (1, 5, None), (1, 6, None), (1, -1, None),
    ],
)
def test_who_may_ask(broker, epoch, error):
    """Steps 2 and 3, NOTE: with an epoch, an unregistered broker is a missing key."""
    state = read_state(QUIET, down=[2], epochs={1: 5, 9: 1}, brokers=[9])
    state.remove_live_brokers([9])
    before = state.copy()
    assert Controller(state).controlled_shutdown(broker, epoch).error == error
    assert (state == before) == (error is not None)


def test_a_partition_of_one_replica_is_neither_acted_on_nor_reported():
    """Step 9: it stays where it is, and its leader is not online any more."""
    text = """
        partition  ar   isr  leader  epoch  state
        t-0        1    1    1       7      ONLINE
        t-1        1    1,2  2       7      ONLINE
    """
    state = read_state(text)
    outcome = Controller(state).controlled_shutdown(1)
    assert outcome.remaining.size == 0
    assert outcome.counts.codes == {}
    assert_reads(state, text)


def test_what_nobody_can_take_over_remains():
    """Step 9: an election that finds nobody leaves the partition Online, led by the broker."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1    1       7      ONLINE
        t-1        1,3  1,3  1       7      ONLINE
    """, down=[3])
    outcome = Controller(state, journal="full").controlled_shutdown(1)
    assert outcome.remaining.tolist() == [0, 1]
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1    1       7      ONLINE
        t-1        1,3  1,3  1       7      ONLINE
    """)
    assert outcome.counts.codes == {"NO_ELIGIBLE_LEADER": 2}


def test_a_newer_controller_is_answered_and_not_found_out():
    """Section 6.3: the answer is ControllerMoved; an event of another kind makes it resign."""
    state = read_state(QUIET)
    store = Store(state)
    controller = Controller(state, store=store)
    store.elect_controller()
    assert controller.controlled_shutdown(1).error == "ControllerMoved"
    assert controller.active
    assert controller.on_broker_failure([1]).failure.name == "CONTROLLER_MOVED"
    assert not controller.active
