"""Whether a reassignment plan is good: the rules it keeps, and what brokers carry on the way.

Each batch of the plan is executed by the simulated controller, so that what is refused or does not
complete is what Kafka refuses and does not complete. What brokers carry is summed up plainly over
the replicas of the states before, under way and in the end.

Source: docs/capacity.md, section "Is a plan good?".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.analysis.plan_execution import Reassignment, execute_plan
from kfast.arguments import MAX_LONG, check_instance, shown
from kfast.capacity.failures.broker_totals import (
    TOTALS,
    Integers,
    broker_totals,
    most_meanwhile,
    replica_sizes,
)
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, prepare_capacity
from kfast.capacity.failures.cpu_models import MEASURED, CpuWeights
from kfast.capacity.failures.limits import RESOURCES, USED
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.capacity.placements.cruise_control_goals import BrokerUse, goals_table
from kfast.capacity.placements.placement_rules import (
    BrokerLimits,
    PlanRules,
    broken_by_entries,
    count_missing_racks,
)
from kfast.capacity.placements.plan_objective import (
    OBJECTIVE,
    above_mean,
    count_not_preferred,
    highest_share,
    topic_excess,
)
from kfast.capacity.restorations.restoration_demand import Demand
from kfast.capacity.restorations.restoration_times import NO_LIMIT, Ports, Restoration
from kfast.controllers import Reassignments
from kfast.controllers.reassignment_requests import as_table
from kfast.errors import ArgumentError
from kfast.schema import (
    CAPACITY_SWEEP,
    PLAN_BATCHES,
    PLAN_BROKERS,
    PLAN_FAILURES,
    PLAN_MOVES,
    PLAN_OBJECTIVE,
    PLAN_PARTITIONS,
    PLAN_RULES,
    columns_of,
)
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.sweeps.scenario_makers import every_broker, every_rack
from kfast.sweeps.scenarios import Scenarios

__all__ = ["PLAN_METRICS", "PlanCheck", "check_plan"]

Batches: TypeAlias = Reassignments | Sequence[Reassignments]

PLAN_METRICS: Mapping[str, str] = {
    "broken_rules": "violations of hard rules that were none before the plan",
    "refused": "entries that the controller refuses",
    "pending": "partitions whose reassignment is still under way in the end",
    "newly_offline": "partitions that go offline, under way or in the end, over all batches",
    "newly_under_min_isr": "partitions that fall under min ISR, under way or in the end",
    "unclean": "leaders elected outside the ISR",
    "partitions": "entries of the plan",
    "replicas_added": "replicas that are copied",
    "bytes_moved": "bytes that are copied",
    "leaders_moved": "leaders that move",
    "over_limit_before": "brokers over a limit before the plan, without a failure",
    "over_limit_during": "brokers over a limit at the worst moment",
    "over_limit_after": "brokers over a limit after the plan, without a failure",
    "seconds_bound": "seconds that copying takes at least, over all batches; null where it never "
    "ends or nothing limits it",
    "seconds_fair": "the same if copies share networks fairly",
    "headroom_before": "1 less the highest share of a limit, without a failure, before the plan",
    "headroom_after": "the same after the plan",
    "worst_headroom_before": "lowest headroom of any failure before the plan",
    "worst_headroom_after": "the same after the plan",
    "failures_over_limit": "failures after the plan that leave a broker over a limit",
}
"""What conditions may be about."""

MOST_FAIR_PAIRS = 1000
"""Pairs of brokers between which a batch copies, for a fair time: the work grows with their square.
"""

UNSAFE = ("broken_rules", "refused", "pending", "newly_offline", "newly_under_min_isr", "unclean")
"""Metrics that are not 0 if a plan is not good."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One batch of a plan that has been executed.

    Attributes
    ----------
    number : int
    plan : pa.Table
        topic, partition, replicas.
    accepted, ended : Reassignment
        Before any new replica has caught up, and in the end.
    start, totals : (B, 6) int64
        `TOTALS` before the batch, and at its worst moment.
    sizes : (P, S) int64
        Bytes of each replica in the end.
    """

    number: int
    plan: pa.Table
    accepted: Reassignment
    ended: Reassignment
    start: Integers
    totals: Integers
    sizes: Integers


@dataclass(frozen=True, eq=False)
class PlanCheck:
    """What a plan does to the brokers of a cluster, and whether it keeps the hard rules.

    Attributes
    ----------
    state_before, state : ClusterState
        The cluster before and after the plan.
    load : PartitionLoad
        Loads of that cluster: replicas that were moved have the size of their partition, and the
        use of processors follows their work.
    before, after : CapacityPlan
        The cluster before and after the plan, ready for sweeps.
    baseline_before, baseline_after : dict
        Rows of a capacity sweep without a failure.
    broken_rules, partitions, batches, brokers, moves, failures, objective : pa.Table
        `schema.PLAN_RULES`, `PLAN_PARTITIONS`, `PLAN_BATCHES`, `PLAN_BROKERS`, `PLAN_MOVES`,
        `PLAN_FAILURES`, `PLAN_OBJECTIVE`.
    notes : tuple of str
        What the tool would say to the plan.
    """

    state_before: ClusterState
    state: ClusterState
    load: PartitionLoad
    before: CapacityPlan
    after: CapacityPlan
    baseline_before: Mapping[str, Any]
    baseline_after: Mapping[str, Any]
    broken_rules: pa.Table
    partitions: pa.Table
    batches: pa.Table
    brokers: pa.Table
    moves: pa.Table
    failures: pa.Table
    objective: pa.Table
    notes: tuple[str, ...]

    @property
    def objective_before(self) -> tuple[int, ...]:
        """The vector of `OBJECTIVE` before the plan."""
        return tuple(self.objective["before"].to_pylist())

    @property
    def objective_after(self) -> tuple[int, ...]:
        """The same after the plan; the plan is better than none if it is smaller."""
        return tuple(self.objective["after"].to_pylist())

    @cached_property
    def goals(self) -> pa.Table:
        """Which of Cruise Control's default goals are met before and after: `PLAN_GOALS`."""
        normal = self.before.normal
        capacities = {
            name: column.tolist() for name, column in zip(
                RESOURCES, (*normal.capacity.T, normal.disk_capacity), strict=True
            )
        }
        names = {**USED, "leaders": "leaders", "replicas": "replicas"}
        before, after = (
            BrokerUse(state, self.load, {
                name: self.brokers[f"{column}_{when}"].to_pylist()
                for name, column in names.items()
            }, capacities)
            for state, when in ((self.state_before, "before"), (self.state, "after"))
        )
        return goals_table(before, after)

    @cached_property
    def summary(self) -> dict[str, int | float | None]:
        """Every one of `PLAN_METRICS`."""
        new = pc.invert(self.broken_rules["broken_before"])
        summed = ("refused", "newly_offline", "newly_under_min_isr", "unclean", "partitions",
                  "replicas_added", "bytes_moved", "leaders_moved")
        values: dict[str, int | float | None] = {
            "broken_rules": pc.sum(new).as_py() or 0,
            **{name: pc.sum(self.batches[name]).as_py() or 0 for name in summed},
            "pending": self.batches["pending"][-1].as_py(),
            **{name: None if self.batches[name].null_count else pc.sum(self.batches[name]).as_py()
               for name in ("seconds_bound", "seconds_fair")},
            "headroom_before": self.baseline_before["headroom"],
            "headroom_after": self.baseline_after["headroom"],
            "worst_headroom_before": pc.min(self.failures["headroom_before"]).as_py(),
            "worst_headroom_after": pc.min(self.failures["headroom"]).as_py(),
            "failures_over_limit": pc.sum(pc.greater(self.failures["over_limit"], 0)).as_py() or 0,
        }
        for when in ("before", "during", "after"):
            lists = self.brokers[f"over_limit_{when}"]
            over = pc.greater(pc.list_value_length(lists), 0)
            values[f"over_limit_{when}"] = pc.sum(over).as_py() or 0
        return {name: values[name] for name in PLAN_METRICS}

    @property
    def reasons(self) -> dict[str, int]:
        """Why the plan is not good: metrics of `UNSAFE` that are not 0; empty if it is good."""
        return {name: int(n) for name in UNSAFE if (n := self.summary[name])}

    def _summary(self) -> Summary:
        return "PlanCheck", {**self.summary, "batches": self.batches.num_rows}

    __repr__ = summary_text
    _repr_html_ = summary_html


