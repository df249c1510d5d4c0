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
from kfast.kernels import broker_takes
from kfast.timelines.kraft_counts import TakeCounts
from kfast.timelines.progressions import Progressions, round_up
from kfast.timelines.recording import Recording
from kfast.timelines.stages import Stage, Times, median_broker

__all__ = ["quorum_times"]

Ints = npt.NDArray[np.int64]
Values = Mapping[str, Ints]
COSTS = ("load_fixed", "image_entry", "epoch_sync", "isr_only", "follow")
"""What a take costs: fixed, by partition that changed, and by what the broker does with it."""


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
            Stage(number, "decide", begin, free, records, "controller"),
            Stage(number, "commit", free, committed, records, "store"),
            Stage(number, "fetch", committed, arrived, records, "queue"),
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
    live = np.flatnonzero(recording.live)
    costs = np.stack([values[name] for name in COSTS], axis=1)
    visible = np.zeros((samples, n_events, live.size), np.int64)
    arguments = (counts.applied, counts.meta, live, arrivals, costs, visible)
    takes = np.empty((broker_takes.take(*arguments, np.empty((0, 7), np.int64)), 7), np.int64)
    broker_takes.take(*arguments, takes)
    times.takes = takes
    sample, broker, i, j, begin, base, end = np.ascontiguousarray(takes.T)
    median = median_broker(visible.reshape(samples * n_events, live.size))
    seen = median.reshape(samples, n_events)[sample, j]
    place = broker, i, j
    elected, leads = counts.elected[place], counts.applied[0][place]
    sync, on = values["epoch_sync"][sample], values["isr_only"][sample]
    zero = np.zeros_like(base)
    times.led, times.shrunk_later, shrunk, shrunk_on = (
        Progressions.by_sample(samples, sample, (base, offset, step, n, seen, broker))
        for offset, step, n in (
            (zero, sync, elected), (zero, sync, counts.shrunk_later[place]),
            (elected * sync, sync, counts.shrunk[place]),
            (leads * sync, on, counts.shrunk_on[place]),
        )
    )
    times.shrunk = shrunk.beside(shrunk_on)
    times.visible.append(visible[:, -1])
    spread = np.zeros((3, samples, recording.live.size), np.int64)
    first, last = i == 0, j == n_events - 1
    for at, which, instants in ((0, first, begin), (1, first, base), (2, last, end)):
        spread[at, sample[which], broker[which]] = instants[which]
    # A stage has the number of its items in the first sample; takes stand sample by sample.
    of_first = slice(0, int(np.searchsorted(sample, 1)))
    own = broker[of_first]
    items = np.zeros(recording.live.size, np.int64)
    np.add.at(items, own, counts.applied[:, own, i[of_first], j[of_first]].sum(axis=0))
    times.add_brokers(
        0, "load", spread[0], spread[1], recording.live.astype(np.int64), recording.live
    )
    times.add_brokers(0, "apply", spread[1], spread[2], items, recording.live)
