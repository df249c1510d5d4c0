"""What an outcome says, in a form that can be put together over the shards of a cluster.

A broker gets one request where many shards have something to tell it, so each step has a key that
is the same in every shard.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.controllers.zk.fused_events import ANNOUNCEMENT
from kfast.journal import Outcome
from kfast.journal.outcome import KINDS
from kfast.schema import (
    SHARDED_REQUESTS,
    AlterCode,
    ReassignmentCode,
    ResultTable,
    columns_of,
)

__all__ = ["REQUESTS", "counts_of", "join_requests", "requests_of", "rows_of"]

REQUESTS = pa.schema([
    *SHARDED_REQUESTS.schema,
    pa.field("alone", pa.bool_(), nullable=False), pa.field("shards", pa.int64(), nullable=False),
])
"""Requests of some shards. `alone`: those of each partition went out by themselves, as before Kafka
1.1."""

MOVES = re.compile(r"(U|[AB]\d): ")
"""Steps of reassignments: their actions begin with the phase (section 6.7)."""

STOPPED = "stop followed replicas"
"""Action of a controlled shutdown that sends StopReplica outside the machines' batches."""


def counts_of(at: int, outcome: Outcome) -> Iterator[tuple[tuple[int, str, str, str], int]]:
    """Counts of an outcome that are sums over partitions: event, name, kind, item."""
    counts = outcome.counts
    named: list[tuple[str, Mapping[str, int]]] = [
        ("transition", {f"{a} -> {b}": n for (a, b), n in counts.transitions.items()}),
        ("code", counts.codes),
        (
            "total",
            {
                "leaders_moved": counts.leaders_moved,
                "unclean_elections": counts.unclean_elections,
                "remaining": int(outcome.remaining.size),
            },
        ),
    ]
    if outcome.replies is not None:
        errors = pc.value_counts(pc.fill_null(outcome.replies["error"], "NONE")).to_pylist()
        named.append(("reply", {error["values"]: error["counts"] for error in errors}))
    if outcome.alter_codes.size:
        codes = np.bincount(outcome.alter_codes, minlength=len(AlterCode)).tolist()
        named.append(("reply", {code.name: codes[code] for code in AlterCode if codes[code]}))
    if outcome.reassignment_codes.size:
        started = np.bincount(outcome.reassignment_codes, minlength=len(ReassignmentCode)).tolist()
        named.append(("reply", {code.name: started[code] for code in ReassignmentCode
                                if started[code]}))
    for kind, items in named:
        for item, n in items.items():
            yield (at, outcome.event, kind, item), n


def number_steps(outcome: Outcome) -> list[int]:
    """What tells each step from others of the same action and scope, in whatever shard.

    In a rebalance each step is for one broker, and where brokers caught up each announcement is of
    one leader. Steps of reassignments are told apart by nothing: each partition has requests of its
    own, which add up. For any other step it is how often the action has been taken before.
    """
    if outcome.rebalanced:
        return list(outcome.rebalanced)
    seen: dict[tuple[str, str], int] = {}
    numbers = []
    senders = iter(outcome.senders)
    for step in zip(outcome.scopes, outcome.actions, strict=True):
        if outcome.senders and step[1] == ANNOUNCEMENT:
            numbers.append(next(senders))
        elif MOVES.match(step[1]):
            numbers.append(0)
        else:
            numbers.append(seen.get(step, 0))
            seen[step] = numbers[-1] + 1
    return numbers


def requests_of(
    at: int, outcome: Outcome, each: bool, known: dict[tuple[str, str], int]
) -> pa.Table:
    """Requests by broker; `each` where a shutdown stops the replicas of each partition alone.

    Steps (action and scope) and kinds are numbers, by which Arrow groups ten times faster; `known`
    grows.
    """
    counts = outcome.request_counts
    step = counts["step"].to_numpy()
    named = zip(outcome.actions, outcome.scopes, strict=True)
    codes = [known.setdefault(name, len(known)) for name in named]
    numbers = np.asarray(number_steps(outcome), np.int32)
    alone = [totals.step for totals in outcome.totals if totals.each]
    alone += [
        step for step, action in enumerate(outcome.actions)
        if MOVES.match(action) or (each and action == STOPPED)
    ]
    columns = {
        "event": np.full(step.size, at, np.int32),
        "step": np.asarray(codes, np.int32)[step],
        "occurrence": numbers[step],
        "kind": pc.index_in(counts["kind"], pa.array(KINDS)),
        **{name: counts[name] for name in ("broker_id", "requests", "partitions")},
        "alone": np.isin(step, alone),
        "shards": np.ones(step.size, np.int64),
    }
    return pa.table(columns)


def join_requests(tables: Sequence[pa.Table], named: Sequence[tuple[str, str]]) -> pa.Table:
    """Requests of some shards: in one batch, all shards share one request to a broker.

    Where each partition has requests of its own (reassignments, and before Kafka 1.1 all moves),
    they add up. `named` are the actions and scopes of the steps.
    """
    if not tables:
        return REQUESTS.empty_table()
    keys = ["event", "step", "occurrence", "kind", "broker_id"]
    # By one thread: the rows have the same order each time, so a task that is run again writes the
    # same bytes.
    joined = pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([
        ("requests", "sum"), ("requests", "max"), ("partitions", "sum"), ("alone", "any"),
        ("shards", "sum"),
    ])
    columns = {key: joined[key] for key in keys}
    for at, name in enumerate(("action", "scope")):
        columns[name] = pa.array([step[at] for step in named], pa.string()).take(joined["step"])
    columns["kind"] = pa.array(KINDS, pa.string()).take(joined["kind"])
    columns["requests"] = pc.if_else(
        joined["alone_any"], joined["requests_sum"], joined["requests_max"]
    )
    for name, made in (("partitions", "sum"), ("alone", "any"), ("shards", "sum")):
        columns[name] = joined[f"{name}_{made}"]
    return pa.table([columns[f.name].cast(f.type) for f in REQUESTS], schema=REQUESTS)


def rows_of(
    result: ResultTable, at: int, shard: int, outcome: Outcome, table: pa.Table
) -> pa.Table:
    """Rows of the journal of a shard, the step given by the event and the action."""
    columns = columns_of(table)
    steps = columns.pop("step")
    return result.table(columns | {
        "event": np.full(len(steps), at, np.int32), "shard": np.full(len(steps), shard, np.int32),
        "action": pa.array(outcome.actions, pa.string()).take(steps),
    })
