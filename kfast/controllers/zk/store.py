"""Store: a stand-in for ZooKeeper.

It keeps its own partition state records with versions, answers reads, creates and compare-and-set
writes, guards writes with the controller epoch, and can be told to conflict, to lose a record, to
fail, or to hold what another controller wrote.

Source: docs/controller.md, section 1.7; Kafka 3.9, `KafkaZkClient`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kfast import arguments, schema
from kfast.arguments import MAX_INT, check_instance, whole
from kfast.controllers.engine import ControllerMoved
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
    rows: frozenset[int] | None
    times: int


class Faults:
    """Faults that the next calls of a store's operations meet."""

    def __init__(self) -> None:
        self._waiting: list[_Fault] = []

    def add(self, operation: str, fault: str, rows: Iterable[int] | None, times: int) -> None:
        """Wait for calls that contain one of some rows, each by itself, or any row."""
        for row in [None] if rows is None else list(rows):
            only = None if row is None else frozenset({row})
            self._waiting.append(_Fault(operation, fault, only, times))

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
            hit = list(present) if fault.rows is None else [r for r in fault.rows if r in present]
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


def check_operation(operation: str) -> None:
    """Raise `ArgumentError` where a store has no such operation."""
    if operation not in OPERATIONS:
        raise ArgumentError(
            f"operation {operation!r} is unknown; allowed: {', '.join(OPERATIONS)}"
        )


class Undecodable:
    """What `Store.get` gives for a record whose bytes cannot be decoded."""

    def __repr__(self) -> str:
        return "UNDECODABLE"


