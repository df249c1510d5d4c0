"""One value of one line is wrong, where little is there to deny it: it is contradicted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfast.log_replay import Replay, replay
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

CLUSTER = """
    partition  ar   isr  leader  epoch  state
    calm-0     2,3  2,3  2       2      ONLINE
    calm-1     2,3  2,3  2       2      ONLINE
"""
BELOW = re.compile(r"\[[^\]]*\] (?:TRACE|DEBUG) ")


def begin() -> LoggedController:
    """Broker 1 is the controller of a cluster whose assignments no line at INFO names."""
    state = read_state(CLUSTER, brokers=[1, 2, 3], controller_id=-1)
    logged = LoggedController(state, "2.8", trace=False)
    logged.fail_over(1)
    return logged


def replay_with(logged: LoggedController, old: str, new: str, folder: Path) -> Replay:
    """Replay what is at INFO, with one value changed in the first line that has it."""
    changed = False
    for lines in logged.log.files.values():
        lines[:] = [line for line in lines if not BELOW.match(line)]
        for at, line in enumerate(lines):
            if not changed and old in line:
                lines[at], changed = line.replace(old, new), True
    assert changed
    logged.log.save(folder)
    return replay(folder)


def contradictions(found: Replay) -> list[tuple[str, str]]:
    """Kind and subject of all that is contradicted or missing."""
    return [(one.kind, one.subject) for one in found.contradictions]


@pytest.mark.parametrize(("broker", "expected"), [
    (3, []), (9, [("replicas to stop", "broker 9")]),
])
def test_nothing_is_sent_to_a_broker_that_never_was_there(broker, expected, tmp_path):
    """Kafka, ControllerChannelManager.scala: requests go to registered brokers only."""
    logged = begin()
    logged.shut_down(3)
    old, new = (f"StopReplica request for 2 replicas to broker {to}" for to in (3, broker))
    assert contradictions(replay_with(logged, old, new, tmp_path)) == expected


@pytest.mark.parametrize(("number", "expected"), [
    (1, []),
    (7, [("ISR without a replica", "solo-1"), ("transition", "solo-7"), ("transition", "solo-7")]),
])
def test_a_line_that_names_a_wrong_partition_leaves_no_event_unjudged(number, expected, tmp_path):
    """The controller.log of broker 2 is not here, so what it did is inferred.

    Three decisions are missing then, but only of the two partitions that one line exchanges.
    """
    logged = begin()
    logged.create_topics({"solo": [[1], [1], [1]]})
    logged.log.pause()
    logged.die(1)
    logged.fail_over(2)
    logged.change_brokers(started=[1])
    del logged.log.files["broker-2/controller.log"]
    old, new = (f"Partition solo-{n} state changed to (Leader:-1" for n in (1, number))
    assert sorted(contradictions(replay_with(logged, old, new, tmp_path))) == expected
