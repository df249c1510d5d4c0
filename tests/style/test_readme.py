"""What README.md and docs/ show is what happens."""

from __future__ import annotations

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from kfast import Controller
from kfast.analysis.impact import CHANGE_METRICS
from kfast.cli.app import commands
from kfast.io import FORMATS
from kfast.state.census import CENSUS_METRICS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
CAPACITY = (ROOT / "docs" / "capacity.md").read_text()
SESSIONS = (ROOT / "README.md", ROOT / "docs" / "python.md")
"""Pages whose blocks in Python are one session each, with what it prints."""
PAGES = sorted(set((ROOT / "docs").glob("*.md")) - set(SESSIONS))
MOST_README_LINES = 150


def blocks(text, language):
    """Texts of the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _in_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "block", [block for page in (README, COMMANDS, CAPACITY) for block in blocks(page, "console")],
    ids=lambda b: b.splitlines()[0][2:],
)
def test_the_pages_show_what_the_commands_print(block):
    """A line of three dots stands for any lines."""
    command, shown = block.split("\n", 1)
    program, *args = shlex.split(command.removeprefix("$ "))
    assert program == "kfast"
    printed = CliRunner().invoke(commands, args).stdout
    pattern = "(.*\n)*".join(re.escape(part) for part in shown.split("...\n"))
    assert re.fullmatch(pattern, printed), printed


@pytest.mark.kernels
def test_the_examples_in_python_are_right():
    """Every `>>>` line of a page, in one session; the blocks of other pages, each alone."""
    for page in SESSIONS:
        examples = "\n".join(blocks(page.read_text(), "python"))
        session = doctest.DocTestParser().get_doctest(examples, {}, page.name, page.name, 0)
        assert len(session.examples) > 5
        assert doctest.DocTestRunner().run(session).failed == 0
    for page in PAGES:
        for block in blocks(page.read_text(), "python"):
            exec(compile(block, page.name, "exec"), {})


def test_every_event_has_its_line():
    """`docs/events.md` lists the public methods of the controller, and no other."""
    text = (ROOT / "docs" / "events.md").read_text()
    listed = set(re.findall(r"^\| `(\w+)\(", text, re.MULTILINE))
    shared = {
        "attempt",
        "gauges",
        "checked",
        "refused",
        "resigned",
        "registered_epoch",
        "replicas_become_offline",
        "send_update_metadata",
    }
    public = {name for name in vars(Controller) if callable(getattr(Controller, name))}
    assert listed == {name for name in public if not name.startswith("_")} - shared


def test_every_metric_and_format_has_its_line():
    """`docs/formats.md` says what the tables in the source say."""
    text = (ROOT / "docs" / "formats.md").read_text()
    for metric, meaning in {**CENSUS_METRICS, **CHANGE_METRICS}.items():
        assert f"| `{metric}` | {meaning} |" in text
    for end in (end for ends in FORMATS.values() for end in ends if end != ".describe"):
        assert f"`{end}`" in text


@pytest.mark.kernels
def test_the_picture_is_of_this_version():
    """`python -m docs.pictures` draws it from the same run as the README's example."""
    from docs.pictures import failure_picture

    def words(svg):
        return re.findall(r">([^<>]+)</text>", svg)

    assert words((ROOT / "docs" / "fail.svg").read_text()) == words(failure_picture())


def test_the_page_of_results_is_of_this_version():
    """`python -m docs.results` writes it from the schemas."""
    from docs import results

    assert results.PAGE.read_text() == results.page()


def test_the_readme_names_every_command():
    """And is short."""
    assert len(README.splitlines()) <= MOST_README_LINES
    for name in commands.places:
        assert f"kfast {name}" in README
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
