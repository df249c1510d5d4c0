"""The command that replays real logs: `kfast replay`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kfast.analysis.conditions import parse_condition
from kfast.cli.command import command
from kfast.cli.options import controller_option, output_options, plot_option, top_option
from kfast.cli.output import Destination, echo, progress_bar
from kfast.errors import ArgumentError, InputError
from kfast.io import open_metadata
from kfast.log_replay import Replay, ReplayInterrupted, replay
from kfast.metadata_replay import MetadataReplay, replay_metadata
from kfast.report.metadata_replay import metadata_replay_answer
from kfast.report.pictures import write_picture
from kfast.report.replay import REPLAY_METRICS, REPLAY_TABLES, replay_answer, replay_picture

__all__ = ["replay_command"]


@command("replay")
@click.argument("directory", nargs=-1, required=True, metavar="DIRECTORY...")
@controller_option(
    "Controller whose logs these are.  [default: the one that they tell]"
)
@top_option("contradictions, warnings, and times without a leader", default=20)
@plot_option("Brokers up, controllers, and partitions without a leader over time")
@output_options(REPLAY_TABLES, REPLAY_METRICS)
def replay_command(
    directory: tuple[str, ...], controller: str | None, top: int, plot: Path | None,
    **options: Any
) -> None:
    r"""Replay the logs of real controllers, and see what happened and what does not agree.

    Each DIRECTORY is searched for the controller.log and state-change.log files of one or several
    brokers, also rotated and packed ones; files may be given too. Every event in them runs through
    kfast's controller, and all that the logs say is compared with what it predicts.

    Of a KRaft cluster, DIRECTORY is the folder __cluster_metadata-0 of a controller or broker:
    every decision of its controllers is predicted from the records before it.

    Ctrl-C ends it with what is judged by then, and with the exit code 130.

    The exit code is 4 if anything is contradicted or missing: --fail-on 'contradicted>0' and
    'missing>0' are always tested. JSON lists all rows, whatever --top says.

    \b
    Examples:
      kfast replay /var/log/kafka
      kfast replay broker-1/logs broker-2/logs broker-3/logs
      kfast replay /var/lib/kafka/metadata/__cluster_metadata-0
      kfast replay incident/ --plot incident.svg
      kfast replay incident/ --format json -o incident.json
      kfast replay incident/ --controller 2.4 --fail-on 'adopted_percent>10'
    """
    destination = Destination.of(options, REPLAY_TABLES)
    of_metadata = any(map(_is_metadata, directory))
    if of_metadata and len(directory) > 1:
        raise ArgumentError("a metadata log is replayed alone: give one DIRECTORY")
    always = [
        parse_condition(f"{name}>0", REPLAY_METRICS) for name in ("contradicted", "missing")
    ]
    texts = [condition.text for condition in always]
    others = [one for one in destination.conditions if one.text not in texts]
    destination = replace(destination, conditions=(*always, *others))
    found: Replay | MetadataReplay
    with progress_bar("Replaying") as progress:
        if of_metadata:
            found = replay_metadata(directory[0], controller)
            answer = metadata_replay_answer(found, top=top)
        else:
            try:
                found = replay(directory, controller, progress=progress)
            except ReplayInterrupted as interrupted:
                answer = replay_answer(directory, interrupted.replay, top=top)
                replace(destination, conditions=()).write(answer)
                raise
            answer = replay_answer(directory, found, top=top)
    if plot is not None:
        write_picture(replay_picture(answer.document, found), plot)
        echo(f"Wrote {plot}.")
    destination.write(answer)


def _is_metadata(path: str) -> bool:
    try:
        open_metadata(path)
    except InputError:
        return False
    return True
