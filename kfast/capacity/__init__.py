"""What brokers carry and can carry: bytes, where the rest of kfast counts leaders.

`loads` has what each partition carries and each broker can; `failures` what a failure does to
brokers; `restorations` how long copies take; `placements` which placement is better, and the way
to it; `planning` growth, sizes, costs and chances. Each imports only from those named before it.
"""

from __future__ import annotations

from kfast.capacity.failures import (
    CAPACITY_METRICS,
    CPU_MODELS,
    PRESETS,
    CapacityFailure,
    CapacityPlan,
    CpuFit,
    CpuWeights,
    Preset,
    capacity_brokers,
    capacity_of,
    capacity_sweep,
    fit_cpu,
    potential_nw_out,
    prepare_capacity,
)
from kfast.capacity.loads import BrokerCapacity, PartitionLoad, broker_capacity, partition_load
from kfast.capacity.placements import (
    HARD_RULES,
    OBJECTIVE,
    BetterPlacement,
    PlanBatches,
    PlanCheck,
    check_plan,
    improve_placement,
    plan_batches,
)
from kfast.capacity.planning import (
    CapacityCost,
    CapacityForecast,
    ClusterSize,
    Durability,
    capacity_cost,
    capacity_forecast,
    capacity_size,
    durability,
    grow_load,
    read_growth,
    read_prices,
)
from kfast.capacity.restorations import NewReplicas, Restoration, repair_hours, restoration

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
