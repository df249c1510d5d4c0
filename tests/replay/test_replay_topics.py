"""Replay: topics that are created, deleted, created again, and that go while no log is written."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from kfast.log_replay import replay
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     1,2  1,2  1       4      ONLINE
"""
LEADS = (
    "INFO [Broker id=1] Leader {partition} starts at leader epoch 0 from offset 0 with high "
    "watermark 0 ISR [1,2] addingReplicas [] removingReplicas []. Previous leader epoch was "
    "{previous}. (state.change.logger)"
)
FOLLOWS = (
    "INFO [Broker id=2] Follower {partition} starts at leader epoch {epoch} from offset 0 with "
    "high watermark 0. Previous leader epoch was {previous}. (state.change.logger)"
)
HOUR_MS = 3_600_000


def begin(version, text=BEFORE, broker_epoch=0, time_ms=None, fail_overs=1):
    """A cluster of three brokers whose controller has just been elected."""
    state = read_state(text, brokers=[1, 2, 3], controller_id=-1)
    state.broker_epoch[:] = broker_epoch
    logged = LoggedController(state, version)
    if time_ms is not None:
        logged.log.time_ms = time_ms
    for _ in range(fail_overs):
        logged.fail_over(3)
    return logged


def delete(logged, topic):
    """Delete a topic to the end."""
    logged.delete([topic])
    logged.acknowledge([topic])


def contradictions(logged, folder):
    """What a replay of the logs contradicts."""
    logged.log.save(folder)
    return [str(one) for one in replay(folder).contradictions]


@pytest.mark.parametrize("version", ["2.4", "2.8", "3.9"])
def test_a_topic_may_get_another_row_when_it_is_made_again(version, tmp_path):
    """Rows of deleted topics are used again, in another order."""
    logged = begin(version)
    for topic in ("a", "b"):
        logged.create_topics({topic: [[1, 2], [2, 1]]})
    for topic in ("a", "b"):
        delete(logged, topic)
    logged.create_topics({"b": [[1, 2], [2, 1]]})
    delete(logged, "b")
    assert contradictions(logged, tmp_path) == []


@pytest.mark.parametrize(("previous", "n_contradicted"), [(-1, 0), (0, 1)])
def test_a_broker_forgets_a_partition_that_it_deletes(previous, n_contradicted, tmp_path):
    """Kafka, ReplicaManager.scala, `stopReplicas`: it drops the partition with its leader epoch."""
    logged = begin("2.8")
    logged.create_topics({"a": [[1, 2]]})
    logged.log.write(1, "state-change", LEADS.format(partition="a-0", previous=-1))
    delete(logged, "a")
    logged.create_topics({"a": [[1, 2]]})
    logged.log.write(1, "state-change", LEADS.format(partition="a-0", previous=previous))
    assert len(contradictions(logged, tmp_path)) == n_contradicted


@pytest.mark.parametrize(("previous", "n_contradicted"), [(-1, 0), (5, 1)])
def test_a_broker_forgets_a_replica_that_moves_away(previous, n_contradicted, tmp_path):
    """The last request of a reassignment deletes the replica; it comes back as a new one."""
    logged = begin("2.8")
    logged.create_topics({"a": [[1, 2]]})
    logged.reassign("a", 0, [1, 3])
    logged.catch_up([3], reassigned=(("a", 0), [1, 3]))
    logged.reassign("a", 0, [1, 2])
    epoch = logged.state.leadership(logged.log.row("a", 0)).leader_epoch
    logged.log.write(2, "state-change", FOLLOWS.format(
        partition="a-0", epoch=epoch, previous=previous,
    ))
    assert len(contradictions(logged, tmp_path)) == n_contradicted


@pytest.mark.parametrize("version", ["0.10", "2.0", "2.4", "3.9"])
def test_a_broker_may_fail_to_delete(version, tmp_path):
    """Kafka, TopicDeletionManager.scala, `failReplicaDeletion`: the topic waits for the broker."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    logged.delete(["a"])
    logged.refuse("a", 1)
    logged.acknowledge(["a"])
    assert "a" in logged.log.topics()
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    logged.acknowledge(["a"])
    assert "a" not in logged.log.topics()
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    assert contradictions(logged, tmp_path) == []
    broker = "broker 1" if version >= "2.4" else "brokers"  # Earlier, no line names it.
    assert f"{broker} failed to delete replicas" in replay(tmp_path).timeline["what"].to_pylist()


@pytest.mark.parametrize("version", ["0.10", "2.0", "2.4", "3.9"])
def test_a_broker_that_goes_fails_deletions_without_an_answer(version, tmp_path):
    """Kafka, KafkaController.scala, `onReplicasBecomeOffline`: it halts them itself."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    logged.delete(["a"])
    logged.change_brokers(failed=[1])
    logged.acknowledge(["a"])
    assert contradictions(logged, tmp_path) == []
    assert [what for what in replay(tmp_path).timeline["what"].to_pylist() if "fail" in what] == []


