"""The commands that make and convert files, and the one that explains their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from kfast.cli import documents
from kfast.cli.options import input_options
from kfast.cli.output import Answer, busy, check_format, check_output, progress_bar
from kfast.io import FORMATS, read_tables, write
from kfast.state import ClusterState, generate

__all__ = ["convert", "generate_command", "schema_command"]

_FORMAT_HELP = (
    "Format of the file.  [default: as its name ends: "
    + "; ".join(f"{' '.join(ends)} {name}" for name, ends in FORMATS.items() if ends)
    + "]"
)


@click.command("generate")
@click.option("--brokers", type=int, required=True, metavar="N", help="How many brokers.")
@click.option(
    "--partitions",
    type=int,
    required=True,
    metavar="N",
    help="How many partitions, of all topics together.",
)
@click.option(
    "--replication-factor",
    type=int,
    default=3,
    show_default=True,
    metavar="N",
    help="Replicas of each partition.",
)
@click.option(
    "--racks",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="How many racks; 0 for none.",
)
@click.option(
    "--topics", type=int, metavar="N", help="How many.  [default: one for every 100 partitions]"
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="The same seed always makes the same cluster.",
)
@click.option(
    "--placement",
    type=click.Choice(("kafka", "uniform", "ring")),
    default="kafka",
    show_default=True,
    help="kafka: Kafka's own rack-aware rule.",
)
@click.option(
    "--topic-sizes",
    type=click.Choice(("equal", "zipf")),
    default="equal",
    show_default=True,
    help="Partitions per topic.",
)
@click.option(
    "--min-insync-replicas",
    type=int,
    metavar="N",
    help="min.insync.replicas of every topic.  [default: unset]",
)
@click.option(
    "--unclean-topics",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="Share of the topics that allow unclean leader election.",
)
@click.option(
    "--first-broker-id",
    type=int,
    default=0,
    show_default=True,
    metavar="ID",
    help="Id of the first broker; the others follow.",
)
@click.option(
    "--threads",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Threads to use; the cluster does not depend on it.",
)
@click.option("--format", "format_name", type=click.Choice(tuple(FORMATS)), help=_FORMAT_HELP)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The file to write; - is standard output and needs --format.",
)
def generate_command(format_name: str | None, output: Path, **sizes: Any) -> None:
    r"""Make up a cluster and write it to a file.

    \b
    Examples:
      kfast generate --brokers 12 --partitions 1000 --racks 3 -o cluster.arrow
      kfast generate --brokers 300 --partitions 1000000 --seed 7 -o large.parquet
      kfast generate --brokers 6 --partitions 50 --format describe -o -
    """
    check_format(output, format_name)
    with busy("Generating"):
        state = generate(**sizes)
        write(state, output, format=format_name)
    _say_written(output, state.n_brokers, state.n_partitions)


@click.command()
@input_options()
@click.argument("output", type=click.Path(path_type=Path), metavar="OUTPUT")
@click.option("--format", "format_name", type=click.Choice(tuple(FORMATS)), help=_FORMAT_HELP)
def convert(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    output: Path,
    format_name: str | None,
) -> None:
    r"""Read a cluster from INPUT and write it to OUTPUT in another format.

    Arrow and Parquet keep all that INPUT says, and null for what it does not say. A describe text
    has no place for racks, epochs and states, and a reassignment plan only for who holds what.

    \b
    Examples:
      kfast convert describe.txt cluster.parquet --brokers-file brokers.csv
      kfast convert cluster.arrow plan.json
      kfast convert describe.txt - --format reassignment
    """
    check_format(output, format_name)
    with progress_bar("Reading", source) as progress:
        tables = read_tables(
            source,
            brokers_file=brokers_file,
            defaults=dict(defaults),
            up=up or (),
            progress=progress,
        )
    state = ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster, source=tables.source
    )
    for note in tables.notes:
        click.echo(f"Note: {note}", err=True)
    write(tables, output, format=format_name)
    _say_written(output, state.n_brokers, state.n_partitions)


def _say_written(output: Path, n_brokers: int, n_partitions: int) -> None:
    if str(output) != "-":
        click.echo(f"Wrote {output}: {n_brokers} brokers, {n_partitions} partitions.", err=True)


@click.command("schema")
@click.option(
    "--format",
    "kind",
    type=click.Choice(("table", "json", "parquet")),
    help="How to answer.  [default: as the name in -o ends, else table]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer to this file, whole or not at all.",
)
def schema_command(kind: str | None, output: Path | None) -> None:
    r"""List every column of a cluster's tables: its types, its null and its meaning.

    \b
    Examples:
      kfast schema
      kfast schema --format json
    """
    from kfast.cli.report import draw_columns

    kind = check_output(kind, output)
    document = documents.columns_document()
    Answer(document, draw_columns, lambda: pa.Table.from_pylist(document["columns"])).give(
        kind, output
    )
