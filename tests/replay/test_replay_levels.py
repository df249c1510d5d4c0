"""Logs whose controller.log is at INFO, the usual setting: what it leaves out is inferred."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from kfast.log_replay import replay
from tests.support.log_writer import LoggedController
from tests.support.states import read_state

pytestmark = pytest.mark.kernels

BELOW = re.compile(r"\[[^\]]*\] (?:TRACE|DEBUG) ")
BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     2,3  2,3  2       2      ONLINE
"""


def at_info(logged: LoggedController, folder: Path) -> Path:
    """Write a controller's files without what controller.log has below INFO."""
    for name, lines in logged.log.files.items():
        if name.endswith("/controller.log"):
            lines[:] = [line for line in lines if not BELOW.match(line)]
    logged.log.save(folder)
    return folder


def brokers_come_and_go(version: str, seed: int) -> LoggedController:
    """Brokers fail and come back, their replicas catch up, leaders are balanced."""
    draw = Random(seed)
    state = read_state(
        BEFORE, brokers=[1, 2, 3, 4], controller_id=-1, leader_recovery_supported=version == "3.9"
    )
    logged = LoggedController(state, version)
    logged.fail_over(1)
    for topic in range(3):
        logged.create_topics({f"t{topic}": [draw.sample([1, 2, 3, 4], 3) for _ in range(4)]})
    for _ in range(5):
        broker = draw.choice([2, 3, 4])
        logged.change_brokers(failed=[broker])
        logged.change_brokers(started=[broker])
        logged.catch_up([broker])
        if draw.random() < 0.6:
            logged.rebalance()
    logged.shut_down(3)
    logged.change_brokers(failed=[3])
    return logged


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("version", ["2.0", "2.4", "2.8", "3.9"])
def test_isr_changes_below_the_level_are_inferred(version, seed, tmp_path):
    """Up to 2.6 the notification is at DEBUG; the UpdateMetadata lines that follow tell the ISRs.

    They stand right after those of another event, so a pause or a newer record divides the two.
    """
    outcome = replay(at_info(brokers_come_and_go(version, seed), tmp_path))
    assert outcome.counts["contradicted"] == 0
    assert outcome.counts["missing"] <= 2
    assert outcome.counts["predicted"] > 1000
    assert outcome.adopted_share < 0.15
