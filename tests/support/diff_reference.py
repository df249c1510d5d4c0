"""What differs between two clusters, in plain Python: dicts by (topic, partition).

What a failure does is asked of the controller itself, broker by broker.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import kfast
from kfast.state.census import take_census

STATES = ("unknown", "down", "fenced", "shutting down", "up")
METRICS = ("offline", "under_min_isr")


def partitions_of(state) -> dict[tuple[str, int], dict[str, Any]]:
    """Assigned partitions by topic and number."""
    rows = state.to_tables().partitions.to_pylist()
    census = {(r["topic"], r["partition"]): r for r in take_census(state).partitions.to_pylist()}
    return {
        key: {**row, **{name: census[key][name] for name in METRICS}}
        for row in rows if row["replicas"] is not None
        for key in [(row["topic"], row["partition"])]
    }


def statuses_of(state) -> dict[int, str]:
    """The status of each broker."""
    def status(row):
        if not row["registered"]:
            return "down"
        if row["fenced"]:
            return "fenced"
        return "shutting down" if row["shutting_down"] else "up"

    return {row["broker_id"]: status(row) for row in state.to_tables().brokers.to_pylist()}


def takers_of(state):
    """(what holds, who makes it hold alone): by metric, sets and dicts of lists by partition."""
    holds = {name: set() for name in METRICS}
    takers = {name: {} for name in METRICS}
    up = state.broker_id[state.up].tolist()
    for broker in up:
        impact = kfast.fail_brokers(state, [broker]).impact
        for row in impact.partitions.to_pylist():
            key = (row["topic"], row["partition"])
            if not row["replicas"]:
                continue
            for name in METRICS:
                if row[f"{name}_before"]:
                    holds[name].add(key)
                elif row[name]:
                    takers[name].setdefault(key, []).append(broker)
    return holds, takers


def leader_of(row):
    """The leader, None for none."""
    return row["leader"] if row["leader"] >= 0 else None


def changes_of(then, now, epochs) -> set[str]:
    """What happened to one partition."""
    was_moving, moves = (
        row["being_reassigned"] or bool(row["adding"] or row["removing"]) for row in (then, now)
    )
    found = {
        "replicas_changed": set(then["replicas"]) != set(now["replicas"]),
        "replicas_reordered": sorted(then["replicas"]) == sorted(now["replicas"])
        and then["replicas"] != now["replicas"],
        "reassignment_started": moves and not was_moving,
        "reassignment_ended": was_moving and not moves,
        "leader_changed": leader_of(then) != leader_of(now),
        "leader_epoch_changed": epochs and then["leader_epoch"] != now["leader_epoch"],
    }
    for name in ("isr", "elr"):
        before, after = set(then[name] or ()), set(now[name] or ())
        found[f"{name}_shrunk"] = bool(before - after)
        found[f"{name}_expanded"] = bool(after - before)
    return {name for name, holds in found.items() if holds}


def tells_epochs(state) -> bool:
    """Whether any epoch is not 0."""
    tables = state.to_tables()
    epochs = tables.brokers["epoch"].to_pylist() + tables.partitions["leader_epoch"].to_pylist()
    return any(epochs)


def topic_changes(old, new, old_partitions, new_partitions) -> dict[str, str]:
    """What became of each topic that differs."""
    def facts(state, partitions):
        rows = {row["topic"]: row for row in state.to_tables().topics.to_pylist()}
        return {
            name: (
                sum(topic == name for topic, _ in partitions),
                min((len(row["replicas"]) for (topic, _), row in partitions.items()
                     if topic == name), default=None),
                row["min_insync_replicas"], row["unclean_leader_election"], row["topic_id"],
            ) for name, row in rows.items()
        }

    before, after = facts(old, old_partitions), facts(new, new_partitions)
    found = dict.fromkeys(before.keys() - after.keys(), "deleted")
    found |= dict.fromkeys(after.keys() - before.keys(), "created")
    for name in before.keys() & after.keys():
        ids = {before[name][-1], after[name][-1]} - {None}
        if len(ids) == 2:
            found[name] = "recreated"
        elif before[name][:-1] != after[name][:-1]:
            found[name] = "changed"
    return found


def diff_of(old, new) -> dict[str, Any]:
    """Counts of a diff, and what its tables say: by topic, by partition, by broker."""
    before, after = partitions_of(old), partitions_of(new)
    both = before.keys() & after.keys()
    epochs = tells_epochs(old) and tells_epochs(new)
    changes = {key: changes_of(before[key], after[key], epochs) for key in both}
    differing = {
        key for key in both
        if changes[key] or any(before[key][name] != after[key][name] for name in METRICS)
    }
    statuses, racks = [statuses_of(old), statuses_of(new)], [
        dict(zip(s.broker_id.tolist(), s.rack.to_pylist(), strict=True)) for s in (old, new)]
    known = statuses[0].keys() & statuses[1].keys()
    is_up = [{b for b in known if status[b] in STATES[3:]} for status in statuses]
    racks_told = all(any(rack.values()) for rack in racks)
    moved_racks = {b for b in known if racks_told and racks[0][b] != racks[1][b]}
    topics = topic_changes(old, new, before, after)
    (held, took), (holds, takes) = takers_of(old), takers_of(new)
    newly = {
        name: {key: brokers for key, brokers in takes[name].items()
               if key not in held[name] and key not in took[name]} for name in METRICS
    }
    was_fragile = took["offline"].keys() | took["under_min_isr"].keys()
    is_fragile = takes["offline"].keys() | takes["under_min_isr"].keys()
    counts = Counter(name for found in changes.values() for name in found)
    counts.update({f"topics_{change}": n for change, n in Counter(topics.values()).items()})
    counts.update({
        "brokers_gone": len(statuses[0].keys() - known),
        "brokers_new": len(statuses[1].keys() - known),
        "brokers_down": len(is_up[0] - is_up[1]), "brokers_up": len(is_up[1] - is_up[0]),
        "racks_changed": len(moved_racks),
        "partitions_created": len(after.keys() - both),
        "partitions_deleted": len(before.keys() - both),
        "partitions_changed": len(differing),
        "leaders_moved": sum(
            None not in (leader_of(before[k]), leader_of(after[k]))
            and leader_of(before[k]) != leader_of(after[k])
            and not before[k]["offline"] and not after[k]["offline"] for k in both),
        "newly_offline": sum(
            after[k]["offline"] and not (k in both and before[k]["offline"]) for k in after),
        "back_online": sum(before[k]["offline"] and not after[k]["offline"] for k in both),
        "newly_under_min_isr": sum(
            after[k]["under_min_isr"] and not (k in both and before[k]["under_min_isr"])
            for k in after),
        "newly_fragile": len(newly["offline"].keys() | newly["under_min_isr"].keys()),
        "no_longer_fragile": len(
            (was_fragile & both) - is_fragile - holds["under_min_isr"]),
    })
    return {
        "counts": counts, "changes": {key: changes[key] for key in differing}, "topics": topics,
        "newly": newly,
        "brokers": {
            b for b in statuses[0].keys() | statuses[1].keys()
            if statuses[0].get(b) != statuses[1].get(b)
        } | moved_racks,
        "any_broker": {
            name: [len(held[name] | took[name].keys()), len(holds[name] | takes[name].keys())]
            for name in METRICS
        },
    }
