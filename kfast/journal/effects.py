"""What became of each target of one call, as the kernels write it down, and tables made of it.

An effect is one record per replica or partition that was asked to change. Slots mean what they
mean when the call ends, so tables are made right then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.kernels import census, hosting
from kfast.profiles import Profile
from kfast.schema import Code, Strategy
from kfast.state.tables import broker_ids, first_slots, id_lists, topic_names

if TYPE_CHECKING:
    from kfast.state import ClusterState

Effects = npt.NDArray[Any]

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
"""The same fields as `Effect` in `kernels/slots.pxd`; a test compares the sizes."""

LAYOUT: dict[str, int] = census.layout()
KIND_STOP, KIND_LEADER_AND_ISR, KIND_METADATA, KIND_IS_NEW = 1, 2, 4, 8
KIND_DELETE, KIND_UNCLEAN, KIND_ELECTION, KIND_QUEUED = 16, 32, 64, 128

_IDS = pa.list_(pa.int32())
_NAME = pa.dictionary(pa.int32(), pa.string())
TRANSITIONS = pa.schema([
    ("step", pa.int32()), ("topic", _NAME), ("partition", pa.int32()), ("broker_id", pa.int32()),
    ("from_state", _NAME), ("to_state", _NAME),
])
ELECTIONS = pa.schema([
    ("step", pa.int32()), ("topic", _NAME), ("partition", pa.int32()), ("strategy", _NAME),
    ("leader_before", pa.int32()), ("leader", pa.int32()), ("isr_before", _IDS), ("isr", _IDS),
    ("leader_epoch", pa.int32()), ("version", pa.int32()), ("recovery", pa.int8()),
    ("unclean", pa.bool_()), ("code", _NAME),
])
REFUSALS = pa.schema([
    ("step", pa.int32()), ("topic", _NAME), ("partition", pa.int32()), ("broker_id", pa.int32()),
    ("from_state", _NAME), ("to_state", _NAME), ("code", _NAME), ("error", _NAME),
])
INITIALIZATION = "INITIALIZATION"
CODE_NAMES = tuple(Code(number).name for number in range(len(Code)))
_SUCCEEDED = np.array([c.value for c in Code if c.succeeded])
_UNSAID = np.array([
    Code.DROPPED, Code.NOT_ASKED, Code.ILLEGAL_ARGUMENT, Code.CONTROLLER_MOVED, Code.UNDECODABLE,
])


def named(indices: npt.NDArray[Any], names: tuple[str, ...]) -> pa.DictionaryArray:
    """Names by number, dictionary-encoded."""
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), pa.array(names))


def state_names(effects: Effects, field: str) -> pa.DictionaryArray:
    """Kafka's names of the states in a field; partitions and replicas may be mixed."""
    names = schema.REPLICA_STATE_NAMES + schema.PARTITION_STATE_NAMES
    shift = np.where(effects["broker"] < 0, len(schema.REPLICA_STATE_NAMES), 0)
    return named(effects[field] + shift, names)


def _nullable_broker(state: ClusterState, effects: Effects) -> pa.Array:
    ids = broker_ids(state, effects["broker"])
    return pa.array(ids, mask=effects["broker"] < 0)


def _step(number: int, n: int) -> pa.Array:
    return pa.array(np.full(n, number, np.int32))


def transitions(state: ClusterState, effects: Effects, step: int) -> pa.Table:
    """State changes that happened, in the order (row, broker id)."""
    some = effects[np.isin(effects["code"], _SUCCEEDED)]
    return pa.table(
        [
            _step(step, some.size), topic_names(state, some["row"]),
            pa.array(state.partition[some["row"]]), _nullable_broker(state, some),
            state_names(some, "from_state"), state_names(some, "to_state"),
        ],
        schema=TRANSITIONS,
    )


def elections(
    state: ClusterState, effects: Effects, step: int, strategy: Strategy | None
) -> pa.Table:
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
            _step(step, some.size), topic_names(state, rows), pa.array(state.partition[rows]),
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
        schema=ELECTIONS,
    )


def refusals(
    state: ClusterState, effects: Effects, step: int, strategy: Strategy | None, profile: Profile,
) -> pa.Table:
    """Kafka's error log: what was refused, with the states as Kafka logs them."""
    failed = ~np.isin(effects["code"], _SUCCEEDED) & ~np.isin(effects["code"], _UNSAID)
    some = effects[failed]
    lookups = np.flatnonzero(some["code"] == Code.CONFIG_LOOKUP_FAILED)
    order = np.sort(np.concatenate([np.arange(some.size), lookups]), kind="stable")
    some = some[order].copy()
    classes = ("StateChangeFailed", "IllegalState", "StoreError", "NoReplicaOnline")
    said = {code: profile.error_of(code, strategy) for code in Code}
    error = np.array([classes.index(said[c]) if said[c] in classes else 0 for c in Code])
    which = error[some["code"]]
    # A failed look-up is logged by itself, before the election that fails for it.
    first = np.flatnonzero(
        (some["code"] == Code.CONFIG_LOOKUP_FAILED) & np.append(order[1:] == order[:-1], False)
    )
    which[first] = classes.index("StoreError")
    logged = some.copy()
    logged["code"][some["code"] == Code.CONFIG_LOOKUP_LOGGED] = Code.CONFIG_LOOKUP_FAILED
    if not profile.logs_real_targets:
        wrong = some["code"] == Code.LEADER_IS_NEW_REPLICA
        logged["to_state"][wrong] = schema.ReplicaState.OFFLINE
        logged["to_state"][some["code"] == Code.CREATE_CALL_FAILED] = schema.PartitionState.NEW
    return pa.table(
        [
            _step(step, some.size), topic_names(state, some["row"]),
            pa.array(state.partition[some["row"]]), _nullable_broker(state, some),
            state_names(some, "from_state"), state_names(logged, "to_state"),
            named(logged["code"], CODE_NAMES), named(which, classes),
        ],
        schema=REFUSALS,
    )


def offline_replicas(state: ClusterState, rows: npt.NDArray[np.int32]) -> pa.ListArray:
    """Assigned replicas of each row that are not online (5.2)."""
    live = np.empty(rows.size, np.uint64)
    hosting.live_slots(
        state.records, state.replicas, state.broker_status, rows, live, np.empty_like(live)
    )
    return id_lists(state, rows, first_slots(state.records["n_replicas"][rows]) & ~live)
