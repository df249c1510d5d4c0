"""Loads as they will be: each topic grows by a share a month.

After m months a rate is what it was, times (1 + growth)^m: an exact fraction, rounded half to even
once. Sizes grow with bytes in, unless retention.bytes holds them; what brokers use of their
processors grows with their work.

Source: docs/capacity.md, section "Growth".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance, check_items, shown, whole
from kfast.capacity.failures.cpu_models import CpuWeights
from kfast.capacity.failures.failure_effects import FailureEffects
from kfast.capacity.failures.failure_terms import carried_by, pass_over
from kfast.capacity.failures.nearest_replicas import split_by_rack
from kfast.capacity.loads.client_racks import ConsumerRacks
from kfast.capacity.loads.partition_loads import RATES, PartitionLoad, check_bounds
from kfast.capacity.loads.retention import retention_of
from kfast.capacity.loads.shares import Amounts
from kfast.errors import ArgumentError, InputError
from kfast.io.csv_rows import exact_columns, read_csv_rows
from kfast.io.files import Source
from kfast.state import ClusterState
from kfast.state.settings import match_topics, topic_pattern
from kfast.sweeps.sweep_plan import SweepPlan
from kfast.sweeps.sweep_run import prepare_sweep

__all__ = ["MOST_MONTHS", "LoadGrowth", "grow_load", "parse_growth", "read_growth"]

MOST_MONTHS = 120
MOST_GROWTH = 10
"""Growth of a month is at most tenfold, and above -100 %."""

MOST_LOAD = 1 << 62
"""Stands for more, which is refused."""

_GROWTH = re.compile(r"\s*([+-]?\d{1,6}(?:\.\d{1,9})?)\s*%\s*(?:/\s*month)?\s*")
_EXAMPLE = "4%/month"


def parse_growth(name: str, text: object) -> Fraction:
    """Growth a month of a text such as 4%/month or -1.5%, as a fraction of 1.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    text : str

    Raises
    ------
    ArgumentError
        It is no growth, or not above -100 % and at most 1000 % a month.
    """
    match = _GROWTH.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ArgumentError(f"{name} is {shown(text)}: a growth is needed, as in {_EXAMPLE}")
    growth = Fraction(match[1]) / 100
    if not -1 < growth <= MOST_GROWTH:
        raise ArgumentError(
            f"{name} is {shown(text)}: above -100% and at most {100 * MOST_GROWTH}% a month are "
            "allowed"
        )
    return growth


def read_growth(path: Source) -> tuple[tuple[str, str], ...]:
    """Read the growth of topics: a CSV with the columns topic and growth.

    Parameters
    ----------
    path : path, or (str, bytes)
        `topic` is a regular expression for the whole name, `growth` a text such as 4%/month.

    Returns
    -------
    tuple of (str, str)
        What `topic_growth` of `kfast.capacity_forecast` and `kfast.grow_load` takes.

    Raises
    ------
    InputError
        The file has other columns, or a line has a growth that is none, or no regular expression.
    """
    name, rows = read_csv_rows(path, exact_columns("topic", "growth"))
    for where, cells in rows:
        try:
            parse_growth("growth", cells["growth"])
            topic_pattern("topic", cells["topic"])
        except ArgumentError as error:
            raise InputError(f"{where}: {error}") from error
    if not rows:
        raise InputError(f"{name}: has no topic; right is a line for each, as in orders.*,4%/month")
    return tuple((cells["topic"], cells["growth"]) for _, cells in rows)


def grow_load(
    state: ClusterState, load: PartitionLoad, growth: str, months: int, *,
    topic_growth: Iterable[tuple[str, str]] = (), weights: CpuWeights | None = None,
) -> PartitionLoad:
    """Loads as they are after some months of growth.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    load : PartitionLoad
        Of month 0.
    growth : str
        Of a month, such as 4%/month.
    months : int
        0 to 120.
    topic_growth : iterable of (str, str)
        Growth of the topics whose whole name a regular expression matches; of several that match,
        the last counts.
    weights : CpuWeights, optional
        What work costs, by which the use of processors grows.

    Returns
    -------
    PartitionLoad
        In the units of `load`; its assumptions say the growth.

    Raises
    ------
    ArgumentError
        A growth is none, an expression matches no topic, or the controller cannot start.
    InputError
        A partition would reach 2^40 B/s or 2^50 B, or a sum over all replicas 2^63.

    Notes
    -----
    Source: docs/capacity.md, section "Growth".
    """
    check_instance("state", state, ClusterState)
    months = whole("months", months, 0, MOST_MONTHS)
    return LoadGrowth(state, load, growth, topic_growth, weights).after(months)


class LoadGrowth:
    """The loads of a cluster, and by how much those of each topic grow in a month.

    Parameters are those of `grow_load`; with a plan, its cluster is that which has started.
    Consumers are those that fetch from the nearest replica.
    """

    def __init__(
        self, state: ClusterState, load: PartitionLoad, growth: str,
        topic_growth: Iterable[tuple[str, str]], weights: CpuWeights | None,
        plan: SweepPlan | None = None, consumers: ConsumerRacks | None = None,
    ) -> None:
        check_instance("load", load, PartitionLoad)
        self.state, self.load, self.weights = state, load, weights or CpuWeights()
        of_topic = np.zeros(state.n_topics, np.int64)
        rates = [parse_growth("growth", growth)]
        for pair in check_items("topic_growth", topic_growth):
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ArgumentError(
                    f"topic_growth has {shown(pair)}; right is a pair such as"
                    f" ('orders.*', '{_EXAMPLE}')"
                )
            of_topic[match_topics(state, "topic_growth", pair[0])] = len(rates)
            rates.append(parse_growth("topic_growth", pair[1]))
        numbers, rate_of = np.unique(of_topic, return_inverse=True)
        self.rates = [rates[number] for number in numbers.tolist()]
        self.rate_of = rate_of[state.topic_row]
        self.n_topics = np.bincount(rate_of, state.topic_exists).astype(np.int64).tolist()
        self.retention = retention_of(state)
        self.bounded = np.flatnonzero(
            (self.retention.bytes >= 0)[state.topic_row]
            & self.retention.deleted[state.topic_row]
        )
        self.plan, self.consumers = plan, consumers
        self.effects: FailureEffects | None = None
        if load.cpu_microcores is not None:
            self.plan = plan or prepare_sweep(state)
            self.effects = FailureEffects.of(self.plan)
            self.work = self._work(load)

    def after(self, months: int) -> PartitionLoad:
        """Loads after some months."""
        load, factors = self.load, [(1 + rate) ** months for rate in self.rates]
        rates = {name: self._grown(getattr(load, name), factors) for name in RATES}
        sizes = self._grown(load.disk_bytes, factors)
        replicas = load.replica_bytes
        if replicas is not None:
            replicas = np.stack([self._grown(column, factors) for column in replicas.T], axis=1)
        for row in self.bounded.tolist():
            factor = self._size_factor(row, factors[int(self.rate_of[row])])
            sizes[row] = round(int(load.disk_bytes[row]) * factor)
            if replicas is not None and load.replica_bytes is not None:
                replicas[row] = [round(size * factor) for size in load.replica_bytes[row].tolist()]
        try:
            check_bounds(self.state, {**rates, "disk_bytes": sizes})
        except InputError as error:
            raise InputError(f"after {months} months: {error}") from error
        grown = replace(
            load, bytes_in=rates["bytes_in"], bytes_out=rates["bytes_out"],
            milli_msgs_in=rates["milli_msgs_in"], disk_bytes=sizes, replica_bytes=replicas,
            assumptions=(*load.assumptions, *self._assumptions(months)),
        )
        return grown if load.cpu_microcores is None else replace(
            grown, cpu_microcores=self._processors(grown)
        )

    def _grown(self, values: Amounts, factors: list[Fraction]) -> Amounts:
        """Values of partitions, each times the factor of its topic."""
        grown = np.empty_like(values)
        for number, factor in enumerate(factors):
            rows = np.flatnonzero(self.rate_of == number)
            grown[rows] = multiplied(values[rows], factor)
        return grown

    def _size_factor(self, row: int, factor: Fraction) -> Fraction:
        """By what the size of a partition grows whose topic has retention.bytes.

        What deletion leaves is min(bytes in * retention time, retention.bytes): the size grows as
        that does.
        """
        topic, bytes_in = int(self.state.topic_row[row]), int(self.load.bytes_in[row])
        time_ms, most = int(self.retention.time_ms[topic]), int(self.retention.bytes[topic])
        if not bytes_in:
            return factor
        if time_ms < 0 or not most:
            return Fraction(1)
        by_time = Fraction(bytes_in * time_ms, 1000)
        if not by_time:
            return factor
        limit = Fraction(most)
        return min(by_time * factor, limit) / min(by_time, limit)

    def _work(self, load: PartitionLoad) -> Amounts:
        """(B,) work of every broker without a failure."""
        assert self.plan is not None
        assert self.effects is not None
        rates = np.stack([load.bytes_in, load.bytes_out, load.disk_bytes], axis=1)
        none = np.zeros(self.effects.n_brokers + 1, np.uint8)
        split = split_by_rack(self.plan, self.effects, rates[self.effects.rows], self.consumers)
        channels, _ = pass_over(*split, none, False)
        work: Amounts = carried_by(channels, self.weights)[:, 2]
        return work

    def _processors(self, grown: PartitionLoad) -> Amounts:
        """(B,) micro-cores in proportion to work; without a use or work they stay."""
        assert self.load.cpu_microcores is not None
        return np.array([
            round(Fraction(used * after, before)) if used > 0 and before else used
            for used, before, after in zip(
                self.load.cpu_microcores.tolist(), self.work.tolist(), self._work(grown).tolist(),
                strict=True,
            )
        ], np.int64)

    def _assumptions(self, months: int) -> tuple[str, ...]:
        parts = ", ".join(
            f"{float(100 * rate):g} % a month ({n} topic{'' if n == 1 else 's'})"
            for rate, n in zip(self.rates, self.n_topics, strict=True)
        )
        return (f"loads are those after {months} months of growth by {parts}",)


def multiplied(values: Amounts, factor: Fraction) -> Amounts:
    """Integers from 0, below 2^53, times an exact fraction, each rounded half to even.

    Floats decide where they are far enough from a half; the rest is done in integers.
    """
    estimate = np.minimum(values * float(factor), MOST_LOAD)
    result: npt.NDArray[np.int64] = np.rint(estimate).astype(np.int64)
    to_half = np.abs(estimate - np.floor(estimate) - 0.5)
    # A float and its product are off by 2^-52 of it at most.
    for at in np.flatnonzero(to_half <= estimate * 2.0**-50).tolist():
        result[at] = min(round(int(values[at]) * factor), MOST_LOAD)
    return result
