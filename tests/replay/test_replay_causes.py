"""Replay: what no line says and the lines after it give away, each found in a real log."""

from __future__ import annotations

import re

import pytest

from kfast.errors import InputError
from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.cases import Case
from kfast.log_replay.comparison.partition_lines import COMPARE
from kfast.log_replay.engine.handlers import run
from kfast.log_replay.engine.rows import Possibility, Start, row_of, with_states
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.announced_events import write_script
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.events.unclean_topics import unclean_topics
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.histories.isr_writes import SAME_EPOCH, Mention, writes_of
from kfast.log_replay.histories.stretches import Stretch
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.lookahead.clusters import Cluster, split_clusters
from kfast.log_replay.lookahead.isr_changes import name_isr_changes
from kfast.log_replay.lookahead.last_isr_members import note_survivors
from kfast.log_replay.report.replay import replay
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.terms import Term, find_terms
from kfast.log_replay.wording.statements import understand
from kfast.schema import ReplicaState
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

READY = """\
[2021-05-01 10:00:00,001] INFO [Controller id=1] Ready to serve as the new controller with \
epoch 4 (kafka.controller.KafkaController)
"""
UPDATING = """\
[2021-05-01 10:01:00,001] DEBUG [Controller id=1] Updating assignment of partition a-0 from \
ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=) to \
ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=2) \
(kafka.controller.KafkaController)
"""
ENDS = """\
[2021-05-01 10:01:00,021] INFO [Controller id=1] Leader 1 for partition a-0 being reassigned, is \
already in the new list of replicas 1 and is alive (kafka.controller.KafkaController)
"""
STORED = """\
[2021-05-01 10:01:00,001] INFO [Controller id=1] Successfully updated assignment of partition \
a-0 to ReplicaAssignment(replicas=3,1,2, addingReplicas=3, removingReplicas=2) \
(kafka.controller.KafkaController)
"""
RAISED = """\
[2021-05-01 10:0{minute}:00,005] INFO [Controller id=1] Updated leader epoch for partition a-0 to \
{minute}, zkVersion={minute} (kafka.controller.KafkaController)
"""
NEW_TOPIC = """\
[2021-05-01 10:00:10,001] INFO [Controller id=1] New topics: [Set(a)], deleted topics: [Set()], \
new partition replica assignment [Map(a-0 -> ReplicaAssignment(replicas=3, addingReplicas=, \
removingReplicas=))] (kafka.controller.KafkaController)
"""
AGAIN = """\
[2021-05-01 10:00:30,001] INFO [Controller id=1] 1 successfully elected as the controller. Epoch \
incremented to 5 and epoch zk version is now 5 (kafka.controller.KafkaController)
[2021-05-01 10:00:30,002] DEBUG [PartitionStateMachine controllerId=1] Started partition state \
machine with initial state -> Map(a-0 -> NewPartition) (kafka.controller.ZkPartitionStateMachine)
"""
BACK = """\
[2021-05-01 10:02:00,001] INFO [Controller id=1] Newly added brokers: 3, deleted brokers: , \
bounced brokers: , all live brokers: 1,2,3 (kafka.controller.KafkaController)
"""
ENDED = """\
[2021-05-01 10:02:00,003] INFO [Controller id=1] Successfully updated assignment of partition \
a-0 to ReplicaAssignment(replicas=1, addingReplicas=, removingReplicas=) \
(kafka.controller.KafkaController)
"""
RESTARTED = """\
[2021-05-01 10:02:00,004] INFO [Topic Deletion Manager 1] Deletion of topic b (re)started \
(kafka.controller.TopicDeletionManager)
"""
NOTIFIED = """\
[2021-05-01 10:02:00,009] DEBUG [Controller id=1] Sending MetadataRequest to Brokers: \
Vector(1, 2, 3) for TopicPartitions: ArrayBuffer(a-0) (kafka.controller.KafkaController)
""", """\
[2021-05-01 10:02:00,005] TRACE [Controller id=1 epoch=4] Changed state of replica 3 for partition \
b-0 from OfflineReplica to ReplicaDeletionStarted (state.change.logger)
[2021-05-01 10:02:00,009] TRACE [Controller id=1 epoch=4] Sending UpdateMetadata request \
PartitionState(controllerEpoch=4, leader=1, leaderEpoch=3, isr=[1], zkVersion=5, replicas=[1, 2], \
offlineReplicas=[]) to brokers Set(1, 2, 3) for partition a-0 (state.change.logger)
"""
ON_DEMAND = """\
[2021-05-01 10:01:00,000] INFO [Controller id=1] Starting replica leader election (PREFERRED) for \
partitions a-0 triggered by AdminClientTriggered (kafka.controller.KafkaController)
"""
ALL_TOLD = """\
[2021-05-01 10:02:00,00{ms}] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2, 3) for {n} partitions (state.change.logger)
"""
EPOCHS = """\
[2021-05-01 10:02:00,004] INFO [Controller id=1] Updated broker epochs cache: HashMap(1 -> 10, \
2 -> 20, 3 -> 30) (kafka.controller.KafkaController)
"""
DELETING = """\
[2021-05-01 10:01:00,001] INFO [Controller id=1] Starting topic deletion for topics a \
(kafka.controller.KafkaController)
"""
STOPPED = """\
[2021-05-01 10:01:00,00{ms}] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet() for 0 partitions (state.change.logger)
[2021-05-01 10:01:00,00{ms}] TRACE [Controller id=1 epoch=4] Sending StopReplica request \
StopReplicaPartitionState(partitionIndex=0, leaderEpoch=-2, deletePartition={delete}) to broker 2 \
for partition a-0 (state.change.logger)
[2021-05-01 10:01:00,00{ms}] INFO [Controller id=1 epoch=4] Sending StopReplica request for 1 \
replicas to broker 2 (state.change.logger)
"""
ANSWERED = """\
[2021-05-01 10:01:00,00{ms}] TRACE [Controller id=1 epoch=4] Received response \
StopReplicaResponseData(errorCode=0, partitionErrors=[StopReplicaPartitionError(topicName='a', \
partitionIndex=0, errorCode={code})]) for request STOP_REPLICA with correlation id {ms} sent to \
broker localhost:9092 (id: 2 rack: b) (state.change.logger)
"""
DELETED = """\
[2021-05-01 10:01:00,008] TRACE [Controller id=1 epoch=4] Changed state of replica 2 for partition \
a-0 from ReplicaDeletionStarted to ReplicaDeletionSuccessful (state.change.logger)
[2021-05-01 10:01:00,008] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet() for 0 partitions (state.change.logger)
"""
LED = """\
[2021-05-01 10:0{minute}:00,001] TRACE [Controller id=1 epoch=4] Changed partition a-0 from \
{before}Partition to OnlinePartition with state LeaderAndIsr(leader={leader}, \
leaderEpoch={epoch}, isr=List({leader}), zkVersion={version}) (state.change.logger)
"""
FAILED = """\
[2021-05-01 10:02:00,001] ERROR [Controller id=1 epoch=4] Controller 1 epoch 4 failed to change \
state for partition a-0 from OfflinePartition to OnlinePartition (state.change.logger)
"""
ELECTED = """\
[2021-05-01 10:00:00,000] INFO [Controller id=1] 1 successfully elected as the controller. Epoch \
incremented to 4 and epoch zk version is now 4 (kafka.controller.KafkaController)
"""
SCHEDULES = """\
[2021-05-01 10:00:00,002] INFO [Controller id=1] Starting the controller scheduler \
(kafka.controller.KafkaController)
"""
ANNOUNCED = """\
[2021-05-01 10:00:00,001] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2) for 2 partitions (state.change.logger)
[2021-05-01 10:00:00,009] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2) for 2 partitions (state.change.logger)
"""
CACHED = """\
[2021-05-01 10:00:00,010] TRACE [Broker id=2] Cached leader info UpdateMetadataPartitionState(\
topicName='{topic}', partitionIndex=0, controllerEpoch=4, leader=1, leaderEpoch=4, isr=[{isr}], \
zkVersion={version}, replicas=[1, 2], offlineReplicas=[]) for partition {topic}-0 in response to \
UpdateMetadata request sent by controller 1 epoch {epoch} with correlation id 7 \
(state.change.logger)
"""
LEADERLESS = """\
[2021-05-01 10:00:1{second},001] TRACE [Controller id=1 epoch=4] Sending UpdateMetadata request \
UpdateMetadataPartitionState(topicName='t', partitionIndex=0, controllerEpoch=4, leader=-1, \
leaderEpoch=7, isr=[{isr}], zkVersion=9, replicas=[1, 2], offlineReplicas=[1, 2]) to brokers \
Set(3) for partition t-0 (state.change.logger)
"""


