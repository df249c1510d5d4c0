"""Store: a stand-in for ZooKeeper.

It keeps its own partition state records with versions, answers reads, creates and compare-and-set
writes, guards writes with the controller epoch, and can be told to conflict, to lose a record, to
fail, or to hold what another controller wrote.

Source: docs/controller.md, section 1.7; Kafka 3.9, `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kfast import arguments, schema
from kfast.arguments import MAX_INT, check_instance, whole
from kfast.controllers.zk.faults import ControllerMoved
from kfast.errors import ArgumentError
from kfast.kernels import tables as kernels
from kfast.state import ClusterState, mutators
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Leadership, Rows
from kfast.state.tables import broker_ids, id_lists

__all__ = ["UNDECODABLE", "CallFailed", "Store", "StoreAnswer", "Undecodable"]


OPERATIONS = (
    "read_states", "create_states", "update_states", "write_assignments", "topic_config",
)


class CallFailed(Exception):  # noqa: N818 - it is caught where the rules say what follows
    """A call to the store failed as a whole."""


class StoreAnswer(IntEnum):
    """What the store says of one partition."""

    OK = 0
    UNDECODABLE = 1
    NO_NODE = 2
    ERROR = 3
    NODE_EXISTS = 4
    CONFLICT = 5


_ANSWERS = {"NONODE": StoreAnswer.NO_NODE, "NODEEXISTS": StoreAnswer.NODE_EXISTS,
            "BADVERSION": StoreAnswer.CONFLICT, "UNDECODABLE": StoreAnswer.UNDECODABLE}


@dataclass
class _Fault:
    operation: str
    fault: str
    row: int | None
    times: int


class Faults:
    """Faults that the next calls of a store's operations meet."""

    def __init__(self) -> None:
        self._waiting: list[_Fault] = []

    def add(self, operation: str, fault: str, rows: Iterable[int] | None, times: int) -> None:
        """Wait for calls that contain one of some rows, each by itself, or any row."""
        each = [None] if rows is None else rows
        self._waiting += [_Fault(operation, fault, row, times) for row in each]

    def clear(self) -> None:
        """Forget what is not used up."""
        self._waiting.clear()

    def inject(
        self, operation: str, rows: Rows, answers: npt.NDArray[np.uint8], guarded: bool = True
    ) -> None:
        """Use up the faults that a call meets: change its answers, or raise.

        A call that is not guarded by the controller epoch does not meet `controller_moved`.
        """
        present = {row: at for at, row in enumerate(rows.tolist())}
        raised: Exception | None = None
        for fault in [f for f in self._waiting if f.operation == operation]:
            hit = list(present) if fault.row is None else [fault.row] * (fault.row in present)
            if not hit or (fault.fault == "controller_moved" and not guarded):
                continue
            fault.times -= 1
            if fault.fault == "throw":
                raised = CallFailed(f"{operation} failed")
            elif fault.fault == "controller_moved":
                raised = ControllerMoved("the controller epoch guard failed")
            else:
                answer = _ANSWERS.get(fault.fault, StoreAnswer.ERROR)
                answers[[present[row] for row in hit]] = answer
        self._waiting = [f for f in self._waiting if f.times > 0]
        if raised is not None:
            raise raised


class Undecodable:
    """What `Store.get` gives for a record whose bytes cannot be decoded."""

    def __repr__(self) -> str:
        return "UNDECODABLE"


UNDECODABLE: Final = Undecodable()


