"""Logs whose controller.log is at INFO, the usual setting: what it leaves out is inferred.

What can neither be inferred nor judged is unknown.
"""

from __future__ import annotations

import gzip
import re
import tarfile
from pathlib import Path
from random import Random

import numpy as np
import pytest

import kfast
from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import BELOW_LEVEL, UNASSIGNED, WRITTEN
from kfast.log_replay.histories import exploration, stretches
from tests.replay.test_replay_random import tell_at_random
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

BELOW = re.compile(r"\[[^\]]*\] (?:TRACE|DEBUG) ")
BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     2,3  2,3  2       2      ONLINE
"""


def at_info(logged: LoggedController, folder: Path) -> Path:
    """Write a controller's files without what controller.log has below INFO."""
    for name, lines in logged.log.files.items():
        if name.endswith("/controller.log"):
            lines[:] = [line for line in lines if not BELOW.match(line)]
    logged.log.save(folder)
    return folder


def all_at_info(logged: LoggedController, folder: Path) -> Path:
    """Write all that controllers and brokers write at INFO, the level of newer releases."""
    for lines in logged.log.files.values():
        lines[:] = [line for line in lines if not BELOW.match(line)]
    logged.log.save(folder)
    return folder


def brokers_come_and_go(version: str, seed: int) -> LoggedController:
    """Brokers fail and come back, their replicas catch up, leaders are balanced."""
    draw = Random(seed)
    state = read_state(
        BEFORE, brokers=[1, 2, 3, 4], controller_id=-1, leader_recovery_supported=version == "3.9"
    )
    logged = LoggedController(state, version)
    logged.fail_over(1)
    for topic in range(3):
        logged.create_topics({f"t{topic}": [draw.sample([1, 2, 3, 4], 3) for _ in range(4)]})
    for _ in range(5):
        broker = draw.choice([2, 3, 4])
        logged.change_brokers(failed=[broker])
        logged.change_brokers(started=[broker])
        logged.catch_up([broker])
        if draw.random() < 0.6:
            logged.rebalance()
    logged.shut_down(3)
    logged.change_brokers(failed=[3])
    return logged


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("version", ["2.0", "2.4", "2.8", "3.9"])
def test_isr_changes_below_the_level_are_inferred(version, seed, tmp_path):
    """Up to 2.6 the notification is at DEBUG; the UpdateMetadata lines that follow tell the ISRs.

    They stand right after those of another event, so a pause or a newer record divides the two.
    """
    outcome = replay(at_info(brokers_come_and_go(version, seed), tmp_path))
    assert outcome.counts["contradicted"] == 0
    assert outcome.counts["missing"] == 0
    assert outcome.counts["predicted"] > 1000
    assert outcome.adopted_share < 0.06


def a_cluster_from_before(version: str, seed: int) -> LoggedController:
    """Brokers of a cluster come and go whose topics were made before the log begins."""
    draw = Random(seed)
    state = kfast.generate(
        brokers=7, partitions=40, replication_factor=3, seed=seed, controller=f"zk-{version}"
    )
    logged = LoggedController(state, version, trace=False)
    logged.fail_over(0)
    for _ in range(4):
        broker = draw.choice(range(1, 7))
        if draw.random() < 0.3:
            logged.shut_down(broker)
        logged.change_brokers(failed=[broker])
        logged.change_brokers(started=[broker])
        logged.catch_up([broker])
        if draw.random() < 0.6:
            logged.rebalance()
        if draw.random() < 0.3:
            logged.fail_over(0)
    return logged


@pytest.mark.parametrize("seed", [2, 4])
@pytest.mark.parametrize("version", ["1.1", "2.0", "2.8", "3.9"])
def test_who_led_before_the_log_stays_open_until_a_line_tells(version, seed, tmp_path):
    """No line names the assignments; that an election is not logged tells who led."""
    profile = "zk-2.7" if version == "2.8" else f"zk-{version}"
    found = replay(at_info(a_cluster_from_before(version, seed), tmp_path), profile=profile)
    assert found.counts["contradicted"] == 0
    assert found.counts["missing"] == 0
    assert found.counts["predicted"] > 3 * (found.counts["adopted"] + found.counts["unknown"])


@pytest.mark.parametrize("version", ["1.1", "2.4"])
def test_isrs_that_only_the_requests_name_are_all_live_replicas_or_unknown(version, tmp_path):
    """Up to 2.6 controller.log names the partitions at DEBUG; what leaders wrote, it does not."""
    logged = a_cluster_from_before(version, 2)
    logged.log.save(tmp_path)
    found = replay(tmp_path, profile=f"zk-{version}")
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 560


NOTHING_YET = "partition  ar  isr  leader  epoch  state"
CACHED = ("INFO [Broker id=2] Add {n} partitions and deleted 0 partitions from metadata cache in "
          "response to UpdateMetadata request sent by controller 1 epoch {epoch} with correlation "
          "id 99 (state.change.logger)")
