"""Compare what a controller's line says of a partition with what is predicted for one row of it.

Each kind of line has one function, which finds what predicts the line. Nothing is judged here.
"""

from __future__ import annotations

from typing import Any

from kfast.log_replay.checks import MISSING, Check, checks_of
from kfast.log_replay.comparison.cases import Case, Compare
from kfast.schema import LEADER_DURING_DELETE, PARTITION_STATE_NAMES, REPLICA_STATE_NAMES

LED_BY_PREFERRED = "led by its preferred replica"

# --- transitions ----------------------------------------------------------------------------------


def _transition(case: Case, found: dict[str, Any] | None, ending: str = "") -> Check:
    change = f"{case.fields['before']} -> {case.fields['after']}{ending}"
    return Check("transition", change, MISSING if found is None else change)


def _moved(case: Case) -> list[Check]:
    fields = case.fields
    found = case.take("moved", fields.get("replica"), fields["before"], fields["after"])
    return [_transition(case, found), *(_assigned(case) if "replicas" in fields else ())]


def _failed(case: Case) -> list[Check]:
    fields = case.fields
    found = case.take("failed", fields.get("replica"), fields["before"], fields["after"])
    return [_transition(case, found, " fails")]


def _led(case: Case) -> list[Check]:
    fields = case.fields
    record = fields.get("record")
    logged = {"leader": fields["leader"]} if record is None else record.stated()
    found = case.take("led", fields["before"], fields["after"], logged=logged)
    return [_transition(case, found), *checks_of(logged, found)]


def _elected(case: Case) -> list[Check]:
    """The last election that is predicted, whatever the partition's state was before."""
    items = case.simulation.items_of(case.row, "led")
    return checks_of({"leader": case.fields["leader"]}, items[-1].fields if items else None)


def _shrunk(case: Case) -> list[Check]:
    logged = case.fields["record"].stated()
    return checks_of(logged, case.take("shrunk", case.fields["replica"], logged=logged))


def _stored(case: Case) -> list[Check]:
    """Up to 1.0: the record that an election or the removal of a replica finds, or leaves."""
    simulation, row, logged = case.simulation, case.row, case.fields["record"].stated()
    events = {id(ran.event) for ran in simulation.window(case.line.entry.time, case.term)}
    stored = simulation.stored_record(row)
    records = [
        item.fields for kind in ("led", "shrunk") for item in simulation.items_of(row, kind)
        if id(item.event) in events
    ] + ([] if stored is None else [vars(stored)])
    return checks_of(logged, max(
        records, key=lambda record: sum(record.get(n) == v for n, v in logged.items()), default=None
    ))


# --- requests, as the controller tells of them ----------------------------------------------------


def _sent_lead(case: Case) -> list[Check]:
    fields, logged = case.fields, case.fields["record"].stated()
    found = case.take("leader_and_isr", fields["broker"], logged=logged)
    checks = checks_of(logged, found)
    if found is not None:
        role = "become-leader" if found["leader"] == fields["broker"] else "become-follower"
        checks.append(Check("role", fields["role"], role))
    return checks


def _sent_told(case: Case) -> list[Check]:
    fields, logged = case.fields, case.fields["record"].stated()
    recipients = {"brokers": tuple(sorted(fields["brokers"]))} if "brokers" in fields else {}
    found = case.take(
        "update_metadata", logged={**logged, **recipients}, by=fields.get("broker")
    )
    checks = _requested(logged, found)
    if found is not None and recipients:
        checks.append(Check("recipients", recipients["brokers"], found["brokers"]))
    return checks


def _requested(logged: dict[str, Any], predicted: dict[str, Any] | None) -> list[Check]:
    """A record in a request; while its topic is being deleted epoch and version are always 0."""
    is_deleted = logged["leader"] == LEADER_DURING_DELETE
    return [
        check._replace(counted="") if is_deleted and check.counted != "record_epoch" else check
        for check in checks_of(logged, predicted)
    ]


def _sent_stop(case: Case) -> list[Check]:
    logged = {name: case.fields[name] for name in ("leader_epoch", "delete")}
    checks = checks_of(logged, case.take("stop_replica", case.fields["broker"], logged=logged))
    if logged["leader_epoch"] < 0:  # It says that the topic is deleted, and counts from nothing.
        checks[0] = checks[0]._replace(counted="")
    return checks


def _not_received(case: Case) -> list[Check]:
    """A request that is retried: it may have been made long ago; or one to a broker that is gone.

    Up to 2.1 that is made all the same.
    """
    fields, logged = case.fields, case.fields["record"].stated()
    to_all = fields["api"].startswith("UpdateMetadata")
    kind, broker = ("update_metadata", None) if to_all else ("leader_and_isr", fields["broker"])
    items = [*case.simulation.requests(case.row, kind, broker, unsent=case.line.kind == "not_sent")]
    request = max(reversed(items), key=lambda item: item.agreement(logged), default=None)
    ran = case.simulation.ran
    if request is None and ran and not ran[-1].event.term.opened:  # Made before the log begins.
        return [Check(name, value, None) for name, value in logged.items()]
    return _requested(logged, None if request is None else request.fields)


# --- states ---------------------------------------------------------------------------------------


def _state(case: Case) -> list[Check]:
    """A record as it is after the event."""
    return checks_of(case.fields["record"].stated(), case.record())


