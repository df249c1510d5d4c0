"""Replay of releases before 2.4: what their lines leave out, and what their store knows first.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import kfast
from kfast.log_replay.engine.handlers import run
from kfast.log_replay.engine.rows import Possibility, Start, row_of, with_states
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.engine.stored_records import write_isr
from kfast.log_replay.events.announced_events import write_script
from kfast.log_replay.events.batches import split_batches
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.events.unclean_topics import unclean_topics
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.terms import Term, find_terms
from kfast.log_replay.wording.statements import understand
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Assigned
from kfast.schema import ReplicaState
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

READY = """\
[2021-05-01 10:00:00,001] INFO [Controller id=1] Ready to serve as the new controller with \
epoch 4 (kafka.controller.KafkaController)
"""
REASSIGNED = """\
[2021-05-01 10:00:09,001] INFO [Controller id=1] Handling reassignment of partition a-1 to new \
replicas 2,1 (kafka.controller.KafkaController)
[2021-05-01 10:00:09,021] INFO [Controller id=1] Handling reassignment of partition a-0 to new \
replicas 3 (kafka.controller.KafkaController)
"""
CHECKED = """\
[2021-05-01 10:00:09,001] TRACE [Controller id=1] Checking need to trigger auto leader balancing \
(kafka.controller.KafkaController)
[2021-05-01 10:00:09,002] DEBUG [Controller id=1] Topics not in preferred replica for broker 1 \
Map(a-0 -> Vector(1, 2)) (kafka.controller.KafkaController)
{listed}[2021-05-01 10:00:10,001] INFO [Controller id=1] Starting preferred replica leader \
election for partitions {elected} (kafka.controller.KafkaController)
"""
LISTED_LAST = """\
[2021-05-01 10:00:09,004] DEBUG [Controller id=1] Topics not in preferred replica for broker 2 \
Map() (kafka.controller.KafkaController)
"""
RAISED = """\
[2021-05-01 10:00:09,006] INFO [Controller id=1] Updated leader epoch for partition a-1 to 3 \
(kafka.controller.KafkaController)
[2021-05-01 10:00:09,022] INFO [Controller id=1] New replicas 3 for partition a-0 being \
reassigned not yet caught up with the leader (kafka.controller.KafkaController)
[2021-05-01 10:00:09,024] INFO [Controller id=1] Updated leader epoch for partition a-0 to 5 \
(kafka.controller.KafkaController)
"""
ONLINE_AGAIN = "".join(
    "[2021-05-01 10:00:40,001] TRACE [Controller id=1 epoch=4] Changed state of replica 2 for "
    f"partition a-{number} from OnlineReplica to OnlineReplica (state.change.logger)\n"
    for number in range(2)
)
UNSIGNED = """\
[2021-05-01 10:00:00,001] INFO [Controller 1]: Broker 1 is ready to serve as the new controller \
with epoch 4 (kafka.controller.KafkaController)
[2021-05-01 10:00:09,001] DEBUG Sending MetadataRequest to Brokers:ArrayBuffer(1, 2) for \
TopicAndPartitions:Set([a,1]) (kafka.controller.IsrChangeNotificationListener)
"""
UNCLEAN = """\
[2021-05-01 10:00:09,001] DEBUG [OfflinePartitionLeaderSelector]: No broker in ISR is alive for \
[risky,0]. Pick the leader from the alive assigned replicas: 1 \
(kafka.controller.OfflinePartitionLeaderSelector)
"""

KEPT = """\
[2021-05-01 10:00:08,001] INFO [Controller 1]: Retaining last ISR 1 of partition [risky,0] since \
unclean leader election is disabled (kafka.controller.KafkaController)
"""


READ = """\
[2021-05-01 10:00:09,001] WARN [Controller 1]: Cannot remove replica 3 from ISR of partition [a,1] \
since it is not in the ISR. Leader = 1 ; ISR = List(1, 2) (kafka.controller.KafkaController)
[2021-05-01 10:00:09,002] INFO [OfflinePartitionLeaderSelector]: Selected new leader and ISR \
{"leader":2,"leader_epoch":3,"isr":[2]} for offline partition [a,1] \
(kafka.controller.OfflinePartitionLeaderSelector)
"""
SELECTED = (
    "[2021-05-01 10:00:0{second},001] INFO [OfflinePartitionLeaderSelector]: Selected new leader "
    'and ISR {{"leader":1,"leader_epoch":3,"isr":[{isr}]}} for offline partition [a,1] '
    "(kafka.controller.OfflinePartitionLeaderSelector)\n"
)
GONE = """\
[2021-05-01 10:00:09,001] WARN [Channel manager on controller 1]: Not sending request (type=\
LeaderAndIsRequest, controllerId=1, controllerEpoch=2, partitionStates={a-b-1=PartitionState(\
controllerEpoch=2, leader=1, leaderEpoch=1, isr=1,2, zkVersion=4, replicas=1,2,3, isNew=false), \
c-0=PartitionState(controllerEpoch=2, leader=-1, leaderEpoch=3, isr=3, zkVersion=5, replicas=3, \
isNew=false)}, liveLeaders=(b1:9092 (id: 1 rack: null))) to broker 3, since it is offline. \
(kafka.controller.ControllerChannelManager)
"""
REFUSED = """\
[2021-05-01 10:00:09,003] ERROR Controller 1 epoch 4 encountered error while electing leader for \
partition [a,1] due to: Preferred replica 1 for partition [a,1] is either not alive or not in the \
isr. Current leader and ISR: [{"leader":2,"leader_epoch":4,"isr":[2,3]}]. (state.change.logger)
[2021-05-01 10:00:09,004] ERROR Controller 1 epoch 4 initiated state change for partition [a,1] \
from OfflinePartition to OnlinePartition failed (state.change.logger)
kafka.common.NoReplicaOnlineException: No broker in ISR for partition [a,1] is alive. \
Live brokers are: [Set(1)], ISR brokers are: [3]
"""
RECEIVED = """\
[2021-05-01 10:00:09,003] TRACE Broker 2 received LeaderAndIsr request PartitionState(\
controllerEpoch=4, leader=2, leaderEpoch=0, isr=[2], zkVersion=2, replicas=[1, 2]) correlation id \
1 from controller 2 epoch 5 for partition [a,1] (state.change.logger)
"""
EMPTY = """\
[2021-05-01 10:00:09,001] INFO [Controller 1]: New leader and ISR for partition [{topic},0] is \
{{"leader":-1,"leader_epoch":3,"isr":[{isr}]}} (kafka.controller.KafkaController)
"""
DELETED = "".join(
    f"[2021-05-01 10:00:0{second},001] INFO [Replica state machine on controller 1]: Invoking "
    f"state change to ReplicaDeletionSuccessful for replicas [Topic=a,Partition=0,Replica={second}]"
    " (kafka.controller.ReplicaStateMachine)\n" for second in (7, 8, 9)
)
GOES_ON = "[2021-05-01 10:00:08,009] INFO {}, Handling deletion for topics a (kafka.controller)\n"


def statements_of(directory, controller, state_change=""):
    """Statements of two files."""
    (directory / "controller.log").write_text(controller)
    (directory / "state-change.log").write_text(state_change)
    return understand(read_logs(directory), Steps())[0]


def script_of(directory, controller, state_change=""):
    """Events of the only term."""
    statements = statements_of(directory, controller, state_change)
    return write_script(statements, find_terms(statements)[0])


def test_a_line_without_a_name_is_of_whoever_writes_the_file(tmp_path):
    """0.10.0, `IsrChangeNotificationListener`: it does not say which controller it is."""
    said = statements_of(tmp_path, UNSIGNED)[1]
    assert (said.kind, said.actor, said.actor_id) == ("isr_notified", "controller", 1)
    assert said.fields["partitions"] == (("a", 1),)


def test_only_topics_that_allow_it_look_beyond_the_isr(tmp_path):
    """Up to 1.0, `OfflinePartitionLeaderSelector` says when it does."""
    statements = statements_of(tmp_path, UNCLEAN)
    assert unclean_topics(statements, range(len(statements))) == {"risky": 0}


def test_unclean_elections_are_enabled_after_a_last_member_was_kept(tmp_path):
    """Up to 1.0, `removeReplicaFromIsr` says that they are disabled. Seen on 0.10.2."""
    statements = statements_of(tmp_path, KEPT + UNCLEAN)
    assert unclean_topics(statements, range(len(statements))) == {"risky": 1}


def test_an_isr_without_members_tells_that_others_may_lead(tmp_path):
    """Up to 1.0, `removeReplicaFromIsr` retains the last member only where nobody else may lead."""
    lines = EMPTY.format(topic="a", isr="1") + EMPTY.format(topic="risky", isr="")
    statements = statements_of(tmp_path, lines)
    assert unclean_topics(statements, range(len(statements))) == {"risky": 0}


def test_up_to_1_0_a_controller_says_what_it_reads(tmp_path):
    """The ISR that is stored, where that keeps it from electing a leader or taking one out."""
    statements = statements_of(tmp_path, READ, REFUSED)
    stored = [line.fields["record"] for line in statements
              if line.kind in ("store_record", "selects_leader")]
    assert [(record.leader, record.leader_epoch, record.isr) for record in stored] == [
        (1, None, (1, 2)), (2, 3, (2,)), (2, 4, (2, 3)),
    ]
    assert [line.fields["isr"] for line in statements if line.kind == "partition_failed"] == [(3,)]


@pytest.mark.parametrize(("second", "expected"), [(1, [[1, 2]]), (5, [[1], [1, 2]])])
def test_a_leader_that_the_store_refuses_is_selected_once_more(second, expected, tmp_path):
    """Up to 1.0, where its ISR was written meanwhile, and the leader epoch is the same."""
    statements = statements_of(tmp_path, "".join(
        SELECTED.format(second=at, isr=isr) for at, isr in ((0, "1"), (second, "1,2"))
    ))
    assert [list(line.fields["record"].isr) for line in statements
            if line.kind == "selects_leader"] == expected


def test_a_request_to_a_broker_that_is_gone_has_its_records(tmp_path):
    """Up to 2.1 it is made all the same, and printed as requests were by then."""
    line, = statements_of(tmp_path, GONE)
    told = dict(subjects(line))
    assert (line.kind, line.fields["broker"], list(told)) == (
        "not_sent", 3, [("a-b", 1), ("c", 0)]
    )
    record = told["a-b", 1]["record"]
    assert (record.leader, record.leader_epoch, record.isr, record.version, record.replicas) == (
        1, 1, (1, 2), 4, (1, 2, 3)
    )


@pytest.mark.parametrize("manager", ["[delete-topics-thread-1]", "[Topic Deletion Manager 1]"])
def test_a_thread_that_deletes_topics_waits_for_several_answers(manager, tmp_path):
    """0.10, `TopicDeletionManager`: answers wake it up, and it goes on when it gets the lock.

    At INFO, too, up to 1.0 a line names the replicas that a broker has deleted.
    """
    first, second, third = DELETED.splitlines(keepends=True)
    lines = first + second + GOES_ON.format(manager) + third
    answers = [event for event in script_of(tmp_path, READY + lines) if event.kind == "deleted"]
    assert [list(event.fields["failures"]) for event in answers] == [
        [("a", 0, broker)] for broker in (7, 8, 9)
    ]
    resumes = [event.fields.get("resumes", True) for event in answers]
    assert resumes == ["thread" not in manager, True, True]


def test_one_node_of_reassignments_is_one_event(tmp_path):
    """Up to 2.3 the controller takes its partitions one after the other."""
    events = [event for event in script_of(tmp_path, READY + REASSIGNED) if not event.inferred]
    assert [event.kind for event in events] == ["reassign"]
    assert list(events[0].fields["targets"].items()) == [(("a", 1), (2, 1)), (("a", 0), (3,))]


@pytest.mark.parametrize(("elected", "listed", "trigger"), [
    ("a-0", "", "AutoTriggered"), ("a-1", "", "ZkTriggered"), ("a-0", LISTED_LAST, "ZkTriggered"),
])
def test_a_check_for_unbalanced_leaders_elects_what_it_has_listed_last(
    elected, listed, trigger, tmp_path
):
    """Up to 2.3 an election does not say who asks for it; somebody may do so right after a check.

    A check elects for each broker before it goes on to the next one. Seen on 2.3.1.

    Kafka 1.1, KafkaController.scala, `checkAndTriggerAutoLeaderRebalance`.
    """
    events = script_of(tmp_path, READY + CHECKED.format(elected=elected, listed=listed))
    assert [event.fields["trigger"] for event in events if event.kind == "election"] == [trigger]


def test_an_event_of_the_same_millisecond_does_not_divide_a_request(tmp_path):
    """Partitions of one UpdateMetadata are logged in one go, perhaps with another time each."""
    statements = statements_of(tmp_path, "", "".join(
        f"[2021-05-01 10:00:09,00{ms}] TRACE [Controller id=1 epoch=4] Sending UpdateMetadata "
        "request PartitionState(controllerEpoch=4, leader=1, leaderEpoch=2, isr=[1, 2], "
        "zkVersion=7, replicas=[1, 2], offlineReplicas=[]) to brokers Set(1, 2) for partition "
        f"a-{ms} (state.change.logger)\n" for ms in (1, 3)
    ))
    end = statements[1].entry.time
    n_batches = [len(split_batches(statements, range(2), [mark])) for mark in (end - 1, end)]
    assert n_batches == [2, 1]


def test_a_reassignment_that_ends_at_once_announces_its_partition(tmp_path):
    """It raises the leader epoch as one that waits for new replicas does, which announces nothing.

    Kafka 1.0, KafkaController.scala, `onPartitionReassignment`.
    """
    announced = "".join(
        f"[2021-05-01 10:00:0{second},010] TRACE [Controller id=1 epoch=4] Sending UpdateMetadata "
        "request PartitionState(controllerEpoch=4, leader=1, leaderEpoch=2, isr=[1, 2], "
        "zkVersion=7, replicas=[2, 1], offlineReplicas=[]) to brokers Set(1, 2, 3) for partition "
        "a-1 (state.change.logger)\n" for second in (1, 9)
    )
    events = script_of(tmp_path, READY + REASSIGNED + RAISED, announced)
    assert events[-1].kind == "reassign"


def test_a_failed_log_directory_is_found_by_what_it_asks_for(tmp_path):
    """1.0 to 2.1 announce it with no line; every replica of its broker becomes Online again."""
    events = script_of(tmp_path, READY, ONLINE_AGAIN)
    named = [(event.kind, event.fields["brokers"]) for event in events if "brokers" in event.fields]
    assert named == [("dir_failure", (2,))]


def test_an_isr_that_was_written_twice_before_it_is_heard_of(tmp_path):
    """A follower falls behind and catches up: the ISR is the same, the version two higher."""
    told = (
        "[2021-05-01 10:00:{second},001] TRACE [Controller id=1 epoch=4] Sending UpdateMetadata "
        "request PartitionState(controllerEpoch=4, leader=1, leaderEpoch=2, isr=[1, 2], "
        "zkVersion={version}, replicas=[1, 2], offlineReplicas=[]) to brokers Set(1, 2) for "
        "partition a-0 (state.change.logger)\n"
    )
    notified = (
        "[2021-05-01 10:00:40,000] DEBUG [Controller id=1] Sending MetadataRequest to Brokers: "
        "ArrayBuffer(1, 2) for TopicPartitions: ArrayBuffer(a-0) "
        "(kafka.controller.KafkaController)\n"
    )
    events = script_of(tmp_path, READY + notified, "".join(
        told.format(second=second, version=version) for second, version in ((10, 7), (40, 9))
    ))
    n_writes = [event.fields["n_writes"] for event in events if event.kind == "isr"]
    assert n_writes[-1] == {("a", 0): 2}


# --- the store knows first ------------------------------------------------------------------------


def event(kind, time, **said):
    """An event of a controller whose log is not looked at."""
    return LogEvent(kind, time, 0, said, Term(1, 0, 0, epoch=4), number=time)


@pytest.fixture
def simulation():
    """One partition of a controller of 2.0."""
    return simulation_of("zk-2.0")


def simulation_of(profile):
    """One partition on brokers 1 and 2 of three, led by 1."""
    made = Simulation(profile)
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    possibility = Possibility(("t", 0), 0)
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 4)
    row = with_states(row_of(possibility, start), {1, 2, 3})
    made.rebuild(set(), [(possibility, row)])
    run(made, first)
    return made


def epochs(record):
    """Leader epoch and version."""
    return record.leader_epoch, record.version


def test_a_reassignment_raises_an_epoch_that_is_not_cached(simulation):
    """Sections 6.6 and 8.1: up to 2.3 the cache has the old record."""
    ran = run(simulation, event("reassign", 1, targets={("t", 0): (3, 1)}))
    sent = [row["leader_epoch"] for row in ran.outcomes[0].requests.to_pylist()]
    assert set(sent) == {6, 5}
    assert epochs(simulation.state.leadership(0)) == (5, 7)
    assert epochs(simulation.unread[0]) == (6, 8)


def test_an_election_reads_what_a_leader_wrote(simulation):
    """Section 6.10: the controller hears of it later, and reads it at once."""
    run(simulation, event("isr_written", 1, updates={("t", 0): (1,)}))
    assert simulation.state.leadership(0).isr == (1, 2)
    run(simulation, event("brokers", 2, added=(), bounced=(), deleted=(1,), live=(2, 3)))
    assert simulation.state.leadership(0).isr == (1,)
    assert simulation.unread == {}


def test_a_leader_writes_while_the_controller_works():
    """Its election reads the ISR before, and fails; the replica leaves the ISR after. On 0.11.0.3.

    Up to 1.0 the controller reads each record again when it takes a replica out.
    """
    simulation = simulation_of("zk-0.10")
    run(simulation, event("isr_written", 1, updates={("t", 0): (1,)}))
    run(simulation, event("isr_written", 2, updates={("t", 0): (1, 2)}, within=True))
    ran = run(simulation, event("brokers", 3, added=(), bounced=(), deleted=(1,), live=(2, 3)))
    assert [row["code"] for row in ran.outcomes[0].refusals.to_pylist()] == ["NO_ELIGIBLE_LEADER"]
    record = simulation.state.leadership(0)
    assert (record.leader, record.isr, record.version) == (-1, (2,), 10)
    assert simulation.unread == simulation.late == {}


def test_what_a_leader_writes_while_the_controller_works_is_stored_if_nobody_reads_it(simulation):
    """The next event reads it."""
    run(simulation, event("isr_written", 1, updates={("t", 0): (1,)}, within=True))
    run(simulation, event("brokers", 2, added=(), bounced=(), deleted=(3,), live=(1, 2)))
    assert simulation.unread[0].isr == (1,)


def test_an_answer_may_leave_deletions_for_later(simulation):
    """All replicas are deleted, and the topic is still there."""
    run(simulation, event("delete", 1, topics=("t",)))
    for broker, resumes in ((1, True), (2, False)):
        run(simulation, event("deleted", 2, resumes=resumes, failures={("t", 0, broker): False}))
    states = simulation.state.replica_states_of(0)
    assert states == dict.fromkeys((1, 2), ReplicaState.DELETION_SUCCESSFUL)
    assert simulation.rows_of(("t", 0)) == [0]


def test_a_topic_may_come_before_any_broker():
    """A new controller knows of no broker until it is told of some. Seen on 0.11.0.3."""
    simulation = Simulation("zk-0.10")
    run(simulation, event("failover", 1, registered={}))
    run(simulation, event("topics", 2, created={("a", 0): Assigned((1, 2))}, deleted=()))
    run(simulation, event("brokers", 3, added=(1,), bounced=(), deleted=(), live=(1,)))
    assert simulation.state.leadership(0).leader == 1


@pytest.mark.parametrize(("left", "isr"), [({2}, (1,)), ({1, 2}, (1, 2))])
def test_a_leader_that_no_line_names_an_isr_of_takes_out_who_is_gone_soon(left, isr):
    """The last member stays."""
    simulation = simulation_of("zk-1.1")
    run(simulation, event("isr_written", 1, updates={("t", 0): None}, left={("t", 0): left}))
    assert simulation.stored_record(0).isr == isr


def test_a_record_that_a_controller_takes_over_keeps_its_stored_epoch():
    """A replica that a leader took out is not in the ISR any more: nothing is stored anew."""
    simulation = simulation_of("zk-2.4")
    failover = event("failover", 2, registered={1: 0, 3: 0})
    failover.term = Term(3, 0, 0, epoch=5)
    run(simulation, event("isr_written", 1, updates={("t", 0): (1,)}))
    run(simulation, failover)
    assert simulation.state.leadership(0).controller_epoch == 5
    run(simulation, event("isr", 3, partitions=(("t", 0),), notified=True, updates={}))
    assert simulation.state.leadership(0).controller_epoch == 4


def test_a_request_to_a_broker_that_is_gone_is_logged(simulation):
    """Up to 2.1 every request is, and the channel manager drops it."""
    run(simulation, event("brokers", 1, added=(), bounced=(), deleted=(3,), live=(1, 2)))
    run(simulation, event("reassign", 2, targets={("t", 0): (3, 1)}))
    fields = simulation.take(0, ("leader_and_isr", 3), 2, id(simulation.ran[-1].event.term))
    assert fields["leader_epoch"] == 6
    assert not list(simulation.requests(0, "leader_and_isr", 3))


def test_a_record_that_is_only_taken_over_is_stored_as_its_leader_wrote_it():
    """Kafka 2.4, ReplicaStateMachine.scala, `doRemoveReplicasFromIsr`: who is out of it already."""
    made = Simulation("zk-2.4")
    possibility = Possibility(("t", 0), 0)
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 4)
    made.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(made, first)
    write_isr(made, 0, (1,))
    run(made, LogEvent("failover", 1, 0, {"registered": {1: 0, 3: 0}}, Term(3, 0, 0, epoch=5)))
    assert (made.state.leadership(0).controller_epoch, made.state.leadership(0).version) == (5, 8)
    assert made.stored_record(0).controller_epoch == 4


@pytest.mark.parametrize(("profile", "epoch"), [("zk-2.4", 3), ("zk-2.8", 9)])
def test_whoever_writes_an_isr_leaves_the_controller_epoch_that_it_knows(profile, epoch):
    """Kafka 2.8, KafkaController.scala, `processAlterIsr`: the controller. Seen on 2.8.2."""
    made = Simulation(profile)
    first = event("resume", 0, registered={1: 0, 2: 0})
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 3)
    made.rebuild(set(), [
        (Possibility(("t", 0), 0), with_states(row_of(Possibility(("t", 0), 0), start), {1, 2}))
    ])
    made.state.controller_epoch = 9
    write_isr(made, 0, (1,))
    assert made.stored_record(0).controller_epoch == epoch


def test_a_record_is_taken_over_from_what_its_leader_wrote_meanwhile():
    """A notification then has the controller read who wrote it. Seen on 2.3.1."""
    made = Simulation("zk-2.4")
    possibility = Possibility(("t", 0), 0)
    first = event("resume", 0, registered={1: 0, 2: 0, 3: 0})
    start = Start(first, "", 1, (1, 2), (1, 2), 5, 7, 3)
    made.rebuild(set(), [(possibility, with_states(row_of(possibility, start), {1, 2, 3}))])
    run(made, first)
    write_isr(made, 0, (1,))
    run(made, event("brokers", 1, added=(), bounced=(), deleted=(2,)))
    assert vars(made.state.leadership(0)) | {"controller_epoch": 4, "version": 8} == vars(
        made.state.leadership(0))
    run(made, event("isr", 2, notified=True, partitions=(("t", 0),), updates={("t", 0): ((1,), 8)}))
    assert made.state.leadership(0).controller_epoch == 3
    run(made, event("modified", 3))
    assert made.stored_record(0).controller_epoch == 3


# --- ISRs that leaders wrote ----------------------------------------------------------------------


def begin(version):
    """A cluster of three brokers whose controller has just been elected, with a topic."""
    state = read_state("""
        partition  ar     isr    leader  epoch  state
        calm-0     2,3    3,2    3       4      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, version, trace=True)
    logged.fail_over(1)
    logged.create_topics({"t": [[1, 2, 3], [1, 3, 2]]})
    return logged


