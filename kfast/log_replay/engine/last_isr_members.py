"""Who stays in an ISR whose members all go at once, where later lines tell.

Source: docs/controller.md, sections 2.3 and 2.5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kfast.log_replay.engine.simulation import NO_ITEMS, Simulation
from kfast.log_replay.events.events import DELETES, LogEvent
from kfast.log_replay.wording.values import Partition
from kfast.state import Leadership

Survivors = dict[int, tuple[Leadership, int]]
"""Records of rows before an event that may take all of their ISRs out, each with who stays."""


def named_survivors(simulation: Simulation, event: LogEvent) -> Survivors:
    """Who stays by the log, of the rows of which an event leaves one member alone."""
    return {
        row: (record, survivor)
        for partition, survivor in event.fields.get("survivors", {}).items()
        for row in simulation.rows_of(partition)
        if (record := simulation.stored_record(row)) is not None and len(record.isr) > 1
    }


def keep_survivors(
    simulation: Simulation, event: LogEvent, survivors: Survivors
) -> Iterator[Partition]:
    """Let those stay whom the log names, where an event took all of an ISR, in all that it says.

    Another may have been elected since then, within the event. Gives the partitions of which it
    said another.
    """
    for row, (record, survivor) in survivors.items():
        after = simulation.stored_record(row)
        alive = set() if event.kind in DELETES else simulation.registered
        if after is None or survivor not in record.isr or survivor in alive:
            continue
        if after.leader == -1 and len(after.isr) == 1:
            simulation.set_record(row, dataclasses.replace(after, isr=(survivor,)))
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
            leaders, epochs = ({shrunk[broker].fields[name] for broker in order}
                               for name in ("leader", "leader_epoch"))
            if len(leaders) > 1 or len(epochs) < len(order):
                continue  # The leader went too, or not all were in the ISR.
            stops = {item.key[1]: item for item in items
                     if item.key[0] == "stop_replica" and not item.fields["delete"]}
            last = shrunk[ranked[-1]].fields["isr"]
            changes = []
            for place, (broker, earlier) in enumerate(zip(order, ranked, strict=True), 1):
                isr = (*last, *order[place:])
                changes.append((shrunk[broker], {**shrunk[earlier].fields, "isr": isr}))
                if broker in stops and earlier in stops:
                    changes.append((stops[broker], dict(stops[earlier].fields)))
            for item, fields in changes:
                item.fields = fields
