"""What a line told of a record's epochs, given to what was counted from 0 so far."""

from __future__ import annotations

import dataclasses

from kfast.replay.compare import MISSING, Check
from kfast.replay.inference import World
from kfast.replay.rows import UNKNOWN_EPOCH


def settle(world: World, row: int, found: dict[str, int]) -> None:
    """Give a row the epochs that lines told; what counted from 0 counts from them now."""
    simulation = world.simulation
    possibility = simulation.possibility[row]
    if not found or not possibility.starts:
        return
    state, start = simulation.state, possibility.starts[-1]
    record = state.records[row : row + 1]
    shift = {"leader_epoch": found.get("epoch", 0), "version": found.get("version", 0)}
    for name, by in shift.items():
        record[name] += by
    own = found.get("record_epoch")
    if own is not None and int(record["controller_epoch"][0]) == UNKNOWN_EPOCH:
        record["controller_epoch"] = own
    simulation.stored[row, 0] += shift["version"]
    if own is not None and simulation.stored[row, 1] == UNKNOWN_EPOCH:
        simulation.stored[row, 1] = own
    for item in simulation.items.get(row, ()):
        for name, by in shift.items():
            if by and item.said.get(name) is not None and item.said[name] >= 0:
                item.said[name] += by
        if own is not None and item.said.get("controller_epoch") == UNKNOWN_EPOCH:
            item.said["controller_epoch"] = own
    for key in world.brokers.memory:
        if key[1] == row and world.brokers.memory[key] >= 0:
            world.brokers.memory[key] += shift["leader_epoch"]
    trace = world.traces[row]
    trace.checks = [
        (n, at, shifted(check, found) if at == len(possibility.starts) else check)
        for n, at, check in trace.checks
    ]
    possibility.starts[-1] = dataclasses.replace(
        start,
        leader_epoch=_settled(start.leader_epoch, found, "epoch"),
        version=_settled(start.version, found, "version"),
        controller_epoch=_settled(start.controller_epoch, found, "record_epoch"),
    )


def _settled(value: int | None, found: dict[str, int], kind: str) -> int | None:
    return found.get(kind, value)


def shifted(check: Check, found: dict[str, int]) -> Check:
    """A check of what counted from 0, as it is now."""
    if check.counted not in found or check.predicted is MISSING or check.predicted is None:
        return check
    if check.counted == "record_epoch":
        known = check.predicted != UNKNOWN_EPOCH
        return check if known else check._replace(predicted=found["record_epoch"])
    return check._replace(predicted=check.predicted + found[check.counted])
