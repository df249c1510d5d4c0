"""Answers and their tables in the forms that files have: text, JSON, CSV, Parquet and Arrow."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from rich.console import Console

from kfast.errors import ArgumentError
from kfast.io import FORMATS
from kfast.io.file_systems import AnyPath
from kfast.io.files import writing
from kfast.report.answer import Answer
from kfast.state.display import escape_control

__all__ = [
    "ANSWERS", "ANSWER_KEY", "ENDINGS", "KINDS", "PAGE", "SCHEMA_VERSION", "STANDARD_OUTPUT",
    "RowWriter", "answer_json", "check_format", "check_place", "json_text", "kind_of_file",
    "list_endings", "write_answer",
]

WIDE = 1 << 16
"""Columns of a text that goes to a file or a pipe: nothing is ever folded there."""

ENDINGS = {
    "table": (".txt",), "json": (".json",), "csv": (".csv",), "parquet": (".parquet",),
    "arrow": FORMATS["arrow"],
}
"""Forms of an answer (the first two) and of its tables, and the ends of file names for each."""

KINDS = tuple(ENDINGS)
ANSWERS = ("table", "json")
PAGE = "html"
"""The form that only the answer of `kfast report` has."""

STANDARD_OUTPUT = Path("-")

ANSWER_KEY = b"kfast.answer"
"""Metadata of Arrow and Parquet files: the answer that the table is a part of, as JSON."""


SCHEMA_VERSION = 1
"""Of answers in JSON: it rises where a name in them goes or means something else."""


def kind_of_file(output: Path) -> str:
    """Form that the end of a file's name asks for."""
    end = output.suffix.lower()
    for kind, ends in ENDINGS.items():
        if end in ends:
            return kind
    raise ArgumentError(_wrong_ending(output, ENDINGS))


def _wrong_ending(output: Path, endings: Mapping[str, Sequence[str]]) -> str:
    """Why the name of a file tells none of some forms, and which names do."""
    end = output.suffix
    fault = f"ends in {end}, which is not written here" if end else "has no ending"
    return f"the name {output} {fault}; right is one of: {list_endings(endings)}"


def list_endings(endings: Mapping[str, Sequence[str]]) -> str:
    """Forms, and the ends of file names for each, in a sentence."""
    return "; ".join(f"{' '.join(ends)} {kind}" for kind, ends in endings.items() if ends)


def check_format(output: Path, format: str | None) -> None:
    """Refuse a cluster's file that cannot be written, or whose name tells another format."""
    end = output.suffix.lower()
    formats = [name for name, ends in FORMATS.items() if end in ends]
    if format is None and not formats:
        raise ArgumentError(f"{_wrong_ending(output, FORMATS)}; or give --format")
    if format is not None and formats and format.split("-")[0] not in formats:
        raise ArgumentError(f"{output} ends as {formats[0]} does, and --format says {format}")
    if output != STANDARD_OUTPUT:
        check_place(output)


def check_place(output: AnyPath) -> None:
    """Refuse the name of a folder, and of a file in a folder of this machine that is not there."""
    if output.is_dir():
        raise ArgumentError(f"{output} is a folder; right is the name of a file in it")
    if isinstance(output, Path) and not output.parent.is_dir():
        raise ArgumentError(f"the folder of {output} does not exist")


def write_answer(answer: Answer, kind: str, output: Path | None) -> None:
    """Write an answer as text, JSON or a page; text that goes to a terminal fits its width."""
    if kind == "table" and output is None and sys.stdout.isatty():
        answer.draw(_console(None))
        return
    with writing(output or "-") as file:
        if kind == PAGE:
            assert answer.page is not None, "only a report is written as a page"
            file.write(answer.page())
        else:
            file.write(answer_json(answer) if kind == "json" else _text(answer))


def _console(file: io.StringIO | None) -> Console:
    """A console on which a text is shown as it is: no markup, no emoji, no highlighting."""
    no_markup: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    if file is None:
        return Console(color_system=None if os.environ.get("NO_COLOR") else "auto", **no_markup)
    return Console(file=file, width=WIDE, color_system=None, **no_markup)


def _text(answer: Answer) -> bytes:
    text = io.StringIO()
    answer.draw(_console(text))
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n")).encode()


def answer_json(answer: Answer) -> bytes:
    """The document of an answer as JSON."""
    document = {"schema_version": SCHEMA_VERSION, **answer.document}
    return _encoded(document, indent=2) + b"\n"


def _encoded(document: Any, indent: int | None = None) -> bytes:
    r"""JSON; what is not UTF-8 in the name of a file stands as an escape, such as \udcff."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=json_text)
    return text.encode("utf-8", "backslashreplace")


class RowWriter:
    """Writes rows to a file in one of the forms of tables.

    Parameters
    ----------
    kind : {"csv", "json", "parquet", "arrow"}
    file : BinaryIO
    schema : pa.Schema
        Of the rows. In CSV a list is its items with commas between them; JSON has an object a line.
    path : Path, RemotePath or None
        Where the file will be in the end; None for standard output.
    """

    def __init__(
        self, kind: str, file: BinaryIO, schema: pa.Schema, path: AnyPath | None = None
    ) -> None:
        self.kind, self.file, self.path = kind, file, path
        self.n = 0
        self._writer: Any
        if kind == "csv":
            self._writer = pa_csv.CSVWriter(file, _csv_schema(schema))
        elif kind == "json":
            self._writer = JsonLines(file)
        elif kind == "parquet":
            self._writer = pq.ParquetWriter(file, schema, compression="zstd")
        else:
            self._writer = pa.ipc.new_file(file, schema)

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, rows: pa.Table) -> None:
        """Write some rows."""
        n = rows.num_rows
        if self.kind == "csv":
            to_terminal = self.path is None and sys.stdout.isatty()
            columns = [_csv_column(column, to_terminal) for column in rows.columns]
            rows = pa.table(columns, schema=_csv_schema(rows.schema))
        self._writer.write_table(rows)
        self.n += n

    def describe(self, answer: Answer) -> None:
        """Put an answer that was not there at the beginning into a Parquet file's metadata."""
        if self.kind == "parquet":
            self._writer.add_key_value_metadata({ANSWER_KEY: answer_json(answer)})

    def keep_partial(self) -> Path | None:
        """End the file here, under another name; None if it is no file that can have one."""
        self._writer.close()
        self._writer = None
        if not isinstance(self.path, Path) or (self.path.exists() and not self.path.is_file()):
            return None
        self.file.flush()
        partial = self.path.with_name(f"{self.path.stem}.partial{self.path.suffix}")
        return Path(self.file.name).replace(partial)


def json_text(value: Any) -> str:
    """A time, or an exact decimal, as JSON has it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return value.isoformat()


class JsonLines:
    """Writes rows as JSON, an object a line; has the methods of pyarrow's writers."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write_table(self, rows: pa.Table) -> None:
        """Write some rows."""
        for batch in rows.to_batches(max_chunksize=1 << 12):
            self.file.writelines(_encoded(row) + b"\n" for row in batch.to_pylist())

    def close(self) -> None:
        """Nothing is left to write."""


def _csv_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with texts in place of lists."""
    return pa.schema([
        pa.field(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in schema
    ])


def _csv_column(column: pa.ChunkedArray, to_terminal: bool) -> pa.ChunkedArray:
    """A column as CSV has it."""
    if pa.types.is_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    if to_terminal and pa.types.is_string(column.type):
        shown = [None if v is None else escape_control(v) for v in column.to_pylist()]
        column = pa.chunked_array([pa.array(shown, pa.string())])
    return column
