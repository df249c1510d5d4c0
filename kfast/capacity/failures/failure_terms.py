"""A sum over partitions, taken apart into terms of few failed brokers.

What a broker carries where a set of brokers has failed depends, partition by partition, on which of
the partition's own brokers are in the set. So it is the sum of one term for each subset: of no
broker, of each broker, each pair, and so on up to the brokers of the widest partition. All terms
are integers; they are held as float64, in which sums of integers below 2^53 are exact.

Source: docs/capacity.md, "How it works".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from kfast.capacity.failures.cpu_models import CpuWeights
from kfast.capacity.failures.failure_effects import (
    LEADERLESS,
    SINGLE,
    UNCLEAN,
    UNDER_MIN_ISR,
    FailureEffects,
)
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel
from kfast.state.records import Rows

__all__ = ["FailureTerms", "Terms"]

LAYOUT = kernel.layout()
RESOURCES, SCALARS, CHANNELS = LAYOUT["resources"], LAYOUT["scalars"], LAYOUT["channels"]

MOST_EXACT = 1 << 53
"""Integers up to this are exact in float64."""

_SCALAR_FLAGS = (LEADERLESS, LEADERLESS, UNDER_MIN_ISR, SINGLE, SINGLE, UNCLEAN)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Terms:
    """Terms of so many failed brokers, shape by shape: what a partition adds to which of them.

    Attributes
    ----------
    begin, scalar_begin : (K + 1,) int64
        Where the terms of each shape begin.
    factors : (t, k + 7) int64
        Places of the k failed brokers (at least two columns), the place of the broker that
        carries it; then for bytes in, bytes out and work, what is multiplied by the partition's
        bytes in and by its bytes out.
    scalar_factors : (u, 2 or k + 6) int64
        Places of the failed brokers, and what each scalar is multiplied by.
    """

    begin: Integers
    factors: Integers
    scalar_begin: Integers
    scalar_factors: Integers


def shape_tables(
    effects: FailureEffects, shape: int, weights: CpuWeights
) -> tuple[Integers, Integers]:
    """What becomes of each place of a shape, and of the scalars, for every set of failed places.

    Returns
    -------
    carried : (2^w, w, 3, 2) int64
        Bytes in, bytes out and work of each place: what of bytes in and of bytes out. Nothing for
        a place that has failed.
    scalars : (2^w, 6) int64
    """
    width, cells = int(effects.width[shape]), effects[shape].cells[:-1]
    places = np.arange(width)
    leads = cells["leader"][:, None] == places
    follows = (cells["live"][:, None] >> places & 1).astype(np.bool_) & ~leads
    follows &= (cells["leader"] >= 0)[:, None]
    n_followers = follows.sum(axis=1)[:, None]
    carried = np.zeros((1 << width, width, RESOURCES, 2), np.int64)
    carried[:, :, 0, 0] = leads | follows
    carried[:, :, 1, 0] = leads * n_followers
    carried[:, :, 1, 1] = leads
    carried[:, :, 2, 0] = (
        weights.leader_in * leads + weights.leader_out * leads * n_followers
        + weights.follower_in * follows
    )
    carried[:, :, 2, 1] = weights.leader_out * leads
    scalars = np.stack([(cells["flags"] & flag) != 0 for flag in _SCALAR_FLAGS], axis=1)
    return carried, scalars.astype(np.int64)


def invert(values: Integers, width: int) -> Integers:
    """Terms of all subsets, of values for all sets: sums over subsets give the values again."""
    terms = values.copy()
    cube = terms.reshape((2,) * width + values.shape[1:])
    for axis in range(width):
        with_it = (slice(None),) * axis + (1,)
        without = (slice(None),) * axis + (0,)
        cube[with_it] -= cube[without]
    return terms


def list_terms(effects: FailureEffects, size: int, weights: CpuWeights) -> Terms:
    """Terms of so many failed brokers, without those that are nothing."""
    begin, scalar_begin = [0], [0]
    columns = max(size, 2)
    factors = [np.zeros((0, columns + 1 + 2 * RESOURCES), np.int64)]
    scalar_factors = [np.zeros((0, columns + SCALARS), np.int64)]
    for shape, width in enumerate(effects.width.tolist()):
        carried, scalars = (invert(each, width) for each in shape_tables(effects, shape, weights))
        brokers = [place for place in range(width) if effects.is_broker(shape) >> place & 1]
        for failed in combinations(brokers, size):
            at = sum(1 << place for place in failed)
            key = [*failed, *failed[:1]] if size == 1 else failed
            targets = [b for b in brokers if b not in failed and carried[at, b].any()]
            factors.append(np.array(
                [[*key, b, *carried[at, b].ravel()] for b in targets], np.int64
            ).reshape(-1, columns + 1 + 2 * RESOURCES))
            if scalars[at].any():
                scalar_factors.append(np.array([[*key, *scalars[at]]], np.int64))
        begin.append(sum(map(len, factors)))
        scalar_begin.append(sum(map(len, scalar_factors)))
    return Terms(
        np.array(begin), np.concatenate(factors), np.array(scalar_begin),
        np.concatenate(scalar_factors),
    )


@dataclass(frozen=True, eq=False)
class Level:
    """Terms of all sets of so many failed brokers, set by set.

    Attributes
    ----------
    keys : (k,) int64
        Ascending. Of a set of brokers b < c < ...: the place of the set without its last broker
        in the level before, times the number of brokers, plus that broker. Pairs are numbered
        without keys.
    begin : (k + 1,) int64
        Where the terms of each set begin.
    broker : (m,) int32
    values : (m, 3) float64
        Bytes in, bytes out and work that the broker carries more.
    scalars : (k, 6) int64
    """

    keys: Integers
    begin: Integers
    broker: Rows
    values: npt.NDArray[np.float64]
    scalars: Integers


@dataclass(eq=False)
class FailureTerms:
    """What every broker carries after any failure, as sums of terms.

    Attributes
    ----------
    n_brokers, widest : int
        Brokers, and those of the widest partition: so many failed brokers have terms at most.
    base : (4 b,) float64
        What each broker carries where brokers have failed that concern no partition; four numbers
        per broker (bytes in, bytes out, work, nothing), brokers filled up to whole blocks.
    base_scalars : (6,) int64
        As `kernels.capacity.add_loads` has them.
    values : (B, b, 4) float64
        Terms of each failed broker, by broker.
    scalars : (B, 6) int64
    effects, load, weights
        What more terms are made of; None where these are sums of the terms of several parts.
    bounds : (b,) float64 or None
        Of such sums: what no sum of some of the terms of a broker exceeds.
    """

    n_brokers: int
    widest: int
    base: npt.NDArray[np.float64]
    base_scalars: Integers
    values: npt.NDArray[np.float64]
    scalars: Integers
    effects: FailureEffects | None
    load: Integers | None
    weights: CpuWeights | None
    bounds: npt.NDArray[np.float64] | None = None
    _levels: list[Level] = field(default_factory=list)

    @classmethod
    def of(cls, effects: FailureEffects, load: Integers, weights: CpuWeights) -> FailureTerms:
        """Take sums apart into terms of no and one failed broker.

        Parameters
        ----------
        effects : FailureEffects
        load : (n, 3) int64
            Bytes in, bytes out and bytes on disk, in the order of the rows of `effects`.
        weights : CpuWeights

        Raises
        ------
        ArgumentError
            A sum could exceed what is exact.
        """
        check_exact(effects, load, weights)
        n = effects.n_brokers
        blocks = -(-max(n, 1) // LAYOUT["block_brokers"]) * LAYOUT["block_brokers"]
        channels, base_scalars = pass_over(effects, load, np.zeros(n + 1, np.uint8), True)
        base = np.zeros((blocks, CHANNELS))
        base[:n, :RESOURCES] = carried_by(channels, weights)
        values, scalars = np.zeros((n, blocks, CHANNELS)), np.zeros((n, SCALARS), np.int64)
        kernel.add_single_terms(effects, list_terms(effects, 1, weights), load, values, scalars)
        return cls(
            n, int(effects.width.max(initial=0)), base.ravel(), base_scalars, values, scalars,
            effects, load, weights,
        )

    def levels(self, down: int) -> kernel.Levels:
        """Terms of sets of two up to so many failed brokers, as the kernel reads them."""
        return kernel.Levels(self.n_brokers, self.list_levels(down))

    def list_levels(self, down: int) -> list[Level]:
        """Terms of sets of two up to so many failed brokers; made when they are first needed.

        Raises
        ------
        ArgumentError
            These are sums of terms of fewer failed brokers.
        """
        deepest = min(down, self.widest)
        while len(self._levels) < deepest - 1:
            size = len(self._levels) + 2
            if self.effects is None or self.load is None or self.weights is None:
                raise ArgumentError(
                    f"the plan was prepared for at most {size - 1} brokers that fail together, and"
                    f" {down} do; prepare it with down={down}"
                )
            terms = list_terms(self.effects, size, self.weights)
            self._levels.append(
                self._pairs(terms, self.effects, self.load) if size == 2
                else self._sets(terms, size, self.effects, self.load)
            )
        return self._levels[: max(deepest - 1, 0)]

    def _pairs(self, terms: Terms, effects: FailureEffects, load: Integers) -> Level:
        """Terms of pairs, which are numbered without keys."""
        n = self.n_brokers
        n_pairs = n * (n - 1) // 2
        begin = np.zeros(n_pairs + 1, np.int64)
        kernel.count_pair_terms(effects, terms, n, begin)
        np.cumsum(begin, out=begin)
        m = int(begin[-1])
        level = Level(
            np.zeros(1, np.int64), begin, np.empty(m + 1, np.int32),
            np.empty((m + 1, RESOURCES)), np.zeros((n_pairs + 1, SCALARS), np.int64),
        )
        kernel.list_pair_terms(
            effects, terms, load, n, begin[:-1].copy(), level.broker, level.values, level.scalars
        )
        return level

    def _sets(
        self, terms: Terms, size: int, effects: FailureEffects, all_load: Integers
    ) -> Level:
        """Terms of sets of three and more brokers."""
        keys, brokers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        values = [np.zeros((0, RESOURCES))]
        every = [np.zeros(0, np.int64)]
        scalar_keys, scalars = [np.zeros(0, np.int64)], [np.zeros((0, SCALARS), np.int64)]
        for shape, width in enumerate(effects.width.tolist()):
            places = [place for place in range(width) if effects.is_broker(shape) >> place & 1]
            sequence, load = effects[shape].sequences, all_load[effects.at(shape)]
            key_of = {
                failed: self._keys(np.sort(sequence[:, failed].astype(np.int64), axis=1))
                for failed in combinations(places, size)
            }
            every += key_of.values()
            for factor in terms.factors[terms.begin[shape] : terms.begin[shape + 1]].tolist():
                keys.append(key_of[tuple(factor[:size])])
                brokers.append(sequence[:, factor[size]].astype(np.int64))
                by = np.array(factor[size + 1 :]).reshape(RESOURCES, 2)
                values.append((load[:, :2] @ by.T).astype(np.float64))
            first, last = terms.scalar_begin[shape : shape + 2]
            for factor in terms.scalar_factors[first:last].tolist():
                scalar_keys.append(key_of[tuple(factor[:size])])
                scalars.append(load[:, [0, 1, 0, 0, 2, 2]] * np.array(factor[size:]))
        unique = np.unique(np.concatenate(every))
        at = np.searchsorted(unique, np.concatenate(keys))
        order = np.argsort(at, kind="stable")
        counted = np.bincount(at, minlength=unique.size)
        total = np.zeros((unique.size + 1, SCALARS), np.int64)
        np.add.at(total, np.searchsorted(unique, np.concatenate(scalar_keys)),
                  np.concatenate(scalars))
        none = np.zeros(1, np.int64)
        return Level(
            np.append(unique, -1), np.append(none, np.cumsum(counted)),
            np.append(np.concatenate(brokers)[order], 0).astype(np.int32),
            np.concatenate([np.concatenate(values)[order], np.zeros((1, RESOURCES))]), total,
        )

    def _keys(self, brokers: Integers) -> Integers:
        """Keys of sets of brokers, ascending in each row, by the levels before."""
        n = self.n_brokers
        low, high = brokers[:, 0], brokers[:, 1]
        key = low * (2 * n - low - 1) // 2 + high - low - 1
        for column in range(2, brokers.shape[1]):
            if column > 2:
                key = np.searchsorted(self._levels[column - 2].keys[:-1], key)
            key = key * n + brokers[:, column]
        return key


def carried_by(channels: Integers, weights: CpuWeights) -> Integers:
    """(B, 3) bytes in, bytes out and work, of what `kernels.capacity.add_loads` counts."""
    leader_in, follower_in, to_replicas, to_consumers = channels.T
    out = to_replicas + to_consumers
    work = (
        weights.leader_in * leader_in + weights.leader_out * out
        + weights.follower_in * follower_in
    )
    return np.stack([leader_in + follower_in, out, work], axis=1)


def pass_over(
    effects: FailureEffects, load: Integers, failed: npt.NDArray[np.uint8], any_failed: bool
) -> tuple[Integers, Integers]:
    """Channels of every broker (B, 4) and scalars (6,), by one pass over the partitions."""
    channels = np.zeros((effects.n_brokers + 1, 4), np.int64)
    scalars = np.zeros(SCALARS, np.int64)
    kernel.add_loads(effects, load, failed, any_failed, channels, scalars)
    return channels[:-1], scalars


def check_exact(effects: FailureEffects, load: Integers, weights: CpuWeights) -> None:
    """Refuse loads whose sums could exceed what float64 holds exactly."""
    factor = max(weights.leader_in + weights.leader_out * 16, weights.follower_in, 16)
    widest = int(effects.width.max(initial=0))
    if float(load[:, 0].sum() + load[:, 1].sum()) * (factor << widest) < MOST_EXACT:
        return  # Even one broker of all partitions would be exact.
    most = np.zeros(effects.n_brokers + 1)
    for shape, width in enumerate(effects.width.tolist()):
        sums = load[effects.at(shape), :2].sum(axis=1).astype(np.float64) * (factor << width)
        brokers = effects[shape].sequences.ravel()
        most += np.bincount(brokers, np.repeat(sums, width), minlength=most.size)
    if most.max(initial=0) >= MOST_EXACT:
        broker = int(most.argmax())
        raise ArgumentError(
            f"the loads of broker row {broker} add up to {most[broker] / (factor << 3):.3g} B/s or"
            " more: too much for exact sums"
        )
