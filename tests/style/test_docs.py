"""The documentation as a site lacks nothing; `make docs` checks the rest, and runs examples."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys

import nbformat
import pytest

import kfast.testing
from docs import columns
from docs.pages import listed_names
from tests.style.places import ROOT, assert_none
from tests.support.public_names import MODULES

DOCS = ROOT / "docs"
TESTING = [found.name for found in pkgutil.iter_modules(kfast.testing.__path__, "kfast.testing.")]
ROOT_PAGE = "index"
TOCTREE = re.compile(
    r"^(?:```\{toctree\}|\.\. toctree::)\n(.*?)(?:^```|\Z)", re.MULTILINE | re.DOTALL
)


def test_every_public_name_has_an_api_page():
    """It stands in a list of docs/api, from which the page is made."""
    documented = set(listed_names())
    assert_none(
        f"{module}.{name}" for module in (*MODULES, *TESTING)
        for name in importlib.import_module(module).__all__
        # A name of kfast has one page, wherever else it may be imported from.
        if not documented & {f"{module}.{name}", f"kfast.{name}"}
    )


def test_every_listed_name_is_there_once():
    names = listed_names()
    assert len(names) == len(set(names)) > 150


def test_the_table_of_contents_has_every_page():
    """Or a page is found by nobody who does not search."""
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for pattern in ("*.md", "*.rst", "*.ipynb", "api/*.rst") for path in DOCS.glob(pattern)
    }
    listed = set()
    for page in pages:
        path = next(DOCS.glob(f"{page}.[mri]*"))
        for block in TOCTREE.findall(path.read_text(encoding="utf-8")):
            entries = re.findall(r"^ *([\w/-]+)$", block, re.MULTILINE)
            listed |= {(path.parent / entry).relative_to(DOCS).as_posix() for entry in entries}
    assert pages - listed == {ROOT_PAGE}
    assert listed - pages == {"generated/gallery/index"}


def test_the_page_of_columns_is_of_this_version():
    """`python -m docs.columns` writes it from what `kfast schema` answers."""
    assert columns.PAGE.read_text(encoding="utf-8") == columns.page()


def outputs_of(path):
    """Sources and outputs of a notebook's cells, without what pandas and plotly add to HTML."""
    for cell in nbformat.read(path, as_version=4).cells:
        yield cell.source
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            figure = data.get("application/vnd.plotly.v1+json", {})
            yield output.get("text"), data.get("text/plain"), figure.get("data")


@pytest.mark.slow
def test_the_tour_is_of_this_version(tmp_path):
    """`python -m docs.notebook` executes it."""
    subprocess.run(
        [sys.executable, "-m", "docs.notebook", tmp_path / "tour.ipynb"], cwd=ROOT, check=True,
    )
    assert [*outputs_of(tmp_path / "tour.ipynb")] == [*outputs_of(DOCS / "tour.ipynb")]
