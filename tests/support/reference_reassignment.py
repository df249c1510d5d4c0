"""Reassignment of one partition in plain Python (docs/controller.md, sections 6.6 and 6.7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kfast.schema import PartitionState, ReplicaState, Strategy
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Assignment, Partition, Record
from tests.support.reference_core import Core, EventFailedError
from tests.support.reference_store import CONFLICT, GARBAGE, CacheStore, CallFailedError

from . import reference_deletion as deletion


def read_record(core: Core, p: Partition) -> Record | None:
    """The stored record of one partition; None where there is none that decodes."""
    try:
        found = core.store.read_states([p])[p]
    except CallFailedError:
        raise EventFailedError("StoreError") from None
    if isinstance(found, Record):
        return found
    if found in (GARBAGE, "NONODE"):
        return None
    raise EventFailedError("StoreError")


# -- section 6.6 --------------------------------------------------------------------------------


def touch(
    core: Core, p: Partition, assignment: Assignment, told: Iterable[int] | None = None
) -> None:
    """Section 6.6: one leader epoch more, and the replicas learn of the assignment.

    Before 2.7 all replicas are told alike, by default those assigned; before 2.4 the bumped record
    is not cached, unless the cache is the store.
    """
    record = raise_epoch(core, p)
    while record is None:
        record = raise_epoch(core, p)
    if core.ctx.profile.touch_is_cached or isinstance(core.store, CacheStore):
        core.ctx.put_leadership(p, record)
    written = record

    def fill(batch: RequestBatch) -> None:
        if core.ctx.profile.touch_separates_added:
            batch.add_leader_and_isr(assignment.origin, p, written, assignment, is_new=False)
            batch.add_leader_and_isr(assignment.adding, p, written, assignment, is_new=True)
        else:
            every = assignment.replicas if told is None else told
            batch.add_leader_and_isr(every, p, written, assignment, is_new=False)

    core.send(fill)


def raise_epoch(core: Core, p: Partition) -> Record | None:
    """Section 6.6, step 1, one attempt; None is a version conflict."""
    found = read_record(core, p)
    if found is None:
        raise EventFailedError("IllegalState")
    if found.controller_epoch > core.ctx.epoch:
        raise EventFailedError("StateChangeFailed")
    wanted = replace(found.new_leader(found.leader), controller_epoch=core.ctx.epoch)
    try:
        written = core.store.update_states({p: wanted}, core.ctx)[p]
    except CallFailedError:
        raise EventFailedError("StoreError") from None
    if isinstance(written, Record):
        return written
    if written == CONFLICT:
        return None
    raise EventFailedError("StoreError")


# -- 6.7, one partition -------------------------------------------------------------------------


def reassign(core: Core, p: Partition, assignment: Assignment) -> None:
    """Section 6.7, `reassign(p, a)`."""
    core.mark("reassignment of a queued topic" if core.ctx.is_queued(p) else "reassignment")
    deletion.mark_ineligible(core, [p[0]])
    update_assignment(core, p, assignment)
    if is_complete(core, p, assignment):
        complete(core, p, assignment)
    else:
        core.mark("reassignment begun")
        touch(core, p, assignment)
        for b in assignment.adding:
            core.replicas().handle([(p, b)], ReplicaState.NEW)


def update_assignment(core: Core, p: Partition, assignment: Assignment) -> None:
    """Section 6.7, phase U: replicas of an abandoned plan are dropped at once."""
    before = core.ctx.assignment(p)
    if before != assignment:
        write_assignment(core, p)
        core.ctx.set_assignment(p, assignment)
        dropped = [b for b in before.replicas if b not in assignment.replicas]
        core.now.marks["reassignment dropped replicas"] += bool(dropped)
        stop_removed(core, p, dropped)
    core.ctx.being_reassigned.add(p)


def write_assignment(core: Core, p: Partition) -> None:
    """Section 6.7, U and B6: the topic node is written as a whole, from the cache."""
    try:
        core.store.write_assignments(p, core.ctx)
    except CallFailedError:
        raise EventFailedError("IllegalState") from None
    for q in [q for q in core.ctx.unwritten_assignments if q[0] == p[0]]:
        del core.ctx.unwritten_assignments[q]


def is_complete(core: Core, p: Partition, assignment: Assignment) -> bool:
    """Section 6.7, step 3: nothing to do, or all targets are in the stored ISR."""
    if not assignment.being_reassigned:
        return True
    record = read_record(core, p)
    return record is not None and set(assignment.target) <= set(record.isr)


def complete(core: Core, p: Partition, assignment: Assignment) -> None:
    """Section 6.7, phase B."""
    target = Assignment(assignment.target)
    core.replicas().handle([(p, b) for b in assignment.adding], ReplicaState.ONLINE)
    core.ctx.unwritten_assignments.setdefault(p, core.ctx.assignment(p))
    core.ctx.set_assignment(p, target)
    move_leader(core, p, target)
    stop_removed(core, p, assignment.removing)
    write_assignment(core, p)
    if core.legacy_node.get(p) == target.replicas:
        del core.legacy_node[p]
    core.ctx.being_reassigned.remove(p)
    core.mark("reassignment completed")
    core.send_update_metadata(core.ctx.registered, [p])
    deletion.resume_deletion_for(core, [p[0]])


def move_leader(
    core: Core, p: Partition, target: Assignment, told: Iterable[int] | None = None
) -> None:
    """Section 6.7, B3: a leader that stays and is up is told, any other is replaced."""
    record = core.ctx.leadership.get(p)
    if record is None:
        raise EventFailedError("NoSuchElement")
    stays = record.leader in target.replicas and core.ctx.is_replica_online(record.leader, p)
    core.mark("reassignment kept the leader" if stays else "reassignment moved the leader")
    if stays:
        touch(core, p, target, told)
    else:
        core.partitions().handle([p], PartitionState.ONLINE, Strategy.REASSIGN)


def stop_removed(core: Core, p: Partition, brokers: Iterable[int]) -> None:
    """Section 6.7, `stop_removed`: no response is awaited."""
    replicas = [(p, b) for b in brokers]
    for state in (
        ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        core.replicas().handle(replicas, state)
