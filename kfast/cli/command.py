"""What all commands share: `--quiet`, defaults of options, standard input that is read once."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from kfast.cli.defaults import DEFAULTS, OptionDefaults
from kfast.cli.notes import echo, quiet_option
from kfast.errors import ArgumentError, InputError

__all__ = ["ConfiguredCommand", "command"]

_OUTPUTS = ("output", "folder")
"""Parameters of which `-` is standard output."""


class ConfiguredCommand(click.Command):
    """A command of kfast: `kfast.toml` has defaults of its options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params.append(quiet_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, and defaults for those that are not there."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        defaults = OptionDefaults.of(ctx)
        if defaults is None:
            rest = super().parse_args(ctx, args)
        else:
            rest = self._parse_with(defaults, ctx, args)
        self._check_standard_input(ctx)
        return rest

    def _parse_with(
        self, defaults: OptionDefaults, ctx: click.Context, args: list[str]
    ) -> list[str]:
        """Read the arguments with defaults of a file, and say which of them count."""
        ctx.default_map = defaults.default_map()
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = error.param and error.param.name
            if name and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                raise InputError(
                    f"{defaults.path}: {name.replace('_', '-')}: {error.message}"
                ) from error
            raise
        values = defaults.used(ctx)
        if values:
            ctx.meta[DEFAULTS] = {"file": str(defaults.path), "options": values}
            shown = ", ".join(f"{key} = {value!r}" for key, value in values.items())
            echo(f"Note: defaults of {defaults.path} are used: {shown}")
        return rest

    def _check_standard_input(self, ctx: click.Context) -> None:
        """Refuse `-` for two inputs: what one of them reads, the other lacks."""
        readers = [
            parameter.opts[0] if isinstance(parameter, click.Option)
            else parameter.human_readable_name.removesuffix("...")
            for parameter in self.params if parameter.name not in _OUTPUTS
            for value in _values(ctx.params.get(str(parameter.name))) if str(value) == "-"
        ]
        if len(readers) > 1:
            raise ArgumentError(
                f"standard input can be read once, and - stands for {' and '.join(readers)}"
            )


def _values(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


command = partial(click.command, cls=ConfiguredCommand)
"""Decorator that makes a command of a function."""
