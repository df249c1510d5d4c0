"""What to do about faults: sentences, and the commands of Kafka's tools that mend each."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.analysis.topic_faults import (
    FAULTS,
    TopicFault,
    mended_replicas,
    usual_replication_factor,
)
from kfast.report.answer import Document
from kfast.report.wording import count, plural
from kfast.state import ClusterState
from kfast.state.census import Census
from kfast.state.records import Rows

__all__ = ["fault_documents", "first_actions"]

MOST_PLANNED = 500
"""Partitions of each kind of fault whose new replicas are written out."""

MOST_LISTED = 50
"""Topics of each kind of fault that are listed."""

TITLES = {
    "one_replica": "One replica", "one_rack": "All replicas in one rack",
    "min_isr": "No replica to spare for acks=all", "unclean": "Unclean leader election",
}
SERVER = '--bootstrap-server "$BOOTSTRAP"'


def fault_documents(state: ClusterState, faults: Sequence[TopicFault]) -> list[Document]:
    """Each kind of fault that some topic has: the topics, and the command that mends each."""
    documents = []
    for kind, meaning in FAULTS.items():
        own = [fault for fault in faults if fault.kind == kind]
        if not own:
            continue
        left = MOST_PLANNED
        topics = []
        for fault in own[:MOST_LISTED]:
            needs_plan = _needs_plan(state, fault)
            command = None
            if not needs_plan:
                command = _setting_command(fault, fault.replication_factor)
            elif fault.rows.size <= left:
                left -= fault.rows.size
                command = _plan_command(state, fault)
            topics.append({
                "topic": fault.topic, "partitions": int(fault.rows.size),
                "of": fault.n_partitions, "replication_factor": fault.replication_factor,
                "min_insync_replicas": fault.min_insync_replicas,
                "set_by": "brokers" if fault.is_default else "topic", "command": command,
            })
        documents.append({
            "kind": kind, "title": TITLES[kind], "meaning": meaning,
            "partitions": sum(int(fault.rows.size) for fault in own),
            "topics_listed_of": len(own), "topics": topics,
        })
    return documents


def _needs_plan(state: ClusterState, fault: TopicFault) -> bool:
    """Whether replicas have to be made or moved, and no setting mends the fault."""
    is_tight = fault.kind == "min_isr" and fault.replication_factor < 3
    can_grow = usual_replication_factor(state) > fault.replication_factor
    return fault.kind in ("one_replica", "one_rack") or (is_tight and can_grow)


def _setting_command(fault: TopicFault, factor: int) -> str:
    setting = "unclean.leader.election.enable=false"
    if fault.kind == "min_isr":
        setting = f"min.insync.replicas={max(factor - 1, 1)}"
    return (
        f"kafka-configs.sh {SERVER} --alter --entity-type topics "
        f"--entity-name {shlex.quote(fault.topic)} --add-config {setting}"
    )


def _plan_command(state: ClusterState, fault: TopicFault) -> str | None:
    """A plan, and the setting that it needs; None where there are too few brokers for one."""
    factor = fault.replication_factor
    if fault.kind != "one_rack":
        factor = usual_replication_factor(state)
    # Kafka's tool refuses all of a plan that names a broker that is down.
    rows = fault.rows[_is_up(state, fault.rows)]
    plans = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for row, (topic, partition, replicas) in zip(
            rows.tolist(), mended_replicas(state, rows, factor), strict=True
        ) if replicas != _replica_ids(state, row)
    ]
    if not plans:
        return None
    plan = json.dumps({"version": 1, "partitions": plans}, separators=(",", ":"))
    command = (
        f"cat > plan.json <<'END_OF_PLAN'\n{plan}\nEND_OF_PLAN\n"
        f"kafka-reassign-partitions.sh {SERVER} --reassignment-json-file plan.json --execute"
    )
    if fault.kind == "min_isr" and fault.min_insync_replicas >= factor:
        command += f"\n{_setting_command(fault, factor)}"
    return command


def _replica_ids(state: ClusterState, row: int) -> list[int]:
    n = int(state.records["n_replicas"][row])
    ids: list[int] = state.broker_id[state.replicas[row, :n]].tolist()
    return ids


def _is_up(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """(n,) whether all replicas of some partitions are on brokers that are up."""
    up = np.ones(rows.size, np.bool_)
    for slot in range(state.replicas.shape[1]):
        inside = state.records["n_replicas"][rows] > slot
        up[inside] &= state.up[state.replicas[rows[inside], slot]]
    return up


def first_actions(
    census: Census, faults: Sequence[Document], sections: dict[str, Document]
) -> list[Document]:
    """What to do, the most urgent first: brokers that are down, then faults, then the rest."""
    return [*_repairs(census), *_mending(faults), *_relief(sections), *_balance(census)]


def _action(title: str, why: str, anchor: str, command: str | None = None) -> dict[str, Any]:
    return {"title": title, "why": why, "anchor": anchor, "command": command}


def _repairs(census: Census) -> Iterator[Document]:
    rows = census.brokers.to_pylist()
    down = [row["broker_id"] for row in rows if not row["registered"] and row["replicas"]]
    offline = census.counts["offline"]
    if down:
        first = ", ".join(map(str, down[:5])) + (" and others" if len(down) > 5 else "")
        yield _action(
            f"Start broker{'' if len(down) == 1 else 's'} {first}",
            f"{'It is' if len(down) == 1 else 'They are'} down; "
            f"{count(offline, 'partition', 'is offline', 'are offline')}, "
            f"{count(census.counts['under_replicated'], 'partition', 'is', 'are')} "
            "under-replicated.", "failures",
        )
    elif offline:
        yield _action(
            f"Bring {plural(offline, 'partition')} back online",
            "They have no leader though every broker is up: look into their log directories.",
            "failures", f"kafka-topics.sh {SERVER} --describe --unavailable-partitions",
        )
    behind = np.where(census.registered, _replicas_behind(census), 0)
    if n := int(behind.max(initial=0)):
        row = rows[int(behind.argmax())]
        yield _action(
            f"Find out why broker {row['broker_id']} cannot keep up",
            f"{plural(n, 'replica')} of its {row['replicas']} "
            f"{'is' if n == 1 else 'are'} not in sync: these partitions survive less than their "
            "number of replicas promises.", "failures",
            f"kafka-topics.sh {SERVER} --describe --under-replicated-partitions",
        )


def _replicas_behind(census: Census) -> npt.NDArray[np.int64]:
    """(B,) replicas of each broker outside the ISR, without those that a reassignment adds."""
    records, n = census.state.records, np.zeros(census.registered.size, np.int64)
    in_sync = census.isr | records["adding"]
    for slot in range(census.replicas.shape[1]):
        is_behind = (records["n_replicas"] > slot) & (in_sync >> in_sync.dtype.type(slot) & 1 == 0)
        n += np.bincount(census.replicas[is_behind, slot].astype(np.int64), minlength=n.size)
    return n


def _mending(faults: Sequence[Document]) -> Iterator[Document]:
    titles = {
        "one_replica": "Give {} more replicas", "one_rack": "Spread {} over racks",
        "min_isr": "Leave {} a replica to spare", "unclean": "Forbid unclean elections of {}",
    }
    for fault in faults:
        worst, n = fault["topics"][0], fault["topics_listed_of"]
        named = f"topic {worst['topic']}" + (
            f" and {plural(n - 1, 'other')}" if n > 1 else ""
        )
        meaning = fault["meaning"]
        yield _action(
            titles[fault["kind"]].format(named),
            f"{plural(fault['partitions'], 'partition')}: {meaning}.", f"fault-{fault['kind']}",
        )


def _relief(sections: dict[str, Document]) -> Iterator[Document]:
    for name in ("capacity_brokers", "capacity_racks"):
        document = sections.get(name)
        if document is not None and not document["safe"]:
            yield _action(
                "Add capacity or move load", document["verdict"][0], "capacity",
            )
            return


def _balance(census: Census) -> Iterator[Document]:
    # A preferred replica that is down or not in sync cannot be elected.
    flags = census.flags("not_preferred") & (census.isr & 1 != 0)
    flags[flags] = census.state.live[census.replicas[flags, 0]]
    if n := int(flags.sum()):
        yield _action(
            "Balance leaders", f"{count(n, 'partition', 'is', 'are')} led by another than the "
            "preferred replica, though that is in sync: some brokers work more than planned.",
            "failures",
            f"kafka-leader-election.sh {SERVER} --election-type preferred --all-topic-partitions",
        )
