"""Synthetic logs of several versions: they read as real ones do, and they replay."""

from __future__ import annotations

import re
from random import Random

import pytest

from kfast.figures.incidents import UNCLEAN_ELECTION
from kfast.log_replay import replay
from tests.support.log_forms import FORMS, VERSIONS, Wording
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

BEFORE = """
    partition  ar   isr  leader  epoch  state
    risky-0    1,2  1,2  1       4      ONLINE
    calm-0     3,4  3,4  3       2      ONLINE
"""
LINE = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (TRACE|DEBUG|INFO|ERROR) .* "
    r"\((kafka\.controller\.[A-Za-z$]+|state\.change\.logger)\)"
)
MARKS = {
    "0.10": (["changed partition [wide,0] from", "with leader 1", "Controller 4 incremented"],
             ["[Controller id=", "bounced brokers"]),
    "1.0": (["Changed partition wide-0 from", "with leader 1", "Incremented epoch to 4 ("],
            ["changed partition", "with state", "Registering handlers"]),
    "1.1": (["with state LeaderAndIsr(leader=1", "Epoch incremented to 4 (", "Registering hand"],
            ["with leader 1", "Invoking state change", "bounced brokers"]),
    "2.0": (["Epoch incremented to 4 (", "all live brokers: 1,2,3,4 ("],
            ["bounced brokers", "ZkReplica", "Invoking state change"]),
    "2.4": (["bounced brokers: 2,", "ZkReplicaStateMachine", "Sending UpdateMetadata request Upd"],
            ["Updating ISRs", "become-follower partitions"]),
    "2.8": (["Updating ISRs", "become-leader and", "zkVersion updated to"],
            ["leaderRecoveryState", "Changed state of replica"]),
    "3.9": (["isrWithBrokerEpoch=List(BrokerState(", "LeaderRecoveryState:RECOVERED"],
            ["zkVersion updated to", "Changed state of replica"]),
}
"""Words that tell each version, and words that it never writes; from its real logs."""


def tell_story(version, trace=None, unclean=True, bounced=True):
    """Ten minutes of a cluster with everything that the two real logs lack."""
    state = read_state(
        BEFORE, brokers=[1, 2, 3, 4], unclean={"risky": True}, controller_id=-1,
        leader_recovery_supported=version == "3.9",
    )
    logged = LoggedController(state, version, trace)
    logged.fail_over(4)
    logged.create_topics({
        "wide": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "pair": [[1, 2], [2, 3]], "solo": [[1], [2]],
    })
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.catch_up([3])
    logged.rebalance()
    logged.shut_down(2)
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    logged.catch_up([2])
    logged.elect([("wide", 1)])
    logged.rebalance()
    logged.reassign("pair", 0, [3, 1])
    logged.catch_up([3], reassigned=(("pair", 0), [3, 1]))
    logged.reassign("pair", 1, [1])
    logged.catch_up([1], reassigned=(("pair", 1), [1]))
    if bounced and logged.log.words.since("2.4"):
        logged.change_brokers(bounced=[2])
        logged.catch_up([2])
    logged.change_brokers(failed=[1])
    logged.change_brokers(started=[1])
    if unclean:
        logged.change_brokers(failed=[2])
        logged.change_brokers(started=[2])
    logged.catch_up([1, 2])
    logged.delete(["pair"])
    logged.acknowledge(["pair"])
    logged.die(4)
    logged.fail_over(3)
    logged.change_brokers(started=[4])
    return logged


@pytest.mark.parametrize("version", VERSIONS)
def test_every_line_reads_as_a_line_of_such_a_log(version):
    """The default layout of log4j; nothing is left open in any message."""
    logged = tell_story(version)
    entries = [entry for entries in logged.log.files.values() for entry in entries]
    lines = [line for entry in entries for line in entry.split("\n")]
    assert len(lines) > 300
    for line in lines:
        exception = re.match(r"\tat |[a-z.]+\.[A-Z]\w+(Exception|Error): ", line)
        assert exception or LINE.fullmatch(line), line
        assert not re.search(r"\{[a-z_]+\}", line), line


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_has_the_words_that_tell_it(version):
    """What tells one version from another in real logs tells them here."""
    text = "\n".join(line for lines in tell_story(version).log.files.values() for line in lines)
    present, absent = MARKS[version]
    for word in present:
        assert word in text
    for word in absent:
        assert word not in text