def check_plan(
    state: ClusterState, plan: Batches, load: PartitionLoad, capacity: BrokerCapacity, *,
    scenarios: Iterable[Scenarios] | None = None,
    normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED,
    excluded_topics: Iterable[str] = (), excluded_brokers: Iterable[int] = (),
    broker_sets: Mapping[str, Iterable[int]] | None = None, elect_preferred: bool = True,
    throttle: int | Sequence[int | None] | None = None, threads: int = 1,
) -> PlanCheck:
    """Execute a plan, batch by batch, and measure what it does.

    Nothing here is shared with what looks for plans.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    plan : mapping of (topic, partition) to broker ids or None, or pa.Table, or a sequence of those
        As for `kfast.execute_plan`; of a sequence, batches one after another.
    load : PartitionLoad
        Of `state`.
    capacity : BrokerCapacity
        Of `state`.
    scenarios : iterable of Scenarios, optional
        Failures to be measured before and after; by default every broker, and every rack if there
        are racks.
    normal_limits, failed_limits, replicas_limit, weights, cpu_model
        As of `kfast.prepare_capacity`.
    excluded_topics : iterable of str
        Regular expressions of names of topics that a plan must not change.
    excluded_brokers : iterable of int
        Brokers on which it must not add replicas.
    broker_sets : mapping of str to iterable of int, optional
        Brokers of each set; replicas of a partition have to stay within one.
    elect_preferred : bool
        After each batch the preferred leaders of its partitions are elected, as with
        `kafka-leader-election`. Kafka's reassignment alone moves a leader only if it loses its
        replica.
    throttle : int, or sequence of (int or None), optional
        Bytes a second that each broker may send to, and receive for, replicas that are copied: what
        `kafka-reassign-partitions --throttle` sets. A sequence has one for each batch.
    threads : int

    Raises
    ------
    ArgumentError
        A partition stands twice in a batch; there is no batch, or not a throttle for each;
        scenarios are of another cluster; a limit, a broker or a regular expression is wrong; broker
        sets do not have each broker once.
    """
    check_instance("state", state, ClusterState)
    tables = [as_table(batch) for batch in _batches_of(plan)]
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    copying = _copying(throttle, len(tables))
    rules = PlanRules.of(state, excluded_topics, excluded_brokers, broker_sets)
    asked = _scenarios_of(state, scenarios)
    options: dict[str, Any] = {
        "normal_limits": normal_limits, "failed_limits": failed_limits,
        "replicas_limit": replicas_limit, "weights": weights,
        "cpu_model": cpu_model, "threads": threads,
    }
    # In which directories new replicas will lie, nobody knows: disks are compared as one.
    before = prepare_capacity(state, replace(load, replica_log_dir=None), capacity, **options)
    batches = _execute(state, tables, load, before.weights, elect_preferred, threads)
    first, last = batches[0].accepted.before.state, batches[-1].ended.state
    sizes_after = batches[-1].sizes
    totals_before = batches[0].start
    totals_after = broker_totals(last, load, sizes_after, before.weights)
    limits = BrokerLimits(before, load, totals_before[:, TOTALS.index("work")])
    load_after = _load_after(load, sizes_after, limits.microcores(totals_after))
    after = prepare_capacity(last, load_after, capacity, **options)
    baselines = [next(plan.batches(every_broker(state).slice(0, 1))) for plan in (before, after)]
    sweeps = [_sweep(plan, asked) for plan in (before, after)]
    moves = _moves(batches, load)
    broken = _broken_rules(first, batches, rules, limits, totals_before, totals_after)
    return PlanCheck(
        first, last, load_after, before, after, baselines[0].to_pylist()[0],
        baselines[1].to_pylist()[0], broken, _partitions(batches),
        _batch_rows(batches, moves, limits, copying),
        _broker_rows(state, batches, limits, totals_before, totals_after, moves), moves,
        _failures(asked, *sweeps),
        _objective(
            (first, last), limits, (totals_before, totals_after), (before, after), baselines,
            sweeps, broken, moves, tables,
        ),
        tuple(dict.fromkeys(note for batch in batches for note in batch.ended.notes)),
    )


