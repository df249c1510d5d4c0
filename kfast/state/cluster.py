"""ClusterState: a whole cluster as numpy columns.

The columns, their types and their meaning are in `schema.py`; the context that they hold is
docs/controller.md, section 1 (Kafka 3.9, `ControllerContext`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments, schema
from kfast.arguments import member, possible_ids, whole
from kfast.errors import ArgumentError
from kfast.kernels import census
from kfast.schema import PartitionState, ReplicaState
from kfast.state import (
    compare,
    from_tables,
    mutators,
    partition_rows,
    registrations,
    saved_state,
    tables,
)
from kfast.state.arrays import StateArrays
from kfast.state.controller_change import change_controller
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.kraft_releases import UNCLEAN_LEADER_ELECTION
from kfast.state.metadata_records import ResourceType
from kfast.state.records import EMPTY_ROWS, Replicas, Rows, Tables
from kfast.state.registrations import BrokerRegistration, PartitionRegistration

_INT32 = -arguments.MAX_INT - 1, arguments.MAX_INT


class ClusterState(StateArrays):
    """A cluster: brokers, topics, partitions and replicas as columns, and the counters of 1.6.

    Make one with `from_tables`, `kfast.read` or `kfast.generate`. Rows are 0-based places in a
    table; broker rows are in the order of broker ids. The columns may be read freely; they are
    changed by the machines, the controller and the mutators of section 1.6 below, which keep the
    counters and bitmaps.
    """

    @classmethod
    def from_tables(
        cls,
        brokers: pa.Table | None = None,
        topics: pa.Table | None = None,
        partitions: pa.Table | None = None,
        cluster: pa.Table | None = None,
        *,
        source: str | None = None,
        notes: Sequence[str] = (),
        layout: Literal["narrow", "wide"] | None = None,
    ) -> ClusterState:
        """Make a cluster from Arrow tables with ids and list columns.

        Parameters
        ----------
        brokers, topics, partitions, cluster : pa.Table, optional
            Columns as `kfast schema` prints them, or partitions in the form of
            `kfast.state.flat_table`. Key columns must be there (broker_id; topic; topic and
            partition); any other may be missing or null, and gets Kafka's default.
            `partitions` may have a column `line` (int32): where the row stands in the source.
        source : str, optional
            Name of the file, for messages.
        notes : sequence of str
            What a reader assumed; put before what is assumed here.
        layout : {"narrow", "wide"}, optional
            Force a layout; by default the narrow one is taken where it fits.

        Returns
        -------
        ClusterState
            With every assumption listed in `assumptions`.

        Raises
        ------
        InputError
            A partition stands twice, a list names a broker twice, an id is negative, a partition
            names more than 64 brokers, a key is null, or a column has another type.
        """
        state = cls()
        from_tables.load(state, brokers, topics, partitions, cluster, source, notes, layout)
        return state

    @classmethod
    def from_assignment(
        cls,
        *,
        broker_id: Rows,
        rack: pa.StringArray | None,
        topic: pa.StringArray,
        topic_row: Rows,
        partition: Rows,
        replicas: npt.NDArray[Any],
        topic_min_insync_replicas: Rows | None = None,
        topic_unclean_leader_election: npt.NDArray[np.int8] | None = None,
    ) -> ClusterState:
        """Make a fresh cluster from an assignment: the first replica leads, all are in sync.

        Parameters
        ----------
        broker_id : (B,) int32
            Ids, ascending; all are registered.
        rack : (B,) string or None
        topic : (T,) string
        topic_row, partition : (P,) int32
        replicas : (P, RF) uint16 or int32
            Broker rows, all different within a row; uint16 makes the narrow layout.
        topic_min_insync_replicas : (T,) int32, optional
            -1 for the broker default.
        topic_unclean_leader_election : (T,) int8, optional
            -1 for the broker default.
        """
        state = cls()
        from_tables.load_assignment(
            state, broker_id, rack, topic, topic_row, partition, replicas,
            topic_min_insync_replicas, topic_unclean_leader_election,
        )
        return state

    def to_tables(self, *, flat: bool = False) -> Tables:
        """All of the state as Arrow tables with ids; `from_tables` makes the same state of them.

        With `flat`, the partitions have plain integers instead of lists (`kfast.state.flat_table`);
        `ArgumentError` where they cannot.
        """
        return tables.to_tables(self, flat=flat)

    def _summary(self) -> Summary:
        if "records" not in vars(self):
            return "ClusterState", {"without tables": True}
        return "ClusterState", {
            "controller": self.controller if self.is_kraft else None,
            "brokers": self.n_brokers,
            "registered": int(self.registered.sum()),
            "fenced": int(self.fenced.sum()) or None,
            "racks": len(self.rack.unique().drop_null()),
            "topics": int(self.topic_exists.sum()),
            "partitions": self.n_partitions - self.free_rows.size,
            "assumptions": len(self.assumptions),
            "read-only": self.is_read_only,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterState) and self.difference(other) is None

    def difference(self, other: ClusterState) -> str | None:
        """Say which table, row and column differ first; None where the states are equal."""
        return compare.difference(self, other)

    def digest(self) -> int:
        """One number (64 bits) for the whole state.

        It is the same on every machine, for every thread count, layout and order of partition
        rows; NonExistent states and missing entries count alike.
        """
        return compare.digest_parts(self).together()

    def compact(self) -> Rows:
        """Give the space of free rows and forgotten topics back; rows move up.

        Returns
        -------
        rows : (P,) int32
            Where each row that is left was before.
        """
        return partition_rows.compact(self)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the whole state to a directory, which is replaced; or leave it as it was.

        Parameters
        ----------
        directory : path
            Where it goes. Its parent must be there; a directory of that name is replaced, but only
            if it holds a saved state or nothing.

        Raises
        ------
        InputError
            Something else is in the way. Nothing is changed.
        ArgumentError
            No directory can be made there.
        OSError
            The disk is full, or a write failed. What was there before is as it was.
        """
        saved_state.save(self, directory)

    def registration(self, row: int) -> PartitionRegistration:
        """All that the metadata log says of a partition, ids in order; of a KRaft cluster.

        Source: docs/kraft.md, section 1.1.
        """
        return registrations.registration(self, row)

    def broker_registration(self, broker_id: int) -> BrokerRegistration | None:
        """Registration of a broker; None where it is not registered. Of a KRaft cluster."""
        return registrations.broker_registration(self, broker_id)

    # --- mutators of section 1.6 ---

    def find_replicas(self, replicas: Iterable[tuple[str, int, int]]) -> Replicas:
        """Find (topic, partition, broker id) triples; a broker not tracked yet gets a slot.

        A triple that stands twice counts once. `ArgumentError` where a partition is unknown.
        """
        triples = list(replicas)
        if any(len(triple) != 3 for triple in triples):
            raise ArgumentError("replicas: (topic, partition, broker id) triples are needed")
        rows = self.find_partitions([(t, p) for t, p, _ in triples])
        slots = mutators.track(self, rows, mutators.add_brokers(self, [b for _, _, b in triples]))
        merged = np.zeros(self.n_partitions, np.uint64)
        np.bitwise_or.at(merged, rows, np.uint64(1) << slots.astype(np.uint64))
        present = np.unique(rows)
        return Replicas(present, merged[present])

    def set_assignment(
        self, row: int, replicas: Iterable[int], adding: Iterable[int] = (),
        removing: Iterable[int] = (),
    ) -> None:
        """Replace a partition's assignment (`set_assignment` of section 1.6); ids are broker ids.

        `ArgumentError` where a list names a broker twice. Brokers that `adding` and `removing` name
        need not be assigned.
        """
        row = self.check_row(row)
        given = {"replicas": replicas, "adding": adding, "removing": removing}
        lists = [possible_ids(name, ids).tolist() for name, ids in given.items()]
        for listed in lists:
            if len(set(listed)) != len(listed):
                raise ArgumentError(f"{listed} names a broker twice; nothing was changed")
        if self.is_kraft:
            new = dict(zip(given, map(tuple, lists), strict=True))
            registrations.change_registration(self, row, **new)
            return
        before = self._imbalance(row)
        leadership = self.leadership(row)
        self.forget_survey()
        states = self.replica_states_of(row)
        offline = self.ids_of(row, int(self.records["offline_dir"][row]))
        named = list(dict.fromkeys([
            *lists[0], *lists[1], *lists[2], *(leadership.isr if leadership else ()),
            *([leadership.leader] if leadership and leadership.leader >= 0 else ()),
            *states, *offline,
        ]))
        rows = mutators.add_brokers(self, named)
        mutators.grow_slots(self, max(len(named), self.n_slots))
        place = {broker: slot for slot, broker in enumerate(named)}
        record = self.records[row : row + 1]
        self.replicas[row] = -1 if self.layout == "wide" else schema.NARROW_BROKERS
        self.replicas[row, : len(named)] = rows
        self.replica_state[row] = 0
        for broker, entry in states.items():
            self.replica_state[row, place[broker]] = entry
        masks: tuple[tuple[str, Sequence[int]], ...] = (
            ("adding", lists[1]), ("removing", lists[2]), ("offline_dir", offline),
            ("isr", leadership.isr if leadership else ()),
        )
        for name, members in masks:
            record[name] = sum(1 << place[b] for b in members)
        record["n_replicas"], record["n_slots"] = len(lists[0]), len(named)
        mutators.note_order(self, "adding", row, lists[1])
        mutators.note_order(self, "removing", row, lists[2])
        record["flags"] |= schema.FLAG_ASSIGNED
        self.preferred_imbalance_count += self._imbalance(row) - before
        if self._index is not None:
            self._index.append(np.full(rows.size, row, np.int32), rows)

    def set_assignments(self, rows: Rows, lists: pa.ListArray) -> None:
        """Give partitions their first assignment; those that track a broker already go one by one.

        Parameters
        ----------
        rows : (n,) int32
            Partition rows, each once.
        lists : (n,) list of int32
            Broker ids, each once within a list.
        """
        self.forget_survey()
        used = self.records["n_slots"][rows] > 0
        for at in np.flatnonzero(used).tolist():
            self.set_assignment(int(rows[at]), lists[at].as_py())
        fresh, rows = lists.filter(pa.array(~used)), rows[~used]
        lengths = np.diff(fresh.offsets.to_numpy())
        values = fresh.flatten().to_numpy()
        brokers = mutators.add_brokers(self, values)
        mutators.grow_slots(self, int(lengths.max(initial=1)))
        owner = np.repeat(rows, lengths).astype(np.int32)
        slot = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self.replicas[owner, slot] = brokers
        self.records["n_replicas"][rows] = self.records["n_slots"][rows] = lengths
        self.records["flags"][rows] |= schema.FLAG_ASSIGNED
        if self._index is not None:
            self._index.append(owner, brokers)

    def _imbalance(self, row: int) -> int:
        """1 where a row counts as imbalanced (section 1.6), else 0."""
        if self.topic_flags[self.topic_row[row]] & schema.TOPIC_QUEUED:
            return 0
        return census.count_imbalanced(self.columns, np.asarray([row], np.int32))

    def set_leadership(
        self, row: int, *, leader: int, isr: Iterable[int], leader_epoch: int = 0,
        version: int = 0, controller_epoch: int | None = None, recovery: int = 0,
    ) -> None:
        """Replace a partition's cached leadership (`put_leadership` of section 1.6)."""
        row = self.check_row(row)
        leader = whole("leader", leader, schema.LEADER_DURING_DELETE, arguments.MAX_BROKER_ID)
        leader_epoch = whole("leader_epoch", leader_epoch, *_INT32)
        version = whole("version", version, *_INT32)
        if controller_epoch is not None:
            controller_epoch = whole("controller_epoch", controller_epoch, *_INT32)
        recovery = whole("recovery", recovery, 0, 1)
        members = list(dict.fromkeys(possible_ids("isr", isr).tolist()))
        if self.is_kraft:
            registrations.change_registration(
                self, row, leader=leader, isr=tuple(members), leader_epoch=leader_epoch,
                partition_epoch=version, recovery=recovery,
            )
            return
        self.forget_survey()
        before = self._imbalance(row)
        brokers = mutators.add_brokers(self, [*members, *([leader] if leader >= 0 else [])])
        at = np.full(brokers.size, row, np.int32)
        slots = mutators.track(self, at, brokers)
        record = self.records[row : row + 1]
        record["leader"] = brokers[-1] if leader >= 0 else leader
        record["isr"] = sum(1 << int(s) for s in slots[: len(members)])
        record["leader_epoch"], record["version"] = leader_epoch, version
        record["controller_epoch"] = (
            self.controller_epoch if controller_epoch is None else controller_epoch
        )
        flags = int(record["flags"][0]) & ~schema.FLAG_RECOVERY
        self.n_led += not flags & schema.FLAG_HAS_LEADERSHIP
        record["flags"] = (
            flags | schema.FLAG_HAS_LEADERSHIP | (schema.FLAG_RECOVERY if recovery else 0)
        )
        self.preferred_imbalance_count += self._imbalance(row) - before
        self.refresh_rows(np.asarray([row], np.int32))

    def set_partition_state(self, row: int, new: PartitionState) -> None:
        """Set a partition's state (`put_partition_state` of section 1.6)."""
        row, new = self.check_row(row), member("state", PartitionState, new)
        old = self.partition_state(row)
        if not self.topic_flags[self.topic_row[row]] & schema.TOPIC_STARTED:
            offline = PartitionState.OFFLINE
            self.offline_partition_count += (new == offline) - (old == offline)
        self.records["partition_state"][row] = new
        bit = np.uint64(1) << np.uint64(row & 63)
        waiting = new in (PartitionState.NEW, PartitionState.OFFLINE)
        word = self.pending[row >> 6]
        self.pending[row >> 6] = word | bit if waiting else word & ~bit

    def set_replica_state(self, row: int, broker_id: int, new: ReplicaState) -> None:
        """Set a replica's state; `ReplicaState.NO_ENTRY` removes it."""
        row, new = self.check_row(row), member("state", ReplicaState, new)
        brokers = mutators.add_brokers(self, [broker_id])
        slot = mutators.track(self, np.asarray([row], np.int32), brokers)[0]
        self.replica_state[row, slot] = new

    def set_offline_dir(self, broker_id: int, rows: Rows, offline: bool = True) -> None:
        """Note that a broker's log directories of some partitions are offline, or online again."""
        rows = self.check_rows(rows)
        brokers = np.full(rows.size, mutators.add_brokers(self, [broker_id])[0], np.int32)
        slots = mutators.track(self, rows, brokers)
        masks = (np.uint64(1) << slots.astype(np.uint64)).astype(self.records["offline_dir"].dtype)
        old = self.records["offline_dir"][rows]
        self.records["offline_dir"][rows] = old | masks if offline else old & ~masks
        self.any_offline_dir |= offline
        self.refresh_rows(rows)

    def clear_offline_dir(self, brokers: Rows) -> None:
        """Forget offline log directories of some broker rows."""
        if not self.any_offline_dir:
            return
        hosted = self.replicas_on(brokers, assigned_only=False)
        masks = hosted.slots.astype(self.records["offline_dir"].dtype)
        self.records["offline_dir"][hosted.rows] &= ~masks
        self.refresh_rows(hosted.rows)

    def add_live_brokers(
        self, epochs: Mapping[int, int], *, find: bool = True
    ) -> Replicas:
        """Register brokers with their epochs; unknown ones are added. Returns their replicas.

        With `find` false the caller visits their rows: none is returned, and the bitmap of offline
        leaders is left to that visit.
        """
        epochs = arguments.epochs_of("epochs", epochs)
        brokers = mutators.add_brokers(self, list(epochs))
        self.broker_epoch[brokers] = np.asarray(list(epochs.values()), np.int64)
        if not find:
            self.broker_status[brokers] |= schema.BROKER_REGISTERED
            return Replicas(EMPTY_ROWS, np.empty(0, np.uint64))
        return self._set_status(brokers, schema.BROKER_REGISTERED, True)

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> Replicas:
        """Unregister brokers; they stay known, and in the set of those shutting down.

        Returns the replicas assigned to them.
        """
        return self._set_status(self.find_brokers(broker_ids), schema.BROKER_REGISTERED, False)

    def set_shutting_down(
        self, broker_ids: Iterable[int], shutting_down: bool = True
    ) -> Replicas:
        """Put brokers into the set of those in controlled shutdown, or take them out.

        Returns the replicas assigned to them.
        """
        brokers = mutators.add_brokers(self, broker_ids)
        return self._set_status(brokers, schema.BROKER_SHUTTING_DOWN, shutting_down)

    def _set_status(self, brokers: Rows, flag: int, value: bool) -> Replicas:
        """Change the liveness of brokers; returns the replicas assigned to them."""
        if value:
            self.broker_status[brokers] |= flag
        else:
            self.broker_status[brokers] &= 255 - flag
        return self.replicas_on(brokers, refresh=True)

    def add_partitions(
        self, topics: Sequence[str], partitions: Sequence[int], *, exists: bool = True
    ) -> Rows:
        """Rows of some partitions; unknown ones, and unknown topics, are added without assignment.

        With `exists` false, an added topic is not among the controller's topics.
        """
        topics = arguments.check_topics("topics", topics)
        numbers = arguments.whole_numbers("partitions", partitions)
        arguments.check_range("partitions", numbers, 0, arguments.MAX_INT)
        if numbers.size != len(topics):
            raise ArgumentError(f"partitions has {numbers.size} numbers for {len(topics)} topics")
        names = list(dict.fromkeys(topics))
        rows = partition_rows.add_topics(self, names, exists=exists).tolist()
        place = dict(zip(names, rows, strict=True))
        topic_rows = np.asarray([place[topic] for topic in topics], np.int32)
        return partition_rows.add_rows(self, topic_rows, numbers.astype(np.int32))

    def mark_topics_ineligible(self, topics: Rows) -> None:
        """Mark those of some topic rows that are queued as ineligible (section 6.12).

        Where topics cannot be deleted, none is marked.
        """
        if not self.delete_topic_enabled:
            return
        queued = topics[(self.topic_flags[topics] & schema.TOPIC_QUEUED) != 0]
        self.topic_flags[queued] |= schema.TOPIC_INELIGIBLE

    def queue_topic_deletion(self, topics: Sequence[str]) -> None:
        """Queue topics for deletion; their partitions no longer count as imbalanced."""
        mutators.flag_topics(self, self.find_topics(topics), schema.TOPIC_QUEUED)

    def begin_topic_deletion(self, topics: Sequence[str]) -> None:
        """Mark queued topics as started; their partitions no longer move the offline count."""
        mutators.flag_topics(self, self.find_topics(topics), schema.TOPIC_STARTED)

    def set_unclean_leader_election(
        self, allowed: bool | None, topics: Sequence[str] | None = None
    ) -> None:
        """Set unclean.leader.election.enable of some topics (None: no override), or the default.

        In KRaft that is a dynamic configuration of the topics, or of all brokers.
        """
        if allowed is not None and not isinstance(allowed, (bool, np.bool_)):
            raise ArgumentError(
                f"allowed is {arguments.shown(allowed)}: true, false or None is needed"
            )
        rows = self.find_topics(topics or [])
        if self.quorum is not None:
            kind = ResourceType.BROKER if topics is None else ResourceType.TOPIC
            value = None if allowed is None else str(bool(allowed)).lower()
            for name in [""] if topics is None else topics:
                self.quorum.set_configuration(kind, name, UNCLEAN_LEADER_ELECTION, value)
        elif topics is None:
            self.default_unclean_leader_election = bool(allowed)
        else:
            self.topic_unclean_leader_election[rows] = -1 if allowed is None else int(allowed)
        self.refresh_unclean()


