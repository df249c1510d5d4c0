"""Give a simulated partition the epochs that lines told: what counted from 0 counts from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from kfast.log_replay.checks import MISSING, Check
from kfast.log_replay.comparison.worlds import Trace, World
from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH, Possibility
from kfast.state import Leadership


def settle(world: World, row: int, found: dict[str, int]) -> None:
    """Give a row the epochs that lines told; what counted from 0 counts from them now."""
    simulation = world.simulation
    possibility = simulation.possibility[row]
    if not found or not possibility.starts:
        return
    state = simulation.state
    record = state.records[row : row + 1]
    shift = {"leader_epoch": found.get("epoch", 0), "version": found.get("version", 0)}
    for name, by in shift.items():
        record[name] += by
    own = found.get("record_epoch")
    if own is not None and int(record["controller_epoch"][0]) == UNKNOWN_EPOCH:
        record["controller_epoch"] = own

    def counted(record: Leadership) -> Leadership:
        return dataclasses.replace(
            record, leader_epoch=record.leader_epoch + shift["leader_epoch"],
            version=record.version + shift["version"],
            controller_epoch=own if own is not None and record.controller_epoch == UNKNOWN_EPOCH
            else record.controller_epoch,
        )

    unread = simulation.unread.get(row)
    if unread is not None:
        simulation.unread[row] = counted(unread)
    key = possibility.topic, possibility.partition[1]
    if simulation.cut is not None and key in simulation.cut[1]:
        stored, assignment = simulation.cut[1][key]
        simulation.cut[1][key] = counted(stored), assignment
    simulation.stored[row, 0] += shift["version"]
    if own is not None and simulation.stored[row, 1] == UNKNOWN_EPOCH:
        simulation.stored[row, 1] = own
    def settled(item: Item) -> Item:
        fields = {
            name: value + shift[name] if name in shift and value is not None and value >= 0
            else value for name, value in item.fields.items()
        }
        if own is not None and fields.get("controller_epoch") == UNKNOWN_EPOCH:
            fields["controller_epoch"] = own
        return dataclasses.replace(item, fields=fields)

    if row in simulation.items:
        simulation.items[row].replace(settled)
    memory = world.brokers.rows[row]
    memory.handled = {
        broker: (context, settled(item)) for broker, (context, item) in memory.handled.items()
    }
    memory.heard = {
        broker: heard._replace(leader_epoch=heard.leader_epoch + shift["leader_epoch"])
        if heard.leader_epoch >= 0 else heard for broker, heard in memory.heard.items()
    }
    settle_trace(possibility, world.traces[row], found)


def settle_trace(possibility: Possibility, trace: Trace, found: Mapping[str, int]) -> None:
    """Let checks and the start of a possibility count from what was found."""
    start = possibility.starts[-1]
    trace.checks = [
        (n, at, shifted(check, found) if at == len(possibility.starts) else check)
        for n, at, check in trace.checks
    ]
    possibility.starts[-1] = dataclasses.replace(
        start,
        leader_epoch=found.get("epoch", start.leader_epoch),
        version=found.get("version", start.version),
        controller_epoch=found.get("record_epoch", start.controller_epoch),
    )


def shifted(check: Check, found: Mapping[str, int]) -> Check:
    """A check whose prediction counts from what was found."""
    if check.counted not in found or check.predicted is MISSING or check.predicted is None:
        return check
    if check.counted == "record_epoch":
        known = check.predicted != UNKNOWN_EPOCH
        return check if known else check._replace(predicted=found["record_epoch"])
    return check._replace(predicted=check.predicted + found[check.counted])
