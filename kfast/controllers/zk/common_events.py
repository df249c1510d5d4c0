"""The common events as the controller of ZooKeeper mode handles them.

Source: docs/controller.md, sections 6.1 to 6.3, 6.7, 6.10 and 6.12.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from kfast.controllers.common_events import EventOutcome, record
from kfast.controllers.reassignment_requests import being_reassigned
from kfast.controllers.zk.controller import Controller
from kfast.journal import Outcome
from kfast.schema import ReassignmentCode
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.records import Rows, Slots
from kfast.state.tables import id_lists


class ZkEvents:
    """The common events, by a `Controller`; brokers that fail together fail in one event."""

    order_matters = 0

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    @property
    def state(self) -> ClusterState:
        """The cluster as it is now."""
        return self.controller.state

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""
        return self.controller.title

    def start(self) -> list[EventOutcome]:
        """A controller takes over (section 6.1)."""
        return [self._record(self.controller.on_controller_failover())]

    def brokers_failed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers vanished (section 6.2)."""
        return [self._record(self.controller.on_broker_failure(broker_ids))]

    def brokers_shut_down_in_order(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another asked for its shutdown, and vanished (sections 6.3, 6.2)."""
        return [
            event for broker in broker_ids
            for step in (self.shutdowns_requested, self.shutdowns_completed)
            for event in step([broker])
        ]

    def shutdowns_requested(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another asked for its shutdown (section 6.3)."""
        return [
            self._record(self.controller.controlled_shutdown(broker)) for broker in broker_ids
        ]

    def shutdowns_completed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers vanished, in one event (section 6.2)."""
        return self.brokers_failed(broker_ids)

    def stopped_cleanly(self, broker_id: int) -> bool:  # noqa: ARG002 - nobody asks
        """Yes: the controller does not ask how a broker had stopped."""
        return True

    def brokers_returned(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Brokers registered (section 6.2)."""
        return [self._record(self.controller.on_broker_startup(broker_ids))]

    def caught_up(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Leaders reported ISRs that have the brokers again (section 6.10)."""
        return [self._record(self.controller.catch_up(broker_ids))]

    def request_plan(self, plan: pa.Table) -> tuple[list[EventOutcome], list[str | None]]:
        """Ask for a plan as the tool does: through the API, or before 2.4 through the node.

        Raises
        ------
        ArgumentError
            The plan names an unknown broker, and the controller would not check it (before 2.4).
        """
        controller = self.controller
        if controller.profile.cancels_reassignments:
            outcome = controller.alter_partition_reassignments(plan)
        else:
            named = plan["replicas"].combine_chunks().flatten().to_numpy()
            self.state.find_brokers(np.unique(named).tolist())
            outcome = controller.reassign_partitions(plan)
        codes = outcome.reassignment_codes.tolist()
        errors = [ReassignmentCode(code).name if code else None for code in codes]
        if outcome.error is not None:
            errors = [outcome.error] * plan.num_rows
        return [self._record(outcome)], errors

    def plan_caught_up(self) -> list[EventOutcome]:
        """Leaders reported that the live targets of what is being reassigned are in sync."""
        state, controller = self.state, self.controller
        rows = np.flatnonzero(being_reassigned(state)).astype(np.int32)
        records = state.records.take(rows)
        isr, leaders = records["isr"].astype(np.uint64), records["leader"]
        joining = state.live_slots(rows) & _target_slots(state, rows) & ~isr
        led = leaders >= 0
        led[led] = state.registered[leaders[led]]
        reported = led & (joining != 0)
        if not reported.any():
            return []
        if not controller.profile.has_alter_partition:
            lists = id_lists(state, rows[reported], joining[reported])
            return self.caught_up(np.unique(lists.values.to_numpy()).tolist())
        events = []
        for leader in np.unique(leaders[reported]).tolist():
            at = np.flatnonzero(reported & (leaders == leader))
            events.append(self._record(controller.alter_partition(
                int(state.broker_id[leader]), int(state.broker_epoch[leader]), rows[at],
                records["leader_epoch"][at],
                id_lists(state, rows[at], (isr | joining)[at]).to_pylist(), records["version"][at],
            )))
        return events

    def preferred_leaders_elected(
        self, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[EventOutcome]:
        """The preferred replicas were elected where they are live and in sync (section 6.8)."""
        controller = self.controller
        trigger = "AdminClient" if controller.profile.has_admin_elections else "ZkTriggered"
        return [self._record(controller.elect_leaders(partitions, trigger=trigger))]

    def awaited_slots(self, rows: Rows) -> Slots:
        """Slots that have to be in sync before the reassignment of each row is complete."""
        records = self.state.records.take(rows)
        moving = being_reassigned(self.state, rows)
        missing = _target_slots(self.state, rows) & ~records["isr"].astype(np.uint64)
        awaited: Slots = np.where(moving, missing, np.uint64(0))
        return awaited

    def delete_topics(self, topics: Sequence[str]) -> list[EventOutcome]:
        """Deletion markers appeared (section 6.12)."""
        return [self._record(self.controller.delete_topics(topics))]

    def deletions_acknowledged(self) -> list[EventOutcome]:
        """Brokers answered that they had deleted what they were told to delete."""
        return [self._record(self.controller.acknowledge_deletions())]

    def _record(self, outcome: Outcome) -> EventOutcome:
        return record(self.state, outcome)


def _target_slots(state: ClusterState, rows: Rows) -> Slots:
    """Slots that each row is to have once its reassignment is complete."""
    records = state.records.take(rows)
    target: Slots = first_slots(records["n_replicas"]) & ~records["removing"].astype(np.uint64)
    if state.reassignment_targets:  # before 2.4 they are kept apart
        for at, row in enumerate(rows.tolist()):
            wanted = set(state.reassignment_targets.get(row, ()))
            if wanted:
                ids = state.ids_of(row, int(first_slots(records["n_replicas"][at : at + 1])[0]))
                target[at] = sum(1 << slot for slot, broker in enumerate(ids) if broker in wanted)
    return target