def leaders_write(logged, isr):
    """Leaders of a topic write an ISR, and the controller is not notified."""
    for number in range(2):
        row = logged.log.row("t", number)
        record = logged.controller.store.get_row(row)
        logged.controller.store.replace(row, replace(record, isr=isr, version=record.version + 1))


def wrong(logged, folder):
    """What a replay of the logs contradicts."""
    logged.log.save(folder)
    return [str(one) for one in kfast.replay(folder).contradictions]


@pytest.mark.parametrize("version", ["0.10", "1.0", "2.0"])
def test_a_leader_took_a_replica_out_before_its_broker_was_gone(version, tmp_path):
    """Up to 0.11 no line of a controller has a version: the epoch that stays tells it."""
    logged = begin(version)
    leaders_write(logged, (1, 2))
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    assert wrong(logged, tmp_path) == []


def test_up_to_0_11_what_a_broker_receives_confirms_a_version(tmp_path):
    """No line of a controller says one; elsewhere a broker may be late. Seen on 0.10.2.2."""
    statements = statements_of(tmp_path, "", RECEIVED)
    cluster = Cluster(0, [], [0], [], lines_about={("a", 1): [0]})
    assert cluster.next_counts(statements, ("a", 1), 0) is None
    assert cluster.next_counts(statements, ("a", 1), 0, by_brokers=True) == (0, 2)


