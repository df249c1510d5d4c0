"""The command that replays real logs: `kfast replay`."""

from __future__ import annotations

from pathlib import Path

import click

from kfast.cli import replay_documents
from kfast.cli.exits import CONDITION_HOLDS
from kfast.cli.options import Condition, condition_on
from kfast.cli.output import Answer, busy, check_conditions, check_output
from kfast.replay import RELEASES, replay

__all__ = ["replay_command"]

REPLAY_METRICS = {
    "facts": "facts that the logs state",
    "predicted": "facts that kfast predicts",
    "adopted": "facts that only the log can know",
    "adopted_percent": "share of the adopted facts, rounded up",
    "contradicted": "facts that do not agree with the others",
    "warnings": "damaged lines",
    "not_understood": "entries whose wording is unknown",
    "events": "events of the timeline",
    "leaderless": "times that a partition was without a leader",
    "longest_leaderless_s": "longest of them, in seconds, rounded up",
}


@click.command("replay")
@click.argument("directory", nargs=-1, required=True, metavar="DIRECTORY...")
@click.option(
    "--profile",
    metavar="NAME",
    help="Controller to simulate: a profile, or a release from "
    f"{RELEASES[0]} to {RELEASES[-1]}.  [default: the one that the wording of the logs tells]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("table", "json", "parquet")),
    help="How to answer. parquet is one row per fact, with the report in the file's metadata.  "
    "[default: as the name in -o ends, else table]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to this file, whole or not at all.",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=20,
    show_default=True,
    metavar="N",
    help="How many contradictions, warnings, and times without a leader to list. JSON lists all.",
)
@click.option(
    "--fail-on",
    "conditions",
    type=condition_on(REPLAY_METRICS),
    multiple=True,
    metavar="CONDITION",
    help="Exit with 4 if this holds, as in 'adopted_percent>10'. May be given more than once. "
    f"'contradicted>0' is always tested. Metrics: {', '.join(REPLAY_METRICS)}.",
)
def replay_command(
    directory: tuple[str, ...],
    profile: str | None,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Replay the logs of real controllers, and tell what happened.

    Each DIRECTORY is searched for the controller.log and state-change.log files of one or several
    brokers, also rotated and packed ones; files may be given too. Every event in them runs through
    kfast's controller, and all that the logs say is compared with what it predicts. The exit code
    is 4 if anything is contradicted.

    \b
    Examples:
      kfast replay /var/log/kafka
      kfast replay broker-1/logs broker-2/logs broker-3/logs
      kfast replay incident/ --format json -o incident.json
      kfast replay incident/ --profile 2.4 --fail-on 'adopted_percent>10'
    """
    from kfast.cli.report_replay import draw_replay

    kind = check_output(kind, output)
    always = condition_on(REPLAY_METRICS)("contradicted>0")
    conditions = (always, *(c for c in conditions if c.text != always.text))
    with busy("Replaying"):
        found = replay(directory, profile)
    document = replay_documents.replay_document(directory, found, top, conditions)
    Answer(document, draw_replay, lambda: found.facts).give(kind, output)
    summary = document["summary"]
    if summary["contradicted"]:
        click.echo(f"{summary['contradicted']} facts are contradicted", err=True)
    check_conditions(conditions[1:], summary)
    if summary["contradicted"]:
        click.get_current_context().exit(CONDITION_HOLDS)
