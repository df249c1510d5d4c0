"""Lines in which brokers count the requests they were sent, and name who sent them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast.replay.compare import MISSING
from kfast.replay.facts import REGISTERED
from kfast.replay.forms import Statement
from kfast.replay.said import Said, Whole, same
from kfast.replay.script import TIE_MS


def term_epoch(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    """A line names the controller of its term, or its epoch."""
    said, term = line.said, whole.term
    if term is None:
        return
    if "controller" in said and line.kind != "other_elected":
        yield same("controller", "controller", said["controller"], term.controller)
    if "controller_epoch" in said:
        yield same("controller epoch", "controller", said["controller_epoch"], term.epoch)


def handling(whole: Whole, line: Statement, number: int) -> Iterator[Said]:
    """A broker says how many partitions a request has."""
    said, broker = line.said, line.actor_id
    assert broker is not None
    kind = said["request"]
    if kind not in ("LeaderAndIsr", "StopReplica"):
        return
    found = _received(whole, line, broker, kind, said["n"], said.get("controller_epoch"))
    yield same(f"partitions in {kind}", f"broker {broker}", said["n"],
                MISSING if found is None else found[0])
    if line.kind == "handling" and found is not None and kind == "LeaderAndIsr":
        whole.sessions[broker] = (number, found[1])


def cached(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    """A broker says how many partitions an UpdateMetadata has."""
    said, broker = line.said, line.actor_id
    assert broker is not None
    found = _received(
        whole, line, broker, "UpdateMetadata", said["n"] + said["n_deleted"],
        said["controller_epoch"],
    )
    term = found[1][0] if found is not None else None
    yield same("partitions in UpdateMetadata", f"broker {broker}", said["n"] + said["n_deleted"],
                MISSING if found is None else found[0])
    yield same("controller epoch", "controller", said["controller_epoch"],
                MISSING if term is None else term.epoch)


def _received(
    whole: Whole, line: Statement, broker: int, kind: str, n: int, epoch: int | None
) -> tuple[int, tuple[Any, ...]] | None:
    """The request that a broker speaks of: number of its partitions, and where it was sent."""
    time = line.entry.time
    best: tuple[int, tuple[Any, ...]] | None = None
    best_score: tuple[int, ...] = ()
    for ran in whole.world.simulation.ran:
        if ran.event.time > time + TIE_MS:
            continue
        term = ran.event.term
        if line.said.get("controller") not in (None, term.controller):
            continue
        hidden = ran.event.kind == "hidden_isr" and kind == "UpdateMetadata"
        for sending in ran.sendings:
            for to, count in _counts(sending, kind):
                if hidden:
                    count = ran.event.said["n"]
                key = (line.kind, kind, broker, ran.event.number, sending.step, to)
                score = (epoch in (None, term.epoch), count == n, to == broker,
                         key not in whole.taken, term.start)
                if score > best_score:
                    best = (count, (term, ran.event.number, sending.step, key))
                    best_score = score
        if hidden and not ran.sendings:
            key = (line.kind, kind, broker, ran.event.number, -1, broker)
            count = ran.event.said["n"]
            score = (epoch in (None, term.epoch), count == n, True, key not in whole.taken,
                     term.start)
            if score > best_score:
                best = (count, (term, ran.event.number, -1, key))
                best_score = score
    if best is not None:
        whole.taken.add(best[1][-1])
    return best


def _counts(sending: Any, kind: str) -> Iterator[tuple[int, int]]:
    if kind == "LeaderAndIsr":
        yield from ((b, leads + follows) for b, (leads, follows) in sending.leads.items())
    elif kind == "StopReplica":
        for broker in {*sending.stops, *sending.deletes}:
            yield broker, sending.stops.get(broker, 0) + sending.deletes.get(broker, 0)
    else:
        yield from ((broker, sending.n_told) for broker in sending.told)


def broker_epoch(whole: Whole, line: Statement, _number: int) -> Iterator[Said]:
    """Lines of brokers that name the controller's epoch."""
    said = line.said
    if "controller_epoch" not in said or "controller" not in said:
        return
    if said.get("epoch_is_records"):
        return
    terms = [
        t for t in whole.cluster.terms
        if t.controller == said["controller"] and t.start <= line.entry.time + TIE_MS
    ]
    epochs = {t.epoch for t in terms}
    if not terms:
        yield same("controller epoch", "controller", said["controller_epoch"], MISSING)
        return
    session = whole.sessions.get(line.actor_id) if line.actor_id is not None else None
    predicted = terms[-1].epoch
    if session is not None and said.get("session") == session[0]:
        predicted = session[1][0].epoch
    elif said["controller_epoch"] in epochs and said["controller_epoch"] == terms[-1].epoch:
        predicted = said["controller_epoch"]
    yield same("controller epoch", "controller", said["controller_epoch"], predicted)


def request_header(whole: Whole, line: Statement, number: int) -> Iterator[Said]:
    """A request that could not be sent: whose it is, and for which registration."""
    yield from term_epoch(whole, line, number)
    request, broker = line.said["request"], line.said["broker"]
    term = whole.term
    if term is not None and request.controller_epoch is not None:
        yield same("controller epoch", "controller", request.controller_epoch, term.epoch)
    known = whole.known_epochs.get(broker)
    if request.broker_epoch is not None:
        yield Said("broker epoch", f"broker {broker}", request.broker_epoch, known,
                   REGISTERED if known is None else "")
