"""Terms: who was the controller when, with which epoch, and of which cluster.

A term is the reign of one controller. Its lines say its epoch again and again; a line that says
another one is outvoted (and contradicted later). Where epochs fall back, the cluster was set up
anew, and nothing that was known of the old one holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kfast.log_replay.terms.inventories import Inventory, take_inventory
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.state_change_log import WRITTEN_THERE

OPENING = frozenset({"elected", "epoch", "epoch_read", "becoming"})
CLOSING = frozenset({"resigning", "resigned", "process_started"})
"""Kinds after which a broker is not the controller, besides `other_elected`."""

PASSIVE = frozenset({
    "states no facts", "not understood", "other_elected", "connected", "topics_to_delete",
    "no_longer_shutting",
})
"""Kinds that a broker may write that is not the controller, or that tell nothing of a term."""

SOON_MS = 5_000
"""Brokers read who was elected within this time of the election, by their own clocks."""

STALE_MS = 600_000
"""After this long, lines of a controller that was replaced are no longer taken for its own."""


@dataclass
class Term:
    """The reign of one controller.

    Attributes
    ----------
    controller : int
        Broker id.
    epoch : int or None
        Controller epoch by majority; None where no line says it.
    start, end : int
        Times of its first and last line.
    opened : bool
        Whether the log shows its election.
    closed : int or None
        When its broker's log says that it is over; None where no line does.
    resigned : bool
        Whether that line is of its resignation.
    refused : bool
        Whether it did not end what it did last: the store refused it, as another controller had
        been elected, or an election failed.
    replaced : bool
        Whether another controller had been elected before the log begins, or in a hole, unnoticed.
    statements : list of int
        Which statements are its own.
    cluster : int
        Number of the cluster: it rises where a cluster was set up anew.
    follows : bool
        Whether its epoch is the next after the last term's: no election in between is missing.
    since, until : int or None
        Times from and to which its controller.log is here, where state-change.log has more.
    holes : list of (int, int)
        Times of the last line before each hole of its logs, and of the first one after it.
    inventory : Inventory
        Brokers and topics that its lines tell, and those of earlier terms of the cluster.
    """

    controller: int
    start: int
    end: int
    opened: bool = False
    closed: int | None = None
    resigned: bool = False
    refused: bool = False
    replaced: bool = False
    epoch: int | None = None
    statements: list[int] = field(default_factory=list)
    cluster: int = 0
    follows: bool = False
    since: int | None = None
    until: int | None = None
    prefix: int | None = None
    holes: list[tuple[int, int]] = field(default_factory=list)
    inventory: Inventory = field(default_factory=Inventory)


def is_terse(statements: Sequence[Statement], term: Term) -> bool:
    """Whether a term's controller.log has no line below INFO."""
    return not any(
        entry.level in ("DEBUG", "TRACE") and entry.logger.startswith("kafka.controller")
        for entry in (statements[number].entry for number in term.statements)
    )


def hides_isr_changes(statements: Sequence[Statement], term: Term) -> bool:
    """Whether no line of a term's controller would show that an ISR was changed.

    It announces the change below INFO, and the request that follows in state-change.log.
    """
    return is_terse(statements, term) and not any(
        statements[number].kind in ("sent_update_metadata", "sent_update_metadata_partition")
        for number in term.statements
    )


def find_terms(statements: Sequence[Statement]) -> list[Term]:
    """Terms of all controllers, in the order of their first lines."""
    by_controller: dict[int, list[int]] = {}
    for number, statement in enumerate(statements):
        writer = _writer(statement)
        if writer is not None:
            by_controller.setdefault(writer, []).append(number)
    terms = [
        term for controller, numbers in by_controller.items()
        for term in _reigns(statements, controller, numbers)
    ]
    terms.sort(key=lambda term: (term.start, term.statements[0]))
    terms = _without_strays(terms)
    for term in terms:
        term.inventory = take_inventory(statements, term.statements)
    return _clusters(terms)


def has_events(statements: Sequence[Statement], term: Term) -> bool:
    """Whether any line of a term is of controller.log, which tells what happened."""
    return any(tells_events(statements[number]) for number in term.statements)


def tells_events(statement: Statement) -> bool:
    """Whether a line of a term is of controller.log."""
    return statement.kind not in WRITTEN_THERE


def _writer(statement: Statement) -> int | None:
    """The broker whose controller writes a line."""
    if statement.kind == "process_started":
        return statement.fields.get("broker", statement.actor_id)
    return statement.actor_id if statement.actor == "controller" else None


def _is_over(statement: Statement) -> bool:
    """Whether a line says that its writer is not the controller, or not any more."""
    if statement.kind == "other_elected":
        return bool(statement.fields["controller"] != statement.actor_id)
    return statement.kind in CLOSING


