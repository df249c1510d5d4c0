"""The journal's tables in plain numpy: one step after the other, from the state as it is then.

The twin of `kfast.journal.changes` and `kfast.journal.request_table`: everything is read from the
state, nothing is shared between tables.

Source: docs/controller.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kfast import schema
from kfast.journal.changes import CODE_NAMES, INITIALIZATION
from kfast.journal.effects import (
    KIND_DELETE,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    KIND_STOP,
    KIND_UNCLEAN,
)
from kfast.journal.outcome import KINDS, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kfast.kernels import hosting
from kfast.schema import Code
from kfast.state.arrays import first_slots
from kfast.state.tables import broker_ids, id_lists, ordered_lists

_SUCCEEDED = np.array([c.value for c in Code if c.succeeded])
_UNSAID = np.array([
    Code.DROPPED, Code.NOT_ASKED, Code.ILLEGAL_ARGUMENT, Code.CONTROLLER_MOVED, Code.UNDECODABLE,
])


def named(indices, names):
    """Names by number."""
    return pa.array([names[index] for index in indices.tolist()], pa.string())


def keys(state, rows):
    """Columns topic, partition and partition_row."""
    topics = state.topic.to_pylist()
    return [
        named(state.topic_row[rows], topics), pa.array(state.partition[rows]),
        pa.array(np.ascontiguousarray(rows)),
    ]


def state_names(effects, field):
    """Kafka's names of the states in a field; partitions and replicas may be mixed."""
    names = schema.REPLICA_STATE_NAMES + schema.PARTITION_STATE_NAMES
    shift = np.where(effects["broker"] < 0, len(schema.REPLICA_STATE_NAMES), 0)
    return named(effects[field] + shift, names)


def _nullable_broker(state, effects):
    ids = broker_ids(state, effects["broker"])
    return pa.array(ids, mask=effects["broker"] < 0)


def _step(number, n):
    return pa.array(np.full(n, number, np.int32))


def transitions(state, effects, step):
    """State changes that happened, in the order (row, broker id)."""
    some = effects[np.isin(effects["code"], _SUCCEEDED)]
    return pa.table(
        [
            _step(step, some.size), *keys(state, some["row"]), _nullable_broker(state, some),
            state_names(some, "from_state"), state_names(some, "to_state"),
        ],
        schema=schema.TRANSITIONS.schema,
    )


def elections(state, effects, step, strategy):
    """Elections and initialisations that were tried, with their outcome."""
    tried = (effects["kinds"] & KIND_ELECTION) != 0
    tried &= effects["code"] != Code.CONFIG_LOOKUP_LOGGED
    first = (effects["broker"] < 0) & (effects["from_state"] == schema.PartitionState.NEW)
    first &= effects["to_state"] == schema.PartitionState.ONLINE
    some = effects[tried | first]
    names = (INITIALIZATION, "" if strategy is None else strategy.name)
    rows = np.ascontiguousarray(some["row"])
    return pa.table(
        [
            _step(step, some.size), *keys(state, rows),
            named(tried[tried | first], names),
            pa.array(broker_ids(state, some["leader_before"])),
            pa.array(broker_ids(state, some["leader"])),
            id_lists(state, rows, some["isr_before"]), id_lists(state, rows, some["isr"]),
            pa.array(np.ascontiguousarray(some["leader_epoch"])),
            pa.array(np.ascontiguousarray(some["version"])),
            pa.array(some["recovery"].astype(np.int8)),
            pa.array((some["kinds"] & KIND_UNCLEAN) != 0),
            named(some["code"], CODE_NAMES),
        ],
        schema=schema.ELECTIONS.schema,
    )


