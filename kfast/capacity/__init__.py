"""What brokers carry and can carry: bytes, where the rest of kfast counts leaders.

`partition_loads.py` brings the tables of `kfast.io.loads` to the partitions of a cluster, with the
share models of `shares.py` and the sizes that `retention.py` concludes; `broker_capacities.py` does
the same for brokers; `units.py` reads and writes numbers with their units.

`capacity_sweeps.py` measures failures: `failure_effects.py` asks the sweep who leads and follows,
`failure_terms.py` takes sums over partitions apart by failed brokers, `partition_sums.py` adds
those of several parts of a cluster, `limits.py` says how full a broker may be, `presets.py` what
others recommend, `cpu_models.py` what traffic costs its processor; `broker_disks.py` finds the
fullest directories; `client_racks.py` says which racks consumers are in, `nearest_replicas.py` from
which replicas they fetch; `broker_statistics.py` says what each broker uses over all failures,
`failure_details.py` what one failure does to each.

`load_growth.py` makes loads grow, and `capacity_forecasts.py` sweeps them month by month.
`monthly_costs.py` adds up prices, `cluster_sizes.py` says how many brokers suffice.

`plan_check.py` executes a plan and measures it: `placement_rules.py` has the hard rules,
`plan_objective.py` says which of two placements is better, `cruise_control_goals.py` which goals of
Cruise Control they meet, `broker_totals.py` sums up.

`restoration_demand.py` lists what has to be copied after a failure, `restoration_times.py` says how
long that takes.

`placement_search.py` finds better placements: `placement_problem.py` has the loads, limits and
rules that it works on, `placement_bound.py` says how good a placement can be at best.
`reassignment_batches.py` divides a plan into batches that brokers can copy within bounds.

`durability_chances.py` says how likely losses of data and service are.
"""

from __future__ import annotations

from kfast.capacity.broker_capacities import BrokerCapacity, broker_capacity
from kfast.capacity.broker_statistics import capacity_brokers
from kfast.capacity.capacity_forecasts import CapacityForecast, capacity_forecast
from kfast.capacity.capacity_sweeps import (
    CAPACITY_METRICS,
    CapacityPlan,
    capacity_sweep,
    potential_nw_out,
    prepare_capacity,
)
from kfast.capacity.cluster_sizes import ClusterSize, capacity_size
from kfast.capacity.cpu_models import CPU_MODELS, CpuFit, CpuWeights, fit_cpu
from kfast.capacity.durability_chances import Durability, durability
from kfast.capacity.failure_details import CapacityFailure, capacity_of
from kfast.capacity.load_growth import grow_load, read_growth
from kfast.capacity.monthly_costs import CapacityCost, capacity_cost, read_prices
from kfast.capacity.partition_loads import PartitionLoad, partition_load
from kfast.capacity.placement_rules import HARD_RULES
from kfast.capacity.placement_search import BetterPlacement, improve_placement
from kfast.capacity.plan_check import PlanCheck, check_plan
from kfast.capacity.plan_objective import OBJECTIVE
from kfast.capacity.presets import PRESETS, Preset
from kfast.capacity.reassignment_batches import PlanBatches, plan_batches
from kfast.capacity.restoration_demand import NewReplicas
from kfast.capacity.restoration_times import Restoration, repair_hours, restoration

__all__ = [
    "CAPACITY_METRICS", "CPU_MODELS", "HARD_RULES", "OBJECTIVE", "PRESETS", "BetterPlacement",
    "BrokerCapacity", "CapacityCost", "CapacityFailure", "CapacityForecast", "CapacityPlan",
    "ClusterSize", "CpuFit", "CpuWeights", "Durability", "NewReplicas", "PartitionLoad",
    "PlanBatches", "PlanCheck", "Preset", "Restoration", "broker_capacity", "capacity_brokers",
    "capacity_cost", "capacity_forecast", "capacity_of", "capacity_size", "capacity_sweep",
    "check_plan", "durability", "fit_cpu", "grow_load", "improve_placement", "partition_load",
    "plan_batches", "potential_nw_out", "prepare_capacity", "read_growth", "read_prices",
    "repair_hours", "restoration",
]