UNDECODABLE: Final = Undecodable()
_ABSENT, _PRESENT, _GARBAGE = 0, 1, 2
_READ_ANSWERS = np.array(
    [StoreAnswer.NO_NODE, StoreAnswer.OK, StoreAnswer.UNDECODABLE], np.uint8
)
"""What a read answers, by the status of the record."""


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
        self._status = np.empty(0, np.uint8)
        self._fields = np.empty((0, 5), np.int64)
        self._isr = np.full((0, 1), -1, np.int32)
        self._grow()
        if not empty:
            rows = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP)
            self._put(rows.astype(np.int32), state.records.take(rows))
            self._fields[rows, 3] = state.records["version"][rows]
            self._fields[rows, 4] = state.records["controller_epoch"][rows]

    def _summary(self) -> Summary:
        return "Store", {
            "records": int(np.count_nonzero(self._status)),
            "undecodable": int((self._status == _GARBAGE).sum()),
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
        fields = [whole(name, value, -MAX_INT - 1, MAX_INT) for name, value in values.items()]
        members = arguments.broker_ids("isr", isr)
        arguments.check_range("isr", members, 0, MAX_INT)
        row = self._row(topic, partition)
        self._status[row] = _PRESENT
        self._fields[row] = fields
        self._set_isr(np.asarray([row]), [members.tolist()])

    def put_garbage(self, topic: str, partition: int) -> None:
        """Make a record undecodable."""
        self._status[self._row(topic, partition)] = _GARBAGE

    def delete(self, topic: str, partition: int) -> None:
        """Remove a record."""
        self._status[self._row(topic, partition)] = _ABSENT

    def get(self, topic: str, partition: int) -> Leadership | Undecodable | None:
        """Record of a partition; None where there is none."""
        row = self._row(topic, partition)
        if self._status[row] == _GARBAGE:
            return UNDECODABLE
        return self._record(row) if self._status[row] else None

    def records(self) -> dict[tuple[str, int], Leadership | Undecodable]:
        """All records by (topic, partition)."""
        self._grow()
        return {
            self._name(row): UNDECODABLE if self._status[row] == _GARBAGE else self._record(row)
            for row in np.flatnonzero(self._status).tolist()
        }

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
        check_operation(operation)
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
        self._grow()
        some = rows[self._status[rows] == _PRESENT]
        members = self._isr[some]
        named, owner = members[members >= 0], np.repeat(some, (members >= 0).sum(axis=1))
        led = self._fields[some, 0] >= 0
        named = np.concatenate([named, self._fields[some[led], 0].astype(np.int32)])
        brokers = mutators.add_brokers(self.state, named.tolist())
        mutators.track(self.state, np.concatenate([owner, some[led]]), brokers)

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
        self._grow()
        answers = _READ_ANSWERS[self._status[rows]]
        self._log("read", rows)
        self._faults.inject("read_states", rows, answers)
        return answers, self._load(rows, answers == StoreAnswer.OK)

    def create_states(
        self, rows: Rows, records: npt.NDArray[Any], *, guarded: bool = True
    ) -> npt.NDArray[np.uint8]:
        """Create records with version 0; answers and errors are those of `update_states`."""
        self._grow()
        answers = np.where(self._status[rows] != _ABSENT, StoreAnswer.NODE_EXISTS, StoreAnswer.OK)
        answers = answers.astype(np.uint8)
        self._log("create", rows)
        self._faults.inject("create_states", rows, answers, guarded)
        self._guard(rows, guarded)
        done = answers == StoreAnswer.OK
        self._put(rows[done], records[done])
        self._fields[rows[done], 3] = 0
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
        self._grow()
        self._log("update", rows)
        answers = np.zeros(rows.size, np.uint8)
        answers[self._status[rows] == _ABSENT] = StoreAnswer.NO_NODE
        known = self._status[rows] == _PRESENT
        answers[known & (self._fields[rows, 3] != records["version"])] = StoreAnswer.CONFLICT
        self._faults.inject("update_states", rows, answers, guarded)
        self._guard(rows, guarded)
        done = np.flatnonzero(answers == StoreAnswer.OK)
        versions = records["version"].astype(np.int32) + 1
        if self.next_version is not None and done.size:
            versions[done] = self.next_version
            self.next_version = None
        self._put(rows[done], records[done])
        self._fields[rows[done], 3] = versions[done]
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
        self._grow()
        self._status, self._fields = self._status[rows], self._fields[rows]
        self._isr = self._isr[rows]

    def write_isrs(self, rows: Rows, records: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Write ISRs as leaders did before Kafka 2.7; which of them had the stored version.

        Nothing but the ISR and the version changes: leaders know nothing of the controller's
        guard, and the faults of its calls are not theirs. The controller epoch is that of the
        request that made the broker the leader, which the controller stored with the leader
        epoch; later requests with the same leader epoch are passed over.

        Source: Kafka 2.4, `Partition.expandIsr` and `ReplicaManager.becomeLeaderOrFollower`.
        """
        self._grow()
        done = (self._status[rows] == _PRESENT) & (self._fields[rows, 3] == records["version"])
        lists = id_lists(self.state, rows[done], records["isr"][done])
        self._set_isr(rows[done], lists.to_pylist())
        self._fields[rows[done], 3] += 1
        written: npt.NDArray[np.bool_] = done
        return written

    def versions(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Stored versions of some records, as a leader learns them from its requests."""
        self._grow()
        known: npt.NDArray[np.int32] = self._fields[rows, 3].astype(np.int32)
        return known

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
        self._grow()
        rows = np.flatnonzero(self._status == _PRESENT).astype(np.int32)
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
        self._grow()
        self._status[rows] = _ABSENT

    # --- inside ----------------------------------------------------------------------------------

    def _row(self, topic: str, partition: int) -> int:
        row = int(self.state.add_partitions([topic], [partition], exists=False)[0])
        self._grow()
        return row

    def _name(self, row: int) -> tuple[str, int]:
        topic = self.state.topic[int(self.state.topic_row[row])].as_py()
        return topic, int(self.state.partition[row])

    def _grow(self) -> None:
        missing = self.state.n_partitions - self._status.size
        if missing > 0:
            self._status = np.append(self._status, np.zeros(missing, np.uint8))
            self._fields = np.vstack([self._fields, np.zeros((missing, 5), np.int64)])
            block = np.full((missing, self._isr.shape[1]), -1, np.int32)
            self._isr = np.vstack([self._isr, block])

    def _record(self, row: int) -> Leadership:
        leader, epoch, recovery, version, controller = map(int, self._fields[row])
        isr = tuple(int(b) for b in self._isr[row] if b >= 0)
        return Leadership(leader, epoch, isr, recovery, version, controller)

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
        state = self.state
        some = rows[chosen]
        fields = self._fields[some]
        counts = (self._isr[some] >= 0).sum(axis=1)
        members = self._isr[some][self._isr[some] >= 0]
        led = fields[:, 0] >= 0
        named = np.concatenate([members, fields[led, 0]])
        self.track_brokers(some)
        brokers = np.searchsorted(state.broker_id, named).astype(np.int32)
        stored = state.records.take(rows)
        offsets = np.zeros(some.size + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        masks = np.zeros(some.size, np.uint64)
        kernels.masks_of(
            state.replicas, state.records, some, offsets, brokers[: members.size], masks,
            np.zeros(some.size, np.uint8),
        )
        stored["isr"][chosen] = masks
        leaders = fields[:, 0].astype(np.int32)
        leaders[led] = brokers[members.size :]
        stored["leader"][chosen] = leaders
        stored["leader_epoch"][chosen] = fields[:, 1]
        recovering = np.where(fields[:, 2] > 0, schema.FLAG_RECOVERY, 0).astype(np.uint8)
        flags = stored["flags"][chosen] & np.uint8(255 - schema.FLAG_RECOVERY)
        stored["flags"][chosen] = flags | recovering
        stored["version"][chosen] = fields[:, 3]
        stored["controller_epoch"][chosen] = fields[:, 4]
        return stored

    def _put(self, rows: Rows, records: npt.NDArray[Any]) -> None:
        state = self.state
        self._status[rows] = _PRESENT
        self._fields[rows, 0] = broker_ids(state, records["leader"])
        self._fields[rows, 1] = records["leader_epoch"]
        self._fields[rows, 2] = (records["flags"] & schema.FLAG_RECOVERY) != 0
        self._fields[rows, 4] = state.controller_epoch
        lists = id_lists(state, rows, records["isr"])
        self._set_isr(rows, lists.to_pylist())

    def _set_isr(self, rows: npt.NDArray[Any], lists: list[list[int]]) -> None:
        width = max((len(isr) for isr in lists), default=0)
        if width > self._isr.shape[1]:
            added = np.full((self._isr.shape[0], width - self._isr.shape[1]), -1, np.int32)
            self._isr = np.hstack([self._isr, added])
        self._isr[rows] = -1
        for row, isr in zip(rows.tolist(), lists, strict=True):
            self._isr[row, : len(isr)] = isr
