"""`kfast timeline --calibrate`: parameters of the time model from one's own logs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError
from kfast.report.calibration import CALIBRATION_TABLES, calibration_answer
from kfast.report.writing import write_answer
from kfast.timelines.calibration import fit_times
from kfast.timelines.interval_files import read_intervals

__all__ = ["calibration_option"]

ALLOWED = frozenset({
    "sources", "calibrate", "settings", "top", "output", "kind", "table", "quiet",
})
"""Options that go with --calibrate."""
VOTERS = "controller.quorum.voters"


def calibration_option() -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Option that fits parameters on logs, in place of what the command does otherwise."""
    def add(run: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--calibrate", is_flag=True,
            help="Fit the parameters on logs instead: INPUT are folders of controller.log and "
            "state-change.log files, a metadata log, or both. -o params.json is for --params.",
        )
        @wraps(run)
        def choose(calibrate: bool, **options: Any) -> None:
            if calibrate:
                _calibrate(options)
            else:
                run(**options)

        return choose

    return add


def _calibrate(options: dict[str, Any]) -> None:
    """Fit parameters on logs, and write them; beside a file of JSON the text is shown."""
    context = click.get_current_context()
    for param in context.command.params:
        name = str(param.name)
        if name not in ALLOWED and (
            context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        ):
            raise ArgumentError(f"{param.opts[0]} does not go with --calibrate")
    sources, settings = options["sources"], options["settings"]
    if set(settings) - {VOTERS}:
        raise ArgumentError(f"of --set only {VOTERS} goes with --calibrate")
    voters = settings.get(VOTERS)
    if voters is not None and not voters.isdecimal():
        raise ArgumentError(f"--set {VOTERS}={voters}: right is a whole number")
    destination = Destination.of(options, CALIBRATION_TABLES)
    with progress_bar("Reading the logs") as progress:
        intervals = read_intervals(
            sources, voters=voters and int(voters), progress=progress
        )
    answer = calibration_answer(sources, fit_times(intervals), options["top"])
    destination.write(answer)
    if destination.kind == "json" and destination.output is not None:
        write_answer(answer, "table", None)
