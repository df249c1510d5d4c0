"""Sweeps: what many failures would do, without changing the cluster.

`scenarios` and `scenario_makers` say which brokers fail; `sweep_run` starts the controller, makes a
`sweep_plan` of the cluster and sweeps; `sweep_counts` has one row per scenario, by dense kernels
or by `sparse_counts`; `failover_order` counts leaders per broker; `sweep_details` has one row per
partition or broker. Names are loaded when they are first used: a worker that counts does not load
the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from kfast.sweeps.sweep_counts import SWEEP_COUNTS, Progress, sweep_schema
    from kfast.sweeps.sweep_details import sweep_brokers, sweep_partitions
    from kfast.sweeps.sweep_plan import SweepPlan
    from kfast.sweeps.sweep_run import SWEEP_METHODS, prepare_sweep, sweep, sweep_reader

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

load_lazily(__name__, {
    "sweep_counts": "SWEEP_COUNTS Progress sweep_schema",
    "sweep_details": "sweep_brokers sweep_partitions",
    "sweep_plan": "SweepPlan",
    "sweep_run": "SWEEP_METHODS prepare_sweep sweep sweep_reader",
})
