"""Measures of a failure in every sample: who is led when, and what it costs in partition-time.

Source: docs/timeline.md, sections "Words" and "Clients".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.schema import WAITS
from kfast.timelines.detection import Schedule
from kfast.timelines.progressions import (
    BROKER,
    N,
    Progressions,
    quantile,
    round_up,
    waiting_quantile,
)
from kfast.timelines.question import Question
from kfast.timelines.recording import Recording
from kfast.timelines.refused_bytes import leaderless_bytes, under_min_bytes
from kfast.timelines.settings import Settings
from kfast.timelines.stages import Times

__all__ = [
    "Measures",
    "Part",
    "known_from",
    "led_measures",
    "longest_wait",
    "measure",
    "no_failure",
    "slowest",
    "waits_of",
]

Ints = npt.NDArray[np.int64]
Part = tuple[Schedule, Recording, Times, Mapping[str, Ints]]


@dataclass(frozen=True, eq=False)
class Measures:
    """What a failure costs.

    Attributes
    ----------
    values : dict of str to (S,) int64
        By `schema.TIMES`, `schema.TIMES_IN_SECONDS` and, with loads, `schema.REFUSED_BYTES`; those
        in seconds are partition-microseconds until they are shown. What is not there does not
        occur.
    lost_partitions, offline_partitions, under_min_partitions : int
        Partitions that lose their leader; that have none in the end; that fall under min ISR.
    binding : str or None
        What the partition that is led last waited for most.
    slowest_broker : int or None
        Id of its leader.
    """

    values: dict[str, Ints]
    lost_partitions: int = 0
    offline_partitions: int = 0
    under_min_partitions: int = 0
    binding: str | None = None
    slowest_broker: int | None = None


def no_failure(active: Ints) -> Measures:
    """Only the active KRaft controller fails: nobody loses a leader."""
    return Measures({"detect_us": active, "decide_us": active})


def known_from(settings: Settings, loss: str) -> int:
    """Microseconds after the failure of which clients know that their leader is gone.

    The connections of a process that dies are reset; a host that is lost answers nothing.
    """
    return 1000 * settings.request_timeout if loss == "host" else 0


def measure(parts: Sequence[Part], question: Question) -> Measures:
    """Measures of all samples; each part has those with one order of events.

    The first part has the central sample as its first.
    """
    samples = sum(schedule.samples.size for schedule, *_ in parts)
    values: dict[str, Ints] = {}
    central = parts[0]
    recording, horizon = central[1], question.horizon
    under_min = recording.under_min_partitions
    for part in parts:
        schedule = part[0]
        for name, column in _measure_samples(part, question).items():
            whole = values.setdefault(name, np.zeros(samples, np.int64))
            whole[schedule.samples] = column
    values["under_min_partition_s"] = np.full(samples, under_min * horizon, np.int64)
    if question.load is not None:
        values["under_min_bytes"] = under_min_bytes(
            question.load.bytes_in, recording, np.full(samples, horizon, np.int64)
        )
    binding, broker = slowest(*central[:3])
    return Measures(
        values, int(recording.lost.sum()), recording.offline_partitions, under_min, binding,
        broker,
    )


def _measure_samples(part: Part, question: Question) -> dict[str, Ints]:
    schedule, recording, times, drawn = part
    settings, horizon = question.settings, question.horizon
    n = schedule.samples.size
    led, later, shrunk = times.led, times.shrunk_later, times.shrunk
    decided = [stage.end for stage in times.stages if stage.waits_for != "queue"]
    last_seen = times.visible[-1] if times.visible else np.zeros((n, 1), np.int64)
    values = {
        "detect_us": schedule.starts[:, 0],
        "decide_us": np.maximum.reduce(decided),
        "publish_us": np.maximum.reduce(times.published),
        "visible_max_us": last_seen.max(axis=1, initial=0),
        "stalled_partition_s": np.maximum(
            shrunk.sum_until(horizon) - later.sum_until(horizon), 0
        ),
        "isr_max_us": np.maximum(shrunk.last, led.last),
        "leaderless_partition_s": led.sum_until(horizon),
    }
    if question.load is not None:
        values["leaderless_bytes"] = leaderless_bytes(
            question.load.bytes_in, recording, times, horizon
        )
    wait = 1200 * settings.retry_backoff_max
    return values | led_measures(
        led, led.hidden_until(known_from(settings, question.loss)), wait, 2 * drawn["net"]
    )


def led_measures(
    led: Progressions, led_by_clients: Progressions, wait: int, late: Ints
) -> dict[str, Ints]:
    """When partitions are led again, and when clients reach their leaders.

    Parameters
    ----------
    led, led_by_clients : Progressions
        The same partitions; those of clients have the instants at which they see the leaders.
    wait, late
        As of `waiting_quantile`.
    """
    if not led.rows.size:
        return {}
    return {
        "first_led_us": led.first, "led_max_us": led.last,
        **{f"led_p{percent}_us": quantile(led, percent) for percent in (50, 99)},
        **{f"served_p{percent}_us": waiting_quantile(led_by_clients, percent, wait, late)
           for percent in (50, 99)},
    }


def slowest(
    schedule: Schedule, recording: Recording, times: Times
) -> tuple[str | None, int | None]:
    """What the partition that is led last waits for most, and its leader; in the central sample."""
    wait = longest_wait(schedule, times)
    if wait is None:
        return None, None
    spans, broker = wait
    return max(spans, key=lambda name: spans[name]), int(recording.state.broker_id[broker])


def longest_wait(schedule: Schedule, times: Times) -> tuple[dict[str, int], int] | None:
    """How long the partition that is led last waits for what, and the row of its leader.

    Microseconds by `schema.WAITS`, of the central sample, which is among these; None where none is
    led again. What no stage explains is waited for in a queue.
    """
    at = int(np.flatnonzero(schedule.samples == 0)[0])
    led = times.led
    rows = led.rows[led.begin[at] : led.begin[at + 1]]
    if not rows.size:
        return None
    disks = round_up(rows[:, 1] + rows[:, 2] * rows[:, N])
    which = int((rows[:, 0] + disks).argmax())
    broker = int(rows[which, BROKER])
    spans = waits_of(schedule, times, at, rows[which : which + 1, 0], disks[which : which + 1])
    return {name: int(span[0]) for name, span in spans.items()}, broker


def waits_of(
    schedule: Schedule, times: Times, at: int, bases: Ints, disks: Ints
) -> dict[str, Ints]:
    """How long some partitions wait for what, by `schema.WAITS`, in one sample.

    Parameters
    ----------
    schedule : Schedule
    times : Times
    at : int
        Place of the sample.
    bases, disks : (n,) int64
        When the broker of each begins with its disk, and for how long.
    """
    spans = dict.fromkeys(WAITS, np.zeros_like(bases)) | {
        "detection": np.full_like(bases, schedule.starts[at, 0]), "disk": disks,
    }
    for kind in dict.fromkeys(one.waits_for for one in times.stages):
        own = sorted((int(one.end[at]), int(one.end[at] - one.begin[at]))
                     for one in times.stages if one.waits_for == kind)
        ends = np.array([end for end, _ in own], np.int64)
        until = np.cumsum([0, *(span for _, span in own)])
        spans[kind] = spans[kind] + until[np.searchsorted(ends, bases, side="right")]
    total = np.sum([*spans.values()], axis=0)
    spans["queue"] = spans["queue"] + np.maximum(bases + disks - total, 0)
    return spans
