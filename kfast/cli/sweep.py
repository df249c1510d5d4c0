"""`kfast sweep`: what many failures would do, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from click.core import ParameterSource

from kfast.analysis.worst_scenarios import WorstScenarios
from kfast.cli.command import command
from kfast.cli.notes import echo_error
from kfast.cli.options import (
    Command,
    FilePath,
    Inputs,
    all_options,
    cluster_options,
    down_option,
    input_text,
    number_option,
    output_options,
    seed_option,
    setting_option,
    take_cluster,
    threads_option,
    top_option,
)
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError
from kfast.report.sweep import sweep_answer
from kfast.report.wording import plural
from kfast.report.writing import RowWriter
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, prepare_sweep, sweep_reader, sweep_schema
from kfast.sweeps import scenario_makers as makers
from kfast.sweeps.scenarios import Scenarios

__all__ = [
    "KINDS", "add_batches", "from_option", "scenario_options", "sweep_command", "take_scenarios",
]

TABLES = ("scenarios", "worst")
KINDS = "--every K, --each-rack, --each-rack-and-broker, --random N or --scenarios FILE"

Named = tuple[str, Scenarios]


def scenario_options(*, seeded: bool = True) -> Callable[[Command], Command]:
    """Options that say which failures a sweep is over.

    Those of a command that draws other things too have its seed (`seeded` is False).
    """
    seed = seed_option("Of --random: one seed always draws the same failures.")
    return all_options(
        number_option("--every", type=click.IntRange(1), metavar="K",
                      help="Every K brokers together."),
        click.option("--each-rack", is_flag=True, help="Each rack."),
        click.option("--each-rack-and-broker", is_flag=True, help="Each rack and one more broker."),
        number_option("--random", "n_random", type=click.IntRange(1),
                      help="N failures at random; of --down or --probability."),
        down_option("How many brokers fail in each failure at random: 3."),
        number_option(
            "--probability", type=click.FloatRange(0, 1), metavar="P",
            help="At random, each broker fails with this probability, whatever the others do.",
        ),
        *([seed] if seeded else []),
        click.option(
            "--scenarios", "file", type=FilePath(), metavar="FILE",
            help="Failures of a CSV or Parquet file with the columns scenario (1 or more) and "
            "broker.",
        ),
    )


def from_option() -> Callable[[Command], Command]:
    """Option that goes on with a sweep."""
    return click.option(
        "--from", "first", type=click.IntRange(0), default=0, metavar="N",
        help="Go on with scenario N, where an interrupted sweep ended.",
    )


def take_scenarios(
    options: dict[str, Any], seed: int | None = None
) -> Callable[[ClusterState], Named] | None:
    """Take `scenario_options` out of a command's options: what makes the scenarios of a cluster.

    None where no kind of failures is asked for. `seed` is that of a command that has its own.

    Raises
    ------
    ArgumentError
        More than one kind is, or an option goes with another kind.
    """
    every, n_random, file = options.pop("every"), options.pop("n_random"), options.pop("file")
    down, probability = options.pop("down"), options.pop("probability")
    if (n_random is not None) != (bool(down) != (probability is not None)) or len(down) > 1:
        raise ArgumentError("--random N goes with one of --down K and --probability P")
    if seed is None:
        seed = options.pop("seed")
        source = click.get_current_context().get_parameter_source("seed")
        if n_random is None and source is ParameterSource.COMMANDLINE:
            raise ArgumentError("--seed goes with --random")
    kinds: list[tuple[Any, Callable[[ClusterState], Named]]] = [
        (every is not None, lambda state: (
            "Every broker" if every == 1 else f"Every {every} brokers",
            makers.every_broker(state, every),
        )),
        (options.pop("each_rack"), lambda state: ("Each rack", makers.every_rack(state))),
        (options.pop("each_rack_and_broker"),
         lambda state: ("Each rack and one more broker", makers.every_rack_and_broker(state))),
        (n_random is not None, lambda state: _random(state, n_random, down, probability, seed)),
        (file is not None, lambda state: (
            f"Scenarios of {file}", makers.read_scenarios(state, Path(file)),
        )),
    ]
    requested = [make for wanted, make in kinds if wanted]
    if len(requested) > 1:
        raise ArgumentError(f"give one kind of failures: {KINDS}")
    return requested[0] if requested else None


@command("sweep")
@cluster_options()
@scenario_options()
@from_option()
@setting_option()
@threads_option()
@top_option("scenarios")
@output_options(TABLES, SWEEP_COUNTS)
def sweep_command(sources: Inputs, first: int, threads: int, top: int, **options: Any) -> None:
    r"""Sweep over many failures, and see the worst and what makes them so.

    Each scenario is a set of brokers that fail together, after the controller has started on the
    cluster as it is. --fail-on compares the largest value of any scenario. A file of -o has one row
    per scenario; a sweep that is interrupted leaves the rows of the scenarios that are done in a
    file beside it.

    \b
    Examples:
      kfast sweep describe.txt --every 2
      kfast sweep describe.txt --brokers-file brokers.csv --each-rack --fail-on 'offline>0'
      kfast sweep describe.txt --random 100000 --down 3 --threads 2 -o sweep.parquet
    """
    destination = Destination.of(options, TABLES)
    make = take_scenarios(options)
    if make is None:
        raise ArgumentError(f"give one kind of failures: {KINDS}")
    state = take_cluster(sources, options)
    title, scenarios = make(state)
    if first >= len(scenarios):
        raise ArgumentError(f"--from {first}: the last scenario is {len(scenarios) - 1}")
    worst = WorstScenarios(top)
    with progress_bar("Sweeping") as progress:
        plan = prepare_sweep(state, threads=threads)
        reader = sweep_reader(
            plan, scenarios.slice(first, len(scenarios)), threads=threads, progress=progress
        )
        with destination.open_table("scenarios", sweep_schema()) as rows:
            if first:
                for baseline in sweep_reader(plan, scenarios.slice(0, 1), threads=threads):
                    worst.add(baseline)
            add_batches(reader, worst.add, rows, first)
            answer = sweep_answer(
                input_text(sources), state, title, scenarios, worst,
                None if rows is None or rows.path is None else str(rows.path),
            )
            if rows is not None:
                rows.describe(answer)
    destination.write(answer)


def _random(
    state: ClusterState, n: int, down: Sequence[int], probability: float | None, seed: int
) -> Named:
    drawn = f"({n} drawn at random, seed {seed})"
    if down:
        made = makers.random_brokers(state, down[0], n, seed)
        return f"{plural(down[0], 'broker')} {drawn}", made
    assert probability is not None, "it stands for --down"
    made = makers.independent_brokers(state, probability, n, seed)
    return f"Each broker with probability {probability} {drawn}", made


def add_batches(
    reader: Iterable[pa.RecordBatch], add: Callable[[pa.RecordBatch], None],
    rows: RowWriter | None, first: int,
) -> None:
    """Add every batch; what is interrupted leaves what is done and says how to go on."""
    try:
        for batch in reader:
            if rows is not None:
                rows.write(pa.Table.from_batches([batch]))
            add(batch)
    except KeyboardInterrupt:
        partial = rows.keep_partial() if rows is not None and rows.n else None
        if rows is not None and partial is not None:
            echo_error(
                f"{partial} holds {plural(rows.n, 'scenario')}, up to number "
                f"{first + rows.n - 1}; go on with the same command, --from {first + rows.n} and "
                "another file"
            )
        raise
