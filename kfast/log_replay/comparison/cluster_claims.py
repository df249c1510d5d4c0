"""Values that a line says of the whole cluster, and what comparing them may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kfast.log_replay.comparison.worlds import World
from kfast.log_replay.engine.simulation import Ran
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement


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
    sessions : dict
        Request that each broker is handling.
    unlogged : frozenset of int
        Terms, by `id`, whose ISR changes no line of their controller would show.
    """

    cluster: Cluster
    world: World
    epochs: dict[int, dict[int, int]]
    term: Term | None = None
    number: int = -1
    known_epochs: dict[int, int] = field(default_factory=dict)
    doubtful: set[int] = field(default_factory=set)
    taken: set[tuple[Any, ...]] = field(default_factory=set)
    sessions: dict[int, tuple[int, Any]] = field(default_factory=dict)
    unlogged: frozenset[int] = frozenset()

    def window(self, time: int) -> Iterator[Ran]:
        """Events of the line's term that a line of some time may be about, the latest first."""
        return self.world.simulation.window(time, id(self.term))


CompareCluster = Callable[[ClusterView, Statement], Iterator[Claim]]
