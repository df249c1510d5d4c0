"""Questions that clusters are asked: scenarios that are made of whatever cluster it is.

A question is checked where it is asked, so that what no cluster can be asked is refused once, and
not by every export.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from kfast.arguments import MAX_BROKER_ID, number, shown, whole
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.sweeps import scenario_makers as makers
from kfast.sweeps.scenario_makers import MOST_SCENARIOS
from kfast.sweeps.scenarios import Scenarios

__all__ = ["MAKERS", "Question", "check_question", "make_scenarios", "maker_of", "what_is"]

Question: TypeAlias = str | tuple[str, Mapping[str, Any]] | Callable[[ClusterState], Scenarios]

MAKERS = (
    "bursts", "every_broker", "every_rack", "every_rack_and_broker", "independent_brokers",
    "independent_racks", "random_brokers",
)

RIGHT = (
    'right is the name of a maker of scenarios, as "every_rack", or with its arguments, as '
    '("every_broker", {"k": 2}), or a function of a ClusterState'
)

_VALUES: Mapping[str, Callable[[str, Any], object]] = {
    "k": partial(whole, low=0, high=MAX_BROKER_ID),
    "n": partial(whole, low=0, high=MOST_SCENARIOS),
    "seed": partial(whole, low=0, high=2**64 - 1),
    "p": partial(number, low=0, high=1),
    "share": partial(number, low=0, high=1),
}
"""What arguments of makers can be, whatever the cluster; the makers themselves say the rest."""


def what_is(value: object) -> str:
    """What a caller gave, for messages; of what is large, or costs a job to look at, the kind."""
    if value is None or isinstance(value, (str, bytes, int, float, tuple, list, dict, Path)):
        return shown(value)
    if callable(value) and not isinstance(value, type):
        return "a function"
    kind = type(value)
    return f"a {kind.__module__.partition('.')[0]} {kind.__name__}"


def make_scenarios(question: Question, state: ClusterState) -> Scenarios:
    """Make the scenarios that a question means for this cluster.

    Raises
    ------
    ArgumentError
        The question is none, or the cluster has no such scenarios.
    """
    check_question(question)
    if callable(question):
        made = question(state)
        if not isinstance(made, Scenarios):
            raise ArgumentError(
                f"scenarios is a function that gave {what_is(made)}: it must give Scenarios"
            )
        return made
    name, arguments = maker_of(question)
    found: Scenarios = getattr(makers, name)(state, **arguments)
    return found


def check_question(question: object) -> None:
    """Refuse what no cluster can be asked."""
    if callable(question):
        return
    name, arguments = maker_of(question)
    signature = inspect.signature(getattr(makers, name))
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise ArgumentError(
            f"scenarios {name}: {error}; its arguments are {known or 'none'}"
        ) from error
    for argument, value in arguments.items():
        _VALUES[argument](f"{argument} of {name}", value)


def maker_of(question: object) -> tuple[str, Mapping[str, Any]]:
    """Name and arguments of the maker that a question names."""
    if isinstance(question, Scenarios):
        raise ArgumentError(
            f"scenarios is {what_is(question)}, made of one cluster, and each cluster needs "
            f"its own: {RIGHT}"
        )
    match question:
        case str(name):
            arguments: Any = {}
        case (str(name), Mapping() as arguments):
            pass
        case _:
            raise ArgumentError(f"scenarios is {what_is(question)}: {RIGHT}")
    if name not in MAKERS:
        raise ArgumentError(f"scenarios {name!r} are unknown; allowed: {', '.join(MAKERS)}")
    return name, arguments
