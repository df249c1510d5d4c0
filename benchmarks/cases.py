"""The main events in three forms: kfast, vectorised numpy, and loops that numba compiles.

All forms of an event begin with the same cluster and must end with the same columns and have sent
the same requests, which `digest` sums up in one number.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

import kfast
from benchmarks import plain_numba, plain_numpy

EVENTS = ("start", "one", "third", "preferred")
"""A controller starts; one broker fails; a third of them; leaders go back to where they were."""

FORMS = ("kfast", "numpy", "numba")
LINE_BYTES = 64
RECORD_BYTES, SLOT_BYTES = 24, 3
"""A hot record; a replica's broker row and state."""

REPLICATION_FACTOR = 3


@dataclass
class Run:
    """One event in one form, ready to be run: once."""

    act: Callable[[], Any]
    digest: Callable[[Any], int]


def sent(outcome: Any, n_brokers: int) -> Any:
    """LeaderAndIsr partitions per broker; ids are rows in these clusters."""
    counts = outcome.request_counts
    counts = counts.filter(pc.equal(counts["kind"], "LeaderAndIsr"))
    brokers, partitions = counts["broker_id"].to_numpy(), counts["partitions"].to_numpy()
    return np.bincount(brokers, weights=partitions, minlength=n_brokers).astype(np.int64)


def digest(state: Any, leader_and_isr: Any) -> int:
    """The digest that `plain_numpy.Columns` gives."""
    fields = ("leader", "isr", "leader_epoch", "version", "partition_state")
    columns = [state.records[name] for name in fields]
    return plain_numpy.digest(*columns, state.replica_state, leader_and_isr)


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
        self.victims = {
            "one": np.array([self.n_brokers // 2]), "third": np.arange(self.n_brokers // 3),
        }
        self.started = cluster.copy()
        kfast.Controller(self.started).on_controller_failover()
        self.moved = self.started.copy()
        self._move_away()
        self._columns: dict[tuple[str, str], plain_numpy.Columns] = {}

    def _move_away(self) -> None:
        """A tenth of the brokers restart: others lead what they led."""
        controller = kfast.Controller(self.moved)
        ids = self.moved.broker_id[: max(1, self.n_brokers // 10)].tolist()
        controller.on_broker_failure(ids)
        controller.on_broker_startup(ids)
        controller.catch_up(ids)

    def columns(self, event: str, form: str) -> plain_numpy.Columns:
        """Fresh columns that the event begins with."""
        module = {"numpy": plain_numpy, "numba": plain_numba}[form]
        key = ("" if event == "start" else "moved" if event == "preferred" else "started", form)
        if key not in self._columns:
            made = plain_numpy.fresh(self.cluster.replicas, self.n_brokers)
            if key[0]:
                module.start(made)
                made.leader_and_isr[:] = 0
            if key[0] == "moved":
                records = self.moved.records
                for name in ("leader", "isr", "leader_epoch", "version", "partition_state"):
                    getattr(made, name)[:] = records[name]
                made.replica_state[:] = self.moved.replica_state
            self._columns[key] = made
        return self._columns[key].copy()

    def prepare(self, event: str, form: str, threads: int = 1, policy: Any = None) -> Run:
        """Copy what the event begins with; the run is then the event alone."""
        if form != "kfast":
            module = {"numpy": plain_numpy, "numba": plain_numba}[form]
            columns = self.columns(event, form)
            acts = {
                "start": lambda: module.start(columns), "preferred": lambda: module.prefer(columns),
            }
            act = acts.get(event, lambda: module.fail(columns, self.victims[event]))
            return Run(act, lambda _: columns.digest())
        begins = {"start": self.cluster, "preferred": self.moved}.get(event, self.started)
        state = begins.copy()
        controller = kfast.Controller(state, threads=threads, policy=policy)
        acts = {
            "start": controller.on_controller_failover,
            "preferred": lambda: controller.rebalance_leaders(0),
        }
        failed = state.broker_id[self.victims.get(event, self.victims["one"])].tolist()
        act = acts.get(event, lambda: controller.on_broker_failure(failed))
        return Run(act, lambda outcome: digest(state, sent(outcome, self.n_brokers)))

    def seconds(self, event: str, form: str, threads: int = 1, policy: Any = None) -> float:
        """CPU time of one run: what else the machine does at the moment counts little."""
        run = self.prepare(event, form, threads, policy)
        begin = time.process_time()
        run.act()
        return time.process_time() - begin

    def affected_rows(self, event: str) -> int:
        """Rows that the event has something to do with."""
        if event == "start":
            return self.n_partitions
        if event == "preferred":
            away = self.moved.records["leader"] != self.moved.replicas[:, 0]
            return int(np.count_nonzero(away))
        chosen = np.zeros(self.n_brokers, np.bool_)
        chosen[self.victims[event]] = True
        return int(np.count_nonzero(chosen[self.cluster.replicas].any(axis=1)))

    def moved_bytes(self, event: str) -> int:
        """Bytes that must be read or written, of whole cache lines where rows are scattered.

        Per row a record, broker rows and replica states. A line that is written is read first. The
        start also writes the index; a preferred election reads every record and first replica, and
        writes the records that change.
        """
        n, rows, width = self.n_partitions, self.affected_rows(event), self.cluster.n_slots
        table = n * (RECORD_BYTES + SLOT_BYTES * width)
        written = n * (RECORD_BYTES + width)
        if event == "start":
            return table + written + 4 * n * width
        if event == "preferred":
            return n * (RECORD_BYTES + 2 * width) + min(rows * LINE_BYTES, n * RECORD_BYTES)
        return min(rows * 5 * LINE_BYTES, table + written) + 4 * rows


def copy_bandwidth(rounds: int = 5, n_bytes: int = 1 << 27) -> float:
    """Bytes per second, read and written ones, of the best of some copies of a large array."""
    source, target = np.ones(n_bytes // 8), np.zeros(n_bytes // 8)
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        np.copyto(target, source)
        best = min(best, time.process_time() - begin)
    return 2 * n_bytes / best
