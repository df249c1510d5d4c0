"""How long it takes until the replicas of failed brokers are whole again.

Replicas are copied from leaders through ports: what a source can send and a destination can
receive, less what they do already. Bounds are exact; fair times come from `kernels.fair_sharing`.

Source: docs/capacity.md, section "Restoration".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, number, shown, whole
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, check_sweep
from kfast.capacity.failures.limits import exceeds
from kfast.capacity.restorations.redistribution import Room, assigned_brokers
from kfast.capacity.restorations.restoration_demand import Demand, HostedPartitions, NewReplicas
from kfast.errors import ArgumentError
from kfast.kernels import fair_sharing as kernel
from kfast.schema import CAPACITY_SWEEP, RESTORATION
from kfast.state.racks import distinct_racks
from kfast.state.records import Rows
from kfast.sweeps.scenario_makers import every_broker
from kfast.sweeps.scenarios import Scenarios

__all__ = ["RESTORE_MODES", "Restoration", "RestorationPlan", "repair_hours", "restoration"]

Integers = npt.NDArray[np.int64]
Times = npt.NDArray[np.float64]

RESTORE_MODES = ("return", "replace", "redistribute")
"""Failed brokers come back with their disks, or without; or other brokers take their replicas."""

SCALE = 1000
"""Rates are held in thousandths of a byte per second, so that a share of them is an integer."""

NO_LIMIT = (1 << 63) - 1
MOST_RATE = (1 << 53) - 1
MOST_FLOWS = 10_000
"""Pairs of source and destination that are shared fairly: the work grows with their square."""

RESPONSE_BYTES = 10 * 1024 * 1024
"""Of one fetch. Source: Kafka 3.9, `replica.fetch.response.max.bytes`."""

BATCH_BYTES, BATCH_SCENARIOS = 1 << 26, 256
"""Memory of what brokers use, for the scenarios that are taken at a time; and how many they are."""

COLUMNS = RESTORATION.schema.names[len(CAPACITY_SWEEP.schema) :]
"""What a restoration adds to a sweep."""

SECONDS = tuple(name for name in COLUMNS if name.startswith("restore_seconds_"))
"""In the order of `Ports.times`."""

NEARLY = 1 - 2.0**-40


@dataclass(frozen=True, eq=False)
class Restoration:
    """How the replicas of failed brokers are restored.

    Parameters
    ----------
    mode : {"return", "replace", "redistribute"}
        The brokers come back with their disks after `down_for_seconds`; they come back empty; or
        the replicas are made on other brokers.
    down_for_seconds : int
        What producers write meanwhile is what a returning broker lacks.
    leader_throttle, follower_throttle : int, optional
        Bytes a second that each broker may send to, and receive for, replicas that are not in sync:
        `leader.replication.throttled.rate` and `follower.replication.throttled.rate`.
    spare_share : float
        Share of what is free of a network or disk that may be used, to the thousandth.
    fetchers : int
        `num.replica.fetchers`; counts with `round_trip_seconds` alone.
    round_trip_seconds : float, optional
        Between two brokers: each fetcher has one response of 10 MiB under way.
    new_replicas : NewReplicas, optional
        With redistribute: a plan that says where. Without one, each replica is made on the broker
        that has most room for it.

    Raises
    ------
    ArgumentError
        A value is none that is allowed, or `new_replicas` does not go with the mode.
    """

    mode: str = "return"
    down_for_seconds: int = 600
    leader_throttle: int | None = None
    follower_throttle: int | None = None
    spare_share: float = 0.9
    fetchers: int = 1
    round_trip_seconds: float | None = None
    new_replicas: NewReplicas | None = None

    def __post_init__(self) -> None:
        if self.mode not in RESTORE_MODES:
            raise ArgumentError(
                f"mode is {shown(self.mode)}; allowed are {', '.join(RESTORE_MODES)}"
            )
        whole("down_for_seconds", self.down_for_seconds, 1, 10**9)
        for name in ("leader_throttle", "follower_throttle"):
            if (rate := getattr(self, name)) is not None:
                whole(name, rate, 1, MOST_RATE)
        number("spare_share", self.spare_share, 0.001, 1)
        whole("fetchers", self.fetchers, 1, 100)
        if self.round_trip_seconds is not None:
            number("round_trip_seconds", self.round_trip_seconds, 1e-5, 60)
        if self.new_replicas is not None:
            check_instance("new_replicas", self.new_replicas, NewReplicas)
            if self.mode != "redistribute":
                raise ArgumentError(f"new_replicas goes with redistribute, not with {self.mode}")

    @property
    def pair_rate(self) -> int:
        """Thousandths of a byte per second between two brokers, or NO_LIMIT."""
        if self.round_trip_seconds is None:
            return NO_LIMIT
        responses = Fraction(self.fetchers * RESPONSE_BYTES * SCALE)
        return int(responses / Fraction(self.round_trip_seconds))


@dataclass(frozen=True, eq=False)
class RestorationPlan:
    """A cluster made ready for asking how long restoration takes.

    Attributes
    ----------
    plan : CapacityPlan
    settings : Restoration
    partitions : HostedPartitions
    debts : (n,) int64
        Bytes that a replica of each partition lacks, in the order of the rows of `plan.effects`.
    places : (m,) int64
        Of each partition of `settings.new_replicas` its place in that order.
    rack : (B,) int32
    assigned : (n, S) int32
        Of `distinct_racks` and `assigned_brokers`; empty where no place has to be found.
    """

    plan: CapacityPlan
    settings: Restoration
    partitions: HostedPartitions
    debts: Integers
    places: Integers
    rack: Rows
    assigned: Rows

    @classmethod
    def of(cls, plan: CapacityPlan, settings: Restoration) -> RestorationPlan:
        """List who hosts what.

        Raises
        ------
        ArgumentError
            Nothing limits how fast some broker copies from another, or the sweep knows nothing of
            a partition of the plan.
        """
        _check_limited(plan, settings)
        bytes_in, disk = plan.load[:, 0], plan.load[:, 2]
        debts = disk.copy()
        if settings.mode == "return":
            seconds = settings.down_for_seconds
            debts = np.where(bytes_in > disk // seconds, disk, bytes_in * seconds)
        rack, assigned = np.zeros(0, np.int32), np.zeros((0, 0), np.int32)
        if settings.mode == "redistribute" and settings.new_replicas is None:
            assert plan.cluster is not None, "only a plan that was pickled has none"
            rack = distinct_racks(plan.cluster)
            assigned = assigned_brokers(plan.cluster, plan.effects.rows)
        return cls(
            plan, settings, HostedPartitions.of(plan.effects), debts,
            _places(plan, settings.new_replicas), rack, assigned,
        )

    def batches(self, scenarios: Scenarios, method: str | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of the result (`schema.RESTORATION`), some at a time; `method` as for a sweep."""
        memory = BATCH_BYTES // (24 * max(self.plan.broker_id.size, 1))
        n = max(min(memory, BATCH_SCENARIOS), 1)
        for start in range(scenarios.start, scenarios.stop, n):
            part = scenarios.slice(start, min(start + n, scenarios.stop))
            columns = [*next(self.plan.batches(part, method)).columns, *self._columns(part, method)]
            yield pa.record_batch(columns, schema=RESTORATION.schema)

    def _columns(self, scenarios: Scenarios, method: str | None) -> Iterator[pa.Array]:
        """What a restoration adds to the rows of a sweep."""
        offsets, down = scenarios.down(scenarios.start, scenarios.stop)
        loads = self.plan.broker_loads(offsets, down, method)
        rows = [
            self._row(down[offsets[at] : offsets[at + 1]], loads[at]) for at in range(len(loads))
        ]
        for column in RESTORATION.schema:
            if column.name in COLUMNS:
                yield pa.array([row.get(column.name) for row in rows], column.type)

    def _row(self, down: Rows, loads: Integers) -> dict[str, Any]:
        """One scenario; `loads` (B, 3) is what brokers use after the failure."""
        failed = np.zeros(self.plan.broker_id.size + 1, np.bool_)
        failed[down] = True
        demand = self._demand(down, failed, loads)
        ports = Ports.of(self.plan, self.settings, demand, loads)
        row = {
            "restore_bytes": int(demand.debt.sum()),
            **dict(zip(SECONDS, ports.times(demand), strict=True)),
            "bytes_without_source": demand.without_source,
            "bytes_without_place": demand.without_place,
            "stuck_brokers": self.plan.broker_id[ports.stuck].tolist(),
            "throttle_needed": ports.throttle_needed,
        }
        if self.settings.mode == "redistribute":
            row |= self._restored(demand, failed[:-1] | ~self.plan.up, loads)
        return row

    def _restored(
        self, demand: Demand, gone: npt.NDArray[np.bool_], loads: Integers
    ) -> dict[str, Any]:
        """How full brokers are once new replicas are made, before old ones are deleted."""
        normal, n = self.plan.normal, self.plan.broker_id.size
        amounts = (
            ("nw_in", loads[:, 0], demand.destination, demand.live, normal.capacity[:, 0]),
            ("nw_out", loads[:, 1], demand.source, demand.live, normal.capacity[:, 1]),
            ("disk", normal.disk, demand.destination, demand.debt, normal.disk_capacity),
        )
        over, row = np.zeros(n, np.bool_), {}
        for name, before, brokers, more, capacity in amounts:
            used, held = before + _sums(brokers, more, n), np.where(gone, 0, capacity)
            over |= exceeds(used, held, normal.basis_points[name])
            with_one = np.flatnonzero(held)
            shares = used[with_one] / held[with_one]
            row[f"{name}_max_restored"] = float(shares.max()) if shares.size else None
        return row | {"over_limit_restored": int(over.sum())}

    def _demand(self, down: Rows, failed: npt.NDArray[np.bool_], loads: Integers) -> Demand:
        live, new = self.plan.load[:, 0], self.settings.new_replicas
        if new is not None:
            return self.partitions.demand_of_new(
                new, self.places, failed, self.debts, live, any_failed=bool(down.size)
            )
        if self.settings.mode == "redistribute":
            limits = self.plan.normal
            room = Room.of(
                np.stack([loads[:, 0], limits.disk]),
                np.stack([limits.capacity[:, 0], limits.disk_capacity]), self.rack,
                failed | np.append(~self.plan.up, True),
            )
            return self.partitions.demand_elsewhere(
                down, failed, self.debts, live, self.assigned, room
            )
        return self.partitions.demand(
            down, failed, self.debts, live, replaced=self.settings.mode == "replace"
        )