def _batches_of(plan: Batches) -> list[Reassignments]:
    """A plan as a list of batches."""
    if isinstance(plan, pa.Table | Mapping):
        return [plan]
    if not isinstance(plan, Sequence) or isinstance(plan, str | bytes) or not plan:
        raise ArgumentError(
            f"plan is {shown(plan)}; right is a mapping of (topic, partition) to broker ids, a "
            "table as of kfast.read_plan, or a sequence of at least one of those"
        )
    return list(plan)


def _copying(
    throttle: int | Sequence[int | None] | None, n_batches: int
) -> list[Restoration]:
    """How replicas of each batch are copied."""
    rates = throttle if isinstance(throttle, Sequence) else [throttle] * n_batches
    if len(rates) != n_batches:
        raise ArgumentError(
            f"throttle has {len(rates)} rates; right is one, or one for each of {n_batches} batches"
        )
    return [Restoration("replace", leader_throttle=rate, follower_throttle=rate) for rate in rates]


def _scenarios_of(
    state: ClusterState, scenarios: Iterable[Scenarios] | None
) -> tuple[Scenarios, ...]:
    """The failures to be measured."""
    if scenarios is None:
        has_racks = any(
            rack is not None
            for rack, up in zip(state.rack.to_pylist(), state.up.tolist(), strict=True) if up
        )
        return (every_broker(state), *([every_rack(state)] if has_racks else []))
    asked = (scenarios,) if isinstance(scenarios, Scenarios) else tuple(scenarios)
    for one in asked:
        check_instance("scenarios", one, Scenarios)
        if not np.array_equal(one.broker_id, state.broker_id):
            raise ArgumentError("the scenarios are of a cluster with other brokers")
    return asked


