"""Who stays in an ISR whose members all go at once.

The last member of an ISR stays in it without leading. Where several members are taken out by one
event, the controller takes brokers in the order of a map (`broker_groups`), which depends on
the Scala that Kafka was built with, and before 1.1 on the names of partitions. Where the records
that the lines tell after the event say that another member stayed, they are believed. Nothing else
depends on it: every order raises epochs and versions equally often.

Source: docs/controller.md, sections 2.3 and 2.5.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kfast.log_replay.compare import subjects
from kfast.log_replay.events import LogEvent
from kfast.log_replay.log_messages import Statement
from kfast.log_replay.log_values import Partition
from kfast.log_replay.stored import restore, stored
from kfast.state import Leadership

if TYPE_CHECKING:
    from kfast.log_replay.simulation import Simulation

MOVES = frozenset({"caught_up", "reassign"})
"""Events that may take several live replicas of a partition out at once."""

DELETES = frozenset({"delete", "deleted"})
"""Events that take out all replicas of a topic, also live ones."""

TAKES_OUT = frozenset({"failover", "brokers"}) | DELETES
"""Events that may take several replicas of a partition out at once."""

Before = dict[int, Leadership]
"""Records of rows before an event that may take all of their ISRs out."""


def note_survivors(
    statements: Sequence[Statement], lines: Sequence[int], events: Sequence[LogEvent]
) -> None:
    """Give each event that takes replicas out the last members of ISRs that lines tell after it.

    Most lines decide, so one that differs from the others is contradicted.
    """
    starts = [event.at for event in events]
    votes: dict[int, dict[Partition, Counter[int]]] = {}
    led: dict[Partition, int] = {}
    for number in lines:
        line = statements[number]
        for partition, said in subjects(line):
            record = said.get("record")
            if line.kind == "shrunk":
                _note_order(events[max(bisect.bisect_right(starts, number) - 1, 0)],
                            partition, said["replica"])
            if record is None or record.leader in (None, -2) or not record.isr:
                continue
            if record.leader != -1 or len(record.isr) != 1:
                led[partition] = number
                continue
            since = bisect.bisect_right(starts, led.get(partition, number)) - 1
            for at in range(max(since, 0), bisect.bisect_right(starts, number)):
                if events[at].kind in TAKES_OUT:
                    counted = votes.setdefault(at, {}).setdefault(partition, Counter())
                    counted[record.isr[0]] += 1
    for at, told in votes.items():
        events[at].said["survivors"] = {
            partition: counted.most_common(1)[0][0] for partition, counted in told.items()
        }


def _note_order(event: LogEvent, partition: Partition, replica: int) -> None:
    """Give a reassignment's end the order in which lines say that it takes replicas out."""
    if event.kind in MOVES:
        event.said.setdefault("order", {}).setdefault(partition, []).append(replica)


def records_before(simulation: Simulation, event: LogEvent) -> Before:
    """Records of the rows of which an event leaves one member alone."""
    found: Before = {}
    for partition in event.said.get("survivors", ()):
        for row in simulation.rows_of(partition):
            record = stored(simulation, row)
            if record is not None and len(record.isr) > 1:
                found[row] = record
    return found


def keep_survivors(simulation: Simulation, event: LogEvent, before: Before) -> dict[int, int]:
    """Let those stay whom the log names, where an event took all of an ISR; who, row by row."""
    changed: dict[int, int] = {}
    for row, record in before.items():
        survivor = event.said["survivors"][simulation.possibility[row].partition]
        after = stored(simulation, row)
        if after is None or after.leader != -1 or len(after.isr) != 1:
            continue
        alive = set() if event.kind in DELETES else simulation.registered
        if survivor not in record.isr or survivor in (alive | set(after.isr)):
            continue
        changed[row] = survivor
        restore(simulation, row, dataclasses.replace(after, isr=(survivor,)))
    return changed


def say_survivors(simulation: Simulation, event: LogEvent, changed: dict[int, int]) -> None:
    """What an event says of these rows names those who stay."""
    for row, survivor in changed.items():
        for item in simulation.items.get(row, ()):
            said = item.said
            if item.event is event and said.get("leader") == -1 and len(said.get("isr", ())) == 1:
                said["isr"] = (survivor,)


def say_in_order(simulation: Simulation, event: LogEvent) -> None:
    """Say in the order of the lines what the end of a reassignment takes out."""
    for partition, order in event.said.get("order", {}).items():
        for row in simulation.rows_of(partition):
            items = [item for item in simulation.items.get(row, ()) if item.event is event]
            shrunk = {item.key[1]: item for item in items
                      if item.key[0] == "shrunk" and item.key[1] in order}
            if len(order) < 2 or sorted(shrunk) != sorted(order):
                continue
            ranked = sorted(order, key=lambda broker: shrunk[broker].said["leader_epoch"])
            epochs = {shrunk[broker].said["leader_epoch"] for broker in order}
            if len({shrunk[broker].said["leader"] for broker in order}) > 1 or (
                len(epochs) < len(order)
            ):
                continue  # The leader went too, or not all were in the ISR.
            stops = {item.key[1]: item for item in items
                     if item.key[0] == "stop" and not item.said["delete"]}
            last = tuple(shrunk[ranked[-1]].said["isr"])
            said = {
                broker: {**shrunk[earlier].said, "isr": (*last, *order[place + 1 :])}
                for place, (broker, earlier) in enumerate(zip(order, ranked, strict=True))
            }
            told = {
                broker: dict(stops[earlier].said)
                for broker, earlier in zip(order, ranked, strict=True)
                if broker in stops and earlier in stops
            }
            for broker in order:
                shrunk[broker].said = said[broker]
                if broker in told:
                    stops[broker].said = told[broker]
