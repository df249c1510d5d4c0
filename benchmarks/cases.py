"""The main events in three forms: kfast, vectorised numpy, and loops that numba compiles.

All forms of an event begin with the same cluster and must end with the same columns and have sent
the same requests, which `digest` sums up in one number.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import kfast
from benchmarks import plain_numba, plain_numpy

EVENTS = {
    "start": "the controller starts",
    "failover": "it starts after brokers failed",
    "one": "one broker fails",
    "rack": "a rack fails",
    "third": "a third of the brokers fails",
    "rolling": "all brokers restart in turn",
    "preferred": "preferred leader election",
    "reassignment": "a tenth of the partitions moves",
    "deletion": "a tenth of the partitions is deleted",
}

FORMS = ("kfast", "numpy", "numba")
LINE_BYTES = 64
RECORD_BYTES, SLOT_BYTES = 24, 3
"""A hot record; a replica's broker row and state."""

REPLICATION_FACTOR, FEWEST_BROKERS = 3, 12
SHARE = 10
"""A tenth of the brokers restarted before a preferred election; of the partitions moves or goes."""

BEGINS = {"start": "fresh", "failover": "bereft", "preferred": "moved"}
"""What an event begins with, where that is not a cluster whose controller has started."""

CHANGED = ("leader", "isr", "leader_epoch", "version", "partition_state")


@dataclass
class Run:
    """One event in one form, ready to be run: once."""

    act: Callable[[], Any]
    digest: Callable[[Any], int]


def sent(outcomes: list[Any], kind: str, n_brokers: int) -> Any:
    """Partitions in requests of a kind, per broker; ids are rows in these clusters."""
    total = np.zeros(n_brokers, np.int64)
    for outcome in outcomes:
        counts = outcome.request_counts
        counts = counts.filter(pc.equal(counts["kind"], kind))
        np.add.at(total, counts["broker_id"].to_numpy(), counts["partitions"].to_numpy())
    return total


def digest(state: Any, outcomes: list[Any]) -> int:
    """The digest that `plain_numpy.Columns` gives."""
    columns = [state.records[name] for name in CHANGED]
    slots = (state.replicas, state.replica_state)
    return plain_numpy.digest(
        *columns, *(matrix[:, :REPLICATION_FACTOR] for matrix in slots),
        *(sent(outcomes, kind, state.n_brokers) for kind in ("LeaderAndIsr", "StopReplica")),
    )