def _execute(
    state: ClusterState, tables: Sequence[pa.Table], load: PartitionLoad, weights: CpuWeights,
    elect_preferred: bool, threads: int,
) -> list[Batch]:
    """Execute batches one after another, and sum up what brokers carry."""
    batches: list[Batch] = []
    known = state, replica_sizes(state, load)
    for number, table in enumerate(tables, 1):
        accepted = execute_plan(known[0], table, pending=True, threads=threads)
        ended = execute_plan(
            known[0], table, elect_preferred=elect_preferred, threads=threads
        )
        then = accepted.before.state
        start_sizes = replica_sizes(then, load, known)
        under_way = replica_sizes(accepted.state, load, (then, start_sizes))
        sizes = replica_sizes(ended.state, load, (then, start_sizes))
        totals = most_meanwhile(
            (accepted.state, ended.state), accepted.rows, load, (under_way, sizes), weights
        )
        batches.append(Batch(
            number, table, accepted, ended, broker_totals(then, load, start_sizes, weights),
            totals, sizes,
        ))
        known = ended.state, sizes
    return batches


def _load_after(
    load: PartitionLoad, sizes: Integers, microcores: Sequence[int | None]
) -> PartitionLoad:
    """Loads of the cluster after a plan."""
    cpu = None
    if load.cpu_microcores is not None:
        cpu = np.array([-1 if used is None else used for used in microcores], np.int64)
    return replace(
        load, cpu_microcores=cpu,
        replica_bytes=None if load.replica_bytes is None else sizes, replica_log_dir=None,
    )


def _sweep(plan: CapacityPlan, asked: Sequence[Scenarios]) -> pa.Table:
    """Rows of all failures, without the baseline."""
    batches = [batch for scenarios in asked for batch in plan.batches(scenarios.failures)]
    return pa.Table.from_batches(batches, CAPACITY_SWEEP.schema)


def _failures(asked: Sequence[Scenarios], before: pa.Table, after: pa.Table) -> pa.Table:
    """Failures by their headroom after the plan."""
    ids = [
        failures.brokers(number) for failures in (scenarios.failures for scenarios in asked)
        for number in range(failures.start, failures.stop)
    ]
    table = PLAN_FAILURES.table({
        **columns_of(after.drop_columns(["scenario"])),
        "brokers": pa.array(ids, pa.list_(pa.int32())), "headroom_before": before["headroom"],
    })
    worst = (("headroom", "ascending"), ("bytes_in_leaderless", "descending"),
             ("brokers_down", "ascending"))
    return table.take(pc.sort_indices(table, sort_keys=worst))


def _moves(batches: Sequence[Batch], load: PartitionLoad) -> pa.Table:
    """Replicas that are added, by batch, leader and receiver."""
    parts = [_moves_of(batch, load) for batch in batches]
    table = pa.concat_tables([PLAN_MOVES.schema.empty_table(), *parts])
    keys = ["batch", "source", "destination"]
    sums = ["replicas", "bytes_moved", "bytes_in"]
    added = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in sums])
    added = added.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns([*keys, *sums])
    return PLAN_MOVES.table(columns_of(added.sort_by([(name, "ascending") for name in keys])))


