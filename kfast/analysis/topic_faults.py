"""Topics whose settings or placement let one failure do harm, and plans that mend placements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.analysis.partition_pairs import assigned_rows
from kfast.analysis.replica_sets import live_brokers
from kfast.state import ClusterState
from kfast.state.min_isr import is_topic_min_isr, min_insync_replicas
from kfast.state.racks import distinct_racks
from kfast.state.records import Rows

__all__ = ["FAULTS", "TopicFault", "mended_replicas", "topic_faults", "usual_replication_factor"]

FAULTS = {
    "one_replica": "one replica: its broker's failure takes the partition offline",
    "one_rack": "all replicas in one rack: its failure takes the partition offline",
    "min_isr": "min.insync.replicas leaves no replica to spare: acks=all is refused when one fails",
    "unclean": "unclean leader election is allowed: a failure may lose acknowledged records",
}
"""What may be wrong with a topic, the worst first."""

FEWEST_REPLICAS = 3
"""Of a topic that survives one failure while another broker is restarted."""


@dataclass(frozen=True, eq=False)
class TopicFault:
    """One fault of one topic.

    Attributes
    ----------
    kind : str
        One of `FAULTS`.
    topic : str
    rows : (n,) int32
        Partitions that have it.
    n_partitions : int
        Of the topic.
    replication_factor : int
        The largest of these partitions.
    min_insync_replicas : int
        As it is set.
    is_default : bool
        Whether the brokers' default makes the fault, and no setting of the topic.
    """

    kind: str
    topic: str
    rows: Rows
    n_partitions: int
    replication_factor: int
    min_insync_replicas: int
    is_default: bool


def topic_faults(state: ClusterState) -> list[TopicFault]:
    """Find topics that are misconfigured: by kind, those with most such partitions first.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    """
    rows = assigned_rows(state)
    topics = state.topic_row[rows]
    factor = state.records["n_replicas"][rows].astype(np.int64)
    setting = min_insync_replicas(state)
    own_unclean = state.topic_unclean_leader_election[: state.n_topics]
    unclean = np.where(own_unclean < 0, state.default_unclean_leader_election, own_unclean > 0)
    faulty = {
        "one_replica": factor == 1,
        "one_rack": (factor > 1) & _in_one_rack(state, rows),
        "min_isr": (factor > 1) & (setting[topics] >= factor),
        "unclean": unclean[topics],
    }
    sizes = np.bincount(topics, minlength=state.n_topics)
    defaults = {"min_isr": ~is_topic_min_isr(state), "unclean": own_unclean < 0}
    faults = []
    for kind, flags in faulty.items():
        affected = np.flatnonzero(flags)
        affected = affected[np.argsort(topics[affected], kind="stable")]
        names, begins, counts = np.unique(
            topics[affected], return_index=True, return_counts=True
        )
        for at in np.argsort(-counts, kind="stable").tolist():
            chosen = affected[begins[at] : begins[at] + counts[at]]
            topic = int(names[at])
            faults.append(TopicFault(
                kind, state.topic[topic].as_py(), rows[chosen], int(sizes[topic]),
                int(factor[chosen].max()), int(setting[topic]),
                bool(defaults[kind][topic]) if kind in defaults else False,
            ))
    return faults


def usual_replication_factor(state: ClusterState) -> int:
    """Replicas that a topic should have: as most partitions with more than one, but three or more.

    Never more than there are live brokers.
    """
    factors = np.bincount(state.records["n_replicas"], minlength=2)
    usual = int(factors[2:].argmax()) + 2 if factors[2:].any() else FEWEST_REPLICAS
    return min(max(usual, FEWEST_REPLICAS), max(live_brokers(state).size, 1))


def mended_replicas(
    state: ClusterState, rows: Rows, factor: int
) -> Iterator[tuple[str, int, list[int]]]:
    """Give each of some partitions so many replicas, in as many racks as there can be.

    The first replica stays, and others that are in a rack of their own; what is missing goes to
    the live brokers with the fewest replicas.

    Yields
    ------
    tuple of str, int and list of int
        Topic, partition, and the ids of its new replicas.
    """
    live = live_brokers(state)
    racks = distinct_racks(state)
    slots = np.arange(state.replicas.shape[1])
    is_assigned = slots < state.records["n_replicas"][:, np.newaxis]
    load = np.bincount(
        state.replicas[: state.n_partitions][is_assigned].astype(np.int64),
        minlength=state.n_brokers,
    )
    n_racks = np.unique(racks[live]).size
    for row in rows.tolist():
        n = int(state.records["n_replicas"][row])
        present = state.replicas[row, :n].astype(np.int64)
        wanted = max(n, factor)
        chosen = [int(present[0])]
        for broker in present[1:].tolist():
            is_new = racks[broker] not in racks[chosen]
            if is_new or len(set(racks[chosen].tolist())) == n_racks:
                chosen.append(broker)
        while len(chosen) < min(wanted, live.size):
            candidates = live[~np.isin(live, chosen)]
            if not candidates.size:
                break
            used = np.isin(racks[candidates], racks[chosen])
            # Rack first, then load: `used` is False where the rack is still without a replica.
            best = candidates[np.lexsort((candidates, load[candidates], used))[0]]
            chosen.append(int(best))
            load[best] += 1
        topic = state.topic[int(state.topic_row[row])].as_py()
        yield topic, int(state.partition[row]), state.broker_id[chosen].tolist()


def _in_one_rack(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """(n,) whether all replicas are in one rack, though there are several."""
    racks = distinct_racks(state)
    if state.rack.null_count or np.unique(racks).size < 2:
        return np.zeros(rows.size, np.bool_)
    first = racks[state.replicas[rows, 0]]
    together = np.ones(rows.size, np.bool_)
    for slot in range(1, state.replicas.shape[1]):
        inside = state.records["n_replicas"][rows] > slot
        together[inside] &= racks[state.replicas[rows[inside], slot]] == first[inside]
    return together
