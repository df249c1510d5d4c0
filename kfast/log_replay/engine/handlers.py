"""Run the events of a script through the controller of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kfast.journal import Outcome
from kfast.log_replay.engine.last_isr_members import (
    Survivors,
    keep_survivors,
    named_survivors,
    say_in_order,
)
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.engine.stored_records import lent, write_isr
from kfast.log_replay.engine.topic_deletion import delete, deleted, queue, topic_names
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.wording.values import Partition, distinct
from kfast.schema import FLAG_BEING_REASSIGNED

Result = Outcome | list[Outcome] | None
"""What the calls of an event lead to: most events are one call, or none."""

MOST_WRITES = 8
"""More ISR writes than this at one time are not believed."""


def run(simulation: Simulation, event: LogEvent) -> Ran:
    """Run one event; what it did is kept in the simulation."""
    result: Result = None
    survivors: Survivors = {}
    if simulation.has_room_for(event):
        before = BEFORE.get(event.kind)
        simulation.written = before(simulation, event) if before is not None else []
        if event.fields.get("cut"):
            simulation.note_cut(event)
        survivors = named_survivors(simulation, event)
        with lent(simulation, event):
            result = RUN[event.kind](simulation, event)
    outcomes = result if isinstance(result, list) else [] if result is None else [result]
    ran = simulation.note(event, outcomes)
    ran.last_members = tuple(keep_survivors(simulation, event, survivors))
    say_in_order(simulation, event)
    return ran


def _failover(simulation: Simulation, event: LogEvent) -> Outcome:
    state, term = simulation.state, event.term
    brokers = event.fields["registered"]
    if brokers is not None:
        simulation.set_brokers(brokers)
    state.controller_id = term.controller
    if event.fields.get("to_delete") is not None:
        queue(simulation, event.fields["to_delete"])
    simulation.move(event.fields.get("moving", {}))
    return simulation.controller.on_controller_failover(reassignments=_targets(simulation, event))


def _resume(simulation: Simulation, event: LogEvent) -> None:
    """The log goes on in the middle of a term, or only state-change.log begins there."""
    simulation.queue(event.fields.get("queued", ()))
    simulation.move(event.fields.get("moving", {}))
    if event.fields.get("only_states"):
        return
    state, term = simulation.state, event.term
    brokers = event.fields["registered"]
    if brokers is None:
        brokers = dict.fromkeys(state.broker_id.tolist(), 0)
    simulation.set_brokers(brokers)
    state.controller_id = term.controller
    if term.epoch is not None:
        state.controller_epoch = state.epoch_store_version = term.epoch


def _brokers(simulation: Simulation, event: LogEvent) -> Outcome:
    fields, registered = event.fields, simulation.registered
    epochs = fields.get("epochs", {})

    def with_epochs(brokers: set[int]) -> dict[int, int]:
        last = simulation.controller.registered_epoch
        return {b: epochs.get(b) or (last(b) or 0) + 1 for b in sorted(brokers)}

    added = set(fields["added"])
    return simulation.controller.on_broker_change(
        with_epochs(added - registered),
        with_epochs((set(fields["bounced"]) | added) & registered),
        sorted(set(fields["deleted"]) & registered),
    )


def _shutdown(simulation: Simulation, event: LogEvent) -> Outcome | None:
    broker = event.fields["broker"]
    is_known = broker in simulation.registered
    return simulation.controller.controlled_shutdown(broker) if is_known else None


def _topics(simulation: Simulation, event: LogEvent) -> list[Outcome]:
    """Topics come and go, or get partitions."""
    created: dict[str, dict[int, list[int]]] = {}
    for (topic, number), assigned in event.fields["created"].items():
        created.setdefault(topic, {})[number] = list(assigned.replicas)
    gone = [name for name in event.fields.get("deleted", ()) if _exists(simulation, name)]
    new = {topic: parts for topic, parts in created.items() if not _exists(simulation, topic)}
    outcomes = []
    if new or gone:
        outcomes.append(simulation.controller.on_topic_change(created=new, gone=gone))
    return outcomes + [
        simulation.controller.on_partition_modifications(topic, parts)
        for topic, parts in created.items() if topic not in new
    ]


def _exists(simulation: Simulation, topic: str) -> bool:
    state = simulation.state
    row = state.lookup.topic_or_none(topic)
    return row is not None and bool(state.topic_exists[row])


def _isr(simulation: Simulation, event: LogEvent) -> Result:
    """Leaders changed ISRs: by request, or by themselves with a notification."""
    state = simulation.state
    moving = state.n_reassigned
    if event.fields.get("completes_later"):  # No reassignment ends: another line says when.
        state.n_reassigned = 0
    result: Result = _notified(simulation, event) if _is_notified(simulation, event) else (
        _altered(simulation, _wanted(simulation, event))
    )
    state.n_reassigned = moving
    return result


def _is_notified(simulation: Simulation, event: LogEvent) -> bool:
    """Whether leaders wrote, and let the controller know; else they ask it to write."""
    return bool(event.fields.get("notified")) or (
        event.inferred and not simulation.controller.profile.has_alter_partition
    )


def _wanted(simulation: Simulation, event: LogEvent) -> dict[int, tuple[Any, int | None]]:
    """ISR and version that each row is to have; None where no line says it.

    What is refused, or was written before, has the effect of a proposal of the ISR that there is.
    """
    updates = event.fields.get("updates", {})
    unchanged = event.fields.get("unchanged", ())
    return {
        row: (record.isr, None) if partition in unchanged else updates.get(partition, (None, None))
        for partition in event.fields["partitions"] for row in simulation.rows_of(partition)
        if (record := simulation.state.leadership(row)) is not None
    }


def _altered(simulation: Simulation, wanted: dict[int, Any]) -> list[Outcome]:
    """AlterPartition: a request by each leader."""
    outcomes, leaders = [], simulation.leaders()
    groups: dict[int, list[int]] = {}
    for row, (isr, _) in wanted.items():
        if isr is not None and leaders[row] >= 0:
            groups.setdefault(leaders[row], []).append(row)
    for leader, rows in sorted(groups.items()):
        records = simulation.state.records[rows]
        epoch = simulation.controller.registered_epoch(leader)
        outcomes.append(simulation.controller.alter_partition(
            leader, -1 if epoch is None else epoch, rows, records["leader_epoch"].copy(),
            [wanted[row][0] for row in rows], records["version"].copy(),
        ))
    return outcomes


def _notified(simulation: Simulation, _event: LogEvent) -> Outcome | None:
    """Records changed in the store; the controller reads them again."""
    rows = np.array(sorted(simulation.written), np.int32)
    return simulation.controller.on_isr_change_notification(rows) if rows.size else None


def _rebalance(simulation: Simulation, event: LogEvent) -> Outcome | None:
    simulation.leaders_before = dict(enumerate(simulation.leaders()))
    if not simulation.alone:
        return None
    outcome = simulation.controller.rebalance_leaders(event.fields.get("percentage", 10))
    if outcome.imbalance is not None:
        rows = outcome.imbalance.to_pylist()
        simulation.imbalance = {row["broker_id"]: row["ratio"] for row in rows}
    return outcome


def _election(simulation: Simulation, event: LogEvent) -> Outcome | None:
    fields = event.fields
    if fields["trigger"] == "AutoTriggered" and simulation.alone:
        return None
    rows = [row for partition in fields["partitions"] for row in simulation.rows_of(partition)
            if simulation.state.leadership(row) is not None]
    if not rows:
        return None
    kind = "unclean" if fields["type"] == "UNCLEAN" else "preferred"
    trigger = "AdminClient" if fields["trigger"].startswith("AdminClient") else "ZkTriggered"
    return simulation.controller.elect_leaders(np.array(sorted(rows), np.int32), kind, trigger)


def _reassign(simulation: Simulation, event: LogEvent) -> Outcome | None:
    targets = _targets(simulation, event)
    return simulation.controller.reassign_partitions(targets) if targets else None


def _targets(simulation: Simulation, event: LogEvent) -> dict[tuple[str, int], list[int]]:
    """Replicas that an event is asked to give to partitions, by the names of their rows."""
    targets = event.fields.get("targets", {})
    simulation.targets.update(targets)
    return {
        (simulation.possibility[row].topic, partition[1]): list(target)
        for partition, target in targets.items() for row in simulation.rows_of(partition)
        if simulation.waiting.get(row) != tuple(target)  # A failover has gone on with it.
    }


def _caught_up(simulation: Simulation, event: LogEvent) -> Outcome | None:
    """All targets of a reassignment are in the ISR, which its leader wrote: it goes on."""
    rows = np.array(_moving(simulation, event), np.int32)
    return simulation.controller.on_partition_reassignment(rows) if rows.size else None


def _moving(simulation: Simulation, event: LogEvent) -> list[int]:
    flags = simulation.state.records["flags"]
    return sorted(
        row for row in simulation.rows_of(event.fields["partition"])
        if simulation.state.leadership(row) is not None
        and int(flags[row]) & FLAG_BEING_REASSIGNED
    )


def _dir_failure(simulation: Simulation, event: LogEvent) -> Outcome:
    brokers = [broker for broker in event.fields["brokers"] if broker in simulation.registered]
    return simulation.controller.on_broker_log_dir_failure(brokers)


def _dir_answer(simulation: Simulation, event: LogEvent) -> Outcome | None:
    rows = [row for p in event.fields["partitions"] for row in simulation.rows_of(p)]
    broker = event.fields["broker"]
    if not rows or broker not in simulation.registered:
        return None
    return simulation.controller.on_leader_and_isr_response(
        broker, offline=np.array(sorted(rows), np.int32)
    )


def _unclean(simulation: Simulation, event: LogEvent) -> Outcome:
    topics = event.fields["topics"]
    names = None if topics is None else topic_names(simulation, tuple(topics))
    return simulation.controller.enable_unclean_leader_election(names)


def _modified(simulation: Simulation, _event: LogEvent) -> Outcome:
    return simulation.controller.on_broker_modification(sorted(simulation.registered))


# --- what leaders wrote before an event -----------------------------------------------------------


def _leaders_wrote(simulation: Simulation, event: LogEvent) -> list[int]:
    """ISRs that leaders wrote before they notified the controller; the rows concerned.

    Where no line says an ISR, all live replicas are supposed to have caught up.
    """
    if not _is_notified(simulation, event):
        return []
    wanted = _wanted(simulation, event)
    supposed = event.fields.setdefault("supposed", frozenset(
        simulation.possibility[row].partition for row, (isr, _) in wanted.items()
        if isr is None and row not in simulation.unread
    ))
    for row, (isr, version) in wanted.items():
        record = simulation.stored_record(row)
        assert record is not None
        possibility = simulation.possibility[row]
        members = record.isr if isr is None else isr
        if isr is None and row not in simulation.unread and possibility.partition in supposed:
            members = distinct((*members, *_online(simulation, row)))
        n_writes = event.fields.get("n_writes", {}).get(possibility.partition, 0)
        if possibility.written_at == event.at:  # They stand before the event already.
            n_writes = 0
        n_raised = max(set(members) != set(record.isr), n_writes)
        if version is not None and not possibility.unknown()[1]:
            n_raised = max(version - record.version, 0)
        if n_raised:
            write_isr(simulation, row, members, n_raised)
    return list(wanted)


def _targets_caught_up(simulation: Simulation, event: LogEvent) -> list[int]:
    """The leader wrote an ISR with all targets of a reassignment."""
    for row in _moving(simulation, event):
        record, assigned = simulation.stored_record(row), simulation.state.assignment(row)
        assert record is not None
        target = event.fields["replicas"] or simulation.targets.get(
            event.fields["partition"], assigned.target
        )
        _write_isr(simulation, row, distinct((*record.isr, *target)), event)
    return []


def _write_isr(simulation: Simulation, row: int, isr: Sequence[int], event: LogEvent) -> None:
    """A leader writes its ISR into the store.

    How many writes it took, the next line tells that says epoch and version: all other writes
    raise both.
    """
    record = simulation.stored_record(row)
    assert record is not None
    possibility = simulation.possibility[row]
    same = set(isr) == set(record.isr)
    writes = event.fields.get("writes", {}).get(possibility.partition, 1)
    ahead = event.fields.get("ahead", {}).get(possibility.partition)
    as_many = event.fields.setdefault("as_many", set())
    if any(possibility.unknown()[:2]):
        as_many.add(possibility.origin)
    if possibility.origin in as_many:  # What it counts from is found with as many writes.
        ahead = None
    if ahead is not None:
        epoch, version = ahead
        n_raised = (version - record.version) - (epoch - record.leader_epoch)
        writes = n_raised if 1 <= n_raised <= MOST_WRITES else int(n_raised < 1 and not same)
    elif same:
        writes = 0
    if writes:  # Else it was written before, as far as the lines tell.
        possibility.written_at = event.at
        write_isr(simulation, row, isr, writes, is_late=event.fields.get("within", False))


def _hidden_isr(simulation: Simulation, event: LogEvent) -> list[int]:
    """Leaders changed the ISRs of so many partitions; which ones, no line says.

    Where exactly so many partitions have a live replica out of sync, it is they: their leaders
    report that all live replicas have caught up. While partitions are being reassigned it may be
    one of these, whose new replicas catch up one after the other. The event keeps who they are
    supposed to be: some are left out again where later records disagree.
    """
    behind = _rows_behind(simulation)
    if "supposed" not in event.fields:
        event.fields["supposed"] = _supposed(simulation, event, behind)
    rows = [row for row in behind
            if simulation.possibility[row].partition in event.fields["supposed"]]
    for row in rows:
        write_isr(simulation, row, _online(simulation, row))
    return rows


def _supposed(
    simulation: Simulation, event: LogEvent, behind: Sequence[int]
) -> frozenset[Partition]:
    """Partitions of the rows that are behind, if these are no more than were to be named."""
    if np.any(simulation.state.records["flags"] & FLAG_BEING_REASSIGNED):
        return frozenset()
    partitions = frozenset(simulation.possibility[row].partition for row in behind)
    simulation.hidden += event.fields["n"]
    if simulation.hidden < len(partitions):
        return frozenset()
    simulation.hidden = 0
    return partitions


def _rows_behind(simulation: Simulation) -> list[int]:
    """Rows whose leader is live, and whose live replicas are not their ISR."""
    behind = []
    for row, _ in simulation.existing():
        record = simulation.stored_record(row)
        online = set(_online(simulation, row))
        if record is not None and record.leader in online and online != set(record.isr):
            behind.append(row)
    return behind


def _online(simulation: Simulation, row: int) -> list[int]:
    """Replicas of a row whose broker is live, and has not lost their log directory."""
    state = simulation.state
    return [b for b in state.assignment(row).replicas if state.is_replica_online(b, row)]


def _isr_written(simulation: Simulation, event: LogEvent) -> list[int]:
    """Leaders wrote ISRs into the store, and the controller has not heard of it yet.

    Where no line says which, some replicas have left, or all live ones have caught up.
    """
    left = event.fields.get("left", {})
    for partition, isr in event.fields["updates"].items():
        for row in simulation.rows_of(partition):
            record = simulation.stored_record(row)
            if record is not None:
                stayed = set(record.isr) - left.get(partition, set()) or record.isr
                members = isr or (stayed if left else simulation.live)
                ordered = [b for b in simulation.state.assignment(row).replicas if b in members]
                _write_isr(simulation, row, ordered, event)
    return []


BEFORE: dict[str, Callable[[Simulation, LogEvent], list[int]]] = {
    "isr": _leaders_wrote, "caught_up": _targets_caught_up, "hidden_isr": _hidden_isr,
    "isr_written": _isr_written,
}
"""What leaders write before each kind of event; gives the rows that the event is about."""

RUN: dict[str, Callable[[Simulation, LogEvent], Result]] = {
    "failover": _failover, "resume": _resume, "brokers": _brokers, "shutdown": _shutdown,
    "topics": _topics, "partitions": _topics, "isr": _isr, "rebalance": _rebalance,
    "election": _election, "reassign": _reassign, "caught_up": _caught_up, "delete": delete,
    "deleted": deleted,
    "dir_failure": _dir_failure, "dir_answer": _dir_answer, "unclean": _unclean,
    "modified": _modified, "hidden_isr": _notified, "isr_written": lambda _simulation, _event: None,
}
"""What runs each kind of event."""
