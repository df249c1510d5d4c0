"""When each partition of one failure is led again, in the central sample.

The progressions of `stages.Times` say how many partitions a broker begins to lead, and at which
instants; here every partition takes its place among them, those of one batch of one broker by row.

Source: docs/timeline.md, section "Partitions".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.schema import TIMELINE_PARTITIONS, WAITS
from kfast.state.tables import topic_names
from kfast.timelines.detection import Schedule
from kfast.timelines.partition_instants import led_instants, led_places
from kfast.timelines.partition_stalls import shrunk_instants
from kfast.timelines.progressions import FAR, N
from kfast.timelines.recording import Recording
from kfast.timelines.refused_bytes import refused_bytes
from kfast.timelines.stages import Times
from kfast.timelines.summaries import waits_of

__all__ = ["partition_table"]

Ints = npt.NDArray[np.int64]


def partition_table(
    schedule: Schedule, recording: Recording, times: Times, known_from: int,
    gone: Ints | None = None, bytes_in: Ints | None = None, horizon: int = FAR,
) -> pa.Table:
    """Every partition that loses its leader (`schema.TIMELINE_PARTITIONS`), the worst first.

    Parameters
    ----------
    schedule : Schedule
        Of samples among which the central one is.
    recording : Recording
    times : Times
    known_from : int
        Microseconds after which clients know that the old leader is gone.
    gone : (lost rows,) int64, optional
        When each old leader ceases to lead; not given: at the failure.
    bytes_in : (P,) int64, optional
        Bytes a second, by partition row.
    horizon : int
        Microseconds beyond which no bytes count.
    """
    sample = int(np.flatnonzero(schedule.samples == 0)[0])
    led = led_places(recording)
    instants, seen = led_instants(led, times, sample)
    led_us = np.full(recording.rows.size, -1, np.int64)
    visible_us, cause = led_us.copy(), np.zeros(recording.rows.size, np.int64)
    led_us[led], visible_us[led] = instants, seen
    cause[led] = _causes(schedule, times, sample, instants)
    # A controlled shutdown has no dead member: what leaves an ISR leaves it in order.
    stalled_us = led_us - led_us if gone is not None else np.maximum(
        shrunk_instants(recording, times, sample) - led_us, 0)
    lost = np.flatnonzero(recording.lost)
    leaderless_us = np.maximum(led_us[lost] - (0 if gone is None else gone), 0)
    # Those that nobody leads in the end wait longest.
    wait = np.where(led_us[lost] < 0, np.iinfo(np.int64).max, led_us[lost])
    order = np.argsort(-wait, kind="stable")
    lost, leaderless_us = lost[order], leaderless_us[order]
    state, rows = recording.state, recording.rows[lost]
    leader, offline = recording.final_leader[lost], led_us[lost] < 0

    def known(values: npt.NDArray[np.generic]) -> pa.Array:
        return pa.array(values, mask=offline)

    refused = pa.nulls(lost.size, pa.int64()) if bytes_in is None else known(
        refused_bytes(bytes_in[rows], np.minimum(leaderless_us, horizon)))
    return TIMELINE_PARTITIONS.table({
        "topic": topic_names(state, rows), "partition": pa.array(state.partition[rows]),
        "failed_leader": pa.array(state.broker_id[recording.first["leader"][lost]]),
        "leader": known(state.broker_id[leader]),
        "led_us": known(led_us[lost]), "leaderless_us": known(leaderless_us),
        "leaderless_bytes": refused,
        "visible_us": known(visible_us[lost]),
        "reachable_us": known(
            np.maximum(np.maximum(led_us[lost], visible_us[lost]), known_from)
        ),
        "stalled_us": known(stalled_us[lost]),
        "cause": known(np.array(WAITS)[cause[lost]]),
    })


def _causes(schedule: Schedule, times: Times, sample: int, instants: Ints) -> Ints:
    """What each partition of `led_instants` waits for most: places in `schema.WAITS`."""
    began, end = times.led.begin[sample : sample + 2]
    rows = times.led.rows[began:end]
    bases = np.repeat(rows[:, 0], rows[:, N])
    spans = waits_of(schedule, times, sample, bases, instants - bases)
    most: Ints = np.stack([spans[name] for name in WAITS]).argmax(axis=0)
    return most
