"""Which release wrote a log: those that kfast does not know are refused by name."""

from __future__ import annotations

import pytest

from kfast import InputError
from kfast.log_replay import replay
from kfast.log_replay.wording.releases import other_rules

pytestmark = pytest.mark.kernels

READY = "INFO [Controller 1]: Broker 1 is ready to serve as the new controller with epoch 4"
CONNECTED = (
    "INFO [Controller-1-to-broker-2-send-thread], Controller 1 connected to {broker} for sending "
    "state change requests"
)
OLD_BROKERS = {"0.8": "id:2,host:kafka-2,port:9092", "0.9": "Node(2, kafka-2, 9092)"}
ELECTED = (
    "INFO [Controller id=0] 0 successfully elected as the controller. Epoch incremented to 1 and "
    "epoch zk version is now 1"
)
PRODUCER_IDS = (
    ("DEBUG [Controller id=0] There is no producerId block yet (Zk path version 0), creating the "
    "first block"),
    ("INFO [Controller id=0] Acquired new producerId block ProducerIdsBlock(assignedBrokerId=0, "
    "firstProducerId=0, size=1000) by writing to Zk with path version 1"),
)
REGISTERED = "DEBUG preRegister called. Server=com.sun.jmx.mbeanserver.JmxMBeanServer@66d3c617"
BECAME_LEADER = (
    "INFO [Broker id=0] Leader t-0 with topic id Some(giyST9mOTSKZlkFdfunAMw) starts at leader "
    "epoch 0 from offset 0 with partition epoch 0, high watermark 0, ISR [0], adding replicas [] "
    "and removing replicas []. Previous leader epoch was -1."
)
BROKER = "INFO [Broker id=2] Transitioning 3 partition(s) to local leaders."


def write(folder, controller, state_change=(), logger="kafka.controller.KafkaController"):
    """Write the two logs of a broker."""
    for name, lines, by in (
        ("controller.log", controller, logger),
        ("state-change.log", state_change, "state.change.logger"),
    ):
        (folder / name).write_text("".join(
            f"[2021-05-01 10:00:{second:02},000] {line} ({by})\n"
            for second, line in enumerate(lines)
        ))
    return folder


# --- before 0.10 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("release", OLD_BROKERS)
def test_older_releases_are_refused_by_name(release, tmp_path):
    """Up to 0.9 a controller prints the broker that it connects to in another way."""
    folder = write(tmp_path, [READY, CONNECTED.format(broker=OLD_BROKERS[release])])
    with pytest.raises(InputError, match=r"controller\.log:2: .* Kafka 0\.8 or 0\.9, .*zk-0\.10"):
        replay(folder)


def test_older_releases_run_by_the_rules_of_0_10_where_they_are_asked_for(tmp_path):
    """A note says by which rules."""
    folder = write(tmp_path, [READY, CONNECTED.format(broker=OLD_BROKERS["0.9"])])
    outcome = replay(folder, profile="zk-0.10")
    assert outcome.counts["contradicted"] == 0
    assert "zk-0.10, as asked" in outcome.notes


def test_0_10_is_not_taken_for_older(tmp_path):
    """It prints the rack."""
    folder = write(tmp_path, [READY, CONNECTED.format(broker="kafka-2:9092 (id: 2 rack: null)")])
    assert replay(folder, profile="zk-0.10").lines["not understood"] == 0


# --- 3.3 ------------------------------------------------------------------------------------------


def test_partition_epochs_of_brokers_are_those_of_3_3(tmp_path):
    """3.3.0 says `with partition epoch`; nothing here needs a later release."""
    outcome = replay(write(tmp_path, [ELECTED, *PRODUCER_IDS], [BECAME_LEADER]))
    assert outcome.release == "3.3"


def test_lines_about_producer_ids_and_beans_state_nothing(tmp_path):
    """They are understood, and no fact is in them."""
    outcome = replay(write(tmp_path, [REGISTERED, ELECTED, *PRODUCER_IDS], [REGISTERED]), "3.3")
    assert outcome.lines["not understood"] == 0
    assert outcome.lines["no facts"] == 4


# --- KRaft ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("logger", "line"), [
    ("org.apache.kafka.controller.QuorumController",
     "INFO [Controller 1] Creating new QuorumController with clusterId giyST9mOTSKZlkFdfunAMw."),
    ("org.apache.kafka.controller.QuorumController",
     "INFO [QuorumController id=1] Becoming the active controller at epoch 1."),
    ("state.change.logger", BROKER),
])
def test_logs_of_kraft_point_to_the_metadata_log(logger, line, tmp_path):
    """Its decisions are records of the metadata log."""
    folder = write(tmp_path, [line], logger=logger)
    with pytest.raises(InputError, match=r"KRaft cluster.*kfast replay.*__cluster_metadata-0"):
        replay(folder)


# --- real logs ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "release"), [
    ("zk-3.3-one-broker", "3.3"), ("zk-3.5-topics-made-again", "3.5"),
])
def test_releases_of_real_logs(folder, release, shared_data):
    outcome = replay(shared_data / "controller_logs" / folder)
    assert outcome.release == release
    assert outcome.counts["contradicted"] == outcome.lines["not understood"] == 0


@pytest.mark.parametrize(("fitting", "others"), [
    (("2.8", "3.0", "3.1"), ("3.1",)), (("3.5", "3.6", "3.7", "3.8", "3.9"), ("3.9",)),
    (("0.10", "0.11"), ()),
])
def test_releases_of_the_same_rules_are_tried_once(fitting, others):
    """Their predictions are the same, so a log with contradictions need not be replayed again."""
    assert other_rules(fitting[0], fitting) == others
