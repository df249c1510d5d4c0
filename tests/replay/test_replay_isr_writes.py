"""Replay at INFO: ISRs that leaders wrote and no line announces, where few lines tell of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from kfast.log_replay import Replay, replay
from kfast.log_replay.comparison.facts import REMEMBERED, REPORTED, WRITTEN
from kfast.state import Leadership
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

PROFILES = {"1.1": "zk-1.1", "2.8": "zk-2.7", "3.9": "zk-3.9"}
NOT_SENT = (
    "WARN [RequestSendThread controllerId={id}] Controller {id} epoch {epoch} fails to send "
    "request (type: UpdateMetadataRequest=, controllerId={id}, controllerEpoch={epoch}, "
    "brokerEpoch={broker_epoch}, partitionStates=[UpdateMetadataPartitionState(topicName='t', "
    "partitionIndex=0, controllerEpoch={record.controller_epoch}, leader={record.leader}, "
    "leaderEpoch={record.leader_epoch}, isr={isr}, zkVersion={record.version}, "
    "replicas={replicas}, offlineReplicas=[])], liveBrokers=) to broker b:9092 (id: 2 rack: "
    "null). Reconnecting to broker. (kafka.controller.RequestSendThread)"
)


NOTHING_NEW = (
    "WARN [Broker id={broker}] Ignoring LeaderAndIsr request from controller 1 with correlation id "
    "9 epoch {controller_epoch} for partition t-0 since its associated leader epoch {epoch} is not "
    "higher than the current leader epoch {epoch} (state.change.logger)"
)


class Cluster:
    """Logs at INFO of a cluster of four brokers, of which broker 1 is the controller first."""

    def __init__(self, version: str, assignments: Sequence[Sequence[int]]) -> None:
        self.version = version
        self.logged = LoggedController(read_state(
            "partition  ar  isr  leader  epoch  state", brokers=[1, 2, 3, 4], controller_id=-1,
            leader_recovery_supported=version == "3.9",
        ), version)
        self.logged.fail_over(1)
        self.logged.create_topics({"t": assignments})

    def record(self, number: int = 0) -> Leadership:
        """The record of a partition of t."""
        return self.logged.state.leadership(self.logged.log.row("t", number))

    def write_isr(self, isr: list[int], number: int = 0) -> None:
        """The leader of a partition of t proposes an ISR; at INFO no line names the partition."""
        logged, record = self.logged, self.record(number)
        logged.log.pause()
        logged.log.tell(logged.controller.alter_partition(
            record.leader, logged.controller.registered_epoch(record.leader),
            np.array([logged.log.row("t", number)], np.int32),
            np.array([record.leader_epoch], np.int32), [isr],
            np.array([record.version], np.int32),
        ))

    def ignore(self, epoch: int, brokers: Sequence[int]) -> None:
        """Replicas of t-0 say that they have heard of the leader epoch of a request before."""
        for broker in brokers:
            self.logged.log.write(broker, "state-change", NOTHING_NEW.format(
                broker=broker, epoch=epoch, controller_epoch=self.logged.state.controller_epoch,
            ))

    @contextmanager
    def unlogged(self) -> Iterator[None]:
        """Lose all lines that are written meanwhile."""
        files = self.logged.log.files
        written = {name: len(lines) for name, lines in files.items()}
        yield
        for name, n_lines in written.items():
            del files[name][n_lines:]

    def fail_to_send(self, record: Leadership) -> None:
        """The controller cannot send broker 2 a request with a record of t-0."""
        logged, state = self.logged, self.logged.state
        logged.log.write(int(state.controller_id), "controller", NOT_SENT.format(
            id=state.controller_id, epoch=state.controller_epoch, record=record,
            broker_epoch=logged.controller.registered_epoch(2), isr=list(record.isr),
            replicas=list(logged.log.assignment("t", 0).replicas),
        ))

    def replayed(self, folder: Path) -> Replay:
        """What the replay of its files says."""
        for lines in self.logged.log.files.values():
            lines[:] = [line for line in lines if not re.match(r"\[[^]]*\] (TRACE|DEBUG) ", line)]
        self.logged.log.save(folder)
        return replay(folder, profile=PROFILES[self.version])


def wrong(found: Replay) -> list[tuple[str, str]]:
    """Kinds and subjects of what is contradicted or missing."""
    return [(one.kind, one.subject) for one in found.contradictions]


def test_one_line_tells_a_write_that_the_next_record_confirms(tmp_path):
    """Its leader epoch is still 0 where the controller would have raised it. Seen on 3.4.1."""
    cluster = Cluster("3.9", [[2, 3]])
    cluster.write_isr([2])
    cluster.logged.change_brokers(failed=[3])
    cluster.logged.fail_over(4)
    cluster.logged.change_brokers(failed=[2])
    assert wrong(cluster.replayed(tmp_path)) == []


@pytest.mark.parametrize(("n", "expected"), [(1, [("version", "t-0")]), (2, [])])
def test_two_partitions_confirm_a_write_of_their_leader(n, expected, tmp_path):
    """One version that is two ahead may be damaged, two alike are not. Seen on 3.0.2."""
    cluster = Cluster("2.8", [[2, 3]] * n)
    cluster.logged.change_brokers(failed=[3])
    cluster.logged.change_brokers(started=[3])
    with cluster.unlogged():
        for isr in ([2, 3], [2]):
            for number in range(n):
                cluster.write_isr(isr, number)
    cluster.logged.die(1)
    cluster.logged.fail_over(4)
    cluster.logged.change_brokers(failed=[2])
    cluster.logged.change_brokers(started=[2])
    assert wrong(cluster.replayed(tmp_path)) == expected


def test_a_leader_that_shuts_down_without_a_successor_is_the_last_in_the_isr(tmp_path):
    """Kafka 3.9, Election.scala, `leaderForControlledShutdown`. Seen on 3.4.1."""
    cluster = Cluster("3.9", [[2, 3]])
    cluster.write_isr([2])
    cluster.logged.shut_down(2)
    cluster.logged.change_brokers(failed=[2])
    assert wrong(cluster.replayed(tmp_path)) == []


def test_a_request_that_is_not_sent_has_the_record_of_the_event_that_made_it(tmp_path):
    """It is told of after an event that has raised the leader epoch. Seen on 2.6.3."""
    cluster = Cluster("2.8", [[2, 3, 4]])
    with cluster.unlogged():
        cluster.write_isr([2, 3])
        cluster.write_isr([2, 3, 4])
    before = cluster.record()
    cluster.logged.fail_over(3)
    cluster.logged.change_brokers(failed=[4])
    cluster.fail_to_send(before)
    cluster.logged.fail_over(1)
    cluster.logged.change_brokers(failed=[2])
    assert wrong(cluster.replayed(tmp_path)) == []


def test_a_request_that_is_not_sent_names_what_a_leader_changed(tmp_path):
    """The controller says of how many partitions it tells only. Seen on 3.4.1."""
    cluster = Cluster("3.9", [[2, 3], [2, 3]])
    cluster.write_isr([2])
    cluster.fail_to_send(cluster.record())
    found = cluster.replayed(tmp_path)
    assert wrong(found) == []
    adopted = [row for row in found.facts.to_pylist() if row["reason"] == REPORTED]
    assert [(row["subject"], row["kind"], row["logged"]) for row in adopted] == [
        ("t-0", "isr", "[2]"), ("t-0", "version", "1")
    ]


@pytest.mark.parametrize("version", ["1.1", "2.8", "3.9"])
def test_a_request_that_is_not_sent_may_be_from_before_the_log(version, tmp_path):
    """Seen on 2.1.1."""
    cluster = Cluster(version, [[2, 3, 4]])
    for lines in cluster.logged.log.files.values():
        lines.clear()
    cluster.fail_to_send(cluster.record())
    cluster.logged.change_brokers(failed=[4])
    found = cluster.replayed(tmp_path)
    assert wrong(found) == []
    assert ("t-0", "isr", REMEMBERED) in {
        (row["subject"], row["kind"], row["reason"]) for row in found.facts.to_pylist()
    }


@pytest.mark.parametrize(("brokers", "expected", "is_adopted"), [
    ([2, 3], [], True), ([2], [("leader epoch", "t-0")], False),
])
def test_who_is_gone_may_have_left_the_isr_before(brokers, expected, is_adopted, tmp_path):
    """Up to 2.1 the others are asked all the same, and say so where no epoch was raised.

    A removal raises it, so one line is denied by the event; two are believed. Seen on 1.1.1.
    """
    cluster = Cluster("1.1", [[2, 3, 4]])
    cluster.logged.change_brokers(failed=[4])
    cluster.ignore(0, brokers)
    outcome = cluster.replayed(tmp_path)
    assert wrong(outcome) == expected
    reasons = {row["reason"] for row in outcome.facts.to_pylist() if row["verdict"] == "adopted"}
    assert (WRITTEN in reasons) == is_adopted
