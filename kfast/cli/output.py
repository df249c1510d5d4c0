"""Where answers go: data to standard output or a file, all else to standard error."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kfast.cli.exits import CONDITION_HOLDS
from kfast.cli.options import Condition
from kfast.io import FORMATS
from kfast.io.text import writing

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

__all__ = [
    "Answer", "busy", "check_conditions", "check_format", "check_output", "check_parquet",
    "progress_bar",
]

WIDE = 1 << 16
"""Columns of a text that goes to a file or a pipe: nothing is ever folded there."""

LONG_BYTES = 1 << 24
"""Files of fewer bytes are read too fast for a progress bar to be of use."""

ENDS = {".json": "json", ".parquet": "parquet"}


def check_output(kind: str | None, output: Path | None) -> str:
    """How to answer: as asked, or as the file's name ends.

    Raises
    ------
    click.UsageError
        The file cannot be written, or Parquet is asked for without a file.
    """
    if output is not None:
        _check_place(output)
    if kind is None:
        kind = "table" if output is None else ENDS.get(output.suffix.lower(), "table")
    if kind == "parquet" and output is None:
        raise click.UsageError("--format parquet needs a file: -o FILE")
    return kind


def check_format(output: Path, format: str | None) -> None:
    """Refuse a file that cannot be written, or whose name tells no format, before any work."""
    ends = {end for known in FORMATS.values() for end in known}
    if format is None and output.suffix.lower() not in ends:
        listed = "; ".join(f"{' '.join(known)} {name}" for name, known in FORMATS.items() if known)
        raise click.UsageError(
            f"the name of {output} tells no format: give --format, or end it as one of: {listed}"
        )
    _check_place(output)


def check_parquet(output: Path) -> None:
    """Refuse a file of rows that is not named as Parquet, or cannot be written."""
    if output.suffix.lower() != ".parquet":
        raise click.UsageError(f"{output}: rows are written as Parquet; end the name in .parquet")
    _check_place(output)


def _check_place(output: Path) -> None:
    if output.is_dir():
        raise click.UsageError(f"{output} is a folder; right is the name of a file in it")
    if not output.parent.is_dir():
        raise click.UsageError(f"the folder of {output} does not exist")


@dataclass(frozen=True)
class Answer:
    """One answer in the three forms that it may be asked for.

    Parameters
    ----------
    document : mapping
        What JSON says; the text is drawn from it too.
    draw : callable
        Writes the text to a rich console.
    table : callable
        Makes the rows that Parquet holds.
    """

    document: Mapping[str, Any]
    draw: Callable[[Console, Mapping[str, Any]], None]
    table: Callable[[], pa.Table]

    def give(self, kind: str, output: Path | None) -> None:
        """Write the answer."""
        if kind == "table" and output is None and sys.stdout.isatty():
            from rich.console import Console

            self.draw(Console(highlight=False), self.document)
            return
        data = {"table": self._text, "json": self._json, "parquet": self._parquet}[kind]()
        with writing(output or "-") as file:
            file.write(data)

    def _text(self) -> bytes:
        from rich.console import Console

        text = io.StringIO()
        console = Console(file=text, width=WIDE, color_system=None, highlight=False)
        self.draw(console, self.document)
        return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()).encode()

    def _json(self) -> bytes:
        from msgspec import json

        return json.format(json.encode(self.document), indent=2) + b"\n"

    def _parquet(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from msgspec import json

        summary = json.encode(self.document)
        sink = pa.BufferOutputStream()
        table = self.table().replace_schema_metadata({b"kfast.answer": summary})
        pq.write_table(table, sink, compression="zstd")
        data: bytes = sink.getvalue().to_pybytes()
        return data


def check_conditions(conditions: Sequence[Condition], summary: Mapping[str, int]) -> None:
    """End with exit code 4 where a condition holds; what holds is said on standard error."""
    holding = [condition for condition in conditions if condition.holds(summary)]
    for condition in holding:
        click.echo(
            f"--fail-on {condition.text} holds: {condition.metric} is {summary[condition.metric]}",
            err=True,
        )
    if holding:
        click.get_current_context().exit(CONDITION_HOLDS)


@contextmanager
def progress_bar(action: str, source: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show how far a file has been read: on a terminal, and only if it is large."""
    if not sys.stderr.isatty() or source == "-" or _size(source) < LONG_BYTES:
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
