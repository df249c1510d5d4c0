"""What the traffic of a broker costs its processor.

Work weighs bytes: those that producers write to leaders, those that leaders send, those that
followers fetch. Where the use of a broker is measured, that is its work without a failure, and it
changes in proportion. Where none is measured, write-equivalent bytes may stand for it.

Source: docs/capacity.md, "Processors".
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, shown, whole
from kfast.errors import ArgumentError, require_extra

__all__ = [
    "CPU_MODELS", "MEASURED", "WRITE_EQUIVALENT", "WRITE_EQUIVALENT_LIMIT",
    "WRITE_EQUIVALENT_WEIGHTS", "WRITE_EQUIVALENT_WORK", "CpuFit", "CpuWeights", "check_cpu_model",
    "fit_cpu",
]

MEASURED, WRITE_EQUIVALENT = CPU_MODELS = ("measured", "write-equivalent")
"""In proportion to what is measured; or by write-equivalent bytes, whatever is measured."""

MOST_WEIGHT = 10**8
FITTED_WEIGHTS = 10_000
"""What fitted weights add up to, before they are rounded."""


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


@dataclass(frozen=True)
class CpuFit:
    """Weights that fit samples of brokers, and how well.

    Attributes
    ----------
    weights : CpuWeights
        The coefficients in relation to each other, rounded to 1/10 000 of their sum.
    coefficients : (3,) float64
        Micro-cores that a byte a second costs: written to a leader, sent by it, written to a
        follower.
    r_squared : float
        The share of the variance that they explain; negative where the mean would fit better.
    residuals : (n,) float64
        Micro-cores of each sample that they do not explain; negative where they claim too much.
    """

    weights: CpuWeights
    coefficients: npt.NDArray[np.float64]
    r_squared: float
    residuals: npt.NDArray[np.float64]


def fit_cpu(samples: pa.Table) -> CpuFit:
    """Fit the weights of a processor's work to samples of brokers, by non-negative least squares.

    Parameters
    ----------
    samples : pa.Table
        A row for a broker at a time, at least three. `leader_in`, `leader_out` and `follower_in`
        are bytes a second: written by producers, sent to consumers and followers, fetched as a
        follower. `cpu_microcores` is what the broker used, in millionths of a core.

    Returns
    -------
    CpuFit

    Raises
    ------
    ArgumentError
        A column is missing, a cell is null, negative or no finite number, all samples use the
        same, or no byte costs anything.
    MissingExtraError
        scipy is not installed.

    Notes
    -----
    Source: docs/capacity.md, section "Processors".
    """
    check_instance("samples", samples, pa.Table)
    require_extra("stats", "fit_cpu")
    from scipy.optimize import nnls

    columns = [_sample_column(samples, name) for name in (*vars(CpuWeights()), "cpu_microcores")]
    traffic, used = np.stack(columns[:-1], axis=1), columns[-1]
    if used.size < len(vars(CpuWeights())):
        raise ArgumentError(f"samples has {used.size} rows; right are at least three")
    spread = float(((used - used.mean()) ** 2).sum())
    if not spread:
        raise ArgumentError("samples: cpu_microcores is the same in all rows; it has to vary")
    scale = np.maximum(traffic.max(axis=0), 1.0)
    coefficients = nnls(traffic / scale, used)[0] / scale
    total = float(coefficients.sum())
    if not total:
        raise ArgumentError("samples: no byte costs anything; right is a use that rises with bytes")
    residuals = used - traffic @ coefficients
    return CpuFit(
        CpuWeights.in_lowest_terms(
            *(round(FITTED_WEIGHTS * each / total) for each in coefficients.tolist())
        ),
        coefficients, 1 - float((residuals**2).sum()) / spread, residuals,
    )


def _sample_column(samples: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """A column of samples."""
    if name not in samples.column_names:
        columns = ", ".join(samples.column_names)
        raise ArgumentError(f"samples has no column {name}; found {columns}")
    column = samples[name]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ArgumentError(f"samples: {name} is of type {column.type}; right are numbers")
    values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    good = np.isfinite(values) & (values >= 0)
    if not good.all():
        row = int(np.argmin(good))
        raise ArgumentError(
            f"samples row {row}: {name} is {column[row].as_py()}; right is a number from 0"
        )
    return values
