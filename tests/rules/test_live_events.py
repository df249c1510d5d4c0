"""22 events of a live Kafka 3.9.1 cluster: from the state before, kfast comes to that after."""

from __future__ import annotations

from dataclasses import replace

import pytest

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
