"""Lines that count what a request holds: the controller's, and those of the brokers that get it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.cluster_claims import Claim, ClusterView, CompareCluster
from kfast.log_replay.comparison.facts import (
    BELOW_LEVEL,
    REMEMBERED,
    REPLACED,
    UNNAMED,
)
from kfast.log_replay.engine.predictions import Sending
from kfast.log_replay.engine.simulation import Ran
from kfast.log_replay.events.events import COVERED_MS, TIE_MS
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement

Fields = dict[str, Any]

REFUSED_MS = 10_000
"""A proposal is refused within this time of the decision that its leader had not heard of."""

# --- requests, as the controller counts them ------------------------------------------------------


def _sent(view: ClusterView, line: Statement) -> Iterator[Claim]:
    fields, broker = line.fields, line.fields.get("broker")
    names = _SENT[line.kind].fields
    logged = tuple(
        frozenset(fields[field]) if field == "brokers" else fields[field]
        for field in names.values()
    )
    subject = "cluster" if broker is None else f"broker {broker}"
    if _is_hidden(view, line):
        yield Claim("partitions in UpdateMetadata", subject, fields["n"], None, UNNAMED)
        return
    found = _take(view, line, logged)
    if line.kind == "sent_update_metadata" and found != logged:
        refused = _refused(view, line, found[1] if found else 0, fields["n"])
        if refused is not None:
            refused.n_partitions = fields["n"]
            yield Claim("brokers told", subject, logged[0], frozenset(refused.recipients))
            yield Claim("partitions in UpdateMetadata", subject, logged[1], None, UNNAMED)
            return
    # The request may be of an event that began before the log, or before it goes on.
    latest = view.latest(line)
    absent = None if latest is not None and latest.event.kind == "resume" else MISSING
    is_known = broker is None or broker in view.world.simulation.state.broker_id
    values = (absent,) * len(names) if found is None else found
    for kind, value, predicted in zip(names, logged, values, strict=True):
        if not is_known or (
            isinstance(value, frozenset) and predicted is not MISSING and value and predicted
        ):
            yield Claim(kind, subject, value, predicted)
        else:
            yield view.count(kind, subject, value, predicted)


def _is_hidden(view: ClusterView, line: Statement) -> bool:
    """Whether a line is about the one request of an ISR change whose partitions no line names."""
    for ran in view.window(line) if line.kind == "sent_update_metadata" else ():
        key = "hidden_isr", ran.event.number
        if ran.event.kind == "hidden_isr" and key not in view.taken and (
            ran.event.fields["n"] == line.fields["n"]
        ):
            view.taken.add(key)
            return True
    return False


def _refused(view: ClusterView, line: Statement, n_changed: int, n: int) -> Sending | None:
    """The request that may tell of partitions too whose ISR change was refused.

    A leader asks for many at once. No line tells of those whose leader epoch is higher than it
    knows, and the request has all of them (docs/controller.md, section 6.10).
    """
    simulation = view.world.simulation
    ran = view.latest(line)
    if ran is None or ran.event.kind != "isr" or (
        not simulation.controller.profile.has_alter_partition
    ):
        return None
    n_raised = sum(
        any(ran.event.time - item.event.time < REFUSED_MS
            for kind in ("led", "shrunk", "leader_and_isr")
            for item in simulation.items_of(row, kind)[-1:])
        for row in simulation.items
    )
    if not 0 < n - n_changed <= n_raised:
        return None
    ran.received.clear()  # The request that is returned gets another number of partitions.
    return next((sent for sent in ran.sendings if sent.n_partitions == n_changed), None)


def _led(sending: Sending, fields: Fields) -> tuple[Any, ...] | None:
    return sending.leads.get(fields["broker"])


def _updated(sending: Sending, _: Fields) -> tuple[Any, ...]:
    return frozenset(sending.recipients), sending.n_partitions if sending.recipients else 0


def _stopped(sending: Sending, fields: Fields) -> tuple[Any, ...] | None:
    stops, deletes = (some.get(fields["broker"], 0) for some in (sending.stops, sending.deletes))
    delete = fields.get("delete")
    n = stops + deletes if delete is None else deletes if delete else stops
    return (n,) if n else None


class Counted(NamedTuple):
    """How a kind of line counts: the request, its values with their fields, what predicts them."""

    request: str
    fields: dict[str, str]
    predict: Callable[[Sending, Fields], tuple[Any, ...] | None]


_SENT = {
    "sent_leader_and_isr": Counted(
        "leads", {"partitions to lead": "n_leaders", "partitions to follow": "n_followers"},
        _led,
    ),
    "sent_update_metadata": Counted(
        "update_metadata", {"brokers told": "brokers", "partitions in UpdateMetadata": "n"},
        _updated,
    ),
    "sent_stop_replica": Counted("stops", {"replicas to stop": "n"}, _stopped),
}


def _take(view: ClusterView, line: Statement, logged: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What a step sent that a line may be about: the first that says the same, else the first.

    An event is over when the next begins, so a later line is of the latest, if that sent the same.
    """
    kind, _, predict = _SENT[line.kind]
    request = (kind, line.fields.get("delete"), line.fields.get("broker"))
    free: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for ran in view.window(line):
        untaken = [
            (value, key) for value, key in (
                (predict(sending, line.fields), (*request, ran.event.number, sending.step))
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


def counted_requests(line: Statement) -> Iterator[tuple[int | None, str, int, int]]:
    """Requests that a controller's line counts: controller, kind, broker, number of partitions."""
    fields = line.fields
    if line.kind == "sent_update_metadata":
        for broker in fields["brokers"]:
            yield line.actor_id, "UpdateMetadata", broker, fields["n"]
    elif line.kind == "sent_leader_and_isr":
        n = fields["n_leaders"] + fields["n_followers"]
        yield line.actor_id, "LeaderAndIsr", fields["broker"], n
    elif line.kind == "sent_stop_replica":
        yield line.actor_id, "StopReplica", fields["broker"], fields["n"]


# --- requests, as brokers count them --------------------------------------------------------------


def _handling(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A broker says how many partitions a request has."""
    fields, broker = line.fields, line.actor_id
    assert broker is not None
    caches = line.kind == "cached"
    request = "UpdateMetadata" if caches else fields["request"]
    kind, subject = f"partitions in {request}", f"broker {broker}"
    n = fields["n"] + fields.get("n_deleted", 0)
    received = None
    if caches and _may_be_unlogged(view, line, broker, n):
        yield Claim(kind, subject, n, None, BELOW_LEVEL)
    elif (received := _request(view, line, broker, request, n, is_equal=True)) is None and (
        view.number > view.replaced_requests.get(
            (fields.get("controller"), request, broker, n), view.number
        )
    ):
        yield Claim(kind, subject, n, None, REPLACED)
    else:
        received = received or _request(view, line, broker, request, n, is_equal=False)
        if received is None and (request, broker) not in view.world.simulation.heard:
            yield Claim(kind, subject, fields["n"], None, REMEMBERED)
        else:
            yield view.count(kind, subject, n, MISSING if received is None else received[0])
            if caches:
                epoch = MISSING if received is None else received[1].epoch
                yield Claim("controller epoch", "controller", fields["controller_epoch"], epoch)
                return
    if caches:
        yield from broker_epoch(view, line)
    elif line.kind == "handling" and received is not None and request == "LeaderAndIsr":
        view.sessions[broker] = (view.number, received[1])


def _may_be_unlogged(view: ClusterView, line: Statement, broker: int, n: int) -> bool:
    """Whether a request may tell of ISR changes that no line of the controller would show.

    It does where no predicted request has as many partitions, or none has just been sent.
    """
    fields, time = line.fields, line.entry.time
    term = view.cluster.last_term(fields["controller"], time + TIE_MS)
    if term is None or id(term) not in view.unlogged or term.epoch != fields["controller_epoch"]:
        return False
    return not fields["n_deleted"] and not any(
        ran.event.term is term and broker in sending.recipients
        and (sending.n_partitions == n or time - ran.event.time <= COVERED_MS)
        and (line.kind, "UpdateMetadata", broker, ran.event.number, sending.step, broker)
        not in view.taken
        for ran in view.world.simulation.ran for sending in ran.sendings
    )


def _may_be_of(ran: Ran, line: Statement) -> bool:
    """Whether a broker's line may be about a request of an event."""
    return ran.event.time <= line.entry.time + TIE_MS and (
        line.fields.get("controller") in (None, ran.event.term.controller)
    )


def _steps(ran: Ran, kind: str, broker: int, n: int) -> Sequence[int]:
    """Steps in which an event sent a broker a request of so many partitions."""
    if not ran.sendings:
        return [step for step, _, count in _counts(ran, kind, broker) if count == n]
    if kind not in ran.received:
        steps: dict[tuple[int, int], list[int]] = {}
        for step, to, count in _counts(ran, kind, broker):
            steps.setdefault((to, count), []).append(step)
        ran.received[kind] = steps
    return ran.received[kind].get((broker, n), ())


def _request(
    view: ClusterView, line: Statement, broker: int, kind: str, n: int, *, is_equal: bool
) -> tuple[int, Term] | None:
    """The request that agrees in most with what a broker's line says, or (`is_equal`) in all.

    It is given by its number of partitions, and whose it is. Of equals the oldest in the latest
    term is taken.
    """
    epoch = line.fields.get("controller_epoch")
    best: tuple[int, Term, tuple[Any, ...]] | None = None
    best_score: tuple[int, ...] = ()
    for ran in reversed(view.world.simulation.ran):
        term = ran.event.term
        if is_equal and best is not None and term.start < best[1].start:
            continue
        counts: Iterable[tuple[int, int, int]] = _counts(ran, kind, broker) if not is_equal else [
            (step, broker, n) for step in _steps(ran, kind, broker, n)
        ]
        if not counts or not _may_be_of(ran, line):
            continue
        for step, to, count in reversed(list(counts)):
            key = (line.kind, kind, broker, ran.event.number, step, to)
            agreement = (epoch in (None, term.epoch), count == n, to == broker,
                         key not in view.taken)
            score = (*agreement, term.start)
            if score >= best_score and (not is_equal or all(agreement)):
                best, best_score = (count, term, key), score
    if best is None:
        return None
    view.taken.add(best[2])
    return best[:2]


def _counts(ran: Ran, kind: str, broker: int) -> Iterator[tuple[int, int, int]]:
    """Requests of an event: step, broker, and number of partitions."""
    hidden = ran.event.kind == "hidden_isr" and kind == "UpdateMetadata"
    if hidden and not ran.sendings:
        yield -1, broker, ran.event.fields["n"]
    for sending in ran.sendings:
        counts: dict[int, int] = dict.fromkeys(sending.recipients, sending.n_partitions)
        if hidden:
            counts = dict.fromkeys(sending.recipients, ran.event.fields["n"])
        elif kind == "LeaderAndIsr":
            counts = {to: sum(roles) for to, roles in sending.leads.items()}
        elif kind == "StopReplica":
            counts = sending.stopped
        for to, n in counts.items():
            yield sending.step, to, n


def broker_epoch(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Lines of brokers that name the controller's epoch."""
    fields = line.fields
    if "controller_epoch" not in fields or fields.get("epoch_is_records"):
        return
    first = view.cluster.terms[0]
    is_before = line.entry.time < first.start
    term = view.cluster.last_term(fields["controller"], line.entry.time + TIE_MS)
    if term is None and is_before and fields["controller"] == first.controller:
        term = first
    predicted: Any = None if is_before else MISSING
    if term is not None:
        session, sender = view.sessions.get(line.actor_id, (-1, term))
        predicted = sender.epoch if fields.get("session") == session else term.epoch
    yield Claim("controller epoch", "controller", fields["controller_epoch"], predicted)


COUNTS: dict[str, CompareCluster] = {
    **dict.fromkeys(_SENT, _sent), "handling": _handling, "finished": _handling,
    "cached": _handling,
}
"""What checks each kind of line that counts."""
