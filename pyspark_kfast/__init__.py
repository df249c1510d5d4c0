"""Where Spark finds the format `kfast`: it looks into every module named `pyspark_*`."""

from kfast.spark.source import KfastSource

__all__ = ["DefaultSource"]


class DefaultSource(KfastSource):
    """The data source `kfast`; see `kfast.spark.source`."""
