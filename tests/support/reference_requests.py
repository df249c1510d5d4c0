"""Requests for reassignments, and how they go on, in plain Python.

Source: docs/controller.md, section 6.7.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kfast.schema import ReassignmentCode
from tests.support.reference_context import Assignment, Partition
from tests.support.reference_core import Core, EventFailedError, Happened
from tests.support.reference_profiles import UNSUPPORTED
from tests.support.reference_reassignment import is_complete, reassign

from . import reference_legacy as legacy

Targets = Mapping[Partition, Sequence[int] | None]
"""Replicas wanted by partition; None cancels."""


# -- 6.7, requests ------------------------------------------------------------------------------


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
    if core.ctx.profile.checks_added_replicas and not added <= core.ctx.live:
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
        legacy.reassign(core, p)


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
    return legacy.is_complete(core, p)


def resume_completed(core: Core, partitions: Iterable[Partition]) -> None:
    """Section 6.10: those that are being reassigned and whose targets are in sync now."""
    for p in sorted(partitions, key=core.rank):
        if can_be_completed(core, p):
            go_on(core, p)


def resume_at_failover(core: Core) -> None:
    """Section 6.1, step 9: the node first, then every partition that it did not start."""
    if not core.ctx.profile.cancels_reassignments:
        legacy.start_all(core, dict(core.legacy_node))
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


# -- events -------------------------------------------------------------------------------------


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
            codes = legacy.start_all(core, dict(core.legacy_node))
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
