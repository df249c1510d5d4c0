"""The tables of an outcome at level `full`, made from the effects of its steps.

A table has the columns of its schema. Most of them come from a field of an effect in the same way
wherever they occur (`SOURCES`), so that one pass over the effects of a table fills them all; each
table says only which effects it is of, and the columns that are its own.

Source: docs/controller.md, sections 2.3, 3.4, 4 and 5; Kafka 3.9,
`AbstractControllerBrokerRequestBatch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.journal.columns import Bits, Column, Constant, names
from kfast.journal.effects import KEYS, KIND_ADDS, EffectTable, JournalRules
from kfast.journal.outcome import KINDS, LEADER_AND_ISR, STOP_REPLICA
from kfast.kernels import journal as kernels
from kfast.schema import (
    KIND_DELETE,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_QUEUED,
    KIND_UNCLEAN,
    Code,
    PartitionState,
    Strategy,
)
from kfast.state.arrow_views import empty
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.state.tables import restore_orders

Columns: TypeAlias = dict[str, Column | Constant]
Flags: TypeAlias = npt.NDArray[np.uint8]

MOST_VALUES = 2**27
"""Values of one list column of one Arrow array, at most; its offsets could count to 2**31."""
NO_FLAGS: Flags = np.empty(0, np.uint8)

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


class Form(IntEnum):
    """How the values of a column come from its source; a test compares it with the kernel's."""

    NUMBER = 0
    BROKER = 1
    SLOTS = 2
    ASSIGNED = 3


@dataclass(frozen=True)
class Source:
    """Where a column of a table comes from.

    Attributes
    ----------
    form : Form
    field : str
        Of an effect, or what an `EffectTable` has beside them.
    in_stop : str or None
        The field that StopReplica has in its place. The same field: it is in every request; None:
        only LeaderAndIsr has it.
    """

    form: Form
    field: str
    in_stop: str | None = None


SOURCES = {
    **{name: Source(Form.NUMBER, name, name) for name in KEYS},
    **{
        name: Source(Form.NUMBER, name)
        for name in ("version", "controller_epoch", "recovery", "from_state", "to_state")
    },
    "leader_epoch": Source(Form.NUMBER, "leader_epoch", "stop_epoch"),
    "broker_id": Source(Form.BROKER, "broker"),
    "leader_before": Source(Form.BROKER, "leader_before"),
    "leader": Source(Form.BROKER, "leader"),
    "to": Source(Form.SLOTS, "recipients", "broker"),
    "replicas": Source(Form.ASSIGNED, "n_replicas"),
    "offline_replicas": Source(Form.SLOTS, "offline"),
    **{name: Source(Form.SLOTS, name) for name in ("isr_before", "isr", "adding", "removing")},
}
"""Columns that come from effects in the same way in every table that has them."""


RESULTS = (
    schema.TRANSITIONS, schema.ELECTIONS, schema.REFUSALS, schema.ADDITIONS, schema.REQUESTS,
    schema.UPDATE_METADATA, schema.UPDATE_METADATA_BROKERS,
)
TYPES = {
    table.name: {field.name: field.type.to_pandas_dtype() for field in table.schema}
    for table in RESULTS
}
"""Columns of each table, and numpy's types of those that are numbers."""

# --- columns ------------------------------------------------------------------------------------