HALTED = ("INFO [Topic Deletion Manager 1] Halted deletion of topics a due to replica deletion "
          "failure (kafka.controller.TopicDeletionManager)")


def without_requests(logged: LoggedController, folder: Path) -> Path:
    """Write them at INFO, and without what controllers write into state-change.log."""
    for name, lines in logged.log.files.items():
        if name.endswith("/state-change.log"):
            lines[:] = [line for line in lines if "[Controller id=" not in line]
    return at_info(logged, folder)


def changed_isrs(version: str) -> LoggedController:
    """A replica catches up, and broker 2 is told; nothing else of the controller is logged."""
    state = read_state(NOTHING_YET, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[2, 3, 4], [3, 2, 4], [4, 2, 3]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    for _ in range(4):  # The requests of what came before are long over.
        logged.log.pause()
    logged.log.write(2, "state-change", CACHED.format(n=2, epoch=logged.state.controller_epoch))
    return logged


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_requests_of_hidden_isr_changes_are_unknown(version, tmp_path):
    """AlterPartition is at DEBUG, and the request that follows in a file that is not there."""
    found = replay(without_requests(changed_isrs(version), tmp_path))
    assert found.counts["contradicted"] == 0
    assert found.unknown_reasons[BELOW_LEVEL] == 1


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_where_the_controllers_requests_are_logged_another_one_is_contradicted(version, tmp_path):
    """Its state-change.log is there, and does not have it."""
    found = replay(at_info(changed_isrs(version), tmp_path))
    assert "partitions in UpdateMetadata" in {c.kind for c in found.contradictions}
    assert BELOW_LEVEL not in found.unknown_reasons


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_balancing_reads_isrs_before_its_elections(version, tmp_path):
    """An ISR that a check for imbalance needs was written before the check, not during it."""
    state = read_state(NOTHING_YET, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[3, 2], [3, 4], [3, 2]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.catch_up([3])
    logged.rebalance()
    found = replay(without_requests(logged, tmp_path))
    assert found.counts["contradicted"] == 0


def change_isr(logged: LoggedController, name: str, isr: list[int]) -> None:
    """A partition's leader proposes an ISR; below INFO the log says of which partition."""
    state = logged.state
    row = logged.log.row(name.rpartition("-")[0], int(name.rpartition("-")[2]))
    record = state.leadership(row)
    place = state.broker_id.tolist().index(record.leader)
    rows = np.array([row], np.int32)
    logged.log.pause()
    logged.log.tell(logged.controller.alter_partition(
        record.leader, int(state.broker_epoch[place]), rows,
        np.array([record.leader_epoch], np.int32), [isr], np.array([record.version], np.int32),
    ))


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_who_did_not_change_an_isr_is_told_by_later_records(version, tmp_path):
    """As many changes as there are partitions with a replica that is back: of one of them, two.

    Seen on 2.8.2 and 3.9.1: a replica that catches up and is stopped again.
    """
    state = read_state(NOTHING_YET, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[2, 3], [2, 3]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    change_isr(logged, "t-0", [2, 3])
    change_isr(logged, "t-0", [2])
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.change_brokers(failed=[2])
    found = replay(at_info(logged, tmp_path))
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_one_value_tells_of_which_partition_an_isr_change_was_that_was_announced(version, tmp_path):
    """A broker that fails is out of the ISR before: its leader epoch does not rise. Seen on 2.8.2.

    The same change could be of no other partition, and of no other time.
    """
    state = read_state(NOTHING_YET, brokers=[1, 2, 3], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[2, 3], [2, 3]]})
    change_isr(logged, "t-0", [2])
    logged.change_brokers(failed=[3])
    found = replay(all_at_info(logged, tmp_path), profile=f"zk-{version}")
    assert [str(one) for one in found.contradictions] == []
    assert found.reasons[WRITTEN] > 0


def test_what_a_follower_says_of_its_request_names_the_version(tmp_path):
    """It may have got an earlier one of the same leader epoch and failed. Seen on 3.6.2."""
    state = read_state(NOTHING_YET, brokers=[1, 2], controller_id=-1,
                       leader_recovery_supported=True)
    logged = LoggedController(state, "3.9")
    logged.fail_over(1)
    logged.create_topics({"t": [[1, 2]]})
    change_isr(logged, "t-0", [1])
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.log.write(2, "state-change", "INFO [Broker id=2] Follower t-0 starts at leader epoch 0 "
                     "from offset 0 with partition epoch 1 and high watermark 0. Current leader is "
                     "1. Previous leader Some(1) and previous leader epoch was 0. "
                     "(state.change.logger)")
    found = replay(all_at_info(logged, tmp_path), profile="zk-3.9")
    assert [str(one) for one in found.contradictions] == []


def test_the_last_broker_is_told_of_isr_changes_too(tmp_path):
    """What it is told of after the others are gone need not be of their failure. Seen on 2.8.2."""
    state = read_state(NOTHING_YET, brokers=[1, 2], controller_id=-1)
    logged = LoggedController(state, "2.8")
    logged.fail_over(1)
    logged.create_topics({"t": [[1, 2]]})
    change_isr(logged, "t-0", [1])
    logged.change_brokers(failed=[2])
    logged.log.write(1, "state-change", f"INFO [Controller id=1 epoch={state.controller_epoch}] "
                     "Sending UpdateMetadata request to brokers HashSet(1) for 1 partitions "
                     "(state.change.logger)")
    found = replay(all_at_info(logged, tmp_path), profile="zk-2.8")
    assert [str(one) for one in found.contradictions] == []


def test_a_reassignment_that_goes_on_when_a_broker_is_back_ends_only_once(tmp_path):
    """At INFO a line tells its end, and none that it began. Seen on 3.7.2."""
    state = read_state("""
        partition  ar  isr  leader  epoch  state
        t-0        1   1    1       4      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1, unclean={"t": True},
        leader_recovery_supported=True)
    state.remove_live_brokers([3])
    logged = LoggedController(state, "3.9")
    logged.fail_over(1)
    logged.reassign("t", 0, [3])
    logged.die(1)
    logged.fail_over(2)
    logged.log.write(2, "state-change", f"INFO [Controller id=2 epoch={state.controller_epoch}] "
                     "Sent LeaderAndIsr request (Leader:-1,ISR:1,LeaderRecoveryState:RECOVERED,"
                     "LeaderEpoch:7,ZkVersion:7,ControllerEpoch:5) with new replica assignment "
                     "ReplicaAssignment(replicas=3,1, addingReplicas=3, removingReplicas=1) to "
                     "leader -1 for partition being reassigned t-0 (state.change.logger)")
    logged.change_brokers(started=[3])
    record, files = state.leadership(0), logged.log.files
    raised, *_, stored = [line[:26] for line in files["broker-2/state-change.log"]
                          if "Sending" in line][-6:-1]
    prefix, lists = "INFO [Controller id=2]", "replicas=3, addingReplicas=, removingReplicas="
    messages = (
        f"{raised}{prefix} Leader 3 for partition t-0 being reassigned, is already in the new list "
        f"of replicas 3 and is alive\n"
        f"{raised}{prefix} Updated leader epoch for partition t-0 to {record.leader_epoch}, "
        f"zkVersion={record.version}\n"
        f"{stored}{prefix} Successfully updated assignment of partition t-0 to "
        f"ReplicaAssignment({lists})"
    ).split("\n")
    files["broker-2/controller.log"][-1:-1] = [
        f"{message} (kafka.controller.KafkaController)" for message in messages
    ]
    found = replay(all_at_info(logged, tmp_path), profile="zk-3.9")
    assert [str(one) for one in found.contradictions] == []
    assert found.timeline["what"].to_pylist().count("t-0 is reassigned to 3") == 1


def test_a_failed_deletion_is_told_by_its_transitions(tmp_path):
    """Kafka, TopicDeletionManager.scala, `failReplicaDeletion`: the answer itself is at DEBUG."""
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1)
    logged = LoggedController(state, "2.4")
    logged.fail_over(1)
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    logged.delete(["a"])
    logged.refuse("a", 2)
    logged.log.write(1, "controller", HALTED)
    found = replay(at_info(logged, tmp_path))
    assert found.counts["contradicted"] == 0
    assert "brokers failed to delete replicas" in found.timeline["what"].to_pylist()


def test_replicas_that_are_dead_when_their_deletion_starts_are_no_answer(tmp_path):
    """Up to 2.1 lines say that they fail: of brokers that are gone. Seen on 1.1.1.

    Kafka 1.1, TopicDeletionManager.scala, `startReplicaDeletion`.
    """
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1)
    logged = LoggedController(state, "1.1")
    logged.fail_over(1)
    logged.create_topics({"a": [[2, 3, 4], [3, 4, 2]]})
    logged.change_brokers(failed=[4])
    logged.delete(["a"])
    logged.acknowledge(["a"])
    logged.change_brokers(started=[4])
    outcome = replay(at_info(logged, tmp_path), profile="zk-1.1")
    assert [str(one) for one in outcome.contradictions] == []
    failed = [row for row in outcome.facts.to_pylist() if row["logged"].endswith(" fails")]
    assert [(row["subject"], row["verdict"]) for row in failed] == [
        ("a-0", "predicted"), ("a-1", "predicted")
    ]


def test_what_ends_a_deletion_is_no_answer_of_a_broker(tmp_path):
    """The line that deletions go on is written in the millisecond of the next answer.

    Kafka, TopicDeletionManager.scala, `resumeDeletions`: an answer comes before it, and after the
    deletion that was complete before. Seen on 3.7.2.
    """
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1)
    logged = LoggedController(state, "3.9")
    logged.fail_over(1)
    logged.create_topics({"a": [[1, 2]], "b": [[3, 4]]})
    logged.delete(["a", "b"])
    logged.acknowledge(["a", "b"])
    files = logged.log.files
    first, second, _, third, fourth, _ = [
        line[:26] for line in files["broker-1/state-change.log"] if "for 0 partitions" in line
    ][-6:]
    lines = [line for line in files["broker-1/controller.log"] if not BELOW.match(line)]
    *before, one, two, three, four, done, last = lines
    files["broker-1/controller.log"] = [
        *before, first + one[26:], second + two[26:], third[:-3] + "4] " + done[26:],
        third + three[26:], fourth + four[26:], last,
    ]
    found = replay(all_at_info(logged, tmp_path), profile="zk-3.9")
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_the_line_that_deletions_go_on_tells_that_a_broker_has_answered(version, tmp_path):
    """Kafka, TopicDeletionManager.scala, `resumeDeletions`; answers are at DEBUG, states at TRACE.

    Topic a waits for broker 3, and is named again when b is to be deleted too.
    """
    state = read_state(NOTHING_YET, brokers=[1, 2, 3], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"a": [[1, 2, 3]], "b": [[2, 1]]})
    logged.change_brokers(failed=[3])
    logged.delete(["a"])
    logged.acknowledge(["a"])
    logged.delete(["b", "a"])
    logged.acknowledge(["b", "a"])
    found = replay(all_at_info(logged, tmp_path), profile=f"zk-{version}")
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0
    assert found.timeline["what"].to_pylist().count("brokers deleted replicas") > 2


def without_its_requests(logged: LoggedController, folder: Path) -> Path:
    """Write all but state-change.log of broker 1, the controller; controller.log is at INFO."""
    logged.log.files.pop("broker-1/state-change.log", None)
    return at_info(logged, folder)


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_automatic_balancing_elects_where_others_led(version, tmp_path):
    """Brokers' lines name who led up to 2.7; later ones not even who the replicas are."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        calm-0     2,3  3,2  3       4      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1, leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.rebalance()
    found = replay(without_its_requests(logged, tmp_path), profile=version)
    assert found.counts["contradicted"] == 0
    facts = {row["kind"]: row["verdict"] for row in found.facts.to_pylist()}
    named = not logged.log.words.since("2.8")
    assert facts["led by its preferred replica"] == ("predicted" if named else "unknown")


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_an_election_after_a_hidden_isr_change_is_unknown(version, tmp_path):
    """Broker 3 led t-0 until broker 2 was back in its ISR, which no line says."""
    state = read_state(NOTHING_YET, brokers=[1, 2, 3], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[2, 3]]})
    for broker in (3, 2):
        logged.change_brokers(failed=[broker])
        logged.change_brokers(started=[broker])
        logged.catch_up([broker])
    logged.rebalance()
    found = replay(without_its_requests(logged, tmp_path), profile=version)
    assert found.counts["contradicted"] == 0
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_topics_that_no_line_names_a_partition_of_are_unknown(version, tmp_path):
    """What a new controller and the brokers say of them and of their number."""
    state = read_state(BEFORE, brokers=[1, 2, 3], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[2, 3]]})
    found = replay(without_its_requests(logged, tmp_path), profile=version)
    assert found.counts["contradicted"] == 0
    listed = [row for row in found.facts.to_pylist() if row["kind"] == "topics"]
    told = logged.log.words.since("2.8")  # Before, brokers name each partition that they cache.
    assert [row["reason"] for row in listed] == ([UNASSIGNED] if told else [""])