@pytest.mark.parametrize("version", ["0.10", "1.0", "2.0"])
def test_a_leader_put_a_replica_back_before_its_broker_was_gone(version, tmp_path):
    """Its broker is taken out of the ISR, so the epoch rises, and another has come back too."""
    logged = begin(version)
    logged.change_brokers(failed=[2, 3])
    logged.change_brokers(started=[2, 3])
    leaders_write(logged, (1, 2, 3))
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    assert wrong(logged, tmp_path) == []


@pytest.mark.parametrize("version", ["0.10", "1.0"])
def test_what_a_leader_wrote_is_told_although_its_topic_is_deleted_later(version, tmp_path):
    """Up to 1.1 every request has the partitions that are to be deleted, also those of others."""
    logged = begin(version)
    leaders_write(logged, (1, 2))
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.delete(["t"])
    logged.catch_up([3])
    for target in ([3, 2], [2, 3]) * 3:
        logged.reassign("calm", 0, target)
    assert wrong(logged, tmp_path) == []


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_an_isr_written_after_what_a_hole_hides(version, tmp_path):
    """The record of a new controller is adopted as it was before its leader wrote the ISR."""
    logged = begin(version)
    lines = {name: len(some) for name, some in logged.log.files.items()}
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    leaders_write(logged, (1, 3, 2))
    for name, some in logged.log.files.items():
        del some[lines.get(name, 0):]
    leaders_write(logged, (1, 3))
    logged.die(1)
    logged.fail_over(3)
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    assert wrong(logged, tmp_path) == []
