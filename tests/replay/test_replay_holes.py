"""Logs with holes, or of some brokers: what went on unseen is taken from the lines after it."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from kfast.log_replay import replay
from kfast.log_replay.brokers import BrokerSide, Heard
from kfast.log_replay.comparison.facts import ABSENT
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.lookahead.clusters import split_clusters
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.terms import find_terms
from kfast.log_replay.wording.statements import understand
from kfast.replay_results.verdicts import ADOPTED, PREDICTED
from tests.replay.test_replay_levels import all_at_info
from tests.support.cut_logs import STAMP
from tests.support.log_forms import PROFILES
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

CLUSTER = """
    partition  ar     isr    leader  epoch  state
    calm-0     2,3,1  2,3,1  2       2      ONLINE
    calm-1     3,2,1  3,2,1  3       2      ONLINE
    risky-0    3,2    3,2    3       2      ONLINE
"""
CALM = "\n".join(CLUSTER.splitlines()[:-2])
HALTED = """
    partition  ar   isr  leader  epoch  state
    wide-0     2,3  2,3  2       2      ONLINE
    wide-1     3,1  3,1  3       2      ONLINE
    calm-0     1,3  1,3  1       2      ONLINE
"""
HOUR_MS = 3_600_000


def controller(version, cluster=CLUSTER, brokers=(1, 2, 3, 4)):
    """A cluster without a controller; topic `risky` allows unclean elections."""
    state = read_state(cluster, brokers=list(brokers), unclean={"risky": True}, controller_id=-1,
                       leader_recovery_supported=version == "3.9")
    return LoggedController(state, version, trace=True)


@contextmanager
def hole(logged, only=""):
    """What happens within leaves no lines, in files of one broker or of all."""
    before = {name: len(lines) for name, lines in logged.log.files.items()}
    yield
    for name, lines in logged.log.files.items():
        if name.startswith(only):
            del lines[before.get(name, 0) :]
    logged.log.time_ms += HOUR_MS


def facts(found, kind, subject):
    """What lines say of a kind and a subject, in their order, with the verdicts."""
    return [(fact["logged"], fact["verdict"]) for fact in found.facts.to_pylist()
            if (fact["kind"], fact["subject"]) == (kind, subject)]


@pytest.mark.parametrize("version", ["1.1", "2.8", "3.9"])
def test_a_topic_is_made_again_in_a_hole(version, tmp_path):
    """The log shows its deletion; the next controller lists it, with other replicas."""
    logged = controller(version)
    logged.fail_over(4)
    logged.create_topics({"wide": [[1, 2, 3]]})
    logged.delete(["wide"])
    logged.acknowledge(["wide"])
    with hole(logged):
        logged.create_topics({"wide": [[4, 3]]})
    logged.fail_over(1)
    logged.change_brokers(failed=[4])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert facts(found, "replicas", "wide-0")[-1] == ("[4,3]", PREDICTED)


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_reassignment_begins_in_a_hole(version, tmp_path):
    """What is added is told by the first request after it, of a partition that is known."""
    logged = controller(version)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    with hole(logged):
        logged.reassign("calm", 0, [2, 1, 4])
    logged.fail_over(1)
    logged.change_brokers(started=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert facts(found, "adding", "calm-0")[-1] == ("[4]", PREDICTED)


def test_a_controller_after_a_hole_has_its_own_epoch(tmp_path):
    """With two reassignments it reads the store one by one: records of terms that no line shows."""
    logged = controller("2.8")
    logged.fail_over(4)
    for number in (0, 1):
        logged.reassign("calm", number, [4, 1])
    with hole(logged):
        logged.fail_over(1)
        logged.fail_over(2)
        logged.change_brokers(failed=[3])
    logged.fail_over(4)
    logged.change_brokers(failed=[2])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    epochs = facts(found, "controller epoch", "calm-1")
    assert {logged for logged, _ in epochs} >= {"6", "7"}  # Of the hole, and after it.
    assert found.counts["predicted"] > found.counts["adopted"]


def test_of_a_sole_replica_the_leader_epoch_tells_the_version(tmp_path):
    """Only a leader's own writes, of which it makes none, raise the version alone."""
    logged = controller("2.8")
    logged.fail_over(4)
    logged.create_topics({"solo": [[3]], "wide": [[3, 2]]})
    with hole(logged):
        logged.change_brokers(failed=[3])
        logged.change_brokers(started=[3])
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    for topic, verdict in (("solo-0", PREDICTED), ("wide-0", ADOPTED)):
        epoch, version = (next(fact for fact in facts(found, kind, topic) if fact[0] != "0")
                          for kind in ("leader epoch", "version"))
        assert (epoch[1], version[1]) == (ADOPTED, verdict)


