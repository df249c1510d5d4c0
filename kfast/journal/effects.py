"""Effects: what became of each target of one call, as the kernels write it down.

An effect is one record per replica or partition that was asked to change, and the only layout of
what happened: kernels write it, and tables are made from its columns when somebody asks. Slots,
names and liveness change with the next event, so the journal takes them down when a step ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal import memory
from kfast.kernels import census, hosting
from kfast.kernels import journal as kernels
from kfast.schema import Code, Strategy
from kfast.state.records import Rows, Slots

if TYPE_CHECKING:
    from kfast.state import ClusterState

Effects = npt.NDArray[Any]
Column = npt.NDArray[Any]

EFFECT = np.dtype(
    [
        ("row", np.int32), ("broker", np.int32), ("leader_before", np.int32), ("leader", np.int32),
        ("leader_epoch", np.int32), ("version", np.int32), ("controller_epoch", np.int32),
        ("stop_epoch", np.int32), ("isr_before", np.uint64), ("isr", np.uint64),
        ("recipients", np.uint64), ("adding", np.uint64), ("removing", np.uint64),
        ("code", np.uint8), ("from_state", np.int8), ("to_state", np.int8), ("kinds", np.uint8),
        ("recovery", np.uint8), ("n_replicas", np.uint8), ("n_slots", np.uint8),
    ],
    align=True,
)
"""The same fields as `Effect` in `kernels/slots.pxd`; a test compares them."""

LAYOUT: dict[str, int] = census.layout()
KIND_STOP, KIND_LEADER_AND_ISR, KIND_METADATA, KIND_IS_NEW = 1, 2, 4, 8
KIND_DELETE, KIND_UNCLEAN, KIND_ELECTION, KIND_QUEUED = 16, 32, 64, 128
KIND_ADDS = KIND_STOP | KIND_LEADER_AND_ISR | KIND_METADATA
"""Effects that add something to the request batch."""
SLOT_MASKS: Slots = np.array([(1 << n) - 1 for n in range(65)], np.uint64)
"""Masks of the first n slots."""
_FIELDS = {name: (of[1], of[0].itemsize) for name, of in (EFFECT.fields or {}).items()}
"""Where each field begins in an effect, and its bytes."""


@dataclass(frozen=True)
class JournalRules:
    """What the requests and the error log of a controller's version say.

    Attributes
    ----------
    marks_new_replicas : bool
        LeaderAndIsr says whether a replica is new.
    metadata_has_deleted : bool
        UpdateMetadata always names the partitions that are to be deleted.
    empty_metadata_is_all : bool
        UpdateMetadata without partitions means all that have leadership.
    logs_real_targets : bool
        Failures are logged with the target that was asked for, always.
    error_of : callable
        Class of the error that is logged for a code under a strategy; None where none is.
    """

    marks_new_replicas: bool
    metadata_has_deleted: bool
    empty_metadata_is_all: bool
    logs_real_targets: bool
    error_of: Callable[[Code, Strategy | None], str | None]


@dataclass(frozen=True, eq=False)
class ClusterNames:
    """What all effects of a step share: brokers and topics as they were.

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

    def ids_of(self, brokers: Rows) -> Rows:
        """Ids of broker rows; negative ones (no broker) stay as they are."""
        ids = np.concatenate([self.broker_id, np.array([-2, -1], np.int32)])
        found: Rows = ids[brokers]
        return found


