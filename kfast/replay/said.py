"""What lines say of the whole cluster, and what is remembered to compare it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kfast.replay.cluster import Cluster
from kfast.replay.inference import World
from kfast.replay.script import TIE_MS
from kfast.replay.simulation import Ran
from kfast.replay.terms import Term


class Said(NamedTuple):
    """One value that a line says of the cluster."""

    kind: str
    subject: str
    logged: Any
    predicted: Any
    reason: str = ""


@dataclass
class Whole:
    """What checks of the whole cluster look at and remember.

    Attributes
    ----------
    cluster : Cluster
    world : World
    term : Term or None
        Of the line at hand.
    registrations : dict
        Epoch of each broker's registration, once a line has said it.
    """

    cluster: Cluster
    world: World
    epochs: dict[int, dict[int, int]]
    term: Term | None = None
    epoch_shift: int | None = None
    known_epochs: dict[int, int] = field(default_factory=dict)
    taken: set[tuple[Any, ...]] = field(default_factory=set)
    sessions: dict[int, tuple[int, Any]] = field(default_factory=dict)

    def window(self, time: int) -> Iterator[Ran]:
        """Events of the line's term that a line of some time may be about, the latest first."""
        for ran in reversed(self.world.simulation.ran):
            if ran.event.term is not self.term or ran.event.time > time + TIE_MS:
                continue
            yield ran
            if ran.sendings and time - ran.event.time > TIE_MS:
                return


def same(kind: str, subject: str, logged: Any, predicted: Any) -> Said:
    """A value that is predicted, or not at all."""
    return Said(kind, subject, logged, predicted)
