"""Events of ZooKeeper mode as JSON: what is given to Kafka, to kfast and to the twin, and noted.

A partition is its name (`topic-0`), a record an object, a key a text. Numbers that follow from what
happened before are noted relative to the live state, so that events can be left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Protocol

from tests.support.event import Event
from tests.support.kraft_cases import Json
from tests.support.reference import GARBAGE, Context, Partition, Record, TwinStore

LIVE = "live"
"""Key of a number that is relative to the live state."""

RECORD_FIELDS = ("leader", "leader_epoch", "isr", "recovery", "version", "controller_epoch")
PARTITION_LISTS = frozenset({
    ("elect_leaders", "partitions"), ("on_isr_change_notification", "partitions"),
    ("on_log_dir_failure", "offline"), ("on_leader_and_isr_response", "offline"),
    ("on_leader_and_isr_response", "online"), ("on_stop_replica_response", "partitions"),
    ("on_stop_replica_response", "failed"),
})
"""Lists that name partitions, by event."""

BROKER_KEYS = ("started", "bounced")
"""Arguments whose keys are brokers."""


def name_of(p: Partition) -> str:
    """`topic-0`."""
    return f"{p[0]}-{p[1]}"


def partition_of(name: str) -> Partition:
    """The partition of a name."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def to_json(value: Any) -> Any:
    """A value of an event as JSON."""
    if isinstance(value, Record):
        return {**asdict(value), "isr": list(value.isr)}
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return name_of((value[0], value[1]))
    if isinstance(value, dict):
        return {
            name_of(key) if isinstance(key, tuple) else str(key): to_json(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def event_json(event: Event) -> Json:
    """An event as JSON."""
    return {"op": event.name, **{key: to_json(value) for key, value in event.args.items()}}


def record_of(value: Any) -> Record | str:
    """A record, or one that does not decode."""
    if isinstance(value, str):
        return GARBAGE
    return Record(**{**value, "isr": tuple(value["isr"])})


def argument(op: str, key: str, value: Any) -> Any:
    """A value of an event, as the twin and kfast take it."""
    if value is None:
        return None
    if (op, key) in PARTITION_LISTS:
        return [partition_of(name) for name in value]
    if key == "partition":
        return partition_of(value)
    if key == "record":
        return record_of(value)
    if key == "records":
        return {partition_of(name): record_of(record) for name, record in value.items()}
    if key == "reassignments":
        return {partition_of(name): wanted for name, wanted in value.items()}
    if key in BROKER_KEYS or (op, key) == ("on_broker_startup", "brokers"):
        return {int(broker): epoch for broker, epoch in value.items()}
    if key == "assignments":
        return {int(number): replicas for number, replicas in value.items()}
    if key == "configs":
        return {topic: {"unclean.leader.election.enable": on} for topic, on in value.items()}
    if key == "created":
        return {
            topic: {int(number): replicas for number, replicas in listed.items()}
            for topic, listed in value.items()
        }
    return value


def event_of(event: Json) -> Event:
    """An event as the twin and kfast take it."""
    op = event["op"]
    return Event(op, {
        key: argument(op, key, value) for key, value in event.items() if key != "op"
    })


# ------------------------------------------------------------------------------------ live numbers

Change = Callable[[Any, int | None], Any]


def map_numbers(event: Json, ctx: Context, store: TwinStore | None, change: Change) -> Json:
    """Copy an event with `change(number, live number)` of each number that follows the state."""
    out: Json = json.loads(json.dumps(event))
    epochs = ctx.live_broker_epochs
    if "bounced" in out:
        out["bounced"] = {
            b: change(epoch, epochs.get(int(b))) for b, epoch in out["bounced"].items()
        }
    if out["op"] in ("controlled_shutdown", "alter_partition") and out["epoch"] != -1:
        out["epoch"] = change(out["epoch"], epochs.get(out["broker"]))
    for name, record in out.get("records", {}).items():
        cached = ctx.leadership.get(partition_of(name))
        for key in ("leader_epoch", "version"):
            record[key] = change(record[key], None if cached is None else getattr(cached, key))
    if isinstance(out.get("record"), dict):
        stored = None if store is None else store.records.get(partition_of(out["partition"]))
        version = stored.version if isinstance(stored, Record) else None
        out["record"]["version"] = change(out["record"]["version"], version)
    return out


def leader_of(event: Json, ctx: Context) -> int | None:
    """The leader of the first partition that a request names."""
    name = next(iter(event["records"]), None)
    cached = None if name is None else ctx.leadership.get(partition_of(name))
    return None if cached is None else cached.leader


class Live(Protocol):
    """A context and a store, as they are now."""

    ctx: Context
    store: TwinStore | None


def relative(event: Json, live: Live) -> Json:
    """An event whose numbers are relative to the state before it."""
    ctx = live.ctx
    out = map_numbers(
        event, ctx, live.store, lambda number, now: number if now is None else {LIVE: number - now}
    )
    if event["op"] == "alter_partition" and event["broker"] == leader_of(event, ctx):
        out["broker"] = LIVE
    return out


def absolute(event: Json, live: Live) -> Json:
    """The same event where the state is another one."""
    ctx = live.ctx
    if event.get("broker") == LIVE:
        leader = leader_of(event, ctx)
        event = {**event, "broker": -1 if leader is None else leader}

    def change(number: Any, now: int | None) -> Any:
        return number[LIVE] + (now or 0) if isinstance(number, dict) else number

    return map_numbers(event, ctx, live.store, change)


# --------------------------------------------------------------------------------- smaller events

MAY_BE_EMPTY = ("started", "bounced", "failed", "gone", "configs", "offline", "online")


def smaller_events(event: Json) -> Iterator[Json]:
    """An event without one item of one of its lists, or one entry of one of its tables."""
    for key, value in event.items():
        for part in smaller_values(value, 0 if key in MAY_BE_EMPTY else 1):
            yield {**event, key: part}


def smaller_values(value: Any, fewest: int) -> Iterator[Any]:
    """A list or table with one item less, or with a smaller item."""
    if isinstance(value, list) and len(value) > fewest:
        for at in reversed(range(len(value))):
            yield value[:at] + value[at + 1 :]
    if not isinstance(value, dict) or LIVE in value:
        return
    is_record = set(RECORD_FIELDS) <= set(value)
    for key, item in value.items():
        if len(value) > fewest and not is_record:
            yield {name: other for name, other in value.items() if name != key}
        for part in smaller_values(item, 1):
            yield {**value, key: part}
