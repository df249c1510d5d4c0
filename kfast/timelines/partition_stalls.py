"""When the ISR of each partition loses its last dead member, in the central sample.

Until then a partition that is led already is stalled: writes with acks=all wait.

Source: docs/timeline.md, sections "Words" and "Partitions".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.timelines.kraft_counts import final_operations
from kfast.timelines.partition_instants import progression_instants
from kfast.timelines.recording import NEVER, Recording
from kfast.timelines.stages import Times
from kfast.timelines.zk_steps import last_publications

__all__ = ["shrunk_instants"]

Ints = npt.NDArray[np.int64]


def shrunk_instants(recording: Recording, times: Times, sample: int) -> Ints:
    """(n,) when the ISR of each row of a recording loses its last dead member.

    NEVER where that is when it is led again, and where its ISR had none or keeps it.
    """
    places = _quorum_places(recording, times, sample) if recording.state.is_kraft else (
        _zookeeper_places(recording))
    began, end = times.shrunk.begin[sample : sample + 2]
    instants = progression_instants(times.shrunk.rows[began:end])
    assert instants.size == places.size, "a partition has an instant, and an instant a partition"
    shrunk_at = np.full(recording.rows.size, NEVER, np.int64)
    shrunk_at[places] = instants
    return shrunk_at


def _zookeeper_places(recording: Recording) -> Ints:
    """Rows in the order of progressions: publication after publication, broker after broker."""
    last, elected_by = last_publications(recording)
    leader = recording.final_leader
    rows = np.flatnonzero((last >= 0) & (last != elected_by) & (leader >= 0))
    places: Ints = rows[np.lexsort((leader[rows], last[rows]))]
    return places


def _quorum_places(recording: Recording, times: Times, sample: int) -> Ints:
    """The same of KRaft: those whose epoch a take raises, then those that are led on in one.

    Each broker after broker, take after take.
    """
    n, operations = recording.rows.size, len(recording.events)
    last, raised = np.full(n, NEVER, np.int64), np.full(n, NEVER, np.int64)
    for number, event in enumerate(recording.events):
        last[event.at[event.writes > 0]] = number
        raised[event.at[event.raised]] = number
    leader, elected_by = recording.final_leader.astype(np.int64), final_operations(recording)
    rows = np.flatnonzero((last >= 0) & (leader >= 0))
    takes = times.takes[times.takes[:, 0] == sample]
    _, broker, first, final = takes.T[:4]
    take = np.searchsorted(broker * operations + final, leader[rows] * operations + last[rows])
    begins = first[take]
    stalled = begins > elected_by[rows]
    is_raised = begins <= raised[rows]
    parts = [
        rows[chosen][np.argsort(take[chosen], kind="stable")]
        for chosen in (stalled & is_raised, stalled & ~is_raised)
    ]
    places: Ints = np.concatenate(parts)
    return places
