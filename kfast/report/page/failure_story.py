"""The worst failure, told step by step to a reader who does not know the controller.

Every number is read from the censuses before and after, and every decision from `kfast.explain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kfast.analysis.broker_failure import Failure
from kfast.analysis.explain import explain
from kfast.analysis.whatif import racks_by_broker
from kfast.report.answer import Document
from kfast.report.failure import impact_sentence
from kfast.report.sweep import whole_racks
from kfast.report.wording import brokers_named, count, first_names, plural
from kfast.state import ClusterState
from kfast.state.census import Census, Flags

__all__ = ["failure_story"]

MOST_TOPICS = 4
"""Topics that a sentence names."""

DECISIONS = ("leader is ", "ISR ")
"""How a line of `kfast.explain` begins that says what was decided."""

CLIENTS = (
    ("Producers and consumers", "moved", (
        "NOT_LEADER_OR_FOLLOWER or a closed connection once; they look up the new leader and go on"
    )),
    ("Producers with acks=all", "refused", (
        "NOT_ENOUGH_REPLICAS; they retry until delivery.timeout.ms (2 min by default), then the "
        "record fails"
    )),
    ("Producers with acks=0 or 1", "refused", "nothing: they write to fewer copies than usual"),
    ("All producers", "offline", (
        "LEADER_NOT_AVAILABLE; records wait in the producer and fail after delivery.timeout.ms"
    )),
    ("Consumers", "offline", "no new records, and no error: their lag grows"),
)
"""Clients, the partitions that concern them, and what they see."""

LEADERLESS = ("nobody leads", "gets no leader")
"""How a line of `kfast.explain` ends that says that there is no leader."""

INTERNAL = {
    "__consumer_offsets": "consumer groups that are coordinated there can neither commit nor "
    "rebalance",
    "__transaction_state": "transactions that are coordinated there can neither begin nor end",
}
"""What clients miss when partitions of Kafka's own topics are offline."""


@dataclass(frozen=True, eq=False)
class _Groups:
    """Partitions by what the failure does to them, as flags of every row."""

    offline: Flags
    no_live_replica: Flags
    refused: Flags
    moved: Flags
    unclean: Flags
    touched: Flags


def failure_story(state: ClusterState, failure: Failure) -> Document:
    """Tell what happened, what the controller decided, why, and what clients see.

    Parameters
    ----------
    state : ClusterState
        As it was read.
    failure : Failure
        Its first step is told; a second one, in which the brokers start again, ends the story.
    """
    ids = failure.steps[0].broker_ids
    groups = _groups(failure)
    racks = whole_racks(state, ids)
    named = brokers_named(ids, racks, racks_by_broker(state), ("stops", "stop together"))
    return {
        "title": f"{named[0].upper()}{named[1:]}",
        "broker_ids": list(ids), "racks": racks, "summary": _summary(failure),
        "steps": [
            _beginning(failure, ids),
            _detection(state, ids),
            _decision(state, failure, groups),
            *_leaderless(state, failure, groups),
            *_refusing(state, failure, groups),
            *_unclean(state, failure, groups),
            _clients(state, groups),
            *_return(failure),
        ],
    }


def _summary(failure: Failure) -> list[str]:
    """What the failure does, in two sentences at most."""
    change = failure.steps[0].impact
    sentence = impact_sentence(change)
    lines = [f"{sentence[0].upper()}{sentence[1:]}"]
    if n := change.summary["unclean"]:
        lines.append(f"{count(n, 'leader', 'is elected', 'are elected')} outside the ISR: records "
                     "that only other replicas had are lost.")
    return lines


def _groups(failure: Failure) -> _Groups:
    change = failure.steps[0].impact
    before, after = change.before, change.after
    offline, moved = change.newly("offline"), change.leaders_moved
    refused = change.newly("under_min_isr") & ~after.flags("offline")
    in_sync = np.zeros(moved.size, np.bool_)
    touched = np.zeros(moved.size, np.bool_)
    lost = before.registered & ~after.registered
    for slot in range(before.replicas.shape[1]):
        is_member = (before.isr >> before.isr.dtype.type(slot) & 1) != 0
        in_sync |= is_member & (after.replicas[:, slot] == after.leader)
        has_slot = before.state.records["n_replicas"] > slot
        broker = np.where(has_slot, before.replicas[:, slot], 0).astype(np.int64)
        touched |= has_slot & lost[broker]
    unclean = moved & ~in_sync
    if before.elr is not None:
        unclean &= before.elr.masks == 0
    if not failure.steps[0].impact.summary["unclean"]:
        unclean[:] = False
    return _Groups(offline, offline & after.flags("no_live_replica"), refused, moved, unclean,
                   touched)


