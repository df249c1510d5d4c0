"""What deleting topics does: which are gone, which wait, and for whom.

Source: docs/controller.md, sections 5.4 and 6.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.impact import CHANGE_METRICS, RECORD_METRICS, Impact, impact
from kfast.analysis.whatif import WhatIf, brokers_are, check_brokers, check_order
from kfast.arguments import check_instance, check_topics
from kfast.controllers import EventOutcome, Profile
from kfast.controllers.reassignment_requests import being_reassigned
from kfast.errors import ArgumentError
from kfast.schema import DELETION_BROKERS, DELETION_TOPICS, ReplicaState, columns_of
from kfast.state import ClusterState
from kfast.state.census import Census
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

__all__ = ["DELETION_METRICS", "Deletion", "delete_topics"]

DELETION_METRICS: Mapping[str, str] = {
    "topics_deleted": "topics that are gone",
    "topics_waiting": "topics that are marked for deletion and cannot be deleted yet",
    "partitions_deleted": "partitions that are gone",
    "replicas_deleted": "replicas of the topics that are gone",
    "replicas_told": "replicas that brokers are told to delete",
    "replicas_waiting": "replicas of topics that wait, on brokers that are not live",
    "unclean": CHANGE_METRICS["unclean"],
    **{name: meaning for name, meaning in CHANGE_METRICS.items() if "requests" in name},
}
"""What a deletion counts, and what each count means."""

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Deletion:
    """What deleting topics does.

    Attributes
    ----------
    title : str
        Name of the controller that is simulated.
    broker_ids : tuple of int
        Who failed before any broker had answered.
    state : ClusterState
        The cluster in the end. Rows of topics that are gone are free.
    notes : tuple of str
    start : Impact
        What the controller's start alone did.
    before, after : Census
        After the controller's start, and in the end.
    topics : pa.Table
        The topics that were to be deleted, those marked before among them; those that wait come
        first. Columns topic, partitions, replicas, status (waiting, deleted, kept), waiting_for
        (broker ids), reason.
    told_to_delete, waiting : (B,) int64
        Replicas that each broker was told to delete, and those that wait for it.
    events : tuple of EventOutcome
        The start, the markers, the failure if there is one, the brokers' answers.
    """

    title: str
    broker_ids: tuple[int, ...]
    state: ClusterState
    notes: tuple[str, ...]
    start: Impact
    before: Census
    after: Census
    topics: pa.Table
    told_to_delete: Counts
    waiting: Counts
    events: tuple[EventOutcome, ...]

    @property
    def summary(self) -> dict[str, int]:
        """Every metric of `DELETION_METRICS`; KRaft: of `RECORD_METRICS` too."""
        gone = self.topics.filter(pa.array(self.topics["status"].to_numpy() == "deleted"))
        metrics = {
            **self._impact.summary,
            "topics_deleted": gone.num_rows,
            "topics_waiting": self.topics["status"].to_pylist().count("waiting"),
            "partitions_deleted": int(gone["partitions"].to_numpy().sum()),
            "replicas_deleted": int(gone["replicas"].to_numpy().sum()),
            "replicas_told": int(self.told_to_delete.sum()),
            "replicas_waiting": int(self.waiting.sum()),
        }
        written = () if self.after.elr is None else RECORD_METRICS
        return {name: metrics[name] for name in (*DELETION_METRICS, *written)}

    @property
    def reasons(self) -> dict[str, int]:
        """Why the deletion is not safe: topics or partitions by reason; empty if it is safe.

        It is safe if every topic is deleted, no partition of another one goes offline or falls
        under min ISR meanwhile, and no leader is elected outside the ISR.
        """
        status = self.topics["status"].to_pylist()
        reasons = {"topics_waiting": status.count("waiting"), "topics_kept": status.count("kept")}
        stays = ~self.state.topic_queued_for_deletion[self.state.topic_row]
        for metric in ("offline", "under_min_isr"):
            reasons[f"newly_{metric}"] = int((self._impact.newly(metric) & stays).sum())
        reasons["unclean"] = self._impact.summary["unclean"]
        return {name: n for name, n in reasons.items() if n}

    @property
    def requests(self) -> pa.Table:
        """Per kind: how many requests are sent, and the partitions in them, over all brokers."""
        return self._impact.requests

    @property
    def brokers(self) -> pa.Table:
        """Every broker: replicas before, told to be deleted, waiting and now; leaders; requests."""
        return DELETION_BROKERS.table(columns_of(self._impact.brokers) | {
            "replicas_before": self.before.per_broker[:, 1].copy(),
            "told_to_delete": self.told_to_delete,
            "waiting": self.waiting,
        })

    def _summary(self) -> Summary:
        return "Deletion", {
            **self.summary,
            "failed broker_ids": ",".join(map(str, self.broker_ids)) or None,
            "controller": self.title,
            "notes": len(self.notes),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    @property
    def _impact(self) -> Impact:
        return impact(self.before, self.after, [event.outcome for event in self.events[1:]])


def delete_topics(
    state: ClusterState,
    topics: Iterable[str],
    *,
    broker_ids: Iterable[int] = (),
    journal: str = "counts",
    threads: int = 1,
    profile: str | Profile | None = None,
    order: Sequence[int] | None = None,
) -> Deletion:
    """Start a controller on a copy of the cluster, and delete topics.

    Each live broker deletes what it is told to delete, and says so. Topics with a replica on a
    broker that is not live wait for it.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    topics : iterable of str
    broker_ids : iterable of int
        Registered brokers that fail, all at once, before any broker has answered.
    journal : {"off", "counts", "full"}
        Requests are counted from "counts" on.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile, optional
        Another version of the controller that runs the cluster, such as zk-2.4.
    order : sequence of int, optional
        As in `fail_brokers`: who is fenced first (KRaft only).

    Raises
    ------
    ArgumentError
        A topic is unknown; a broker that is to fail is unknown or not registered, or `order` names
        another.
    """
    check_instance("state", state, ClusterState)
    names = list(dict.fromkeys(check_topics("topics", topics)))
    rows = state.lookup.topics(names)
    exists = rows >= 0
    exists[exists] = state.topic_exists[rows[exists]]
    unknown = [name for name, known in zip(names, exists.tolist(), strict=True) if not known]
    if unknown:
        raise ArgumentError(f"topic {', '.join(unknown)} is unknown")
    failing = check_brokers(state, broker_ids)
    run = WhatIf(
        state, journal=journal, threads=threads, profile=profile, order=order, frees_rows=True
    )
    check_order(order, failing)
    marked = np.flatnonzero(run.before.state.topic_queued_for_deletion).astype(np.int32)
    earlier = np.setdiff1d(marked, rows)
    (deletion_event,) = run.record(run.common.delete_topics(names))
    requested = np.concatenate([rows, earlier])
    told_to_delete = _told_to_delete(run, requested)
    run.fail(failing)
    run.record(run.common.deletions_acknowledged())
    run.measure()
    waiting = _rows_of(run.state, requested[run.state.topic_queued_for_deletion[requested]])
    notes = list(deletion_event.outcome.notes)
    if earlier.size:
        notes.append(f"topics that were marked for deletion already: {earlier.size}")
    return Deletion(
        run.common.title, failing, run.state, tuple(notes), run.start, run.before, run.census,
        _topic_table(run.before.state, run.state, requested), told_to_delete,
        np.where(run.state.up, 0, _per_broker(run.state, waiting)), tuple(run.events),
    )


def _rows_of(state: ClusterState, topics: Rows) -> Rows:
    """Partition rows of some topic rows."""
    parts = [state.lookup.rows_of_topic(topic) for topic in topics.tolist()]
    return np.concatenate([*parts, np.empty(0, np.int32)]).astype(np.int32)


def _per_broker(state: ClusterState, rows: Rows, in_state: ReplicaState | None = None) -> Counts:
    """(B,) assigned replicas of some partitions, or those of them in a state."""
    n = state.records["n_replicas"][rows]
    chosen = np.arange(state.n_slots) < n[:, np.newaxis]
    if in_state is not None:
        chosen &= state.replica_state[rows] == in_state
    return np.bincount(state.replicas[rows][chosen], minlength=state.n_brokers).astype(np.int64)


def _told_to_delete(run: WhatIf, topics: Rows) -> Counts:
    """(B,) replicas that each broker is told to delete: those of topics that are gone, at once."""
    gone = ~run.state.topic_exists[topics]
    of_gone = _per_broker(run.before.state, _rows_of(run.before.state, topics[gone]))
    rows = _rows_of(run.state, topics[~gone])
    return of_gone + _per_broker(run.state, rows, ReplicaState.DELETION_STARTED)


def _topic_table(before: ClusterState, after: ClusterState, topics: Rows) -> pa.Table:
    """What became of each topic; rows of topics stay where they are."""
    rows_of_table: list[dict[str, object]] = []
    queued = after.topic_queued_for_deletion
    for topic in topics.tolist():
        rows = before.lookup.rows_of_topic(topic)
        status = "waiting" if queued[topic] else "kept" if after.topic_exists[topic] else "deleted"
        down: list[int] = []
        reason = "topic deletion is disabled" if status == "kept" else None
        if status == "waiting":
            down = after.broker_id[(_per_broker(after, rows) > 0) & ~after.up].tolist()
            if down:
                reason = brokers_are(down, "down")
            elif being_reassigned(after, rows).any():
                reason = "partitions of it are being reassigned"
        rows_of_table.append({
            "topic": before.topic[topic].as_py(), "partitions": rows.size,
            "replicas": int(before.records["n_replicas"][rows].sum(dtype=np.int64)),
            "status": status, "waiting_for": down, "reason": reason,
        })
    rows_of_table.sort(key=lambda row: row["status"] != "waiting")
    return pa.Table.from_pylist(rows_of_table, DELETION_TOPICS.schema)