def in_office(terms: Sequence[Term], time: int) -> tuple[list[int], bool]:
    """Controllers that a broker may read at some time, and whether one without a log may be.

    Parameters
    ----------
    terms : sequence of Term
        Of one cluster, in order.
    time : int
    """
    before = [term for term in terms if term.start <= time]
    after = [term for term in terms if term.start > time]
    office = [
        term.controller for term in before[-1:] if term.closed is None or term.closed > time
    ] + [term.controller for term in after if term.start <= time + SOON_MS]
    if any(term.start <= time <= term.end for term in before):
        return office, False
    next_epoch = bool(before and after[:1]) and after[0].follows
    return office or [term.controller for term in after[:1]], not next_epoch


def _without_strays(terms: list[Term]) -> list[Term]:
    """Give a single line that stands in the middle of another term to that term."""
    kept = [term for term in terms if term.opened or len(term.statements) > 1]
    for term in terms:
        if term.opened or len(term.statements) > 1:
            continue
        around = [t for t in kept if t.start <= term.start <= t.end]
        if around:
            around[-1].statements = sorted([*around[-1].statements, *term.statements])
        else:
            kept.append(term)
    return sorted(kept, key=lambda term: (term.start, term.statements[0]))


def _reigns(
    statements: Sequence[Statement], controller: int, numbers: Sequence[int]
) -> list[Term]:
    """Terms of one broker."""
    epochs = _smooth(statements, numbers)
    terms: list[Term] = []
    term: Term | None = None
    for number in numbers:
        statement = statements[number]
        kind, time = statement.kind, statement.entry.time
        if _is_over(statement):
            if term is not None:
                term.closed, term.resigned = time, kind.startswith("resign")
            term = None
            continue
        if kind in PASSIVE:
            continue
        if term is None and terms and kind == "send_failed" and (
            terms[-1].prefix in (None, statement.fields["controller_epoch"])
        ):
            terms[-1].statements.append(number)  # Its senders end after it has resigned.
            continue
        epoch = epochs.get(number)
        if kind in OPENING:
            if term is None or statements[term.statements[-1]].kind not in OPENING:
                term = Term(controller, time, time, opened=True)
                terms.append(term)
        elif term is None or (
            epoch is not None and term.prefix is not None and epoch != term.prefix
        ):
            moved = [] if term is None else _after_hole(statements, term, epochs, number)
            start = statements[moved[0]].entry.time if moved else time
            term = Term(controller, start, time, statements=moved)
            terms.append(term)
        term.refused = kind == "controller_moved"
        term.end = time
        term.statements.append(number)
        if epoch is not None:
            term.prefix = epoch
    for term in terms:
        _vote(statements, term, epochs)
    return terms


def _after_hole(
    statements: Sequence[Statement], term: Term, epochs: dict[int, int], number: int
) -> list[int]:
    """Take the last lines of a term out of it that are of the next one already.

    An epoch rises with an election only. Where no line shows that election, it was in the longest
    silence between the last line that says the old epoch and the first that says the new one.
    """
    last = max(at for at, own in enumerate(term.statements) if own in epochs)
    around = [*term.statements[last:], number]
    times = [statements[own].entry.time for own in around]
    silence = max(range(1, len(around)), key=lambda at: times[at] - times[at - 1])
    moved = around[silence:-1]
    if moved:
        del term.statements[-len(moved) :]
        term.end = times[silence - 1]
    return moved


def _smooth(statements: Sequence[Statement], numbers: Sequence[int]) -> dict[int, int]:
    """Epoch that each line's prefix says; one that stands alone is replaced by the nearest.

    Lines after an election do not support one before it; those that announce it support its own.
    """
    n_elected = 0
    prefixes = []
    for number in numbers:
        line = statements[number]
        n_elected += line.kind in OPENING
        epoch = line.epoch
        if epoch is None and line.kind in ("elected", "ready"):
            epoch = line.fields.get("controller_epoch")
        if epoch is not None:
            prefixes.append((line.entry.time, number, epoch, n_elected))
    smooth: dict[int, int] = {}
    for at, (time, number, epoch, elected) in enumerate(prefixes):
        near = [(abs(time - other), smooth.get(beside, value)) for other, beside, value, after in (
            *prefixes[max(at - 1, 0) : at], *prefixes[at + 1 : at + 2]
        ) if after == elected]
        if near and all(epoch != value for _, value in near):
            _, epoch = min(near, key=lambda pair: pair[0])
        smooth[number] = epoch
    for _, number, *_ in prefixes:
        if statements[number].epoch is None:
            del smooth[number]
    return smooth


def _vote(statements: Sequence[Statement], term: Term, epochs: dict[int, int]) -> None:
    """Set the epoch of a term to the one that most of its lines say."""
    votes = Counter(epochs[number] for number in term.statements if number in epochs)
    for number in term.statements:
        line = statements[number]
        if line.kind in ("elected", "epoch", "ready", "partition_failed", "send_failed"):
            votes.update(line.fields[name] for name in ("controller_epoch", "epoch_version")
                         if name in line.fields)
    if votes:
        term.epoch = max(votes, key=lambda epoch: (votes[epoch], epoch == term.prefix, -epoch))


