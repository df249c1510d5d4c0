"""What a new controller does before its machines start (6.1 of the specification)."""

from __future__ import annotations

from .reference_context import Context, Record
from .reference_store import Store, TwinStore


def take_over_epoch(ctx: Context, store: Store) -> None:
    """6.1, step 1: one more than the stored epoch."""
    if isinstance(store, TwinStore):
        store.elect_controller()
        ctx.epoch = store.controller_epoch
        ctx.epoch_store_version = store.epoch_version
    else:
        ctx.epoch += 1
        ctx.epoch_store_version += 1


def load_context(ctx: Context, store: Store) -> None:
    """6.1, step 4: a new controller's context is empty; leadership comes from the store."""
    for forgotten in (ctx.shutting_down, ctx.offline_dir_replicas, ctx.partition_states,
                      ctx.replica_states, ctx.topics_deletion_started, ctx.topics_ineligible):
        forgotten.clear()
    ctx.being_reassigned = {p for p, a in ctx.assignments.items() if a.being_reassigned}
    if isinstance(store, TwinStore):
        stored = store.records
        ctx.leadership = {
            p: record
            for p in ctx.assignments
            if isinstance(record := stored.get(p), Record)
        }


def init_deletion(ctx: Context) -> None:
    """6.1, steps 5 and 6: with deletion disabled the markers go. Then both counters begin."""
    if not ctx.delete_topic_enabled:
        ctx.topics_to_delete.clear()
    ineligible = {p[0] for p in ctx.being_reassigned}
    ineligible |= {p[0] for p, b in ctx.assigned_replicas() if not ctx.is_replica_online(b, p)}
    ctx.topics_ineligible |= ineligible & ctx.topics_to_delete
    ctx.offline_partition_count = 0
    ctx.preferred_imbalance_count = sum(
        ctx.is_imbalanced(p) for p in ctx.leadership if not ctx.is_queued(p)
    )
