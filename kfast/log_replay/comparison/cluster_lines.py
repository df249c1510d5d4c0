"""Lines that speak of the whole cluster: who is registered, how much was sent, ratios.

Each kind has one function from a line to checks with a subject. `Check.predicted` is `MISSING`
where kfast predicts nothing of the kind; `None` means that only the log can know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.cluster_claims import Claim, ClusterView, CompareCluster
from kfast.log_replay.comparison.counts import COUNTS
from kfast.log_replay.comparison.deletion_lines import DELETION_COMPARE
from kfast.log_replay.comparison.facts import (
    ABSENT,
    BEFORE,
    BETWEEN,
    HOLE,
    REGISTERED,
    UNASSIGNED,
    name_of,
)
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.events import is_hole
from kfast.log_replay.terms.terms import in_office
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, distinct

RATIO_DIGITS = 1e-5
"""Old releases print ratios with six digits."""


# --- who is the controller ---------------------------------------------------------------------


def _term_epoch(view: ClusterView, line: Statement) -> Iterator[Claim]:
    fields, term = line.fields, view.term
    if term is None:
        return
    if "controller" in fields:
        yield Claim("controller", "controller", fields["controller"], term.controller)
    if "controller_epoch" in fields:
        epoch, predicted, reason = fields["controller_epoch"], term.epoch, ""
        if line.kind in ("elected", "epoch") and epoch == term.epoch and not term.follows:
            predicted, reason = None, BEFORE if term is view.cluster.terms[0] else HOLE
        yield Claim("controller epoch", "controller", epoch, predicted, reason)
    if "epoch_version" in fields and term.epoch is not None:
        yield _epoch_version(view, line, term.epoch)


def _epoch_version(view: ClusterView, line: Statement, epoch: int) -> Claim:
    """The version of the record of the epoch: up to 2.0 it is made with epoch 1, then with 0.

    A cluster that older releases set up keeps theirs: the first line of a log tells which it is,
    but where it is of the first epoch of a release that makes the record with 0.
    """
    logged, lag, reason = line.fields["epoch_version"], view.epoch_version_lag, ""
    if lag is None and epoch == 1 and view.world.simulation.controller.profile.guards_writes:
        lag = 0
    elif lag is None and epoch - logged in (0, 1):
        lag, reason = epoch - logged, BEFORE
    view.epoch_version_lag = lag
    predicted = None if reason else epoch - (lag or 0)
    return Claim("epoch store version", "controller", logged, predicted, reason)


def _epoch_before(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Up to 2.0 a new controller reads the epoch of the last one, and raises it by one."""
    if view.term is None or view.term.epoch is None:
        return
    before = view.term.epoch - 1
    yield Claim("controller epoch", "controller", line.fields["controller_epoch"], before)
    yield _epoch_version(view, line, before)


