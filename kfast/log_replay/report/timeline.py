"""The incident as a table: what happened when, what moved, who was leaderless for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from kfast.log_replay.comparison.facts import name_of
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.wording.values import Partition
from kfast.schema import FLAG_ASSIGNED, FLAG_HAS_LEADERSHIP, OUTAGES, TIMELINE


@dataclass
class Row:
    """One event of the timeline; see `schema.TIMELINE`."""

    time: int
    cluster: int
    controller: int
    controller_epoch: int | None
    event: str
    what: str
    inferred: bool
    transitions: int = 0
    leaders_moved: int = 0
    isr_changes: int = 0
    refused: int = 0
    became_leaderless: list[str] = field(default_factory=list)
    got_leader: list[str] = field(default_factory=list)
    leaderless: int = 0
    longest_ms: int | None = None

    @property
    def moved_anything(self) -> bool:
        """Whether the event is worth a line."""
        return bool(
            self.transitions or self.leaders_moved or self.isr_changes or self.refused
            or self.became_leaderless or self.got_leader
        ) or self.event not in ("rebalance", "election", "hidden_isr", "modified")


class Timeline:
    """Watches a simulation, event by event.

    Parameters
    ----------
    cluster : int
        Number of the cluster.
    """

    def __init__(self, cluster: int) -> None:
        self.cluster = cluster
        self.rows: list[Row] = []
        self.outages: list[tuple[str, int, int | None]] = []
        self.since: dict[Partition, int] = {}
        self.before: dict[Partition, tuple[int, frozenset[int]]] = {}

    def note(self, ran: Ran, simulation: Simulation) -> None:
        """Take down what an event did."""
        event, term = ran.event, ran.event.term
        row = Row(
            event.time, self.cluster, term.controller, term.epoch, event.kind, describe(event),
            event.inferred,
        )
        if ran.outcome is not None:
            counts = ran.outcome.counts
            row.transitions = sum(counts.transitions.values())
            row.refused = ran.outcome.refusals.num_rows
        self._compare(row, simulation)
        if row.moved_anything:
            self.rows.append(row)

    def _compare(self, row: Row, simulation: Simulation) -> None:
        now: dict[Partition, tuple[int, frozenset[int]]] = {}
        state = simulation.state
        for partition, rows in simulation.rows.items():
            for number in rows:
                flags = int(state.records["flags"][number])
                if not flags & FLAG_ASSIGNED or not flags & FLAG_HAS_LEADERSHIP:
                    continue
                leader = int(state.records["leader"][number])
                ids = state.ids_of(number, int(state.records["isr"][number]))
                now[partition] = (leader, frozenset(ids))
        live = state.registered
        for partition, (leader, isr) in now.items():
            led = leader >= 0 and bool(live[leader])
            before = self.before.get(partition)
            if before is not None:
                row.leaders_moved += leader != before[0] and leader >= 0 and before[0] >= 0
                row.isr_changes += isr != before[1]
            if not led and partition not in self.since:
                self.since[partition] = row.time
                row.became_leaderless.append(name_of(partition))
            elif led and partition in self.since:
                since = self.since.pop(partition)
                row.got_leader.append(name_of(partition))
                row.longest_ms = max(row.longest_ms or 0, row.time - since)
                self.outages.append((name_of(partition), since, row.time))
        for partition in [p for p in self.since if p not in now]:
            self.outages.append((name_of(partition), self.since.pop(partition), row.time))
        row.leaderless = len(self.since)
        self.before = now

    def finish(self) -> None:
        """The log ends: what is leaderless stays so."""
        self.outages += [(name_of(p), since, None) for p, since in self.since.items()]
        self.since = {}


def describe(event: LogEvent) -> str:
    """Say in a few words what happened."""
    said = event.said
    listed = _ids
    if event.kind == "failover":
        up = said.get("registered")
        with_ = f"; brokers {listed(up)}" if up else ""
        return f"broker {event.term.controller} becomes controller, epoch {event.term.epoch}{with_}"
    if event.kind == "resume":
        return "the log goes on after a hole" if said.get("hole") else "the log begins here"
    if event.kind == "brokers":
        parts = [
            f"{word} {listed(said[name])}" for name, word in
            (("added", "up:"), ("bounced", "bounced:"), ("deleted", "gone:")) if said[name]
        ]
        return f"brokers {', '.join(parts)}"
    if event.kind == "shutdown":
        return f"broker {said['broker']} asks to shut down"
    if event.kind in ("topics", "partitions"):
        names = sorted({topic for topic, _ in said["created"]} | set(said.get("names", ())))
        gone = f"; gone: {', '.join(said['deleted'])}" if said.get("deleted") else ""
        word = "topic created:" if event.kind == "topics" else "partitions added to"
        return f"{word} {', '.join(names)} ({len(said['created'])} partitions){gone}"
    if event.kind == "isr":
        return f"leaders change {len(said['partitions'])} ISRs"
    if event.kind == "hidden_isr":
        return f"leaders change {said['n']} ISRs (not named)"
    if event.kind == "isr_written":
        return f"leaders write {len(said['updates'])} ISRs, unheard of by the controller"
    if event.kind == "election":
        return f"{said['type'].lower()} election of {len(said['partitions'])} partitions"
    if event.kind == "reassign":
        return "; ".join(
            f"{name_of(p)} is reassigned to {listed(target)}"
            for p, target in said["targets"].items()
        )
    if event.kind == "caught_up":
        return f"the targets of {name_of(said['partition'])} have caught up"
    if event.kind == "delete":
        return f"deletion of {', '.join(said['topics'])}"
    if event.kind == "deleted":
        who = f"broker {said['broker']}" if said["broker"] is not None else "brokers"
        return f"{who} deleted replicas"
    if event.kind == "dir_failure":
        return f"log directory failure on {listed(said['brokers'])}"
    if event.kind == "dir_answer":
        return f"broker {said['broker']} cannot serve {len(said['partitions'])} partitions"
    return _OTHERS[event.kind]


_OTHERS = {
    "rebalance": "automatic balancing of leaders",
    "modified": "all brokers are told of the brokers",
    "unclean": "unclean election is enabled",
}


def _ids(ids: Sequence[int] | dict[int, int]) -> str:
    return ",".join(map(str, sorted(ids)))


def timeline_table(rows: Sequence[Row]) -> pa.Table:
    """The timeline as a table."""
    return TIMELINE.table({
        column.name: [getattr(row, column.name) for row in rows] for column in TIMELINE.columns
    })


def outages_table(outages: Sequence[tuple[str, int, int | None, int]]) -> pa.Table:
    """Who was without a leader, from when to when."""
    ordered = sorted(outages, key=lambda o: (o[1], o[0]))
    return pa.table(
        [
            pa.array([o[0] for o in ordered], pa.string()),
            pa.array([o[1] for o in ordered], pa.timestamp("ms")),
            pa.array([o[2] for o in ordered], pa.timestamp("ms")),
            pa.array([None if o[2] is None else o[2] - o[1] for o in ordered], pa.int64()),
            pa.array([o[3] for o in ordered], pa.int32()),
        ],
        schema=OUTAGES.schema,
    )
