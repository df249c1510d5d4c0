"""What executing a reassignment plan does: who is refused, what moves, what stays under way.

Only replicas of partitions that are being reassigned catch up here, so that whatever differs
afterwards is due to the plan.

Source: docs/controller.md, sections 6.7 and 6.10; Kafka 3.9, `ReassignPartitionsCommand`,
`executeAssignment`, for what the tool itself refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.analysis.impact import CHANGE_METRICS, RECORD_METRICS, Impact, impact
from kfast.analysis.whatif import WhatIf, brokers_are, check_brokers, check_order
from kfast.arguments import check_instance
from kfast.controllers import EventOutcome, Profile, Reassignments
from kfast.controllers.reassignment_requests import as_table, being_reassigned, parse
from kfast.schema import (
    REASSIGNMENT_BROKERS,
    REASSIGNMENT_PARTITIONS,
    REASSIGNMENT_TOPICS,
    ReassignmentCode,
    columns_of,
)
from kfast.state import ClusterState
from kfast.state.arrays import first_slots, how_to_add
from kfast.state.census import CENSUS_METRICS, Census
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows, Slots
from kfast.state.tables import broker_ids as ids_of_rows
from kfast.state.tables import id_lists, ordered_lists, topic_names

__all__ = ["REASSIGNMENT_METRICS", "Reassignment", "execute_plan"]

REASSIGNMENT_METRICS: Mapping[str, str] = {
    "refused": "partitions of the plan that the controller refuses to reassign",
    "completed": "partitions whose reassignment is complete",
    "pending": "partitions whose reassignment is still under way",
    "replicas_added": "replicas that are assigned to a broker and were not before",
    "replicas_removed": "replicas that are not assigned to a broker any more",
    "leader_epoch_bumps": "by how much the leader epochs of these partitions rise, taken together",
    **{
        name: meaning
        for name, meaning in CHANGE_METRICS.items()
        if name not in ("back_online", "isr_shrunk")
    },
}
"""What a reassignment counts besides `CENSUS_METRICS`, and what each count means."""


@dataclass(frozen=True)
class Reassignment:
    """What executing a reassignment plan does.

    Attributes
    ----------
    title : str
        Name of the controller that is simulated.
    broker_ids : tuple of int
        Who failed while the plan was under way.
    pending : bool
        The end is before any new replica has caught up.
    state : ClusterState
        The cluster in the end.
    notes : tuple of str
        What the tool would say to the plan.
    start : Impact
        What the controller's start alone did.
    before, after : Census
        After the controller's start, and in the end.
    under_way : mapping of str to int
        Once the plan is accepted, before any new replica has caught up: `CENSUS_METRICS`, and how
        many partitions are newly_offline and newly_under_min_isr then.
    partitions : pa.Table
        A row for each partition of the plan, then for each that was being reassigned before
        (`schema.REASSIGNMENT_PARTITIONS`). `partition_row` is its row in `before.state`, in
        `state`, and in the state that was given.
    events : tuple of EventOutcome
        The start, the request, the failure if there is one, and what leaders reported.
    """

    title: str
    broker_ids: tuple[int, ...]
    pending: bool
    state: ClusterState
    notes: tuple[str, ...]
    start: Impact
    before: Census
    under_way: Mapping[str, int]
    after: Census
    partitions: pa.Table
    events: tuple[EventOutcome, ...]
    rows: npt.NDArray[np.int32]

    @property
    def summary(self) -> dict[str, int]:
        """Every metric of the census (in the end), of `REASSIGNMENT_METRICS`; KRaft: of records."""
        added, removed = self._moved()
        counts = self.partitions["status"].combine_chunks().value_counts().to_pylist()
        rise = self._epochs(self.after.state) - self._epochs(self.before.state)
        metrics = {
            **self._impact.summary,
            **dict.fromkeys(("refused", "completed", "pending"), 0),
            **{row["values"]: row["counts"] for row in counts},
            "replicas_added": int(added.sum()),
            "replicas_removed": int(removed.sum()),
            "leader_epoch_bumps": int(rise.sum()),
        }
        written = () if self.after.elr is None else RECORD_METRICS
        return {
            name: metrics[name] for name in (*self.after.counts, *REASSIGNMENT_METRICS, *written)
        }

    @property
    def reasons(self) -> dict[str, int]:
        """Why the plan is not safe: partitions by reason, the worst first; empty if it is safe.

        A plan is safe if none of it is refused, all of it completes, nothing goes offline or falls
        under min ISR on the way or in the end, and no leader is elected outside the ISR. With
        `pending` there is no end yet.
        """
        counts, on_the_way = self.summary, self.under_way
        troubles = ("newly_offline", "newly_under_min_isr")
        reasons = {f"{name}_on_the_way": on_the_way[name] for name in troubles}
        in_the_end = () if self.pending else (*troubles, "pending")
        reasons |= {name: counts[name] for name in (*in_the_end, "unclean", "refused")}
        return {name: n for name, n in reasons.items() if n}

    @property
    def requests(self) -> pa.Table:
        """Per kind: how many requests are sent, and the partitions in them, over all brokers."""
        return self._impact.requests

    @property
    def brokers(self) -> pa.Table:
        """Every broker: replicas before, added, removed and now; leaders; requests sent to it.

        `preferred` counts the partitions whose preferred replica the broker holds.
        """
        added, removed = self._moved()
        first = self.state.replicas[:, 0][self.state.records["n_replicas"] > 0]
        preferred = np.bincount(first, minlength=self.state.n_brokers)
        return REASSIGNMENT_BROKERS.table(columns_of(self._impact.brokers) | {
            "replicas_before": self.before.per_broker[:, 1].copy(), "added": added,
            "removed": removed, "preferred": preferred,
        })

    @property
    def topics(self) -> pa.Table:
        """Topics of these partitions, the worst first: refused, then pending, then moved."""
        columns = {"partitions": pa.array(np.ones(self.partitions.num_rows, np.int64))}
        status = self.partitions["status"].to_numpy()
        for name in ("refused", "pending", "completed"):
            columns[name] = pa.array((status == name).astype(np.int64))
        for name, flags in (("leaders_moved", "leader_moved"), ("not_preferred",) * 2):
            columns[name] = self.partitions[flags].cast(pa.int64())
        table = pa.table({"topic": self.partitions["topic"], **columns})
        counted = table.group_by("topic", use_threads=False).aggregate(
            [(name, "sum") for name in columns]
        )
        counted = counted.select(["topic", *(f"{name}_sum" for name in columns)])
        counted = counted.rename_columns(["topic", *columns])
        worst = ("refused", "pending", "leaders_moved", "partitions")
        order = [(name, "descending") for name in worst] + [("topic", "ascending")]
        return REASSIGNMENT_TOPICS.table(columns_of(counted.sort_by(order)))

    def _summary(self) -> Summary:
        counts = self.summary
        return "Reassignment", {
            "partitions": self.partitions.num_rows,
            **{name: counts[name] for name in (*REASSIGNMENT_METRICS, *CENSUS_METRICS)},
            "failed broker_ids": ",".join(map(str, self.broker_ids)) or None,
            "controller": self.title,
            "notes": len(self.notes),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    @property
    def _impact(self) -> Impact:
        outcomes = [event.outcome for event in self.events[1:]]
        return impact(self.before, self.after, outcomes)

    def _epochs(self, state: ClusterState) -> npt.NDArray[np.int64]:
        return state.records["leader_epoch"][self.rows].astype(np.int64)

    def _moved(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(B,) replicas that each broker won and lost."""
        then, now = _placed(self.before.state, self.rows), _placed(self.state, self.rows)
        n = self.state.n_brokers
        won = np.setdiff1d(now, then, assume_unique=True)
        lost = np.setdiff1d(then, now, assume_unique=True)
        return np.bincount(won % n, minlength=n), np.bincount(lost % n, minlength=n)