IGNORES = ("INFO [Broker id=2] Ignoring LeaderAndIsr request from controller 1 with correlation id "
           "{n} epoch {epoch} for partition {name}-0 since its associated leader epoch 2 matches "
           "the current leader epoch (state.change.logger)")


def test_a_broker_that_ignores_a_request_hosts_the_partition(tmp_path):
    """No other line names calm-0; its preferred replica is the one that is elected."""
    state = read_state("""
        partition  ar     isr    leader  epoch  state
        calm-0     3,2,1  2,1,3  2       2      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.8")
    logged.fail_over(1)
    logged.log.write(2, "state-change", IGNORES.format(
        n=1, epoch=logged.state.controller_epoch, name="calm"))
    logged.rebalance()
    found = replay(at_info(logged, tmp_path))
    assert found.counts["contradicted"] == 0
    assert "calm-0" in found.facts.column("subject").to_pylist()


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
@pytest.mark.parametrize("trace", [False, True])
def test_an_answer_may_restart_a_deletion(version, trace, tmp_path):
    """Kafka, TopicDeletionManager.scala, `resumeDeletions`: with broker 2, which was dead.

    What it starts again is the answer's, though the request was another event's.
    """
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version, trace=trace)
    logged.fail_over(1)
    logged.create_topics({"a": [[2, 3], [3, 2]]})
    logged.change_brokers(failed=[2])
    logged.delete(["a"])
    logged.change_brokers(started=[2])
    logged.acknowledge(["a"])  # Of broker 3: only now is the deletion started on broker 2.
    assert "a" in logged.log.topics()
    logged.acknowledge(["a"])
    assert "a" not in logged.log.topics()
    found = replay(at_info(logged, tmp_path), profile=version)
    assert [str(one) for one in found.contradictions] == []


def test_a_deletion_that_a_line_says_to_be_complete_had_all_its_answers(tmp_path):
    """Also those of brokers that were asked only when the others had answered. Seen on 2.5.1."""
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1)
    logged = LoggedController(state, "2.4")
    logged.fail_over(1)
    logged.create_topics({"a": [[2, 3], [3, 2]]})
    logged.change_brokers(failed=[2])
    logged.delete(["a"])
    logged.change_brokers(started=[2])
    logged.acknowledge(["a"])
    logged.acknowledge(["a"])
    logged.fail_over(3)
    found = replay(all_at_info(logged, tmp_path), profile="zk-2.4")
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_topic_that_is_created_again_while_no_controller_is_there(version, tmp_path):
    """No line names its replicas: its first ISR has those that are live. Seen on 3.4.1."""
    again = """
    again-0    3,2  -    -       -      -
    """
    state, later = (
        read_state(text, brokers=[1, 2, 3], controller_id=-1,
                   leader_recovery_supported=version == "3.9")
        for text in (BEFORE, BEFORE.rstrip() + again)
    )
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"again": [[1, 2]]})
    logged.delete(["again"])
    logged.acknowledge(["again"])
    later.controller_epoch = later.epoch_store_version = state.controller_epoch
    following = LoggedController(later, version)
    following.log.files, following.log.time_ms = logged.log.files, logged.log.time_ms
    following.fail_over(2)
    following.change_brokers(failed=[3])
    found = replay(all_at_info(following, tmp_path), profile=f"zk-{version}")
    assert [str(one) for one in found.contradictions] == []


def cut_to_info(source: Path, folder: Path) -> Path:
    """Write a folder's files, and of controller.log what is at INFO or above."""
    for file in source.rglob("*"):
        if not file.is_file():
            continue
        packed = file.suffix == ".gz"
        text = (gzip.decompress(file.read_bytes()) if packed else file.read_bytes()).decode()
        target = folder / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if "controller" in file.name:
            text = "".join(line for line in text.splitlines(keepends=True) if not BELOW.match(line))
        (target.with_suffix("") if packed else target).write_text(text)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("log", "n_predicted", "n_contradicted"), [
    ("zk-2.2-topics-gone-in-a-hole", 26_000, 0), ("zk-2.5-deletions-fail", 45_400, 0),
    ("zk-2.7-failover-while-deleting", 560, 0), ("zk-2.7-stop-replica-ignored", 8_700, 0),
    ("zk-2.8-two-brokers", 7_800, 0), ("zk-3.0-three-brokers", 2_190, 0),
    ("zk-3.1-topics-come-and-go", 4_500, 0), ("zk-3.5-topics-made-again", 7_100, 0),
])
def test_real_logs_cut_to_info(log, n_predicted, n_contradicted, shared_data, tmp_path):
    """What their controller.log has below INFO is left out."""
    source = shared_data / "controller_logs" / log
    if not source.is_dir():
        pytest.skip(f"the real logs are not there ({source})")
    counts = replay(cut_to_info(source, tmp_path)).counts
    assert counts["predicted"] >= n_predicted
    assert (counts["contradicted"], counts["missing"]) == (n_contradicted, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [
    (r"Add 5 partitions", "Add 4 partitions"), (r"leaderEpoch=9\b", "leaderEpoch=8"),
    (r"(Follower management-3 starts at leader epoch) 9", r"\1 8"),
])
def test_a_changed_value_is_contradicted_at_info(old, new, shared_data, tmp_path):
    """What a level hides excuses no line whose value is predicted."""
    source = shared_data / "controller_logs" / "zk-3.0-three-brokers"
    if not source.is_dir():
        pytest.skip(f"the real logs are not there ({source})")
    folder = cut_to_info(source, tmp_path)
    before = replay(folder).counts["contradicted"]
    for file in sorted(folder.rglob("*log*")):
        text, n = re.subn(old, new, file.read_text(), count=1)
        if n:
            file.write_text(text)
            break
    assert replay(folder).counts["contradicted"] > before


