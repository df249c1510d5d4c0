"""Which brokers may be restarted now, and which partitions forbid it.

A partition allows as many of its in-sync replicas to be down at once as it has beyond min ISR, and
beyond a margin that is asked for. While a broker is down its replicas are out of the ISR, so the
question is about live ISR members alone. Where a partition allows none, no order of restarts can
satisfy it: it is listed with what causes that.

Source: Kafka 3.9, `ReplicaManager`'s gauges of min ISR; docs/controller.md, section 1.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.replica_sets import (
    BrokerSets,
    Counts,
    IsrMargins,
    group_sets,
    live_brokers,
    take_isr_margins,
)
from kfast.arguments import check_instance, is_whole, whole
from kfast.schema import CAUSES, READINESS_BROKERS, READINESS_PARTITIONS, READINESS_TOPICS
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.arrow_views import names_at
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.min_isr import is_topic_min_isr, min_insync_replicas
from kfast.state.settings import match_topics
from kfast.state.tables import id_lists, row_keys

__all__ = ["CAUSES", "TOGETHER", "Readiness", "check_margin", "may_restart"]

TOGETHER = "together"
"""Cause that is none of a partition alone: the brokers asked about are too many of its ISR."""

MOST_MARGIN = 63
SPARE_AT = 64
"""Tags of sets are how many members they can spare, plus this."""


@dataclass(frozen=True)
class Readiness:
    """Which brokers may be restarted now, each alone, and which partitions forbid it.

    Attributes
    ----------
    state : ClusterState
        Whose names and ids the tables below have. If it has changed since, they are wrong.
    isr_margin : int
    margins : IsrMargins
    sets : BrokerSets
        Live ISR members of the partitions, those that can spare as many together.
    cause : (P,) int8
        Place in `CAUSES` of what makes each partition allow nothing; -1 where it allows a restart.
    n_ignored : int
        Partitions that forbid nothing because the caller wanted it; they are in no count.
    """

    state: ClusterState
    isr_margin: int
    margins: IsrMargins
    sets: BrokerSets
    cause: npt.NDArray[np.int8]
    n_ignored: int = 0

    @property
    def spare(self) -> npt.NDArray[np.int32]:
        """(G,) members that each set has above min ISR; negative where it is under it."""
        return self.sets.tags.astype(np.int32) - SPARE_AT

    @cached_property
    def _per_broker(self) -> Counts:
        """(B, 2 + causes) in-sync replicas, those that are the last, and forbidding by cause."""
        counts = np.zeros((self.state.n_brokers, 2 + len(CAUSES)), np.int64)
        replicas = self.state.replicas
        for slot in range(replicas.shape[1]):
            held = (self.margins.live_isr >> np.uint64(slot)) & np.uint64(1) != 0
            brokers = replicas[held, slot].astype(np.int64)
            cause = self.cause[held]
            chosen = [np.ones(brokers.size, np.bool_), self.margins.in_sync[held] == 1]
            chosen += [cause == number for number in range(len(CAUSES))]
            for column, flags in enumerate(chosen):
                counts[:, column] += np.bincount(brokers[flags], minlength=self.state.n_brokers)
        return counts

    @property
    def may_restart(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is live and no partition forbids its restart."""
        return np.asarray(self.state.live & (self._per_broker[:, 2:].sum(axis=1) == 0), np.bool_)

    @property
    def brokers(self) -> pa.Table:
        """Every broker: broker_id, rack, live, may_restart, and counts of partitions.

        `in_sync`: of whose live ISR it is a member; `last_in_sync`: of which it is the only one;
        `forbidding`: that forbid its restart, and `forbidding_CAUSE` of them for each of `CAUSES`.
        """
        counts = self._per_broker
        columns: dict[str, Any] = {
            "broker_id": pa.array(self.state.broker_id),
            "rack": self.state.rack,
            "live": pa.array(self.state.live),
            "may_restart": pa.array(self.may_restart),
            "in_sync": pa.array(counts[:, 0].copy()),
            "last_in_sync": pa.array(counts[:, 1].copy()),
            "forbidding": pa.array(counts[:, 2:].sum(axis=1)),
        }
        for number, name in enumerate(CAUSES):
            columns[f"forbidding_{name}"] = pa.array(counts[:, 2 + number].copy())
        return READINESS_BROKERS.table(columns)

    @property
    def partitions(self) -> pa.Table:
        """Partitions that allow no restart of their members: what they have, and the cause.

        Columns: topic, partition, partition_row, replicas, isr (its live members), in_sync, min_isr
        (in force), min_insync_replicas and set_by (the setting, and whose it is), spare (in_sync
        above min_isr), cause.
        """
        return self._table(np.flatnonzero(self.cause >= 0))

    def forbidding(self, broker_ids: int | Iterable[int]) -> pa.Table:
        """Partitions that forbid the restart of a broker, or of several together.

        Columns as in `partitions`. The cause of those that allow the restart of each of these
        brokers, but not of all of them together, is `TOGETHER`.
        """
        ids: Any = [broker_ids] if is_whole(broker_ids) else broker_ids
        rows = self.state.find_brokers(ids)
        margins = self.margins
        bits = np.arange(self.state.n_slots, dtype=np.uint64)
        held = (margins.live_isr[:, None] >> bits) & np.uint64(1) != 0
        members = (held & np.isin(self.state.replicas, rows)).sum(axis=1)
        spare = margins.spare - self.isr_margin
        return self._table(np.flatnonzero((members > 0) & (spare < members)))

    def _table(self, chosen: npt.NDArray[np.intp]) -> pa.Table:
        state, margins = self.state, self.margins
        rows = chosen.astype(np.int32)
        in_sync = margins.in_sync[rows].astype(np.int32)
        needed = margins.needed[rows].astype(np.int32)
        return READINESS_PARTITIONS.table(
            {
                **row_keys(state, rows),
                "replicas": id_lists(state, rows, first_slots(margins.n_replicas[rows])),
                "isr": id_lists(state, rows, margins.live_isr[rows]),
                "in_sync": pa.array(in_sync),
                "min_isr": pa.array(needed),
                **_min_isr_settings(state, state.topic_row[rows]),
                "spare": pa.array(in_sync - needed),
                "cause": _words(self.cause[rows], (*CAUSES, TOGETHER)),
            }
        )

    @property
    def topics(self) -> pa.Table:
        """Topics with partitions that allow no restart, most partitions first, and their settings.

        One row per topic, cause and replication factor: topic, cause, partitions,
        replication_factor, min_insync_replicas, set_by.
        """
        state = self.state
        rows = np.flatnonzero(self.cause >= 0)
        parts = (state.topic_row[rows], self.cause[rows], self.margins.n_replicas[rows])
        keys = np.stack([part.astype(np.int64) for part in parts])
        kinds, counts = np.unique(keys, axis=1, return_counts=True)
        order = np.lexsort((*kinds[::-1], -counts))
        topics, causes, factors = kinds[:, order]
        return READINESS_TOPICS.table(
            {
                "topic": state.topic.take(pa.array(topics)),
                "cause": _words(causes, tuple(CAUSES)),
                "partitions": pa.array(counts[order].astype(np.int64)),
                "replication_factor": pa.array(factors.astype(np.int32)),
                **_min_isr_settings(state, topics),
            }
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many brokers may and may not restart, and how many partitions forbid it, by cause."""
        may = self.may_restart
        live = live_brokers(self.state)
        return {
            "may_restart": int(may.sum()),
            "may_not_restart": int(live.size - may.sum()),
            "unsatisfiable": int((self.cause >= 0).sum()),
            **{
                f"unsatisfiable_{name}": int((self.cause == number).sum())
                for number, name in enumerate(CAUSES)
            },
        }

    def _summary(self) -> Summary:
        return "Readiness", {**self.counts, "isr_margin": str(self.isr_margin)}

    __repr__ = summary_text
    _repr_html_ = summary_html


def _min_isr_settings(state: ClusterState, topics: npt.NDArray[Any]) -> dict[str, pa.Array]:
    """min.insync.replicas of some topic rows, and whose setting it is."""
    return {
        "min_insync_replicas": pa.array(min_insync_replicas(state)[topics]),
        "set_by": _words(is_topic_min_isr(state)[topics], ("brokers", "topic")),
    }


def _words(numbers: npt.NDArray[Any], words: tuple[str, ...]) -> pa.Array:
    """Words by their numbers; -1 is the last one."""
    return names_at(pa.array(words, pa.string()), np.asarray(numbers, np.int8) % len(words))


def may_restart(
    state: ClusterState, isr_margin: int = 0, *, ignore_topics: str | None = None,
    ignore_rf1: bool = False,
) -> Readiness:
    """Say of every broker whether it may be restarted now, alone.

    It may where every partition of whose live ISR it is a member has at least
    `min ISR + isr_margin` live ISR members without it. The min ISR in force is the topic's
    min.insync.replicas or the brokers' default, and at most the number of assigned replicas.

    Parameters
    ----------
    state : ClusterState
        Not changed. It must not change while the answer is in use.
    isr_margin : int, default 0
        How many live ISR members above min ISR must be left.
    ignore_topics : str, optional
        A regular expression: topics whose whole name matches forbid nothing.
    ignore_rf1 : bool, default False
        Partitions with one replica forbid nothing; any restart takes them offline.

    Raises
    ------
    ArgumentError
        The margin is not a whole number from 0 to 63; `ignore_topics` is no regular expression, or
        matches no topic.
    """
    check_instance("state", state, ClusterState)
    margin = check_margin(isr_margin)
    margins = take_isr_margins(state)
    ignored = _ignored(state, margins, ignore_topics, ignore_rf1)
    margins.live_isr[ignored] = 0
    counted = margins.assigned & (margins.n_replicas > 0) & ~ignored
    spare = margins.spare
    cause = np.full(state.n_partitions, -1, np.int8)
    names = list(CAUSES)
    needed, replicas = margins.needed.astype(np.int16), margins.n_replicas.astype(np.int16)
    lasting = replicas - needed - margin < 1
    cause[~lasting] = names.index("isr")
    cause[lasting] = names.index("isr_margin")
    cause[lasting & (needed >= replicas)] = names.index("min_insync_replicas")
    cause[lasting & (replicas == 1)] = names.index("replication_factor")
    cause[~counted | (spare - margin >= 1)] = -1
    tags = np.clip(spare + SPARE_AT, 0, 255).astype(np.uint8)
    sets = group_sets(state, margins.live_isr, tags)
    return Readiness(state, margin, margins, sets, cause, int(ignored.sum()))


def _ignored(
    state: ClusterState, margins: IsrMargins, ignore_topics: str | None, ignore_rf1: bool
) -> npt.NDArray[np.bool_]:
    """(P,) whether each partition forbids nothing, as the caller wants it."""
    ignored = np.zeros(state.n_partitions, np.bool_)
    if ignore_topics is not None:
        topics = np.zeros(max(state.n_topics, 1), np.bool_)
        topics[match_topics(state, "ignore_topics", ignore_topics)] = True
        ignored |= topics[state.topic_row]
    if ignore_rf1:
        ignored |= margins.n_replicas == 1
    return ignored & margins.assigned


def check_margin(isr_margin: int) -> int:
    """Refuse a margin that is no whole number from 0 to 63."""
    return whole("isr_margin", isr_margin, 0, MOST_MARGIN)
