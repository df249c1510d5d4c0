"""When the events of one recording happen, in either mode.

Source: docs/timeline.md, sections "ZooKeeper mode" and "KRaft".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from kfast.timelines.kraft_counts import TakeCounts, take_counts
from kfast.timelines.kraft_times import quorum_times
from kfast.timelines.recording import Recording
from kfast.timelines.settings import Settings
from kfast.timelines.stages import Times
from kfast.timelines.zk_steps import ControllerStep, controller_steps
from kfast.timelines.zk_times import zookeeper_times

__all__ = ["Counts", "counts_of", "is_serial", "times_of"]

Ints = npt.NDArray[np.int64]
Counts: TypeAlias = TakeCounts | list[ControllerStep]

SERIAL = "zk-1.0"
"""The last release whose requests to ZooKeeper go one by one."""


def counts_of(recording: Recording) -> Counts:
    """What times follow from, besides parameters: counted once for each recording."""
    return take_counts(recording) if recording.state.is_kraft else controller_steps(recording)


def times_of(
    recording: Recording, counts: Counts, starts: Ints, values: Mapping[str, Ints],
    settings: Settings,
) -> Times:
    """When everything of one recording happens.

    Parameters
    ----------
    recording : Recording
    counts : Counts
        Those of `counts_of`.
    starts : (S, E) int64
        When each event can begin, in every sample.
    values : mapping of str to (S,) int64
        Every parameter.
    settings : Settings
    """
    if isinstance(counts, TakeCounts):
        return quorum_times(recording, counts, starts, values, voters=settings.quorum_voters)
    return zookeeper_times(
        counts, starts, values, recording.live, serial=is_serial(recording.state.controller)
    )


def is_serial(controller: str) -> bool:
    """Whether a ZooKeeper-mode controller waits for each request to ZooKeeper by itself."""
    release = [tuple(map(int, name.split("-")[1].split("."))) for name in (controller, SERIAL)]
    return release[0] <= release[1]
