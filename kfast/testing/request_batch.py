"""RequestBatch: the controller's request batch by itself, addition by addition.

The machines fill their batches by the row; this is the same rule for whoever wants to add single
partitions: what is added is merged, unregistered brokers are dropped, and one request per broker
and kind goes out.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers import DEFAULT_PROFILE, Profile, find_profile
from kfast.errors import ArgumentError
from kfast.journal import Journal, Outcome
from kfast.journal.broker_requests import by_broker
from kfast.journal.effects import EFFECT
from kfast.schema import (
    FLAG_HAS_LEADERSHIP,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_STOP,
)
from kfast.state import Assignment, ClusterState, mutators

__all__ = ["VERSIONS", "RequestBatch", "SentRequests", "request_versions"]

VERSIONS: dict[str, tuple[tuple[str, int], ...]] = {
    "LeaderAndIsr": (
        ("<1.0-IV0", 0), ("1.0-IV0", 1), ("2.2-IV0", 2), ("2.4-IV0", 3), ("2.4-IV1", 4),
        ("2.8-IV1", 5), ("3.2-IV0", 6), ("3.4-IV0", 7),
    ),
    "UpdateMetadata": (
        ("<0.9.0", 0), ("0.9.0", 1), ("0.10.0-IV1", 2), ("0.10.2-IV0", 3), ("1.0-IV0", 4),
        ("2.2-IV0", 5), ("2.4-IV1", 6), ("2.8-IV1", 7), ("3.4-IV0", 8),
    ),
    "StopReplica": (
        ("<2.2-IV0", 0), ("2.2-IV0", 1), ("2.4-IV1", 2), ("2.6-IV0", 3), ("3.4-IV0", 4),
    ),
}
"""Kind of request: the wire version by the first inter-broker protocol that uses it.

