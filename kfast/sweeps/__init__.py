"""Sweeps: what many failures would do, without changing the cluster."""

from kfast.sweeps.details import sweep_brokers, sweep_partitions
from kfast.sweeps.plan import SweepPlan, prepare_sweep
from kfast.sweeps.running import (
    SWEEP_COUNTS,
    SWEEP_METHODS,
    Progress,
    sweep,
    sweep_reader,
    sweep_schema,
)

__all__ = [
    "SWEEP_COUNTS",
    "SWEEP_METHODS",
    "Progress",
    "SweepPlan",
    "prepare_sweep",
    "sweep",
    "sweep_brokers",
    "sweep_partitions",
    "sweep_reader",
    "sweep_schema",
]