def statements_of(directory, controller, state_change=""):
    """Statements of two files."""
    (directory / "controller.log").write_text(controller)
    (directory / "state-change.log").write_text(state_change)
    return understand(read_logs(directory), Steps())[0]


@pytest.mark.parametrize("begun", [False, True])
def test_a_reassignment_that_only_ends_is_an_event_once(tmp_path, begun):
    """From 2.4 on nothing is updated where the replicas stay, so no line says that it begins."""
    statements = statements_of(tmp_path, READY + UPDATING * begun + ENDS)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.fields["targets"] for event in events if event.kind == "reassign"] == [
        {("a", 0): (1,)}
    ]


@pytest.mark.parametrize("minutes", [(1,), (1, 2), (1, 2, 3)])
def test_a_reassignment_to_the_target_that_there_is_only_raises_the_leader_epoch(
    tmp_path, minutes
):
    """Nothing changes that could be stored, so no line has the assignment again."""
    lines = "".join(RAISED.format(minute=minute) for minute in minutes)
    statements = statements_of(tmp_path, READY + STORED + lines)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.fields["targets"] for event in events if event.kind == "reassign"] == [
        {("a", 0): (3, 1)} for _ in minutes
    ]


@pytest.mark.parametrize(("is_over", "kinds"), [
    (False, ["reassign", "brokers"]), (True, ["reassign", "brokers", "reassign"]),
])
def test_a_change_of_brokers_ends_with_their_epochs(tmp_path, is_over, kinds):
    """A leader epoch that rises within it is of a reassignment that goes on, else of a new one."""
    lines = RAISED.format(minute=1) + BACK + EPOCHS * is_over + RAISED.format(minute=2)
    statements = statements_of(tmp_path, READY + STORED + lines)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.kind for event in events if event.kind != "resume"] == kinds


