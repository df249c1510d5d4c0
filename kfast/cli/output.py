"""Where answers go: data to standard output or a file, all else to standard error."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from kfast.cli.exits import CONDITION_HOLDS, shown_lines
from kfast.errors import ArgumentError
from kfast.io import FORMATS
from kfast.io.text import writing
from kfast.state.display import escape_control

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from kfast.cli.options import Condition
    from kfast.report.answer import Answer

__all__ = [
    "ENDINGS", "KINDS", "Destination", "RowWriter", "busy", "check_format", "echo", "list_endings",
    "progress_bar",
]

WIDE = 1 << 16
"""Columns of a text that goes to a file or a pipe: nothing is ever folded there."""

LONG_BYTES = 1 << 24
"""Files of fewer bytes are read too fast for a progress bar to be of use."""

ENDINGS = {
    "table": (".txt",), "json": (".json",), "csv": (".csv",), "parquet": (".parquet",),
    "arrow": FORMATS["arrow"],
}
"""Forms of an answer (the first two) and of its tables, and the ends of file names for each."""

KINDS = tuple(ENDINGS)
ANSWERS = ("table", "json")
STANDARD_OUTPUT = Path("-")

ANSWER_KEY = b"kfast.answer"
"""Metadata of Arrow and Parquet files: the answer that the table is a part of, as JSON."""


@dataclass(frozen=True)
class Destination:
    """Where an answer goes and in which form, and when it is a failure.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    output : Path or None
        None for standard output.
    tables : mapping of str to (Path or None)
        The tables that are written, and where each goes.
    conditions : sequence of Condition
    """

    kind: str
    output: Path | None
    tables: Mapping[str, Path | None]
    conditions: Sequence[Condition] = ()

    @classmethod
    def take(cls, options: dict[str, Any], tables: Sequence[str]) -> Destination:
        """Take `output_options` out of all options of a command, before any work is done.

        Raises
        ------
        ArgumentError
            The file cannot be written, its name ends as nothing that is written here, or the form
            does not go with it.
        """
        kind, output, table = (options.pop(name) for name in ("kind", "output", "table"))
        if output == STANDARD_OUTPUT:
            output = None
        if output is not None and (output.suffix or kind is None):
            by_name = _kind_of(output)
            if kind is not None and kind != by_name:
                raise ArgumentError(f"{output} ends as {by_name} does, and --format says {kind}")
            kind = by_name
        kind = kind or ("table" if table is None else "csv")
        if table is not None and table not in tables:
            raise ArgumentError(
                f"this answer has no table {table}; it has: {', '.join(tables)}"
            )
        if kind == "table" and table is not None:
            raise ArgumentError("--table goes with --format csv, json, parquet or arrow")
        if kind in ("parquet", "arrow") and output is None and sys.stdout.isatty():
            raise ArgumentError(f"--format {kind} is not for a terminal: give a file, -o FILE")
        files: dict[str, Path | None] = {}
        if kind not in ANSWERS or table is not None:
            files = {table or tables[0]: output}
            if kind == "csv" and output is not None and table is None and len(tables) > 1:
                files = {
                    name: output.with_name(f"{output.stem}-{name}{output.suffix}")
                    for name in tables
                }
        for place in (output, *files.values()):
            if place is not None:
                _check_place(place)
        return cls(kind, output, files, options.pop("conditions", ()))

    @contextmanager
    def open_table(self, name: str, schema: pa.Schema) -> Iterator[RowWriter | None]:
        """Give a writer for the rows of a table; None where it is not asked for."""
        if name not in self.tables:
            yield None
            return
        path = self.tables[name]
        with writing(path or "-") as file, RowWriter(self.kind, file, schema, path) as rows:
            yield rows

    def give(self, answer: Answer) -> None:
        """Write the answer, or its tables; beside files of tables, the text is shown too.

        Ends with exit code 4 where a condition holds.
        """
        results = [
            (condition, step, summary[condition.metric], condition.holds(summary))
            for condition in self.conditions for step, summary in answer.summaries.items()
        ]
        answer.document["fail_on"] = [
            {"condition": f"{condition.text}{step}", "value": value, "holds": holds}
            for condition, step, value, holds in results
        ]
        with ExitStack() as stack:
            for name, make in answer.tables.items():
                if name in self.tables:
                    table = make()
                    schema = table.schema.with_metadata({ANSWER_KEY: _json(answer)})
                    rows = stack.enter_context(self.open_table(name, schema))
                    assert rows is not None, "it is among the tables that are asked for"
                    rows.write(table)
        if not self.tables:
            _write_answer(answer, self.kind, self.output)
        elif self.output is not None:
            _write_answer(answer, "table", None)
            echo(f"Wrote {', '.join(str(path) for path in self.tables.values())}.")
        for condition, step, value, holds in results:
            if holds:
                echo(f"--fail-on {condition.text} holds{step}: {condition.metric} is {value}")
        if any(holds for *_, holds in results):
            click.get_current_context().exit(CONDITION_HOLDS)


def _kind_of(output: Path) -> str:
    """Form that the end of a file's name asks for."""
    end = output.suffix.lower()
    for kind, ends in ENDINGS.items():
        if end in ends:
            return kind
    raise ArgumentError(_wrong_ending(output, ENDINGS))