def execute_plan(
    state: ClusterState,
    plan: Reassignments,
    *,
    broker_ids: Iterable[int] = (),
    pending: bool = False,
    elect_preferred: bool = False,
    journal: str = "counts",
    threads: int = 1,
    profile: str | Profile | None = None,
    order: Sequence[int] | None = None,
) -> Reassignment:
    """Start a controller on a copy of the cluster, and execute a reassignment plan.

    Each live target of a partition that is being reassigned catches up, and its leader reports it;
    so what can complete does. What cannot, because a target or the leader is down, stays pending.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    plan : mapping of (topic, partition) to broker ids or None, or pa.Table
        As for `Controller.alter_partition_reassignments`: None cancels. `kfast.read_plan` reads
        one from a file.
    broker_ids : iterable of int
        Registered brokers that fail, all at once, before any new replica has caught up.
    pending : bool
        Stop there: nobody catches up.
    elect_preferred : bool
        In the end, the preferred leaders of the partitions that were not refused are elected, as
        with `kafka-leader-election`: a new order of the same replicas moves no leader by itself.
    journal : {"off", "counts", "full"}
        Requests are counted from "counts" on.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile, optional
        Another version of the controller that runs the cluster, such as zk-2.4. Before 2.7 leaders
        do not ask the controller: all that lags on the brokers that catch up catches up with it.
    order : sequence of int, optional
        As in `fail_brokers`: who is fenced first (KRaft only).

    Raises
    ------
    ArgumentError
        A partition stands twice in the plan; a broker that is to fail is unknown or not registered,
        or `order` names another; an unknown broker is in a plan for a controller that would not
        check it (before 2.5), or a partition is to be cancelled by one that cannot (before 2.4).
    """
    check_instance("state", state, ClusterState)
    failing = check_brokers(state, broker_ids)
    run = WhatIf(
        state, journal=journal, threads=threads, profile=profile, order=order, frees_rows=True
    )
    check_order(order, failing)
    requested = RequestedPlan.of(run.before.state, plan)
    events, errors = run.common.request_plan(requested.plan)
    run.record(events)
    run.fail(failing)
    meanwhile = run.measure()
    under_way = {
        **meanwhile.after.counts,
        "newly_offline": int(meanwhile.newly("offline").sum()),
        "newly_under_min_isr": int(meanwhile.newly("under_min_isr").sum()),
    }
    if not pending:
        run.record(run.common.plan_caught_up())
    accepted = [
        key for key, error in zip(requested.partitions, errors, strict=True) if error is None
    ] if elect_preferred else []
    if accepted:
        run.record(run.common.preferred_leaders_elected(accepted))
    run.measure()
    table = _partition_table(requested, run, errors, pending)
    return Reassignment(
        run.common.title, failing, pending, run.state,
        tuple(_notes(requested, run.before.state)), run.start, run.before, under_way, run.census,
        table, tuple(run.events), requested.rows[requested.rows >= 0],
    )


