"""A line, what it says of a partition, and a row of that partition that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import MISSING, Check
from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.wording.forms import Statement


class Case(NamedTuple):
    """A line, what it says of a partition, and a row of that partition.

    `term` is the `id` of the line's term.
    """

    simulation: Simulation
    brokers: BrokerSide
    term: int
    line: Statement
    fields: dict[str, Any]
    row: int

    @property
    def broker(self) -> int:
        """The broker that writes the line."""
        assert self.line.actor_id is not None
        return self.line.actor_id

    def take(
        self, *key: Any, logged: dict[str, Any] | None = None, by: int | None = None
    ) -> dict[str, Any] | None:
        """What the line is about; see `Simulation.take`."""
        time = self.line.entry.time
        return self.simulation.take(self.row, key, time, self.term, logged, by)

    def request(self, logged: dict[str, Any], kind: str = "leader_and_isr") -> Item | None:
        """The request that a broker's line is about."""
        return self.brokers.request(
            self.simulation, self.line, self.fields, self.row, logged, kind
        )

    def record(self) -> dict[str, Any] | None:
        """The partition's record as it is after the event; None where there is none."""
        leadership = self.simulation.state.leadership(self.row)
        return None if leadership is None else vars(leadership)

    def leader(self) -> Any:
        """The partition's leader after the event."""
        leadership = self.simulation.state.leadership(self.row)
        return MISSING if leadership is None else leadership.leader


Compare = Callable[[Case], list[Check]]