@dataclass(frozen=True, eq=False)
class Ports:
    """What is left of networks and disks for one restoration, in thousandths of bytes per second.

    Attributes
    ----------
    sending, receiving : (B,) int64
        Of each broker for bytes that are lacking; NO_LIMIT where nothing limits it.
    pairs : (f,) int64
        The same of each pair of the demand.
    stuck : (s,) int64
        Rows of brokers that have nothing left, and should have.
    throttle_needed : int or None
        The smallest throttle, in bytes a second, with which none is stuck; None where none is, or
        some are with any throttle.
    """

    sending: Integers
    receiving: Integers
    pairs: Integers
    stuck: Integers
    throttle_needed: int | None

    @classmethod
    def of(
        cls, plan: CapacityPlan, settings: Restoration, demand: Demand, loads: Integers
    ) -> Ports:
        """Subtract what brokers do already; `loads` (B, 3) is what they use after the failure."""
        share = round(settings.spare_share * SCALE)
        capacity = plan.failed.capacity
        disk_write, disk_read = plan.disk_rates.T
        sending = np.minimum(
            _free(share, capacity[:, 1], loads[:, 1]), _free(share, disk_read, 0)
        )
        receiving = np.minimum(
            _free(share, capacity[:, 0], loads[:, 0]), _free(share, disk_write, loads[:, 0])
        )
        n, lacking = plan.broker_id.size, demand.debt > 0
        pairs = _less(np.full(demand.live.size, settings.pair_rate), demand.live)
        free, nets, needed = [], [], 0
        for brokers, rate, throttle in (
            (demand.source, sending, settings.leader_throttle),
            (demand.destination, receiving, settings.follower_throttle),
        ):
            live = _sums(brokers, demand.live, n)
            free.append(_less(rate, live))
            nets.append(free[-1])
            if throttle is not None:
                nets[-1] = _less(np.minimum(rate, throttle * SCALE), live)
                needed = max(needed, int(live[brokers[lacking]].max(initial=0)) + 1)
        stuck = _stuck(demand, nets, pairs)
        is_throttled = stuck.size and not _stuck(demand, free, pairs).size
        return cls(nets[0], nets[1], pairs, stuck, needed if is_throttled else None)

    def bound(self, demand: Demand) -> float | None:
        """Seconds that copying takes at least; None where it never ends."""
        if self.stuck.size:
            return None
        n = self.sending.size
        return float(max(
            _longest(_sums(demand.source, demand.debt, n), self.sending),
            _longest(_sums(demand.destination, demand.debt, n), self.receiving),
            _longest(demand.debt, self.pairs),
        ))

    def times(self, demand: Demand) -> tuple[float | None, ...]:
        """Seconds: the bound; fair: of all, of half of the bytes, of partitions under min ISR."""
        least = self.bound(demand)
        if least is None:
            return (None,) * 4
        lacking = np.flatnonzero(demand.debt > 0)
        if not lacking.size:
            return (0.0,) * 4
        if lacking.size > MOST_FLOWS:
            return least, None, None, None
        end = np.zeros(demand.debt.size)
        end[lacking], half = self._share(
            demand.source[lacking], demand.destination[lacking], demand.debt[lacking],
            self.pairs[lacking],
        )
        min_isr = 0.0
        if demand.pair.size:
            first = np.flatnonzero(np.diff(demand.partition, prepend=-1))
            min_isr = float(np.minimum.reduceat(end[demand.pair], first).max())
        # Rounding must not put the fair time below the bound.
        return least, max(least, float(end.max())), half, min_isr

    def _share(
        self, source: Integers, destination: Integers, debt: Integers, pairs: Integers
    ) -> tuple[Times, float]:
        """When each flow ends, and when half of all bytes are copied."""
        volume, cap, end = debt.astype(np.float64), _rates(pairs), np.empty(debt.size)
        half = int(debt.sum()) / 2
        receivers, to = np.unique(destination, return_inverse=True)
        if receivers.size == 1:
            cap = np.minimum(cap, _rates(self.sending[source]))
            rate = float(_rates(self.receiving[receivers])[0])
            reached = kernel.share_one_port(
                volume, cap, rate, np.argsort(volume, kind="stable"),
                np.argsort(cap, kind="stable"), half, end,
            )
            return end, reached
        senders, of = np.unique(source, return_inverse=True)
        port = np.stack([of, to + senders.size], axis=1).astype(np.int32)
        rates = _rates(np.concatenate([self.sending[senders], self.receiving[receivers]]))
        return end, kernel.share_ports(volume, cap, port, rates, half, end)


