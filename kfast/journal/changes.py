"""Tables of what changed in one step: transitions, elections, refusals.

Source: specification, sections 2.3, 3.4 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal import columns
from kfast.journal.columns import IDS, NAME, StepNumber
from kfast.journal.kept import Kept
from kfast.kernels import journal_tables
from kfast.profiles import Profile
from kfast.schema import Code, Strategy

TRANSITIONS = pa.schema([
    ("step", pa.int32()), ("topic", NAME), ("partition", pa.int32()), ("broker_id", pa.int32()),
    ("from_state", NAME), ("to_state", NAME),
])
ELECTIONS = pa.schema([
    ("step", pa.int32()), ("topic", NAME), ("partition", pa.int32()), ("strategy", NAME),
    ("leader_before", pa.int32()), ("leader", pa.int32()), ("isr_before", IDS), ("isr", IDS),
    ("leader_epoch", pa.int32()), ("version", pa.int32()), ("recovery", pa.int8()),
    ("unclean", pa.bool_()), ("code", NAME),
])
REFUSALS = pa.schema([
    ("step", pa.int32()), ("topic", NAME), ("partition", pa.int32()), ("broker_id", pa.int32()),
    ("from_state", NAME), ("to_state", NAME), ("code", NAME), ("error", NAME),
])
INITIALIZATION = "INITIALIZATION"
CODE_NAMES = tuple(Code(number).name for number in range(len(Code)))
STATE_NAMES = schema.REPLICA_STATE_NAMES + schema.PARTITION_STATE_NAMES
_SUCCEEDED = sum(1 << code for code in Code if code.succeeded)
_UNSAID = sum(1 << code for code in (
    Code.DROPPED, Code.NOT_ASKED, Code.ILLEGAL_ARGUMENT, Code.CONTROLLER_MOVED, Code.UNDECODABLE,
))


def transitions(kept: Kept, step: StepNumber) -> pa.Table:
    """State changes that happened, in the order (row, broker id)."""
    numbers = np.empty((5, len(kept)), np.int32)
    n = journal_tables.fill_transitions(
        kept.as_bytes, kept.wide, kept.seen.broker_id, _SUCCEEDED, numbers
    )
    nulls = columns.Nulls(numbers[2, :n] >= 0)
    return pa.table(
        [
            step.column(n), columns.named(numbers[0, :n], kept.seen.topic),
            columns.values(numbers[1, :n]), columns.values(numbers[2, :n], nulls),
            columns.named(numbers[3, :n], STATE_NAMES), columns.named(numbers[4, :n], STATE_NAMES),
        ],
        schema=TRANSITIONS,
    )


def elections(whole: Kept, step: StepNumber, strategy: Strategy | None) -> Iterator[pa.Table]:
    """Elections and initialisations that were tried, with their outcome."""
    for kept in whole.pieces():
        yield _elections(kept, step, strategy)


def _elections(kept: Kept, step: StepNumber, strategy: Strategy | None) -> pa.Table:
    room = len(kept)
    numbers, offsets = np.empty((8, room), np.int32), np.zeros((2, room + 1), np.int32)
    values = np.empty((2, max(room * kept.n_slots, 1)), np.int32)
    recovery, unclean = np.zeros(room, np.int8), np.zeros(room, np.bool_)
    found = np.zeros(3, np.int64)
    journal_tables.fill_elections(
        kept.as_bytes, kept.wide, kept.n_slots, kept.seen.broker_id, numbers, offsets, values,
        recovery, unclean.view(np.uint8), found,
    )
    n, *ends = found.tolist()
    names = (INITIALIZATION, "" if strategy is None else strategy.name)
    topic, partition, how, before, leader, epoch, version, code = numbers[:, :n]
    return pa.table(
        [
            step.column(n), columns.named(topic, kept.seen.topic), columns.values(partition),
            columns.named(how, names), columns.values(before), columns.values(leader),
            columns.lists(offsets[0], values[0], n, ends[0]),
            columns.lists(offsets[1], values[1], n, ends[1]), columns.values(epoch),
            columns.values(version), columns.values(recovery[:n]), columns.booleans(unclean[:n]),
            columns.named(code, CODE_NAMES),
        ],
        schema=ELECTIONS,
    )


_LOGGED = (1 << len(Code)) - 1 & ~_SUCCEEDED & ~_UNSAID
"""Bit c set: Kafka logs a code c."""


def refused(kept: Kept) -> bool:
    """Whether Kafka's error log names some target."""
    return bool(kept.codes & _LOGGED)


def refusals(
    kept: Kept, step: StepNumber, strategy: Strategy | None, profile: Profile
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
    return pa.table(
        [
            step.column(some.size), columns.named(some["topic_row"].copy(), kept.seen.topic),
            columns.values(some["partition"].copy()),
            columns.values(ids, columns.Nulls(broker >= 0)),
            _states(some, "from_state"), _states(logged, "to_state"),
            columns.named(logged["code"].astype(np.int32), CODE_NAMES),
            columns.named(which, classes),
        ],
        schema=REFUSALS,
    )


def _states(records: npt.NDArray[Any], name: str) -> pa.DictionaryArray:
    """Kafka's names of the states in a field; partitions and replicas may be mixed."""
    shift = np.where(records["broker"] < 0, len(schema.REPLICA_STATE_NAMES), 0)
    return columns.named((records[name] + shift).astype(np.int32), STATE_NAMES)
