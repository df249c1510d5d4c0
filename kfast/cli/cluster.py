"""The commands that show a cluster and what failures do to it: `kfast show`, `kfast fail`."""

from __future__ import annotations

from pathlib import Path

import click

from kfast.census import CENSUS_METRICS, take_census
from kfast.cli import documents
from kfast.cli.inputs import read_cluster
from kfast.cli.options import (
    Condition,
    broker_ids,
    input_options,
    names,
    profile_option,
    report_options,
    topic_partition,
)
from kfast.cli.output import Answer, busy, check_conditions, check_output
from kfast.explain import explain
from kfast.impact import CHANGE_METRICS, fail_brokers
from kfast.state import ClusterState

__all__ = ["fail", "show"]


@click.command()
@input_options()
@report_options(CENSUS_METRICS)
def show(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Show the cluster that INPUT describes, as it is.

    INPUT is a describe text, a reassignment plan (JSON), an Arrow or a Parquet file; - is standard
    input. Text may be packed with gzip or zstd.

    \b
    Examples:
      kfast show describe.txt
      kfast show describe.txt --brokers-file brokers.csv --format json
      kafka-topics.sh ... --describe | kfast show - --fail-on 'under_replicated>0'
    """
    from kfast.cli.report import draw_show

    kind = check_output(kind, output)
    state = read_cluster(source, brokers_file, defaults, up)
    census = take_census(state)
    document = documents.show_document(source, state, census, top, conditions)
    Answer(document, draw_show, lambda: census.partitions).give(kind, output)
    check_conditions(conditions, document["summary"])


@click.command()
@input_options()
@click.option("--brokers", type=broker_ids, metavar="IDS", help="Brokers that fail: 3,7.")
@click.option("--racks", type=names, metavar="NAMES", help="Racks all of whose brokers fail: a,b.")
@click.option(
    "--controlled",
    is_flag=True,
    help="Each broker first asks for its controlled shutdown, one after the other.",
)
@click.option(
    "--explain",
    "explained",
    type=topic_partition,
    multiple=True,
    metavar="TOPIC-PARTITION",
    help="Tell step by step why this partition ends as it does. May be given more than once.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    metavar="N",
    help="Threads to use; the answer does not depend on it.",
)
@profile_option()
@report_options({**CENSUS_METRICS, **CHANGE_METRICS})
def fail(
    source: str,
    brokers_file: Path | None,
    defaults: tuple[tuple[str, str], ...],
    up: tuple[int, ...] | None,
    brokers: tuple[int, ...] | None,
    racks: tuple[str, ...] | None,
    controlled: bool,
    explained: tuple[tuple[str, int], ...],
    threads: int,
    profile: str,
    kind: str | None,
    output: Path | None,
    top: int,
    conditions: tuple[Condition, ...],
) -> None:
    r"""Say what the failure of some brokers does to the cluster that INPUT describes.

    The controller starts on the cluster as it is; then the brokers fail, all at once. "Before" in
    the answer is after the start.

    \b
    Examples:
      kfast fail describe.txt --brokers 3,7
      kfast fail describe.txt --brokers 3 --controlled --explain orders-7
      kfast fail describe.txt --brokers-file brokers.csv --racks a --profile zk-2.4
      kfast fail describe.txt --brokers 3 --default min.insync.replicas=2 \
          --fail-on 'offline>0' --fail-on 'newly_under_min_isr>0'
    """
    from kfast.cli.report import draw_failure

    kind = check_output(kind, output)
    if explained and kind == "parquet":
        raise click.UsageError("--explain needs --format table or json")
    if not brokers and not racks:
        raise click.UsageError("say who fails: --brokers IDS, or --racks NAMES")
    state = read_cluster(source, brokers_file, defaults, up)
    failing, notes = _who_fails(source, state, brokers or (), racks or ())
    with busy("Failing brokers"):
        failure = fail_brokers(
            state, failing, controlled=controlled, threads=threads, profile=profile
        )
        stories = (
            explain(state, failing, explained, controlled=controlled, profile=profile)
            if explained
            else []
        )
    document = documents.failure_document(
        source, state, failure, racks or (), notes, stories, top, conditions
    )
    Answer(document, draw_failure, lambda: failure.impact.partitions).give(kind, output)
    check_conditions(conditions, document["summary"])


def _who_fails(
    source: str, state: ClusterState, brokers: tuple[int, ...], racks: tuple[str, ...]
) -> tuple[list[int], list[str]]:
    """Ids of the brokers that fail, and what is worth a note."""
    rack_of = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
    known = sorted({rack for rack in rack_of.values() if rack is not None})
    if racks and not known:
        raise click.UsageError(
            f"{source} has no racks, so --racks cannot be used; supply them with --brokers-file "
            "CSV, a file with the columns broker_id,rack"
        )
    unknown = [rack for rack in racks if rack not in known]
    if unknown:
        raise click.UsageError(
            f"rack {', '.join(unknown)} is unknown; the cluster has racks {', '.join(known)}"
        )
    up = dict(zip(state.broker_id.tolist(), state.registered.tolist(), strict=True))
    off = [broker for broker in brokers if not up.get(broker, True)]
    if off:
        raise click.UsageError(
            f"broker {', '.join(map(str, off))} is down already in {source}, so it cannot fail; "
            f"--up {','.join(map(str, off))} says that it is up"
        )
    inside = [broker for broker, rack in rack_of.items() if rack in racks]
    down = [broker for broker in inside if not up[broker]]
    failing = list(dict.fromkeys([*brokers, *(broker for broker in inside if up[broker])]))
    if not failing:
        raise click.UsageError(f"no broker of rack {', '.join(racks)} is up, so none can fail")
    notes = [f"broker {', '.join(map(str, down))} of these racks is down already"] if down else []
    return failing, notes
