"""What brokers carry in one state of a cluster: a plain sum over replicas.

No terms, no tables of failures: the leaders and live replicas that the state has. It is what the
check of a plan measures with, so that it shares nothing with what looks for plans.

Source: docs/capacity.md, section "What a broker carries".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.capacity.failures.cpu_models import CpuWeights
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.records import Rows, n_bits

__all__ = ["TOTALS", "broker_totals", "most_meanwhile", "replica_sizes"]

Integers = npt.NDArray[np.int64]

TOTALS = ("bytes_in", "bytes_out", "work", "disk_bytes", "leaders", "replicas")
"""What is summed up: bytes a second, what they cost the processor (`CpuWeights`), bytes, counts."""

CHUNK_ROWS = 1 << 18
"""Partitions that are taken at a time."""


@dataclass(frozen=True, eq=False)
class ReplicaAmounts:
    """What single replicas add to their brokers.

    Attributes
    ----------
    row : (n,) int64
        Partition row.
    broker : (n,) int64
        Broker row.
    amounts : (n, 6) int64
        `TOTALS`.
    """

    row: Integers
    broker: Integers
    amounts: Integers


def _amounts(
    state: ClusterState, rows: Rows, load: PartitionLoad, sizes: Integers, weights: CpuWeights
) -> Iterator[ReplicaAmounts]:
    """What replicas of some partitions add, slot by slot."""
    records, live = state.records.take(rows), state.live_slots(rows)
    assigned, leader = first_slots(records["n_replicas"]), records["leader"]
    brokers = state.replicas[rows].astype(np.int64)
    leads = np.stack([
        (brokers[:, slot] == leader) & (live >> np.uint64(slot) & np.uint64(1) > 0)
        for slot in range(state.n_slots)
    ], axis=1) & (leader >= 0)[:, None]
    has_leader = leads.any(axis=1)
    leading = (leads << np.arange(state.n_slots)).sum(axis=1).astype(np.uint64)
    followers = live & assigned & ~leading
    bytes_in, bytes_out = load.bytes_in[rows], load.bytes_out[rows]
    sent = bytes_in * n_bits(followers) + bytes_out
    for slot in range(state.n_slots):
        bit = np.uint64(slot)
        is_assigned = assigned >> bit & np.uint64(1) > 0
        follows = (followers >> bit & np.uint64(1) > 0) & has_leader
        at = np.flatnonzero(is_assigned | leads[:, slot])
        lead, follow, of_ar = leads[at, slot], follows[at], is_assigned[at]
        received, out = bytes_in[at], sent[at]
        amounts = np.stack([
            received * (lead | follow), out * lead,
            (weights.leader_in * received + weights.leader_out * out) * lead
            + weights.follower_in * received * follow,
            sizes[rows[at], slot] * of_ar, lead, of_ar,
        ], axis=1)
        yield ReplicaAmounts(rows[at].astype(np.int64), brokers[at, slot], amounts)


def broker_totals(
    state: ClusterState, load: PartitionLoad, sizes: Integers, weights: CpuWeights
) -> Integers:
    """Sum up what every broker carries.

    Parameters
    ----------
    state : ClusterState
        After its controller has started, so that leaders are live.
    load : PartitionLoad
    sizes : (P, S) int64
        Bytes of each assigned replica: `replica_sizes`.
    weights : CpuWeights

    Returns
    -------
    (B, 6) int64
        `TOTALS` of each broker.
    """
    totals = np.zeros((state.n_brokers, len(TOTALS)), np.int64)
    for start in range(0, state.n_partitions, CHUNK_ROWS):
        rows = np.arange(start, min(start + CHUNK_ROWS, state.n_partitions), dtype=np.int32)
        for part in _amounts(state, rows, load, sizes, weights):
            np.add.at(totals, part.broker, part.amounts)
    return totals


def most_meanwhile(
    states: tuple[ClusterState, ClusterState], rows: Rows, load: PartitionLoad,
    sizes: tuple[Integers, Integers], weights: CpuWeights,
) -> Integers:
    """Sum up the most that every broker carries while some partitions change one by one.

    Whatever the order in which they do, each is in the first state or in the second one; so a
    broker carries at most the larger amount of each.

    Parameters
    ----------
    states : tuple of two ClusterState
        All that differs between them are these partitions.
    rows : (n,) int32
        Partitions, each once.
    load, sizes, weights
        As of `broker_totals`; sizes of each state.

    Returns
    -------
    (B, 6) int64
    """
    totals = broker_totals(states[0], load, sizes[0], weights)
    first, second = (
        [*_amounts(state, rows, load, of, weights)]
        for state, of in zip(states, sizes, strict=True)
    )
    n = states[0].n_brokers
    parts = first + second
    key = np.concatenate([part.row * n + part.broker for part in parts])
    unique, at = np.unique(key, return_inverse=True)
    changes = np.zeros((2, unique.size, len(TOTALS)), np.int64)
    ends = np.cumsum([part.row.size for part in parts])
    for place, (part, end) in enumerate(zip(parts, ends.tolist(), strict=True)):
        # A broker is in one slot of a partition, so that no entry is written twice.
        changes[int(place >= len(first)), at[end - part.row.size : end]] = part.amounts
    np.add.at(totals, unique % n, np.maximum(changes[1] - changes[0], 0))
    return totals


def replica_sizes(
    state: ClusterState, load: PartitionLoad, before: tuple[ClusterState, Integers] | None = None
) -> Integers:
    """Bytes of every assigned replica, (P, S).

    Parameters
    ----------
    state : ClusterState
    load : PartitionLoad
        Of the cluster before any plan.
    before : tuple of ClusterState and (P, S) int64, optional
        An earlier state, and its sizes. Replicas that it had keep theirs; new ones have the size of
        their partition. By default `state` is the one that the load is of.
    """
    assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
    sizes: Integers = np.where(assigned, load.disk_bytes[:, None], 0)
    if load.replica_bytes is None:
        return sizes
    if before is None:
        return np.where(assigned, load.replica_bytes, 0)
    earlier, known = before
    had = np.arange(earlier.n_slots) < earlier.records["n_replicas"][:, None]
    for slot in range(state.n_slots):
        for place in range(earlier.n_slots):
            same = state.replicas[:, slot].astype(np.int64) == earlier.replicas[:, place]
            same &= assigned[:, slot] & had[:, place]
            sizes[same, slot] = known[same, place]
    return sizes
