"""Consumers that fetch from the nearest replica (KIP-392), as more rows of a sum over partitions.

What consumers in one rack fetch of a partition is a row of its own: without bytes in, without
followers, "led" by the replica that those consumers fetch from. So a sum over partitions stays a
sum over rows, by terms and by passes. Consumers in racks that only the leader can serve stay with
the row of the partition.

Source: docs/capacity.md, section "Consumers that fetch from the nearest replica"; KIP-392,
`RackAwareReplicaSelector`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.capacity.failures.failure_effects import (
    FailureEffects,
    Shape,
    in_sync_places,
    is_tabulated,
)
from kfast.capacity.loads.client_racks import ConsumerRacks
from kfast.state.racks import NO_RACK
from kfast.sweeps.sweep_plan import SweepPlan

__all__ = ["PartitionRows", "split_by_rack"]

Integers = npt.NDArray[np.int64]

PLACE_BITS = 4
"""Bits of a place, counted from 1: `failure_effects.MOST_BROKERS` places are told apart."""

DEALT_AT_A_TIME = 1 << 21
"""Bytes out by partition and rack that are in memory at a time."""


@dataclass(frozen=True, eq=False)
class PartitionRows:
    """Partitions with their loads, and what is summed up over them.

    Attributes
    ----------
    effects : FailureEffects
        What becomes of partitions.
    load : (n, 3) int64
        Bytes in, bytes out, bytes on disk, in the order of its rows.
    consumers : ConsumerRacks or None
        None where consumers fetch from the leader.
    split_effects, split_load
        As of `split_by_rack`.
    """

    effects: FailureEffects
    load: Integers
    consumers: ConsumerRacks | None
    split_effects: FailureEffects
    split_load: Integers

    @classmethod
    def of(
        cls, plan: SweepPlan, effects: FailureEffects, load: Integers,
        consumers: ConsumerRacks | None,
    ) -> PartitionRows:
        """Split partitions by what consumers in each rack fetch."""
        return cls(effects, load, consumers, *split_by_rack(plan, effects, load, consumers))


def split_by_rack(
    plan: SweepPlan, effects: FailureEffects, load: Integers, consumers: ConsumerRacks | None
) -> tuple[FailureEffects, Integers]:
    """Split partitions by what consumers in each rack fetch.

    Parameters
    ----------
    plan : SweepPlan
    effects : FailureEffects
        Of this plan.
    load : (n, 3) int64
        Bytes in, out and on disk, in the order of the rows of `effects`.
    consumers : ConsumerRacks or None
        None where consumers fetch from the leader: nothing is split.

    Returns
    -------
    effects : FailureEffects
        The shapes and rows of partitions come first, as they were; then those of parts.
    load : (m, 3) int64
        A part has bytes out alone; its partition has so much less.
    """
    if consumers is None:
        return effects, load
    load = load.copy()
    step = max(DEALT_AT_A_TIME // len(consumers.racks), 1)
    rack_of = np.append(consumers.rack_of, NO_RACK)
    split: list[Shape] = []
    fetched = [np.zeros(0, np.int64)]
    for number in range(effects.width.size):
        shape, remaining = effects[number], load[effects.at(number), 1]
        in_sync = in_sync_places(plan, number)
        order = _assigned_order(plan, number, shape)
        of_places: dict[tuple[int, ...], list[tuple[Integers, Integers]]] = {}
        for start in range(0, remaining.size, step):
            chunk = slice(start, start + step)
            by_rack = consumers.deal(remaining[chunk])
            racks = rack_of[shape.sequences[chunk]]
            for places, row, rack in _served(racks, order[chunk], len(consumers.racks)):
                if (in_sync & sum(1 << place for place in places)).any():
                    part = by_rack[row, rack]
                    remaining[start + row] -= part
                    of_places.setdefault(places, []).append((start + row, part))
        for places, parts in of_places.items():
            cells = shape.cells.copy()
            cells["leader"], cells["live"] = _sources(cells["leader"], in_sync, places), 0
            row = np.concatenate([rows for rows, _ in parts])
            split.append(Shape(cells, shape.sequences[row], shape.rows[row]))
            fetched += [part for _, part in parts]
    bytes_out = np.concatenate(fetched)
    of_parts = np.zeros((bytes_out.size, load.shape[1]), np.int64)
    of_parts[:, 1] = bytes_out
    return effects.followed_by(split), np.concatenate([load, of_parts])


def _served(
    racks: Integers, order: Integers, n_racks: int
) -> Iterator[tuple[tuple[int, ...], Integers, Integers]]:
    """Places in the rack of consumers, in order; the rows and racks where they are these."""
    of_code: dict[int, list[tuple[Integers, int]]] = {}
    for rack in range(n_racks):
        codes = np.zeros(len(racks), np.int64)
        for at in order.T:
            there = np.take_along_axis(racks, at[:, None], axis=1)[:, 0] == rack
            codes = np.where(there, codes << PLACE_BITS | at + 1, codes)
        for code in np.unique(codes).tolist():
            of_code.setdefault(code, []).append((np.flatnonzero(codes == code), rack))
    for code, members in sorted(of_code.items()):
        places: list[int] = []
        while code:
            places.insert(0, (code & (1 << PLACE_BITS) - 1) - 1)
            code >>= PLACE_BITS
        yield (
            tuple(places), np.concatenate([rows for rows, _ in members]),
            np.concatenate([np.full(rows.size, rack) for rows, rack in members]),
        )


def _sources(
    leader: npt.NDArray[np.int8], in_sync: npt.NDArray[np.uint16], places: tuple[int, ...]
) -> npt.NDArray[np.int8]:
    """Where consumers fetch that have replicas at these places, for every set that fails."""
    elsewhere = (leader >= 0) & ~np.isin(leader, places)
    source = leader.copy()
    for place in reversed(places):
        source[elsewhere & (in_sync >> place & 1 == 1)] = place
    return source


def _assigned_order(plan: SweepPlan, number: int, shape: Shape) -> Integers:
    """(m, w) places in the order of assigned replicas.

    A sequence has those in sync in this order, but for the leader, that of a table none.
    """
    if not is_tabulated(plan, number):
        return np.broadcast_to(np.arange(shape.sequences.shape[1]), shape.sequences.shape)
    cluster = plan.cluster
    assigned = np.arange(cluster.n_slots) < cluster.records["n_replicas"][shape.rows, None]
    replicas = np.where(assigned, cluster.replicas[shape.rows].astype(np.int64), -1)
    is_there = replicas[:, None] == shape.sequences[:, :, None]
    slot = np.where(is_there.any(axis=2), is_there.argmax(axis=2), cluster.n_slots)
    return np.argsort(slot, axis=1, kind="stable")
