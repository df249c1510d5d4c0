"""`kfast diff`: what changed between two exports of one cluster."""

from __future__ import annotations

from typing import Any

import click

from kfast.analysis.cluster_diff import diff
from kfast.cli.options import output_options, pair_options, take_pair, threads_option, top_option
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError
from kfast.report.cluster_diff import DIFF_TABLES, diff_answer
from kfast.schema import DIFF_MEASURES, DIFF_METRICS
from kfast.state.census import ELR_METRICS

__all__ = ["diff_command"]


@click.command("diff")
@pair_options()
@threads_option()
@top_option("topics and partitions")
@output_options(DIFF_TABLES, {**DIFF_METRICS, **DIFF_MEASURES, **ELR_METRICS})
def diff_command(old: str, new: str, threads: int, top: int, **options: Any) -> None:
    r"""Compare two exports of one cluster, and what the difference does to the answers.

    OLD and NEW are what other commands take as INPUT; two moments of one metadata log are the same
    INPUT twice, with --at-old and --at-new. All other options apply to both. Brokers are matched by
    id, topics by name, partitions by topic and number.

    The cluster is WORSE if more partitions than before are offline, under min ISR or
    under-replicated, now or after the failure of a single broker or rack, and BETTER if fewer are.
    A partition is newly fragile if the failure of a single broker takes it offline, or under min
    ISR, and no such failure did that before. A condition of --fail-on is about NEW, or about the
    change.

    \b
    Examples:
      kfast diff monday.txt tuesday.txt
      kfast diff monday.txt tuesday.txt --brokers-file brokers.csv --fail-on 'newly_fragile>0'
      kfast diff __cluster_metadata-0 __cluster_metadata-0 --at-old 1375 --at-new 1707
    """
    destination = Destination.of(options, DIFF_TABLES)
    if old == new == "-":
        raise ArgumentError("OLD and NEW cannot both be standard input")
    before, after = take_pair(old, new, options)
    with progress_bar("Comparing"):
        answer = diff_answer(old, new, diff(before, after, threads=threads), top=top)
    destination.write(answer)
