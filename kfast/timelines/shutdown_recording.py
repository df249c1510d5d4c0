"""Controlled shutdowns as the engine's controller handles them: no times are in here.

Brokers that shut down together ask one after another. In ZooKeeper mode one that still leads
anything asks again, and all of them vanish in one event. In KRaft each is fenced when it may go.

Source: docs/timeline.md, section "Controlled shutdown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kfast.controllers import CommonEvents, EventOutcome
from kfast.errors import InvariantError
from kfast.journal import Outcome, QuorumOutcome
from kfast.timelines.recording import NEVER, Concerned, EventRecorder, Recording

__all__ = ["Shutdown", "record_shutdown"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shutdown:
    """All events of the controlled shutdown of some brokers.

    Attributes
    ----------
    recording : Recording
        Brokers that leave are its dead ones. KRaft: those that are not fenced at once are up.
    brokers : tuple of int
        Their rows, in the order in which they ask.
    requests : tuple of tuple of int
        Round after round, the places among `brokers` of those that ask: an event for each.
    still_leads : tuple of int
        Places of those that lead something after the last round: they are not let go.
    departure : int
        ZooKeeper mode: number of the event in which all of them vanish; NEVER in KRaft.
    fencing_records : tuple of int
        KRaft: records of each broker's fencing; 0 where that was its request.
    """

    recording: Recording
    brokers: tuple[int, ...]
    requests: tuple[tuple[int, ...], ...]
    still_leads: tuple[int, ...]
    departure: int
    fencing_records: tuple[int, ...]

    @cached_property
    def left_by(self) -> Ints:
        """(n,) number of the event that took its leader from each row; NEVER where none did."""
        recording = self.recording
        left_by = np.full(recording.rows.size, NEVER, np.int64)
        for number in range(len(recording.events) - 1, -1, -1):
            event = recording.events[number]
            moved = event.after["leader"] != event.before["leader"]
            left_by[event.at[moved]] = number
        left_by[~recording.lost] = NEVER
        return left_by

    @cached_property
    def left_with(self) -> list[Ints]:
        """Of each event, places among the lost rows that its own broker ceased to lead in it."""
        recording = self.recording
        leader, event = recording.first["leader"][recording.lost], self.left_by[recording.lost]
        own = np.array([some.group[0] for some in recording.events], np.int64)
        order = np.argsort(event, kind="stable")
        order = order[event[order] != NEVER]
        order = order[leader[order] == own[event[order]]]
        return np.split(order, np.searchsorted(event[order], np.arange(1, own.size)))


def record_shutdown(
    common: CommonEvents, brokers: Sequence[int], *, attempts: int, takes_over: bool = False
) -> Shutdown:
    """Let brokers shut down in order, and record every event.

    Parameters
    ----------
    common : CommonEvents
        A controller that is active; its cluster is changed.
    brokers : sequence of int
        Rows of brokers that are up.
    attempts : int
        How often a broker asks, in ZooKeeper mode, while it leads anything.
    takes_over : bool
        ZooKeeper mode: one of them is the controller, and another takes over when they vanish.
    """
    state = common.state
    ids = state.broker_id[list(brokers)].tolist()
    recorder = EventRecorder(state, Concerned.of(state, brokers))
    rounds, asking = list[tuple[int, ...]](), tuple(range(len(brokers)))
    while asking and len(rounds) < attempts:
        rounds.append(asking)
        asking = tuple(
            place for place in asking
            if _remains(recorder.note((brokers[place],), common.shutdowns_requested([ids[place]])))
        )
    live, departure, records = state.up.copy(), NEVER, list[int]()
    if state.is_kraft:
        records = [_complete(common, broker, recorder) for broker in ids]
    else:
        departure = len(recorder.events)
        if takes_over:
            state.remove_live_brokers(ids)
        recorder.note(
            tuple(sorted(brokers)),
            common.start() if takes_over else common.shutdowns_completed(ids),
        )
        live = state.up.copy()
    recording = recorder.recording(state, live, departure if takes_over else NEVER)
    return Shutdown(recording, tuple(brokers), tuple(rounds), asking, departure, tuple(records))


def _remains(happened: EventOutcome) -> bool:
    """Whether the broker that asked leads anything, so that it is not let go."""
    return isinstance(happened.outcome, Outcome) and happened.outcome.remaining.size > 0


def _complete(common: CommonEvents, broker: int, recorder: EventRecorder) -> int:
    """Fence a broker of KRaft; returns how many records that took."""
    happened = common.shutdowns_completed([broker])
    if not happened:
        return 0
    (event,) = happened
    assert isinstance(event.outcome, QuorumOutcome), "a KRaft controller fences it"
    # Before 4.0 those that nobody leads get a new epoch here.
    now = common.state.records.take(recorder.concerned.rows)
    if (now["leader"] != recorder.records["leader"]).any():
        raise InvariantError(
            f"broker {broker} was fenced after its controlled shutdown, and leaders changed"
        )
    return event.outcome.n_records
