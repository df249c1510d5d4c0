"""ISR changes that leaders report.

Source: docs/controller.md, section 6.10; Kafka 3.9, `KafkaController.processAlterPartition`. The
public functions are methods of `Controller`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import arguments, schema
from kfast.arguments import MAX_LONG
from kfast.controllers.zk import fused_events
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.controllers.zk.faults import ControllerMoved, EventFailed
from kfast.controllers.zk.fused_events import ANNOUNCEMENT
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.controllers.zk.reassignment import cannot_fail, complete_reassignments
from kfast.controllers.zk.store import CallFailed, StoreAnswer
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.kernels import election, isr, tables
from kfast.schema import AlterCode
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.records import Rows


def alter_partition(
    engine: ZkEngine, broker_id: int, broker_epoch: int, rows: npt.ArrayLike,
    leader_epoch: npt.ArrayLike, isr: Sequence[Sequence[int]], version: npt.ArrayLike,
    recovery: npt.ArrayLike = 0,
) -> Outcome:
    """A leader reports new ISRs of partitions (section 6.10)."""
    state, n = engine.state, _size_of(isr)
    broker_id = arguments.whole("broker_id", broker_id, -MAX_LONG, MAX_LONG)
    broker_epoch = arguments.whole("broker_epoch", broker_epoch, -MAX_LONG, MAX_LONG)
    reported = state.check_rows(rows)
    if n != reported.size:
        raise ArgumentError(f"isr has {n} lists for {reported.size} partitions")
    epochs = arguments.one_or_each("leader_epoch", leader_epoch, n).astype(np.int32)
    versions = arguments.one_or_each("version", version, n).astype(np.int32)
    recoveries = arguments.one_or_each("recovery", recovery, n, 0, 1).astype(np.uint8)
    lengths = [_size_of(members) for members in isr]
    members = arguments.broker_ids("isr", [b for members in isr for b in members])
    event = "alter_partition"
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    if not engine.profile.has_alter_partition:
        return engine.refused(event, UNSUPPORTED)
    epoch = engine.registered_epoch(broker_id)
    if epoch is None or epoch != broker_epoch:
        return engine.refused(event, "STALE_BROKER_EPOCH")
    masks, unknown = _masks(state, reported, lengths, members)
    sender = np.full(reported.size, state.find_brokers([broker_id])[0], np.int32)
    mutators.track(state, reported, sender)
    proposal = sender, epochs, versions, masks, recoveries
    try:
        codes = _decide(engine, reported, *proposal, unknown)
    except (CallFailed, ControllerMoved):
        return engine.refused(event, "UNKNOWN_SERVER_ERROR")
    known = codes != AlterCode.UNKNOWN_TOPIC_OR_PARTITION
    engine.send_update_metadata(ANNOUNCEMENT, state.registered, np.sort(reported[known]))
    done = _succeeded(reported, codes)
    outcome = engine.attempt(event, lambda: complete_reassignments(engine, done))
    outcome.alter_codes = codes
    return outcome


def _succeeded(rows: Rows, codes: npt.NDArray[np.uint8]) -> Rows:
    some: Rows = rows[(codes == AlterCode.WRITTEN) | (codes == AlterCode.UNCHANGED)]
    return some


def _size_of(isr: object) -> int:
    """How many lists, or broker ids, something has; text has none."""
    text = isinstance(isr, (str, bytes))
    if text or not isinstance(isr, Sized) or (isinstance(isr, np.ndarray) and not isr.ndim):
        raise ArgumentError(f"isr is {arguments.shown(isr)}: lists of broker ids are needed")
    return len(isr)


def _masks(
    state: ClusterState, rows: Rows, lengths: list[int], ids: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Slots of the proposed ISRs, and how many brokers of each nobody knows; at most 255."""
    offsets = np.zeros(rows.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    brokers = state.broker_rows(ids)
    known = brokers >= 0
    owner = np.repeat(rows, np.diff(offsets)).astype(np.int32)
    mutators.track(state, owner[known], brokers[known])
    masks, marked = np.zeros(rows.size, np.uint64), np.zeros(rows.size, np.uint8)
    tables.masks_of(state.replicas, state.records, rows, offsets, brokers, masks, marked)
    unknown = np.bincount(np.repeat(np.arange(rows.size), lengths)[~known], minlength=rows.size)
    return masks, np.minimum(unknown, 255).astype(np.uint8)


def _decide(
    engine: ZkEngine, rows: Rows, sender: Rows, leader_epoch: Rows, version: Rows,
    masks: npt.NDArray[np.uint64], recovery: npt.NDArray[np.uint8],
    unknown: npt.NDArray[np.uint8],
) -> npt.NDArray[np.uint8]:
    """Check every proposal, write the accepted ones, take them into the cache."""
    state, store = engine.state, engine.store
    codes = np.empty(rows.size, np.uint8)
    isr.check_alterations(
        state.columns, rows, sender, leader_epoch, version, masks, recovery, unknown, codes,
    )
    if not engine.profile.requires_live_isr:  # What nobody knows has no slot to be written.
        codes[(codes == AlterCode.INELIGIBLE_REPLICA) & (unknown == 0)] = AlterCode.WRITTEN
    accepted = np.flatnonzero(codes == AlterCode.WRITTEN)
    proposed = state.records.take(rows[accepted])
    proposed["leader"], proposed["leader_epoch"] = sender[accepted], leader_epoch[accepted]
    proposed["version"], proposed["isr"] = version[accepted], masks[accepted]
    flags = proposed["flags"] & np.uint8(255 - schema.FLAG_RECOVERY)
    proposed["flags"] = flags | np.where(recovery[accepted], schema.FLAG_RECOVERY, 0)
    if store is None:
        proposed["version"] += 1
        proposed["controller_epoch"] = state.controller_epoch
        put_leadership(engine, rows[accepted], proposed)
        return codes
    try:
        answers, _ = store.update_states(rows[accepted], proposed)
    except CallFailed:
        answers = np.full(accepted.size, StoreAnswer.ERROR, np.uint8)
    codes[accepted[answers == StoreAnswer.CONFLICT]] = AlterCode.INVALID_UPDATE_VERSION
    failed = (answers != StoreAnswer.OK) & (answers != StoreAnswer.CONFLICT)
    codes[accepted[failed]] = AlterCode.STORE_ERROR
    reload_records(engine, rows[codes == AlterCode.WRITTEN])
    return codes


def put_leadership(engine: ZkEngine, rows: Rows, records: npt.NDArray[Any]) -> None:
    """Put records into the cache as they are (`put_leadership` of section 1.6)."""
    state = engine.state
    tally = engine.journal.new_tally()
    election.adopt(
        state.columns, rows, records, tally[0],
    )
    engine.journal.take_counters(tally)
    state.mark_led(rows)


def reload_records(engine: ZkEngine, rows: Rows) -> None:
    """Read records from the store into the cache, all or none; `CallFailed` where one fails."""
    store = engine.store
    if store is None or not rows.size:
        return
    answers, stored = store.read_states(rows)
    if (answers == StoreAnswer.ERROR).any():
        raise CallFailed("read_states failed")
    readable = answers == StoreAnswer.OK
    put_leadership(engine, rows[readable], stored[readable])


def catch_up(engine: ZkEngine, broker_ids: Iterable[int]) -> Outcome:
    """Brokers caught up: the leaders report ISRs that have them again."""
    state = engine.state
    brokers = state.find_brokers(broker_ids)
    if not engine.active:
        return engine.refused("catch_up", "NOT_CONTROLLER")
    if engine.way_of("catch_up") is ExecutionMode.FUSED:
        altered, answers, senders = fused_events.catch_up_brokers(engine, brokers)
        outcome = engine.journal.finish("catch_up")
        outcome.alter_codes, outcome.altered = answers, altered
        outcome.senders = tuple(state.broker_id[senders].tolist())
        return outcome
    return _report_each(engine, state.replicas_on(brokers))


def _report_each(engine: ZkEngine, hosted: Replicas) -> Outcome:
    """Every leader's request on its own, or all together where none can fail."""
    state = engine.state
    joined = np.empty(len(hosted), np.uint64)
    isr.propose_catch_up(state.columns, hosted.rows, hosted.slots, joined)
    rows, masks = hosted.rows[joined != 0], joined[joined != 0]
    leaders = np.ascontiguousarray(state.records["leader"][rows])
    codes = np.full(rows.size, AlterCode.STORE_ERROR, np.uint8)
    errors: list[str] = []
    announced: list[int] = []
    order = np.argsort(leaders, kind="stable")
    senders = np.split(order, np.flatnonzero(np.diff(leaders[order])) + 1) if rows.size else []
    reports = state.records.take(rows)

    def steps() -> None:
        if engine.store is None and not state.any_queued:
            # Nothing in one leader's request concerns the rows of another.
            codes[:] = _report(engine, rows, leaders, masks, reports)
            _announce_each(engine, rows, senders)
            announced.extend(leaders[at[0]] for at in senders)
            done = _succeeded(rows, codes)
            if cannot_fail(engine, done).all():
                complete_reassignments(engine, done)
                return
            for at in senders:
                _complete(engine, rows[at], codes[at], errors)
            return
        for at in senders:
            try:
                codes[at] = _report(engine, rows[at], leaders[at], masks[at], reports[at])
            except (CallFailed, ControllerMoved):
                errors.append("UNKNOWN_SERVER_ERROR")
                continue
            altered = rows[at]
            if not engine.profile.has_alter_partition:
                altered = altered[codes[at] == AlterCode.WRITTEN]
                if not altered.size:
                    continue
            engine.send_update_metadata(ANNOUNCEMENT, state.registered, altered)
            announced.append(leaders[at[0]])
            _complete(engine, rows[at], codes[at], errors)

    outcome = engine.attempt("catch_up", steps)
    outcome.alter_codes, outcome.altered = codes, rows
    outcome.senders = tuple(state.broker_id[announced].tolist()) if announced else ()
    outcome.error = outcome.error or (errors[0] if errors else None)
    return outcome


def _announce_each(
    engine: ZkEngine, rows: Rows, senders: list[npt.NDArray[np.int64]]
) -> None:
    """Announce what each leader reported, in a batch of its own."""
    registered, journal = engine.state.registered, engine.journal
    if not journal.full:
        n_altered = [at.size for at in senders]
        journal.add_metadata_counts(ANNOUNCEMENT, registered, n_altered)
        return
    for at in senders:
        engine.send_update_metadata(ANNOUNCEMENT, registered, rows[at])


def _complete(
    engine: ZkEngine, rows: Rows, codes: npt.NDArray[np.uint8], errors: list[str]
) -> None:
    """Finish the reassignments that one leader's request completes; an error ends its event."""
    try:
        complete_reassignments(engine, _succeeded(rows, codes))
    except EventFailed as failed:
        errors.append(failed.error)


def _report(
    engine: ZkEngine, rows: Rows, leaders: Rows, masks: npt.NDArray[np.uint64],
    reports: npt.NDArray[Any],
) -> npt.NDArray[np.uint8]:
    """Leaders report ISRs with the epochs and versions that they know, those of `reports`."""
    if not engine.profile.has_alter_partition:
        return _write_isrs(engine, rows, masks, reports)
    return _decide(
        engine, rows, leaders, reports["leader_epoch"].copy(), reports["version"].copy(),
        masks, np.zeros(rows.size, np.uint8), np.zeros(rows.size, np.uint8),
    )


def _write_isrs(
    engine: ZkEngine, rows: Rows, masks: npt.NDArray[np.uint64], reports: npt.NDArray[Any]
) -> npt.NDArray[np.uint8]:
    """Leaders write ISRs themselves, and the controller reads what was written (section 8.1).

    What another leader's report has set off may have changed a record since: it is not written.
    """
    state, store = engine.state, engine.store
    proposed = state.records.take(rows)
    if engine.profile.epoch_bump_is_cached:
        proposed = reports.copy()
    proposed["isr"] = masks
    if store is None:
        unchanged = proposed["version"] == state.records["version"][rows]
        proposed["version"] += 1
        put_leadership(engine, rows[unchanged], proposed[unchanged])
        codes = np.where(unchanged, AlterCode.WRITTEN, AlterCode.INVALID_UPDATE_VERSION)
        return codes.astype(np.uint8)
    if not engine.profile.epoch_bump_is_cached:
        # LeaderAndIsr told the leader of an epoch that the controller itself has not cached.
        store.track_brokers(rows)
        proposed["version"] = store.versions(rows)
    written = store.write_isrs(rows, proposed)
    reload_records(engine, rows[written])
    return np.where(written, AlterCode.WRITTEN, AlterCode.INVALID_UPDATE_VERSION).astype(np.uint8)


def on_isr_change_notification(engine: ZkEngine, rows: npt.ArrayLike) -> Outcome:
    """Leaders wrote ISRs themselves and left a notification: reload and announce."""
    state = engine.state
    reported = np.sort(state.check_rows(rows))
    event = "on_isr_change_notification"
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    try:
        reload_records(engine, reported)
    except CallFailed:
        return engine.refused(event, "UNKNOWN_SERVER_ERROR")
    engine.send_update_metadata(ANNOUNCEMENT, state.registered, reported)
    return engine.attempt(event, lambda: complete_reassignments(engine, reported))
