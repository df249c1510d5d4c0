"""kfast on Spark: the same questions and the same bits, over as many executors as there are.

Spark carries Arrow batches and file names, kfast's kernels decide. Everything here works on classic
sessions and on Spark Connect. `import kfast` does not import this package, nor PySpark.
"""

from __future__ import annotations

try:
    import pandas  # noqa: F401 - PySpark's Arrow functions refuse to work without it
    import pyspark  # noqa: F401 - only so that its absence is told here, once
except ImportError as error:
    raise ImportError(
        f"kfast.spark needs PySpark 4.1 or later and pandas 2 ({error}): pip install 'kfast[spark]'"
    ) from error

from kfast.spark.fleets import fleet
from kfast.spark.frames import ClusterFrames, from_dataframes, to_dataframe, to_dataframes
from kfast.spark.sharded import ShardedOutcome, fail
from kfast.spark.sweeps import scenario_rows, sweep

__all__ = [
    "ClusterFrames",
    "ShardedOutcome",
    "fail",
    "fleet",
    "from_dataframes",
    "scenario_rows",
    "sweep",
    "to_dataframe",
    "to_dataframes",
]
