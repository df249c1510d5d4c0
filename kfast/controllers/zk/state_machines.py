"""The two state machines: they move replicas and partitions from state to state.

Without a store the cache is the store, and a call is one kernel. With a store the records are
read, decided on and written as Kafka does it (`store_machines`); both ways go through the same
rule functions.

Source: docs/controller.md, sections 2 and 3; Kafka 3.9, `ZkReplicaStateMachine` and
`ZkPartitionStateMachine`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance, check_threads
from kfast.controllers.zk import store_machines
from kfast.controllers.zk.broker_groups import (
    GroupOrder,
    exceeds_small_map,
    group_ranks,
    improved_hashes,
)
from kfast.controllers.zk.policy import Policy, Rule
from kfast.controllers.zk.policy_runner import ElectionCause, PolicyRunner
from kfast.controllers.zk.profiles import DEFAULT_PROFILE, Profile, find_profile
from kfast.controllers.zk.store import Store
from kfast.controllers.zk.store_machines import (
    NO_TARGETS,
    Result,
    call_failed,
    call_result,
    online_action,
)
from kfast.errors import ArgumentError
from kfast.journal import Journal, Outcome
from kfast.journal.effects import EFFECT
from kfast.kernels import election, hosting, partition_states, replica_states
from kfast.schema import (
    TALLY_REASSIGNED,
    Code,
    PartitionState,
    ReplicaState,
    Strategy,
)
from kfast.state import ClusterState, Replicas
from kfast.state.arrays import first_slots
from kfast.state.records import Rows, Slots

NO_SLOTS = np.empty(0, np.uint64)

ROWS_PER_THREAD = 16384
"""Fewer rows than this are not worth another thread."""
State = TypeVar("State", PartitionState, ReplicaState)


def check_profile(state: ClusterState, profile: str | Profile) -> Profile:
    """Return the profile if it can hold the state; `ArgumentError` otherwise."""
    check_instance("state", state, ClusterState)
    version = find_profile(profile)
    if state.any_offline_dir and not version.has_log_dirs:
        raise ArgumentError(
            f"the state has replicas on offline log directories, of which {version.name} knows "
            "nothing: a broker of that version goes down as a whole"
        )
    return version


def threads_for(n: int, threads: int) -> int:
    """Threads that n rows are worth: to wake a thread takes longer than a few rows do."""
    return max(1, min(threads, n // ROWS_PER_THREAD))


class ReplicaStateMachine:
    """Moves replicas between the states of section 2.1.

    Parameters
    ----------
    state : ClusterState
        Changed in place.
    store : Store, optional
        Without one the cache is the store.
    journal : {"off", "counts", "full"} or Journal
        How much is recorded.
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile
        Which controller is simulated: a name in `profiles.PROFILES`.
    """

    def __init__(
        self, state: ClusterState, store: Store | None = None, *, journal: str | Journal = "full",
        threads: int = 1, profile: str | Profile = DEFAULT_PROFILE,
    ) -> None:
        self.profile = check_profile(state, profile)
        self.state = state
        self.store = store
        self.journal = _journal(state, journal, self.profile)
        self.threads = check_threads(threads)
        # Ids of more brokers that a call for failed brokers has groups of; it adds its own.
        self.failed_groups: set[int] | None = None

    def startup(self) -> Outcome:
        """Give every assigned replica a state, then move them Online or Offline (section 2.2)."""
        return _outcome(self.journal, "replica machine startup", self.start())

    def start(self, *, reset: bool = False) -> Result:
        """`startup` as a step of an event; with `reset`, as a new controller (section 6.1, step 4).

        Codes are not kept: at startup every replica is Online or DeletionIneligible before, and
        both may become what is asked.
        """
        state, journal = self.state, self.journal
        state.forget_survey()
        moving = self.profile.offlines_dead_at_startup
        threads = 1 if journal.records_effects else self.threads
        online, offline = (
            replica_states.count_started(state.columns)
            if journal.records_effects else (0, 0)
        )
        n_offline = offline if moving and self.store is None else 0
        effects = np.zeros(online, EFFECT), np.zeros(n_offline, EFFECT)
        tallies = journal.new_tallies(2, threads)
        replica_states.start_replicas(
            state.columns,
            self.profile.rules(
                state, counting=journal.counting, asks_store=self.store is not None
            ),
            self.rank_startup(online=True) if journal.records_effects else state.broker_id,
            self.rank_startup(online=False), reset, *effects, tallies,
        )
        state.n_reassigned = int(tallies[0][:, TALLY_REASSIGNED].sum())
        journal.add_step("replicas to OnlineReplica", tallies[0], effects[0], replicas=True)
        if not moving:
            return NO_TARGETS
        if self.store is None:
            journal.add_step("replicas to OfflineReplica", tallies[1], effects[1], replicas=True)
            return NO_TARGETS
        return self.run(self._assigned(online=False), ReplicaState.OFFLINE)

    def _assigned(self, *, online: bool) -> Replicas:
        """Assigned replicas that are online, or those that are not."""
        state = self.state
        rows = np.arange(state.n_partitions, dtype=np.int32)
        live = state.live_slots(rows)
        slots = first_slots(state.records["n_replicas"]) & (live if online else ~live)
        rows = rows[slots != 0]
        return Replicas(rows, slots[rows])

    def handle_state_changes(self, replicas: Replicas, target: ReplicaState) -> Outcome:
        """Move replicas to a target state.

        Parameters
        ----------
        replicas : Replicas
            From `ClusterState.find_replicas`, `replicas_of` or `replicas_on_brokers`.
        target : ReplicaState

        Returns
        -------
        Outcome
            `codes` has one `schema.Code` per replica, in the order (row, ascending broker id). An
            illegal transition, a newer controller or a fault of the store is a code.

        Raises
        ------
        RowError
            A row is outside the table or stands twice. Nothing is changed.
        ArgumentError
            A slot is not in use, or the target is not a state.

        References
        ----------
        docs/controller.md, sections 2.3 to 2.6; Kafka 3.9,
        `ZkReplicaStateMachine.handleStateChanges`.
        """
        rows = self.state.check_rows(replicas.rows)
        slots = np.ascontiguousarray(replicas.slots, np.uint64)
        unused = slots & ~first_slots(self.state.records["n_slots"][rows])
        if slots.size != rows.size or unused.any():
            raise ArgumentError("replicas names a slot that its partition does not use")
        if (rows[1:] < rows[:-1]).any():
            order = np.argsort(rows)
            rows, slots = rows[order], slots[order]
        moved = Replicas(rows, slots)
        by_id = store_machines.targets(self.state, moved, self.state.broker_id)
        ranks = self.rank_groups(target, None, rows, slots)
        place = np.lexsort((ranks[by_id[1]], by_id[0]))
        result = self.run(moved, _target(target, ReplicaState))
        codes = np.empty_like(result.codes)
        codes[place] = result.codes
        event = f"replicas to {target.label}"
        return _outcome(self.journal, event, Result(codes, result.in_result, result.failure))

    def rank_groups(
        self, target: ReplicaState, brokers: Rows | None, rows: Rows, slots: Slots = NO_SLOTS
    ) -> Rows:
        """(B,) ranks of brokers in the order in which one call takes their replicas.

        Where no ISR, assignment or journal shows the order, it is that of their ids.

        Source: section 2.3, step 3.

        Parameters
        ----------
        target : ReplicaState
            Where the replicas go.
        brokers : (n,) int32 or None
            Broker rows that those of the call are among; by default all.
        rows, slots : (m,) int32, (m,) uint64
            The replicas of the call. Without slots, those that are assigned to `brokers`.
        """
        state, order = self.state, self.profile.group_order
        shows = target == ReplicaState.OFFLINE or self.journal.records_effects or (
            # A new replica that comes online is appended to an assignment that lacks it.
            target == ReplicaState.ONLINE and slots.size > 0
            and bool((slots & ~first_slots(state.records["n_replicas"][rows])).any())
        )
        if not shows or order is GroupOrder.ASCENDING or (
            brokers is not None and brokers.size <= 1
        ):
            return state.broker_id
        candidates = np.full(state.n_brokers, brokers is None, np.uint8)
        if brokers is not None:
            candidates[brokers] = 1
        groups = np.empty(state.n_brokers, np.int32)
        n = hosting.list_groups(state.columns, rows, slots, candidates, groups)
        groups = np.sort(groups[:n])
        ids = state.broker_id[groups]
        offlines_failed = target == ReplicaState.OFFLINE and brokers is not None
        if offlines_failed and self.failed_groups is not None:
            self.failed_groups.update(ids.tolist())
            ids = np.array(sorted(self.failed_groups), np.int32)
            groups = state.find_brokers(ids)
        ranks = np.zeros(state.n_brokers, np.int32)
        ranks[groups] = group_ranks(ids, order)
        return ranks

    def _rank_run(
        self, target: ReplicaState, replicas: Replicas, brokers: Rows | None
    ) -> tuple[Rows, bool]:
        """Ranks for a call of `run`; or hashes of the brokers, where each partition is a call."""
        ids, order, slots = self.state.broker_id, self.profile.group_order, replicas.slots
        if not self.journal.per_partition:
            return self.rank_groups(target, brokers, replicas.rows, slots), False
        if order is GroupOrder.SCALA_2_13 and (slots & (slots - np.uint64(1))).any():
            return improved_hashes(ids), True
        return group_ranks(ids, order, is_small=not exceeds_small_map(slots).any()), False

    def rank_startup(self, *, online: bool) -> Rows:
        """`rank_groups` of the replicas that are online at startup, or of those that are not."""
        state, target = self.state, ReplicaState.ONLINE if online else ReplicaState.OFFLINE
        live = state.registered & ~state.shutting_down
        brokers = np.flatnonzero(live == online).astype(np.int32)
        if state.any_offline_dir:
            replicas = self._assigned(online=online)
            brokers = np.arange(state.n_brokers, dtype=np.int32)
            return self.rank_groups(target, brokers, replicas.rows, replicas.slots)
        if brokers.size <= 1:
            return state.broker_id
        return self.rank_groups(target, brokers, np.arange(state.n_partitions, dtype=np.int32))

    def run(
        self, replicas: Replicas, target: ReplicaState, brokers: Rows | None = None
    ) -> Result:
        """`handle_state_changes` without checks, as a step of an event.

        Codes are in the order (row, rank of the broker); `brokers` as for `rank_groups`.
        """
        if not len(replicas):
            return NO_TARGETS
        state, journal, profile = self.state, self.journal, self.profile
        if self.store is None and target == ReplicaState.OFFLINE:
            state.mark_led(replicas.rows)
        else:
            state.forget_survey()
        if self.store is not None and target == ReplicaState.OFFLINE:
            ranks, _ = self._rank_run(target, replicas, brokers)
            return store_machines.take_offline(
                state, self.store, journal, replicas, ranks, profile
            )
        reads_store = target == ReplicaState.NEW and profile.new_replica_reads_store
        if self.store is not None and reads_store:
            return store_machines.start_new(state, self.store, journal, replicas, profile)
        n = replica_states.count_targets(replicas.slots)
        codes, effects = np.empty(n, np.uint8), journal.new_effects(n)
        tally = journal.new_tally(threads_for(n, self.threads))
        replica_states.change_replicas(
            state.columns, profile.rules(state, counting=journal.counting), replicas,
            self._rank_run(target, replicas, brokers), int(target), codes, effects, tally,
        )
        journal.add_step(f"replicas to {target.label}", tally, effects, replicas=True)
        return Result(codes, np.empty(0, np.bool_))


class PartitionStateMachine:
    """Moves partitions between the states of section 3.1.

    Parameters are those of `ReplicaStateMachine`, and `policy`: a rule that chooses the leader
    among those that an election may take (module `policy`).
    """

    def __init__(
        self, state: ClusterState, store: Store | None = None, *, journal: str | Journal = "full",
        threads: int = 1, profile: str | Profile = DEFAULT_PROFILE,
        policy: Rule | Policy | None = None,
    ) -> None:
        self.profile = check_profile(state, profile)
        self.state = state
        self.store = store
        self.journal = _journal(state, journal, self.profile)
        self.threads = check_threads(threads)
        self.policy_runner = PolicyRunner(state, policy, self.profile)

    def startup(self) -> Outcome:
        """Give every assigned partition a state, then try to bring New and Offline ones Online."""
        with self._all_or_nothing():
            self.initialize()
            result = self.trigger_online()
        return _outcome(self.journal, "partition machine startup", result)

    def initialize(self) -> None:
        """Step 1 of section 3.2: states by leadership and liveness, cache only."""
        state = self.state
        tally = self.journal.new_tally(self.threads)
        partition_states.initialize_partitions(state.columns, state.any_queued, tally)
        empty = self.journal.new_effects(0)
        self.journal.add_step("partition states at startup", tally, empty, replicas=False)

    def trigger_online_partition_state_change(
        self, topics: Sequence[str] | None = None
    ) -> Outcome:
        """Try to bring every New or Offline partition Online, of some topics or of all.

        Source: section 3.2.
        """
        with self._all_or_nothing():
            result = self.trigger_online(topics)
        return _outcome(self.journal, "trigger online", result)

    def _all_or_nothing(self) -> contextlib.AbstractContextManager[None]:
        """A call by itself, outside an event: a rule that fails leaves everything as it was."""
        return self.policy_runner.all_or_nothing(self.store, self.journal, self.threads)

    def trigger_online(self, topics: Sequence[str] | None = None) -> Result:
        """`trigger_online` of section 3.2, as a step of an event."""
        rows = self.state.list_marked(self.state.pending, without_queued=True)
        if topics is not None:
            chosen = self.state.find_topics(topics)
            rows = rows[np.isin(self.state.topic_row[rows], chosen)]
        return self.run(rows, PartitionState.ONLINE, Strategy.OFFLINE)

    def handle_state_changes(
        self, partitions: npt.ArrayLike, target: PartitionState, strategy: Strategy | None = None
    ) -> Outcome:
        """Move partitions to a target state.

        Parameters
        ----------
        partitions : (n,) array of int
            Partition rows, each at most once.
        target : PartitionState
        strategy : Strategy, optional
            How leaders are elected; needed for partitions that are Online or Offline already.

        Returns
        -------
        Outcome
            `codes` has one `schema.Code` per partition, `in_result` says which of them Kafka's
            result map has, both in the order given; `failure` is set where the whole call failed.

        Raises
        ------
        RowError
            A row is outside the table or stands twice. Nothing is changed.

        References
        ----------
        docs/controller.md, sections 3.3 to 3.6; Kafka 3.9,
        `ZkPartitionStateMachine.handleStateChanges`.
        """
        rows = self.state.check_rows(partitions)
        order = np.argsort(rows, kind="stable")
        with self._all_or_nothing():
            result = self.run(rows[order], _target(target, PartitionState), strategy)
        codes, inside = np.empty_like(result.codes), np.empty_like(result.in_result)
        codes[order], inside[order] = result.codes, result.in_result
        event = f"partitions to {target.label}"
        return _outcome(self.journal, event, Result(codes, inside, result.failure))

    def run(
        self, rows: Rows, target: PartitionState, strategy: Strategy | None = None
    ) -> Result:
        """`handle_state_changes` on ascending rows without checks, as a step of an event."""
        if not rows.size:
            return NO_TARGETS
        state, journal, profile = self.state, self.journal, self.profile
        if self.store is not None:
            state.forget_survey()
        elif target == PartitionState.ONLINE:
            state.mark_led(rows)
        number = profile.kernel_strategy(strategy)
        if self.store is not None and target == PartitionState.ONLINE:
            return store_machines.bring_online(
                state, self.store, journal, rows, strategy, self.policy_runner
            )
        codes, effects = np.empty(rows.size, np.uint8), journal.new_effects(rows.size)
        threads = threads_for(rows.size, self.threads)
        tally = journal.new_tally(threads)
        rules = profile.rules(state, counting=journal.counting)
        if target != PartitionState.ONLINE:
            partition_states.change_partitions(
                state.columns, rules, rows, int(target), codes, effects, tally
            )
            journal.add_step(f"partitions to {target.label}", tally, effects, replicas=False)
            return Result(codes, np.zeros(rows.size, np.bool_))
        decided = self.policy_runner.decide(rows, number, ElectionCause.LISTED, threads)
        election.bring_online(
            state.columns, rules, rows, number, decided, codes, effects, tally
        )
        failed = strategy is None and bool((codes == Code.ILLEGAL_ARGUMENT).any())
        journal.add_step(
            online_action(strategy), tally, effects, replicas=False, strategy=strategy,
            sent=not failed,
        )
        return call_failed(codes, Code.ILLEGAL_ARGUMENT) if failed else call_result(codes)


def _journal(state: ClusterState, journal: str | Journal, profile: Profile) -> Journal:
    if isinstance(journal, Journal):
        return journal
    return Journal(state, journal, profile.journal_rules)


def _target(target: State, kind: type[State]) -> State:
    if not isinstance(target, kind) or target.name == "NO_ENTRY":
        raise ArgumentError(f"target {target!r} is not a {kind.__name__} to move to")
    return target


def _outcome(journal: Journal, event: str, result: Result) -> Outcome:
    outcome = journal.finish(event)
    outcome.codes, outcome.in_result = result.codes, result.in_result
    outcome.failure = result.failure
    return outcome
