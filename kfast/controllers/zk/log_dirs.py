"""A log directory of a broker fails.

Source: docs/controller.md, section 6.9; Kafka 3.9, `KafkaController.onBrokerLogDirFailure`,
`processLeaderAndIsrResponseReceived`. The public functions are methods of `Controller`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from kfast.arguments import MAX_BROKER_ID, whole
from kfast.controllers.zk.broker_changes import replicas_become_offline
from kfast.controllers.zk.engine import ZkEngine
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.journal import Outcome
from kfast.schema import ReplicaState
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.records import Rows


def on_broker_log_dir_failure(engine: ZkEngine, broker_ids: Iterable[int]) -> Outcome:
    """Log directories failed on these brokers: they are probed (section 6.9, step 1)."""
    hosted = engine.state.replicas_on_brokers(broker_ids)
    return _attempt(engine, "on_broker_log_dir_failure", lambda: _probe(engine, hosted))


def on_leader_and_isr_response(
    engine: ZkEngine, broker_id: int, offline: npt.ArrayLike = (), online: npt.ArrayLike = ()
) -> Outcome:
    """A broker answered LeaderAndIsr: which partitions' directories are offline."""
    state, event = engine.state, "on_leader_and_isr_response"
    broker_id = whole("broker_id", broker_id, 0, MAX_BROKER_ID)
    bad, good = state.check_rows(offline), state.check_rows(online)
    return _attempt(engine, event, lambda: _process_response(engine, broker_id, bad, good))


def on_log_dir_failure(engine: ZkEngine, broker_id: int, rows: npt.ArrayLike) -> Outcome:
    """A log directory with these partitions failed on a broker: probe, answer, and all."""
    state = engine.state
    broker_id = whole("broker_id", broker_id, 0, MAX_BROKER_ID)
    failed = state.check_rows(rows)
    hosted = state.replicas_on_brokers([broker_id])
    well = hosted.rows[~np.isin(hosted.rows, failed)]

    def steps() -> None:
        _probe(engine, hosted)
        _process_response(engine, broker_id, failed, well)

    return _attempt(engine, "on_log_dir_failure", steps)


def _attempt(engine: ZkEngine, event: str, steps: Callable[[], None]) -> Outcome:
    """Take the steps of an event, unless the version knows nothing of it (section 8.1)."""
    if engine.active and not engine.profile.has_log_dirs:
        return engine.refused(event, UNSUPPORTED)
    return engine.attempt(event, steps)


def _probe(engine: ZkEngine, hosted: Replicas) -> None:
    engine.checked(engine.replica_state_machine.run(hosted, ReplicaState.ONLINE))


def _process_response(engine: ZkEngine, broker_id: int, bad: Rows, good: Rows) -> None:
    newly = np.sort(note_offline_dirs(engine.state, broker_id, bad, good))
    if newly.size:
        replicas_become_offline(engine, slots_on(engine.state, broker_id, newly))


def slots_on(state: ClusterState, broker_id: int, rows: Rows) -> Replicas:
    """The replicas of some ascending rows on one broker."""
    brokers = np.full(rows.size, mutators.add_brokers(state, [broker_id])[0], np.int32)
    slots = mutators.track(state, rows, brokers)
    return Replicas(rows, np.uint64(1) << slots.astype(np.uint64))


def note_offline_dirs(state: ClusterState, broker_id: int, bad: Rows, good: Rows) -> Rows:
    """Update a broker's offline directories; returns the rows that are newly offline.

    Source: section 6.9, step 2.
    """
    recovered = np.sort(good[_are_dirs_offline(state, broker_id, good)])
    newly = bad[~_are_dirs_offline(state, broker_id, bad)]
    if recovered.size:
        state.set_offline_dir(broker_id, recovered, offline=False)
    if newly.size:
        state.set_offline_dir(broker_id, newly)
    return newly


def _are_dirs_offline(
    state: ClusterState, broker_id: int, rows: Rows
) -> npt.NDArray[np.bool_]:
    masks = zip(rows.tolist(), state.records["offline_dir"][rows].tolist(), strict=True)
    return np.array([broker_id in state.ids_of(row, mask) for row, mask in masks], np.bool_)
