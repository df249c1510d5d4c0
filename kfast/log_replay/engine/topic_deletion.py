"""Run what deletes topics: the request, and the answers of brokers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kfast.journal import Outcome
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.events import LogEvent
from kfast.schema import TOPIC_QUEUED, ReplicaState
from kfast.state import mutators


def topic_names(simulation: Simulation, topics: tuple[str, ...]) -> list[str]:
    """Topics of all rows of some topics."""
    return sorted({
        simulation.possibility[row].topic
        for partition, rows in simulation.rows.items() if partition[0] in topics for row in rows
    })


def delete(simulation: Simulation, event: LogEvent) -> Outcome:
    """Topics are to be deleted."""
    return simulation.controller.delete_topics(topic_names(simulation, event.fields["topics"]))


def queue(simulation: Simulation, topics: tuple[str, ...]) -> None:
    """Let exactly these topics have a deletion marker, as a new controller reads them."""
    state = simulation.state
    simulation.queued_before = simulation.queued
    state.topic_flags &= 255 - TOPIC_QUEUED
    mutators.note_queued(state)
    state.queue_topic_deletion(topic_names(simulation, topics))


def deleted(
    simulation: Simulation, event: LogEvent
) -> Outcome | list[Outcome] | None:
    """A broker answers that it deleted replicas, or failed to: those that a line names.

    Where no line names any, the next broker answers, or each that it deleted all.
    """
    failures = event.fields.get("failures")
    if failures is not None:
        return _answered(simulation, failures)
    if "halted" in event.fields:
        return _answered(simulation, _next_answer(
            simulation, event.fields["halted"], event.fields["refused_by"]
        ))
    return simulation.controller.acknowledge_deletions()


def _answered(
    simulation: Simulation, failures: Mapping[tuple[str, int, int], bool]
) -> list[Outcome]:
    """Brokers answer for some replicas; which of them failed."""
    outcomes = []
    answers: dict[int, dict[int, bool]] = {}
    for (topic, number, broker), failed in failures.items():
        for row in simulation.rows_of((topic, number)):
            answers.setdefault(broker, {})[row] = failed
    for broker, rows in sorted(answers.items()):
        if broker in simulation.state.broker_id:
            outcomes.append(simulation.controller.on_stop_replica_response(
                broker, np.array(sorted(rows), np.int32),
                np.array(sorted(row for row, failed in rows.items() if failed), np.int32),
            ))
    return outcomes


def _next_answer(
    simulation: Simulation, halted: tuple[str, ...], refused_by: frozenset[int]
) -> dict[tuple[str, int, int], bool]:
    """The first answer that is due, of which lines say no more than whose deletion it halts.

    `refused_by` are the brokers that did not delete all they were asked to, where later lines tell.
    """
    state = simulation.state
    queued = state.topic_queued_for_deletion
    started = [
        (possibility.partition, broker)
        for row, possibility in enumerate(simulation.possibility)
        if int(state.partition[row]) >= 0 and queued[state.topic_row[row]]
        for broker, at in state.replica_states_of(row).items()
        if at == ReplicaState.DELETION_STARTED
    ]
    brokers = {broker for partition, broker in started if partition[0] in halted or not halted}
    likely = brokers & refused_by if halted else brokers - refused_by
    answering = min(likely or brokers, default=None)
    return {(*partition, broker): partition[0] in halted
            for partition, broker in started if broker == answering}
