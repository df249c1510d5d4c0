"""AlterPartitionReassignments: start, change or cancel what moves replicas.

Source: docs/kraft.md, sections 4 and 7.3; Kafka 4.1, ReplicationControlManager.java,
PartitionReassignmentReplicas.java, PartitionReassignmentRevert.java.
"""

from __future__ import annotations

from kfast.controllers.kraft.engine import MAX_RECORDS_PER_USER_OP, QuorumEngine
from kfast.controllers.kraft.faults import ApiError
from kfast.controllers.reassignment_requests import Reassignments, parse
from kfast.kernels.change_log import ChangeLog
from kfast.state.changes import BuildResult, Election
from kfast.state.registrations import PartitionRegistration

NO_LIMIT = -1


def alter_partition_reassignments(
    engine: QuorumEngine, reassignments: Reassignments, allow_rf_change: bool
) -> list[str]:
    """Answer a code for each target; what is wrong with one leaves the others alone.

    Source: `alterPartitionReassignments`. A record beyond the limit of an operation is an internal
    error of its partition.
    """
    parsed = parse(engine.state, reassignments, distinct=False)
    refuse_rf_change = engine.release.refuses_rf_change and not allow_rf_change
    requests = ChangeLog()
    codes: list[str] = []
    positions: list[int] = []
    for row, cancel, target in zip(
        parsed.rows.tolist(), parsed.cancel.tolist(), parsed.targets.lists(), strict=True
    ):
        try:
            if row < 0:
                raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
            if cancel:
                cancel_reassignment(engine, row, requests)
            else:
                change_reassignment(engine, row, target, refuse_rf_change, requests)
            positions.append(len(codes))
            codes.append("NONE")
        except ApiError as error:
            codes.append(error.code)
    limit = MAX_RECORDS_PER_USER_OP if engine.release.limits_records else NO_LIMIT
    results = engine.build(requests, limit)
    for at, result in zip(positions, results.tolist(), strict=True):
        if result < 0 and result != BuildResult.NOTHING:
            codes[at] = "UNKNOWN_SERVER_ERROR"
    return codes


def cancel_reassignment(engine: QuorumEngine, row: int, requests: ChangeLog) -> None:
    """Ask for the replicas from before. Source: `cancelPartitionReassignment`."""
    partition = engine.state.registration(row)
    if not partition.adding and not partition.removing:
        raise ApiError("NO_REASSIGNMENT_IN_PROGRESS")
    replicas = [b for b in partition.replicas if b not in partition.adding]
    isr = [b for b in partition.isr if b not in partition.adding]
    unclean = engine.quorum.unclean_leader_election[engine.state.topic_row[row]]
    if not replicas or (not isr and not unclean):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    requests.append(
        row, isr=engine.rows_of(isr or replicas[:1]),
        replicas=engine.rows_of(replicas), removing=(), adding=(),
        mode=Election.CONFIGURED,
    )


def change_reassignment(
    engine: QuorumEngine, row: int, target: list[int], refuse_rf_change: bool,
    requests: ChangeLog,
) -> None:
    """Ask for the target; the replicas that go stay last until the reassignment is complete.

    A list that the new plan empties is not passed on: the old plan's survives.

    Source: `changePartitionReassignment`, `validatePartitionReplicationFactorUnchanged`.
    """
    partition = engine.state.registration(row)
    check_manual_assignment(engine, target, None)
    if refuse_rf_change and len(target) != current_factor(partition):
        raise ApiError("INVALID_REPLICATION_FACTOR")
    removing = sorted(set(partition.replicas) - set(target))
    adding = sorted(set(target) - set(partition.replicas))
    requests.append(
        row, replicas=engine.rows_of([*target, *removing]),
        removing=engine.rows_of(removing) or None, adding=engine.rows_of(adding) or None,
        mode=Election.ONLINE,
    )


def current_factor(partition: PartitionRegistration) -> int:
    """Replicas that stay."""
    return len(set(partition.replicas) - set(partition.removing))


def check_manual_assignment(
    engine: QuorumEngine, replicas: list[int], factor: int | None
) -> None:
    """Replicas must be registered, distinct and as many as asked; fenced ones are fine.

    Source: `validateManualPartitionAssignment`.
    """
    wrong = not replicas or len(set(replicas)) != len(replicas)
    wrong = wrong or not all(engine.is_registered(broker) for broker in replicas)
    if wrong or (factor is not None and len(replicas) != factor):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