class Store:
    """Partition state records of one cluster, as ZooKeeper would hold them.

    Parameters
    ----------
    state : ClusterState
        The cluster that it belongs to; its rows are the store's rows.
    empty : bool, default False
        Start without records; otherwise the cached leadership of every partition is stored.
    """

    def __init__(self, state: ClusterState, *, empty: bool = False) -> None:
        check_instance("state", state, ClusterState)
        self.state = state
        self.controller_epoch = state.controller_epoch
        self.epoch_version = state.epoch_store_version
        self.next_version: int | None = None
        self.calls: list[tuple[str, list[tuple[str, int]]]] = []
        self._faults = Faults()
        self._unreadable_topics: set[str] = set()
        self._records: dict[int, Leadership] = {}
        self._undecodable: set[int] = set()
        if not empty:
            led = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP)
            records = state.records.take(led)
            self._write(
                led.astype(np.int32), records, records["version"], records["controller_epoch"]
            )

    def _summary(self) -> Summary:
        return "Store", {
            "records": len(self._records) + len(self._undecodable),
            "undecodable": len(self._undecodable),
            "controller_epoch": str(self.controller_epoch),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    # --- what tests and users do to it ----------------------------------------------------------

    def put(
        self, topic: str, partition: int, *, leader: int, isr: Sequence[int],
        leader_epoch: int = 0, version: int = 0, controller_epoch: int = 0, recovery: int = 0,
    ) -> None:
        """Write a record as somebody else would: whatever it says."""
        values = {"leader": leader, "leader_epoch": leader_epoch, "recovery": recovery,
                "version": version, "controller_epoch": controller_epoch}
        fields = {
            name: whole(name, value, -MAX_INT - 1, MAX_INT) for name, value in values.items()
        }
        members = arguments.broker_ids("isr", isr)
        arguments.check_range("isr", members, 0, MAX_INT)
        record = Leadership(isr=tuple(members.tolist()), **fields)
        self.replace(self._row(topic, partition), record)

    def replace(self, row: int, record: Leadership) -> None:
        """Put a record in the place of what is stored of a partition row, unchecked."""
        self._undecodable.discard(row)
        self._records[row] = record

    def put_garbage(self, topic: str, partition: int) -> None:
        """Make a record undecodable."""
        row = self._row(topic, partition)
        self._remove(row)
        self._undecodable.add(row)

    def delete(self, topic: str, partition: int) -> None:
        """Remove a record."""
        self._remove(self._row(topic, partition))

    def get(self, topic: str, partition: int) -> Leadership | Undecodable | None:
        """Record of a partition; None where there is none."""
        return self.get_row(self._row(topic, partition))

    def get_row(self, row: int) -> Leadership | Undecodable | None:
        """Record of a partition row; None where there is none."""
        return UNDECODABLE if row in self._undecodable else self._records.get(row)

    def records(self) -> dict[tuple[str, int], Leadership | Undecodable]:
        """All records by (topic, partition)."""
        rows = sorted({*self._records, *self._undecodable})
        return {self._name(row): self._records.get(row, UNDECODABLE) for row in rows}

    def fail(
        self, operation: str, fault: str, partitions: Iterable[tuple[str, int]] | None = None,
        *, times: int = 1, topics: Iterable[str] = (),
    ) -> None:
        """Make the next calls of an operation fail.

        Parameters
        ----------
        operation : {"read_states", "create_states", "update_states", "write_assignments",
                     "topic_config"}
        fault : str
            `throw`: the call fails as a whole; `controller_moved`: the epoch guard fails;
            `BADVERSION`: a version conflict; any other: that error for each partition.
        partitions : iterable of (topic, partition), optional
            The fault is used up once by each call that contains the partition. Without it, by the
            next call that contains any partition.
        times : int
            How often, at least once.
        topics : iterable of str
            For `topic_config`: topics whose configuration cannot be read until `heal` is called.
        """
        if operation not in OPERATIONS:
            raise ArgumentError(
                f"operation {operation!r} is unknown; allowed: {', '.join(OPERATIONS)}"
            )
        times = whole("times", times, 1, MAX_INT)
        if operation == "topic_config":
            self._unreadable_topics.update(arguments.check_topics("topics", topics))
            return
        rows = None
        if partitions is not None:
            topics, numbers = arguments.partition_keys("partitions", partitions)
            rows = [self._row(*key) for key in zip(topics, numbers.tolist(), strict=True)]
        self._faults.add(operation, fault, rows, times)

    def heal(self) -> None:
        """Forget all faults that are not used up."""
        self._faults.clear()
        self._unreadable_topics.clear()

    # --- what the machines ask -----------------------------------------------------------------

    def track_brokers(self, rows: Rows) -> None:
        """Give slots to all brokers that the stored records of some rows name.

        A call of a machine does this first, so that neither broker rows nor slots move in it.
        """
        records = {row: self._records[row] for row in rows.tolist() if row in self._records}
        named = [
            (row, broker) for row, record in records.items()
            for broker in (*record.isr, record.leader) if broker >= 0
        ]
        brokers = mutators.add_brokers(self.state, [broker for _, broker in named])
        mutators.track(self.state, np.array([row for row, _ in named], np.int32), brokers)

    def read_states(self, rows: Rows) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
        """Read records.

        Returns
        -------
        answers : (n,) uint8
            `StoreAnswer` per row.
        stored : (n,) record
            Records in the slots of the state's rows, with version and controller epoch; only
            those that were answered OK mean anything. Brokers that a record names get slots.

        Raises
        ------
        CallFailed
            By an injected fault.
        """
        answers = np.full(rows.size, StoreAnswer.NO_NODE, np.uint8)
        answers[self._among(self._records, rows)] = StoreAnswer.OK
        answers[self._among(self._undecodable, rows)] = StoreAnswer.UNDECODABLE
        self._log("read", rows)
        self._faults.inject("read_states", rows, answers)
        return answers, self._load(rows, answers == StoreAnswer.OK)

    def create_states(
        self, rows: Rows, records: npt.NDArray[Any], *, guarded: bool = True
    ) -> npt.NDArray[np.uint8]:
        """Create records with version 0; answers and errors are those of `update_states`."""
        exists = self._among(self._records, rows) | self._among(self._undecodable, rows)
        answers = np.where(exists, StoreAnswer.NODE_EXISTS, StoreAnswer.OK).astype(np.uint8)
        self._log("create", rows)
        self._faults.inject("create_states", rows, answers, guarded)
        self._guard(rows, guarded)
        done = answers == StoreAnswer.OK
        self._write(rows[done], records[done], np.zeros(rows[done].size, np.int32))
        return answers

    def update_states(
        self, rows: Rows, records: npt.NDArray[Any], *, guarded: bool = True
    ) -> tuple[npt.NDArray[np.uint8], Rows]:
        """Write records where the stored version is the one that was read.

        Returns
        -------
        answers : (n,) uint8
            `StoreAnswer` per row; CONFLICT where the version differs.
        versions : (n,) int32
            New version of each record that was written.

        Raises
        ------
        ControllerMoved
            The store knows a later controller epoch; not asked unless `guarded`.
        CallFailed
            By an injected fault.
        """
        self._log("update", rows)
        answers = np.zeros(rows.size, np.uint8)
        known, undecodable = (
            self._among(group, rows) for group in (self._records, self._undecodable)
        )
        answers[~known & ~undecodable] = StoreAnswer.NO_NODE
        answers[known & (self.versions(rows) != records["version"])] = StoreAnswer.CONFLICT
        self._faults.inject("update_states", rows, answers, guarded)
        self._guard(rows, guarded)
        done = np.flatnonzero(answers == StoreAnswer.OK)
        versions = records["version"].astype(np.int32) + 1
        if self.next_version is not None and done.size:
            versions[done] = self.next_version
            self.next_version = None
        self._write(rows[done], records[done], versions[done])
        return answers, versions

    def write_assignments(self, rows: Rows, *, guarded: bool = True) -> None:
        """Write the assignments of the topics of some rows; may raise as `update_states` does."""
        answers = np.zeros(rows.size, np.uint8)
        self._log("assign", rows)
        self._faults.inject("write_assignments", rows, answers, guarded)
        self._guard(rows, guarded)
        if answers.any():
            raise CallFailed("write_assignments failed")

    def keep_rows(self, rows: Rows) -> None:
        """Follow `ClusterState.compact`, which returned these rows."""
        place = {row: at for at, row in enumerate(rows.tolist())}
        self._records = {place[r]: self._records[r] for r in self._records if r in place}
        self._undecodable = {place[row] for row in self._undecodable if row in place}

    def write_isrs(self, rows: Rows, records: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Write ISRs as leaders did before Kafka 2.7; which of them had the stored version.

        Nothing but the ISR and the version changes: leaders know nothing of the controller's
        guard, and the faults of its calls are not theirs. The controller epoch is that of the
        request that made the broker the leader, which the controller stored with the leader
        epoch; later requests with the same leader epoch are passed over.

        Source: Kafka 2.4, `Partition.expandIsr` and `ReplicaManager.becomeLeaderOrFollower`.
        """
        written: npt.NDArray[np.bool_] = self.versions(rows) == records["version"]
        written &= self._among(self._records, rows)
        lists = id_lists(self.state, rows[written], records["isr"][written]).to_pylist()
        versions = (self.versions(rows[written]) + 1).tolist()
        for row, isr, version in zip(rows[written].tolist(), lists, versions, strict=True):
            self._records[row] = replace(self._records[row], isr=tuple(isr), version=version)
        return written

    def versions(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Stored versions of some records, as a leader learns them from its requests."""
        versions = [self._records[r].version if r in self._records else 0 for r in rows.tolist()]
        return np.array(versions, np.int64).astype(np.int32)

    def unreadable_topics(self) -> npt.NDArray[np.uint8]:
        """(T,) 1 where the topic's configuration cannot be read."""
        failed = np.zeros(max(self.state.n_topics, 1), np.uint8)
        if self._unreadable_topics:
            rows = self.state.lookup.topics(sorted(self._unreadable_topics))
            failed[rows[rows >= 0]] = 1
        return failed

    def elect_controller(self) -> tuple[int, int]:
        """Raise the stored controller epoch by 1; returns it and its version.

        Source: section 6.1, step 1.
        """
        self.controller_epoch += 1
        self.epoch_version += 1
        return self.controller_epoch, self.epoch_version

    def load_leadership(self) -> None:
        """Put every stored record into the cache, and drop what is cached without one.

        Source: section 6.1.
        """
        state = self.state
        rows = np.array(sorted(self._records), np.int32)
        stored = self._load(rows, np.ones(rows.size, np.bool_))
        flags = np.uint8(255 - schema.FLAG_HAS_LEADERSHIP - schema.FLAG_RECOVERY)
        state.records["flags"] &= flags
        state.records["leader"] = schema.NO_LEADER
        for name in ("leader_epoch", "version", "controller_epoch", "isr"):
            state.records[name] = 0
        for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr"):
            state.records[name][rows] = stored[name]
        state.records["flags"][rows] |= stored["flags"] | schema.FLAG_HAS_LEADERSHIP

    def forget(self, rows: Rows) -> None:
        """Remove the records of some rows: their topic is gone."""
        for row in rows.tolist():
            self._remove(row)

    # --- inside ----------------------------------------------------------------------------------

    def _row(self, topic: str, partition: int) -> int:
        return int(self.state.add_partitions([topic], [partition], exists=False)[0])

    def _name(self, row: int) -> tuple[str, int]:
        topic = self.state.topic[int(self.state.topic_row[row])].as_py()
        return topic, int(self.state.partition[row])

    def _remove(self, row: int) -> None:
        """Have no record of a row."""
        self._records.pop(row, None)
        self._undecodable.discard(row)

    @staticmethod
    def _among(group: Container[int], rows: Rows) -> npt.NDArray[np.bool_]:
        """Which rows have a record of one kind."""
        return np.array([row in group for row in rows.tolist()], np.bool_)

    def _log(self, operation: str, rows: Rows) -> None:
        self.calls.append((operation, [self._name(row) for row in rows.tolist()]))

    def _guard(self, rows: Rows, guarded: bool = True) -> None:
        known = (self.state.controller_epoch, self.state.epoch_store_version)
        if guarded and rows.size and (self.controller_epoch, self.epoch_version) != known:
            raise ControllerMoved(
                f"the store knows controller epoch {self.controller_epoch}, "
                f"this controller has {self.state.controller_epoch}"
            )

    def _load(self, rows: Rows, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        """Records of some rows in the slots of the state; what is stored of the chosen ones."""
        state, chosen_rows = self.state, rows[chosen]
        self.track_brokers(chosen_rows)
        records = [self._records[row] for row in chosen_rows.tolist()]
        stored = state.records.take(rows)
        offsets = np.cumsum([0, *(len(record.isr) for record in records)]).astype(np.int32)
        members = np.array([broker for record in records for broker in record.isr], np.int64)
        masks, marked = np.zeros(chosen_rows.size, np.uint64), np.zeros(chosen_rows.size, np.uint8)
        brokers = state.broker_rows(members)
        kernels.masks_of(
            state.replicas, state.records, chosen_rows, offsets, brokers, masks, marked
        )
        leaders = np.array([record.leader for record in records], np.int64)
        stored["isr"][chosen] = masks
        stored["leader"][chosen] = np.where(leaders < 0, leaders, state.broker_rows(leaders))
        for name in ("leader_epoch", "version", "controller_epoch"):
            values = [getattr(record, name) for record in records]
            stored[name][chosen] = np.array(values, np.int64)
        recovering = [schema.FLAG_RECOVERY * (record.recovery > 0) for record in records]
        flags = stored["flags"][chosen] & np.uint8(255 - schema.FLAG_RECOVERY)
        stored["flags"][chosen] = flags | np.array(recovering, np.uint8)
        return stored

    def _write(
        self, rows: Rows, records: npt.NDArray[Any], versions: npt.NDArray[np.integer],
        controller_epochs: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Store records; under this controller's epoch where no other is given."""
        state = self.state
        if controller_epochs is None:
            controller_epochs = np.full(rows.size, state.controller_epoch)
        recovering = (records["flags"] & schema.FLAG_RECOVERY) != 0
        lists = id_lists(state, rows, records["isr"])
        members = lists.values.to_numpy().tolist()
        columns = (
            broker_ids(state, records["leader"]).tolist(), records["leader_epoch"].tolist(),
            [tuple(members[i:j]) for i, j in pairwise(lists.offsets.to_pylist())],
            recovering.astype(int).tolist(), versions.tolist(), controller_epochs.tolist(),
        )
        self._undecodable.difference_update(rows.tolist())
        self._records.update(zip(rows.tolist(), map(Leadership, *columns), strict=True))
