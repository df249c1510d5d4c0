"""The common events as the controller of KRaft handles them.

Source: docs/kraft.md, sections 6, 7.1, 7.3 and 8.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from kfast import arguments
from kfast.controllers.common_events import EventOutcome, record
from kfast.controllers.kraft import broker_events
from kfast.controllers.kraft.broker_events import NO_PREVIOUS_EPOCH
from kfast.controllers.kraft.controller import QuorumController
from kfast.controllers.kraft.fencing_order import count_order_dependent
from kfast.errors import ArgumentError
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.kraft_releases import Completion
from kfast.state.records import Rows, Slots, n_bits


class QuorumEvents:
    """The common events, by a `QuorumController`.

    A broker that fails is fenced when its session expires; brokers that fail together are fenced
    one after another. One that starts again registers, as a new incarnation, and is unfenced. It
    had stopped cleanly if its last shutdown was controlled: then it still is in the ELRs.

    Parameters
    ----------
    controller : QuorumController
    order : sequence of int, optional
        Brokers that fail together are fenced in the order in which their ids stand here, others
        after them by ascending id.

    Raises
    ------
    ArgumentError
        `order` names an unknown broker, or one twice.
    """

    def __init__(self, controller: QuorumController, order: Sequence[int] | None = None) -> None:
        self.controller = controller
        self.order_matters = 0
        ids = [] if order is None else arguments.broker_ids("order", order).tolist()
        controller.state.find_brokers(ids)
        if len(set(ids)) != len(ids):
            raise ArgumentError(f"order is {arguments.shown(order)}: it names a broker twice")
        self._place = {broker: place for place, broker in enumerate(ids)}
        self._stopped_cleanly = set(
            self.state.broker_id[self.state.fenced & self.state.shutting_down].tolist()
        )

    @property
    def state(self) -> ClusterState:
        """The cluster as it is now."""
        return self.controller.state

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""
        return self.controller.title

    def start(self) -> list[EventOutcome]:
        """A controller takes over (section 1.3)."""
        return self._record(self.controller.activate())

    def brokers_failed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One session after another expired (sections 6.1 and 6.5)."""
        last = len(self._place)
        ids = self._checked(broker_ids, up=True)
        ids.sort(key=lambda broker: (self._place.get(broker, last), broker))
        self._stopped_cleanly.difference_update(ids)
        self.order_matters += count_order_dependent(self.state, ids)
        return [e for broker in ids for e in self._record(self.controller.fence_broker(broker))]

    def brokers_shut_down_in_order(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another asked for its shutdown, and was fenced (sections 6.3, 6.1).

        One that leads nothing is fenced at once (section 6.4).
        """
        controller, events = self.controller, []
        for broker in self._checked(broker_ids, up=True):
            leads = broker_events.has_leaderships(controller, controller.broker_row(broker))
            events += self.shut_down(broker, leads=leads)
        return events

    def shut_down(self, broker_id: int, *, leads: bool) -> list[EventOutcome]:
        """One broker leaves in order; `leads` says whether it leads anything in the cluster."""
        controller, events = self.controller, []
        if leads:
            events += self._record(controller.begin_controlled_shutdown(broker_id))
        self._stopped_cleanly.add(broker_id)
        return events + self._record(controller.fence_broker(broker_id))

    def shutdowns_requested(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another asked for its shutdown (sections 6.3 and 6.4)."""
        controller, events = self.controller, []
        for broker in self._checked(broker_ids, up=True):
            leads = broker_events.has_leaderships(controller, controller.broker_row(broker))
            self._stopped_cleanly.add(broker)
            step = controller.begin_controlled_shutdown if leads else controller.fence_broker
            events += self._record(step(broker))
        return events

    def shutdowns_completed(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another was fenced, those that were not at once (section 6.1)."""
        controller, events = self.controller, []
        for broker in broker_ids:
            if self.state.up[controller.broker_row(broker)]:
                events += self._record(controller.fence_broker(broker))
        return events

    def stopped_cleanly(self, broker_id: int) -> bool:
        """Whether the last shutdown of a registered broker was controlled (section 6.7)."""
        return self.controller.broker_row(broker_id) >= 0 and broker_id in self._stopped_cleanly

    def brokers_returned(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """One broker after another registered and was unfenced (sections 6.7 and 6.2)."""
        controller, events = self.controller, []
        for broker in self._checked(broker_ids, up=False):
            epoch = NO_PREVIOUS_EPOCH
            if self.stopped_cleanly(broker):
                epoch = controller.epoch_of(controller.broker_row(broker))
            registered = controller.register_broker(
                broker, expire_session=True, previous_broker_epoch=epoch
            )
            events += self._record(registered)
            if registered.error is None:
                events += self._record(controller.unfence_broker(broker))
        return events

    def caught_up(self, broker_ids: Iterable[int]) -> list[EventOutcome]:
        """Leaders reported ISRs that have the brokers again (section 7.1)."""
        return self._record(*self.controller.catch_up(broker_ids))

    def request_plan(self, plan: pa.Table) -> tuple[list[EventOutcome], list[str | None]]:
        """Ask for a plan (section 7.3)."""
        outcome = self.controller.alter_partition_reassignments(plan)
        codes = [outcome.error] * plan.num_rows if outcome.response is None else outcome.response
        return self._record(outcome), [None if code == "NONE" else code for code in codes]

    def plan_caught_up(self) -> list[EventOutcome]:
        """Leaders reported that the active targets of what is being reassigned are in sync."""
        return self._record(*self.controller.catch_up_reassignments())

    def preferred_leaders_elected(
        self, partitions: Sequence[tuple[str, int]] | None = None
    ) -> list[EventOutcome]:
        """The preferred replicas were elected where they are active and in sync (section 7.2)."""
        return self._record(self.controller.elect_leaders(partitions))

    def awaited_slots(self, rows: Rows) -> Slots:
        """Slots that have to be in sync before each reassignment is complete (section 4)."""
        records = self.state.records.take(rows)
        adding, removing, isr = (
            records[name].astype(np.uint64) for name in ("adding", "removing", "isr")
        )
        required = first_slots(records["n_replicas"]) & ~removing
        completion = self.controller.release.completion
        if completion is Completion.ADDING:
            required = adding
        elif completion is Completion.BALANCED:
            fewer = n_bits(adding) < n_bits(removing)
            required = np.where(fewer, required, adding)
        awaited: Slots = np.where((adding | removing) != 0, required & ~isr, np.uint64(0))
        return awaited

    def delete_topics(self, topics: Sequence[str]) -> list[EventOutcome]:
        """Topics are gone at once (section 8.2)."""
        return self._record(self.controller.delete_topics(topics))

    def deletions_acknowledged(self) -> list[EventOutcome]:
        """Nothing: the controller waits for no broker (section 8.2)."""
        return []

    def _checked(self, broker_ids: Iterable[int], *, up: bool) -> list[int]:
        """Ids of brokers that are up, or down; `ArgumentError` where one is not."""
        ids: list[int] = arguments.broker_ids("broker_ids", broker_ids).tolist()
        rows = self.state.find_brokers(ids)
        wrong = [b for b, row in zip(ids, rows.tolist(), strict=True) if self.state.up[row] != up]
        if wrong:
            raise ArgumentError(
                f"broker {', '.join(map(str, wrong))} is {'down' if up else 'up'} already; nothing "
                "was changed"
            )
        return ids

    def _record(self, *outcomes: QuorumOutcome) -> list[EventOutcome]:
        return [record(self.state, outcome) for outcome in outcomes]
