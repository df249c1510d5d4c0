"""ZkEngine: the ZooKeeper-mode controller without its events, which is what handlers take.

It holds the state, the store, the journal and the two state machines. One function says which way
an event takes, and one undoes an event whose election policy fails.

Source: docs/controller.md, sections 1.5, 1.6 and 6.0; Kafka 3.9, `KafkaController`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from kfast.controllers.zk import controller_context
from kfast.controllers.zk.deletion_status import DeletionHints
from kfast.controllers.zk.faults import ControllerMoved, EventFailed
from kfast.controllers.zk.policy import Policy, Rule
from kfast.controllers.zk.profiles import DEFAULT_PROFILE, Profile
from kfast.controllers.zk.state_machines import (
    PartitionStateMachine,
    ReplicaStateMachine,
    check_profile,
)
from kfast.controllers.zk.store import Store
from kfast.controllers.zk.store_machines import Result
from kfast.errors import ArgumentError, PolicyError
from kfast.journal import Journal, Outcome
from kfast.schema import Code
from kfast.state import ClusterState
from kfast.state.records import Rows

P = ParamSpec("P")
E = TypeVar("E", bound="ZkEngine")


class ExecutionMode(Enum):
    """How the steps of an event are executed; the outcome is the same."""

    STEPS = "each step on all rows before the next"
    FUSED = "all steps on one partition before the next"
    STORE = "each step on all rows, with records that a store reads and writes"


QUEUED, REASSIGNED, IN_TURN, ELECTS, FULL, EFFECTS, UNCHECKED = 1, 2, 4, 8, 16, 32, 64
"""What ties partitions together, or the steps of an event apart, as bits: some topic is queued for
deletion, some partition is being reassigned, the version goes partition by partition or looks
beyond the brokers that failed, a policy has partitions to elect for although no broker fails, the
journal keeps rows or what became of each, the controller takes any ISR that it is asked for."""

STEPWISE: Mapping[str, int] = {
    "on_controller_failover": EFFECTS,
    "on_broker_startup": QUEUED | IN_TURN | ELECTS,
    "on_broker_failure": QUEUED | IN_TURN,
    "controlled_shutdown": QUEUED | IN_TURN | FULL,
    "elect_leaders": 0,
    "rebalance_leaders": QUEUED | IN_TURN | FULL,
    "catch_up": QUEUED | REASSIGNED | FULL | UNCHECKED,
    "alter_partition": REASSIGNED,
}
"""Events whose steps may be fused, and what makes each go step by step.