def _partition_state(case: Case) -> list[Check]:
    state = int(case.simulation.state.partition_state(case.row))
    name = PARTITION_STATE_NAMES[state] if state >= 0 else MISSING
    return [Check("partition_state", case.fields["state"], _state_at_startup(case, None, name))]


def _replica_state(case: Case) -> list[Check]:
    states = case.simulation.state.replica_states_of(case.row)
    named = {broker: REPLICA_STATE_NAMES[state] for broker, state in states.items()}
    return [
        Check(f"state of replica {broker}", logged,
              _state_at_startup(case, broker, named.get(broker, MISSING)))
        for broker, logged in case.fields["states"].items()
    ]


def _state_at_startup(case: Case, broker: int | None, now: Any) -> Any:
    """State of a replica, or of the partition, that a new controller began with.

    The line stands before reassignments and deletions that the same election goes on with: what
    they moved was before as they found it.
    """
    simulation = case.simulation
    if not simulation.ran or simulation.ran[-1].event.kind != "failover":
        return now
    ran = simulation.ran[-1]
    actions = (action for outcome in ran.outcomes for action in outcome.actions)
    started = next((step for step, action in enumerate(actions)
                    if action.startswith("partition states at startup")), 0)
    for item in reversed(simulation.items_of(case.row, "moved")):
        if item.event is not ran.event:
            break
        if item.step > started and item.key[1] == broker and item.key[-1] != "OnlinePartition":
            now = item.key[2]  # The first of them has the state before all.
    return now


def _not_preferred(case: Case) -> list[Check]:
    return [*_assigned(case), _led_by_preferred(case)]


def _assigned(case: Case) -> list[Check]:
    assigned = case.simulation.state.assignment(case.row).replicas
    return [Check("replicas", case.fields["replicas"], assigned)]


def _led_by_preferred(case: Case) -> Check:
    """Whether a partition's preferred replica led it when leaders were checked for imbalance."""
    leader = case.simulation.leaders_before.get(case.row, case.leader())
    return Check(LED_BY_PREFERRED, False, case.simulation.preferred(case.row) == leader)


def _balanced(case: Case) -> list[Check]:
    """Automatic balancing elects where others lead, since 2.6 replicas in the ISR alone."""
    simulation, record = case.simulation, case.record()
    if case.fields["trigger"] != "AutoTriggered" or not record:
        return []
    checks = [_led_by_preferred(case)]
    if simulation.controller.profile.rebalances_in_isr:
        in_sync = simulation.preferred(case.row) in record["isr"]
        checks.append(Check("its preferred replica in sync", True, in_sync))
    return checks


def _leader(case: Case) -> list[Check]:
    return [Check("leader", case.fields["leader"], case.leader())]


def _leader_before(case: Case) -> list[Check]:
    """A leader that the event itself may have replaced."""
    logged, now, leaders = case.fields["leader"], case.leader(), case.simulation.leaders_at_start
    before = leaders[case.row] if case.row < len(leaders) else now
    return [Check("leader", logged, now if now == logged else before)]


def _isr_updated(case: Case) -> list[Check]:
    fields, ran = case.fields, case.simulation.ran
    record = fields.get("record")
    logged = record.stated() if record is not None else {
        name: fields[name] for name in ("isr", "version")
    }
    # The request is announced first; a reassignment that it completes comes after.
    announced = next((
        item.fields for item in case.simulation.items_of(case.row, "update_metadata")
        if ran and ran[-1].event.kind == "isr" and item.event is ran[-1].event
    ), {})
    return checks_of(logged, {**case.record(), **announced})


def _epoch_updated(case: Case) -> list[Check]:
    """The epoch that an assignment change gave."""
    logged = {
        name: value for name, value in case.fields.items() if name in ("leader_epoch", "version")
    }
    return checks_of(logged, case.take("raised", logged=logged) or case.record())


def _sent_reassignment(case: Case) -> list[Check]:
    logged = case.fields["record"].stated()
    for item in reversed(case.simulation.items_of(case.row, "leader_and_isr")):
        if item.fields["leader_epoch"] == logged.get("leader_epoch"):
            leader = Check("leader", case.fields["leader"], item.fields["leader"])
            return [*checks_of(logged, item.fields), leader]
    return _state(case)


COMPARE: dict[str, Compare] = {
    "partition_new": _moved, "partition_moved": _moved, "replica_moved": _moved,
    "partition_led": _led, "elected_leader": _elected, "partition_failed": _failed,
    "replica_failed": _failed, "shrunk": _shrunk,
    "store_record": _stored, "selects_leader": _stored,
    "sent_leader_and_isr_partition": _sent_lead, "sent_update_metadata_partition": _sent_told,
    "sent_stop_replica_partition": _sent_stop, "send_failed": _not_received,
    "not_sent": _not_received,
    "all_leaders": _state, "partition_states": _partition_state, "replica_states": _replica_state,
    "election": _balanced, "not_preferred": _not_preferred, "not_preferred_any": _not_preferred,
    "preferred_replicas": _assigned,
    "preferred_done": _leader, "preferred_failed": _leader, "reassign_leader": _leader_before,
    "isr_updated": _isr_updated, "isr_record": _isr_updated, "epoch_updated": _epoch_updated,
    "sent_reassignment": _sent_reassignment,
}
"""What compares each kind of line that a controller writes about partitions."""
