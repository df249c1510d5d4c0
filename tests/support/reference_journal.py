"""What a run of the twin did, as lists of rows: the same facts as kfast's journal tables.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kfast.schema import NO_LEADER, Code, PartitionState, ReplicaState, Strategy
from tests.support.reference_batch import Row, Sent
from tests.support.reference_context import Partition, Record, Replica
from tests.support.reference_profiles import Profile

PARTITION_MATRIX = frozenset({
    (PartitionState.NEW, PartitionState.ONLINE), (PartitionState.NEW, PartitionState.OFFLINE),
    (PartitionState.ONLINE, PartitionState.ONLINE), (PartitionState.ONLINE, PartitionState.OFFLINE),
    (PartitionState.OFFLINE, PartitionState.ONLINE),
    (PartitionState.OFFLINE, PartitionState.OFFLINE),
    (PartitionState.OFFLINE, PartitionState.NON_EXISTENT),
    (PartitionState.NON_EXISTENT, PartitionState.NEW),
})
"""Section 3.1: the valid cells (from, to)."""

_R = ReplicaState
REPLICA_MATRIX = frozenset({
    (_R.NEW, _R.ONLINE), (_R.NEW, _R.OFFLINE),
    (_R.ONLINE, _R.ONLINE), (_R.ONLINE, _R.OFFLINE),
    (_R.OFFLINE, _R.ONLINE), (_R.OFFLINE, _R.OFFLINE), (_R.OFFLINE, _R.DELETION_STARTED),
    (_R.OFFLINE, _R.DELETION_INELIGIBLE),
    (_R.DELETION_STARTED, _R.DELETION_SUCCESSFUL), (_R.DELETION_STARTED, _R.DELETION_INELIGIBLE),
    (_R.DELETION_SUCCESSFUL, _R.NON_EXISTENT),
    (_R.DELETION_INELIGIBLE, _R.ONLINE), (_R.DELETION_INELIGIBLE, _R.OFFLINE),
    (_R.NON_EXISTENT, _R.NEW),
})
"""Section 2.1: the valid cells (from, to)."""


def replica_matrix(profile: Profile) -> frozenset[tuple[ReplicaState, ReplicaState]]:
    """Section 2.1, as a version has it."""
    late = {(_R.OFFLINE, _R.DELETION_INELIGIBLE)}
    return REPLICA_MATRIX if profile.ineligible_from_offline else REPLICA_MATRIX - late


@dataclass
class Journal:
    """Rows in the order in which things happened; `step` counts handles and sends from 0."""

    step: int = -1
    transitions: list[Row] = field(default_factory=list)
    elections: list[Row] = field(default_factory=list)
    refusals: list[Row] = field(default_factory=list)
    additions: list[Row] = field(default_factory=list)
    sent: list[tuple[int, Sent]] = field(default_factory=list)
    batch_failures: list[str] = field(default_factory=list)
    shares_a_bucket: bool = False
    """Whether a call had brokers whose order in Kafka depends on more than their ids."""

    def moved(
        self,
        p: Partition,
        broker: int | None,
        before: PartitionState | ReplicaState,
        after: PartitionState | ReplicaState,
    ) -> None:
        """A state was written by a successful transition."""
        self.transitions.append({
            "step": self.step, "partition": p, "broker_id": broker,
            "from_state": before.label, "to_state": after.label,
        })

    def refused(
        self,
        p: Partition,
        broker: int | None,
        before: PartitionState | ReplicaState,
        target: PartitionState | ReplicaState,
        code: Code,
        error: str | None = None,
    ) -> None:
        """Kafka's error log names a replica or a partition; `error` where it is not the code's."""
        self.refusals.append({
            "step": self.step, "partition": p, "broker_id": broker,
            "from_state": before.label, "to_state": target.label,
            "code": code.name, "error": error or code.error,
        })

    def elected(
        self,
        p: Partition,
        strategy: Strategy | str | None,
        before: Record | None,
        after: Record | None,
        code: Code,
        unclean: bool = False,
    ) -> None:
        """A leader was chosen, or could not be; a text names what is no strategy."""
        named = strategy.name if isinstance(strategy, Strategy) else strategy
        row: dict[str, Any] = {
            "step": self.step, "partition": p,
            "strategy": "INITIALIZATION" if named is None else named,
            "leader_before": NO_LEADER if before is None else before.leader,
            "isr_before": [] if before is None else list(before.isr),
            "leader": None if after is None else after.leader,
            "isr": None if after is None else list(after.isr),
            "leader_epoch": None if after is None else after.leader_epoch,
            "version": None if after is None else after.version,
            "recovery": None if after is None else after.recovery,
            "unclean": unclean, "code": code.name,
        }
        self.elections.append(row)

    def send(self, sent: Sent) -> None:
        """A batch was sent in this step."""
        self.sent.append((self.step, sent))

    def added(self, rows: list[Row]) -> None:
        """Additions to the batch of this step, before unregistered brokers are dropped."""
        self.additions += [{"step": self.step, **row} for row in rows]

    def by_broker(self) -> dict[int, list[Row]]:
        """Every request per broker, in the order of emission."""
        requests: dict[int, list[Row]] = {}
        for _, sent in self.sent:
            for b, rows in sent.by_broker().items():
                requests.setdefault(b, []).extend(rows)
        return requests


def matrix_cells(journal: Journal) -> list[tuple[str, str]]:
    """Every (from, to) that a run tried, allowed or not."""
    return [
        (row["from_state"], row["to_state"])
        for row in (*journal.transitions, *journal.refusals)
    ]


def replica_name(r: Replica) -> str:
    """`topic-partition@broker`, as the cases write it."""
    (topic, partition), broker = r
    return f"{topic}-{partition}@{broker}"
