"""How likely it is that data is lost in a year, and that producers or consumers stand still.

Brokers fail for good, each at the same rate and independently, and are restored in a mean repair
time; outages that end by themselves cost availability only. All assigned replicas are taken to be
in sync whenever their brokers are up. A partition loses data when all of them are destroyed before
one is restored. Partitions that share a copyset (the set of these brokers) are lost together.
Independence flatters: of the failures that Ford et al. observed, many came in bursts, which made
three copies 198 times less durable than independence would have it.

Source: docs/risk.md, "Durability and availability"; Ford et al., "Availability in Globally
Distributed Storage Systems", OSDI 2010; Cidon et al., "Copysets", USENIX ATC 2013.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import expm1, log1p

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.replica_sets import (
    BrokerSets,
    IsrMargins,
    assigned_masks,
    group_sets,
    take_isr_margins,
)
from kfast.arguments import check_instance, number, shown, whole
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.errors import ArgumentError
from kfast.schema import MAX_SLOTS, RISK_AVAILABILITY, RISK_DURABILITY
from kfast.state import ClusterState

__all__ = [
    "REPAIRS", "YEAR_SECONDS", "Durability", "burst_probability", "cascade_probability",
    "durability", "mean_time_to_loss", "mean_time_to_loss_of_brokers", "tails",
]

Values = npt.NDArray[np.float64]

YEAR_SECONDS = 31_557_600
"""365.25 days."""

REPAIRS = ("parallel", "serial")
"""Failed brokers of a copyset are restored all at once, or one after another."""

LEAST_RATIO = 1000
"""A rate is the inverse of the mean time to a loss only where that is so many repair times."""

RATES = 1e-30, 1e30
"""Rates that are allowed."""

MOST_COPIES = 8
"""A copyset whose brokers differ has 2 to their number states."""

CHUNK_RATES = 1 << 22
"""Rates of copysets that are held at a time."""


def mean_time_to_loss(
    copies: int, failure_rate: float, repair_rate: float, repair: str = "parallel"
) -> float:
    """Mean time until all copies are destroyed, from the time when all are there.

    Parameters
    ----------
    copies : int
    failure_rate, repair_rate : float
        Of one broker, per unit of time; the result has that unit.
    repair : {"parallel", "serial"}

    Returns
    -------
    float

    Raises
    ------
    ArgumentError
        There is no copy, a rate is not from 1e-30 to 1e30, or the repair is unknown.
    """
    _check_repair(repair)
    whole("copies", copies, 1, MAX_SLOTS)
    number("failure_rate", failure_rate, *RATES)
    number("repair_rate", repair_rate, *RATES)
    # All terms are positive, so nothing cancels.
    step = total = 1 / (copies * failure_rate)
    for failed in range(1, copies):
        at_once = failed if repair == "parallel" else 1
        rate = (copies - failed) * failure_rate
        step = (1 + at_once * repair_rate * step) / rate
        total += step
    return total


def mean_time_to_loss_of_brokers(
    failure_rates: npt.ArrayLike, repair_rates: npt.ArrayLike
) -> float:
    """Mean time until all of some brokers are destroyed, each with rates of its own.

    Brokers are restored in parallel. The sets of failed brokers are the states of a chain, which
    are eliminated one after another; nothing is subtracted, so nothing cancels.

    Parameters
    ----------
    failure_rates, repair_rates : (n,) array of float
        Per unit of time; the result has that unit.

    Notes
    -----
    Source: Grassmann, Taksar, Heyman, "Regenerative analysis and steady state distributions for
    Markov chains", Operations Research 33 (1985).

    Raises
    ------
    ArgumentError
        There is no broker, more than 8, or a rate is not from 1e-30 to 1e30.
    """
    failures, repairs = (np.atleast_1d(np.asarray(r, np.float64))
                         for r in (failure_rates, repair_rates))
    n = failures.size
    if not 1 <= n <= MOST_COPIES or repairs.shape != failures.shape:
        raise ArgumentError(
            f"failure_rates has {n} brokers and repair_rates {repairs.size}: 1 to {MOST_COPIES} of"
            " both are allowed"
        )
    for name, rates in (("failure_rates", failures), ("repair_rates", repairs)):
        for rate in rates.tolist():
            number(name, rate, *RATES)
    return float(_mean_times(failures[:, None], repairs[:, None])[0])


def _mean_times(failures: Values, repairs: Values) -> Values:
    """(m,) mean times to a loss of m sets of n brokers, from their rates (n, m)."""
    n, m = failures.shape
    states = (1 << n) - 1
    rates = np.zeros((states, states + 1, m))
    for failed in range(states):
        for broker in range(n):
            rate = repairs[broker] if failed >> broker & 1 else failures[broker]
            rates[failed, failed ^ (1 << broker)] += rate
    times = np.ones((states, m))
    # From the set of all brokers but one down to none: a state's time goes to those before it.
    for state in range(states - 1, 0, -1):
        leaves = rates[state, :state].sum(axis=0) + rates[state, states]
        share = rates[:state, state] / leaves
        rates[:state, :state] += share[:, None] * rates[state, :state]
        rates[:state, states] += share * rates[state, states]
        times[:state] += share * times[state]
    mean: Values = times[0] / rates[0, states]
    return mean


def cascade_probability(
    copies: int, failure_rate: float, period: float, exposure: float, partners: int
) -> float:
    """Chance that data of one of `copies` drives is lost in a period, as a chain of failures.

    One of the copies fails in the period; until its data is restored, one of the brokers that hold
    the copies left fails, and so on. Where each broker shares data with many, any of these will do.

    Parameters
    ----------
    copies : int
    failure_rate : float
        Of one broker, per unit of time.
    period, exposure : float
        The time that is looked at, and the time until what failed is restored; same unit.
    partners : int
        Copysets of a broker, each with other members: its placement groups.

    Notes
    -----
    Source: ceph-tools, models/reliability (`DiskRely`, `RadosRely`).
    """
    chance = -expm1(-copies * failure_rate * period)
    for left in range(copies - 1, 0, -1):
        chance *= -expm1(-left * partners * failure_rate * exposure)
    return chance


def _check_repair(repair: str) -> None:
    if repair not in REPAIRS:
        raise ArgumentError(f"repair is {shown(repair)}; allowed are {', '.join(REPAIRS)}")


@dataclass(frozen=True, eq=False)
class Durability:
    """What failures of brokers cost in a year, made by `kfast.durability`.

    Attributes
    ----------
    failures_per_year : float
        Of one broker, for good.
    repair_seconds : (B,) float64
        Until the replicas of each broker are restored.
    unavailability : (B,) float64
        Share of the time in which each broker is down, for any reason.
    copysets : pa.Table
        `schema.RISK_DURABILITY`: a row for each number of copies.
    availability : pa.Table
        `schema.RISK_AVAILABILITY`: a row for each number of replicas and min ISR.
    """

    failures_per_year: float
    repair_seconds: Values
    unavailability: Values
    copysets: pa.Table
    availability: pa.Table

    @cached_property
    def losses_per_year(self) -> float:
        """Rate at which copysets are lost."""
        return float(sum(self.copysets["losses_per_year"].to_pylist()))

    @cached_property
    def bytes_lost_per_year(self) -> float | None:
        """Expected bytes, each partition's counted once; None without a load."""
        rows = self.copysets["bytes_lost_per_year"].to_pylist()
        return None if None in rows else float(sum(rows))

    def loss_probability(self, years: float = 1.0) -> float:
        """Chance that some copyset is lost within so many years."""
        return -expm1(-self.losses_per_year * number("years", years, 0, 1e6))


