"""What the commands take: how arguments are read, and the options that commands share."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from kfast.profiles import DEFAULT_PROFILE, PROFILES

__all__ = [
    "Condition",
    "broker_ids",
    "fail_on_option",
    "input_options",
    "names",
    "profile_option",
    "report_options",
    "topic_partition",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_CONDITION = re.compile(r"\s*(\w+)\s*([^\w\s-]+)\s*(-?\d+)\s*")
_MOST = 2**31
"""Broker ids and partition numbers are below this."""


def broker_ids(text: str) -> tuple[int, ...]:
    """Broker ids with commas between, each once."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,10}", part) or int(part) >= _MOST:
            raise click.BadParameter(f"{part!r} is not a broker id; right is a list such as 3,7")
    return tuple(dict.fromkeys(int(part) for part in parts))


def names(text: str) -> tuple[str, ...]:
    """Names with commas between, each once."""
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if "" in parts:
        raise click.BadParameter(f"{text!r} has an empty name; right is a list such as a,b")
    return parts


def setting(text: str) -> tuple[str, str]:
    """A setting of the brokers, as name=value."""
    name, _, value = text.partition("=")
    if not name.strip() or not value.strip():
        raise click.BadParameter(f"{text!r} is not of the form min.insync.replicas=2")
    return name.strip(), value.strip()


def topic_partition(text: str) -> tuple[str, int]:
    """A partition as Kafka's tools write it: the number stands behind the last hyphen."""
    topic, _, number = text.rpartition("-")
    if not topic or not re.fullmatch(r"[0-9]{1,10}", number) or int(number) >= _MOST:
        raise click.BadParameter(f"{text!r} is not topic-partition, such as orders-7")
    return topic, int(number)


@dataclass(frozen=True)
class Condition:
    """A metric compared with a number.

    Parameters
    ----------
    text : str
        How messages call it.
    metric : str
    compare : callable
    limit : int
    """

    text: str
    metric: str
    compare: Callable[[int, int], bool]
    limit: int

    def holds(self, summary: Mapping[str, int]) -> bool:
        """Whether it is true of a summary."""
        return self.compare(summary[self.metric], self.limit)


def condition_on(metrics: Mapping[str, str]) -> Callable[[str], Condition]:
    """Make the function that reads a condition on some metrics, such as offline>0."""

    def condition(text: str) -> Condition:
        found = _CONDITION.fullmatch(text)
        if not found:
            raise click.BadParameter(f"{text!r} is not metric, operator, integer, as in offline>0")
        metric, sign, limit = found.groups()
        if metric not in metrics:
            raise click.BadParameter(
                f"metric {metric!r} is unknown; these are: {', '.join(metrics)}"
            )
        if sign not in _OPERATORS:
            raise click.BadParameter(
                f"operator {sign!r} is unknown; these are: {' '.join(_OPERATORS)}"
            )
        return Condition(f"{metric}{sign}{limit}", metric, _OPERATORS[sign], int(limit))

    return condition


def _all(options: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    """Put several options on a command; `--help` lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def input_options() -> Callable[[Command], Command]:
    """Options of the commands that read a cluster."""
    return _all(
        (
            click.argument("source", metavar="INPUT"),
            click.option(
                "--brokers-file",
                type=click.Path(path_type=Path),
                metavar="CSV",
                help="Racks of the brokers, which a describe text lacks: a CSV with the columns "
                "broker_id,rack and perhaps registered.",
            ),
            click.option(
                "--default",
                "defaults",
                type=setting,
                multiple=True,
                metavar="NAME=VALUE",
                help="A default of the brokers, such as min.insync.replicas=2 or "
                "unclean.leader.election.enable=true. May be given more than once.",
            ),
            click.option(
                "--up",
                type=broker_ids,
                metavar="IDS",
                help="Brokers that are up although they lead nothing and are in no ISR: 3,4.",
            ),
        )
    )


def profile_option() -> Callable[[Command], Command]:
    """Option of the commands that run a controller."""
    return click.option(
        "--profile",
        type=click.Choice(tuple(PROFILES)),
        default=DEFAULT_PROFILE,
        show_default=True,
        help="Version of the controller that is simulated.",
    )


def report_options(metrics: Mapping[str, str]) -> Callable[[Command], Command]:
    """Options of the commands that answer with a report on some metrics."""
    return _all(
        (
            click.option(
                "--format",
                "kind",
                type=click.Choice(("table", "json", "parquet")),
                help="How to answer. parquet is one row per partition (delete: per topic, restart: "
                "per broker, risk: per pair), with the summary in the file's metadata.  [default: "
                "as the name in -o ends, else table]",
            ),
            click.option(
                "-o",
                "--output",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Write the answer to this file, whole or not at all.",
            ),
            click.option(
                "--top",
                type=click.IntRange(0),
                default=10,
                show_default=True,
                metavar="N",
                help="How many topics to list, the worst first. Texts list as many brokers, but "
                "at least 16; JSON lists them all.",
            ),
            fail_on_option(metrics),
        )
    )


def fail_on_option(metrics: Mapping[str, str]) -> Callable[[Command], Command]:
    """Option that compares some metrics with numbers, for the exit code."""
    return click.option(
        "--fail-on",
        "conditions",
        type=condition_on(metrics),
        multiple=True,
        metavar="CONDITION",
        help="Exit with 4 if this holds, as in 'offline>0'. May be given more than once; "
        f"one that holds is enough. Metrics: {', '.join(metrics)}. Operators: "
        f"{' '.join(_OPERATORS)}.",
    )
