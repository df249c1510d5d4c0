"""Which release wrote a log, told from its wording, and the profile that serves it.

Every form knows the releases that word it so; some words within messages tell more. The releases
that fit all of them remain. Between the profiles that kfast has by name, a release gets the older
one with what was changed since.

Source: docs/controller.md, section 8.1, for what changed when; the releases 0.10.0 to 3.9, read for
how their messages look.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kfast.controllers import PROFILES, RELEASES, Profile, find_profile, profile_of
from kfast.errors import InputError
from kfast.log_replay.log_files import Logs
from kfast.log_replay.wording.forms import Form

DISTINCT = ("0.10", "1.0", "1.1", "2.4", "2.6")
"""Releases whose rules differ much from those before: a log has to tell these apart."""

_CUES = tuple((words, re.compile(pattern), since, until) for words, pattern, since, until in (
    ("", r"^\[Controller \d+\]: |^Controller \d+ epoch \d+ |^Broker \d+ ", "", "0.11"),
    ("r id=", r"^\[(?:Controller|Broker) id=", "1.0", ""),
    ("TopicId", r"TopicIdReplicaAssignment\(", "2.8", ""),
    ("(replicas=", r"\bReplicaAssignment\(replicas=", "2.4", ""),
    ("State(", r"LeaderAndIsrPartitionState\(|UpdateMetadataPartitionState\(", "2.4", ""),
    ("RecoveryState", r"leaderRecoveryState=|LeaderRecoveryState:", "3.2", ""),
    ("zkVersion=", r"LeaderAndIsr\(leader=.*isr=List\([^)]*\), zkVersion=", "1.1", "3.1"),
    ("partitionEpoch=", r"LeaderAndIsr\(leader=.*partitionEpoch=", "3.3", ""),
    ("BrokerEpoch=", r"isrWithBrokerEpoch=", "3.5", ""),
    (" new partition ",
     r"^\[Controller id=.*new partition replica assignment \[(?:Hash)?Map\(", "", "2.7"),
    ("Starting preferred ",
     r"^\[Controller id=\d+\] Starting preferred replica leader election", "1.0", "2.3"),
    ("Preferred replicas by ", r"^\[Controller id=\d+\] Preferred replicas by broker", "", "2.4"),
    ("Received LeaderAndIsr", r"Received LeaderAndIsr request .* for partition ", "", "2.3"),
))
"""What in a message tells the release: words, pattern, first release, last release.

The pattern is looked for where the words are, as that is far cheaper.
"""

_OLDER = re.compile(
    r"connected to (?:id:\d+,host:|Node\(\d+, )|eceived LeaderAndIsr request \(LeaderAndIsrInfo:"
)
"""How 0.8 and 0.9 print a broker that a controller connects to, and a request that one received."""

_KRAFT_MESSAGE = re.compile(r"\[(?:QuorumController|ControllerServer) id=|"
                            r"\[Broker id=\d+\] Transitioning \d+ partition")
_KRAFT_LOGGER = "org.apache.kafka.controller."

_LOGGERS = {
    "kafka.controller.ZkReplicaStateMachine": ("2.3", ""),
    "kafka.controller.ZkPartitionStateMachine": ("2.3", ""),
    "kafka.controller.ReplicaStateMachine": ("", "2.2"),
    "kafka.controller.PartitionStateMachine": ("", "2.2"),
}
_LEVELS = re.compile(r"Changed partition .* with (?:state|assigned)")


class Choice(NamedTuple):
    """A profile to replay with, and why.

    `release` is the one it stands for, `note` what a reader should know; `other_releases`
    have other rules and fit the wording as well.
    """

    profile: Profile
    release: str | None
    note: str
    other_releases: tuple[str, ...] = ()


def refuse_kraft(logs: Logs) -> None:
    """Refuse logs of a KRaft controller, which writes what it decides into the metadata log.

    Raises
    ------
    InputError
        An entry is one of a KRaft controller or of its brokers.
    """
    for entry in logs.entries:
        if entry.logger.startswith(_KRAFT_LOGGER) or _KRAFT_MESSAGE.match(entry.message):
            raise InputError(
                f"{logs.place(entry)}: these are logs of a KRaft cluster, whose decisions stand in "
                "its metadata log: run `kfast replay` on the folder __cluster_metadata-0 of a "
                "controller or broker"
            )


def _refuse_older(logs: Logs) -> None:
    """Refuse logs of 0.8 and 0.9, whose controllers follow other rules than 0.10's."""
    for entry in logs.entries:
        if _OLDER.search(entry.message):
            raise InputError(
                f"{logs.place(entry)}: the wording is that of Kafka 0.8 or 0.9, and kfast knows "
                "the controllers from 0.10 on; --profile zk-0.10 (profile=) runs these logs by the "
                "rules of 0.10"
            )