def leads(logged, topic, number):
    """The line that a leader writes about its latest request, at INFO."""
    record = logged.state.leadership(logged.log.row(topic, number))
    assigned = logged.log.assignment(topic, number)
    isr, adding, removing = (",".join(map(str, ids)) for ids in (
        record.isr, assigned.adding, assigned.removing))
    logged.log.write(record.leader, "state-change", (
        f"INFO [Broker id={record.leader}] Leader {topic}-{number} with topic id Some(aa) starts "
        f"at leader epoch {record.leader_epoch} from offset 0 with partition epoch "
        f"{record.version}, high watermark 0, ISR [{isr}], adding replicas [{adding}] and removing "
        f"replicas [{removing}] . Previous leader Some({record.leader}) and previous leader epoch "
        f"was {record.leader_epoch - 1}. (state.change.logger)"))


def test_a_reassignment_that_began_in_a_hole_is_told_by_its_leader(tmp_path):
    """At INFO no line lists the replicas: they follow from those before. Seen on 2.8.2."""
    logged = controller("3.9")
    logged.fail_over(4)
    with hole(logged):
        logged.fail_over(1)
        logged.reassign("calm", 0, [2, 1, 4])
    logged.fail_over(4)
    for broker in (3, 1):
        logged.change_brokers(failed=[broker])
        leads(logged, "calm", 0)
    found = replay(all_at_info(logged, tmp_path), profile="zk-3.9")
    assert [str(one) for one in found.contradictions] == []
    assert facts(found, "removing", "calm-0")[-1] == ("[3]", PREDICTED)


def test_partitions_are_added_to_a_topic_in_a_hole(tmp_path):
    """The log shows the topic made without them. Seen on 2.8.2."""
    logged = controller("3.9", CALM)
    logged.fail_over(4)
    logged.create_topics({"wide": [[2, 3]]})
    logged.fail_over(1)
    logged.change_brokers(failed=[4])
    with hole(logged):
        logged.fail_over(3)
        logged.controller.on_partition_modifications("wide", {1: [2, 1]})
    logged.fail_over(1)
    logged.change_brokers(failed=[2])
    statements, _ = understand(read_logs(all_at_info(logged, tmp_path)), Steps())
    (cluster,) = split_clusters(statements, find_terms(statements))
    assert cluster.births["wide", 1].term.epoch == 7


