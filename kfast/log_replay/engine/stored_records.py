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
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers import Controller
from kfast.controllers.zk.store import Store
from kfast.log_replay.engine.simulation import RESUMES, Simulation
from kfast.log_replay.events.events import MOVES, LogEvent
from kfast.state import Leadership
from kfast.state.records import Rows

_epochs = attrgetter("leader", "leader_epoch", "version", "controller_epoch")


def write_isr(
    simulation: Simulation, row: int, isr: Sequence[int], times: int = 1, *, is_late: bool = False
) -> None:
    """A leader writes an ISR some times; from 2.7 on the controller, under its own epoch.

    What is late is written within the next event.

    A leader that proposes an ISR has recovered. Source: Partition.scala, `makeLeader`.
    """
    record = simulation.stored_record(row)
    assert record is not None
    written = dataclasses.replace(
        record, isr=tuple(isr), version=record.version + times, recovery=0
    )
    if is_late:
        simulation.late = {**simulation.late, row: written}
    elif simulation.controller.profile.has_alter_partition:
        simulation.set_record(row, dataclasses.replace(
            written, controller_epoch=simulation.state.controller_epoch
        ))
    else:
        simulation.unread[row] = written


@contextmanager
def lent(simulation: Simulation, event: LogEvent) -> Iterator[None]:
    """Lend the controller a store while it handles an event, if the event may need one."""
    own = simulation.controller
    moves = not own.profile.epoch_bump_is_cached and (  # It raises epochs in the store alone.
        event.kind in MOVES or bool(simulation.waiting)
    )
    # Several reassignments that go on have their own requests: against a store, one by one.
    n_moving = len(simulation.moving) + len(event.fields.get("targets", ()))
    resumes_many = event.kind in RESUMES and n_moving > 1
    late = {} if event.kind == "isr_written" else simulation.late
    is_needed = simulation.unread or late or moves or resumes_many
    if event.kind == "failover":
        simulation.read_records()
        if event.term.epoch is not None:
            simulation.state.controller_epoch = event.term.epoch - 1
            simulation.state.epoch_store_version = event.term.epoch - 1
    if not is_needed:
        yield
        return
    store = _StoreInUse(simulation.state)
    if late:
        store.late, simulation.late = dict(late), {}
    for row, record in simulation.unread.items():
        store.replace(row, record)
    concerned = {*simulation.unread, *simulation.moving, *late}
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
        _take_back(simulation, store, concerned.union(simulation.moving))


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


def _take_back(simulation: Simulation, store: Store, rows: set[int]) -> None:
    """Keep what the store has and the controller has still not read."""
    simulation.unread = {}
    for row in sorted(rows):
        cached = simulation.state.leadership(row)
        record = None if cached is None else store.get_row(row)
        if isinstance(record, Leadership):
            simulation.stored[row] = record.version, record.controller_epoch
            if _epochs(record) != _epochs(cached):
                simulation.unread[row] = record
