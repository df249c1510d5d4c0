"""The manual pages, a page for each command: `python -m docs.man FOLDER` (`make man`)."""

from __future__ import annotations

import sys
from pathlib import Path

from click_man.core import write_man_pages

from kfast import __version__
from kfast.cli.app import commands
from kfast.cli.defaults import all_commands


def write(folder):
    """Write the pages from the help of the commands; a line that goes on is joined."""
    for _, command in all_commands(commands):
        command.help = command.help.replace("\\\n", "")
    folder.mkdir(parents=True, exist_ok=True)
    write_man_pages("kfast", commands, version=__version__, target_dir=str(folder))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
