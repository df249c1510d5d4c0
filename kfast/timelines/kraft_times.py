"""When the operations of a KRaft failure happen: the controller, its log, each broker's loader.

The controller decides one operation after another; each is committed by itself. A broker's loader
takes all that has arrived when it is free, shows it to clients at once, and only then changes its
replicas: leaders first.

Source: docs/timeline.md, section "KRaft".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kfast.journal import QuorumOutcome
from kfast.timelines.kraft_counts import TakeCounts
from kfast.timelines.progressions import BrokerProgressions, round_up
from kfast.timelines.recording import Recording
from kfast.timelines.stages import Stage, Times, median_broker

__all__ = ["quorum_times"]

Ints = npt.NDArray[np.int64]
Values = Mapping[str, Ints]


def quorum_times(
    recording: Recording, counts: TakeCounts, starts: Ints, values: Values, *, voters: int
) -> Times:
    """Let the controller decide its operations, and brokers apply them.

    Parameters
    ----------
    recording : Recording
    counts : TakeCounts
    starts : (S, K) int64
        When each operation can begin, in every sample; ascending.
    values : mapping of str to (S,) int64
        Every parameter.
    voters : int
        Controllers of the quorum: with one, nobody else has to store a record.
    """
    free, times, arrivals = np.zeros(starts.shape[0], np.int64), Times(), []
    for number, event in enumerate(recording.events):
        assert isinstance(event.outcome, QuorumOutcome), "this is of a KRaft controller"
        records = event.outcome.n_records
        begin = np.maximum(free, starts[:, number])
        free = begin + values["kr_fixed"] + round_up(records * values["kr_record"])
        committed = free + values["linger"] + values["log_sync"]
        if voters > 1:
            committed = committed + values["net"] + values["log_sync"]
        arrived = committed + values["metadata_fetch"]
        times.stages += [
            Stage(number, "decide", None, begin, free, records, "controller"),
            Stage(number, "commit", None, free, committed, records, "store"),
            Stage(number, "fetch", None, committed, arrived, records, "queue"),
        ]
        times.published.append(committed)
        arrivals.append(arrived)
    _apply(times, recording, counts, np.stack(arrivals, axis=1), values)
    return times


def _apply(
    times: Times, recording: Recording, counts: TakeCounts, arrivals: Ints, values: Values
) -> None:
    """Let every broker take what has arrived, again and again."""
    samples, n_events = arrivals.shape
    live, brokers = recording.live, np.arange(recording.live.size)
    next_event = np.zeros((samples, live.size), np.int64)
    idle = np.zeros((samples, live.size), np.int64)
    visible_of = np.zeros((n_events, samples, live.size), np.int64)
    sync, on, follow = (values[name][:, None] for name in ("epoch_sync", "isr_only", "follow"))
    takes: list[tuple[Ints, Ints, Ints, Ints, dict[str, Ints]]] = []
    while (next_event < n_events).any():
        busy = next_event < n_events
        i = np.minimum(next_event, n_events - 1)
        begin = np.maximum(idle, np.take_along_axis(arrivals, i, axis=1))
        arrived = (arrivals[:, None, :] <= begin[:, :, None]).sum(axis=2)
        j = np.maximum(arrived - 1, i)
        of: dict[str, Ints] = {name: np.where(busy, getattr(counts, name)[i, j, brokers], 0)
              for name in ("leads", "leads_on", "follows", "elected", "shrunk_later", "shrunk",
                           "shrunk_on")}
        image: Ints = counts.meta[i, j] * values["image_entry"][:, None]
        visible = begin + values["load_fixed"][:, None] + round_up(image)
        end: Ints = visible + round_up(
            of["leads"] * sync + of["leads_on"] * on + of["follows"] * follow
        )
        takes.append((j, begin, visible, end, of))
        for event in range(n_events):
            within = busy & (i <= event) & (event <= j)
            visible_of[event] = np.where(within, visible, visible_of[event])
        idle = np.where(busy, end, idle)
        next_event = np.where(busy, j + 1, next_event)
    medians = np.stack([median_broker(visible_of[event], live) for event in range(n_events)])
    for j, _, base, _, of in takes:
        seen = np.take_along_axis(medians.T, j, axis=1)
        zero = np.zeros_like(sync)
        times.led.append(BrokerProgressions(base, zero, sync, of["elected"], seen))
        times.shrunk_later.append(BrokerProgressions(base, zero, sync, of["shrunk_later"], seen))
        times.shrunk += [
            BrokerProgressions(base, of["elected"] * sync, sync, of["shrunk"], seen),
            BrokerProgressions(base, of["leads"] * sync, on, of["shrunk_on"], seen),
        ]
    times.visible.append(visible_of[-1][:, live])
    first = np.minimum.reduce([begin for _, begin, *_ in takes])
    items = np.zeros_like(idle)
    for *_, of in takes:
        items = items + of["leads"] + of["leads_on"] + of["follows"]
    times.add_brokers(0, "load", first, takes[0][2], np.ones(live.size, np.int64), live)
    times.add_brokers(0, "apply", takes[0][2], idle, items[0], live)
