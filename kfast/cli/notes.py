"""What commands say on standard error, and the option that leaves notes out."""

from __future__ import annotations

import click

from kfast.cli.exits import shown_lines

__all__ = ["echo", "echo_error", "is_quiet", "quiet_option"]

QUIET = "kfast.quiet"
"""Key of a context's `meta`."""


def quiet_option() -> click.Option:
    """Option of every command, and of the program: errors alone on standard error."""
    return click.Option(
        ["-q", "--quiet"], is_flag=True, expose_value=False, callback=_set_quiet,
        help="No notes and no progress on standard error: errors alone.",
    )


def _set_quiet(ctx: click.Context, _param: click.Parameter, quiet: bool) -> None:
    if quiet:
        ctx.meta[QUIET] = True


def is_quiet() -> bool:
    """Whether the command that runs says nothing but errors."""
    return QUIET in click.get_current_context().meta


def echo(message: str) -> None:
    """Say something on standard error unless --quiet is given."""
    if not is_quiet():
        echo_error(message)


def echo_error(message: str) -> None:
    """Say something on standard error; what stands in it from files is shown as it is."""
    click.echo(shown_lines(message), err=True)
