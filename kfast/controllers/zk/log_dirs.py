"""A log directory of a broker fails.

Source: docs/controller.md, section 6.9; Kafka 3.9, `KafkaController.onBrokerLogDirFailure`,
`processLeaderAndIsrResponseReceived`. The public functions are methods of `Controller`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast.arguments import MAX_BROKER_ID, whole
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.schema import ReplicaState
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.journal import Outcome


def on_broker_log_dir_failure(controller: Controller, broker_ids: Iterable[int]) -> Outcome:
    """Log directories failed somewhere on these brokers: they are probed (section 6.9, step 1)."""
    hosted = controller.state.replicas_on_brokers(broker_ids)
    event = "on_broker_log_dir_failure"
    error = _refusal(controller)
    if error is not None:
        return controller.refused(event, error)
    return controller.attempt(event, lambda: _probe(controller, hosted))


def on_leader_and_isr_response(
    controller: Controller, broker_id: int, offline: npt.ArrayLike = (),
    online: npt.ArrayLike = (),
) -> Outcome:
    """A broker answered LeaderAndIsr: which partitions' directories are offline.

    Source: section 6.9, step 2.

    Parameters
    ----------
    broker_id : int
    offline, online : (n,) array of int
        Partition rows answered with KAFKA_STORAGE_ERROR and with NONE.
    """
    state, event = controller.state, "on_leader_and_isr_response"
    broker_id = whole("broker_id", broker_id, 0, MAX_BROKER_ID)
    bad, good = state.check_rows(offline), state.check_rows(online)
    error = _refusal(controller)
    if error is not None:
        return controller.refused(event, error)
    return controller.attempt(event, lambda: _take_answer(controller, broker_id, bad, good))


def on_log_dir_failure(controller: Controller, broker_id: int, rows: npt.ArrayLike) -> Outcome:
    """A log directory with these partitions failed on a broker: probe, answer, and all.

    Source: section 6.9.

    Every other replica of the broker answers that it is well.
    """
    state, event = controller.state, "on_log_dir_failure"
    broker_id = whole("broker_id", broker_id, 0, MAX_BROKER_ID)
    failed = state.check_rows(rows)
    hosted = state.replicas_on_brokers([broker_id])
    error = _refusal(controller)
    if error is not None:
        return controller.refused(event, error)
    well = hosted.rows[~np.isin(hosted.rows, failed)]

    def steps() -> None:
        _probe(controller, hosted)
        _take_answer(controller, broker_id, failed, well)

    return controller.attempt(event, steps)


def _refusal(controller: Controller) -> str | None:
    """Why an event of this file is refused: nobody to handle it, or a version without it.

    Source: section 8.1.
    """
    if not controller.active:
        return "NOT_CONTROLLER"
    return None if controller.profile.has_log_dirs else UNSUPPORTED


def _probe(controller: Controller, hosted: Replicas) -> None:
    controller.checked(controller.replica_state_machine.run(hosted, ReplicaState.ONLINE))


def _take_answer(controller: Controller, broker_id: int, bad: Rows, good: Rows) -> None:
    newly = np.sort(note_offline_dirs(controller.state, broker_id, bad, good))
    if newly.size:
        controller.replicas_become_offline(slots_on(controller.state, broker_id, newly))


def slots_on(state: ClusterState, broker_id: int, rows: Rows) -> Replicas:
    """The replicas of some ascending rows on one broker."""
    brokers = np.full(rows.size, mutators.add_brokers(state, [broker_id])[0], np.int32)
    slots = mutators.track(state, rows, brokers)
    return Replicas(rows, np.uint64(1) << slots.astype(np.uint64))


def note_offline_dirs(state: ClusterState, broker_id: int, bad: Rows, good: Rows) -> Rows:
    """Update a broker's offline directories; returns the rows that are newly offline.

    Source: section 6.9, step 2.
    """
    known = [row for row in good.tolist() if not _is_dir_offline(state, broker_id, row)]
    recovered = np.setdiff1d(good, np.asarray(known, np.int32)).astype(np.int32)
    newly = np.asarray(
        [row for row in bad.tolist() if not _is_dir_offline(state, broker_id, row)], np.int32
    )
    if recovered.size:
        state.set_offline_dir(broker_id, recovered, offline=False)
    if newly.size:
        state.set_offline_dir(broker_id, newly)
    return newly


def _is_dir_offline(state: ClusterState, broker_id: int, row: int) -> bool:
    return broker_id in state.ids_of(row, int(state.records["offline_dir"][row]))
