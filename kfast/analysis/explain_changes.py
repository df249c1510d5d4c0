"""What events of a KRaft controller did to one partition, in sentences: read from its records.

Source: docs/kraft.md, section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow.compute as pc

from kfast.controllers import EventOutcome
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.schema import NO_LEADER
from kfast.state import ClusterState
from kfast.state.metadata_records import PartitionChangeRecord
from kfast.state.registrations import PartitionRegistration

__all__ = ["PartitionChanges", "heading", "registration_sentence"]

Row = dict[str, Any]

_HEADINGS = {
    "activate": "The controller starts",
    "begin_controlled_shutdown": "Broker {} begins its controlled shutdown",
    "fence_broker": "Broker {} is fenced",
}


def heading(state: ClusterState, before: EventOutcome | None, event: EventOutcome) -> str:
    """What happens, and to which broker: the one that is up, or stays, no longer."""
    changed = []
    if before is not None:
        left = (before.up & ~event.up) | (event.shutting_down & ~before.shutting_down)
        changed = state.broker_id[left].tolist()
    return _HEADINGS[event.outcome.event].format(_ids(changed))


def registration_sentence(part: PartitionRegistration) -> str:
    """Who leads, who may lead, and the epochs."""
    eligible = f"; ELR {_ids(part.elr)}" if part.elr else ""
    known = f"; last known leader {_ids(part.last_known_elr)}" if part.last_known_elr else ""
    recovering = "; leader recovery state RECOVERING" if part.recovery else ""
    return (
        f"leader {_leader(part.leader)}; ISR {_ids(part.isr)}{eligible}{known}; "
        f"leader epoch {part.leader_epoch}; partition epoch {part.partition_epoch}{recovering}"
    )


class PartitionChanges:
    """A partition that records change, one after the other.

    Parameters
    ----------
    row : int
        Its row in the state of the controller.
    start : PartitionRegistration
        What it is before the first event.
    min_isr : str
        Its min ISR, in words.
    allows_unclean : bool
        Whether unclean leader election is allowed.
    unclean : str
        The same in words.
    """

    def __init__(
        self, row: int, start: PartitionRegistration, min_isr: str, allows_unclean: bool,
        unclean: str,
    ) -> None:
        self.row, self.min_isr = row, min_isr
        self.allows_unclean, self.unclean = allows_unclean, unclean
        self.now: Row = {
            "leader": start.leader, "isr": start.isr, "eligible_leader_replicas": start.elr,
            "last_known_elr": start.last_known_elr, "replicas": start.replicas,
            "leader_epoch": start.leader_epoch, "partition_epoch": start.partition_epoch,
        }

    def sentences(self, outcome: QuorumOutcome, up: Mapping[int, str]) -> Iterator[str]:
        """What one event did; `up` is what each broker is now."""
        records = outcome.records
        mine = pc.and_(
            pc.equal(records["type"], PartitionChangeRecord.__name__),
            pc.equal(records["partition_row"], self.row),
        )
        for record in records.filter(mine).to_pylist():
            yield from self._change(record, up)
            self.now |= {
                name: value for name, value in record.items()
                if name in self.now and value is not None
            }

    def _change(self, record: Row, up: Mapping[int, str]) -> Iterator[str]:
        before = self.now
        isr, eligible = record["isr"], record["eligible_leader_replicas"]
        replicas = record["replicas"] or before["replicas"]
        candidates = "; ".join(
            f"{broker} ({up[broker]}{self._membership(broker)})" for broker in replicas
        )
        yield f"replicas in order: {candidates}"
        if record["replicas"] is not None:
            yield f"the reassignment is complete: replicas {_ids(replicas)}"
        if record["leader"] is not None:
            yield self._leader(record)
        if isr is not None:
            yield f"ISR {_ids(before['isr'])} -> {_ids(isr)}"
        elif record["leader"] == NO_LEADER:
            yield f"ISR {_ids(before['isr'])} stays: without ELR its last members are kept"
        if eligible is not None:
            yield (
                f"ELR {_ids(before['eligible_leader_replicas'])} -> {_ids(eligible)}: the ISR has "
                f"{len(before['isr'] if isr is None else isr)}, min.insync.replicas {self.min_isr}"
            )
        if record["last_known_elr"]:
            yield f"{_ids(record['last_known_elr'])} is noted as the last known leader"
        epochs = f"partition epoch {before['partition_epoch']} -> {record['partition_epoch']}"
        if record["leader"] is not None:
            epochs = f"leader epoch {before['leader_epoch']} -> {record['leader_epoch']}; {epochs}"
        yield epochs

    def _membership(self, broker: int) -> str:
        if broker in self.now["isr"]:
            return ", in the ISR"
        eligible = broker in self.now["eligible_leader_replicas"]
        return ", in the ELR" if eligible else ", in neither"

    def _leader(self, record: Row) -> str:
        leader, before = record["leader"], self.now
        if leader == NO_LEADER and self.allows_unclean:
            return "no replica is live: nobody leads"
        if leader == NO_LEADER:
            return (
                "no live replica is in the ISR or the ELR, and unclean leader election is "
                f"{self.unclean}: nobody leads"
            )
        if leader == before["leader"]:
            return f"{leader} still leads, in a new leader epoch"
        if leader in before["isr"]:
            why = "the first replica that is live and in the ISR"
        elif leader in before["eligible_leader_replicas"]:
            why = "the ISR is empty, and it is the first live replica of the ELR"
        elif leader in before["last_known_elr"]:
            why = "ISR and ELR are empty, and it led last; what it lacks is lost"
        else:
            why = (
                f"nobody of ISR or ELR is live; unclean leader election is {self.unclean}, so the "
                "first live replica leads, and what it lacks is lost"
            )
        return f"leader is {leader}: {why}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _leader(leader: int) -> str:
    return str(leader) if leader >= 0 else "none"
