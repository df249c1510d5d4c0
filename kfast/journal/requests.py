"""Request batches: what was added, what was sent to whom.

Source: specification, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal.effects import (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    KIND_STOP,
    Effects,
    named,
    offline_replicas,
)
from kfast.journal.outcome import KINDS
from kfast.state.tables import broker_ids, first_slots, id_lists, ordered_lists, topic_names

if TYPE_CHECKING:
    from kfast.state import ClusterState

LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = 0, 1, 2
_IDS = pa.list_(pa.int32())
_NAME = pa.dictionary(pa.int32(), pa.string())
_RECORD = [
    ("leader", pa.int32()), ("leader_epoch", pa.int32()), ("isr", _IDS), ("recovery", pa.int8()),
    ("version", pa.int32()), ("controller_epoch", pa.int32()), ("replicas", _IDS),
    ("adding", _IDS), ("removing", _IDS), ("is_new", pa.bool_()), ("delete", pa.bool_()),
]
ADDITIONS = pa.schema([
    ("step", pa.int32()), ("kind", _NAME), ("topic", _NAME), ("partition", pa.int32()),
    ("to", _IDS), *_RECORD,
])
REQUESTS = pa.schema([
    ("step", pa.int32()), ("kind", _NAME), ("broker_id", pa.int32()), ("broker_epoch", pa.int64()),
    ("topic", _NAME), ("partition", pa.int32()), *_RECORD,
])
METADATA = pa.schema([
    ("step", pa.int32()), ("topic", _NAME), ("partition", pa.int32()),
    ("controller_epoch", pa.int32()), ("leader", pa.int32()), ("leader_epoch", pa.int32()),
    ("isr", _IDS), ("version", pa.int32()), ("replicas", _IDS), ("offline_replicas", _IDS),
])
METADATA_BROKERS = pa.schema([("step", pa.int32()), ("broker_id", pa.int32())])


@dataclass(frozen=True)
class Additions:
    """Additions to one batch, in order: kind of each, and which of the effects it comes from."""

    source: Effects
    index: npt.NDArray[np.int64]
    kind: npt.NDArray[np.int64]

    @property
    def effects(self) -> Effects:
        """Effect of each addition."""
        chosen: Effects = self.source[self.index]
        return chosen


def additions_of(effects: Effects) -> Additions:
    """What some effects added to the batch, in order; an effect adds StopReplica first."""
    places, kinds = [], []
    for bit, kind, after in (
        (KIND_STOP, STOP_REPLICA, 0), (KIND_LEADER_AND_ISR, LEADER_AND_ISR, 1),
        (KIND_METADATA, UPDATE_METADATA, 1),
    ):
        at = np.flatnonzero(effects["kinds"] & bit)
        places.append(2 * at + after)
        kinds.append(np.full(at.size, kind))
    place = np.concatenate(places)
    order = np.argsort(place, kind="stable")
    return Additions(effects, place[order] // 2, np.concatenate(kinds)[order])


def _record(
    state: ClusterState, effects: Effects, kind: npt.NDArray[Any], is_new: npt.NDArray[np.bool_],
    delete: npt.NDArray[np.bool_],
) -> list[pa.Array]:
    rows = np.ascontiguousarray(effects["row"])
    leads = kind == LEADER_AND_ISR
    stops = kind == STOP_REPLICA
    none = ~leads
    epoch = np.where(stops, effects["stop_epoch"], effects["leader_epoch"])
    assigned = first_slots(effects["n_replicas"])
    return [
        pa.array(broker_ids(state, effects["leader"]), mask=none),
        pa.array(epoch, mask=~(leads | stops)),
        id_lists(state, rows, np.where(leads, effects["isr"], 0), leads),
        pa.array(effects["recovery"].astype(np.int8), mask=none),
        pa.array(effects["version"].copy(), mask=none),
        pa.array(effects["controller_epoch"].copy(), mask=none),
        id_lists(state, rows, np.where(leads, assigned, 0), leads),
        ordered_lists(state, "adding", rows, np.where(leads, effects["adding"], 0), leads),
        ordered_lists(state, "removing", rows, np.where(leads, effects["removing"], 0), leads),
        pa.array(is_new, mask=none),
        pa.array(delete, mask=~stops),
    ]


def _flags(
    kinds: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    return (kinds & KIND_IS_NEW) != 0, (kinds & KIND_DELETE) != 0


def additions_table(state: ClusterState, added: Additions, step: int) -> pa.Table:
    """Additions as a table; `to` is null for UpdateMetadata, which goes to all registered."""
    effects, kind = added.effects, added.kind
    rows = np.ascontiguousarray(effects["row"])
    stops = kind == STOP_REPLICA
    to = id_lists(
        state, rows, np.where(kind == LEADER_AND_ISR, effects["recipients"], 0),
        kind != UPDATE_METADATA,
    )
    if stops.any():
        lengths = np.diff(to.offsets.to_numpy())
        lengths[stops] = 1
        offsets = np.zeros(rows.size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        values = np.empty(int(offsets[-1]), np.int32)
        single = np.zeros(values.size, bool)
        single[offsets[:-1][stops]] = True
        values[single] = broker_ids(state, effects["broker"][stops])
        values[~single] = to.values.to_numpy()
        mask = pa.array(kind == UPDATE_METADATA)
        to = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)
    return pa.table(
        [
            pa.array(np.full(rows.size, step, np.int32)), named(kind, KINDS),
            topic_names(state, rows), pa.array(state.partition[rows]), to,
            *_record(state, effects, kind, *_flags(effects["kinds"])),
        ],
        schema=ADDITIONS,
    )


def _recipients(
    state: ClusterState, added: Additions, leads: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Pairs (index of the addition, broker row) of LeaderAndIsr additions."""
    owners, brokers = [], []
    recipients = added.source["recipients"][added.index[leads]]
    rows = added.source["row"][added.index[leads]]
    for slot in range(state.n_slots):
        told = np.flatnonzero((recipients >> np.uint64(slot)) & np.uint64(1))
        owners.append(leads[told])
        brokers.append(state.replicas[rows[told], slot].astype(np.int64))
    return np.concatenate(owners), np.concatenate(brokers)