def most_rows(n_slots: int) -> int:
    """Rows of one array whose lists have so many values each, at most."""
    return max(MOST_VALUES // max(n_slots, 1), 1)


def split(places: npt.NDArray[Any], n_slots: int) -> Iterator[Rows]:
    """Parts of places, so that Arrow can count lists that have so many values each."""
    for begin in range(0, places.size, most := most_rows(n_slots)):
        yield places[begin : begin + most].astype(np.int32, copy=False)


def _nulls(valid: Bits) -> Bits | None:
    return None if valid.all() else valid


def _states(brokers: Rows, states: npt.NDArray[np.int8]) -> Column | Constant:
    """Kafka's names of states; partitions and replicas may be mixed."""
    shift = np.int8(len(schema.REPLICA_STATE_NAMES))
    return names(states + shift * (brokers < 0), STATE_NAMES)


def _nullable_brokers(ids: Rows) -> Column | Constant:
    if (ids < 0).all():
        return Constant(None, pa.int32(), ids.size)
    return Column(ids, ids >= 0)


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a table, few enough for one Arrow array per column.

    Attributes
    ----------
    effects : EffectTable
    step : int
    places : (m,) int32
        The effect that each row is of.
    requests : (m,) uint8, or (0,)
        Index in `KINDS`, in tables whose rows are of several kinds of request.
    """

    effects: EffectTable
    step: int
    places: Rows
    requests: Flags

    def numbers(self, *columns: str) -> list[npt.NDArray[Any]]:
        """Columns that are no lists, as arrays."""
        return [values for values, _ in self._fill(columns).values()]

    def columns(self, result: schema.ResultTable, own: Mapping[str, Column | Constant]) -> Columns:
        """All columns of a table: its own, and those of `SOURCES`."""
        types = TYPES[result.name]
        columns: Columns = {"step": Constant(self.step, pa.int32(), self.places.size), **own}
        if "adding" in types and not self.effects.reassigning:
            begins = np.zeros(self.places.size + 1, np.int32)
            columns["adding"] = Column(EMPTY_ROWS, self._valid("adding"), begins)
            columns["removing"] = columns["adding"]
        filled = self._fill([name for name in types if name not in columns])
        for name, (values, offsets) in filled.items():
            if name == "topic":
                columns[name] = Column(values, texts=self.effects.topic)
            elif offsets is None:
                columns[name] = Column(values.view(types[name]), self._valid(name))
            else:
                orders, rows = self.effects.list_orders, self.effects.field("partition_row")
                restore_orders(orders, name, rows[self.places], offsets, values)
                columns[name] = Column(values, self._valid(name), offsets)
        return {name: columns[name] for name in types}

    def _fill(self, columns: Sequence[str]) -> dict[str, tuple[npt.NDArray[Any], Rows | None]]:
        """Values of columns, and of lists where each of them begins."""
        m, width = self.places.size, max(self.effects.replicas.shape[1], 1)
        arguments = []
        for name in columns:
            source = SOURCES[name]
            values = self.effects.field(source.field)
            in_stop = values if source.in_stop == source.field else None
            if source.in_stop is not None and in_stop is None:
                in_stop = self.effects.field(source.in_stop)
            is_list = source.form in (Form.SLOTS, Form.ASSIGNED)
            arguments.append((
                source.form, values, in_stop,
                empty(m * width, np.int32) if is_list else empty(m, values.dtype),
                empty(m + 1, np.int32) if is_list else None,
            ))
        ends = kernels.fill_columns(
            self.effects.replicas, self.effects.broker_id, self.places, self.requests, arguments
        )
        return {
            name: (values if offsets is None else values[:end], offsets)
            for name, (*_, values, offsets), end in zip(columns, arguments, ends, strict=True)
        }

    def _valid(self, column: str) -> Bits | None:
        """Rows in which a column is not null; None: all."""
        source = SOURCES[column]
        if not self.requests.size or source.in_stop == source.field:
            return None
        valid = self.requests == LEADER_AND_ISR
        if source.in_stop is not None:
            valid |= self.requests == STOP_REPLICA
        return _nulls(valid)


# --- what changed -------------------------------------------------------------------------------


def transitions(effects: EffectTable, step: int) -> Iterator[Columns]:
    """State changes that happened, in the order (row, broker id)."""
    for places in split(np.flatnonzero(_SUCCESS[effects.codes]), 1):
        part = Part(effects, step, places, NO_FLAGS)
        brokers, before, after = part.numbers("broker_id", "from_state", "to_state")
        yield part.columns(schema.TRANSITIONS, {
            "broker_id": _nullable_brokers(brokers), "from_state": _states(brokers, before),
            "to_state": _states(brokers, after),
        })


def elections(
    effects: EffectTable, step: int, strategy: Strategy | None
) -> Iterator[Columns]:
    """Elections and initialisations that were tried, with their outcome."""
    elected = (effects.kinds & KIND_ELECTION) != 0
    elected &= effects.codes != Code.CONFIG_LOOKUP_LOGGED
    tried = elected.copy()
    others = Part(effects, step, np.flatnonzero(~elected).astype(np.int32), NO_FLAGS)
    brokers, before, after = others.numbers("broker_id", "from_state", "to_state")
    first = (before == PartitionState.NEW) & (after == PartitionState.ONLINE)
    tried[others.places] = first & (brokers < 0)
    causes = (INITIALIZATION, "" if strategy is None else strategy.name)
    for places in split(np.flatnonzero(tried), effects.replicas.shape[1]):
        yield Part(effects, step, places, NO_FLAGS).columns(schema.ELECTIONS, {
            "strategy": names(elected[places].view(np.uint8), causes),
            "unclean": Column((effects.kinds[places] & KIND_UNCLEAN) != 0),
            "code": names(effects.codes[places], CODE_NAMES),
        })


def refusals(
    effects: EffectTable, step: int, strategy: Strategy | None, rules: JournalRules
) -> Iterator[Columns]:
    """Kafka's error log: what was refused, with the states as Kafka logs them."""
    refused = np.flatnonzero(_LOGGED[effects.codes])
    lookups = refused[effects.codes[refused] == Code.CONFIG_LOOKUP_FAILED]
    # A failed look-up is logged by itself, before the election that fails for it.
    places: Rows = np.sort(np.concatenate([refused, lookups])).astype(np.int32)
    if not places.size:
        return
    part = Part(effects, step, places, NO_FLAGS)
    brokers, before, target = part.numbers("broker_id", "from_state", "to_state")
    code = effects.codes[places]
    errors = [rules.error_of(each, strategy) for each in Code]
    classes = np.array([ERROR_CLASSES.index(e) if e in ERROR_CLASSES else 0 for e in errors])
    error = classes[code]
    is_lookup = (code == Code.CONFIG_LOOKUP_FAILED) & np.append(places[1:] == places[:-1], False)
    error[is_lookup] = ERROR_CLASSES.index("StoreError")
    if not rules.logs_real_targets:
        target[code == Code.LEADER_IS_NEW_REPLICA] = schema.ReplicaState.OFFLINE
        target[code == Code.CREATE_CALL_FAILED] = PartitionState.NEW
    code[code == Code.CONFIG_LOOKUP_LOGGED] = Code.CONFIG_LOOKUP_FAILED
    yield part.columns(schema.REFUSALS, {
        "broker_id": _nullable_brokers(brokers), "from_state": _states(brokers, before),
        "to_state": _states(brokers, target), "code": names(code, CODE_NAMES),
        "error": names(error, ERROR_CLASSES),
    })


# --- requests -----------------------------------------------------------------------------------


def additions(effects: EffectTable, step: int) -> Iterator[Columns]:
    """What was added to the batch, in order; `to` is null for UpdateMetadata."""
    most = 3 * len(effects)
    places, added = empty(most, np.int32), empty(most, np.uint8)
    n = kernels.list_additions(effects.kinds, places, added)
    for begin in range(0, n, most := most_rows(effects.replicas.shape[1])):
        chosen = slice(begin, min(begin + most, n))
        part = Part(effects, step, places[chosen], added[chosen])
        yield part.columns(schema.ADDITIONS, _flag_columns(part, effects.kinds[part.places]))


def _flag_columns(part: Part, flags: Flags) -> Columns:
    """Columns kind, is_new and delete."""
    return {
        "kind": names(part.requests, KINDS),
        "is_new": Column((flags & KIND_IS_NEW) != 0, _nulls(part.requests == LEADER_AND_ISR)),
        "delete": Column((flags & KIND_DELETE) != 0, _nulls(part.requests == STOP_REPLICA)),
    }


def request_counts(effects: EffectTable) -> npt.NDArray[np.int64]:
    """(2, B) partitions in the LeaderAndIsr and in the StopReplica request to each broker.

    Parameters
    ----------
    effects : EffectTable
        In the order of rows.
    """
    counts = np.zeros((2, effects.registered.size), np.int64)
    for stops in (False, True):
        _list_requests(effects, stops, counts[int(stops)], EMPTY_ROWS, NO_FLAGS)
    return counts


def _list_requests(
    effects: EffectTable, stops: bool, cursors: npt.NDArray[np.int64], places: Rows, flags: Flags
) -> None:
    kernels.list_requests(
        effects.effects, effects.replicas, effects.registered.view(np.uint8), stops, cursors,
        places, flags,
    )


def requests(unordered: EffectTable, step: int) -> Iterator[Columns]:
    """What was sent, one row per (kind, broker, partition); unregistered brokers get none.

    Of what effects add for a broker and partition the last is sent (sections 5.1 and 5.3).
    """
    effects = unordered.by_row
    for kind, counts in zip((LEADER_AND_ISR, STOP_REPLICA), request_counts(effects), strict=True):
        n, begins = int(counts.sum()), np.cumsum(counts) - counts
        places, flags = empty(n, np.int32), empty(n, np.uint8)
        if n:
            _list_requests(effects, kind == STOP_REPLICA, begins, places, flags)
        brokers = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
        for begin in range(0, n, most := most_rows(effects.replicas.shape[1])):
            chosen = slice(begin, begin + most)
            kinds = np.full(places[chosen].size, kind, np.uint8)
            part = Part(effects, step, places[chosen], kinds)
            yield part.columns(schema.REQUESTS, {
                "broker_id": Column(effects.broker_id[brokers[chosen]]),
                "broker_epoch": Column(effects.broker_epoch[brokers[chosen]]),
                **_flag_columns(part, flags[chosen]),
            })


def metadata(unordered: EffectTable, step: int, *, merges: bool) -> Iterator[Columns]:
    """The partitions of an UpdateMetadata, with the markers of queued topics (section 5.2).

    With `merges` only the last effect of each partition that announces it; otherwise every effect.
    """
    effects = unordered.by_row if merges else unordered
    announced = effects.metadata_places() if merges else np.arange(len(effects))
    for places in split(announced, effects.replicas.shape[1]):
        part, own = Part(effects, step, places, NO_FLAGS), {}
        if effects.all_kinds & KIND_QUEUED:
            queued = (effects.kinds[places] & KIND_QUEUED) != 0
            leader, epoch, version = part.numbers("leader", "leader_epoch", "version")
            leader[queued], epoch[queued], version[queued] = schema.LEADER_DURING_DELETE, 0, 0
            own = {
                "leader": Column(leader), "leader_epoch": Column(epoch),
                "version": Column(version),
            }
        yield part.columns(schema.UPDATE_METADATA, own)


# --- steps --------------------------------------------------------------------------------------


SCHEMAS = {table.name.removeprefix("outcome."): table.schema for table in RESULTS}
CHANGES = ("transitions", "elections", "refusals", "additions")
SENDS = ("requests", "update_metadata")


@dataclass(frozen=True, eq=False)
class Step:
    """One step of an outcome at level `full`.

    Attributes
    ----------
    number : int
    effects : EffectTable
        What became of each target.
    shows : sequence of str
        Tables that have a share of this step.
    rules : JournalRules
        What the version that is simulated logs.
    replicas : bool
        Whether replicas moved: then nobody was elected.
    strategy : Strategy or None
        Of an election.
    announced : EffectTable or None
        What UpdateMetadata says, where LeaderAndIsr says something else.
    merges : bool
        UpdateMetadata says the last effect of each partition, not every one.
    """

    number: int
    effects: EffectTable
    shows: Sequence[str]
    rules: JournalRules
    replicas: bool = False
    strategy: Strategy | None = None
    announced: EffectTable | None = None
    merges: bool = True

    def tables(self, name: str) -> Iterator[Columns]:
        """Yield this step's share of a table, in parts of columns; nothing where it has none."""
        effects, number = self.effects, self.number
        announced = effects if self.announced is None else self.announced
        if name not in self.shows or not len(effects if name != "update_metadata" else announced):
            return
        if name == "transitions":
            yield from transitions(effects, number)
        elif name == "elections" and not self.replicas:
            yield from elections(effects, number, self.strategy)
        elif name == "refusals":
            yield from refusals(effects, number, self.strategy, self.rules)
        elif name == "additions" and effects.all_kinds & KIND_ADDS:
            yield from additions(effects, number)
        elif name == "requests" and effects.all_kinds & KIND_ADDS:
            yield from requests(effects, number)
        elif name == "update_metadata" and announced.all_kinds & KIND_LEADER_AND_ISR:
            yield from metadata(announced, number, merges=self.merges)


def make_table(name: str, steps: Iterable[Step], announced: Mapping[int, Rows]) -> pa.Table:
    """One of the tables of an outcome, from the steps that it had.

    `announced` says which broker ids each step's UpdateMetadata went to.
    """
    wanted = SCHEMAS[name]
    parts = [
        pa.table([column.to_arrow() for column in part.values()], schema=wanted)
        for part in _parts(name, steps, announced)
    ]
    return pa.concat_tables(parts) if parts else wanted.empty_table()


def make_rows(
    name: str, steps: Iterable[Step], announced: Mapping[int, Rows]
) -> list[dict[str, Any]]:
    """The rows of such a table as dictionaries."""
    return [
        dict(zip(part, values, strict=True)) for part in _parts(name, steps, announced)
        for values in zip(*(column.to_list() for column in part.values()), strict=True)
    ]


def _parts(
    name: str, steps: Iterable[Step], announced: Mapping[int, Rows]
) -> Iterator[Columns]:
    if name == "update_metadata_brokers":
        sizes = [ids.size for ids in announced.values()]
        numbers = np.repeat(np.fromiter(announced, np.int32, len(announced)), sizes)
        ids = np.concatenate([*announced.values(), np.empty(0, np.int32)])
        yield {"step": Column(numbers), "broker_id": Column(ids)}
    for step in steps:
        yield from step.tables(name)
