"""Reassignment in plain Python: one partition, before Kafka 2.4, and the requests for it.

Source: docs/controller.md, sections 6.6, 6.7 and, for `legacy_...`, 8.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kfast.schema import PartitionState, ReassignmentCode, ReplicaState, Strategy
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Assignment, Partition, Record
from tests.support.reference_core import Core, EventFailedError, Happened
from tests.support.reference_profiles import UNSUPPORTED
from tests.support.reference_store import CONFLICT, GARBAGE, CacheStore, CallFailedError

from . import reference_deletion as deletion


def read_record(core: Core, p: Partition) -> Record | None:
    """The stored record of one partition; None where there is none that decodes."""
    try:
        stored = core.store.read_states([p])[p]
    except CallFailedError:
        raise EventFailedError("StoreError") from None
    if isinstance(stored, Record):
        return stored
    if stored in (GARBAGE, "NONODE"):
        return None
    raise EventFailedError("StoreError")


# -- section 6.6 --------------------------------------------------------------------------------


def touch(
    core: Core, p: Partition, assignment: Assignment, recipients: Iterable[int] | None = None
) -> None:
    """Section 6.6: one leader epoch more, and the replicas learn of the assignment.

    Before 2.7 all replicas are told alike, by default those assigned; before 2.4 the bumped record
    is not cached, unless the cache is the store.
    """
    record = raise_epoch(core, p)
    while record is None:
        record = raise_epoch(core, p)
    if core.ctx.profile.epoch_bump_is_cached or isinstance(core.store, CacheStore):
        core.ctx.put_leadership(p, record)
    written = record

    def fill(batch: RequestBatch) -> None:
        if core.ctx.profile.epoch_bump_separates_added:
            batch.add_leader_and_isr(assignment.origin, p, written, assignment, is_new=False)
            batch.add_leader_and_isr(assignment.adding, p, written, assignment, is_new=True)
        else:
            every = assignment.replicas if recipients is None else recipients
            batch.add_leader_and_isr(every, p, written, assignment, is_new=False)

    core.send(fill)


def raise_epoch(core: Core, p: Partition) -> Record | None:
    """Section 6.6, step 1, one attempt; None is a version conflict."""
    stored = read_record(core, p)
    if stored is None:
        raise EventFailedError("IllegalState")
    if stored.controller_epoch > core.ctx.epoch:
        raise EventFailedError("StateChangeFailed")
    raised = replace(stored.new_leader(stored.leader), controller_epoch=core.ctx.epoch)
    try:
        written = core.store.update_states({p: raised}, core.ctx)[p]
    except CallFailedError:
        raise EventFailedError("StoreError") from None
    if isinstance(written, Record):
        return written
    if written == CONFLICT:
        return None
    raise EventFailedError("StoreError")


# -- 6.7, one partition ---


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
    core: Core, p: Partition, target: Assignment, recipients: Iterable[int] | None = None
) -> None:
    """Section 6.7, B3: a leader that stays and is up is told, any other is replaced."""
    record = core.ctx.leadership.get(p)
    if record is None:
        raise EventFailedError("NoSuchElement")
    stays = record.leader in target.replicas and core.ctx.is_replica_online(record.leader, p)
    core.mark("reassignment kept the leader" if stays else "reassignment moved the leader")
    if stays:
        touch(core, p, target, recipients)
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


# -- before 2.4: targets stand beside the assignment, which is old and new replicas together ---


def legacy_start_all(
    core: Core, node: Mapping[Partition, tuple[int, ...]]
) -> dict[Partition, ReassignmentCode]:
    """All partitions of the node are being reassigned; those that cannot be leave it again."""
    for p, wanted in node.items():
        if p in core.ctx.assignments:
            core.ctx.reassignment_targets[p] = wanted
            core.ctx.being_reassigned.add(p)
    codes = {}
    for p in sorted(node, key=core.rank):
        codes[p] = legacy_start(core, p)
        if codes[p] != ReassignmentCode.STARTED:
            legacy_leave(core, p)
    return codes


def legacy_start(core: Core, p: Partition) -> ReassignmentCode:
    """The checks, then the work: what is assigned as wanted is left alone."""
    replicas = core.ctx.assignment(p).replicas
    if core.ctx.is_queued(p) or not replicas:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    if replicas == core.ctx.reassignment_targets[p]:
        return ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    try:
        legacy_reassign(core, p)
    except EventFailedError as failed:
        core.mark(f"reassignment raised {failed.error}")
        return ReassignmentCode.UNKNOWN_SERVER_ERROR
    return ReassignmentCode.STARTED


def legacy_leave(core: Core, p: Partition) -> None:
    """The partition leaves the node, and is not being reassigned any more."""
    core.legacy_node.pop(p, None)
    core.ctx.reassignment_targets.pop(p, None)
    core.ctx.being_reassigned.discard(p)


def legacy_is_complete(core: Core, p: Partition) -> bool:
    """All targets are in the stored ISR."""
    record = read_record(core, p)
    return record is not None and set(core.ctx.reassignment_targets[p]) <= set(record.isr)


def legacy_reassign(core: Core, p: Partition) -> None:
    """Begin, or complete."""
    core.mark("reassignment of a queued topic" if core.ctx.is_queued(p) else "reassignment")
    replicas, target = core.ctx.assignment(p).replicas, core.ctx.reassignment_targets[p]
    if legacy_is_complete(core, p):
        legacy_complete(core, p, replicas, target)
        return
    core.mark("reassignment begun")
    union = tuple(dict.fromkeys((*target, *replicas)))
    legacy_assign(core, p, union)
    touch(core, p, Assignment(union), union)
    for b in target:
        if b not in replicas:
            core.replicas().handle([(p, b)], ReplicaState.NEW)


def legacy_complete(
    core: Core, p: Partition, replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """All targets are online; they lead, and the others go."""
    for b in target:
        core.replicas().handle([(p, b)], ReplicaState.ONLINE)
    core.ctx.unwritten_assignments.setdefault(p, core.ctx.assignment(p))
    core.ctx.set_assignment(p, Assignment(target))
    move_leader(core, p, Assignment(target), dict.fromkeys((*target, *replicas)))
    stop_removed(core, p, [b for b in replicas if b not in target])
    legacy_assign(core, p, target)
    legacy_leave(core, p)
    core.mark("reassignment completed")
    core.send_update_metadata(core.ctx.registered, [p])
    deletion.resume_deletion_for(core, [p[0]])


def legacy_assign(core: Core, p: Partition, replicas: tuple[int, ...]) -> None:
    """In memory first, then in the topic node."""
    core.ctx.unwritten_assignments.setdefault(p, core.ctx.assignment(p))
    core.ctx.set_assignment(p, Assignment(replicas))
    write_assignment(core, p)


Targets = Mapping[Partition, Sequence[int] | None]
"""Replicas wanted by partition; None cancels."""


# -- 6.7, requests ---


def check_request(core: Core, p: Partition, wanted: Sequence[int] | None) -> ReassignmentCode:
    """Checks of a request through the API (section 6.7), in order; STARTED if it passes them."""
    assignment = core.ctx.assignment(p)
    if wanted is None:
        known = assignment.being_reassigned
        return (
            ReassignmentCode.STARTED if known else ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
        )
    if not wanted or len(set(wanted)) < len(wanted) or min(wanted) < 0:
        return ReassignmentCode.INVALID_REPLICA_ASSIGNMENT
    added = set(assignment.reassign_to(wanted).adding)
    if not added <= core.ctx.live:
        return ReassignmentCode.INVALID_REPLICA_ASSIGNMENT
    return ReassignmentCode.STARTED


def start_all(core: Core, targets: Targets) -> dict[Partition, ReassignmentCode]:
    """Section 6.7: the plans are made, then carried out one by one; a code for each."""
    plans: dict[Partition, Assignment] = {}
    for p, wanted in targets.items():
        current = core.ctx.assignment(p)
        plans[p] = current.reassign_to(current.origin if wanted is None else wanted)
    codes: dict[Partition, ReassignmentCode] = {}
    for p in sorted(plans, key=core.rank):
        if core.ctx.is_queued(p) or not core.ctx.assignment(p).replicas:
            codes[p] = ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
            continue
        try:
            reassign(core, p, plans[p])
            codes[p] = ReassignmentCode.STARTED
        except EventFailedError as failed:
            core.mark(f"reassignment raised {failed.error}")
            codes[p] = ReassignmentCode.UNKNOWN_SERVER_ERROR
    return codes


def process_node(core: Core) -> dict[Partition, ReassignmentCode]:
    """Section 6.7, the legacy node: without the list checks; what fails is removed from it."""
    codes = start_all(core, core.legacy_node)
    for p, code in codes.items():
        if code != ReassignmentCode.STARTED:
            core.legacy_node.pop(p, None)
    return codes


def go_on(core: Core, p: Partition) -> None:
    """Section 6.7, resumption: `reassign` with the current assignment."""
    if core.ctx.profile.cancels_reassignments:
        reassign(core, p, core.ctx.assignment(p))
    else:
        legacy_reassign(core, p)


def resume(core: Core, partitions: Iterable[Partition]) -> None:
    """Section 6.7, resumption of some."""
    for p in sorted(partitions, key=core.rank):
        go_on(core, p)


def can_be_completed(core: Core, p: Partition) -> bool:
    """Whether p is being reassigned and complete."""
    if p not in core.ctx.being_reassigned:
        return False
    if core.ctx.profile.cancels_reassignments:
        return is_complete(core, p, core.ctx.assignment(p))
    return legacy_is_complete(core, p)


def resume_completed(core: Core, partitions: Iterable[Partition]) -> None:
    """Section 6.10: those that are being reassigned and whose targets are in sync now."""
    for p in sorted(partitions, key=core.rank):
        if can_be_completed(core, p):
            go_on(core, p)


def resume_at_failover(core: Core) -> None:
    """Section 6.1, step 9: the node first, then every partition that it did not start."""
    if not core.ctx.profile.cancels_reassignments:
        legacy_start_all(core, dict(core.legacy_node))
        return
    done = {p for p, c in process_node(core).items() if c == ReassignmentCode.STARTED}
    resume(core, core.ctx.being_reassigned - done)


def resume_on(core: Core, brokers: Collection[int]) -> None:
    """Section 6.2, `broker_startup`, step 6: reassignments that have a target on these brokers."""
    resume(core, {
        p for p in core.ctx.being_reassigned if not set(target_of(core, p)).isdisjoint(brokers)
    })


def target_of(core: Core, p: Partition) -> tuple[int, ...]:
    """Where p is to go."""
    known = core.ctx.reassignment_targets.get(p)
    return core.ctx.assignment(p).target if known is None else known


# -- events ---


def alter_partition_reassignments(core: Core, asked: Targets) -> Happened:
    """Section 6.7, requests through the API: what is accepted leaves the legacy node."""

    def body() -> None:
        if not core.ctx.profile.cancels_reassignments:
            core.now.error = UNSUPPORTED
            return
        codes = {p: check_request(core, p, wanted) for p, wanted in asked.items()}
        accepted = {p: asked[p] for p, c in codes.items() if c == ReassignmentCode.STARTED}
        for p in accepted:
            core.legacy_node.pop(p, None)
        codes |= start_all(core, accepted)
        core.now.reassignment_codes = codes

    return core.event("alter_partition_reassignments", body)


def reassign_partitions(core: Core, targets: Mapping[Partition, Sequence[int]]) -> Happened:
    """Section 6.7, the legacy node was created; it waits where nobody is in charge."""
    core.legacy_node = {p: tuple(wanted) for p, wanted in targets.items()}

    def body() -> None:
        if core.ctx.profile.cancels_reassignments:
            codes = process_node(core)
        else:
            codes = legacy_start_all(core, dict(core.legacy_node))
        core.now.reassignment_codes = {p: codes[p] for p in targets}

    return core.event("reassign_partitions", body)


def on_partition_reassignment(core: Core, partitions: Collection[Partition]) -> Happened:
    """`reassign` of some partitions with their current assignments."""
    return core.event("on_partition_reassignment", lambda: resume(core, partitions))


def list_partition_reassignments(core: Core) -> dict[Partition, Assignment]:
    """Section 6.7: what is being reassigned."""
    return {
        p: core.ctx.assignment(p)
        for p in core.ctx.being_reassigned
        if core.ctx.assignment(p).being_reassigned
    }
