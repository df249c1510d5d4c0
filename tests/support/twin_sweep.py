"""A sweep in plain Python: the controller run scenario by scenario, counted from the definitions.

The state is started and a broker list fails in one event; what is left is counted row by row.
"""

from __future__ import annotations

from kfast import Controller
from kfast.analysis.impact import impact
from kfast.state.census import take_census


def effective_min_isr(state, topic_row):
    """min.insync.replicas in force for a topic."""
    override = int(state.topic_min_insync_replicas[topic_row])
    return state.default_min_insync_replicas if override < 0 else override


def partitions_of(state):
    """Rows that have an assignment."""
    return [row for row in range(state.n_partitions) if int(state.records["flags"][row]) & 1]


def live_of(state, row, ids):
    """Those of some brokers that are live for a partition."""
    return [b for b in ids if state.is_replica_online(b, row)]


def look(state, row):
    """What is true of one partition now: (leader or None, live ISR, live replicas)."""
    led = state.leadership(row)
    leader = None
    if led is not None and state.is_replica_online(led.leader, row):
        leader = led.leader
    isr = live_of(state, row, led.isr) if led is not None else []
    return leader, isr, live_of(state, row, state.assignment(row).replicas)


def expected_row(state, brokers, profile="zk-3.9"):
    """Counts of one scenario, as `kfast.sweep` names them; the state is not changed."""
    started = state.copy()
    controller = Controller(started, profile=profile)
    controller.on_controller_failover()
    after = started.copy()
    if brokers:
        Controller(after, profile=profile).on_broker_failure(brokers)
    counts = dict.fromkeys(
        ("offline", "offline_if_clean", "no_live_replica", "under_min_isr", "at_min_isr",
         "leaders_moved"), 0,
    )
    leaders = dict.fromkeys(state.broker_id.tolist(), 0)
    for row in partitions_of(started):
        before = look(started, row)[0]
        record = started.leadership(row)
        leader, isr, live = look(after, row)
        n_replicas = len(started.assignment(row).replicas)
        needed = min(effective_min_isr(state, int(state.topic_row[row])), n_replicas)
        counts["offline"] += leader is None
        old_isr = record.isr if record is not None else ()
        counts["offline_if_clean"] += not live_of(after, row, old_isr)
        counts["no_live_replica"] += not live
        counts["under_min_isr"] += leader is None or len(isr) < needed
        counts["at_min_isr"] += leader is not None and len(isr) == needed
        counts["leaders_moved"] += before is not None and leader not in (None, before)
        if leader is not None:
            leaders[leader] += 1
    check = impact(take_census(started), take_census(after)).summary
    for name in ("offline", "no_live_replica", "under_min_isr", "at_min_isr", "leaders_moved"):
        assert check[name] == counts[name], name
    fullest = max(leaders.values(), default=0)
    return {
        "brokers_down": len(brokers), **counts,
        "unclean": after.unclean_elections - started.unclean_elections,
        "fullest_broker": next((b for b, n in sorted(leaders.items()) if n == fullest and n), -1),
        "fullest_broker_leaders": fullest,
    }
