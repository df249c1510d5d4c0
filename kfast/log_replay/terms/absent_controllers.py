"""Lines of brokers about requests of controllers whose own logs are not here.

Where only some brokers' logs are at hand, the others' times as controller show in what the
brokers at hand received. Nothing predicts such lines: what they say is adopted.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kfast.log_replay.terms.terms import STALE_MS, Term, hides_isr_changes
from kfast.log_replay.terms.uncovered_lines import SEPARATE_MS
from kfast.log_replay.wording.forms import Statement

Pair = tuple[int, int]
"""A controller and its epoch."""

HANDLED_MS = 5_000
"""A broker has told of a request so long after it was sent, as a rule."""

FEWEST = 2
"""Lines that have to name a controller and an epoch before they are believed: a single one that
differs from its neighbours is a mistake in the log."""


def find_absent_controller_lines(
    statements: Sequence[Statement], terms: Sequence[Term]
) -> set[int]:
    """Numbers of the lines of brokers that are about requests of a controller that is not here.

    Parameters
    ----------
    statements : sequence of Statement
    terms : sequence of Term
        Of the controllers that are here; what was sent by one that had been replaced is unknown.
    """
    lines: dict[int | None, list[int]] = {}
    own: dict[tuple[int, int | None], list[tuple[int, Term]]] = {}
    for term in (term for term in terms if not term.replaced):
        own.setdefault((term.controller, term.epoch), []).append((_since(statements, term), term))
    pairs: dict[int, Pair] = {}
    for number, line in enumerate(statements):
        if line.actor == "broker":
            lines.setdefault(line.actor_id, []).append(number)
            pair = _pair(line)
            if pair is not None and not _is_here(
                line.entry.time, (*own.get(pair, ()), *own.get((pair[0], None), ()))
            ):
                pairs[number] = pair
    votes = Counter(pairs.values())
    absent = {number: pair for number, pair in pairs.items() if votes[pair] >= FEWEST}
    found: set[int] = set()
    for numbers in lines.values() if absent else ():
        found |= _of_absent(statements, numbers, absent)
    return found


def _since(statements: Sequence[Statement], term: Term) -> int:
    """From when on a controller's own log may be held to what brokers received from it.

    Where it tells of requests, its first line is not long after the first one.
    """
    if term.since is not None:
        return term.since
    is_late = not term.opened and not hides_isr_changes(statements, term)
    return term.start - (HANDLED_MS if is_late else STALE_MS)


def _is_here(time: int, terms: Iterable[tuple[int, Term]]) -> bool:
    """Whether one of some terms was not long ago, and its controller.log is here."""
    return any(
        since <= time <= (term.end + STALE_MS if term.until is None else term.until)
        and not any(begin + SEPARATE_MS < time < end for begin, end in term.holes)
        for since, term in terms
    )


def _pair(line: Statement) -> Pair | None:
    controller, epoch = line.fields.get("controller"), line.fields.get("controller_epoch")
    return None if controller is None or epoch is None else (controller, epoch)


def _of_absent(
    statements: Sequence[Statement], numbers: Sequence[int], absent: Mapping[int, Pair]
) -> set[int]:
    """Lines of one broker: those that do not say the epoch are as the ones around them.

    A line that names the controller alone begins or ends a request; what stands within a request
    may name neither.
    """
    fields = [number for number in numbers if _pair(statements[number]) is not None]
    found: set[int] = set()
    current: int | None = None
    for number in numbers:
        at = bisect.bisect_left(fields, number)
        following = fields[at] if at < len(fields) else None
        controller = statements[number].fields.get("controller")
        if following == number:
            current = number
        elif controller is not None:
            begins = statements[number].kind == "handling"
            order = (following, current) if begins else (current, following)
            current = next(
                (n for n in order
                 if n is not None and statements[n].fields["controller"] == controller), current,
            )
        if (following if current is None else current) in absent:
            found.add(number)
    return found
