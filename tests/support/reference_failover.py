"""What a new controller does before its machines start (docs/controller.md, section 6.1)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.reference_context import Context, Partition, Record
from tests.support.reference_store import Store, TwinStore


def take_over_epoch(ctx: Context, store: Store) -> None:
    """Section 6.1, step 1: one more than the stored epoch."""
    if isinstance(store, TwinStore):
        store.elect_controller()
        ctx.epoch = store.controller_epoch
        ctx.epoch_store_version = store.epoch_version
    else:
        ctx.epoch += 1
        ctx.epoch_store_version += 1


def load_context(
    ctx: Context, store: Store, legacy_node: Mapping[Partition, tuple[int, ...]]
) -> set[str]:
    """Section 6.1, step 4: a new controller's context is empty; what it knows comes from the store.

    A new assignment that was not written before its controller left (section 6.7, B2) is lost.

    Answers the topics with a deletion marker: those that were queued.
    """
    queued = set(ctx.topics_to_delete)
    for forgotten in (ctx.shutting_down, ctx.offline_dir_replicas, ctx.partition_states,
                      ctx.replica_states, ctx.topics_to_delete, ctx.topics_deletion_started,
                      ctx.topics_ineligible):
        forgotten.clear()
    ctx.assignments |= ctx.unwritten_assignments
    ctx.unwritten_assignments.clear()
    if isinstance(store, TwinStore):
        ctx.leadership = {
            p: record
            for p in ctx.assignments
            if isinstance(record := store.records.get(p), Record)
        }
    ctx.being_reassigned = {p for p, a in ctx.assignments.items() if a.being_reassigned}
    ctx.reassignment_targets.clear()
    if not ctx.profile.cancels_reassignments:
        ctx.reassignment_targets |= {p: t for p, t in legacy_node.items() if p in ctx.assignments}
        ctx.being_reassigned = set(ctx.reassignment_targets)
    ctx.offline_partition_count = 0
    ctx.preferred_imbalance_count = sum(ctx.is_imbalanced(p) for p in ctx.leadership)
    return queued


def ineligible_topics(ctx: Context) -> set[str]:
    """Section 6.1, step 5: a replica is not online, or a partition is being reassigned."""
    offline = {p[0] for p, b in ctx.assigned_replicas() if not ctx.is_replica_online(b, p)}
    return offline | {p[0] for p in ctx.being_reassigned}
