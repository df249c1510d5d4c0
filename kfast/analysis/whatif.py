"""A controller at work on a copy of a cluster, and what it has done so far."""

from __future__ import annotations

from collections.abc import Iterable

from kfast import arguments
from kfast.analysis.impact import EventOutcome, impact
from kfast.controllers import Controller, Profile
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.state import ClusterState
from kfast.state.census import take_census

__all__ = ["Run", "brokers_are"]


class Run:
    """A controller that has started on a copy of a cluster.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Registered brokers that will fail.
    journal : {"off", "counts", "full"}
    threads : int
    profile : str or Profile

    Raises
    ------
    ArgumentError
        A broker is unknown, or not registered.
    """

    def __init__(
        self, state: ClusterState, broker_ids: Iterable[int], journal: str, threads: int,
        profile: str | Profile,
    ) -> None:
        ids = arguments.broker_ids("broker_ids", broker_ids)
        self.broker_ids = tuple(dict.fromkeys(ids.tolist()))
        rows = state.find_brokers(self.broker_ids).tolist()
        down = [b for b, r in zip(self.broker_ids, rows, strict=True) if not state.registered[r]]
        if down:
            raise ArgumentError(
                f"broker {', '.join(map(str, down))} is not registered: it is down already and "
                "cannot fail"
            )
        self.state = state.copy()
        self.controller = Controller(
            self.state, journal=journal, threads=threads, profile=profile
        )
        self.events: list[EventOutcome] = []
        as_given = take_census(self.state)
        outcome = self.record(self.controller.on_controller_failover())
        # Rows and slots of the state may mean something else later; those of this copy do not.
        self.before = take_census(self.state.copy())
        self.start = impact(as_given, self.before, [outcome])

    def record(self, outcome: Outcome) -> Outcome:
        """Keep the outcome of an event, with who was up."""
        self.events.append(EventOutcome(outcome, self.state.registered, self.state.shutting_down))
        return outcome

    def fail(self) -> None:
        """Let the brokers fail that were named, all at once."""
        if self.broker_ids:
            self.record(self.controller.on_broker_failure(self.broker_ids))


def brokers_are(broker_ids: Iterable[int], said: str) -> str:
    """Say something of one broker or of several."""
    ids = list(broker_ids)
    noun, verb = ("broker", "is") if len(ids) == 1 else ("brokers", "are")
    return f"{noun} {', '.join(map(str, ids))} {verb} {said}"