def burst_probability(chance: float, bursts_per_year: float) -> float:
    """Chance of a loss in a year of bursts that each take data with some chance."""
    if chance == 1:
        return float(bursts_per_year > 0)
    return -expm1(bursts_per_year * log1p(-chance))


def durability(
    state: ClusterState, *, mttf_years: float, repair_hours: float | npt.ArrayLike,
    repair: str = "parallel", outages_per_year: float = 0.0, outage_seconds: float = 0.0,
    load: PartitionLoad | None = None,
) -> Durability:
    """Ask how likely losses of data and of service are, if brokers fail independently.

    Parameters
    ----------
    state : ClusterState
        Not changed. Copies are the assigned replicas, whoever is in sync now.
    mttf_years : float
        Mean time in which one broker fails for good.
    repair_hours : float or (B,) array of float
        Mean time from such a failure until all its replicas are in sync again, detection included;
        of each broker, as `kfast.repair_hours` computes it, or of all.
    repair : {"parallel", "serial"}
        Whether failed brokers of a copyset are restored all at once, or one after another; with
        times of each broker, all at once.
    outages_per_year, outage_seconds : float
        Outages of one broker that lose nothing, and how long each lasts.
    load : PartitionLoad, optional
        Bytes of partitions, for what is lost, and bytes in per second, for what cannot be written.

    Returns
    -------
    Durability

    Raises
    ------
    ArgumentError
        An argument is outside its range, or a copyset is lost so soon that its rate is no constant:
        in less than 1000 repair times. A single copy is lost when its broker is.
    """
    check_instance("state", state, ClusterState)
    if load is not None:
        check_instance("load", load, PartitionLoad)
    _check_repair(repair)
    mttf_seconds = number("mttf_years", mttf_years, 1e-3, 1e6) * YEAR_SECONDS
    repair_seconds = _repair_seconds(state, repair_hours, repair)
    number("outages_per_year", outages_per_year, 0, 1e6)
    number("outage_seconds", outage_seconds, 0, YEAR_SECONDS)
    margins = take_isr_margins(state)
    broken = repair_seconds / (mttf_seconds + repair_seconds)
    out = outages_per_year * outage_seconds
    unavailability = 1 - (1 - broken) * (1 - out / (YEAR_SECONDS + out))
    return Durability(
        YEAR_SECONDS / mttf_seconds, repair_seconds, unavailability,
        _copysets(
            group_sets(state, assigned_masks(margins)), mttf_seconds, repair_seconds, repair, load
        ),
        _availability(state, margins, unavailability, load),
    )


