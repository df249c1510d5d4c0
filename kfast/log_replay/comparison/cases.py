"""What a comparison may look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import Check
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.wording.forms import Statement


class View(NamedTuple):
    """What a comparison may look at."""

    simulation: Simulation
    brokers: BrokerSide
    term: int


class Case(NamedTuple):
    """A line, what it says of a partition, and a row of that partition."""

    view: View
    line: Statement
    fields: dict[str, Any]
    row: int


Compare = Callable[[Case], list[Check]]
