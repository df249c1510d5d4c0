"""Effects: what became of each target of one call, as the kernels write it down.

An effect is one record per replica or partition that was asked to change, and the only layout of
what happened: kernels write it, and tables are made from its columns when somebody asks. Slots,
names and liveness change with the next event, so the journal takes them down when a step ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.kernels import journal as kernels
from kfast.schema import KIND_LEADER_AND_ISR, KIND_METADATA, KIND_STOP, Code, Strategy
from kfast.state import ClusterState
from kfast.state.arrow_views import empty
from kfast.state.records import Rows, Slots

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

KIND_ADDS = KIND_STOP | KIND_LEADER_AND_ISR | KIND_METADATA
"""Effects that add something to the request batch."""
KEYS = ("topic", "partition", "partition_row")
"""Columns of `EffectTable.keys`."""


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
class EffectTable:
    """Effects of one step, with all that tables say of them: nothing of it changes later.

    Attributes
    ----------
    effects : (n,) EFFECT
    replicas : (n, S) broker rows
        The slots of each effect's partition.
    keys : (n, 3) int32
        Row of the topic, number of the partition, row of the partition.
    offline : (n,) uint64
        Assigned slots that are not online; defined where an effect is announced.
    codes, kinds : (n,) uint8
        As in `effects`.
    all_kinds : int
        Which bits of `kinds` occur.
    reassigning : bool
        Whether some partition is being reassigned.
    broker_id : (B + 1,) int32
        Ids of the brokers, and -1 for none.
    broker_epoch : (B,) int64
    registered : (B,) bool
    topic : (T,) string
    list_orders : dict
        Adding and removing lists that are not in slot order, by (field, partition row).
    """

    effects: Effects
    replicas: npt.NDArray[Any]
    keys: npt.NDArray[np.int32]
    offline: Slots
    codes: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.uint8]
    all_kinds: int
    reassigning: bool
    broker_id: Rows
    broker_epoch: npt.NDArray[np.int64]
    registered: npt.NDArray[np.bool_]
    topic: pa.StringArray
    list_orders: dict[tuple[str, int], tuple[int, ...]] = field(repr=False)

    def __len__(self) -> int:
        return int(self.effects.size)

    def field(self, name: str) -> Column:
        """One value per effect: a field of it, or what is known of its partition."""
        if name in KEYS:
            return self.keys[:, KEYS.index(name)]
        return self.offline if name == "offline" else self.effects[name]

    @property
    def by_row(self) -> EffectTable:
        """The same in the order of rows; effects of one row stay in theirs."""
        rows = self.keys[:, 2]
        if (rows[1:] >= rows[:-1]).all():
            return self
        order = np.argsort(rows, kind="stable")
        per_effect = ("effects", "replicas", "keys", "offline", "codes", "kinds")
        return replace(self, **{name: getattr(self, name)[order] for name in per_effect})

    def metadata_places(self) -> Rows:
        """Places of the last effect of each partition that UpdateMetadata names; `by_row` first.

        Source: docs/controller.md, section 5.1.
        """
        places = np.flatnonzero(self.kinds & KIND_LEADER_AND_ISR).astype(np.int32)
        rows = self.keys[places, 2]
        last = np.ones(rows.size, np.bool_)
        last[:-1] = rows[1:] != rows[:-1]
        announced: Rows = places[last]
        return announced


def effect_table(state: ClusterState, effects: Effects) -> EffectTable:
    """Effects with the slots, names and liveness that the state has now."""
    n = effects.size
    replicas = empty((n, state.replicas.shape[1]), state.replicas.dtype)
    keys, offline = empty((n, 3), np.int32), empty(n, np.uint64)
    codes = empty((2, n), np.uint8)
    all_kinds, reassigning = kernels.copy_partitions(
        state.columns, effects, replicas.view(np.uint8), keys, offline, codes
    )
    return EffectTable(
        effects, replicas, keys, offline, codes[0], codes[1], all_kinds, reassigning,
        np.append(state.broker_id, np.int32(-1)), state.broker_epoch[: state.n_brokers].copy(),
        state.registered.copy(), state.topic, dict(state.list_orders),
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
        self.effects: Effects | None = (
            empty((steps - 1 + replicas) * rows, EFFECT) if rows else None
        )

    def steps(self, sizes: Sequence[int]) -> list[Effects]:
        """The effects of each step, from how many the kernel wrote of each."""
        if self.effects is None:
            return [NO_EFFECTS] * len(self._begins)
        return [
            self.effects[begin : begin + size]
            for begin, size in zip(self._begins, sizes, strict=True)
        ]