def _repair_seconds(
    state: ClusterState, repair_hours: float | npt.ArrayLike, repair: str
) -> Values:
    """(B,) seconds of each broker, checked."""
    hours = np.asarray(repair_hours)
    if hours.ndim == 0:
        seconds = number("repair_hours", repair_hours, 1e-3, 1e6) * 3600
        return np.full(state.n_brokers, seconds)
    if hours.shape != (state.n_brokers,):
        raise ArgumentError(
            f"repair_hours has shape {hours.shape}; right is a number, or {state.n_brokers} of "
            "them, one for each broker"
        )
    if repair == "serial":
        raise ArgumentError("repair is 'serial', which goes with repair_hours that all have")
    return np.array([number("repair_hours", each, 1e-3, 1e6) * 3600 for each in hours.tolist()])


def _copysets(
    sets: BrokerSets, mttf_seconds: float, repair_seconds: Values, repair: str,
    load: PartitionLoad | None,
) -> pa.Table:
    """Rows of `schema.RISK_DURABILITY`."""
    sized = np.zeros(len(sets), np.int64)
    if load is not None:
        with_set = sets.set_of >= 0
        np.add.at(sized, sets.set_of[with_set], load.disk_bytes[with_set])
    rows = []
    for copies in np.unique(sets.sizes).tolist():
        alike = np.flatnonzero(sets.sizes == copies)
        members = sets.members[sets.begin[alike][:, None] + np.arange(copies)]
        repairs = repair_seconds[members]
        seconds = _times_to_loss(repairs, mttf_seconds, repair)
        soon = (seconds < LEAST_RATIO * repairs.max(axis=1)) & (copies > 1)
        if soon.any():
            at = int(soon.argmax())
            raise ArgumentError(
                f"repair_hours is {repairs[at].max() / 3600:g}: with {copies} copies data is lost "
                f"in {seconds[at] / 3600:.3g} h on average; at least {LEAST_RATIO} repair times are"
                " needed for a rate that means something"
            )
        per_year = YEAR_SECONDS / seconds
        losses = float(per_year.sum())
        rows.append({
            "copies": copies, "copysets": alike.size,
            "partitions": int(sets.partitions[alike].sum()),
            "mttdl_years": alike.size / losses, "losses_per_year": losses,
            "loss_probability": -expm1(-losses),
            "bytes_lost_per_year": None if load is None else float(sized[alike] @ per_year),
        })
    return pa.Table.from_pylist(rows, RISK_DURABILITY.schema)