def test_a_leader_is_chosen_outside_the_isr_in_a_hole(tmp_path):
    logged = controller("3.9")
    logged.fail_over(4)
    with hole(logged):
        logged.change_brokers(failed=[2])
        logged.change_brokers(failed=[3])
        logged.change_brokers(started=[2])
    logged.fail_over(1)
    logged.change_brokers(started=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert ("1", ADOPTED) in facts(found, "recovery", "risky-0")
    assert facts(found, "recovery", "risky-0")[-1] == ("1", PREDICTED)


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_the_log_of_a_controller_ends_before_its_term(version, tmp_path):
    """Its broker died later: what it has sent since is unknown, and what the next one finds new."""
    logged = controller(version)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    with hole(logged, only="broker-4/"):
        logged.change_brokers(started=[3])
        logged.change_brokers(failed=[2])
        logged.create_topics({"wide": [[1, 3], [3, 1]]})
        logged.change_brokers(started=[2])
    logged.die(4)
    logged.fail_over(1)
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.unknown_reasons[ABSENT] > 0
    assert found.counts["predicted"] > found.counts["unknown"]


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_the_log_of_the_last_controller_ends_before_those_of_brokers(version, tmp_path):
    logged = controller(version)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    with hole(logged, only="broker-4/"):
        logged.change_brokers(started=[3])
        logged.create_topics({"wide": [[1, 3], [3, 1]]})
        logged.change_brokers(failed=[2])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.unknown_reasons[ABSENT] > 0


def test_a_broker_that_registers_again_may_have_been_restarted():
    """A line tells that its process started; the next restart is in a log that is not here."""
    side = BrokerSide()
    side.start(3, 1_000)
    side.register(3, 5_000)
    assert side.fresh[3] is True
    side.register(3, 60_000)
    assert side.fresh[3] is None


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_broker_that_restarts_in_a_hole_has_another_epoch_afterwards(version, tmp_path):
    """The controller is the same, and lists all brokers when the next one starts."""
    logged = controller(version, CALM)
    logged.fail_over(4)
    logged.change_brokers(failed=[1])
    with hole(logged):
        logged.change_brokers(failed=[3])
        logged.change_brokers(started=[3])
    for _ in range(2):
        logged.change_brokers(started=[1])
        logged.change_brokers(failed=[1])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    epochs = facts(found, "broker epoch", "broker 3")
    assert ("1", ADOPTED) in epochs
    assert epochs[-1] == ("1", PREDICTED)


def test_a_failover_that_is_under_way_lists_the_states_of_replicas(tmp_path):
    """Up to 2.x those of brokers that are gone are ineligible for deletion, then. Seen on 2.1.1."""
    logged = controller("2.0")
    logged.fail_over(4)
    logged.change_brokers(failed=[1])
    files = logged.log.files
    with hole(logged):
        logged.change_brokers(failed=[3])
    before = {name: len(lines) for name, lines in files.items()}
    logged.fail_over(2)
    listing = next(line for line in files["broker-2/controller.log"] if "Started replica" in line)
    for name, lines in files.items():
        since = before.get(name, 0)
        lines[since:] = [line for line in lines[since:] if line >= listing[: len(STAMP)]]
    logged.change_brokers(started=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_record_changes_in_a_hole_whose_topic_another_partition_halts(version, tmp_path):
    """A topic is deleted as a whole: not before broker 2 is back. Seen on 3.9.1."""
    logged = controller(version, HALTED)
    logged.fail_over(4)
    logged.change_brokers(failed=[2])
    logged.delete(["wide"])
    with hole(logged):
        logged.fail_over(1)
        logged.change_brokers(failed=[3])
        logged.change_brokers(started=[3])
    logged.fail_over(4)
    logged.change_brokers(started=[2])
    logged.acknowledge(["wide"])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert ("5", ADOPTED) in facts(found, "leader epoch", "wide-1")


@pytest.mark.parametrize("version", ["2.0", "2.8", "3.9"])
def test_the_log_of_a_controller_begins_later_than_those_of_brokers(version, tmp_path):
    """Seen on 2.1.1."""
    logged = controller(version, CALM)
    logged.fail_over(4)
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    for name, lines in logged.log.files.items():
        if name.startswith("broker-4/"):
            lines.clear()
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.log.save(tmp_path)
    found = replay(tmp_path, profile=PROFILES[version])
    assert [str(one) for one in found.contradictions] == []
    assert set(found.unknown_reasons) == {ABSENT}


def test_brokers_may_have_heard_anything_in_a_hole():
    side = BrokerSide()
    side.rows[0].heard[3] = Heard(4, 2)
    side.leave_hole(7_000)
    assert side.rows[0].heard == {}
    assert side.copy().hole_ended == 7_000


def test_a_broker_that_starts_just_before_the_log_goes_on_remembers_nothing(tmp_path):
    """Seen in `zk-3.7-hundreds-of-failovers`."""
    logged = controller("3.9")
    logged.log.write(2, "controller", "INFO [ControllerEventThread controllerId=2] Starting "
                     "(kafka.controller.ControllerEventManager$ControllerEventThread)")
    logged.fail_over(4)
    logged.log.write(2, "state-change", "INFO [Broker id=2] Leader calm-0 with topic id "
                     "Some(aa) starts at leader epoch 2 from offset 0 with partition epoch 2, high "
                     "watermark 0, ISR [2,3,1], adding replicas [] and removing replicas [] . "
                     "Previous leader None and previous leader epoch was -1. "
                     "(state.change.logger)")
    logged.log.save(tmp_path)
    assert facts(replay(tmp_path), "previous leader epoch", "calm-0") == [("-1", PREDICTED)]


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_what_brokers_receive_while_their_controllers_log_has_a_hole_is_unknown(version, tmp_path):
    """They name a topic that the controller has not made yet, by its own log."""
    logged = controller(version)
    logged.fail_over(4)
    with hole(logged, only="broker-4/"):
        logged.create_topics({"wide": [[1, 3], [3, 1]]})
    logged.change_brokers(failed=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.unknown_reasons[ABSENT] > 0
    assert facts(found, "leader", "wide-1")[-1] == ("1", PREDICTED)


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_hole_that_begins_within_a_step_takes_its_last_lines(version, tmp_path):
    """Nothing is missing of it but what the hole hides. Seen on 0.10.2."""
    logged = controller(version, CALM)
    logged.fail_over(4)
    logged.change_brokers(failed=[1])
    own = logged.log.files["broker-4/state-change.log"]
    n_lines = len(own)
    logged.change_brokers(started=[1])
    first = next(at for at in range(n_lines, len(own)) if "Changed state of replica 1" in own[at])
    del own[first + 1 :]
    with hole(logged):
        pass
    logged.change_brokers(failed=[2])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_what_no_line_says_of_a_topic_that_was_deleted_in_a_hole_is_not_missing(version, tmp_path):
    """No later controller lists the topics. Seen on 2.8.2."""
    logged = controller(version)
    logged.fail_over(4)
    logged.change_brokers(failed=[1])
    with hole(logged):
        logged.delete(["risky"])
        logged.acknowledge(["risky"])
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["missing"] == 0


@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_a_topic_that_is_made_again_in_a_hole_may_have_as_many_changes(version, tmp_path):
    """Another leader would have raised both counts. Seen on 2.8.2."""
    logged = controller(version, CALM)
    logged.fail_over(4)
    logged.create_topics({"wide": [[2, 3], [3, 2]]})
    logged.change_brokers(failed=[2])
    with hole(logged):
        logged.change_brokers(started=[2])
        logged.delete(["wide"])
        logged.acknowledge(["wide"])
        logged.create_topics({"wide": [[3, 2], [2, 3]]})
        logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.fail_over(1)
    logged.log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert ("1", ADOPTED) in facts(found, "leader epoch", "wide-0")
