"""Whose term a line is of: elections that the log lacks, other brokers' terms, other clusters."""

from __future__ import annotations

import pytest

from kfast.log_replay import replay
from kfast.log_replay.comparison.facts import ABSENT
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.steps import Steps
from kfast.log_replay.terms.inventories import Inventory
from kfast.log_replay.terms.terms import find_terms
from kfast.log_replay.wording.statements import understand
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

CHECK = "TRACE [Controller id={id}] Checking need to trigger auto leader balancing"
ELECTED = (
    "INFO [Controller id={id}] {id} successfully elected as the controller. Epoch incremented to "
    "{epoch} and epoch zk version is now {epoch}"
)
OTHER = (
    "DEBUG [Controller id={id}] Broker {other} has been elected as the controller, so stopping the "
    "election process."
)
START = "INFO [ControllerEventThread controllerId={id}] Starting"
MOVED = (
    "TRACE [Controller id={id} epoch={epoch}] Changed state of replica 2 for partition t-0 from "
    "OnlineReplica to OfflineReplica"
)
CACHED = (
    "TRACE [Broker id=1] Cached leader info PartitionState(controllerEpoch=5, leader=2, "
    "leaderEpoch=3, isr=[2], zkVersion=3, replicas=[2], offlineReplicas=[]) for partition "
    "{topic}-0 in response to UpdateMetadata request sent by controller {other} epoch 5 with "
    "correlation id 1"
)


def write(folder, lines, state_change=()):
    """Write lines, each with its time, to both logs."""
    for name, own, logger in (
        ("controller.log", lines, "kafka.controller.KafkaController"),
        ("state-change.log", state_change, "state.change.logger"),
    ):
        (folder / name).write_text("".join(
            f"[2021-05-01 {time},000] {text} ({logger})\n" for time, text in own
        ))
    return folder


def terms_of(folder):
    """Terms of the logs in a folder."""
    return find_terms(understand(read_logs(folder), Steps())[0])


# --- one broker's log of many ---------------------------------------------------------------------


def test_a_term_ends_when_another_broker_is_elected(tmp_path):
    """`KafkaController.elect` reads another broker's id: its own broker is not the controller."""
    folder = write(tmp_path, [
        ("10:00:00", CHECK.format(id=1)), ("10:05:00", CHECK.format(id=1)),
        ("10:09:00", OTHER.format(id=1, other=2)),
        ("15:00:00", START.format(id=1)), ("15:00:01", ELECTED.format(id=1, epoch=7)),
    ])
    assert [(term.epoch, term.closed is not None) for term in terms_of(folder)] == [
        (None, True), (7, False)
    ]


def test_the_controller_that_a_lone_broker_reads_is_unknown(tmp_path):
    """Its own log is not here: neither its election nor what it sent can be judged."""
    folder = write(tmp_path, [
        ("10:00:00", CHECK.format(id=1)), ("10:05:00", CHECK.format(id=1)),
        ("10:09:00", OTHER.format(id=1, other=2)),
    ], [("11:00:00", CACHED.format(topic=topic, other=2)) for topic in "ab"])
    outcome = replay(folder, profile="2.1")
    rows = outcome.facts.to_pylist()
    assert outcome.contradictions == ()
    assert {row["verdict"] for row in rows if row["reason"] == ABSENT} == {"unknown"}
    assert {(row["kind"], row["logged"]) for row in rows} >= {
        ("controller", "2"), ("controller epoch", "5"), ("leader epoch", "3"),
    }
    assert outcome.notes[1:] == (
        ("the logs of brokers 2 are not here, or not all: what they sent and decided as "
        "controllers is unknown"),
    )


@pytest.mark.parametrize(("elected", "epoch"), [("10:06:00", 6), ("15:00:00", None)])
def test_the_term_that_a_log_begins_with_is_the_one_before_the_next_election(
    elected, epoch, tmp_path
):
    """No line says its epoch; hours later, any number of controllers may have been elected."""
    folder = write(tmp_path, [
        ("10:00:00", CHECK.format(id=1)), ("10:05:00", CHECK.format(id=1)),
        (elected, ELECTED.format(id=2, epoch=7)),
    ])
    assert [(term.epoch, term.follows) for term in terms_of(folder)] == [
        (epoch, False), (7, epoch is not None),
    ]


@pytest.mark.parametrize(("epoch", "expected"), [
    (5, [(6, 0, False), (5, 0, True)]), (3, [(6, 0, False), (3, 1, False)]),  # Of another cluster.
])
def test_a_controller_may_have_been_replaced_before_the_log_begins(epoch, expected, tmp_path):
    """It goes on with what it had begun, and notices the election later. Seen on 2.8.2."""
    folder = write(
        tmp_path, [("10:00:00", CHECK.format(id=2)), ("10:00:02", CHECK.format(id=1))],
        [("10:00:01", MOVED.format(id=2, epoch=6)), ("10:00:03", MOVED.format(id=1, epoch=epoch))],
    )
    found = [(term.epoch, term.cluster, term.replaced) for term in terms_of(folder)]
    assert found == expected


