"""One real cluster before, during and after a stop of broker 3: the what-if gives what happened."""

from __future__ import annotations

import pytest

from kfast import Controller, read
from kfast.analysis.broker_failure import fail_brokers

pytestmark = pytest.mark.kernels

BEFORE = "describe_4x_elr_1_created.txt"
STOPPED = "describe_4x_elr_2_broker3_stopped.txt"
BACK = "describe_4x_elr_3_broker3_back.txt"


@pytest.fixture
def real(shared_data):
    """Leaders and ISRs that a file shows."""

    def leaders_and_isrs(name):
        return records_of(read(shared_data / "exports" / name))

    return leaders_and_isrs


def records_of(state):
    """(topic, partition) to leader and set of in-sync replicas."""
    rows = state.to_tables().partitions.to_pylist()
    return {(r["topic"], r["partition"]): (r["leader"], frozenset(r["isr"])) for r in rows}


@pytest.mark.parametrize("controlled", [False, True], ids=["failure", "controlled shutdown"])
def test_broker_3_stops_and_comes_back(shared_data, real, controlled):
    """Failing it in either way gives the second file, starting it and catching up the third."""
    failure = fail_brokers(read(shared_data / "exports" / BEFORE), [3], controlled=controlled)
    assert records_of(failure.state) == real(STOPPED)
    controller = Controller(failure.state)
    controller.on_broker_startup([3])
    controller.catch_up([3])
    assert records_of(failure.state) == real(BACK)


def test_broker_3_comes_back_to_the_cluster_that_was_stopped(shared_data, real):
    """The second file shows that broker 3 is down; from there to the third."""
    state = read(shared_data / "exports" / STOPPED)
    assert state.broker_id[~state.registered].tolist() == [3]
    controller = Controller(state)
    controller.on_controller_failover()
    controller.on_broker_startup([3])
    controller.catch_up([3])
    assert records_of(state) == real(BACK)


def test_the_census_of_the_stopped_cluster_is_what_the_failure_says(shared_data):
    """min.insync.replicas is 2 of 3: every partition is at it once broker 3 has stopped."""
    found = fail_brokers(read(shared_data / "exports" / BEFORE), [3]).impact
    assert found.summary["offline"] == found.summary["under_min_isr"] == 0
    assert found.summary["at_min_isr"] == found.summary["under_replicated"] == 6
    assert found.summary["leaders_moved"] == 2
    assert found.brokers["leaders"].to_pylist() == [3, 3, 0]
