"""One failure in full: what each broker uses before and after, and where that comes from.

Source: docs/capacity.md, "One failure in full".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.whatif import check_brokers
from kfast.arguments import check_instance, int32
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, capacity_sweep
from kfast.capacity.failures.failure_terms import Integers
from kfast.capacity.failures.limits import RESOURCES, USED, exceeds, utilisation
from kfast.errors import ArgumentError
from kfast.figures.capacity import utilisation_figure
from kfast.schema import CAPACITY_FAILURE_BROKERS, CAPACITY_FAILURE_PARTS, CAPACITY_FAILURE_TOPICS
from kfast.state import ClusterState
from kfast.state.records import Rows
from kfast.sweeps.scenario_makers import scenarios_from_table

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["CapacityFailure", "capacity_of"]

REASONS = (
    "leads", "leads_no_more", "follows", "follows_no_more", "leaderless", "fewer_followers",
    "serves", "serves_no_more",
)
(
    LEADS, LEADS_NO_MORE, FOLLOWS, FOLLOWS_NO_MORE, LEADERLESS, FEWER_FOLLOWERS, SERVES,
    SERVES_NO_MORE,
) = range(len(REASONS))
"""Why a broker uses more or less: it leads instead; another one leads, though it has not failed;
it follows a leader where there was none; it is assigned no more, for a failure may complete a
reassignment; no leader is left; it sends to one follower less; consumers in a rack fetch from it
instead; they fetch from another one, though it has not failed."""


@dataclass(frozen=True, eq=False)
class Changes:
    """Partitions of one shape whose leader or live replicas a failure changes.

    Attributes
    ----------
    rows : (m,) int32
    load : (m, 3) int64
        As in `CapacityPlan`.
    brokers : (m, w) int32
        Broker rows of each partition.
    leader : (2, m) int32
        Broker rows before and after; -1 for none.
    follows : (2, m, w) bool
        Whether each of the brokers follows a leader, before and after.
    are_parts : bool
        They are what consumers in a rack fetch, of partitions: who leads is where they fetch.
    """

    rows: Rows
    load: Integers
    brokers: Rows
    leader: Rows
    follows: npt.NDArray[np.bool_]
    are_parts: bool


@dataclass(frozen=True, eq=False)
class CapacityFailure:
    """A failure, and what it does to every broker.

    Attributes
    ----------
    plan : CapacityPlan
    failed_brokers : tuple of int
        Ids, ascending.
    summary : dict of str to Any
        Its row of a sweep, without the number of the scenario.
    loads : (2, B, 3) int64
        What every broker uses before and after, as of `CapacityPlan.broker_loads`.
    """

    plan: CapacityPlan
    failed_brokers: tuple[int, ...]
    summary: dict[str, Any]
    loads: Integers

    @property
    def cluster(self) -> ClusterState:
        """The cluster after its controller's start, before the failure."""
        assert self.plan.cluster is not None, "capacity_of refuses a plan without its cluster"
        return self.plan.cluster

    @cached_property
    def _failed(self) -> npt.NDArray[np.uint8]:
        """(B + 1,) 1 where a broker has failed."""
        failed = np.zeros(self.plan.broker_id.size + 1, np.uint8)
        failed[np.searchsorted(self.plan.broker_id, self.failed_brokers)] = 1
        return failed

    @cached_property
    def _changes(self) -> list[Changes]:
        return list(_changes(self.plan, self._failed))

    def plot(self, resource: str | None = None) -> Figure:
        """Draw the share of a capacity that every broker uses before and after, with plotly.

        Parameters
        ----------
        resource : {"nw_in", "nw_out", "cpu", "disk"}, optional
            By default the one that is nearest to its limit.

        Raises
        ------
        ArgumentError
            It is none of these, or no broker has a capacity.
        MissingExtraError
            plotly is not installed (the extra `report`).
        """
        chosen = self.summary["binding"] if resource is None else resource
        if chosen not in RESOURCES:
            raise ArgumentError(
                f"resource is {chosen!r}; right is one of {', '.join(RESOURCES)}, of which "
                "brokers have a capacity"
            )
        return utilisation_figure(self.brokers, chosen)

    @property
    def brokers(self) -> pa.Table:
        """Every broker (`schema.CAPACITY_FAILURE_BROKERS`): what it uses before and after."""
        plan, failed = self.plan, self._failed[:-1] > 0
        limits = plan.failed if self.failed_brokers else plan.normal
        none = {"before": ~plan.up, "after": ~plan.up | failed}
        columns: dict[str, Any] = {
            "broker_id": pa.array(plan.broker_id), "rack": self.cluster.rack,
            "failed": pa.array(failed),
        }
        over = np.zeros((len(RESOURCES) + 1, failed.size), np.bool_)
        for at, resource in enumerate(RESOURCES[:3]):
            capacity = limits.capacity[:, at]
            unknown = ~plan.cpu_is_known if resource == "cpu" else np.zeros_like(failed)
            for moment, when in enumerate(none):
                used = self.loads[moment, :, at]
                columns[f"{USED[resource]}_{when}"] = pa.array(used, mask=none[when] | unknown)
                columns[f"{resource}_{when}"] = utilisation(used, capacity, none[when] | unknown)
            over[at] = exceeds(self.loads[1, :, at], capacity, limits.basis_points[resource])
        columns["disk_bytes"] = pa.array(plan.disks.total_bytes)
        columns["disk"] = utilisation(limits.disk, limits.disk_capacity, ~plan.up)
        over[3], over[4] = limits.disk_over, limits.replicas_over
        columns["over_limit"] = [
            None if is_none else [
                name for name, exceeds in zip((*RESOURCES, "replicas"), flags, strict=True)
                if exceeds
            ]
            for is_none, flags in zip(none["after"].tolist(), over.T.tolist(), strict=True)
        ]
        return CAPACITY_FAILURE_BROKERS.table(columns)

    @property
    def topics(self) -> pa.Table:
        """Leadership that moves (`schema.CAPACITY_FAILURE_TOPICS`), the most bytes in first."""
        keys, load = [np.zeros((0, 3), np.int64)], [np.zeros((0, 2), np.int64)]
        by_row = np.zeros((self.cluster.n_partitions, 2), np.int64)
        by_row[self.plan.effects.rows] = self.plan.load[:, :2]
        for each in self._changes:
            if each.are_parts:
                continue
            moved = each.leader[0] != each.leader[1]
            topic = self.cluster.topic_row[each.rows[moved]]
            keys.append(np.column_stack([topic, each.leader[0, moved], each.leader[1, moved]]))
            load.append(by_row[each.rows[moved]])
        unique, group, counts = np.unique(
            np.concatenate(keys), axis=0, return_inverse=True, return_counts=True
        )
        total = np.zeros((len(unique), 2), np.int64)
        np.add.at(total, group.ravel(), np.concatenate(load))
        table = CAPACITY_FAILURE_TOPICS.table({
            "topic": self.cluster.topic.take(pa.array(unique[:, 0])).cast(pa.string()),
            "from_broker": self._ids(unique[:, 1]), "to_broker": self._ids(unique[:, 2]),
            "partitions": pa.array(counts.astype(np.int64)),
            "bytes_in": pa.array(total[:, 0].copy()), "bytes_out": pa.array(total[:, 1].copy()),
        })
        return table.sort_by([
            ("bytes_in", "descending"), ("bytes_out", "descending"), ("topic", "ascending"),
            ("from_broker", "ascending"), ("to_broker", "ascending"),
        ])

    def explain(self, broker: int) -> pa.Table:
        """What each partition adds to a broker, and whose failure is the reason.

        Parameters
        ----------
        broker : int
            The id of one that has not failed.

        Returns
        -------
        pa.Table
            `schema.CAPACITY_FAILURE_PARTS`, the most bytes out first. The parts add up to what the
            broker uses after the failure less what it uses before. Micro-cores are dealt by the
            largest remainder.

        Raises
        ------
        ArgumentError
            The broker is unknown or down, or it fails itself.
        """
        broker = int32("broker", broker)
        check_brokers(self.cluster, [broker], name="broker")
        if broker in self.failed_brokers:
            raise ArgumentError(f"broker {broker} fails itself: nothing is left of what it uses")
        row = int(np.searchsorted(self.plan.broker_id, broker))
        parts = np.concatenate([
            np.zeros((0, 6), np.int64), *(self._parts(each, row) for each in self._changes)
        ])
        rows, failed, reason = parts[:, 0], parts[:, 1], parts[:, 2]
        unknown = np.full(len(parts), not self.plan.cpu_is_known[row])
        table = CAPACITY_FAILURE_PARTS.table({
            "failed_broker": self._ids(failed),
            "topic": self.cluster.topic.take(pa.array(self.cluster.topic_row[rows])).cast(
                pa.string()),
            "partition": pa.array(self.cluster.partition[rows]),
            "reason": pa.array(np.array(REASONS)[reason], pa.string()),
            "bytes_in": pa.array(parts[:, 3].copy()), "bytes_out": pa.array(parts[:, 4].copy()),
            "cpu_microcores": pa.array(self._micro_cores(row, parts[:, 5]), mask=unknown),
        })
        return table.sort_by([
            ("bytes_out", "descending"), ("bytes_in", "descending"), ("topic", "ascending"),
            ("partition", "ascending"), ("failed_broker", "ascending"),
        ])

    def _parts(self, changes: Changes, broker: int) -> Integers:
        """(n, 6) partition row, failed broker, reason, bytes in, bytes out and work."""
        weights = self.plan.weights
        own = changes.brokers == broker
        bytes_in, bytes_out, _ = changes.load.T
        leads = changes.leader == broker
        follows = (changes.follows & own).any(axis=2)
        followers = changes.follows.sum(axis=2)
        leader_in, follower_in = (
            bytes_in * (flags[1].astype(np.int64) - flags[0]) for flags in (leads, follows)
        )
        sent = leads * (bytes_in * followers + bytes_out)
        out = sent[1] - sent[0]
        work = (
            weights.leader_in * leader_in + weights.leader_out * out
            + weights.follower_in * follower_in
        )
        before, after = changes.leader
        stays = leads.all(axis=0)
        reason = np.select(
            [after < 0, leads[1], leads[0], follows[1]],
            [LEADERLESS, *((SERVES, SERVES_NO_MORE) if changes.are_parts
                           else (LEADS, LEADS_NO_MORE)), FOLLOWS], FOLLOWS_NO_MORE,
        )
        at = np.flatnonzero(~stays & ((leader_in + follower_in != 0) | (out != 0) | (work != 0)))
        parts = np.column_stack([
            changes.rows, self._if_failed(before), reason, leader_in + follower_in, out, work
        ])[at]
        at, place = np.nonzero(stays[:, None] & changes.follows[0] & ~changes.follows[1])
        less = -bytes_in[at]
        fewer = np.column_stack([
            changes.rows[at], self._if_failed(changes.brokers[at, place]),
            np.full(at.size, FEWER_FOLLOWERS), np.zeros_like(less), less,
            weights.leader_out * less,
        ])
        return np.concatenate([parts, fewer[less != 0]])

    def _micro_cores(self, broker: int, work: Integers) -> list[int]:
        """What each part of a broker's work adds, by the largest remainder."""
        _, span, total = self.plan.failed.kernel.cpu[broker].tolist()
        shares = [divmod(span * part, total) for part in work.tolist()]
        cores = [share for share, _ in shares]
        rest = int(self.loads[1, broker, 2] - self.loads[0, broker, 2]) - sum(cores)
        order = sorted(range(len(shares)), key=lambda at: (-shares[at][1], at))
        # Both uses are rounded half to even, so that exact parts may be one too many.
        for at in order[:rest] if rest >= 0 else order[rest:]:
            cores[at] += 1 if rest >= 0 else -1
        return cores

    def _if_failed(self, rows: Rows) -> Rows:
        """Broker rows; -1 for those that have not failed."""
        return np.where(self._failed[rows] > 0, rows, np.int32(-1))

    def _ids(self, rows: Integers) -> pa.Array:
        """Broker ids of rows; null for -1."""
        return pa.array(np.append(self.plan.broker_id, np.int32(-1))[rows], mask=rows < 0)


