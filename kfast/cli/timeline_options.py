"""Options of the commands that ask when: what takes how long, and how samples are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kfast.cli.options import Command, FilePath, all_options, number_option
from kfast.errors import ArgumentError
from kfast.timelines.failover import LOSSES
from kfast.timelines.parameters import PROFILES, Parameters, read_params

__all__ = ["take_question", "time_options"]


def _pairs(_ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Values by name, each given as NAME=VALUE."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param=param)
        pairs[name.strip()] = value.strip()
    return pairs


def time_options(seeds: str, *, failures: bool = True) -> Callable[[Command], Command]:
    """Options that say what takes how long; `seeds` is what the seed is of.

    Those that are about failures alone are left out where none is asked about.
    """
    of_failures = (
        click.option("--loss", type=click.Choice(LOSSES), default="process", show_default=True,
                     help="Whether clients learn of the failure at once, or by their timeouts."),
        click.option("--horizon", default="1h", show_default=True, metavar="TIME",
                     help="Until when time without a leader counts."),
    )
    return all_options(
        *(of_failures if failures else ()),
        click.option("--params", type=FilePath(), metavar="FILE",
                     help="Parameters of your cluster, as timeline --calibrate writes them."),
        click.option("--time-profile", type=click.Choice(tuple(PROFILES)), default="default",
                     show_default=True,
                     help="Named set of parameters that --param starts from."),
        click.option("--param", "param_texts", multiple=True, callback=_pairs,
                     metavar="NAME=VALUE",
                     help="A parameter, as epoch_sync=800us, or with its range, as "
                     "epoch_sync=800us,500us,2ms."),
        click.option("--set", "settings", multiple=True, callback=_pairs, metavar="NAME=VALUE",
                     help="A setting of Kafka in milliseconds: broker.session.timeout.ms=6000."),
        number_option("--samples", type=click.IntRange(1, 100_000), default=200,
                      help="Draws of parameters from which ranges are made."),
        number_option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, help=seeds),
    )


def take_question(options: dict[str, Any]) -> dict[str, Any]:
    """Take `time_options` out of a command's options: arguments of `kfast.timeline`.

    Raises
    ------
    ArgumentError
        A parameter or a setting is none, or options exclude each other.
    """
    settings, texts = options.pop("settings"), options.pop("param_texts")
    params, profile = options.pop("params"), options.pop("time_profile")
    wrong = [f"{name}={value}" for name, value in settings.items() if not value.isdecimal()]
    if wrong:
        raise ArgumentError(f"--set {wrong[0]}: right is a whole number")
    if params is not None and texts:
        raise ArgumentError("give one of --param and --params")
    values = Parameters.of(texts, profile=profile) if params is None else read_params(
        params, profile=profile)
    return {
        "params": values, "settings": {name: int(value) for name, value in settings.items()},
        **{name: options.pop(name) for name in ("samples", "seed", "horizon", "loss")
           if name in options},
    }
