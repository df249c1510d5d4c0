"""Rows: partitions as the replay simulates them, each perhaps several times over.

What a partition's record was before its log begins is not known. So it is simulated once for each
thing it may have been; every such row has a topic name of its own, which only this module knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kfast.log_replay.events.events import LogEvent, is_hole
from kfast.log_replay.wording.values import Partition
from kfast.state import Leadership

MARK = "\x1f"
"""Stands between a topic's name and the number of a possibility; no topic's name can hold it."""

COUNTED = {"leader_epoch": "epoch", "version": "version", "controller_epoch": "record_epoch"}
"""Values that count from what they were at a start, and the kinds of their counts."""


@dataclass
class Start:
    """What a partition's record is taken to be from some point on.

    Attributes
    ----------
    point : LogEvent
        The failover or hole from which on it holds.
    reason : str
        Why it is not predicted.
    leader : int
    isr : tuple of int
    replicas : tuple of int
    leader_epoch, version, controller_epoch : int or None
        None while the log has not said it: rows then count from 0.
    is_written : bool
        Whether there is a record: a partition that was created while no controller was elected has
        none yet.
    adding, removing : tuple of int
        Of a reassignment that is under way.
    recovery : int
        1 where its leader was chosen outside the ISR, and has not changed the ISR since.
    before : Leadership or None
        The record that it replaces, where its counts are known.
    """

    point: LogEvent
    reason: str
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    leader_epoch: int | None = None
    version: int | None = None
    controller_epoch: int | None = None
    is_written: bool = True
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery: int = 0
    before: Leadership | None = None

    @property
    def counts_alike(self) -> bool:
        """Whether its version is its leader epoch: of a sole replica no leader writes an ISR.

        What a controller writes raises both, and a topic that is made again begins with 0.
        """
        before = self.before
        return before is not None and before.version == before.leader_epoch and (
            self.replicas == tuple(before.isr) and len(self.replicas) == 1 and not self.recovery
        )


def least_counts(start: Start, before: Leadership) -> dict[str, int]:
    """Below what no count of a start is that follows a record: another leader raises both."""
    is_other = int(start.leader != before.leader)
    return {"leader_epoch": before.leader_epoch + is_other, "version": before.version + is_other}


def made_anew(start: Start, before: Leadership) -> bool:
    """Whether a topic was deleted and created again in a hole: both of its counts have fallen.

    One of them alone does not fall in any way: it is a fault in the log.
    """
    counts = ((getattr(start, name), least) for name, least in least_counts(start, before).items())
    return is_hole(start.point) and all(now is not None and now < least for now, least in counts)


@dataclass
class Possibility:
    """One way a partition's history may have gone.

    Attributes
    ----------
    partition : Partition
    number : int
        Tells the possibilities of a partition apart; 0 where there is no other.
    starts : list of Start
        What was adopted, point by point; empty for a partition that the log sees created.
    cost : float
        Of what was adopted.
    inherited : float
        Checks from before the last adoption that disagree.
    creation : LogEvent or None
        Event that created the partition; None where the log does not show it.
    offsets : dict of Counter
        By how much lines are ahead of counts from an unknown start, by the kind of count.
    written_at : int
        Line before which a leader has written an ISR that no line announces; -1 where none has.
    """

    partition: Partition
    number: int
    starts: list[Start] = field(default_factory=list)
    cost: float = 0.0
    inherited: float = 0.0
    creation: LogEvent | None = None
    offsets: dict[str, Counter[int]] = field(default_factory=dict, init=False)
    written_at: int = -1

    @property
    def topic(self) -> str:
        """Name of the topic of its row."""
        topic = self.partition[0]
        return f"{topic}{MARK}{self.number}" if self.number else topic

    @property
    def origin(self) -> tuple[Any, ...]:
        """What was adopted last: partition, place, leader and ISR; the same in all simulations."""
        adopted = ((start.point.number, start.leader, start.isr) for start in self.starts[-1:])
        return self.partition, *adopted

    @property
    def is_old(self) -> bool:
        """Whether its record is from before the last point at which one was adopted."""
        return bool(self.starts) and self.starts[-1].is_written

    def note_offset(self, kind: str, logged: int, predicted: int) -> None:
        """A line says a count that is predicted from an unknown start."""
        self.offsets.setdefault(kind, Counter())[logged - predicted] += 1

    def offset(self, kind: str) -> int | None:
        """By how much most lines are ahead of a count from an unknown start; None without any."""
        counted = self.offsets.get(kind)
        return counted.most_common(1)[0][0] if counted else None

    def unknown(self) -> tuple[bool, bool, bool]:
        """Whether leader epoch, version and controller epoch are still counted from 0."""
        if not self.starts:
            return False, False, False
        last = self.starts[-1]
        return last.leader_epoch is None, last.version is None, last.controller_epoch is None

    @property
    def resumed_epoch(self) -> int | None:
        """Epoch of the controller that goes on with its record: it may have written it before."""
        point = self.starts[-1].point
        return point.term.epoch if point.kind == "resume" else None


def plain_topic(name: str) -> str:
    """Topic that a row's topic stands for."""
    return name.split(MARK, 1)[0]


UNKNOWN_EPOCH = -9
"""Controller epoch of a record that the log has not said yet."""


def row_of(possibility: Possibility, start: Start) -> dict[str, Any]:
    """A partition's row of the Arrow table that a state is made from."""
    row = {
        "topic": possibility.topic, "partition": possibility.partition[1],
        "replicas": list(start.replicas), "has_leadership": start.is_written,
        "adding": list(start.adding), "removing": list(start.removing),
    }
    if not start.is_written:
        return row
    return row | {
        "leader": start.leader, "isr": list(start.isr), "recovery": start.recovery,
        "leader_epoch": start.leader_epoch or 0, "version": start.version or 0,
        "controller_epoch": UNKNOWN_EPOCH if start.controller_epoch is None
        else start.controller_epoch,
    }


def with_states(
    row: dict[str, Any], up: Iterable[int], named: Mapping[int, int] = MappingProxyType({}),
    *, is_deleted: bool = False,
) -> dict[str, Any]:
    """The row of a partition in the middle of a term: states as the controller would have them.

    `named` are those that it has, by broker; `is_deleted`: replicas of its topic are being deleted,
    and before the first of them all partitions have become NonExistent.
    """
    live = set(up)
    row["partition_state"] = 3 if is_deleted else 1 if row["leader"] in live else 2
    row["being_reassigned"] = bool(row["adding"] or row["removing"])
    row["replica_state_broker_ids"] = list(row["replicas"])
    row["replica_states"] = [
        int(named.get(broker, 2 if broker in live else 3)) for broker in row["replicas"]
    ]
    return row
