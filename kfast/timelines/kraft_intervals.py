"""Intervals of KRaft logs: what a controller's operations took, and what brokers made of them.

Records of a metadata log have times too: of registrations, and of what follows them. Lines of
brokers that apply a change are joined to its record by the partition epoch, which is unique.

Source: docs/timeline.md, section "Calibration"; Kafka 4.1, `QuorumController`, `ReplicaManager`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from kfast.io.metadata.log import LoggedRecord
from kfast.log_replay.log_files import Logs
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    Fencing,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from kfast.timelines.intervals import ACTIVATION, COMMIT, OPERATION, Interval, most_verbose

__all__ = ["MetadataTimes", "kraft_intervals", "metadata_times"]

COMPLETE_ACTIVATION = "completeActivation"


@dataclass
class MetadataTimes:
    """What a metadata log says of times.

    Attributes
    ----------
    changes : dict
        Of each partition and partition epoch the milliseconds of its record, and how many
        partitions changed in the same batch.
    voters : int
        Controllers that registered; 0 where none did.
    intervals : list of Interval
    """

    changes: dict[tuple[Partition, int], tuple[int, int]] = field(default_factory=dict)
    voters: int = 0
    intervals: list[Interval] = field(default_factory=list)


@dataclass
class _Partition:
    """What is known of a partition while a metadata log is read."""

    name: Partition
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int


@dataclass
class _Return:
    """A broker that registered: when, when it was unfenced, and which ISRs it has still to join.

    Of those partitions that have a leader then: others wait for brokers that are down.
    """

    registered: int
    unfenced: int = -1
    joined: int = -1
    joined_at: int = -1
    missing: set[Partition] = field(default_factory=set)


class _Records:
    """Goes through the records of a metadata log."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.times = MetadataTimes()
        self.topics: dict[str, str] = {}
        self.partitions: dict[tuple[str, int], _Partition] = {}
        self.returns: dict[int, _Return] = {}
        self.controllers: set[int] = set()
        self.in_batch: Counter[int] = Counter()

    def read(self, records: Sequence[LoggedRecord]) -> MetadataTimes:
        """What they say of times."""
        self.in_batch.update(
            one.batch for one in records if isinstance(one.record, PartitionChangeRecord)
        )
        for logged in records:
            record, time = logged.record, logged.timestamp_ms
            if isinstance(record, TopicRecord):
                self.topics[record.topic_id] = record.name
            elif isinstance(record, PartitionRecord):
                self.partitions[record.topic_id, record.partition_id] = _Partition(
                    (self.topics.get(record.topic_id, ""), record.partition_id),
                    record.partition_epoch, record.replicas, record.isr, record.leader,
                )
            elif isinstance(record, PartitionChangeRecord):
                self._change(record, logged)
            elif isinstance(record, RegisterControllerRecord):
                self.controllers.add(record.controller_id)
            elif isinstance(record, RegisterBrokerRecord):
                self._end(record.broker_id)
                self.returns[record.broker_id] = _Return(time)
            elif isinstance(record, UnfenceBrokerRecord):
                self._unfence(record.id, logged)
            elif isinstance(record, BrokerRegistrationChangeRecord):
                if record.fenced == Fencing.UNFENCE:
                    self._unfence(record.broker_id, logged)
                else:
                    self._end(record.broker_id)
        for broker in sorted(self.returns):
            self._end(broker)
        self.times.voters = len(self.controllers)
        return self.times

    def _change(self, record: PartitionChangeRecord, logged: LoggedRecord) -> None:
        partition = self.partitions.get((record.topic_id, record.partition_id))
        if partition is None:
            return
        partition.epoch += 1
        self.times.changes[partition.name, partition.epoch] = (
            logged.timestamp_ms, self.in_batch[logged.batch]
        )
        if record.replicas is not None:
            partition.replicas = record.replicas
        if record.leader is not None:
            partition.leader = record.leader
        if record.isr is not None:
            for broker in set(record.isr) - set(partition.isr):
                back = self.returns.get(broker)
                if back is not None and partition.name in back.missing:
                    back.missing.discard(partition.name)
                    back.joined, back.joined_at = logged.timestamp_ms, logged.offset
            partition.isr = record.isr

    def _unfence(self, broker: int, logged: LoggedRecord) -> None:
        """A broker is back; one that did not register before was only thought to be gone."""
        back = self.returns.get(broker)
        if back is None or back.unfenced >= 0:
            return
        back.unfenced = logged.timestamp_ms
        back.missing = {
            one.name for one in self.partitions.values()
            if broker in one.replicas and broker not in one.isr and one.leader >= 0
        }
        self._add("registration", back.registered, logged.timestamp_ms, "recover", logged.offset)

    def _end(self, broker: int) -> None:
        """What a broker's return was like is known: all its ISRs, or it is gone again."""
        back = self.returns.pop(broker, None)
        if back is not None and back.joined >= 0 and not back.missing:
            self._add("ISR", back.unfenced, back.joined, "isr_join", back.joined_at)

    def _add(self, kind: str, since: int, until: int, parameter: str, offset: int) -> None:
        self.times.intervals.append(Interval(
            kind, None, None, 1000 * since, 1000 * until, {parameter: 1}, "", self.file, offset
        ))