def _stuck(demand: Demand, nets: Sequence[Integers], pairs: Integers) -> Integers:
    """Rows of brokers that have nothing left for bytes that are lacking: senders, receivers."""
    (sending, receiving), lacking = nets, demand.debt > 0
    source, destination = demand.source[lacking], demand.destination[lacking]
    return np.unique(np.concatenate([
        source[sending[source] <= 0], destination[receiving[destination] <= 0],
        destination[pairs[lacking] <= 0],
    ]))


def _free(share: int, capacity: Integers, used: Integers | int) -> Integers:
    """The share of what is free that may be used; NO_LIMIT where there is no capacity."""
    return np.where(capacity > 0, (capacity - used) * share, NO_LIMIT)


def _less(limit: Integers, rate: Integers) -> Integers:
    """What a limit leaves beside a rate of bytes per second."""
    return np.where(limit == NO_LIMIT, NO_LIMIT, limit - rate * SCALE)


def _sums(brokers: Integers, amounts: Integers, n: int) -> Integers:
    sums = np.zeros(n, np.int64)
    np.add.at(sums, brokers, amounts)
    return sums


def _rates(thousandths: Integers) -> Times:
    """Bytes per second; infinite without a limit."""
    return np.where(thousandths == NO_LIMIT, np.inf, thousandths / SCALE)


