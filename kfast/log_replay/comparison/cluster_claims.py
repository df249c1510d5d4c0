"""Values that a line says of the whole cluster, and what comparing them may look at."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.facts import BELOW_LEVEL, UNASSIGNED
from kfast.log_replay.comparison.worlds import World
from kfast.log_replay.engine.simulation import Ran
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, Partition


class Claim(NamedTuple):
    """One value that a line says of the cluster."""

    kind: str
    subject: str
    logged: Any
    predicted: Any
    reason: str = ""


@dataclass
class ClusterView:
    """What checks of the whole cluster look at and remember.

    Attributes
    ----------
    cluster : Cluster
    world : World
    epochs : dict
        Epochs of the registered brokers, by line.
    term : Term or None
        Of the line at hand.
    number : int
        Of the line at hand.
    known_epochs : dict
        Epoch of each broker's registration, once a line has said it.
    doubtful : set of int
        Brokers whose last known epoch is from before a hole: they may have registered again.
    taken : set
        Requests that lines have spoken of.
    replaced_requests : dict
        First line of a controller that had been replaced about a request, by `counted_requests`,
        and by its controller epoch.
    sessions : dict
        Request that each broker is handling.
    unlogged : frozenset of int
        Terms, by `id`, whose ISR changes no line of their controller would show.
    hidden_at : int
        Last line of such a term.
    changed_at : dict
        Line at which the ISR of a partition was changed, where no line says to what.
    stated_at : dict
        Last line that says the ISR of a partition, and agrees.
    hidden_changes : list of int
        Lines at which ISRs were changed of partitions that no line names.
    supposed_changes : dict
        Lines at which the ISR of a partition was supposed to be changed, as no line says.
    unnamed : frozenset of str
        Topics with a partition that no line names, or of which none names a replica.
    updating : dict
        Assignments that were announced and are not stored yet, by the `id` of the term.
    queued : dict
        Topics that have been queued for deletion, by the `id` of the term.
    epoch_version_lag : int or None
        By how much the controller epoch is above the version of its record.
    """

    cluster: Cluster
    world: World
    epochs: dict[int, dict[int, int]]
    term: Term | None = None
    number: int = -1
    known_epochs: dict[int, int] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    taken: set[tuple[Any, ...]] = field(default_factory=set)
    replaced_requests: dict[tuple[Any, ...], int] = field(default_factory=dict)
    sessions: dict[int | None, tuple[int, Term]] = field(default_factory=dict)
    unlogged: frozenset[int] = frozenset()
    hidden_at: int = -1
    changed_at: dict[Partition, int] = field(default_factory=dict)
    stated_at: dict[Partition, int] = field(default_factory=dict)
    hidden_changes: list[int] = field(default_factory=list)
    supposed_changes: dict[Partition, list[int]] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    updating: dict[tuple[int, Partition], Assigned] = field(default_factory=dict)
    queued: dict[int, frozenset[str]] = field(default_factory=dict)
    epoch_version_lag: int | None = None

    def move_to(self, number: int) -> None:
        """Go on to a line."""
        self.term, self.number = self.cluster.term_of.get(number), number
        if id(self.term) in self.unlogged:
            self.hidden_at = number

    def is_unassigned(self, partition: Partition) -> bool:
        """Whether no line names the replicas of a partition in their order."""
        simulation = self.world.simulation
        return not all(
            self.cluster.is_assigned(partition, simulation.possibility[row].creation)
            for row in simulation.rows.get(partition, ())
        )

    def why_unknown(self, partitions: Iterable[Partition]) -> str:
        """Why who leads some partitions is not known; empty where it is known of one of them."""
        reason = ""
        for partition in partitions:
            if self.stated_at.get(partition, -1) < max(
                self.hidden_at, self.changed_at.get(partition, -1)
            ):
                reason = BELOW_LEVEL
            elif self.is_unassigned(partition):
                reason = reason or UNASSIGNED
            else:
                return ""
        return reason

    def n_hidden(self, partition: Partition) -> tuple[int, int]:
        """How many such changes may be of a partition since a line has said its ISR, or are so.

        The second are those that are supposed to be.
        """
        since = self.stated_at.get(partition, -1)
        supposed = self.supposed_changes.get(partition, [])
        hidden, own = (len(changes) - bisect.bisect_right(changes, since)
                       for changes in (self.hidden_changes, supposed))
        return hidden, own

    def count(self, kind: str, subject: str, logged: Any, predicted: Any) -> Claim:
        """Claim what is only known where the assignment of all partitions is, such as a count.

        Elsewhere nothing tells either that there is no such count.
        """
        if predicted is not None and logged != predicted and (
            self.unnamed or any(map(self.is_unassigned, self.world.simulation.rows))
        ):
            predicted = None if predicted is MISSING else predicted
            return Claim(kind, subject, logged, predicted, UNASSIGNED)
        return Claim(kind, subject, logged, predicted)

    def window(self, line: Statement) -> Iterator[Ran]:
        """Events of the term that a line may be about, the latest first."""
        return self.world.simulation.window(line.entry.time, id(self.term))

    def latest(self, line: Statement, *kinds: str) -> Ran | None:
        """The latest of these events, of some kinds if any are named."""
        events = self.window(line)
        return next((ran for ran in events if not kinds or ran.event.kind in kinds), None)


CompareCluster = Callable[[ClusterView, Statement], Iterator[Claim]]
