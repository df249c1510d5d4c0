"""Runs of partition changes: which step of a broker, or which request, explains each of them.

The log does not say where one operation ends and the next begins, and several may share a batch. A
run of changes before the record of a broker is divided so that the fewest changes stay unexplained:
the first part was asked for, the rest is the broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from kfast.metadata_replay.broker_updates import (
    FAILED_DIRECTORIES,
    REGISTRATION,
    UNREGISTRATION,
    Step,
)
from kfast.metadata_replay.requests import Request, candidates

if TYPE_CHECKING:
    from kfast.metadata_replay.simulation import Part, Present, Simulation
    from kfast.state.metadata_records import PartitionChangeRecord
    from kfast.state.registrations import PartitionRegistration

CONTRADICTION_COST = 4
"""One change that nothing explains weighs as much as so many requests in one batch."""


MAY_VISIT_TWICE = (REGISTRATION, UNREGISTRATION, FAILED_DIRECTORIES)
"""Steps that may build a partition twice from the state before (docs/kraft.md, sections 5, 9.3)."""


class Change(NamedTuple):
    """One PartitionChange record: its offset, the time of its batch, the row of its partition."""

    offset: int
    time_ms: int
    row: int
    record: PartitionChangeRecord


@dataclass
class Examined:
    """A run, and what explains its changes; all of it is applied to the state.

    Attributes
    ----------
    changes : list of Change
    leaders : list of int
        Leaders before each change, broker ids.
    unclean : dict
        By place, of elections outside ISR and ELR: the partition before.
    fits : list of list of bool
        For each step: whether it gives the change.
    requests : list of Request or None
        Requests that give it; looked for only where no step gives all.
    predicted : dict
        By place: the record that a step gives instead, where neither fits.
    """

    changes: list[Change]
    leaders: list[int] = field(default_factory=list)
    unclean: dict[int, PartitionRegistration] = field(default_factory=dict)
    fits: list[list[bool]] = field(default_factory=list)
    requests: list[Request | None] = field(default_factory=list)
    predicted: dict[int, PartitionChangeRecord | None] = field(default_factory=dict)

    def divide(self, number: int) -> tuple[int, int]:
        """What it costs if the run ends with the changes of a step, and where these best begin.

        Where two places explain as much, the first: it predicts more.
        """
        wrong = [*accumulate((not fit for fit in reversed(self.fits[number])), initial=0)][::-1]
        costs = (
            asked + CONTRADICTION_COST * n
            for asked, n in zip(self._costs_of_requests(), wrong, strict=True)
        )
        return min((cost, begin) for begin, cost in enumerate(costs))

    def _costs_of_requests(self) -> list[int]:
        """What it costs if the first so many changes were asked for."""
        costs, last = [0], None
        for request in self.requests:
            group = request and (request.kind, request.asker)
            step = CONTRADICTION_COST if request is None else int(group != last)
            costs.append(costs[-1] + step)
            last = group
        return costs


class Examiner:
    """Examines runs of changes, and applies them.

    Parameters
    ----------
    simulation : Simulation
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.before: dict[int, list[PartitionRegistration]] = {}
        """Partitions that change more than once in a group of batches, as they were, last first."""
        self.offline: dict[int, frozenset[int]] = {}
        """Of those: brokers whose replica has been in a directory that is offline."""
        self.changed: set[int] = set()
        """Partitions that have changed in this group."""

    def begin_group(self) -> None:
        """Forget the group before."""
        self.before = {}
        self.offline = {}
        self.changed = set()

    def examine(
        self, changes: list[Change], steps: Sequence[Step], repeated: set[int]
    ) -> Examined:
        """Look for what explains a run, and apply it.

        Parameters
        ----------
        changes : list of Change
        steps : sequence of Step
            What the record behind the run may be of.
        repeated : set of int
            Rows that change more than once before the next group of batches.
        """
        examined = Examined(changes, fits=[[] for _ in steps])
        repeats = not repeated.isdisjoint(change.row for change in changes)
        for begin, end in distinct_rows(changes):
            while begin < end:
                begin += self._examine_part(examined, changes[begin:end], steps, repeated, repeats)
        return examined

    def _examine_part(
        self, examined: Examined, changes: list[Change], steps: Sequence[Step],
        repeated: set[int], asks: bool,
    ) -> int:
        """Examine and apply changes of distinct partitions; return how many.

        All are built from the state before them. One that is not explained so may follow from the
        replicas that partition 0 has got, which limit the topic's min ISR: from there on another
        part begins.
        """
        rows = [change.row for change in changes]
        part = self.simulation.part(rows, [change.record for change in changes])
        begin = len(examined.leaders)
        fits = [self._fits(part, step) for step in steps]
        requests: list[Request | None] = [None] * len(rows)
        if asks or not any(all(fit) for fit in fits):
            requests = self._requests(part)
            taken = _until_min_isr_changes(part.records, fits, requests)
            if taken < len(changes):
                return self._examine_part(examined, changes[:taken], steps, repeated, asks)
            examined.predicted |= self._alternatives(begin, rows, fits, steps)
        for known, found in zip(examined.fits, fits, strict=True):
            known += found
        examined.requests += requests
        for row in repeated.intersection(rows):
            now = self.simulation.registration(row)
            self.before.setdefault(row, []).insert(0, now)
            self.offline[row] = self._offline(row, now)
        examined.leaders += self.simulation.leaders(rows)
        for place, change in enumerate(changes[: len(rows)], begin):
            if change.record.leader is not None and change.record.leader >= 0:
                before = self.simulation.registration(change.row)
                if _is_unclean(before, change.record):
                    examined.unclean[place] = before
        self.simulation.apply_part(part)
        self.changed.update(rows)
        return len(rows)

    def _alternatives(
        self, begin: int, rows: list[int], fits: list[list[bool]], steps: Sequence[Step]
    ) -> dict[int, PartitionChangeRecord | None]:
        """What the likeliest step gives where the log has something else, from its first on."""
        if not steps:
            return {}
        fit, step = max(zip(fits, steps, strict=True), key=lambda pair: sum(pair[0]))
        first = fit.index(True) if True in fit else 0
        return {
            begin + place: self.simulation.updated(rows[place], step)
            for place in range(first, len(rows)) if not fit[place]
        }

    def _fits(self, part: Part, step: Step) -> list[bool]:
        """Whether a step gives each change, from the state now or from that before the group."""
        fits = self.simulation.updates_give(part, step)
        if step.cause in MAY_VISIT_TWICE:
            for place, row in enumerate(part.rows.tolist()):
                for before in () if fits[place] else self.before.get(row, ()):
                    with self.simulation.as_before(row, before):
                        fits[place] |= self.simulation.updates_give(part, step)[place]
        return fits

    def _offline(
        self, row: int, now: Present | PartitionRegistration
    ) -> frozenset[int]:
        """Brokers whose replica is, or has been in this group, in an offline directory."""
        return self.simulation.offline_replicas(now) | self.offline.get(row, frozenset())

    def _requests(self, part: Part) -> list[Request | None]:
        """What each change was asked for by; None where nothing explains it."""
        simulation, rows = self.simulation, part.rows.tolist()
        found: list[Request | None] = [None] * len(rows)
        present = simulation.present(part.rows)
        offline = [
            partial(self._offline, row, now) for row, now in zip(rows, present, strict=True)
        ]
        self._look(part, found, range(len(rows)), present, offline)
        for place, row in enumerate(rows):
            for before in () if found[place] else self.before.get(row, ()):
                if found[place] is None:
                    with simulation.as_before(row, before):
                        self._look(part, found, [place], [before], [offline[place]])
        return found

    def _look(
        self, part: Part, found: list[Request | None], places: Sequence[int],
        present: Sequence[Present | PartitionRegistration],
        offline: Sequence[Callable[[], frozenset[int]]],
    ) -> None:
        """Try the first candidate of all changes, then the second of those that are left."""
        rules = self.simulation.request_rules
        ahead = {
            place: candidates(part.records[place], now, rules, gone)
            for place, now, gone in zip(places, present, offline, strict=True)
        }
        while ahead:
            tried = {
                place: request for place, ones in ahead.items()
                if (request := next(ones, None)) is not None
            }
            fits = self.simulation.requests_give(part, list(tried), list(tried.values()))
            for (place, request), fit in zip(tried.items(), fits, strict=True):
                if fit:
                    found[place] = request
            ahead = {place: ahead[place] for place in tried if found[place] is None}


def _until_min_isr_changes(
    records: list[PartitionChangeRecord], fits: list[list[bool]], requests: list[Request | None]
) -> int:
    """Changes before the first that nothing explains, if one of them moves a partition 0."""
    for place, request in enumerate(requests):
        if request is None and not any(fit[place] for fit in fits):
            moves = any(one.partition_id == 0 and one.replicas for one in records[:place])
            return place if moves else len(records)
    return len(records)


def distinct_rows(changes: Sequence[Change]) -> Iterator[tuple[int, int]]:
    """Parts of a run in which no partition changes twice."""
    begin = 0
    seen: set[int] = set()
    for place, change in enumerate(changes):
        if change.row in seen:
            yield begin, place
            begin = place
            seen = set()
        seen.add(change.row)
    if begin < len(changes):
        yield begin, len(changes)


def _is_unclean(before: PartitionRegistration, record: PartitionChangeRecord) -> bool:
    """Whether a leader is elected that was neither in the ISR nor in the ELR.

    The record that ends a reassignment may add a replica to the ISR and let it lead at once.

    Source: docs/kraft.md, section 3.
    """
    return record.replicas is None and record.leader not in (*before.isr, *before.elr)
