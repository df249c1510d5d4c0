"""Intervals of ZooKeeper-mode logs: what a controller waited for, and what brokers' requests took.

Counts are those of the model (`zk_steps`, `zk_times`), so that what is fitted means there what it
means here. Lines are the statements that `kfast.replay` makes of them.

Source: docs/timeline.md, section "Calibration"; Kafka 3.9, `KafkaController`, `ReplicaManager`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeAlias

from kfast.log_replay.log_files import Logs
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition
from kfast.timelines.intervals import Interval, most_verbose

__all__ = ["zookeeper_intervals"]

CONTEXT, ONLINE = "Initializing controller context", "Sending update metadata request"
OFFLINE = "Triggering offline replica state changes"
"""How messages end that divide a controller's start."""

LEADER_AND_ISR = "LeaderAndIsr"
NO_EPOCH = -1
"""Leader epoch before a broker's first request about a partition."""
FAILURE, START = "failure", "start"
OTHER_EVENTS = frozenset({
    "assignment_stored", "assignment_updating", "broker_startup", "deletion_handled", "election",
    "isr_record", "isr_updated", "isr_updating", "log_dir_failure", "new_partitions", "new_topics",
    "partitions_added", "ready", "rebalance", "reassign", "reassign_leader", "resigned",
    "resigning", "shutdown", "stop_response", "unclean_enabled", "unclean_enabled_topic",
})
"""Kinds of lines that begin something else: what follows is no part of a failure."""

LED = frozenset({"became_leader"})
LED_ON = frozenset({"already_leader", "already_leader_state"})
FOLLOWED = frozenset({
    "became_follower", "already_follower", "already_follower_state", "leader_unavailable",
})
IGNORED = frozenset({"same_epoch", "old_epoch", "not_assigned", "dir_offline"})
"""What a broker says that it does with a partition of a LeaderAndIsr request."""


def zookeeper_intervals(logs: Logs, statements: Sequence[Statement]) -> Iterator[Interval]:
    """Every interval that the lines of controllers and brokers show."""
    by_host: defaultdict[tuple[str, str, int], list[Statement]] = defaultdict(list)
    levels: dict[tuple[str, int], str] = {}
    for line in statements:
        folder = str(PurePosixPath(logs.files[line.entry.file]).parent)
        started = line.fields.get("broker") if line.kind == "process_started" else None
        if started is not None:
            by_host[folder, "broker", started].append(line)
        if not line.actor or line.actor_id is None:
            continue
        by_host[folder, line.actor, line.actor_id].append(line)
        host = folder, line.actor_id
        levels[host] = most_verbose((levels.get(host, ""), line.entry.level))
    size = _Size(statements)
    sent: _AllSent = defaultdict(deque)
    for (folder, actor, broker), lines in sorted(by_host.items()):
        if actor == "controller":
            controller = _ControllerLines(logs, broker, levels[folder, broker], size, sent)
            yield from controller.read(lines)
    for (folder, actor, broker), lines in sorted(by_host.items()):
        if actor == "broker":
            level = levels.get((folder, broker), "")
            yield from _BrokerLines(logs, broker, level, sent).read(lines)