def _writer(_view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A line that says again by whom it is."""
    for name in ("controller", "self"):
        if name in line.fields:
            yield Claim("controller", "controller", line.fields[name], line.actor_id)


def _other_elected(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A broker reads who is the controller: perhaps one whose own log is not here."""
    logged, time = line.fields["controller"], line.entry.time
    office, room = in_office(view.cluster.terms, time)
    if logged not in office and room:
        yield Claim("controller", "controller", logged, None, ABSENT)
    elif office:
        predicted = logged if logged in office else office[0]
        yield Claim("controller", "controller", logged, predicted)


# --- brokers -------------------------------------------------------------------------------------


def _broker_epochs(view: ClusterView, line: Statement) -> Iterator[Claim]:
    registered = view.world.simulation.registered
    fields: dict[int, int] = line.fields["epochs"]
    yield Claim("registered brokers", "cluster", frozenset(fields), frozenset(registered))
    for broker, epoch in sorted(fields.items()):
        true = view.epochs.get(view.number, {}).get(broker, epoch)
        known = view.known_epochs.get(broker, -1)
        predicted: Any = true
        if epoch == true and known != true:
            predicted = MISSING if epoch < known else None
            view.known_epochs[broker] = true
            view.doubtful.discard(broker)
        yield Claim("broker epoch", f"broker {broker}", epoch, predicted, REGISTERED)


def _startup(view: ClusterView, line: Statement) -> Iterator[Claim]:
    started, logged = line.kind == "broker_startup", frozenset(line.fields["brokers"])
    predicted: Any = MISSING
    ran = view.latest(line, "brokers")
    if ran is not None:
        names = ("added", "bounced") if started else ("deleted", "bounced")
        lists = [frozenset(ran.event.fields[name]) for name in names]
        predicted = logged if logged in lists else lists[0]
    kind = "brokers that started" if started else "brokers that failed"
    yield Claim(kind, "cluster", logged, predicted)


def _no_longer_shutting(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Brokers in controlled shutdown that are gone."""
    simulation, logged = view.world.simulation, frozenset(line.fields["brokers"])
    event = simulation.last_event
    if event is not None and event.kind == "brokers":
        gone = frozenset((*event.fields["deleted"], *event.fields["bounced"]))
        predicted = logged if logged <= gone else gone & simulation.shutting_at_start
        yield Claim("brokers no longer shutting down", "cluster", logged, predicted)


# --- sets ----------------------------------------------------------------------------------------


def _topics(simulation: Simulation) -> set[str]:
    return {partition[0] for partition in simulation.rows if simulation.rows_of(partition)}


def _ineligible(simulation: Simulation) -> set[str]:
    """Topics with a replica that is not online, or with a reassignment that is found under way.

    Replicas that a new controller is asked to add are read later.
    """
    names, live = set(simulation.moving_at_start), simulation.live
    if simulation.controller.profile.batch_per_partition:  # Up to 1.0 others are dropped before.
        names &= _topics(simulation)
    event = simulation.last_event
    targets = () if event is None else event.fields.get("targets", ())
    for row, possibility in simulation.existing():
        assigned = simulation.state.assignment(row)
        replicas = assigned.origin if possibility.partition in targets else assigned.replicas
        if not live.issuperset(replicas):
            names.add(possibility.partition[0])
    return names


def _set(field: str, kind: str, predict: Callable[[Simulation], set[Any]]) -> CompareCluster:
    """Compare a set that a line lists with that of the simulation.

    Topics of which no line names a partition are not simulated, nor those that a controller finds
    after a hole, in which they were made again.
    """
    def compare(view: ClusterView, line: Statement) -> Iterator[Claim]:
        logged = frozenset(line.fields[field])
        predicted = frozenset(predict(view.world.simulation))
        if line.kind == "topics":
            named = {name[0] for name in view.cluster.lines_about if name is not None}
            unassigned = {topic for topic, _ in view.cluster.unassigned}
            event = view.world.simulation.last_event
            named -= logged - predicted if event is not None and is_hole(event) else set()
            view.unnamed = logged - (predicted | named) | logged & unassigned
        if predicted < logged <= predicted | view.unnamed:
            yield Claim(kind, "cluster", logged, None, UNASSIGNED)
        else:
            yield Claim(kind, "cluster", logged, predicted)

    return compare


# --- topics --------------------------------------------------------------------------------------


def _to_delete(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Topics with a deletion marker: those that were to be deleted, and any marked meanwhile."""
    simulation = view.world.simulation
    event = simulation.last_event
    logged, before = frozenset(line.fields["topics"]), simulation.queued_before
    if event is None or event.kind != "failover" or logged == before == frozenset():
        return
    kind = "topics to be deleted"
    if logged == before or not (logged > before or is_hole(event)):
        yield Claim(kind, "cluster", logged, before)
    else:
        first = event is simulation.ran[0].event
        reason = BEFORE if first else HOLE if is_hole(event) else BETWEEN
        yield Claim(kind, "cluster", logged, None, reason)


def _created(view: ClusterView, line: Statement) -> Iterator[Claim]:
    ran = view.latest(line, "topics", "partitions")
    if ran is not None:
        made = frozenset(map(name_of, ran.event.fields["created"]))
        logged = frozenset(map(name_of, line.fields["partitions"]))
        yield Claim("new partitions", "cluster", logged, made)


def _once_each(_view: ClusterView, line: Statement) -> Iterator[Claim]:
    """An assignment names each broker once."""
    fields = line.fields
    listed = fields["assignments"] if "assignments" in fields else {
        fields["partition"]: fields["after"] if "after" in fields else Assigned(fields["replicas"])
    }
    for partition, assigned in listed.items():
        once = distinct(assigned.replicas)
        if once != assigned.replicas:
            yield Claim("replicas", name_of(partition), assigned.replicas, once)


def _updating(view: ClusterView, line: Statement) -> Iterator[Claim]:
    yield from _once_each(view, line)
    view.updating[id(view.term), line.fields["partition"]] = line.fields["after"]


def _stored(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """From 2.4 on, a stored assignment is the one that the line before announces, if one does."""
    partition, logged = line.fields["partition"], line.fields["assignment"]
    announced = view.updating.pop((id(view.term), partition), None)
    if announced is not None:
        for field, value in announced._asdict().items():
            yield Claim(field, name_of(partition), getattr(logged, field), value)


# --- balance -------------------------------------------------------------------------------------


def _ratio(view: ClusterView, line: Statement) -> Iterator[Claim]:
    broker, logged = line.fields["broker"], line.fields["ratio"]
    ratio = view.world.simulation.imbalance.get(broker, MISSING)
    predicted = logged if ratio is not MISSING and abs(ratio - logged) < RATIO_DIGITS else ratio
    yield view.count("imbalance ratio", f"broker {broker}", logged, predicted)


def _has_preferred(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A broker that is the preferred replica of some partition, as balancing groups them."""
    broker = line.fields["broker"]
    known = broker in view.world.simulation.imbalance
    yield view.count(
        "preferred replica of partitions", "cluster", broker, broker if known else MISSING
    )


def _grouped(_view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Balancing groups partitions by the first of their replicas."""
    for broker, lists in line.fields["brokers"].items():
        for partition, replicas in lists.items():
            if replicas[:1] != (broker,):
                yield Claim("preferred replica", name_of(partition), broker, *replicas[:1])


def _election(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Partitions that automatic balancing elects for."""
    if line.fields["trigger"] != "AutoTriggered":
        return
    logged = frozenset(line.fields["partitions"])
    ran = view.latest(line, "rebalance")
    groups = [] if ran is None else ran.balanced
    predicted = logged if logged in groups else max(
        (group for group in groups if group & logged), key=lambda group: len(group & logged),
        default=frozenset(),
    )
    reason = view.why_unknown(logged ^ predicted)
    yield Claim("partitions to balance", "cluster", frozenset(map(name_of, logged)),
                None if reason else frozenset(map(name_of, predicted)), reason)


def _request_header(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A request that could not be sent: whose it is, and for which registration."""
    yield from _term_epoch(view, line)
    request, broker = line.fields["request"], line.fields["broker"]
    term = view.term
    if request.controller is not None:
        yield Claim("controller", "controller", request.controller, line.actor_id)
    if term is not None and request.controller_epoch is not None:
        yield Claim("controller epoch", "controller", request.controller_epoch, term.epoch)
    known, epoch = view.known_epochs.get(broker), request.broker_epoch
    if epoch is not None:
        if known is not None and epoch > known and broker in view.doubtful:
            view.doubtful.discard(broker)
            known = None
        if known is None:
            view.known_epochs[broker] = epoch
        yield Claim("broker epoch", f"broker {broker}", epoch, known, REGISTERED)


CLUSTER_COMPARE: dict[str, CompareCluster] = {
    **dict.fromkeys(
        ("elected", "epoch", "ready", "becoming", "partition_failed", "replica_failed"),
        _term_epoch,
    ),
    "other_elected": _other_elected, "broker_epochs": _broker_epochs,
    "active_brokers": _set("brokers", "registered brokers", attrgetter("registered")),
    "shutting_brokers": _set("brokers", "brokers shutting down", attrgetter("shutting_down")),
    "all_shutting": _set("brokers", "brokers shutting down", attrgetter("shutting_down")),
    "live_brokers": _set("brokers", "live brokers", attrgetter("live")),
    "broker_change": _set("live", "registered brokers", attrgetter("registered")),
    "broker_startup": _startup, "broker_failure": _startup,
    "topics": _set("topics", "topics", _topics), "topics_to_delete": _to_delete,
    "topics_ineligible": _set("topics", "topics ineligible for deletion", _ineligible),
    "deletion_init": _set("ineligible", "topics ineligible for deletion", _ineligible),
    "new_partitions": _created, "ratio": _ratio, "election": _election,
    "send_failed": _request_header, "not_sent": _request_header,
    "epoch_read": _epoch_before, **dict.fromkeys(("connected", "resigning", "resigned"), _writer),
    "no_longer_shutting": _no_longer_shutting, "not_preferred": _has_preferred,
    "preferred_replicas": _grouped,
    **dict.fromkeys(("new_topics", "partitions_added", "reassign"), _once_each),
    "assignment_updating": _updating, "assignment_stored": _stored,
    **DELETION_COMPARE, **COUNTS,
}
"""What checks each kind of line that speaks of the whole cluster."""