def _moves_of(batch: Batch, load: PartitionLoad) -> pa.Table:
    """Replicas that one batch adds, one by one."""
    then, now = batch.accepted.before.state, batch.accepted.state
    rows = batch.accepted.rows
    had = np.arange(then.n_slots) < then.records["n_replicas"][rows][:, None]
    old = np.where(had, then.replicas[rows].astype(np.int64), -1)
    new = now.replicas[rows].astype(np.int64)
    added = np.arange(now.n_slots) < now.records["n_replicas"][rows][:, None]
    for slot in range(then.n_slots):
        added &= new != old[:, slot : slot + 1]
    at, slots = np.nonzero(added)
    leader = now.records["leader"][rows[at]]
    source = pa.array(now.broker_id[np.maximum(leader, 0)], pa.int32(), mask=leader < 0)
    return PLAN_MOVES.table({
        "batch": pa.array(np.full(at.size, batch.number, np.int32)), "source": source,
        "destination": pa.array(now.broker_id[new[at, slots]], pa.int32()),
        "replicas": pa.array(np.ones(at.size, np.int64)),
        "bytes_moved": pa.array(load.disk_bytes[rows[at]]),
        "bytes_in": pa.array(load.bytes_in[rows[at]]),
    })


def _partitions(batches: Sequence[Batch]) -> pa.Table:
    """What becomes of each entry, batch by batch."""
    return pa.concat_tables([
        PLAN_PARTITIONS.table({
            **columns_of(batch.ended.partitions),
            "batch": pa.array(np.full(batch.ended.partitions.num_rows, batch.number, np.int32)),
        })
        for batch in batches
    ])


def _batch_rows(
    batches: Sequence[Batch], moves: pa.Table, limits: BrokerLimits,
    copying: Sequence[Restoration],
) -> pa.Table:
    """What each batch does."""
    rows = []
    for batch, settings in zip(batches, copying, strict=True):
        own = moves.filter(pc.equal(moves["batch"], batch.number))
        counts, reasons = batch.ended.summary, batch.ended.reasons
        sent = _by_broker(own, "source", "bytes_moved")
        received = _by_broker(own, "destination", "bytes_moved")
        replicas = [_by_broker(own, end, "replicas") for end in ("source", "destination")]
        rows.append({
            "batch": batch.number, "partitions": batch.plan.num_rows,
            "leadership_only": _count_leadership_only(batch),
            **{name: counts[name]
               for name in ("refused", "completed", "pending", "unclean", "leaders_moved")},
            **{name: max(reasons.get(name, 0), reasons.get(f"{name}_on_the_way", 0))
               for name in ("newly_offline", "newly_under_min_isr")},
            "replicas_added": pc.sum(own["replicas"]).as_py() or 0,
            "most_replicas_of_a_broker": max((*replicas[0].values(), *replicas[1].values()),
                                             default=0),
            "bytes_moved": pc.sum(own["bytes_moved"]).as_py() or 0,
            "most_bytes_received": max(received.values(), default=0),
            "most_bytes_sent": max(sent.values(), default=0),
            "brokers_over_limit": sum(bool(names) for names in limits.over(batch.totals)),
            **_copy_times(own, limits.plan, batch.start, settings),
            "throttle": settings.leader_throttle,
        })
    return pa.Table.from_pylist(rows, PLAN_BATCHES.schema)


def _copy_times(
    moves: pa.Table, plan: CapacityPlan, start: Integers, copying: Restoration
) -> dict[str, Any]:
    """How long it takes to copy the replicas of a batch; those without a leader are left out."""
    moves = moves.filter(pc.is_valid(moves["source"]))
    source, destination = (
        np.searchsorted(plan.broker_id, moves[end].to_numpy()) for end in ("source", "destination")
    )
    debt, live = moves["bytes_moved"].to_numpy(), moves["bytes_in"].to_numpy()
    none = np.zeros(0, np.int64)
    demand = Demand(source, destination, debt, live, 0, none, none)
    ports = Ports.of(plan, copying, demand, start)
    limits = np.minimum(ports.sending[source], ports.receiving[destination])
    is_known = not ((limits == NO_LIMIT) & (debt > 0)).any()
    is_shared = is_known and source.size <= MOST_FAIR_PAIRS
    return {
        "seconds_bound": ports.bound(demand) if is_known else None,
        "seconds_fair": ports.times(demand)[1] if is_shared else None,
        "stuck_brokers": plan.broker_id[ports.stuck].tolist(),
    }


def _count_leadership_only(batch: Batch) -> int:
    """Entries that add no replica and take none away."""
    rows = batch.ended.partitions.filter(batch.ended.partitions["planned"])
    return sum(
        target is not None and replicas is not None and set(target) == set(replicas)
        for target, replicas in zip(
            rows["target"].to_pylist(), rows["replicas_before"].to_pylist(), strict=True
        )
    )


