"""Outcome: what one event, or one call of a machine, did.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import ArgumentError
from kfast.journal.broker_requests import by_broker
from kfast.schema import (
    BROKER_REGISTERED,
    PARTITION_STATE_NAMES,
    REPLICA_STATE_NAMES,
    REQUEST_COUNTS,
    STEPS,
    TALLY_ANNOUNCED,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_LEADERS_MOVED,
    TALLY_METADATA,
    TALLY_UNCLEAN,
    AlterCode,
    Code,
)
from kfast.state.arrow_views import names_at
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import EMPTY_ROWS, Rows

Key = TypeVar("Key")
NO_CODES: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
NO_RESULTS: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
KINDS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA = 0, 1, 2
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


class StepRequests(NamedTuple):
    """Requests of one kind that one step sent.

    In one batch each broker gets one request. Where every partition has a batch of its own,
    LeaderAndIsr and StopReplica go out once for each partition that they name to a broker, and
    UpdateMetadata once for each batch.

    Attributes
    ----------
    step : int
    kind : int
        Index in `KINDS`.
    recipients : (B,) bool
    named : (B,) int64, or int
        How many partitions they name to each of the recipients.
    batches : int or None
        How many there were; None where all partitions shared one.
    """

    step: int
    kind: int
    recipients: npt.NDArray[np.bool_]
    named: npt.NDArray[np.int64] | int
    batches: int | None = None

    @property
    def partitions(self) -> npt.NDArray[np.int64]:
        """(B,) how many partitions the requests to each broker name."""
        return np.where(self.recipients, self.named, 0)

    @property
    def requests(self) -> npt.NDArray[np.int64]:
        """(B,) how many requests went to each broker."""
        if self.batches is None:
            return self.recipients.astype(np.int64)
        return np.where(
            self.recipients, self.batches if self.kind == UPDATE_METADATA else self.named, 0
        )


class StepTotals(NamedTuple):
    """What the kernels counted in one step; read only when somebody asks.

    Attributes
    ----------
    step : int
    total : (width,) int64
        A tally, summed over threads.
    replicas : bool
        Whether replicas or partitions moved.
    broker_status : (B,) uint8 or None
        As it was, for who was registered; None where the tally does not count requests.
    per_partition : bool
        Every partition had a batch of its own.
    """

    step: int
    total: npt.NDArray[np.int64]
    replicas: bool
    broker_status: npt.NDArray[np.uint8] | None
    per_partition: bool

    def transitions(self) -> dict[tuple[str, str], int]:
        """State changes by Kafka's names."""
        names = REPLICA_STATE_NAMES if self.replicas else PARTITION_STATE_NAMES
        cells = self.total[TALLY_CELLS:TALLY_BROKERS]
        return {
            (names[cell // 8], names[cell % 8]): int(cells[cell])
            for cell in np.flatnonzero(cells).tolist()
        }

    def codes(self) -> dict[str, int]:
        """Outcomes by name."""
        codes = self.total[TALLY_CODES : TALLY_CODES + len(Code)]
        return {Code(code).name: int(codes[code]) for code in np.flatnonzero(codes).tolist()}

    def requests(self) -> list[StepRequests]:
        """Requests sent in this step, unregistered brokers left out (section 5.3)."""
        if self.broker_status is None:
            return []
        registered, n = (self.broker_status & BROKER_REGISTERED) != 0, self.broker_status.size
        per_broker = self.total[TALLY_BROKERS:]
        n_named = int(self.total[TALLY_METADATA])
        n_announced = n_named + int(self.total[TALLY_ANNOUNCED])
        batches = n_announced if self.per_partition else None
        leads, stops = per_broker[:n], per_broker[per_broker.size // 2 :][:n]
        requests = [
            StepRequests(self.step, kind, registered & (counts > 0), counts, batches)
            for kind, counts in ((LEADER_AND_ISR, leads), (STOP_REPLICA, stops))
        ]
        if n_announced:
            requests.append(StepRequests(self.step, UPDATE_METADATA, registered, n_named, batches))
        return requests


def _sum(parts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    total: dict[Key, int] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0) + value
    return total


class Outcome:
    """What happened: counts, and at journal level `full` every row of it as Arrow tables.

    Attributes
    ----------
    event : str
        Name of the event or call.
    level : str
        Journal level that it was recorded at.
    counts : Counts
        Totals; read when asked for.
    actions : tuple of str
        What was done, in order; as a table in `steps`.
    transitions, elections, refusals, additions, requests, update_metadata,
    update_metadata_brokers : pa.Table
        Every row; only at level `full`. Each is made when it is first asked for. `kfast.schema`
        states the columns of these tables and of all others (`docs/results.md`); `partition_row` is
        a row of the controller's state.
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
        Of an election on demand: topic, partition, partition_row, leader, error.
    reassignment_codes : (n,) uint8
        Of a reassignment: `schema.ReassignmentCode` per partition, in the order given.
    imbalance : pa.Table
        Of a rebalance: broker_id, preferred, led_by_others, ratio.
    rebalanced : tuple of int
        Of a rebalance: ids of the brokers whose partitions were asked for, one step each.
    alter_codes : (n,) uint8
        Of `alter_partition`: `schema.AlterCode` per partition, in the order given.
    altered : (n,) int32
        Of `catch_up`: the partition rows that `alter_codes` speaks of.
    senders : tuple of int
        Of `catch_up`: ids of the leaders that reported and were announced, one step each.
    notes : tuple of str
        What was left out.
    """

    def __init__(self, event: str, level: str) -> None:
        self.event = event
        self.level = level
        self.actions: tuple[str, ...] = ()
        self.totals: Sequence[StepTotals] = ()
        self.sent: Sequence[StepRequests] = ()
        self.batches: Sequence[dict[str, Any]] = ()
        self.broker_id: Rows = EMPTY_ROWS
        self.codes = self.alter_codes = self.reassignment_codes = NO_CODES
        self.in_result: npt.NDArray[np.bool_] = NO_RESULTS
        self.failure: Code | None = None
        self.error: str | None = None
        self.remaining = self.altered = EMPTY_ROWS
        self.replies: pa.Table | None = None
        self.imbalance: pa.Table | None = None
        self.rebalanced: tuple[int, ...] = ()
        self.senders: tuple[int, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.make: Callable[[str], pa.Table] | None = None
        self.make_rows: Callable[[str], list[dict[str, Any]]] | None = None
        self._rows: dict[str, list[dict[str, Any]]] = {}

    @cached_property
    def steps(self) -> pa.Table:
        """Table of step and action: what was done, in order."""
        numbers = pa.array(np.arange(len(self.actions), dtype=np.int32))
        return STEPS.table({"step": numbers, "action": pa.array(self.actions, pa.string())})

    @cached_property
    def all_sent(self) -> list[StepRequests]:
        """Requests of every step, in order: LeaderAndIsr, UpdateMetadata, StopReplica."""
        counted = [requests for totals in self.totals for requests in totals.requests()]
        return sorted([*counted, *self.sent], key=lambda requests: (requests.step, requests.kind))

    @cached_property
    def counts(self) -> Counts:
        """Totals of all steps."""
        n, partitions = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        for sent in self.all_sent:
            n[KINDS[sent.kind]] += int(sent.requests.sum())
            partitions[KINDS[sent.kind]] += int(sent.partitions.sum())
        return Counts(
            _sum(totals.transitions() for totals in self.totals),
            _sum(totals.codes() for totals in self.totals),
            sum(int(totals.total[TALLY_LEADERS_MOVED]) for totals in self.totals),
            sum(int(totals.total[TALLY_UNCLEAN]) for totals in self.totals), n, partitions,
        )

    @cached_property
    def request_counts(self) -> pa.Table:
        """Table of step, kind, broker_id, requests, partitions: what each broker was sent."""
        pairs = [(sent, np.flatnonzero(sent.requests)) for sent in self.all_sent]
        sizes = [at.size for _, at in pairs]
        steps = np.repeat([sent.step for sent in self.all_sent], sizes).astype(np.int32)
        kinds = np.repeat([sent.kind for sent in self.all_sent], sizes).astype(np.int32)
        brokers = np.concatenate([*(self.broker_id[at] for _, at in pairs), EMPTY_ROWS])
        empty = np.empty(0, np.int64)
        return REQUEST_COUNTS.table({
            "step": pa.array(steps), "kind": names_at(pa.array(KINDS), kinds),
            "broker_id": pa.array(brokers),
            "requests": np.concatenate([*(sent.requests[at] for sent, at in pairs), empty]),
            "partitions": np.concatenate([*(sent.partitions[at] for sent, at in pairs), empty]),
        })

    def __getattr__(self, name: str) -> pa.Table:
        if name not in FULL_TABLES:
            raise AttributeError(name)
        make: Callable[[str], pa.Table] | None = self.__dict__.get("make")
        if make is None:
            raise ArgumentError(
                f"{name} is recorded at journal level 'full' only; this was recorded at "
                f"{self.level!r}"
            )
        table = self.__dict__[name] = make(name)
        if all(name in self.__dict__ for name in FULL_TABLES):
            self.make = self.make_rows = None
        return table

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, where nobody needs it in Arrow: sooner made.

        Parameters
        ----------
        name : str
            A table of `FULL_TABLES`.

        Returns
        -------
        list of dict
            A mapping of column to Python value for each row, in the order of the table.

        Raises
        ------
        ArgumentError
            There is no such table, or the journal's level was not `full`.
        """
        if name not in FULL_TABLES:
            raise ArgumentError(f"name is {name!r}: tables are {', '.join(FULL_TABLES)}")
        if name not in self._rows:
            make = None if name in self.__dict__ else self.make_rows
            self._rows[name] = getattr(self, name).to_pylist() if make is None else make(name)
        return self._rows[name]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All tables of `FULL_TABLES` by name; none below level `full`."""
        return {name: getattr(self, name) for name in FULL_TABLES if self.level == "full"}

    def _summary(self) -> Summary:
        counts = self.counts
        return f"Outcome of {self.event}", {
            "error": self.error,
            "failure": None if self.failure is None else self.failure.name,
            "steps": len(self.actions),
            "transitions": sum(counts.transitions.values()),
            "leaders_moved": counts.leaders_moved,
            "unclean_elections": counts.unclean_elections,
            "requests": sum(counts.requests.values()),
            "journal": self.level,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    def alterations(self) -> list[AlterCode]:
        """Answers of an AlterPartition request, in the order asked."""
        return [AlterCode(int(code)) for code in self.alter_codes]

    def by_broker(self) -> dict[int, list[dict[str, Any]]]:
        """Every request sent, per broker in the order of emission, as Kafka's requests say it."""
        return by_broker(
            self.requests, self.update_metadata, self.update_metadata_brokers, self.batches
        )
