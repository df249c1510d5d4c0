"""Controller: one method per event, step by step in Kafka's order.

Source: docs/controller.md, section 6; Kafka 3.9, `KafkaController`. A method carries the name of
Kafka's handler, in snake case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kfast import arguments
from kfast.controllers.zk import (
    alter_partition_requests,
    controlled_shutdown,
    controller_context,
    fused_events,
    leader_election,
    log_dirs,
    reassignment_requests,
    topic_changes,
    topic_deletion,
)
from kfast.controllers.zk.deletion_status import DeletionHints
from kfast.controllers.zk.policy import Policy, Rule
from kfast.controllers.zk.policy_rollback import (
    all_or_nothing,
    asks_a_store,
    changes_late,
    completes_reassignments,
    shuts_down_late,
)
from kfast.controllers.zk.profiles import DEFAULT_PROFILE, Profile
from kfast.controllers.zk.results import EventFailed, Result
from kfast.controllers.zk.state_machines import (
    PartitionStateMachine,
    ReplicaStateMachine,
    check_profile,
)
from kfast.controllers.zk.store import ControllerMoved, Store
from kfast.errors import ArgumentError
from kfast.journal import Journal, Outcome
from kfast.schema import Code, PartitionState, ReplicaState
from kfast.state import ClusterState, Replicas
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.mutators import SHUTTING_DOWN
from kfast.state.records import EMPTY_ROWS, Rows


class Controller:
    """The active controller of a cluster.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event.
    store : Store, optional
        Without one the cache is the store, and nothing can conflict.
    journal : {"off", "counts", "full"}
        How much each outcome records; it never changes what happens.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile
        Which controller is simulated: a name in `profiles.PROFILES`.
    policy : function or Policy, optional
        A rule that chooses the leader among those that an election may take (module `policy`);
        without one it is the first, as in Kafka. An event whose rule fails raises `PolicyError`
        and changes nothing.
    """

    def __init__(
        self, state: ClusterState, *, store: Store | None = None, journal: str = "counts",
        threads: int = 1, profile: str | Profile = DEFAULT_PROFILE,
        policy: Rule | Policy | None = None,
    ) -> None:
        self.profile = check_profile(state, profile)
        if state.is_read_only:
            raise ArgumentError(
                "the state is read-only: its columns are shared files; give a copy, state.copy()"
            )
        self.state = state
        self.store = store
        self.active = True
        self.deletion_hints = DeletionHints()
        # Where the state is a part of a cluster: scopes in which other parts resume deletions.
        self.resumed_elsewhere: frozenset[str] = frozenset()
        self.journal = Journal(state, journal, self.profile.journal_rules)
        self.replica_state_machine = ReplicaStateMachine(
            state, store, journal=self.journal, threads=threads, profile=self.profile
        )
        self.partition_state_machine = PartitionStateMachine(
            state, store, journal=self.journal, threads=threads, profile=self.profile, policy=policy
        )

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""
        return self.profile.title

    def _summary(self) -> Summary:
        _, facts = self.state._summary()
        policy = self.partition_state_machine.decider.policy
        return f"Controller of {self.title}", {
            "not active": not self.active,
            "controller_epoch": str(self.state.controller_epoch),
            "journal": self.journal.level,
            "policy": None if policy is None else policy.name,
            "with a store": self.store is not None,
            **facts,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    # --- section 6.1 -----------------------------------------------------------------------------

    @all_or_nothing
    def on_controller_failover(
        self, preferred_election: Sequence[tuple[str, int]] | None = None,
        reassignments: reassignment_requests.Reassignments | None = None,
    ) -> Outcome:
        """Become controller: load, give every replica and partition a state, elect (section 6.1).

        Parameters
        ----------
        preferred_election : sequence of (topic, partition), optional
            Content of the preferred-election node, where there is one (step 11).
        reassignments : mapping or pa.Table, optional
            Content of the legacy reassignment node, where there is one (step 9); as for
            `reassign_partitions`.
        """
        node = {} if reassignments is None else reassignments
        requests = reassignment_requests.parse(self.state, node, node=True)
        if preferred_election is not None:
            arguments.partition_keys("preferred_election", preferred_election)
        self.active = True
        state = self.state

        def steps() -> None:
            self._elect_self()
            reassignment_requests.load_node(self, requests)
            controller_context.load_context(self)
            self.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)
            self._start_machines()
            self.checked(self.partition_state_machine.trigger_online())
            reassignment_requests.resume(self, requests)
            topic_deletion.resume_deletions(self)
            if preferred_election is not None:
                leader_election.elect_pending(self, preferred_election)

        outcome = self.attempt("on_controller_failover", steps)
        self.active = self.active and outcome.error is None
        return outcome

    def _start_machines(self) -> None:
        """Steps 7 and 8 of section 6.1, as far as no partition needs a leader."""
        if fused_events.can_start(self):
            fused_events.start_machines(self)
            reassignment_requests.mark_waiting(self)
            return
        started = self.replica_state_machine.start(reset=True)
        reassignment_requests.mark_waiting(self)
        self.checked(started)
        self.state.index_hosting()
        self.partition_state_machine.initialize()

    def _elect_self(self) -> None:
        state = self.state
        if self.store is None:
            state.controller_epoch += 1
            state.epoch_store_version += 1
        else:
            state.controller_epoch, state.epoch_store_version = self.store.elect_controller()

    # --- section 6.2 -----------------------------------------------------------------------------

    @functools.partial(all_or_nothing, may_fail_late=changes_late)
    def on_broker_change(
        self, started: Iterable[int] | Mapping[int, int] = (),
        bounced: Iterable[int] | Mapping[int, int] = (), failed: Iterable[int] = (),
    ) -> Outcome:
        """Brokers registered, re-registered or vanished (section 6.2 as a whole, in Kafka's order).

        Parameters
        ----------
        started, bounced : iterable of int, or mapping of int to int
            Broker ids; a mapping gives their new epochs, otherwise the epoch rises by 1.
        failed : iterable of int
            Broker ids.

        Raises
        ------
        ArgumentError
            A started broker is registered already, or another one is not. Nothing is changed.
        """
        new = self._epochs(started, registered=False)
        again = self._epochs(bounced, registered=True)
        dead = sorted(self._epochs(failed, registered=True))
        if not self.active:
            return self.refused("on_broker_change", "NOT_CONTROLLER")
        noticed = self.profile.has_broker_epochs

        def steps() -> None:
            if new:
                self._broker_startup(new)
            if again and noticed:
                self._broker_failure(sorted(again))
                self._broker_startup(again)
            if dead:
                self._broker_failure(dead)

        outcome = self.attempt("on_broker_change", steps)
        if again and not noticed:
            ids = ", ".join(map(str, sorted(again)))
            outcome.notes = (f"{self.title} does not notice that broker {ids} bounced",)
        return outcome

    def on_broker_startup(self, broker_ids: Iterable[int] | Mapping[int, int]) -> Outcome:
        """Brokers registered: `on_broker_change(started=...)`."""
        outcome = self.on_broker_change(started=broker_ids)
        outcome.event = "on_broker_startup"
        return outcome

    def on_broker_failure(self, broker_ids: Iterable[int]) -> Outcome:
        """Brokers vanished: `on_broker_change(failed=...)`."""
        outcome = self.on_broker_change(failed=broker_ids)
        outcome.event = "on_broker_failure"
        return outcome

    def on_broker_modification(self, broker_ids: Iterable[int]) -> Outcome:
        """Endpoints or features of registered brokers changed: all brokers are told.

        Source: section 6.2.
        """
        self._epochs(broker_ids, registered=True)
        if not self.active:
            return self.refused("on_broker_modification", "NOT_CONTROLLER")
        self.send_update_metadata("announce the brokers", self.state.registered, EMPTY_ROWS)
        return self.journal.finish("on_broker_modification")

    def _epochs(
        self, given: Iterable[int] | Mapping[int, int], *, registered: bool
    ) -> dict[int, int]:
        """New epochs by id, after checking that the ids are registered or not."""
        if isinstance(given, tuple) and not given:
            # The default, without a check that a small event would feel.
            return {}
        state, name = self.state, "broker_ids"
        ids = arguments.broker_ids(name, given).tolist()
        if not ids:
            return {}
        if not registered:
            arguments.check_range(name, np.array(ids), 0, arguments.MAX_BROKER_ID)
        found = [state.broker_row(broker) for broker in ids]
        for broker, row in zip(ids, found, strict=True):
            is_registered = row >= 0 and bool(state.broker_status[row] & 1)
            if is_registered != registered:
                wanted = "registered" if registered else "not registered yet"
                raise ArgumentError(
                    f"broker {broker} is {'' if is_registered else 'not '}registered; only a "
                    f"broker that is {wanted} is allowed here; nothing was changed"
                )
        if len(set(ids)) != len(ids):
            raise ArgumentError(f"{ids} names a broker twice; nothing was changed")
        if isinstance(given, Mapping):
            return arguments.epochs_of(name, given)
        epochs = [int(state.broker_epoch[row]) + 1 if row >= 0 else 0 for row in found]
        return dict(zip(ids, epochs, strict=True))

    def _broker_startup(self, epochs: Mapping[int, int]) -> None:
        """`onBrokerStartup` of section 6.2, for brokers that register with these epochs."""
        state = self.state
        ruled = self.partition_state_machine.decider.policy is not None
        fused = fused_events.can_visit(self) and not (ruled and state.pending.any())
        hosted = state.add_live_brokers(epochs, find=not fused)
        brokers = state.find_brokers(sorted(epochs))
        chosen = np.zeros(state.n_brokers, np.bool_)
        chosen[brokers] = True
        state.clear_offline_dir(brokers)
        controller_context.tell_starting(self, chosen)
        if fused:
            fused_events.start_brokers(self, brokers)
        else:
            self.checked(self.replica_state_machine.run(hosted, ReplicaState.ONLINE, brokers))
            self.checked(self.partition_state_machine.trigger_online())
        if state.n_reassigned:
            reassignment_requests.resume_on(self, state.find_brokers(sorted(epochs)))
        if state.any_queued:
            topic_deletion.resume_deletion_for(self, np.unique(state.topic_row[hosted.rows]))

    def _broker_failure(self, broker_ids: Sequence[int]) -> None:
        """`onBrokerFailure` of section 6.2, for brokers that are still registered."""
        state = self.state
        brokers = state.find_brokers(broker_ids)
        if fused_events.can_visit(self):
            fused_events.fail_brokers(self, brokers)
            return
        hosted = state.remove_live_brokers(broker_ids)
        state.clear_offline_dir(brokers)
        if (state.broker_status[brokers] & SHUTTING_DOWN).any():
            state.set_shutting_down(broker_ids, False)
        self.replicas_become_offline(hosted, brokers)

    def replicas_become_offline(self, replicas: Replicas, died: Rows | None = None) -> None:
        """`onReplicasBecomeOffline` of section 6.2; `died` are the broker rows that went away."""
        state = self.state
        queued, others = controller_context.split_queued(state, replicas)
        leaderless = state.list_marked(state.leader_offline, without_queued=True)
        if self.profile.offlines_only_of_failed and died is not None:
            leaderless = leaderless[np.isin(state.records["leader"][leaderless], died)]
        machine = self.partition_state_machine
        self.checked(machine.run(leaderless, PartitionState.OFFLINE))
        results = self.checked(machine.trigger_online())
        self.checked(self.replica_state_machine.run(others, ReplicaState.OFFLINE, died))
        if len(queued):
            topic_deletion.fail_replica_deletion(self, queued)
        elif self.resumed_elsewhere:
            topic_deletion.resume_elsewhere(self)
        if self.profile.announces_unless_elected:
            announced = not len(others) and not results.any_elected
        else:
            announced = not leaderless.size
        if announced:
            self.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)

    def registered_epoch(self, broker_id: int) -> int | None:
        """Epoch of a registered broker; None for any other."""
        state = self.state
        row = state.broker_row(broker_id)
        return int(state.broker_epoch[row]) if row >= 0 and state.registered[row] else None

    # --- sections 6.3 to 6.12 ---------------------------------------------------------------------

    controlled_shutdown = all_or_nothing(controlled_shutdown.controlled_shutdown, shuts_down_late)
    on_topic_change = all_or_nothing(topic_changes.on_topic_change)
    on_partition_modifications = all_or_nothing(topic_changes.on_partition_modifications)
    alter_partition_reassignments = all_or_nothing(
        reassignment_requests.alter_partition_reassignments
    )
    reassign_partitions = all_or_nothing(reassignment_requests.reassign_partitions)
    on_partition_reassignment = all_or_nothing(reassignment_requests.on_partition_reassignment)
    list_partition_reassignments = reassignment_requests.list_partition_reassignments
    elect_leaders = all_or_nothing(leader_election.elect_leaders, asks_a_store)
    rebalance_leaders = leader_election.rebalance_leaders
    enable_unclean_leader_election = all_or_nothing(
        leader_election.enable_unclean_leader_election
    )
    alter_partition = all_or_nothing(
        alter_partition_requests.alter_partition, completes_reassignments
    )
    catch_up = all_or_nothing(alter_partition_requests.catch_up, completes_reassignments)
    on_broker_log_dir_failure = all_or_nothing(log_dirs.on_broker_log_dir_failure)
    on_leader_and_isr_response = all_or_nothing(log_dirs.on_leader_and_isr_response)
    on_log_dir_failure = all_or_nothing(log_dirs.on_log_dir_failure)
    on_isr_change_notification = all_or_nothing(
        alter_partition_requests.on_isr_change_notification, completes_reassignments
    )
    delete_topics = topic_deletion.delete_topics
    on_stop_replica_response = topic_deletion.on_stop_replica_response
    acknowledge_deletions = topic_deletion.acknowledge_deletions

    # --- gauges, and what every handler shares ---------------------------------------------------

    def gauges(self) -> dict[str, int]:
        """Exported gauges by Kafka's names (section 1.6); all zero when not active."""
        return controller_context.gauges(self.state, self.active)

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

    def checked(self, result: Result) -> Result:
        """Pass a result on; raise where another controller has taken over."""
        if result.failure == Code.CONTROLLER_MOVED:
            raise ControllerMoved("another controller has taken over")
        return result

    def attempt(self, event: str, steps: Callable[[], None] | None) -> Outcome:
        """Take the steps of an event; what they raise ends it (section 6.0)."""
        try:
            if steps is not None:
                steps()
        except ControllerMoved:
            return self.resigned(event)
        except EventFailed as failed:
            return self.refused(event, failed.error)
        return self.journal.finish(event)

    def compact(self) -> None:
        """Give back the space of deleted topics, in the state and in the store; rows move."""
        kept = self.state.compact()
        if self.store is not None:
            self.store.keep_rows(kept)
        self.deletion_hints.clear()

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
