"""The min ISR in force: how many in-sync replicas a partition needs to accept acks=all.

`min.insync.replicas` of the topic, or else the brokers' default; a partition with fewer assigned
replicas needs no more than it has, and of a KRaft cluster no more than partition 0 of its topic. A
partition with fewer live ISR members is *under min ISR*.

The comparison is `is_under_min_isr`, here and in `kernels/min_isr.pxd`. The sweeps'
`kernels/scenario_outcome.h` makes it for 64 scenarios at a time and more, with masks for counts.

Source: docs/controller.md, section 1.5; docs/kraft.md, section 1.5; Kafka 3.9, `ReplicaManager`'s
gauges of min ISR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.state import ClusterState
from kfast.state.records import Rows

__all__ = [
    "is_topic_min_isr", "is_under_min_isr", "min_insync_replicas", "partition_min_isr",
    "topic_min_isr",
]


def min_insync_replicas(state: ClusterState) -> Rows:
    """(T,) min.insync.replicas of each topic: its own, or the brokers' default."""
    if state.quorum is not None:
        return state.quorum.min_insync_replicas
    own = state.topic_min_insync_replicas
    setting = np.where(own < 0, state.default_min_insync_replicas, own)
    return np.ascontiguousarray(setting, np.int32)


def topic_min_isr(state: ClusterState) -> Rows:
    """(T,) in-sync replicas that partitions of each topic need, unless they have fewer replicas."""
    if state.quorum is None:
        return min_insync_replicas(state)
    return state.quorum.min_isr_of(np.arange(state.n_topics, dtype=np.int32))


def is_topic_min_isr(state: ClusterState) -> npt.NDArray[np.bool_]:
    """(T,) whether each topic has a min.insync.replicas of its own."""
    own: npt.NDArray[np.bool_] = state.topic_min_insync_replicas >= 0
    return own


def partition_min_isr(state: ClusterState, rows: Rows) -> Rows:
    """(n,) in-sync replicas that each of some partitions needs: at most its assigned replicas."""
    setting = topic_min_isr(state)[state.topic_row[rows]]
    needed: Rows = np.minimum(setting, state.records["n_replicas"][rows]).astype(np.int32)
    return needed


def is_under_min_isr(in_sync: npt.NDArray[Any], needed: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each partition has fewer live ISR members than it needs."""
    under: npt.NDArray[np.bool_] = in_sync < needed
    return under
