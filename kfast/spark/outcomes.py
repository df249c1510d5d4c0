"""What an outcome says, in a form that can be put together over the shards of a cluster.

A broker gets one request where many shards have something to tell it, so each step has a key that
is the same in every shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.events.visits import ANNOUNCEMENT
from kfast.journal import Outcome
from kfast.journal.outcome import KINDS
from kfast.schema import AlterCode

__all__ = ["REQUESTS", "counts_of", "join_requests", "requests_of", "rows_of"]

REQUESTS = pa.schema(
    [
        ("event", pa.int32()),
        ("action", pa.string()),
        ("occurrence", pa.int32()),
        ("kind", pa.string()),
        ("broker_id", pa.int32()),
        ("requests", pa.int64()),
        ("partitions", pa.int64()),
        ("alone", pa.bool_()),
        ("shards", pa.int64()),
    ]
)
"""`alone`: the requests of each partition went out by themselves, as before Kafka 1.1."""

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
    for kind, items in named:
        for item, n in items.items():
            yield (at, outcome.event, kind, item), n


def number_steps(outcome: Outcome) -> list[int]:
    """What tells each step from others of the same action, in whatever shard.

    In a rebalance each step is for one broker, and where brokers caught up each announcement is of
    one leader. For any other step it is how often the action has been taken before.
    """
    if outcome.rebalanced:
        return list(outcome.rebalanced)
    seen: dict[str, int] = {}
    numbers = []
    senders = iter(outcome.senders)
    for action in outcome.actions:
        if outcome.senders and action == ANNOUNCEMENT:
            numbers.append(next(senders))
            continue
        numbers.append(seen.get(action, 0))
        seen[action] = numbers[-1] + 1
    return numbers


def requests_of(at: int, outcome: Outcome, each: bool, known: dict[str, int]) -> pa.Table:
    """Requests by broker; `each` where a shutdown stops the replicas of each partition alone.

    Actions and kinds are numbers, by which Arrow groups ten times faster; `known` grows.
    """
    counts = outcome.request_counts
    step = counts["step"].to_numpy()
    codes = [known.setdefault(action, len(known)) for action in outcome.actions]
    numbers = np.asarray(number_steps(outcome), np.int32)
    alone = [totals.step for totals in outcome.totals if totals.each]
    if each:
        alone += [step for step, action in enumerate(outcome.actions) if action == STOPPED]
    columns = {
        "event": np.full(step.size, at, np.int32),
        "action": np.asarray(codes, np.int32)[step],
        "occurrence": numbers[step],
        "kind": pc.index_in(counts["kind"].cast(pa.string()), pa.array(KINDS)),
        **{name: counts[name] for name in ("broker_id", "requests", "partitions")},
        "alone": np.isin(step, alone),
        "shards": np.ones(step.size, np.int64),
    }
    return pa.table(columns)


def join_requests(tables: Sequence[pa.Table], actions: Sequence[str]) -> pa.Table:
    """Requests of some shards: in one batch, all shards share one request to a broker.

    Where the moves of each partition go out alone, before Kafka 1.1, their requests add up.
    """
    if not tables:
        return REQUESTS.empty_table()
    keys = ["event", "action", "occurrence", "kind", "broker_id"]
    joined = pa.concat_tables(tables).group_by(keys).aggregate([
        ("requests", "sum"), ("requests", "max"), ("partitions", "sum"), ("alone", "any"),
        ("shards", "sum"),
    ])
    columns = {key: joined[key] for key in keys}
    columns["action"] = pa.array(actions, pa.string()).take(joined["action"])
    columns["kind"] = pa.array(KINDS, pa.string()).take(joined["kind"])
    columns["requests"] = pc.if_else(
        joined["alone_any"], joined["requests_sum"], joined["requests_max"]
    )
    for name, made in (("partitions", "sum"), ("alone", "any"), ("shards", "sum")):
        columns[name] = joined[f"{name}_{made}"]
    return pa.table([columns[f.name].cast(f.type) for f in REQUESTS], schema=REQUESTS)


def rows_of(at: int, outcome: Outcome, table: pa.Table) -> pa.Table:
    """Rows of the journal, the step given by the event and the action."""
    steps = table["step"].to_numpy()
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.drop_columns("step").columns
    ]
    actions: Sequence[Any] = pa.array(outcome.actions, pa.string()).take(pa.array(steps))
    names = ["event", "action", *(n for n in table.column_names if n != "step")]
    return pa.table([pa.array(np.full(steps.size, at, np.int32)), actions, *plain], names=names)
