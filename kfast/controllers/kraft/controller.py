"""QuorumController: one method per event, by Kafka's names, in snake case.

Each method calls the handler of its subject, which has the steps in Kafka's order.

Source: docs/kraft.md, sections 6 to 8; Kafka 4.1, QuorumController.java,
ReplicationControlManager.java, ClusterControlManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kfast import arguments
from kfast.controllers.kraft import (
    broker_events,
    catch_up,
    configurations,
    partition_requests,
    reassignments,
    topics,
)
from kfast.controllers.kraft.broker_events import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from kfast.controllers.kraft.configurations import ConfigChange
from kfast.controllers.kraft.engine import QuorumEngine
from kfast.controllers.kraft.heartbeats import DEFAULT_SESSION_TIMEOUT_MS, Heartbeats
from kfast.controllers.kraft.kafka_indexes import KafkaIndexes
from kfast.controllers.kraft.partition_requests import AlterPartitionData
from kfast.controllers.kraft.topics import CreatableTopic
from kfast.controllers.reassignment_requests import Reassignments
from kfast.errors import ArgumentError
from kfast.journal import QuorumOutcome
from kfast.kernels import partition_changes
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.metadata_records import check_uuids
from kfast.state.record_application import quorum_columns

DEFAULT_MAX_ELECTIONS = 1000
"""Elections of one pass of a periodic task. Source: ReplicationControlManager.java."""


class QuorumController(QuorumEngine):
    """The active controller of a KRaft cluster.

    Which release decides is `state.controller`; metadata.version, ELR and configurations are those
    of `state.quorum`.

    Parameters
    ----------
    state : ClusterState
        Changed in place by every event.
    journal : {"off", "counts", "full"}
        How much each outcome records; it never changes what happens.
    tracks_history : bool
        Keep Kafka's hash tables, so that partitions are visited, and records written, in exactly
        Kafka's order (section 9): for small clusters. Otherwise they go by ascending row.
    now_ms, session_timeout_ms : int
        Clock of the sessions, and `broker.session.timeout.ms`.
    max_elections : int
        Elections of one pass of a periodic task.
    next_offset : int, optional
        Where the next record goes in the log; by default behind what the registrations tell.
    threads : int
        Threads to use; results do not depend on it.
    profile : str, optional
        Another release that runs the cluster from now on, as `kfast.with_controller` gives it.

    Raises
    ------
    ArgumentError
        The state is run by a controller of ZooKeeper mode, or is read-only.
    """

    def __init__(
        self, state: ClusterState, *, journal: str = "counts", tracks_history: bool = False,
        now_ms: int = 0, session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        max_elections: int = DEFAULT_MAX_ELECTIONS, next_offset: int | None = None,
        threads: int = 1, profile: str | None = None,
    ) -> None:
        arguments.check_instance("state", state, ClusterState)
        if next_offset is not None:
            next_offset = arguments.whole("next_offset", next_offset, 0, arguments.MAX_LONG)
        self.threads = arguments.check_threads(threads)
        super().__init__(
            state, journal=journal, tracks_history=tracks_history,
            now_ms=arguments.whole("now_ms", now_ms, 0, arguments.MAX_LONG),
            session_timeout_ms=arguments.whole(
                "session_timeout_ms", session_timeout_ms, 1, arguments.MAX_LONG
            ),
            max_elections=arguments.whole("max_elections", max_elections, 1, arguments.MAX_INT),
            next_offset=next_offset, profile=profile,
        )
        broker_events.start_heartbeats(self)

    @property
    def title(self) -> str:
        """Name of the controller that is simulated."""
        return self.release.name

    def _summary(self) -> Summary:
        _, facts = self.state._summary()
        return f"QuorumController of {self.title}", {
            "not active": not self.active,
            "eligible leader replicas": self.elr_on,
            "metadata_version": self.quorum.metadata_version,
            "journal": self.journal,
            "next_offset": self.next_offset,
            **facts,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    # --- becoming active, and time ---------------------------------------------------------------

    def activate(self) -> QuorumOutcome:
        """Become the active controller: counters and soft state start anew (section 1.3).

        Writes no records, and changes nothing of the cluster. Contact times are now, heartbeat
        states know no offsets. The hosting index is made by the first event that needs it; columns
        of ELRs are there from now on where ELR is on.
        """
        self.active = True
        now, timeout = self.heartbeats.now_ms, self.session_timeout_ms
        self.heartbeats = Heartbeats(self.release, timeout, now)
        counts = np.zeros((self.threads, 2), np.int64)
        partition_changes.activate(quorum_columns(self.state), counts)
        leaderless, imbalanced = counts.sum(axis=0).tolist()
        self.state.offline_partition_count = leaderless
        self.state.preferred_imbalance_count = imbalanced
        self.state.defer_hosting()
        if self.elr_on:
            self.quorum.allocate_elr()
        broker_events.start_heartbeats(self)
        return self.run("activate", lambda: None)

    def restart(self) -> None:
        """Another controller takes over after a fault: it loads the log, with clean indexes."""
        if self.indexes is not None:
            self.indexes = self.visits.indexes = KafkaIndexes(self.state, self.release)
        self.activate()

    def advance_time(self, ms: int, contacts: Iterable[int] = ()) -> None:
        """Let time pass; then these brokers make contact, as their heartbeats do."""
        ms = arguments.whole("ms", ms, 0, arguments.MAX_LONG)
        ids = arguments.broker_ids("contacts", contacts).tolist()
        heartbeats = self.heartbeats
        heartbeats.now_ms += ms
        for broker in ids:
            row = self.broker_row(broker)
            if row >= 0:
                heartbeats.contact(broker, self.epoch_of(row))

    # --- brokers: section 6 ----------------------------------------------------------------------

    def register_broker(
        self, broker_id: int, incarnation_id: str | None = None, *,
        rack: str | None = None, log_dirs: Sequence[str] | None = None,
        features: Mapping[str, tuple[int, int]] | None = None, previous_broker_epoch: int = -1,
        request_version: int = 4, same_cluster: bool = True, expire_session: bool = False,
    ) -> QuorumOutcome:
        """A broker registers: a new one, a new incarnation, or the same again (section 6.7).

        Parameters
        ----------
        broker_id : int
        incarnation_id : str, optional
            22 characters; by default a new incarnation.
        rack, log_dirs, features : optional
            By default those of its registration; features of a new broker are the release's.
        previous_broker_epoch : int
            The epoch that it had when it stopped cleanly; -1 after an unclean stop.
        request_version : int
            Version of the request; below 3 every stop counts as unclean.
        same_cluster : bool
            Whether the cluster id is right.
        expire_session : bool
            Let the session of the incarnation before end first, as its silence would.

        Returns
        -------
        QuorumOutcome
            `response` is the broker epoch.
        """
        broker = arguments.whole("broker_id", broker_id, 0, arguments.MAX_BROKER_ID)
        known = self.state.broker_registration(broker)
        if known is not None:
            rack = known.rack if rack is None else rack
            log_dirs = (known.directories or None) if log_dirs is None else log_dirs
            features = (known.features or None) if features is None else features
        if incarnation_id is None:
            incarnation_id = topics.topic_id_of(f"broker {broker}", self.next_offset)
        if log_dirs is None:
            log_dirs = broker_events.own_directories(self, broker)
        request = BrokerRegistrationRequest(
            broker, incarnation_id,
            self.release.supported_features if features is None else features,
            check_uuids("log_dirs", log_dirs), rack, previous_broker_epoch, request_version,
            same_cluster,
        )
        if known is not None and expire_session:
            self.heartbeats.forget_session(broker, known.epoch)
        return self.run("register_broker", lambda: broker_events.register_broker(self, request))

    def process_broker_heartbeat(
        self, broker_id: int, broker_epoch: int | None = None,
        metadata_offset: int | None = None, *, want_fence: bool = False,
        want_shut_down: bool = False, offline_log_dirs: Sequence[str] = (),
    ) -> QuorumOutcome:
        """A heartbeat arrives: it may fence, unfence or shut the broker down (section 6.4).

        By default the epoch is the broker's, and it knows all metadata.

        Returns
        -------
        QuorumOutcome
            `response` is a `BrokerHeartbeatReply`.
        """
        row = self.broker_row(arguments.int32("broker_id", broker_id))
        epoch = (self.epoch_of(row) if row >= 0 else -1) if broker_epoch is None else broker_epoch
        offset = self.next_offset - 1 if metadata_offset is None else metadata_offset
        request = BrokerHeartbeatRequest(
            broker_id, epoch, offset, want_fence, want_shut_down,
            check_uuids("offline_log_dirs", offline_log_dirs),
        )
        outcome = self.run(
            "process_broker_heartbeat",
            lambda: broker_events.process_broker_heartbeat(self, request),
        )
        if outcome.response is not None and outcome.response.in_controlled_shutdown:
            broker_events.update_controlled_shutdown_offset(self, broker_id)
        return outcome

    def maybe_fence_stale_broker(self) -> QuorumOutcome:
        """One expired session ends, if there is one (section 6.5).

        Returns
        -------
        QuorumOutcome
            `response` says whether to call again.
        """
        return self.run(
            "maybe_fence_stale_broker", lambda: broker_events.maybe_fence_stale_broker(self)
        )

    def fence_broker(self, broker_id: int) -> QuorumOutcome:
        """A broker is fenced, as when its session expires (section 6.1)."""
        row = self._registered_row(broker_id)
        return self.run("fence_broker", lambda: broker_events.fence_broker(self, row))

    def unfence_broker(self, broker_id: int) -> QuorumOutcome:
        """A fenced broker has caught up with the metadata (section 6.2)."""
        row = self._registered_row(broker_id)
        return self.run("unfence_broker", lambda: broker_events.handle_broker_unfenced(self, row))

    def begin_controlled_shutdown(self, broker_id: int) -> QuorumOutcome:
        """A broker asks to shut down: its leaders move, it leaves the ISRs (section 6.3).

        Returns
        -------
        QuorumOutcome
            `remaining` lists the partition rows that the broker still leads.
        """
        row = self._registered_row(broker_id)
        outcome = self.run(
            "begin_controlled_shutdown",
            lambda: broker_events.handle_broker_in_controlled_shutdown(self, row),
        )
        hosted = self.state.rows_tracking(np.asarray([row], np.int32))
        remaining = np.empty_like(hosted)
        n = partition_changes.select_led(quorum_columns(self.state), hosted, row, remaining)
        outcome.remaining = remaining[:n].copy()
        return outcome

    def unregister_broker(self, broker_id: int) -> QuorumOutcome:
        """An administrator unregisters a broker (section 6.8)."""
        broker_id = arguments.int32("broker_id", broker_id)
        return self.run(
            "unregister_broker", lambda: broker_events.unregister_broker(self, broker_id),
            is_user_op=True,
        )

    def _registered_row(self, broker_id: int) -> int:
        row = self.broker_row(broker_id)
        if row < 0:
            raise ArgumentError(
                f"broker {arguments.shown(broker_id)} is not registered; nothing was changed"
            )
        return row

    # --- partitions: section 7 -------------------------------------------------------------------

    def alter_partition(
        self, broker_id: int, broker_epoch: int,
        partitions: Sequence[AlterPartitionData], *,
        with_topic_ids: bool = True,
    ) -> QuorumOutcome:
        """A leader reports new ISRs of partitions (section 7.1).

        Parameters
        ----------
        broker_id, broker_epoch : int
            The sender.
        partitions : sequence of AlterPartitionData
        with_topic_ids : bool
            Whether the request has topic ids; versions 0 and 1 have other codes.

        Returns
        -------
        QuorumOutcome
            `response` is a list of `AlterPartitionReply`, in the order asked.
        """
        sender = arguments.int32("broker_id", broker_id)
        epoch = arguments.int64("broker_epoch", broker_epoch)
        wanted = arguments.check_items("partitions", partitions)
        for data in wanted:
            arguments.check_instance("an item of partitions", data, AlterPartitionData)
        return self.run(
            "alter_partition",
            lambda: partition_requests.alter_partition(self, sender, epoch, wanted, with_topic_ids),
        )

    def catch_up(self, broker_ids: Iterable[int]) -> list[QuorumOutcome]:
        """Brokers caught up: leaders report ISRs that have them again.

        Every live leader sends one AlterPartition request with the partitions in which an active
        assigned replica on one of these brokers is missing from the ISR; senders go by ascending
        id. Each request is an event while partitions are being reassigned, else all of them are.
        """
        hosted = self.state.replicas_on_brokers(broker_ids)
        joining = catch_up.joining_slots(self.state, hosted.rows, hosted.slots)
        return catch_up.catch_up(self, hosted.rows, joining)

    def catch_up_reassignments(self) -> list[QuorumOutcome]:
        """Active targets of what is being reassigned caught up, and the leaders report it."""
        records = self.state.records
        rows = np.flatnonzero((records["adding"] | records["removing"]) != 0).astype(np.int32)
        moved = records.take(rows)
        target = first_slots(moved["n_replicas"]) & ~moved["removing"].astype(np.uint64)
        return catch_up.catch_up(self, rows, catch_up.joining_slots(self.state, rows, target))

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, type: str = "preferred"
    ) -> QuorumOutcome:
        """Elect leaders on demand (section 7.2).

        Parameters
        ----------
        partitions : sequence of (topic, partition), optional
            None means all partitions.
        type : {"preferred", "unclean"}
            Kafka refuses any other as INVALID_REQUEST.

        Returns
        -------
        QuorumOutcome
            `response` is a table of topic, partition, partition_row, error.
        """
        keys = None
        if partitions is not None:
            keys = arguments.partition_keys("partitions", partitions)
        election = arguments.text("type", type)
        return self.run(
            "elect_leaders", lambda: partition_requests.elect_leaders(self, election, keys),
            is_user_op=True,
        )

    def alter_partition_reassignments(
        self, reassignments_: Reassignments, *, allow_rf_change: bool = True
    ) -> QuorumOutcome:
        """Start, change or cancel reassignments (section 7.3).

        Parameters
        ----------
        reassignments_ : mapping of (topic, partition) to broker ids or None, or pa.Table
            Targets in order, the preferred replica first; None cancels. A table has the columns
            topic, partition and replicas, where a null cancels.
        allow_rf_change : bool
            Whether a target may have another length (from 4.1; before always).

        Returns
        -------
        QuorumOutcome
            `response` is a list of codes, in the order given.
        """
        return self.run(
            "alter_partition_reassignments",
            lambda: reassignments.alter_partition_reassignments(
                self, reassignments_, allow_rf_change
            ),
        )

    def assign_replicas_to_dirs(
        self, broker_id: int, broker_epoch: int, assignments: Sequence[tuple[str, str, int]]
    ) -> QuorumOutcome:
        """A broker says in which directories its replicas are (section 7.4).

        Parameters
        ----------
        assignments : sequence of (directory, topic, partition)

        Returns
        -------
        QuorumOutcome
            `response` is a list of codes, in the order given.
        """
        sender = arguments.int32("broker_id", broker_id)
        epoch = arguments.int64("broker_epoch", broker_epoch)
        triples = [
            arguments.items_of("an assignment", item, 3)
            for item in arguments.check_items("assignments", assignments)
        ]
        directories = check_uuids("assignments", [directory for directory, _, _ in triples])
        keys = arguments.partition_keys("assignments", [key for _, *key in triples])
        return self.run(
            "assign_replicas_to_dirs",
            lambda: partition_requests.assign_replicas_to_dirs(
                self, sender, epoch, list(zip(directories, keys[0], keys[1].tolist(), strict=True))
            ),
        )

    def maybe_balance_partition_leaders(self) -> QuorumOutcome:
        """Elect preferred leaders, as `auto.leader.rebalance.enable` does (section 7.5).

        Returns
        -------
        QuorumOutcome
            `response` says whether to call again at once.
        """
        return self.run(
            "maybe_balance_partition_leaders",
            lambda: partition_requests.maybe_balance_partition_leaders(self),
        )

    def maybe_elect_unclean_leaders(self) -> QuorumOutcome:
        """Elect unclean leaders where topics allow it (section 7.5).

        Returns
        -------
        QuorumOutcome
            `response` says whether to call again at once.
        """
        return self.run(
            "maybe_elect_unclean_leaders",
            lambda: partition_requests.maybe_elect_unclean_leaders(self),
        )

    # --- topics, configurations, features: section 8 ---------------------------------------------

    def create_topics(
        self, wanted: Sequence[CreatableTopic], *, validate_only: bool = False
    ) -> QuorumOutcome:
        """Create topics whose replicas are given (section 8.1).

        Returns
        -------
        QuorumOutcome
            `response` is a code for each topic.

        Raises
        ------
        ArgumentError
            A topic stands twice, or has no assignments: Kafka places it at random. Nothing is
            changed.
        """
        listed = arguments.check_items("wanted", wanted)
        for topic in listed:
            arguments.check_instance("an item of wanted", topic, CreatableTopic)
        topics.check_distinct(topic.name for topic in listed)
        return self.run(
            "create_topics", lambda: topics.create_topics(self, listed, validate_only),
            is_user_op=True,
        )

    def create_partitions(
        self, wanted: Sequence[tuple[str, int, Sequence[Sequence[int]]]]
    ) -> QuorumOutcome:
        """Let topics grow: name, number of partitions then, replicas of the new ones (section 8.2).

        Returns
        -------
        QuorumOutcome
            `response` is a code for each topic.
        """
        listed: list[tuple[str, int, Sequence[Sequence[int]]]] = []
        for item in arguments.check_items("wanted", wanted):
            name, count, assignments = arguments.items_of("an item of wanted", item, 3)
            listed.append((name, count, assignments))
            arguments.int32(f"the count of {arguments.text('topic', name)}", count)
            for replicas in arguments.check_items("assignments", assignments):
                topics.check_replicas(replicas)
        topics.check_distinct(name for name, _, _ in listed)
        return self.run("create_partitions", lambda: topics.create_partitions(self, listed))

    def delete_topics(self, names: Sequence[str]) -> QuorumOutcome:
        """Topics are deleted; nothing waits for brokers (section 8.2).

        Returns
        -------
        QuorumOutcome
            `response` is a code for each topic.
        """
        listed = arguments.check_topics("names", names)
        topics.check_distinct(listed)
        return self.run("delete_topics", lambda: topics.delete_topics(self, listed))

    def incremental_alter_configs(
        self, changes: Sequence[ConfigChange]
    ) -> QuorumOutcome:
        """Configurations of topics, brokers or of all brokers change (section 8.3).

        Returns
        -------
        QuorumOutcome
            `response` is a list of codes, one for each resource.
        """
        listed = arguments.check_items("changes", changes)
        for change in listed:
            arguments.check_instance("an item of changes", change, ConfigChange)
        return self.run(
            "incremental_alter_configs",
            lambda: configurations.incremental_alter_configs(self, listed), is_user_op=True,
        )

    def update_features(
        self, updates: Mapping[str, int], directions: Mapping[str, str] | None = None
    ) -> QuorumOutcome:
        """Finalize feature levels: metadata.version, ELR on or off (section 8.4).

        Parameters
        ----------
        updates : mapping of str to int
        directions : mapping of str to {"upgrade", "safe_downgrade", "unsafe_downgrade"}, optional
            An upgrade where it says nothing.

        Returns
        -------
        QuorumOutcome
            `response` is one code for all.
        """
        configurations.check_updates(updates, directions or {})
        return self.run(
            "update_features",
            lambda: configurations.update_features(self, updates, directions or {}),
            is_user_op=True,
        )
