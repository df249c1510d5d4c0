"""The partitions of a plan, one row each: what was requested, what became of it, and why.

Source: docs/controller.md, section 6.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.analysis.whatif import brokers_are
from kfast.controllers.zk.reassignment import Reassignments, as_table, parse
from kfast.journal import Outcome
from kfast.kernels import hosting
from kfast.schema import REASSIGNMENT_PARTITIONS, ReassignmentCode
from kfast.state import ClusterState
from kfast.state.records import Rows, Slots
from kfast.state.tables import broker_ids, first_slots, id_lists, ordered_lists, topic_names

__all__ = ["RequestedPlan", "partition_table", "placed"]


@dataclass(frozen=True)
class RequestedPlan:
    """A plan, and the partitions that it or an earlier one speaks of.

    Attributes
    ----------
    plan : pa.Table
        topic, partition, replicas.
    rows : (n,) int32
        Partition rows: those of the plan in its order, -1 where one is unknown; then those that
        were being reassigned before and are not in the plan.
    """

    plan: pa.Table
    rows: Rows

    @classmethod
    def of(cls, state: ClusterState, plan: Reassignments) -> RequestedPlan:
        """Read a plan; `ArgumentError` where a partition stands twice."""
        table = as_table(plan)
        rows = parse(state, table).rows
        moving = state.records["flags"] & schema.FLAG_BEING_REASSIGNED
        before = np.flatnonzero(moving).astype(np.int32)
        return cls(table, np.concatenate([rows, np.setdiff1d(before, rows)]))


def placed(state: ClusterState, rows: Rows) -> npt.NDArray[np.int64]:
    """Every assigned replica of some rows as one number: place of the row, and broker row."""
    n = state.records["n_replicas"][rows].astype(np.int64)
    assigned = np.arange(state.n_slots) < n[:, np.newaxis]
    owner = np.repeat(np.arange(rows.size, dtype=np.int64), n)
    found: npt.NDArray[np.int64] = owner * state.n_brokers + state.replicas[rows][assigned]
    return found


def live_slots(state: ClusterState, rows: Rows) -> Slots:
    """Slots of each row whose broker is live."""
    live, up = np.empty(rows.size, np.uint64), np.empty(rows.size, np.uint64)
    hosting.live_slots(state.columns, rows, live, up)
    return live


def target_slots(state: ClusterState, rows: Rows) -> Slots:
    """Slots that each row is to have once its reassignment is complete."""
    records = state.records.take(rows)
    target: Slots = first_slots(records["n_replicas"]) & ~records["removing"].astype(np.uint64)
    if state.reassignment_targets:  # before 2.4 they are kept apart
        for at, row in enumerate(rows.tolist()):
            wanted = set(state.reassignment_targets.get(row, ()))
            if wanted:
                ids = state.ids_of(row, int(first_slots(records["n_replicas"][at : at + 1])[0]))
                target[at] = sum(1 << slot for slot, broker in enumerate(ids) if broker in wanted)
    return target


def partition_table(
    requested: RequestedPlan, before: ClusterState, after: ClusterState, outcome: Outcome,
    pending: bool, flags: Mapping[str, npt.NDArray[np.bool_]],
) -> pa.Table:
    """What was asked for each partition, and what became of it.

    Parameters
    ----------
    requested : RequestedPlan
    before, after : ClusterState
        The cluster before the plan, and in the end.
    outcome : Outcome
        What the controller answered to the plan.
    pending : bool
        Nobody has caught up yet.
    flags : mapping of str to (P,) bool
        More columns, of all rows; false for an unknown partition.
    """
    rows, n_planned = requested.rows, requested.plan.num_rows
    some = rows >= 0
    known = rows[some]
    place = pa.array(np.cumsum(some) - 1, mask=~some)
    refused = np.zeros(rows.size, np.bool_)
    errors = [ReassignmentCode(code).name if code else None
              for code in outcome.reassignment_codes.tolist()]
    if outcome.error is not None:
        errors = [outcome.error] * n_planned
    refused[:n_planned] = [error is not None for error in errors]
    moving = np.zeros(rows.size, np.bool_)
    moving[some] = (after.records["flags"][known] & schema.FLAG_BEING_REASSIGNED) != 0
    status = np.where(refused, "refused", np.where(moving, "pending", "completed"))
    later = rows[n_planned:]
    columns: dict[str, Any] = {
        "topic": _longer(requested.plan["topic"], topic_names(before, later)),
        "partition": _longer(requested.plan["partition"], pa.array(before.partition[later])),
        "partition_row": pa.array(rows, mask=~some),
        "planned": pa.array(np.arange(rows.size) < n_planned),
        "target": _longer(requested.plan["replicas"], pa.nulls(later.size, pa.list_(pa.int32()))),
        "status": pa.array(status.tolist(), pa.string()),
        "error": pa.array([*errors, *[None] * later.size], pa.string()),
    }
    at = np.flatnonzero(refused)
    named = ("topic", "partition", "target", "error")
    found = pa.table({name: columns[name] for name in named}).take(pa.array(at)).to_pylist()
    waiting, delays = _delays(after, known, pending)
    reasons = np.full(rows.size, None, object)
    reasons[some] = delays
    reasons[at] = [_refusal(row, before) for row in found]
    columns["reason"] = pa.array(reasons, pa.string())
    then, now = _columns(before, known), _columns(after, known)
    for name in ("replicas", "leader", "isr", "leader_epoch"):
        columns[f"{name}_before"], columns[name] = then[name].take(place), now[name].take(place)
    for name, values in (("adding", now["adding"]), ("removing", now["removing"]),
                         ("waiting_for", waiting)):
        columns[name] = values.take(place)
    for name, flag in flags.items():
        values = np.zeros(rows.size, np.bool_)
        values[some] = flag[known]
        columns[name] = pa.array(values)
    return REASSIGNMENT_PARTITIONS.table(columns)


def _longer(column: pa.ChunkedArray, more: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    rest = more.chunks if isinstance(more, pa.ChunkedArray) else [more]
    return pa.chunked_array([*column.chunks, *rest], column.type)


def _columns(state: ClusterState, rows: Rows) -> dict[str, pa.Array]:
    """What a table says of some rows of one state."""
    records = state.records.take(rows)
    return {
        "replicas": id_lists(state, rows, first_slots(records["n_replicas"])),
        "leader": pa.array(broker_ids(state, records["leader"])),
        "isr": id_lists(state, rows, records["isr"]),
        "leader_epoch": pa.array(records["leader_epoch"].copy()),
        "adding": ordered_lists(state, "adding", rows, records["adding"]),
        "removing": ordered_lists(state, "removing", rows, records["removing"]),
    }


def _delays(
    state: ClusterState, rows: Rows, pending: bool
) -> tuple[pa.ListArray, npt.NDArray[np.object_]]:
    """Per row: targets that have to get in sync first, and why that is not so; None if complete."""
    records = state.records.take(rows)
    live, target = live_slots(state, rows), target_slots(state, rows)
    moving = (records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
    missing = np.where(moving, target & ~records["isr"].astype(np.uint64), np.uint64(0))
    waiting, down = id_lists(state, rows, missing), id_lists(state, rows, missing & ~live)
    later = "have not caught up yet" if pending else "are not in sync"
    reasons = np.where(
        (missing & ~live) != 0,
        _sentences(down, "have to be in sync and are down"),
        _sentences(waiting, later),
    )
    leaderless = moving & (records["leader"] < 0) & ((missing & ~live) == 0)
    reasons[leaderless] = "it has no live leader that reports who is in sync"
    reasons[~moving] = None
    return waiting, reasons


def _sentences(brokers: pa.ListArray, said: str) -> npt.NDArray[np.object_]:
    """Sentences that begin with the broker ids of each list."""
    lists = pc.binary_join(brokers.cast(pa.list_(pa.string())), ", ")
    one = pc.equal(pc.list_value_length(brokers), 1)
    singular = said.replace("have", "has").replace("are", "is")
    found: npt.NDArray[np.object_] = pc.binary_join_element_wise(
        pc.if_else(one, "broker ", "brokers "), lists, pc.if_else(one, f" {singular}", f" {said}"),
        "",
    ).to_numpy(zero_copy_only=False)
    return found


def _refusal(row: Mapping[str, Any], before: ClusterState) -> str:
    """Why the controller refuses a partition of a plan."""
    error, target = row["error"], row["target"]
    if error == ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION.name:
        return _unknown(row, before)
    if error == ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS.name:
        return "it is not being reassigned" if target is None else "it is there already"
    if error == ReassignmentCode.UNKNOWN_SERVER_ERROR.name:
        return "the controller failed half way"
    if error != ReassignmentCode.INVALID_REPLICA_ASSIGNMENT.name:
        return "the controller refuses the plan as a whole"
    if not target:
        return "the list is empty"
    twice = [broker for broker in dict.fromkeys(target) if target.count(broker) > 1]
    if twice:
        return f"the list names broker {', '.join(map(str, twice))} twice"
    places = before.broker_rows(np.asarray(target, np.int64)).tolist()
    unknown = [broker for broker, at in zip(target, places, strict=True) if at < 0]
    if unknown:
        return f"of those to be added, {brokers_are(unknown, 'unknown')}"
    origin = _origin(row, before)
    down = [
        broker
        for broker, at in zip(target, places, strict=True)
        if not before.registered[at] and broker not in origin
    ]
    return f"of those to be added, {brokers_are(down, 'down')}"


def _origin(row: Mapping[str, Any], before: ClusterState) -> tuple[int, ...]:
    """Brokers that a partition comes from; none if it is unknown."""
    lookup = before.lookup
    found = lookup.rows(lookup.topics([row["topic"]]), np.asarray([row["partition"]], np.int32))
    return before.assignment(int(found[0])).origin if found[0] >= 0 else ()


def _unknown(row: Mapping[str, Any], before: ClusterState) -> str:
    topic = before.lookup.topic_or_none(row["topic"])
    if topic is None:
        return "the topic is unknown"
    if before.topic_queued_for_deletion[topic]:
        return "the topic is marked for deletion"
    n = before.lookup.rows_of_topic(topic).size
    return f"the topic has {n} partition{'' if n == 1 else 's'}"

