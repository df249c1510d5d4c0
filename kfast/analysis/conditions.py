"""Conditions on metrics, such as `offline>0`: read, and tested."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kfast.errors import ArgumentError

__all__ = ["OPERATORS", "Condition", "parse_condition"]

OPERATORS: Mapping[str, Callable[[Any, float], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_CONDITION = re.compile(r"\s*(\w+)\s*([^\w\s.+-]+)\s*(-?\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class Condition:
    """A metric compared with a number; messages call it by its text."""

    text: str
    metric: str
    compare: Callable[[Any, float], Any]
    limit: float


def parse_condition(text: str, metrics: Collection[str]) -> Condition:
    """Read a condition on one of some metrics.

    Raises
    ------
    ArgumentError
        It is no condition, or the metric or the operator is unknown.
    """
    match = _CONDITION.fullmatch(text)
    if not match:
        raise ArgumentError(f"{text!r} is not metric, operator, number, as in offline>0")
    metric, sign, limit = match.groups()
    if metric not in metrics:
        raise ArgumentError(f"metric {metric!r} is unknown; these are: {', '.join(metrics)}")
    if sign not in OPERATORS:
        raise ArgumentError(f"operator {sign!r} is unknown; these are: {' '.join(OPERATORS)}")
    return Condition(f"{metric}{sign}{limit}", metric, OPERATORS[sign], float(limit))
