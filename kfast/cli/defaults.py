"""Defaults of options: the file kfast.toml of the working directory, or of the nearest above it.

A key is an option as the command line has it, without its hyphens; a table has the keys of one
command, which come before those of all commands. What the command line says comes before both.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kfast.cli.exits import closest
from kfast.errors import InputError

__all__ = ["DEFAULTS", "OptionDefaults", "all_commands"]

FILE = "kfast.toml"

DEFAULTS = "kfast.defaults"
"""Key of a context's `meta`: the file, and the options that it gave."""

@dataclass(frozen=True)
class OptionDefaults:
    """Defaults of the options of one command, as a file has them.

    Parameters
    ----------
    path : Path
        The file.
    values : mapping of str to object
        By the name of the option, without its hyphens.
    parameters : mapping of str to click.Option
        The same names and what they are on the command line.
    """

    path: Path
    values: Mapping[str, Any]
    parameters: Mapping[str, click.Option]

    @classmethod
    def of(cls, context: click.Context) -> OptionDefaults | None:
        """Read the defaults of a command; None where there is no file.

        Raises
        ------
        InputError
            The file is no TOML; a key is unknown, or its value of another type.
        """
        folder = Path.cwd()
        paths = (parent / FILE for parent in (folder, *folder.parents))
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                content = tomllib.load(file)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: is not TOML: {error}") from error
        parameters = _options(context.command)
        tables = {key: value for key, value in content.items() if isinstance(value, dict)}
        shared = {key: value for key, value in content.items() if key not in tables}
        merged = {**shared, **tables.pop(_command_name(context), {})}
        if tables or not merged.keys() <= parameters.keys():
            _check_keys(path, content, context)
        values = {key: value for key, value in merged.items() if key in parameters}
        for key, value in values.items():
            _check_type(path, key, value, parameters[key])
        return cls(path, values, parameters)

    def default_map(self) -> dict[str, Any]:
        """The values by click's names; names of files are relative to the folder of this one."""
        return {
            str(self.parameters[key].name): self._value(self.parameters[key], value)
            for key, value in self.values.items()
        }

    def _value(self, parameter: click.Option, value: Any) -> Any:
        if parameter.is_flag or _number_of(parameter):
            return value
        items = [str(item) for item in (value if isinstance(value, list) else [value])]
        if isinstance(parameter.type, click.Path):
            items = [item if item in ("", "-") else str(self.path.parent / item) for item in items]
        return items if parameter.multiple else items[0]

    def used(self, context: click.Context) -> dict[str, Any]:
        """The values that count: the command line does not say them."""
        return {
            key: value for key, value in self.values.items()
            if context.get_parameter_source(str(self.parameters[key].name))
            is ParameterSource.DEFAULT_MAP
        }


def _command_name(context: click.Context) -> str:
    """The name of a command without that of the program, such as capacity sweep."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, str(context.info_name))
        context = context.parent
    return " ".join(names)


def _options(command: click.Command) -> dict[str, click.Option]:
    """Options of a command by their long names."""
    return {
        name.removeprefix("--"): option
        for option in command.params if isinstance(option, click.Option)
        for name in option.opts if name.startswith("--")
    }


def all_commands(group: click.Group, prefix: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command by its name, those of groups as `capacity sweep`; all are loaded."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{prefix}{name} ")
        elif command is not None:
            yield f"{prefix}{name}", command


def _check_keys(path: Path, content: Mapping[str, Any], context: click.Context) -> None:
    """Refuse what no command has."""
    root = context.find_root().command
    assert isinstance(root, click.Group), "the program has commands"
    commands = {name: _options(command) for name, command in all_commands(root)}
    anywhere = {key for options in commands.values() for key in options}
    for key, value in content.items():
        if isinstance(value, dict):
            if key not in commands:
                raise InputError(
                    f"{path}: [{key}]: there is no such command{closest(key, commands)}"
                )
            for name in value.keys() - commands[key].keys():
                raise InputError(
                    f"{path}: [{key}] {name}: kfast {key} has no option --{name}"
                    f"{closest(name, commands[key])}"
                )
        elif key not in anywhere:
            raise InputError(f"{path}: {key}: no command has an option --{key}"
                             f"{closest(key, anywhere)}")


def _number_of(parameter: click.Option) -> tuple[type, ...]:
    """Types of a number that an option takes; none where it is no number."""
    kinds = {"integer": (int,), "float": (int, float)}
    return kinds.get(parameter.type.name.removesuffix(" range"), ())


def _check_type(path: Path, key: str, value: Any, parameter: click.Option) -> None:
    """Refuse a value that the option cannot have: numbers and switches are not texts."""
    numbers = _number_of(parameter)
    items = value if isinstance(value, list) and parameter.multiple else [value]
    types: tuple[type, ...] = numbers or (str, int)
    if parameter.is_flag:
        is_right = isinstance(value, bool)
        right = "true or false"
    else:
        is_right = all(isinstance(one, types) and not isinstance(one, bool) for one in items)
        right = "a number" if numbers else "a text" + " or a list of them" * parameter.multiple
        if isinstance(parameter.type, click.Choice):
            right = f"one of {', '.join(map(str, parameter.type.choices))}"
    if not is_right:
        raise InputError(f"{path}: {key} is {value!r}; right is {right}")
