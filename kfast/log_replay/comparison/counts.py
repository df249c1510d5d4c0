"""Lines that count what a request holds: the controller's, and those of the brokers that get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.cluster_claims import Claim, ClusterView, CompareCluster, same
from kfast.log_replay.comparison.facts import BEFORE, BELOW_LEVEL, REMEMBERED, UNNAMED
from kfast.log_replay.events.events import COVERED_MS, TIE_MS
from kfast.log_replay.wording.forms import Statement

# --- requests, as the controller counts them ------------------------------------------------------

UPDATE_SIZE = "partitions in UpdateMetadata"


def _sent_leads(view: ClusterView, line: Statement) -> Iterator[Claim]:
    broker = line.fields["broker"]
    logged = (line.fields["n_leaders"], line.fields["n_followers"])
    found = _take(view, line, "leads", lambda s: s.leads.get(broker), logged, broker)
    subject = f"broker {broker}"
    if found is None and _of_earlier_event(view, line):
        for kind, n in zip(("partitions to lead", "partitions to follow"), logged, strict=True):
            yield Claim(kind, subject, n, None, BEFORE)
        return
    yield same("partitions to lead", subject, logged[0], found[0] if found else MISSING)
    yield same("partitions to follow", subject, logged[1], found[1] if found else MISSING)


def _sent_metadata(view: ClusterView, line: Statement) -> Iterator[Claim]:
    logged = (frozenset(line.fields["brokers"]), line.fields["n"])
    for ran in view.window(line.entry.time):
        if ran.event.kind == "hidden_isr" and logged[1] == ran.event.fields["n"]:
            yield Claim("partitions in UpdateMetadata", "cluster", logged[1], None, UNNAMED)
            return
    found = _take(
        view, line, "update_metadata",
        lambda s: (frozenset(s.recipients), s.n_partitions if s.recipients else 0), logged, None,
    )
    if found is None and _of_earlier_event(view, line):
        yield Claim("brokers told", "cluster", logged[0], None, BEFORE)
        yield Claim("partitions in UpdateMetadata", "cluster", logged[1], None, BEFORE)
        return
    yield same("brokers told", "cluster", logged[0], found[0] if found else MISSING)
    yield same("partitions in UpdateMetadata", "cluster", logged[1],
                found[1] if found else MISSING)


def _sent_stops(view: ClusterView, line: Statement) -> Iterator[Claim]:
    broker, delete = line.fields["broker"], line.fields.get("delete")

    def count(sending: Any) -> int | None:
        stops, deletes = sending.stops.get(broker, 0), sending.deletes.get(broker, 0)
        n = stops + deletes if delete is None else deletes if delete else stops
        return n or None

    found = _take(view, line, f"stops{delete}", count, line.fields["n"], broker)
    if found is None and _of_earlier_event(view, line):
        yield Claim("replicas to stop", f"broker {broker}", line.fields["n"], None, BEFORE)
        return
    yield same("replicas to stop", f"broker {broker}", line.fields["n"],
                MISSING if found is None else found)


def _of_earlier_event(view: ClusterView, line: Statement) -> bool:
    """Whether a request is of an event that began before the log, or before it goes on."""
    latest = next(view.window(line.entry.time), None)
    return latest is not None and latest.event.kind == "resume"


def _take(
    view: ClusterView, line: Statement, kind: str, fields: Callable[[Any], Any], logged: Any,
    broker: int | None,
) -> Any:
    """What a step sent that a line may be about: the first that says the same, else the first.

    An event is over when the next begins, so a later line is of the latest, if that sent the same.
    """
    free: list[tuple[Any, Any]] = []
    for ran in view.window(line.entry.time):
        untaken = [
            (value, key) for value, key in (
                (fields(sending), (kind, broker, ran.event.number, sending.step))
                for sending in ran.sendings
            ) if value is not None and key not in view.taken
        ]
        free[:0] = untaken
        if line.entry.time > ran.event.time and logged in (value for value, _ in untaken):
            break
    equal = [(value, key) for value, key in free if value == logged]
    for value, key in (equal or free)[:1]:
        view.taken.add(key)
        return value
    return None


# --- requests, as brokers count them --------------------------------------------------------------


def _handling(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A broker says how many partitions a request has."""
    fields, broker = line.fields, line.actor_id
    assert broker is not None
    kind = fields["request"]
    if kind not in ("LeaderAndIsr", "StopReplica"):
        return
    found = _received(view, line, broker, kind, fields["n"], fields.get("controller_epoch"))
    if found is None and (kind, broker) not in view.world.simulation.heard:
        yield Claim(f"partitions in {kind}", f"broker {broker}", fields["n"], None, REMEMBERED)
        return
    yield same(f"partitions in {kind}", f"broker {broker}", fields["n"],
                MISSING if found is None else found[0])
    if line.kind == "handling" and found is not None and kind == "LeaderAndIsr":
        view.sessions[broker] = (view.number, found[1])


