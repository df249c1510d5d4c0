"""Runs along a metadata log, group by group: predicts, compares, applies what is written.

Source: docs/kraft.md, sections 2 and 5 to 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kfast.metadata_replay import verdicts as v
from kfast.metadata_replay.batches import grouped
from kfast.metadata_replay.broker_updates import FAILED_DIRECTORIES, Step, step_after, steps_before
from kfast.metadata_replay.explanation import CONTRADICTION_COST, Change, Examined, Examiner
from kfast.metadata_replay.other_records import OtherRecords
from kfast.metadata_replay.verdicts import Verdicts
from kfast.replay_results.timeline import Row, Timeline
from kfast.replay_results.verdicts import ADOPTED, CONTRADICTED, MISSING, PREDICTED
from kfast.state.metadata_records import (
    ConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from kfast.io.metadata.log import LoggedRecord
    from kfast.metadata_replay.simulation import Prediction, Simulation

UNEXPLAINED = "unexplained"
"""Cause of a change that nothing explains."""

WORDS = {
    UNEXPLAINED: "a change that nothing explains",
    "isr": "a leader changes an ISR",
    "directories said": "a broker says where a replica lies",
    "plan": "an administrator's plan changes a partition",
    "cancellation": "an administrator cancels a reassignment",
    "preferred": "preferred election",
    "unclean": "unclean election",
    "shutdown": "a broker that shuts down leaves an ISR",
}
"""Events that are asked for, in words."""

MERGED = {
    "isr": "leaders change {n} ISRs",
    "directories said": "brokers say where {n} replicas lie",
    "plan": "an administrator's plan changes {n} partitions",
    "cancellation": "an administrator cancels {n} reassignments",
    "preferred": "preferred election of {n} partitions",
    "unclean": "unclean election of {n} partitions",
    "partitions": "{n} partitions are added",
    "topics": "{n} topics are created",
    "deletion": "{n} topics are deleted",
}
"""Events that follow one another count as one; in words, `n` for how many."""

MAY_STAND_BETWEEN_CREATIONS = (TopicRecord, PartitionRecord, ConfigRecord, NoOpRecord)
"""What depends on no partition, so that new ones need not be applied before it."""


class MetadataReplayer:
    """Runs along a log: predicts, compares, and applies what is written.

    Parameters
    ----------
    simulation : Simulation
        At the state where the log begins.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.examiner = Examiner(simulation)
        self.verdicts = Verdicts()
        self.timeline = Timeline(merged=MERGED)
        self.n_records = self.end_offset = 0
        self.places: Counter[tuple[str, int]] = Counter()
        """How often each partition changes in this group of batches."""
        self.repeated: set[int] = set()
        """Rows of those that change more than once."""
        self.others = OtherRecords(simulation, self.verdicts, self.timeline)

    def replay(self, records: Iterable[LoggedRecord]) -> None:
        """Take in a whole log."""
        for group in grouped(records):
            if not self.n_records:
                self._begin(group[0].timestamp_ms)
            self._replay_group(group)
            self.n_records += len(group)
            self.end_offset = group[-1].offset + 1

    def _begin(self, time: int) -> None:
        """Take down what is the case where the log begins."""
        for name in self.simulation.leaderless():
            self.timeline.leaderless.begin(name, time)
        for name in self.simulation.reassigned():
            self.timeline.reassigned.begin(name, None)
        self.timeline.note_brokers(self.simulation.brokers_up(), time)

    def _replay_group(self, group: list[LoggedRecord]) -> None:
        """Take in batches that belong together: runs of changes, and what stands between them."""
        self.places = Counter(
            (one.record.topic_id, one.record.partition_id) for one in group
            if isinstance(one.record, PartitionChangeRecord)
        )
        self.repeated = set()
        self.examiner.begin_group()
        marker: LoggedRecord | None = None
        run: list[Change] = []
        for logged in group:
            if not isinstance(logged.record, MAY_STAND_BETWEEN_CREATIONS):
                self.others.create()
            if isinstance(logged.record, PartitionChangeRecord):
                run += self._placed(logged, logged.record)
                continue
            self._settle(run, marker, logged)
            run, marker = [], logged
            self.others.take(logged)
        self._settle(run, marker, None)
        self.others.end(group[-1])

    def _placed(self, logged: LoggedRecord, record: PartitionChangeRecord) -> list[Change]:
        """A change with the row of its partition; nothing where no state can take it."""
        place = record.topic_id, record.partition_id
        row = self.simulation.row_of(*place)
        if row is None or not self._is_possible(row, record):
            name = f"{record.topic_id}-{record.partition_id}"
            self.verdicts.add(
                logged.offset, logged.timestamp_ms,
                name if row is None else self.simulation.name(row),
                (v.CHANGE, UNEXPLAINED, CONTRADICTED, ""), record, None,
            )
            return []
        if self.places[place] > 1:
            self.repeated.add(row)
        return [Change(logged.offset, logged.timestamp_ms, row, record)]

    def _is_possible(self, row: int, record: PartitionChangeRecord) -> bool:
        """Whether a state can have these lists: no broker twice, none in both ISR and ELR."""
        isr, elr = record.isr or (), record.eligible_leader_replicas or ()
        if elr and record.isr is None and row not in self.repeated:
            isr = self.simulation.registration(row).isr
        members, replicas = (*isr, *elr), record.replicas or ()
        return (
            len(set(members)) == len(members) and len(set(replicas)) == len(replicas)
            and len(record.last_known_elr or ()) <= 1
        )

    # ------------------------------------------------------------------------ partition changes

    def _settle(
        self, run: list[Change], before: LoggedRecord | None, marker: LoggedRecord | None
    ) -> None:
        """Explain a run of changes by the records that stand before and behind it."""
        after = None if before is None else step_after(before.record)
        if before is not None and after is not None:
            run = self._follow(run, after, before)
        steps = [] if marker is None else steps_before(self.simulation, marker.record)
        if not run and not steps:
            return
        examined = self.examiner.examine(run, steps, self.repeated)
        if marker is None or not steps:
            self._note_requests(examined, len(run))
            return
        choices = []
        for number, step in enumerate(steps):
            cost, begin = examined.divide(number)
            missing = self._missing(step, {change.row for change in run[begin:]})
            choices.append((cost + CONTRADICTION_COST * len(missing), number, begin, missing))
        _, number, begin, missing = min(choices, key=lambda choice: choice[:2])
        self._note_requests(examined, begin)
        row = self._row(steps[number], marker)
        self._note_step(examined, number, begin, steps[number], row)
        self._note_missing(missing, steps[number], marker)

    def _missing(self, step: Step, written: set[int]) -> dict[int, Prediction]:
        """What a step gives besides what is written.

        One heartbeat may unfence a broker and report directories: both are built from the state
        before, so what the first has changed the second need not.
        """
        if step.cause == FAILED_DIRECTORIES:
            written = self.examiner.changed
        return self.simulation.due(step, written)

    def _row(self, step: Step, marker: LoggedRecord) -> Row:
        return self.timeline.begin(step.cause, step.what, marker.timestamp_ms)

    def _follow(
        self, run: list[Change], step: Step, marker: LoggedRecord
    ) -> list[Change]:
        """The changes that follow from a broker's record come first behind it; return the rest."""
        due = self.simulation.due(step, set())
        n = 0
        while n < len(run) and run[n].row in due:
            del due[run[n].row]
            n += 1
        examined = self.examiner.examine(run[:n], [step], self.repeated)
        self._note_step(examined, 0, 0, step, self._row(step, marker))
        self._note_missing(due, step, marker)
        return run[n:]

    def _note_step(
        self, examined: Examined, number: int, begin: int, step: Step, row: Row
    ) -> None:
        """Verdicts on the changes that a broker's step made, from one place on."""
        for place in range(begin, len(examined.changes)):
            change = examined.changes[place]
            if examined.fits[number][place]:
                self._note(change, step.cause, PREDICTED)
            else:
                predicted = examined.predicted.get(place)
                self._note(change, step.cause, CONTRADICTED, predicted=predicted)
            self._note_effect(row, change, examined, place)

    def _note_missing(
        self, missing: Mapping[int, Prediction], step: Step, marker: LoggedRecord
    ) -> None:
        """Changes that a step gives and that the log lacks."""
        for row, prediction in missing.items():
            self.verdicts.add(
                marker.offset, marker.timestamp_ms, self.simulation.name(row),
                (v.CHANGE, step.cause, MISSING, ""), None, self.simulation.record_of(prediction),
            )

    def _note_requests(self, examined: Examined, end: int) -> None:
        """Verdicts on the changes before one place, which were asked for."""
        for place in range(end):
            change, request = examined.changes[place], examined.requests[place]
            if request is None:
                cause = UNEXPLAINED
                self._note(
                    change, cause, CONTRADICTED, predicted=examined.predicted.get(place)
                )
            else:
                cause = request.kind
                verdict = ADOPTED if request.reason else PREDICTED
                self._note(change, cause, verdict, request.reason)
            row = self.timeline.begin(cause, WORDS[cause], change.time_ms)
            self._note_effect(row, change, examined, place)

    def _note(
        self, change: Change, cause: str, verdict: str, reason: str = "",
        predicted: PartitionChangeRecord | None = None,
    ) -> None:
        self.verdicts.add(
            change.offset, change.time_ms, self.simulation.name(change.row),
            (v.CHANGE, cause, verdict, reason), change.record, predicted,
        )

    def _note_effect(self, row: Row, change: Change, examined: Examined, place: int) -> None:
        """Take down in the timeline what a change did."""
        row.transitions += 1
        name, record = self.simulation.name(change.row), change.record
        row.isr_changes += record.isr is not None
        if record.leader is not None:
            self.timeline.note_leader(
                row, name, change.time_ms, examined.leaders[place], record.leader
            )
        if place in examined.unclean:
            before = examined.unclean[place]
            self.timeline.note_unclean(name, change.time_ms, {
                "isr_before": before.isr, "leader": record.leader,
                "leader_epoch": before.leader_epoch + 1,
            })
        if record.adding_replicas or record.removing_replicas:
            self.timeline.reassigned.begin(name, change.time_ms)
        elif record.adding_replicas is not None or record.removing_replicas is not None:
            self.timeline.reassigned.end(name, change.time_ms)

