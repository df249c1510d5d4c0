"""How long a controlled shutdown lasts: `kfast.timeline` with `controlled`.

Source: docs/timeline.md, section "Controlled shutdown".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kfast.controllers import open_events
from kfast.state import ClusterState
from kfast.timelines.detection import HEARTBEATS, MOST_PATTERNS, Schedule, release_of, uniform
from kfast.timelines.event_times import is_serial
from kfast.timelines.question import Question
from kfast.timelines.recording import NEVER
from kfast.timelines.refused_bytes import under_min_bytes
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown_recording import Shutdown, record_shutdown
from kfast.timelines.shutdown_times import ShutdownTimes, shutdown_times
from kfast.timelines.summaries import Measures, Part, led_measures, slowest

__all__ = ["heartbeat_phases", "shutdown_measures", "shutdown_part", "timed_shutdown"]

Ints = npt.NDArray[np.int64]

NAMES_LEADER = (3, 7)
"""From this release on the error itself says who leads. Source: KIP-951."""


def shutdown_part(
    state: ClusterState, ids: Sequence[int], question: Question, *, takes_over: bool
) -> tuple[Part, ShutdownTimes, Measures]:
    """Record and time the controlled shutdown of some brokers, and measure it.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    ids : sequence of int
        Ids of the brokers, in the order in which they ask.
    question : Question
    takes_over : bool
        ZooKeeper mode: the controller is one of them.
    """
    common = open_events(state.copy(), journal="counts")
    common.start()
    shutdown = record_shutdown(
        common, state.find_brokers(list(ids)).tolist(),
        attempts=question.settings.shutdown_retries, takes_over=takes_over,
    )
    draws = question.draw(len(ids), MOST_PATTERNS)
    return timed_shutdown(shutdown, question, draws.values, scenario=0)


def timed_shutdown(
    shutdown: Shutdown, question: Question, values: Mapping[str, Ints], *, scenario: int
) -> tuple[Part, ShutdownTimes, Measures]:
    """Time a controlled shutdown that is recorded, and measure it."""
    recording = shutdown.recording
    state = recording.state
    times = shutdown_times(
        shutdown, values, question.settings,
        heartbeat_phases(question, scenario, state.n_brokers),
        serial=not state.is_kraft and is_serial(state.controller),
        bytes_in=None if question.load is None else question.load.bytes_in,
    )
    places = tuple((place,) for place in range(len(shutdown.brokers)))
    schedule = Schedule(places, np.arange(question.samples + 1), times.starts)
    part = schedule, recording, times.times, values
    return part, times, shutdown_measures(shutdown, part, times, question)


def heartbeat_phases(
    question: Question, scenario: int, n_brokers: int
) -> npt.NDArray[np.float64]:
    """(S, N) where in its interval each broker's heartbeat stands, from 0 to 1.

    Those of the central sample are spread evenly, in a drawn order.
    """
    phases = uniform(question.seed, scenario, HEARTBEATS, question.samples + 1, n_brokers)
    phases[0] = (phases[0].argsort().argsort() + 0.5) / n_brokers
    return phases


def shutdown_measures(
    shutdown: Shutdown, part: Part, found: ShutdownTimes, question: Question
) -> Measures:
    """Measures of a controlled shutdown, in every sample."""
    schedule, recording, times, drawn = part
    until = len(recording.events) if shutdown.departure == NEVER else shutdown.departure
    decided = [stage.end for stage in times.stages
               if stage.event < until and stage.waits_for != "queue"]
    published = _published(shutdown, part)
    under_min = recording.under_min_partitions
    horizon = question.horizon
    values = {
        "detect_us": found.starts[:, 0],
        "decide_us": np.maximum.reduce([found.starts[:, 0], *decided]),
        "publish_us": np.maximum.reduce([found.starts[:, 0], *times.published[:published]]),
        "isr_max_us": np.maximum(times.shrunk.last, times.led.last),
        "released_us": found.released.max(axis=1),
        "stopped_us": found.stopped.max(axis=1),
        "leaderless_partition_s": found.leaderless,
    }
    values["under_min_partition_s"] = np.maximum(
        under_min * (horizon - values["publish_us"]), 0
    )
    if found.leaderless_bytes is not None and question.load is not None:
        values["leaderless_bytes"] = found.leaderless_bytes
        values["under_min_bytes"] = under_min_bytes(
            question.load.bytes_in, recording, np.maximum(horizon - values["publish_us"], 0)
        )
    if published:
        # In KRaft a broker shows all operations by the last one.
        seen = times.visible[min(published, len(times.visible)) - 1]
        values["visible_max_us"] = seen.max(axis=1, initial=0)
    led, settings = times.led, question.settings
    shown = led.shown_at_once if release_of(recording.state.controller) >= NAMES_LEADER else led
    values |= led_measures(led, shown, _retry(settings), 2 * drawn["net"])
    binding, broker = slowest(schedule, recording, times)
    return Measures(
        values, int(recording.lost.sum()), recording.offline_partitions, under_min, binding, broker
    )


def _published(shutdown: Shutdown, part: Part) -> int:
    """How many batches were sent, or operations committed, before the brokers left."""
    _, recording, times, _ = part
    if shutdown.departure == NEVER:
        return len(recording.events)
    sent = {(one.event, one.name.partition(":")[0]) for one in times.stages
            if one.event < shutdown.departure}
    return len(sent)


def _retry(settings: Settings) -> int:
    """Microseconds within which a client that was refused tries again."""
    return 1200 * settings.retry_backoff