def test_an_election_on_demand_tells_the_preferred_replica(tmp_path):
    """At INFO no line may name the replicas of a partition that is found new. Seen on 3.6.2."""
    led = LED.format(minute=1, before="Online", leader=2, epoch=1, version=1)
    moved = LED.format(minute=2, before="Online", leader=1, epoch=2, version=2)
    statements = statements_of(tmp_path, READY + ON_DEMAND, led + moved)
    (cluster,) = split_clusters(statements, find_terms(statements))
    assert cluster.preferred == {("a", 0): 2}
    assert cluster.assignments == {("a", 0): (2, 1)}


def test_the_end_of_a_reassignment_is_announced_before_a_deletion_that_starts_again(tmp_path):
    """Brokers that are back lead to both, perhaps in the same millisecond. Seen on 2.8.2."""
    requests = "".join(ALL_TOLD.format(ms=ms, n=n) for ms, n in ((2, 4), (4, 1), (4, 8)))
    statements = statements_of(tmp_path, READY + UPDATING + BACK + ENDED + RESTARTED, requests)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.kind for event in events] == ["resume", "reassign", "brokers"]
    assert [batch.n_partitions for batch in events[-1].batches] == [4, 1, 8]


def test_a_notification_names_the_partitions_that_it_announces(tmp_path):
    """Not the deletion that has started again just before, in the same event. Seen on 2.2.2."""
    statements = statements_of(tmp_path, READY + BACK + RESTARTED + NOTIFIED[0], NOTIFIED[1])
    events = write_script(statements, find_terms(statements)[0])
    assert [event.kind for event in events] == ["resume", "brokers", "isr"]
    assert events[-1].fields["updates"] == {("a", 0): ((1,), 5)}