def refusals(state, effects, step, strategy, rules):
    """Kafka's error log: what was refused, with the states as Kafka logs them."""
    failed = ~np.isin(effects["code"], _SUCCEEDED) & ~np.isin(effects["code"], _UNSAID)
    some = effects[failed]
    lookups = np.flatnonzero(some["code"] == Code.CONFIG_LOOKUP_FAILED)
    order = np.sort(np.concatenate([np.arange(some.size), lookups]), kind="stable")
    some = some[order].copy()
    classes = ("StateChangeFailed", "IllegalState", "StoreError", "NoReplicaOnline")
    said = {code: rules.error_of(code, strategy) for code in Code}
    error = np.array([classes.index(said[c]) if said[c] in classes else 0 for c in Code])
    which = error[some["code"]]
    # A failed look-up is logged by itself, before the election that fails for it.
    first = np.flatnonzero(
        (some["code"] == Code.CONFIG_LOOKUP_FAILED) & np.append(order[1:] == order[:-1], False)
    )
    which[first] = classes.index("StoreError")
    logged = some.copy()
    logged["code"][some["code"] == Code.CONFIG_LOOKUP_LOGGED] = Code.CONFIG_LOOKUP_FAILED
    if not rules.logs_real_targets:
        wrong = some["code"] == Code.LEADER_IS_NEW_REPLICA
        logged["to_state"][wrong] = schema.ReplicaState.OFFLINE
        logged["to_state"][some["code"] == Code.CREATE_CALL_FAILED] = schema.PartitionState.NEW
    return pa.table(
        [
            _step(step, some.size), *keys(state, some["row"]), _nullable_broker(state, some),
            state_names(some, "from_state"), state_names(logged, "to_state"),
            named(logged["code"], CODE_NAMES), named(which, classes),
        ],
        schema=schema.REFUSALS.schema,
    )


def offline_replicas(state, rows):
    """Assigned replicas of each row that are not online (section 5.2)."""
    live = np.empty(rows.size, np.uint64)
    hosting.live_slots(state.columns, rows, live, np.empty_like(live))
    return id_lists(state, rows, first_slots(state.records["n_replicas"][rows]) & ~live)


@dataclass(frozen=True)
class Additions:
    """Additions to one batch, in order: kind of each, and which of the effects it comes from."""

    source: Any
    index: Any
    kind: Any

    @property
    def effects(self):
        """Effect of each addition."""
        return self.source[self.index]


def additions_of(effects):
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


def _record(state, effects, kind, is_new, delete):
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


def _flags(kinds):
    return (kinds & KIND_IS_NEW) != 0, (kinds & KIND_DELETE) != 0


def additions_table(state, added, step):
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
            *keys(state, rows), to,
            *_record(state, effects, kind, *_flags(effects["kinds"])),
        ],
        schema=schema.ADDITIONS.schema,
    )


def _recipients(state, added, leads):
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

    effects: Any
    kind: Any
    broker: Any
    is_new: Any
    delete: Any

    def counts(self, kind, n_brokers):
        """Partitions in the request of one kind to each broker."""
        return np.bincount(self.broker[self.kind == kind], minlength=n_brokers).astype(np.int64)


def send(state, added):
    """Merge additions and drop unregistered brokers (sections 5.1 to 5.3)."""
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


def requests_table(state, sent, step):
    """What was sent, one row per (broker, partition)."""
    rows = np.ascontiguousarray(sent.effects["row"])
    return pa.table(
        [
            pa.array(np.full(rows.size, step, np.int32)), named(sent.kind, KINDS),
            pa.array(broker_ids(state, sent.broker)), pa.array(state.broker_epoch[sent.broker]),
            *keys(state, rows),
            *_record(state, sent.effects, sent.kind, sent.is_new, sent.delete),
        ],
        schema=schema.REQUESTS.schema,
    )


def metadata_effects(effects):
    """The last effect per partition that put it into UpdateMetadata; in row order."""
    told = effects[(effects["kinds"] & KIND_LEADER_AND_ISR) != 0]
    order = np.argsort(told["row"], kind="stable")
    ordered = told[order]
    if not ordered.size:
        return ordered
    return ordered[np.append(ordered["row"][1:] != ordered["row"][:-1], True)]


def metadata_table(state, effects, step):
    """The partitions of an UpdateMetadata, with the markers of queued topics (section 5.2)."""
    rows = np.ascontiguousarray(effects["row"])
    queued = (effects["kinds"] & KIND_QUEUED) != 0
    leader = np.where(
        queued, schema.LEADER_DURING_DELETE, broker_ids(state, effects["leader"])
    ).astype(np.int32)
    return pa.table(
        [
            pa.array(np.full(rows.size, step, np.int32)), *keys(state, rows),
            pa.array(effects["controller_epoch"].copy()), pa.array(leader),
            pa.array(np.where(queued, 0, effects["leader_epoch"]).astype(np.int32)),
            id_lists(state, rows, effects["isr"]),
            pa.array(np.where(queued, 0, effects["version"]).astype(np.int32)),
            id_lists(state, rows, first_slots(effects["n_replicas"])),
            offline_replicas(state, rows),
        ],
        schema=schema.UPDATE_METADATA.schema,
    )
