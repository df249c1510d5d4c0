"""Events of a sharded cluster, what they may be given, and what every task must know."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import broker_ids
from kfast.controllers import Controller, SharedGroups
from kfast.controllers.zk.reassignment import Reassignments, as_table
from kfast.controllers.zk.topic_changes import as_table as new_partitions
from kfast.errors import ArgumentError
from kfast.io import gather
from kfast.io.flat_reader import open_pages
from kfast.journal import Outcome
from kfast.spark.dataset import Dataset
from kfast.state import ClusterState
from kfast.state.flat import Arena, is_flat
from kfast.state.loading_flat import load as load_flat
from kfast.state.loading_flat import load_rows

__all__ = ["EVENTS", "EventCall", "Run", "parse_events"]

REBALANCE, ELECT, REASSIGN = "rebalance_leaders", "elect_leaders", "reassign_partitions"
DELETE, UNCLEAN = "delete_topics", "enable_unclean_leader_election"
CREATE, EXTEND, ALTER = (
    "on_topic_change", "on_partition_modifications", "alter_partition_reassignments"
)
EVENTS = {
    "on_controller_failover": (None,),
    "on_broker_failure": (list,),
    "on_broker_startup": (list, dict),
    "controlled_shutdown": (int,),
    UNCLEAN: (None, list),
    REBALANCE: (None, int, float),
    "catch_up": (list,),
    ELECT: (None, dict),
    DELETE: (list,),
    "acknowledge_deletions": (None, list),
    ALTER: (dict, pa.Table),
    REASSIGN: (dict, pa.Table),
    CREATE: (dict, pa.Table),
    EXTEND: (dict,),
}
"""Events of a sharded cluster: methods of `Controller`, and what their argument may be."""

ELECTION = ("type", "trigger", "partitions")
"""What an election may be given, by name."""

FLAT, LISTS = "parquet-flat", "parquet"
"""Forms of the new state: plain integers, or lists; both Parquet."""


@dataclass(frozen=True)
class EventCall:
    """One event: a method of `Controller`, its argument, and what the whole cluster must tell."""

    name: str
    argument: Any = None
    counts: pa.Table | None = None
    without_leadership: int | None = None
    reassigned: int | None = None
    resumed: frozenset[str] = frozenset()
    groups: Mapping[str, frozenset[int]] = field(default_factory=dict)

    def happen(self, controller: Controller) -> Outcome:
        """Let it happen."""
        controller.resumed_elsewhere = self.resumed
        controller.replica_state_machine.shared_groups = SharedGroups(self.groups, {})
        if self.name == ELECT:
            asked = self.argument or {}
            return controller.elect_leaders(**asked, without_leadership=self.without_leadership)
        if self.name == REASSIGN:
            return controller.reassign_partitions(self.argument, reassigned=self.reassigned)
        if self.name == EXTEND:
            for topic, assignments in self.argument.items():
                return controller.on_partition_modifications(topic, assignments)
            return controller.attempt(EXTEND, None)
        method = getattr(controller, self.name)
        arguments = () if self.argument is None else (self.argument,)
        if self.counts is not None:
            whole = {"counts": self.counts, "reassigned": self.reassigned}
            outcome: Outcome = method(*arguments, **whole)
        else:
            outcome = method(*arguments)
        return outcome


@dataclass(frozen=True)
class Run:
    """All that a task must know."""

    dataset: Dataset
    events: tuple[EventCall, ...]
    journal: str
    profile: str
    folder: str
    form: str = FLAT
    turn: str = ""

    @property
    def unclean_before(self) -> int:
        """The cluster's counter of unclean elections, which every shard begins with."""
        began = self.dataset.cluster
        if began is None or "unclean_elections" not in began.column_names:
            return 0
        return began["unclean_elections"][0].as_py() or 0

    def controller(self, number: int, room: Arena) -> Controller:
        """Read a shard: its rows, with the brokers and settings of the whole cluster.

        A flat one lies in `room`, and is overwritten by the next.
        """
        state = self._read_pages(self.dataset.files[number], room)
        if state is None:
            tables = gather(self.dataset.files[number])
            common = self.dataset.brokers, tables.topics, tables.partitions, self.dataset.cluster
            if is_flat(tables.partitions):
                state = load_flat(*common, source=tables.source, room=room)
            else:
                state = ClusterState.from_tables(*common, source=tables.source)
        state.scan_hosting()
        return Controller(state, journal=self.journal, profile=self.profile)

    def _read_pages(self, file: str, room: Arena) -> ClusterState | None:
        """A shard as kfast writes it; None for any other."""
        opened = open_pages(file, room)
        if opened is None:
            return None
        (tables, rows), common = opened, self.dataset
        return load_rows(
            common.brokers, tables.topics, rows, common.cluster, file, (), None, room
        )


