"""Who stays in an ISR whose members all go at once, where later lines tell.

Source: docs/controller.md, sections 2.3 and 2.5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kfast.log_replay.engine.simulation import NO_ITEMS, Simulation
from kfast.log_replay.engine.stored_records import restore
from kfast.log_replay.events.events import DELETES, LogEvent
from kfast.log_replay.wording.values import Partition
from kfast.state import Leadership

Before = dict[int, Leadership]
"""Records of rows before an event that may take all of their ISRs out."""


def records_before(simulation: Simulation, event: LogEvent) -> Before:
    """Records of the rows of which an event leaves one member alone."""
    found: Before = {}
    for partition in event.fields.get("survivors", ()):
        for row in simulation.rows_of(partition):
            record = simulation.stored_record(row)
            if record is not None and len(record.isr) > 1:
                found[row] = record
    return found


def keep_survivors(simulation: Simulation, event: LogEvent, before: Before) -> dict[int, int]:
    """Let those stay whom the log names, where an event took all of an ISR; who, row by row.

    Another may have been elected since then, within the event.
    """
    survivors: dict[int, int] = {}
    for row, record in before.items():
        survivor = event.fields["survivors"][simulation.possibility[row].partition]
        after = simulation.stored_record(row)
        alive = set() if event.kind in DELETES else simulation.registered
        if after is None or survivor not in record.isr or survivor in alive:
            continue
        survivors[row] = survivor
        if after.leader == -1 and len(after.isr) == 1 and survivor not in after.isr:
            restore(simulation, row, dataclasses.replace(after, isr=(survivor,)))
    return survivors


def say_survivors(
    simulation: Simulation, event: LogEvent, survivors: dict[int, int]
) -> Iterator[Partition]:
    """What an event says of these rows names those who stay; gives those that said another."""
    for row, survivor in survivors.items():
        changed = [
            item for item in simulation.items.get(row, NO_ITEMS).of_event(event)
            if item.fields.get("leader") == -1 and len(item.fields.get("isr", ())) == 1
            and survivor not in item.fields["isr"]
        ]
        for item in changed:
            item.fields["isr"] = (survivor,)
        if changed:
            yield simulation.possibility[row].partition


def say_in_order(simulation: Simulation, event: LogEvent) -> None:
    """Say in the order of the lines what the end of a reassignment takes out."""
    for partition, order in event.fields.get("order", {}).items():
        for row in simulation.rows_of(partition):
            items = simulation.items.get(row, NO_ITEMS).of_event(event)
            shrunk = {item.key[1]: item for item in reversed(items)  # The others are alternatives.
                      if item.key[0] == "shrunk" and item.key[1] in order}
            if len(order) < 2 or sorted(shrunk) != sorted(order):
                continue
            ranked = sorted(order, key=lambda broker: shrunk[broker].fields["leader_epoch"])
            epochs = {shrunk[broker].fields["leader_epoch"] for broker in order}
            if len({shrunk[broker].fields["leader"] for broker in order}) > 1 or (
                len(epochs) < len(order)
            ):
                continue  # The leader went too, or not all were in the ISR.
            stops = {item.key[1]: item for item in items
                     if item.key[0] == "stop_replica" and not item.fields["delete"]}
            last = tuple(shrunk[ranked[-1]].fields["isr"])
            fields = {
                broker: {**shrunk[earlier].fields, "isr": (*last, *order[place + 1 :])}
                for place, (broker, earlier) in enumerate(zip(order, ranked, strict=True))
            }
            counts = {
                broker: dict(stops[earlier].fields)
                for broker, earlier in zip(order, ranked, strict=True)
                if broker in stops and earlier in stops
            }
            for broker in order:
                shrunk[broker].fields = fields[broker]
                if broker in counts:
                    stops[broker].fields = counts[broker]
