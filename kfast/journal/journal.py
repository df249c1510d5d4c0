"""Journal: collects the steps of an event, and makes its outcome.

Three levels: `off` records nothing, `counts` adds up, `full` keeps every row. The level never
changes what happens.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.errors import ArgumentError
from kfast.journal.effects import (
    EFFECT,
    EffectBuffer,
    Effects,
    EffectTable,
    JournalRules,
    effect_table,
)
from kfast.journal.outcome import (
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    Outcome,
    StepRequests,
    StepTotals,
)
from kfast.journal.tables import CHANGES, SENDS, Step, make_rows, make_table, request_counts
from kfast.schema import (
    TALLY_BROKERS,
    TALLY_IMBALANCE,
    TALLY_LED,
    TALLY_OFFLINE,
    TALLY_UNCLEAN,
    Strategy,
)
from kfast.state import ClusterState
from kfast.state.records import Rows

LEVELS = ("off", "counts", "full")
Tally = npt.NDArray[np.int64]
_ANNOUNCING = schema.KIND_LEADER_AND_ISR | schema.KIND_METADATA


class Journal:
    """Collects the steps of one event after the other.

    Parameters
    ----------
    state : ClusterState
    level : {"off", "counts", "full"}
    rules : JournalRules
        What the requests and the error log of the version that is simulated say.
    """

    def __init__(self, state: ClusterState, level: str, rules: JournalRules) -> None:
        if level not in LEVELS:
            raise ArgumentError(f"journal {level!r} is unknown; allowed: {', '.join(LEVELS)}")
        self.state = state
        self.rules = rules
        self.level = cast(Literal["off", "counts", "full"], level)
        self.per_partition = False
        self.begin()

    @contextlib.contextmanager
    def batch_for_each_partition(self) -> Iterator[None]:
        """Steps within are as many batches as they have partitions (section 6.7)."""
        self.per_partition = True
        try:
            yield
        finally:
            self.per_partition, self.prefix = False, ""

    def begin_steps(self, action: str, n: int = 1) -> int:
        """Begin n steps; those of which nothing is recorded have the counts of the one after them.

        Returns the number of the first.
        """
        first = len(self.actions)
        self.actions += [self.prefix + action] * n
        return first

    def begin(self) -> None:
        """Forget what was recorded."""
        self.prefix = ""
        self.actions: list[str] = []
        self.totals: list[StepTotals] = []
        self.sent: list[StepRequests] = []
        self.batches: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        self.announced: dict[int, Rows] = {}

    @property
    def counting(self) -> bool:
        """Whether counts are kept."""
        return self.level != "off"

    @property
    def full(self) -> bool:
        """Whether every row is kept."""
        return self.level == "full"

    @property
    def names_deleted(self) -> bool:
        """Whether every UpdateMetadata names what is to be deleted, which no tally counts."""
        return self.rules.metadata_has_deleted and self.state.any_queued

    @property
    def records_effects(self) -> bool:
        """Whether kernels are to say what became of each target."""
        return self.full or (self.counting and self.names_deleted)

    def new_tally(self, threads: int = 1) -> Tally:
        """Make an empty tally for a kernel: one row per thread."""
        tally: Tally = self.new_tallies(1, threads)[0]
        return tally

    def new_tallies(self, n: int, threads: int = 1) -> npt.NDArray[np.int64]:
        """Make the empty tallies of n steps."""
        width = TALLY_BROKERS + 2 * max(self.state.n_brokers, 1)
        return np.zeros((n, threads, width), np.int64)

    def new_effects(self, n: int) -> Effects:
        """Memory for the effects of n targets; empty where no row is recorded."""
        return np.zeros(n if self.records_effects else 0, EFFECT)

    def new_effect_buffer(self, rows: int, steps: int, replicas: int) -> EffectBuffer:
        """Memory for an event that visits each partition once; none where no row is kept."""
        each = min(replicas, self.state.n_slots)
        return EffectBuffer(rows if self.full else 0, steps, each)

    def add_step(
        self, action: str, tally: Tally, effects: Effects, *, replicas: bool,
        strategy: Strategy | None = None, from_store: bool = False, sent: bool = True,
        announced: Effects | None = None,
    ) -> None:
        """Record one call of a machine: its counters go to the state, the rest to the journal.

        Parameters
        ----------
        action : str
            What was done.
        tally : (threads, width) int64
            Counts of the kernels; the journal's from now on.
        effects : (n,) EFFECT
            What became of each target; empty unless rows are kept or a store was asked.
        replicas : bool
            Whether replicas or partitions moved.
        strategy : Strategy or None
            Of an election.
        from_store : bool
            A store was asked: requests are counted from the effects.
        sent : bool
            Whether the batch was sent.
        announced : (m,) EFFECT, optional
            What UpdateMetadata says, where LeaderAndIsr says something else.
        """
        total = self.take_counters(tally)
        step = self.begin_steps(action)
        if not self.counting:
            return
        from_store = from_store or self.names_deleted
        from_tally = sent and not from_store
        state = self.state
        status = state.broker_status[: state.n_brokers].copy() if from_tally else None
        self.totals.append(StepTotals(step, total, replicas, status, self.per_partition))
        if not self.full and not from_store:
            return
        if from_store:
            effects = effects[np.argsort(effects["row"], kind="stable")]
        if not self.rules.marks_new_replicas:
            effects["kinds"] &= 255 - schema.KIND_IS_NEW
        table = effect_table(state, effects)
        if sent:
            announced = self._metadata(effects, announced)
        if sent and from_store:
            self._send_effects(table, announced, step)
        if self.full:
            shows = (*CHANGES, *SENDS) if sent else CHANGES
            self.steps.append(Step(
                step, table, shows, self.rules, replicas, strategy,
                None if announced is None else effect_table(state, announced), announced is None,
            ))
            if sent:
                announces = bool(table.all_kinds & _ANNOUNCING)
                self._add_metadata_brokers(state.registered if announces else None, step)

    def take_counters(self, tally: Tally) -> npt.NDArray[np.int64]:
        """Add what kernels counted to the state's counters; returns the sum over threads."""
        state = self.state
        total: npt.NDArray[np.int64] = tally[0] if len(tally) == 1 else tally.sum(axis=0)
        state.offline_partition_count += total.item(TALLY_OFFLINE)
        state.preferred_imbalance_count += total.item(TALLY_IMBALANCE)
        state.unclean_elections += total.item(TALLY_UNCLEAN)
        state.n_led += total.item(TALLY_LED)
        return total

    def _metadata(self, effects: Effects, announced: Effects | None) -> Effects | None:
        """What UpdateMetadata says where it is more than the effects do; in row order.

        Source: section 8.1.
        """
        if not self.names_deleted or not (effects["kinds"] & _ANNOUNCING).any():
            return announced
        last = _last_announced(effects) if announced is None else announced
        not_queued = last[(last["kinds"] & schema.KIND_QUEUED) == 0]
        named = np.concatenate([not_queued, self.record_effects(self._deleted_rows())])
        ordered: Effects = named[np.argsort(named["row"], kind="stable")]
        return ordered

    def _deleted_rows(self) -> Rows:
        state = self.state
        led = (state.records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
        led &= state.topic_queued_for_deletion[state.topic_row]
        return np.flatnonzero(led).astype(np.int32)

    def metadata_rows(self, rows: Rows) -> Rows:
        """The rows that an UpdateMetadata names when it is asked for these.

        Source: sections 5.2 and 8.1.
        """
        state = self.state
        if not rows.size and self.rules.empty_metadata_is_all:
            led = state.records["flags"] & schema.FLAG_HAS_LEADERSHIP
            rows = np.flatnonzero(led).astype(np.int32)
        if self.names_deleted:
            not_queued = rows[~state.topic_queued_for_deletion[state.topic_row[rows]]]
            rows = np.sort(np.concatenate([not_queued, self._deleted_rows()]))
        return rows

    def _send_effects(self, table: EffectTable, named: Effects | None, step: int) -> None:
        announcing = (table.effects["kinds"] & _ANNOUNCING) != 0
        announced = np.unique(table.effects["row"][announcing]).size
        each = announced if self.per_partition else None
        leads, stops = request_counts(table)
        for kind, counts in ((LEADER_AND_ISR, leads), (STOP_REPLICA, stops)):
            self.sent.append(StepRequests(step, kind, counts > 0, counts, each))
        if announced:
            n_named = table.metadata_places().size if named is None else named.size
            if self.per_partition and self.names_deleted:
                n_named += (announced - 1) * self._deleted_rows().size
            everyone = self.state.registered
            self.sent.append(StepRequests(step, UPDATE_METADATA, everyone, n_named, each))

    def add_batch(
        self, action: str, added: Effects, announced: Effects,
        brokers: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Record a whole batch: requests added, partitions of UpdateMetadata and its brokers."""
        step = self.begin_steps(action)
        self.steps.append(Step(
            step, effect_table(self.state, added), SENDS, self.rules,
            announced=effect_table(self.state, announced),
        ))
        chosen = None if brokers is None else brokers & self.state.registered
        self._add_metadata_brokers(chosen, step)

    def _add_metadata_brokers(self, chosen: npt.NDArray[np.bool_] | None, step: int) -> None:
        state = self.state
        ids = state.broker_id[:0] if chosen is None else state.broker_id[chosen]
        self.announced[step] = ids.copy()
        registered = state.broker_id[state.registered]
        self.batches.append({
            "step": step, "per_partition": self.per_partition,
            "controller_epoch": state.controller_epoch, "registered": registered.tolist(),
            "broker_epochs": dict(
                zip(state.broker_id.tolist(), state.broker_epoch.tolist(), strict=True)
            ),
        })

    def record_effects(self, rows: Rows, kinds: int = schema.KIND_LEADER_AND_ISR) -> Effects:
        """Effects that say the records of some rows as they are now."""
        records = self.state.records.take(rows)
        effects = np.zeros(rows.size, EFFECT)
        for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr", "adding",
                     "removing", "n_replicas", "n_slots"):
            effects[name] = records[name]
        effects["row"], effects["broker"], effects["leader_before"] = rows, -1, records["leader"]
        queued = self.state.topic_queued_for_deletion[self.state.topic_row[rows]]
        effects["kinds"] = kinds | np.where(queued, schema.KIND_QUEUED, 0)
        effects["recovery"] = (records["flags"] & schema.FLAG_RECOVERY) != 0
        return effects

    def add_update_metadata(self, action: str, brokers: npt.NDArray[np.bool_], rows: Rows) -> None:
        """Record an UpdateMetadata of the controller's own batch.

        Parameters
        ----------
        action : str
        brokers : (B,) bool
            The recipients; unregistered brokers are left out.
        rows : (n,) int32
            Partition rows; those without cached leadership carry no entry (section 5.2).
        """
        step = self.begin_steps(action)
        if not self.counting:
            return
        chosen = brokers & self.state.registered
        batches = rows.size if self.per_partition else None
        rows = self.metadata_rows(rows)
        led = (self.state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP) != 0
        rows = rows[led]
        self.sent.append(StepRequests(step, UPDATE_METADATA, chosen, rows.size, batches))
        if self.full:
            table = effect_table(self.state, self.record_effects(rows))
            self.steps.append(Step(step, table, SENDS[1:], self.rules, merges=False))
            self._add_metadata_brokers(chosen, step)

    def add_metadata_counts(
        self, action: str, brokers: npt.NDArray[np.bool_], sizes: Sequence[int]
    ) -> None:
        """Record UpdateMetadata requests, one step each, of which only the sizes are kept."""
        first = self.begin_steps(action, len(sizes))
        if self.counting:
            recipients = brokers & self.state.registered
            self.sent += [
                StepRequests(first + at, UPDATE_METADATA, recipients, size)
                for at, size in enumerate(sizes)
            ]

    def add_stop_replica(self, action: str, broker: int, rows: Rows) -> None:
        """Record StopReplica without deletion to one broker row (section 6.3, step 7)."""
        step = self.add_stop_count(action, broker, rows.size)
        if self.full:
            effects = self.record_effects(rows, schema.KIND_STOP)
            effects["stop_epoch"] = self.state.stop_epochs(rows)
            effects["broker"] = broker
            shows = ("additions", "requests")
            self.steps.append(Step(step, effect_table(self.state, effects), shows, self.rules))
            self._add_metadata_brokers(None, step)

    def add_stop_count(self, action: str, broker: int, n: int) -> int:
        """Record StopReplica without deletion to one broker row; returns the step's number."""
        step = self.begin_steps(action)
        if self.counting:
            recipients = np.zeros(self.state.n_brokers, np.bool_)
            recipients[broker] = self.state.registered[broker]
            batches = n if self.per_partition else None
            self.sent.append(StepRequests(step, STOP_REPLICA, recipients, n, batches))
        return step

    def finish(self, event: str) -> Outcome:
        """Make the outcome of everything since `begin`, and begin again."""
        outcome = Outcome(event, self.level)
        outcome.actions = tuple(self.actions)
        outcome.batches = self.batches
        outcome.totals, outcome.sent = self.totals, self.sent
        outcome.broker_id = self.state.broker_id
        if self.full:
            steps, announced = tuple(self.steps), self.announced
            outcome.make = lambda name: make_table(name, steps, announced)
            outcome.make_rows = lambda name: make_rows(name, steps, announced)
        self.begin()
        return outcome


def _last_announced(effects: Effects) -> Effects:
    """The last effect of each partition that UpdateMetadata names, of effects in row order."""
    announced = effects[(effects["kinds"] & schema.KIND_LEADER_AND_ISR) != 0]
    rows = announced["row"]
    last: Effects = announced[np.append(rows[1:] != rows[:-1], True)[: rows.size]]
    return last
