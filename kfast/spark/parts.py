"""The part of an event that concerns a shard, where the event names topics; and the whole again.

Each shard takes what speaks of its own topics. What no shard knows is answered as a machine answers
that has no topics at all; a new topic goes to the shard that its name says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.controllers import Controller, Profile
from kfast.controllers.zk import topic_changes
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.schema import SHARDED_REASSIGNMENTS, SHARDED_REPLIES, ReassignmentCode
from kfast.spark.dataset import digest_names
from kfast.spark.shards import ALTER, CREATE, DELETE, ELECT, EXTEND, REASSIGN, UNCLEAN, EventCall
from kfast.state import ClusterState

__all__ = [
    "CHECKED", "Part", "Rehearsal", "check_names", "join_parts", "part_of", "rehearse", "said_of",
    "shard_of",
]

CHECKED = (CREATE, EXTEND, UNCLEAN)
"""Events that are refused where a topic that they name exists, or does not."""

Numbers = list[int]


class Part(msgspec.Struct, frozen=True):
    """What a shard says to its part of an event that names topics.

    Attributes
    ----------
    event, shard : int
    known : list of int
        Places, in what is asked, of what the shard knows.
    codes : list of int
        Of a reassignment: `schema.ReassignmentCode` for each of them.
    replies : list of dict
        Of an election: rows of `schema.SHARDED_REPLIES`.
    """

    event: int
    shard: int
    known: Numbers
    codes: Numbers
    replies: list[dict[str, Any]]


class Rehearsal(msgspec.Struct, frozen=True):
    """What a machine without any topic says to the events, and the brokers afterwards."""

    state: ClusterState
    outcomes: list[Outcome | None]


# --- before ------------------------------------------------------------------------------------


def rehearse(state: ClusterState, events: Iterable[EventCall], profile: Profile) -> Rehearsal:
    """Let the events happen to the brokers alone: the controller then checks the arguments.

    Raises
    ------
    ArgumentError
        An event cannot be, for these brokers.
    """
    controller = Controller(state, journal="off", profile=profile)
    outcomes: list[Outcome | None] = []
    for event in events:
        named = event.argument
        if event.name in (CREATE, EXTEND):
            new = topic_changes.as_table(named)
            topic_changes.check_created(state, new, exists=False)
            state.find_brokers(_broker_ids(new))
            outcomes.append(None)
            continue
        if event.name == REASSIGN or (event.name == ALTER and not profile.checks_added_replicas):
            state.find_brokers(_broker_ids(named))
        if event.name == UNCLEAN and named is not None:
            event = replace(event, argument=[])
        outcomes.append(event.happen(controller))
    return Rehearsal(state, outcomes)


def _broker_ids(plan: pa.Table) -> Numbers:
    ids: Numbers = pc.unique(plan["replicas"].combine_chunks().flatten()).to_pylist()
    return ids


def check_names(event: EventCall, known: set[int]) -> None:
    """Refuse what one machine refuses; known are places of what some shard knows (`part_of`).

    Raises
    ------
    ArgumentError
        A topic that is to be created exists; one that is to get partitions, or unclean elections,
        does not.
    """
    names = (
        pc.unique(event.argument["topic"]).to_pylist() if event.name == CREATE
        else list(event.argument)
    )
    for place, name in enumerate(names):
        if event.name == CREATE and place in known:
            raise ArgumentError(f"event {event.name}: topic {name!r} exists already")
        if event.name != CREATE and place not in known:
            raise ArgumentError(f"event {event.name}: topic {name!r} is unknown")


# --- in a shard --------------------------------------------------------------------------------


def shard_of(topics: Sequence[str], shards: int) -> Numbers:
    """Number of the shard that takes each of some new topics: by its name alone."""
    numbers: Numbers = (digest_names(pa.array(topics, pa.string())) % np.uint64(shards)).tolist()
    return numbers


def part_of(
    event: EventCall, state: ClusterState, shard: int, shards: int
) -> tuple[EventCall, Numbers]:
    """The part of an event that concerns a shard, and the places of what it knows of.

    An event that names no topic concerns every shard as it is.
    """
    if event.name not in NAMING or event.argument is None:
        return event, []
    if event.name == CREATE:
        argument, known = _take_new(event.argument, state, shard, shards)
    else:
        argument, known = _TAKEN[event.name](event.argument, state)
    return replace(event, argument=argument), known


def _take_topics(
    names: list[str], state: ClusterState
) -> tuple[list[str], Numbers]:
    known = np.flatnonzero(_exist(state, names)).tolist()
    return [names[at] for at in known], known


def _take_partitions(
    asked: dict[str, Any], state: ClusterState
) -> tuple[dict[str, Any], Numbers]:
    pairs = asked.get("partitions")
    if pairs is None:
        return asked, []
    names = pa.array([topic for topic, _ in pairs], pa.string())
    known = _rows(state, names, [partition for _, partition in pairs])
    return {**asked, "partitions": [pairs[at] for at in known]}, known


def _take_plan(
    plan: pa.Table, state: ClusterState
) -> tuple[pa.Table, Numbers]:
    known = _rows(state, plan["topic"].combine_chunks(), plan["partition"].to_numpy())
    return plan.take(pa.array(known, pa.int64())), known


def _take_new(
    new: pa.Table, state: ClusterState, shard: int, shards: int
) -> tuple[pa.Table, Numbers]:
    """New topics of this shard; known are those that exist, which nobody may create."""
    names = pc.unique(new["topic"])
    exist = _exist(state, names.to_pylist())
    mine = ~exist & (np.asarray(shard_of(names.to_pylist(), shards), np.int64) == shard)
    chosen = pc.is_in(new["topic"], names.filter(pa.array(mine)))
    return new.filter(chosen), np.flatnonzero(exist).tolist()


def _take_more(
    new: dict[str, Any], state: ClusterState
) -> tuple[dict[str, Any], Numbers]:
    known = np.flatnonzero(_exist(state, [*new])).tolist()
    return (new if known else {}), known


_TAKEN: Mapping[str, Callable[[Any, ClusterState], tuple[Any, Numbers]]] = {
    DELETE: _take_topics, UNCLEAN: _take_topics, ELECT: _take_partitions, ALTER: _take_plan,
    REASSIGN: _take_plan, EXTEND: _take_more,
}
NAMING = (CREATE, *_TAKEN)


def _exist(state: ClusterState, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    rows = state.lookup.topics(names)
    found = rows >= 0
    found[found] = state.topic_exists[rows[found]]
    return found


def _rows(state: ClusterState, names: pa.StringArray, numbers: Any) -> Numbers:
    """Places of the partitions that a shard has."""
    named = names.dictionary_encode()
    topic_rows = state.lookup.topics(named.dictionary.to_pylist())[named.indices.to_numpy()]
    rows = state.lookup.rows(topic_rows, np.asarray(numbers, np.int64))
    found: Numbers = np.flatnonzero(rows >= 0).tolist()
    return found


def said_of(at: int, shard: int, event: EventCall, known: Numbers, outcome: Outcome) -> list[Part]:
    """What a shard says to its part of an event; nothing where no topic is named."""
    names = event.name in NAMING and event.argument is not None
    if not names or (event.name == ELECT and event.argument.get("partitions") is None):
        return []
    replies = SHARDED_REPLIES.schema.empty_table()
    if outcome.replies is not None:
        replies = outcome.replies.select(replies.column_names)
    codes = outcome.reassignment_codes.tolist()
    return [Part(at, shard, known, codes, replies.to_pylist())]


# --- afterwards --------------------------------------------------------------------------------


class Whole(msgspec.Struct, frozen=True):
    """What all shards together say to an event: a table of answers, notes, codes to be counted."""

    replies: pa.Table | None = None
    notes: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()


def join_parts(
    events: Sequence[EventCall], parts: Iterable[Part], rehearsal: Rehearsal,
    errors: Sequence[str | None],
) -> list[Whole]:
    """Put together what shards say to events that name topics."""
    by_event: dict[int, list[Part]] = {}
    for part in sorted(parts, key=lambda part: part.shard):
        by_event.setdefault(part.event, []).append(part)
    found = []
    for at, event in enumerate(events):
        some, alone = by_event.get(at, []), rehearsal.outcomes[at]
        known = {place for part in some for place in part.known}
        whole = Whole()
        if alone is not None and event.name == DELETE:
            there = {f"topic {event.argument[place]!r} is unknown" for place in known}
            whole = Whole(notes=tuple(note for note in alone.notes if note not in there))
        elif errors[at] is None and alone is not None and event.name in (ALTER, REASSIGN):
            whole = _join_codes(event.argument, some, known, alone)
        elif errors[at] is None and alone is not None and alone.replies is not None and some:
            whole = _join_replies(event.argument["partitions"], some, known, alone.replies)
        found.append(whole)
    return found


def _join_codes(plan: pa.Table, parts: list[Part], known: set[int], alone: Outcome) -> Whole:
    codes = alone.reassignment_codes.copy()
    for part in parts:
        codes[part.known] = part.codes
    names = [ReassignmentCode(code).name for code in codes.tolist()]
    errors = [None if name == ReassignmentCode.STARTED.name else name for name in names]
    table = SHARDED_REASSIGNMENTS.table({
        "topic": plan["topic"], "partition": plan["partition"],
        "error": pa.array(errors, pa.string()),
    })
    return Whole(table, (), tuple(name for at, name in enumerate(names) if at not in known))


def _join_replies(
    asked: Sequence[tuple[str, int]], parts: list[Part], known: set[int], alone: pa.Table
) -> Whole:
    rows = [row for part in parts for row in part.replies]
    # Where no topic is known, every partition is unknown, in the order asked.
    places = [at for at in range(len(asked)) if at not in known]
    wanted = SHARDED_REPLIES.schema
    rest = alone.select(wanted.names).take(pa.array(places, pa.int64()))
    table = pa.concat_tables([pa.Table.from_pylist(rows, wanted), rest])
    return Whole(table, (), tuple(rest["error"].to_pylist()))
