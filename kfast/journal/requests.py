"""Tables of one step's request batch: what was added, what was sent to whom.

Source: specification, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal import columns
from kfast.journal.columns import IDS, NAME, Nulls, StepNumber
from kfast.journal.effects import KIND_DELETE, KIND_IS_NEW
from kfast.journal.kept import Kept, pieces
from kfast.journal.outcome import KINDS
from kfast.kernels import journal as kernels
from kfast.kernels import journal_requests, journal_tables
from kfast.state.records import Rows

LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = 0, 1, 2
KIND_BITS = 3
"""Bits of a flag that say which of these it is."""
_RECORD = [
    ("leader", pa.int32()), ("leader_epoch", pa.int32()), ("isr", IDS), ("recovery", pa.int8()),
    ("version", pa.int32()), ("controller_epoch", pa.int32()), ("replicas", IDS),
    ("adding", IDS), ("removing", IDS), ("is_new", pa.bool_()), ("delete", pa.bool_()),
]
ADDITIONS = pa.schema([
    ("step", pa.int32()), ("kind", NAME), ("topic", NAME), ("partition", pa.int32()),
    ("to", IDS), *_RECORD,
])
REQUESTS = pa.schema([
    ("step", pa.int32()), ("kind", NAME), ("broker_id", pa.int32()), ("broker_epoch", pa.int64()),
    ("topic", NAME), ("partition", pa.int32()), *_RECORD,
])
METADATA = pa.schema([
    ("step", pa.int32()), ("topic", NAME), ("partition", pa.int32()),
    ("controller_epoch", pa.int32()), ("leader", pa.int32()), ("leader_epoch", pa.int32()),
    ("isr", IDS), ("version", pa.int32()), ("replicas", IDS), ("offline_replicas", IDS),
])
METADATA_BROKERS = pa.schema([("step", pa.int32()), ("broker_id", pa.int32())])
Flags = npt.NDArray[np.uint8]


class _Said:
    """Columns that additions and requests share: what a record says, null where it says nothing.

    There are four lists, or five: the fifth says whom an addition is for.
    """

    def __init__(self, kept: Kept, places: Rows, flags: Flags, n_lists: int = 4) -> None:
        n = self.n = places.size
        self.kept, self.places = kept, places
        self.numbers = np.empty((7, n), np.int32)
        offsets = np.zeros((n_lists, n + 1), np.int32)
        values = np.empty((n_lists, max(n * kept.n_slots, 1)), np.int32)
        recovery, found = np.zeros(n, np.int8), np.zeros(5, np.int64)
        journal_requests.fill_requests(
            kept.as_bytes, kept.wide, kept.n_slots, kept.seen.broker_id, places, flags,
            self.numbers, offsets, values, recovery, found,
        )
        ends = found.tolist()
        leads, stops = (flags & KIND_BITS) == LEADER_AND_ISR, (flags & KIND_BITS) == STOP_REPLICA
        self.leads, self.stops = Nulls(leads), Nulls(stops)
        self.either = Nulls(leads | stops)
        self._order("adding", offsets[2], values[2])
        self._order("removing", offsets[3], values[3])
        self.lists = [
            columns.lists(offsets[k], values[k], n, ends[k], self.leads if k < 4 else self.either)
            for k in range(n_lists)
        ]
        self.recovery = columns.values(recovery, self.leads)
        self.is_new = columns.booleans((flags & KIND_IS_NEW) != 0, self.leads)
        self.delete = columns.booleans((flags & KIND_DELETE) != 0, self.stops)

    def _order(self, name: str, offsets: Rows, values: Rows) -> None:
        """Put lists into the order they were given in, where it is not that of the slots."""
        orders = self.kept.seen.odd_orders
        odd = {row: order for (field, row), order in orders.items() if field == name}
        if not odd:
            return
        rows = self.kept.records["row"][self.places]
        for at in np.flatnonzero(np.isin(rows, list(odd))).tolist():
            order = odd[int(rows[at])]
            part = values[offsets[at] : offsets[at + 1]].tolist()
            part.sort(key=lambda b: order.index(b) if b in order else len(order))
            values[offsets[at] : offsets[at + 1]] = part

    @property
    def names(self) -> list[pa.Array]:
        """Columns topic and partition."""
        topic = columns.named(self.numbers[1], self.kept.seen.topic)
        return [topic, columns.values(self.numbers[2])]

    @property
    def record(self) -> list[pa.Array]:
        """The columns of `_RECORD`."""
        leads, numbers = self.leads, self.numbers
        isr, replicas, adding, removing = self.lists[:4]
        return [
            columns.values(numbers[3], leads), columns.values(numbers[4], self.either), isr,
            self.recovery, columns.values(numbers[5], leads), columns.values(numbers[6], leads),
            replicas, adding, removing, self.is_new, self.delete,
        ]


def additions(whole: Kept, step: StepNumber) -> Iterator[pa.Table]:
    """Additions in order; `to` is null for UpdateMetadata, which goes to all registered."""
    for kept in whole.pieces(3):
        yield _additions(kept, step)


def _additions(kept: Kept, step: StepNumber) -> pa.Table:
    room = 3 * len(kept) + 2
    places, flags = np.empty(room, np.int32), np.empty(room, np.uint8)
    n = kernels.list_additions(kept.as_bytes, kept.wide, places, flags)
    places, flags = places[:n], flags[:n]
    said = _Said(kept, places, flags, 5)
    return pa.table(
        [
            step.column(n), columns.named(said.numbers[0], KINDS), *said.names, said.lists[4],
            *said.record,
        ],
        schema=ADDITIONS,
    )


def requests(unordered: Kept, step: StepNumber) -> Iterator[pa.Table]:
    """What was sent, one row per (kind, broker, partition); unregistered brokers get none."""
    kept = unordered.by_row()
    seen = kept.seen
    room, n_brokers = len(kept) * (kept.n_slots + 1), seen.registered.size
    posted, keys, said_flags = (
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8)
    )
    counts = np.zeros(2 * n_brokers, np.int64)
    n = kernels.list_requests(
        kept.as_bytes, kept.wide, seen.registered.view(np.uint8), counts, posted, keys, said_flags
    )
    ends = np.cumsum(counts)
    places, flags = np.empty(n, np.int32), np.empty(n, np.uint8)
    kernels.sort_requests(posted[:n], keys, said_flags, ends - counts, places, flags)
    ids, epochs = np.empty(n, np.int32), np.empty(n, np.int64)
    journal_requests.fill_brokers(ends, seen.broker_id, seen.broker_epoch, ids, epochs)
    for begin, end in pieces(n, kept.n_slots):
        said = _Said(kept, places[begin:end], flags[begin:end])
        yield pa.table(
            [
                step.column(end - begin), columns.named(said.numbers[0], KINDS),
                columns.values(ids[begin:end]), columns.values(epochs[begin:end]), *said.names,
                *said.record,
            ],
            schema=REQUESTS,
        )


def metadata(kept: Kept, step: StepNumber, *, merges: bool) -> Iterator[pa.Table]:
    """The partitions of an UpdateMetadata, with the markers of queued topics (5.2).

    With `merges` only the last effect of each partition that tells of it; otherwise every effect.
    """
    if merges:
        kept = kept.by_row()
        places = kept.metadata_places()
    else:
        places = np.arange(len(kept), dtype=np.int32)
    for begin, end in pieces(places.size, kept.n_slots):
        yield _metadata(kept, places[begin:end], step)


def _metadata(kept: Kept, places: Rows, step: StepNumber) -> pa.Table:
    n = places.size
    numbers, offsets = np.empty((6, n), np.int32), np.zeros((3, n + 1), np.int32)
    values = np.empty((3, max(n * kept.n_slots, 1)), np.int32)
    found = np.zeros(3, np.int64)
    journal_tables.fill_metadata(
        kept.as_bytes, kept.wide, kept.n_slots, kept.seen.broker_id, places, numbers, offsets,
        values, found,
    )
    topic, partition, controller_epoch, leader, leader_epoch, version = numbers
    isr, replicas, offline = (
        columns.lists(offsets[k], values[k], n, int(found[k])) for k in range(3)
    )
    return pa.table(
        [
            step.column(n), columns.named(topic, kept.seen.topic), columns.values(partition),
            columns.values(controller_epoch), columns.values(leader), columns.values(leader_epoch),
            isr, columns.values(version), replicas, offline,
        ],
        schema=METADATA,
    )
