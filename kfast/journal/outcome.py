"""Outcome: what one event, or one call of a machine, did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import ArgumentError
from kfast.schema import AlterCode, Code
from kfast.state.records import Rows

KINDS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
REQUEST_COUNTS = pa.schema([
    ("step", pa.int32()), ("kind", pa.dictionary(pa.int32(), pa.string())),
    ("broker_id", pa.int32()), ("partitions", pa.int64()),
])
FULL_TABLES = (
    "transitions", "elections", "refusals", "additions", "requests", "update_metadata",
    "update_metadata_brokers",
)


@dataclass(frozen=True)
class Counts:
    """Totals of one outcome; at journal level `off` all are zero.

    Attributes
    ----------
    transitions : mapping of (from, to) to int
        State changes, by Kafka's names of the states.
    codes : mapping of str to int
        How often each `schema.Code` was the outcome of one replica or partition.
    leaders_moved : int
        Elections that replaced one leader by another.
    unclean_elections : int
        Leaders chosen outside the ISR, as Kafka's meter counts them.
    requests : mapping of str to int
        Requests sent, by kind.
    request_partitions : mapping of str to int
        Partitions in them, by kind: summed over brokers.
    """

    transitions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    codes: Mapping[str, int] = field(default_factory=dict)
    leaders_moved: int = 0
    unclean_elections: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    request_partitions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestCounts:
    """How many partitions each request names, as arrays over broker rows; -1 for no request.

    Attributes
    ----------
    broker_id : (B,) int32
    sent : list of (step, kind, (B,) int64)
    """

    broker_id: Rows
    sent: list[tuple[int, int, npt.NDArray[np.int64]]] = field(default_factory=list)

    def totals(self) -> tuple[dict[str, int], dict[str, int]]:
        """Requests, and partitions in them, by kind."""
        n, partitions = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        for _, kind, values in self.sent:
            n[KINDS[kind]] += int(np.count_nonzero(values >= 0))
            partitions[KINDS[kind]] += int(values[values >= 0].sum())
        return n, partitions

    def table(self, shift: int = 0) -> pa.Table:
        """One row per request; `shift` is added to the steps."""
        some = [np.flatnonzero(values >= 0) for _, _, values in self.sent]
        sizes = [at.size for at in some]
        steps = np.repeat([step + shift for step, _, _ in self.sent], sizes)
        kinds = np.repeat([kind for _, kind, _ in self.sent], sizes)
        brokers = np.concatenate([*(self.broker_id[at] for at in some), self.broker_id[:0]])
        counts = [values[at] for (_, _, values), at in zip(self.sent, some, strict=True)]
        names = pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), pa.array(KINDS))
        return pa.table(
            [
                pa.array(steps.astype(np.int32)), names, pa.array(brokers),
                pa.array(np.concatenate([*counts, np.empty(0, np.int64)])),
            ],
            schema=REQUEST_COUNTS,
        )


class Outcome:
    """What happened: counts, and at journal level `full` every row of it as Arrow tables.

    Attributes
    ----------
    event : str
        Name of the event or call.
    level : str
        Journal level that it was recorded at.
    counts : Counts
    actions : tuple of str
        What was done, in order; as a table in `steps`.
    sent : RequestCounts
        Requests sent; as a table in `request_counts`.
    transitions, elections, refusals, additions, requests, update_metadata,
    update_metadata_brokers : pa.Table
        Every row; only at level `full`.
    codes : (n,) uint8
        Of a machine's call: `schema.Code` per target, in the order given (replicas: in the order
        row, ascending broker id).
    in_result : (n,) bool
        Of a partition machine's call: whether Kafka's result map has an entry.
    failure : Code or None
        The call failed as a whole.
    error : str or None
        Kafka's answer to a request that it refuses as a whole.
    remaining : (n,) int32
        Of a controlled shutdown: partition rows that the broker still leads.
    replies : pa.Table
        Of an election on demand: topic, partition, leader, error.
    imbalance : pa.Table
        Of a rebalance: broker_id, preferred, led_by_others, ratio.
    alter_codes : (n,) uint8
        Of `alter_partition`: `schema.AlterCode` per partition, in the order given.
    altered : (n,) int32
        Of `catch_up`: the partition rows that `alter_codes` speaks of.
    notes : tuple of str
        What was left out.
    """

    def __init__(self, event: str, level: str) -> None:
        self.event = event
        self.level = level
        self.counts = Counts()
        self.actions: tuple[str, ...] = ()
        self.sent: RequestCounts = RequestCounts(np.empty(0, np.int32))
        self.codes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self.in_result: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.failure: Code | None = None
        self.error: str | None = None
        self.remaining: Rows = np.empty(0, np.int32)
        self.replies: pa.Table | None = None
        self.imbalance: pa.Table | None = None
        self.altered: Rows = np.empty(0, np.int32)
        self.alter_codes: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self.notes: tuple[str, ...] = ()
        self.batches: list[dict[str, Any]] = []
        self.tables: dict[str, pa.Table] = {}

    @cached_property
    def steps(self) -> pa.Table:
        """Table of step and action: what was done, in order."""
        numbers = pa.array(np.arange(len(self.actions), dtype=np.int32))
        return pa.table({"step": numbers, "action": pa.array(self.actions, pa.string())})

    @cached_property
    def request_counts(self) -> pa.Table:
        """Table of step, kind, broker_id, partitions: what each request sent names."""
        return self.sent.table()

    def __getattr__(self, name: str) -> pa.Table:
        if name in FULL_TABLES:
            tables: dict[str, pa.Table] = self.__dict__["tables"]
            if name in tables:
                return tables[name]
            raise ArgumentError(
                f"{name} is recorded at journal level 'full' only; this was recorded at "
                f"{self.level!r}"
            )
        raise AttributeError(name)

    def __repr__(self) -> str:
        moved = sum(self.counts.transitions.values())
        return f"<Outcome of {self.event}: {len(self.actions)} steps, {moved} transitions>"

    def alterations(self) -> list[AlterCode]:
        """Answers of an AlterPartition request, in the order asked."""
        return [AlterCode(int(code)) for code in self.alter_codes]

    def by_broker(self) -> dict[int, list[dict[str, Any]]]:
        """Every request sent, per broker in the order of emission, as Kafka's requests say it."""
        from kfast.journal.emission import by_broker

        return by_broker(self)
