"""What the journal keeps of a step: effects that need no state to be read.

Slots, names and liveness change with the next event, so they are kept with each effect when a step
ends: one flat record per effect, some 60 bytes where a broker row is 16 bits wide. Tables are made
of them when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal import memory
from kfast.journal.effects import KIND_IS_NEW, KIND_LEADER_AND_ISR, Effects
from kfast.journal.spread import Spread
from kfast.kernels import journal as kernels
from kfast.kernels import journal_requests
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.state import ClusterState

CACHE_LINE = 64
"""Bytes that come from memory at once; a kept effect that fits is not spread over two."""
MOST_VALUES = 2**27
"""Values of one list column of one Arrow array, at most; its offsets could count to 2**31."""
LIKE_LACKS, LIKE_RUNS, LIKE_CODES, LIKE_LONGEST = 8, 19, 32, 8191
LIKE_TWICE, LIKE_UNORDERED, LIKE_CHANGING = 1 << 16, 1 << 17, 1 << 18
"""What effects are like, as `kernels/kept.pxd` says it; a test compares the numbers."""
Bytes = npt.NDArray[np.uint8]


@lru_cache
def kept_dtype(narrow: bool, n_slots: int) -> np.dtype[Any]:
    """Numpy dtype of a kept effect: the fields of `kernels/kept.pxd`, and the slots behind them."""
    mask = np.uint8 if narrow else np.uint64
    numbers = ("row", "topic_row", "partition", "broker", "leader_before", "leader",
               "leader_epoch", "version", "controller_epoch", "stop_epoch")
    masks = ("isr_before", "isr", "recipients", "adding", "removing", "offline")
    fields: list[Any] = [(name, np.int32) for name in numbers]
    fields += [(name, mask) for name in masks]
    fields += [("code", np.uint8), ("from_state", np.int8), ("to_state", np.int8),
               ("kinds", np.uint8), ("recovery", np.uint8), ("n_replicas", np.uint8)]
    fields.append(("replicas", schema.broker_dtype(narrow), (n_slots,)))
    packed = np.dtype(fields, align=True)
    if packed.itemsize > CACHE_LINE:
        return packed
    places: Mapping[str, Any] = packed.fields or {}
    names = list(places)
    return np.dtype({
        "names": names, "formats": [places[name][0] for name in names],
        "offsets": [places[name][1] for name in names], "itemsize": CACHE_LINE,
    }, align=True)


@dataclass(frozen=True, eq=False)
class Seen:
    """What all rows of a step share: brokers and topics as they were.

    Attributes
    ----------
    broker_id : (B,) int32
    broker_epoch : (B,) int64
    registered : (B,) bool
    topic : (T,) string
    odd_orders : dict
        Adding and removing lists that are not in slot order, by (field, partition row).
    """

    broker_id: Rows
    broker_epoch: npt.NDArray[np.int64]
    registered: npt.NDArray[np.bool_]
    topic: pa.StringArray
    odd_orders: dict[tuple[str, int], tuple[int, ...]] = field(repr=False)


NOTHING_SEEN = Seen(
    np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.bool_), pa.nulls(0, pa.string()),
    {},
)


def see(state: ClusterState) -> Seen:
    """Take down what all rows of a step share."""
    registered = state.registered
    return Seen(
        state.broker_id.copy(), state.broker_epoch[: state.n_brokers].copy(), registered.copy(),
        state.topic, dict(state.odd_orders),
    )


@dataclass(frozen=True, eq=False)
class EffectTable:
    """Effects of one step, kept.

    Attributes
    ----------
    records : (n,) structured
        `kept_dtype` of the layout that the state had.
    seen : Seen
    like : int
        What the effects are like: `Keeper.seen` of `kernels/kept.pxd`.
    tallied : (2, B) int64, optional
        `request_counts`, where a tally has them already.
    """

    records: npt.NDArray[Any]
    seen: Seen
    like: int
    tallied: npt.NDArray[np.int64] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return int(self.records.size)

    @property
    def kinds(self) -> int:
        """Which bits of `kinds` occur in some effect."""
        return self.like & 255

    @property
    def every_kinds(self) -> int:
        """Which bits of `kinds` occur in every effect."""
        return ~self.like >> LIKE_LACKS & 255

    @property
    def all_lead(self) -> bool:
        """Whether every effect adds a LeaderAndIsr."""
        return bool(self.every_kinds & KIND_LEADER_AND_ISR)

    @property
    def codes(self) -> int:
        """Bit c set: code c occurs."""
        return self.like >> LIKE_CODES

    @property
    def ordered(self) -> bool:
        """Whether rows ascend."""
        return not self.like & LIKE_UNORDERED

    @property
    def distinct(self) -> bool:
        """Whether rows ascend and no row comes twice."""
        return not self.like & (LIKE_UNORDERED | LIKE_TWICE)

    @property
    def changing(self) -> bool:
        """Whether some partition is being reassigned."""
        return bool(self.like & LIKE_CHANGING)

    @property
    def wide(self) -> bool:
        """Whether the effects are kept in the wide layout."""
        return bool(self.records.dtype["isr"] == np.uint64)

    @property
    def n_slots(self) -> int:
        """How many slots each effect has."""
        return int(self.records.dtype["replicas"].shape[0])

    @property
    def as_bytes(self) -> Bytes:
        """(n, w) the effects as rows of bytes: what kernels take."""
        return as_bytes(self.records)

    @cached_property
    def spread(self) -> Spread:
        """Columns of the effects."""
        return Spread(self)

    # What is held here must not hold these effects: a circle would outlive its use, and its memory.

    @property
    def by_row(self) -> EffectTable:
        """The same in the order of rows; effects of one row stay in theirs."""
        return self if self.ordered else self._sorted

    @cached_property
    def _sorted(self) -> EffectTable:
        rows = self.records["row"]
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        like = self.like & ~(LIKE_UNORDERED | LIKE_TWICE) | LIKE_LONGEST << LIKE_RUNS
        like |= LIKE_TWICE if (ordered[1:] == ordered[:-1]).any() else 0
        return EffectTable(self.records.take(order), self.seen, like)

    @property
    def pieces(self) -> tuple[EffectTable, ...]:
        """The effects in parts, so that Arrow can count the values of their lists.

        Effects of one row that follow each other stay together.
        """
        if len(self) <= most_rows(3 * self.n_slots):
            return (self,) if len(self) else ()
        return self._parts

    @cached_property
    def _parts(self) -> tuple[EffectTable, ...]:
        begins, rows = [0], self.records["row"]
        most = most_rows(3 * self.n_slots)
        while len(self) - begins[-1] > most:
            end = begins[-1] + most
            while end < len(self) and rows[end] == rows[end - 1]:
                end += 1
            begins.append(end)
        ends = [*begins[1:], len(self)]
        return tuple(
            EffectTable(self.records[begin:end], self.seen, self.like)
            for begin, end in zip(begins, ends, strict=True) if begin < end
        )

    @cached_property
    def longest_run(self) -> int:
        """No more effects of one row follow each other."""
        said = self.like >> LIKE_RUNS & LIKE_LONGEST
        if said < LIKE_LONGEST and self.ordered:
            return said
        begins = np.flatnonzero(np.diff(self.records["row"], prepend=-1))
        return int(np.diff(begins, append=len(self)).max(initial=1))

    @cached_property
    def request_counts(self) -> npt.NDArray[np.int64]:
        """(2, B) partitions in the LeaderAndIsr and in the StopReplica request to each broker."""
        if self.tallied is not None:
            return self.tallied
        counts = np.zeros((2, self.seen.registered.size), np.int64)
        journal_requests.count_requests(
            self.by_row.as_bytes, self.wide, self.seen.registered.view(np.uint8), counts
        )
        return counts

    def metadata_places(self) -> Rows:
        """Places of the last effect of each partition that UpdateMetadata tells; `by_row` first."""
        places = np.empty(len(self), np.int32)
        n = kernels.list_metadata(self.as_bytes, self.wide, places)
        return places[:n]


NO_RECORDS: npt.NDArray[Any] = np.empty(0, kept_dtype(narrow=True, n_slots=1))
NOTHING_KEPT = EffectTable(NO_RECORDS, NOTHING_SEEN, 0)


def as_bytes(records: npt.NDArray[Any]) -> Bytes:
    """(n, w) records as rows of bytes."""
    return records.view(np.uint8).reshape(records.size, records.itemsize)


def most_rows(n_values: int) -> int:
    """Rows of one array whose lists have so many values each, at most."""
    return max(MOST_VALUES // max(n_values, 1), 1)


def new_records(state: ClusterState, n: int) -> npt.NDArray[Any]:
    """Memory for n kept effects; memory is taken as it is written."""
    dtype = kept_dtype(state.layout == "narrow", state.n_slots)
    space = memory.room(n * dtype.itemsize + CACHE_LINE, np.uint8)
    begin = -space.ctypes.data % CACHE_LINE
    return space[begin : begin + n * dtype.itemsize].view(dtype)


def keep(state: ClusterState, effects: Effects) -> EffectTable:
    """Keep effects with the slots, names and liveness that the state has now."""
    records = new_records(state, effects.size)
    like = 0
    if effects.size:
        like = kernels.keep(
            state.records, state.replicas, state.broker_status, state.topic_row, state.partition,
            effects, as_bytes(records),
        )
    return EffectTable(records, see(state), like)


class EffectBuffer:
    """Memory for the effects of all steps of an event that visits each partition once.

    Parameters
    ----------
    state : ClusterState
    rows : int
        Partitions that are visited; 0 where nothing is to be kept.
    steps : int
        Every step but the last has an effect for each partition at most.
    replicas : int
        Most replicas of a partition that the last step moves.
    keeps_new : bool
        Whether the version that is simulated tells that a replica is new.
    """

    def __init__(
        self, state: ClusterState, rows: int, steps: int, replicas: int, keeps_new: bool
    ) -> None:
        self._begins = [step * rows for step in range(steps)]
        self._keeps_new, self._records = keeps_new, NO_RECORDS
        if rows:
            each = min(replicas, state.n_slots)
            self._seen, self._records = see(state), new_records(state, (steps - 1 + each) * rows)

    @property
    def as_bytes(self) -> Bytes:
        """(n, w) the room as rows of bytes: what kernels take."""
        return as_bytes(self._records)

    def steps(self, counts: npt.NDArray[np.int64]) -> list[EffectTable]:
        """The effects of each step, from the counts that a kernel of one visit made."""
        if self._records is NO_RECORDS:
            return [NOTHING_KEPT] * len(self._begins)
        found = np.bitwise_or.reduce(counts[:, 3:], axis=0).tolist()
        kept = []
        for step, begin in enumerate(self._begins):
            records = self._records[begin : begin + int(counts[:, step].sum())]
            like = found[step]
            if like & KIND_IS_NEW and not self._keeps_new:
                records["kinds"] &= 255 - KIND_IS_NEW
                like = like & ~KIND_IS_NEW | KIND_IS_NEW << LIKE_LACKS
            kept.append(EffectTable(records, self._seen, like))
        return kept
