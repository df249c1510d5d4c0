"""Controller: one method per event, by the name of Kafka's handler, in snake case.

Each method calls the handler of its subject, which has the steps in Kafka's order.

Source: docs/controller.md, section 6; Kafka 3.9, `KafkaController`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy.typing as npt
import pyarrow as pa

from kfast.controllers.reassignment_requests import Reassignments
from kfast.controllers.zk import (
    alter_partition_requests,
    broker_changes,
    controlled_shutdown,
    controller_failover,
    leader_election,
    log_dirs,
    reassignment,
    topic_changes,
    topic_deletion,
)
from kfast.controllers.zk.engine import ZkEngine, all_or_nothing
from kfast.journal import Outcome
from kfast.schema import UNKNOWN_BROKER_EPOCH
from kfast.state import Replicas
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows


class Controller(ZkEngine):
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

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""
        return self.profile.title

    def _summary(self) -> Summary:
        _, facts = self.state._summary()
        policy = self.partition_state_machine.policy_runner.policy
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

    # --- sections 6.1 and 6.2 --------------------------------------------------------------------

    @all_or_nothing
    def on_controller_failover(
        self, preferred_election: Sequence[tuple[str, int]] | None = None,
        reassignments: Reassignments | None = None,
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
        return controller_failover.on_controller_failover(self, preferred_election, reassignments)

    @all_or_nothing
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
        return broker_changes.on_broker_change(self, started, bounced, failed)

    @all_or_nothing
    def on_broker_startup(self, broker_ids: Iterable[int] | Mapping[int, int]) -> Outcome:
        """Brokers registered: `on_broker_change(started=...)`."""
        outcome = broker_changes.on_broker_change(self, broker_ids, (), ())
        outcome.event = "on_broker_startup"
        return outcome

    @all_or_nothing
    def on_broker_failure(self, broker_ids: Iterable[int]) -> Outcome:
        """Brokers vanished: `on_broker_change(failed=...)`."""
        outcome = broker_changes.on_broker_change(self, (), (), broker_ids)
        outcome.event = "on_broker_failure"
        return outcome

    def on_broker_modification(self, broker_ids: Iterable[int]) -> Outcome:
        """Endpoints or features of registered brokers changed: all brokers are told.

        Source: section 6.2.
        """
        return broker_changes.on_broker_modification(self, broker_ids)

    def replicas_become_offline(self, replicas: Replicas, died: Rows | None = None) -> None:
        """`onReplicasBecomeOffline` of section 6.2; `died` are the broker rows that went away."""
        broker_changes.replicas_become_offline(self, replicas, died)

    # --- sections 6.3 to 6.12 ---------------------------------------------------------------------

    @all_or_nothing
    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> Outcome:
        """A broker asks to shut down: its leaders move, it leaves the ISRs (section 6.3).

        Returns
        -------
        Outcome
            `remaining` lists the partition rows that the broker still leads; `error` is Kafka's
            answer where the request is refused.
        """
        return controlled_shutdown.controlled_shutdown(self, broker_id, broker_epoch)

    @all_or_nothing
    def on_topic_change(
        self, created: Mapping[str, Mapping[int, Sequence[int]]] | pa.Table | None = None,
        gone: Sequence[str] = (), *, configs: Mapping[str, Mapping[str, object]] | None = None,
    ) -> Outcome:
        """The list of topics changed: new ones are set up, vanished ones forgotten (section 6.4).

        Parameters
        ----------
        created : mapping of topic to (partition to broker ids), or pa.Table, optional
            A table has columns topic, partition and replicas.
        gone : sequence of str
            Topics that vanished from the store. Their states stay behind, as in Kafka.
        configs : mapping of topic to (config to value), optional
            The configurations of created topics: `min.insync.replicas` and
            `unclean.leader.election.enable`; what a topic's mapping lacks has the brokers' default.
            They are in force before the partitions are created. A created topic that has no mapping
            keeps the configuration that it had when it vanished; a new one has none.

        Raises
        ------
        ArgumentError
            A created topic exists, a vanished one does not, or a list names a broker twice; a
            configuration is of a topic that is not created here, is not one of the two, or has a
            value that Kafka does not allow. Nothing is changed.

        References
        ----------
        Kafka 3.9, `AdminZkClient.createTopicWithAssignment`, which writes a topic's whole
        configuration before its assignment.
        """
        return topic_changes.on_topic_change(self, created, gone, configs=configs)

    @all_or_nothing
    def on_partition_modifications(
        self, topic: str, assignments: Mapping[int, Sequence[int]],
    ) -> Outcome:
        """A topic got more partitions (section 6.4, topic node modified).

        Partitions that have replicas already are left alone; of a queued topic nothing is set up.
        """
        return topic_changes.on_partition_modifications(self, topic, assignments)

    @all_or_nothing
    def alter_partition_reassignments(self, reassignments: Reassignments) -> Outcome:
        """Start, change or cancel reassignments (section 6.7, API call).

        Parameters
        ----------
        reassignments : mapping of (topic, partition) to broker ids or None, or pa.Table
            New assignments in order, the preferred replica first; None cancels. A table has the
            columns topic, partition and replicas, where a null cancels.

        Returns
        -------
        Outcome
            `reassignment_codes` has one `schema.ReassignmentCode` per partition, in the order
            given; where another controller has taken over meanwhile (`failure`), those that were
            not refused stand as STARTED.

        Raises
        ------
        ArgumentError
            A partition stands twice, a list is ill-typed, or a partition would name more than 64
            brokers. Nothing is changed.
        """
        return reassignment.alter_partition_reassignments(self, reassignments)

    @all_or_nothing
    def reassign_partitions(self, reassignments: Reassignments) -> Outcome:
        """The legacy reassignment node was created (section 6.7); no list is checked.

        Parameters and results as of `alter_partition_reassignments`; partitions that fail are
        removed from the node. `ArgumentError` where a list is empty, names a negative id, or is
        null.
        """
        return reassignment.reassign_partitions(self, reassignments)

    @all_or_nothing
    def on_partition_reassignment(self, rows: npt.ArrayLike) -> Outcome:
        """Go on with the reassignments of some rows, to the assignments they have (section 6.7).

        `error` is set where one of them fails, as it ends Kafka's handler.
        """
        return reassignment.on_partition_reassignment(self, rows)

    def list_partition_reassignments(
        self, partitions: Sequence[tuple[str, int]] | None = None,
    ) -> pa.Table:
        """Reassignments under way, of some partitions or of all.

        Returns
        -------
        pa.Table
            topic, partition, partition_row, replicas, adding, removing; unknown partitions and
            those that are not being reassigned are left out.
        """
        return reassignment.list_partition_reassignments(self, partitions)

    @all_or_nothing
    def elect_leaders(
        self, partitions: leader_election.Partitions | None = None, type: str = "preferred",
        trigger: str = "AdminClient", *, without_leadership: int | None = None,
    ) -> Outcome:
        """Elect leaders on demand (section 6.8).

        Parameters
        ----------
        partitions : sequence of (topic, partition), or (n,) ndarray of rows, optional
            None means all partitions.
        type : {"preferred", "unclean"}
        trigger : {"AdminClient", "ZkTriggered"}
            Only the AdminClient may elect outside the ISR.
        without_leadership : int, optional
            Of the whole cluster, where the state is a part of it: the sum of what
            `count_without_leadership` gives of each part.

        Returns
        -------
        Outcome
            `replies` is a table topic, partition, partition_row, leader, error: Kafka's reply per
            partition. Partitions that are missing in Kafka's reply are missing there. `error` is
            set, and nobody is elected, where a known partition without leadership makes the whole
            event fail, or where the profile knows no such election.
        """
        return leader_election.elect_leaders(
            self, partitions, type, trigger, without_leadership=without_leadership,
        )

    def rebalance_leaders(
        self, percentage: float = 10, *, counts: pa.Table | None = None,
        reassigned: int | None = None,
    ) -> Outcome:
        """Give partitions back to their preferred replicas, broker by broker (section 6.8, auto).

        Parameters
        ----------
        percentage : float, default 10
            `leader.imbalance.per.broker.percentage`: a broker is acted on where the share of its
            preferred partitions that others lead is greater.
        counts : pa.Table, optional
            broker_id, preferred, led_by_others of the whole cluster, where the state is a part of
            it: the sum of what `count_preferred` gives of each part.
        reassigned : int, optional
            Partitions of the whole cluster that are being reassigned, where the state is a part of
            it.

        Returns
        -------
        Outcome
            `imbalance` is a table broker_id, preferred, led_by_others, ratio; `rebalanced` are the
            brokers whose partitions were asked for, one step each.
        """
        return leader_election.rebalance_leaders(
            self, percentage, counts=counts, reassigned=reassigned,
        )

    @all_or_nothing
    def enable_unclean_leader_election(self, topics: Sequence[str] | None = None) -> Outcome:
        """`unclean.leader.election.enable` becomes true, for some topics or as the default.

        Source: section 6.11.
        """
        return leader_election.enable_unclean_leader_election(self, topics)

    @all_or_nothing
    def on_broker_log_dir_failure(self, broker_ids: Iterable[int]) -> Outcome:
        """Log directories failed on these brokers: they are probed (section 6.9, step 1)."""
        return log_dirs.on_broker_log_dir_failure(self, broker_ids)

    @all_or_nothing
    def on_leader_and_isr_response(
        self, broker_id: int, offline: npt.ArrayLike = (), online: npt.ArrayLike = (),
    ) -> Outcome:
        """A broker answered LeaderAndIsr: which partitions' directories are offline.

        Source: section 6.9, step 2.

        Parameters
        ----------
        broker_id : int
        offline, online : (n,) array of int
            Partition rows answered with KAFKA_STORAGE_ERROR and with NONE.
        """
        return log_dirs.on_leader_and_isr_response(self, broker_id, offline, online)

    @all_or_nothing
    def on_log_dir_failure(self, broker_id: int, rows: npt.ArrayLike) -> Outcome:
        """A log directory with these partitions failed on a broker: probe, answer, and all.

        Source: section 6.9.

        Every other replica of the broker answers that it is well.
        """
        return log_dirs.on_log_dir_failure(self, broker_id, rows)

    @all_or_nothing
    def alter_partition(
        self, broker_id: int, broker_epoch: int, rows: npt.ArrayLike, leader_epoch: npt.ArrayLike,
        isr: Sequence[Sequence[int]], version: npt.ArrayLike, recovery: npt.ArrayLike = 0,
    ) -> Outcome:
        """A leader reports new ISRs of partitions (section 6.10).

        Parameters
        ----------
        broker_id, broker_epoch : int
            The sender.
        rows : (n,) array of int
            Partition rows, each at most once.
        leader_epoch, version, recovery : (n,) array of int
            As the sender knows them; one value serves all.
        isr : sequence of n sequences of int
            Broker ids proposed.

        Returns
        -------
        Outcome
            `alter_codes` has one `schema.AlterCode` per partition, in the order given; `error` is
            set where the whole request is refused, as by every profile before 2.7.

        Raises
        ------
        RowError
            A row is outside the table or stands twice. Nothing is changed.
        ArgumentError
            `isr` is not as long as `rows`.
        """
        return alter_partition_requests.alter_partition(
            self, broker_id, broker_epoch, rows, leader_epoch, isr, version, recovery,
        )

    @all_or_nothing
    def catch_up(self, broker_ids: Iterable[int]) -> Outcome:
        """Brokers caught up: the leaders report ISRs that have them again.

        Every live leader sends one AlterPartition request with the partitions in which a live
        assigned replica on one of these brokers is missing from the ISR; senders go in ascending
        id. Before Kafka 2.7 it writes the ISRs itself and leaves a notification, which is handled
        at once.

        Returns
        -------
        Outcome
            `alter_codes` and `altered` (rows): what the controller answered, over all requests.
        """
        return alter_partition_requests.catch_up(self, broker_ids)

    @all_or_nothing
    def on_isr_change_notification(self, rows: npt.ArrayLike) -> Outcome:
        """Leaders wrote ISRs themselves and left a notification: reload and announce.

        Source: section 6.10, legacy.
        """
        return alter_partition_requests.on_isr_change_notification(self, rows)

    def delete_topics(self, topics: Sequence[str]) -> Outcome:
        """Deletion markers appeared: these topics are to be deleted (section 6.12).

        Nothing waits for brokers here: `acknowledge_deletions` or `on_stop_replica_response` bring
        their answers.

        Returns
        -------
        Outcome
            `notes` names what was not queued: unknown topics, or all of them where
            `delete_topic_enabled` is false.
        """
        return topic_deletion.delete_topics(self, topics)

    def on_stop_replica_response(
        self, broker_id: int, rows: npt.ArrayLike, failed: npt.ArrayLike = (), error: bool = False,
    ) -> Outcome:
        """A broker answers a StopReplica request that deletes replicas (sections 6.12 and 5.4).

        Parameters
        ----------
        broker_id : int
            The broker that answers.
        rows : (n,) array of int
            Partition rows that its answer speaks of; those whose deletion has not started are left
            out, as Kafka does.
        failed : (m,) array of int
            Those of them with an error.
        error : bool
            The answer as a whole is an error: all failed.

        Raises
        ------
        RowError
            A row is outside the table or stands twice. Nothing is changed.
        ArgumentError
            The broker is unknown, or a failed row is not among the rows. Nothing is changed.
        """
        return topic_deletion.on_stop_replica_response(self, broker_id, rows, failed, error)

    def acknowledge_deletions(self, broker_ids: Iterable[int] | None = None) -> Outcome:
        """Brokers report that they have deleted what they were told to delete.

        Each registered broker (of these) answers without an error for all its replicas in
        ReplicaDeletionStarted; answers come in ascending broker id.
        """
        return topic_deletion.acknowledge_deletions(self, broker_ids)

    def compact(self) -> None:
        """Give back the space of deleted topics, in the state and in the store; rows move."""
        kept = self.state.compact()
        if self.store is not None:
            self.store.keep_rows(kept)
        self.deletion_hints.clear()