def between(since: str, until: str) -> Sequence[str]:
    """Releases of a range; "" is an open end."""
    first = RELEASES.index(since) if since else 0
    last = RELEASES.index(until) if until else len(RELEASES) - 1
    return RELEASES[first : last + 1]


def tell_release(logs: Logs, used: Mapping[Form, int]) -> tuple[list[str], bool]:
    """Releases that fit a log's wording, and whether one fits all of it.

    Where none fits all (a cluster that was upgraded), those that fit the most are given.
    """
    ranges = Counter(_cues(logs))
    for form, n in used.items():
        ranges[form.since, form.until] += n
    votes: Counter[str] = Counter()
    for release_range, n in ranges.items():
        votes.update(dict.fromkeys(between(*release_range), n))
    most = max(votes.values(), default=0)
    fitting = [release for release in RELEASES if votes[release] == most]
    return fitting, most == ranges.total()


def _cues(logs: Logs) -> Iterator[tuple[str, str]]:
    for entry in logs.entries:
        message = entry.message
        for words, pattern, since, until in _CUES:
            if words in message and pattern.search(message):
                yield since, until
        if entry.logger in _LOGGERS:
            yield _LOGGERS[entry.logger]
        if "Changed partition " in message and _LEVELS.search(message):
            yield ("", "2.5") if entry.level == "TRACE" else ("2.6", "")


def choose_profile(
    logs: Logs, used: Mapping[Form, int], asked: str | Profile | None
) -> Choice:
    """Profile to replay with.

    Raises
    ------
    InputError
        No release is asked for, and the wording is that of one before 0.10, or does not tell the
        release well enough.
    """
    if asked is not None:
        profile = find_profile(asked)
        return Choice(profile, None, f"{profile.name}, as asked")
    _refuse_older(logs)
    fitting, whole = tell_release(logs, used)
    release_range = fitting[0] if len(fitting) == 1 else f"{fitting[0]} to {fitting[-1]}"
    if len({bisect.bisect(DISTINCT, release) for release in fitting}) > 1:
        raise InputError(
            f"{logs.name}: the release that wrote these logs cannot be told: their wording fits "
            f"{release_range}; give --profile (profile=), one of: {', '.join(PROFILES)}"
        )
    release = fitting[-1] if fitting[0] == "1.1" else fitting[0]  # From 2.0 on, rules are alike.
    note = f"the wording is that of {release_range}" if whole else (
        f"the wording is of several releases, mostly {release_range}"
    )
    return Choice(profile_of(release), release, note, other_rules(release, fitting))


def other_rules(release: str, fitting: Sequence[str]) -> tuple[str, ...]:
    """The first release of each other set of rules, of those that fit a log's wording."""
    first: list[tuple[dict[str, Any], str]] = []
    for other in (release, *fitting):
        rules = vars(replace(profile_of(other), name="", title=""))
        if all(rules != known for known, _ in first):
            first.append((rules, other))
    return tuple(other for _, other in first[1:])
