"""Compare what a line says of a partition with what is predicted for one row of it.

Each kind of line has one function, from the line and the row to checks: a field, what is logged,
and what is predicted (`MISSING` where nothing is). Nothing is judged here.
"""

from __future__ import annotations

from typing import Any

from kfast.log_replay.checks import MISSING, Check, record_checks
from kfast.log_replay.comparison.cases import Case, Compare, View
from kfast.log_replay.wording.values import Record
from kfast.schema import PARTITION_STATE_NAMES, REPLICA_STATE_NAMES


def _logged(record: Record) -> dict[str, Any]:
    return {k: v for k, v in record._asdict().items() if v is not None}


# --- transitions ----------------------------------------------------------------------------------


def _moved(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    key = ("moved", fields.get("replica"), fields["before"], fields["after"])
    found = view.simulation.take(row, key, line.entry.time, view.term)
    change = f"{fields['before']} -> {fields['after']}"
    checks = [Check("transition", change, MISSING if found is None else change)]
    if "replicas" in fields:
        assigned = view.simulation.state.assignment(row).replicas
        checks.append(Check("replicas", fields["replicas"], assigned))
    return checks


def _led(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    record = fields.get("record") or Record(leader=fields["leader"])
    key = ("led", fields["before"], fields["after"])
    found = view.simulation.take(row, key, line.entry.time, view.term, _logged(record))
    change = f"{fields['before']} -> {fields['after']}"
    return [
        Check("transition", change, MISSING if found is None else change),
        *record_checks(record, found),
    ]


def _elected(case: Case) -> list[Check]:
    """The last election that is predicted, whatever the partition's state was before."""
    view, fields, row = case.view, case.fields, case.row
    items = [
        item for item in view.simulation.items_of(row, "led")
        if item.key[-1] == "OnlinePartition"
    ]
    last = max(items, key=lambda item: item.order, default=None)
    return [Check("leader", fields["leader"], MISSING if last is None else last.fields["leader"])]


def _failed(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    key = ("failed", fields.get("replica"), fields["before"], fields["after"])
    found = view.simulation.take(row, key, line.entry.time, view.term)
    change = f"{fields['before']} -> {fields['after']} fails"
    return [Check("transition", change, MISSING if found is None else change)]


def _shrunk(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    record = fields["record"]
    key = ("shrunk", fields["replica"])
    found = view.simulation.take(row, key, line.entry.time, view.term, _logged(record))
    return record_checks(record, found)


# --- requests, as the controller tells of them ----------------------------------------------------


def _sent_lead(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    record = fields["record"]
    key = ("leader_and_isr", fields["broker"])
    found = view.simulation.take(row, key, line.entry.time, view.term, _logged(record))
    checks = record_checks(record, found)
    if found is not None:
        role = "become-leader" if found["leader"] == fields["broker"] else "become-follower"
        checks.append(Check("role", fields["role"], role))
    return checks


def _sent_told(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    record = fields["record"]
    found = view.simulation.take(
        row, ("update_metadata",), line.entry.time, view.term, _logged(record), fields.get("broker")
    )
    checks = record_checks(record, found)
    if found is not None and "brokers" in fields:
        brokers = tuple(sorted(fields["brokers"]))
        checks.append(Check("recipients", brokers, tuple(sorted(found["brokers"]))))
    return checks


def _sent_stop(case: Case) -> list[Check]:
    view, line, fields, row = case.view, case.line, case.fields, case.row
    logged = {"leader_epoch": fields["leader_epoch"], "delete": fields["delete"]}
    key = ("stop_replica", fields["broker"])
    found = view.simulation.take(row, key, line.entry.time, view.term, logged)
    epoch, delete = (MISSING, MISSING) if found is None else (
        found["leader_epoch"], found["delete"]
    )
    return [
        Check("leader_epoch", fields["leader_epoch"], epoch,
              "epoch" if fields["leader_epoch"] >= 0 else ""),
        Check("delete", fields["delete"], delete),
    ]


def _send_failed(case: Case) -> list[Check]:
    """A request that is retried: it may have been made long ago."""
    view, line, fields, row = case.view, case.line, case.fields, case.row
    kind = "update_metadata" if fields["api"].startswith("UpdateMetadata") else "leader_and_isr"
    record: Record = fields["record"]
    broker = fields["broker"] if kind == "leader_and_isr" else None
    found, score = None, -1
    for item in view.simulation.requests(row, kind, broker, line.entry.time):
        same = sum(1 for k, v in _logged(record).items() if item.fields.get(k) == v)
        if same >= score:
            found, score = item.fields, same
    return record_checks(record, found)


# --- states ---------------------------------------------------------------------------------------


def _state(case: Case) -> list[Check]:
    """A record as it is after the event."""
    view, fields, row = case.view, case.fields, case.row
    leadership = view.simulation.state.leadership(row)
    if leadership is None:
        return record_checks(fields["record"], None)
    return record_checks(fields["record"], {
        "leader": leadership.leader, "leader_epoch": leadership.leader_epoch,
        "isr": leadership.isr, "version": leadership.version,
        "controller_epoch": leadership.controller_epoch,
    })


def _partition_state(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    state = int(view.simulation.state.partition_state(row))
    name = PARTITION_STATE_NAMES[state] if state >= 0 else MISSING
    return [Check("partition_state", fields["state"], _state_at_startup(view, row, None, name))]


def _replica_state(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    states = view.simulation.state.replica_states_of(row)
    named = {broker: REPLICA_STATE_NAMES[state] for broker, state in states.items()}
    return [
        Check(f"state of replica {broker}", logged,
              _state_at_startup(view, row, broker, named.get(broker, MISSING)))
        for broker, logged in fields["states"].items()
    ]


def _state_at_startup(view: View, row: int, broker: int | None, now: Any) -> Any:
    """State of a replica, or of the partition, that a new controller began with.

    The line stands before reassignments and deletions that the same election goes on with: what
    they moved was before as they found it.
    """
    ran = view.simulation.ran[-1] if view.simulation.ran else None
    if ran is None or ran.event.kind != "failover" or not ran.outcomes:
        return now
    started = next((step for step, action in enumerate(ran.outcomes[0].actions)
                    if action.startswith("partition states at startup")), 0)
    for item in view.simulation.items_of(row, "moved"):
        if item.event is ran.event and item.step > started and item.key[1] == broker and (
            item.key[-1] != "OnlinePartition"
        ):
            return item.key[2]
    return now


def _not_preferred(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    state = view.simulation.state
    checks = []
    if "replicas" in fields:
        checks.append(Check("replicas", fields["replicas"], state.assignment(row).replicas))
    leader = view.simulation.leaders_before.get(row)
    if leader is None:
        leadership = state.leadership(row)
        leader = leadership.leader if leadership is not None else None
    led = view.simulation.preferred(row) == leader
    checks.append(Check("led by its preferred replica", fields["preferred"], led))
    return checks


def _balanced(case: Case) -> list[Check]:
    """Automatic balancing elects only where the preferred replica is in the ISR (since 2.6)."""
    view, fields, row = case.view, case.fields, case.row
    leadership = view.simulation.state.leadership(row)
    if fields["trigger"] != "AutoTriggered" or leadership is None or not (
        view.simulation.controller.profile.rebalances_in_isr
    ):
        return []
    in_sync = view.simulation.preferred(row) in leadership.isr
    return [Check("its preferred replica in sync", True, in_sync)]


def _leader(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    leadership = view.simulation.state.leadership(row)
    leader = MISSING if leadership is None else leadership.leader
    return [Check("leader", fields["leader"], leader)]


def _leader_before(case: Case) -> list[Check]:
    """A leader that the event itself may have replaced."""
    view, fields, row = case.view, case.fields, case.row
    leadership = view.simulation.state.leadership(row)
    now = MISSING if leadership is None else leadership.leader
    before = view.simulation.leaders_at_start.get(row, now)
    return [Check("leader", fields["leader"], now if now == fields["leader"] else before)]


def _isr_updated(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    record = fields.get("record") or Record(isr=fields["isr"], version=fields["version"])
    items = view.simulation.items_of(row, "update_metadata")
    last = max((item.order[0] for item in items), default=None)
    event = view.simulation.ran[-1].event if view.simulation.ran else None
    if event is not None and event.kind == "isr" and last == event.number:
        # The request is announced first; a reassignment that it completes comes after.
        return record_checks(record, min(
            (item for item in items if item.order[0] == last), key=lambda item: item.order
        ).fields)
    leadership = view.simulation.state.leadership(row)
    if leadership is None:
        return record_checks(record, None)
    return record_checks(record, {
        "leader": leadership.leader, "leader_epoch": leadership.leader_epoch,
        "isr": leadership.isr, "version": leadership.version,
    })


def _epoch_updated(case: Case) -> list[Check]:
    """The epoch that an assignment change gave: it stands in the requests it sent."""
    view, fields, row = case.view, case.fields, case.row
    record = Record(leader_epoch=fields["leader_epoch"], version=fields.get("version"))
    for item in view.simulation.items_of(row, "leader_and_isr"):
        if item.fields["leader_epoch"] == fields["leader_epoch"]:
            return record_checks(record, item.fields)
    leadership = view.simulation.state.leadership(row)
    if leadership is None:
        return record_checks(record, None)
    return record_checks(record, {
        "leader_epoch": leadership.leader_epoch, "version": leadership.version,
    })


def _sent_reassignment(case: Case) -> list[Check]:
    view, fields, row = case.view, case.fields, case.row
    record: Record = fields["record"]
    found = None
    for item in view.simulation.items_of(row, "leader_and_isr"):
        if item.fields["leader_epoch"] == record.leader_epoch:
            found = item.fields
    if found is None:
        return _state(case)
    leader = Check("leader", fields["leader"], found["leader"])
    return [*record_checks(record, found), leader]


COMPARE: dict[str, Compare] = {
    "partition_new": _moved, "partition_moved": _moved, "replica_moved": _moved,
    "partition_led": _led, "elected_leader": _elected, "partition_failed": _failed,
    "replica_failed": _failed, "shrunk": _shrunk,
    "sent_leader_and_isr_partition": _sent_lead, "sent_update_metadata_partition": _sent_told,
    "sent_stop_replica_partition": _sent_stop, "send_failed": _send_failed,
    "all_leaders": _state, "partition_states": _partition_state, "replica_states": _replica_state,
    "election": _balanced, "not_preferred": _not_preferred, "not_preferred_any": _not_preferred,
    "preferred_done": _leader, "preferred_failed": _leader, "reassign_leader": _leader_before,
    "isr_updated": _isr_updated, "isr_record": _isr_updated, "epoch_updated": _epoch_updated,
    "sent_reassignment": _sent_reassignment,
}
"""What compares each kind of line that a controller writes about partitions."""