def _by_broker(moves: pa.Table, end: str, name: str) -> dict[int, int]:
    """Sums of moves by the broker at one end; copies without a leader have no source."""
    sums: dict[int, int] = {}
    for broker, amount in zip(moves[end].to_pylist(), moves[name].to_pylist(), strict=True):
        if broker is not None:
            sums[broker] = sums.get(broker, 0) + amount
    return sums


def _broker_rows(
    state: ClusterState, batches: Sequence[Batch], limits: BrokerLimits, before: Integers,
    after: Integers, moves: pa.Table,
) -> pa.Table:
    """What each broker carries before the plan, at its worst moment, and after it."""
    during = np.maximum.reduce([before, after, *(batch.totals for batch in batches)])
    columns: dict[str, Any] = {"broker_id": pa.array(state.broker_id), "rack": state.rack}
    for when, totals in (("before", before), ("during", during), ("after", after)):
        for name in ("bytes_in", "bytes_out", "disk_bytes", "leaders", "replicas"):
            columns[f"{name}_{when}"] = pa.array(totals[:, TOTALS.index(name)].copy())
        columns[f"cpu_microcores_{when}"] = pa.array(limits.microcores(totals), pa.int64())
        columns[f"over_limit_{when}"] = pa.array(limits.over(totals), pa.list_(pa.string()))
    for name, end in (("bytes_received", "destination"), ("bytes_sent", "source")):
        sums = _by_broker(moves, end, "bytes_moved")
        columns[name] = pa.array([sums.get(b, 0) for b in state.broker_id.tolist()], pa.int64())
    return PLAN_BROKERS.table(columns)


def _broken_rules(
    state: ClusterState, batches: Sequence[Batch], rules: PlanRules, limits: BrokerLimits,
    before: Integers, after: Integers,
) -> pa.Table:
    """Hard rules that are broken: by entries, while batches are under way, and in the end."""

    def rows() -> Iterator[dict[str, Any]]:
        for batch in batches:
            yield from broken_by_entries(state, batch.number, batch.plan.to_pylist(), rules)
            yield from limits.broken_meanwhile(batch.number, batch.totals, batch.start)
        yield from limits.broken(after, before)

    return pa.Table.from_pylist([*rows()], PLAN_RULES.schema)


def _objective(
    states: tuple[ClusterState, ClusterState], limits: BrokerLimits,
    totals: tuple[Integers, Integers], plans: tuple[CapacityPlan, CapacityPlan],
    baselines: Sequence[pa.RecordBatch], sweeps: Sequence[pa.Table], broken: pa.Table,
    moves: pa.Table, tables: Sequence[pa.Table],
) -> pa.Table:
    """The vector of `OBJECTIVE` before and after."""
    entry_rules = sum(
        topic is not None and rule != "racks"
        for topic, rule in zip(broken["topic"].to_pylist(), broken["rule"].to_pylist(), strict=True)
    )
    cost = [
        (0, 0, 0),
        (entry_rules, pc.sum(moves["bytes_moved"]).as_py() or 0, sum(t.num_rows for t in tables)),
    ]
    vectors = []
    for at, (broken_entries, bytes_moved, n_entries) in enumerate(cost):
        state, plan = states[at], plans[at]
        vectors.append((
            count_missing_racks(state) + _count_on_down(state)
            + len(limits.broken(totals[at], None)) + broken_entries,
            max(
                highest_share([baselines[at]], plan.normal.basis_points, limits, totals[at]),
                highest_share(sweeps[at].to_batches(), plan.failed.basis_points, limits,
                              totals[at]),
            ),
            above_mean(limits, totals[at]), count_not_preferred(state), topic_excess(state),
            bytes_moved, n_entries,
        ))
    # Capacities of a few bytes make numbers of no meaning that are too large for a column.
    before, after = ([min(value, MAX_LONG) for value in vector] for vector in vectors)
    return PLAN_OBJECTIVE.table({
        "element": pa.array(list(OBJECTIVE)), "unit": pa.array(list(OBJECTIVE.values())),
        "before": pa.array(before, pa.int64()), "after": pa.array(after, pa.int64()),
    })


def _count_on_down(state: ClusterState) -> int:
    """Replicas that are assigned to brokers that are down."""
    assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
    return int(np.count_nonzero(~state.up[state.replicas[assigned].astype(np.int64)]))