def _wrong_ending(output: Path, endings: Mapping[str, Sequence[str]]) -> str:
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
        _check_place(output)


def _check_place(output: Path) -> None:
    if output.is_dir():
        raise ArgumentError(f"{output} is a folder; right is the name of a file in it")
    if not output.parent.is_dir():
        raise ArgumentError(f"the folder of {output} does not exist")


# --- writing -----------------------------------------------------------------------------------


def _write_answer(answer: Answer, kind: str, output: Path | None) -> None:
    if kind == "table" and output is None and sys.stdout.isatty():
        answer.draw(_console(None), answer.document)
        return
    with writing(output or "-") as file:
        file.write(_json(answer) if kind == "json" else _text(answer))


def _console(file: io.StringIO | None) -> Console:
    """A console on which a text is shown as it is: no markup, no emoji, no highlighting."""
    from rich.console import Console

    no_markup: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    if file is None:
        return Console(**no_markup)
    return Console(file=file, width=WIDE, color_system=None, **no_markup)


def _text(answer: Answer) -> bytes:
    text = io.StringIO()
    answer.draw(_console(text), answer.document)
    return "\n".join(line.rstrip() for line in text.getvalue().split("\n")).encode()


def _json(answer: Answer) -> bytes:
    return _encoded(answer.document, indent=2) + b"\n"


def _encoded(document: Any, indent: int | None = None) -> bytes:
    r"""JSON; what is not UTF-8 in the name of a file stands as an escape, such as \udcff."""
    import json

    text = json.dumps(document, indent=indent, ensure_ascii=False, default=_iso_time)
    return text.encode("utf-8", "backslashreplace")


class RowWriter:
    """Writes rows to a file in one of the forms of tables.

    Parameters
    ----------
    kind : {"csv", "json", "parquet", "arrow"}
    file : BinaryIO
    schema : pa.Schema
        Of the rows. In CSV a list is its items with commas between them; JSON has an object a line.
    path : Path or None
        Where the file will be in the end; None for standard output.
    """

    def __init__(
        self, kind: str, file: BinaryIO, schema: pa.Schema, path: Path | None = None
    ) -> None:
        import pyarrow as pa
        import pyarrow.csv as pa_csv
        import pyarrow.parquet as pq

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
        import pyarrow as pa

        n = rows.num_rows
        if self.kind == "csv":
            to_terminal = self.path is None and sys.stdout.isatty()
            columns = [_csv_column(column, to_terminal) for column in rows.columns]
            rows = pa.table(columns, schema=_csv_schema(rows.schema))
        self._writer.write_table(rows)
        self.n += n

    def describe(self, document: Mapping[str, Any]) -> None:
        """Put an answer that was not there at the beginning into a Parquet file's metadata."""
        if self.kind == "parquet":
            self._writer.add_key_value_metadata({ANSWER_KEY: _encoded(document)})

    def keep_partial(self) -> Path | None:
        """End the file here, under another name; None if it is no file that can have one."""
        self._writer.close()
        self._writer = None
        if self.path is None or (self.path.exists() and not self.path.is_file()):
            return None
        self.file.flush()
        partial = self.path.with_name(f"{self.path.stem}.partial{self.path.suffix}")
        return Path(self.file.name).replace(partial)


def _iso_time(value: Any) -> str:
    """A time as JSON has it."""
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
    import pyarrow as pa

    return pa.schema([
        pa.field(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in schema
    ])


def _csv_column(column: pa.ChunkedArray, to_terminal: bool) -> pa.ChunkedArray:
    """A column as CSV has it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type):
        column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    if to_terminal and pa.types.is_string(column.type):
        shown = [None if v is None else escape_control(v) for v in column.to_pylist()]
        column = pa.chunked_array([pa.array(shown, pa.string())])
    return column


# --- messages ----------------------------------------------------------------------------------


def echo(message: str) -> None:
    """Say something on standard error; what stands in it from files is shown as it is."""
    click.echo(shown_lines(message), err=True)


@contextmanager
def progress_bar(action: str, source: str = "") -> Iterator[Callable[[int, int], None] | None]:
    """Show how far something is: on a terminal; a source only if it is a large file."""
    if not sys.stderr.isatty() or (source and _size(source) < LONG_BYTES):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(action)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def _size(source: str) -> int:
    path = Path(source)
    return path.stat().st_size if path.is_file() else 0


@contextmanager
def busy(action: str) -> Iterator[None]:
    """Show that something is being done: on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(action):
        yield
