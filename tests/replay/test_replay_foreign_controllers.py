"""One broker's logs alone: what it was told by controllers whose logs are missing is adopted."""

from __future__ import annotations

import pytest

from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import ABSENT

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
    """Adopted facts about requests of controllers that are missing, as (kind, logged)."""
    return [
        (row["kind"], row["logged"]) for row in result.facts.to_pylist() if row["reason"] == ABSENT
    ]


def test_what_a_missing_controller_sent_is_adopted(tmp_path):
    result = replay(write(tmp_path), profile="2.8")
    assert result.contradictions == ()
    assert ("controller epoch", "2") in strange(result)
    assert ("leader epoch", "4") in strange(result)
    assert sum(kind == "partitions" for kind, _ in strange(result)) == 4


def test_a_controllers_line_with_another_epoch_is_contradicted(tmp_path):
    entries = list(STATE_CHANGE[:5])
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
    result = replay(write(tmp_path, [*STATE_CHANGE[:5], told]), profile="2.8")
    assert strange(result) == []
    assert [row.kind for row in result.contradictions] == contradicted
