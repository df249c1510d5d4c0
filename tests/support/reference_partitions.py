"""The partition state machine in plain Python (docs/controller.md, section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kfast.schema import Code, PartitionState, Strategy
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Context, Partition, Record, initial_record
from tests.support.reference_elections import (
    Election,
    elect,
    needs_config,
    online,
    unclean_permitted,
)
from tests.support.reference_journal import PARTITION_MATRIX, Journal
from tests.support.reference_store import (
    CONFLICT,
    GARBAGE,
    CallFailedError,
    ControllerMovedError,
    Store,
)

Result = Record | Code
"""An entry of the result map: the new record, or what went wrong."""


class IllegalArgumentError(Exception):
    """Section 3.4: leaders have to be elected, and no strategy was named."""


class UndecodableError(Exception):
    """Section 8.1: a record that does not decode ends the call."""


@dataclass
class PartitionStateMachine:
    """Section 3.3: one batch per handle, codes per partition, results as Kafka's map has them."""

    ctx: Context
    store: Store
    journal: Journal = field(default_factory=Journal)
    codes: dict[Partition, Code] = field(default_factory=dict)
    strategy: Strategy | None = None
    not_needed: set[Partition] = field(default_factory=set)

    def startup(self) -> None:
        """Section 3.2: initial states, then `trigger_online`."""
        for p in self.ctx.assignments:
            record = self.ctx.leadership.get(p)
            if record is None:
                state = PartitionState.NEW
            elif self.ctx.is_replica_online(record.leader, p):
                state = PartitionState.ONLINE
            else:
                state = PartitionState.OFFLINE
            self.ctx.put_partition_state(p, state)
        self.trigger_online()

    def trigger_online(self, topic: str | None = None) -> dict[Partition, Result]:
        """Section 3.2: partitions that are New or Offline and whose topic is not queued."""
        candidates = [
            p
            for p, state in self.ctx.partition_states.items()
            if state in (PartitionState.NEW, PartitionState.OFFLINE)
            and not self.ctx.is_queued(p)
            and topic in (None, p[0])
        ]
        return self.handle(candidates, PartitionState.ONLINE, Strategy.OFFLINE)

    def handle(
        self,
        partitions: Iterable[Partition],
        target: PartitionState,
        strategy: Strategy | None = None,
    ) -> dict[Partition, Result]:
        """Section 3.3: ControllerMoved is rethrown, any other exception is everyone's result."""
        partitions = list(partitions)
        self.codes = dict.fromkeys(partitions, Code.NOT_ASKED)
        if not partitions:
            return {}
        self.journal.step += 1
        self.strategy = strategy
        batch = RequestBatch(self.ctx)
        items = [[p] for p in partitions] if self.ctx.profile.batch_per_partition else [partitions]
        results: dict[Partition, Result] = {}
        try:
            for some in items:
                results |= self._change(batch, some, target, strategy)
            self.journal.send(batch.send(self.ctx.epoch))
        except ControllerMovedError:
            self.journal.batch_failures.append("controller_moved")
            raise
        except IllegalArgumentError:
            self.journal.batch_failures.append("IllegalArgument")
            return dict.fromkeys(partitions, Code.ILLEGAL_ARGUMENT)
        except UndecodableError:
            self.journal.batch_failures.append("Undecodable")
            return dict.fromkeys(partitions, Code.UNDECODABLE)
        finally:
            self.journal.added(batch.additions)
        return results

    def _change(
        self,
        batch: RequestBatch,
        partitions: list[Partition],
        target: PartitionState,
        strategy: Strategy | None,
    ) -> dict[Partition, Result]:
        """Section 3.4: refuse the invalid ones, then apply the target to the valid ones."""
        valid = []
        for p in partitions:
            self.ctx.put_partition_state_if_absent(p)
            if (self.ctx.partition_states[p], target) in PARTITION_MATRIX:
                valid.append(p)
            else:
                self._refuse(p, target, Code.ILLEGAL_STATE)
        if target != PartitionState.ONLINE:
            for p in valid:
                self._move(p, target, Code.MOVED)
            return {}
        states = self.ctx.partition_states
        new = [p for p in valid if states[p] == PartitionState.NEW]
        existing = [p for p in valid if states[p] != PartitionState.NEW]
        if new:
            self._initialize(batch, new)
        if not existing:
            return {}
        if strategy is None and not self.ctx.profile.writes_back_without_strategy:
            self.codes |= dict.fromkeys(existing, Code.ILLEGAL_ARGUMENT)
            raise IllegalArgumentError
        return self._elect(batch, existing, strategy)

    # -- section 3.5 ----------------------------------------------------------------------------

    def _initialize(self, batch: RequestBatch, partitions: list[Partition]) -> None:
        """Section 3.5: the first online replica leads, all online ones are in sync."""
        records: dict[Partition, Record] = {}
        for p in partitions:
            live = online(self.ctx, self.ctx.assignment(p).replicas, p)
            if live:
                records[p] = initial_record(live[0], live, self.ctx.epoch)
            else:
                self._not_initialized(p, Code.NO_LIVE_REPLICA)
        if not records and self.ctx.profile.batch_per_partition:
            return
        for p, response in self._create(records).items():
            if not isinstance(response, Record):
                code = Code.NODE_EXISTS if response == "NODEEXISTS" else Code.STORE_ERROR
                self._not_initialized(p, code)
                continue
            self.ctx.put_leadership(p, response)
            batch.add_leader_and_isr(
                response.isr, p, response, self.ctx.assignment(p), is_new=True
            )
            self.journal.elected(p, None, None, response, Code.INITIALIZED)
            self._move(p, PartitionState.ONLINE, Code.INITIALIZED)

    def _create(self, records: dict[Partition, Record]) -> dict[Partition, Record | str]:
        """Section 3.5, steps 3 and 4: issued even when there is nothing to create."""
        try:
            return self.store.create_states(records, self.ctx)
        except ControllerMovedError:
            self.codes |= dict.fromkeys(records, Code.CONTROLLER_MOVED)
            raise
        except CallFailedError:
            real = self.ctx.profile.logs_real_targets
            logged_as = PartitionState.ONLINE if real else PartitionState.NEW
            for p in records:
                self._not_initialized(p, Code.CREATE_CALL_FAILED, logged_as)
            return {}

    def _not_initialized(
        self, p: Partition, code: Code, logged_as: PartitionState = PartitionState.ONLINE
    ) -> None:
        """Section 3.5: p stays New."""
        self.journal.elected(p, None, None, None, code)
        self._refuse(p, logged_as, code)

    # -- section 3.6 ----------------------------------------------------------------------------

    def _elect(
        self, batch: RequestBatch, partitions: list[Partition], strategy: Strategy | None
    ) -> dict[Partition, Result]:
        """Section 3.6: attempts until nothing is left to retry; failures are logged per attempt.

        In 1.1 to 2.3 every attempt is one for all partitions; states change after the last.
        """
        results: dict[Partition, Result] = {}
        elected: list[Partition] = []
        remaining = partitions
        while remaining:
            try:
                attempt = self._elect_once(batch, remaining, strategy)
            except ControllerMovedError:
                pending = [p for p in partitions if not isinstance(results.get(p), Code)]
                self.codes |= dict.fromkeys(pending, Code.CONTROLLER_MOVED)
                raise
            for p, result in attempt.items():
                if isinstance(result, Code):
                    before = self.ctx.leadership.get(p)
                    self.journal.elected(p, named(strategy), before, None, result)
                    self._refuse(p, PartitionState.ONLINE, result)
                if isinstance(result, Record):
                    elected.append(p)
                    results[p] = result
                elif result is not None and p not in elected:
                    results[p] = result
            remaining = [p for p, result in attempt.items() if result is None]
            if remaining and self.ctx.profile.retries_every_election:
                remaining = partitions
        for p in elected:
            code = Code.MOVED if p in self.not_needed else Code.ELECTED
            self._move(p, PartitionState.ONLINE, code)
        return results

    def _elect_once(
        self, batch: RequestBatch, remaining: list[Partition], strategy: Strategy | None
    ) -> dict[Partition, Result | None]:
        """Section 3.6, one attempt; None is a version conflict."""
        outcome: dict[Partition, Result | None] = {}
        candidates: dict[Partition, Record] = {}
        for p, stored in self._read(remaining).items():
            if not isinstance(stored, Code) and self._leads_already(p, strategy):
                self.not_needed.add(p)
                outcome[p] = stored
            elif isinstance(stored, Code):
                outcome[p] = stored
            else:
                candidates[p] = stored
        if not candidates:
            return outcome
        chosen: dict[Partition, Election] = {}
        for p, record in candidates.items():
            election = self._run_strategy(p, record, strategy)
            if isinstance(election, Code):
                outcome[p] = election
            else:
                chosen[p] = election
        outcome |= self._write(batch, chosen, strategy)
        return outcome

    def _leads_already(self, p: Partition, strategy: Strategy | None) -> bool:
        """Section 8.1: before 1.1 no election is needed where the preferred replica leads."""
        if strategy != Strategy.PREFERRED_REPLICA or not self.ctx.profile.skips_leading_preferred:
            return False
        cached = self.ctx.leadership.get(p)
        return cached is not None and (cached.leader,) == self.ctx.assignment(p).replicas[:1]

    def _read(self, remaining: list[Partition]) -> dict[Partition, Record | Code]:
        """Section 3.6, step 1: candidates with the stored record, or why there is none."""
        try:
            responses = self.store.read_states(remaining)
        except CallFailedError:
            return dict.fromkeys(remaining, Code.STORE_ERROR)
        candidates: dict[Partition, Record | Code] = {}
        for p, response in responses.items():
            if isinstance(response, Record):
                newer = response.controller_epoch > self.ctx.epoch
                candidates[p] = Code.NEWER_CONTROLLER if newer else response
            elif response == GARBAGE and self.ctx.profile.undecodable_fails_call:
                raise UndecodableError
            else:
                missing = response in (GARBAGE, "NONODE")
                candidates[p] = Code.NO_RECORD if missing else Code.STORE_ERROR
        return candidates

    def _run_strategy(
        self, p: Partition, record: Record, strategy: Strategy | None
    ) -> Election | Code:
        """Section 3.6, step 3, and section 4.2; no strategy writes the record back.

        Source: section 8.1.
        """
        if strategy is None:
            return Election(record, self.ctx.assignment(p).replicas)
        if (
            strategy == Strategy.OFFLINE
            and needs_config(self.ctx, p, record)
            and not self.store.config_readable(p[0])
        ):
            code, state = Code.CONFIG_LOOKUP_FAILED, self.ctx.partition_states[p]
            self.journal.refused(p, None, state, PartitionState.ONLINE, code, "StoreError")
            return code
        permitted = unclean_permitted(self.ctx, p, record, strategy)
        election = elect(self.ctx, p, record, strategy, permitted)
        return Code.NO_ELIGIBLE_LEADER if election.elected is None else election

    def _write(
        self,
        batch: RequestBatch,
        chosen: dict[Partition, Election],
        strategy: Strategy | None,
    ) -> dict[Partition, Result | None]:
        """Section 3.6, steps 4 and 5: issued even when nobody was elected."""
        writes = {
            p: replace(election.elected, controller_epoch=self.ctx.epoch)
            for p, election in chosen.items()
            if election.elected is not None
        }
        try:
            responses = self.store.update_states(writes, self.ctx)
        except CallFailedError:
            responses = dict.fromkeys(writes, "throw")
        outcome: dict[Partition, Result | None] = {}
        for p, response in responses.items():
            if isinstance(response, Record):
                before = self.ctx.leadership.get(p)
                self.ctx.put_leadership(p, response)
                assignment = self.ctx.assignment(p)
                batch.add_leader_and_isr(
                    chosen[p].recipients, p, response, assignment, is_new=False
                )
                unclean = chosen[p].unclean
                self.journal.elected(
                    p, named(strategy), before, response, Code.ELECTED, unclean
                )
                outcome[p] = response
            elif response == CONFLICT:
                outcome[p] = None
            else:
                outcome[p] = Code.STORE_ERROR
        return outcome

    def _move(self, p: Partition, target: PartitionState, code: Code) -> None:
        """The transition succeeded."""
        self.journal.moved(p, None, self.ctx.partition_states[p], target)
        self.ctx.put_partition_state(p, target)
        self.codes[p] = code

    def _refuse(self, p: Partition, target: PartitionState, code: Code) -> None:
        """The transition failed; the state stays."""
        error = self._error_of(code)
        self.journal.refused(p, None, self.ctx.partition_states[p], target, code, error)
        self.codes[p] = code

    def _error_of(self, code: Code) -> str | None:
        """Section 8.1: before 1.1 some failures had other classes."""
        if not self.ctx.profile.batch_per_partition:
            return None
        alike = (Strategy.OFFLINE, Strategy.REASSIGN)
        if code == Code.NO_ELIGIBLE_LEADER and self.strategy in alike:
            return "NoReplicaOnline"
        return "StateChangeFailed" if code == Code.NODE_EXISTS else None


def named(strategy: Strategy | None) -> Strategy | str:
    """A strategy as elections name it: an empty text where there is none."""
    return "" if strategy is None else strategy