def test_the_story_has_every_event_that_the_real_logs_lack():
    """A reassignment to its end, a deletion to its end, a bounce, an unclean election."""
    logged = tell_story("3.9", trace=True)
    text = "\n".join(line for lines in logged.log.files.values() for line in lines)
    for word in (
        "updated assignment of partition pair-0 to ReplicaAssignment(replicas=3,1, addingR",
        "Deletion of topic pair successfully completed", "bounced brokers: 2,",
        "leaderRecoveryState=RECOVERING", "Failed to elect leader for partition solo-",
        "from ReplicaDeletionSuccessful to NonExistentReplica",
        "3 successfully elected as the controller. Epoch incremented to 5",
    ):
        assert word in text


def test_forms_are_in_the_order_of_versions():
    """The last wording that is not younger than a version is that version's."""
    for name, forms in FORMS.items():
        ages = [VERSIONS.index(form.since) for form in forms]
        assert ages == sorted(set(ages)), name
    assert Wording("2.0").form("elected").text == "{id} successfully elected as the controller"
    assert Wording("0.10").form("elected") is None
    assert Wording("3.9").form("become") is None


def for_replay(version):
    """The story without what a replay cannot know yet.

    Nothing in a log says that a topic allows unclean elections; a bounced broker is found where
    each transition is logged, which it is by default up to 2.5.
    """
    return tell_story(version, unclean=False, bounced=version == "2.4")


REPLAYED = ("0.10", "2.0", "2.4", "3.9")


@pytest.mark.parametrize("version", REPLAYED)
def test_what_was_written_replays_without_a_contradiction(version, tmp_path):
    """The replay reads the events from the text alone and predicts what kfast had done."""
    for_replay(version).log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(contradiction) for contradiction in found.contradictions] == []
    assert found.counts["predicted"] > 500
    assert found.counts["missing"] == 0 < found.decisions
    assert found.lines["not understood"] == 0


ONE_NUMBER = re.compile(r"(?:leader=|leaderEpoch=|Leader:|LeaderEpoch:|with leader )(-?\d+)")


@pytest.mark.parametrize("version", REPLAYED)
def test_one_changed_leader_or_epoch_is_contradicted(version, tmp_path):
    """A number changed in the controller's state changes does not pass unseen."""
    logged = for_replay(version)
    lines = logged.log.files["broker-4/state-change.log"]
    places = [i for i, line in enumerate(lines) if ONE_NUMBER.search(line)]
    rng = Random(17)
    for place in rng.sample(places, 2):
        before = lines[place]
        found = rng.choice(list(ONE_NUMBER.finditer(before)))
        begin, end = found.span(1)
        lines[place] = f"{before[:begin]}{int(found[1]) + 1}{before[end:]}"
        logged.log.save(tmp_path)
        assert replay(tmp_path).contradictions, f"{before} became {lines[place]}"
        lines[place] = before


@pytest.mark.parametrize("version", REPLAYED)
def test_a_decision_that_is_not_there_is_missing(version, tmp_path):
    """A transition or a request: listed with its event and the line before which it is due."""
    logged = for_replay(version)
    lines = logged.log.files["broker-4/state-change.log"]
    places = [
        i for i, line in enumerate(lines)
        if re.search(r" (?:[Cc]hanged|[Ss]ending) .*(?:partition|partitions|replicas)", line)
    ]
    for place in Random(17).sample(places[:-1], 2):
        line = lines.pop(place)
        logged.log.save(tmp_path)
        found = replay(tmp_path)
        lines.insert(place, line)
        missing = [one for one in found.contradictions if one.is_missing]
        assert missing, line
        assert all(one.event and one.predicted and not one.logged for one in missing)
        assert found.counts["missing"] == len(missing) < found.decisions


@pytest.mark.parametrize("version", ["2.0", "2.4", "3.9"])
def test_an_unclean_election_is_adopted_and_has_a_row_of_its_own(version, tmp_path):
    """No line says that the topic allows it: its leader and ISR are taken from the log."""
    tell_story(version, bounced=version == "2.4").log.save(tmp_path)
    found = replay(tmp_path)
    assert [str(one) for one in found.contradictions] == []
    assert found.reasons["an election outside the ISR that nothing announced"] == 2
    (row,) = [
        row for row in found.timeline.to_pylist() if row["event"] == UNCLEAN_ELECTION
    ]
    assert row["what"].startswith(
        "risky-0: unclean election of broker 1, ISR was 2, leader epoch "
    )
