"""Brokers' own lines: what they did with the requests that the controller sent.

A broker handles LeaderAndIsr requests one after the other. Of each partition in a request it says
in one line what it made of it. Its memory of a partition's leader epoch begins at -1 when the
process starts; a line tells the epoch it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from kfast.log_replay.checks import MISSING, Case, Check, Compare, View, record_checks
from kfast.log_replay.items import Item
from kfast.log_replay.log_messages import Statement


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

    def remembered(self, view: View, broker: int, row: int, now: Item | None) -> Heard | None:
        """What a broker remembers before a request; None where it is not known.

        It has taken in every request since its process started, whether a line says so or not.
        """
        fresh = self.fresh.get(broker)
        if fresh is None and broker in self.fresh and view.simulation.possibility[row].starts:
            return None
        since = self.started.get(broker, 0) if fresh else 0
        last: Heard | None = None
        for item in view.simulation.requests(row, "lead", broker, now.time if now else LATEST):
            if now is not None and item.order >= now.order:
                break
            if item.time >= since and item.said["leader"] >= 0 and (
                item.said["leader"] == broker or item.said["leader"] in item.said["up"]
            ):
                last = _heard(item)
        known = self.memory.get((broker, row))
        if last is not None and (known is None or last.leader_epoch > known.leader_epoch):
            return last
        if known is not None:
            return known
        created = not view.simulation.possibility[row].starts
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
        if chosen is None:
            chosen = from_before(view, row, kind)
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


def from_before(view: View, row: int, kind: str) -> Item | None:
    """A request from before the log goes on: it carried the record as it is since then."""
    simulation = view.simulation
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


def _role(case: Case) -> list[Check]:
    """`Leader t-0 starts at leader epoch 3 ...`, `Follower t-0 starts ...`."""
    view, line, said, row = case.view, case.line, case.said, case.row
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
    if line.kind == "became_follower" and "previous_leader" in said:
        checks += [
            Check("previous leader epoch", said["previous"], predicted("leader_epoch"), "epoch"),
            Check("previous leader", said["previous_leader"], predicted("leader")),
        ]
    else:
        checks += _previous(view, broker, row, item, said)
    if item is not None:
        side.memory[broker, row] = _heard(item)
    return checks


def _role_of(found: dict[str, Any], broker: int) -> str:
    return "leader" if found["leader"] == broker else "follower"


def _heard(item: Item) -> Heard:
    """What a request says of a partition; StopReplica names no leader."""
    return Heard(item.said["leader_epoch"], item.said.get("leader"))


def _previous(
    view: View, broker: int, row: int, item: Item | None, said: dict[str, Any]
) -> list[Check]:
    """The epoch that a broker had before; the first such line after a registration decides."""
    side, logged = view.brokers, said["previous"]
    if side.fresh.get(broker) is None and broker in side.fresh:
        side.fresh[broker] = logged == NEVER.leader_epoch
        if side.fresh[broker]:
            side.start(broker, side.registered_at.get(broker, 0))
    known = side.remembered(view, broker, row, item)
    epoch = None if known is None else known.leader_epoch
    checks = [Check("previous leader epoch", logged, epoch,
                    "epoch" if known is not None and known != NEVER else "")]
    if "previous_leader" in said:
        checks.append(Check("previous leader", said["previous_leader"],
                            None if known is None else known.leader))
    return checks


def _received(case: Case) -> list[Check]:
    view, line, said, row = case.view, case.line, case.said, case.row
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


def _same_epoch(case: Case) -> list[Check]:
    """A request that brings nothing new, or something old."""
    view, line, said, row = case.view, case.line, case.said, case.row
    side, broker = view.brokers, line.actor_id
    assert broker is not None
    kind = "stop" if said["request"].startswith("Stop") else "lead"
    item = side.request(view, line, said, row, {"leader_epoch": said["leader_epoch"]}, kind)
    epoch = MISSING if item is None else item.said["leader_epoch"]
    checks = [Check("leader_epoch", said["leader_epoch"], epoch, "epoch")]
    current = said.get("current", said["leader_epoch"])
    known = side.remembered(view, broker, row, item)
    if known is not None and known != NEVER:
        checks.append(Check("current leader epoch", current, known.leader_epoch, "epoch"))
    elif item is not None and line.kind == "same_epoch":
        side.memory[broker, row] = _heard(item)
    return checks


def _with_record_epoch(case: Case) -> list[Check]:
    """Lines that name the controller epoch of the record, and perhaps its leader."""
    view, line, said, row = case.view, case.line, case.said, case.row
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


def _cached(case: Case) -> list[Check]:
    """`Cached leader info ...`: the UpdateMetadata that a broker took in, one after the other."""
    view, line, said, row = case.view, case.line, case.said, case.row
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
    if best is None:
        best = from_before(view, row, "told")
    if best is not None:
        view.brokers.cached[broker, row] = max(last, best.order)
    return record_checks(record, best.said if best is not None else None)


def _same(predicted: Any, logged: Any) -> bool:
    if isinstance(logged, tuple) and isinstance(predicted, tuple):
        return set(predicted) == set(logged)
    return bool(predicted == logged)


def _stopping(case: Case) -> list[Check]:
    view, line, said, row = case.view, case.line, case.said, case.row
    item = view.brokers.request(view, line, said, row, {"delete": said["delete"]}, "stop")
    return [Check("delete", said["delete"], MISSING if item is None else item.said["delete"])]


BROKER_COMPARE: dict[str, Compare] = {
    "became_leader": _role, "became_follower": _role, "received": _received,
    "received_dump": _received, "same_epoch": _same_epoch, "old_epoch": _same_epoch,
    "already_leader": _with_record_epoch, "already_follower": _with_record_epoch,
    "leader_unavailable": _with_record_epoch, "cached_partition": _cached, "stopping": _stopping,
}
"""What compares each kind of line that a broker writes about a partition."""
