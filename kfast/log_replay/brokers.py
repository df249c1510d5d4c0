"""What brokers remember of the requests that controllers sent them.

A broker handles LeaderAndIsr requests one after the other. Its memory of a partition's leader epoch
begins at -1 when the process starts; a line tells the epoch it had before.
"""

from __future__ import annotations

from collections.abc import Callable
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

LATEST = 1 << 62
RECEIVED = frozenset({"received", "received_dump"})
"""Lines that begin the story of a partition in a request."""


class BrokerSide:
    """What brokers remember, row by row.

    Attributes
    ----------
    memory : dict
        `Heard` by (broker, row).
    fresh : dict
        Whether a broker's process is known to have started after the log began; None where it may
        have been restarted without a line about it.
    """

    def __init__(self) -> None:
        self.memory: dict[tuple[int, int], Heard] = {}
        self.fresh: dict[int, bool | None] = {}
        self.started: dict[int, int] = {}
        self.registered_at: dict[int, int] = {}
        self.handled: dict[tuple[int, int], tuple[Any, Item]] = {}
        self.used: set[tuple[int, int, float, int]] = set()
        self.cached: dict[tuple[int, int], tuple[float, int]] = {}

    def start_by(self, line: Statement) -> None:
        """A line says that a broker's process starts."""
        broker = line.said.get("broker", line.actor_id)
        if broker is not None:
            self.start(broker, line.entry.time)

    def start(self, broker: int, time: int) -> None:
        """A broker's process starts: it remembers nothing."""
        self.fresh[broker] = True
        self.started[broker] = time
        for key in [key for key in self.memory if key[0] == broker]:
            del self.memory[key]

    def register(self, broker: int, time: int) -> None:
        """A broker registers; whether its process was restarted may not be known."""
        self.registered_at[broker] = time
        if broker not in self.started or time - self.started[broker] > RESTART_MS:
            self.fresh[broker] = None

    def remembered(
        self, simulation: Simulation, broker: int, row: int, now: Item | None
    ) -> Heard | None:
        """What a broker remembers before a request; None where it is not known.

        It has taken in every request since its process started, whether a line says so or not.
        """
        fresh = self.fresh.get(broker)
        if fresh is None and broker in self.fresh and simulation.possibility[row].starts:
            return None
        since = self.started.get(broker, 0) if fresh else 0
        last: Heard | None = None
        for item in simulation.requests(row, None, broker, now.time if now else LATEST):
            if now is not None and item.order >= now.order:
                break
            if item.time < since:
                continue
            if item.key[0] == "stop":
                if item.said["delete"]:  # It drops the partition with all that it remembers.
                    last = NEVER
            elif item.said["leader"] >= 0 and (
                item.said["leader"] == broker or item.said["leader"] in item.said["up"]
            ):
                last = heard(item)
        if last == NEVER:
            return NEVER
        known = self.memory.get((broker, row))
        if last is not None and (known is None or last.leader_epoch > known.leader_epoch):
            return last
        if known is not None:
            return known
        created = not simulation.possibility[row].starts
        return NEVER if fresh or created else None

    def forget(self, row: int) -> None:
        """A row is another partition from now on."""
        self.memory = {key: heard for key, heard in self.memory.items() if key[1] != row}
        self.handled = {key: item for key, item in self.handled.items() if key[1] != row}
        self.cached = {key: order for key, order in self.cached.items() if key[1] != row}

    def move_rows(self, moved: dict[int, int]) -> None:
        """Rows have new numbers; those that have none are forgotten."""
        self.memory = {(b, moved[r]): e for (b, r), e in self.memory.items() if r in moved}
        self.handled = {(b, moved[r]): h for (b, r), h in self.handled.items() if r in moved}
        self.cached = {(b, moved[r]): n for (b, r), n in self.cached.items() if r in moved}
        self.used = {(b, moved[r], event, step) for b, r, event, step in self.used if r in moved}

    def copy(self) -> BrokerSide:
        """Make an independent copy."""
        other = BrokerSide()
        for name in ("memory", "fresh", "started", "registered_at", "handled", "cached"):
            setattr(other, name, dict(getattr(self, name)))
        other.used = set(self.used)
        return other

    # --- requests -------------------------------------------------------------------------------

    def request(
        self, simulation: Simulation, line: Statement, said: dict[str, Any], row: int,
        logged: dict[str, Any], kind: str = "lead",
    ) -> Item | None:
        """The request that a line is about: the one being handled, or the next."""
        broker = line.actor_id
        if broker is None:
            return None
        session = said.get("session")
        context = (session, kind) if session is not None else (
            said.get("controller"), said.get("controller_epoch"), said.get("correlation"), kind
        )
        before = self.handled.get((broker, row))
        if before is not None and before[0] == context and None not in context and (
            line.kind not in RECEIVED
        ):
            return before[1]
        chosen = self._next(simulation, line, said, row, broker, logged, kind)
        if chosen is None:
            chosen = from_before(simulation, row, kind)
        if chosen is not None:
            self.used.add((broker, row, *chosen.order))
            self.handled[broker, row] = (context, chosen)
        return chosen

    def _next(
        self, simulation: Simulation, line: Statement, said: dict[str, Any], row: int, broker: int,
        logged: dict[str, Any], kind: str,
    ) -> Item | None:
        best: Item | None = None
        best_score: tuple[int, ...] = ()
        fits = _FITS.get(line.kind)
        for item in simulation.requests(row, kind, None, line.entry.time):
            if fits is not None and not fits(item.said, broker):
                continue
            term = item.event.term
            own = item.key[1] == broker
            unused = (broker, row, *item.order) not in self.used
            same = sum(1 for key, value in logged.items() if item.said.get(key) == value)
            right = said.get("controller") in (None, term.controller) and (
                said.get("controller_epoch") in (None, term.epoch)
            )
            score = (right, same == len(logged), own, unused, same)
            if score > best_score:
                best, best_score = item, score
        return best


def from_before(simulation: Simulation, row: int, kind: str) -> Item | None:
    """A request from before the log goes on: it carried the record as it is since then."""
    starts = simulation.possibility[row].starts
    leadership = simulation.state.leadership(row)
    if not starts or starts[-1].point.kind != "resume" or leadership is None or kind == "stop":
        return None
    if any(item.key[0] == kind for item in simulation.items.get(row, ())):
        return None
    point, assigned = starts[-1].point, simulation.state.assignment(row)
    return Item(point, -1, point.time, (kind, None), {
        "leader": leadership.leader, "leader_epoch": leadership.leader_epoch,
        "isr": leadership.isr, "version": leadership.version,
        "controller_epoch": leadership.controller_epoch, "replicas": assigned.replicas,
        "adding": assigned.adding, "removing": assigned.removing, "is_new": None,
        "up": frozenset(simulation.registered), "brokers": tuple(simulation.registered),
    })


def _leads(said: dict[str, Any], broker: int) -> bool:
    return bool(said["leader"] == broker)


def _follows(said: dict[str, Any], broker: int) -> bool:
    return bool(said["leader"] != broker)


def _follows_nobody(said: dict[str, Any], broker: int) -> bool:
    return said["leader"] != broker and said["leader"] not in said["up"]


_FITS: dict[str, Callable[[dict[str, Any], int], bool]] = {
    "became_leader": _leads, "already_leader": _leads, "became_follower": _follows,
    "already_follower": _follows, "leader_unavailable": _follows_nobody,
}
"""What a request must say for a broker to write such a line."""


def heard(item: Item) -> Heard:
    """What a request says of a partition; StopReplica names no leader."""
    return Heard(item.said["leader_epoch"], item.said.get("leader"))
