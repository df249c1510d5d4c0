"""What is asked of partitions: AlterPartition, elections, directories, and the periodic tasks.

Source: docs/kraft.md, sections 7.1, 7.2, 7.4 and 7.5; Kafka 4.1, ReplicationControlManager.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments, schema
from kfast.controllers.kraft.engine import NOBODY, QuorumEngine
from kfast.controllers.kraft.faults import ApiError, Fault
from kfast.kernels.change_log import CHANGE, ChangeLog
from kfast.state import ClusterState
from kfast.state.changes import BuildResult, Election, Field, Visited
from kfast.state.metadata_records import Brokers, Recovery
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.state.registrations import PartitionRegistration

ELECTION_TYPES = {"preferred": Election.PREFERRED, "unclean": Election.UNCLEAN}
NOT_AVAILABLE = {
    Election.PREFERRED: "PREFERRED_LEADER_NOT_AVAILABLE",
    Election.UNCLEAN: "ELIGIBLE_LEADERS_NOT_AVAILABLE",
}
WITHOUT_TOPIC_IDS = {
    "UNKNOWN_TOPIC_ID": "UNKNOWN_TOPIC_OR_PARTITION",
    "INELIGIBLE_REPLICA": "OPERATION_NOT_ATTEMPTED",
    "NEW_LEADER_ELECTED": "FENCED_LEADER_EPOCH",
}
"""Codes of AlterPartition versions 0 and 1 (3.x), which had no topic ids."""


def requests_of(
    rows: Rows, mode: Election, n_isr: npt.NDArray[np.int64] | None = None,
    isr: Rows = EMPTY_ROWS,
) -> ChangeLog:
    """Requests to build some rows by an election mode.

    With `n_isr`, each is to have an ISR of so many broker rows, those of `isr` one after another,
    and be recovered.
    """
    changes = np.zeros(rows.size, CHANGE)
    changes["row"], changes["mode"] = rows, mode
    changes["request"] = changes["leader"] = changes["leader_before"] = NOBODY
    changes["last_known"] = NO_LAST_KNOWN
    if n_isr is not None:
        changes["fields"] = Field.ISR | Field.RECOVERY
        changes["n_isr"], changes["begin"] = n_isr, np.cumsum(n_isr) - n_isr
    log = ChangeLog()
    log.extend(changes, isr)
    return log


def stop_at_faults(results: Rows) -> None:
    """Raise where Kafka fails by an internal error."""
    if (results == BuildResult.FAULT).any():
        raise Fault("a partition change cannot be built")


# --------------------------------------------------------------------------- AlterPartition, 7.1


@dataclass(frozen=True)
class AlterPartitionData:
    """What a leader wants: the ISR with broker epochs, -1 for those it does not know.

    Source: AlterPartitionRequest.json, `PartitionData`; a topic has a name here instead of an id.
    """

    topic: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[tuple[int, int]]
    recovery: int = Recovery.RECOVERED

    def __post_init__(self) -> None:
        arguments.text("topic", self.topic)
        for name in ("partition", "leader_epoch", "partition_epoch"):
            arguments.int32(name, getattr(self, name))
        for member in arguments.check_items("isr", self.isr):
            broker, epoch = arguments.items_of("a member of isr", member, 2)
            arguments.int32("a broker of isr", broker)
            arguments.int64("a broker epoch of isr", epoch)
        arguments.member("recovery", Recovery, self.recovery)


@dataclass(frozen=True)
class AlterPartitionReply:
    """The answer for one partition: as it is now, where the error is NONE."""

    error: str
    leader: int = schema.NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    recovery: int = Recovery.RECOVERED
    isr: Brokers = ()


def alter_partition(
    engine: QuorumEngine, broker: int, broker_epoch: int, wanted: Sequence[AlterPartitionData],
    with_topic_ids: bool,
) -> list[AlterPartitionReply]:
    """Check what a leader wants of each partition, and build the good ones."""
    engine.check_broker_epoch(broker, broker_epoch)
    requests = ChangeLog()
    replies: list[AlterPartitionReply] = []
    accepted: list[tuple[int, PartitionRegistration]] = []
    for data in wanted:
        row, code = find_partition(engine.state, data.topic, data.partition)
        if code == "NONE":
            partition = engine.state.registration(row)
            code = alter_partition_error(engine, broker, partition, data)
        if code == "NONE":
            accepted.append((len(replies), partition))
            members = engine.rows_of([member for member, _ in data.isr])
            requests.append(row, isr=members, recovery=data.recovery, mode=Election.CONFIGURED)
        elif not with_topic_ids:
            code = WITHOUT_TOPIC_IDS.get(code, code)
        replies.append(AlterPartitionReply(code))
    results = engine.build(requests)
    stop_at_faults(results)
    for (at, partition), result in zip(accepted, results.tolist(), strict=True):
        replies[at] = reply_of(engine, broker, partition, result)
        if replies[at].error != "NONE" and not with_topic_ids:
            replies[at] = AlterPartitionReply(WITHOUT_TOPIC_IDS[replies[at].error])
    return replies


def reply_of(
    engine: QuorumEngine, sender: int, partition: PartitionRegistration, result: int
) -> AlterPartitionReply:
    """The answer for a partition that was accepted: its fields after the change, if there is one.

    Another leader than the sender is an error, though the record is kept (section 7.1, row 14).
    """
    fields = {} if result < 0 else engine.written.changes.fields_of(result)
    ids, leader = engine.state.broker_id, fields.get("leader")
    if leader is not None:
        leader = int(ids[leader]) if leader >= 0 else schema.NO_LEADER
        if leader != sender:
            return AlterPartitionReply("NEW_LEADER_ELECTED")
    return AlterPartitionReply(
        "NONE",
        leader=partition.leader if leader is None else leader,
        leader_epoch=partition.leader_epoch + (leader is not None),
        partition_epoch=partition.partition_epoch + (result >= 0),
        recovery=fields.get("recovery", partition.recovery),
        isr=tuple(ids[[*fields["isr"]]].tolist()) if "isr" in fields else partition.isr,
    )


def find_partition(state: ClusterState, topic: str, partition: int) -> tuple[int, str]:
    """Row of a partition, -1 for none, and the code where there is none."""
    topics = state.lookup.topics([topic])
    row = int(state.lookup.rows(topics, np.asarray([partition], np.int32))[0])
    if row >= 0:
        return row, "NONE"
    exists = topics[0] >= 0 and state.topic_flags[topics[0]] & schema.TOPIC_EXISTS
    return NOBODY, "UNKNOWN_TOPIC_OR_PARTITION" if exists else "UNKNOWN_TOPIC_ID"


def alter_partition_error(
    engine: QuorumEngine, sender: int, partition: PartitionRegistration, data: AlterPartitionData
) -> str:
    """The first refusal of section 7.1 that applies, rows 3 to 12.

    Source: `validateAlterPartitionData`.
    """
    isr = [member for member, _ in data.isr]
    not_replicas = not set(isr) <= set(partition.replicas)
    refusals = (
        (data.leader_epoch > partition.leader_epoch, "NOT_CONTROLLER"),
        (data.partition_epoch > partition.partition_epoch, "NOT_CONTROLLER"),
        (data.leader_epoch < partition.leader_epoch, "FENCED_LEADER_EPOCH"),
        (sender != partition.leader, "INVALID_REQUEST"),
        (data.partition_epoch < partition.partition_epoch, "INVALID_UPDATE_VERSION"),
        (not_replicas or len(set(isr)) != len(isr), "INVALID_REQUEST"),
        (partition.leader not in isr, "INVALID_REQUEST"),
        (data.recovery == Recovery.RECOVERING and len(isr) > 1, "INVALID_REQUEST"),
        (
            partition.recovery == Recovery.RECOVERED and data.recovery == Recovery.RECOVERING,
            "INVALID_REQUEST",
        ),
        (any(is_ineligible(engine, *member) for member in data.isr), "INELIGIBLE_REPLICA"),
    )
    return next((code for applies, code in refusals if applies), "NONE")


def is_ineligible(engine: QuorumEngine, broker: int, epoch: int) -> bool:
    """Whether a broker may not join an ISR. Source: `ineligibleReplicasForIsr`."""
    row = engine.broker_row(broker)
    if row < 0 or epoch not in (-1, engine.epoch_of(row)):
        return True
    inactive = schema.BROKER_FENCED | schema.BROKER_SHUTTING_DOWN
    return bool(engine.state.broker_status[row] & inactive)


# ------------------------------------------------------------------------------- elections, 7.2


def elect_leaders(
    engine: QuorumEngine, election: str, partitions: tuple[list[str], Rows] | None
) -> pa.Table:
    """Elect leaders of some partitions, topics and numbers, or of all; any record is a success.

    Source: `electLeaders`, `electLeader`. Of all partitions, those that need no election are left
    out of the answer.
    """
    mode = ELECTION_TYPES.get(election)
    if mode is None:
        raise ApiError("INVALID_REQUEST")
    if partitions is None:
        visits = engine.visits
        rows = visits.without_leader() if mode is Election.UNCLEAN else (
            visits.without_preferred_leader()
        )
        codes = _elect(engine, rows, mode)
        topics = engine.state.topic.take(pa.array(engine.state.topic_row[rows]))
        return _replies(topics, engine.state.partition[rows], rows, codes)
    state, (names, numbers) = engine.state, partitions
    rows = state.lookup.rows(state.lookup.topics(names), numbers)
    codes = np.full(rows.size, "UNKNOWN_TOPIC_OR_PARTITION", object)
    known = np.flatnonzero(rows >= 0)
    leaders = state.records["leader"][rows[known]]
    preferred = state.replicas[rows[known], 0].astype(np.int32)
    needed = leaders < 0 if mode is Election.UNCLEAN else leaders != preferred
    codes[known] = "ELECTION_NOT_NEEDED"
    codes[known[needed]] = _elect(engine, rows[known[needed]], mode)
    return _replies(pa.array(names, pa.string()), numbers, rows, codes)


def _elect(engine: QuorumEngine, rows: Rows, mode: Election) -> npt.NDArray[np.object_]:
    results = engine.build(requests_of(rows, mode))
    stop_at_faults(results)
    codes: npt.NDArray[np.object_] = np.where(
        results >= 0, "NONE", NOT_AVAILABLE[mode]
    ).astype(object)
    return codes


def _replies(
    topic: pa.StringArray, partition: Rows, rows: Rows, codes: npt.NDArray[np.object_]
) -> pa.Table:
    return schema.ELECTION_REPLIES.table({
        "topic": topic, "partition": pa.array(partition),
        "partition_row": pa.array(rows, mask=rows < 0), "error": pa.array(codes, pa.string()),
    })


# --------------------------------------------------------------------------- periodic tasks, 7.5


def maybe_balance_partition_leaders(engine: QuorumEngine) -> bool:
    """Elect preferred leaders where others lead; answers whether to call again at once.

    Source: `maybeBalancePartitionLeaders`.
    """
    rows = engine.visits.imbalanced()
    results = engine.build(requests_of(rows, Election.PREFERRED), engine.max_elections)
    stop_at_faults(results)
    if (results == BuildResult.CAPPED).any():
        return True
    full = len(engine.written.changes) >= engine.max_elections
    return full and engine.release.full_balance_is_called_again


def maybe_elect_unclean_leaders(engine: QuorumEngine) -> bool:
    """Elect uncleanly where the topic allows it; answers whether to call again at once.

    Source: `maybeElectUncleanLeaders`; before 3.9 there was no such task.
    """
    if not engine.release.unclean_election_task:
        return False
    rows = engine.visits.leaderless()
    allowed = engine.quorum.unclean_leader_election[engine.state.topic_row[rows]]
    requests = requests_of(rows[allowed], Election.UNCLEAN)
    stop_at_faults(engine.build(requests, engine.max_elections))
    return len(engine.written.changes) >= engine.max_elections


# ----------------------------------------------------------------------------- directories, 7.4


def assign_replicas_to_dirs(
    engine: QuorumEngine, broker: int, broker_epoch: int,
    assignments: Sequence[tuple[str, str, int]],
) -> list[str]:
    """Put replicas of a broker into directories: (directory, topic, partition); a code for each.

    Up to 4.2 the change is built as if ELR were off. Partitions whose directory is not online are
    rebuilt without the broker.

    Source: `handleAssignReplicasToDirs`.
    """
    if not engine.version.is_directory_assignment_supported:
        raise ApiError("UNSUPPORTED_VERSION")
    sender = engine.check_broker_epoch(broker, broker_epoch)
    state, quorum = engine.state, engine.quorum
    requests = ChangeLog()
    codes: list[str] = []
    offline: list[int] = []
    for directory, topic, number in assignments:
        row, code = find_partition(state, topic, number)
        replicas = state.replicas[row, : state.records["n_replicas"][row]].tolist()
        if code == "NONE" and sender not in replicas:
            code = "NOT_LEADER_OR_FOLLOWER"
        codes.append(code)
        if code != "NONE":
            continue
        place = quorum.directory_row(directory)
        requests.append(
            row, directories=[place if b == sender else NOBODY for b in replicas],
            mode=Election.ONLINE, elr_off=not engine.release.elr_in_assign_replicas_to_dirs,
        )
        if not quorum.has_online_directory(sender, directory):
            offline.append(row)
    stop_at_faults(engine.build(requests))
    engine.update((engine.visits.collected(offline), Visited.EVERY_ROW), remove=sender)
    return codes
