"""One broker's logs alone: what controllers sent whose logs are missing is unknown.

What the broker made of it is judged.
"""

from __future__ import annotations

import re

import pytest

from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import ABSENT
from tests.support.replay_story import short_story

CONTROLLER = (
    ("10:00:00,000", "INFO",
        ("[Controller id=1] 1 successfully elected as the controller. Epoch incremented "
        "to 1 and epoch zk version is now 1")),
    ("10:00:00,100", "INFO",
        "[Controller id=1] Initialized broker epochs cache: HashMap(1 -> 24, 2 -> 40)"),
    ("10:00:10,000", "INFO",
        ("[Controller id=1] New topics: [Set(t)], deleted topics: [HashSet()], new "
        "partition replica assignment "
        "[Set(TopicIdReplicaAssignment(t,Some(AAAAAAAAAAAAAAAAAAAAAA),Map(t-0 -> "
        "ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=))))]")),
    ("10:00:10,010", "INFO",
        "[Controller id=1] New partition creation callback for t-0"),
    ("11:00:00,000", "DEBUG",
        "[Controller id=1] Resigning"),
)

STATE_CHANGE = (
    ("10:00:10,050", "INFO",
        ("[Controller id=1 epoch=1] Changed partition t-0 state from "
        "NonExistentPartition to NewPartition with assigned replicas 1,2")),
    ("10:00:10,052", "INFO",
        ("[Controller id=1 epoch=1] Sending UpdateMetadata request to brokers HashSet() for 0 "
        "partitions")),
    ("10:00:10,055", "INFO",
        ("[Controller id=1 epoch=1] Sending UpdateMetadata request to brokers HashSet() for 0 "
        "partitions")),
    ("10:00:10,060", "INFO",
        ("[Controller id=1 epoch=1] Changed partition t-0 from NewPartition to "
        "OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, isr=List(1, "
        "2), zkVersion=0)")),
    ("10:00:10,070", "INFO",
        ("[Controller id=1 epoch=1] Sending LeaderAndIsr request to broker 1 with 1 "
        "become-leader and 0 become-follower partitions")),
    ("10:00:10,080", "INFO",
        ("[Controller id=1 epoch=1] Sending LeaderAndIsr request to broker 2 with 0 "
        "become-leader and 1 become-follower partitions")),
    ("10:00:10,090", "INFO",
        ("[Controller id=1 epoch=1] Sending UpdateMetadata request to brokers HashSet(1, 2) for 1 "
        "partitions")),
    ("11:00:10,000", "INFO",
        ("[Broker id=1] Handling LeaderAndIsr request correlationId 7 from controller 2 "
        "for 1 partitions")),
    ("11:00:10,010", "INFO",
        ("[Broker id=1] Stopped fetchers as part of become-follower request from "
        "controller 2 epoch 2 with correlation id 7 for 1 partitions")),
    ("11:00:10,020", "INFO",
        ("[Broker id=1] Follower t-0 starts at leader epoch 4 from offset 0 with high "
        "watermark 0. Previous leader epoch was 3.")),
    ("11:00:10,030", "INFO",
        ("[Broker id=1] Finished LeaderAndIsr request in 20ms correlationId 7 from "
        "controller 2 for 1 partitions")),
    ("11:00:10,040", "INFO",
        ("[Broker id=1] Add 1 partitions and deleted 0 partitions from metadata cache "
        "in response to UpdateMetadata request sent by controller 2 epoch 2 with "
        "correlation id 8")),
)


def text_of(entries, logger):
    """Entries as log4j writes them."""
    return "".join(
        f"[2021-05-01 {time}] {level} {message} ({logger})\n" for time, level, message in entries
    )


def write(folder, state_change=STATE_CHANGE):
    """Write both logs of broker 1."""
    controller = text_of(CONTROLLER, "kafka.controller.KafkaController")
    (folder / "controller.log").write_text(controller)
    (folder / "state-change.log").write_text(text_of(state_change, "state.change.logger"))
    return folder


def strange(result):
    """Unknown facts about requests of controllers that are missing, as (kind, logged)."""
    return [
        (row["kind"], row["logged"]) for row in result.facts.to_pylist() if row["reason"] == ABSENT
    ]


