"""Scenarios whose worker dies in mid-task, once: what Spark must then do again."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from kfast.sweeps.scenario_makers import every_broker
from kfast.sweeps.scenarios import Samples

FATAL = 5000
"""Not among the first scenarios of a task, so that some of its rows are sent already."""


@dataclass(frozen=True, eq=False)
class Deadly(Samples):
    """Random scenarios; whoever makes number 5000 is killed, unless the marker is there."""

    marker: str = ""

    def _down(self, start, stop):
        if start <= FATAL < stop and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._down(start, stop)


@dataclass(frozen=True)
class DeadlyQuestion:
    """Every broker of a cluster; whoever asks it first is killed."""

    marker: str

    def __call__(self, state):
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return every_broker(state)
