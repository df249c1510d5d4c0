"""The command that replays real logs: `kfast replay`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from kfast.analysis.conditions import parse_condition
from kfast.cli.options import controller_option, output_options, top_option
from kfast.cli.output import Destination, progress_bar
from kfast.log_replay import replay
from kfast.report.replay import REPLAY_METRICS, REPLAY_TABLES, replay_answer

__all__ = ["replay_command"]


@click.command("replay")
@click.argument("directory", nargs=-1, required=True, metavar="DIRECTORY...")
@controller_option(default=None)
@top_option("contradictions, warnings, and times without a leader", default=20)
@output_options(REPLAY_TABLES, REPLAY_METRICS)
def replay_command(
    directory: tuple[str, ...], profile: str | None, top: int, **options: Any
) -> None:
    r"""Replay the logs of real controllers, and see what happened and what does not agree.

    Each DIRECTORY is searched for the controller.log and state-change.log files of one or several
    brokers, also rotated and packed ones; files may be given too. Every event in them runs through
    kfast's controller, and all that the logs say is compared with what it predicts. The exit code
    is 4 if anything is contradicted: --fail-on 'contradicted>0' is always tested. JSON lists all
    rows, whatever --top says.

    \b
    Examples:
      kfast replay /var/log/kafka
      kfast replay broker-1/logs broker-2/logs broker-3/logs
      kfast replay incident/ --format json -o incident.json
      kfast replay incident/ --controller 2.4 --fail-on 'adopted_percent>10'
    """
    destination = Destination.of(options, REPLAY_TABLES)
    always = parse_condition("contradicted>0", REPLAY_METRICS)
    others = [one for one in destination.conditions if one.text != always.text]
    destination = replace(destination, conditions=(always, *others))
    with progress_bar("Replaying"):
        answer = replay_answer(directory, replay(directory, profile), top=top)
    destination.write(answer)
