"""Small CSV files that people write: a line of column names, then a row a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from functools import partial

from kfast.errors import InputError
from kfast.io.files import Source, check_utf8, load, quote

__all__ = ["exact_columns", "read_csv_rows"]


def read_csv_rows(
    path: Source, columns_of: Callable[[str, bytes], Sequence[str]]
) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """Read rows as texts by column; blank lines are left out.

    Parameters
    ----------
    path : path, or (str, bytes)
    columns_of : callable
        Called with what messages call the file and its beginning; returns the columns that the
        first line names, or raises.

    Returns
    -------
    name : str
    rows : list of (str, dict of str to str)
        Where each row stands, for messages, and its cells without blanks around them.

    Raises
    ------
    InputError
        It is damaged, or a line has another number of values.
    """
    name, data, head = load(path, columns_of)
    check_utf8(name, data)
    lines = csv.reader(io.StringIO(data.decode(), newline=""), skipinitialspace=True)
    try:
        numbered = [(lines.line_num, cells) for cells in lines]
    except csv.Error as error:
        raise InputError(f"{name} line {lines.line_num}: damaged CSV: {error}") from error
    rows = []
    for line, cells in numbered[1:]:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{name} line {line}"
        if len(cells) != len(head):
            raise InputError(f"{where}: found {len(cells)} values; right is {','.join(head)}")
        rows.append((where, dict(zip(head, (cell.strip() for cell in cells), strict=True))))
    return name, rows


def exact_columns(*columns: str) -> Callable[[str, bytes], Sequence[str]]:
    """What refuses a file whose first line does not name just these columns, in this order."""
    return partial(_check_columns, columns)


def _check_columns(columns: Sequence[str], name: str, data: bytes) -> Sequence[str]:
    line = data.split(b"\n", 1)[0].decode("utf-8", "replace")
    if [cell.strip().strip('"').lower() for cell in line.split(",")] != [*columns]:
        raise InputError(
            f"{name} line 1: found {quote(line)}; right is a line that names the columns:"
            f" {','.join(columns)}"
        )
    return columns