def test_a_reassignment_tells_the_replicas_of_a_partition_without_a_record(tmp_path):
    """It was created again while no controller was there to list them."""
    statements = statements_of(tmp_path, READY + NEW_TOPIC + AGAIN + UPDATING)
    (cluster,) = split_clusters(statements, find_terms(statements))
    unwritten = [event.fields["unwritten"] for event in cluster.events if event.kind == "failover"]
    assert unwritten == [{("a", 0): (1, 2)}]


def test_answers_name_the_replicas_that_brokers_deleted(tmp_path):
    """What stops before it is deleted is answered alike; each broker answers in order."""
    lines = STOPPED.format(ms=2, delete="false") + STOPPED.format(ms=3, delete="true")
    lines += "".join(ANSWERED.format(ms=ms, code=0) for ms in (4, 5)) + DELETED
    statements = statements_of(tmp_path, READY + DELETING, lines)
    events = write_script(statements, find_terms(statements)[0])
    assert [(event.fields, event.at) for event in events if event.kind == "deleted"] == [
        ({"broker": 2, "failures": {("a", 0, 2): False}}, len(statements) - 2)
    ]


@pytest.mark.parametrize("epoch", [4, 5])
def test_isr_changes_go_out_with_what_was_refused_after_an_election_is_over(tmp_path, epoch):
    """A controller has started its scheduler at the end; all of its request's partitions go out."""
    led = LED.format(minute=0, before="Offline", leader=1, epoch=4, version=4)
    statements = statements_of(
        tmp_path, ELECTED + READY + SCHEDULES, led + led.replace("a-0", "b-0") + ANNOUNCED
        + CACHED.format(topic="a", isr="1, 2", version=5, epoch=epoch)
        + CACHED.format(topic="b", isr="1", version=4, epoch=epoch),
    )
    events = write_script(statements, find_terms(statements)[0])
    name_isr_changes(statements, range(len(statements)), events)
    if epoch != 4:
        assert [event.kind for event in events] == ["failover", "hidden_isr"]
        return
    assert [event.kind for event in events] == ["failover", "isr"]
    assert events[1].fields["updates"] == {("a", 0): ((1, 2), 5)}
    assert events[1].fields["unchanged"] == (("b", 0),)


@pytest.mark.parametrize(("version", "found"), [(5, {"a"}), (6, set())])
def test_a_leader_that_was_put_back_into_the_isr_is_clean(tmp_path, version, found):
    """A version that runs ahead of the epoch says that the last leader wrote another ISR."""
    lines = LED.format(minute=1, before="Online", leader=1, epoch=4, version=4)
    lines += LED.format(minute=2, before="Offline", leader=2, epoch=5, version=version)
    statements = statements_of(tmp_path, READY, lines)
    assert unclean_topics(statements, range(len(statements))).keys() == found


def test_unclean_elections_are_enabled_after_an_election_that_failed(tmp_path):
    """Nobody says so if no controller is there by then. Seen on 3.5.2."""
    lines = LED.format(minute=1, before="Online", leader=1, epoch=4, version=4) + FAILED
    lines += LED.format(minute=3, before="Offline", leader=2, epoch=5, version=5)
    statements = statements_of(tmp_path, READY, lines)
    assert unclean_topics(statements, range(len(statements))) == {"a": len(statements) - 1}


def event(kind, time, **said):
    """An event of a controller whose log is not looked at."""
    return LogEvent(kind, time, 0, said, Term(1, 0, 0, epoch=4), number=time)


def test_most_lines_say_who_stays_in_an_isr(tmp_path):
    """One line that names another does not change it."""
    lines = "".join(LEADERLESS.format(second=at, isr=isr) for at, isr in enumerate((1, 2, 1)))
    statements = statements_of(tmp_path, READY, lines)
    gone = event("brokers", 1)
    note_survivors(statements, range(len(statements)), [gone])
    assert gone.fields["survivors"] == {("t", 0): 1}


@pytest.mark.parametrize(("survivor", "isr"), [(None, (1,)), (1, (1,)), (2, (2,)), (3, (1,))])
def test_who_stays_is_believed_of_members_that_went(survivor, isr):
    """Brokers leave in the order of a hash map; epoch and version rise by two in every order."""
    simulation = Simulation("zk-2.4")
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 4)
    simulation.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(simulation, first)
    known = {} if survivor is None else {"survivors": {("t", 0): survivor}}
    run(simulation, event("brokers", 1, added=(), bounced=(), deleted=(1, 2), live=(3,), **known))
    record = simulation.state.leadership(0)
    assert (record.leader, record.leader_epoch, record.version) == (-1, 7, 9)
    assert record.isr == isr
    assert {item.fields["isr"] for item in simulation.items_of(0, "update_metadata")} == {isr}


