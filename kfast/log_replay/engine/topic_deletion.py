"""Run what deletes topics: the request, and the answers of brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kfast.journal import Outcome
from kfast.log_replay.engine.predictions import Order
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.wording.values import Partition
from kfast.schema import TOPIC_QUEUED, ReplicaState
from kfast.state import Replicas, mutators


def topic_names(simulation: Simulation, topics: tuple[str, ...]) -> list[str]:
    """Topics of all rows of some topics."""
    return sorted({one.topic for _, one in simulation.existing() if one.partition[0] in topics})


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

    Where no line names any, the next broker answers, or each that it deleted all: those that were
    away are asked next, until the topic is gone whose deletion a line says to be complete. Up to
    0.10 a thread goes on with deletions once several have answered (`resumes`).
    """
    failures = event.fields.get("failures")
    if failures is not None:
        return _answered(simulation, failures, resumes=event.fields.get("resumes", True))
    if "halted" in event.fields:
        return _answered(simulation, _next_answer(simulation, event))
    outcomes = [simulation.controller.acknowledge_deletions()]
    while event.fields.get("topic") in simulation.queued and outcomes[-1].actions:
        outcomes.append(simulation.controller.acknowledge_deletions())
    return outcomes


def _answered(
    simulation: Simulation, failures: Mapping[tuple[str, int, int], bool], *, resumes: bool = True
) -> list[Outcome]:
    """Brokers answer for some replicas; which of them failed."""
    outcomes = []
    answers: dict[int, dict[int, bool]] = {}
    for (topic, number, broker), failed in failures.items():
        for row in simulation.rows_of((topic, number)):
            answers.setdefault(broker, {})[row] = failed
    for broker, rows in sorted(answers.items()):
        if not resumes and not any(rows.values()):
            outcomes.append(_completed(simulation, broker, sorted(rows)))
        elif broker in simulation.state.broker_id:
            outcomes.append(simulation.controller.on_stop_replica_response(
                broker, np.array(sorted(rows), np.int32),
                np.array(sorted(row for row, failed in rows.items() if failed), np.int32),
            ))
    return outcomes


def _completed(simulation: Simulation, broker: int, rows: Sequence[int]) -> Outcome:
    """A broker has deleted some replicas, and the controller does not go on with deletions yet."""
    controller, state = simulation.controller, simulation.state
    named = np.array(rows, np.int32)
    slots = mutators.track(state, named, np.repeat(state.find_brokers([broker]), named.size))
    masks = np.uint64(1) << slots.astype(np.uint64)

    def steps() -> None:
        replicas, machine = Replicas(named, masks), controller.replica_state_machine
        controller.checked(machine.run(replicas, ReplicaState.DELETION_SUCCESSFUL))

    return controller.attempt("on_stop_replica_response", steps)


def _next_answer(simulation: Simulation, event: LogEvent) -> dict[tuple[str, int, int], bool]:
    """The answer that fits an event best, of which lines say no more than whose deletion it halts.

    Brokers answer each request for itself, in order.
    `refused_by` are the brokers that did not delete all they were asked to, where later lines tell;
    `completes` is the topic whose deletion is complete first.
    After the last answer about a topic its deletion ends, or is tried again.
    """
    halted, refused_by = event.fields["halted"], event.fields["refused_by"]
    requests = _deletion_requests(simulation, halted)
    left = Counter(topic for partitions in requests.values() for topic, _ in partitions)

    def fits(request: tuple[Order, int]) -> tuple[bool, ...]:
        topics = Counter(topic for topic, _ in requests[request])
        return (
            not halted or any(topic in halted for topic in topics),
            (request[1] in refused_by) == bool(halted),
            any(left[topic] == n for topic, n in topics.items()) == (len(event.batches) > 1),
            event.fields["completes"] in topics,
        )

    if not requests:
        return {}
    due = {broker: order for order, broker in sorted(requests, reverse=True)}
    order, broker = max(sorted((order, broker) for broker, order in due.items()), key=fits)
    return {(*partition, broker): partition[0] in halted for partition in requests[order, broker]}


def _deletion_requests(
    simulation: Simulation, halted: Collection[str]
) -> dict[tuple[Order, int], list[Partition]]:
    """Replicas that are being deleted, by the request for it and the broker that it went to.

    A broker may also refuse to delete what is not being deleted any more, as it went offline.
    """
    state = simulation.state
    queued = state.topic_queued_for_deletion
    sent: dict[tuple[str, int], Order] = {}
    replicas: list[tuple[Partition, int, int]] = []
    for row, possibility in simulation.existing():
        if not queued[state.topic_row[row]]:
            continue
        partition = possibility.partition
        for item in simulation.items_of(row, "stop_replica"):
            if item.fields["delete"]:
                key = partition[0], item.key[1]
                sent[key] = max(item.order, sent.get(key, item.order))
        replicas += [(partition, *replica) for replica in state.replica_states_of(row).items()]
    found: dict[int, dict[tuple[Order, int], list[Partition]]] = {
        ReplicaState.DELETION_STARTED: {}, ReplicaState.OFFLINE: {},
    }
    for partition, broker, at in replicas:
        order = sent.get((partition[0], broker))  # All partitions of a topic go at once.
        if order is not None and at in found:
            found[at].setdefault((order, broker), []).append(partition)
    started = found[ReplicaState.DELETION_STARTED]
    is_started = any(topic in halted for some in started.values() for topic, _ in some)
    return started if is_started or not halted else found[ReplicaState.OFFLINE]
