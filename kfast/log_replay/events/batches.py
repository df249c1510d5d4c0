"""Batches: the lines of state-change.log that one call of a state machine wrote together.

A call logs its transitions, then what it sends: LeaderAndIsr, UpdateMetadata, StopReplica. So a
batch ends where a line comes that cannot follow the one before within a call.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition, Record

CHANGES, LEADS, METADATA, STOPS = range(4)
STAGE = {
    "partition_new": CHANGES, "partition_led": CHANGES, "partition_moved": CHANGES,
    "replica_moved": CHANGES, "shrunk": CHANGES, "partition_failed": CHANGES,
    "replica_failed": CHANGES, "elected_leader": CHANGES,
    "sent_leader_and_isr": LEADS, "sent_leader_and_isr_partition": LEADS,
    "sent_reassignment": STOPS,
    "sent_update_metadata": METADATA, "sent_update_metadata_partition": METADATA,
    "sent_stop_replica": STOPS, "sent_stop_replica_partition": STOPS,
}
"""In which part of a batch each kind of line stands."""

PAUSE_MS = 30_000
"""Lines further apart than this are not of one batch."""

MOVES_PAUSE_MS = 5000
"""Replicas that one call moves are logged in one go: with a longer pause they are of two calls."""

METADATA_PAUSE_MS = 1000
"""Partitions of one UpdateMetadata are logged in one go, right after states that changed: with a
longer pause they are of two calls."""


@dataclass
class Batch:
    """Lines of one batch, and what they say together.

    Attributes
    ----------
    statements, lines : list
        Their numbers, and they themselves.
    time : int
        Of the first line.
    recipients : frozenset of int
        Brokers that UpdateMetadata went to.
    n_partitions : int
        Partitions in it.
    records : dict
        Their records, where lines name them.
    online_again : dict
        Partitions whose replicas were made Online though they were, by broker.
    sends_nothing : bool
        All its lines make new replicas Online, which their creation has told everybody.
    moved_away : set of (topic, number)
        Partitions some of whose replicas are gone: nothing else is told of in the same call.
    """

    time: int
    end: int
    statements: list[int] = field(default_factory=list)
    lines: list[Statement] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    recipients: frozenset[int] = frozenset()
    n_partitions: int = 0
    records: dict[Partition, Record] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    created: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    led: list[Statement] = field(default_factory=list)
    failed: list[Statement] = field(default_factory=list)
    shrunk: dict[Partition, int] = field(default_factory=dict)
    online_again: dict[int, set[Partition]] = field(default_factory=dict)
    sends_nothing: bool = True
    moved_away: set[Partition] = field(default_factory=set)

    @property
    def only_metadata(self) -> bool:
        """Whether nothing but UpdateMetadata is in it."""
        return all(STAGE[kind] == METADATA for kind in self.kinds)

    @property
    def tells_nobody(self) -> bool:
        """Whether it is nothing but UpdateMetadata of no partition, to no broker."""
        return self.only_metadata and not self.recipients and not self.n_partitions


def split_batches(
    statements: Sequence[Statement], numbers: Sequence[int], marks: Sequence[int] = ()
) -> list[Batch]:
    """Batches of one controller's lines, in order; an event that begins (`marks`) ends one."""
    batches: list[Batch] = []
    before: Statement | None = None
    for number in numbers:
        line = statements[number]
        if line.kind in STAGE:
            if before is None or _is_of_another_call(batches[-1], before, line, marks):
                batches.append(Batch(line.entry.time, line.entry.time))
            _take(batches[-1], line, number)
            before = line
    return batches


def _is_of_another_call(
    batch: Batch, before: Statement, line: Statement, marks: Sequence[int]
) -> bool:
    """Whether a line cannot be of the batch that ends with the line before it."""
    stage, now = STAGE[before.kind], STAGE[line.kind]
    pause = line.entry.time - batch.end
    names_partition = line.kind == "sent_update_metadata_partition"
    if (
        now < stage or pause > PAUSE_MS
        or before.kind == line.kind == "sent_update_metadata"
        or (before.kind == line.kind == "replica_moved" and pause > MOVES_PAUSE_MS)
        or _answering(line) not in (None, _answering(before))
    ):
        return True
    if names_partition:
        partition, record = line.fields["partition"], line.fields["record"]
        if (
            batch.sends_nothing or (stage != LEADS and pause > METADATA_PAUSE_MS)
            # A newer record is of a later call.
            or batch.records.get(partition, record)[:4] != record[:4]
            # Its new assignment is announced, up to 1.1 with what is to be deleted.
            or (batch.moved_away and record.leader != -2 and partition not in batch.moved_away)
        ):
            return True
    if stage == LEADS and now == METADATA:  # One follows the other in every call.
        return False
    in_one_go = names_partition and stage == METADATA  # No mark of the same ms is in between.
    n_marks = (bisect.bisect_left if in_one_go else bisect.bisect_right)(marks, line.entry.time)
    return n_marks > bisect.bisect_right(marks, batch.end)


def _answering(statement: Statement) -> int | None:
    """The broker whose answer to a deletion is handled by a transition."""
    fields = statement.fields
    if statement.kind != "replica_moved" or fields["before"] != "ReplicaDeletionStarted":
        return None
    return int(fields["replica"])


def _take(batch: Batch, statement: Statement, number: int) -> None:
    fields, kind = statement.fields, statement.kind
    batch.end = statement.entry.time
    batch.statements.append(number)
    batch.lines.append(statement)
    batch.kinds.add(kind)
    batch.sends_nothing &= kind == "replica_moved" and (
        (fields["before"], fields["after"]) == ("NewReplica", "OnlineReplica")
    )
    if kind == "sent_update_metadata":
        batch.recipients, batch.n_partitions = frozenset(fields["brokers"]), fields["n"]
    elif kind == "sent_update_metadata_partition":
        brokers = fields["brokers"] if "brokers" in fields else (fields["broker"],)
        batch.recipients |= frozenset(brokers)
        batch.n_partitions += 1
        batch.records[fields["partition"]] = fields["record"]
    elif kind.startswith("sent_leader_and_isr"):
        batch.asked.add(fields["broker"])
    elif kind.startswith("sent_stop_replica"):
        batch.stopped.add(fields["broker"])
    elif kind == "partition_new":
        batch.created[fields["partition"]] = fields["replicas"]
    elif kind == "partition_led":
        batch.led.append(statement)
    elif kind in ("partition_failed", "replica_failed"):
        batch.failed.append(statement)
    elif kind == "replica_moved" and fields["before"] == fields["after"] == "OnlineReplica":
        batch.online_again.setdefault(fields["replica"], set()).add(fields["partition"])
    elif kind == "replica_moved" and fields["after"] == "NonExistentReplica":
        batch.moved_away.add(fields["partition"])
    elif kind == "shrunk":
        batch.shrunk[fields["partition"]] = fields["replica"]
