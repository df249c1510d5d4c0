"""Holes: where lines of a controller are missing in the middle of its term.

A long silence shows one. A shorter silence is one where a topic is there afterwards that the
controller did not have, and that no line creates. The two files of a broker are rotated apart from
each other: where state-change.log begins later than controller.log, what it would have told is
missing until then.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence

from kfast.log_replay.terms.terms import Term, hides_isr_changes
from kfast.log_replay.terms.uncovered_lines import SEPARATE_MS
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.state_change_log import DECISIONS
from kfast.log_replay.wording.subjects import subjects

SILENCE_MS = 480_000
"""Where a controller checks balances every five minutes, a longer silence is a hole in its log."""

LONG_SILENCE_MS = 1_800_000
"""Where nothing is logged regularly, only a longer silence is taken for a hole."""

SHORT_SILENCE_MS = 5_000
"""A silence in which topics may have been created."""

FEWEST_LINES = 3
"""Lines about topics that nothing has created, before they are believed."""

CAUSES = frozenset({"elected", "broker_change", "new_topics", "shutdown", "delete_topics"})
"""Lines of controller.log after which there are lines in state-change.log, at its level."""

CHANGES = DECISIONS.keys() - {"partition_failed", "replica_failed"}
"""Lines of state-change.log at a level that the log has; errors stand in any."""

CHECKS = frozenset({"rebalance", "rebalance_check"})
"""Lines that a controller writes every five minutes."""


def is_regular(statements: Sequence[Statement], terms: Sequence[Term]) -> bool:
    """Whether the log shows the checks that are made every five minutes."""
    times = sorted(
        statements[at].entry.time for term in terms for at in term.statements
        if statements[at].kind in CHECKS
    )
    return sum(time - before >= 1000 for before, time in zip([0, *times], times, strict=False)) > 2


def note_holes(statements: Sequence[Statement], terms: Sequence[Term]) -> None:
    """Give the terms of a cluster the times of their holes, where a line would show what they send.

    At INFO no line does in some releases where an ISR has changed: what brokers receive meanwhile
    shows no hole.
    """
    regular = is_regular(statements, terms)
    for term in terms:
        if term.statements and not hides_isr_changes(statements, term):
            times = [statements[at].entry.time for at in term.statements]
            places = [bisect.bisect_left(term.statements, at)
                      for at in find_holes(statements, term, regular)]
            term.holes = [(times[place - 1], times[place]) for place in places]


def find_holes(statements: Sequence[Statement], term: Term, regular: bool) -> list[int]:
    """Numbers of the lines with which a term goes on after a hole, in order."""
    limit = SILENCE_MS if regular else LONG_SILENCE_MS
    found = [
        at for before, at in itertools.pairwise(term.statements)
        if statements[at].entry.time - statements[before].entry.time > limit
    ]
    return sorted({*found, *_before_unknown_topics(statements, term, found)})


def begin_of_state_changes(statements: Sequence[Statement], term: Term) -> int | None:
    """Where state-change.log begins, if controller.log tells of earlier events; else None.

    The line that announces what the first lines there are about, or else the first of them.
    """
    own = term.statements
    first = next((at for at in own if statements[at].kind in CHANGES), None)
    if first is None:
        return None
    causes = [at for at in own[: own.index(first)] if statements[at].kind in CAUSES]
    begin = statements[first].entry.time - SEPARATE_MS
    near = [at for at in causes if statements[at].entry.time > begin]
    if near == causes:
        return None
    return near[0] if near else first


def _before_unknown_topics(
    statements: Sequence[Statement], term: Term, holes: Sequence[int]
) -> list[int]:
    """The line after the longest silence before topics are there that no line creates."""
    known: set[str] | None = None
    since = 0
    unknown: list[int] = []
    for place, at in enumerate(term.statements):
        line = statements[at]
        if at in holes:
            return []
        if line.kind == "topics":
            known, since, unknown = set(line.fields["topics"]), place, []
        elif known is not None and line.kind in ("new_topics", "delete_topics"):
            known |= set(line.fields["topics"])
        elif known is not None and not {topic for (topic, _), _ in subjects(line)} <= known:
            unknown.append(place)
            if len(unknown) == FEWEST_LINES:
                times = [statements[n].entry.time for n in term.statements[since : unknown[0] + 1]]
                silence = max(range(1, len(times)), key=lambda n: times[n] - times[n - 1])
                is_hole = times[silence] - times[silence - 1] > SHORT_SILENCE_MS
                return [term.statements[since + silence]] if is_hole else []
    return []
