"""When the steps of a controlled shutdown happen, and how long partitions have no leader.

The old leader leads until it has applied that another one does; nobody leads between that and the
new leader's application. These two instants are taken for every partition in every sample.

Source: docs/timeline.md, section "Controlled shutdown".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.timelines.kraft_counts import TakeCounts, take_counts
from kfast.timelines.kraft_times import quorum_times
from kfast.timelines.partition_instants import led_instants, led_places
from kfast.timelines.progressions import FAR, round_up
from kfast.timelines.recording import NEVER, Recording
from kfast.timelines.refused_bytes import refused_bytes
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown_recording import Shutdown
from kfast.timelines.stages import Stage, Times
from kfast.timelines.zk_steps import ControllerStep, controller_steps
from kfast.timelines.zk_times import zookeeper_times

__all__ = ["ShutdownTimes", "shutdown_times"]

Ints = npt.NDArray[np.int64]
Values = Mapping[str, Ints]

TAKE_END = 6
"""Column of `Times.takes`."""

MOST_INSTANTS = 2**22
"""Instants of partitions that are held at once."""

FIRST_HEARTBEAT_US = 50_000
"""A broker that was not let go asks again so soon. Source: Kafka 3.9, BrokerLifecycleManager."""


@dataclass(frozen=True, eq=False)
class ShutdownTimes:
    """When what happens, in every sample.

    Attributes
    ----------
    times : Times
    starts : (S, E) int64
        When each event can begin.
    released : (S, brokers) int64
        When each broker may go, in the order in which they ask.
    stopped : (S, brokers) int64
    gone : (lost rows,) int64
        When each old leader ceases to lead, in the first sample.
    leaderless : (S,) int64
        Partition-microseconds without a leader, of partitions that have one in the end.
    offline_gone : (S,) int64
        Sum of the instants at which the others lose it.
    leaderless_bytes : (S,) int64 or None
        What producers write to the former meanwhile; None without loads.
    """

    times: Times
    starts: Ints
    released: Ints
    stopped: Ints
    gone: Ints
    leaderless: Ints
    offline_gone: Ints
    leaderless_bytes: Ints | None = None


def shutdown_times(
    shutdown: Shutdown, values: Values, settings: Settings, phases: npt.NDArray[np.float64], *,
    serial: bool, bytes_in: Ints | None = None,
) -> ShutdownTimes:
    """Let brokers ask, the controller decide, and brokers apply it.

    Parameters
    ----------
    shutdown : Shutdown
    values : mapping of str to (S,) int64
        Every parameter.
    settings : Settings
    phases : (S, N) float64
        KRaft: where in its interval each broker's heartbeat stands, from 0 to 1.
    serial : bool
        ZooKeeper mode: requests to ZooKeeper go one by one.
    bytes_in : (P,) int64, optional
        Bytes a second, by partition row.
    """
    if shutdown.departure == NEVER:
        return _quorum(shutdown, values, settings, phases, bytes_in)
    return _zookeeper(shutdown, values, settings, bytes_in, serial=serial)


# --- ZooKeeper mode ------------------------------------------------------------------------------


def _zookeeper(
    shutdown: Shutdown, values: Values, settings: Settings, bytes_in: Ints | None, *, serial: bool
) -> ShutdownTimes:
    recording, steps = shutdown.recording, controller_steps(shutdown.recording)
    n, net = values["net"].size, values["net"]
    starts = np.zeros((n, len(recording.events)), np.int64)
    released = np.zeros((n, len(shutdown.brokers)), np.int64)
    due, number = np.repeat(net[:, None], len(shutdown.brokers), axis=1), 0

    def timed(until: int) -> Times:
        """Times of the events before one; how later ones begin does not change them."""
        some = [step for step in steps if step.event < until]
        return zookeeper_times(some, starts, values, recording.live, serial=serial)

    for at, asking in enumerate(shutdown.requests):
        numbers = np.arange(number, number + len(asking))
        starts[:, numbers] = due[:, list(asking)]
        number += len(asking)
        times = timed(number)
        answered = np.stack([_ended(times, starts, one) for one in numbers.tolist()], axis=1)
        released[:, list(asking)] = answered + net[:, None]
        # One that is not let go waits; after its last attempt it stops all the same.
        last = at + 1 == len(shutdown.requests)
        left = shutdown.still_leads if last else shutdown.requests[at + 1]
        released[:, list(left)] += 1000 * settings.shutdown_backoff
        due[:, list(left)] = released[:, list(left)] + net[:, None]
    stopped = released + values["stop"][:, None]
    starts[:, shutdown.departure] = stopped.max(axis=1) + values["zk_expire_event"]
    times = timed(shutdown.departure + 1)
    _add_stops(times, shutdown, released, stopped)

    def followers_at(samples: slice) -> Ints:
        return _told_by_requests(shutdown, steps, times, values, samples)

    return ShutdownTimes(
        times, starts, released, stopped, *_gaps(shutdown, times, followers_at, released, bytes_in)
    )


def _ended(times: Times, starts: Ints, event: int) -> Ints:
    """(S,) when the controller has handled an event and those before it."""
    ends = [stage.end for stage in times.stages if stage.event <= event]
    ended: Ints = np.maximum.reduce([starts[:, event], *ends])
    return ended


def _told_by_requests(
    shutdown: Shutdown, steps: list[ControllerStep], times: Times, values: Values, samples: slice
) -> Ints:
    """(n, lost rows) when each old leader has become a follower; never where no request says so.

    So it is in old releases: it leads, as far as it knows, until it stops.
    """
    recording = shutdown.recording
    values = {name: column[samples] for name, column in values.items()}
    gone = np.full((values["net"].size, int(recording.lost.sum())), FAR, np.int64)
    sent = [step for step in steps if step.publication is not None]
    for number, step in enumerate(sent):
        if step.event == shutdown.departure or not step.stage.startswith("elections"):
            continue
        own, mine = recording.events[step.event].group[0], shutdown.left_with[step.event]
        publication = step.publication
        assert publication is not None, "it is sent"
        if mine.size and publication.follows[own] >= mine.size:
            before = (publication.leads[own] * values["epoch_sync"]
                      + publication.leads_on[own] * values["isr_only"])
            gone[:, mine] = _followed(times.begun[number][samples, own], before, mine.size, values)
    return gone


def _followed(base: Ints, before: Ints, n: int, values: Values) -> Ints:
    """(S, n) when a broker has become a follower of its n partitions, by topic and number."""
    nanos = before[:, None] + values["follow"][:, None] * np.arange(1, n + 1)
    followed: Ints = base[:, None] + round_up(nanos)
    return followed


# --- KRaft ---------------------------------------------------------------------------------------


def _quorum(
    shutdown: Shutdown, values: Values, settings: Settings, phases: npt.NDArray[np.float64],
    bytes_in: Ints | None,
) -> ShutdownTimes:
    recording, counts = shutdown.recording, take_counts(shutdown.recording)
    voters = settings.quorum_voters
    starts = np.repeat(values["net"][:, None], len(recording.events), axis=1)
    times = quorum_times(recording, counts, starts, values, voters=voters)
    free = np.maximum.reduce([one.end for one in times.stages if one.name == "decide"])
    live, which = np.flatnonzero(recording.live), _takes_by_operation(times, recording)
    stays = ~recording.dead[live]
    released = np.zeros_like(starts)
    for place, records in enumerate(shutdown.fencing_records):
        released[:, place] = times.published[place] + values["net"]
        if not records:
            continue
        applied = times.takes[which[:, stays, place], TAKE_END]
        caught_up = _reported(applied, settings, phases[:, live[stays]]) + values["net"]
        asks = _let_go(times.published[place] + values["net"], caught_up, values, settings)
        begin = np.maximum(asks + values["net"], free)
        free = begin + values["kr_fixed"] + round_up(records * values["kr_record"])
        fenced = free + values["linger"] + values["log_sync"]
        if voters > 1:
            fenced = fenced + values["net"] + values["log_sync"]
        number = len(recording.events) + place
        times.stages += [
            Stage(number, "wait for brokers", times.published[place], begin,
                  int(stays.sum()), "queue"),
            Stage(number, "decide fencing", begin, free, records, "controller"),
            Stage(number, "commit fencing", free, fenced, records, "store"),
        ]
        released[:, place] = fenced + values["net"]
    stopped = released + values["stop"][:, None]
    _add_stops(times, shutdown, released, stopped)

    def followers_at(samples: slice) -> Ints:
        return _told_by_takes(shutdown, counts, times, which, values, samples)

    return ShutdownTimes(
        times, starts, released, stopped, *_gaps(shutdown, times, followers_at, released, bytes_in)
    )


def _takes_by_operation(times: Times, recording: Recording) -> npt.NDArray[np.int32]:
    """(S, live brokers, K) the take in which each broker takes each operation, by its number.

    Takes stand sample after sample, broker after broker, and have all operations between them.
    """
    first, last = times.takes[:, 2], times.takes[:, 3]
    which = np.repeat(np.arange(first.size, dtype=np.int32), last - first + 1)
    return which.reshape(-1, int(recording.live.sum()), len(recording.events))


def _reported(applied: Ints, settings: Settings, phases: npt.NDArray[np.float64]) -> Ints:
    """(S,) when the last of some brokers reports that it has applied an operation.

    It reports with its next heartbeat. `applied` and `phases` are (S, brokers).
    """
    interval = max(1000 * settings.broker_heartbeat, 1)
    offset = (phases * interval).astype(np.int64)
    beats = offset - (offset - applied) // interval * interval
    reported: Ints = beats.max(axis=1, initial=0)
    return reported


def _let_go(answered: Ints, caught_up: Ints, values: Values, settings: Settings) -> Ints:
    """(S,) when the broker that leaves asks for the time that is granted."""
    interval = max(1000 * settings.broker_heartbeat, 1)
    first = answered + FIRST_HEARTBEAT_US
    late = caught_up - values["net"] - first
    asks: Ints = first + np.maximum(-(-late // interval), 0) * interval
    return asks


def _told_by_takes(
    shutdown: Shutdown, counts: TakeCounts, times: Times, which: npt.NDArray[np.int32],
    values: Values, samples: slice,
) -> Ints:
    """(n, lost rows) when each old leader has become a follower of what it led.

    `which` is as of `_takes_by_operation`.
    """
    recording = shutdown.recording
    values = {name: column[samples] for name, column in values.items()}
    gone = np.full((values["net"].size, int(recording.lost.sum())), FAR, np.int64)
    places = np.cumsum(recording.live) - 1
    for number, event in enumerate(recording.events):
        own, mine = event.group[0], shutdown.left_with[number]
        if not mine.size or not recording.live[own]:
            continue
        _, _, i, j, _, base, _ = times.takes[which[samples, places[own], number]].T
        leads, leads_on, _ = counts.applied[:, own, i, j]
        before = leads * values["epoch_sync"] + leads_on * values["isr_only"]
        gone[:, mine] = _followed(base, before, mine.size, values)
    return gone


# --- both ----------------------------------------------------------------------------------------


def _by_old_leader(shutdown: Shutdown, released: Ints) -> Ints:
    """(S, lost rows) when the old leader of each row may go."""
    recording = shutdown.recording
    place = np.zeros(recording.dead.size, np.int64)
    place[list(shutdown.brokers)] = np.arange(len(shutdown.brokers))
    by_row: Ints = released[:, place[recording.first["leader"][recording.lost]]]
    return by_row


def _add_stops(times: Times, shutdown: Shutdown, released: Ints, stopped: Ints) -> None:
    last = times.stages[-1].event if times.stages else 0
    leaving = shutdown.recording.dead
    begin, end = np.zeros((2, released.shape[0], leaving.size), np.int64)
    begin[:, list(shutdown.brokers)], end[:, list(shutdown.brokers)] = released, stopped
    times.add_brokers(last, "stop", begin, end, leaving.astype(np.int64), leaving)


def _gaps(
    shutdown: Shutdown, times: Times, followers_at: Callable[[slice], Ints], released: Ints,
    bytes_in: Ints | None,
) -> tuple[Ints, Ints, Ints, Ints | None]:
    """`gone`, `leaderless`, `offline_gone` and `leaderless_bytes`, some samples at a time.

    `followers_at` says when old leaders become followers; those that are not told lead until they
    may go.
    """
    recording, led = shutdown.recording, led_places(shutdown.recording)
    lost = np.flatnonzero(recording.lost)
    places = np.full(recording.rows.size, -1, np.int64)
    places[lost] = np.arange(lost.size)
    led_of_lost = places[led]
    offline = recording.final_leader[lost] < 0
    n = released.shape[0]
    leaderless, offline_gone = np.zeros(n, np.int64), np.zeros(n, np.int64)
    rates = None if bytes_in is None else bytes_in[recording.rows[led]]
    refused = None if rates is None else np.zeros(n, np.int64)
    first, at_once = np.zeros(lost.size, np.int64), max(MOST_INSTANTS // max(lost.size, 1), 1)
    for begin in range(0, n, at_once):
        samples = slice(begin, min(begin + at_once, n))
        gone = np.minimum(followers_at(samples), _by_old_leader(shutdown, released[samples]))
        offline_gone[samples] = gone[:, offline].sum(axis=1)
        for at, sample in enumerate(range(n)[samples]):
            instants, _ = led_instants(led, times, sample)
            waits = np.maximum(instants - gone[at, led_of_lost], 0)
            leaderless[sample] = waits.sum()
            if rates is not None and refused is not None:
                refused[sample] = refused_bytes(rates, waits).sum()
        if not begin:
            first = gone[0]
    return first, leaderless, offline_gone, refused
