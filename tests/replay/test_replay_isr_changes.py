"""Replay: ISR changes that leaders decide, and that only brokers' lines name."""

from __future__ import annotations

import re

import pytest

from kfast.log_replay.report.replay import replay
from tests.support.replay_story import short_story

pytestmark = pytest.mark.kernels
REPORTED = "decided by a partition's leader"
UNNAMED = "an ISR change whose partitions no line names"


@pytest.fixture
def logs(tmp_path):
    """Logs of Kafka 3.9 as most clusters have them: controller.log at INFO, brokers trace."""
    short_story("3.9", trace=True).log.save(tmp_path)
    file = tmp_path / "broker-1" / "controller.log"
    file.write_text("".join(
        line for line in file.read_text().splitlines(keepends=True) if " DEBUG " not in line
    ))
    return tmp_path


def without_traces(logs):
    """Drop the lines in which brokers name what they cached."""
    for file in logs.glob("*/state-change.log"):
        file.write_text(re.sub(r".*Cached leader info.*\n", "", file.read_text()))


def test_what_only_brokers_name_is_adopted_once(logs):
    """Four partitions get a replica back; what every other line says of it follows."""
    found = replay(logs)
    assert (found.counts["contradicted"], found.reasons[REPORTED]) == (0, 8)
    assert UNNAMED not in found.reasons
    named = [row for row in found.facts.to_pylist() if row["reason"] == REPORTED]
    assert sorted((row["subject"], row["kind"]) for row in named) == [
        (partition, kind) for partition in ("calm-0", "wide-0", "wide-1", "wide-2")
        for kind in ("isr", "version")
    ]
    changes = [row for row in found.timeline.to_pylist() if row["event"] == "isr"]
    assert [(row["inferred"], row["isr_changes"]) for row in changes] == [(True, 2), (True, 2)]


def test_where_no_line_names_them_they_stay_unnamed(logs):
    """The controller's count of partitions is all that is left."""
    without_traces(logs)
    found = replay(logs)
    assert found.counts["contradicted"] == 0
    assert REPORTED not in found.reasons
    assert found.reasons[UNNAMED] == 2


@pytest.mark.parametrize(("old", "new", "kind"), [
    ("leaderEpoch=1, isr=[1, 2, 3], zkVersion=2", "leaderEpoch=1, isr=[1, 2], zkVersion=2", "isr"),
    ("leaderEpoch=1, isr=[1, 2, 3], zkVersion=2", "leaderEpoch=1, isr=[1, 2, 3], zkVersion=3",
     "version"),
    ("leaderEpoch=1, isr=[1, 2, 3], zkVersion=2", "leaderEpoch=2, isr=[1, 2, 3], zkVersion=2",
     "leader epoch"),
])
def test_a_broker_that_differs_from_the_others_is_contradicted(old, new, kind, logs):
    """Most lines decide what an ISR was changed to."""
    file = logs / "broker-3" / "state-change.log"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    found = replay(logs)
    assert kind in {contradiction.kind for contradiction in found.contradictions}
    assert {c.place.file for c in found.contradictions} == {"broker-3/state-change.log"}


@pytest.mark.parametrize(("behind", "contradicted"), [(0, 0), (1, 0), (2, 1)])
def test_a_change_that_was_supposed_is_held_against_no_line(behind, contradicted, logs):
    """No line names the partitions: the next version of one tells whether it was among them."""
    without_traces(logs)
    file = logs / "broker-1" / "state-change.log"
    old = ("leader=3, leaderEpoch=4, isrWithBrokerEpoch=List(BrokerState(brokerId=3, "
           "brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=")
    text = file.read_text()
    assert text.count(f"{old}5") == 1
    file.write_text(text.replace(f"{old}5", f"{old}{5 - behind}"))
    found = replay(logs)
    assert found.counts["contradicted"] == contradicted
    assert found.reasons[UNNAMED] == 2 + (behind == 1)
