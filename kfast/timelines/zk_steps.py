"""Steps of the ZooKeeper-mode controller: what each costs, and what its requests make brokers do.

A step of the journal that sends requests is one step here, with one *publication*: the batch of
LeaderAndIsr and UpdateMetadata requests that goes to the brokers when the step ends.

Source: docs/timeline.md, section "ZooKeeper mode"; Kafka 3.9, `KafkaController.onBrokerFailure`,
`onControllerFailover`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kfast.journal import Outcome
from kfast.journal.outcome import LEADER_AND_ISR, UPDATE_METADATA
from kfast.state.records import Rows
from kfast.timelines.recording import NEVER, SHUTDOWN, Bits, RecordedEvent, Recording, holds

__all__ = [
    "ControllerStep", "Publication", "controller_steps", "final_publications", "last_publications",
]

Counts = npt.NDArray[np.int64]

CONTEXT, ALL_REPLICAS = "context", "all replicas"
OFFLINE, ELECTIONS = "offline replicas", "elections"
STAGES = {
    "announce the live brokers": CONTEXT,
    "replicas to OnlineReplica": ALL_REPLICAS,
    "replicas to OfflineReplica": OFFLINE,
    "partitions to OnlinePartition (OFFLINE)": ELECTIONS,
    "partitions to OnlinePartition (CONTROLLED_SHUTDOWN)": ELECTIONS,
}
"""Stage of each step of the journal that costs the controller time."""


@dataclass(frozen=True, eq=False)
class Publication:
    """What one batch of requests makes each broker do; arrays are (N,), by broker row.

    Attributes
    ----------
    leads, leads_on, follows : (N,) int64
        Partitions that a broker begins to lead with a new epoch, leads on, and follows.
    announced : int
        Partitions that UpdateMetadata names.
    elected : (N,) int64
        Of `leads`, those that had lost their leader, and that this broker leads for good.
    shrunk_later : (N,) int64
        Of `elected`, those whose ISR loses its last dead member in a later publication.
    shrunk : (N,) int64
        Of `leads`, others whose ISR loses its last dead member here.
    """

    leads: Counts
    leads_on: Counts
    follows: Counts
    announced: int
    elected: Counts
    shrunk_later: Counts
    shrunk: Counts


@dataclass(frozen=True, eq=False)
class ControllerStep:
    """One step of the controller.

    Attributes
    ----------
    event : int
        Number of the event, from 0.
    stage : str
    cpu : dict of str to int
        Items by the parameter that one of them costs.
    fixed : tuple of str
        Parameters that are paid once.
    reads, writes : tuple of int
        Sizes of the batches of requests to ZooKeeper.
    entries : int
        LeaderAndIsr partitions, summed over brokers.
    publication : Publication or None
    """

    event: int
    stage: str
    cpu: dict[str, int] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    entries: int = 0
    publication: Publication | None = None


@dataclass(frozen=True, eq=False)
class _Batch:
    """One step with its requests; `began` are the rows that get a new leader epoch.

    They are among those of the event (`RecordedEvent.at`). `first` says whether it is the first of
    its event, `replicas` how many replicas that concerns.
    """

    event: int
    stage: str
    began: Bits
    written: int
    entries: Counts
    announced: int
    tried: int
    first: bool
    replicas: int


def controller_steps(recording: Recording) -> list[ControllerStep]:
    """Every step of the controller, in its order."""
    batches = _all_batches(recording)
    last, elected_by = _last_changes(recording, batches)
    return [
        _step(recording, number, batch, last, elected_by) for number, batch in enumerate(batches)
    ]


def final_publications(recording: Recording) -> Counts:
    """(n,) number of the step that gave each row its leader for good; NEVER as of operations."""
    return last_publications(recording)[1]


def last_publications(recording: Recording) -> tuple[Counts, Counts]:
    """(n,) numbers of the steps that changed each row last, and as of `final_publications`."""
    return _last_changes(recording, _all_batches(recording))


def _all_batches(recording: Recording) -> list[_Batch]:
    return [
        batch for number, event in enumerate(recording.events)
        for batch in _batches(event, number)
    ]


def _batches(event: RecordedEvent, number: int) -> Iterator[_Batch]:
    """Steps of one event that send requests; steps at which nothing is tried are left out."""
    outcome = event.outcome
    assert isinstance(outcome, Outcome), "KRaft controllers send no requests"
    n_elected = int(event.elected.sum())
    tried = {totals.step: sum(totals.codes().values()) for totals in outcome.totals}
    # A failure that changes nothing announces the live brokers too, and reads no context.
    stages = {step: STAGES[action] for step, action in enumerate(outcome.actions)
              if action in STAGES and (STAGES[action] == CONTEXT or tried.get(step))}
    n_brokers = outcome.broker_id.size
    moved = (OFFLINE, ELECTIONS) if outcome.event == SHUTDOWN else (OFFLINE,)
    replicas = sum(tried[step] for step, stage in stages.items() if stage in moved)
    for step, stage in stages.items():
        entries, announced = np.zeros(n_brokers, np.int64), 0
        for sent in outcome.all_sent:
            if sent.step == step and sent.kind == LEADER_AND_ISR:
                entries = entries + sent.partitions
            elif sent.step == step and sent.kind == UPDATE_METADATA:
                announced += int(sent.partitions.max())
        began, written = np.zeros(event.before.size, np.bool_), 0
        if stage == ELECTIONS:
            began, written = event.elected, n_elected
        elif stage == OFFLINE:
            began = event.writes > event.elected
            written = int(event.writes.sum()) - n_elected
        yield _Batch(number, stage, began, written, entries, announced, tried.get(step, 0),
                     step == min(stages), replicas)


def _last_changes(recording: Recording, batches: list[_Batch]) -> tuple[Counts, Counts]:
    """Of each row the batch of its last change, and that which gave it its leader for good."""
    last = np.full(recording.rows.size, NEVER, np.int64)
    elected_by = last.copy()
    for number, batch in enumerate(batches):
        began = recording.events[batch.event].at[batch.began]
        last[began] = number
        if batch.stage == ELECTIONS:
            elected_by[began] = number
    elected_by[~recording.lost | (recording.final_leader < 0)] = NEVER
    return last, elected_by


def _step(
    recording: Recording, number: int, batch: _Batch, last: Counts, elected_by: Counts
) -> ControllerStep:
    event = recording.events[batch.event]
    starting = recording.takeover == batch.event
    leader = event.after["leader"].astype(np.int32)
    if starting and batch.stage != ELECTIONS:
        leader[event.elected] = -1
    leads = np.minimum(_by_broker(recording, leader[batch.began]), batch.entries)
    leads_on = np.minimum(_leads_on(recording, batch, leader), batch.entries - leads)
    here, final = event.at[batch.began], recording.final_leader[event.at[batch.began]]
    mine, later = elected_by[here] == number, last[here] > number
    publication = Publication(
        leads, leads_on, batch.entries - leads - leads_on, batch.announced,
        _by_broker(recording, final[mine]), _by_broker(recording, final[mine & later]),
        _by_broker(recording, final[~mine & ~later]),
    )
    state = recording.state
    cpu: dict[str, int] = {}
    fixed: tuple[str, ...] = ()
    reads: tuple[int, ...] = (batch.tried,)
    if batch.stage == CONTEXT and not starting:
        reads = ()
    elif batch.stage == CONTEXT:
        fixed, reads = ("failover_fixed",), (state.n_topics, state.n_partitions)
    elif batch.stage == ALL_REPLICAS:
        cpu, reads = {"zk_start": state.n_partitions}, ()
    elif batch.first and not starting:
        cpu = {"zk_scan": state.n_partitions, "zk_replica": batch.replicas}
    return ControllerStep(
        batch.event, batch.stage, cpu, fixed, reads, (batch.written,), int(batch.entries.sum()),
        publication,
    )


def _leads_on(recording: Recording, batch: _Batch, leader: Rows) -> Counts:
    """(N,) partitions in the requests of a batch that brokers lead on with the epoch they have."""
    if batch.stage == OFFLINE and recording.takeover == batch.event:
        return _leads_on_beside_dead(recording, batch, leader)
    if batch.stage == OFFLINE:
        event = recording.events[batch.event]
        gone = np.zeros(recording.dead.size, np.bool_)
        gone[list(event.group)] = True
        hosted = holds(gone, recording.concerned.replicas[event.at]).any(axis=1)
        if event.outcome.event == SHUTDOWN:  # Only what the broker followed is taken from it.
            hosted &= ~event.elected
        return _by_broker(recording, leader[hosted & ~batch.began])
    if batch.stage != ALL_REPLICAS:
        return np.zeros(batch.entries.size, np.int64)
    everywhere = recording.state.records["leader"]
    return (
        _by_broker(recording, everywhere)
        - _by_broker(recording, everywhere[recording.rows])
        + _by_broker(recording, recording.first["leader"])
    )


def _leads_on_beside_dead(recording: Recording, batch: _Batch, leader: Rows) -> Counts:
    """The same of a controller that starts: replicas of all brokers that are down are named."""
    state = recording.state
    down = ~state.registered | recording.dead
    for event in recording.events[1:]:
        down[list(event.group)] = False
    everywhere = state.records["leader"].astype(np.int32)
    everywhere[recording.rows] = np.where(batch.began, -1, leader)
    rows = state.rows_tracking(np.flatnonzero(down).astype(np.int32))
    replicas = state.replicas[rows]
    assigned = np.arange(replicas.shape[1]) < state.records["n_replicas"][rows][:, None]
    named = np.zeros(replicas.shape, np.bool_)
    named[assigned] = down[replicas[assigned]]
    hosted = np.asarray(named.any(axis=1), np.bool_)
    return _by_broker(recording, everywhere[rows[hosted]])


def _by_broker(recording: Recording, leaders: Rows) -> Counts:
    """(N,) how often each broker is the leader of a row; -1 is nobody."""
    return np.bincount(leaders[leaders >= 0], minlength=recording.dead.size)
