"""Reassignments as callers ask for them: a mapping or a table, read and checked.

Source: docs/controller.md, section 6.7; docs/kraft.md, section 7.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.arguments import ASSIGNMENTS, assignments_in, assignments_of, shown
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.state.records import EMPTY_ROWS, Rows

__all__ = [
    "Reassignments", "Requests", "Targets", "as_table", "being_reassigned", "is_movable", "parse",
]

Reassignments: TypeAlias = Mapping[tuple[str, int], Sequence[int] | None] | pa.Table
"""Where partitions are to go, by (topic, partition); None cancels. Or a table of the same."""

NO_REASSIGNMENTS = ASSIGNMENTS.empty_table()
"""What the start of most clusters finds in the reassignment node: making it anew takes longer than
all the rest of the start of a small one."""


@dataclass(frozen=True)
class Targets:
    """Where some rows are to go: a list of broker ids for each.

    Parameters
    ----------
    offsets : (n+1,) int32
        Where each row's list begins.
    broker_ids : (m,) int32
    """

    offsets: Rows
    broker_ids: Rows

    @classmethod
    def from_lists(cls, lists: list[list[int]]) -> Targets:
        """Targets of lists of broker ids."""
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(ids) for ids in lists], out=offsets[1:])
        return cls(offsets, np.asarray([b for ids in lists for b in ids], np.int32))

    def lists(self) -> list[list[int]]:
        """The same as lists of broker ids."""
        parts = np.split(self.broker_ids, self.offsets[1:-1]) if self.offsets.size > 1 else []
        return [part.tolist() for part in parts]

    def of(self, chosen: npt.NDArray[np.int64]) -> Targets:
        """The lists at some places, in their order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(chosen.size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        at = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Targets(offsets, self.broker_ids[at])


@dataclass(frozen=True)
class Requests:
    """Requested reassignments: a row (-1: unknown), a list and whether to cancel each."""

    rows: Rows
    targets: Targets
    cancel: npt.NDArray[np.bool_]


def parse(
    state: ClusterState, reassignments: Reassignments, *, node: bool = False,
    distinct: bool = True,
) -> Requests:
    """Rows and lists of reassignments; `node` allows no cancelling and no empty list.

    With `distinct`, no partition may stand twice.
    """
    table = as_table(reassignments)
    if not table.num_rows:
        targets = Targets(np.zeros(1, np.int32), EMPTY_ROWS)
        return Requests(EMPTY_ROWS, targets, np.empty(0, np.bool_))
    rows = state.lookup.rows_of_table(table)
    ordered = np.sort(rows[rows >= 0])
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if distinct and twice.size:
        name = state.topic[int(state.topic_row[twice[0]])].as_py()
        raise ArgumentError(
            f"partition {name}-{state.partition[twice[0]]} is listed twice; nothing was changed"
        )
    lists = table.column("replicas").combine_chunks()
    cancel = lists.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    broker_ids = lists.flatten().to_numpy().astype(np.int32)
    if node and (cancel.any() or (lengths == 0).any() or (broker_ids < 0).any()):
        raise ArgumentError(
            "the reassignment node has a list that is null, empty or names a negative broker id; "
            "nothing was changed"
        )
    requests = Requests(rows, Targets(offsets, broker_ids), cancel)
    _check_slots(state, requests)
    return requests


def _check_slots(state: ClusterState, requests: Requests) -> None:
    """Raise where a partition would name more brokers than a mask has bits."""
    targets = requests.targets
    lengths = np.diff(targets.offsets)
    used = np.zeros(lengths.size, np.int64)
    movable = is_movable(state, requests.rows)
    used[movable] = state.records["n_slots"][requests.rows[movable]]
    for at in np.flatnonzero(movable & (used + lengths > schema.MAX_SLOTS)).tolist():
        row = int(requests.rows[at])
        part = targets.broker_ids[targets.offsets[at] : targets.offsets[at + 1]]
        tracked = state.broker_id[state.replicas[row, : used[at]].astype(np.int64)]
        n = np.union1d(part, tracked).size
        if n > schema.MAX_SLOTS:
            raise ArgumentError(
                f"partition row {row} would name {n} brokers; at most {schema.MAX_SLOTS} are "
                "allowed; nothing was changed"
            )


def being_reassigned(
    state: ClusterState, rows: Rows | slice = slice(None)
) -> npt.NDArray[np.bool_]:
    """Whether each row is being reassigned: in KRaft the lists alone say so."""
    records = state.records[rows]
    if state.is_kraft:
        return np.asarray((records["adding"] | records["removing"]) != 0, np.bool_)
    return np.asarray((records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0, np.bool_)


def is_movable(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows have an assignment, and a topic that is not queued for deletion."""
    movable = rows >= 0
    movable[movable] = state.records["n_replicas"][rows[movable]] > 0
    movable[movable] = ~state.topic_queued_for_deletion[state.topic_row[rows[movable]]]
    return movable


def as_table(reassignments: Reassignments) -> pa.Table:
    """Reassignments as a table of topic, partition and replicas (null: cancel), checked."""
    if isinstance(reassignments, pa.Table):
        return assignments_in("reassignments", reassignments)
    if not isinstance(reassignments, Mapping):
        raise ArgumentError(
            f"reassignments is {shown(reassignments)}: a mapping of (topic, partition) to broker "
            "ids or None is needed, or a table; nothing was changed"
        )
    if not reassignments:
        return NO_REASSIGNMENTS
    return assignments_of("reassignments", list(reassignments), reassignments.values())