def _times_to_loss(repairs: Values, mttf: float, repair: str) -> Values:
    """(n,) mean times to a loss of copysets, from the repair times (n, copies) of their brokers."""
    n, copies = repairs.shape
    if (repairs == repairs[0, 0]).all():
        return np.full(n, mean_time_to_loss(copies, 1 / mttf, 1 / float(repairs[0, 0]), repair))
    if copies > MOST_COPIES:
        raise ArgumentError(
            f"repair_hours differ between brokers that share {copies} copies: at most {MOST_COPIES}"
            " are allowed; right is one number"
        )
    chunk = max(CHUNK_RATES >> 2 * copies, 1)
    return np.concatenate([
        _mean_times(np.full((copies, len(part)), 1 / mttf), 1 / part.T)
        for part in (repairs[at : at + chunk] for at in range(0, n, chunk))
    ])


def _availability(
    state: ClusterState, margins: IsrMargins, unavailability: Values, load: PartitionLoad | None
) -> pa.Table:
    """Rows of `schema.RISK_AVAILABILITY`: all assigned replicas are in sync, whenever up."""
    kinds = margins.n_replicas.astype(np.int64) << 8 | margins.needed
    kinds[~margins.assigned] = 0
    rows = []
    for kind in np.unique(kinds[kinds > 0]).tolist():
        replicas, needed = kind >> 8, kind & 255
        alike = np.flatnonzero(kinds == kind)
        bytes_in = None if load is None else load.bytes_in[alike]
        if (unavailability == unavailability[0]).all():
            down = np.full((1, replicas), unavailability[0])
        else:
            down = unavailability[state.replicas[alike, :replicas]]
        offline, under = tails(down, replicas), tails(down, replicas - needed + 1)
        rows.append({
            "replicas": replicas, "min_isr": needed, "partitions": alike.size,
            "leaderless_probability": float(offline.mean()),
            "under_min_isr_probability": float(under.mean()),
            "bytes_in_leaderless_per_year": _missed(bytes_in, offline),
            "bytes_in_refused_per_year": _missed(bytes_in, under),
        })
    return pa.Table.from_pylist(rows, RISK_AVAILABILITY.schema)


def _missed(bytes_in: npt.NDArray[np.int64] | None, shares: Values) -> float | None:
    """Bytes that cannot be written in a year; `shares` of time are of each partition, or of all."""
    if bytes_in is None:
        return None
    if shares.size == 1:
        return int(bytes_in.sum()) * YEAR_SECONDS * float(shares[0])
    return float(bytes_in @ shares) * YEAR_SECONDS


def tails(down: Values, least: int) -> Values:
    """(m,) chances that at least so many of some brokers are down, each with its own chance (m, n).

    Brokers are taken one after another; nothing is subtracted but from 1.
    """
    m, n = down.shape
    counts = np.zeros((n + 1, m))
    counts[0] = 1
    for at in range(n):
        counts[1 : at + 2] = counts[1 : at + 2] * (1 - down[:, at]) + counts[: at + 1] * down[:, at]
        counts[0] *= 1 - down[:, at]
    chances: Values = counts[least:].sum(axis=0)
    return chances
