"""Tables of one step's request batch: what was added, and what was sent to whom.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal.effect_columns import (
    ArrowColumn,
    Valid,
    booleans,
    changing_lists,
    expand,
    id_lists,
    keys,
    lists,
    most_rows,
    names,
    numbers,
    repeated,
    split,
)
from kfast.journal.effects import (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    KIND_STOP,
    SLOT_MASKS,
    EffectTable,
)
from kfast.journal.outcome import KINDS, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kfast.kernels import journal as kernels
from kfast.schema import ADDITIONS, LEADER_DURING_DELETE, REQUESTS
from kfast.schema import UPDATE_METADATA as METADATA
from kfast.state.records import EMPTY_ROWS, Rows

Bits: TypeAlias = npt.NDArray[np.bool_]
Flags: TypeAlias = npt.NDArray[np.uint8]
NO_FLAGS: Flags = np.empty(0, np.uint8)

_ADDED = np.array([STOP_REPLICA, LEADER_AND_ISR, UPDATE_METADATA], np.uint8)
_ADDED_BITS = np.array([KIND_STOP, KIND_LEADER_AND_ISR, KIND_METADATA], np.uint8)
"""What an effect adds, in this order."""


def additions(table: EffectTable, step: int) -> Iterator[pa.Table]:
    """Additions in order; `to` is null for UpdateMetadata, which goes to all registered."""
    added = np.flatnonzero((table.columns["kinds"][:, None] & _ADDED_BITS) != 0)
    for begin in range(0, added.size, most := most_rows(table.replicas.shape[1])):
        places = added[begin : begin + most] // _ADDED.size
        kinds = _ADDED[added[begin : begin + most] - places * _ADDED.size]
        yield _additions(table, places.astype(np.int32), kinds, step)


def _additions(table: EffectTable, places: Rows, kinds: Flags, step: int) -> pa.Table:
    leads, stops = kinds == LEADER_AND_ISR, kinds == STOP_REPLICA
    flags = table.columns["kinds"][places]
    return pa.table(
        [
            repeated(step, pa.int32(), places.size), names(kinds, KINDS), *keys(table, places),
            _addressees(table, places, leads, stops), *_record(table, places, leads, stops, flags),
        ],
        schema=ADDITIONS.schema,
    )


def _addressees(table: EffectTable, places: Rows, leads: Bits, stops: Bits) -> pa.Array:
    """Whom each addition is for: the recipients of a LeaderAndIsr, the broker that stops."""
    recipients = np.where(leads, table.take(["recipients"], places)[0], 0)
    offsets, values = expand(table, places, recipients)
    at = np.flatnonzero(stops)
    if at.size:
        stopped = table.cluster.ids_of(table.columns["broker"][places[at]])
        values = np.insert(values, offsets[at], stopped)
        offsets[1:] += np.cumsum(stops, dtype=np.int32)
    return lists(offsets, values, _some(leads | stops))


def _some(valid: Bits) -> Valid:
    return None if valid.all() else valid


_RECORD = (
    "leader", "leader_epoch", "isr", "recovery", "version", "controller_epoch", "n_replicas",
)


def _record(
    table: EffectTable, places: Rows, leads: Bits, stops: Bits, flags: Flags
) -> list[ArrowColumn]:
    """Columns leader to delete: what LeaderAndIsr and StopReplica say."""
    leader, epoch, isr, recovery, version, controller, size = table.take(_RECORD, places)
    to_leads, delete = _some(leads), repeated(None, pa.bool_(), places.size)
    if stops.any():
        epoch = np.where(stops, table.take(["stop_epoch"], places)[0], epoch)
        delete = booleans((flags & KIND_DELETE) != 0, stops)
    return [
        numbers(table.cluster.ids_of(leader), to_leads), numbers(epoch, _some(leads | stops)),
        id_lists(table, places, isr, to_leads), numbers(recovery.view(np.int8), to_leads),
        numbers(version, to_leads), numbers(controller, to_leads),
        id_lists(table, places, SLOT_MASKS[size], to_leads),
        *(changing_lists(table, name, places, to_leads) for name in ("adding", "removing")),
        booleans((flags & KIND_IS_NEW) != 0, to_leads), delete,
    ]


@dataclass(frozen=True, eq=False)
class RequestBuffer:
    """What one batch sends in requests of one kind, in the order (broker, partition).

    Attributes
    ----------
    counts : (B,) int64
        Partitions in the request to each broker.
    places : (m,) int32
        The effect that each row says.
    flags : (m,) uint8
        Is new, delete: what one effect says of a broker's partition, all say after it.
    """

    counts: npt.NDArray[np.int64]
    places: Rows
    flags: Flags

    @cached_property
    def brokers(self) -> Rows:
        """(m,) the broker row of each row."""
        return np.repeat(np.arange(self.counts.size, dtype=np.int32), self.counts)


def request_counts(table: EffectTable) -> npt.NDArray[np.int64]:
    """(2, B) partitions in the LeaderAndIsr and in the StopReplica request to each broker.

    Parameters
    ----------
    table : EffectTable
        In the order of rows.
    """
    registered = table.cluster.registered.view(np.uint8)
    counts = np.zeros((2, registered.size), np.int64)
    for stops in (False, True):
        kernels.list_requests(
            table.effects, table.replicas, registered, stops, counts[int(stops)], EMPTY_ROWS,
            NO_FLAGS,
        )
    return counts


def request_buffer(
    table: EffectTable, kind: int, counts: npt.NDArray[np.int64]
) -> RequestBuffer:
    """Merge what effects send: the last of each broker and partition; unregistered get none.

    Parameters
    ----------
    table : EffectTable
        In the order of rows.
    kind : int
        LeaderAndIsr or StopReplica.
    counts : (B,) int64
        `request_counts` of the kind.

    Notes
    -----
    Source: sections 5.1 and 5.3.
    """
    cursors, n = np.cumsum(counts) - counts, int(counts.sum())
    places, flags = np.empty(n, np.int32), np.empty(n, np.uint8)
    if n:
        kernels.list_requests(
            table.effects, table.replicas, table.cluster.registered.view(np.uint8),
            kind == STOP_REPLICA, cursors, places, flags,
        )
    return RequestBuffer(counts, places, flags)


def requests(unordered: EffectTable, step: int) -> Iterator[pa.Table]:
    """What was sent, one row per (kind, broker, partition); unregistered brokers get none."""
    table = unordered.by_row
    kinds = (LEADER_AND_ISR, STOP_REPLICA)
    for kind, counts in zip(kinds, request_counts(table), strict=True):
        buffer = request_buffer(table, kind, counts)
        for begin in range(0, buffer.places.size, most := most_rows(table.replicas.shape[1])):
            yield _sent(table, buffer, slice(begin, begin + most), kind, step)


def _sent(
    table: EffectTable, buffer: RequestBuffer, part: slice, kind: int, step: int
) -> pa.Table:
    places, brokers, flags = buffer.places[part], buffer.brokers[part], buffer.flags[part]
    n, cluster = places.size, table.cluster
    if kind == LEADER_AND_ISR:
        record = _record(table, places, np.ones(n, np.bool_), np.zeros(n, np.bool_), flags)
    else:
        record = [repeated(None, column.arrow, n) for column in REQUESTS.columns[7:]]
        record[1] = numbers(table.take(["stop_epoch"], places)[0])
        record[-1] = booleans((flags & KIND_DELETE) != 0)
    return pa.table(
        [
            repeated(step, pa.int32(), n), repeated(KINDS[kind], pa.string(), n),
            numbers(cluster.broker_id[brokers]), numbers(cluster.broker_epoch[brokers]),
            *keys(table, places), *record,
        ],
        schema=REQUESTS.schema,
    )


def metadata(unordered: EffectTable, step: int, *, merges: bool) -> Iterator[pa.Table]:
    """The partitions of an UpdateMetadata, with the markers of queued topics (section 5.2).

    With `merges` only the last effect of each partition that announces it; otherwise every effect.
    """
    table = unordered.by_row if merges else unordered
    places = table.metadata_places() if merges else np.arange(len(table))
    for part in split(places, table.replicas.shape[1]):
        yield _metadata(table, part, step)


_METADATA = ("leader", "leader_epoch", "version", "controller_epoch", "isr", "n_replicas")


def _metadata(table: EffectTable, places: Rows, step: int) -> pa.Table:
    leader, epoch, version, controller, isr, size = table.take(_METADATA, places)
    leader, assigned = table.cluster.ids_of(leader), SLOT_MASKS[size]
    if table.kinds & KIND_QUEUED:
        queued = (table.columns["kinds"][places] & KIND_QUEUED) != 0
        leader[queued], epoch[queued], version[queued] = LEADER_DURING_DELETE, 0, 0
    return pa.table(
        [
            repeated(step, pa.int32(), places.size), *keys(table, places),
            numbers(controller), numbers(leader), numbers(epoch),
            id_lists(table, places, isr), numbers(version),
            id_lists(table, places, assigned), id_lists(table, places, table.offline[places]),
        ],
        schema=METADATA.schema,
    )