def parse_events(events: Iterable[str | tuple[str, Any]]) -> tuple[EventCall, ...]:
    """Check the names and arguments of events.

    Raises
    ------
    ArgumentError
        An event is unknown, or has an argument of another kind.
    """
    parsed = []
    for item in events:
        if isinstance(item, tuple) and len(item) != 2:
            raise ArgumentError(
                f"event {item!r} has {len(item)} parts; right is a name, or a name and its "
                "argument; configs of created topics are not taken"
            )
        name, argument = item if isinstance(item, tuple) else (item, None)
        if name not in EVENTS:
            raise ArgumentError(
                f"event {name!r} is not one of a sharded cluster; allowed: {', '.join(EVENTS)}"
            )
        if isinstance(argument, (range, tuple, set, np.ndarray)):
            argument = list(argument)
        kinds = EVENTS[name]
        if not any(argument is None if kind is None else isinstance(argument, kind)
                   for kind in kinds):
            shown = " or ".join("nothing" if kind is None else kind.__name__ for kind in kinds)
            raise ArgumentError(f"event {name} takes {shown}; found {argument!r}")
        parsed.append(EventCall(name, _PARSED.get(name, _plainly)(argument)))
    return tuple(parsed)


def _plainly(argument: Any) -> Any:
    return broker_ids("brokers", argument).tolist() if isinstance(argument, list) else argument


def _names(topics: list[Any] | None) -> list[Any] | None:
    strange = [name for name in topics or () if not isinstance(name, str)]
    if strange:
        raise ArgumentError(f"topics are named by text; found {strange[0]!r}")
    return topics


def _election(argument: dict[str, Any] | None) -> dict[str, Any]:
    asked = dict(argument or {})
    if not set(asked) <= set(ELECTION):
        allowed = ", ".join(ELECTION)
        raise ArgumentError(f"event {ELECT} takes a dict of {allowed}; found {argument!r}")
    if asked.get("partitions") is not None:
        try:
            asked["partitions"] = [(str(t), index(p)) for t, p in asked["partitions"]]
        except (TypeError, ValueError) as error:
            raise ArgumentError(
                f"event {ELECT} takes partitions as pairs (topic, partition): {error}"
            ) from error
    return asked


def _plan(argument: Reassignments) -> pa.Table:
    plan = as_table(argument)
    times = plan.group_by(["topic", "partition"]).aggregate([([], "count_all")])
    twice = times.filter(pc.greater(times["count_all"], 1)).to_pylist()
    if twice:
        name = f"{twice[0]['topic']}-{twice[0]['partition']}"
        raise ArgumentError(f"partition {name} is listed twice; nothing was changed")
    return plan


def _extension(argument: dict[str, Any]) -> dict[str, Any]:
    if len(argument) != 1:
        raise ArgumentError(
            f"event {EXTEND} takes one topic and its new partitions; found {len(argument)} topics"
        )
    return argument


_PARSED: Mapping[str, Callable[[Any], Any]] = {
    DELETE: _names, UNCLEAN: _names, ELECT: _election, ALTER: _plan, REASSIGN: _plan,
    CREATE: new_partitions, EXTEND: _extension,
}
