"""The command line: which commands there are, and where. A command is loaded when it runs.

Each reads its arguments, calls the library, and hands over an answer.
"""

from __future__ import annotations

import os
import sys

import click

from kfast.cli.exits import TRACEBACK, Commands, check_streams, end_unwritten, report_fault
from kfast.cli.notes import quiet_option

__all__ = ["COMMANDS", "commands", "main"]

COMMANDS = {
    "capacity": ("capacity", "capacity_group",
        "Measure in bytes what brokers carry, and whether they can when others fail."),
    "compare": ("compare", "compare_command",
        "Compare what several controllers, or several settings, make of one failure or one sweep."),
    "completion": ("completion", "completion_command",
        "Print what bash, zsh or fish needs to complete commands and options."),
    "delete": ("cluster", "delete",
        "Check whether topics can be deleted, and see what their deletion does."),
    "diff": ("diff", "diff_command",
        "Compare two exports of one cluster, and what the difference does to the answers."),
    "fail": ("cluster", "fail",
        "Fail brokers or racks, and see what goes offline, refuses acks=all, and moves."),
    "generate": ("files", "generate_command",
        "Generate a cluster of any size, and write it to a file."),
    "pipeline": ("pipeline", "pipeline_command",
        "Keep tables, sweeps, summaries and alerts of many exports up to date."),
    "plan": ("plan", "plan_group",
        "Check and make reassignment plans in bytes."),
    "reassign": ("cluster", "reassign",
        "Check whether a reassignment plan is safe, and see what it moves."),
    "replay": ("replay", "replay_command",
        "Replay the logs of real controllers, and see what happened and what does not agree."),
    "report": ("report", "report_command",
        "Write a report of a cluster: one page of HTML to act on or to hand on."),
    "restart": ("planning", "restart_command",
        "Find out which brokers may be restarted now, and in which batches all may."),
    "risk": ("planning", "risk_command",
        "Measure how far failures reach, and how likely they are to take partitions offline."),
    "save": ("files", "save",
        "Save the cluster of INPUT as a file of any format."),
    "schema": ("files", "schema_command",
        "List every column of a cluster's tables: its types, its null and its meaning."),
    "show": ("cluster", "show",
        "Show a cluster as it is: what is offline, refuses acks=all or is under-replicated."),
    "sweep": ("sweep", "sweep_command",
        "Sweep over many failures, and see the worst and what makes them so."),
    "timeline": ("timeline", "timeline_command",
        "Time a failure, or many: when each is found and decided, and how long nobody leads."),
    "timeline-restart": ("timeline_restart", "timeline_restart_command",
        "Time a rolling restart, batch after batch, and what it costs partitions."),
    "timeline-growth": ("timeline_growth", "timeline_growth_command",
        "Time failovers of clusters that are planned, by their size, and see what would halve them."
    ),
}
"""Of each command the module in `kfast.cli`, its name there, and the first sentence of its help."""


def _print_version(ctx: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from kfast.cli.version import version_text

        click.echo(version_text())
        ctx.exit()


@click.group(
    cls=Commands,
    places=COMMANDS,
    params=[quiet_option()],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 kfast's own fault, 2 usage, 3 input unreadable or inconsistent, "
    "4 a --fail-on condition holds, 130 interrupted.",
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False,
              callback=_print_version,
              help="Show the version, and of what build and with which libraries.")
@click.option("--debug", is_flag=True, help=f"Show tracebacks of kfast's own faults ({TRACEBACK}).")
def commands(debug: bool) -> None:
    r"""What a Kafka cluster does when something fails, before it happens.

    kfast reads a cluster (the folder __cluster_metadata-0 of a KRaft controller, or the output of
    kafka-topics --describe), runs the logic of Kafka's own controller on it, and says what a
    failure does: which partitions go offline, which leaders move, what the controller sends or
    writes. It says the same of a reassignment and of deleting topics.

    \b
      kafka-topics.sh --bootstrap-server HOST:9092 --describe > describe.txt
      kfast show describe.txt
      kfast show __cluster_metadata-0
      kfast fail describe.txt --brokers 3
      kfast reassign describe.txt --plan plan.json
    """
    if debug:
        os.environ[TRACEBACK] = "1"


def main() -> None:
    """Run the command line."""
    sys.excepthook = report_fault
    check_streams()
    try:
        commands(prog_name="kfast")
    except OSError as error:
        end_unwritten(error)