@pytest.mark.parametrize("version", ["0.10", "2.0", "2.4", "3.9"])
@pytest.mark.parametrize("failed", [(), (1,)])
def test_a_new_controller_goes_on_with_deletions(version, failed, tmp_path):
    """Kafka, KafkaController.scala, `fetchTopicDeletionsInProgress`: it reads the markers."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    if failed:
        logged.change_brokers(failed=failed)
    logged.delete(["a"])
    logged.die(3)
    logged.fail_over(2)
    if failed:
        logged.acknowledge(["a"])
        logged.change_brokers(started=failed)
    logged.acknowledge(["a"])
    assert "a" not in logged.log.topics()
    logged.create_topics({"a": [[1, 2], [2, 1]]})
    assert contradictions(logged, tmp_path) == []
    facts = replay(tmp_path).facts.to_pylist()
    assert [(fact["logged"], fact["verdict"]) for fact in facts
            if fact["kind"] == "topics to be deleted"] == [("[a]", "predicted")]


@contextmanager
def unlogged(logged, controller_id=2):
    """A time whose lines are lost; another broker may become the controller."""
    lines = {name: list(entries) for name, entries in logged.log.files.items()}
    if controller_id is not None:
        logged.fail_over(controller_id)
    yield
    logged.log.files.clear()
    logged.log.files.update(lines)
    logged.log.time_ms += HOUR_MS


def test_a_topic_that_is_deleted_leaves_its_reassignment_behind(tmp_path):
    """Until the next controller, balancing waits for it. Seen on 2.8.2.

    Kafka 2.8, ControllerContext.scala, `removeTopic`: not out of `partitionsBeingReassigned`.
    """
    logged = begin("2.8")
    logged.create_topics({"a": [[1], [3]]})
    logged.change_brokers(failed=[2])
    logged.create_topics({"u": [[2, 1]]})
    logged.reassign("a", 0, [2])
    delete(logged, "a")
    logged.change_brokers(started=[2])
    logged.acknowledge(["a"])
    logged.create_topics({"a": [[1], [3]]})
    logged.catch_up([2])
    assert logged.rebalance().elections.num_rows == 0
    logged.fail_over(1)
    assert logged.rebalance().elections.num_rows == 1
    wrong = contradictions(logged, tmp_path)  # Of a-0 the writer leaves out what the start raised.
    assert [one for one in wrong if "of a-0 " not in one] == []


@pytest.mark.parametrize(("version", "again"), [
    ("0.10", False), ("2.0", False), ("2.4", False), ("3.9", False),
    ("2.0", True), ("2.4", True), ("3.9", True),  # Up to 0.11 no controller says versions.
])
def test_topics_go_in_a_hole(version, again, tmp_path):
    """Those that the next controller does not list are gone; one may have been made again."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]], "b": [[2, 1]]})
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    logged.catch_up([1])
    with unlogged(logged):
        delete(logged, "a")
        if again:
            logged.create_topics({"a": [[1, 2], [2, 1]]})
    logged.fail_over(3)
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    if not again:
        logged.create_topics({"a": [[2, 1]]})
    assert contradictions(logged, tmp_path) == []


@pytest.mark.parametrize("version", ["2.0", "2.4"])
@pytest.mark.parametrize("assignment", [[[3, 2], [2, 3]], [[2, 1]], [[1, 2], [2, 1], [1, 2]], None])
def test_assignments_change_in_a_hole(version, assignment, tmp_path):
    """Made again with other replicas, fewer or more partitions, or reassigned: lines list them."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]], "b": [[2, 1]]})
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    logged.catch_up([1])
    with unlogged(logged):
        if assignment is None:
            logged.reassign("a", 0, [3, 2])
            logged.catch_up([3], reassigned=(("a", 0), [3, 2]))
        else:
            delete(logged, "a")
            logged.create_topics({"a": assignment})
    logged.fail_over(3)
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    assert contradictions(logged, tmp_path) == []


@pytest.mark.parametrize("version", ["2.0", "2.4", "3.9"])
def test_a_topic_that_is_created_must_have_gone(version, tmp_path):
    """A hole within the term of a controller hides the deletion; the creation tells it."""
    logged = begin(version)
    logged.create_topics({"a": [[1, 2], [2, 1]], "b": [[2, 1]]})
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    logged.catch_up([1])
    with unlogged(logged, None):
        delete(logged, "a")
    logged.create_topics({"a": [[2, 1]]})
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    assert contradictions(logged, tmp_path) == []


@pytest.mark.parametrize("first_epoch", [10, 1000])
def test_a_cluster_goes_on_after_another_one(first_epoch, tmp_path):
    """Epochs of brokers never fall within a cluster, and its topics stay."""
    logged = begin("2.4", broker_epoch=100)
    logged.create_topics({"a": [[1, 2]]})
    other = begin("2.4", text=BEFORE.replace("calm", "other"), broker_epoch=first_epoch,
                  time_ms=logged.log.time_ms + HOUR_MS, fail_overs=2)
    other.log.save(tmp_path / "other")
    logged.log.time_ms = other.log.time_ms + HOUR_MS
    logged.die(3)
    logged.fail_over(2)
    assert contradictions(logged, tmp_path) == []
    assert replay(tmp_path).notes[-1].startswith("2 clusters")


@pytest.mark.slow
@pytest.mark.parametrize(("log", "n_predicted", "n_contradicted"), [
    ("zk-2.2-topics-gone-in-a-hole", 27_600, 0), ("zk-2.5-deletions-fail", 51_100, 0),
    ("zk-2.7-failover-while-deleting", 640, 0),
    ("zk-3.1-topics-come-and-go", 6400, 0), ("zk-3.5-topics-made-again", 12_500, 0),
])
def test_real_topics(log, n_predicted, n_contradicted, shared_data):
    """Clusters whose topics come, go and are made again."""
    folder = shared_data / "controller_logs" / log
    if not folder.is_dir():
        pytest.skip(f"the real logs are not there ({folder})")
    counts = replay(folder).counts
    assert counts["predicted"] >= n_predicted
    assert counts["contradicted"] == n_contradicted
