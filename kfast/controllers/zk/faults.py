"""What a store answers, and faults that it can be told to have.

Source: docs/controller.md, section 1.7; Kafka 3.9, `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from kfast.controllers.engine import ControllerMoved
from kfast.errors import ArgumentError
from kfast.state.records import Rows

OPERATIONS = (
    "read_states", "create_states", "update_states", "write_assignments", "topic_config",
)


class CallFailed(Exception):  # noqa: N818 - it is caught where the rules say what follows
    """A call to the store failed as a whole."""


class Answer(IntEnum):
    """What the store says of one partition."""

    OK = 0
    UNDECODABLE = 1
    NO_NODE = 2
    ERROR = 3
    NODE_EXISTS = 4
    CONFLICT = 5


_ANSWERS = {"NONODE": Answer.NO_NODE, "NODEEXISTS": Answer.NODE_EXISTS,
            "BADVERSION": Answer.CONFLICT, "UNDECODABLE": Answer.UNDECODABLE}


@dataclass
class _Fault:
    operation: str
    fault: str
    rows: frozenset[int] | None
    times: int


class Faults:
    """Faults that the next calls of a store's operations meet."""

    def __init__(self) -> None:
        self._waiting: list[_Fault] = []

    def add(self, operation: str, fault: str, rows: Iterable[int] | None, times: int) -> None:
        """Wait for calls that contain one of some rows, each by itself, or any row."""
        for row in [None] if rows is None else list(rows):
            only = None if row is None else frozenset({row})
            self._waiting.append(_Fault(operation, fault, only, times))

    def clear(self) -> None:
        """Forget what is not used up."""
        self._waiting.clear()

    def inject(
        self, operation: str, rows: Rows, answers: npt.NDArray[np.uint8], guarded: bool = True
    ) -> None:
        """Use up the faults that a call meets: change its answers, or raise.

        A call that is not guarded by the controller epoch does not meet `controller_moved`.
        """
        present = {row: at for at, row in enumerate(rows.tolist())}
        raised: Exception | None = None
        for fault in [f for f in self._waiting if f.operation == operation]:
            hit = list(present) if fault.rows is None else [r for r in fault.rows if r in present]
            if not hit or (fault.fault == "controller_moved" and not guarded):
                continue
            fault.times -= 1
            if fault.fault == "throw":
                raised = CallFailed(f"{operation} failed")
            elif fault.fault == "controller_moved":
                raised = ControllerMoved("the controller epoch guard failed")
            else:
                answers[[present[row] for row in hit]] = _ANSWERS.get(fault.fault, Answer.ERROR)
        self._waiting = [f for f in self._waiting if f.times > 0]
        if raised is not None:
            raise raised


def check_operation(operation: str) -> None:
    """Raise `ArgumentError` where a store has no such operation."""
    if operation not in OPERATIONS:
        raise ArgumentError(
            f"operation {operation!r} is unknown; allowed: {', '.join(OPERATIONS)}"
        )
