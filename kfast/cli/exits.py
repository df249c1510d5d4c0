"""How a command ends: exit codes, and one clear line for each kind of wrong.

What kfast did not expect is left alone until `report_fault`, the last resort of the process, so
that nothing is hidden: it says one line and how to get the traceback, and Python exits with 1.
"""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
import traceback
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from kfast.errors import ArgumentError, InputError, MissingExtraError, RowError
from kfast.state.display import escape_control

__all__ = [
    "CONDITION_HOLDS", "Commands", "check_streams", "closest", "end_unwritten", "report_fault",
    "shown_lines",
]

BAD_INPUT = 3
CONDITION_HOLDS = 4
INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit codes besides Python's 1 and click's 2; a shell's last two are for SIGINT and SIGPIPE."""

CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Errors of a write. Those of every file that kfast writes name it; standard output has no name."""

TRACEBACK = "KFAST_TRACEBACK"


def shown_lines(message: str) -> str:
    """A message of several lines in which what comes from files cannot command a terminal."""
    return "\n".join(map(escape_control, message.split("\n")))


def closest(name: str, names: Iterable[str]) -> str:
    """What a name that is unknown may be meant for, or else all names, as the end of a message."""
    matches = sorted(difflib.get_close_matches(name, names))
    if not matches:
        return f"; these are: {', '.join(sorted(names))}"
    return f"; did you mean {' or '.join(matches)}?"


class BadInput(click.ClickException):
    """The input cannot be read, or contradicts itself."""

    exit_code = BAD_INPUT


def check_streams() -> None:
    """End where standard output is closed; without standard error, go on in silence."""
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        click.echo("Error: standard output: it is closed", err=True)
        sys.exit(BAD_INPUT)


class Commands(click.Group):
    """The commands of kfast, loaded when they run; turns what they raise into exit codes.

    Parameters
    ----------
    places : mapping of str to (str, str, str)
        Of each command the module, its name there, and what the list of commands says of it.
    """

    def __init__(
        self, *args: Any, places: Mapping[str, tuple[str, str, str]], **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.places = places
        _keep_lines(self)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Names of the commands."""
        return sorted(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command."""
        if cmd_name not in self.commands and cmd_name in self.places:
            module, name, _ = self.places[cmd_name]
            command = getattr(import_module(f"kfast.cli.{module}"), name)
            _keep_lines(command)
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; where there is none of this name, those with one like it are named."""
        name = args[0]
        if name not in self.places and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}{closest(name, self.places)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, and load none of them."""
        listed = click.Group(
            commands=[click.Command(name, help=text) for name, (*_, text) in self.places.items()]
        )
        listed.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, and load none of them."""
        named = [
            CompletionItem(name, help=text)
            for name, (*_, text) in sorted(self.places.items()) if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except InputError as error:
            raise BadInput(shown_lines(str(error))) from error
        except (ArgumentError, MissingExtraError, RowError) as error:
            raise click.UsageError(shown_lines(str(error))) from error
        except KeyboardInterrupt:
            # On a terminal a progress bar or ^C may stand on the line.
            click.echo("\nInterrupted." if sys.stderr.isatty() else "Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            unnamed = "standard output: " if error.errno in CANNOT_WRITE else ""
            where = f"{error.filename}: " if error.filename else unnamed
            raise BadInput(shown_lines(f"{where}{error.strerror or error}")) from error
        return result


def end_unwritten(error: OSError) -> NoReturn:
    """End where help or a version cannot be written."""
    click.echo(f"Error: standard output: {error.strerror or error}", err=True)
    _discard_output()
    sys.exit(BAD_INPUT)


def _keep_lines(command: click.Command) -> None:
    r"""Make click's mark, before lines that are not to be wrapped, of the \b in a raw docstring."""
    command.help = (command.help or "").replace("\\b\n", "\b\n")


def _discard_output() -> None:
    """Let what Python has not flushed yet go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def report_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Say what went wrong inside kfast: a `sys.excepthook`."""
    if issubclass(kind, KeyboardInterrupt):
        return
    if issubclass(kind, MemoryError) or (
        issubclass(kind, ImportError) and "failed to map segment" in str(error)
    ):
        click.echo("kfast failed: there is not enough memory for this input.", err=True)
        return
    if os.environ.get(TRACEBACK):
        traceback.print_exception(kind, error, trace)
    frames = traceback.extract_tb(trace)
    place = f" in {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    lines = shown_lines(str(error)).splitlines()
    click.echo(
        f"kfast failed{place}: {kind.__name__}{f': {lines[0]}' if lines else ''}\n"
        f"This is kfast's own fault. Please report it with the command, the input if you may share "
        f"it, and what\n{TRACEBACK}=1 (or kfast --debug) adds to this message.",
        err=True,
    )
