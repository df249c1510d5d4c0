"""What failures do to brokers, in bytes.

`capacity_sweeps.py` measures failures: `failure_effects.py` asks the sweep who leads and follows,
`failure_terms.py` takes sums over partitions apart by failed brokers, `nearest_replicas.py` says
from which replicas consumers fetch, `partition_sums.py` adds the sums of several parts of a
cluster. `limits.py` says how full a broker may be, `presets.py` what others recommend,
`cpu_models.py` what traffic costs a processor; `broker_disks.py` finds the fullest directories.

`broker_statistics.py` says what each broker uses over all failures, `failure_details.py` what one
failure does to each, `worst_failures.py` which is worst, `broker_totals.py` sums without failures.
"""

from __future__ import annotations

from kfast.capacity.failures.broker_statistics import capacity_brokers
from kfast.capacity.failures.capacity_sweeps import (
    CAPACITY_METRICS,
    CapacityPlan,
    capacity_sweep,
    potential_nw_out,
    prepare_capacity,
)
from kfast.capacity.failures.cpu_models import CPU_MODELS, CpuFit, CpuWeights, fit_cpu
from kfast.capacity.failures.failure_details import CapacityFailure, capacity_of
from kfast.capacity.failures.presets import PRESETS, Preset

__all__ = [
    "CAPACITY_METRICS", "CPU_MODELS", "PRESETS", "CapacityFailure", "CapacityPlan", "CpuFit",
    "CpuWeights", "Preset", "capacity_brokers", "capacity_of", "capacity_sweep", "fit_cpu",
    "potential_nw_out", "prepare_capacity",
]
