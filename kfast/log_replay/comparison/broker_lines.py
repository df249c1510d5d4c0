"""Compare what a broker's line says of a partition with the request that it is about.

Of each partition in a request, a broker says in one line what it made of it. Nothing is judged
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfast.log_replay.brokers import NEVER, heard
from kfast.log_replay.checks import MISSING, Check, checks_of
from kfast.log_replay.comparison.cases import Case, Compare
from kfast.log_replay.engine.predictions import BEGINNING, Item, Order


def _fields_of(item: Item | None) -> dict[str, Any] | None:
    return None if item is None else item.fields


def _role(case: Case) -> list[Check]:
    """`Leader t-0 starts at leader epoch 3 ...`, `Follower t-0 starts ...`."""
    fields, broker, leads = case.fields, case.broker, case.line.kind == "became_leader"
    logged: dict[str, Any] = {"leader": broker} if leads else {}
    logged |= {name: fields[name] for name in ("leader_epoch", "version") if name in fields}
    item = case.request(logged)
    found = _fields_of(item)
    logged |= {name: fields[name] for name in ("leader", "isr", "adding", "removing")
               if name in fields}
    checks = checks_of(logged, found)
    if "leader" not in logged and found is not None:
        role = "leader" if found["leader"] == broker else "follower"
        checks.append(Check("role", "follower", role))
    if not leads and "previous_leader" in fields:  # The line has the new ones.
        again = {"leader_epoch": fields["previous"], "leader": fields["previous_leader"]}
        checks += [check._replace(field=f"previous {check.field.replace('_', ' ')}")
                   for check in checks_of(again, found)]
    else:
        checks += _previous(case, item)
    if item is not None:
        case.brokers.rows[case.row].heard[broker] = heard(item)
    return checks


def _previous(case: Case, item: Item | None) -> list[Check]:
    """The epoch that a broker had before.

    After a registration the first line decides in which one that was restarted would have another.
    """
    side, broker, fields = case.brokers, case.broker, case.fields
    logged = fields["previous"]
    if side.fresh.get(broker) is None and broker in side.fresh:
        side.fresh[broker] = False
        unless_restarted = side.remembered(
            case.simulation, broker, case.row, item, of_this_term=True
        )
        if logged == NEVER.leader_epoch and unless_restarted in (None, NEVER):
            side.fresh[broker] = None
        elif logged == NEVER.leader_epoch:
            side.start(broker, side.registered_at.get(broker, 0))
    known = side.remembered(case.simulation, broker, case.row, item)
    if broker in side.unproven and known not in (None, NEVER):
        if logged == NEVER.leader_epoch:
            known = None  # It has been started right before, or what was sent it comes just now.
        else:
            side.unproven.discard(broker)
    if known is not None and known.leader_epoch != logged:
        older = side.remembered(case.simulation, broker, case.row, item, of_this_term=True)
        known = older if older is not None and older.leader_epoch == logged else known
    epoch, leader = known or (None, None)
    checks = [Check("previous leader epoch", logged, epoch,
                    "" if known in (None, NEVER) else "epoch")]
    if "previous_leader" in fields:
        checks.append(Check("previous leader", fields["previous_leader"], leader))
    return checks


def _received(case: Case) -> list[Check]:
    logged = case.fields["record"].stated()
    # Before 0.11 a request carries a set of replicas, in any order.
    replicas = None
    if case.simulation.controller.profile.name == "zk-0.10":
        replicas = logged.pop("replicas", None)
    request = _fields_of(case.request(logged))
    checks = checks_of(logged, request)
    if replicas is not None:
        predicted = MISSING if request is None else tuple(sorted(request["replicas"]))
        checks.append(Check("replicas", tuple(sorted(replicas)), predicted))
    return checks


def _same_epoch(case: Case) -> list[Check]:
    """A request that brings nothing new, or something old."""
    fields, side, broker = case.fields, case.brokers, case.broker
    kind = "stop_replica" if fields["request"].startswith("Stop") else "leader_and_isr"
    logged = {"leader_epoch": fields["leader_epoch"]}
    item = case.request(logged, kind)
    checks = checks_of(logged, _fields_of(item))
    known = side.remembered(case.simulation, broker, case.row, item)
    if known is not None and known != NEVER:
        current = fields.get("current", fields["leader_epoch"])
        checks.append(Check("current leader epoch", current, known.leader_epoch, "epoch"))
    elif item is not None and case.line.kind == "same_epoch":
        side.rows[case.row].heard[broker] = heard(item)
    return checks


def _with_record_epoch(case: Case) -> list[Check]:
    """Lines that name the controller epoch of the record, and perhaps its leader."""
    names = {"leader": "leader", "controller_epoch": "record_epoch"}
    logged = {name: case.fields[own] for name, own in names.items() if own in case.fields}
    return checks_of(logged, _fields_of(case.request(logged)))


def _cached(case: Case) -> list[Check]:
    """`Cached leader info ...`: the UpdateMetadata that a broker took in, one after the other."""
    broker, logged = case.broker, case.fields["record"].stated()
    comparable = case.simulation.comparable(case.row, logged)
    cached = case.brokers.rows[case.row].cached
    last = cached.get(broker, BEGINNING)

    def agreement(item: Item) -> int:
        return sum(_same(item.fields.get(key), value) for key, value in comparable.items())

    best = next((
        item for item in _updates(case, last) if agreement(item) == len(comparable)
    ), None) or max(
        _updates(case), key=lambda item: (agreement(item), item.order > last), default=None
    ) or case.from_before("update_metadata")
    if best is not None:
        cached[broker] = max(last, best.order)
    return checks_of(logged, _fields_of(best))


def _updates(case: Case, after: Order = BEGINNING) -> Iterator[Item]:
    """UpdateMetadata requests to the broker of a line, the oldest first."""
    return (
        item for item in case.simulation.requests(
            case.row, "update_metadata", after=after
        ) if case.broker in item.fields["brokers"]
    )


def _same(predicted: Any, logged: Any) -> bool:
    if isinstance(logged, tuple):
        return set(logged) == set(predicted or ())
    return bool(predicted == logged)


def _stopping(case: Case) -> list[Check]:
    logged = {"delete": case.fields["delete"]}
    return checks_of(logged, _fields_of(case.request(logged, "stop_replica")))


BROKER_COMPARE: dict[str, Compare] = {
    "became_leader": _role, "became_follower": _role, "received": _received,
    "received_dump": _received, "same_epoch": _same_epoch, "old_epoch": _same_epoch,
    "already_leader": _with_record_epoch, "already_follower": _with_record_epoch,
    "leader_unavailable": _with_record_epoch, "cached_partition": _cached, "stopping": _stopping,
}
"""What compares each kind of line that a broker writes about a partition."""