def test_what_a_missing_controller_sent_is_unknown(tmp_path):
    result = replay(write(tmp_path), profile="2.8")
    assert result.contradictions == ()
    assert ("controller epoch", "2") in strange(result)
    assert ("leader epoch", "4") in strange(result)
    sizes = [row["verdict"] for row in result.facts.to_pylist() if row["kind"] == "partitions"]
    assert sorted(sizes) == ["predicted", *["unknown"] * 3]  # It ends as it began.


def test_a_controllers_line_with_another_epoch_is_contradicted(tmp_path):
    entries = list(STATE_CHANGE[:7])
    time, level, message = entries[1]
    entries[1] = time, level, message.replace("epoch=1]", "epoch=9]")
    result = replay(write(tmp_path, entries), profile="2.8")
    assert strange(result) == []
    assert "controller epoch" in {row.kind for row in result.contradictions}


@pytest.mark.parametrize(("epoch", "contradicted"), [(1, []), (3, ["controller epoch"])])
def test_one_line_alone_makes_no_missing_controller(epoch, contradicted, tmp_path):
    """An epoch that a single line of a broker says is a mistake, not another controller's."""
    told = (
        "10:00:10,200", "INFO",
        ("[Broker id=1] Add 1 partitions and deleted 0 partitions from metadata cache in response "
        f"to UpdateMetadata request sent by controller 1 epoch {epoch} with correlation id 3"),
    )
    result = replay(write(tmp_path, [*STATE_CHANGE[:7], told]), profile="2.8")
    assert strange(result) == []
    assert [row.kind for row in result.contradictions] == contradicted


# --- brokers that were never the controller -------------------------------------------------------


def never_controllers(folder, version):
    """Logs of two brokers that trace what they receive from broker 1."""
    short_story(version, trace=True).log.save(folder)
    for name in ("broker-2", "broker-3"):
        file = folder / name / "state-change.log"
        yield file, file.read_text()
    for file in (folder / "broker-1").iterdir():
        file.unlink()


@pytest.mark.parametrize("version", ["2.0", "2.4", "2.8", "3.9"])
def test_brokers_that_were_never_the_controller_are_judged(version, tmp_path):
    """One line says so; each says of a record what the other said."""
    list(never_controllers(tmp_path, version))
    found = replay(tmp_path, profile=version)
    assert "brokers 2, 3 were never the controller in these logs" in " ".join(found.notes)
    assert (found.counts["contradicted"], found.counts["missing"]) == (0, 0)
    assert found.counts["predicted"] > 20
    assert (found.decisions, found.recall_percent) == (0, None)
    assert set(found.unknown_reasons) == {ABSENT}


@pytest.mark.parametrize("field", ["leader=", "leaderEpoch=", "isr=["])
def test_a_broker_that_differs_from_what_was_said_before_is_contradicted(field, tmp_path):
    """The last line that has the field, with another number."""
    (file, text), _ = never_controllers(tmp_path, "2.8")
    at = [found.start(1) for found in re.finditer(re.escape(field) + r"(\d+)", text)][-1]
    file.write_text(f"{text[:at]}7{text[at + 1:]}")
    found = replay(tmp_path, profile="2.8")
    assert found.counts["contradicted"] > 0
    assert {one.place.file for one in found.contradictions} <= {
        "broker-2/state-change.log", "broker-3/state-change.log",
    }


FOLLOWS = ("[Broker id=1] Follower t-0 starts at leader epoch {epoch} from offset 0 with high "
           "watermark 0. Previous leader epoch was {previous}.")
IGNORES = ("[Broker id=1] Ignoring LeaderAndIsr request from controller 2 with correlation id 9 "
           "epoch 2 for partition t-0 since its associated leader epoch {epoch} ")
MATCHES, IS_SMALLER = "matches the current leader epoch", "is smaller than the current leader epoch"