def _longest(debt: Integers, rate: Integers) -> Fraction:
    """The longest time that a port needs, exactly: estimates find those that may be."""
    limited = (debt > 0) & (rate != NO_LIMIT)
    debt, rate = debt[limited], rate[limited]
    if not debt.size:
        return Fraction(0)
    estimate = debt / rate
    near = np.flatnonzero(estimate >= estimate.max() * NEARLY).tolist()
    return max(Fraction(int(debt[at]) * SCALE, int(rate[at])) for at in near)


def _check_limited(plan: CapacityPlan, settings: Restoration) -> None:
    """Refuse pairs of brokers between which anything could be copied in no time."""
    if settings.pair_rate != NO_LIMIT:
        return
    capacity = plan.failed.capacity
    disk_write, disk_read = plan.disk_rates.T
    sends, receives = (
        plan.up & (throttle is None) & (network <= 0) & (disk <= 0)
        for throttle, network, disk in (
            (settings.leader_throttle, capacity[:, 1], disk_read),
            (settings.follower_throttle, capacity[:, 0], disk_write),
        )
    )
    for source in np.flatnonzero(sends).tolist():
        receivers = np.flatnonzero(receives)
        receivers = receivers[receivers != source]
        if receivers.size:
            raise ArgumentError(
                f"nothing limits how fast broker {plan.broker_id[receivers[0]]} copies from broker"
                f" {plan.broker_id[source]}: right is nw_out, nw_in, or a throttle"
            )


