"""Brokers' own lines: what they did with the requests that the controller sent.

A broker handles LeaderAndIsr requests one after the other. Of each partition in a request it says
in one line what it made of it. Its memory of a partition's leader epoch begins at -1 when the
process starts; a line tells the epoch it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kfast.replay.forms import Statement
from kfast.replay.items import Item

if TYPE_CHECKING:
    from kfast.replay.compare import Check, View

NEVER = -1
"""Leader epoch of a partition that a broker has heard nothing of."""

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
        Leader epoch by (broker, row).
    fresh : dict
        Whether a broker's process is known to have started after the log began; None where it may
        have been restarted without a line about it.
    """

    def __init__(self) -> None:
        self.memory: dict[tuple[int, int], int] = {}
        self.fresh: dict[int, bool | None] = {}
        self.started: dict[int, int] = {}
        self.registered_at: dict[int, int] = {}
        self.handled: dict[tuple[int, int], tuple[Any, Item]] = {}
        self.used: set[tuple[float, ...]] = set()
        self.cached: dict[tuple[int, int], tuple[float, int]] = {}

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

    def remembered(self, view: View, broker: int, row: int, now: Item | None) -> int | None:
        """Leader epoch that a broker remembers before a request; None where it is not known.

        It has taken in every request since its process started, whether a line says so or not.
        """
        fresh = self.fresh.get(broker)
        if fresh is None and broker in self.fresh and view.simulation.possibility[row].starts:
            return None
        since = self.started.get(broker, 0) if fresh else 0
        last: int | None = None
        for item in view.simulation.requests(row, "lead", broker, now.time if now else LATEST):
            if now is not None and item.order >= now.order:
                break
            if item.time >= since and item.said["leader"] >= 0 and (
                item.said["leader"] == broker or item.said["leader"] in item.said["up"]
            ):
                last = item.said["leader_epoch"]
        known = self.memory.get((broker, row))
        if last is not None and (known is None or last > known):
            return last
        if known is not None:
            return known
        created = not view.simulation.possibility[row].starts
        return NEVER if fresh or created else None

    def move_rows(self, moved: dict[int, int]) -> None:
        """Rows have new numbers; those that have none are forgotten."""
        self.memory = {(b, moved[r]): e for (b, r), e in self.memory.items() if r in moved}
        self.handled = {(b, moved[r]): h for (b, r), h in self.handled.items() if r in moved}
        self.cached = {(b, moved[r]): n for (b, r), n in self.cached.items() if r in moved}
        self.used = {(b, moved[int(r)], *rest) for b, r, *rest in self.used if r in moved}

    def copy(self) -> BrokerSide:
        """Make an independent copy."""
        other = BrokerSide()
        for name in ("memory", "fresh", "started", "registered_at", "handled", "cached"):
            setattr(other, name, dict(getattr(self, name)))
        other.used = set(self.used)
        return other

    # --- requests -------------------------------------------------------------------------------

    def request(
        self, view: View, line: Statement, said: dict[str, Any], row: int,
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
        chosen = self._next(view, line, said, row, broker, logged, kind)
        if chosen is not None:
            self.used.add((broker, row, *chosen.order))
            self.handled[broker, row] = (context, chosen)
        return chosen

    def _next(
        self, view: View, line: Statement, said: dict[str, Any], row: int, broker: int,
        logged: dict[str, Any], kind: str,
    ) -> Item | None:
        simulation = view.simulation
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


def note_sessions(lines: Iterable[Statement]) -> None:
    """Tell lines of brokers which request they are about, where only the line before says it."""
    current: dict[tuple[int | None, str], tuple[int, Any]] = {}
    for number, line in enumerate(lines):
        if line.actor != "broker":
            continue
        if line.kind == "handling":
            current[line.actor_id, line.said["request"]] = (number, line.said)
            continue
        request = "StopReplica" if line.said.get("request") == "StopReplica" else "LeaderAndIsr"
        handled = current.get((line.actor_id, request))
        if handled is None or line.kind not in BROKER_COMPARE:
            continue
        session, said = handled
        if line.said.get("correlation") in (None, said["correlation"]) and (
            line.said.get("controller") in (None, said["controller"])
        ):
            line.said["session"] = session
            line.said.setdefault("controller", said["controller"])


def _role(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    """`Leader t-0 starts at leader epoch 3 ...`, `Follower t-0 starts ...`."""
    from kfast.replay.compare import MISSING, Check

    side, broker = view.brokers, line.actor_id
    assert broker is not None
    leads = line.kind == "became_leader"
    logged = {"leader_epoch": said["leader_epoch"]}
    if leads:
        logged["leader"] = broker
    item = side.request(view, line, said, row, logged)
    found = item.said if item is not None else None

    def predicted(name: str) -> Any:
        return MISSING if found is None or found.get(name) is None else found[name]

    checks = [Check("leader_epoch", said["leader_epoch"], predicted("leader_epoch"), "epoch")]
    if leads or said.get("leader") is not None:
        checks.append(Check("leader", broker if leads else said["leader"], predicted("leader")))
    elif found is not None:
        checks.append(Check("role", "follower", _role_of(found, broker)))
    for name in ("isr", "adding", "removing"):
        if name in said:
            checks.append(Check(name, said[name], predicted(name)))
    if "version" in said:
        checks.append(Check("version", said["version"], predicted("version"), "version"))
    checks += _previous(view, broker, row, item, said["previous"])
    if found is not None:
        side.memory[broker, row] = found["leader_epoch"]
    return checks


def _role_of(found: dict[str, Any], broker: int) -> str:
    return "leader" if found["leader"] == broker else "follower"


def _previous(
    view: View, broker: int, row: int, item: Item | None, logged: int
) -> list[Check]:
    """The epoch that a broker had before; the first such line after a registration decides."""
    from kfast.replay.compare import Check

    side = view.brokers
    if side.fresh.get(broker) is None and broker in side.fresh:
        side.fresh[broker] = logged == NEVER
        if logged == NEVER:
            side.start(broker, side.registered_at.get(broker, 0))
    known = side.remembered(view, broker, row, item)
    if known is None:
        return [Check("previous leader epoch", logged, None)]
    return [Check("previous leader epoch", logged, known,
                  "epoch" if known != NEVER else "")]


def _received(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    from kfast.replay.compare import record_checks

    record = said["record"]
    logged = {k: v for k, v in record._asdict().items() if v is not None and k != "recovery"}
    as_set = view.simulation.controller.profile.name == "zk-0.10" and "replicas" in logged
    if as_set:  # Before 0.11 a request carries a set of replicas, in any order.
        del logged["replicas"]
    item = view.brokers.request(view, line, said, row, logged)
    checks = record_checks(record, item.said if item is not None else None)
    return [
        check._replace(logged=tuple(sorted(check.logged)), predicted=tuple(sorted(check.predicted)))
        if as_set and check.field == "replicas" and isinstance(check.predicted, tuple) else check
        for check in checks
    ]


def _same_epoch(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    """A request that brings nothing new, or something old."""
    from kfast.replay.compare import MISSING, Check

    side, broker = view.brokers, line.actor_id
    assert broker is not None
    kind = "stop" if said["request"].startswith("Stop") else "lead"
    item = side.request(view, line, said, row, {"leader_epoch": said["leader_epoch"]}, kind)
    epoch = MISSING if item is None else item.said["leader_epoch"]
    checks = [Check("leader_epoch", said["leader_epoch"], epoch, "epoch")]
    current = said.get("current", said["leader_epoch"])
    known = side.remembered(view, broker, row, item)
    if known is not None and known != NEVER:
        checks.append(Check("current leader epoch", current, known, "epoch"))
    elif item is not None and line.kind == "same_epoch":
        side.memory[broker, row] = item.said["leader_epoch"]
    return checks


def _with_record_epoch(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    """Lines that name the controller epoch of the record, and perhaps its leader."""
    from kfast.replay.compare import MISSING, Check

    logged = {}
    if "leader" in said:
        logged["leader"] = said["leader"]
    if "record_epoch" in said:
        logged["controller_epoch"] = said["record_epoch"]
    item = view.brokers.request(view, line, said, row, logged)
    found = item.said if item is not None else {}
    checks = []
    for name, value in logged.items():
        counted = "record_epoch" if name == "controller_epoch" else ""
        checks.append(Check(name, value, found.get(name, MISSING), counted))
    return checks


def _cached(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    """`Cached leader info ...`: the UpdateMetadata that a broker took in, one after the other."""
    from kfast.replay.compare import record_checks

    broker = line.actor_id
    assert broker is not None
    record = said["record"]
    logged = {k: v for k, v in record._asdict().items() if v is not None and k != "recovery"}
    best, best_score = None, (-1, -1)
    last = view.brokers.cached.get((broker, row), (-1, -1))
    for item in view.simulation.requests(row, "told", None, line.entry.time):
        if broker not in item.said["brokers"]:
            continue
        same = sum(1 for key, value in logged.items() if _same(item.said.get(key), value))
        score = (same, 1 if item.order > last else 0)
        if score > best_score:
            best, best_score = item, score
    if best is not None:
        view.brokers.cached[broker, row] = max(last, best.order)
    return record_checks(record, best.said if best is not None else None)


def _same(predicted: Any, logged: Any) -> bool:
    if isinstance(logged, tuple) and isinstance(predicted, tuple):
        return set(predicted) == set(logged)
    return bool(predicted == logged)


def _stopping(view: View, line: Statement, said: dict[str, Any], row: int) -> list[Check]:
    from kfast.replay.compare import MISSING, Check

    item = view.brokers.request(view, line, said, row, {"delete": said["delete"]}, "stop")
    return [Check("delete", said["delete"], MISSING if item is None else item.said["delete"])]


BROKER_COMPARE: dict[str, Callable[[View, Statement, dict[str, Any], int], list[Check]]] = {
    "became_leader": _role, "became_follower": _role, "received": _received,
    "received_dump": _received, "same_epoch": _same_epoch, "old_epoch": _same_epoch,
    "already_leader": _with_record_epoch, "already_follower": _with_record_epoch,
    "leader_unavailable": _with_record_epoch, "cached_partition": _cached, "stopping": _stopping,
}
"""What compares each kind of line that a broker writes about a partition."""
