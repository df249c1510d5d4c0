"""A controlled shutdown's times again, partition by partition, in plain Python.

Brokers that leave handle requests and records until they stop. Of what a broker follows, those
partitions come first that it led before all, by row. Those with a new leader come by row too, in
one take those of an earlier operation first.

Source: docs/timeline.md, section "Controlled shutdown".
"""

from __future__ import annotations

from tests.support.timeline_twin import QuorumTwin, ZooKeeperTwin, up


class _Leaving:
    """What both modes share: who leaves, and when each old leader ceases to lead."""

    def prepare(self, shutdown, settings):
        """Let brokers that leave take part; `gone` is by row."""
        self.shutdown, self.settings = shutdown, settings
        self.leaving = [self.ids[row] for row in shutdown.brokers]
        self.live = sorted({*self.live, *self.leaving})
        self.idle = dict.fromkeys(self.live, 0)
        self.working = dict.fromkeys(self.live, False)
        first = self.recording.first["leader"].tolist()
        rows = self.recording.rows.tolist()
        self.old = {row: self.ids[leader] for row, leader in zip(rows, first, strict=True)
                    if leader >= 0 and self.ids[leader] in self.dead}
        self.gone, self.released, self.stopped, self.ends = {}, {}, {}, {}

    def leader_rank(self, row, broker, clean):
        """All with a new leader alike."""
        return 0

    def follow_rank(self, row, broker):
        """Those that it led come first."""
        return 0 if self.old.get(row) == broker and row not in self.gone else 1

    def followed(self, row, broker, at):
        """The old leader has become a follower."""
        if self.old.get(row) == broker:
            self.gone.setdefault(row, at)

    def applied(self, row, broker, epoch, clean, *when):
        """A broker leads a partition; one that leaves too does not lead it for good."""
        if broker in self.leaving:
            self.partitions[row].by_broker[broker] = epoch
        else:
            super().applied(row, broker, epoch, clean, *when)

    def leave(self, broker, at):
        """A broker may go: it leads, as far as it knows, no longer."""
        self.released[broker] = at
        self.stopped[broker] = at + self.values["stop"]

    def leaderless(self):
        """Partition-microseconds in which nobody led what is led in the end."""
        total = 0
        for row, partition in self.partitions.items():
            if partition.led:
                released = self.released[self.old[row]]
                gone = min(self.gone.get(row, released), released)
                total += max(partition.led[1] + up(partition.led[2]) - gone, 0)
        return total


class ZooKeeperShutdownTwin(_Leaving, ZooKeeperTwin):
    """In ZooKeeper mode: brokers ask, ask again, stop, and vanish in one event."""

    def __init__(self, shutdown, values, settings):
        super().__init__(shutdown.recording, [], values)
        self.prepare(shutdown, settings)
        self.waiting = {broker: [] for broker in self.live}
        self.askers = [place for asking in shutdown.requests for place in asking]
        for number in range(len(shutdown.requests[0])):
            self.push(values["net"], "event", number)

    def step(self, at, number, steps, which):
        """The controller begins a step; after the last one it answers."""
        super().step(at, number, steps, which)
        if which == len(steps):
            self.ends[number] = at
        if which < len(steps) or number == self.shutdown.departure:
            return
        place, backoff = self.askers[number], 1000 * self.settings.shutdown_backoff
        back = at + self.values["net"]
        later = [n for n in range(number + 1, len(self.askers)) if self.askers[n] == place]
        if later:
            self.push(back + backoff + self.values["net"], "event", later[0])
            return
        self.leave(self.leaving[place],
                   back + (backoff if place in self.shutdown.still_leads else 0))
        if len(self.stopped) == len(self.leaving):
            due = max(self.stopped.values()) + self.values["zk_expire_event"]
            self.push(due, "event", self.shutdown.departure)

    def event(self, at, number):
        """An event joins the queue; those that vanished get no requests."""
        if number == self.shutdown.departure:
            self.live = [broker for broker in self.live if broker not in self.leaving]
        super().event(at, number)


class QuorumShutdownTwin(_Leaving, QuorumTwin):
    """In KRaft: brokers ask, those that stay report what they applied, brokers are let go."""

    def __init__(self, shutdown, values, settings, phases):
        starts = [values["net"]] * len(shutdown.recording.events)
        super().__init__(shutdown.recording, starts, values, voters=settings.quorum_voters)
        fenced_at_once = [
            self.ids[row] for row, records in
            zip(shutdown.brokers, shutdown.fencing_records, strict=True) if not records
        ]
        self.prepare(shutdown, settings)
        self.live = [broker for broker in self.live if broker not in fenced_at_once]
        self.inbox = {broker: [] for broker in self.live}
        self.interval = max(1000 * settings.broker_heartbeat, 1)
        self.phases = dict(zip(self.ids, phases, strict=True))
        self.taken, self.done = {}, {}

    def leader_rank(self, row, broker, clean):
        """By the operation that made it the leader."""
        # One that leaves may lead what it led before, with a new epoch.
        return self.elected_in.get((broker, row), 0) / (len(self.published) + 1)

    def take(self, at, broker):
        """Remember which operations a broker takes."""
        if not self.working[broker] and self.inbox[broker]:
            self.taken[broker] = [number for number, _ in self.inbox[broker]]
        super().take(at, broker)

    def handled(self, at, broker):
        """A broker has applied what it took."""
        for number in self.taken.pop(broker, ()):
            self.done[broker, number] = at
        super().handled(at, broker)

    def run(self):
        """Let everything happen, then let brokers go, one after another."""
        times = super().run()
        v, free = self.values, self.free
        commit = v["linger"] + v["log_sync"]
        commit += v["net"] + v["log_sync"] if self.voters > 1 else 0
        for place, records in enumerate(self.shutdown.fencing_records):
            answered = self.published[place] + v["net"]
            if records:
                ask = answered + 50_000
                while not self.all_reported(place, ask + v["net"]):
                    ask += self.interval
                free = max(free, ask + v["net"]) + v["kr_fixed"] + up(records * v["kr_record"])
                answered = free + commit + v["net"]
            self.leave(self.leaving[place], answered)
        return times

    def all_reported(self, operation, until):
        """Whether every broker that stays has reported an operation that it applied."""
        for broker in self.live:
            if broker in self.leaving:
                continue
            beat = int(self.phases[broker] * self.interval)
            while beat >= self.interval:
                beat -= self.interval
            while beat < self.done[broker, operation]:
                beat += self.interval
            if beat + self.values["net"] > until:
                return False
        return True