def metadata_times(records: Iterable[LoggedRecord], file: str) -> MetadataTimes:
    """What the records of a metadata log say of times."""
    return _Records(file).read(list(records))


def kraft_intervals(
    logs: Logs, statements: Sequence[Statement],
    changes: Mapping[tuple[Partition, int], tuple[int, int]], voters: int,
) -> Iterator[Interval]:
    """Every interval that lines of KRaft nodes show.

    Parameters
    ----------
    logs : Logs
    statements : sequence of Statement
        Those of `read_kraft_statement`.
    changes : mapping
        As of `MetadataTimes`.
    voters : int
        Controllers of the quorum.
    """
    by_host: defaultdict[tuple[str, str, int], list[Statement]] = defaultdict(list)
    for line in statements:
        assert line.actor_id is not None, "every such line names its node"
        folder = str(PurePosixPath(logs.files[line.entry.file]).parent)
        by_host[folder, line.actor, line.actor_id].append(line)
    stored = {"linger": 1, "log_sync": 1 if voters == 1 else 2, "net": int(voters > 1)}
    for (_, actor, node), lines in sorted(by_host.items()):
        level = most_verbose(line.entry.level for line in lines)
        if actor == "controller":
            yield from _operations(logs, lines, node, level, stored)
        else:
            yield from _applications(logs, lines, node, level, stored, changes)


def _operations(
    logs: Logs, lines: Sequence[Statement], node: int, level: str, stored: Mapping[str, int]
) -> Iterator[Interval]:
    """Operations of a controller: what each took, and its commit."""
    waiting: dict[str, int] = {}
    for line in lines:
        fields, task = line.fields, line.fields["task"]
        kind, length, counts = OPERATION, fields["us"], dict(stored)
        if line.kind == "task":
            waiting.pop(task, None)
            if not fields["n"]:
                continue  # Nothing was to be done: such a look is no operation.
            waiting[task] = length
            counts = {"kr_fixed": 1, "kr_record": fields["n"]}
        elif task in waiting:
            kind, length = COMMIT, length - waiting.pop(task)
        elif task == COMPLETE_ACTIVATION:
            kind, counts = ACTIVATION, {"activate": 1}
        else:
            continue
        end, file = 1000 * line.entry.time, logs.files[line.entry.file]
        yield Interval(
            kind, node, node, end - length, end, counts, level, file, line.entry.line
        )


def _applications(
    logs: Logs, lines: Sequence[Statement], broker: int, level: str, stored: Mapping[str, int],
    changes: Mapping[tuple[Partition, int], tuple[int, int]],
) -> Iterator[Interval]:
    """What a broker makes of a change: when it begins to apply it, and how long leaders take."""
    begin: Statement | None = None
    led: list[Statement] = []
    for line in (*lines, None):
        if line is not None and line.kind in ("became_leader", "already_leader_state"):
            led.append(line)
            continue
        if line is not None and line.kind != "transitioning":
            continue
        if begin is not None and led:
            yield from _application(logs, begin, led, broker, level, stored, changes)
        led, begin = [], line
        if line is not None and line.fields["role"] != "leaders":
            begin = None


def _application(
    logs: Logs, begin: Statement, led: Sequence[Statement], broker: int, level: str,
    stored: Mapping[str, int], changes: Mapping[tuple[Partition, int], tuple[int, int]],
) -> Iterator[Interval]:
    """Intervals of one change that a broker applies."""
    start, end = begin.entry, led[-1].entry
    counts = Counter(
        "epoch_sync" if line.kind == "became_leader" else "isr_only" for line in led
    )
    if begin.fields["n"] == len(led):
        yield Interval(
            "leaders", broker, broker, 1000 * start.time, 1000 * end.time, counts, level,
            logs.files[end.file], end.line,
        )
    known = [
        changes[key] for line in led if "version" in line.fields
        and (key := (line.fields["partition"], line.fields["version"])) in changes
    ]
    if known:
        written, n_changed = known[0]
        fetched = {"metadata_fetch": 1, "load_fixed": 1, "image_entry": n_changed}
        yield Interval(
            "fetch", None, broker, 1000 * written, 1000 * start.time, {**stored, **fetched},
            level, logs.files[start.file], start.line,
        )