def _cached(view: ClusterView, line: Statement) -> Iterator[Claim]:
    fields, broker = line.fields, line.actor_id
    assert broker is not None
    n = fields["n"] + fields["n_deleted"]
    if _may_be_unlogged(view, line, broker, n):
        yield Claim(UPDATE_SIZE, f"broker {broker}", n, None, BELOW_LEVEL)
        yield from broker_epoch(view, line)
        return
    found = _received(view, line, broker, "UpdateMetadata", n, fields["controller_epoch"])
    if found is None and ("UpdateMetadata", broker) not in view.world.simulation.heard:
        yield Claim(UPDATE_SIZE, f"broker {broker}", fields["n"], None, REMEMBERED)
        yield from broker_epoch(view, line)
        return
    term = found[1][0] if found is not None else None
    yield same(UPDATE_SIZE, f"broker {broker}", n, MISSING if found is None else found[0])
    yield same("controller epoch", "controller", fields["controller_epoch"],
                MISSING if term is None else term.epoch)


def _may_be_unlogged(view: ClusterView, line: Statement, broker: int, n: int) -> bool:
    """Whether a request may tell of ISR changes that no line of the controller would show.

    It does where no predicted request has as many partitions, or none has just been sent.
    """
    fields, time = line.fields, line.entry.time
    term = view.cluster.last_term(fields["controller"], time + TIE_MS)
    if term is None or id(term) not in view.unlogged or term.epoch != fields["controller_epoch"]:
        return False
    if fields["n_deleted"] or not fields["n"]:
        return False
    for ran in view.world.simulation.ran:
        if ran.event.term is not term or ran.event.time > time + TIE_MS:
            continue
        is_late = time - ran.event.time > COVERED_MS
        for sending in ran.sendings:
            key = (line.kind, "UpdateMetadata", broker, ran.event.number, sending.step, broker)
            if broker in sending.recipients and key not in view.taken and (
                sending.n_partitions == n or not is_late
            ):
                return False
    return True


def _received(
    view: ClusterView, line: Statement, broker: int, kind: str, n: int, epoch: int | None
) -> tuple[int, tuple[Any, ...]] | None:
    """The request that a broker speaks of: number of its partitions, and where it was sent."""
    time = line.entry.time
    best: tuple[int, tuple[Any, ...]] | None = None
    best_score: tuple[int, ...] = ()
    for ran in view.world.simulation.ran:
        term = ran.event.term
        if ran.event.time > time + TIE_MS or line.fields.get("controller") not in (
            None, term.controller
        ) or (best_score[:4] == (True,) * 4 and (
            epoch not in (None, term.epoch) or term.start <= best_score[4]
        )):
            continue
        hidden = ran.event.kind == "hidden_isr" and kind == "UpdateMetadata"
        for sending in ran.sendings:
            for to, count in _counts(sending, kind):
                if hidden:
                    count = ran.event.fields["n"]
                key = (line.kind, kind, broker, ran.event.number, sending.step, to)
                score = (epoch in (None, term.epoch), count == n, to == broker,
                         key not in view.taken, term.start)
                if score > best_score:
                    best = (count, (term, ran.event.number, sending.step, key))
                    best_score = score
        if hidden and not ran.sendings:
            key = (line.kind, kind, broker, ran.event.number, -1, broker)
            count = ran.event.fields["n"]
            score = (epoch in (None, term.epoch), count == n, True, key not in view.taken,
                     term.start)
            if score > best_score:
                best = (count, (term, ran.event.number, -1, key))
                best_score = score
    if best is not None:
        view.taken.add(best[1][-1])
    return best


def _counts(sending: Any, kind: str) -> Iterator[tuple[int, int]]:
    if kind == "LeaderAndIsr":
        yield from ((b, leads + follows) for b, (leads, follows) in sending.leads.items())
    elif kind == "StopReplica":
        for broker in {*sending.stops, *sending.deletes}:
            yield broker, sending.stops.get(broker, 0) + sending.deletes.get(broker, 0)
    else:
        yield from ((broker, sending.n_partitions) for broker in sending.recipients)


def broker_epoch(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Lines of brokers that name the controller's epoch."""
    fields = line.fields
    if "controller_epoch" not in fields or "controller" not in fields:
        return
    if fields.get("epoch_is_records"):
        return
    term = view.cluster.last_term(fields["controller"], line.entry.time + TIE_MS)
    first = view.cluster.terms[0]
    if term is None and line.entry.time < first.start:
        if fields["controller"] != first.controller:  # Of a controller from before the log.
            yield Claim("controller epoch", "controller", fields["controller_epoch"], None, BEFORE)
            return
        term = first
    if term is None:
        yield same("controller epoch", "controller", fields["controller_epoch"], MISSING)
        return
    session = view.sessions.get(line.actor_id) if line.actor_id is not None else None
    predicted = term.epoch
    if session is not None and fields.get("session") == session[0]:
        predicted = session[1][0].epoch
    yield same("controller epoch", "controller", fields["controller_epoch"], predicted)


COUNTS: dict[str, CompareCluster] = {
    "sent_leader_and_isr": _sent_leads, "sent_update_metadata": _sent_metadata,
    "sent_stop_replica": _sent_stops, "handling": _handling, "finished": _handling,
    "cached": _cached,
}
"""What checks each kind of line that counts."""