@pytest.mark.parametrize("survivor", [1, 2])
def test_who_stays_may_be_followed_by_an_unclean_leader_within_a_failover(survivor):
    """What brokers are sent before that election names who stays. Seen on 3.4.1."""
    simulation = Simulation("zk-3.4", {"t": 0})
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(first, "", 1, (1, 2), (1, 2, 3), 5, 7, 4)
    simulation.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(simulation, first)
    elected = event("failover", 1, registered={3: 0}, survivors={("t", 0): survivor})
    run(simulation, elected)
    assert simulation.state.leadership(0).isr == (3,)
    last_isrs = {
        item.fields["isr"] for item in simulation.items[0].of_event(elected)
        if item.fields.get("leader") == -1 and len(item.fields["isr"]) == 1
    }
    assert last_isrs == {(survivor,)}


@pytest.mark.parametrize("text", ["", "hello world\nthis is no log\n"])
def test_what_is_no_log_of_a_controller_is_said_to_be_none(tmp_path, text):
    """Nobody is asked for the release of nothing."""
    (tmp_path / "controller.log").write_text(text)
    with pytest.raises(InputError, match="no line of an active controller") as refused:
        replay(tmp_path)
    assert "--profile" not in str(refused.value)


@pytest.mark.parametrize(("order", "isrs"), [
    ((1, 2), {1: {2, 3}, 2: {3}}), ((2, 1), {2: {1, 3}, 1: {3}}), ((2, 3), {2: {1, 3}, 1: {3}}),
])
def test_what_a_reassignment_takes_out_goes_in_the_order_of_its_lines(order, isrs):
    """Records and requests to stop follow it; an order of other brokers is not believed."""
    simulation = Simulation("zk-2.4")
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(first, "", 3, (1, 2, 3), (3, 1, 2), 5, 7, 4)
    simulation.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(simulation, first)
    run(simulation, event("reassign", 1, targets={("t", 0): (3,)}, order={("t", 0): order}))
    shrunk = {item.key[1]: item.fields for item in simulation.items_of(0, "shrunk")}
    assert {broker: set(said["isr"]) for broker, said in shrunk.items()} == isrs
    epochs = [shrunk[broker]["leader_epoch"] for broker in isrs]
    assert epochs == sorted(epochs)
    stops = {item.key[1]: item.fields["leader_epoch"]
             for item in simulation.items_of(0, "stop_replica") if not item.fields["delete"]}
    assert [stops[broker] for broker in isrs] == sorted(stops.values())
    assert len(set(stops.values())) == 2


def test_a_reassignment_may_end_within_the_election_of_a_controller():
    """The line of the states it began with still has the replicas that it then removed."""
    simulation = Simulation("zk-2.4")
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 4)
    simulation.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(simulation, first)
    run(simulation, event("reassign", 1, targets={("t", 0): (3,)}))
    run(simulation, event("isr_written", 2, updates={("t", 0): (1, 2, 3)}))
    run(simulation, event("failover", 3, registered={1: 0, 3: 0}))
    assert simulation.state.assignment(0).replicas == (3,)
    states = {1: "OnlineReplica", 2: "OfflineReplica", 3: "OnlineReplica", 4: "OnlineReplica"}
    case = Case(simulation, BrokerSide(), 0, None, {"states": states}, 0)
    predicted = [check.predicted for check in COMPARE["replica_states"](case)]
    assert predicted == ["OnlineReplica", "OfflineReplica", "OnlineReplica", MISSING]


