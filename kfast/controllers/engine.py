"""Engine: what all controllers share - a state, a journal, how an event runs and how it ends.

Source: docs/controller.md, section 6.0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kfast.journal import Journal, Outcome
from kfast.schema import Code
from kfast.state import ClusterState

__all__ = ["ControllerMoved", "Engine", "EventFailed", "ExecutionMode"]


class ExecutionMode(Enum):
    """How the steps of an event are executed; the outcome is the same."""

    STEPS = "each step on all rows before the next"
    FUSED = "all steps on one partition before the next"
    STORE = "each step on all rows, with records that a store reads and writes"


class ControllerMoved(Exception):  # noqa: N818 - Kafka's own name of it
    """The guard on the controller epoch failed: another controller has taken over."""


class EventFailed(Exception):  # noqa: N818 - a normal end of an event
    """Kafka's handler would have raised here: the event ends, what it did so far stays.

    Source: section 6.0.

    Parameters
    ----------
    error : str
        Class of Kafka's error.
    """

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


class Engine:
    """A controller without its events.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event.
    journal : Journal
        Records what happens.
    """

    def __init__(self, state: ClusterState, journal: Journal) -> None:
        self.state = state
        self.journal = journal
        self.active = True

    def attempt(self, event: str, steps: Callable[[], None]) -> Outcome:
        """Execute the steps of an event, and make its outcome; what they raise ends it.

        Source: section 6.0.
        """
        if not self.active:
            return self.refused(event, "NOT_CONTROLLER")
        try:
            steps()
        except ControllerMoved:
            return self.resigned(event)
        except EventFailed as failed:
            return self.refused(event, failed.error)
        return self.journal.finish(event)

    def resigned(self, event: str) -> Outcome:
        """Outcome of an event that found another controller in charge; this one resigns."""
        self.active = False
        outcome = self.journal.finish(event)
        outcome.failure = Code.CONTROLLER_MOVED
        return outcome

    def refused(self, event: str, error: str) -> Outcome:
        """Outcome of a request that Kafka answers with an error as a whole."""
        outcome = self.journal.finish(event)
        outcome.error = error
        return outcome
