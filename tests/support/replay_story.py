"""A short story of a small cluster, logged by a controller of any version."""

from __future__ import annotations

from pathlib import Path

from tests.support.log_writer import LoggedController
from tests.support.states import read_state

BEFORE = """
    partition  ar   isr  leader  epoch  state
    calm-0     2,3  2,3  2       2      ONLINE
"""
CONTROLLER_LOG = "broker-1/controller.log"
STATE_CHANGE_LOG = "broker-1/state-change.log"
OF_ANY_RELEASE = """\
[2021-05-01 10:00:00,001] INFO [Controller id=1] Ready to serve as the new controller with \
epoch 4 (kafka.controller.KafkaController)
[2021-05-01 10:00:09,001] INFO [Controller id=1] Processing automatic preferred replica leader \
election (kafka.controller.KafkaController)
"""
"""What every release from 2.3 on would write."""


def short_story(version: str, trace: bool | None = None) -> LoggedController:
    """Tell how broker 1 becomes controller, 3 fails and comes back, and 2 shuts down."""
    state = read_state(
        BEFORE, brokers=[1, 2, 3], controller_id=-1, leader_recovery_supported=version == "3.9"
    )
    logged = LoggedController(state, version, trace)
    logged.fail_over(1)
    logged.create_topics({"wide": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "solo": [[3]]})
    logged.change_brokers(failed=[3])
    logged.change_brokers(started=[3])
    logged.catch_up([3])
    logged.rebalance()
    logged.shut_down(2)
    logged.change_brokers(failed=[2])
    return logged


def write_logs(directory: Path, version: str = "2.4") -> Path:
    """Write the story's files below a directory."""
    short_story(version).log.save(directory)
    return directory
