"""Tables on a terminal: whole figures at any width.

A table that is too wide first breaks its headings, then folds its texts. What still does not fit is
left out from the right and named in a line below. Where only the first column would be left, each
row becomes a block of names and values. Numbers are never folded, lists of ids only between two of
them, and nothing is ever cut.

All text goes through `plain`: nothing that comes from a file is markup, or is obeyed by a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kfast.state.display import escape_control

__all__ = ["Row", "TableColumn", "TextTable", "plain", "text_column"]

Row: TypeAlias = Mapping[str, Any]

GAP = 2
"""Blanks between columns."""

NARROWEST_TEXT = 12
"""Columns to which a text may be folded before others are left out: more than a broker's id has."""

INDENT = 2


def plain(value: object, style: str = "") -> Text:
    """A value as text that a terminal shows as it is; control characters are escaped."""
    return Text(escape_control(str(value)), style)


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(cell, value)) or "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Parameters
    ----------
    heading : str
        Words with blanks or underscores between; broken into lines where that saves room.
    is_text : bool
        Texts stand to the left and may be folded; numbers stand to the right.
    value : str or callable
        What a row of a document has here: a key of the row, by default the heading, or a function.
    """

    heading: str
    is_text: bool = False
    value: str | Callable[[Row], object] = ""

    def cell_of(self, row: Row) -> object:
        """What a row of a document has in this column."""
        return self.value(row) if callable(self.value) else row[self.value or self.heading]

    @property
    def words(self) -> list[str]:
        """Words of the heading."""
        return self.heading.replace("_", " ").split()

    def heading_lines(self, width: int) -> str:
        """The heading, broken into lines of at most so many columns."""
        lines: list[str] = []
        for word in self.words:
            if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
                lines[-1] += f" {word}"
            else:
                lines.append(word)
        return "\n".join(lines)


def text_column(heading: str, value: str | Callable[[Row], object] = "") -> TableColumn:
    """A column of texts."""
    return TableColumn(heading, is_text=True, value=value)


class TextTable:
    """A table to be drawn: a title, columns, and rows of cells.

    Parameters
    ----------
    title : str
    columns : sequence of (TableColumn or str)
        A str is the heading of a column of numbers. The first column names the row, and is always
        there. What matters less stands further right.
    complete : bool
        Every column matters: where there is no room for all, each row becomes a block of lines.
    """

    def __init__(
        self, title: str, columns: Sequence[TableColumn | str], *, complete: bool = False
    ) -> None:
        self.title = title
        self.complete = complete
        self.columns = tuple(TableColumn(c) if isinstance(c, str) else c for c in columns)
        self.rows: list[list[Text]] = []

    def add_row(self, *values: object, style: str = "") -> None:
        """Add a row of values: texts, numbers, lists, None."""
        row = [v.copy() if isinstance(v, Text) else plain(cell(v)) for v in values]
        assert len(row) == len(self.columns), "a row has a cell for each column"
        for text in row if style else ():
            text.stylize(style)
        self.rows.append(row)

    def draw(self, console: Console) -> None:
        """Draw the table below an empty line, as wide as the console at most."""
        console.print()
        widths = self._widths(console.width)
        if len(widths) < (len(self.columns) if self.complete else min(2, len(self.columns))):
            self._draw_blocks(console)
            return
        console.print(self._table(widths))
        if len(widths) < len(self.columns):
            left_out = ", ".join(" ".join(c.words) for c in self.columns[len(widths) :])
            console.print(plain(f"Not shown for lack of width: {left_out}.", "dim"))

    def _widths(self, width: int) -> list[int]:
        """Widths of the columns that are shown: the first ones."""
        cells = [
            max((cell_len(line) for row in self.rows for line in row[at].plain.split("\n")),
                default=0)
            for at in range(len(self.columns))
        ]
        words = [max(map(cell_len, column.words)) for column in self.columns]
        narrowest = [
            max(word, min(cell, NARROWEST_TEXT) if column.is_text else cell)
            for column, cell, word in zip(self.columns, cells, words, strict=True)
        ]
        shown = len(narrowest)
        while shown and sum(narrowest[:shown]) + GAP * (shown - 1) > width:
            shown -= 1
        widths = narrowest[:shown]
        spare = width - sum(widths) - GAP * (shown - 1)
        for wanted in (cells, self._heading_widths(cells)):
            for at in range(shown):
                more = min(max(wanted[at] - widths[at], 0), spare)
                widths[at] += more
                spare -= more
        return widths

    def _heading_widths(self, cells: Sequence[int]) -> list[int]:
        """Widths at which headings have two lines."""
        two_lines = []
        for column, cell in zip(self.columns, cells, strict=True):
            whole = cell_len(" ".join(column.words))
            width = max(cell, 1)
            while width < whole and column.heading_lines(width).count("\n") > 1:
                width += 1
            two_lines.append(width)
        return two_lines

    def _table(self, widths: Sequence[int]) -> Table:
        table = Table(
            title=plain(self.title, "bold"), title_justify="left", box=box.SIMPLE_HEAD,
            show_edge=False, pad_edge=False, header_style="", padding=(0, 1, 0, 0),
        )
        for column, width in zip(self.columns, widths, strict=False):
            table.add_column(
                column.heading_lines(width), justify="left" if column.is_text else "right",
                overflow="fold", width=width, no_wrap=not column.is_text,
            )
        for row in self.rows:
            table.add_row(*row[: len(widths)])
        return table

    def _draw_blocks(self, console: Console) -> None:
        """Each row as lines of name and value."""
        console.print(plain(self.title, "bold"))
        for row in self.rows:
            for at, (column, text) in enumerate(zip(self.columns, row, strict=True)):
                blanks = " " * INDENT * (at > 0)
                line = Text(f"{blanks}{' '.join(column.words)}: ").append_text(text)
                console.print(line, overflow="fold", soft_wrap=False)
