"""A line, what it says of a partition, and a row of that partition that it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import MISSING, Check
from kfast.log_replay.engine.predictions import Item
from kfast.log_replay.engine.simulation import NO_CONTROLLER, Simulation
from kfast.log_replay.wording.forms import Statement

RECEIVED = frozenset({"received", "received_dump"})
"""The first line of a broker about a partition in a request."""

LEADS = {
    "became_leader": True, "already_leader": True,
    "became_follower": False, "already_follower": False, "leader_unavailable": False,
}
"""Whether the request that a line is about makes its broker the leader."""

NOTHING_NEW = frozenset({"same_epoch", "old_epoch"})
"""Lines about a request with a leader epoch that their broker has heard of before."""


class Case(NamedTuple):
    """A line, what it says of a partition, and a row of that partition.

    `term` is the `id` of the line's term.
    """

    simulation: Simulation
    brokers: BrokerSide
    term: int
    line: Statement
    fields: dict[str, Any]
    row: int

    @property
    def broker(self) -> int:
        """The broker that writes the line."""
        assert self.line.actor_id is not None
        return self.line.actor_id

    def take(
        self, *key: Any, logged: dict[str, Any] | None = None, by: int | None = None
    ) -> dict[str, Any] | None:
        """What the line is about; see `Simulation.take`."""
        time = self.line.entry.time
        return self.simulation.take(self.row, key, time, self.term, logged, by)

    def request(self, logged: dict[str, Any], kind: str = "leader_and_isr") -> Item | None:
        """The request that a broker's line is about: the one being handled, or the next."""
        fields, broker = self.fields, self.broker
        names = ("session",) if fields.get("session") is not None else (
            "controller", "controller_epoch", "correlation"
        )
        context = (*map(fields.get, names), kind)
        memory = self.brokers.rows[self.row]
        before = memory.handled.get(broker)
        if before is not None and before[0] == context and None not in context and (
            self.line.kind not in RECEIVED
        ):
            return before[1]
        comparable = self.simulation.comparable(self.row, logged)
        chosen = self._next(comparable, kind) or self.from_before(kind)
        if chosen is not None:
            memory.use(broker, chosen)
            memory.handled[broker] = (context, chosen)
        return chosen

    def _next(self, logged: dict[str, Any], kind: str) -> Item | None:
        """The request that fits a line best, its own controller's first; of equals the oldest."""
        line, broker = self.line, self.broker
        requests = next(filter(None, (
            [item for item in self.simulation.requests(self.row, kind, of=of)
             if line.kind not in LEADS or _fits(item, line.kind, broker)]
            for of in (self.fields, NO_CONTROLLER)
        )), [])
        if line.kind in NOTHING_NEW and kind == "leader_and_isr":  # StopReplica raises none.
            own = [item for item in requests if item.key[1] == broker]
            requests = list(filter(self._brings_nothing, own)) or own[-1:] or requests
        used = self.brokers.rows[self.row].used.get(broker, ())

        def score(item: Item) -> tuple[int, ...]:
            same = item.agreement(logged)
            return same == len(logged), item.key[1] == broker, item.order not in used, same

        best = (  # None is better, and most lines have one.
            item for item in requests if item.key[1] == broker and item.order not in used
            and item.agreement(logged) == len(logged)
        )
        return next(best, None) or max(requests, key=score, default=None)

    def _brings_nothing(self, request: Item) -> bool:
        """Whether a broker has heard of as high a leader epoch as a request has, or may have.

        A new controller may tell it what the one before has told it last.
        """
        epoch, starts = request.fields["leader_epoch"], self.simulation.possibility[self.row].starts
        return request.event.kind == "failover" or any(
            (start.leader_epoch or 0) >= epoch for start in starts
        ) or any(
            item.key[1] == self.broker and item.order < request.order
            and item.fields["leader_epoch"] >= epoch
            for item in self.simulation.items_of(self.row, request.key[0])
        )

    def from_before(self, kind: str) -> Item | None:
        """A request from before the log goes on: it carried the record as it is since then."""
        simulation, row = self.simulation, self.row
        starts, record = simulation.possibility[row].starts, self.record()
        if kind == "stop_replica" or not record or not starts or (
            starts[-1].point.kind != "resume" or simulation.items_of(row, kind)
        ):
            return None
        point, assigned = starts[-1].point, simulation.state.assignment(row)
        return Item(point, -1, (kind, None), {
            **record, "replicas": assigned.replicas,
            "adding": assigned.adding, "removing": assigned.removing, "is_new": False,
            "up": frozenset(simulation.registered), "brokers": tuple(simulation.registered),
        })

    def record(self) -> dict[str, Any]:
        """The partition's record as it is after the event; empty where there is none."""
        leadership = self.simulation.state.leadership(self.row)
        return {} if leadership is None else vars(leadership)

    def leader(self) -> Any:
        """The partition's leader after the event."""
        return self.record().get("leader", MISSING)


def _fits(item: Item, kind: str, broker: int) -> bool:
    """Whether a broker may write a line of some kind about a request."""
    leader, leads = item.fields.get("leader"), LEADS[kind]
    return leads == (leader == broker) and not (
        kind == "leader_unavailable" and leader in item.fields["up"]
    )


Compare = Callable[[Case], list[Check]]
