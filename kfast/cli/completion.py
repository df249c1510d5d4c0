"""`kfast completion`: what a shell needs to complete commands, options and names of files."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from kfast.cli.command import command
from kfast.cli.notes import echo

__all__ = ["completion_command"]

PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/kfast"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_kfast"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/kfast.fish"),
}
"""Where each shell looks: a variable that names a folder, the folder in HOME else, and the file."""

HINTS = {
    "bash": "New shells have it where the package bash-completion is installed; elsewhere add to "
    "~/.bashrc: source {path}",
    "zsh": "New shells have it where ~/.zshrc says, before compinit: fpath+=({folder})",
    "fish": "New shells have it.",
}


@command("completion")
@click.argument("shell", type=click.Choice(tuple(PLACES)), metavar="SHELL")
@click.option("--install", is_flag=True, help="Write it to the file of the user that SHELL reads.")
def completion_command(shell: str, install: bool) -> None:
    r"""Print what bash, zsh or fish needs to complete commands and options.

    \b
    Examples:
      kfast completion bash --install
      kfast completion fish --install
      eval "$(kfast completion zsh)"
    """
    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    script = kind(root, {}, "kfast", "_KFAST_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    variable, folder, name = PLACES[shell]
    path = Path(os.environ.get(variable) or Path.home() / folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    echo(f"Wrote {path}. {HINTS[shell].format(path=path, folder=path.parent)}")