@dataclass(frozen=True)
class Sent:
    """What one batch sends: per (kind, broker row, partition row) the last addition.

    `effects[i]` is what `kind[i]` says to `broker[i]`; the flags are sticky.
    """

    effects: Effects
    kind: npt.NDArray[np.int64]
    broker: npt.NDArray[np.int64]
    is_new: npt.NDArray[np.bool_]
    delete: npt.NDArray[np.bool_]

    def counts(self, kind: int, n_brokers: int) -> npt.NDArray[np.int64]:
        """Partitions in the request of one kind to each broker."""
        return np.bincount(self.broker[self.kind == kind], minlength=n_brokers).astype(np.int64)


def send(state: ClusterState, added: Additions) -> Sent:
    """Merge additions and drop unregistered brokers (5.1 to 5.3)."""
    leads = np.flatnonzero(added.kind == LEADER_AND_ISR)
    owner, told = _recipients(state, added, leads)
    stops = np.flatnonzero(added.kind == STOP_REPLICA)
    index = np.concatenate([owner, stops])
    stopped = added.source["broker"][added.index[stops]].astype(np.int64)
    broker = np.concatenate([told, stopped])
    kept = state.registered[broker] if broker.size else np.zeros(0, bool)
    index, broker = index[kept], broker[kept]
    kind, row = added.kind[index], added.source["row"][added.index[index]]
    order = np.lexsort((index, row, broker, kind))
    index, broker, kind, row = index[order], broker[order], kind[order], row[order]
    same = (kind[1:] == kind[:-1]) & (broker[1:] == broker[:-1]) & (row[1:] == row[:-1])
    begins = np.append(True, ~same) if index.size else np.zeros(0, bool)
    last = np.append(~same, True) if index.size else np.zeros(0, bool)
    is_new, delete = _flags(added.source["kinds"][added.index[index]])
    starts = np.flatnonzero(begins)
    if starts.size:
        is_new = np.logical_or.reduceat(is_new, starts)
        delete = np.logical_or.reduceat(delete, starts)
    said = added.source[added.index[index[last]]]
    return Sent(said, kind[last], broker[last], is_new, delete)


def requests_table(state: ClusterState, sent: Sent, step: int) -> pa.Table:
    """What was sent, one row per (broker, partition)."""
    rows = np.ascontiguousarray(sent.effects["row"])
    return pa.table(
        [
            pa.array(np.full(rows.size, step, np.int32)), named(sent.kind, KINDS),
            pa.array(broker_ids(state, sent.broker)), pa.array(state.broker_epoch[sent.broker]),
            topic_names(state, rows), pa.array(state.partition[rows]),
            *_record(state, sent.effects, sent.kind, sent.is_new, sent.delete),
        ],
        schema=REQUESTS,
    )


def metadata_effects(effects: Effects) -> Effects:
    """The last effect per partition that put it into UpdateMetadata; in row order."""
    told = effects[(effects["kinds"] & KIND_LEADER_AND_ISR) != 0]
    order = np.argsort(told["row"], kind="stable")
    ordered: Effects = told[order]
    if not ordered.size:
        return ordered
    last: Effects = ordered[np.append(ordered["row"][1:] != ordered["row"][:-1], True)]
    return last


def metadata_table(state: ClusterState, effects: Effects, step: int) -> pa.Table:
    """The partitions of an UpdateMetadata, with the markers of queued topics (5.2)."""
    rows = np.ascontiguousarray(effects["row"])
    queued = (effects["kinds"] & KIND_QUEUED) != 0
    leader = np.where(
        queued, schema.LEADER_DURING_DELETE, broker_ids(state, effects["leader"])
    ).astype(np.int32)
    return pa.table(
        [
            pa.array(np.full(rows.size, step, np.int32)), topic_names(state, rows),
            pa.array(state.partition[rows]), pa.array(effects["controller_epoch"].copy()),
            pa.array(leader),
            pa.array(np.where(queued, 0, effects["leader_epoch"]).astype(np.int32)),
            id_lists(state, rows, effects["isr"]),
            pa.array(np.where(queued, 0, effects["version"]).astype(np.int32)),
            id_lists(state, rows, first_slots(effects["n_replicas"])),
            offline_replicas(state, rows),
        ],
        schema=METADATA,
    )
