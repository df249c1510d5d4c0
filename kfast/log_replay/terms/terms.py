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

OPENING = frozenset({"elected", "epoch", "epoch_read", "becoming"})
CLOSING = frozenset({"resigning", "resigned"})
PASSIVE = frozenset({
    "talk", "not understood", "other_elected", "process_started", "connected",
    "topics_to_delete", "no_longer_shutting",
})
"""Kinds that a broker may write that is not the controller, or that tell nothing of a term."""

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
    statements : list of int
        Which statements are its own.
    cluster : int
        Number of the cluster: it rises where a cluster was set up anew.
    follows : bool
        Whether its epoch is the next after the last term's: no election in between is missing.
    inventory : Inventory
        Brokers and topics that its lines tell, and those of earlier terms of the cluster.
    """

    controller: int
    start: int
    end: int
    opened: bool = False
    epoch: int | None = None
    statements: list[int] = field(default_factory=list)
    cluster: int = 0
    follows: bool = False
    votes: Counter[int] = field(default_factory=Counter)
    prefix: int | None = None
    progressed: bool = False
    inventory: Inventory = field(default_factory=Inventory)


def find_terms(statements: Sequence[Statement]) -> list[Term]:
    """Terms of all controllers, in the order of their first lines."""
    by_controller: dict[int, list[int]] = {}
    for number, statement in enumerate(statements):
        if statement.actor == "controller" and statement.actor_id is not None:
            by_controller.setdefault(statement.actor_id, []).append(number)
    terms = [
        term for controller, numbers in by_controller.items()
        for term in _reigns(statements, controller, numbers)
    ]
    terms.sort(key=lambda term: (term.start, term.statements[0]))
    terms = _without_strays(terms)
    for term in terms:
        _vote(term)
        term.inventory = take_inventory(statements, term.statements)
    return _clusters(terms)


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
    found: list[Term] = []
    term: Term | None = None
    for number in numbers:
        statement = statements[number]
        kind, time = statement.kind, statement.entry.time
        if kind in CLOSING:
            term = None
            continue
        if kind in PASSIVE:
            continue
        epoch = epochs.get(number)
        if kind in OPENING:
            if term is None or term.progressed or not term.opened:
                term = Term(controller, time, time, opened=True)
                found.append(term)
        elif term is None or (
            epoch is not None and term.prefix is not None and epoch != term.prefix
        ):
            term = Term(controller, time, time)
            found.append(term)
        term.progressed = term.progressed or kind not in OPENING
        term.end = time
        term.statements.append(number)
        if epoch is not None:
            term.prefix = epoch
        _take_votes(term, statement, epoch)
    return found


def _take_votes(term: Term, statement: Statement, epoch: int | None) -> None:
    if epoch is not None:
        term.votes[epoch] += 1
    said = statement.said
    if statement.kind in ("elected", "epoch", "ready", "partition_failed", "send_failed"):
        if "controller_epoch" in said:
            term.votes[said["controller_epoch"]] += 1
        if "epoch_version" in said:
            term.votes[said["epoch_version"]] += 1


def _smooth(statements: Sequence[Statement], numbers: Sequence[int]) -> dict[int, int]:
    """Epoch that each line's prefix says; one that stands alone is replaced by its neighbour's."""
    said = [(n, statements[n].epoch) for n in numbers if statements[n].epoch is not None]
    values = [epoch for _, epoch in said]
    smooth: dict[int, int] = {}
    for at, (number, epoch) in enumerate(said):
        before = values[at - 1] if at else None
        after = values[at + 1] if at + 1 < len(values) else None
        if epoch in (before, after) or (before is None and after is None):
            kept = epoch
        else:
            near = before if before is not None else after
            kept = near
            if before is not None and after is not None and before != after:
                time = statements[number].entry.time
                gap_before = time - statements[said[at - 1][0]].entry.time
                gap_after = statements[said[at + 1][0]].entry.time - time
                kept = before if gap_before <= gap_after else after
        if kept is not None:
            smooth[number] = kept
    return smooth


def _vote(term: Term) -> None:
    if term.votes:
        most = max(term.votes.values())
        best = [epoch for epoch, n in term.votes.items() if n == most]
        term.epoch = term.prefix if term.prefix in best else min(best)


def _clusters(terms: list[Term]) -> list[Term]:
    """Number the clusters; a term that goes on after another has begun is one term still.

    Two clusters may stand side by side in one folder. A cluster is over when another has begun
    and no line of it comes later.
    """
    kept: list[Term] = []
    latest: dict[int, Term] = {}
    for term in terms:
        earlier = next((t for t in reversed(kept) if _goes_on(t, term, latest)), None)
        if earlier is not None:
            earlier.statements += term.statements
            earlier.end = max(earlier.end, term.end)
            continue
        term.cluster = _choose_cluster(term, latest)
        before = latest.get(term.cluster)
        if before is not None and term.epoch is None and before.epoch is not None:
            term.epoch = _between(term, before, terms)
        term.follows = (
            before is not None and before.epoch is not None and term.epoch == before.epoch + 1
        )
        if before is not None:
            term.inventory.follow(before.inventory)
        latest[term.cluster] = term
        kept.append(term)
    for term in kept:
        term.statements.sort()
    return kept


def _goes_on(earlier: Term, term: Term, latest: dict[int, Term]) -> bool:
    """Whether a term is the rest of an earlier one."""
    if term.opened or term.epoch is None:
        return False
    if (earlier.controller, earlier.epoch) != (term.controller, term.epoch):
        return False
    return (latest[earlier.cluster] is earlier and earlier.cluster == max(latest)) or (
        term.start - earlier.end < STALE_MS
    )


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


def _between(term: Term, before: Term, terms: list[Term]) -> int | None:
    """Epoch of a term that does not say it: the one that is missing around it, if one is."""
    after = next((t for t in terms if t.start > term.start and t.epoch is not None
                  and before.epoch is not None and t.epoch > before.epoch), None)
    if after is None or after.epoch is None or before.epoch is None:
        return None
    return before.epoch + 1 if after.epoch == before.epoch + 2 else None
