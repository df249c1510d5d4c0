"""The commands that make and save files, and the one that explains their columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kfast.cli.command import command
from kfast.cli.options import (
    Command,
    FilePath,
    Inputs,
    all_options,
    cluster_options,
    controller_options,
    number_option,
    output_options,
    seed_option,
    take_controller,
    take_tables,
)
from kfast.cli.output import Destination, echo, progress_bar
from kfast.errors import ArgumentError
from kfast.io import FORMATS, format_of, write
from kfast.io.controller_inference import untold_controller
from kfast.io.files import writing
from kfast.io.live import is_live, log_directories
from kfast.report.answer_schema import answer_schema
from kfast.report.columns import columns_answer
from kfast.report.writing import check_format, list_endings
from kfast.state import ClusterState
from kfast.state.controller_change import REASON
from kfast.state.generation import generate

__all__ = ["generate_command", "save", "schema_command"]

_FORMAT_HELP = f"Format of the file.  [default: as its name ends: {list_endings(FORMATS)}]"


def _file_options() -> Callable[[Command], Command]:
    """Options that name the file to write, and its format."""
    return all_options(
        click.option("--format", "format_name", type=click.Choice(tuple(FORMATS)),
                     help=_FORMAT_HELP),
        click.option("-o", "--output", type=FilePath(), required=True, metavar="FILE",
                     help="The file to write; - is standard output and needs --format."),
    )


@command("generate")
@number_option("--brokers", required=True, help="How many brokers.")
@number_option("--partitions", required=True, help="How many partitions, of all topics together.")
@number_option("--replication-factor", default=3, help="Replicas of each partition.")
@number_option("--racks", default=0, help="How many racks; 0 for none.")
@number_option("--topics", help="How many.  [default: one for every 100 partitions]")
@seed_option("The same seed always makes the same cluster.")
@click.option("--placement", type=click.Choice(("kafka", "uniform", "ring")), default="kafka",
              show_default=True, help="kafka: Kafka's own rack-aware rule.")
@click.option("--topic-sizes", type=click.Choice(("equal", "zipf")), default="equal",
              show_default=True, help="Partitions per topic.")
@number_option("--min-insync-replicas",
               help="min.insync.replicas of every topic.  [default: unset]")
@number_option("--unclean-topics", type=float, default=0.0, metavar="SHARE",
               help="Share of the topics that allow unclean leader election.")
@number_option("--first-broker-id", default=0, metavar="ID",
               help="Id of the first broker; the others follow.")
@number_option("--threads", default=1, help="Threads to use; the cluster does not depend on it.")
@controller_options("zk-3.9, off")
@_file_options()
def generate_command(format_name: str | None, output: Path, **options: Any) -> None:
    r"""Generate a cluster of any size, and write it to a file.

    \b
    Examples:
      kfast generate --brokers 12 --partitions 1000 --racks 3 -o cluster.arrow
      kfast generate --brokers 300 --partitions 1000000 --seed 7 -o large.parquet
      kfast generate --brokers 6 --partitions 50 --format describe -o -
      kfast generate --brokers 6 --partitions 50 --controller kraft-4.1 --elr on -o kraft.arrow
    """
    check_format(output, format_name)
    with progress_bar("Generating"):
        give_controller = take_controller(options)
        state = give_controller(generate(**options))
        write(state, output, format=format_name)
    _say_written(output, state.n_brokers, state.n_partitions)


@command()
@cluster_options()
@_file_options()
@click.option(
    "--sizes", type=FilePath(), metavar="FILE",
    help="Write the sizes of all replicas to this file, as --load takes them: what "
    "kafka-log-dirs --describe prints. INPUT is kafka://host:9092.",
)
def save(
    sources: Inputs, output: Path, format_name: str | None, sizes: Path | None, **options: Any
) -> None:
    r"""Save the cluster of INPUT as a file of any format.

    Several INPUTs become one file. Arrow and Parquet keep all that INPUT says, and null for what it
    does not say. A describe text has no place for racks, epochs, states and the controller, and a
    reassignment plan only for who holds what.

    \b
    Examples:
      kfast save describe.txt -o cluster.parquet --brokers-file brokers.csv
      kfast save describe.txt api-versions.txt configs.txt -o cluster.arrow
      kfast save cluster.arrow -o plan.json
      kfast save describe.txt -o - --format reassignment
      kfast save kafka://host:9092 -o cluster.arrow --sizes sizes.json
    """
    check_format(output, format_name)
    command_config = options["command_config"]
    tables = take_tables(sources, options)
    if isinstance(tables, ClusterState):
        state, notes = tables, tables.assumptions
    else:
        state = ClusterState.from_tables(
            tables.brokers, tables.topics, tables.partitions, tables.cluster, source=tables.source
        )
        notes = tables.notes
    for note in notes:
        if not note.startswith(REASON):
            echo(f"Note: {note}")
    write(tables, output, format=format_name)
    if (format_name or format_of(output)) == "describe" and (untold := untold_controller(state)):
        echo(f"Note: {untold}")
    _say_written(output, state.n_brokers, state.n_partitions)
    if sizes is not None:
        with writing(sizes) as file:
            file.write(log_directories(next(filter(is_live, sources), sources[0]), command_config))


def _say_written(output: Path, n_brokers: int, n_partitions: int) -> None:
    if str(output) != "-":
        echo(f"Wrote {output}: {n_brokers} brokers, {n_partitions} partitions.")


@command("schema")
@click.option("--answers", is_flag=True,
              help="Print the JSON Schema of what --format json writes, of all commands, instead.")
@output_options(("columns",), {})
def schema_command(answers: bool, **options: Any) -> None:
    r"""List every column of a cluster's tables: its types, its null and its meaning.

    \b
    Examples:
      kfast schema
      kfast schema --format json
      kfast schema --answers > answers.schema.json
    """
    if answers:
        if any(options.values()):
            raise ArgumentError("--answers goes alone; > FILE writes it to a file")
        click.echo(answer_schema(), nl=False)
        return
    Destination.of(options, ("columns",)).write(columns_answer())
