"""What real clusters did: kfast comes from the state before to the state after.

22 events of a live Kafka 3.9.1 cluster, and a stop of one broker as describe texts show it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kfast import Controller, read, with_controller
from kfast.analysis.broker_failure import fail_brokers
from kfast.controllers.zk.broker_groups import GroupOrder
from kfast.controllers.zk.profiles import ZK_3_9
from tests.support.live_events import Run, differences, read_events, records_of

pytestmark = pytest.mark.kernels

EVENTS = 22


@pytest.fixture(scope="module")
def events(shared_data):
    """The events of the cluster, in order."""
    return read_events(shared_data / "controller_logs" / "zk-3.9-live" / "events.jsonl.gz")


def test_there_are_22_events(events):
    """Creations, failures, starts, shutdowns, elections, reassignments, a deletion, a failover."""
    assert [event["n"] for event in events] == list(range(1, EVENTS + 1))


@pytest.mark.parametrize("with_store", [True, False], ids=["store", "cache"])
@pytest.mark.parametrize("number", range(1, EVENTS + 1))
def test_an_event_does_what_it_did_to_the_live_cluster(events, number, with_store):
    """Leaders, ISRs, leader epochs, versions and assignments of all partitions."""
    event = events[number - 1]
    run = Run(event, with_store)
    assert differences(run.run(), records_of(event["after"])) == {}, run.steps


def test_another_order_of_brokers_would_show(events):
    """By ascending id, 13 partitions of a topic that is to be deleted keep another member."""
    event = events[18]
    run = Run(event, profile=replace(ZK_3_9, group_order=GroupOrder.ASCENDING))
    assert len(differences(run.run(), records_of(event["after"]))) == 13


BEFORE = "describe_4x_elr_1_created.txt"
STOPPED = "describe_4x_elr_2_broker3_stopped.txt"
BACK = "describe_4x_elr_3_broker3_back.txt"


@pytest.fixture
def real(shared_data):
    """Leaders and ISRs that a file shows."""

    def shown(name):
        return leaders_and_isrs(read(shared_data / "exports" / name))

    return shown


def leaders_and_isrs(state):
    """(topic, partition) to leader and set of in-sync replicas."""
    rows = state.to_tables().partitions.to_pylist()
    return {(r["topic"], r["partition"]): (r["leader"], frozenset(r["isr"])) for r in rows}


@pytest.mark.parametrize("controlled", [False, True], ids=["failure", "controlled shutdown"])
def test_broker_3_stops_and_comes_back(shared_data, real, controlled):
    """Failing it in either way gives the second file, starting it and catching up the third."""
    before = with_controller(read(shared_data / "exports" / BEFORE), "zk-3.9")
    failure = fail_brokers(before, [3], controlled=controlled)
    assert leaders_and_isrs(failure.state) == real(STOPPED)
    controller = Controller(failure.state)
    controller.on_broker_startup([3])
    controller.catch_up([3])
    assert leaders_and_isrs(failure.state) == real(BACK)


def test_broker_3_comes_back_to_the_cluster_that_was_stopped(shared_data, real):
    """The second file shows that broker 3 is down; from there to the third."""
    state = with_controller(read(shared_data / "exports" / STOPPED), "zk-3.9")
    assert state.broker_id[~state.registered].tolist() == [3]
    controller = Controller(state)
    controller.on_controller_failover()
    controller.on_broker_startup([3])
    controller.catch_up([3])
    assert leaders_and_isrs(state) == real(BACK)


def test_the_census_of_the_stopped_cluster_is_what_the_failure_says(shared_data):
    """min.insync.replicas is 2 of 3: every partition is at it once broker 3 has stopped."""
    found = fail_brokers(read(shared_data / "exports" / BEFORE), [3]).impact
    assert found.summary["offline"] == found.summary["under_min_isr"] == 0
    assert found.summary["at_min_isr"] == found.summary["under_replicated"] == 6
    assert found.summary["leaders_moved"] == 2
    assert found.brokers["leaders"].to_pylist() == [3, 3, 0]
