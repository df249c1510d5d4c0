"""Compare what a broker's line says of a partition with the request that it is about.

Of each partition in a request, a broker says in one line what it made of it. Nothing is judged
here.
"""

from __future__ import annotations

from typing import Any

from kfast.log_replay.brokers import NEVER, from_before, heard
from kfast.log_replay.checks import MISSING, Check, record_checks
from kfast.log_replay.comparison.cases import Case, Compare, View
from kfast.log_replay.engine.predictions import Item


def _role(case: Case) -> list[Check]:
    """`Leader t-0 starts at leader epoch 3 ...`, `Follower t-0 starts ...`."""
    view, line, fields, row = case.view, case.line, case.fields, case.row
    side, broker = view.brokers, line.actor_id
    assert broker is not None
    leads = line.kind == "became_leader"
    logged = {"leader_epoch": fields["leader_epoch"]}
    if leads:
        logged["leader"] = broker
    item = side.request(view.simulation, line, fields, row, logged)
    found = item.fields if item is not None else None

    def predicted(name: str) -> Any:
        return MISSING if found is None or found.get(name) is None else found[name]

    checks = [Check("leader_epoch", fields["leader_epoch"], predicted("leader_epoch"), "epoch")]
    if leads or fields.get("leader") is not None:
        checks.append(Check("leader", broker if leads else fields["leader"], predicted("leader")))
    elif found is not None:
        checks.append(Check("role", "follower", _role_of(found, broker)))
    for name in ("isr", "adding", "removing"):
        if name in fields:
            checks.append(Check(name, fields[name], predicted(name)))
    if "version" in fields:
        checks.append(Check("version", fields["version"], predicted("version"), "version"))
    if line.kind == "became_follower" and "previous_leader" in fields:
        checks += [
            Check("previous leader epoch", fields["previous"], predicted("leader_epoch"), "epoch"),
            Check("previous leader", fields["previous_leader"], predicted("leader")),
        ]
    else:
        checks += _previous(view, broker, row, item, fields)
    if item is not None:
        side.rows[row].heard[broker] = heard(item)
    return checks


def _role_of(found: dict[str, Any], broker: int) -> str:
    return "leader" if found["leader"] == broker else "follower"


def _previous(
    view: View, broker: int, row: int, item: Item | None, fields: dict[str, Any]
) -> list[Check]:
    """The epoch that a broker had before; the first such line after a registration decides."""
    side, logged = view.brokers, fields["previous"]
    if side.fresh.get(broker) is None and broker in side.fresh:
        side.fresh[broker] = logged == NEVER.leader_epoch
        if side.fresh[broker]:
            side.start(broker, side.registered_at.get(broker, 0))
    known = side.remembered(view.simulation, broker, row, item)
    epoch = None if known is None else known.leader_epoch
    checks = [Check("previous leader epoch", logged, epoch,
                    "epoch" if known is not None and known != NEVER else "")]
    if "previous_leader" in fields:
        checks.append(Check("previous leader", fields["previous_leader"],
                            None if known is None else known.leader))
    return checks


def _received(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    record = fields["record"]
    logged = {k: v for k, v in record._asdict().items() if v is not None and k != "recovery"}
    as_set = view.simulation.controller.profile.name == "zk-0.10" and "replicas" in logged
    if as_set:  # Before 0.11 a request carries a set of replicas, in any order.
        del logged["replicas"]
    item = view.brokers.request(view.simulation, line, fields, row, logged)
    checks = record_checks(record, item.fields if item is not None else None)
    return [
        check._replace(logged=tuple(sorted(check.logged)), predicted=tuple(sorted(check.predicted)))
        if as_set and check.field == "replicas" and isinstance(check.predicted, tuple) else check
        for check in checks
    ]


def _same_epoch(case: Case) -> list[Check]:
    """A request that brings nothing new, or something old."""
    view, line, fields, row = case.view, case.line, case.fields, case.row
    side, broker = view.brokers, line.actor_id
    assert broker is not None
    kind = "stop_replica" if fields["request"].startswith("Stop") else "leader_and_isr"
    logged = {"leader_epoch": fields["leader_epoch"]}
    item = side.request(view.simulation, line, fields, row, logged, kind)
    epoch = MISSING if item is None else item.fields["leader_epoch"]
    checks = [Check("leader_epoch", fields["leader_epoch"], epoch, "epoch")]
    current = fields.get("current", fields["leader_epoch"])
    known = side.remembered(view.simulation, broker, row, item)
    if known is not None and known != NEVER:
        checks.append(Check("current leader epoch", current, known.leader_epoch, "epoch"))
    elif item is not None and line.kind == "same_epoch":
        side.rows[row].heard[broker] = heard(item)
    return checks


def _with_record_epoch(case: Case) -> list[Check]:
    """Lines that name the controller epoch of the record, and perhaps its leader."""
    view, line, fields, row = case.view, case.line, case.fields, case.row
    logged = {}
    if "leader" in fields:
        logged["leader"] = fields["leader"]
    if "record_epoch" in fields:
        logged["controller_epoch"] = fields["record_epoch"]
    item = view.brokers.request(view.simulation, line, fields, row, logged)
    found = item.fields if item is not None else {}
    checks = []
    for name, value in logged.items():
        counted = "record_epoch" if name == "controller_epoch" else ""
        checks.append(Check(name, value, found.get(name, MISSING), counted))
    return checks


def _cached(case: Case) -> list[Check]:
    """`Cached leader info ...`: the UpdateMetadata that a broker took in, one after the other."""
    view, line, fields, row = case.view, case.line, case.fields, case.row
    broker = line.actor_id
    assert broker is not None
    record = fields["record"]
    logged = {k: v for k, v in record._asdict().items() if v is not None and k != "recovery"}
    best, best_score = None, (-1, -1)
    cached = view.brokers.rows[row].cached
    last = cached.get(broker, (-1, -1))
    for item in view.simulation.requests(row, "update_metadata", None, line.entry.time):
        if broker not in item.fields["brokers"]:
            continue
        same = sum(1 for key, value in logged.items() if _same(item.fields.get(key), value))
        score = (same, 1 if item.order > last else 0)
        if score > best_score:
            best, best_score = item, score
            if score == (len(logged), 1):
                break
    if best is None:
        best = from_before(view.simulation, row, "update_metadata")
    if best is not None:
        cached[broker] = max(last, best.order)
    return record_checks(record, best.fields if best is not None else None)


def _same(predicted: Any, logged: Any) -> bool:
    if isinstance(logged, tuple) and isinstance(predicted, tuple):
        return set(predicted) == set(logged)
    return bool(predicted == logged)


def _stopping(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    logged = {"delete": fields["delete"]}
    item = view.brokers.request(view.simulation, line, fields, row, logged, "stop_replica")
    return [Check("delete", fields["delete"], MISSING if item is None else item.fields["delete"])]


BROKER_COMPARE: dict[str, Compare] = {
    "became_leader": _role, "became_follower": _role, "received": _received,
    "received_dump": _received, "same_epoch": _same_epoch, "old_epoch": _same_epoch,
    "already_leader": _with_record_epoch, "already_follower": _with_record_epoch,
    "leader_unavailable": _with_record_epoch, "cached_partition": _cached, "stopping": _stopping,
}
"""What compares each kind of line that a broker writes about a partition."""