class Bench:
    """A cluster, and what each event begins with.

    Parameters
    ----------
    cluster : ClusterState
        That no controller has looked at; it is not changed.
    """

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.n_brokers = cluster.n_brokers
        self.n_partitions = cluster.n_partitions
        every = np.arange(self.n_brokers)
        racks = np.array(cluster.rack.to_pylist())
        self.victims = {
            "one": every[self.n_brokers // 2 :][:1], "third": every[: self.n_brokers // 3],
            "rack": np.flatnonzero(racks == racks[0]),
        }
        topics = max(1, cluster.n_topics // SHARE)
        self.names = cluster.topic.slice(0, topics)
        self.rows = np.flatnonzero(cluster.topic_row < topics)
        self.targets = self._targets()
        self.started = cluster.copy()
        kfast.Controller(self.started).on_controller_failover()
        self._states: dict[str, Any] = {}
        self._columns: dict[tuple[str, str], plain_numpy.Columns] = {}
        self._indices: dict[str, Any] = {}

    def _targets(self) -> Any:
        """For each row that moves, a broker for its last replica that has none of it."""
        replicas = self.cluster.replicas[self.rows]
        target = (replicas[:, -1] + 1) % self.n_brokers
        while (clash := (replicas == target[:, None]).any(axis=1)).any():
            target[clash] = (target[clash] + 1) % self.n_brokers
        return target

    def begins(self, event: str) -> Any:
        """The state that an event begins with. Those that few events need are kept in turn."""
        name = BEGINS.get(event, "started")
        if name in ("fresh", "started"):
            return self.cluster if name == "fresh" else self.started
        if name not in self._states:
            self._states = {name: self.started.copy()}
            getattr(self, f"_make_{name}")(self._states[name])
        return self._states[name]

    def _make_moved(self, state: Any) -> None:
        """A tenth of the brokers restart: others lead what they led."""
        controller = kfast.Controller(state)
        ids = state.broker_id[: max(1, self.n_brokers // SHARE)].tolist()
        controller.on_broker_failure(ids)
        controller.on_broker_startup(ids)
        controller.catch_up(ids)

    def _make_bereft(self, state: Any) -> None:
        """Some brokers fail, then the controller does, and more brokers before the next starts."""
        ids = state.broker_id[: max(2, self.n_brokers // SHARE)].tolist()
        kfast.Controller(state).on_broker_failure(ids[::2])
        state.remove_live_brokers(ids[1::2])

    def columns(self, event: str, form: str) -> plain_numpy.Columns:
        """Fresh columns that the event begins with."""
        key = (BEGINS.get(event, "started"), form)
        if key not in self._columns:
            if not any(begins == key[0] for begins, _ in self._columns):
                self._columns.clear()
            self._columns[key] = self._made(event, form)
        return self._columns[key].copy()

    def _made(self, event: str, form: str) -> plain_numpy.Columns:
        made = plain_numpy.fresh(self.cluster.replicas, self.n_brokers)
        if event == "start":
            return made
        if form not in self._indices:
            indexed = made.copy()
            {"numpy": plain_numpy, "numba": plain_numba}[form].start(indexed)
            self._indices[form] = indexed.row_order, indexed.row_starts
        made.row_order, made.row_starts = self._indices[form]
        state = self.begins(event)
        for name in CHANGED:
            getattr(made, name)[:] = state.records[name]
        made.replica_state[:] = state.replica_state
        made.registered[:] = state.registered
        made.offline = np.flatnonzero(made.partition_state == plain_numpy.OFFLINE)
        return made

    def prepare(self, event: str, form: str, threads: int = 1, policy: Any = None) -> Run:
        """Copy what the event begins with; the run is then the event alone."""
        if form != "kfast":
            columns = self.columns(event, form)
            act = self._plain(event, {"numpy": plain_numpy, "numba": plain_numba}[form], columns)
            return Run(act, lambda _: columns.digest())
        state = self.begins(event).copy()
        controller = kfast.Controller(state, threads=threads, policy=policy)
        return Run(self._kfast(event, controller), lambda outcomes: digest(state, outcomes))

    def _plain(self, event: str, module: Any, columns: plain_numpy.Columns) -> Callable[[], Any]:
        def roll() -> None:
            for broker in range(self.n_brokers):
                module.restart(columns, broker)

        return {
            "start": lambda: module.start(columns), "failover": lambda: module.start(columns),
            "preferred": lambda: module.prefer(columns), "rolling": roll,
            "reassignment": lambda: module.move(columns, self.rows, self.targets),
            "deletion": lambda: module.delete(columns, self.rows),
        }.get(event, lambda: module.fail(columns, self.victims[event]))

    def _kfast(self, event: str, controller: Any) -> Callable[[], list[Any]]:
        ids = controller.state.broker_id
        if event == "reassignment":
            plan = self._plan()
            return lambda: [
                controller.alter_partition_reassignments(plan), controller.catch_up(ids),
            ]
        if event == "deletion":
            names = self.names.to_pylist()
            return lambda: [controller.delete_topics(names), controller.acknowledge_deletions()]
        if event == "rolling":
            return lambda: [done for broker in ids.tolist() for done in restart(controller, broker)]
        if event == "preferred":
            return lambda: [controller.rebalance_leaders(0)]
        if event in ("start", "failover"):
            return lambda: [controller.on_controller_failover()]
        failed = ids[self.victims[event]].tolist()
        return lambda: [controller.on_broker_failure(failed)]

    def _plan(self) -> pa.Table:
        """The reassignment as a caller has it: topic, partition, replicas by id."""
        cluster, rows = self.cluster, self.rows
        replicas = cluster.broker_id[cluster.replicas[rows]]
        replicas[:, -1] = cluster.broker_id[self.targets]
        offsets = pa.array(np.arange(0, replicas.size + 1, replicas.shape[1], dtype=np.int32))
        lists = pa.ListArray.from_arrays(offsets, pa.array(replicas.ravel()))
        topics = cluster.topic.take(pa.array(cluster.topic_row[rows]))
        columns = [topics, pa.array(cluster.partition[rows]), lists]
        return pa.table(columns, names=["topic", "partition", "replicas"])

    def seconds(self, event: str, form: str, policy: Any = None) -> float:
        """CPU time of one run: what else the machine does at the moment counts little."""
        run = self.prepare(event, form, policy=policy)
        begin = time.thread_time()
        run.act()
        return time.thread_time() - begin

    def affected_rows(self, event: str) -> int:
        """Rows that the event has something to do with; in a rolling restart, once per replica."""
        if event in ("start", "failover"):
            return self.n_partitions
        if event == "rolling":
            return self.n_partitions * int(self.cluster.n_slots)
        if event in ("reassignment", "deletion"):
            return int(self.rows.size)
        if event == "preferred":
            state = self.begins(event)
            return int(np.count_nonzero(state.records["leader"] != state.replicas[:, 0]))
        chosen = np.zeros(self.n_brokers, np.bool_)
        chosen[self.victims[event]] = True
        return int(np.count_nonzero(chosen[self.cluster.replicas].any(axis=1)))

    def moved_bytes(self, event: str) -> int:
        """Bytes that must be read or written, of whole cache lines where rows are scattered.

        Per row a record, broker rows and replica states. A line that is written is read first. A
        start also writes the index; a preferred election reads every record and first replica, and
        writes the records that change; the rows of a topic lie together; one visit to each of a
        broker's rows would do for its restart.
        """
        n, rows, width = self.n_partitions, self.affected_rows(event), self.cluster.n_slots
        row_bytes, written_bytes = RECORD_BYTES + SLOT_BYTES * width, RECORD_BYTES + width
        if event in ("start", "failover"):
            return n * (row_bytes + written_bytes + 4 * width)
        if event == "preferred":
            return n * (RECORD_BYTES + 2 * width) + min(rows * LINE_BYTES, n * RECORD_BYTES)
        if event in ("reassignment", "deletion"):
            return rows * 2 * row_bytes
        if event == "rolling":
            return rows * (5 * LINE_BYTES + 4)
        return min(rows * 5 * LINE_BYTES, n * (row_bytes + written_bytes)) + 4 * rows


def restart(controller: Any, broker: int) -> list[Any]:
    """A broker is restarted with care."""
    return [
        controller.controlled_shutdown(broker), controller.on_broker_failure([broker]),
        controller.on_broker_startup([broker]), controller.catch_up([broker]),
        controller.rebalance_leaders(0),
    ]


def copy_bandwidth(rounds: int = 5, n_bytes: int = 1 << 27) -> float:
    """Bytes per second, read and written ones, of the best of some copies of a large array."""
    source, target = np.ones(n_bytes // 8), np.zeros(n_bytes // 8)
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        np.copyto(target, source)
        best = min(best, time.thread_time() - begin)
    return 2 * n_bytes / best


def processor_name() -> str:
    """The processor's own name of itself, where the system tells it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
