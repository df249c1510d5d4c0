"""Where answers go: data to standard output or a file, all else to standard error."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from kfast.analysis.conditions import Condition
from kfast.analysis.impact import REQUEST_METRICS
from kfast.cli.defaults import DEFAULTS
from kfast.cli.exits import CONDITION_HOLDS
from kfast.cli.notes import echo, echo_error, is_quiet
from kfast.errors import ArgumentError
from kfast.io.files import writing
from kfast.io.live import is_live
from kfast.report.answer import Answer
from kfast.report.drawing import is_kraft
from kfast.report.writing import (
    ANSWER_KEY,
    ANSWERS,
    PAGE,
    STANDARD_OUTPUT,
    RowWriter,
    answer_json,
    check_place,
    kind_of_file,
    write_answer,
)

__all__ = ["Destination", "echo", "progress_bar"]

LONG_BYTES = 1 << 24
"""Files of fewer bytes are read too fast for a progress bar to be of use."""


@dataclass(frozen=True)
class Destination:
    """Where an answer goes and in which form, and when it is a failure.

    Parameters
    ----------
    kind : str
        One of `kfast.report.writing.KINDS`, or `PAGE`.
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
    def of(cls, options: dict[str, Any], tables: Sequence[str]) -> Destination:
        """Take `output_options` out of all options of a command, before any work is done.

        Raises
        ------
        ArgumentError
            The file cannot be written, its name ends as nothing that is written here, or the form
            does not go with it.
        """
        kind, table, output = options.pop("kind"), options.pop("table"), options.pop("output", None)
        if output == STANDARD_OUTPUT:
            output = None
        if output is not None and (output.suffix or kind is None):
            by_name = kind_of_file(output)
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
            raise ArgumentError(f"--format {kind} is not for a terminal: give a file, -o or > FILE")
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
                check_place(place)
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

    def write(self, answer: Answer) -> None:
        """Write the answer, or its tables; beside files of tables and pages, the text is shown.

        Ends with exit code 4 where a condition holds.
        """
        for condition in self.conditions:
            _check_metric(condition, answer)
        results = [
            (condition, step, value, condition.compare(value, condition.limit))
            for condition in self.conditions for step, summary in answer.summaries.items()
            for value in [summary[condition.metric]]
        ]
        answer.document["defaults"] = click.get_current_context().meta.get(DEFAULTS)
        answer.document["fail_on"] = [
            {"condition": f"{condition.text}{step}", "holds": holds,
             "value": None if value == math.inf else value}
            for condition, step, value, holds in results
        ]
        with ExitStack() as stack:
            for name, make in answer.tables.items():
                if name in self.tables:
                    table = make()
                    schema = table.schema.with_metadata({ANSWER_KEY: answer_json(answer)})
                    rows = stack.enter_context(self.open_table(name, schema))
                    assert rows is not None, "it is among the tables that are asked for"
                    rows.write(table)
        if not self.tables:
            write_answer(answer, self.kind, self.output)
        if self.output is not None and (self.tables or self.kind == PAGE):
            write_answer(answer, "table", None)
            paths = self.tables.values() or [self.output]
            echo(f"Wrote {', '.join(str(path) for path in paths)}.")
        for condition, step, value, holds in results:
            if holds:
                shown = "without end" if value == math.inf else value
                echo_error(f"--fail-on {condition.text} holds{step}: {condition.metric} is {shown}")
        if any(holds for *_, holds in results):
            click.get_current_context().exit(CONDITION_HOLDS)


def _check_metric(condition: Condition, answer: Answer) -> None:
    """Refuse a condition on what the controllers that were simulated do not have."""
    for one in answer.document.get("answers", [answer.document]):
        if condition.metric in REQUEST_METRICS and is_kraft(one):
            raise ArgumentError(
                f"--fail-on {condition.text}: {one['controller']['name']} sends no requests; it "
                "writes metadata records: records, partition_changes"
            )
    if any(condition.metric not in summary for summary in answer.summaries.values()):
        raise ArgumentError(
            f"--fail-on {condition.text}: the controller {answer.document['controller']['name']} "
            f"has no metric {condition.metric}"
        )
    if any(summary[condition.metric] is None for summary in answer.summaries.values()):
        raise ArgumentError(
            f"--fail-on {condition.text}: nothing in the input tells {condition.metric}"
        )


@contextmanager
def progress_bar(action: str, *sources: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show that something is being done, and how far it is: on a terminal.

    What reads sources gives it; only large files and running clusters show anything.
    """
    sizes = [path.stat().st_size for path in map(Path, sources) if path.is_file()]
    is_short = bool(sources) and sum(sizes) < LONG_BYTES and not any(map(is_live, sources))
    if is_short or is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(action, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