def _step(title: str, *paragraphs: str, **parts: Any) -> Document:
    return {"title": title, "paragraphs": [text for text in paragraphs if text], **parts}


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}. "


def _beginning(failure: Failure, ids: Sequence[int]) -> Document:
    before = failure.steps[0].impact.before
    rows = np.searchsorted(before.state.broker_id, ids)
    leaders, replicas, _ = before.per_broker[rows].sum(axis=0).tolist()
    total = before.state.n_partitions
    whose = "this broker leads" if len(ids) == 1 else "these brokers lead"
    holds = "holds" if len(ids) == 1 else "hold"
    return _step(
        "Before the failure",
        "Each partition is copied to several brokers, its replicas. One replica is the leader: "
        "producers write to it and consumers usually read from it. The others copy from it. "
        "Those that are up to date form the in-sync replicas, the ISR.",
        f"At that moment {whose} {leaders} of {plural(total, 'partition')}, and {holds} "
        f"{plural(replicas, 'replica')}.",
    )


def _detection(state: ClusterState, ids: Sequence[int]) -> Document:
    one = len(ids) == 1
    who = "the broker" if one else "the brokers"
    if state.is_kraft:
        how = (
            f"The active controller gets no more heartbeats from {who}. After "
            "broker.session.timeout.ms (9 s by default) it fences "
            + ("it: a fenced broker may lead nothing." if one else
               "them, one after another, by ascending id: a fenced broker may lead nothing.")
        )
    else:
        how = (
            f"ZooKeeper ends the session of {who} after zookeeper.session.timeout.ms (18 s by "
            "default), and tells the controller that "
            + ("it is gone." if one else "they are gone. It handles all of them in one event.")
        )
    return _step(
        "The controller notices",
        how,
        "The active controller alone decides who leads which partition. Until it has decided, "
        "clients of those partitions wait and retry.",
    )


def _decision(state: ClusterState, failure: Failure, groups: _Groups) -> Document:
    impact = failure.steps[0].impact
    moved, total = int(groups.moved.sum()), int(groups.touched.size)
    untouched = total - int(groups.touched.sum())
    rule = (
        "For every partition whose leader is gone, the controller goes through its replicas in "
        "their fixed order and takes the first that is live and in the ISR. Such a replica has "
        "every record that was acknowledged with acks=all, so nothing is lost."
    )
    if impact.summary.get("elr_elections"):
        chosen = count(impact.summary["elr_elections"], "leader", "comes", "come")
        rule += (
            f" Where the ISR is empty it takes one of the eligible leader replicas (ELR), which "
            f"have all of them too: {chosen} from there."
        )
    leaders = impact.after.per_broker[:, 0]
    fullest = int(leaders.argmax())
    return _step(
        "It elects new leaders",
        rule,
        _sentence(count(moved, "partition", "gets another leader", "get another leader"))
        + _sentence(count(int(impact.summary["isr_shrunk"]), "ISR", "loses a member",
                          "lose members"))
        + (_sentence(count(untouched, "partition", "has no replica there and notices nothing",
                           "have no replica there and notice nothing")) if untouched else "")
        + f"Afterwards broker {state.broker_id[fullest]} leads most: "
        f"{plural(int(leaders[fullest]), 'partition')}.",
        figure="leaders",
        examples=_examples(state, failure, groups.moved & ~groups.unclean),
    )


def _leaderless(state: ClusterState, failure: Failure, groups: _Groups) -> Iterator[Document]:
    n, one = int(groups.offline.sum()), len(failure.steps[0].broker_ids) == 1
    if not n:
        return
    gone = int(groups.no_live_replica.sum())
    causes = []
    if gone:
        causes.append(
            f"All replicas of {plural(gone, 'partition')} were on brokers that are down: nothing "
            "is left to elect."
        )
    if n > gone:
        causes.append(
            f"{count(n - gone, 'partition', 'still has', 'still have')} a live replica, but it "
            "had fallen behind and was not in sync. To elect it would lose records, and unclean "
            "leader election is not allowed."
        )
    yield _step(
        f"{count(n, 'partition', 'has', 'have')} nobody to lead",
        "For these the controller finds no replica that may lead. They are offline: nobody can "
        "write to them or read from them until "
        f"{'this broker' if one else 'one of these brokers'} is back. They are of "
        f"{_topics(state, groups.offline)}.",
        *causes,
        examples=_examples(state, failure, groups.offline), tone="bad",
    )


def _refusing(state: ClusterState, failure: Failure, groups: _Groups) -> Iterator[Document]:
    n = int(groups.refused.sum())
    if not n:
        return
    yield _step(
        f"{count(n, 'partition', 'refuses', 'refuse')} safe writes",
        "A topic says with min.insync.replicas how many replicas must have a record before it is "
        "acknowledged to a producer with acks=all. These partitions have a leader, but fewer "
        "replicas in sync than that. They can be read, and refuse such writes. They are of "
        f"{_topics(state, groups.refused)}.",
        examples=_examples(state, failure, groups.refused), tone="warn",
    )


