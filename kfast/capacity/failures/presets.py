"""Limits that others plan with, each with its source.

A preset is a set of arguments of `kfast.prepare_capacity`. What it does not name stays as in
`limits.py`.

Source: docs/capacity.md, section "Presets".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PRESETS", "Preset"]

CRUISE_CONTROL_SOURCE = (
    "Cruise Control, AnalyzerConfig: network.inbound.capacity.threshold and the others, "
    "max.replicas.per.broker"
)
NETFLIX_SOURCE = (
    "Netflix, service-capacity-modeling, kafka.py: bandwidth times 1.40, state times 2.5"
)
AWS_SOURCE = (
    "AWS, Best practices for right-sizing your Apache Kafka clusters: 80 % of the throughput of "
    "equation 1"
)
MSK_SOURCE = (
    "Amazon MSK, Best practices for Standard brokers: partitions per broker, CPU below 60 %"
)


@dataclass(frozen=True)
class Preset:
    """Limits, and who recommends them.

    Attributes
    ----------
    source : str
        The document or the code that they are from.
    normal_limits, failed_limits : mapping of str to float
        Shares of a capacity, without a failure and with one.
    replicas_limit : int or None
        How many replicas a broker may hold.
    """

    source: str
    normal_limits: Mapping[str, float] = field(default_factory=dict)
    failed_limits: Mapping[str, float] = field(default_factory=dict)
    replicas_limit: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The limits as arguments of `kfast.prepare_capacity`."""
        return {
            "normal_limits": dict(self.normal_limits), "failed_limits": dict(self.failed_limits),
            "replicas_limit": self.replicas_limit,
        }


_CRUISE_CONTROL = {"nw_in": 0.8, "nw_out": 0.8, "cpu": 0.7, "disk": 0.8}
_MSK_REPLICAS = {
    300: ("t3.small",),
    1000: ("m5.large", "m5.xlarge", "m7g.large", "m7g.xlarge"),
    2000: ("m5.2xlarge", "m7g.2xlarge"),
    4000: (
        "m5.4xlarge", "m5.8xlarge", "m5.12xlarge", "m5.16xlarge", "m5.24xlarge",
        "m7g.4xlarge", "m7g.8xlarge", "m7g.12xlarge", "m7g.16xlarge",
    ),
}
"""Partitions per broker that are recommended for sizes of brokers, leaders and followers alike."""

PRESETS: Mapping[str, Preset] = {
    "cruise-control": Preset(
        CRUISE_CONTROL_SOURCE, _CRUISE_CONTROL, _CRUISE_CONTROL, 10_000
    ),
    # 1 / 1.40, rounded down to a basis point, and 1 / 2.5.
    "netflix": Preset(NETFLIX_SOURCE, {"nw_in": 0.7142, "nw_out": 0.7142, "disk": 0.4}),
    "aws-sizing": Preset(AWS_SOURCE, {"nw_in": 0.8, "nw_out": 0.8}),
    **{
        f"kafka.{size}": Preset(MSK_SOURCE, {"cpu": 0.6}, replicas_limit=replicas)
        for replicas, sizes in _MSK_REPLICAS.items() for size in sizes
    },
}
"""By name; those of Amazon MSK are named as its sizes of brokers."""
