"""Write `docs/rules.md`, where each rule stands: `python -m docs.rules_table`.

A rule, a kernel or a test belongs to a section of docs/controller.md that its prose cites.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.style.citations import RULES, anchor_of, headings, home_page, prose, rules_cited
from tests.style.places import SOURCES, name_of

PAGE = Path(__file__).resolve().parent / "rules.md"
HEAD = """\
# Where each rule stands

`python -m docs.rules_table` writes this page from what docstrings and comments cite, and a test
keeps it current. A file is in a row if it cites the section; where no file of a column does, those
that cite its chapter are. Rules are files of `kfast/`, kernels of `kfast/kernels/`, tests of
`tests/`. Section 6.5 lists what is not simulated, and chapter 7 says again, by target, what
chapters 2, 3 and 6 say by event: neither has rules of its own.

| Section | Rules | Kernels | Tests |
|---|---|---|---|
"""
RESTATED = {"6.5", "7.1", "7.2", "7.3"}
"""Sections without rules of their own."""
COLUMNS = {
    "rules": r"kfast/((?:schema|testing/request_batch|(?:state|journal|controllers)/.*)\.py)",
    "kernels": r"kfast/kernels/(\w+)\.pyx",
    "tests": r"tests/((?:rules|state|journal)/test_\w+)\.py",
}
"""Column of the table to the files that belong in it, and their names there."""


def cited_by_file() -> dict[str, set[str]]:
    """Sections that each source cites."""
    return {
        name_of(path): {section for text in prose(path) for section in rules_cited(text)}
        for path in SOURCES
        if home_page(path) in (None, RULES)
    }


def table() -> dict[str, dict[str, list[str]]]:
    """Heading of each section with rules to the files of each column."""
    cited = cited_by_file()
    rows = {}
    for heading in headings(RULES):
        section = re.match(r"([2-8]\.\d+) ", heading)
        if section is None or section[1] in RESTATED:
            continue
        rows[heading] = {}
        for column, pattern in COLUMNS.items():
            places = {m[1]: cited[name] for name in cited if (m := re.fullmatch(pattern, name))}
            rows[heading][column] = next(
                filter(None, (
                    sorted(place for place in places if number in places[place])
                    for number in (section[1], section[1][0])
                )), [],
            )
    return rows


def page() -> str:
    """The page as it should be."""
    lines = [
        f"| [{heading}](controller.md#{anchor_of(heading)}) | "
        + " | ".join(", ".join(f"`{name}`" for name in row[column]) for column in COLUMNS) + " |"
        for heading, row in table().items()
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
