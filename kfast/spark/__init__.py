"""kfast on Spark: the same questions and the same bits, over as many executors as there are.

Spark carries Arrow batches and file names, kfast's kernels decide. Everything here works on classic
sessions and on Spark Connect. `import kfast` does not import this package, nor PySpark. Workers
import it too, in each of their processes, so public names are loaded when they are asked for.

`frames` are a cluster's tables as DataFrames, `source` is the format `kfast`, `functions` are
elections in a column. `sweeps` counts scenarios of one cluster (`sweep_tasks` in workers),
`capacity_sweeps` measures them in bytes, `timeline_sweeps` times them, also those of many clusters,
which `fleets` counts. `pipeline` keeps results of fleets up to date, as a `pipeline_config` asks. A
cluster in many files is a `dataset`; events happen to it in `sharded` (`sharded_tasks` in workers),
`sharded_sweeps` makes it ready for sweeps, and `sharded_capacity` sums it up for those in bytes.
`workers` runs tasks, `paths` finds files and distributes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.errors import require_extra
from kfast.lazy_names import load_lazily

# Looked for, not imported: a worker that never uses pandas starts twice as fast without it.
require_extra("spark", "kfast.spark")

if TYPE_CHECKING:
    from kfast.spark.capacity_sweeps import (
        capacity_from_dataframe,
        capacity_sweep,
        load_from_dataframe,
    )
    from kfast.spark.dataset import split
    from kfast.spark.fleets import fleet
    from kfast.spark.frames import ClusterFrames, from_dataframes, to_dataframe, to_dataframes
    from kfast.spark.sharded import ShardedOutcome, fail
    from kfast.spark.sharded_capacity import ShardedCapacity, prepare_capacity
    from kfast.spark.sweeps import scenario_rows, sweep, sweep_brokers, sweep_partitions
    from kfast.spark.timeline_sweeps import timeline_fleet, timeline_sweep
    from kfast.spark.workers import check_workers

__all__ = [
    "ClusterFrames",
    "ShardedCapacity",
    "ShardedOutcome",
    "capacity_from_dataframe",
    "capacity_sweep",
    "check_workers",
    "fail",
    "fleet",
    "from_dataframes",
    "load_from_dataframe",
    "prepare_capacity",
    "scenario_rows",
    "split",
    "sweep",
    "sweep_brokers",
    "sweep_partitions",
    "timeline_fleet",
    "timeline_sweep",
    "to_dataframe",
    "to_dataframes",
]

load_lazily(__name__, {
    "capacity_sweeps": "capacity_from_dataframe capacity_sweep load_from_dataframe",
    "dataset": "split",
    "fleets": "fleet",
    "frames": "ClusterFrames from_dataframes to_dataframe to_dataframes",
    "sharded": "ShardedOutcome fail",
    "sharded_capacity": "ShardedCapacity prepare_capacity",
    "sweeps": "scenario_rows sweep sweep_brokers sweep_partitions",
    "timeline_sweeps": "timeline_fleet timeline_sweep",
    "workers": "check_workers",
})
