"""Give a simulated partition the epochs that lines told: what counted from 0 counts from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kfast.log_replay.checks import Check
from kfast.log_replay.comparison.worlds import Life, World
from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH
from kfast.state import Leadership


def settle(world: World, life: Life, found: Mapping[str, int]) -> None:
    """Let a possibility, its row and its checks count from what lines told."""
    possibility, trace, row = life
    if row is not None:
        _settle_row(world, row, found)
    trace.checks = [(number, shifted(check, found)) for number, check in trace.checks]
    start = possibility.starts[-1]
    possibility.starts[-1] = dataclasses.replace(
        start,
        leader_epoch=found.get("epoch", start.leader_epoch),
        version=found.get("version", start.version),
        controller_epoch=found.get("record_epoch", start.controller_epoch),
    )


def _settle_row(world: World, row: int, found: Mapping[str, int]) -> None:
    """Let the records of a row, and what was predicted of it, count from what lines told."""
    simulation = world.simulation
    possibility = simulation.possibility[row]
    shift = {"leader_epoch": found.get("epoch", 0), "version": found.get("version", 0)}
    own = found.get("record_epoch", UNKNOWN_EPOCH)

    def counted(values: Mapping[str, Any]) -> dict[str, Any]:
        changed = {
            name: values[name] + by for name, by in shift.items()
            if values.get(name) is not None and values[name] >= 0
        }
        if values.get("controller_epoch") == UNKNOWN_EPOCH:
            changed["controller_epoch"] = own
        return {**values, **changed}

    def settled(item: Item) -> Item:
        return dataclasses.replace(item, fields=counted(item.fields))

    record = simulation.state.records[row : row + 1]
    for name, by in shift.items():
        record[name] += by
    if int(record["controller_epoch"][0]) == UNKNOWN_EPOCH:
        record["controller_epoch"] = own
    simulation.stored[row, 0] += shift["version"]
    if simulation.stored[row, 1] == UNKNOWN_EPOCH:
        simulation.stored[row, 1] = own
    if row in simulation.unread:
        simulation.unread[row] = Leadership(**counted(vars(simulation.unread[row])))
    key = possibility.topic, possibility.partition[1]
    if simulation.cut is not None and key in simulation.cut[1]:
        stored, assignment = simulation.cut[1][key]
        simulation.cut[1][key] = Leadership(**counted(vars(stored))), assignment
    if row in simulation.items:
        simulation.items[row].replace(settled)
    memory = world.brokers.rows[row]
    memory.handled = {
        broker: (context, settled(item)) for broker, (context, item) in memory.handled.items()
    }
    memory.heard = {
        broker: heard._replace(**counted({"leader_epoch": heard.leader_epoch}))
        for broker, heard in memory.heard.items()
    }


def shifted(check: Check, found: Mapping[str, int]) -> Check:
    """A check whose prediction counts from what was found."""
    if check.counted not in found or not isinstance(check.predicted, int):
        return check
    if check.counted == "record_epoch":
        known = check.predicted != UNKNOWN_EPOCH
        return check if known else check._replace(predicted=found["record_epoch"])
    return check._replace(predicted=check.predicted + found[check.counted])
