"""A failure's times again, partition by partition and by a heap of events, in plain Python.

It reads the requests and records of the journal, row by row, where the product compares states.
Nothing of it is shared with `kfast/timelines` but the instants at which events begin and the values
of parameters.

Order of the partitions of one take or request on a broker: leaders with a new epoch, then leaders
that keep theirs, then followers. Of the first, those that nobody led come first, and of these those
whose ISR has a dead member still; of the rest, those whose ISR loses its last dead member.

Source: docs/timeline.md, sections "ZooKeeper mode" and "KRaft".
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass, field


def up(nanoseconds):
    """Microseconds, rounded up."""
    return -(-nanoseconds // 1000)


@dataclass
class Partition:
    """What the clients of one partition see.

    `led` and `shrunk` are (group, microseconds, nanoseconds), or None.
    """

    lost: bool
    dirty: bool
    epoch: int
    led: tuple | None = None
    shrunk: tuple | None = None
    by_broker: dict = field(default_factory=dict)


@dataclass
class TwinTimes:
    """Partitions by row, and instants of the controller and of the brokers."""

    partitions: dict
    published: list
    visible: list

    def led(self):
        """Instants at which partitions are led again, ascending."""
        return sorted(up(p.led[2]) + p.led[1] for p in self.partitions.values() if p.led)

    def leaderless(self):
        """Partition-microseconds without a leader."""
        return grouped(p.led for p in self.partitions.values() if p.led)

    def stalled(self):
        """Partition-microseconds with a leader and a dead ISR member."""
        late = [p for p in self.partitions.values() if p.shrunk]
        return grouped(p.shrunk for p in late) - grouped(p.led for p in late if p.led)


def grouped(instants):
    """Sum of instants, rounded up once for each group."""
    sums = defaultdict(lambda: [0, 0])
    for group, micros, nanos in instants:
        sums[group][0] += micros
        sums[group][1] += nanos
    return sum(micros + up(nanos) for micros, nanos in sums.values())


class Twin:
    """One sample of one failure.

    Parameters
    ----------
    recording : kfast.timelines.recording.Recording
        At journal level full: its outcomes are read, and the records before the first event.
    starts : list of int
    values : dict of str to int
    """

    def __init__(self, recording, starts, values):
        self.recording, self.starts, self.values = recording, starts, values
        state = recording.state
        self.ids = state.broker_id.tolist()
        self.dead = {b for b, dead in zip(self.ids, recording.dead.tolist(), strict=True) if dead}
        self.live = [b for b, up in zip(self.ids, recording.live.tolist(), strict=True) if up]
        first = recording.first
        self.partitions = {}
        self.versions, self.replicas = {}, {}
        for at, row in enumerate(recording.rows.tolist()):
            record = first[at]
            slots = [self.ids[b] for b in state.replicas[row] if b < len(self.ids)]
            isr = {slots[s] for s in range(len(slots)) if int(record["isr"]) >> s & 1}
            leader = int(record["leader"])
            self.partitions[row] = Partition(
                leader >= 0 and self.ids[leader] in self.dead, bool(isr & self.dead),
                int(record["leader_epoch"]),
            )
            self.versions[row] = int(record["version"])
            self.replicas[row] = slots[: int(record["n_replicas"])]
        self.heap, self.number = [], 0
        self.published, self.visible = [], []
        self.idle = dict.fromkeys(self.live, 0)

    def push(self, at, *what):
        """Let something happen at an instant; ties in the order of pushing."""
        heapq.heappush(self.heap, (at, self.number, what))
        self.number += 1

    def apply(self, broker, base, group, entries):
        """Queue the partitions of one take or request; returns when the broker is done.

        Entries are (row, leader, epoch, isr).
        """
        order = []
        for row, leader, epoch, isr in entries:
            p = self.partitions.get(row)
            known = None if p is None else p.by_broker.get(broker, p.epoch)
            kind, first = "follow", (2, self.follow_rank(row, broker))
            clean = not set(isr) & self.dead
            if leader == broker and known is not None and epoch > known:
                fresh = p.lost and p.led is None
                ends = p.dirty and clean and not fresh
                rank = self.leader_rank(row, broker, clean)
                kind, first = "epoch_sync", (0, rank if fresh else 3 - ends)
            elif leader == broker:
                ends = p is not None and p.dirty and p.shrunk is None and clean
                kind, first = "isr_only", (1, 1 - ends)
            order.append((first, row, kind, epoch, clean))
        nanos = 0
        for first, row, kind, epoch, clean in sorted(order):
            nanos += self.values[kind]
            if kind == "follow":
                self.followed(row, broker, base + up(nanos))
            if kind != "follow" and row in self.partitions:
                self.push(base + up(nanos), "applied", row, broker, epoch, clean,
                          (group, first), base, nanos)
        return base + up(nanos)

    def leader_rank(self, row, broker, clean):
        """Place of a partition among those that a broker leads that nobody led: below 2."""
        return 1 if clean else 0

    def follow_rank(self, row, broker):
        """Place of a partition among those that a broker follows; equals stand by row."""
        return 0

    def followed(self, row, broker, at):
        """A broker has become a follower: what that ends is for others to say."""

    def applied(self, row, broker, epoch, clean, group, base, nanos):
        """A broker leads a partition, by what it was told."""
        p = self.partitions[row]
        if p.lost and p.led is None:
            p.led = ((group[0], broker), base, nanos)
            if clean:
                p.dirty = False
        elif clean and p.dirty and p.shrunk is None:
            p.shrunk = ((*group, broker), base, nanos)
        p.by_broker[broker] = epoch

    def run(self):
        """Let everything happen."""
        while self.heap:
            at, _, (kind, *rest) = heapq.heappop(self.heap)
            getattr(self, kind)(*rest) if kind == "applied" else getattr(self, kind)(at, *rest)
        return TwinTimes(self.partitions, self.published, self.visible)


class ZooKeeperTwin(Twin):
    """In ZooKeeper mode: the controller's queue, ZooKeeper, one queue for each broker."""

    def __init__(self, recording, starts, values):
        super().__init__(recording, starts, values)
        self.queue, self.busy = [], False
        self.waiting = {broker: [] for broker in self.live}
        self.working = dict.fromkeys(self.live, False)
        for number, start in enumerate(starts):
            self.push(start, "event", number)

    def event(self, at, number):
        """An event joins the controller's queue."""
        self.queue.append(number)
        self.next_event(at)

    def next_event(self, at):
        """The controller takes the next event when it is free."""
        if self.busy or not self.queue:
            return
        self.busy = True
        number = self.queue.pop(0)
        self.push(at, "step", number, self.steps(number), 0)

    def steps(self, number):
        """Steps of one event: what each takes the controller, and what it sends."""
        outcome, values = self.recording.events[number].outcome, self.values
        requests = [row for row in outcome.requests.to_pylist() if row["isr"] is not None]
        announced = outcome.update_metadata.to_pylist()
        named = [row["step"] for row in announced]
        moves = [row["step"] for row in outcome.transitions.to_pylist()]
        takes_over = self.recording.takeover == number
        state, steps = self.recording.state, []
        offline = sum(
            moves.count(step) for step, action in enumerate(outcome.actions)
            if action == "replicas to OfflineReplica"
        )
        if outcome.event == "controlled_shutdown":
            offline += outcome.elections.num_rows
        for step, action in enumerate(outcome.actions):
            tried = moves.count(step)
            if action.startswith("partitions to OnlinePartition"):
                tried = sum(row["step"] == step for row in outcome.elections.to_pylist())
            announces = action == "announce the live brokers"
            if action == "partitions to OfflinePartition" or not (tried or announces):
                continue
            sent = [row for row in requests if row["step"] == step]
            writes = 0
            # UpdateMetadata names partitions without a live replica too; LeaderAndIsr does not.
            for row in [r for r in announced if r["step"] == step]:
                if row["partition_row"] in self.versions:
                    writes += row["version"] - self.versions[row["partition_row"]]
                    self.versions[row["partition_row"]] = row["version"]
            took = 0
            if announces and not takes_over:
                took = 0
            elif announces:
                took = values["failover_fixed"] + self.store(state.n_topics, "zk_read")
                took += self.store(state.n_partitions, "zk_read")
            elif action == "replicas to OnlineReplica":
                took = up(state.n_partitions * values["zk_start"])
            else:
                if not takes_over and not steps:
                    took = up(state.n_partitions * values["zk_scan"]
                              + offline * values["zk_replica"])
                took += self.store(tried, "zk_read") + self.store(writes, "zk_write")
            took += up(len(sent) * values["zk_entry"])
            steps.append((took, sent, named.count(step)))
        return steps

    def store(self, n, name):
        """How long the controller waits for one batch of requests to ZooKeeper."""
        return self.values["zk_rtt"] + up(n * self.values[name]) if n else 0

    def step(self, at, number, steps, which):
        """The controller begins a step."""
        if which == len(steps):
            self.busy = False
            self.next_event(at)
            return
        took, *_ = steps[which]
        self.push(at + took, "sent", number, steps, which)

    def sent(self, at, number, steps, which):
        """The requests of a step are handed to the brokers' queues."""
        _, rows, announced = steps[which]
        self.published.append(at)
        for broker in self.live:
            entries = [
                (r["partition_row"], r["leader"], r["leader_epoch"], r["isr"])
                for r in rows if r["broker_id"] == broker
            ]
            self.push(at + self.values["net"], "arrive", broker,
                      ((number, which), entries, announced))
        self.push(at, "step", number, steps, which + 1)

    def arrive(self, at, broker, requests):
        """Requests reach a broker."""
        self.waiting[broker].append(requests)
        self.serve(at, broker)

    def serve(self, at, broker):
        """A broker handles the next requests, if it is idle."""
        if self.working[broker] or not self.waiting[broker]:
            return
        self.working[broker] = True
        group, entries, announced = self.waiting[broker].pop(0)
        base = at + (self.values["lisr_fixed"] if entries else 0)
        done = self.apply(broker, base, group, entries)
        done += self.values["um_fixed"] + up(announced * self.values["um_entry"])
        self.push(done, "handled", broker)

    def handled(self, at, broker):
        """A broker has handled its requests, and answers clients by them."""
        self.visible.append(at)
        self.working[broker] = False
        self.serve(at, broker)