def open(directory: str | os.PathLike[str], *, verify: bool = True) -> ClusterState:
    """Open a saved cluster: its columns are mapped, read-only, and shared between processes.

    A `Controller` refuses it; `copy()` gives one that can be changed.

    Parameters
    ----------
    directory : path
        What `ClusterState.save` wrote.
    verify : bool, default True
        Read every file once: compare its checksum, and check that what it holds points into its
        tables. Without it the cost does not grow with the cluster. Leave it out for a directory
        that was verified before and that nobody else writes: a damaged one can end the process.

    Raises
    ------
    InputError
        The directory holds no saved state, one of another version of kfast, or a damaged one.
    MemoryError
        There is no room in the address space to map it.
    """
    state = ClusterState()
    saved_state.load(state, directory, verify=verify)
    return state


def with_controller(
    state: ClusterState, controller: str, *, elr: bool | None = None
) -> ClusterState:
    """Copy a cluster and let another controller run it; see `controller_change`.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    controller : str
        One of `schema.CONTROLLERS`.
    elr : bool, optional
        Whether eligible leader replicas are on.

    Raises
    ------
    ArgumentError
        The controller is unknown, or has no eligible leader replicas.
    """
    arguments.check_instance("state", state, ClusterState)
    other = state.copy()
    change_controller(other, controller, elr=elr)
    return other
