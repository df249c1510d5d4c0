"""Seeded random faults of the store, for the events that may meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.schema import ReplicaState
from tests.support.event import Event, created_by
from tests.support.random_clusters import some
from tests.support.reference import Partition

if TYPE_CHECKING:
    from tests.support.random_events import Generator

WHOLE_CALL = {
    "read_states": ("throw",), "create_states": ("throw", "controller_moved"),
    "update_states": ("throw", "controller_moved"),
    "write_assignments": ("throw", "controller_moved"),
}
PER_PARTITION = {
    "read_states": ("NONODE", "NOAUTH"), "create_states": ("NODEEXISTS", "NOAUTH"),
    "update_states": ("BADVERSION", "NOAUTH"),
}
FAULTS = frozenset(
    {(op, fault) for table in (WHOLE_CALL, PER_PARTITION) for op in table for fault in table[op]}
    | {("topic_config", "CONFIG_READ_FAILED")}
)

REASSIGNING = frozenset({
    "alter_partition_reassignments", "reassign_partitions", "on_partition_reassignment",
    "catch_up",
})
FAULTY = frozenset({
    "on_broker_change", "on_broker_failure", "on_broker_startup", "controlled_shutdown",
    "on_topic_change", "on_partition_modifications", "elect_leaders", "rebalance_leaders",
    "on_log_dir_failure", "on_leader_and_isr_response", "on_broker_log_dir_failure",
    "enable_unclean_leader_election", "move_replicas", "move_partitions", "alter_partition",
    "on_controller_failover", "delete_topics", "on_stop_replica_response",
    "acknowledge_deletions",
}) | REASSIGNING
"""Events before which faults are injected: those that ask the store through the machines."""


def operation(g: Generator, event: Event) -> str:
    """The operation that is to fail."""
    choices = ["read_states", "create_states", "update_states", "update_states", "topic_config"]
    if event.name == "alter_partition":
        choices = ["update_states"]
    if event.name in REASSIGNING:
        choices = ["read_states", "update_states", "update_states", "write_assignments"]
    if event.name == "on_controller_failover":
        choices = ["create_states", "update_states", "write_assignments"]
    creates = event.name in ("on_topic_change", "on_partition_modifications")
    if creates and g.random.random() < 0.6:
        choices = ["create_states"]
    return g.random.choice(choices)


def concerned(g: Generator, event: Event) -> list[Partition]:
    """The partitions that an event is about, or some others."""
    args = event.args
    asked = args.get("partitions") or args.get("records") or args.get("reassignments") or ()
    named = created_by(event) or [p for p in asked if p in g.ctx.assignments]
    if not named and "topics" in args:
        named = [p for p in sorted(g.ctx.assignments) if p[0] in (args["topics"] or ())][:8]
    return named if named and g.random.random() < 0.7 else g.partitions(12)


def faults(g: Generator, event: Event) -> list[Event]:
    """Faults that an event may meet; none of the same operation twice."""
    if g.store is None or event.name not in FAULTY or g.random.random() < 0.45:
        return []
    if event.name == "catch_up" and not g.ctx.profile.has_alter_partition:
        return []
    op = operation(g, event)
    named = concerned(g, event)
    if op == "topic_config":
        topics = g.random.sample(sorted(g.ctx.all_topics), 1)
        return [Event("fault", {"op": op, "fault": "CONFIG_READ_FAILED", "topics": topics})]
    by_hand = event.name == "move_replicas" and event.args["target"] == ReplicaState.OFFLINE
    if by_hand and g.random.random() < 0.2:
        # Another controller takes over in the middle of a call.
        return [Event("fault", {
            "op": "update_states", "fault": "controller_moved",
            "partitions": some(g.random, [p for p, _ in event.args["replicas"]], 1), "times": 1,
        })]
    if g.random.random() < 0.3 or op not in PER_PARTITION:
        fault = g.random.choice(WHOLE_CALL[op])
        # Which item is the first of a call that goes item by item is left to its order.
        met = named if g.ctx.profile.batch_per_partition else None
        return [Event("fault", {"op": op, "fault": fault, "partitions": met, "times": 1})]
    return [Event("fault", {
        "op": op, "fault": g.random.choice(PER_PARTITION[op]),
        "partitions": named, "times": g.random.randint(1, 2),
    })]
