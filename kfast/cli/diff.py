"""`kfast diff`: what changed between two exports of one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kfast.analysis.cluster_diff import diff
from kfast.cli.command import command
from kfast.cli.options import output_options, pair_options, take_pair, threads_option, top_option
from kfast.cli.output import Destination, progress_bar
from kfast.errors import ArgumentError, InputError
from kfast.report.answer_diff import ANSWER_DIFF_TABLES, answer_diff, read_answer
from kfast.report.cluster_diff import DIFF_TABLES, diff_answer
from kfast.schema import DIFF_MEASURES, DIFF_METRICS
from kfast.state.census import ELR_METRICS

__all__ = ["diff_command"]


@command("diff")
@pair_options()
@threads_option()
@top_option("topics and partitions")
@output_options(
    (*DIFF_TABLES, *ANSWER_DIFF_TABLES), {**DIFF_METRICS, **DIFF_MEASURES, **ELR_METRICS}
)
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

    OLD and NEW may also be two answers that one command gave with --format json: then the metrics
    of their summaries are compared.

    \b
    Examples:
      kfast diff monday.txt tuesday.txt
      kfast diff monday.txt tuesday.txt --brokers-file brokers.csv --fail-on 'newly_fragile>0'
      kfast diff __cluster_metadata-0 __cluster_metadata-0 --at-old 1375 --at-new 1707
      kfast diff sweep-monday.json sweep-tuesday.json
    """
    answers = read_answer(old), read_answer(new)
    if answers[0] is not None and answers[1] is not None:
        destination = Destination.of(options, ANSWER_DIFF_TABLES)
        _refuse_options(destination, options)
        destination.write(answer_diff(old, answers[0], new, answers[1]))
        return
    if answers != (None, None):
        one, other = (old, new) if answers[1] is None else (new, old)
        raise InputError(f"{one} is an answer of kfast and {other} is not; right are two of a kind")
    destination = Destination.of(options, DIFF_TABLES)
    before, after = take_pair(old, new, options)
    with progress_bar("Comparing"):
        answer = diff_answer(old, new, diff(before, after, threads=threads), top=top)
    destination.write(answer)


def _refuse_options(destination: Destination, options: Mapping[str, Any]) -> None:
    """Refuse what is said of clusters where answers are compared."""
    wrong = [name for name, value in options.items() if value]
    wrong += ["fail_on"] if destination.conditions else []
    if wrong:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise ArgumentError(f"{named}: OLD and NEW are answers, not clusters")
