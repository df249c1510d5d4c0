"""`kfast sweep`: what many failures would do, the worst first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from msgspec import json

from kfast import scenarios as makers
from kfast.cli.inputs import read_cluster
from kfast.cli.options import Condition, fail_on_option, input_options
from kfast.cli.output import Answer, check_conditions, check_parquet
from kfast.cli.sweep_answer import Worst, draw_sweep, sweep_document
from kfast.errors import ArgumentError, InputError
from kfast.scenarios import Scenarios
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, Progress, sweep_reader, sweep_schema

__all__ = ["sweep_command"]

FRESH_SEED = 1


@dataclass(frozen=True)
class _Asked:
    """Which scenarios were asked for."""

    every: int | None
    racks: bool
    racks_and_broker: bool
    n_random: int | None
    down: int | None
    probability: float | None
    table: Path | None
    seed: int

    def make(self, state: ClusterState) -> tuple[str, Scenarios]:
        """What they are called, and the scenarios.

        Raises
        ------
        click.UsageError
            Not exactly one kind was asked for, or an option has nothing to do with it.
        """
        kinds = [self.every, self.racks or None, self.racks_and_broker or None, self.n_random,
                 self.table]
        if sum(kind is not None for kind in kinds) != 1:
            raise click.UsageError(
                "say which failures: one of --every K, --racks, --racks-and-broker, --random N "
                "or --table FILE"
            )
        if (self.n_random is not None) != ((self.down is None) != (self.probability is None)):
            raise click.UsageError("--random N goes with one of --down K and --probability P")
        if self.every is not None:
            name = "Every broker" if self.every == 1 else f"Every {self.every} brokers"
            return name, makers.every_broker(state, self.every)
        if self.racks:
            return "Every rack", makers.every_rack(state)
        if self.racks_and_broker:
            return "Every rack and one more broker", makers.every_rack_and_broker(state)
        if self.table is not None:
            return f"Scenarios of {self.table}", makers.scenarios_from_table(
                state, _read_table(self.table)
            )
        drawn = f"({self.n_random} drawn at random, seed {self.seed})"
        n = self.n_random or 0
        if self.down is not None:
            name = f"{self.down} broker{'s' * (self.down != 1)} {drawn}"
            return name, makers.random_brokers(state, self.down, n, self.seed)
        share = self.probability or 0.0
        return f"Each broker with probability {share} {drawn}", makers.independent_brokers(
            state, share, n, self.seed
        )


def _read_table(path: Path) -> pa.Table:
    """A table of scenarios: Parquet, or CSV with the columns scenario,broker."""
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path)
        return pa_csv.read_csv(path)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: {error}") from error


@click.command("sweep")
@input_options()
@click.option("--every", type=click.IntRange(1), metavar="K", help="Every K brokers together.")
@click.option("--racks", is_flag=True, help="Every rack.")
@click.option("--racks-and-broker", is_flag=True, help="Every rack and one more broker.")
@click.option("--random", "n_random", type=click.IntRange(1), metavar="N", help="N at random.")
@click.option("--down", type=click.IntRange(0), metavar="K", help="With --random: K brokers each.")
@click.option(
    "--probability",
    type=click.FloatRange(0, 1),
    metavar="P",
    help="With --random: each broker fails with this probability, whatever the others do.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=FRESH_SEED,
    show_default=True,
    metavar="N",
    help="With --random: one seed always draws the same scenarios.",
)
@click.option(
    "--table",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Scenarios from a CSV or Parquet file with the columns scenario (1 or more) and broker.",
)
@click.option(
    "--from",
    "first",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Go on with scenario N, where an interrupted sweep ended.",
)
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, metavar="N",
              help="Threads to use; the answer does not depend on it.")
@click.option("--format", "kind", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="How to answer.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE.parquet",
    help="Write one row per scenario to this Parquet file; an interrupted sweep leaves the rows "
    "of the scenarios that are done.",
)
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many scenarios to list, the worst first.")
@fail_on_option(SWEEP_COUNTS)
def sweep_command(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    every: int | None,
    racks: bool,
    racks_and_broker: bool,
    n_random: int | None,
    down: int | None,
    probability: float | None,
    seed: int,
    table: Path | None,
    first: int,
    threads: int,
    kind: str,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say what many failures would do to the cluster that INPUT describes.

    Each scenario is a set of brokers that fail together, after the controller has started on the
    cluster as it is. The answer lists the worst, with the topics and partitions that make them so;
    --fail-on compares the largest value of any scenario.

    \b
    Examples:
      kfast sweep describe.txt --every 2
      kfast sweep describe.txt --brokers-file brokers.csv --racks --fail-on 'offline>0'
      kfast sweep describe.txt --random 100000 --down 3 --threads 2 -o sweep.parquet
    """
    asked = _Asked(every, racks, racks_and_broker, n_random, down, probability, table, seed)
    if output is not None:
        check_parquet(output)
    state = read_cluster(source, brokers_file, defaults, up)
    title, scenarios = asked.make(state)
    if first >= len(scenarios):
        raise ArgumentError(f"--from {first}: the last scenario is {len(scenarios) - 1}")
    worst = Worst(top)
    with _progress() as report:
        reader = sweep_reader(
            state, scenarios.slice(first, len(scenarios)), threads, progress=report
        )
        _run(reader, worst, output, first)
    document = sweep_document(source, state, title, scenarios, worst, output, conditions)
    Answer(document, draw_sweep, lambda: worst.table(scenarios)).give(kind, None)
    check_conditions(conditions, document["summary"])


def _run(
    reader: pa.RecordBatchReader, worst: Worst, output: Path | None, first: int
) -> None:
    """Take every batch; what is interrupted leaves whole batches and says how to go on."""
    if output is None:
        for batch in reader:
            worst.add(batch)
        return
    try:
        with pq.ParquetWriter(output, sweep_schema(), compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                worst.add(batch)
            writer.add_key_value_metadata({"kfast.sweep": json.encode(worst.summary).decode()})
    except KeyboardInterrupt:
        n = pq.read_metadata(output).num_rows
        click.echo(
            f"{output} holds {n} scenarios, up to number {first + n - 1}; go on with the same "
            f"command, --from {first + n} and another file",
            err=True,
        )
        raise


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """Show how many scenarios are done: on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    with progress.Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("Sweeping")
        yield lambda done, total: shown.update(task, completed=done, total=total)
