"""The commands that plan: `kfast restart` and `kfast risk`."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pyarrow.parquet as pq

from kfast.cli import planning_documents as documents
from kfast.cli.inputs import read_cluster
from kfast.cli.options import Condition, input_options, report_options
from kfast.cli.output import Answer, busy, check_conditions, check_output
from kfast.io.text import writing
from kfast.planning import restart_plan
from kfast.readiness import CAUSES
from kfast.risk import risk
from kfast.sets import live_brokers

__all__ = ["RESTART_METRICS", "RISK_COUNTS", "restart_command", "risk_command"]

RESTART_METRICS = {
    "batches": "batches of the plan",
    "lower_bound": "fewer batches are impossible",
    "brokers": "live brokers, all of which are in the plan",
    "may_restart": "brokers that may be restarted now, each alone",
    "may_not_restart": "brokers that some partition forbids to restart now",
    "unsatisfiable": "partitions that no order of restarts can satisfy",
    **{f"unsatisfiable_{name}": f"those where {meaning}" for name, meaning in CAUSES.items()},
}
"""What `--fail-on` of `kfast restart` takes."""

RISK_COUNTS = {
    "copysets": "distinct replica sets",
    "largest_scatter_width": "most other brokers that one broker shares a partition with",
    **{
        f"{who}_{metric}": f"most partitions that {words} take{ending} down: {metric}"
        for who, words, ending in (
            ("broker", "one broker", "s"), ("pair", "two brokers", ""), ("triple", "three", "")
        )
        for metric in ("offline_if_clean", "under_min_isr")
    },
}
"""What `--fail-on` of `kfast risk` takes."""


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of brokers with commas between, each once, ascending."""
    parts = [part.strip() for part in text.split(",")]
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,9}", part):
            raise click.BadParameter(f"{part!r} is not a number of brokers; right is 2 or 1,2,3")
    return tuple(sorted({int(part) for part in parts}))


@click.command("restart")
@input_options()
@click.option(
    "--isr-margin",
    type=click.IntRange(0, 63),
    default=0,
    show_default=True,
    metavar="N",
    help="How many live in-sync replicas above min ISR must be left in every partition.",
)
@click.option("--racks", "by_rack", is_flag=True, help="Rack by rack: a batch is within one rack.")
@click.option(
    "--seconds-per-broker",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="How long a broker takes to restart until it is back in every ISR; predicts the time.",
)
@click.option(
    "--ignore-unsatisfiable",
    is_flag=True,
    help="Let the members of partitions that no order can satisfy restart together. Without it "
    "they restart one at a time.",
)
@click.option(
    "--unsatisfiable",
    "unsatisfiable_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write every partition that no order can satisfy to this Parquet file.",
)
@report_options(RESTART_METRICS)
def restart_command(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    isr_margin: int,
    by_rack: bool,
    seconds_per_broker: float | None,
    ignore_unsatisfiable: bool,
    unsatisfiable_file: Path | None,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say which brokers may be restarted together, and which may be now.

    The plan has the fewest batches that kfast finds in which every live broker of INPUT restarts,
    so that no partition ever has fewer live in-sync replicas than min ISR (and the margin). Beside
    it stand the lower bound, the partitions that no order can satisfy, and the settings that cause
    it.

    \b
    Examples:
      kfast restart describe.txt --default min.insync.replicas=2
      kfast restart describe.txt --brokers-file brokers.csv --racks --seconds-per-broker 180
      kfast restart describe.txt --isr-margin 1 --fail-on 'may_not_restart>0'
      kfast restart describe.txt -o plan.parquet --unsatisfiable partitions.parquet
    """
    from kfast.cli.report_planning import draw_restart

    kind = check_output(kind, output)
    if unsatisfiable_file is not None:
        check_output("parquet", unsatisfiable_file)
    state = read_cluster(source, brokers_file, defaults, up)
    with busy("Planning restarts"):
        plan = restart_plan(
            state,
            isr_margin,
            by_rack,
            ignore_unsatisfiable=ignore_unsatisfiable,
            seconds_per_broker=seconds_per_broker,
        )
        document = documents.restart_document(source, state, plan, top, conditions)
    Answer(document, draw_restart, lambda: plan.brokers).give(kind, output)
    if unsatisfiable_file is not None:
        with writing(unsatisfiable_file) as file:
            pq.write_table(plan.readiness.partitions, file, compression="zstd")
    check_conditions(conditions, document["summary"])


@click.command("risk")
@input_options()
@click.option(
    "--down",
    type=numbers,
    metavar="NUMBERS",
    help="How many brokers fail at random, for the chances: 2 or 1,2,5.  [default: 1,2,3]",
)
@click.option(
    "--scenarios",
    type=click.IntRange(1, 100_000_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="How many random failures to draw where a chance cannot be counted.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Of these draws.",
)
@report_options(RISK_COUNTS)
def risk_command(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    down: tuple[int, ...] | None,
    scenarios: int,
    seed: int,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say how far failures reach in the cluster that INPUT describes.

    The chance that any partition goes down when brokers fail at random; the brokers, pairs and
    triples that take most down, and which topics; copysets (distinct replica sets) and each
    broker's scatter width (the others that it shares a partition with).

    \b
    Examples:
      kfast risk describe.txt --default min.insync.replicas=2
      kfast risk describe.txt --brokers-file brokers.csv --down 1,2,5 --top 3
      kfast risk describe.txt -o pairs.parquet --fail-on 'pair_offline_if_clean>0'
    """
    from kfast.cli.report_planning import draw_risk

    kind = check_output(kind, output)
    state = read_cluster(source, brokers_file, defaults, up)
    live = live_brokers(state).size
    wrong = [number for number in down or () if number > live]
    if wrong:
        raise click.UsageError(
            f"--down {wrong[0]}: {source} has {live} live brokers, so at most {live} can fail"
        )
    asked = tuple(number for number in (1, 2, 3) if number <= live) if down is None else down
    with busy("Counting failures"):
        found = risk(state, scenarios=scenarios, seed=seed)
        document = documents.risk_document(source, state, found, asked, top, conditions)
    Answer(document, draw_risk, lambda: found.pairs).give(kind, output)
    check_conditions(conditions, document["summary"])
