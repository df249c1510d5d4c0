"""Logs of random events with faults that kfast's own controller ran: all is predicted."""

from __future__ import annotations

from random import Random

import pytest

from kfast.log_replay import replay
from tests.support.log_forms import VERSIONS
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

BEFORE = """
    partition  ar     isr    leader  epoch  state
    first-0    1,2    1,2    1       4      ONLINE
    first-1    2,3,4  2,3,4  2       2      ONLINE
"""
CONTROLLER = 4
N_EVENTS = 8
EVENTS = ("fail", "start", "catch up", "rebalance", "shut down", "create", "delete")
ONLY_THE_LOG_KNOWS = {
    "decided by a partition's leader", "written before the log begins",
    "given to a broker when it registered", "the number of ISR writes, taken from a later line",
    "the last member of an ISR, taken from a later line",
    "an ISR that a leader wrote, heard of later",
}


def tell_at_random(version: str, rng: Random) -> LoggedController:
    """Some random events of four brokers, the last of which is the controller."""
    state = read_state(
        BEFORE, brokers=[1, 2, 3, CONTROLLER], controller_id=-1,
        leader_recovery_supported=version == "3.9",
    )
    logged = LoggedController(state, version, trace=True if rng.random() < 0.5 else None)
    logged.fail_over(CONTROLLER)
    logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1], [3, 1, CONTROLLER]]})
    up, down, topics = [1, 2, 3], [], ["wide"]
    for number in range(N_EVENTS):
        kind = rng.choice(EVENTS)
        if kind in ("fail", "shut down") and up:
            broker = up.pop(rng.randrange(len(up)))
            if kind == "shut down":
                logged.shut_down(broker)
            logged.change_brokers(failed=[broker])
            down.append(broker)
        elif kind == "start" and down:
            broker = down.pop(rng.randrange(len(down)))
            logged.change_brokers(started=[broker])
            up.append(broker)
        elif kind == "catch up" and up:
            logged.catch_up([rng.choice(up)])
        elif kind == "rebalance":
            logged.rebalance()
        elif kind == "create":
            live = [*up, CONTROLLER]
            topics.append(f"t{number}")
            logged.create_topics({
                topics[-1]: [rng.sample(live, min(2, len(live))) for _ in range(3)]
            })
        elif kind == "delete" and topics and not down:
            topic = topics.pop(rng.randrange(len(topics)))
            logged.delete([topic])
            logged.acknowledge([topic])
    return logged


def check(version: str, seed: int, directory) -> None:
    """Nothing is contradicted or missing, and only what no rule can tell is adopted."""
    tell_at_random(version, Random(seed)).log.save(directory)
    found = replay(directory)
    assert [str(one) for one in found.contradictions] == []
    assert set(found.reasons) <= ONLY_THE_LOG_KNOWS


@pytest.mark.parametrize("version", VERSIONS)
def test_what_random_events_wrote_is_predicted(version, tmp_path):
    """A few of each version."""
    for seed in range(2):
        check(version, seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("seed", range(2, 12))
def test_what_many_random_events_wrote_is_predicted(version, seed, tmp_path):
    """More of each version."""
    check(version, seed, tmp_path)
