"""ISR changes that leaders decided and that only later lines name.

From 3.3 on a controller logs that it sent all brokers so many partitions, and not which ones. A
broker that traces UpdateMetadata names them, with their records; so does a controller that cannot
send it. Every write of a controller raises
the leader epoch of a record, so one that follows another with the same leader and leader epoch, and
another ISR, is its leader's. A proposal that is refused, or that changes nothing, goes out with the
others of its request. It is put where the controller announced a request of as many
partitions, after what the record follows and before the first line that names it or a later one.

Most lines decide what a record was, so one that differs from the others is contradicted.

Source: docs/controller.md, sections 1.4 and 6.10, for who writes what.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition, Record

Life = tuple[Partition, int]
"""A partition, and how often it had been created before."""


class Content(NamedTuple):
    """What a version of a record holds."""

    leader: int
    leader_epoch: int
    isr: frozenset[int]


@dataclass
class Mentions:
    """Lines that name one version of a record: how many say what, and the first that does."""

    votes: Counter[Content] = field(default_factory=Counter)
    first: dict[Content, int] = field(default_factory=dict)

    @property
    def content(self) -> Content:
        """What most lines say."""
        return self.votes.most_common(1)[0][0]

    @property
    def number(self) -> int:
        """The first line that says so."""
        return self.first[self.content]


@dataclass
class Request:
    """An UpdateMetadata request as one broker took it in: its first line, and its records."""

    number: int
    controller_epoch: int
    versions: dict[Life, int] = field(default_factory=dict)


Histories = dict[Life, dict[int, Mentions]]


def name_isr_changes(
    statements: Sequence[Statement], lines: Sequence[int], events: Sequence[LogEvent]
) -> None:
    """Give events that change ISRs the partitions that only brokers' lines name."""
    histories, requests = _read(statements, lines)
    if not requests:
        return
    unnamed = [event for event in events if event.kind == "hidden_isr"]
    places = [event.at for event in unnamed]
    announced = {
        (partition, version) for event in events if event.kind == "isr"
        for partition, (_, version) in event.fields.get("updates", {}).items()
    }
    placed: dict[tuple[Life, int], int] = {}
    for request in requests:
        changed = {
            life: version for life, version in request.versions.items()
            if (life, version) not in placed and (life[0], version) not in announced
            and _is_leaders(histories[life], version)
        }
        if not changed:
            continue
        since = max(
            placed.get((life, known), histories[life][known].number)
            for life, version in request.versions.items()
            for known in [version - 1 if life in changed else version]
        )
        until = min(request.number, *(
            mentions.number for life, version in changed.items()
            for later, mentions in histories[life].items() if later >= version
        ))
        between = range(bisect.bisect_right(places, since), bisect.bisect_right(places, until))
        n = len(request.versions)
        at = next((at for at in between if unnamed[at].fields["n"] == n
                   and unnamed[at].term.epoch in (request.controller_epoch, None)), None)
        if at is None:
            continue
        event = unnamed.pop(at)
        placed.update(dict.fromkeys(changed.items(), places.pop(at)))
        unchanged = tuple(life[0] for life in request.versions if life not in changed)
        named = {life[0]: (histories[life][version], version) for life, version in changed.items()}
        event.kind = "isr"
        event.fields = {
            "partitions": (*named, *unchanged), "unchanged": unchanged,
            "updates": {p: (tuple(sorted(mentions.content.isr)), version)
                        for p, (mentions, version) in named.items()},
            "named_by": {p: mentions.number for p, (mentions, _) in named.items()},
        }


def _read(
    statements: Sequence[Statement], lines: Sequence[int]
) -> tuple[Histories, list[Request]]:
    """Every version of a record that lines name; and the requests that brokers trace."""
    created: dict[Partition, int] = {}
    histories: Histories = {}
    requests: list[Request] = []
    current: dict[tuple[int | None, str], tuple[tuple[int, ...], Request]] = {}
    for number in lines:
        line = statements[number]
        source = line.actor_id, line.kind
        for partition, version, content in _records(line):
            if line.kind == "partition_led" and line.fields["before"] == "NewPartition":
                created[partition] = created.get(partition, 0) + 1
            life = partition, created.get(partition, 0)
            mentions = histories.setdefault(life, {}).setdefault(version, Mentions())
            mentions.votes[content] += 1
            mentions.first.setdefault(content, number)
            fields = line.fields
            key: tuple[int, ...] = (number,)
            if line.kind == "cached_partition":
                key = fields["controller"], fields["controller_epoch"], fields["correlation"]
            elif line.kind != "send_failed" or not (
                fields["request"].api.startswith("UpdateMetadata")
            ):
                continue
            if source not in current or current[source][0] != key:
                current[source] = key, Request(number, fields["controller_epoch"])
                requests.append(current[source][1])
            current[source][1].versions[life] = version
    return histories, requests


def _records(line: Statement) -> Iterator[tuple[Partition, int, Content]]:
    """Versions of records of which a line says all that counts."""
    for partition, fields in subjects(line):
        record = fields.get("record")
        if isinstance(record, Record) and record.leader >= -1 and (
            record.leader_epoch is not None and record.version is not None
        ):
            yield partition, record.version, Content(
                record.leader, record.leader_epoch, frozenset(record.isr)
            )


def _is_leaders(versions: dict[int, Mentions], version: int) -> bool:
    """Whether a leader wrote a version: it differs from the one before in the ISR alone."""
    if version - 1 not in versions:
        return False
    before, after = versions[version - 1].content, versions[version].content
    return before[:2] == after[:2]