@dataclass(frozen=True)
class RequestedPlan:
    """A plan, and the partitions that it or an earlier one speaks of.

    `rows` are partition rows: those of the plan in its order, -1 where one is unknown; then those
    that were being reassigned before and are not in the plan.
    """

    plan: pa.Table
    rows: Rows

    @classmethod
    def of(cls, state: ClusterState, plan: Reassignments) -> RequestedPlan:
        """Read a plan; `ArgumentError` where a partition stands twice."""
        table = as_table(plan)
        rows = parse(state, table).rows
        before = np.flatnonzero(being_reassigned(state)).astype(np.int32)
        return cls(table, np.concatenate([rows, np.setdiff1d(before, rows)]))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and number of each partition of the plan."""
        names, numbers = (self.plan[name].to_pylist() for name in ("topic", "partition"))
        return list(zip(names, numbers, strict=True))


def _named(plan: pa.Table) -> npt.NDArray[np.int32]:
    """Broker ids that a plan names."""
    ids: npt.NDArray[np.int32] = plan["replicas"].combine_chunks().flatten().to_numpy()
    return ids


def _notes(requested: RequestedPlan, before: ClusterState) -> Iterator[str]:
    """What an operator should know besides."""
    tool = "kafka-reassign-partitions"
    named = np.unique(_named(requested.plan))
    rows = before.broker_rows(named)
    down = named[(rows < 0) | ~before.up[rows]].tolist()
    if down:
        yield (
            f"{brokers_are(down[:10], 'in the plan and not up')}; {tool} refuses such a plan as a "
            "whole, so this is what the controller itself would answer"
        )
    unknown = named[rows < 0].tolist()
    if unknown:
        yield f"{brokers_are(unknown[:10], 'unknown')}: {how_to_add(unknown[0])}"
    under_way = int(being_reassigned(before).sum())
    if under_way and requested.plan.num_rows:
        yield (
            f"{under_way} partitions are being reassigned already; {tool} adds a plan to them only "
            "with --additional"
        )


# --- one row for each partition ------------------------------------------------------------------


def _placed(state: ClusterState, rows: Rows) -> npt.NDArray[np.int64]:
    """Every assigned replica of some rows as one number: place of the row, and broker row."""
    n = state.records["n_replicas"][rows].astype(np.int64)
    assigned = np.arange(state.n_slots) < n[:, np.newaxis]
    owner = np.repeat(np.arange(rows.size, dtype=np.int64), n)
    places: npt.NDArray[np.int64] = owner * state.n_brokers + state.replicas[rows][assigned]
    return places


def _partition_table(
    requested: RequestedPlan, run: WhatIf, errors: list[str | None], pending: bool
) -> pa.Table:
    """What was asked for each partition, and what became of it."""
    before, after = run.before.state, run.state
    rows, n_planned = requested.rows, requested.plan.num_rows
    is_known = rows >= 0
    known = rows[is_known]
    place = pa.array(np.cumsum(is_known) - 1, mask=~is_known)
    refused = np.zeros(rows.size, np.bool_)
    refused[:n_planned] = [error is not None for error in errors]
    moving = np.zeros(rows.size, np.bool_)
    moving[is_known] = being_reassigned(after, known)
    status = np.where(refused, "refused", np.where(moving, "pending", "completed"))
    later = rows[n_planned:]
    columns: dict[str, Any] = {
        "topic": _longer(requested.plan["topic"], topic_names(before, later)),
        "partition": _longer(requested.plan["partition"], pa.array(before.partition[later])),
        "partition_row": pa.array(rows, mask=~is_known),
        "planned": pa.array(np.arange(rows.size) < n_planned),
        "target": _longer(requested.plan["replicas"], pa.nulls(later.size, pa.list_(pa.int32()))),
        "status": pa.array(status.tolist(), pa.string()),
        "error": pa.array([*errors, *[None] * later.size], pa.string()),
    }
    at = np.flatnonzero(refused)
    named = ("topic", "partition", "target", "error")
    refusals = pa.table({name: columns[name] for name in named}).take(pa.array(at)).to_pylist()
    waiting, delays = _delays(after, known, run.common.awaited_slots(known), pending)
    reasons = np.full(rows.size, None, object)
    reasons[is_known] = delays
    reasons[at] = [_refusal(row, before) for row in refusals]
    columns["reason"] = pa.array(reasons, pa.string())
    then, now = _columns(before, known), _columns(after, known)
    for name in ("replicas", "leader", "isr", "leader_epoch"):
        columns[f"{name}_before"], columns[name] = then[name].take(place), now[name].take(place)
    for name, values in (("adding", now["adding"]), ("removing", now["removing"]),
                         ("waiting_for", waiting)):
        columns[name] = values.take(place)
    flags = {
        "leader_moved": run.impact.leaders_moved,
        "not_preferred": run.census.flags("not_preferred"),
    }
    for name, flag in flags.items():
        values = np.zeros(rows.size, np.bool_)
        values[is_known] = flag[known]
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
        "leader": pa.array(ids_of_rows(state, records["leader"])),
        "isr": id_lists(state, rows, records["isr"]),
        "leader_epoch": pa.array(records["leader_epoch"].copy()),
        "adding": ordered_lists(state, "adding", rows, records["adding"]),
        "removing": ordered_lists(state, "removing", rows, records["removing"]),
    }


def _delays(
    state: ClusterState, rows: Rows, missing: Slots, pending: bool
) -> tuple[pa.ListArray, npt.NDArray[np.object_]]:
    """Per row: targets that have to get in sync first, and why that is not so; None if complete."""
    records, live = state.records.take(rows), state.live_slots(rows)
    moving = being_reassigned(state, rows)
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


def _sentences(brokers: pa.ListArray, predicate: str) -> npt.NDArray[np.object_]:
    """Sentences that begin with the broker ids of each list."""
    lists = pc.binary_join(brokers.cast(pa.list_(pa.string())), ", ")
    one = pc.equal(pc.list_value_length(brokers), 1)
    singular = predicate.replace("have", "has").replace("are", "is")
    sentences: npt.NDArray[np.object_] = pc.binary_join_element_wise(
        pc.if_else(one, "broker", "brokers"), lists, pc.if_else(one, singular, predicate), " ",
    ).to_numpy(zero_copy_only=False)
    return sentences


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
    if target is None:
        return "no original replica is in the ISR, and unclean leader election is not allowed"
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
        if not before.up[at] and broker not in origin
    ]
    return f"of those to be added, {brokers_are(down, 'down')}"


def _origin(row: Mapping[str, Any], before: ClusterState) -> tuple[int, ...]:
    """Brokers that a partition comes from; none if it is unknown."""
    lookup = before.lookup
    at = lookup.rows(lookup.topics([row["topic"]]), np.asarray([row["partition"]], np.int32))[0]
    return before.assignment(int(at)).origin if at >= 0 else ()


def _unknown(row: Mapping[str, Any], before: ClusterState) -> str:
    topic = before.lookup.topic_or_none(row["topic"])
    if topic is None:
        return "the topic is unknown"
    if before.topic_queued_for_deletion[topic]:
        return "the topic is marked for deletion"
    n = before.lookup.rows_of_topic(topic).size
    return f"the topic has {n} partition{'' if n == 1 else 's'}"
