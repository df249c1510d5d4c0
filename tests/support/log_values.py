"""Every value that a line about a controller's decision states, and another one in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random

STATES = (
    ("NonExistentPartition", "NewPartition", "OnlinePartition", "OfflinePartition"),
    ("NonExistentReplica", "NewReplica", "OnlineReplica", "OfflineReplica",
     "ReplicaDeletionStarted", "ReplicaDeletionSuccessful", "ReplicaDeletionIneligible"),
)
PAIRS = (("true", "false"), ("leader", "follower"), ("RECOVERED", "RECOVERING"), ("0", "1"))
Change = Callable[[str, Random], str]


def _number(text: str, rng: Random) -> str:
    return str(int(text) + rng.choice((1, 2, 3)))


def _listed(text: str, rng: Random) -> str:
    """A list with another member, one more or one less."""
    ids = [int(number) for number in re.findall(r"\d+", text)]
    more = max(ids, default=0) + 1
    how = rng.choice(("change", "add", "drop")) if ids else "add"
    at = rng.randrange(len(ids)) if ids else 0
    ids[at : at + (how != "add")] = [] if how == "drop" else [more]
    return (", " if " " in text or "," not in text else ",").join(map(str, ids))


def _bare(text: str, rng: Random) -> str:
    return _listed(text, rng).replace(" ", "")


def _state(text: str, rng: Random) -> str:
    states = next(states for states in STATES if text in states)
    return rng.choice([state for state in states if state != text])


def _other(text: str, _rng: Random) -> str:
    pair = next(pair for pair in PAIRS if text in pair)
    return pair[1 - pair.index(text)]


VALUES: tuple[tuple[re.Pattern[str], Change], ...] = tuple(
    (re.compile(pattern), change) for pattern, change in (
        (r"\[Controller id=(\d+) ", _number),
        (r"\[Controller id=\d+ epoch=(\d+)\]", _number),
        (r"\] Controller (\d+) epoch", _number),
        (r"\] Controller \d+ epoch (\d+)", _number),
        (r"(?:[pP]artition [\w.-]+-|partitionIndex=)(\d+)\b", _number),
        (r"(?:leader=|Leader:|leaderEpoch=|LeaderEpoch:)(-?\d+)", _number),
        (r"(?:zkVersion=|partitionEpoch=|ZkVersion:|controllerEpoch=|ControllerEpoch:)(\d+)",
         _number),
        (r"brokerId=(\d+)", _number),
        (r"isr=(?:List\(|\[)([\d, ]*)[)\]]", _listed),
        (r"(?:isr=|ISR:| replicas=|assigned replicas )(\d[\d,]*\d|\d)(?=,[a-zL]|\b(?!,))", _bare),
        (r"(?: replicas|addingReplicas|removingReplicas|offlineReplicas)=\[([\d, ]*)\]", _listed),
        (r"(?:isNew=|deletePartition=|delete = )(true|false)", _other),
        (r"become-(leader|follower) LeaderAndIsr", _other),
        (r"[lL]eaderRecoveryState[=:](RECOVERED|RECOVERING|0|1)\b", _other),
        (r"for (\d+) (?:partitions|replicas)", _number),
        (r"(?:with|and) (\d+) become-", _number),
        (r"to broker (\d+)", _number),
        (r"to brokers \w*\(([\d, ]*)\)", _listed),
        (r"(?:state of|removing|change of) replica (\d+) ", _number),
        (r"from (\w+(?:Partition|Replica|Started|Successful|Ineligible)) to", _state),
        (r"from \w+ to (\w+(?:Partition|Replica|Started|Successful|Ineligible))\b", _state),
    )
)
"""What is read of a line, and what makes another value of it."""


def places(line: str) -> Iterator[tuple[tuple[int, int], Change]]:
    """Where a line has a value, with what changes it."""
    for pattern, change in VALUES:
        for found in pattern.finditer(line):
            yield found.span(1), change


def change_one(line: str, rng: Random) -> str:
    """The line with another value in one place."""
    (begin, end), change = rng.choice(list(places(line)))
    return line[:begin] + change(line[begin:end], rng) + line[end:]
