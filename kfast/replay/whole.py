"""Lines that speak of the whole cluster: who is registered, how much was sent, ratios.

Each kind has one function from a line to checks with a subject. `Check.predicted` is `MISSING`
where kfast predicts nothing of the kind; `None` means that only the log can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kfast.replay.compare import MISSING
from kfast.replay.facts import REGISTERED, UNNAMED, name_of
from kfast.replay.forms import Statement
from kfast.replay.inference import BEFORE, HOLE
from kfast.replay.said import Said, Whole, same
from kfast.replay.scala import Assigned
from kfast.replay.terms import Term
from kfast.replay.whole_requests import broker_epoch, cached, handling, request_header, term_epoch
from kfast.schema import FLAG_ASSIGNED

RATIO_DIGITS = 1e-5
"""Old releases print ratios with six digits."""


# --- who is the controller ---------------------------------------------------------------------


def _elected(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    said, term = line.said, whole.term
    if term is None:
        return
    if "controller" in said:
        yield same("controller", "controller", said["controller"], term.controller)
    if "controller_epoch" not in said:
        return
    before = _before(whole, term)
    epoch = said["controller_epoch"]
    if term.follows and before is not None and before.epoch is not None:
        yield same("controller epoch", "controller", epoch, before.epoch + 1)
    elif epoch == term.epoch:
        reason = BEFORE if before is None else HOLE
        yield Said("controller epoch", "controller", epoch, None, reason)
    else:
        yield same("controller epoch", "controller", epoch, term.epoch)
    if "epoch_version" not in said or term.epoch is None:
        return
    yield same("epoch store version", "controller", said["epoch_version"], term.epoch)


def _before(whole: Whole, term: Term) -> Term | None:
    earlier = [t for t in whole.cluster.terms if t.start < term.start]
    return earlier[-1] if earlier else None


def _other_elected(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    time = line.entry.time
    terms = [t for t in whole.cluster.terms if t.start <= time]
    soon = [t for t in whole.cluster.terms if time < t.start <= time + 5000]
    if not terms:
        return
    logged = line.said["controller"]
    ids = {terms[-1].controller, *(t.controller for t in soon)}
    predicted = logged if logged in ids else terms[-1].controller
    yield same("controller", "controller", logged, predicted)


# --- brokers -------------------------------------------------------------------------------------


def _broker_epochs(whole: Whole, line: Statement, number: int) -> Iterator[Said]:
    registered = whole.world.simulation.registered
    said: dict[int, int] = line.said["epochs"]
    yield same("registered brokers", "cluster", frozenset(said), frozenset(registered))
    for broker, epoch in sorted(said.items()):
        true = whole.epochs.get(number, {}).get(broker, epoch)
        if whole.known_epochs.get(broker) == true or epoch != true:
            yield same("broker epoch", f"broker {broker}", epoch, true)
        else:
            latest = max(whole.known_epochs.values(), default=-1)
            earlier = whole.known_epochs.get(broker, -1)
            wrong = epoch <= earlier
            whole.known_epochs[broker] = true
            del latest
            yield Said("broker epoch", f"broker {broker}", epoch,
                       MISSING if wrong else None, "" if wrong else REGISTERED)


def _brokers(field_name: str, kind: str) -> Callable[[Whole, Statement, int], Iterator[Said]]:
    def check(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
        simulation = whole.world.simulation
        sets = {
            "registered brokers": simulation.registered,
            "brokers shutting down": simulation.shutting_down,
            "live brokers": simulation.registered - simulation.shutting_down,
        }
        yield same(kind, "cluster", frozenset(line.said[field_name]), frozenset(sets[kind]))

    return check


def _startup(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    started = line.kind == "broker_startup"
    for ran in whole.window(line.entry.time):
        if ran.event.kind == "brokers":
            said = ran.event.said
            names = ("added", "bounced") if started else ("deleted", "bounced")
            lists = [frozenset(said[name]) for name in names]
            logged = frozenset(line.said["brokers"])
            right = logged if logged in lists else lists[0]
            kind = "brokers that started" if started else "brokers that failed"
            yield same(kind, "cluster", logged, right)
            return
    kind = "brokers that started" if started else "brokers that failed"
    yield same(kind, "cluster", frozenset(line.said["brokers"]), MISSING)


# --- topics --------------------------------------------------------------------------------------


def _topics(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    state = whole.world.simulation.state
    there = {
        possibility.partition[0]
        for row, possibility in enumerate(whole.world.simulation.possibility)
        if int(state.records["flags"][row]) & FLAG_ASSIGNED
    }
    yield same("topics", "cluster", frozenset(line.said["topics"]), frozenset(there))


def _ineligible(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    """Topics with a replica that is not online, or with a reassignment under way."""
    simulation = whole.world.simulation
    names = set()
    for row, possibility in enumerate(simulation.possibility):
        assigned = simulation.state.assignment(row)
        live = simulation.registered - simulation.shutting_down
        if assigned.being_reassigned or any(b not in live for b in assigned.replicas):
            names.add(possibility.partition[0])
    field_name = "ineligible" if "ineligible" in line.said else "topics"
    yield same("topics ineligible for deletion", "cluster",
                frozenset(line.said[field_name]), frozenset(names))


def _created(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    for ran in whole.window(line.entry.time):
        if ran.event.kind in ("topics", "partitions"):
            made = frozenset(name_of(p) for p in ran.event.said["created"])
            logged = frozenset(name_of(p) for p in line.said["partitions"])
            yield same("new partitions", "cluster", logged, made)
            return


# --- balance -------------------------------------------------------------------------------------


def _ratio(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    broker, logged = line.said["broker"], line.said["ratio"]
    known = whole.world.simulation.imbalance.get(broker)
    predicted: Any = MISSING
    if known is not None:
        predicted = logged if abs(known[2] - logged) < RATIO_DIGITS else known[2]
    yield same("imbalance ratio", f"broker {broker}", logged, predicted)


def _election(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    """Partitions that automatic balancing elects for."""
    if line.said["trigger"] != "AutoTriggered":
        return
    logged = frozenset(line.said["partitions"])
    found: list[frozenset[Any]] = []
    for ran in whole.window(line.entry.time):
        if ran.event.kind == "rebalance":
            groups: dict[int, set[Any]] = {}
            outcome = ran.outcome
            if outcome is not None:
                for row in outcome.elections.to_pylist():
                    groups.setdefault(row["step"], set()).add((row["topic"], row["partition"]))
            found = [frozenset(group) for group in groups.values()]
            break
    predicted = logged if logged in found or not logged else (found[0] if found else frozenset())
    yield same("partitions to balance", "cluster",
                frozenset(map(name_of, logged)), frozenset(map(name_of, predicted)))


# --- requests, as the controller counts them ------------------------------------------------------


def _sent_leads(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    broker = line.said["broker"]
    logged = (line.said["n_leaders"], line.said["n_followers"])
    found = _take(whole, line, "leads", lambda s: s.leads.get(broker), logged, broker)
    subject = f"broker {broker}"
    yield same("partitions to lead", subject, logged[0], found[0] if found else MISSING)
    yield same("partitions to follow", subject, logged[1], found[1] if found else MISSING)


def _sent_metadata(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    logged = (frozenset(line.said["brokers"]), line.said["n"])
    for ran in whole.window(line.entry.time):
        if ran.event.kind == "hidden_isr" and logged[1] == ran.event.said["n"]:
            yield Said("partitions in UpdateMetadata", "cluster", logged[1], None, UNNAMED)
            return
    found = _take(
        whole, line, "told", lambda s: (frozenset(s.told), s.n_told if s.told else 0), logged, None
    )
    yield same("brokers told", "cluster", logged[0], found[0] if found else MISSING)
    yield same("partitions in UpdateMetadata", "cluster", logged[1],
                found[1] if found else MISSING)


def _sent_stops(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    broker, delete = line.said["broker"], line.said.get("delete")

    def count(sending: Any) -> int | None:
        stops, deletes = sending.stops.get(broker, 0), sending.deletes.get(broker, 0)
        n = stops + deletes if delete is None else deletes if delete else stops
        return n or None

    found = _take(whole, line, f"stops{delete}", count, line.said["n"], broker)
    yield same("replicas to stop", f"broker {broker}", line.said["n"],
                MISSING if found is None else found)


def _take(
    whole: Whole, line: Statement, kind: str, said: Callable[[Any], Any], logged: Any,
    broker: int | None,
) -> Any:
    """What a step sent that a line may be about: the first that says the same, else the first."""
    free = []
    for ran in whole.window(line.entry.time):
        some = [
            (said(sending), (kind, broker, ran.event.number, sending.step))
            for sending in ran.sendings
        ]
        free += [(value, key) for value, key in some
                 if value is not None and key not in whole.taken]
    for value, key in free:
        if value == logged:
            whole.taken.add(key)
            return value
    for value, key in free:
        whole.taken.add(key)
        return value
    return None


Check = Callable[[Whole, Statement, int], Iterator[Said]]
WHOLE: dict[str, Check] = {
    "elected": _elected, "epoch": _elected, "ready": term_epoch, "becoming": term_epoch,
    "partition_failed": term_epoch, "replica_failed": term_epoch,
    "other_elected": _other_elected, "broker_epochs": _broker_epochs,
    "active_brokers": _brokers("brokers", "registered brokers"),
    "shutting_brokers": _brokers("brokers", "brokers shutting down"),
    "all_shutting": _brokers("brokers", "brokers shutting down"),
    "live_brokers": _brokers("brokers", "live brokers"),
    "broker_change": _brokers("live", "registered brokers"),
    "broker_startup": _startup, "broker_failure": _startup,
    "topics": _topics, "topics_ineligible": _ineligible, "deletion_init": _ineligible,
    "new_partitions": _created, "ratio": _ratio, "election": _election,
    "sent_leader_and_isr": _sent_leads, "sent_update_metadata": _sent_metadata,
    "sent_stop_replica": _sent_stops, "handling": handling, "finished": handling,
    "cached": cached, "send_failed": request_header,
}
"""What checks each kind of line that speaks of the whole cluster."""

BROKER_EPOCH: Check = broker_epoch
__all__ = ["BROKER_EPOCH", "WHOLE", "Assigned", "Said", "Whole"]
