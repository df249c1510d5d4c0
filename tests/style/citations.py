"""What sources cite: their prose, sections of pages, and the citations in a text."""

from __future__ import annotations

import functools
import re

from tests.style.places import ROOT

RULES = ROOT / "docs" / "controller.md"
KRAFT_RULES = ROOT / "docs" / "kraft.md"
NUMBER = r"[1-9]\d?(?:\.\d{1,2})?"
DOTTED = r"[1-9]\d?\.\d{1,2}"
NUMBERS = rf"{NUMBER}(?:(?:, |,? and | to ){NUMBER})*(?![\w%])"
CITED = re.compile(rf'(?:(docs/\w+\.md), |\d{{4}}, )?\b[Ss]ections? ({NUMBERS}|"[^"]+")')


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
            found[number[1].partition(".")[0]] += text
    return found


def anchor_of(heading):
    """What a link to a heading ends with."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@functools.cache
def anchors(page):
    """What links to a page's headings end with."""
    return {anchor_of(heading) for heading in headings(page)}


@functools.cache
def home_page(path):
    """The page of rules that the head of a source names first, and cites without naming it."""
    head = next(iter(prose(path)), "")
    named = {page: head.find(f"docs/{page.name}") for page in (RULES, KRAFT_RULES)}
    return min((page for page in named if named[page] >= 0), key=named.get, default=None)


def citations(text):
    """(page, section) of everything that a text cites; the page is None where it is not named."""
    for found in CITED.finditer(text):
        if not re.match(r"\d{4}, ", found[0]):  # what follows a year is a paper's
            for section in re.findall(rf'"[^"]+"|{NUMBER}', found[2]):
                yield found[1], section


def rules_cited(text):
    """Sections of docs/controller.md that a text cites; "6.1 to 6.4" is each of the four."""
    for found in CITED.finditer(text):
        if re.match(r"\d{4}, ", found[0]) or found[1] not in (None, "docs/controller.md"):
            continue
        for first, last in re.findall(rf"({NUMBER})(?: to ({NUMBER}))?", found[2]):
            chapter, _, low = first.partition(".")
            if low and last.startswith(f"{chapter}."):
                yield from (f"{chapter}.{n}" for n in range(int(low), int(last[2:]) + 1))
            else:
                yield from (number for number in (first, last) if number)
