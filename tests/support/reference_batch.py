"""The request batch in plain Python (docs/controller.md, section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.reference_context import Assignment, Context, Partition, Record

Row = dict[str, Any]
"""One row of a journal table."""

IBP_RECOVERY = (3, 2)
IBP_STOP_REPLICA_PER_PARTITION = (2, 6)


def protocol(ibp: str) -> tuple[int, int]:
    """Major and minor number of an inter-broker protocol version."""
    major, minor = ibp.split("-")[0].split(".")[:2]
    return int(major), int(minor)


@dataclass
class Sent:
    """What one send emitted: a part is broker -> partition -> payload, registered brokers only."""

    controller_epoch: int
    broker_epochs: dict[int, int]
    per_partition_delete: bool = True
    leader_and_isr: dict[int, dict[Partition, Row]] = field(default_factory=dict)
    update_metadata_brokers: list[int] = field(default_factory=list)
    update_metadata: dict[Partition, Row] = field(default_factory=dict)
    stop_replica: dict[int, dict[Partition, Row]] = field(default_factory=dict)

    def stop_requests(self, b: int) -> list[tuple[bool | None, dict[Partition, Row]]]:
        """One request per broker; older protocols up to two, the deleting one first.

        Source: section 5.3.
        """
        entries = self.stop_replica.get(b, {})
        if self.per_partition_delete:
            return [(None, entries)] if entries else []
        split = [(d, {p: e for p, e in entries.items() if e["delete"] == d}) for d in (True, False)]
        return [(delete, part) for delete, part in split if part]

    def by_broker(self) -> dict[int, list[Row]]:
        """Section 5.3: every request per broker, in the order of emission."""
        requests: dict[int, list[Row]] = {}
        for b, epoch in sorted(self.broker_epochs.items()):
            head = {"controller_epoch": self.controller_epoch, "broker_epoch": epoch}
            emitted: list[Row] = []
            if b in self.leader_and_isr:
                payload = self.leader_and_isr[b]
                leaders = {e["leader"] for e in payload.values()} & set(self.broker_epochs)
                emitted.append({
                    "kind": "LeaderAndIsr", **head, "partitions": payload,
                    "live_leaders": sorted(leaders),
                })
            if b in self.update_metadata_brokers:
                emitted.append({
                    "kind": "UpdateMetadata", **head, "partitions": self.update_metadata,
                    "live_brokers": sorted(self.broker_epochs),
                })
            for delete_all, payload in self.stop_requests(b):
                old = {} if delete_all is None else {"delete_all": delete_all}
                emitted.append({"kind": "StopReplica", **head, **old, "partitions": payload})
            if emitted:
                requests[b] = emitted
        return requests

    def respond_ok(self, ctx: Context) -> list[Row]:
        """Section 5.4: the events that follow when every request is answered without an error."""
        brokers = sorted(self.leader_and_isr)
        events: list[Row] = [{"event": "leader_and_isr_response", "broker": b} for b in brokers]
        events += [
            {"event": "update_metadata_response", "broker": b}
            for b in self.update_metadata_brokers
        ]
        for b, entries in sorted(self.stop_replica.items()):
            deleted = [
                p for p, e in entries.items()
                if e["delete"] and p[0] in ctx.topics_deletion_started
            ]
            if deleted:
                events.append({
                    "event": "topic_deletion_stop_replica_response", "broker": b,
                    "partitions": deleted,
                })
        return events


@dataclass
class RequestBatch:
    """One batch: values are computed when they are added; later additions replace earlier ones."""

    ctx: Context
    ibp: str = "3.9"
    leader_and_isr: dict[int, dict[Partition, Row]] = field(default_factory=dict)
    stop_replica: dict[int, dict[Partition, Row]] = field(default_factory=dict)
    update_metadata_brokers: set[int] = field(default_factory=set)
    update_metadata: dict[Partition, Row] = field(default_factory=dict)
    additions: list[Row] = field(default_factory=list)
    metadata_added: bool = False

    def add_leader_and_isr(
        self,
        brokers: Iterable[int],
        p: Partition,
        record: Record,
        assignment: Assignment,
        is_new: bool,
    ) -> None:
        """Section 5.2: is_new is sticky; every registered broker learns of p by UpdateMetadata."""
        to = [b for b in brokers if b >= 0]
        state = {
            "leader": record.leader,
            "leader_epoch": record.leader_epoch,
            "isr": list(record.isr),
            "recovery": record.recovery,
            "version": record.version,
            "controller_epoch": record.controller_epoch,
            "replicas": list(assignment.replicas),
            "adding": list(assignment.adding),
            "removing": list(assignment.removing),
        }
        is_new = is_new and self.ctx.profile.marks_new_replicas
        self.additions.append(
            {"kind": "LeaderAndIsr", "partition": p, "to": to, **state, "is_new": is_new}
        )
        if protocol(self.ibp) < IBP_RECOVERY:
            del state["recovery"]
        for b in to:
            queued = self.leader_and_isr.setdefault(b, {})
            sticky = p in queued and queued[p]["is_new"]
            queued[p] = {**state, "is_new": is_new or sticky}
        self._update_metadata(self.ctx.registered, [p])

    def add_stop_replica(self, brokers: Iterable[int], p: Partition, delete: bool) -> None:
        """Section 5.2: delete is sticky; the leader epoch is the one of now."""
        to = [b for b in brokers if b >= 0]
        self.additions.append({"kind": "StopReplica", "partition": p, "to": to, "delete": delete})
        for b in to:
            queued = self.stop_replica.setdefault(b, {})
            sticky = p in queued and queued[p]["delete"]
            queued[p] = {"leader_epoch": self.ctx.leader_epoch(p), "delete": delete or sticky}

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[Partition]) -> None:
        """Section 5.2: an explicit addition."""
        to, partitions = [b for b in brokers if b >= 0], list(partitions)
        if self.ctx.profile.empty_metadata_is_all and not partitions:
            partitions = list(self.ctx.leadership)
        self.additions.append({"kind": "UpdateMetadata", "to": to, "partitions": partitions})
        self._update_metadata(to, partitions)

    def _update_metadata(self, brokers: Iterable[int], partitions: Iterable[Partition]) -> None:
        """Partitions without leadership have no entry, but their brokers still join.

        Source: section 5.2.
        """
        self.metadata_added = True
        self.update_metadata_brokers |= {b for b in brokers if b >= 0}
        for p in partitions:
            record = self.ctx.leadership.get(p)
            if record is None:
                continue
            if self.ctx.is_queued(p):
                record = record.during_delete()
            replicas = self.ctx.assignment(p).replicas
            self.update_metadata[p] = {
                "controller_epoch": record.controller_epoch,
                "leader": record.leader,
                "leader_epoch": record.leader_epoch,
                "isr": list(record.isr),
                "version": record.version,
                "replicas": list(replicas),
                "offline_replicas": [
                    b for b in replicas if not self.ctx.is_replica_online(b, p)
                ],
            }

    def send(self, controller_epoch: int) -> Sent:
        """Section 5.3: registered brokers only; the batch is empty afterwards."""
        if self.ctx.profile.metadata_has_deleted and self.metadata_added:
            queued = [p for p in self.ctx.leadership if self.ctx.is_queued(p)]
            self._update_metadata([], queued)
        epochs = dict(self.ctx.live_broker_epochs)
        sent = Sent(
            controller_epoch,
            epochs,
            protocol(self.ibp) >= IBP_STOP_REPLICA_PER_PARTITION,
            {b: e for b, e in self.leader_and_isr.items() if b in epochs},
            sorted(self.update_metadata_brokers & set(epochs)),
            self.update_metadata,
            {b: e for b, e in self.stop_replica.items() if b in epochs},
        )
        self.leader_and_isr, self.stop_replica = {}, {}
        self.update_metadata_brokers, self.update_metadata = set(), {}
        self.metadata_added = False
        return sent


VERSIONS = {
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
"""Section 5.5: the first protocol that uses each version, per kind."""

RECOVERY_CARRIED_FROM = "3.2-IV0"
"""Section 5.2: LeaderAndIsr carries the recovery state from this protocol on."""
