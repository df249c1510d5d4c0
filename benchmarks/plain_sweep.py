"""Sweeps as one would write them without kfast: numpy, scalar numba loops, and one for vectors.

All replicas are in sync, the first leads, and topics do not elect unclean leaders.
"""

from __future__ import annotations

import numba
import numpy as np


def up_matrix(offsets, down, n_brokers):
    """(B, n) uint8: 1 where a broker is up in a scenario."""
    up = np.ones((n_brokers, offsets.size - 1), np.uint8)
    up[down, np.repeat(np.arange(offsets.size - 1), np.diff(offsets))] = 0
    return up


def count_numpy(replicas, up, min_isr):
    """Three counts per scenario, one scenario at a time, over all partitions at once."""
    counts = np.zeros((3, up.shape[1]), np.int64)
    columns = np.ascontiguousarray(replicas.T)
    for scenario in range(up.shape[1]):
        live = up[:, scenario].astype(np.int8)[columns]
        n_live = live.sum(axis=0)
        counts[0, scenario] = np.count_nonzero(n_live == 0)
        counts[1, scenario] = np.count_nonzero(n_live < min_isr)
        counts[2, scenario] = np.count_nonzero((live[0] == 0) & (n_live > 0))
    return counts


@numba.njit(cache=False, boundscheck=False)
def count_by_scenario(replicas, up, min_isr):
    """One scenario after the other: the row of brokers stays in the first cache."""
    n, scenarios = replicas.shape[0], up.shape[1]
    counts = np.zeros((3, scenarios), np.int64)
    rows = np.ascontiguousarray(up.T)
    for s in range(scenarios):
        alive = rows[s]
        offline = under = moved = 0
        for p in range(n):
            first = alive[replicas[p, 0]]
            others = alive[replicas[p, 1]] + alive[replicas[p, 2]]
            offline += first + others == 0
            under += first + others < min_isr
            moved += (first == 0) & (others > 0)
        counts[0, s], counts[1, s], counts[2, s] = offline, under, moved
    return counts


@numba.njit(cache=False, boundscheck=False)
def count_by_partition(replicas, up, min_isr):
    """One partition after the other, all scenarios of it in the inner loop."""
    n, scenarios = replicas.shape[0], up.shape[1]
    counts = np.zeros((3, scenarios), np.int64)
    for p in range(n):
        a, b, c = up[replicas[p, 0]], up[replicas[p, 1]], up[replicas[p, 2]]
        for s in range(scenarios):
            first = a[s]
            others = b[s] + c[s]
            counts[0, s] += first + others == 0
            counts[1, s] += first + others < min_isr
            counts[2, s] += (first == 0) & (others > 0)
    return counts


@numba.njit(cache=False, boundscheck=False)
def count_in_bytes(replicas, up, min_isr):
    """As `count_by_partition`, for a block of scenarios, in bytes: LLVM makes vectors of it."""
    n, scenarios = replicas.shape[0], up.shape[1]
    block = 256
    counts = np.zeros((3, scenarios), np.int64)
    tile = np.empty((up.shape[0], block), np.uint8)
    offline = np.empty(block, np.uint8)
    under = np.empty(block, np.uint8)
    moved = np.empty(block, np.uint8)
    needed = np.uint8(min_isr)
    for start in range(0, scenarios, block):
        m = min(block, scenarios - start)
        tile[:, :m] = up[:, start : start + m]
        for first in range(0, n, 255):
            offline[:] = 0
            under[:] = 0
            moved[:] = 0
            for p in range(first, min(first + 255, n)):
                a, b, c = tile[replicas[p, 0]], tile[replicas[p, 1]], tile[replicas[p, 2]]
                for s in range(block):
                    others = np.uint8(b[s] + c[s])
                    live = np.uint8(a[s] + others)
                    offline[s] += np.uint8(live == 0)
                    under[s] += np.uint8(live < needed)
                    moved[s] += np.uint8((a[s] == 0) & (others > 0))
            for s in range(m):
                counts[0, start + s] += offline[s]
                counts[1, start + s] += under[s]
                counts[2, start + s] += moved[s]
    return counts
