"""Events that mean the same to every controller; the questions of `analysis` are made of them.

Each controller makes them of its own events, in its module `common_events`; `open_events` gives
those of the controller that runs a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal import Outcome
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows, Slots

__all__ = ["CommonEvents", "EventOutcome", "record"]


@dataclass(frozen=True)
class EventOutcome:
    """One event of a controller: its outcome, and who was up when it had been handled."""

    outcome: Outcome | QuorumOutcome
    up: npt.NDArray[np.bool_]
    shutting_down: npt.NDArray[np.bool_]

    def _summary(self) -> Summary:
        return f"EventOutcome {self.outcome.event}", {
            "brokers up": int(self.up.sum()),
            "brokers shutting down": int(self.shutting_down.sum()),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def record(state: ClusterState, outcome: Outcome | QuorumOutcome) -> EventOutcome:
    """Note who is up now, beside the outcome of an event that has just been handled."""
    return EventOutcome(outcome, state.up, state.shutting_down)


class CommonEvents(Protocol):
    """A controller as the questions use it. Each method returns what it did, event by event."""

    @property
    def state(self) -> ClusterState:
        """The cluster as it is now; every event changes it in place."""

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""

    @property
    def order_matters(self) -> int:
        """Partitions whose leader or replica lists depended on who of a group failed first."""

    def start(self) -> list[EventOutcome]:
        """A controller takes over."""

    def brokers_failed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers that were up vanished, all at once and without a word."""

    def brokers_shut_down_in_order(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers that were up asked for their controlled shutdown and left, one after another."""

    def shutdowns_requested(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another asked for its controlled shutdown; it has not left yet.

        A broker that the controller lets go at once has left.
        """

    def shutdowns_completed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers that had asked for their controlled shutdown left, those that have not yet."""

    def stopped_cleanly(self, broker_id: int) -> bool:
        """Whether a broker that is down had stopped in order, where the controller asks that."""

    def brokers_returned(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers that were down started again."""

    def caught_up(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers caught up with every leader, and the leaders reported it."""

    def request_plan(self, plan: pa.Table) -> tuple[list[EventOutcome], list[str | None]]:
        """An administrator's plan, a checked table of reassignments, reached the controller.

        Returns also Kafka's error for each row of the plan, None where it was accepted.
        """

    def plan_caught_up(self) -> list[EventOutcome]:
        """Live targets of what is being reassigned caught up, and the leaders reported it."""

    def preferred_leaders_elected(
        self, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[EventOutcome]:
        """An administrator asked for the preferred leaders of some partitions, or of all."""

    def awaited_slots(self, rows: Rows) -> Slots:
        """Slots that have to be in sync before the reassignment of each row is complete."""

    def delete_topics(self, topics: Sequence[str]) -> list[EventOutcome]:
        """Topics are to be deleted."""

    def deletions_acknowledged(self) -> list[EventOutcome]:
        """Brokers reported what they had deleted, where the controller waits for that."""
