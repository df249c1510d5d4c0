"""A rolling restart's times again, batch by batch and sample by sample, in plain Python.

The shutdown of each batch is that of `shutdown_twin.py`; the rest is added up broker by broker.

Source: docs/timeline.md, section "Rolling restarts".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Batch:
    """One batch in one sample: instants after the plan's begin, and partition-microseconds."""

    begin: int
    released: int
    stopped: int
    booted: int
    recovered: int
    caught_up: int
    in_sync: int
    end: int
    leaderless: int
    offline: int
    under_min: int


def restart_batch(twin, begin, settle_us, isr_before, isr_after, min_isr, lag=0):
    """Time one batch whose shutdown is timed by a twin that has run.

    Parameters
    ----------
    twin : ZooKeeperShutdownTwin or QuorumShutdownTwin
    begin : int
    settle_us : int
    isr_before, isr_after : dict of int to int
        Members of each partition's ISR that are up, before the batch and while it is down.
    min_isr : dict of int to int
    lag : int
        Microseconds to catch up for each second down.
    """
    v = twin.values
    recovered = {b: at + v["boot"] + v["recover"] for b, at in twin.stopped.items()}
    longest = max(recovered[b] - twin.released[b] for b in recovered)
    whole, rest = divmod(longest, 1_000_000)
    caught_up = max(recovered.values()) + whole * lag - -rest * lag // 1_000_000
    failover = twin.ends.get(twin.recording.takeover, 0)
    in_sync = max(caught_up, failover) + v["isr_join"]
    refused = [row for row, need in min_isr.items()
               if isr_before[row] >= need > isr_after[row]]
    offline = 0
    for row, old in twin.old.items():
        if not twin.partitions[row].led:
            gone = min(twin.gone.get(row, twin.released[old]), twin.released[old])
            offline += recovered[old] - gone
    return Batch(
        begin, begin + max(twin.released.values()), begin + max(twin.stopped.values()),
        begin + max(twin.stopped.values()) + v["boot"], begin + max(recovered.values()),
        begin + caught_up, begin + in_sync, begin + in_sync + settle_us, twin.leaderless(),
        offline, len(refused) * (in_sync - twin.published[0]),
    )


def live_members(records, replicas, up):
    """How many ISR members of each partition row are up."""
    return {
        row: sum(isr >> slot & 1 and up[broker]
                 for slot, broker in enumerate(replicas[row]) if broker < len(up))
        for row, isr in enumerate(records["isr"].tolist())
    }
