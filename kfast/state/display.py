"""How objects look where they are printed: one line of text, in a notebook a small HTML table.

Both are made of the same few facts, and are bounded in size whatever the cluster. Topic and rack
names, paths and other text from outside come out with their control characters escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeAlias

__all__ = ["Summary", "escape_control", "summary_html", "summary_text"]

Fact: TypeAlias = str | float | bool
Summary: TypeAlias = tuple[str, Mapping[str, Fact | None]]
"""A title, and facts by their labels, the important ones first. What is None or False is left out;
of what is True the text has only the label."""

MAX_TEXT = 300
MAX_HTML = 8000
"""Characters of the line, and bytes of the table. Facts that do not fit are left out."""

MAX_TEXT_VALUE = 90
MAX_HTML_VALUE = 400
"""Characters of one title, label or value."""

MORE = "..."


class Summarized(Protocol):
    """An object that gives its title and facts."""

    def _summary(self) -> Summary: ...


def escape_control(text: str) -> str:
    r"""Make visible what a terminal or a browser would obey or hide.

    Control characters, line and paragraph separators, controls of the direction of text, other
    invisible characters and lone surrogates become ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``. Letters,
    digits, marks, symbols and the plain blank stay (`str.isprintable`); so does a backslash.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def summary_text(subject: Summarized) -> str:
    """One line of at most `MAX_TEXT` characters: a `__repr__`."""
    title, facts = subject._summary()
    line, separator = f"<{_fit(title, MAX_TEXT_VALUE)}", ": "
    for label, value in _present(facts):
        phrase = f"{separator}{_phrase(label, value)}"
        if len(line) + len(phrase) + len(f"{separator}{MORE}>") > MAX_TEXT:
            return f"{line}{separator}{MORE}>"
        line, separator = f"{line}{phrase}", ", "
    return f"{line}>"


def summary_html(subject: Summarized) -> str:
    """A table of at most `MAX_HTML` bytes with a row for each fact: a `_repr_html_`."""
    title, facts = subject._summary()
    head = f"<table><caption>{_cell(title)}</caption><tbody>"
    end = "</tbody></table>"
    more = f"<tr><th>{MORE}</th><td></td></tr>"
    rows, room = "", MAX_HTML - len(f"{head}{more}{end}".encode())
    for label, value in _present(facts):
        row = f"<tr><th>{_cell(label)}</th><td>{_cell('yes' if value is True else value)}</td></tr>"
        room -= len(row.encode())
        if room < 0:
            return f"{head}{rows}{more}{end}"
        rows += row
    return f"{head}{rows}{end}"


def _present(facts: Mapping[str, Fact | None]) -> Iterator[tuple[str, Fact]]:
    for label, value in facts.items():
        if value is not None and value is not False:
            yield label, value


def _phrase(label: str, value: Fact) -> str:
    """A fact in a sentence: numbers stand before what they count."""
    if value is True:
        return _fit(label, MAX_TEXT_VALUE)
    if isinstance(value, str):
        return _fit(f"{label} {value}", MAX_TEXT_VALUE)
    if value == 1:
        label = label.removesuffix("es") if label.endswith("ches") else label.removesuffix("s")
    return _fit(f"{value} {label}", MAX_TEXT_VALUE)


def _cell(value: Fact) -> str:
    return html.escape(_fit(str(value), MAX_HTML_VALUE))


def _fit(text: str, most: int) -> str:
    """Escape a text, and cut it to `most` characters."""
    escaped = escape_control(text[: most + 1])
    return escaped if len(escaped) <= most else f"{escaped[: most - len(MORE)]}{MORE}"