def test_what_the_node_asks_for_comes_before_what_goes_on():
    """Kafka 2.5, KafkaController.scala, `maybeResumeReassignments`."""
    simulation = Simulation("zk-2.5")
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    added = []
    for number in (0, 1):
        possibility = Possibility(("t", number), 0)
        start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 4)
        added.append((possibility, with_states(row_of(possibility, start), {1, 2, 3})))
    simulation.rebuild(set(), added)
    run(simulation, first)
    run(simulation, event("reassign", 1, targets={("t", 0): (1, 2, 3)}))
    run(simulation, event("failover", 2, registered={1: 0, 2: 0, 3: 0},
                          targets={("t", 1): (1, 2, 3)}))
    raised = {row: simulation.items_of(row, "raised")[-1] for row in (0, 1)}
    assert {item.event.kind for item in raised.values()} == {"failover"}
    assert raised[1].step < raised[0].step


def four_lines_a_millisecond(logged):
    """Let time go by more slowly."""
    for lines in logged.log.files.values():
        lines[:] = [
            re.sub(r"^(\[[^,]+,)(\d+)", lambda found: f"{found[1]}{int(found[2]) // 4:03d}", line)
            for line in lines
        ]


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_requests_right_before_another_reassignment_are_of_the_one_before(version, tmp_path):
    """Cancelled reassignments whose elections fail: the last request of one, then the next."""
    state = read_state("partition  ar  isr  leader  epoch  state", brokers=[1, 2, 3],
                       controller_id=-1, leader_recovery_supported=version == "3.9")
    logged = LoggedController(state, version)
    logged.fail_over(3)
    logged.create_topics({"t": [[1]] * 4})
    logged.change_brokers(failed=[1])
    for number in range(4):
        logged.reassign("t", number, [2])
    pause = logged.log.pause
    logged.log.pause = lambda: None
    for number in range(4):
        logged.reassign("t", number, [1])
    logged.log.pause = pause
    logged.rebalance()
    four_lines_a_millisecond(logged)
    logged.log.save(tmp_path)
    assert [str(one) for one in replay(tmp_path, profile=version).contradictions] == []


ACTIVE = """\
[2021-05-01 10:00:00,000] INFO [Controller id=1] Currently active brokers in the cluster: \
Set(1, 2, 3) (kafka.controller.KafkaController)
"""
SHUTTING_DOWN = """\
[2021-05-01 10:01:00,001] INFO [Controller id=1] Shutting down broker 2 \
(kafka.controller.KafkaController)
"""
CHANGED_AND_MOVED = """\
[2021-05-01 10:01:00,000] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2, 3) for 2 partitions (state.change.logger)
[2021-05-01 10:01:00,010] INFO [Controller id=1 epoch=4] Changed partition a-0 from \
OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=4, isr=List(1), \
zkVersion=5) (state.change.logger)
[2021-05-01 10:01:00,010] INFO [Controller id=1 epoch=4] Sending LeaderAndIsr request to broker 1 \
with 1 become-leader and 0 become-follower partitions (state.change.logger)
[2021-05-01 10:01:00,010] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2, 3) for 1 partitions (state.change.logger)
"""


CAUGHT_UP = """\
[2021-05-01 10:01:00,001] INFO [Controller id=1] Target replicas ArrayBuffer(1) have all caught up \
with the leader for reassigning partition a-0 (kafka.controller.KafkaController)
"""
REMOVING = """\
[2021-05-01 10:01:00,001] INFO [Controller id=1] Successfully updated assignment of partition \
a-0 to ReplicaAssignment(replicas=1,2,3, addingReplicas=, removingReplicas=3) \
(kafka.controller.KafkaController)
"""
RAISED_THEN_CHANGED = """\
[2021-05-01 10:01:00,010] INFO [Controller id=1 epoch=4] Sending LeaderAndIsr request to broker 1 \
with 1 become-leader and 0 become-follower partitions (state.change.logger)
[2021-05-01 10:01:00,010] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2, 3) for 1 partitions (state.change.logger)
[2021-05-01 10:01:01,500] INFO [Controller id=1 epoch=4] Sending UpdateMetadata request to \
brokers HashSet(1, 2, 3) for 1 partitions (state.change.logger)
"""


@pytest.mark.parametrize(("line", "kind"), [(SHUTTING_DOWN, "shutdown"), (CAUGHT_UP, "caught_up")])
def test_an_isr_change_right_before_an_event_leaves_it_its_requests(tmp_path, line, kind):
    """The line that announces the event comes a millisecond later. Seen on 3.8.1 and 3.4.1."""
    statements = statements_of(tmp_path, ACTIVE + READY + line, CHANGED_AND_MOVED)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.kind for event in events[1:]] == ["hidden_isr", kind]
    assert [len(event.batches) for event in events[1:]] == [1, 1]


