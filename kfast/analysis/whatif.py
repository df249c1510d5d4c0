"""The runner of every what-if: a controller that works on a copy of a cluster, event by event.

It opens the controller that the cluster names, lets it start, records each event, and takes the
census before and after. The questions (`broker_failure`, `plan_execution`, `topic_deletion`,
`explain`) say which events follow, and make an answer of what was recorded.

Source: docs/controller.md, sections 6.1 to 6.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from kfast import arguments
from kfast.analysis.impact import Impact, impact
from kfast.analysis.surprises import returned_last_leaders
from kfast.controllers import EventOutcome, Profile, open_events
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.state.census import take_census

__all__ = [
    "WhatIf", "brokers_are", "check_brokers", "check_order", "racks_by_broker", "registrations",
    "select_brokers",
]

CANNOT = {
    "fail": "not registered: it is down already and cannot fail",
    "start": "registered then: it is up and cannot start",
}
"""What a step may be, and why a broker cannot take it."""


class WhatIf:
    """A controller that has started on a copy of a cluster.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    journal : {"off", "counts", "full"}
    threads : int
    profile : str or Profile, optional
    order : sequence of int, optional
        Ids of brokers: who is fenced first of those that fail together (KRaft only).
    frees_rows : bool
        Events may free rows or move slots, so the census before them refers to a state of its own.

    Attributes
    ----------
    state : ClusterState
        The copy, as it is now.
    events : list of EventOutcome
        The start, then each event.
    start : Impact
        What the controller's start alone did.
    before, census : Census
        After the start, and when `measure` was last called.
    surprises : list of pa.Table
        What partitions did that operators do not expect.
    """

    def __init__(
        self, state: ClusterState, *, journal: str = "counts", threads: int = 1,
        profile: str | Profile | None = None, order: Sequence[int] | None = None,
        frees_rows: bool = False,
    ) -> None:
        self.state = state.copy()
        self.common = open_events(
            self.state, journal=journal, threads=threads, profile=profile, order=order
        )
        self.events: list[EventOutcome] = []
        self._n_measured = 0
        self._running: set[int] = set()
        self.surprises: list[pa.Table] = []
        self.census = take_census(self.state)
        self.record(self.common.start())
        self.start = self.measure(self.state.copy() if frees_rows else self.state)
        self.before = self.census

    @property
    def impact(self) -> Impact:
        """What all events after the start changed, up to the last `measure`."""
        outcomes = [event.outcome for event in self.events[1:]]
        return impact(self.before, self.census, outcomes)

    @property
    def clean_ids(self) -> list[int]:
        """Ids of the brokers that are down and had stopped in order."""
        ids: list[int] = self.state.broker_id[~self.state.up].tolist()
        return [broker for broker in ids if self.common.stopped_cleanly(broker)]

    def record(self, events: list[EventOutcome]) -> list[EventOutcome]:
        """Append events that have happened, and return them."""
        self.events += events
        return events

    def measure(self, state: ClusterState | None = None) -> Impact:
        """Take the census, and return what changed since it was last taken."""
        before, self.census = self.census, take_census(self.state if state is None else state)
        recent = self.events[self._n_measured :]
        self._n_measured = len(self.events)
        return impact(before, self.census, [event.outcome for event in recent])

    def fail(self, broker_ids: tuple[int, ...], *, controlled: bool = False) -> None:
        """Let brokers fail all at once, or shut down in order, one after the other."""
        if not broker_ids:
            return
        self._running.difference_update(broker_ids)
        common = self.common
        leave = common.brokers_shut_down_in_order if controlled else common.brokers_failed
        self.record(leave(broker_ids))

    def start_brokers(self, broker_ids: tuple[int, ...]) -> None:
        """Let brokers start; they and those that started before catch up with every leader."""
        self._running.update(broker_ids)
        unclean = set(broker_ids).difference(self.clean_ids)
        self.record(self.common.brokers_returned(broker_ids))
        self.surprises.append(returned_last_leaders(self.census, self.state, unclean))
        self.record(self.common.caught_up(sorted(self._running)))


def registrations(state: ClusterState) -> dict[int, bool]:
    """Whether each broker is up, by its id: registered, and in KRaft not fenced."""
    return dict(zip(state.broker_id.tolist(), state.up.tolist(), strict=True))


def racks_by_broker(state: ClusterState) -> dict[int, str | None]:
    """The rack of each broker, by its id."""
    return dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))


def check_brokers(
    state: ClusterState, broker_ids: Iterable[int], *, kind: str = "fail",
    name: str = "broker_ids", registered: Mapping[int, bool] | None = None,
) -> tuple[int, ...]:
    """Ids of brokers that are to fail or to start, each once.

    Raises
    ------
    ArgumentError
        A broker is unknown; it is to fail and is down, or to start and is up.
    """
    ids = tuple(dict.fromkeys(arguments.broker_ids(name, broker_ids).tolist()))
    state.find_brokers(ids)
    up = registrations(state) if registered is None else registered
    wrong = [broker for broker in ids if up[broker] is (kind == "start")]
    if wrong:
        where = "" if name == "broker_ids" else f"{name}: "
        raise ArgumentError(f"{where}broker {', '.join(map(str, wrong))} is {CANNOT[kind]}")
    return ids


def check_order(order: Iterable[int] | None, failing: Iterable[int]) -> None:
    """Refuse an order of fencing that names a broker that does not fail."""
    others = sorted(set(order or ()).difference(failing))
    if others:
        raise ArgumentError(f"order: {brokers_are(others, 'not among those that fail')}")


def brokers_are(broker_ids: Iterable[int], predicate: str) -> str:
    """Say something of one broker or of several."""
    ids = list(broker_ids)
    noun, verb = ("broker", "is") if len(ids) == 1 else ("brokers", "are")
    return f"{noun} {', '.join(map(str, ids))} {verb} {predicate}"


def select_brokers(
    state: ClusterState, brokers: Sequence[int], racks: Sequence[str], source: str
) -> tuple[list[int], list[str]]:
    """Brokers that can fail: some by their ids, and all that are up in some racks.

    Returns
    -------
    tuple of list of int and list of str
        Their ids, each once, and notes on brokers of the racks that are down already.

    Raises
    ------
    ArgumentError
        A rack is unknown or has no broker that is up; a broker that is named is down already.
    """
    rack_of, up = racks_by_broker(state), registrations(state)
    known = sorted({rack for rack in rack_of.values() if rack is not None})
    if racks and not known:
        raise ArgumentError(
            f"{source} has no racks, so --racks cannot be used; supply them with --brokers-file "
            "CSV, a file with the columns broker_id,rack"
        )
    unknown = [rack for rack in racks if rack not in known]
    if unknown:
        raise ArgumentError(
            f"rack {', '.join(unknown)} is unknown; the cluster has racks {', '.join(known)}"
        )
    off = ",".join(str(broker) for broker in brokers if not up.get(broker, True))
    if off:
        raise ArgumentError(
            f"broker {off.replace(',', ', ')} is down already in {source}, so it cannot fail; "
            f"--up {off} says that it is up"
        )
    inside = [broker for broker, rack in rack_of.items() if rack in racks]
    down = [str(broker) for broker in inside if not up[broker]]
    if not brokers and len(down) == len(inside):
        raise ArgumentError(f"no broker of rack {', '.join(racks)} is up, so none can fail")
    notes = [f"broker {', '.join(down)} of these racks is down already"] if down else []
    return [*dict.fromkeys([*brokers, *(broker for broker in inside if up[broker])])], notes
