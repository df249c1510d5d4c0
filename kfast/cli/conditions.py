"""Conditions of `--fail-on`: a metric compared with a number."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import click

__all__ = ["OPERATORS", "Condition", "condition_on"]

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
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
    """A metric compared with a number.

    Parameters
    ----------
    text : str
        How messages call it.
    metric : str
    compare : callable
    limit : float
    """

    text: str
    metric: str
    compare: Callable[[float, float], bool]
    limit: float

    def holds(self, summary: Mapping[str, float]) -> bool:
        """Whether it is true of a summary."""
        return self.compare(summary[self.metric], self.limit)


def condition_on(metrics: Mapping[str, str]) -> Callable[[str], Iterable[Condition]]:
    """Make the function that reads a condition on some metrics, such as offline>0."""

    def conditions(text: str) -> Iterable[Condition]:
        found = _CONDITION.fullmatch(text)
        if not found:
            raise click.BadParameter(f"{text!r} is not metric, operator, number, as in offline>0")
        metric, sign, limit = found.groups()
        if metric not in metrics:
            raise click.BadParameter(
                f"metric {metric!r} is unknown; these are: {', '.join(metrics)}"
            )
        if sign not in OPERATORS:
            raise click.BadParameter(
                f"operator {sign!r} is unknown; these are: {' '.join(OPERATORS)}"
            )
        return (Condition(f"{metric}{sign}{limit}", metric, OPERATORS[sign], float(limit)),)

    return conditions
