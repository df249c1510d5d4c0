"""What a controller goes on with where its log begins, or goes on after a hole.

Its first transition of a replica names the state before, the last one of an event that is under way
the state after it, and a failover that is under way may still list them all; what it does with
topics tells which are being deleted by then.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from kfast.log_replay.events.events import BEING_DELETED, POINTS, LogEvent, is_hole
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition, distinct
from kfast.schema import LEADER_DURING_DELETE, REPLICA_STATE_NAMES, ReplicaState

MOVED = frozenset({"replica_moved", "replica_failed"})
"""Lines that name the state of a replica, and the one that it gets, or is refused."""

INELIGIBLE = REPLICA_STATE_NAMES[ReplicaState.DELETION_INELIGIBLE]
"""The state in which a replica waits until its topic may be deleted."""


def note_states(statements: Sequence[Statement], events: Sequence[LogEvent]) -> None:
    """Give events what their controller goes on with: those of kind `resume`, and failovers.

    `states` has the replicas that are not online where their broker is registered, or not offline
    elsewhere: the state of each, and the line that names it, by partition and broker, where lines
    tell who is registered; `queued` has the topics that are being deleted. A new controller finds
    neither, but reassignments: `moving` has their targets, where nothing but their end is logged.
    `listed` has the topics that are there where the log goes on: what no line names, and the next
    controller does not list, was deleted before.
    """
    ends = [event.at for event in events[1:]] + [len(statements)] * 2
    points = [(event, ends[at], ends[at + 1]) for at, event in enumerate(events)
              if event.kind in POINTS]
    lasts = [point.at for point, _, _ in points[1:]] + [len(statements)]
    for (point, end, second), last in zip(points, lasts, strict=True):
        numbers = [number for number in point.term.statements if point.at <= number < last]
        point.fields["moving"] = dict(_moving(statements, numbers))
        if point.kind == "resume":
            _note(statements, numbers, point, end, second)
    for (point, _, _), (after, _, _) in itertools.pairwise(points):
        if point.kind == "resume" and "listed" in after.fields and not is_hole(after):
            point.fields["listed"] = _named(statements[point.at : after.at]).union(
                after.fields["listed"]
            )


def _named(statements: Sequence[Statement]) -> set[str]:
    """Topics that lines name."""
    named: set[str] = set()
    for line in statements:
        named.update(topic for (topic, _), _ in subjects(line))
        named.update(line.fields.get("topics", ()))
        named.update({line.fields["topic"]} if "topic" in line.fields else ())
    return named


def _moving(
    statements: Sequence[Statement], numbers: Sequence[int]
) -> Iterator[tuple[Partition, tuple[int, ...]]]:
    """Targets of reassignments that end without having begun; from 2.4 on, records name them."""
    begun: set[Partition] = set()
    ending: set[Partition] = set()
    for number in numbers:
        fields, kind = statements[number].fields, statements[number].kind
        if kind == "reassign":
            begun.add(fields["partition"])
        elif kind == "caught_up" and "replicas" not in fields:
            ending.update({fields["partition"]} - begun)
        elif kind == "reassign_leader" and fields["partition"] in ending:
            ending.discard(fields["partition"])
            begun.add(fields["partition"])
            yield fields["partition"], distinct(fields["replicas"])


def _note(
    statements: Sequence[Statement], numbers: Sequence[int], point: LogEvent, end: int,
    second: int,
) -> None:
    """Note what lines tell of states and topics.

    `end` is where the next event begins, `second` the one after it.
    """
    registered = point.fields["registered"]
    first: dict[tuple[Partition, int], tuple[ReplicaState, int]] = {}
    known: set[str] = set()
    created: set[str] = set()
    queued: set[str] = set()
    for number in numbers:
        fields, kind = statements[number].fields, statements[number].kind
        if kind in ("delete_topics", "new_topics"):
            known.update(fields["topics"])
            created.update(fields["topics"] if kind == "new_topics" else ())
        elif kind == "deletion_handled":
            queued.update(set(fields["topics"]) - known)
        elif kind == "replica_states" and number < end:
            for (topic, index, replica), name in fields["states"].items():
                if name in REPLICA_STATE_NAMES:
                    state = ReplicaState(REPLICA_STATE_NAMES.index(name))
                    first.setdefault(((topic, index), replica), (state, number))
        elif kind in MOVED and fields["partition"][0] not in created:
            key, is_under_way = (fields["partition"], fields["replica"]), number < end
            name = fields["after" if is_under_way and kind == "replica_moved" else "before"]
            if fields["partition"][0] in known and (name != INELIGIBLE or number >= second):
                continue  # What is before it has happened since.
            if name in REPLICA_STATE_NAMES and (is_under_way or key not in first):
                first[key] = ReplicaState(REPLICA_STATE_NAMES.index(name)), number
                queued.update({key[0][0]} if first[key][0] in BEING_DELETED else ())
        elif kind == "sent_update_metadata_partition":
            queued.update(
                topic for (topic, _), said in subjects(statements[number])
                if said["record"].leader == LEADER_DURING_DELETE and topic not in known
            )
    point.fields["queued"] = frozenset(queued)
    point.fields["states"] = {} if registered is None else {
        key: (state, number) for key, (state, number) in first.items()
        if state != (ReplicaState.ONLINE if key[1] in registered else ReplicaState.OFFLINE)
        and state != ReplicaState.NON_EXISTENT
    }


def lines_with_states(events: Sequence[LogEvent]) -> Iterator[tuple[LogEvent, Partition, int]]:
    """Where the log goes on, partitions with states from a later line, and that line."""
    for event in events:
        for (partition, _), (_, number) in event.fields.get("states", {}).items():
            yield event, partition, number
