"""The racks of a cluster as numbers."""

from __future__ import annotations

import numpy as np

from kfast.state.cluster import ClusterState
from kfast.state.records import Rows

__all__ = ["NO_RACK", "distinct_racks", "numbered_racks"]

NO_RACK = -1
"""Number of the rack of a broker that has none."""


def numbered_racks(state: ClusterState) -> tuple[list[str], Rows]:
    """Names of all racks in order, and (B,) the place of each broker's; `NO_RACK` for none."""
    racks = state.rack.to_pylist()
    names = sorted({rack for rack in racks if rack is not None})
    number = {name: at for at, name in enumerate(names)}
    return names, np.array([number.get(rack, NO_RACK) for rack in racks], np.int32)


def distinct_racks(state: ClusterState) -> Rows:
    """(B,) numbers that are equal where racks are; a broker without a rack is a rack of its own.

    They are below the number of brokers, so that they index arrays of that size.
    """
    names, number = numbered_racks(state)
    without = number == NO_RACK
    number[without] = len(names) + np.arange(np.count_nonzero(without))
    return number
