"""Sweeps: what many failures would do, without changing the cluster.

Names are loaded when they are asked for: a worker that counts prepares nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from kfast.sweeps.counting import SWEEP_COUNTS, Progress, sweep_schema
    from kfast.sweeps.details import sweep_brokers, sweep_partitions
    from kfast.sweeps.plan import SweepPlan
    from kfast.sweeps.preparing import prepare_sweep
    from kfast.sweeps.running import SWEEP_METHODS, sweep, sweep_reader

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
    "counting": "SWEEP_COUNTS Progress sweep_schema",
    "details": "sweep_brokers sweep_partitions",
    "plan": "SweepPlan",
    "preparing": "prepare_sweep",
    "running": "SWEEP_METHODS sweep sweep_reader",
})
