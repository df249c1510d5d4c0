"""What a log that begins, or goes on, within a controller's term cannot tell of its topics by then.

It does not show the controller's state: which topics are being deleted, which partitions moved,
which replicas are taken for offline. What a new controller finds is taken from its first lines;
what another one goes on with shows only in what it does.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterator, Sequence

from kfast.log_replay import checks
from kfast.log_replay.comparison.facts import PARTLY_LOGGED, UNASSIGNED, UNSEEN, Fact, name_of
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.terms.holes import FEWEST_LINES
from kfast.replay_results.verdicts import CONTRADICTED, MISSING, UNKNOWN

ALL = ""
"""In the place of a topic: facts of brokers and of the whole cluster."""


def leave_unseen(facts: Sequence[Fact], cluster: Cluster) -> list[Fact]:
    """Facts of a cluster, of which those are unknown that depend on what the log does not show.

    Of an event that is under way where the log begins, or goes on after a hole, nothing may predict
    what it did. A topic from before a log that begins, or goes on, within a term is doubted from
    the first line on that disagrees, where several of several events do, or where it is being
    deleted; so is then what is said of all topics. The lines of a single wrong decision are of one
    event, and stay contradicted.

    Parameters
    ----------
    facts : sequence of Fact
    cluster : Cluster

    Returns
    -------
    list of Fact
    """
    under_way = frozenset().union(*cluster.begun.values())
    found = [
        _unknown(fact, PARTLY_LOGGED)
        if fact.predicted is checks.MISSING and fact.number in under_way else fact
        for fact in facts
    ]
    wrong = _wrong_by_topic(found, cluster)
    begins = [event.at for event in cluster.events]
    doubted = {
        topic for topic, places in wrong.items()
        if _n_lines([found[at] for at in places]) >= FEWEST_LINES
        and _n_events([found[at] for at in places], begins) > 1
    }
    for event in _resumptions(cluster):  # How many replicas deletions have left, no line tells.
        doubted |= wrong.keys() & event.fields["queued"]
    if doubted:
        first = min(found[at].number for topic in doubted for at in wrong[topic])
        for topic in doubted | ({ALL} & wrong.keys()):
            for at in wrong[topic]:
                if found[at].number >= first:
                    found[at] = _unknown(found[at], UNSEEN)
    _leave_reassigned(found, cluster)
    return found


def _leave_reassigned(facts: list[Fact], cluster: Cluster) -> None:
    """Leave what depends on partitions that got other replicas in a hole unknown from there on.

    Lines name hosts that are none of the replicas of before the hole, and disagree from some event
    on.
    """
    names = set(map(name_of, cluster.reassigned))
    wrong = [at for at, fact in enumerate(facts) if fact.verdict in (CONTRADICTED, MISSING)]
    first = min((facts[at].number for at in wrong if facts[at].subject in names), default=0)
    begin = max((event.at for event in cluster.events if event.at <= first), default=0)
    for at in wrong if names else ():
        subject = facts[at].subject
        if facts[at].number >= begin and (subject in names or is_of_all(subject)):
            facts[at] = _unknown(facts[at], UNASSIGNED)


def _n_lines(facts: Sequence[Fact]) -> int:
    """How many lines disagree, or are missing: each missing decision is one."""
    n_missing = sum(fact.verdict == MISSING for fact in facts)
    return n_missing + len({fact.number for fact in facts if fact.verdict == CONTRADICTED})


def _n_events(facts: Sequence[Fact], begins: Sequence[int]) -> int:
    """Of how many events facts are; that of a missing decision is its reason."""
    reasons = {fact.reason for fact in facts if fact.verdict == MISSING}
    return max(len(reasons), len({bisect.bisect_right(begins, fact.number) for fact in facts}))


def _resumptions(cluster: Cluster) -> list[LogEvent]:
    """Events with which the log begins, or goes on, within a term."""
    return [event for event in cluster.events if event.kind == "resume"]


def _unseen_until(cluster: Cluster) -> Iterator[tuple[int, float]]:
    """From where on, and until where, states of topics are those that the log does not show.

    A new controller reads the store. Where the log begins records are unknown, too, for good.
    """
    elected = [event.at for event in cluster.events if event.kind == "failover"]
    for event in _resumptions(cluster):
        following = elected[bisect.bisect_right(elected, event.at) :]
        yield event.at, math.inf if event is cluster.events[0] or not following else following[0]


def _wrong_by_topic(facts: Sequence[Fact], cluster: Cluster) -> dict[str, list[int]]:
    """Places of facts that are not as predicted, of topics from before it and of brokers."""
    wrong: dict[str, list[int]] = {}
    resumed = list(_unseen_until(cluster))
    begins: dict[str, list[tuple[int, str]]] = {}
    created = [(p, event) for event in cluster.events if event.kind in ("topics", "partitions")
               for p in event.fields["created"]]
    for partition, event in sorted((*cluster.births.items(), *created), key=lambda p: p[1].at):
        begins.setdefault(name_of(partition), []).append((event.at, partition[0]))
    for at, fact in enumerate(facts):
        if fact.verdict not in (CONTRADICTED, MISSING):
            continue
        since, topic = next((
            begin for begin in reversed(begins.get(fact.subject, [])) if begin[0] <= fact.number
        ), (0 if is_of_all(fact.subject) else fact.number + 1, ALL))
        if any(since <= begin <= fact.number < end for begin, end in resumed):
            wrong.setdefault(topic, []).append(at)
    return wrong


def is_of_all(subject: str) -> bool:
    """Whether a fact is about no partition."""
    return subject in ("cluster", "controller") or subject.startswith("broker ")


def _unknown(fact: Fact, reason: str) -> Fact:
    return fact._replace(predicted=None, verdict=UNKNOWN, reason=reason)