def _unclean(state: ClusterState, failure: Failure, groups: _Groups) -> Iterator[Document]:
    n = failure.steps[0].impact.summary["unclean"]
    if not n:
        return
    yield _step(
        f"{count(n, 'leader', 'is', 'are')} elected from behind",
        "No replica in sync was left, and unclean leader election is allowed for these "
        "partitions: a replica that had fallen behind leads. They stay available, and records "
        "that only the failed brokers had are lost, acknowledged or not"
        + (f". They are of {_topics(state, groups.unclean)}." if groups.unclean.any() else "."),
        examples=_examples(state, failure, groups.unclean), tone="bad",
    )


def _clients(state: ClusterState, groups: _Groups) -> Document:
    offline, refused, moved = (
        int(flags.sum()) for flags in (groups.offline, groups.refused, groups.moved)
    )
    rows = [(who, {"moved": moved, "refused": refused, "offline": offline}[group], what)
            for who, group, what in CLIENTS]
    names = state.topic.take(np.unique(state.topic_row[groups.offline])).to_pylist()
    notes = [f"{name} is among the topics with offline partitions: {INTERNAL[name]}."
             for name in names if name in INTERNAL]
    return _step(
        "What clients see", *notes,
        clients=[{"client": who, "partitions": n, "effect": what} for who, n, what in rows if n],
    )


def _return(failure: Failure) -> Iterator[Document]:
    if len(failure.steps) < 2:
        return
    summary = failure.steps[1].impact.summary
    still = summary["offline"]
    several = len(failure.steps[0].broker_ids) > 1
    yield _step(
        "When the brokers are back" if several else "When the broker is back",
        ("They start, copy what they missed, and join" if several
         else "It starts, copies what it missed, and joins") + " the ISRs again: "
        f"{count(summary['back_online'], 'partition', 'comes', 'come')} back online, "
        f"{count(still, 'partition', 'stays offline', 'stay offline')}. "
        f"{count(summary['not_preferred'], 'partition', 'is', 'are')} then led by another than "
        "the first replica, until the controller balances leaders "
        "(auto.leader.rebalance.enable) or kafka-leader-election.sh does.",
    )


# --- partitions by name --------------------------------------------------------------------------


def _topics(state: ClusterState, flags: Flags) -> str:
    """Topics of some partitions, those with most of them first."""
    topics, sizes = np.unique(state.topic_row[np.flatnonzero(flags)], return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    names = [
        f"{state.topic[int(topics[at])].as_py()} ({sizes[at]})" for at in order[:MOST_TOPICS]
    ]
    names += [""] * (order.size - len(names))
    return f"{'topic' if order.size == 1 else 'topics'} {first_names(names, MOST_TOPICS, 'topic')}"


def _examples(state: ClusterState, failure: Failure, flags: Flags) -> list[Document]:
    """The first partition of the topic with most of them: before, after, and why."""
    rows = np.flatnonzero(flags)
    if not rows.size:
        return []
    _, first, sizes = np.unique(
        state.topic_row[rows], return_index=True, return_counts=True
    )
    row = int(rows[first[int(sizes.argmax())]])
    topic, partition = state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row])
    ids = list(map(str, failure.steps[0].broker_ids))
    [explanation] = explain(state, failure.steps[0].broker_ids, [(topic, partition)])
    sections = [
        replace(section, heading=section.heading.replace(",".join(ids), first_names(ids, 5)))
        for section in explanation.sections
    ]
    impact = failure.steps[0].impact
    return [{
        "topic": topic, "partition": partition,
        "before": _replicas(impact.before, row), "after": _replicas(impact.after, row),
        "decisions": [
            {"event": section.heading.rpartition(" (")[0], "line": "; ".join(decided)}
            for section in sections[1:-1]
            if (decided := [line.strip() for line in section.lines
                            if line.strip().startswith(DECISIONS) or line.endswith(LEADERLESS)])
        ],
        "sections": [
            {"heading": section.heading, "lines": list(section.lines)} for section in sections
        ],
    }]


def _replicas(census: Census, row: int) -> list[Document]:
    """What each replica of a partition is, in order: leader, in sync, behind or down."""
    state = census.state
    replicas = []
    for slot in range(int(state.records["n_replicas"][row])):
        broker = int(census.replicas[row, slot])
        is_member = bool(int(census.isr[row]) >> slot & 1)
        role = (
            "down" if not census.registered[broker] else "leader" if broker == census.leader[row]
            else "in sync" if is_member else "behind"
        )
        replicas.append({"broker": int(state.broker_id[broker]), "role": role})
    return replicas