@pytest.mark.parametrize(("then", "contradicted"), [
    (FOLLOWS.format(epoch=6, previous=5), []),
    (FOLLOWS.format(epoch=6, previous=4), ["previous leader epoch"]),
    (FOLLOWS.format(epoch=5, previous=5), ["higher leader epoch"]),
    (FOLLOWS.format(epoch=0, previous=-1), []),  # The topic was made again.
    (IGNORES.format(epoch=5) + MATCHES, []), (IGNORES.format(epoch=4) + MATCHES, ["leader epoch"]),
    (IGNORES.format(epoch=3) + f"{IS_SMALLER} 5", []),
    (IGNORES.format(epoch=3) + f"{IS_SMALLER} 4", ["current leader epoch"]),
])
def test_a_broker_remembers_the_epoch_of_its_last_role(then, contradicted, tmp_path):
    """Kafka, ReplicaManager.scala, `becomeLeaderOrFollower`: only a higher epoch is followed."""
    entries = [*STATE_CHANGE[7:], ("11:00:20,000", "INFO", FOLLOWS.format(epoch=5, previous=4)),
               ("11:00:30,000", "INFO", then)]
    (tmp_path / "state-change.log").write_text(text_of(entries, "state.change.logger"))
    found = replay(tmp_path, profile="2.8")
    assert [one.kind for one in found.contradictions] == contradicted


def decisions_alone(folder, changed=None):
    """State-change logs of a story without the controller.log that tells what happened."""
    for version in ("2.4", "3.9"):
        target = folder / version
        short_story(version, trace=True).log.save(target)
        for path in target.rglob("controller.log"):
            path.unlink()
        if changed is not None:
            path = target / "broker-1/state-change.log"
            path.write_text(re.sub(*changed, path.read_text(), count=1))
        yield replay(target)


def test_decisions_without_events_are_judged_by_one_another(tmp_path):
    """Nothing tells what led to them: none is predicted from an event, and none is missing."""
    for found in decisions_alone(tmp_path):
        assert found.contradictions == ()
        assert (found.decisions, found.recall_percent) == (0, None)
        assert found.counts["predicted"] > 50
        assert found.reasons.keys() == set()
        assert set(found.unknown_reasons) == {ABSENT}
        assert "controller.log is not here" in " ".join(found.notes)


@pytest.mark.parametrize(("changed", "kinds"), [
    ((r"(solo-0 from OfflinePartition.*?leader=)3", r"\g<1>2"), {"leader"}),
    ((r"wide-1( state from Non)", r"wide-0\1"), {"transition"}),
    ((r"solo-0( state from Non)", r"solo-7\1"), {"transition"}),
    ((r"(wide-1 state.*?replicas 2),3,1", r"\1,1"), {"isr"}),
    ((r"(wide-1 state.*?replicas )2,3,1", r"\g<1>3,2,1"), {"leader"}),
    ((r"(calm-0 from )Online(Partition to )", r"\1New\2"), set()),  # New since before the log.
])
def test_decisions_without_events_that_differ_are_contradicted(changed, kinds, tmp_path):
    """A leader epoch has one leader, and a partition is created once, with replicas that live."""
    for found in decisions_alone(tmp_path, changed):
        assert {row.kind for row in found.contradictions} == kinds


SENDS = ("[Controller id=1 epoch=3] Sending UpdateMetadata request to brokers HashSet({brokers}) "
         "for {n} partitions")


@pytest.mark.parametrize(("sent", "contradicted"), [
    ([("1", 0), ("2", 9), ("", 0), ("1, 2", 1)], []),
    ([("1", 0), ("2", 9), ("", 0), ("1, 3", 1)], ["brokers told"]),
    ([("1", 1), ("2", 9)], ["brokers told"]),  # One that starts is named after the live ones.
    ([("1, 2, 3", 1), ("1, 3", 1), ("1, 3", 0), ("2", 9), ("1, 2, 3", 1)], []),
    ([("1, 2, 3", 1), ("1, 3", 1), ("1, 2, 3", 1)], ["brokers told"]),
])
def test_brokers_that_start_are_told_of_alone(sent, contradicted, tmp_path):
    """Kafka, KafkaController.scala, `onBrokerStartup`: the live ones get no partition before."""
    entries = [(f"11:00:{30 + at},000", "INFO", SENDS.format(brokers=brokers, n=n))
               for at, (brokers, n) in enumerate(sent)]
    text = text_of([*STATE_CHANGE[7:], *entries], "state.change.logger")
    (tmp_path / "state-change.log").write_text(text)
    found = replay(tmp_path, profile="2.8")
    assert [one.kind for one in found.contradictions] == contradicted
