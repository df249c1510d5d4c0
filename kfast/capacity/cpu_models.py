"""What the traffic of a broker costs its processor.

Work weighs bytes: those that producers write to leaders, those that leaders send, those that
followers fetch. Where the use of a broker is measured, that is its work without a failure, and it
changes in proportion. Where none is measured, write-equivalent bytes may stand for it.

Source: docs/capacity.md, "Processors".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from kfast.arguments import shown, whole
from kfast.errors import ArgumentError

__all__ = [
    "CPU_MODELS", "MEASURED", "WRITE_EQUIVALENT", "WRITE_EQUIVALENT_LIMIT",
    "WRITE_EQUIVALENT_WEIGHTS", "WRITE_EQUIVALENT_WORK", "CpuWeights", "check_cpu_model",
]

MEASURED, WRITE_EQUIVALENT = CPU_MODELS = ("measured", "write-equivalent")
"""In proportion to what is measured; or by write-equivalent bytes, whatever is measured."""

MOST_WEIGHT = 10**8


@dataclass(frozen=True)
class CpuWeights:
    """What a byte costs, in relation: written to a leader, sent by it, written to a follower.

    Parameters
    ----------
    leader_in, leader_out, follower_in : int
        From 0 to 10^8, not all 0. By default 0.70, 0.15 and 0.15.

    Raises
    ------
    ArgumentError
        A weight is none that is allowed.

    Notes
    -----
    Source: Cruise Control, MonitorConfig: `leader.network.inbound.weight.for.cpu.util`,
    `leader.network.outbound.weight.for.cpu.util`, `follower.network.inbound.weight.for.cpu.util`.
    """

    leader_in: int = 14
    leader_out: int = 3
    follower_in: int = 3

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            whole(name, weight, 0, MOST_WEIGHT)
        if not any(vars(self).values()):
            raise ArgumentError("all weights of the processor are 0; right is at least one above")

    @classmethod
    def in_lowest_terms(cls, *weights: int) -> CpuWeights:
        """Weights in the same relation, as small as they can be."""
        divisor = gcd(*weights) or 1
        return cls(*(weight // divisor for weight in weights))


WRITE_EQUIVALENT_WEIGHTS = CpuWeights(4, 1, 4)
"""A byte that is sent costs a quarter of one that is written.

Source: Google, Managed Service for Apache Kafka, "Plan your cluster size": the write-equivalent
rate is total write bandwidth + total read bandwidth / 4, replication included in both.
"""

WRITE_EQUIVALENT_WORK = 80
"""Work of a micro-core: 20 MB/s of write-equivalent bytes are a core, four units of work each.

Source: as `WRITE_EQUIVALENT_WEIGHTS`.
"""

WRITE_EQUIVALENT_LIMIT = 5000
"""Basis points of its cores that a broker may use without a failure, by write-equivalent bytes.

Source: as `WRITE_EQUIVALENT_WEIGHTS`: a target utilisation of 50 %.
"""


def check_cpu_model(model: str, weights: CpuWeights | None) -> CpuWeights:
    """The weights of a model.

    Raises
    ------
    ArgumentError
        The model is unknown, or has weights of its own.
    """
    if model not in CPU_MODELS:
        raise ArgumentError(f"cpu_model is {shown(model)}; allowed are {', '.join(CPU_MODELS)}")
    if model == MEASURED:
        return weights or CpuWeights()
    if weights is not None:
        raise ArgumentError(f"weights go with cpu_model {MEASURED!r}; {model!r} has its own")
    return WRITE_EQUIVALENT_WEIGHTS
