"""Why a partition ends as it does: what each step of a failure did to it, in sentences.

Everything is read from the journal of the same controller; no rule is decided here. Only the
partitions asked for are kept, because whatever happens to one is decided by its own row and the
brokers alone.

Source: docs/controller.md, sections 2.4 to 2.6, 3.4 to 3.6, 4 and 5; docs/kraft.md, section 3, in
`explain_changes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from kfast.analysis.broker_failure import Failure, fail_brokers
from kfast.analysis.explain_changes import PartitionChanges, heading, registration_sentence
from kfast.arguments import check_instance, partition_keys
from kfast.controllers import EventOutcome, Profile
from kfast.journal import Outcome
from kfast.journal.outcome import FULL_TABLES
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.schema import Code
from kfast.state import ClusterState, Leadership
from kfast.state.display import Summary, escape_control, summary_html, summary_text
from kfast.state.min_isr import (
    is_topic_min_isr,
    min_insync_replicas,
    partition_min_isr,
)
from kfast.state.tables import small_tables, table_of_rows

__all__ = ["Explanation", "Section", "explain"]

Row = dict[str, Any]

_EVENTS = {
    "on_controller_failover": "The controller starts",
    "controlled_shutdown": "Broker {} asks for its controlled shutdown",
    "on_broker_failure": "Broker {} fails",
}
_REFUSED = {
    Code.NO_ELIGIBLE_LEADER.name: "nobody is elected",
    Code.NO_LIVE_REPLICA.name: "no assigned replica is live, so the new partition gets no leader",
    Code.ILLEGAL_STATE.name: "this transition is not allowed",
}


@dataclass(frozen=True)
class Section:
    """What one event did to the partition."""

    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """Why one partition ends as it does, event by event."""

    topic: str
    partition: int
    sections: tuple[Section, ...]

    def __str__(self) -> str:
        parts = [f"{escape_control(self.topic)}-{self.partition}"]
        for section in self.sections:
            parts += [f"  {section.heading}", *(f"    {line}" for line in section.lines)]
        return "\n".join(parts)

    def _summary(self) -> Summary:
        lines = {s.heading: "; ".join(map(str.strip, s.lines)) for s in self.sections}
        return f"Explanation of {self.topic}-{self.partition}", lines

    __repr__ = summary_text
    _repr_html_ = summary_html


def explain(
    state: ClusterState,
    broker_ids: Iterable[int],
    partitions: Iterable[tuple[str, int]],
    *,
    controlled: bool = False,
    profile: str | Profile | None = None,
    order: Sequence[int] | None = None,
) -> list[Explanation]:
    """Tell step by step what the failure of some brokers does to some partitions.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Who fails, as in `fail_brokers`.
    partitions : iterable of (topic, partition)
    controlled : bool
        Whether each broker first asks for its controlled shutdown.
    profile : str or Profile, optional
        Which controller is simulated, as in `fail_brokers`.
    order : sequence of int, optional
        Brokers that fail together are fenced one after another, in the order in which their ids
        stand here, and others after them (KRaft only). By default by ascending id.

    Raises
    ------
    ArgumentError
        A partition or a broker is unknown, or a broker is not registered.
    """
    check_instance("state", state, ClusterState)
    topics, numbers = partition_keys("partitions", partitions)
    keys = list(dict.fromkeys(zip(topics, numbers.tolist(), strict=True)))
    rows = state.find_partitions(keys)
    if state.quorum is not None:  # partition 0 decides on min ISR
        first = state.quorum.first_partition[state.topic_row[rows]]
        rows = np.unique(np.concatenate([rows, first[first >= 0]]))
    brokers, names, cluster = small_tables(state)
    chosen = table_of_rows(state, rows, state.records.take(rows), state.replica_state[rows])
    excerpt = ClusterState.from_tables(brokers, names, chosen, cluster)
    failure = fail_brokers(
        excerpt, broker_ids, controlled=controlled, journal="full", profile=profile,
        order=order,
    )
    return [_PartitionHistory(excerpt, failure, *key).explanation() for key in keys]


class _PartitionHistory:
    """What the events do to one partition; `record` is its leadership so far."""

    def __init__(self, state: ClusterState, failure: Failure, topic: str, partition: int) -> None:
        self.failure = failure
        self.topic, self.partition = topic, partition
        self.row = int(state.find_partitions([(topic, partition)])[0])
        self.replicas = state.assignment(self.row).replicas
        self.record = state.leadership(self.row)
        self.state = state
        self.up: dict[int, str] = {}

    def explanation(self) -> Explanation:
        """What each event did, in sections."""
        sections = [Section("As given", tuple(self._before()))]
        events = self._changes() if self.state.is_kraft else self._transitions()
        for happens, name, lines in events:
            done = tuple(lines) or ("nothing happens to this partition",)
            sections.append(Section(f"{happens} ({name})", done))
        sections.append(Section("In the end", tuple(self._end())))
        return Explanation(self.topic, self.partition, tuple(sections))

    def _changes(self) -> Iterator[tuple[str, str, Iterator[str]]]:
        """Heading, name and lines of each event of a KRaft controller."""
        changes = PartitionChanges(
            self.row, self.state.registration(self.row), self._min_isr()[1], *self._unclean()
        )
        before = None
        for event in self.failure.events:
            self._note_liveness(event.up.tolist(), event.shutting_down.tolist())
            assert isinstance(event.outcome, QuorumOutcome)
            yield (
                heading(self.state, before, event), event.outcome.event,
                changes.sentences(event.outcome, self.up),
            )
            before = event

    def _transitions(self) -> Iterator[tuple[str, str, Iterator[str]]]:
        """Heading, name and lines of each event of a ZooKeeper-mode controller."""
        failing = iter(self.failure.broker_ids)
        last = ""
        for event in self.failure.events:
            name = event.outcome.event
            if self.failure.controlled:
                last = str(next(failing)) if name == "controlled_shutdown" else last
            else:
                last = _ids(self.failure.broker_ids)
            happens = _EVENTS[name].format(last)
            if "," in last:
                happens = happens.replace("Broker", "Brokers").replace("fails", "fail")
            yield happens, name, self._event(event)

    def _sentence(self, state: ClusterState) -> str:
        """Leader, ISR and epochs in a state."""
        if state.is_kraft:
            return registration_sentence(state.registration(self.row))
        return _record(state.leadership(self.row))

    # --- before and after ---------------------------------------------------------------------

    def _before(self) -> Iterator[str]:
        self._note_liveness(self.state.up.tolist(), self.state.shutting_down.tolist())
        yield f"replicas {_ids(self.replicas)}; {self._sentence(self.state)}"
        down = [b for b in self.replicas if self.up[b] != "live"]
        if down:
            yield f"not live: {', '.join(f'{b} ({self.up[b]})' for b in down)}"
        yield (
            f"min.insync.replicas {self._min_isr()[1]}; "
            f"unclean leader election is {self._unclean()[1]}"
        )

    def _end(self) -> Iterator[str]:
        state = self.failure.state
        label = "" if state.is_kraft else f"{state.partition_state(self.row).label}; "
        yield f"{label}{self._sentence(state)}"
        after = self.failure.impact.after
        if after.flags("offline")[self.row]:
            yield "offline: it has no live leader, so nobody can read it or write to it"
            return
        needed = self._min_isr()[0]
        what = "under" if after.flags("under_min_isr")[self.row] else "at"
        if what == "under" or after.flags("at_min_isr")[self.row]:
            then = "are refused" if what == "under" else "are still taken"
            yield f"{what} min ISR (needs {needed}): writes with acks=all {then}"
        if after.flags("under_replicated")[self.row]:
            yield "under-replicated: an assigned replica is not in sync"

    def _note_liveness(self, up: Sequence[bool], shutting_down: Sequence[bool]) -> None:
        """Note who is live while an event is handled."""
        fences = self.state.is_kraft
        self.up = {
            broker: "shutting down" if is_up and leaving else "live" if is_up
            else "fenced" if fences and registered else "not registered"
            for broker, is_up, leaving, registered in zip(
                self.state.broker_id.tolist(), up, shutting_down, self.state.registered.tolist(),
                strict=True,
            )
        }

    def _min_isr(self) -> tuple[int, str]:
        state, topic = self.state, self.state.topic_row[self.row]
        value = int(min_insync_replicas(state)[topic])
        needed = int(partition_min_isr(state, np.array([self.row]))[0])
        source = "of the topic" if is_topic_min_isr(state)[topic] else "by the brokers' default"
        cut = "" if needed == value else f", {needed} with this many replicas"
        return needed, f"{value} {source}{cut}"

    def _unclean(self) -> tuple[bool, str]:
        state = self.state
        override = int(state.topic_unclean_leader_election[state.topic_row[self.row]])
        value = bool(override) if override >= 0 else state.default_unclean_leader_election
        source = "by the topic" if override >= 0 else "by the brokers' default"
        return value, f"{'allowed' if value else 'not allowed'} {source}"

    # --- one event ----------------------------------------------------------------------------

    def _event(self, event: EventOutcome) -> Iterator[str]:
        self._note_liveness(event.up.tolist(), event.shutting_down.tolist())
        outcome = event.outcome
        assert isinstance(outcome, Outcome)
        tables = {name: self._rows_of(getattr(outcome, name)) for name in FULL_TABLES[:-1]}
        recipients = outcome.update_metadata_brokers.to_pylist()
        for number, step in enumerate(outcome.steps.to_pylist(), 1):
            of_step = {
                name: [row for row in rows if row["step"] == step["step"]]
                for name, rows in tables.items()
            }
            everyone = [row["broker_id"] for row in recipients if row["step"] == step["step"]]
            lines = [*self._step(of_step), *self._sent(of_step, everyone)]
            if lines:
                yield f"{number}. {step['action']}"
                yield from (f"   {line}" for line in lines)

    def _rows_of(self, table: Any) -> list[Row]:
        topic = pc.equal(table["topic"], self.topic)
        partition = pc.equal(table["partition"], self.partition)
        rows: list[Row] = table.filter(pc.and_(topic, partition)).to_pylist()
        return rows

    def _step(self, of_step: dict[str, list[Row]]) -> Iterator[str]:
        """Transitions, elections and refusals of one step, then what replicas did to the ISR."""
        for row in of_step["elections"]:
            yield from self._election(row)
        for row in of_step["refusals"]:
            who = "partition" if row["broker_id"] is None else f"replica on {row['broker_id']}"
            why = _REFUSED.get(row["code"], row["code"])
            yield f"{who} stays {row['from_state']}, not {row['to_state']}: {why} ({row['error']})"
        for row in of_step["transitions"]:
            change = f"{row['from_state']} -> {row['to_state']}"
            if row["broker_id"] is not None:
                yield f"replica on {row['broker_id']} ({self.up[row['broker_id']]}): {change}"
            elif row["to_state"] == "OfflinePartition":
                yield f"partition: {change}, for {self._leaderless()}"
            else:
                yield f"partition: {change}"
        if not of_step["elections"]:
            yield from self._shrinks(of_step["additions"])

    def _leaderless(self) -> str:
        leader = -1 if self.record is None else self.record.leader
        return f"its leader {leader} is {self.up[leader]}" if leader >= 0 else "it has no leader"

    def _election(self, row: Row) -> Iterator[str]:
        isr = set(row["isr_before"])
        if row["strategy"] == "INITIALIZATION":
            yield f"new partition; its replicas in order: {self._candidates(None)}"
        else:
            yield f"election {row['strategy']}; replicas in order: {self._candidates(isr)}"
        if not Code[row["code"]].succeeded:
            live = [b for b in isr if self.up.get(b) == "live"]
            why = "no member of the ISR is live" if not live else "no live replica is in the ISR"
            if row["strategy"] == "OFFLINE":
                why += f", and unclean leader election is {self._unclean()[1]}"
            yield f"{why}: the partition gets no leader"
            return
        old = self.record
        self.record = _leadership(row, 0)
        yield f"leader is {row['leader']}: {self._reason(row)}"
        epoch = "" if old is None else f"{old.leader_epoch} -> "
        yield (
            f"ISR {_ids(row['isr_before'])} -> {_ids(row['isr'])}; "
            f"leader epoch {epoch}{row['leader_epoch']}"
        )

    def _candidates(self, isr: set[int] | None) -> str:
        candidates = []
        for broker in self.replicas:
            place = "" if isr is None else ", in the ISR" if broker in isr else ", not in the ISR"
            candidates.append(f"{broker} ({self.up[broker]}{place})")
        return "; ".join(candidates)

    def _reason(self, row: Row) -> str:
        if row["unclean"]:
            return (
                "no member of the ISR is live; unclean leader election is "
                f"{self._unclean()[1]}, so the first live replica leads, alone in the ISR, and "
                "what it lacks is lost"
            )
        if row["strategy"] == "INITIALIZATION":
            return "the first live replica; the live ones are the ISR"
        return "the first replica that is live and in the ISR"

    def _shrinks(self, additions: list[Row]) -> Iterator[str]:
        """What each OfflineReplica did to the record: the LeaderAndIsr that follows says it."""
        broker: int | None = None
        for row in additions:
            if row["kind"] == "StopReplica":
                broker = row["to"][0]
            elif row["kind"] == "LeaderAndIsr" and broker is not None:
                yield self._shrink(broker, row)
                broker = None

    def _shrink(self, broker: int, row: Row) -> str:
        old = self.record
        self.record = _leadership(row, row["controller_epoch"])
        if old is None or old.leader_epoch == row["leader_epoch"]:
            return f"{broker} is not in the ISR ({_ids(row['isr'])}): the record stays as it is"
        if broker in row["isr"]:
            change = f"{broker} is the last member of the ISR, which is never emptied"
        else:
            change = f"{broker} leaves the ISR: {_ids(old.isr)} -> {_ids(row['isr'])}"
        if old.leader != row["leader"]:
            change += f"; it led, so the leader is {_leader(row['leader'])}"
        return f"{change}; leader epoch {old.leader_epoch} -> {row['leader_epoch']}"

    def _sent(self, of_step: dict[str, list[Row]], everyone: list[int]) -> Iterator[str]:
        """Requests of one step that name the partition, and those that nobody is there to get."""
        sent = {
            kind: [row["broker_id"] for row in of_step["requests"] if row["kind"] == kind]
            for kind in ("LeaderAndIsr", "StopReplica")
        }
        parts = [f"{kind} to {_ids(brokers)}" for kind, brokers in sent.items() if brokers]
        if of_step["update_metadata"] and everyone:
            parts.append(f"UpdateMetadata to all {len(everyone)} registered brokers")
        if parts:
            yield f"sent: {'; '.join(parts)}"
        dropped = {
            (row["kind"], broker)
            for row in of_step["additions"]
            for broker in row["to"] or ()
            if broker not in sent.get(row["kind"], ())
        }
        if dropped:
            requests = "; ".join(f"{kind} to {broker}" for kind, broker in sorted(dropped))
            yield f"not sent, for the broker is not registered: {requests}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _leadership(row: Row, controller_epoch: int) -> Leadership:
    return Leadership(
        row["leader"], row["leader_epoch"], tuple(row["isr"]), row["recovery"], row["version"],
        controller_epoch,
    )


def _leader(leader: int) -> str:
    return str(leader) if leader >= 0 else "none"


def _record(record: Leadership | None) -> str:
    if record is None:
        return "no leadership yet"
    recovering = "; leader recovery state RECOVERING" if record.recovery else ""
    return (
        f"leader {_leader(record.leader)}; ISR {_ids(record.isr)}; "
        f"leader epoch {record.leader_epoch}{recovering}"
    )
