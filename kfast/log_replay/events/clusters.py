"""What is known of one cluster before it is simulated."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from functools import cached_property

from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.values import Partition


@dataclass
class Cluster:
    """One cluster's part of the logs.

    Attributes
    ----------
    number : int
    terms : list of Term
    lines : list of int
        Numbers of its statements, in order.
    events : list of LogEvent
        Of all terms, in order; those of kind `resume` stand where the log begins again.
    assignments : dict
        First assignment of partitions that the log does not see created; None: order unknown.
    births : dict
        Failover or hole from which on such a partition exists.
    term_of : dict
        Term of each line that a controller wrote.
    ordered : set
        Partitions whose assignment is known in its order.
    unclean : frozenset of str
        Topics whose own configuration enables unclean elections.
    absent_controller_lines : list of int
        Numbers of statements of brokers about requests of a controller that is not in the logs.
    absent : set of int
        Broker ids of such controllers.
    lines_about : dict
        Lines that say anything of each partition; None: of those that they do not name.
    """

    number: int
    terms: list[Term]
    lines: list[int]
    events: list[LogEvent]
    assignments: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    births: dict[Partition, LogEvent] = field(default_factory=dict)
    term_of: dict[int, Term] = field(default_factory=dict)
    ordered: set[Partition] = field(default_factory=set)
    unclean: frozenset[str] = frozenset()
    absent_controller_lines: list[int] = field(default_factory=list)
    absent: set[int] = field(default_factory=set)
    lines_about: dict[Partition | None, list[int]] = field(default_factory=dict)

    @cached_property
    def _terms_by_controller(self) -> dict[int, list[Term]]:
        terms: dict[int, list[Term]] = {}
        for term in self.terms:
            terms.setdefault(term.controller, []).append(term)
        return terms

    def last_term(self, controller: int, time: int) -> Term | None:
        """The last term of a controller that has begun at some time."""
        terms = self._terms_by_controller.get(controller, [])
        at = bisect.bisect_right(terms, time, key=lambda term: term.start)
        return terms[at - 1] if at else None