Source: section 5.5.
"""

RECOVERY_CARRIED_FROM = "3.2-IV0"
"""LeaderAndIsr says the leader recovery state from this protocol on."""

_ONE_STOP_REQUEST = (2, 6)


def request_versions(kind: str) -> tuple[tuple[str, int], ...]:
    """Wire versions of a kind of request; `ArgumentError` for an unknown kind."""
    if kind not in VERSIONS:
        raise ArgumentError(f"kind {kind!r} is unknown; allowed: {', '.join(VERSIONS)}")
    return VERSIONS[kind]


class SentRequests:
    """What one send emitted."""

    def __init__(self, state: ClusterState, outcome: Outcome, split_stop: bool) -> None:
        self.state = state
        self.outcome = outcome
        self.split_stop = split_stop

    def by_broker(self) -> dict[int, list[dict[str, Any]]]:
        """Requests per broker in the order of emission (section 5.3)."""
        sent = self.outcome
        return by_broker(
            sent.requests, sent.update_metadata, sent.update_metadata_brokers, sent.batches,
            split_stop=self.split_stop,
        )

    def respond_ok(self) -> list[dict[str, Any]]:
        """Events that follow when every request is answered without an error (section 5.4)."""
        events: list[dict[str, Any]] = []
        requests = self.outcome.requests.to_pylist()
        recipients = sorted({r["broker_id"] for r in requests if r["kind"] == "LeaderAndIsr"})
        events += [{"event": "leader_and_isr_response", "broker": b} for b in recipients]
        for broker in self.outcome.update_metadata_brokers.column("broker_id").to_pylist():
            events.append({"event": "update_metadata_response", "broker": broker})
        names = self.state.topic.to_pylist()
        started = {t for t, s in zip(names, self.state.topic_deletion_started, strict=True) if s}
        deleted: dict[int, list[tuple[str, int]]] = {}
        for row in requests:
            if row["kind"] == "StopReplica" and row["delete"] and row["topic"] in started:
                deleted.setdefault(row["broker_id"], []).append((row["topic"], row["partition"]))
        for broker, partitions in sorted(deleted.items()):
            events.append({
                "event": "topic_deletion_stop_replica_response", "broker": broker,
                "partitions": partitions,
            })
        return events


class RequestBatch:
    """One batch of requests: values are taken when they are added, not when they are sent.

    Parameters
    ----------
    state : ClusterState
        For records, liveness and registration.
    ibp : str
        Inter-broker protocol version; before 2.6 StopReplica goes out in two requests.
    profile : str or Profile
        Which controller sends: what its UpdateMetadata names.
    """

    def __init__(
        self, state: ClusterState, *, ibp: str = "3.9",
        profile: str | Profile = DEFAULT_PROFILE,
    ) -> None:
        self.state = state
        major, minor = ibp.split("-")[0].split(".")[:2]
        self._split_stop = (int(major), int(minor)) < _ONE_STOP_REQUEST
        self._journal = Journal(state, "full", find_profile(profile).journal_rules)
        self._added: list[npt.NDArray[Any]] = []
        self._metadata: list[npt.NDArray[Any]] = []
        self._metadata_brokers: set[int] = set()

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], row: int, assignment: Assignment | None = None,
        is_new: bool = False,
    ) -> None:
        """Tell brokers of a partition's cached leadership; every registered one gets metadata.

        Raises
        ------
        ArgumentError
            The partition has no cached leadership, or another assignment than the one given.
        """
        state = self.state
        if not int(state.records["flags"][row]) & FLAG_HAS_LEADERSHIP:
            raise ArgumentError(f"partition row {row} has no cached leadership to tell")
        if assignment is not None and assignment != state.assignment(row):
            raise ArgumentError(f"the assignment of partition row {row} is {state.assignment(row)}")
        rows = np.asarray([row], np.int32)
        ids = [b for b in broker_ids if b >= 0]
        brokers = mutators.add_brokers(state, ids)
        slots = mutators.track(state, np.repeat(rows, brokers.size).astype(np.int32), brokers)
        effect = self._journal.record_effects(rows)
        effect["recipients"] = sum(1 << int(slot) for slot in set(slots.tolist()))
        marked = is_new and self._journal.rules.marks_new_replicas
        effect["kinds"] |= KIND_IS_NEW if marked else 0
        self._added.append(effect)
        self.add_update_metadata(state.broker_id[state.registered].tolist(), rows)

    def add_stop_replica(self, broker_ids: Iterable[int], row: int, delete: bool) -> None:
        """Tell brokers to stop a replica, and to delete it; once asked, deletion stays.

        Source: section 5.2.
        """
        rows = np.asarray([row], np.int32)
        for broker in [b for b in broker_ids if b >= 0]:
            effect = self._journal.record_effects(rows, KIND_STOP | (KIND_DELETE if delete else 0))
            effect["broker"] = mutators.add_brokers(self.state, [broker])[0]
            effect["stop_epoch"] = self.state.stop_epochs(rows)
            self._added.append(effect)

    def add_update_metadata(self, broker_ids: Iterable[int], rows: npt.ArrayLike) -> None:
        """Tell brokers of partitions; those without cached leadership carry no entry.

        Source: section 5.2.
        """
        self._metadata_brokers.update(b for b in broker_ids if b >= 0)
        named_rows = self._journal.metadata_rows(np.asarray(rows, np.int32))
        led = (self.state.records["flags"][named_rows] & FLAG_HAS_LEADERSHIP) != 0
        self._metadata.append(self._journal.record_effects(named_rows[led], KIND_LEADER_AND_ISR))

    def send(self) -> SentRequests:
        """Merge what was added, drop unregistered brokers, and begin again (section 5.3)."""
        empty = np.zeros(0, EFFECT)
        chosen = np.isin(self.state.broker_id, sorted(self._metadata_brokers))
        self._journal.add_batch(
            "request batch", np.concatenate([*self._added, empty]),
            np.concatenate([*self._metadata, empty]), chosen if self._metadata_brokers else None,
        )
        outcome = self._journal.finish("request batch")
        self._added, self._metadata, self._metadata_brokers = [], [], set()
        return SentRequests(self.state, outcome, self._split_stop)