def _clusters(terms: list[Term]) -> list[Term]:
    """Number the clusters; a term that goes on after another has begun is one term still.

    Two clusters may stand side by side in one folder. A cluster is over when another has begun
    and no line of it comes later.
    """
    kept: list[Term] = []
    latest: dict[int, Term] = {}
    for term in terms:
        earlier = next((t for t in reversed(kept) if _goes_on(t, term, kept, latest)), None)
        if earlier is not None:
            earlier.statements += term.statements
            earlier.end = max(earlier.end, term.end)
            earlier.closed, earlier.resigned = term.closed, term.resigned
            earlier.refused = term.refused
            continue
        successor = next((last for last in latest.values() if _was_replaced(term, last)), None)
        if successor is not None:
            term.cluster, term.replaced = successor.cluster, True
            kept.append(term)
            continue
        begins = _begins_cluster(term, terms, latest)
        term.cluster = max(latest) + 1 if begins else _choose_cluster(term, latest)
        before = latest.get(term.cluster)
        if term.epoch is None:
            term.epoch = _unstated_epoch(term, before, terms)
        if before is not None:
            term.inventory.follow(before.inventory)
            term.follows = before.epoch is not None and term.epoch == before.epoch + 1
        latest[term.cluster] = term
        kept.append(term)
    for term in kept:
        term.statements.sort()
    return kept


def _goes_on(earlier: Term, term: Term, kept: list[Term], latest: dict[int, Term]) -> bool:
    """Whether a term is the rest of an earlier one.

    A broker that is not the controller writes no such lines. Where its process has started, or
    another one was elected, just after a newer cluster began, that was a broker of that cluster.
    """
    if term.opened or earlier.controller != term.controller:
        return False
    soon = term.start - earlier.end < STALE_MS
    closed, is_last = earlier.closed, latest[earlier.cluster] is earlier
    if term.epoch is not None:
        return earlier.epoch == term.epoch and (
            soon or (is_last and earlier.cluster == max(latest))
        )
    return closed is not None and is_last and not earlier.resigned and (soon or any(
        t.cluster > earlier.cluster and earlier.end < t.start <= closed + SOON_MS for t in kept
    ))


def _was_replaced(term: Term, last: Term) -> bool:
    """Whether a controller was replaced by another one before the log begins, or in a hole of it.

    It has not noticed it yet.
    """
    return (
        not (last.opened or term.opened) and term.epoch is not None
        and last.epoch == term.epoch + 1 and term.start - last.start < STALE_MS
        and not term.inventory.differs(last.inventory)
    )


def _begins_cluster(term: Term, terms: list[Term], latest: dict[int, Term]) -> bool:
    """Whether a term that does not say its epoch is of the new cluster that the next one is of.

    Its controller is no broker of the clusters before, as far as their logs tell.
    """
    after = next((t for t in terms if t.start > term.start and t.opened), None)
    if term.epoch is not None or after is None or not latest:
        return False
    before = latest[max(latest)]
    known = {before.controller, *before.inventory.last_epochs}
    return term.controller not in known and after.inventory.differs(before.inventory)


def _choose_cluster(term: Term, latest: dict[int, Term]) -> int:
    """Cluster of a term: the one whose epochs it goes on with, else a new one.

    A cluster that is over goes on where epochs, brokers and topics are those that it left.
    """
    if not latest:
        return 0
    newest = max(latest)
    alive = [n for n, last in latest.items() if n == newest or last.end > latest[newest].start]
    if term.epoch is None:
        same = [n for n in alive if latest[n].controller == term.controller]
        return max(same or alive)
    epoch = term.epoch
    epochs = {n: latest[n].epoch for n in alive}
    possible = [
        n for n, last in epochs.items() if (last is None or last < epoch)
        and not term.inventory.differs(latest[n].inventory)
    ]
    if not possible:
        return max((
            n for n, last in latest.items()
            if last.epoch == epoch - 1 and term.inventory.continues(last.inventory)
        ), default=newest + 1)
    return max(possible, key=lambda n: (epochs[n] == epoch - 1, n))


def _unstated_epoch(term: Term, before: Term | None, terms: list[Term]) -> int | None:
    """Epoch of a term that does not say it: the one that is missing before the next term's.

    Where the log begins with it, it has to end not long before the next election.
    """
    last = 0 if before is None else before.epoch
    after = next((t for t in terms if t.start > term.start and (t.epoch or 0) > (last or 0)), None)
    if last is None or after is None or after.epoch is None:
        return None
    is_next = after.epoch == last + 2 if before is not None else (
        after.opened and after.epoch > 1 and after.start - term.end < STALE_MS
    )
    return after.epoch - 1 if is_next else None
