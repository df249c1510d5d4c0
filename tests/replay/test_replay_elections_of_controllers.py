"""Replay: what lies between two controllers: records not written yet, events cut off, late lines.

Each was found in the logs of a real cluster: the smallest log that shows it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import BETWEEN, REPLACED, UNNAMED
from kfast.log_replay.events.announced_events import write_script
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.terms import find_terms
from kfast.log_replay.wording.controller_log import FORMS
from kfast.log_replay.wording.statements import understand
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

VERSIONS = ("2.4", "2.8", "3.9")
BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     1,2  1,2  1       4      ONLINE
    other-0    2,1  2,1  2       4      ONLINE
"""


def begin(version, text=BEFORE, controller=3, trace=True, **cluster):
    """A cluster of three brokers whose controller has just been elected."""
    state = read_state(text, brokers=[1, 2, 3], controller_id=-1, **cluster)
    logged = LoggedController(state, version, trace)
    logged.fail_over(controller)
    return logged


def replayed(logged, folder):
    """A replay of the logs."""
    logged.log.save(folder)
    return replay(folder)


def wrong(found):
    """What a replay contradicts or misses."""
    return [str(one) for one in found.contradictions]


@pytest.mark.parametrize("version", ["1.0", *VERSIONS])
def test_a_new_controller_may_find_partitions_without_a_record(version, tmp_path):
    """A topic that is created while no controller is there: NewPartition, then Online at epoch 0.

    Kafka 3.9, PartitionStateMachine.scala, `initializePartitionState`. Seen on 2.7.2: a topic
    created in the second before its controller was killed.
    """
    logged = begin(version, BEFORE.rstrip() + """
    fresh-0    2,3  -    -       -      -
    fresh-1    3,1  -    -       -      -
    """)
    logged.change_brokers(failed=[2])
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0
    (line,) = [
        row for row in found.facts.to_pylist()
        if row["kind"] == "leader epoch" and row["subject"] == "fresh-0"
        and "led" not in row["reason"] and row["logged"] == "0"
    ][:1]
    assert line["verdict"] == "predicted"


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_controller_may_die_within_an_event(version, is_paused, tmp_path):
    """What it has not decided by then is undone, and not missing: the next one decides it.

    Seen on 2.4.1: killed between the requests to a broker that is back and the elections; and on
    2.7.2: paused within a reassignment, it resigned when another controller had been elected.
    """
    logged = begin(version)
    log, state = logged.log, logged.state.copy()
    file = log.files["broker-3/state-change.log"]
    n_before = len(file)
    logged.change_brokers(failed=[2])
    del file[next(at for at in range(n_before, len(file)) if "to OnlinePartition" in file[at]):]
    state.remove_live_brokers([2, 3])
    state.controller_id = -1
    following = LoggedController(state, version, trace=True)
    following.log.files, following.log.time_ms = log.files, log.time_ms
    following.fail_over(1)
    if is_paused:
        following.log.write(3, "controller", "INFO [Controller id=3] Resigned "
                            "(kafka.controller.KafkaController)")
    following.change_brokers(started=[2])
    found = replayed(following, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("is_elected", [True, False])
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_controller_may_die_before_it_stores_the_end_of_a_reassignment(
    version, is_elected, tmp_path
):
    """It may have elected a leader; the next one finds the reassignment under way, and ends it.

    Kafka 2.8, KafkaController.scala, `onPartitionReassignment`, steps B3 and B6. Seen on 2.8.2 and
    on 3.0.2, where the ISR that the targets are in was all that the first one had stored.
    """
    logged = begin(version, controller=2, trace=False)
    logged.reassign("calm", 0, [3])
    log, state = logged.log, logged.state.copy()
    n_before = {name: len(lines) for name, lines in log.files.items()}
    logged.catch_up([3], (("calm", 0), [3]))
    for name, last in (("state-change", "to OnlinePartition"), ("controller", "Re-electing")):
        lines = log.files[f"broker-2/{name}.log"]
        since = n_before[f"broker-2/{name}.log"]
        del lines[next(
            at for at in range(since, len(lines)) if last in lines[at]
        ) + (is_elected or name == "controller") :]
    row = log.row("calm", 0)
    record = state.leadership(row)
    state.set_leadership(row, **vars(replace(
        record, leader=3 if is_elected else 1, leader_epoch=record.leader_epoch + is_elected,
        isr=(1, 2, 3), version=record.version + 1 + is_elected,
    )))
    state.remove_live_brokers([2])
    state.controller_id = -1
    following = LoggedController(state, version, trace=False)
    following.log.files, following.log.time_ms = log.files, log.time_ms
    following.fail_over(3)
    following.change_brokers(started=[2])
    for lines in log.files.values():
        lines[:] = [line for line in lines if " DEBUG " not in line[:40]]
    found = replayed(following, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_what_an_event_undoes_has_the_isrs_that_leaders_wrote_before(version, tmp_path):
    """A leader wrote twice, which a later line tells; then its controller died within an event.

    Seen on 0.11.0.3: 17 partitions fell back to records from before those writes.
    """
    logged = begin(version)
    logged.create_topics({"a": [[1, 2]]})
    log, state, store = logged.log, logged.state, logged.controller.store
    store.replace(log.row("a", 0), replace(store.get("a", 0), version=2))
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    before, n_before = state.copy(), len(log.files["broker-3/state-change.log"])
    logged.change_brokers(failed=[1])
    for broker in (1, 2):
        log.files.pop(f"broker-{broker}/controller.log", None)
    del log.files["broker-3/state-change.log"][n_before:]
    before.remove_live_brokers([1, 3])
    before.controller_id = -1
    following = LoggedController(before, version)
    following.log.files, following.log.time_ms = log.files, log.time_ms
    following.fail_over(2)
    following.change_brokers(started=[1])
    found = replayed(following, tmp_path)
    assert wrong(found) == []
    assert BETWEEN not in found.reasons


@pytest.mark.parametrize("why", [
    ("Failed completing reassignment of partition moves-0 because controller has moved to another "
     "broker"),
    ("Error while electing or becoming controller on broker 2. Trigger controller movement "
     "immediately"),
])
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_controller_may_be_refused_within_its_failover(version, why, tmp_path):
    """Another one was elected, or an election fails: from then on, nothing is done.

    Kafka 3.9, KafkaController.scala, `maybeResumeReassignments`, `elect`. Seen on 2.8.2; and on
    3.5.2, where a reassignment of a partition without a record fails 600 elections in a row.
    """
    state = read_state("""
        partition  ar     isr  leader  epoch  adding  removing  state
        moves-0    3,1,2  1,2  1       4      3       -         ONLINE
        moves-1    3,2,1  1,2  2       4      3       -         ONLINE
        calm-0     1,2    1,2  1       4      -       -         ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, version, trace=True)
    log, before = logged.log, state.copy()
    logged.fail_over(2)
    file = log.files["broker-2/state-change.log"]
    del file[next(at for at, line in enumerate(file) if "leaderEpoch=5" in line):]
    log.files["broker-1/state-change.log"].clear()
    log.files["broker-3/state-change.log"].clear()
    for line in (why, "Resigned"):
        log.write(2, "controller",
                  f"INFO [Controller id=2] {line} (kafka.controller.KafkaController)")
    before.controller_epoch = before.epoch_store_version = state.controller_epoch
    following = LoggedController(before, version, trace=True)
    following.log.files, following.log.time_ms = log.files, log.time_ms
    following.fail_over(1)
    found = replayed(following, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("error", [
    "SessionExpiredException", "ControllerMovedException",
    "the LeaderAndIsr path was already written by another controller",
])
def test_what_a_replaced_controller_could_not_write_is_unknown(error, tmp_path):
    """A controller that lost its session goes on with an event: the store refuses its writes.

    Kafka 3.9, KafkaZkClient.scala, `retryRequestsUntilConnected` with the epoch's check. Seen on
    2.7.2: a controller that was stopped for some seconds.
    """
    logged = begin("2.8")
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    log = logged.log
    log.pause()
    log.write(3, "controller", "INFO [Controller id=3] Processing automatic preferred replica "
              "leader election (kafka.controller.KafkaController)")
    log.write(3, "controller", "INFO [Controller id=3] Starting replica leader election "
              "(PREFERRED) for partitions calm-0 triggered by AutoTriggered "
              "(kafka.controller.KafkaController)")
    log.write(3, "state-change", "ERROR [Controller id=3 epoch=4] Controller 3 epoch 4 failed to "
              "change state for partition calm-0 from OnlinePartition to OnlinePartition "
              "(state.change.logger)")
    log.files["broker-3/state-change.log"].append(
        f"org.apache.zookeeper.KeeperException${error}: KeeperErrorCode"
    )
    log.write(3, "state-change", "INFO [Controller id=3 epoch=4] Sending UpdateMetadata request to "
              "brokers HashSet() for 0 partitions (state.change.logger)")
    found = replayed(logged, tmp_path)
    assert wrong(found) == []


def test_lines_after_the_next_election_are_unknown(tmp_path):
    """Another controller was elected: the old one writes requests that brokers refuse."""
    logged = begin("2.8")
    logged.fail_over(2)
    log = logged.log
    log.pause()
    log.write(3, "state-change", "INFO [Controller id=3 epoch=4] Sending UpdateMetadata request to "
              "brokers HashSet(1, 2, 3) for 7 partitions (state.change.logger)")
    log.write(3, "state-change", "INFO [Broker id=3] Add 7 partitions and deleted 0 partitions "
              "from metadata cache in response to UpdateMetadata request sent by controller 3 "
              f"epoch {logged.state.controller_epoch - 1} with correlation id 99 "
              "(state.change.logger)")
    log.write(3, "state-change", "TRACE [Broker id=3] Cached leader info UpdateMetadataPartition"
              "State(topicName='calm', partitionIndex=0, controllerEpoch=1, leader=3, leaderEpoch="
              "4, isr=[3], zkVersion=77, replicas=[2, 3], offlineReplicas=[]) for partition calm-0 "
              "in response to UpdateMetadata request sent by controller 3 epoch "
              f"{logged.state.controller_epoch - 1} with correlation id 99 (state.change.logger)")
    files = log.files["broker-3/controller.log"]
    files[:] = [line for line in files if "Resign" not in line]
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.unknown_reasons[REPLACED] > 0


def test_what_a_controller_begins_after_its_failover_may_be_refused(tmp_path):
    """The failover itself was not. Seen on 2.7.2: a reassignment after a pause of nine seconds."""
    logged = begin("2.8")
    epoch = logged.state.controller_epoch
    logged.fail_over(2)
    log = logged.log
    log.pause()
    log.write(3, "controller", "INFO [Controller id=3] Leader 2 for partition calm-0 being "
              "reassigned, is already in the new list of replicas 2 and is alive "
              "(kafka.controller.KafkaController)")
    log.write(3, "state-change", f"ERROR [Controller id=3 epoch={epoch}] Controller 3 epoch "
              f"{epoch} failed to change state for partition calm-0 from OfflinePartition to "
              "OnlinePartition (state.change.logger)")
    log.files["broker-3/state-change.log"].append(
        "org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode"
    )
    files = log.files["broker-3/controller.log"]
    files[:] = [line for line in files if "Resign" not in line]
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


def test_a_controller_that_ends_within_its_failover_has_not_written_what_it_took_over(tmp_path):
    """The next one reads the controller epoch that is stored. Seen on 2.7.2.

    Kafka 2.7, ReplicaStateMachine.scala, `doRemoveReplicasFromIsr`: of a replica that is out of
    the ISR nothing is written.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        calm-0     2,3  3    3       4      ONLINE
        lost-0     2,3  2,3  3       4      ONLINE
    """, brokers=[1, 3], down=[2], controller_id=-1)
    logged = LoggedController(state, "2.8", trace=True)
    log, before = logged.log, state.copy()
    logged.fail_over(3)
    file = log.files["broker-3/state-change.log"]
    del file[next(at for at, line in enumerate(file) if "after removing" in line) + 1 :]
    for at, line in enumerate(log.files["broker-3/controller.log"]):
        if "Triggering offline replica" in line:
            del log.files["broker-3/controller.log"][at:]
    before.controller_epoch = before.epoch_store_version = state.controller_epoch
    following = LoggedController(before, "2.8", trace=True)
    following.log.files, following.log.time_ms = log.files, log.time_ms
    following.fail_over(1)
    found = replayed(following, tmp_path)
    assert wrong(found) == []


def test_a_request_that_a_controller_could_not_send_is_of_its_own_term(tmp_path):
    """Its sender says so after it has resigned, when the next controller has been elected.

    Seen on 2.8.2: the line was given to the next controller's term.
    """
    logged = begin("2.8")
    logged.fail_over(2)
    logged.log.write(3, "controller", "WARN [RequestSendThread controllerId=3] Controller 3 epoch "
                     f"{logged.state.controller_epoch - 1} fails to send request (type: "
                     "UpdateMetadataRequest=, controllerId=3, controllerEpoch="
                     f"{logged.state.controller_epoch - 1}, brokerEpoch=0, partitionStates=[], "
                     "liveBrokers=) to broker b:9092 (id: 1 rack: null). Reconnecting to broker. "
                     "(kafka.controller.RequestSendThread)")
    logged.change_brokers(failed=[1])
    found = replayed(logged, tmp_path)
    assert wrong(found) == []


def test_a_sender_of_a_controller_that_is_over_has_the_epochs_from_then(tmp_path):
    """A broker has registered again when another controller is elected. Seen on 2.7.2."""
    logged = begin("2.8")
    epoch = int(logged.state.controller_epoch)
    logged.change_brokers(bounced=[3])
    logged.die(3)
    logged.fail_over(2)
    logged.log.write(3, "controller", f"WARN [RequestSendThread controllerId=3] Controller 3 epoch "
                     f"{epoch} fails to send request (type: UpdateMetadataRequest=, "
                     f"controllerId=3, controllerEpoch={epoch}, brokerEpoch=1, "
                     "partitionStates=[], liveBrokers=) to broker b:9092 (id: 3 rack: null). "
                     "Reconnecting to broker. (kafka.controller.RequestSendThread)")
    logged.change_brokers(started=[3])
    assert wrong(replayed(logged, tmp_path)) == []


def test_an_assignment_that_another_controller_announced_is_not_the_next_that_is_stored(tmp_path):
    """It lost its session when it had stored it, and the next one ends the reassignment.

    Kafka 2.7, KafkaController.scala, `updateReplicaAssignmentForPartition`. Seen on 2.7.2.
    """
    logged = begin("2.8")
    logged.create_topics({"fresh": [[1, 2]]})
    logged.log.pause()
    logged.log.write(3, "controller", "DEBUG [Controller id=3] Updating assignment of partition "
                     "calm-0 from ReplicaAssignment(replicas=1,2, addingReplicas=, "
                     "removingReplicas=) to ReplicaAssignment(replicas=3,1,2, addingReplicas=3, "
                     "removingReplicas=) (kafka.controller.KafkaController)")
    moving = read_state("""
        partition  ar     isr  leader  epoch  adding  removing  state
        calm-0     3,1,2  1,2  1       4      3       -         ONLINE
        other-0    2,1    2,1  2       4      -       -         ONLINE
        fresh-0    1,2    1,2  1       0      -       -         ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    moving.controller_epoch = moving.epoch_store_version = logged.state.controller_epoch
    following = LoggedController(moving, "2.8", trace=True)
    following.log.files, following.log.time_ms = logged.log.files, logged.log.time_ms
    following.fail_over(2)
    following.catch_up([3], (("calm", 0), (3, 1, 2)))
    assert wrong(replayed(following, tmp_path)) == []


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_reassignments_that_go_on_have_requests_of_their_own(version, tmp_path):
    """A new controller resumes two of them: each raises its epoch and sends for itself.

    Kafka 3.9, KafkaController.scala, `maybeResumeReassignments`. Seen on 3.6.2.
    """
    state = read_state("""
        partition  ar     isr  leader  epoch  adding  removing  state
        moves-0    3,1,2  1,2  1       4      3       -         ONLINE
        moves-1    3,2,1  1,2  2       4      3       -         ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, version, trace=True)
    logged.fail_over(2)
    text = "\n".join(logged.log.files["broker-2/state-change.log"])
    assert "Sending LeaderAndIsr request" in text
    assert replayed(logged, tmp_path).counts["missing"] == 0


def test_topics_that_are_to_be_deleted_are_not_balanced(tmp_path):
    """A check of the leaders does not count them. Seen on 3.0.2.

    Kafka 3.9, KafkaController.scala, `checkAndTriggerAutoLeaderRebalance`.
    """
    logged = begin("2.8")
    logged.change_brokers(failed=[1])
    logged.delete(["calm"])
    logged.rebalance()
    assert wrong(replayed(logged, tmp_path)) == []


@pytest.mark.parametrize("ending", [
    "not in the new list of replicas 1,2. Re-electing leader",
    "already in the new list of replicas 1,2 but is dead",
])
def test_a_reassignment_may_have_to_elect(ending):
    """The line says the target, whatever becomes of the leader. Seen on 2.4.1.

    Kafka 3.9, KafkaController.scala, `moveReassignedPartitionLeaderIfRequired`.
    """
    form, fields = FORMS.find(f"Leader -1 for partition a-0 being reassigned, is {ending}")
    assert form.kind == "reassign_leader"
    assert fields["replicas"] == (1, 2)


def reassignment_of(logged, leader, replicas, directory):
    """The one reassignment that is read from a log that ends with the line about its leader."""
    logged.log.write(3, "controller", f"INFO [Controller id=3] Leader {leader} for partition "
                     f"calm-0 being reassigned, is already in the new list of replicas {replicas} "
                     "and is alive (kafka.controller.KafkaController)")
    logged.log.save(directory)
    logs = read_logs(directory)
    statements, _ = understand(logs, Steps(None, len(logs.entries)))
    (term,) = find_terms(statements)
    (event,) = [one for one in write_script(statements, term) if one.kind == "reassign"]
    return event


def test_a_reassignment_after_an_election_is_not_one_that_goes_on(tmp_path):
    """Within seconds of the election, but after the scheduler was started. Seen on 3.8.1."""
    logged = begin("2.8")
    event = reassignment_of(logged, 1, "1,2", tmp_path)
    assert event.fields["targets"] == {("calm", 0): (1, 2)}


def test_a_new_controller_may_find_a_reassignment_to_the_replicas_there_are(tmp_path):
    """It is in ZooKeeper, and no assignment names it: the leader epoch rises. Seen on 3.2.3.

    Kafka 3.2, KafkaController.scala, `initializePartitionReassignments`.
    """
    logged = begin("2.8")
    file = logged.log.files["broker-3/controller.log"]
    n_before = len(file) - 1
    logged.log.pause = lambda: None
    logged.reassign("calm", 0, [1, 2])
    starts, updating, stored, *_ = file[n_before:]
    assert ("scheduler" in starts, "Updating" in updating, "Success" in stored) == (True,) * 3
    del file[n_before : n_before + 3]  # Nothing is stored where it is the same.
    logged.log.write(3, "controller", "INFO [Controller id=3] Starting the controller scheduler "
                     "(kafka.controller.KafkaController)")
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_new_controller_may_find_another_target_of_a_reassignment(version, tmp_path):
    """One that is under way is asked to end elsewhere, in the node: it does not go on as before.

    Kafka 3.9, KafkaController.scala, `initializePartitionReassignments`. Seen on 2.8.2.
    """
    logged = begin(version, controller=1)
    logged.change_brokers(failed=[3])
    logged.reassign("calm", 0, [3, 2])
    logged.fail_over(2, {("calm", 0): [3, 1]})
    logged.change_brokers(started=[3])
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.counts["missing"] == 0


def test_a_check_for_imbalance_after_the_next_election_is_no_event(tmp_path):
    """A controller that was stopped looks at what it has cached. Seen on 2.8.2."""
    logged = begin("2.8")
    log = logged.log
    logged.change_brokers(failed=[2])
    logged.fail_over(1)
    log.time_ms += 200
    log.write(3, "controller", "TRACE [Controller id=3] Checking need to trigger auto leader "
              "balancing (kafka.controller.KafkaController)")
    log.write(3, "controller", "DEBUG [Controller id=3] Topics not in preferred replica for broker "
              "1 HashMap() (kafka.controller.KafkaController)")
    log.write(3, "controller", "TRACE [Controller id=3] Leader imbalance ratio for broker 1 is 0.9 "
              "(kafka.controller.KafkaController)")
    files = log.files["broker-3/controller.log"]
    files[:] = [line for line in files if "Resign" not in line]
    found = replayed(logged, tmp_path)
    assert wrong(found) == []


def test_a_request_has_also_the_partitions_of_refused_proposals(tmp_path):
    """A leader asks for an ISR with an old leader epoch: no line names it, the request has it.

    Kafka 3.9, KafkaController.scala, `tryProcessAlterPartition`. Seen on 3.2.3 and 3.6.2.
    """
    logged = begin("2.8")
    logged.shut_down(1)
    log, state = logged.log, logged.state
    log.write(3, "controller", "DEBUG [Controller id=3] Updating ISRs for partitions: Set(). "
              "(kafka.controller.KafkaController)")
    sent = (f"INFO [Controller id=3 epoch={state.controller_epoch}] Sending UpdateMetadata "
            "request to brokers HashSet(1, 2, 3) for {} partitions (state.change.logger)")
    log.write(3, "state-change", sent.format(2))
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.reasons[UNNAMED] == 1
    log.files["broker-3/state-change.log"].pop()
    log.write(3, "state-change", sent.format(3))
    assert len(wrong(replayed(logged, tmp_path))) == 1


def test_all_brokers_are_told_of_an_isr_request_without_known_partitions(tmp_path):
    """Its topics have been deleted. Seen on 3.8.1.

    Kafka 3.8, KafkaController.scala, `tryProcessAlterPartition`.
    """
    logged = begin("2.8")
    log, state = logged.log, logged.state
    log.pause()
    log.write(3, "controller", "DEBUG [Controller id=3] Updating ISRs for partitions: Set(). "
              "(kafka.controller.KafkaController)")
    log.write(3, "state-change", f"INFO [Controller id=3 epoch={state.controller_epoch}] Sending "
              "UpdateMetadata request to brokers HashSet(1, 2, 3) for 0 partitions "
              "(state.change.logger)")
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    log.files["broker-3/state-change.log"].pop()
    logged.change_brokers(failed=[2])
    assert replayed(logged, tmp_path).counts["missing"] == 1


def test_a_broker_may_have_refused_what_was_sent_before_it_registered_again(tmp_path):
    """A request has the epoch of a registration that is over. Seen on 2.7.2.

    Kafka 3.9, KafkaApis.scala, `isBrokerEpochStale`.
    """
    logged = begin("2.8")
    logged.create_topics({"fresh": [[1, 2]]})
    logged.change_brokers(bounced=[2])
    file = logged.log.files["broker-2/state-change.log"]
    file[:] = [line for line in file if "Handling LeaderAndIsr" not in line]
    logged.log.write(2, "state-change", "INFO [Broker id=2] Follower fresh-0 starts at leader "
                     "epoch 1 from offset 0 with high watermark 0. Previous leader epoch was -1. "
                     "(state.change.logger)")
    assert wrong(replayed(logged, tmp_path)) == []


def test_each_of_two_requests_has_its_own_refused_proposals(tmp_path):
    """The second request is not taken for the first one's. Seen on 3.5.2."""
    logged = begin("2.8")
    logged.shut_down(1)
    log, state = logged.log, logged.state
    for n in (1, 2):
        log.write(3, "controller", "DEBUG [Controller id=3] Updating ISRs for partitions: Set(). "
                  "(kafka.controller.KafkaController)")
        log.write(3, "state-change", f"INFO [Controller id=3 epoch={state.controller_epoch}] "
                  f"Sending UpdateMetadata request to brokers HashSet(1, 2, 3) for {n} partitions "
                  "(state.change.logger)")
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.reasons[UNNAMED] == 2


def test_a_reassignment_after_a_start_is_not_one_that_goes_on(tmp_path):
    """No line of this term has the partition in a reassignment. Seen on 3.4.1.

    Kafka 3.9, KafkaController.scala, `onBrokerStartup`, `maybeResumeReassignments`.
    """
    logged = begin("2.8")
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    event = reassignment_of(logged, 2, "2,1", tmp_path)
    assert event.fields["targets"] == {("calm", 0): (2, 1)}


@pytest.mark.parametrize(("version", "profile"), [("2.8", "zk-2.8"), ("3.1", "zk-3.1")])
def test_rules_tell_releases_apart_whose_wording_is_the_same(version, profile, tmp_path):
    """Up to 3.0 a failure without an election announces the brokers. Seen on 3.1.2.

    Kafka 3.1, KafkaController.scala, `onReplicasBecomeOffline`.
    """
    logged = begin("2.8", BEFORE.replace("2,1  2,1  2", "2,1  2,1  1"))
    logged.change_brokers(failed=[2])
    lines = logged.log.files["broker-3/state-change.log"]
    announced = [line for line in lines if "HashSet(1, 3) for 0 partitions" in line]
    assert len(announced) == 1
    if version == "3.1":
        lines.remove(announced[0])
    logged.create_topics({"t": [[1, 3]]})
    found = replayed(logged, tmp_path)
    assert wrong(found) == []
    assert found.profile == profile


NODE = ("DEBUG [Controller id=3] Updating assignment of partition calm-0 from "
        "ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=) to "
        "ReplicaAssignment(replicas=1,2,3, addingReplicas=3, removingReplicas=) "
        "(kafka.controller.KafkaController)")


@pytest.mark.parametrize(("place", "kinds"), [(-1, ["failover"]), (None, ["failover", "reassign"])])
def test_a_new_controller_reads_the_node_of_reassignments(place, kinds, tmp_path):
    """Before its scheduler starts, an assignment that it changes is part of its election.

    Kafka 2.5, KafkaController.scala, `initializePartitionReassignments`. Seen on 2.5.1.
    """
    logged = begin("2.4")
    lines = logged.log.files["broker-3/controller.log"]
    assert "Starting the controller scheduler" in lines[-1]
    stamp = lines[-1].split("]")[0]
    lines.insert(len(lines) if place is None else place, f"{stamp}] {NODE}")
    logged.log.save(tmp_path)
    logs = read_logs(tmp_path)
    statements, _ = understand(logs, Steps(None, len(logs.entries)))
    (term,) = find_terms(statements)
    events = write_script(statements, term)
    assert [event.kind for event in events] == kinds
    assert events[-1].fields["targets"] == {("calm", 0): (1, 2, 3)}


def test_a_broker_may_go_on_with_a_request_when_the_same_controller_is_elected_again(tmp_path):
    """What it says of the whole request has the epoch of the one that sent it. Seen on 3.5.2."""
    logged = begin("3.9", controller=1)
    epoch = logged.state.controller_epoch
    logged.fail_over(1)
    lines = logged.log.files["broker-2/state-change.log"]
    first, second = (at for at, line in enumerate(lines) if "Handling LeaderAndIsr" in line)
    (request,) = re.findall(r"LeaderAndIsr request \w+ \d+ from controller 1", lines[first])
    lines.insert(second, (
        f"{lines[second][:25]} INFO [Broker id=2] Stopped fetchers as part of {request} epoch "
        f"{epoch} as part of the become-leader transition for 1 partitions (state.change.logger)"
    ))
    assert wrong(replayed(logged, tmp_path)) == []
