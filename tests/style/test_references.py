"""Every reference can be followed: sections that sources cite, links, files that pages name.

"section 2.4" means docs/controller.md, which the head of the file names; another page stands before
its section: docs/formats.md, section "Describe text".
"""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path

from tests.style.places import FOLDERS, PAGES, ROOT, SOURCES, assert_none, name_of

RULES = "docs/controller.md"
MADE = [
    line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if "/" in line[1:-1]
]
"""Folders that commands of the pages fill: they are in no checkout."""

NUMBER = r"[1-9](?:\.\d{1,2})?"
DOTTED = r"[1-9]\.\d{1,2}"
NUMBERS = rf"{NUMBER}(?:(?:, |,? and | to ){NUMBER})*(?![\w%])"
CITED = re.compile(rf'(?:(docs/\w+\.md), |\d{{4}}, )?\b[Ss]ections? ({NUMBERS}|"[^"]+")')
PART = re.compile(
    rf"`(\w+)[^`]*` of section ({NUMBER})"
    rf"|[Ss]ection ({NUMBER}), (?:`(\w+)|(?:steps?|rows?) ([A-Z]?\d+))"
)
ALONE = re.compile(rf"(?<![\w`\])])\({DOTTED}(?:(?:, | and | to ){DOTTED})*\)|^{DOTTED}[,:;]")
ELSEWHERE = {"Encodings.md", "thrift-compact-protocol.md", "growth.md"}
"""Pages of others, and one that a benchmark writes."""


def one_line(text):
    """A text without line breaks, and without what comments begin with."""
    return re.sub(r"\s*\n[\s#*]*", " ", text)


@functools.cache
def prose(path):
    """Docstrings and comments of a source, each on one line; the first is its head."""
    found = re.findall(r'"""(.*?)"""|/\*(.*?)\*/|((?:^[ \t]*#[^\n]*\n)+|#[^\n]*)',
                       path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [one_line(next(filter(None, parts), "")).strip(" #") for parts in found]


@functools.cache
def headings(page):
    """Headings of a page, and each with the text below it."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    parts = re.split(r"^#+ +(?=.)", text, flags=re.MULTILINE)
    return {part.split("\n", 1)[0]: part for part in parts[1:]}


@functools.cache
def sections(page):
    """The text of each section, by its number and by its name; a chapter has its sections'."""
    found = {}
    for heading, text in headings(page).items():
        found[f'"{heading}"'] = text
        number = re.match(rf"({NUMBER})\.? ", heading)
        if number:
            found[number[1]] = text
            found[number[1][0]] += text
    return found


@functools.cache
def anchors(page):
    """What links to a page's headings end with."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings(page)}


def citations(text):
    """(page, section) of everything that a text cites; the page is None where it is not named."""
    for found in CITED.finditer(text):
        if not re.match(r"\d{4}, ", found[0]):  # what follows a year is a paper's
            for section in re.findall(rf'"[^"]+"|{NUMBER}', found[2]):
                yield found[1], section


def test_every_section_that_a_source_cites_is_there():
    """And so are the steps, the rows and the names that it cites of a section."""

    def missing(text):
        for page, section in citations(text):
            if section not in sections(ROOT / (page or RULES)):
                yield section
        for before, number, other, name, step in PART.findall(text):
            body = sections(ROOT / RULES)[number or other]
            wanted = rf"^ *{step}\. |- {step}:|\| {step} \|" if step else rf"\b{before or name}\b"
            if not re.search(wanted, body, re.MULTILINE):
                yield f"section {number or other}, {step or before or name}"

    assert_none(
        f"{name_of(path)}: {what}: {text}"
        for path in SOURCES for text in prose(path) for what in missing(text)
    )


def test_the_rules_refer_to_sections_that_are_there():
    """On docs/controller.md itself a number in parentheses is one of its sections."""
    page = ROOT / RULES
    found = re.findall(rf"\(({DOTTED}(?:(?:, | and ){DOTTED})*)[,)]", page.read_text("utf-8"))
    assert len(found) > 50
    assert {number for some in found for number in re.findall(DOTTED, some)} <= set(sections(page))


def test_a_source_says_whose_sections_it_cites():
    """A section without a page is one of docs/controller.md, and the head of the file says so."""
    assert_none(
        f"{name_of(path)}: the head does not name {RULES}: {text}"
        for path in SOURCES
        for text in prose(path)
        if RULES not in prose(path)[0] and any(page is None for page, _ in citations(text))
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
            _, _, *words = shlex.split(line)
            yield from (word for at, word in enumerate(words)
                        if "/" in word or (at == 0 and not word.startswith("-")))

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
