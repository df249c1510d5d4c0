"""When each partition is led again: the instants behind progressions, by partition.

Source: docs/timeline.md, section "Partitions".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.timelines.kraft_counts import final_operations
from kfast.timelines.progressions import VISIBLE, N, round_up
from kfast.timelines.recording import Recording
from kfast.timelines.stages import Times
from kfast.timelines.zk_steps import final_publications

__all__ = ["led_instants", "led_places", "progression_instants"]

Ints = npt.NDArray[np.int64]


def progression_instants(rows: Ints) -> Ints:
    """Every instant of some progressions, progression after progression."""
    n = rows[:, N]
    base, offset, step = (np.repeat(rows[:, column], n) for column in range(N))
    place = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n) + 1
    instants: Ints = base + round_up(offset + place * step)
    return instants


def led_instants(led: Ints, times: Times, sample: int) -> tuple[Ints, Ints]:
    """When each row of `led_places` is led again, and when clients see that."""
    began, end = times.led.begin[sample : sample + 2]
    progressions = times.led.rows[began:end]
    n = progressions[:, N]
    assert int(n.sum()) == led.size, "a partition has an instant, and an instant a partition"
    return progression_instants(progressions), np.repeat(progressions[:, VISIBLE], n)


def led_places(recording: Recording) -> Ints:
    """Places among the rows of the recording of those led again, in the order of progressions.

    In ZooKeeper mode that is publication after publication, in KRaft broker after broker, whose
    takes follow the order of operations.
    """
    leader: Ints = recording.final_leader.astype(np.int64)
    if recording.state.is_kraft:
        number = final_operations(recording)
        order = np.lexsort((number, leader))
    else:
        number = final_publications(recording)
        order = np.lexsort((leader, number))
    led: Ints = order[number[order] >= 0]
    return led
