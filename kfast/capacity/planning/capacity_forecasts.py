"""How full brokers get as loads grow: a capacity sweep for every month.

Source: docs/capacity.md, section "Growth".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kfast.arguments import check_instance, whole
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, check_sweep, prepare_capacity
from kfast.capacity.failures.cpu_models import MEASURED, CpuWeights
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.client_racks import LEADER, ConsumerRacks
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.capacity.planning.load_growth import MOST_MONTHS, LoadGrowth
from kfast.figures.capacity import forecast_figure
from kfast.schema import CAPACITY_FORECAST
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.sweeps.scenario_makers import every_broker
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_run import prepare_sweep

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["CapacityForecast", "capacity_forecast", "forecast_months"]


@dataclass(frozen=True, eq=False)
class CapacityForecast:
    """How full brokers get, month by month.

    Parameters
    ----------
    months : pa.Table
        `schema.CAPACITY_FORECAST`: a row for each month and resource.
    first_month_over_limit : mapping of str to int or None
        Of each resource the first month in which a broker is over its limit, without a failure or
        after any of the failures; None where there is none.
    last_load : PartitionLoad
        Loads of the last month.
    over_limit_replicas : int
        Brokers that hold more replicas than they may, in every month alike.
    """

    months: pa.Table
    first_month_over_limit: Mapping[str, int | None]
    last_load: PartitionLoad
    over_limit_replicas: int = 0

    def plot(self) -> Figure:
        """Draw the highest share of each capacity by month, as a figure of plotly.

        Raises
        ------
        MissingExtraError
            plotly is not installed (the extra `report`).
        """
        return forecast_figure(self.months.to_pylist())

    def _summary(self) -> Summary:
        return "CapacityForecast", {
            "months": self.months.num_rows // len(RESOURCES) - 1,
            "first month over a limit": ", ".join(
                f"{name} {month}" for name, month in self.first_month_over_limit.items()
                if month is not None
            ) or "none",
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def capacity_forecast(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, scenarios: Scenarios, *,
    growth: str, topic_growth: Iterable[tuple[str, str]] = (), months: int = 12,
    normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED, fetch_from: str = LEADER,
    consumer_racks: Mapping[str, str] | None = None, threads: int = 1,
) -> CapacityForecast:
    """How full brokers get in each of some months, without a failure and after the worst.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    load : PartitionLoad
        Of month 0.
    capacity : BrokerCapacity
    scenarios : Scenarios
        Failures, such as `kfast.every_broker(state)`.
    growth : str
        Of a month, such as 4%/month.
    topic_growth : iterable of (str, str)
        Growth of the topics whose whole name a regular expression matches; of several that match,
        the last counts. `kfast.read_growth` reads it from a file.
    months : int, default 12
        0 to 120.
    normal_limits, failed_limits, replicas_limit, weights, cpu_model, fetch_from, consumer_racks
        As of `kfast.prepare_capacity`.
    threads : int, default 1
        Threads to use. The result does not depend on it.

    Returns
    -------
    CapacityForecast

    Raises
    ------
    ArgumentError
        A growth is none, an expression matches no topic, the scenarios are of another cluster, or
        `kfast.prepare_capacity` refuses.
    InputError
        A load grows beyond its bound; the message names the month.

    Notes
    -----
    Source: docs/capacity.md, section "Growth".
    """
    check_instance("state", state, ClusterState)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    plan = prepare_sweep(state, threads=threads)

    def prepare(grown: PartitionLoad) -> CapacityPlan:
        return prepare_capacity(
            plan, grown, capacity, normal_limits=normal_limits, failed_limits=failed_limits,
            replicas_limit=replicas_limit, weights=weights, cpu_model=cpu_model,
            fetch_from=fetch_from, consumer_racks=consumer_racks,
        )

    consumers = ConsumerRacks.of(state, fetch_from, consumer_racks)
    load_growth = LoadGrowth(state, load, growth, topic_growth, weights, plan, consumers)
    return forecast_months(load_growth, scenarios, months, prepare)


def forecast_months(
    growth: LoadGrowth, scenarios: Scenarios, months: int,
    prepare: Callable[[PartitionLoad], CapacityPlan],
) -> CapacityForecast:
    """Sweep every month from 0; `prepare` makes the cluster ready with the loads of a month."""
    months = whole("months", months, 0, MOST_MONTHS)
    baseline = every_broker(growth.state).slice(0, 1)
    rows: list[dict[str, Any]] = []
    grown, n_full = growth.load, 0
    for month in range(months + 1):
        grown = growth.after(month)
        plan = prepare(grown)
        check_sweep(plan, scenarios, None)
        normal = next(plan.batches(baseline)).to_pylist()[0]
        failed, n_full = _worst_of_each(plan, scenarios), normal["over_limit_replicas"]
        for name in RESOURCES:
            rows.append({
                "month": month, "resource": name,
                "normal": normal[f"{name}_max"], "normal_broker": normal[f"{name}_broker"],
                "failed": failed[name][0], "failed_broker": failed[name][1],
                "scenario": failed[name][2],
                "over_limit": failed[name][3] or normal[f"over_limit_{name}"] > 0,
            })
    table = pa.Table.from_pylist(rows, CAPACITY_FORECAST.schema)
    first = {
        name: next((row["month"] for row in rows if row["resource"] == name and row["over_limit"]),
                   None)
        for name in RESOURCES
    }
    return CapacityForecast(table, first, grown, n_full)


Worst = tuple[float | None, int | None, int | None, bool]
"""Highest share of a resource, the broker, the failure; whether any failure is over the limit."""


def _worst_of_each(plan: CapacityPlan, scenarios: Scenarios) -> dict[str, Worst]:
    """Of each resource the failure after which a broker uses most of it, the first of equals."""
    worst: dict[str, Worst] = dict.fromkeys(RESOURCES, (None, None, None, False))
    for batch in plan.batches(scenarios.failures):
        for name in RESOURCES:
            share, broker, scenario, over = worst[name]
            over = over or bool(batch[f"over_limit_{name}"].to_numpy().any())
            shares = batch[f"{name}_max"].fill_null(-1).to_numpy()
            at = int(shares.argmax())
            if shares[at] >= 0 and (share is None or shares[at] > share):
                share, broker = float(shares[at]), batch[f"{name}_broker"][at].as_py()
                scenario = batch["scenario"][at].as_py()
            worst[name] = share, broker, scenario, over
    return worst
