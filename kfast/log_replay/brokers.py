"""What brokers remember of the requests that controllers sent them.

A broker handles LeaderAndIsr requests one after the other. Its memory of a partition's leader epoch
begins at -1 when the process starts; a line tells the epoch it had before.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.wording.forms import Statement


class Heard(NamedTuple):
    """What a broker remembers of a partition; -1 is no leader, None an unknown one."""

    leader_epoch: int
    leader: int | None


NEVER = Heard(-1, -1)
"""Of a partition that a broker has heard nothing of."""

RESTART_MS = 120_000
"""A broker registers within this time of its start; later, it had lost its session."""

MOST_USED = 256
"""Requests of a row of which it is remembered that a broker's lines were about them."""


@dataclass
class RowMemory:
    """What brokers remember of one row, by broker.

    Attributes
    ----------
    heard : dict
    handled : dict
        The request that the last lines were about, and what names it.
    used : dict
        Requests, by their order, that lines were about.
    cached : dict
        Order of the last UpdateMetadata that was taken in.
    """

    heard: dict[int, Heard] = field(default_factory=dict)
    handled: dict[int, tuple[Any, Item]] = field(default_factory=dict)
    used: dict[int, set[tuple[float, int]]] = field(default_factory=dict)
    cached: dict[int, tuple[float, int]] = field(default_factory=dict)

    def use(self, broker: int, item: Item) -> None:
        """A line of a broker is about a request; the oldest are forgotten."""
        used = self.used.setdefault(broker, set())
        used.add(item.order)
        if len(used) > 2 * MOST_USED:
            self.used[broker] = set(sorted(used)[-MOST_USED:])

    def copy(self) -> RowMemory:
        """Make an independent copy."""
        used = {broker: set(orders) for broker, orders in self.used.items()}
        return RowMemory(dict(self.heard), dict(self.handled), used, dict(self.cached))


class BrokerSide:
    """What brokers remember.

    Attributes
    ----------
    rows : dict
        Of each row.
    fresh : dict
        Whether a broker's process is known to have started after the log began; None where it may
        have been restarted without a line about it.
    unproven : set of int
        Ids of brokers that were live where the log went on, and of which no line has shown since
        that they remember what was before.
    """

    def __init__(self) -> None:
        self.rows: defaultdict[int, RowMemory] = defaultdict(RowMemory)
        self.fresh: dict[int, bool | None] = {}
        self.unproven: set[int] = set()
        self.started: dict[int, int] = {}
        self.registered_at: dict[int, int] = {}
        self.hole_ended = 0

    def start_by(self, line: Statement) -> None:
        """A line says that a broker's process starts."""
        broker = line.fields.get("broker", line.actor_id)
        if broker is not None:
            self.start(broker, line.entry.time)

    def start(self, broker: int, time: int) -> None:
        """A broker's process starts: it remembers nothing."""
        self.fresh[broker] = True
        self.started[broker] = time
        for memory in self.rows.values():
            memory.heard.pop(broker, None)

    def register(self, broker: int, time: int) -> None:
        """A broker registers; whether its process was restarted may not be known."""
        started = self.started.get(broker, -math.inf)
        has_registered = self.registered_at.get(broker, -math.inf) >= started
        if has_registered or time - started > RESTART_MS:
            self.fresh[broker] = None
        self.registered_at[broker] = time

    def leave_hole(self, time: int) -> None:
        """The log goes on after a hole, in which brokers may have heard of anything."""
        self.hole_ended = time
        for memory in self.rows.values():
            memory.heard.clear()

    def remembered(
        self, simulation: Simulation, broker: int, row: int, now: Item | None, *,
        of_this_term: bool = False,
    ) -> Heard | None:
        """What a broker remembers before a request; None where it is not known.

        It has taken in every request since its process started, whether a line says so or not;
        with `of_this_term`, of those that an earlier controller sent, or that came from before it
        registered again, only what a line says that it became. A controller that ends drops what
        it has not sent (ControllerChannelManager.scala, `shutdown`), and a request with an old
        broker epoch is refused (KafkaApis.scala, `isBrokerEpochStale`).
        """
        fresh, possibility = self.fresh.get(broker), simulation.possibility[row]
        if fresh is None and broker in self.fresh and possibility.is_old:
            return None
        since = max(self.started.get(broker, 0) if fresh else 0, self.hole_ended)
        registered = self.registered_at.get(broker, 0)

        def came(item: Item) -> bool:
            of_another = now is not None and item.event.term is not now.event.term
            return (
                item.key[1] == broker and item.event.time >= since
                and (now is None or item.order < now.order) and not item.fields.get("unsent")
                and not (of_this_term and (of_another or item.event.time < registered))
            )

        led = next((
            item for item in reversed(simulation.items_of(row, "leader_and_isr")) if came(item)
            and (item.fields["leader"] == broker or item.fields["leader"] in item.fields["up"])
        ), None)
        dropped = next((
            item for item in reversed(simulation.items_of(row, "stop_replica")) if came(item)
            and item.fields["delete"]
        ), None)
        if dropped is not None and (led is None or led.order < dropped.order):
            return NEVER  # The broker drops the partition with all that it remembers.
        known = self.rows[row].heard.get(broker)
        if led is not None and (known is None or led.fields["leader_epoch"] > known.leader_epoch):
            return heard(led)
        if known is not None:
            return known
        created = not possibility.is_old and (
            possibility.creation is None or possibility.creation.time >= self.hole_ended
        )
        return NEVER if fresh or created else None

    def move_rows(self, moved: dict[int, int]) -> None:
        """Rows have new numbers; those that have none are forgotten."""
        rows = {moved[row]: memory for row, memory in self.rows.items() if row in moved}
        self.rows = defaultdict(RowMemory, rows)

    def copy(self) -> BrokerSide:
        """Make an independent copy."""
        other = copy.copy(self)
        for name in ("fresh", "started", "registered_at"):
            setattr(other, name, dict(getattr(self, name)))
        other.unproven = set(self.unproven)
        other.rows = defaultdict(RowMemory, {row: one.copy() for row, one in self.rows.items()})
        return other


def heard(item: Item) -> Heard:
    """What a request says of a partition; StopReplica names no leader."""
    return Heard(item.fields["leader_epoch"], item.fields.get("leader"))
