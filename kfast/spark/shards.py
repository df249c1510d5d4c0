"""What a task does with a shard: read it, let the events happen, write what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kfast.census import take_census
from kfast.controller import Controller
from kfast.errors import ArgumentError
from kfast.events.leader_election import count_preferred
from kfast.io import read_tables, write
from kfast.io.text import writing
from kfast.journal import Outcome
from kfast.spark.dataset import Dataset
from kfast.state import ClusterState
from kfast.state.compare import digest_parts

__all__ = ["EVENTS", "Event", "Run", "count_hand", "parse_events", "run_hand"]

REBALANCE = "rebalance_leaders"
EVENTS = {
    "on_controller_failover": (None,),
    "on_broker_failure": (list,),
    "on_broker_startup": (list, dict),
    "controlled_shutdown": (int,),
    "enable_unclean_leader_election": (None,),
    REBALANCE: (None, int, float),
}
"""Events of a sharded cluster: methods of `Controller`, and what their argument may be."""

COUNTS = pa.schema(
    [
        ("event", pa.int32()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("item", pa.string()),
        ("count", pa.int64()),
    ]
)
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
    ]
)
"""`alone`: the requests of each partition went out by themselves, as before Kafka 1.1."""

BROKERS = pa.schema(
    [
        ("broker_id", pa.int32()),
        ("leaders", pa.int64()),
        ("replicas", pa.int64()),
        ("in_sync", pa.int64()),
    ]
)
PREFERRED = pa.schema(
    [("broker_id", pa.int32()), ("preferred", pa.int64()), ("led_by_others", pa.int64())]
)
DONE = pa.schema([("shard", pa.int32()), ("partitions", pa.int64()), ("said", pa.binary())])
STOPPED = "stop followed replicas"
"""Action of a controlled shutdown that sends StopReplica outside the machines' batches."""

FULL = ("transitions", "elections")
"""Tables that are written, row by row, where the journal is `full`."""


@dataclass(frozen=True)
class Event:
    """One event: a method of `Controller`, its argument, and what the whole cluster must tell."""

    name: str
    argument: Any = None
    counts: pa.Table | None = None

    def happen(self, controller: Controller) -> Outcome:
        """Let it happen."""
        method = getattr(controller, self.name)
        arguments = () if self.argument is None else (self.argument,)
        if self.counts is not None:
            outcome: Outcome = method(*arguments, counts=self.counts)
        else:
            outcome = method(*arguments)
        return outcome


@dataclass(frozen=True)
class Run:
    """All that a task must know."""

    dataset: Dataset
    events: tuple[Event, ...]
    journal: str
    profile: str
    folder: str

    def controller(self, number: int) -> Controller:
        """Read a shard: its rows, with the brokers and settings of the whole cluster."""
        tables = read_tables(self.dataset.files[number])
        state = ClusterState.from_tables(
            self.dataset.brokers, tables.topics, tables.partitions, self.dataset.cluster,
            source=tables.source,
        )
        return Controller(state, journal=self.journal, profile=self.profile)


def parse_events(events: Iterable[str | tuple[str, Any]]) -> tuple[Event, ...]:
    """Check the names and arguments of events.

    Raises
    ------
    ArgumentError
        An event is unknown, or has an argument of another kind.
    """
    parsed = []
    for item in events:
        name, argument = item if isinstance(item, tuple) else (item, None)
        if name not in EVENTS:
            raise ArgumentError(
                f"event {name!r} is not one of a sharded cluster; allowed: {', '.join(EVENTS)}"
            )
        if isinstance(argument, (range, tuple, set, np.ndarray)):
            argument = [int(broker) for broker in argument]
        kinds = EVENTS[name]
        if not any(argument is None if kind is None else isinstance(argument, kind)
                   for kind in kinds):
            shown = " or ".join("nothing" if kind is None else kind.__name__ for kind in kinds)
            raise ArgumentError(f"event {name} takes {shown}; found {argument!r}")
        parsed.append(Event(name, argument))
    return tuple(parsed)


def count_hand(run: Run, hand: int) -> Iterator[pa.RecordBatch]:
    """Who should lead how much after the events, shard by shard: what a rebalance asks."""
    for number in run.dataset.hands[hand]:
        controller = run.controller(number)
        for event in run.events:
            event.happen(controller)
        yield from count_preferred(controller.state).cast(PREFERRED).combine_chunks().to_batches()