def _changes(plan: CapacityPlan, failed: npt.NDArray[np.uint8]) -> Iterator[Changes]:
    """What a failure changes, shape by shape."""
    effects, load = plan.rows.split_effects, plan.rows.split_load
    for shape, width in enumerate(effects.width.tolist() if failed.any() else ()):
        cells, brokers, rows = effects[shape]
        places = np.arange(width)
        mask = (failed[brokers].astype(np.int64) << places).sum(axis=1)
        after, before = cells[mask], cells[1 << width]
        differs = np.flatnonzero(
            (after["leader"] != before["leader"]) | (after["live"] != before["live"])
        )
        both = np.stack([np.repeat(before, differs.size), after[differs]])
        leads = both["leader"][:, :, None] == places
        follows = (both["live"][:, :, None] >> places & 1).astype(np.bool_) & ~leads
        follows &= (both["leader"] >= 0)[:, :, None]
        brokers = brokers[differs]
        leader = np.where(leads.any(axis=2), (leads * brokers).sum(axis=2), -1)
        yield Changes(
            rows[differs], load[effects.at(shape)][differs], brokers, leader, follows,
            shape >= plan.effects.width.size,
        )


def capacity_of(plan: CapacityPlan, brokers: Iterable[int]) -> CapacityFailure:
    """Measure one failure in full.

    Parameters
    ----------
    plan : CapacityPlan
        What `prepare_capacity` gives.
    brokers : iterable of int
        Ids of the brokers that fail together; without one, the cluster is measured as it is.

    Returns
    -------
    CapacityFailure
        Its row of a sweep, what every broker uses before and after, which leadership moves, and
        what adds to a broker.

    Raises
    ------
    ArgumentError
        A broker is unknown or down already; or the plan was pickled, which leaves its cluster out.
    """
    check_instance("plan", plan, CapacityPlan)
    if plan.cluster is None:
        raise ArgumentError("plan was pickled, without its cluster: use that of prepare_capacity")
    failed = sorted(check_brokers(plan.cluster, brokers, name="brokers"))
    scenarios = scenarios_from_table(plan.cluster, pa.table({
        "scenario": pa.array([1] * len(failed), pa.int64()),
        "broker": pa.array(failed, pa.int64()),
    }))
    summary = capacity_sweep(plan, scenarios).to_pylist()[-1]
    del summary["scenario"]
    offsets, down = scenarios.down(0, len(scenarios))
    loads = plan.broker_loads(offsets, down)
    return CapacityFailure(plan, tuple(failed), summary, loads[[0, -1]])
