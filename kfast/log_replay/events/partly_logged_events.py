"""Lines of events that began before the log does, or in a hole of it.

Its other lines may still tell what it is. Where they do not, nothing predicts what it decides and
sends: its lines are judged by one another, and what kfast replays begins with the next event.
"""

from __future__ import annotations

from collections.abc import Sequence

from kfast.log_replay.events.events import MARKS
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.terms.uncovered_lines import SEPARATE_MS
from kfast.log_replay.wording.forms import Statement


def partly_logged_lines(
    statements: Sequence[Statement], term: Term, first: int, lines: Sequence[int]
) -> list[int]:
    """Lines of an event of which the log shows the end only, if it does.

    Parameters
    ----------
    statements : sequence of Statement
    term : Term
    first : int
        Place of its first line after what is missing, among the term's.
    lines : sequence of int
        Lines of the term's cluster after what is missing, in order.

    Returns
    -------
    list of int
        Those of the controller, and of brokers about what it sent until the next event.
    """
    last = first
    own = term.statements
    while last < len(own) and not _begins(statements[own[last]]) and (
        last == first
        or statements[own[last]].entry.time - statements[own[last - 1]].entry.time < SEPARATE_MS
    ):
        last += 1
    begins = own[last] if last < len(own) else own[-1] + 1
    sends = next((at for at in own[last:] if statements[at].kind.startswith("sent_")), begins)
    return sorted({*own[first:last], *_of_earlier_requests(statements, lines, begins, sends)})


def _begins(line: Statement) -> bool:
    """Whether an event begins with a line; an automatic election is part of a check."""
    if line.kind == "election":
        return bool(line.fields["trigger"] != "AutoTriggered")
    return line.kind in MARKS


def _of_earlier_requests(
    statements: Sequence[Statement], lines: Sequence[int], begins: int, sends: int
) -> set[int]:
    """Lines of brokers about requests that they had before the controller sent one again.

    `begins` is the line with which the next event begins, `sends` the one with which it sends.
    A broker that is busy by then goes on with what it has got.
    """
    found: set[int] = set()
    handled: dict[int, set[int | None]] = {}
    last: dict[int, int] = {}
    done: set[int | None] = {None}
    for number in lines:
        line = statements[number]
        if line.kind == "process_started":
            done.add(line.fields.get("broker", line.actor_id))
        if line.actor != "broker" or line.actor_id in done:
            continue
        broker, correlation, time = line.actor_id, line.fields.get("correlation"), line.entry.time
        assert broker is not None
        earlier = handled.setdefault(broker, set())
        is_busy = time - last.get(broker, 0) < SEPARATE_MS
        if number < begins or (is_busy and (
            number < sends or correlation is None or correlation in earlier
        )):
            found.add(number)
            last[broker] = time
            earlier.add(correlation)
        else:
            done.add(broker)
    return found
