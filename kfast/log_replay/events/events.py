"""Events of a controller, and the lines that announce them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kfast.log_replay.events.batches import Batch
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, Partition, distinct
from kfast.schema import ReplicaState

CLAIM_MS = 60_000
"""Batches that begin later than this after the last of an event belong to another one."""

COVERED_MS = 5_000
"""For so long after an event that controller.log announces, that file is taken to have no hole."""

TIE_MS = 2
"""Lines of the two files this close together may stand in either order."""


MOVES = frozenset({"caught_up", "reassign"})
"""Events that may take several live replicas of a partition out at once."""

DELETES = frozenset({"delete", "deleted"})
"""Events that take out all replicas of a topic, also live ones."""

TAKES_OUT = frozenset({"failover", "brokers"}) | DELETES
"""Events that may take several replicas of a partition out at once."""

BEING_DELETED = frozenset({ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL})
"""States of replicas whose topic's deletion has started."""

POINTS = frozenset({"failover", "resume"})
"""Events that a stretch begins with: a controller is elected, or its log goes on."""

RESTART_MS = 500
"""A deletion is announced within this time of the line that says it starts."""


@dataclass
class LogEvent:
    """One event of a controller.

    Attributes
    ----------
    kind : str
        `failover`, `resume`, `brokers`, `shutdown`, `topics`, `partitions`, `isr`, `rebalance`,
        `election`, `reassign`, `caught_up`, `delete`, `deleted`, `dir_failure`, `dir_answer`,
        `unclean`, `modified`, `hidden_isr` or `isr_written`.
    time : int
    at : int
        Number of the statement before which it happens.
    fields : dict
        Its arguments.
    term : Term
    inferred : bool
        No line announces it.
    batches : list of Batch
        What state-change.log shows of it.
    number : float
        Place among all events of the cluster.
    """

    kind: str
    time: int
    at: int
    fields: dict[str, Any]
    term: Term
    inferred: bool = False
    batches: list[Batch] = field(default_factory=list)
    number: float = 0

    @property
    def end(self) -> int:
        """Time of the last line that state-change.log shows of it, else its own."""
        return self.batches[-1].end if self.batches else self.time

    @property
    def gone(self) -> frozenset[int]:
        """Brokers that a change of brokers takes away, some for a moment only."""
        if self.kind != "brokers":
            return frozenset()
        return frozenset((*self.fields["deleted"], *self.fields["bounced"]))


def _created(line: Statement) -> dict[Partition, Assigned]:
    """New partitions and their assignments."""
    return {
        partition: assigned._replace(replicas=distinct(assigned.replicas))
        for partition, assigned in line.fields["assignments"].items()
    }


BALANCE_MS = 2000
"""How long the elections of one check for unbalanced leaders may take."""

MARKS: dict[str, Callable[[Statement], tuple[str, dict[str, Any]] | None]] = {
    "broker_change": lambda s: ("brokers", {
        "added": s.fields["added"], "deleted": s.fields["deleted"],
        "bounced": s.fields.get("bounced", ()),
    }),
    "shutdown": lambda s: ("shutdown", {"broker": s.fields["broker"]}),
    "new_topics": lambda s: None if not (s.fields["topics"] or s.fields["deleted"]) else (
        "topics", {
            "created": _created(s), "deleted": s.fields["deleted"],
            "names": s.fields["topics"],
        },
    ),
    "partitions_added": lambda s: ("partitions", {"created": _created(s)}),
    "isr_updating": lambda s: ("isr", {"partitions": s.fields["partitions"]}),
    "isr_notified": lambda s: ("isr", {"partitions": s.fields["partitions"], "notified": True}),
    "rebalance": lambda _: ("rebalance", {}),
    "rebalance_check": lambda _: ("rebalance", {}),
    "election": lambda s: None if not s.fields["partitions"] else ("election", {
        "type": s.fields["type"], "partitions": s.fields["partitions"],
        "trigger": s.fields["trigger"],
    }),
    "caught_up": lambda s: ("caught_up", {
        "partition": s.fields["partition"],
        "replicas": distinct(s.fields.get("replicas", ())),
    }),
    "delete_topics": lambda s: ("delete", {"topics": s.fields["topics"]}),
    "stop_response": lambda s: ("deleted", {
        "broker": s.fields["broker"],
        "failures": {
            (*partition, s.fields["broker"]): s.fields["error"] != "NONE" or error != "NONE"
            for partition, error in s.fields["errors"].items()
        },
    }),
    "log_dir_failure": lambda s: None if not s.fields["brokers"] else (
        "dir_failure", {"brokers": s.fields["brokers"]}
    ),
    "replicas_offline": lambda s: ("dir_answer", {
        "broker": s.fields["broker"], "partitions": s.fields["partitions"],
    }),
    "unclean_enabled": lambda _: ("unclean", {"topics": None}),
    "unclean_enabled_topic": lambda s: ("unclean", {"topics": [s.fields["topic"]]}),
    "broker_modified": lambda _: ("modified", {}),
}
"""Lines that announce an event, and what event."""


def first_registered(
    statements: Sequence[Statement], numbers: Sequence[int]
) -> dict[int, int] | None:
    """Brokers registered where lines of a term begin, with their epochs; None if none tells.

    Of a change of brokers that is under way only some may be told, until it lists them all.
    """
    lines = [statements[number] for number in numbers]
    epochs: dict[int, int] = {}
    has_changed = False
    for line in lines:
        has_changed |= line.kind == "broker_change"
        if line.kind == "broker_epochs":
            epochs = line.fields["epochs"] | epochs
            if not has_changed:
                return dict(line.fields["epochs"])
    shutting: tuple[int, ...] = ()
    for line in lines:
        fields = line.fields
        if line.kind == "all_shutting":
            shutting = fields["brokers"]
        if line.kind == "broker_change":
            live = (set(fields["live"]) - set(fields["added"])) | set(fields["deleted"])
        elif line.kind == "active_brokers" or (
            line.kind.startswith("sent_update_metadata") and fields.get("brokers")
        ):
            live = set(fields["brokers"])
        elif line.kind == "live_brokers":
            live = {*fields["brokers"], *shutting}
        else:
            continue
        return {broker: epochs.get(broker, 0) for broker in sorted(live)}
    return None


def is_hole(point: LogEvent) -> bool:
    """Whether lines are missing before a failover, or where the log goes on."""
    return bool(point.fields.get("hole")) or point.kind == "resume" or not point.term.follows
