"""Tables of what changed in one step: transitions, elections, refusals.

Source: docs/controller.md, sections 2.3, 3.4 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal.effect_columns import (
    ArrowColumn,
    booleans,
    id_lists,
    keys,
    names,
    nullable_brokers,
    numbers,
    repeated,
    split,
)
from kfast.journal.effects import KIND_ELECTION, KIND_UNCLEAN, EffectTable, JournalRules
from kfast.schema import ELECTIONS, REFUSALS, TRANSITIONS, Code, PartitionState, Strategy
from kfast.state.records import EMPTY_ROWS, Rows

INITIALIZATION = "INITIALIZATION"
CODE_NAMES = tuple(Code(number).name for number in range(len(Code)))
STATE_NAMES = schema.REPLICA_STATE_NAMES + schema.PARTITION_STATE_NAMES
ERROR_CLASSES = ("StateChangeFailed", "IllegalState", "StoreError", "NoReplicaOnline")
_SUCCESS = np.array([Code(number).succeeded for number in range(len(Code))])
_NOT_LOGGED = (
    Code.DROPPED, Code.NOT_ASKED, Code.ILLEGAL_ARGUMENT, Code.CONTROLLER_MOVED, Code.UNDECODABLE,
)
_LOGGED = ~_SUCCESS & ~np.isin(np.arange(len(Code)), _NOT_LOGGED)
"""Whether Kafka's error log names the target of a code."""


def transitions(table: EffectTable, step: int) -> Iterator[pa.Table]:
    """State changes that happened, in the order (row, broker id)."""
    columns = table.columns
    for places in list(split(np.flatnonzero(_SUCCESS[columns["code"]]), 1)) or [EMPTY_ROWS]:
        brokers = columns["broker"][places]
        yield pa.table(
            [
                repeated(step, pa.int32(), places.size), *keys(table, places),
                nullable_brokers(table, brokers), _states(brokers, columns["from_state"][places]),
                _states(brokers, columns["to_state"][places]),
            ],
            schema=TRANSITIONS.schema,
        )


def _states(brokers: npt.NDArray[np.int32], states: npt.NDArray[np.int8]) -> ArrowColumn:
    """Kafka's names of states; partitions and replicas may be mixed."""
    shift = np.int8(len(schema.REPLICA_STATE_NAMES))
    return names(states + shift * (brokers < 0), STATE_NAMES)


_ELECTED = (
    "leader_before", "leader", "leader_epoch", "version", "isr_before", "isr", "recovery",
)


def elections(
    table: EffectTable, step: int, strategy: Strategy | None
) -> Iterator[pa.Table]:
    """Elections and initialisations that were tried, with their outcome."""
    columns = table.columns
    tried = (columns["kinds"] & KIND_ELECTION) != 0
    tried &= columns["code"] != Code.CONFIG_LOOKUP_LOGGED
    first = (columns["broker"] < 0) & (columns["from_state"] == PartitionState.NEW)
    first &= columns["to_state"] == PartitionState.ONLINE
    causes = (INITIALIZATION, "" if strategy is None else strategy.name)
    for places in split(np.flatnonzero(tried | first), table.replicas.shape[1]):
        before, leader, epoch, version, isr_before, isr, recovery = table.take(_ELECTED, places)
        yield pa.table(
            [
                repeated(step, pa.int32(), places.size), *keys(table, places),
                names(tried[places].view(np.uint8), causes),
                numbers(table.cluster.ids_of(before)), numbers(table.cluster.ids_of(leader)),
                id_lists(table, places, isr_before), id_lists(table, places, isr),
                numbers(epoch), numbers(version), numbers(recovery.view(np.int8)),
                booleans((columns["kinds"][places] & KIND_UNCLEAN) != 0),
                names(columns["code"][places], CODE_NAMES),
            ],
            schema=ELECTIONS.schema,
        )


def refusals(
    table: EffectTable, step: int, strategy: Strategy | None, rules: JournalRules
) -> Iterator[pa.Table]:
    """Kafka's error log: what was refused, with the states as Kafka logs them."""
    places = np.flatnonzero(_LOGGED[table.columns["code"]])
    lookups = places[table.columns["code"][places] == Code.CONFIG_LOOKUP_FAILED]
    # A failed look-up is logged by itself, before the election that fails for it.
    logged: Rows = np.sort(np.concatenate([places, lookups])).astype(np.int32)
    if logged.size:
        yield _refusals(table, logged, step, strategy, rules)


def _refusals(
    table: EffectTable, places: Rows, step: int, strategy: Strategy | None, rules: JournalRules
) -> pa.Table:
    code, before, target, brokers = (
        table.columns[name][places] for name in ("code", "from_state", "to_state", "broker")
    )
    errors = [rules.error_of(code, strategy) for code in Code]
    classes = np.array([ERROR_CLASSES.index(e) if e in ERROR_CLASSES else 0 for e in errors])
    error = classes[code]
    lookups = np.flatnonzero(
        (code == Code.CONFIG_LOOKUP_FAILED) & np.append(places[1:] == places[:-1], False)
    )
    error[lookups] = ERROR_CLASSES.index("StoreError")
    if not rules.logs_real_targets:
        target[code == Code.LEADER_IS_NEW_REPLICA] = schema.ReplicaState.OFFLINE
        target[code == Code.CREATE_CALL_FAILED] = PartitionState.NEW
    code[code == Code.CONFIG_LOOKUP_LOGGED] = Code.CONFIG_LOOKUP_FAILED
    return pa.table(
        [
            repeated(step, pa.int32(), places.size), *keys(table, places),
            nullable_brokers(table, brokers), _states(brokers, before), _states(brokers, target),
            names(code, CODE_NAMES), names(error, ERROR_CLASSES),
        ],
        schema=REFUSALS.schema,
    )
