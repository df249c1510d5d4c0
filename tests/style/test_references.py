"""Every reference can be followed: sections that sources cite, links, files that pages name.

"section 2.4" means docs/controller.md, which the head of the file names; another page stands before
its section: docs/formats.md, section "Describe text".
"""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RULES = "docs/controller.md"
FOLDERS = ("kfast", "pyspark_kfast", "tests", "benchmarks", "bench_data", "docs")
SOURCES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyx", ".pxd", ".pyi", ".h"}
)
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "bench_data" / "README.md",
         *sorted((ROOT / "docs").glob("*.md"))]
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


def name_of(path):
    """A file's name in messages and test ids."""
    return path.relative_to(ROOT).as_posix()


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


def anchors(page):
    """What links to a page's headings end with."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings(page)}


def citations(text):
    """(page, section) of everything that a text cites; the page is None where it is not named."""
    for found in CITED.finditer(text):
        if not re.match(r"\d{4}, ", found[0]):  # what follows a year is a paper's
            for section in re.findall(rf'"[^"]+"|{NUMBER}', found[2]):
                yield found[1], section


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_section_that_a_source_cites_is_there(path):
    """And so are the steps, the rows and the names that it cites of a section."""
    for text in prose(path):
        for page, section in citations(text):
            assert section in sections(ROOT / (page or RULES)), f"{section}: {text}"
        for before, number, other, name, step in PART.findall(text):
            body = sections(ROOT / RULES)[number or other]
            wanted = rf"^ *{step}\. |- {step}:|\| {step} \|" if step else rf"\b{before or name}\b"
            assert re.search(wanted, body, re.MULTILINE), f"section {number or other}: {text}"


def test_the_rules_refer_to_sections_that_are_there():
    """On docs/controller.md itself a number in parentheses is one of its sections."""
    page = ROOT / RULES
    found = re.findall(rf"\(({DOTTED}(?:(?:, | and ){DOTTED})*)[,)]", page.read_text("utf-8"))
    assert len(found) > 50
    assert {number for some in found for number in re.findall(DOTTED, some)} <= set(sections(page))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_source_says_whose_sections_it_cites(path):
    """A section without a page is one of docs/controller.md, and the head of the file says so."""
    texts = prose(path)
    for text in texts:
        if any(page is None for page, _ in citations(text)):
            assert RULES in texts[0], f"the head does not name {RULES}: {text}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_number_stands_alone(path):
    """A number by itself may be a section or a version of Kafka: a word says which."""
    for text in prose(path):
        assert not ALONE.search(text), text


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=name_of)
def test_nobody_cites_what_is_not_here(path):
    """No other specification, and no page that has another name or place."""
    text = path.read_text("utf-8")
    if path != Path(__file__):
        assert not re.search(r"\bspecification\b|shared/spec|\bspec/", text, re.IGNORECASE)
    for found in re.findall(r"[\w./-]+\.md\b", "" if path in PAGES else " ".join(prose(path))):
        assert found in ELSEWHERE or (ROOT / found).exists() or found.startswith("../shared/data/")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    """To a file, and to a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_file_that_a_page_names_is_there(page):
    """Wherever a path begins with a folder of the repository, but for what commands make."""
    pattern = rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./*-]*"
    for name in re.findall(pattern, page.read_text("utf-8")):
        path = name.rstrip("./")
        made = any(path.startswith(folder) for folder in MADE)
        assert made or any(ROOT.glob(path)), name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_that_show_an_answer_read_what_is_there(page):
    """What a command is given is in the repository, or a command of the page has made it."""
    text = page.read_text("utf-8")
    made = " ".join(re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    for line in re.findall(r"^```console.*\n\$ (.*)$", text, re.MULTILINE):
        _, _, *words = shlex.split(line)
        given = [word for at, word in enumerate(words)
                 if "/" in word or (at == 0 and not word.startswith("-"))]
        for word in given:
            assert (ROOT / word).exists() or word in made.split(), line


def test_the_table_of_modules_names_modules():
    """The first column of docs/architecture.md: files and folders of the package."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    assert len(rows) > 10
    for name in re.findall(r"`([^`]+)`", " ".join(rows)):
        assert (ROOT / "kfast" / name).exists(), name