def test_a_reassignment_that_only_removes_waits_too_until_its_end_is_stored(tmp_path):
    """Its target is not in the ISR: what is announced next is another change. Seen on 3.9.1."""
    statements = statements_of(tmp_path, ACTIVE + READY + REMOVING, RAISED_THEN_CHANGED)
    events = write_script(statements, find_terms(statements)[0])
    assert [event.kind for event in events[1:]] == ["reassign", "hidden_isr"]


@pytest.mark.parametrize(("completes", "first"), [("a", 1), ("b", 2), (None, 1)])
def test_who_is_asked_to_delete_the_topic_that_is_gone_first_answers_first(completes, first):
    """Where lines do not say who has answered. Seen on 3.4.1."""
    simulation = Simulation("zk-3.4")
    begin = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    simulation.rebuild(set(), [
        (possibility, with_states(row_of(possibility, start), {1, 2, 3}))
        for possibility, start in (
            (Possibility((topic, 0), 0), Start(begin, "", ids[0], ids, ids, 5, 7, 4))
            for topic, ids in (("a", (1, 2)), ("b", (2, 3)))
        )
    ])
    run(simulation, begin)
    run(simulation, event("delete", 1, topics=("a", "b")))
    run(simulation, event("deleted", 2, broker=None, halted=(), refused_by=frozenset(),
                          completes=completes))
    answered = {
        broker for row in (0, 1) for broker, at in simulation.state.replica_states_of(row).items()
        if at == ReplicaState.DELETION_SUCCESSFUL
    }
    assert answered == {first}


CREATED = Mention(1, frozenset({1, 2}), 0, 0, created=True, leader=1)
SHRUNK = Mention(11, frozenset({1}), 1, None, frozenset({1}), leader=-1)
"""A controller took replica 1 out, which stays in the ISR without leading. Seen on 2.6.3."""
SENT = Mention(11, frozenset({1}), 1, None, leader=1)
"""Its request, which has no version; the broker that takes it in names one. Seen on 0.11.0.3."""


@pytest.mark.parametrize(("epoch", "writes"), [(2, []), (3, [(1, 2, 3)])])
def test_a_deletion_raises_the_leader_epoch_for_every_member_of_the_isr(epoch, writes):
    """The next line of the record may be of a shutdown, which has no part in it. Seen on 2.4.1.

    Kafka 2.4, KafkaController.scala, `doControlledShutdown`; ReplicaStateMachine.scala,
    `doRemoveReplicasFromIsr`.
    """
    gone, later = event("delete", 10, topics=("t",)), event("shutdown", 20, broker=2)
    gone.at, later.at = 10, 20
    stretch = Stretch(Cluster(0, [], [], [event("resume", 0), gone, later]), [], 0, 3)
    mention = Mention(21, frozenset({1}), epoch, None, leader=-1)
    found = writes_of(stretch, ("t", 0), [CREATED, mention], in_isr=False, replicas=(3, 1, 2))
    assert [(tuple(sorted(write.isr)), write.place) for write in found] == [
        (isr, 1) for isr in writes
    ]


@pytest.mark.parametrize(("mentions", "writes"), [
    ([SHRUNK], [((1,), 1)]),
    ([SHRUNK._replace(leader=1, left=frozenset({2}))], []),
    ([SHRUNK._replace(leader=1, left=frozenset({2}), leader_epoch=0)], [((1,), 1)]),
    ([SHRUNK._replace(isr=frozenset({1, 2}), ahead=0), SHRUNK._replace(number=21, ahead=2)],
     [((1, 2), 2)]),
    ([SHRUNK._replace(number=21, leader_epoch=2, ahead=0)], []),
    ([SENT, SENT._replace(number=12), SENT._replace(number=13, ahead=2)], [((1, 2), 2)]),
    ([SENT, SENT._replace(number=13, ahead=0)], []),
    ([Mention(21, frozenset({2}), 1, 1, leader=2)], [((2,), 1)]),
    ([Mention(21, frozenset({2}), 1, 1, leader=2, recovers=True)], [((1,), 1)]),
])
def test_a_line_of_who_left_the_isr_tells_what_a_leader_had_written(mentions, writes):
    """It has no version up to 2.6; where it says that nobody leads, no leader writes any more.

    A leader that has to recover was not in the ISR that the last one wrote. Seen on 3.6.2.
    """
    found = writes_found(mentions)
    assert [(tuple(sorted(write.isr)), write.times) for write in found] == writes
    assert {write.place for write in found} <= {1, 2}