class _Size:
    """How many partitions and topics a cluster has, as far as lines name them."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        born: dict[Partition, int] = {}
        gone: dict[str, int] = {}
        for line in statements:
            time = line.entry.time
            if line.kind == "deletion_done":
                gone[line.fields["topic"]] = time
            new = line.kind == "partition_new"
            for partition, _ in subjects(line):
                born.setdefault(partition, time if new else -1)
        first: dict[str, int] = {}
        for (topic, _), time in born.items():
            first[topic] = min(time, first.get(topic, time))
        self.changes = {
            "partitions": (sorted(born.values()), sorted(
                gone[topic] for topic, _ in born if topic in gone
            )),
            "topics": (sorted(first.values()), sorted(
                time for topic, time in gone.items() if topic in first
            )),
        }

    def at(self, what: str, time: int) -> int:
        """Partitions, or topics, that are there at a time."""
        born, gone = self.changes[what]
        return bisect_right(born, time) - bisect_right(gone, time)


class _Sent(NamedTuple):
    """A LeaderAndIsr request that a controller sent."""

    time: int
    partitions: int
    event: str


_AllSent: TypeAlias = defaultdict[tuple[int, int], deque[_Sent]]
"""By controller and receiver, in their order."""


@dataclass
class _Work:
    """What a controller did between two batches of requests.

    Replicas that are offline show at TRACE; at INFO what was made of the record of each does.
    """

    elected: int = 0
    failed: int = 0
    moved: int = 0
    shrunk: int = 0
    written: int = 0

    @property
    def offline(self) -> int:
        """Replicas that are offline."""
        return max(self.moved, self.shrunk)

    def __bool__(self) -> bool:
        return bool(self.elected or self.failed or self.offline)


class _ControllerLines:
    """Goes through the lines of one controller, in their order."""

    def __init__(
        self, logs: Logs, broker: int, level: str, size: _Size,
        sent: _AllSent,
    ) -> None:
        self.logs, self.broker, self.level, self.size = logs, broker, level, size
        self.sent, self.is_first, self.is_last = sent, True, False
        self.event, self.since, self.context = "", 0, -1
        self.work, self.elected = _Work(), set[Partition]()
        self.batch: list[_Sent] = []
        self.entries = 0
        self.epochs: dict[Partition, int | None] = {}

    def read(self, lines: Sequence[Statement]) -> Iterator[Interval]:
        """Every interval that they show."""
        for line in lines:
            kind, message = line.kind, line.entry.message
            if message.endswith(CONTEXT):
                self._begin("", line)
                self.context = line.entry.time
            elif message.endswith(ONLINE) and self.context >= 0:
                counts = {
                    "failover_fixed": 1, "zk_rtt": 2,
                    "zk_read": self._size("topics", line) + self._size("partitions", line),
                }
                yield self._interval("context", self.context, line, counts)
                self._begin(START, line)
            elif message.endswith(OFFLINE) and self.event == START:
                if self.entries:  # Releases before 2.6, or at WARN, do not say what they send.
                    size = self._size("partitions", line)
                    counts = {"zk_start": size, "zk_entry": self.entries}
                    yield self._interval("all replicas", self.since, line, counts)
                self.work, self.since = _Work(), line.entry.time
            elif kind == "broker_change":
                self._begin(FAILURE if line.fields["deleted"] else "", line)
            elif kind in OTHER_EVENTS:
                self._begin("", line)
            else:
                yield from self._decision(line)

    def _begin(self, event: str, line: Statement) -> None:
        """Something else begins."""
        self.event, self.since, self.context = event, line.entry.time, -1
        self.work, self.elected = _Work(), set()
        self.batch, self.entries, self.is_first, self.is_last = [], 0, True, False

    def _decision(self, line: Statement) -> Iterator[Interval]:
        """A line of a transition, or of a request."""
        kind, fields = line.kind, line.fields
        if kind == "partition_led":
            record = fields.get("record")
            self.work.elected += 1
            self.epochs[fields["partition"]] = None if record is None else record.leader_epoch
            self.elected.add(fields["partition"])
        elif kind == "partition_failed":
            self.work.failed += 1
        elif kind == "replica_moved" and fields["after"] == "OfflineReplica":
            self.work.moved += 1
        elif kind == "shrunk":
            self._shrink(fields["partition"], fields["record"].leader_epoch)
        elif kind == "sent_leader_and_isr":
            yield from self._send(line)
        elif kind == "sent_update_metadata":
            yield from self._end_batch(line)

    def _shrink(self, partition: Partition, leader_epoch: int | None) -> None:
        """A replica is offline; a record that is written for that has a higher leader epoch.

        The lines say so of records that need no change too.
        """
        if partition not in self.elected and self.epochs.get(partition) != leader_epoch:
            self.work.written += 1
        self.work.shrunk += 1
        self.epochs[partition] = leader_epoch

    def _send(self, line: Statement) -> Iterator[Interval]:
        """A LeaderAndIsr request: the first of a batch ends what was waited for."""
        if not self.batch:
            yield from self._step(line)
        n = line.fields["n_leaders"] + line.fields["n_followers"]
        request = _Sent(line.entry.time, n, self.event)
        self.batch.append(request)
        self.sent[self.broker, line.fields["broker"]].append(request)
        self.entries += n

    def _end_batch(self, line: Statement) -> Iterator[Interval]:
        """The UpdateMetadata requests of a batch are sent last."""
        if not self.batch and not self.work:
            return
        if not self.batch:
            yield from self._step(line)
        elif len(self.batch) > 1 and self.event:
            # The line of a request follows the work on it, so that of the first is not in between.
            counts = {"zk_entry": sum(one.partitions for one in self.batch[1:])}
            first, last = self.batch[0].time, self.batch[-1].time
            yield self._interval("requests", first, line, counts, last)
        self.since = self.batch[-1].time if self.batch else line.entry.time
        self.batch, self.work = [], _Work()
        if self.is_last:
            self.event, self.is_last = "", False

    def _step(self, line: Statement) -> Iterator[Interval]:
        """What the controller did before it sends: elections, or replicas that are offline."""
        work = self.work
        tried = work.elected + work.failed
        if not self.event or not work or (tried and work.offline):
            return
        kind = "elections" if tried else "offline replicas"
        reads, writes = (tried, work.elected) if tried else (work.offline, work.written)
        counts = {"zk_rtt": 1 + (writes > 0), "zk_read": reads, "zk_write": writes}
        if self.event == FAILURE:
            counts["zk_replica"] = reads
            if self.is_first:
                counts["zk_scan"] = self._size("partitions", line)
        self.is_first, self.is_last = False, self.event == FAILURE and not tried
        yield self._interval(kind, self.since, line, counts)

    def _size(self, what: str, line: Statement) -> int:
        return self.size.at(what, line.entry.time)

    def _interval(
        self, kind: str, since: int, line: Statement, counts: dict[str, int],
        until: int | None = None,
    ) -> Interval:
        entry = line.entry
        end = entry.time if until is None else until
        return Interval(
            kind, self.broker, self.broker, 1000 * since, 1000 * end, counts, self.level,
            self.logs.files[entry.file], entry.line,
        )


@dataclass
class _Request:
    """A LeaderAndIsr request that a broker handles."""

    line: Statement
    correlation: int
    controller: int
    partitions: int
    sent: _Sent | None
    is_first: bool = False
    """Whether the broker has not heard of some partition: it makes or loads a log."""
    ignored: int = 0
    """Partitions that it leaves as they are, which costs next to nothing."""
    counts: Counter[str] = field(default_factory=Counter)


class _BrokerLines:
    """Goes through the lines of one broker, in their order."""

    def __init__(self, logs: Logs, broker: int, level: str, sent: _AllSent) -> None:
        self.logs, self.broker, self.level, self.sent = logs, broker, level, sent
        self.known = set[Partition]()
        self.request: _Request | None = None
        self.finished: tuple[int, int, int] | None = None  # Controller, correlation, time.
        self.idle_since = -1

    def read(self, lines: Sequence[Statement]) -> Iterator[Interval]:
        """Every interval that they show."""
        for line in lines:
            fields: dict[str, Any] = line.fields
            if line.kind == "handling" and fields["request"] == LEADER_AND_ISR:
                yield from self._begin(line)
            elif line.kind == "finished" and fields["request"] == LEADER_AND_ISR:
                yield from self._finish(line)
            elif line.kind == "cached":
                yield from self._cached(line)
            elif line.kind == "process_started":
                self.request, self.finished = None, None
                self.known.clear()
            elif "partition" in fields:
                self._partition(line)

    def _begin(self, line: Statement) -> Iterator[Interval]:
        """A request is handled: of those that were sent, the first with as many partitions."""
        fields = line.fields
        key = fields["controller"], self.broker
        queue, sent = self.sent.get(key), None
        if queue is None:
            sent = _Sent(line.entry.time, fields["n"], FAILURE)  # Its controller's log is missing.
        elif any(one.partitions == fields["n"] for one in queue):
            sent = queue.popleft()
            while sent.partitions != fields["n"]:
                sent = queue.popleft()
            if sent.event and self.idle_since <= sent.time:
                yield self._interval("request sent", sent.time, line, {}, key[0])
        self.request = _Request(
            line, fields["correlation"], fields["controller"], fields["n"], sent
        )

    def _partition(self, line: Statement) -> None:
        """What the broker does with a partition of the request."""
        partition, request = line.fields["partition"], self.request
        known = partition in self.known and line.fields.get("previous") != NO_EPOCH
        if line.kind in LED | LED_ON | FOLLOWED:
            self.known.add(partition)
        if request is None:
            return
        request.is_first |= not known
        if line.kind in LED:
            request.counts["epoch_sync"] += 1
        elif line.kind in LED_ON:
            request.counts["isr_only"] += 1
        elif line.kind in FOLLOWED:
            request.counts["follow"] += 1
        elif line.kind in IGNORED and line.fields.get("request", LEADER_AND_ISR) == LEADER_AND_ISR:
            request.ignored += 1

    def _finish(self, line: Statement) -> Iterator[Interval]:
        """A request ends; it counts where lines say what became of each of its partitions.

        One with a partition that the broker makes or loads a log for does not.
        """
        request, self.request, self.finished = self.request, None, None
        self.idle_since = line.entry.time
        if (
            request is None or request.correlation != line.fields["correlation"]
            or request.sent is None or not request.sent.event
        ):
            return
        self.finished = request.controller, request.correlation, line.entry.time
        if not request.is_first and (
            request.ignored + sum(request.counts.values()) == request.partitions
        ):
            counts = {"lisr_fixed": 1, **request.counts}
            yield self._interval(LEADER_AND_ISR, request.line.entry.time, line, counts)

    def _cached(self, line: Statement) -> Iterator[Interval]:
        """UpdateMetadata is handled; behind a LeaderAndIsr request of the same batch it waited."""
        finished, self.finished = self.finished, None
        self.idle_since = line.entry.time
        fields = line.fields
        if finished is not None and finished[:2] == (
            fields["controller"], fields["correlation"] - 1
        ):
            counts = {"um_fixed": 1, "um_entry": fields["n"] + fields["n_deleted"]}
            yield self._interval("UpdateMetadata", finished[2], line, counts)

    def _interval(
        self, kind: str, since: int, line: Statement, counts: dict[str, int],
        start_broker: int | None = None,
    ) -> Interval:
        entry = line.entry
        return Interval(
            kind, self.broker if start_broker is None else start_broker, self.broker, 1000 * since,
            1000 * entry.time, counts, self.level, self.logs.files[entry.file], entry.line,
        )
