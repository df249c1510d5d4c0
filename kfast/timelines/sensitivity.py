"""What the end of a failure depends on: each parameter, setting and phase alone.

All is timed in the central sample, of which one number at a time is another: a parameter or a phase
is at an end of its range, a setting is halved or doubled. The failure is recorded again only where
that makes another order of events.

Source: docs/timeline.md, section "Sensitivity".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError
from kfast.timelines.detection import Draws, schedules
from kfast.timelines.event_times import Counts, counts_of, times_of
from kfast.timelines.parameters import Parameters
from kfast.timelines.recording import Concerned, FailureRecorder, Recording
from kfast.timelines.settings import Settings

__all__ = ["CentralSample", "levers"]

Ints = npt.NDArray[np.int64]
Groups = tuple[tuple[int, ...], ...]
Row = dict[str, Any]

COUNTED = {
    "controller.quorum.voters": "controllers", "controlled.shutdown.max.retries": "attempts",
}
"""Settings that are no time, and what they count."""

THOUSAND = 1000
"""A phase is from 0 to below 1, and is shown in thousandths."""


@dataclass(frozen=True, eq=False)
class CentralSample:
    """The central sample of one failure, to be timed with other numbers.

    Attributes
    ----------
    recorder : FailureRecorder
        Of the cluster before.
    ids : tuple of int
        Brokers that fail, at least one.
    controller : int or None
        Place among them of the controller, as of `failover.controller_place`.
    params : Parameters
    settings : Settings
    draws : Draws
        Of the failure; the first sample is the central one.
    """

    recorder: FailureRecorder
    ids: tuple[int, ...]
    controller: int | None
    params: Parameters
    settings: Settings
    draws: Draws
    _recorded: dict[Groups, tuple[Recording, Counts]] = field(default_factory=dict)

    def repeated(self, n: int) -> Draws:
        """The central sample, so many times."""
        draws = self.draws
        return Draws(
            {name: np.repeat(drawn[:1], n) for name, drawn in draws.values.items()},
            np.repeat(draws.ages[:1], n, axis=0), np.repeat(draws.waits[:1], n),
            np.repeat(draws.elections[:1], n),
        )

    def led_max(self, draws: Draws, settings: Settings | None = None) -> Ints:
        """(S,) when all are led that are led again; 0 where none is."""
        started, settings = self.recorder.started, settings or self.settings
        led_max = np.zeros(draws.waits.size, np.int64)
        for schedule in schedules(started, settings, draws, controller=self.controller):
            recording, counts = self._record(schedule.groups)
            values = {name: drawn[schedule.samples] for name, drawn in draws.values.items()}
            times = times_of(recording, counts, schedule.starts, values, settings)
            led_max[schedule.samples] = times.led.last
        return led_max

    def _record(self, groups: Groups) -> tuple[Recording, Counts]:
        if groups not in self._recorded:
            started = self.recorder.started
            rows = started.find_brokers(list(self.ids)).tolist()
            recording = self.recorder.record(
                Concerned.of(started, rows), [[rows[place] for place in group] for group in groups],
                takes_over=self.controller is not None and not self.recorder.started.is_kraft,
            )
            self._recorded[groups] = recording, counts_of(recording)
        return self._recorded[groups]


def levers(sample: CentralSample) -> list[Row]:
    """Rows of `schema.TIMELINE_SENSITIVITY`; none where no partition is led again."""
    [end] = sample.led_max(sample.repeated(1)).tolist()
    if not end:
        return []
    rows = [*_parameters(sample, end), *_settings(sample, end), *_phases(sample)]
    for row in rows:
        ends = [row[name] for name in ("led_max_us_at_low", "led_max_us_at_high")
                if row[name] is not None]
        row["led_max_us"] = end
        row["effect_us"] = max((abs(one - end) for one in ends), default=0)
    return sorted(rows, key=lambda row: -row["effect_us"])


def _parameters(sample: CentralSample, end: int) -> list[Row]:
    """A row of each parameter; all are timed at once, each in samples of its own."""
    params = [*sample.params.by_name.values()]

    def timed(numbers: Mapping[str, int]) -> dict[str, int]:
        draws = sample.repeated(len(numbers))
        for place, (name, value) in enumerate(numbers.items()):
            draws.values[name][place] = value
        return dict(zip(numbers, sample.led_max(draws).tolist(), strict=True))

    low, high = timed({one.name: one.low for one in params}), timed(
        {one.name: one.high for one in params})
    halves = _halving({one.name: (0, one.value) for one in params}, timed, end)
    return [
        {"name": one.name, "kind": "parameter", "unit": one.unit, "value": one.value,
         "low": one.low, "high": one.high, "led_max_us_at_low": low[one.name],
         "led_max_us_at_high": high[one.name], "halves_at": halves.get(one.name)}
        for one in params
    ]


def _settings(sample: CentralSample, end: int) -> Iterator[Row]:
    """A row of each setting that is not of clients, which no leader waits for."""
    settings = sample.settings

    def timed(numbers: Mapping[str, int]) -> dict[str, int]:
        return {
            name: int(sample.led_max(sample.repeated(1), _with(settings, name, value))[0])
            for name, value in numbers.items()
        }

    for name, value in settings.by_name.items():
        low, high = max(value // 2, 1), 2 * value
        at_low, at_high = (
            timed({name: one})[name] if _allowed(settings, name, one) else None
            for one in (low, high)
        )
        halves = {}
        if {at_low, at_high} != {end}:
            least = _least(partial(_allowed, settings, name), value)
            halves = _halving({name: (least, value)}, timed, end)
        yield {
            "name": name, "kind": "setting", "low": low, "high": high, "value": value,
            "unit": COUNTED.get(name, "ms"),
            "led_max_us_at_low": at_low, "led_max_us_at_high": at_high,
            "halves_at": halves.get(name),
        }


def _phases(sample: CentralSample) -> Iterator[Row]:
    """A row of each phase. Ages of several brokers are spread evenly, and no single number."""
    draws = sample.repeated(2)
    ends = np.array([0, THOUSAND - 1]) / THOUSAND
    phases = {
        "wait": replace(draws, waits=ends),
        "election": replace(draws, elections=ends),
    }
    if len(sample.ids) == 1:
        phases["age"] = replace(draws, ages=ends[:, None])
    for name, drawn in phases.items():
        low, high = sample.led_max(drawn).tolist()
        yield {
            "name": name, "kind": "phase", "unit": "thousandths", "value": THOUSAND // 2, "low": 0,
            "high": THOUSAND - 1, "led_max_us_at_low": low, "led_max_us_at_high": high,
            "halves_at": None,
        }


def _with(settings: Settings, name: str, value: int) -> Settings:
    return Settings.of({**settings.by_name, name: value})


def _allowed(settings: Settings, name: str, value: int) -> bool:
    """Whether Kafka takes a setting beside the others."""
    try:
        _with(settings, name, value)
    except ArgumentError:
        return False
    return True


def _least(allowed: Callable[[int], bool], most: int) -> int:
    """The least value that is allowed, where all from it up to one that is known are."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if allowed(middle) else (middle + 1, high)
    return high


def _halving(
    bounds: Mapping[str, tuple[int, int]],
    timed: Callable[[Mapping[str, int]], Mapping[str, int]], end: int,
) -> dict[str, int]:
    """The greatest value within bounds with which each name alone halves the end.

    What does not at its least value is left out; more of a cost never makes the end earlier, but
    where brokers of KRaft take other operations together.
    """
    least = timed({name: low for name, (low, _) in bounds.items()})
    ranges = {name: [low, high] for name, (low, high) in bounds.items() if 2 * least[name] <= end}
    while open_bounds := {name: both for name, both in ranges.items() if both[1] - both[0] > 1}:
        middles = {name: sum(both) // 2 for name, both in open_bounds.items()}
        for name, instant in timed(middles).items():
            ranges[name][2 * instant > end] = middles[name]
    return {name: low for name, (low, _) in ranges.items()}
