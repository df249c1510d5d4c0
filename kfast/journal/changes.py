"""Tables of what changed in one step: transitions, elections, refusals.

Source: docs/controller.md, sections 2.3, 3.4 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal import columns
from kfast.journal.columns import Column, Number
from kfast.journal.effects import KIND_ELECTION, KIND_UNCLEAN
from kfast.journal.kept import EffectTable
from kfast.journal.spread import KEY
from kfast.kernels import journal_tables
from kfast.schema import ELECTIONS, REFUSALS, TRANSITIONS, Code, PartitionState, Strategy
from kfast.state.records import EMPTY_ROWS, Rows

if TYPE_CHECKING:
    from kfast.controllers import Profile

INITIALIZATION = "INITIALIZATION"
CODE_NAMES = tuple(Code(number).name for number in range(len(Code)))
STATE_NAMES = schema.REPLICA_STATE_NAMES + schema.PARTITION_STATE_NAMES
OFFLINE_PARTITION = len(schema.REPLICA_STATE_NAMES) + schema.PartitionState.OFFLINE
_SUCCEEDED = sum(1 << code for code in Code if code.succeeded)
_SUCCESS = np.array([Code(number).succeeded for number in range(len(Code))])
_UNSAID = sum(1 << code for code in (
    Code.DROPPED, Code.NOT_ASKED, Code.ILLEGAL_ARGUMENT, Code.CONTROLLER_MOVED, Code.UNDECODABLE,
))


def transitions(whole: EffectTable, step: int) -> Iterator[pa.Table]:
    """State changes that happened, in the order (row, broker id)."""
    for kept in whole.pieces:
        yield _transitions(kept, step)


def _transitions(kept: EffectTable, step: int) -> pa.Table:
    said = kept.spread
    places: Rows | None = None
    names = (*KEY, "broker", "from_state", "to_state")
    said.ask(names)
    if kept.codes & ~_SUCCEEDED:
        places = np.flatnonzero(_SUCCESS[said.array("code")]).astype(np.int32)
    n, (topic, partition, row, broker, before, after) = said.numbers(names, places)
    if isinstance(broker, int):
        brokers = columns.repeated(broker, n) if broker >= 0 else columns.all_null(pa.int32(), n)
    else:
        brokers = columns.values(broker, columns.Nulls(broker >= 0))
    return pa.table(
        [
            columns.number(step, n), columns.named(topic, n, kept.seen.topic),
            columns.number(partition, n), columns.number(row, n), brokers,
            columns.named(before, n, STATE_NAMES), columns.named(after, n, STATE_NAMES),
        ],
        schema=TRANSITIONS.schema,
    )


def elections(whole: EffectTable, step: int, strategy: Strategy | None) -> Iterator[pa.Table]:
    """Elections and initialisations that were tried, with their outcome."""
    for kept in whole.pieces:
        how, places = _tried(kept)
        if places is None or places.size:
            yield _elections(kept, how, places, step, strategy)


def _tried(kept: EffectTable) -> tuple[Number, Rows | None]:
    """Whether it was an election (1) or an initialisation (0), and which effects were either."""
    logged = kept.codes >> Code.CONFIG_LOOKUP_LOGGED & 1
    if kept.every_kinds & KIND_ELECTION and not logged:
        return 1, None
    said = kept.spread
    said.ask(["from_state", "to_state"])
    if not kept.kinds & KIND_ELECTION and said.number("to_state") == OFFLINE_PARTITION:
        return 0, EMPTY_ROWS
    said.ask(["kinds", "code"])
    tried = (said.array("kinds") & KIND_ELECTION) != 0
    tried &= said.array("code") != Code.CONFIG_LOOKUP_LOGGED
    first = said.array("from_state") == len(schema.REPLICA_STATE_NAMES) + PartitionState.NEW
    first &= said.array("to_state") == len(schema.REPLICA_STATE_NAMES) + PartitionState.ONLINE
    places = np.flatnonzero(tried | first).astype(np.int32)
    return tried[places].astype(np.int32), places


_ELECTED = (
    *KEY, "leader_before", "leader", "leader_epoch", "version", "recovery", "code", "kinds",
)


def _elections(
    kept: EffectTable, how: Number, places: Rows | None, step: int, strategy: Strategy | None
) -> pa.Table:
    said = kept.spread
    said.ask(_ELECTED, ["isr_before", "isr"], leads=False)
    n, numbers = said.numbers(_ELECTED, places)
    topic, partition, row, before, leader, epoch, version, recovery, code, kinds = numbers
    isr_before, isr = (said.ids(name, places, leads=False) for name in ("isr_before", "isr"))
    names = (INITIALIZATION, "" if strategy is None else strategy.name)
    return pa.table(
        [
            columns.number(step, n), columns.named(topic, n, kept.seen.topic),
            columns.number(partition, n), columns.number(row, n), columns.named(how, n, names),
            columns.number(before, n), columns.number(leader, n), isr_before.column, isr.column,
            columns.number(epoch, n), columns.number(version, n),
            columns.number(recovery, n, dtype=np.int8),
            columns.flags(kinds, KIND_UNCLEAN, n), columns.named(code, n, CODE_NAMES),
        ],
        schema=ELECTIONS.schema,
    )


_LOGGED = (1 << len(Code)) - 1 & ~_SUCCEEDED & ~_UNSAID
"""Bit c set: Kafka logs a code c."""


def refused(kept: EffectTable) -> bool:
    """Whether Kafka's error log names some target."""
    return bool(kept.codes & _LOGGED)


def refusals(
    kept: EffectTable, step: int, strategy: Strategy | None, profile: Profile
) -> pa.Table:
    """Kafka's error log: what was refused, with the states as Kafka logs them."""
    places = np.empty(len(kept), np.int32)
    n = journal_tables.list_codes(kept.as_bytes, kept.wide, _LOGGED, places)
    some = kept.records.take(places[:n])
    lookups = np.flatnonzero(some["code"] == Code.CONFIG_LOOKUP_FAILED)
    order = np.sort(np.concatenate([np.arange(some.size), lookups]), kind="stable")
    some = some.take(order) if lookups.size else some
    classes = ("StateChangeFailed", "IllegalState", "StoreError", "NoReplicaOnline")
    errors = {code: profile.error_of(code, strategy) for code in Code}
    error = np.array([classes.index(errors[c]) if errors[c] in classes else 0 for c in Code])
    which = error[some["code"]].astype(np.int32)
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
    broker = some["broker"]
    ids = np.append(kept.seen.broker_id, np.int32(-1))[np.maximum(broker, -1)]
    n = some.size
    return pa.table(
        [
            columns.number(step, n), columns.named(some["topic_row"].copy(), n, kept.seen.topic),
            columns.values(some["partition"].copy()), columns.values(some["row"].copy()),
            columns.values(ids, columns.Nulls(broker >= 0)),
            _states(some, "from_state"), _states(logged, "to_state"),
            columns.named(logged["code"].astype(np.int32), n, CODE_NAMES),
            columns.named(which, n, classes),
        ],
        schema=REFUSALS.schema,
    )


def _states(records: npt.NDArray[Any], name: str) -> Column:
    """Kafka's names of the states in a field; partitions and replicas may be mixed."""
    shift = np.where(records["broker"] < 0, len(schema.REPLICA_STATE_NAMES), 0)
    return columns.named((records[name] + shift).astype(np.int32), records.size, STATE_NAMES)
