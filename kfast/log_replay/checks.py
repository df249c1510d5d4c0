"""Checks: what a line says beside what is predicted.

Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kfast.log_replay.engine.rows import COUNTED


class Check(NamedTuple):
    """One value that a line says of a partition, beside the predicted one.

    `counted` is `epoch`, `version` or `record_epoch` where the prediction counts from a start that
    the log may not have said yet.
    """

    field: str
    logged: Any
    predicted: Any
    counted: str = ""


class _Missing:
    """Stands for a prediction that does not exist."""

    def __repr__(self) -> str:
        return "-"


MISSING: Any = _Missing()
_SETS = frozenset({"isr", "adding", "removing"})


def agrees(check: Check) -> bool:
    """Whether a check's values are the same; an ISR is a set."""
    if check.predicted is MISSING or check.predicted is None:
        return False
    if check.field in _SETS:
        return set(check.logged) == set(check.predicted)
    return bool(check.logged == check.predicted)


def checks_of(logged: Mapping[str, Any], predicted: Mapping[str, Any] | None) -> list[Check]:
    """Checks of every field that a line says, beside the prediction with the same name."""
    values = predicted or {}
    return [
        Check(name, value, MISSING if (now := values.get(name)) is None else now,
              COUNTED.get(name, ""))
        for name, value in logged.items()
    ]