def run_hand(run: Run, hand: int) -> Iterator[pa.RecordBatch]:
    """Let the events happen in some shards, write what becomes of them, and say it in a row."""
    for number in run.dataset.hands[hand]:
        said = _run_shard(run, number)
        yield pa.RecordBatch.from_pylist([{"shard": number, **said}], schema=DONE)


def _run_shard(run: Run, number: int) -> dict[str, Any]:
    controller = run.controller(number)
    state, name = controller.state, f"shard-{number:06}.parquet"
    counts: list[dict[str, Any]] = []
    requests: list[pa.Table] = []
    full: dict[str, list[pa.Table]] = {kind: [] for kind in FULL}
    for at, event in enumerate(run.events):
        outcome = event.happen(controller)
        counts += _counts(at, outcome)
        requests.append(_requests(at, outcome, controller.profile.item_by_item))
        if run.journal == "full":
            for kind, tables in full.items():
                tables.append(_rows(at, outcome, getattr(outcome, kind)))
    census = take_census(state)
    folder = Path(run.folder)
    _write(folder / "requests" / name, pa.concat_tables([REQUESTS.empty_table(), *requests]))
    columns = [pa.array(column.copy()) for column in census.per_broker.T]
    _write(
        folder / "brokers" / name, pa.table([pa.array(state.broker_id), *columns], schema=BROKERS)
    )
    if run.journal == "full" and run.events:
        for kind, tables in full.items():
            _write(folder / kind / name, pa.concat_tables(tables))
    write(state, folder / "state" / name)
    said = {
        "digest": msgspec.to_builtins(digest_parts(state)),
        "census": census.counts,
        "counts": counts,
    }
    return {"partitions": state.n_partitions, "said": msgspec.json.encode(said)}


def _write(path: Path, table: pa.Table) -> None:
    with writing(path) as file:
        pq.write_table(table, file)


def _counts(at: int, outcome: Outcome) -> list[dict[str, Any]]:
    """Counts of an outcome that are sums over partitions."""
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
    return [
        {"event": at, "name": outcome.event, "kind": kind, "item": item, "count": n}
        for kind, items in named
        for item, n in items.items()
    ]


def _steps(outcome: Outcome) -> list[int]:
    """What tells each step from others of the same action, in whatever shard.

    In a rebalance each step is for one broker. In any other event it is how often the action has
    been taken before.
    """
    if outcome.rebalanced:
        return list(outcome.rebalanced)
    seen: dict[str, int] = {}
    numbers = []
    for action in outcome.actions:
        numbers.append(seen.get(action, 0))
        seen[action] = numbers[-1] + 1
    return numbers


def _requests(at: int, outcome: Outcome, each: bool) -> pa.Table:
    """Requests by broker; `each` where a shutdown stops the replicas of each partition alone."""
    counts = outcome.request_counts
    step = counts["step"].to_numpy()
    actions = pa.array(outcome.actions, pa.string())
    numbers = np.asarray(_steps(outcome), np.int32)
    alone = [totals.step for totals in outcome.totals if totals.each]
    if each:
        alone += [step for step, action in enumerate(outcome.actions) if action == STOPPED]
    columns = [
        pa.array(np.full(step.size, at, np.int32)),
        actions.take(pa.array(step)),
        pa.array(numbers[step] if step.size else np.empty(0, np.int32)),
        counts["kind"].cast(pa.string()),
        *(counts[name] for name in ("broker_id", "requests", "partitions")),
        pa.array(np.isin(step, alone)),
    ]
    return pa.table(columns, schema=REQUESTS)


def _rows(at: int, outcome: Outcome, table: pa.Table) -> pa.Table:
    """Rows of the journal, the step given by the event and the action."""
    steps = table["step"].to_numpy()
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.drop_columns("step").columns
    ]
    actions: Sequence[Any] = pa.array(outcome.actions, pa.string()).take(pa.array(steps))
    names = ["event", "action", *(n for n in table.column_names if n != "step")]
    return pa.table([pa.array(np.full(steps.size, at, np.int32)), actions, *plain], names=names)
