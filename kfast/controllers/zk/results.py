"""Result: what one call of a state machine gave, as Kafka's result map has it.

Source: docs/controller.md, sections 2.3, 3.3 and 3.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.schema import Code, PartitionState, Strategy

_IN_RESULT = np.array([
    code not in (Code.ILLEGAL_STATE, Code.INITIALIZED, Code.NO_LIVE_REPLICA, Code.NODE_EXISTS,
                 Code.CREATE_CALL_FAILED)
    for code in map(Code, range(len(Code)))
])
"""Whether the result map has an entry, by code, where the cache is the store (section 3.4)."""


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


@dataclass(frozen=True)
class Result:
    """What one call of a machine gave.

    Attributes
    ----------
    codes : (n,) uint8
        `schema.Code` per target.
    in_result : (n,) bool
        Whether Kafka's result map has an entry; partitions only.
    failure : Code or None
        The call failed as a whole.
    """

    codes: npt.NDArray[np.uint8]
    in_result: npt.NDArray[np.bool_]
    failure: Code | None = None

    @property
    def any_elected(self) -> bool:
        """Whether some entry of the result map is a success."""
        return bool((self.codes == Code.ELECTED).any())


def nothing() -> Result:
    """Result of a call without targets."""
    return Result(np.empty(0, np.uint8), np.empty(0, np.bool_))


def online_action(target: PartitionState, strategy: Strategy | None) -> str:
    """Name of a step that brings partitions Online."""
    how = "no strategy" if strategy is None else strategy.name
    return f"partitions to {target.label} ({how})"


def online_result(codes: npt.NDArray[np.uint8], failure: Code | None) -> Result:
    """Kafka's result map: elections only, or the error for every input (sections 3.3 and 3.4)."""
    if failure is not None:
        every = np.ones(codes.size, np.bool_)
        return Result(np.full(codes.size, failure, np.uint8), every, failure)
    return Result(codes, _IN_RESULT[codes])