def traced_below_info(logged: LoggedController, folder: Path) -> Path:
    """Write all files without what they have below INFO."""
    for lines in logged.log.files.values():
        lines[:] = [line for line in lines if not BELOW.match(line)]
    logged.log.save(folder)
    return folder


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_the_first_isr_tells_the_order_of_an_assignment(version, tmp_path):
    """A topic is made while no controller is there: no line at INFO names its replicas.

    Kafka 3.9, PartitionStateMachine.scala, `initializeLeaderAndIsrForPartitions`: all live
    replicas in the order of the assignment. Seen on 2.6.3 and 3.2.3.
    """
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        new-0      2,1,3  -    -       -      -
        new-1      3,2,1  -    -       -      -
    """, brokers=[1, 2, 3], controller_id=-1, leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.change_brokers(failed=[2])
    found = replay(traced_below_info(logged, tmp_path))
    assert [str(one) for one in found.contradictions] == []
    leaders = [row for row in found.facts.to_pylist() if row["kind"] == "leader"]
    assert {row["logged"] for row in leaders if row["subject"] == "new-0"} == {"2", "1"}


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_isr_changes_while_a_topic_is_being_deleted_are_no_part_of_it(version, tmp_path):
    """A deletion announces its partitions once, right after the line that it starts.

    Kafka 3.9, TopicDeletionManager.scala, `onTopicDeletion`. Seen on 3.4.1.
    """
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"a": [[4, 1]], "t": [[2, 3], [3, 2]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.delete(["a"])
    logged.catch_up([3])
    found = replay(traced_below_info(logged, tmp_path))
    assert [str(one) for one in found.contradictions] == []
    assert "leaders change 3 ISRs (not named)" in found.timeline["what"].to_pylist()


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_a_reassignment_that_is_called_off_is_told_by_what_is_stored(version, tmp_path):
    """At INFO no line announces it: the assignment is stored as it was before it began.

    Kafka 3.9, KafkaController.scala, `updateCurrentReassignment`.
    """
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.create_topics({"t": [[3]]})
    logged.reassign("t", 0, [1, 3])
    logged.cancel("t", 0)
    found = replay(at_info(logged, tmp_path), profile=version)
    assert [str(one) for one in found.contradictions] == []
    assert found.timeline["what"].to_pylist()[-1] == "t-0 is reassigned to 3"


def creation(logged: LoggedController) -> None:
    """New replicas come online: everybody has been told of them."""
    logged.create_topics({"t": [[1, 4], [4, 1]]})


def refused_deletion(logged: LoggedController) -> None:
    """Replicas of a topic that cannot be deleted yet go offline, and nobody is asked anything."""
    logged.delete(["t"])
    logged.refuse("t", 4)
    logged.acknowledge(["t"])


def completed_reassignment(logged: LoggedController) -> None:
    """Replicas are dropped, and the new assignment is announced."""
    logged.reassign("t", 0, [2, 1])
    logged.catch_up([2, 3], reassigned=(("t", 0), [2, 1]))


def waiting_reassignment(logged: LoggedController) -> None:
    """It waits for a replica, and nothing is announced before its end."""
    logged.reassign("t", 0, [2, 1])


@pytest.mark.parametrize("last", [
    creation, refused_deletion, completed_reassignment, waiting_reassignment,
])
@pytest.mark.parametrize("version", ["2.0", "2.4"])
def test_isr_changes_are_told_apart_from_what_an_event_announces(version, last, tmp_path):
    """Up to 2.6 only UpdateMetadata lines tell of them; they follow those of any other event."""
    logged = LoggedController(read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1), version)
    logged.fail_over(1)
    if last is not creation:
        logged.create_topics({"t": [[1, 4]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    last(logged)
    logged.catch_up([3])
    found = replay(at_info(logged, tmp_path), profile=f"zk-{version}")
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_a_reassignment_tells_what_was_assigned_before_the_log(version, tmp_path):
    """All but the replicas that it adds, where nothing named the partition before."""
    state = read_state(BEFORE, brokers=[1, 2, 3, 4], controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(1)
    logged.reassign("calm", 0, [1, 4])
    logged.change_brokers(bounced=[4])
    logged.catch_up([1, 4], reassigned=(("calm", 0), [1, 4]))
    logged.change_brokers(failed=[4])
    found = replay(at_info(logged, tmp_path))
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_an_unlogged_isr_and_who_led_before_the_log_are_found_together(version, tmp_path):
    """The record with which fewest lines are wrong is another one before the write is known."""
    found = replay(at_info(tell_at_random(version, Random(214)), tmp_path))
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


def deletion_is_refused(version: str, by: int) -> LoggedController:
    """One of three brokers does not delete its replicas of a topic, two others do."""
    state = read_state(
        BEFORE, brokers=[1, 2, 3, 4], controller_id=-1, leader_recovery_supported=version == "3.9"
    )
    logged = LoggedController(state, version)
    logged.fail_over(4)
    logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1]]})
    logged.delete(["wide"])
    logged.refuse("wide", by)
    logged.acknowledge(["wide"])
    return logged


def assert_deletion_is_judged(logged: LoggedController, folder: Path) -> None:
    """Nothing is contradicted or missing, and no fact about the deleted topic is left open."""
    found = replay(at_info(logged, folder))
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0
    judged = {
        fact["verdict"] for fact in found.facts.to_pylist() if fact["subject"].startswith("wide")
    }
    assert judged - {"adopted"} == {"predicted"}


@pytest.mark.parametrize("by", [1, 2, 3])
@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_who_refused_a_deletion_is_asked_to_stop_once_more(version, by, tmp_path):
    """A line says that the deletion halts, none who caused it."""
    logged = deletion_is_refused(version, by)
    logged.change_brokers(failed=[by])
    logged.change_brokers(started=[by])
    logged.acknowledge(["wide"])
    assert_deletion_is_judged(logged, tmp_path)


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_deletions_that_a_new_controller_finds_are_answered(version, tmp_path):
    """No line asks for them in its term: it reads that they are to be done."""
    logged = deletion_is_refused(version, 2)
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.acknowledge(["wide"])
    assert_deletion_is_judged(logged, tmp_path)


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_what_follows_a_bounce_after_a_pause_is_an_answer(version, tmp_path):
    """Right after it, to tell nobody anything would be a part of the bounce."""
    logged = deletion_is_refused(version, 3)
    logged.change_brokers(bounced=[3])
    logged.acknowledge(["wide"])
    assert_deletion_is_judged(logged, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
@pytest.mark.parametrize("seed", range(200, 230))
def test_random_events_are_predicted_at_info(version, seed, tmp_path):
    """Deletions among them that a broker refuses."""
    found = replay(at_info(tell_at_random(version, Random(seed)), tmp_path))
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


LIVE = sorted((Path(__file__).parents[1] / "support/data/live_logs").glob("*.tar.gz"))


@pytest.mark.slow
@pytest.mark.parametrize("packed", LIVE, ids=lambda path: path.name.removesuffix(".tar.gz"))
def test_logs_of_live_clusters_are_predicted(packed, tmp_path):
    """Real brokers that were killed, paused and shut down, at the levels of their releases."""
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["predicted"] > 2000
    assert found.counts["unknown"] < 60


def test_the_live_clusters_are_there():
    """Without them the test above would compare nothing."""
    assert len(LIVE) == 9


@pytest.mark.parametrize("changed", [False, True], ids=["as written", "a line changed"])
def test_what_is_left_behind_early_would_not_have_won(changed, tmp_path, monkeypatch):
    """Lines need no comparing with a possibility that so many others have disagreed with."""
    folder = at_info(a_cluster_from_before("3.9", 3), tmp_path)
    if changed:
        log = folder / "broker-0" / "state-change.log"
        begin = "state changed to (Leader:"
        log.write_text(log.read_text().replace(f"{begin}3,", f"{begin}2,", 1))
    answers = []
    for few, far in ((10**9, 3), (256, 3), (8, 0)):
        monkeypatch.setattr(stretches, "FAR", far)
        for module in (stretches, exploration):
            monkeypatch.setattr(module, "FEW_LINES", few)
        found = replay(folder, profile="zk-3.9")
        answers.append((found.counts, found.facts.to_pylist(), found.timeline.to_pylist()))
    assert all(answer == answers[0] for answer in answers)
    assert bool(answers[0][0]["contradicted"]) == changed


def hidden_isr(version: str) -> LoggedController:
    """Brokers of a log without requests: one comes back into an ISR, and no line says so."""
    logged = LoggedController(
        read_state(NOTHING_YET, brokers=[1, 2, 3, 4, 5], controller_id=-1), version
    )
    logged.fail_over(5)
    logged.change_brokers(failed=[1])
    logged.create_topics({"t": [[3, 1, 2]], "lost": [[4]]})
    logged.change_brokers(failed=[4])
    logged.change_brokers(started=[1])
    logged.catch_up([1])
    return logged


@pytest.mark.parametrize("version", ["2.0", "2.4"])
def test_an_election_fails_for_certain_where_no_live_replica_may_be_in_the_isr(version, tmp_path):
    """What a leader wrote is below INFO, so a failure that is not logged need not be missing."""
    logged = hidden_isr(version)
    logged.change_brokers(failed=[2])
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[2])
    folder = traced_below_info(logged, tmp_path)
    found = replay(folder, profile=f"zk-{version}")
    assert (found.counts["contradicted"], found.counts["missing"]) == (0, 0)
    file = folder / "broker-5" / "state-change.log"
    lines = file.read_text().splitlines(keepends=True)
    failed = [at for at, line in enumerate(lines) if "partition lost-0 from Offline" in line]
    del lines[failed[1]]
    file.write_text("".join(lines))
    assert replay(folder, profile=f"zk-{version}").counts["missing"] == 1


def test_an_election_that_no_line_states_gives_away_who_was_in_the_isr(tmp_path):
    """Without one the partition has no leader, and its epoch rises once more when it is back."""
    logged = hidden_isr("2.4")
    logged.change_brokers(failed=[2])
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    for target in ([3, 1, 2, 4], [3, 2, 1, 4], [3, 1, 2, 4]):
        logged.reassign("t", 0, target)
    found = replay(traced_below_info(logged, tmp_path), profile="zk-2.4")
    assert [str(one) for one in found.contradictions] == []
    facts = [row for row in found.facts.to_pylist() if row["subject"] == "t-0"]
    epochs = [row for row in facts if row["kind"] == "leader epoch"]
    assert [row["verdict"] for row in epochs] == ["predicted"] * len(epochs)


COULD_NOT_SEND = (
    "WARN [RequestSendThread controllerId=5] Controller 5 epoch 4 fails to send request "
    "(type: UpdateMetadataRequest=, controllerId=5, controllerEpoch=4, brokerEpoch={epoch}, "
    "partitionStates=[UpdateMetadataPartitionState(topicName='b', partitionIndex=0, "
    "controllerEpoch=4, leader=3, leaderEpoch=1, isr=[3, 1], zkVersion=2, replicas=[2, 3, 1], "
    "offlineReplicas=[2])], liveBrokers=) to broker b:9092 (id: 2 rack: null). Reconnecting to "
    "broker. (kafka.controller.RequestSendThread)"
)


def test_a_request_that_could_not_be_sent_tells_an_unlogged_isr(tmp_path):
    """It has the record; the shutdown wrote none, and a preferred election may fail up to 2.5.

    Kafka 2.5, KafkaController.scala, `checkAndTriggerAutoLeaderRebalance`. Seen on 2.5.1.
    """
    logged = LoggedController(
        read_state(NOTHING_YET, brokers=[1, 2, 3, 4, 5], controller_id=-1), "2.4"
    )
    logged.fail_over(5)
    logged.change_brokers(failed=[1])
    logged.create_topics({"b": [[2, 3, 1]]})
    logged.change_brokers(started=[1])
    logged.catch_up([1])
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.shut_down(2)
    logged.log.write(5, "controller", COULD_NOT_SEND.format(
        epoch=logged.controller.registered_epoch(2)
    ))
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.rebalance()
    found = replay(traced_below_info(logged, tmp_path), profile="zk-2.4")
    assert [str(one) for one in found.contradictions] == []
    facts = {row["kind"]: row for row in found.facts.to_pylist() if row["subject"] == "b-0"}
    assert (facts["isr"]["verdict"], facts["isr"]["reason"]) == ("adopted", WRITTEN)
    assert facts["transition"]["verdict"] == "predicted"


def test_a_reassignment_goes_on_after_a_change_between_two_controllers(tmp_path):
    """The record is another one then, the replicas that are being added are not. Seen on 2.4.1."""
    logged = hidden_isr("2.4")
    logged.change_brokers(failed=[2])
    logged.reassign("t", 0, [3, 1, 2, 4])
    logged.die(5)
    logged.die(3)
    logged.fail_over(1)
    epoch = logged.state.leadership(logged.log.row("t", 0)).leader_epoch
    lines = logged.log.files["broker-1/controller.log"]
    lines.insert(-1, f"{lines[-1].split(']')[0]}] INFO [Controller id=1] Updated leader epoch for "
                 f"partition t-0 to {epoch} (kafka.controller.KafkaController)")
    for target in ([3, 2, 1, 4], [3, 1, 2, 4]):
        logged.reassign("t", 0, target)
    found = replay(traced_below_info(logged, tmp_path), profile="zk-2.4")
    verdicts = [row["verdict"] for row in found.facts.to_pylist()
                if (row["subject"], row["kind"]) == ("t-0", "leader epoch")]
    assert verdicts == ["predicted", "adopted", "predicted", "predicted"]
    assert found.counts["missing"] == 0


WITHOUT_RECORD = ("INFO Leader not yet assigned for partition t-1. Skip sending "
                  "UpdateMetadataRequest. (kafka.controller.ControllerBrokerRequestBatch)")


@pytest.mark.parametrize("is_named", [False, True])
def test_who_is_told_of_a_partition_without_a_record_is_unknown(is_named, tmp_path):
    """A topic grows without a controller; no line names the new replicas. Seen on 2.6.3.

    Kafka 3.9, ReplicaStateMachine.scala, `doHandleStateChanges`: all brokers, of no partition.
    """
    state = read_state(NOTHING_YET, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.8")
    logged.fail_over(1)
    logged.create_topics({"t": [[1]]})
    logged.die(2)
    logged.controller.on_partition_modifications("t", {1: [2]})
    logged.fail_over(3)
    lines = logged.log.files["broker-3/state-change.log"]
    lines[:] = [line for line in lines if "for partition t-1 from" not in line]
    if is_named:
        logged.log.write(3, "controller", WITHOUT_RECORD)
    logged.delete(["t"])
    for _ in range(2):
        logged.acknowledge(["t"])
        logged.change_brokers(started=[2])
        logged.change_brokers(failed=[2])
    found = replay(traced_below_info(logged, tmp_path), profile="zk-2.7")
    assert bool(found.contradictions) != is_named
