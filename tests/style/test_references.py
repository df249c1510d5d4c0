"""Every reference can be followed: sections that sources cite, links, files that pages name.

"section 2.4" means docs/controller.md or docs/kraft.md, whichever the head of the file names first;
another page stands before its section: docs/formats.md, section "Describe text".
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from docs import rules_table
from kfast.cli.app import commands
from tests.style.citations import (
    DOTTED,
    NUMBER,
    RULES,
    anchors,
    citations,
    home_page,
    prose,
    sections,
)
from tests.style.places import FOLDERS, PAGES, ROOT, SOURCES, assert_none, name_of

MADE = [
    line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if "/" in line[1:-1]
]
"""Folders that commands of the pages fill: they are in no checkout."""

PART = re.compile(
    rf"`(\w+)[^`]*` of section ({NUMBER})"
    rf"|[Ss]ection ({NUMBER}), (?:`(\w+)|(?:steps?|rows?) ([A-Z]?\d+))"
)
ALONE = re.compile(rf"(?<![\w`\])])\({DOTTED}(?:(?:, | and | to ){DOTTED})*\)|^{DOTTED}[,:;]")
ELSEWHERE = {"growth.md"}
"""Pages of others, and one that a benchmark writes."""


def test_every_section_that_a_source_cites_is_there():
    """And so are the steps, the rows and the names that it cites of a section."""

    def missing(text, home):
        for page, section in citations(text):
            if section not in sections(ROOT / page if page else home):
                yield section
        for before, number, other, name, step in PART.findall(text):
            body = sections(home)[number or other]
            wanted = rf"^ *{step}\. |- {step}:|\| {step} \|" if step else rf"\b{before or name}\b"
            if not re.search(wanted, body, re.MULTILINE):
                yield f"section {number or other}, {step or before or name}"

    assert_none(
        f"{name_of(path)}: {what}: {text}"
        for path in SOURCES for text in prose(path)
        for what in missing(text, home_page(path) or RULES)
    )


def test_the_rules_refer_to_sections_that_are_there():
    """On docs/controller.md itself a number in parentheses is one of its sections."""
    found = re.findall(rf"\(({DOTTED}(?:(?:, | and ){DOTTED})*)[,)]", RULES.read_text("utf-8"))
    assert len(found) > 50
    assert {number for some in found for number in re.findall(DOTTED, some)} <= set(sections(RULES))


def test_a_source_says_whose_sections_it_cites():
    """A section without a page is one of the page of rules that the head of the file names."""
    assert_none(
        f"{name_of(path)}: the head names no page of rules: {text}"
        for path in SOURCES
        for text in prose(path)
        if home_page(path) is None and any(page is None for page, _ in citations(text))
    )


def test_no_number_stands_alone():
    """A number by itself may be a section or a version of Kafka: a word says which."""
    assert_none(
        f"{name_of(path)}: {text}"
        for path in SOURCES for text in prose(path) if ALONE.search(text)
    )


def test_nobody_cites_what_is_not_here():
    """No other specification, and no page that has another name or place."""
    assert_none(
        f"{name_of(path)}: {match[0]}"
        for path in [*SOURCES, *PAGES]
        if path != Path(__file__)
        for match in re.finditer(
            r"\bspecification\b|shared/spec|\bspec/", path.read_text("utf-8"), re.IGNORECASE
        )
    )
    assert_none(
        f"{name_of(path)}: {page}"
        for path in SOURCES
        for page in re.findall(r"[\w./-]+\.md\b", " ".join(prose(path)))
        if page not in ELSEWHERE and not page.startswith("../shared/data/")
        and not (ROOT / page).exists()
    )


def test_every_link_leads_somewhere():
    """To a file, and to a heading of it."""

    def leads(page, target):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        return file.exists() and (not anchor or anchor in anchors(file))

    assert_none(
        f"{name_of(page)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if "://" not in target and not leads(page, target)
    )


def test_every_file_that_a_page_names_is_there():
    """Wherever a path begins with a folder of the repository, but for what commands make."""
    pattern = rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./*-]*"
    assert_none(
        f"{name_of(page)}: {name}"
        for page in PAGES
        for name in re.findall(pattern, page.read_text("utf-8"))
        if not name.startswith(tuple(MADE)) and not any(ROOT.glob(name.rstrip("./")))
    )


def test_the_examples_that_show_an_answer_read_what_is_there():
    """What a command is given is in the repository, or a command of the page has made it."""

    def inputs(text):
        for line in re.findall(r"^```console.*\n\$ (.*)$", text, re.MULTILINE):
            _, command, *words = shlex.split(line)
            if isinstance(commands.get_command(None, command), click.Group):
                words = words[1:]
            yield from (word for at, word in enumerate(words) if not word.endswith("B/s")
                        and ("/" in word or (at == 0 and not word.startswith("-"))))

    def made(text):
        return " ".join(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)).split()

    texts = {page: page.read_text("utf-8") for page in PAGES}
    assert_none(
        f"{name_of(page)}: {word}"
        for page, text in texts.items()
        for word in inputs(text)
        if not (ROOT / word).exists() and word not in made(text)
    )


def test_the_table_of_modules_names_modules():
    """The first column of docs/architecture.md: files and folders of the package."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    assert len(rows) > 10
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert (ROOT / "kfast" / name).exists(), name


def test_the_table_of_rules_is_current():
    """docs/rules.md is what `python -m docs.rules_table` writes."""
    assert rules_table.PAGE.read_text("utf-8") == rules_table.page(), (
        "write docs/rules.md anew: python -m docs.rules_table"
    )


def test_every_section_has_a_rule_and_a_test():
    """Of chapters 2 to 8 of docs/controller.md."""
    assert_none(
        f"section {heading} has no {wanted}"
        for heading, row in rules_table.table().items()
        for wanted, files in (("rule", row["rules"] + row["kernels"]), ("test", row["tests"]))
        if not files
    )