class QuorumTwin(Twin):
    """In KRaft: the controller, its log, and one loader for each broker."""

    def __init__(self, recording, starts, values, voters=3):
        super().__init__(recording, starts, values)
        self.voters = voters
        self.free, self.next = 0, 0
        self.inbox = {broker: [] for broker in self.live}
        self.working = dict.fromkeys(self.live, False)
        self.known, self.elected_in = {}, {}
        for number, start in enumerate(starts):
            self.push(start, "decide", number)

    def decide(self, at, number):
        """The controller decides, one operation after another."""
        v = self.values
        records = self.recording.events[number].outcome.records.to_pylist()
        self.free = max(self.free, at) + v["kr_fixed"] + up(len(records) * v["kr_record"])
        committed = self.free + v["linger"] + v["log_sync"]
        committed += v["net"] + v["log_sync"] if self.voters > 1 else 0
        self.published.append(committed)
        changes = [r for r in records if r["type"] == "PartitionChangeRecord"]
        for broker in self.live:
            self.push(committed + v["metadata_fetch"], "arrive", broker, number, changes)

    def arrive(self, at, broker, number, changes):
        """Records reach a broker."""
        self.inbox[broker].append((number, changes))
        # All that arrives at one instant is taken together: the loader looks when all is there.
        self.push(at, "take", broker)

    def take(self, at, broker):
        """A broker takes all that has arrived, each partition in its last state."""
        if self.working[broker] or not self.inbox[broker]:
            return
        self.working[broker] = True
        last = {}
        for number, changes in self.inbox[broker]:
            for change in changes:
                row = change["partition_row"]
                leader, isr = self.known.get((broker, row), (None, None))
                if leader is None:
                    leader = self.first_leader(row)
                if change["leader"] not in (None, leader):
                    leader = change["leader"]
                    self.elected_in[broker, row] = number
                self.known[broker, row] = leader, change["isr"] or isr or ()
                last[row] = (row, leader, change["leader_epoch"], self.known[broker, row][1])
        group = self.inbox[broker][0][0]
        self.inbox[broker] = []
        base = at + self.values["load_fixed"] + up(len(last) * self.values["image_entry"])
        self.visible.append(base)
        entries = [e for e in last.values() if broker in self.replicas[e[0]]]
        done = self.apply(broker, base, group, entries)
        self.push(done, "handled", broker)

    def first_leader(self, row):
        """Leader of a partition before the failure."""
        at = self.recording.rows.tolist().index(row)
        return self.ids[int(self.recording.first[at]["leader"])]

    def handled(self, at, broker):
        """A broker has applied what it took."""
        self.working[broker] = False
        self.push(at, "take", broker)
