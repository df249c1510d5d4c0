"""What brokers do when they take several operations of a KRaft controller at once, counted.

A broker that is busy takes all operations that are committed meanwhile, i to j, and applies each
partition once, in its last state. So counts are needed for every i <= j: each change of a partition
counts within a rectangle of (i, j), and a table is the sum of such rectangles.

Source: docs/timeline.md, section "KRaft".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.kernels import broker_takes
from kfast.timelines.recording import NEVER, Recording

__all__ = ["TakeCounts", "final_operations", "take_counts"]

Ints = npt.NDArray[np.int64]
Table = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class TakeCounts:
    """Counts by broker row, first operation i and last operation j; (N, K + 1, K + 1) int32.

    Attributes
    ----------
    applied : (3, N, K + 1, K + 1) int32
        Partitions that a broker begins to lead with a new epoch, leads on, and follows.
    elected, shrunk_later, shrunk : (N, K + 1, K + 1) int32
        As of `zk_steps.Publication`.
    shrunk_on : (N, K + 1, K + 1) int32
        Of those led on, those whose ISR loses its last dead member here.
    meta : (K + 1, K + 1) int32
        Partitions that changed, anywhere.
    """

    applied: npt.NDArray[np.int32]
    elected: Table
    shrunk_later: Table
    shrunk: Table
    shrunk_on: Table
    meta: Table


class _Rectangles:
    """A sum of rectangles over (i, j), by broker."""

    def __init__(self, n_events: int, n_brokers: int) -> None:
        self.corners = np.zeros((n_brokers, n_events + 1, n_events + 1), np.int32)

    def add(self, first_i: Ints, end_i: Ints, first_j: Ints, end_j: Ints, brokers: Ints) -> None:
        """Add 1 where first_i <= i < end_i and first_j <= j < end_j; empty ones are left out."""
        broker_takes.add_rectangles(
            np.stack([first_i, end_i, first_j, end_j]), np.ascontiguousarray(brokers), self.corners
        )

    def table(self) -> Table:
        """The sums, in place of the corners."""
        broker_takes.sum_corners(self.corners)
        return self.corners


def final_operations(recording: Recording) -> Ints:
    """(n,) the operation that gave each row its leader for good; NEVER where it did not lose one.

    So too where none leads in the end.
    """
    final = recording.final_leader.astype(np.int64)
    elected_by = np.full(recording.rows.size, NEVER, np.int64)
    for number, event in enumerate(recording.events):
        leader = event.after["leader"].astype(np.int64)
        changed = (event.writes > 0) & event.elected & (leader == final[event.at])
        elected_by[event.at[changed]] = number
    elected_by[~recording.lost | (final < 0)] = NEVER
    return elected_by


def take_counts(recording: Recording) -> TakeCounts:
    """Counts of every take of consecutive operations of one failure."""
    n, k = recording.rows.size, len(recording.events)
    brokers = recording.dead.size
    led, all_led, followed, meta = (
        _Rectangles(k, size) for size in (brokers, brokers, brokers, 1)
    )
    final = recording.final_leader.astype(np.int64)
    last, raised = np.full(n, NEVER, np.int64), np.full(n, NEVER, np.int64)
    elected_by = final_operations(recording)
    until = _next_changes(recording)
    for e, event in enumerate(recording.events):
        changed = event.writes > 0
        at = event.at[changed]
        raised[event.at[event.raised]] = e
        last[at] = e
        leader = event.after["leader"][changed].astype(np.int64)
        here, zero = np.full(at.size, e, np.int64), np.zeros(at.size, np.int64)
        all_led.add(zero, here + 1, here, until[e], leader)
        led.add(zero, raised[at] + 1, here, until[e], leader)
        meta.add(zero, here + 1, here, until[e], zero)
        for slot in range(recording.concerned.replicas.shape[1]):
            replica = recording.concerned.replicas[at, slot]
            following = np.where(replica == leader, -1, replica)
            followed.add(zero, here + 1, here, until[e], following)
    leads = led.table()
    applied = np.stack([leads, all_led.table() - leads, followed.table()])
    return _finished(recording, applied, meta.table()[0], final, last, raised, elected_by)


def _next_changes(recording: Recording) -> list[Ints]:
    """Of each row that an event changes, the next event that does; after the last one, all."""
    k = len(recording.events)
    next_event, until = np.full(recording.rows.size, k, np.int64), list[Ints]()
    for e in range(k - 1, -1, -1):
        event = recording.events[e]
        at = event.at[event.writes > 0]
        until.append(next_event[at])
        next_event[at] = e
    return until[::-1]


def _finished(
    recording: Recording, applied: npt.NDArray[np.int32], meta: Table, final: Ints, last: Ints,
    raised: Ints, elected_by: Ints,
) -> TakeCounts:
    """The same with what is counted by partition: the last election, and the last change."""
    k, brokers, n = len(recording.events), recording.dead.size, last.size
    elected, later, shrunk, shrunk_on = (_Rectangles(k, brokers) for _ in range(4))
    mine = np.where(elected_by >= 0, final, -1)
    zero, end = np.zeros(n, np.int64), np.full(n, k, np.int64)
    elected.add(zero, elected_by + 1, np.maximum(elected_by, 0), end, mine)
    later.add(zero, elected_by + 1, np.maximum(elected_by, 0), last, mine)
    ends = np.where(last >= 0, final, -1)
    at = np.maximum(last, 0)
    shrunk.add(elected_by + 1, raised + 1, at, end, ends)
    shrunk_on.add(np.maximum(raised, elected_by) + 1, last + 1, at, end, ends)
    return TakeCounts(
        applied, elected.table(), later.table(), shrunk.table(), shrunk_on.table(), meta
    )
