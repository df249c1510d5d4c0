"""When the steps of a ZooKeeper-mode failure happen: the controller, then each broker's queue.

The controller's event thread does one thing at a time, and waits for ZooKeeper after every batch.
A broker handles one request after another; UpdateMetadata waits behind LeaderAndIsr.

Source: docs/timeline.md, section "ZooKeeper mode".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kfast.timelines.progressions import BrokerProgressions, Progressions, round_up
from kfast.timelines.stages import Stage, Times, median_broker
from kfast.timelines.zk_steps import ControllerStep, Publication

__all__ = ["zookeeper_times"]

Ints = npt.NDArray[np.int64]
Values = Mapping[str, Ints]


class _Parts(NamedTuple):
    """Progressions of every publication, as of `Times`."""

    led: list[BrokerProgressions]
    shrunk_later: list[BrokerProgressions]
    shrunk: list[BrokerProgressions]


def zookeeper_times(
    steps: Sequence[ControllerStep], starts: Ints, values: Values,
    live: npt.NDArray[np.bool_], *, serial: bool,
) -> Times:
    """Let the controller take its steps, and brokers handle its requests.

    Parameters
    ----------
    steps : sequence of ControllerStep
    starts : (S, E) int64
        When each event reaches the controller, in every sample.
    values : mapping of str to (S,) int64
        Every parameter.
    live : (N,) bool
    serial : bool
        Requests to ZooKeeper go one by one: before 1.1.
    """
    free = np.zeros(starts.shape[0], np.int64)
    idle = np.zeros((starts.shape[0], live.size), np.int64)
    times, parts = Times(), _Parts([], [], [])
    for step in steps:
        begin = np.maximum(free, starts[:, step.event])
        nanos = sum((n * values[name] for name, n in step.cpu.items()), np.zeros_like(free))
        decided = begin + sum((values[name] for name in step.fixed), round_up(nanos))
        stored = decided + _store(step, values, serial)
        free = stored + round_up(step.entries * values["zk_entry"])
        times.stages += [
            Stage(step.event, f"{step.stage}: decide", begin, decided,
                  sum(step.cpu.values()), "controller"),
            Stage(step.event, f"{step.stage}: store", decided, stored,
                  sum(step.reads) + sum(step.writes), "store"),
            Stage(step.event, f"{step.stage}: requests", stored, free,
                  step.entries, "controller"),
        ]
        if step.publication is not None:
            idle = _publish(times, parts, step, step.publication, free, idle, values, live)
    times.led, times.shrunk_later, times.shrunk = (
        Progressions.join(part, starts.shape[0]) for part in parts
    )
    return times


def _store(step: ControllerStep, values: Values, serial: bool) -> Ints:
    """How long the controller waits for ZooKeeper."""
    waited = np.zeros_like(values["zk_rtt"])
    for sizes, name in ((step.reads, "zk_read"), (step.writes, "zk_write")):
        for n in sizes:
            if n and serial:
                waited = waited + round_up(n * values[f"{name}_serial"])
            elif n:
                waited = waited + values["zk_rtt"] + round_up(n * values[name])
    return waited


def _publish(
    times: Times, parts: _Parts, step: ControllerStep, sent: Publication, at: Ints, idle: Ints,
    values: Values, live: npt.NDArray[np.bool_],
) -> Ints:
    """Brokers handle the requests of one batch; returns when each of them has."""
    sync, on, follow = (values[name][:, None] for name in ("epoch_sync", "isr_only", "follow"))
    named = sent.leads + sent.leads_on + sent.follows
    begin = np.maximum((at + values["net"])[:, None], idle)
    base = begin + np.where(named > 0, values["lisr_fixed"][:, None], 0)
    applied = base + round_up(sent.leads * sync + sent.leads_on * on + sent.follows * follow)
    end: Ints = applied + values["um_fixed"][:, None] + round_up(
        sent.announced * values["um_entry"][:, None]
    )
    visible = median_broker(end[:, live])[:, None]
    zero = np.zeros_like(sync)
    offsets = zero, zero, sent.elected * sync
    counts = sent.elected, sent.shrunk_later, sent.shrunk
    for part, offset, n in zip(parts, offsets, counts, strict=True):
        part.append(BrokerProgressions(base, offset, sync, n, visible))
    times.add_brokers(step.event, f"{step.stage}: LeaderAndIsr", begin, applied, named, live)
    times.add_brokers(
        step.event, f"{step.stage}: UpdateMetadata", applied, end,
        np.full(live.size, sent.announced), live,
    )
    times.published.append(at)
    times.begun.append(base)
    times.visible.append(end[:, live])
    return end
