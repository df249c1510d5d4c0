"""What a capacity sweep sums over the partitions of a cluster, and the sums of several parts of it.

Everything is an integer, so the sums of parts add up to those of the whole cluster, however it is
divided. Terms of failed brokers are added set by set.

Source: docs/capacity.md, "How it works".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.capacity.failures.broker_disks import DiskSums
from kfast.capacity.failures.cpu_models import CpuWeights
from kfast.capacity.failures.failure_effects import FailureEffects
from kfast.capacity.failures.failure_terms import (
    MOST_EXACT,
    RESOURCES,
    SCALARS,
    FailureTerms,
    Level,
    pass_over,
)
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel
from kfast.state import ClusterState

__all__ = ["PartitionSums", "add_sums", "add_terms"]

CHANNELS = kernel.layout()["channels"]

MOST_TERMS_BYTES = 1 << 30
"""Memory that terms may take; a cluster with more brokers is passed over for every scenario."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PartitionSums:
    """Sums over the partitions of a cluster, or of a part of it.

    Attributes
    ----------
    channels : (B, 4) int64
        What each broker carries without a failure, as `kernels.capacity.add_loads` has it.
    scalars : (6,) int64
        What is in danger without a failure.
    terms : FailureTerms or None
        None where there are too many brokers.
    disks : DiskSums
    replicas : (B,) int64
        Replicas assigned to each broker, whether it is live or not.
    """

    channels: Integers
    scalars: Integers
    terms: FailureTerms | None
    disks: DiskSums
    replicas: Integers

    @classmethod
    def of(
        cls, effects: FailureEffects, load: Integers, weights: CpuWeights, disks: DiskSums,
        state: ClusterState,
    ) -> PartitionSums:
        """Sum up the partitions of a started cluster; `load` is that of the rows of `effects`."""
        n = effects.n_brokers
        channels, scalars = pass_over(effects, load, np.zeros(n + 1, np.uint8), False)
        terms = None
        if n * n * 8 * CHANNELS <= MOST_TERMS_BYTES:
            terms = FailureTerms.of(effects, load, weights)
        return cls(channels, scalars, terms, disks, replicas_by_broker(state))


def replicas_by_broker(state: ClusterState) -> Integers:
    """(B,) replicas assigned to each broker, whether it is live or not."""
    assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
    return np.bincount(state.replicas[assigned], minlength=state.n_brokers)


def add_sums(parts: Sequence[PartitionSums], down: int) -> PartitionSums:
    """Sums of a cluster, of those of its parts.

    Parameters
    ----------
    parts : sequence of PartitionSums
        At least one; no partition is in two.
    down : int
        Terms of sets of up to so many failed brokers are added.

    Raises
    ------
    ArgumentError
        There are too many brokers for terms, or a sum could exceed what is exact.
    """
    terms = [part.terms for part in parts if part.terms is not None]
    if len(terms) < len(parts):
        raise ArgumentError(
            f"terms of failures need too much memory for {parts[0].replicas.size} brokers, and"
            " parts of a cluster have nothing else to add"
        )
    return PartitionSums(
        sum_of([part.channels for part in parts]), sum_of([part.scalars for part in parts]),
        add_terms(terms, down), DiskSums.add([part.disks for part in parts]),
        sum_of([part.replicas for part in parts]),
    )


def sum_of(arrays: Sequence[Integers]) -> Integers:
    """The sum of arrays of one shape."""
    total: Integers = np.sum(arrays, axis=0)
    return total


def add_terms(parts: Sequence[FailureTerms], down: int) -> FailureTerms:
    """Terms of a cluster, of those of its parts: see `add_sums`."""
    levels = [part.list_levels(down) for part in parts]
    bounds = np.sum(
        [_bounds(part, own) for part, own in zip(parts, levels, strict=True)], axis=0
    )
    # A little less than what is exact, for the bounds themselves are rounded.
    if bounds.max(initial=0) >= MOST_EXACT * (1 - 2**-20):
        broker = int(bounds.argmax())
        raise ArgumentError(
            f"the terms of broker row {broker} add up to {bounds[broker]:.3g}: too much for exact"
            " sums"
        )
    n = parts[0].n_brokers
    return FailureTerms(
        n, max(part.widest for part in parts), np.sum([part.base for part in parts], axis=0),
        sum_of([part.base_scalars for part in parts]),
        np.sum([part.values for part in parts], axis=0),
        sum_of([part.scalars for part in parts]), None, None, None,
        bounds, _add_levels(n, levels),
    )


def _bounds(terms: FailureTerms, levels: Sequence[Level]) -> npt.NDArray[np.float64]:
    """(b,) what no sum of some of the terms of a broker exceeds."""
    if terms.bounds is not None:
        return terms.bounds
    most = np.abs(terms.base).reshape(-1, CHANNELS) + np.abs(terms.values).sum(axis=0)
    for level in levels:
        for at in range(RESOURCES):
            most[:, at] += np.bincount(
                level.broker[:-1], np.abs(level.values[:-1, at]), minlength=len(most)
            )
    bounds: npt.NDArray[np.float64] = most.max(axis=1)
    return bounds


def _add_levels(n: int, parts: Sequence[Sequence[Level]]) -> list[Level]:
    """Terms of the same sets added up, level by level."""
    n_pairs = n * (n - 1) // 2
    added: list[Level] = []
    # Of each part, where the sets of the level before are now.
    active = [(levels, np.arange(n_pairs)) for levels in parts if levels]
    while active:
        depth = len(added)
        if depth == 0:
            keys, n_sets = np.zeros(0, np.int64), n_pairs
        else:
            renumbered = [
                place[levels[depth].keys[:-1] // n] * n + levels[depth].keys[:-1] % n
                for levels, place in active
            ]
            keys = np.unique(np.concatenate(renumbered))
            n_sets = keys.size
            active = [
                (levels, np.searchsorted(keys, own))
                for (levels, _), own in zip(active, renumbered, strict=True)
            ]
        added.append(_add_level(
            n, n_sets, keys, [(levels[depth], place) for levels, place in active]
        ))
        active = [(levels, place) for levels, place in active if len(levels) > depth + 1]
    return added


def _add_level(
    n: int, n_sets: int, keys: Integers, parts: Sequence[tuple[Level, Integers]]
) -> Level:
    """One level of several parts, of which it is known where each set is now."""
    codes = np.concatenate([
        np.repeat(place, np.diff(level.begin)) * n + level.broker[:-1] for level, place in parts
    ])
    values = np.concatenate([level.values[:-1] for level, _ in parts])
    unique, at = np.unique(codes, return_inverse=True)
    total = np.zeros((unique.size + 1, RESOURCES))
    for column in range(RESOURCES):
        total[:-1, column] = np.bincount(at, values[:, column], minlength=unique.size)
    scalars = np.zeros((n_sets + 1, SCALARS), np.int64)
    for level, place in parts:
        scalars[place] += level.scalars[:-1]
    return Level(
        np.append(keys, -1 if keys.size else 0), np.searchsorted(unique, np.arange(n_sets + 1) * n),
        np.append(unique % n, 0).astype(np.int32), total, scalars,
    )
