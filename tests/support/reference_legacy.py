"""Reassignment before Kafka 2.4 in plain Python (docs/controller.md, section 8.1).

Targets are kept apart from the assignment, which is one list: old and new replicas together while
the reassignment runs. The reassignment node is the only way to ask for one.
"""

from __future__ import annotations

from collections.abc import Mapping

from kfast.schema import ReassignmentCode, ReplicaState
from tests.support.reference_context import Assignment, Partition
from tests.support.reference_core import Core, EventFailedError
from tests.support.reference_reassignment import (
    move_leader,
    read_record,
    stop_removed,
    touch,
    write_assignment,
)

from . import reference_deletion as deletion


def start_all(
    core: Core, node: Mapping[Partition, tuple[int, ...]]
) -> dict[Partition, ReassignmentCode]:
    """All partitions of the node are being reassigned; those that cannot be leave it again."""
    for p, wanted in node.items():
        if p in core.ctx.assignments:
            core.ctx.reassignment_targets[p] = wanted
            core.ctx.being_reassigned.add(p)
    codes = {}
    for p in sorted(node, key=core.rank):
        codes[p] = start(core, p)
        if codes[p] != ReassignmentCode.STARTED:
            leave(core, p)
    return codes


def start(core: Core, p: Partition) -> ReassignmentCode:
    """The checks, then the work: what is assigned as wanted is left alone."""
    replicas = core.ctx.assignment(p).replicas
    if core.ctx.is_queued(p) or not replicas:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    if replicas == core.ctx.reassignment_targets[p]:
        return ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    try:
        reassign(core, p)
    except EventFailedError as failed:
        core.mark(f"reassignment raised {failed.error}")
        return ReassignmentCode.UNKNOWN_SERVER_ERROR
    return ReassignmentCode.STARTED


def leave(core: Core, p: Partition) -> None:
    """The partition leaves the node, and is not being reassigned any more."""
    core.legacy_node.pop(p, None)
    core.ctx.reassignment_targets.pop(p, None)
    core.ctx.being_reassigned.discard(p)


def is_complete(core: Core, p: Partition) -> bool:
    """All targets are in the stored ISR."""
    record = read_record(core, p)
    return record is not None and set(core.ctx.reassignment_targets[p]) <= set(record.isr)


def reassign(core: Core, p: Partition) -> None:
    """Begin, or complete."""
    core.mark("reassignment of a queued topic" if core.ctx.is_queued(p) else "reassignment")
    replicas, target = core.ctx.assignment(p).replicas, core.ctx.reassignment_targets[p]
    if is_complete(core, p):
        complete(core, p, replicas, target)
        return
    core.mark("reassignment begun")
    union = tuple(dict.fromkeys((*target, *replicas)))
    assign(core, p, union)
    touch(core, p, Assignment(union), union)
    for b in target:
        if b not in replicas:
            core.replicas().handle([(p, b)], ReplicaState.NEW)


def complete(
    core: Core, p: Partition, replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """All targets are online; they lead, and the others go."""
    for b in target:
        core.replicas().handle([(p, b)], ReplicaState.ONLINE)
    core.ctx.unwritten_assignments.setdefault(p, core.ctx.assignment(p))
    core.ctx.set_assignment(p, Assignment(target))
    move_leader(core, p, Assignment(target), dict.fromkeys((*target, *replicas)))
    stop_removed(core, p, [b for b in replicas if b not in target])
    assign(core, p, target)
    leave(core, p)
    core.mark("reassignment completed")
    core.send_update_metadata(core.ctx.registered, [p])
    deletion.resume_deletion_for(core, [p[0]])


def assign(core: Core, p: Partition, replicas: tuple[int, ...]) -> None:
    """In memory first, then in the topic node."""
    core.ctx.unwritten_assignments.setdefault(p, core.ctx.assignment(p))
    core.ctx.set_assignment(p, Assignment(replicas))
    write_assignment(core, p)
