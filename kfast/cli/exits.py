"""How a command ends: exit codes, and one clear line for each kind of wrong.

What kfast did not expect is left alone until `report_fault`, the last resort of the process, so
that nothing is hidden: it says one line and how to get the traceback, and Python exits with 1.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import click

from kfast.errors import ArgumentError, InputError, RowError

__all__ = ["CONDITION_HOLDS", "Commands", "report_fault"]

BAD_INPUT = 3
CONDITION_HOLDS = 4
INTERRUPTED = 130
BROKEN_PIPE = 141
"""Exit codes besides Python's 1 and click's 2; a shell's last two are for SIGINT and SIGPIPE."""

TRACEBACK = "KFAST_TRACEBACK"


class BadInput(click.ClickException):
    """The input cannot be read, or contradicts itself."""

    exit_code = BAD_INPUT


class Commands(click.Group):
    """The commands of kfast; turns what they raise into exit codes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _keep_lines(self)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Take a command."""
        _keep_lines(cmd)
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except InputError as error:
            raise BadInput(str(error)) from error
        except (ArgumentError, RowError) as error:
            raise click.UsageError(str(error)) from error
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _leave_broken_pipe()
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise BadInput(f"{where}{error.strerror or error}") from error
        return result


def _keep_lines(command: click.Command) -> None:
    r"""Make click's mark, before lines that are not to be wrapped, of the \b in a raw docstring."""
    command.help = (command.help or "").replace("\\b\n", "\b\n")


def _leave_broken_pipe() -> NoReturn:
    """End quietly when nobody reads on; Python must not flush standard output once more."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    raise click.exceptions.Exit(BROKEN_PIPE)


def report_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Say what went wrong inside kfast: a `sys.excepthook`."""
    if issubclass(kind, KeyboardInterrupt):
        return
    if issubclass(kind, MemoryError):
        click.echo("kfast failed: there is not enough memory for this input.", err=True)
        return
    if os.environ.get(TRACEBACK):
        traceback.print_exception(kind, error, trace)
    frames = traceback.extract_tb(trace)
    place = f" in {Path(frames[-1].filename).name} line {frames[-1].lineno}" if frames else ""
    said = str(error).splitlines()
    click.echo(
        f"kfast failed{place}: {kind.__name__}{f': {said[0]}' if said else ''}\n"
        f"This is kfast's own fault. Please report it with the command, the input if you may share "
        f"it, and what\n{TRACEBACK}=1 (or kfast --debug) adds to this message.",
        err=True,
    )
