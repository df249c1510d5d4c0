"""Lines about decisions whose causes no line tells: the controller's own log does not cover them.

The two files of a broker are rotated apart from each other, so that controller.log may begin later
than state-change.log, or end earlier. What a controller decided meanwhile is unknown.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from kfast.log_replay.terms.terms import Term, tells_events
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.state_change_log import DECISIONS

SEPARATE_MS = 2_000
"""Lines of a controller this far apart are of two events."""

CAUSED = DECISIONS.keys() - {"sent_update_metadata", "sent_update_metadata_partition"}
"""Kinds of lines of state-change.log whose cause is a line of controller.log at every level: the
cause of a request to all brokers may be an ISR change, whose line is below INFO."""


def uncovered_lines(
    statements: Sequence[Statement], terms: Sequence[Term]
) -> dict[int, list[int]]:
    """Lines of terms that controller.log does not cover, by the last of those that stand together.

    Of a term without any line of controller.log, all.
    """
    parts: dict[int, list[int]] = {}
    for term in terms:
        own = term.statements
        begin, end = _covered(statements, term)
        parts.update((part[-1], part) for part in (own[:begin], own[end:]) if part)
    return parts


def unended_terms(
    terms: Sequence[Term], ended: Container[int]
) -> dict[int, tuple[Term, Term | None]]:
    """Terms whose logs may end before they do, each with the next one, by their last lines.

    A controller that dies writes no line about it, and one that resigns may do so after a hole. The
    logs of those with their last lines in `ended` do, and the next ones follow after a hole.
    """
    unended: dict[int, tuple[Term, Term | None]] = {}
    following: dict[int, Term] = {}
    for term in reversed(terms):
        after = following.get(term.cluster)
        if after is None or (
            after.opened and after.follows and after.start - term.end > SEPARATE_MS
        ):
            unended[term.statements[-1]] = term, after
            if term.statements[-1] in ended:
                term.until = term.end
                if after is not None:
                    after.follows = False
        following[term.cluster] = term
    return unended


def leave_out(
    statements: Sequence[Statement], terms: Sequence[Term], out: Container[int]
) -> None:
    """Take some of `uncovered_lines` out of the terms of one cluster.

    Parameters
    ----------
    statements : sequence of Statement
    terms : sequence of Term
        In order. Their lines, times, and whether they follow one another change; a term may have
        no line left.
    out : container of int
        Numbers of the lines, whole parts.
    """
    last: int | None = None
    for term in terms:
        own = term.statements
        places = [place for place, number in enumerate(own) if number not in out]
        begin, end = (places[0], places[-1] + 1) if places else (len(own), len(own))
        term.statements = own[begin:end]
        term.follows = last is not None and term.epoch == last + 1 and not begin
        last = term.epoch if begin < end == len(own) else None
        if begin == end:
            term.since, term.until = term.end + 1, term.end
            continue
        if begin:
            term.since = term.start = statements[own[begin]].entry.time
        if end < len(own):
            term.until = statements[own[end]].entry.time - 1
            term.end = statements[own[end - 1]].entry.time


def _covered(statements: Sequence[Statement], term: Term) -> tuple[int, int]:
    """Places of the first line of a term that controller.log covers, and of the one after it."""
    own = term.statements
    places = [place for place, number in enumerate(own) if tells_events(statements[number])]
    if not places:
        return len(own), len(own)
    times = [statements[number].entry.time for number in own]
    is_caused = [statements[number].kind in CAUSED for number in own]
    begin, end = places[0], places[-1] + 1
    while begin and times[begin] - times[begin - 1] < SEPARATE_MS:
        begin -= 1
    while end < len(own) and times[end] - times[end - 1] < SEPARATE_MS:
        end += 1
    if term.opened or not any(is_caused[:begin]):
        begin = 0
    if term.resigned or not any(is_caused[end:]):
        end = len(own)
    return begin, end