def writes_found(mentions):
    """Writes of a partition of which broker 2 is gone from line 10 to 20."""
    gone, back = (event("brokers", 10 * n, added=(), deleted=(2,)[n - 1 :], bounced=())
                  for n in (1, 2))
    gone.at, back.at = 10, 20
    stretch = Stretch(Cluster(0, [], [], [event("resume", 0), gone, back]), [], 0, 3)
    return writes_of(stretch, ("t", 0), [CREATED, *mentions], in_isr=False)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_record_that_an_event_reads_before_another_changes_within_it(is_stored):
    """An election fails for want of broker 2, which the event then takes out of the ISR."""
    read = Mention(11, frozenset({1}), 0, None, leader=1, is_stored=is_stored)
    found = writes_found([read, SENT._replace(number=12, left=frozenset({2}))])
    assert [(set(write.isr), write.within) for write in found] == [
        ({1}, False), ({1, 2}, is_stored),
    ]


@pytest.mark.parametrize(("isr", "is_stored", "is_written"), [
    ({1}, True, True), ({1}, False, False), ({1, 3}, False, True), ({1, 2}, True, False),
])
def test_a_line_without_an_epoch_tells_an_isr_that_a_leader_wrote(isr, is_stored, is_written):
    """What is read in the store, or what is cached of a topic that is deleted. Seen on 1.1.1."""
    mention = Mention(11, frozenset(isr), SAME_EPOCH, None, is_stored=is_stored)
    found = writes_found([mention])
    assert [(write.isr, write.times) for write in found] == [(isr, 1)] * is_written
    assert all(write.is_confirmed == is_stored for write in found)


def test_a_request_that_arrives_late_tells_the_version_of_the_record_that_it_had():
    """By then the controller has written the next one. Seen on 0.10.2.2."""
    after = SENT._replace(number=12, leader_epoch=2, leader=-1)
    found = writes_found([SENT, after, SENT._replace(number=21, ahead=2)])
    assert [(set(write.isr), write.times, write.place) for write in found] == [({1, 2}, 2, 1)]


@pytest.mark.parametrize("is_named", [False, True])
def test_who_answers_depends_on_all_topics_that_are_being_deleted(is_named):
    """What is tried out of one partition alone would take the answers of others. Seen on 3.2.3.

    It would be deleted before its topic: where lines name who answers, that is all that counts.
    """
    fields = {"failures": {}} if is_named else {"halted": (), "refused_by": frozenset(),
                                                  "completes": None}
    events = [event("resume", 0), event("delete", 1, topics=("a", "t")),
              event("deleted", 2, broker=None, **fields)]
    explorer = Explorer(Cluster(0, [], [], events), [], "zk-3.9", Steps())
    explorer.world.gone = {("a", 0): [], ("t", 0): [], ("t", 1): []}
    assert explorer.companions(explorer.world, [("t", 0)]) == (
        {("t", 0), ("t", 1)} if is_named else {("a", 0), ("t", 0), ("t", 1)}
    )


def test_a_request_from_before_the_log_is_of_no_new_partition():
    """A broker that starts is sent what there is by then. Seen on 3.4.1."""
    simulation = Simulation("zk-3.4")
    begins = event("resume", 0, registered={1: 0, 2: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(begins, "", 1, (1, 2), (1, 2), 5, 7, 4)
    possibility.starts.append(start)
    simulation.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2}))])
    run(simulation, begins)
    request = Case(simulation, BrokerSide(), 0, None, {}, 0).from_before("leader_and_isr")
    assert (request.fields["is_new"], request.fields["leader_epoch"]) == (False, 5)