`elect_leaders` and `alter_partition` are one step in either mode. They stand here because their
policy decides for all rows before any row changes, unless what is said of them holds.
"""


def all_or_nothing(
    event: Callable[Concatenate[E, P], Outcome]
) -> Callable[Concatenate[E, P], Outcome]:
    """Make an event leave everything as it was where the policy fails.

    A copy of the state is made before; of the brokers alone, if no row changes before the policy
    has answered for all of them.
    """

    @functools.wraps(event)
    def with_rollback(engine: E, /, *args: P.args, **kwargs: P.kwargs) -> Outcome:
        machine = engine.partition_state_machine
        if machine.policy_runner.policy is None:
            return event(engine, *args, **kwargs)
        active, rows_change = engine.active, not engine.asks_policy_first(event.__name__)
        try:
            with machine.policy_runner.all_or_nothing(
                engine.store, engine.journal, machine.threads, rows_change=rows_change
            ):
                return event(engine, *args, **kwargs)
        except PolicyError:
            engine.active = active
            engine.deletion_hints.clear()
            raise

    return with_rollback


class ZkEngine:
    """What the handlers of ZooKeeper mode share. Parameters are those of `Controller`."""

    def __init__(
        self, state: ClusterState, *, store: Store | None = None, journal: str = "counts",
        threads: int = 1, profile: str | Profile = DEFAULT_PROFILE,
        policy: Rule | Policy | None = None,
    ) -> None:
        self.profile = check_profile(state, profile)
        if state.is_kraft:
            raise ArgumentError(
                f"the state is run by {state.controller}; Controller is that of ZooKeeper mode: "
                "take kfast.open_controller(state), or give it another controller by "
                "kfast.with_controller(state, 'zk-3.9')"
            )
        state.check_writable()
        self.state = state
        self.journal = Journal(state, journal, self.profile.journal_rules)
        self.active = True
        self.store = store
        self.deletion_hints = DeletionHints()
        self.replica_state_machine = ReplicaStateMachine(
            state, store, journal=self.journal, threads=threads, profile=self.profile
        )
        self.partition_state_machine = PartitionStateMachine(
            state, store, journal=self.journal, threads=threads, profile=self.profile, policy=policy
        )
        self._present_always = IN_TURN * (
            self.profile.batch_per_partition or self.profile.offlines_only_of_failed
        ) + UNCHECKED * (
            self.profile.has_alter_partition and not self.profile.requires_live_isr
        )

    def attempt(self, event: str, steps: Callable[[], None]) -> Outcome:
        """Execute the steps of an event, and make its outcome; what they raise ends it.

        Source: section 6.0.
        """
        if not self.active:
            return self.refused(event, "NOT_CONTROLLER")
        try:
            steps()
        except ControllerMoved:
            return self.resigned(event)
        except EventFailed as failed:
            return self.refused(event, failed.error)
        return self.journal.finish(event)

    def resigned(self, event: str) -> Outcome:
        """Outcome of an event that found another controller in charge; this one resigns."""
        self.active = False
        outcome = self.journal.finish(event)
        outcome.failure = Code.CONTROLLER_MOVED
        return outcome

    def refused(self, event: str, error: str) -> Outcome:
        """Outcome of a request that Kafka answers with an error as a whole."""
        outcome = self.journal.finish(event)
        outcome.error = error
        return outcome

    def way_of(self, event: str) -> ExecutionMode:
        """Execution mode of an event that `STEPWISE` names: the only place that decides it."""
        if self.store is not None:
            return ExecutionMode.STORE
        state, journal = self.state, self.journal
        present = (
            self._present_always + QUEUED * state.any_queued
            + REASSIGNED * (state.n_reassigned > 0)
            + FULL * journal.full + EFFECTS * journal.records_effects
        )
        if self.partition_state_machine.policy_runner.policy is not None:
            present += ELECTS * bool(state.n_reassigned or state.pending.any())
        return ExecutionMode.STEPS if present & STEPWISE[event] else ExecutionMode.FUSED

    def asks_policy_first(self, event: str) -> bool:
        """Whether an event changes no row before the policy has answered for all partitions.

        All fused events are so, but for the first elections of a new controller.
        """
        return (
            event in STEPWISE and event != "on_controller_failover"
            and not self.state.any_offline_dir and self.way_of(event) is ExecutionMode.FUSED
        )

    def gauges(self) -> dict[str, int]:
        """Exported gauges by Kafka's names (section 1.6); all zero when not active."""
        return controller_context.gauges(self.state, self.active)

    def registered_epoch(self, broker_id: int) -> int | None:
        """Epoch of a registered broker; None for any other."""
        state = self.state
        row = state.broker_row(broker_id)
        return int(state.broker_epoch[row]) if row >= 0 and state.registered[row] else None

    def send_update_metadata(
        self, action: str, brokers: npt.NDArray[np.bool_], rows: Rows | None
    ) -> None:
        """`sendUpdateMetadataRequest`: an own batch; None means `partitions_with_leaders`."""
        if rows is None and not (self.journal.full or self.state.any_queued):
            self.journal.add_metadata_counts(action, brokers, [self.state.n_led])
            return
        if rows is None:
            rows = controller_context.partitions_with_leaders(self.state)
        self.journal.add_update_metadata(action, brokers, rows)

    def batches(self) -> contextlib.AbstractContextManager[None]:
        """How a handler's partitions share batches: all together, one by one before Kafka 1.1."""
        if self.profile.batch_per_partition:
            return self.journal.batch_for_each_partition()
        return contextlib.nullcontext()

    def checked(self, result: Result) -> Result:
        """The result of a machine's call; raises where another controller has taken over."""
        if result.failure == Code.CONTROLLER_MOVED:
            raise ControllerMoved("another controller has taken over")
        return result
