"""What events changed in a cluster: the census before, the census after, and what was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.journal.quorum_outcome import QuorumCounts, QuorumOutcome
from kfast.schema import (
    IMPACT_BROKERS,
    IMPACT_PARTITIONS,
    IMPACT_PARTITIONS_KRAFT,
    IMPACT_REQUESTS,
    IMPACT_TOPICS,
)
from kfast.state.census import (
    CENSUS_METRICS,
    Census,
    Flags,
    partition_table,
    topic_table,
)
from kfast.state.display import Summary, summary_html, summary_text

__all__ = ["CHANGE_METRICS", "RECORD_METRICS", "REQUEST_METRICS", "Impact", "impact"]

CHANGE_METRICS: Mapping[str, str] = {
    "newly_offline": "partitions that are offline, and were not before",
    "newly_under_min_isr": "partitions that are under min ISR, and were not before",
    "back_online": "partitions that were offline before, and are not any more",
    "leaders_moved": "partitions with a leader before and after, and they differ",
    "unclean": "leaders that were chosen outside the ISR",
    "isr_shrunk": "partitions whose ISR lost a member",
    "requests": "requests that the controller sends",
    "leader_and_isr_requests": "LeaderAndIsr requests among them",
    "update_metadata_requests": "UpdateMetadata requests among them",
    "stop_replica_requests": "StopReplica requests among them",
}
"""What an impact counts besides, and what each count means."""

RECORD_METRICS: Mapping[str, str] = {
    "elr_elections": "leaders that were chosen from the ELR",
    "last_known_leader_elections": "leaders that were chosen because they had been the last one",
    "records": "metadata records that the controller writes",
    "partition_changes": "changes of partitions among them",
}
"""What an impact on a KRaft cluster counts besides."""

_KINDS = {
    "LeaderAndIsr": "leader_and_isr_requests",
    "UpdateMetadata": "update_metadata_requests",
    "StopReplica": "stop_replica_requests",
}


REQUEST_METRICS = frozenset(("requests", *_KINDS.values()))
"""Metrics of what only a ZooKeeper-mode controller sends."""


@dataclass(frozen=True)
class Impact:
    """What changed between two censuses of one cluster.

    Attributes
    ----------
    before, after : Census
    outcomes : tuple of Outcome or QuorumOutcome
        The events in between; requests and records are counted from them.
    """

    before: Census
    after: Census
    outcomes: tuple[Outcome | QuorumOutcome, ...] = ()

    @property
    def leaders_moved(self) -> Flags:
        """(P,) whether each partition had a leader before and has another one after."""
        led = ~self.before.flags("offline") & ~self.after.flags("offline")
        led &= (self.before.leader >= 0) & (self.after.leader >= 0)
        moved: Flags = led & (self.before.leader != self.after.leader)
        return moved

    @property
    def isr_shrunk(self) -> Flags:
        """(P,) whether each partition's ISR lost a member."""
        before, after = self.before, self.after
        if np.array_equal(before.replicas, after.replicas):
            return np.asarray(before.isr & ~after.isr, np.bool_)
        # A reassignment moved slots, so members are compared by their brokers.
        lost = before.isr.astype(np.uint64)
        for slot in range(before.replicas.shape[1]):
            stays = np.zeros(lost.size, np.bool_)
            for other in range(after.replicas.shape[1]):
                in_sync = ((after.isr >> after.isr.dtype.type(other)) & 1) != 0
                stays |= in_sync & (before.replicas[:, slot] == after.replicas[:, other])
            lost[stays] &= ~(np.uint64(1) << np.uint64(slot))
        return np.asarray(lost, np.bool_)

    def newly(self, metric: str) -> Flags:
        """(P,) whether a metric holds for each partition after, and did not before."""
        return self.after.flags(metric) & ~self.before.flags(metric)

    @property
    def summary(self) -> dict[str, int]:
        """Every metric of the census (after), of `CHANGE_METRICS`; KRaft: of `RECORD_METRICS`."""
        sent = self._sent()
        return {
            **self.after.counts,
            "newly_offline": int(self.newly("offline").sum()),
            "newly_under_min_isr": int(self.newly("under_min_isr").sum()),
            "back_online": int((self.before.flags("offline") & ~self.after.flags("offline")).sum()),
            "leaders_moved": int(self.leaders_moved.sum()),
            "unclean": self._unclean,
            "isr_shrunk": int(self.isr_shrunk.sum()),
            "requests": sum(sent.values()),
            **{metric: sent[kind] for kind, metric in _KINDS.items()},
            **self._records,
        }

    @property
    def _quorum_counts(self) -> list[QuorumCounts]:
        return [o.counts for o in self.outcomes if isinstance(o, QuorumOutcome)]

    @property
    def _unclean(self) -> int:
        """Unclean elections; those of a KRaft cluster are counted from the journal."""
        counted = sum(counts.unclean_elections for counts in self._quorum_counts)
        return counted + self.after.unclean_elections - self.before.unclean_elections

    @property
    def _records(self) -> dict[str, int]:
        """Every metric of `RECORD_METRICS`; none in ZooKeeper mode."""
        if self.after.elr is None:
            return {}
        counts = self._quorum_counts
        return {
            "elr_elections": sum(count.elr_elections for count in counts),
            "last_known_leader_elections": sum(c.last_known_leader_elections for c in counts),
            "records": sum(sum(count.records.values()) for count in counts),
            "partition_changes": sum(count.changes for count in counts),
        }

    def _sent(self) -> dict[str, int]:
        return {
            kind: sum(outcome.counts.requests.get(kind, 0) for outcome in self.outcomes)
            for kind in _KINDS
        }

    @property
    def requests(self) -> pa.Table:
        """Per kind: how many requests are sent, and the partitions in them, over all brokers."""
        sent = self._sent()
        named = [
            sum(outcome.counts.request_partitions.get(kind, 0) for outcome in self.outcomes)
            for kind in _KINDS
        ]
        return IMPACT_REQUESTS.table(
            {
                "kind": pa.array(list(_KINDS)),
                "requests": pa.array([sent[kind] for kind in _KINDS], pa.int64()),
                "partitions": pa.array(named, pa.int64()),
            }
        )

    @property
    def brokers(self) -> pa.Table:
        """Every broker: leaders and replicas in sync before and after, and requests sent to it."""
        before, after = self.before.per_broker, self.after.per_broker
        return IMPACT_BROKERS.table(
            {
                "broker_id": pa.array(self.after.state.broker_id),
                "rack": self.after.state.rack,
                "registered_before": pa.array(self.before.registered),
                "registered": pa.array(self.after.registered),
                "leaders_before": pa.array(before[:, 0].copy()),
                "leaders": pa.array(after[:, 0].copy()),
                "replicas": pa.array(after[:, 1].copy()),
                "in_sync_before": pa.array(before[:, 2].copy()),
                "in_sync": pa.array(after[:, 2].copy()),
                "requests": pa.array(self._requests_per_broker()),
            }
        )

    def _requests_per_broker(self) -> npt.NDArray[np.int64]:
        state = self.after.state
        counts = np.zeros(state.n_brokers, np.int64)
        for outcome in self.outcomes:
            if outcome.request_counts is not None:
                ids = outcome.request_counts["broker_id"].to_numpy()
                requests = outcome.request_counts["requests"].to_numpy()
                np.add.at(counts, np.searchsorted(state.broker_id, ids), requests)
        return counts

    @property
    def topics(self) -> pa.Table:
        """Topics that are in trouble or changed, the worst first (`Census.topics`)."""
        columns = {name: self.after.flags(name) for name in CENSUS_METRICS}
        columns["newly_offline"] = self.newly("offline")
        columns["newly_under_min_isr"] = self.newly("under_min_isr")
        columns["leaders_moved"] = self.leaders_moved
        return topic_table(IMPACT_TOPICS, self.after, columns)

    @property
    def partitions(self) -> pa.Table:
        """Every partition: leader and ISR before and after, and each metric after, as a bool.

        `partition_row` is its row in both states, for no event moves a row.
        """
        before, after = self.before, self.after
        then = {f"{name}_before": column for name, column in before.elr_columns.items()}
        return partition_table(
            IMPACT_PARTITIONS if after.elr is None else IMPACT_PARTITIONS_KRAFT, after.state,
            then | after.elr_columns | {
                "leader_before": before.leader_ids,
                "leader": after.leader_ids,
                "isr_before": before.isr_ids,
                "isr": after.isr_ids,
                "offline_before": pa.array(before.flags("offline")),
                "under_min_isr_before": pa.array(before.flags("under_min_isr")),
                "leader_moved": pa.array(self.leaders_moved),
            }
            | {name: pa.array(after.flags(name)) for name in CENSUS_METRICS},
        )

    def _summary(self) -> Summary:
        return "Impact", self.summary

    __repr__ = summary_text
    _repr_html_ = summary_html


def impact(
    before: Census, after: Census, outcomes: Iterable[Outcome | QuorumOutcome] = ()
) -> Impact:
    """Compare two censuses of one cluster.

    Parameters
    ----------
    before, after : Census
    outcomes : iterable of Outcome or QuorumOutcome
        The events in between, recorded at journal level `counts` or `full`.

    Raises
    ------
    ArgumentError
        The censuses are of different clusters: other numbers of partitions or brokers.
    """
    arguments.check_instance("before", before, Census)
    arguments.check_instance("after", after, Census)
    sizes = [(c.marks.size, c.per_broker.shape[0]) for c in (before, after)]
    if sizes[0] != sizes[1]:
        raise ArgumentError(
            f"before has {sizes[0][0]} partitions and {sizes[0][1]} brokers, after {sizes[1][0]} "
            f"and {sizes[1][1]}; an impact needs two censuses of one cluster"
        )
    return Impact(before, after, tuple(outcomes))