@dataclass(frozen=True, eq=False)
class EffectTable:
    """Effects of one step, with all that their tables say.

    Attributes
    ----------
    effects : (n,) EFFECT
    replicas : (n, S) broker rows
        The slots of each effect's partition.
    topic_partition : (n, 2) int32
        Row of the topic, number of the partition.
    offline : (n,) uint64, or (0,)
        Assigned slots that are not online; empty where no effect is announced.
    cluster : ClusterNames
    """

    effects: Effects
    replicas: npt.NDArray[Any]
    topic_partition: npt.NDArray[np.int32]
    offline: Slots
    cluster: ClusterNames

    def __len__(self) -> int:
        return int(self.effects.size)

    def take(self, names: Sequence[str], places: Rows | None = None) -> list[Column]:
        """Fields of some effects, or of all, each as an array of its own."""
        if places is None:
            places = np.arange(len(self), dtype=np.int32)
        columns = [memory.room(places.size, EFFECT[name]) for name in names]
        fields = np.array([_FIELDS[name] for name in names], np.int32)
        kernels.take_columns(
            self.effects, places, fields, [column.view(np.uint8) for column in columns]
        )
        return columns

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The fields that say which effects a table names."""
        names = ("row", "broker", "code", "from_state", "to_state", "kinds")
        return dict(zip(names, self.take(names), strict=True))

    @cached_property
    def kinds(self) -> int:
        """Which bits of `kinds` occur in some effect."""
        return int(np.bitwise_or.reduce(self.columns["kinds"], initial=0))

    @cached_property
    def changing(self) -> bool:
        """Whether some partition is being reassigned."""
        return any(column.any() for column in self.take(("adding", "removing")))

    @property
    def by_row(self) -> EffectTable:
        """The same in the order of rows; effects of one row stay in theirs."""
        rows = self.columns["row"]
        if (rows[1:] >= rows[:-1]).all():
            return self
        order = np.argsort(rows, kind="stable")
        return EffectTable(
            self.effects[order], self.replicas[order], self.topic_partition[order],
            self.offline[order[: self.offline.size]], self.cluster,
        )

    def metadata_places(self) -> Rows:
        """Places of the last effect of each partition that UpdateMetadata names; `by_row` first.

        Source: docs/controller.md, section 5.1.
        """
        places = np.flatnonzero(self.columns["kinds"] & KIND_LEADER_AND_ISR).astype(np.int32)
        rows = self.columns["row"][places]
        last = np.ones(rows.size, np.bool_)
        last[:-1] = rows[1:] != rows[:-1]
        announced: Rows = places[last]
        return announced


def take_down(state: ClusterState, effects: Effects) -> EffectTable:
    """Effects with the slots, names and liveness that the state has now."""
    rows = np.ascontiguousarray(effects["row"])
    offline = np.empty(0, np.uint64)
    if (effects["kinds"] & KIND_LEADER_AND_ISR).any():
        live = np.empty(rows.size, np.uint64)
        hosting.live_slots(
            state.columns, rows, live, np.empty_like(live)
        )
        offline = SLOT_MASKS[state.records["n_replicas"].take(rows)] & ~live
    topic_partition = memory.room((rows.size, 2))
    topic_partition[:, 0], topic_partition[:, 1] = state.topic_row[rows], state.partition[rows]
    registered = state.registered
    cluster = ClusterNames(
        state.broker_id.copy(), state.broker_epoch[: state.n_brokers].copy(), registered.copy(),
        state.topic, dict(state.odd_orders),
    )
    return EffectTable(
        effects, state.replicas.take(rows, axis=0), topic_partition, offline, cluster,
    )


NO_EFFECTS: Effects = np.empty(0, EFFECT)


class EffectBuffer:
    """Memory for the effects of all steps of an event that visits each partition once.

    Parameters
    ----------
    rows : int
        Partitions that are visited; 0 where no row is recorded.
    steps : int
        Every step but the last has an effect for each partition at most.
    replicas : int
        Most replicas of a partition that the last step moves.
    """

    def __init__(self, rows: int, steps: int, replicas: int) -> None:
        self._begins = [step * rows for step in range(steps)]
        self.effects: Effects = (
            memory.room((steps - 1 + replicas) * rows, EFFECT) if rows else NO_EFFECTS
        )

    def steps(self, counts: npt.NDArray[np.int64]) -> list[Effects]:
        """The effects of each step, from the counts of the kernel that wrote them."""
        if not self.effects.size:
            return [self.effects] * len(self._begins)
        sizes = counts.sum(axis=0).tolist()
        return [
            self.effects[begin : begin + size]
            for begin, size in zip(self._begins, sizes, strict=False)
        ]
