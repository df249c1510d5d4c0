"""A broker becomes controller: it loads what is stored, starts the machines and elects.

Source: docs/controller.md, section 6.1; Kafka 3.9, `KafkaController.onControllerFailover`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfast import arguments, schema
from kfast.controllers.reassignment_requests import Reassignments, parse
from kfast.controllers.zk import fused_events, leader_election, reassignment, topic_deletion
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.journal import Outcome
from kfast.schema import PartitionState
from kfast.state import ClusterState, mutators
from kfast.state.arrays import first_slots
from kfast.state.records import EMPTY_ROWS

EVENT = "on_controller_failover"


def on_controller_failover(
    engine: ZkEngine, preferred_election: Sequence[tuple[str, int]] | None,
    reassignments: Reassignments | None,
) -> Outcome:
    """Become controller: load, give every replica and partition a state, elect (section 6.1)."""
    node = {} if reassignments is None else reassignments
    requests = parse(engine.state, node, node=True)
    if preferred_election is not None:
        arguments.partition_keys("preferred_election", preferred_election)
    engine.active = True
    state = engine.state

    def steps() -> None:
        _elect_self(engine)
        reassignment.load_reassignment_node(engine, requests)
        _load_context(engine)
        engine.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)
        _start_machines(engine)
        engine.checked(engine.partition_state_machine.trigger_online())
        reassignment.resume_reassignments(engine, requests)
        topic_deletion.resume_deletions(engine)
        if preferred_election is not None:
            leader_election.elect_pending(engine, preferred_election)

    outcome = engine.attempt(EVENT, steps)
    engine.active = engine.active and outcome.error is None
    return outcome


def _elect_self(engine: ZkEngine) -> None:
    state = engine.state
    if engine.store is None:
        state.controller_epoch += 1
        state.epoch_store_version += 1
    else:
        state.controller_epoch, state.epoch_store_version = engine.store.elect_controller()


def _start_machines(engine: ZkEngine) -> None:
    """Steps 7 and 8 of section 6.1, as far as no partition needs a leader."""
    if engine.way_of(EVENT) is ExecutionMode.FUSED:
        fused_events.start_machines(engine)
        reassignment.mark_reassigned(engine)
        return
    started = engine.replica_state_machine.start(reset=True)
    reassignment.mark_reassigned(engine)
    engine.checked(started)
    engine.state.index_hosting()
    engine.partition_state_machine.initialize()


def _load_context(engine: ZkEngine) -> None:
    """Steps 4 to 6 of section 6.1: what the new controller knows.

    What it forgets of each partition is forgotten by the replica machine's start, which visits
    every row anyway.
    """
    state, store = engine.state, engine.store
    state.forget_survey()
    state.broker_status &= schema.BROKER_REGISTERED
    state.offline_partition_count = 0
    if state.any_offline_dir:
        state.records["offline_dir"] = 0
        state.any_offline_dir = False
    for row, written in state.unwritten_assignments.items():
        state.set_assignment(row, written.replicas, written.adding, written.removing)
    state.unwritten_assignments.clear()
    engine.deletion_hints.clear()
    if store is not None:
        store.load_leadership()
    state.topic_flags &= 255 - schema.TOPIC_STARTED - schema.TOPIC_INELIGIBLE
    any_queued = state.any_queued
    if any_queued:
        _begin_deletion_manager(state)
    if store is not None or any_queued:
        state.records["partition_state"] = PartitionState.NO_ENTRY
        state.recount()


def _begin_deletion_manager(state: ClusterState) -> None:
    """`init` of section 6.12: which queued topics are ineligible; or the markers are removed."""
    moving = (state.records["adding"] != 0) | (state.records["removing"] != 0)
    queued = state.topic_queued_for_deletion
    flags = state.topic_flags[: state.n_topics]
    if not state.delete_topic_enabled:
        flags &= 255 - schema.TOPIC_QUEUED
        mutators.note_queued(state)
        return
    rows = np.arange(state.n_partitions, dtype=np.int32)
    dead = (first_slots(state.records["n_replicas"]) & ~state.live_slots(rows)) != 0
    moving[list(state.reassignment_targets)] = True
    halted = np.unique(state.topic_row[dead | moving])
    flags[halted[queued[halted]]] |= schema.TOPIC_INELIGIBLE
