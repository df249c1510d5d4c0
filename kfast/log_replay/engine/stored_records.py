"""Records that the store has and the controller has not read.

Up to 2.6 leaders write their ISRs into the store by themselves and tell the controller later; up to
2.3 a reassignment raises a stored leader epoch that is not cached. What elects, removes a replica
or is notified reads the store. So the controller of a simulation is lent a store for the events
that may meet such a record; for all others its cache is the store.

Source: docs/controller.md, sections 6.6, 6.10 and 8.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers import Controller
from kfast.controllers.zk.store import Store
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.events import LogEvent
from kfast.schema import FLAG_BEING_REASSIGNED
from kfast.state import Leadership
from kfast.state.records import Rows

MOVING = frozenset({"reassign", "caught_up"})
"""Events that raise epochs in the store alone, where the version does not cache them."""

RESUMES = frozenset({"failover", "brokers", "isr"})
"""Events after which reassignments go on."""


def write_isr(simulation: Simulation, row: int, isr: Sequence[int], version: int) -> None:
    """A leader writes an ISR; from 2.7 on the controller does it, under its own epoch.

    A leader that proposes an ISR has recovered. Source: Partition.scala, `makeLeader`.
    """
    record = simulation.stored_record(row)
    assert record is not None
    written = dataclasses.replace(record, isr=tuple(isr), version=version, recovery=0)
    if simulation.controller.profile.has_alter_partition:
        simulation.set_record(row, dataclasses.replace(
            written, controller_epoch=simulation.state.controller_epoch
        ))
    else:
        simulation.unread[row] = written


def restore(simulation: Simulation, row: int, record: Leadership) -> None:
    """Put another record in the place of the one that is stored."""
    if row in simulation.unread:
        simulation.unread[row] = record
    else:
        simulation.set_record(row, record)


@contextmanager
def lent(simulation: Simulation, event: LogEvent) -> Iterator[None]:
    """Lend the controller a store while it handles an event, if the event may need one."""
    own = simulation.controller
    moves = not own.profile.epoch_bump_is_cached and (
        event.kind in MOVING or bool(simulation.state.reassignment_targets)
    )
    late = {} if event.kind == "isr_written" else simulation.late
    if not (simulation.unread or late or moves or _resumes_many(simulation, event)):
        yield
        return
    if event.kind == "failover":
        simulation.read_records()
    store = _StoreInUse(simulation.state)
    if late:
        store.late, simulation.late = dict(late), {}
    for row, record in simulation.unread.items():
        store.replace(row, record)
    concerned = set(simulation.unread) | _moving(simulation) | set(late)
    for partition in event.fields.get("targets", ()):
        concerned.update(simulation.rows_of(partition))
    simulation.controller = Controller(
        simulation.state, store=store, journal="full", profile=own.profile
    )
    try:
        yield
    finally:
        simulation.controller = own
        store.write_late(list(store.late))
        _take_back(simulation, store, concerned | _moving(simulation))


class _StoreInUse(Store):
    """A store into which leaders write while the controller works: after its first reading."""

    late: Mapping[int, Leadership] = MappingProxyType({})

    def read_states(self, rows: Rows) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
        """Answers and records, from before what is written then."""
        answers = super().read_states(rows)
        self.write_late(rows.tolist())
        return answers

    def write_late(self, rows: Sequence[int]) -> None:
        """Let the leaders of some rows write."""
        for row in self.late.keys() & set(rows):
            self.replace(row, self.late[row])
        self.late = {row: record for row, record in self.late.items() if row not in set(rows)}


def _resumes_many(simulation: Simulation, event: LogEvent) -> bool:
    """Whether an event may go on with several reassignments: each has its own requests.

    Against a store they go one after the other.
    """
    n_targets = len(event.fields.get("targets", ()))
    return event.kind in RESUMES and simulation.state.n_reassigned + n_targets > 1


def _moving(simulation: Simulation) -> set[int]:
    """Rows that are being reassigned."""
    flags = simulation.state.records["flags"]
    found: list[int] = np.flatnonzero(flags & FLAG_BEING_REASSIGNED).tolist()
    return set(found)


def _take_back(simulation: Simulation, store: Store, rows: set[int]) -> None:
    """Keep what the store has and the controller has still not read."""
    simulation.unread = {}
    for row in sorted(rows):
        cached = simulation.state.leadership(row)
        if cached is None:
            continue
        record = store.get_row(row)
        if isinstance(record, Leadership):
            simulation.stored[row] = record.version, record.controller_epoch
            if not _same(record, cached):
                simulation.unread[row] = record


def _same(record: Leadership, cached: Leadership) -> bool:
    return (record.leader, record.leader_epoch, record.version, record.controller_epoch) == (
        cached.leader, cached.leader_epoch, cached.version, cached.controller_epoch
    )