@pytest.mark.parametrize(("other", "contradicted"), [(2, []), (3, ["controller"])])
def test_between_two_terms_without_room_another_controller_is_contradicted(
    other, contradicted, tmp_path
):
    """Epochs 4 and 5 are those of brokers 1 and 2, so nobody else was elected in between."""
    folder = write(tmp_path, [
        ("10:00:00", ELECTED.format(id=1, epoch=4)), ("10:05:00", CHECK.format(id=1)),
        ("10:09:00", ELECTED.format(id=2, epoch=5)), ("10:10:00", CHECK.format(id=2)),
        ("10:09:00", OTHER.format(id=1, other=other)),
    ])
    outcome = replay(folder, profile="2.4")
    assert [one.kind for one in outcome.contradictions] == contradicted
    assert outcome.notes[1].startswith("brokers 1, 2 write into one folder (.): ")


# --- elections in a hole --------------------------------------------------------------------------


def test_lines_after_a_hole_are_of_the_new_epoch(tmp_path):
    """controller.log names no epoch: its lines right before the first line that does go with it."""
    folder = write(tmp_path, [
        ("10:00:00", ELECTED.format(id=1, epoch=1)), ("10:05:00", CHECK.format(id=1)),
        ("12:00:00", "INFO [Controller id=1] Broker failure callback for 2"),
    ], [("10:01:00", MOVED.format(id=1, epoch=1)), ("10:01:00", MOVED.format(id=1, epoch=1)),
        ("12:00:01", MOVED.format(id=1, epoch=3)), ("12:00:01", MOVED.format(id=1, epoch=3))])
    assert [(term.epoch, len(term.statements)) for term in terms_of(folder)] == [(1, 4), (3, 3)]


def test_a_failure_right_after_a_lost_failover_is_predicted(tmp_path):
    """The log of two elections is lost; the next event stands in both files."""
    state = read_state("""
        partition  ar     isr    leader  epoch  state
        t-0        1,2,3  1,2,3  1       4      ONLINE
        u-0        2,3,1  2,3,1  2       4      ONLINE
    """, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.4")
    logged.fail_over(1)
    kept = {name: len(lines) for name, lines in logged.log.files.items()}
    logged.log.time_ms += 3_600_000
    logged.fail_over(2)
    logged.fail_over(1)
    lost = {name: len(lines) for name, lines in logged.log.files.items()}
    logged.log.time_ms += 3_600_000
    logged.change_brokers(failed=[2])
    logged.change_brokers(started=[2])
    for name, lines in logged.log.files.items():
        del lines[kept.get(name, 0) : lost.get(name, 0)]
    logged.log.save(tmp_path)
    outcome = replay(tmp_path)
    assert outcome.contradictions == ()
    assert outcome.counts["predicted"] > 60


# --- two clusters side by side --------------------------------------------------------------------


def test_a_broker_of_a_new_cluster_ends_no_term_of_the_old_one(tmp_path):
    """Both clusters have a broker 1; the old one goes on to check balances without an election."""
    folder = write(tmp_path, [
        ("10:00:00", ELECTED.format(id=1, epoch=8)), ("10:05:00", CHECK.format(id=1)),
        ("10:16:00", ELECTED.format(id=0, epoch=1)), ("10:16:01", CHECK.format(id=0)),
        ("10:16:02", START.format(id=1)), ("10:16:03", OTHER.format(id=1, other=0)),
        ("11:05:00", CHECK.format(id=1)), ("11:10:00", CHECK.format(id=1)),
    ])
    assert [(term.cluster, term.epoch, len(term.statements)) for term in terms_of(folder)] == [
        (0, 8, 4), (1, 1, 2)
    ]


# --- real logs ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "predicted", "contradicted"), [
    ("zk-1.1-holes", 30_500, 0), ("zk-2.1-one-broker-of-four", 4_900, 0),
])
def test_real_logs_with_missing_terms(folder, predicted, contradicted, shared_data):
    """Three brokers' files of one host that overwrote one another; one broker's files of four."""
    outcome = replay(shared_data / "controller_logs" / folder)
    assert outcome.counts["contradicted"] <= contradicted
    assert outcome.counts["predicted"] >= predicted
    assert "-9" not in set(outcome.facts.column("predicted").to_pylist())


@pytest.mark.parametrize(("before", "now", "is_other"), [
    ({0: 231, 2: 44}, {2: 116, 3: 132}, True),  # Both stood beside 231, which nobody listed.
    ({0: 231, 2: 44}, {2: 44, 3: 240}, False),
    ({0: 231, 2: 44}, {2: 250, 3: 240}, False),
    ({0: 9231, 2: 44}, {0: 231, 2: 250, 3: 240}, False),  # A fault in the line of broker 0.
    ({0: 231, 2: 244}, {0: 31, 2: 44}, True),
])
def test_who_registers_later_has_a_higher_epoch(before, now, is_other):
    """A line of epochs lists all registered brokers: the number of a transaction never falls."""
    assert Inventory(first_epochs=now).differs(Inventory(last_epochs=before)) is is_other