def _places(plan: CapacityPlan, new: NewReplicas | None) -> Integers:
    """Where the partitions of a reassignment plan stand among the rows of a sweep."""
    if new is None:
        return np.zeros(0, np.int64)
    is_down = ~plan.up[new.broker]
    if is_down.any():
        at = int(is_down.argmax())
        raise ArgumentError(
            f"plan: {new.names[new.owner[at]]} is to have a replica on broker"
            f" {plan.broker_id[new.broker[at]]}, which is down; right is a broker that is up"
        )
    rows = plan.effects.rows
    place = np.full(int(max(rows.max(initial=-1), new.rows.max(initial=-1))) + 1, -1, np.int64)
    place[rows] = np.arange(rows.size)
    places = place[new.rows]
    if (places < 0).any():
        raise ArgumentError(
            f"plan: {new.names[int((places < 0).argmax())]} is being deleted, or has no replicas"
        )
    return places


def restoration(
    plan: CapacityPlan, scenarios: Scenarios, settings: Restoration | None = None, *,
    method: str | None = None,
) -> pa.Table:
    """Measure every scenario, and ask how long it takes until all replicas are whole again.

    Parameters
    ----------
    plan : CapacityPlan
        What `kfast.prepare_capacity` gives.
    scenarios : Scenarios
        Brokers that fail together.
    settings : Restoration, optional
        How they are restored; by default they return after 600 seconds.
    method : {"terms", "pass"}, optional
        As for `kfast.capacity_sweep`. Results do not depend on it.

    Returns
    -------
    pa.Table
        `schema.RESTORATION`: the rows of `kfast.capacity_sweep`, with what has to be copied and how
        long that takes. Bytes are integers; seconds are float64, the bound of an exact quotient.

    Raises
    ------
    ArgumentError
        As of `kfast.capacity_sweep`; nothing limits how fast some broker copies from another; or a
        plan makes a replica on a broker that fails, or of a partition that is being deleted.

    Notes
    -----
    Source: docs/capacity.md, section "Restoration".
    """
    check_sweep(plan, scenarios, method)
    prepared = RestorationPlan.of(plan, settings or Restoration())
    return pa.Table.from_batches(prepared.batches(scenarios, method), RESTORATION.schema)


def repair_hours(
    plan: CapacityPlan, settings: Restoration | None = None, *, detect_minutes: float = 10.0
) -> npt.NDArray[np.float64]:
    """Hours from the failure of each broker until an empty one in its place has all replicas.

    Parameters
    ----------
    plan : CapacityPlan
        What `kfast.prepare_capacity` gives.
    settings : Restoration, optional
        Throttles and fetchers; by default, and by right, the mode is replace.
    detect_minutes : float
        Until the broker is replaced.

    Returns
    -------
    (B,) float64
        Of each broker, for `kfast.durability`: fair times, or the bound where there are too many
        flows. A broker that is down gets the longest time of all.

    Raises
    ------
    ArgumentError
        The mode is another, no broker is up, or some broker would never have all replicas.
    """
    check_instance("plan", plan, CapacityPlan)
    settings = settings or Restoration("replace")
    if settings.mode != "replace":
        raise ArgumentError(f"settings: mode is {shown(settings.mode)}; right is replace")
    detection = number("detect_minutes", detect_minutes, 0, 1e6) * 60
    assert plan.cluster is not None, "only a plan that was pickled has none"
    seconds = np.full(plan.broker_id.size, np.nan)
    if not plan.up.any():
        raise ArgumentError("plan: no broker is up, so none can fail and be replaced")
    scenarios = every_broker(plan.cluster)
    down = scenarios.down(scenarios.start, scenarios.stop)[1]
    table = restoration(plan, scenarios, settings).slice(1)
    for row, broker in zip(table.to_pylist(), down.tolist(), strict=True):
        if row["stuck_brokers"]:
            needed = row["throttle_needed"]
            right = "a faster network" if needed is None else f"a throttle of {needed} B/s or more"
            raise ArgumentError(
                f"an empty broker in the place of {plan.broker_id[broker]} would never have all"
                f" replicas; right is {right}"
            )
        fair = row["restore_seconds_fair"]
        seconds[broker] = row["restore_seconds_bound"] if fair is None else fair
    longest = np.nanmax(seconds, initial=0.0)
    return (np.where(np.isnan(seconds), longest, seconds) + detection) / 3600
