"""The replica state machine in plain Python (docs/controller.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kfast.schema import NO_LEADER, Code, ReplicaState
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Assignment, Context, Partition, Record, Replica, without
from tests.support.reference_journal import Journal, replica_matrix
from tests.support.reference_store import (
    CONFLICT,
    GARBAGE,
    CallFailedError,
    ControllerMovedError,
    Store,
)

# -- section 2.3, step 3: the order of broker groups is that of Scala's maps ---

INT_MASK = 0xFFFFFFFF


def improved(key: int) -> int:
    """The hash that Scala's immutable maps make of an Int."""
    h = key & INT_MASK
    h = (h + ~(h << 9)) & INT_MASK
    h ^= h >> 14
    h = (h + (h << 4)) & INT_MASK
    return h ^ (h >> 10)


def walk_trie(keys: Iterable[int], singles_first: bool, shift: int = 0) -> list[int]:
    """Keys of a node: 2.13 gives single ones before all sub-nodes, 2.12 each at its branch."""
    branches: dict[int, list[int]] = {}
    for key in keys:
        branches.setdefault((improved(key) >> shift) & 31, []).append(key)
    if singles_first:
        ordered = sorted(branches, key=lambda branch: (len(branches[branch]) > 1, branch))
    else:
        ordered = sorted(branches)
    ordered_keys = []
    for branch in ordered:
        inside = branches[branch]
        ordered_keys += inside if len(inside) == 1 else walk_trie(inside, singles_first, shift + 5)
    return ordered_keys


def bucket(key: int) -> int:
    """Bucket of a mutable hash table of 16, as Scala 2.12 has it."""
    h = (key * 0x9E3775CD) & INT_MASK
    h = int.from_bytes(h.to_bytes(4, "little"), "big")
    h = (h * 0x9E3775CD) & INT_MASK
    return ((h >> 4) | (h << 28)) >> 28 & 15


def in_group_order(broker_ids: Iterable[int], order: str) -> list[int]:
    """Brokers of one call in the order in which their replicas are taken."""
    ids = sorted(set(broker_ids))
    if order == "scala-2.13":
        return walk_trie(ids, singles_first=True)
    if order == "scala-2.12" and len(ids) > 4:
        return walk_trie(ids, singles_first=False)
    if order == "scala-2.12":
        return sorted(ids, key=lambda b: (-bucket(b), b))
    return ids


def shares_a_bucket(broker_ids: Iterable[int], order: str) -> bool:
    """Whether Kafka's order of these depends on more than their ids: docs/deviations.md."""
    ids = set(broker_ids)
    return order == "scala-2.12" and len({bucket(b) for b in ids}) < len(ids) <= 4


# -- the machine ---


def removed_from_isr(record: Record, b: int, may_empty: bool = False) -> Record | None:
    """Section 2.6, step 2: what to write; None where b is not in the ISR and nothing is written."""
    if b not in record.isr:
        return None
    leader = NO_LEADER if record.leader == b else record.leader
    last = len(record.isr) == 1 and not may_empty
    isr = record.isr if last else without(record.isr, [b])
    return record.new_leader_and_isr(leader, isr)


@dataclass
class ReplicaStateMachine:
    """Section 2.3: groups by broker in the order of Kafka's map, one batch, codes per replica."""

    ctx: Context
    store: Store
    journal: Journal = field(default_factory=Journal)
    codes: dict[Replica, Code] = field(default_factory=dict)

    def startup(self) -> None:
        """Initial states, then two handles; the states are written without validation.

        Source: section 2.2.
        """
        online, offline = [], []
        for p, b in self.ctx.assigned_replicas():
            up = self.ctx.is_replica_online(b, p)
            self.ctx.replica_states[p, b] = (
                ReplicaState.ONLINE if up else ReplicaState.DELETION_INELIGIBLE
            )
            (online if up else offline).append((p, b))
        self.handle(online, ReplicaState.ONLINE)
        if self.ctx.profile.offlines_dead_at_startup:
            self.handle(offline, ReplicaState.OFFLINE)

    def handle(self, replicas: Iterable[Replica], target: ReplicaState) -> dict[Replica, Code]:
        """ControllerMoved is rethrown, any other exception swallowed; both clear the batch.

        Source: section 2.3.
        """
        replicas = list(replicas)
        self.codes = dict.fromkeys(replicas, Code.NOT_ASKED)
        if not replicas:
            return self.codes
        self.journal.step += 1
        batch = RequestBatch(self.ctx)
        ids, order = {b for _, b in replicas}, self.ctx.profile.group_order
        self.journal.shares_a_bucket |= shares_a_bucket(ids, order)
        try:
            for b in in_group_order(ids, order):
                group = [p for p, of in replicas if of == b]
                items = [[p] for p in group] if self.ctx.profile.batch_per_partition else [group]
                for some in items:
                    self._group(batch, b, some, target)
            self.journal.send(batch.send(self.ctx.epoch))
        except ControllerMovedError:
            self.journal.batch_failures.append("controller_moved")
            raise
        except LookupError as error:
            self.journal.batch_failures.append(type(error).__name__)
        finally:
            self.journal.added(batch.additions)
        return self.codes

    def _group(
        self, batch: RequestBatch, b: int, partitions: list[Partition], target: ReplicaState
    ) -> None:
        """Section 2.4: refuse the invalid ones, then apply the target to the valid ones."""
        valid, matrix = [], replica_matrix(self.ctx.profile)
        for p in partitions:
            current = self.ctx.replica_states.setdefault((p, b), ReplicaState.NON_EXISTENT)
            if (current, target) in matrix:
                valid.append(p)
            else:
                self._refuse(p, b, target, Code.ILLEGAL_STATE)
        if target == ReplicaState.OFFLINE:
            self._to_offline(batch, b, valid)
            return
        effects = {
            ReplicaState.NEW: self._to_new,
            ReplicaState.ONLINE: self._to_online,
            ReplicaState.DELETION_STARTED: self._to_deletion_started,
            ReplicaState.NON_EXISTENT: self._to_non_existent,
        }
        effect = effects.get(target)
        for p in valid:
            if effect is None:
                self._move(p, b, target)
            else:
                effect(batch, p, b)

    def _to_new(self, batch: RequestBatch, p: Partition, b: int) -> None:
        """Section 2.4, NewReplica: the cached leader is refused; the log names OfflineReplica."""
        profile, record = self.ctx.profile, self.ctx.leadership.get(p)
        if profile.new_replica_reads_store:
            try:
                stored = self.store.read_states([p])[p]
            except CallFailedError:
                stored = "throw"
            record = stored if isinstance(stored, Record) else None
            if record is None and stored not in (GARBAGE, "NONODE"):
                self._refuse(p, b, ReplicaState.NEW, Code.STORE_ERROR)
                return
        if record is not None and record.leader == b:
            logged = ReplicaState.NEW if profile.logs_real_targets else ReplicaState.OFFLINE
            self._refuse(p, b, logged, Code.LEADER_IS_NEW_REPLICA)
            return
        if record is not None:
            batch.add_leader_and_isr([b], p, record, self.ctx.assignment(p), is_new=True)
        self._move(p, b, ReplicaState.NEW)

    def _to_online(self, batch: RequestBatch, p: Partition, b: int) -> None:
        """A new replica joins the assignment, an old one is announced.

        Source: section 2.4, OnlineReplica.
        """
        record, assignment = self.ctx.leadership.get(p), self.ctx.assignment(p)
        code = Code.MOVED
        if self.ctx.replica_states[p, b] == ReplicaState.NEW:
            if b not in assignment.replicas:
                longer = Assignment(
                    (*assignment.replicas, b), assignment.adding, assignment.removing
                )
                self.ctx.set_assignment(p, longer)
                code = Code.APPENDED
        elif record is not None:
            batch.add_leader_and_isr([b], p, record, assignment, is_new=False)
        self._move(p, b, ReplicaState.ONLINE, code)

    def _to_deletion_started(self, batch: RequestBatch, p: Partition, b: int) -> None:
        """Section 2.4, ReplicaDeletionStarted: StopReplica that deletes."""
        self._move(p, b, ReplicaState.DELETION_STARTED)
        batch.add_stop_replica([b], p, delete=True)

    def _to_non_existent(self, _batch: RequestBatch, p: Partition, b: int) -> None:
        """Section 2.4, NonExistentReplica: leaves the assignment; its entry goes."""
        self.ctx.set_assignment(p, self.ctx.assignment(p).remove(b))
        self._move(p, b, ReplicaState.NON_EXISTENT)
        del self.ctx.replica_states[p, b]

    def _to_offline(self, batch: RequestBatch, b: int, partitions: list[Partition]) -> None:
        """Stop all, shrink ISRs where leadership is cached, tell the other replicas.

        Source: section 2.5.
        """
        for p in partitions:
            batch.add_stop_replica([b], p, delete=False)
        led = [p for p in partitions if p in self.ctx.leadership]
        unled = [p for p in partitions if p not in self.ctx.leadership]
        shrunk = self._shrink(b, led)
        for p, outcome in shrunk.items():
            if not isinstance(outcome, Record):
                continue
            if not self.ctx.is_queued(p):
                assignment = self.ctx.assignment(p)
                others = without(assignment.replicas, [b])
                batch.add_leader_and_isr(others, p, outcome, assignment, is_new=False)
            self._move(p, b, ReplicaState.OFFLINE)
        for p, outcome in shrunk.items():
            if outcome == Code.DROPPED:
                self.codes[p, b] = Code.DROPPED
            elif not isinstance(outcome, Record):
                self._refuse(p, b, ReplicaState.OFFLINE, outcome)
        for p in unled:
            self._offline_unled(batch, p, b)

    def _offline_unled(self, batch: RequestBatch, p: Partition, b: int) -> None:
        """Section 2.5, step 5, and what stood in its place before."""
        rule = self.ctx.profile.without_leadership
        if rule == "moved":
            batch.add_update_metadata(self.ctx.registered, [p])
            self._move(p, b, ReplicaState.OFFLINE)
        elif rule == "refused" and not self.ctx.is_queued(p):
            self._refuse(p, b, ReplicaState.OFFLINE, Code.NO_RECORD)
        else:
            self.codes[p, b] = Code.DROPPED

    def _shrink(self, b: int, partitions: list[Partition]) -> dict[Partition, Record | Code]:
        """Section 2.6: attempts until nothing is left to retry; the records are cached."""
        outcome: dict[Partition, Record | Code] = {}
        remaining = partitions
        while remaining:
            try:
                attempt = self._shrink_once(b, remaining)
            except ControllerMovedError:
                self.codes |= {(p, b): Code.CONTROLLER_MOVED for p in partitions}
                raise
            outcome |= {p: result for p, result in attempt.items() if result is not None}
            remaining = [p for p, result in attempt.items() if result is None]
        return outcome

    def _shrink_once(
        self, b: int, remaining: list[Partition]
    ) -> dict[Partition, Record | Code | None]:
        """Section 2.6, one attempt; None is a version conflict."""
        outcome: dict[Partition, Record | Code | None] = {}
        writes: dict[Partition, Record] = {}
        unchanged: dict[Partition, Record] = {}
        for p, stored in self._read(remaining).items():
            if isinstance(stored, Code):
                outcome[p] = stored
                continue
            empties = self.ctx.profile.empties_unclean_isr and self.ctx.unclean_allowed(p[0])
            changed = removed_from_isr(stored, b, empties)
            if changed is None:
                unchanged[p] = stored
            else:
                writes[p] = replace(changed, controller_epoch=self.ctx.epoch)
        try:
            responses = self.store.update_states(writes, self.ctx)
        except CallFailedError:
            responses = dict.fromkeys(writes, "throw")
        for p, response in (unchanged | responses).items():
            if isinstance(response, Record):
                outcome[p] = self._cache(p, response)
            else:
                if response == CONFLICT and self.ctx.profile.caches_lost_writes:
                    self._cache(p, replace(writes[p], version=-1))
                outcome[p] = None if response == CONFLICT else Code.STORE_ERROR
        return outcome

    def _read(self, partitions: list[Partition]) -> dict[Partition, Record | Code]:
        """Section 2.6, step 1: usable records, or why there is none."""
        try:
            responses = self.store.read_states(partitions)
        except CallFailedError:
            return dict.fromkeys(partitions, Code.STORE_ERROR)
        return {p: self._usable(p, response) for p, response in responses.items()}

    def _usable(self, p: Partition, response: Record | str) -> Record | Code:
        """Section 2.6, step 1: the classification of one response."""
        if isinstance(response, Record):
            newer = response.controller_epoch > self.ctx.epoch
            return Code.NEWER_CONTROLLER if newer else response
        if response in (GARBAGE, "NONODE"):
            return Code.DROPPED if self.ctx.is_queued(p) else Code.NO_RECORD
        return Code.STORE_ERROR

    def _cache(self, p: Partition, record: Record) -> Record:
        """Section 2.6, step 4: cached with our controller epoch."""
        ours = replace(record, controller_epoch=self.ctx.epoch)
        self.ctx.put_leadership(p, ours)
        return ours

    def _move(self, p: Partition, b: int, target: ReplicaState, code: Code = Code.MOVED) -> None:
        """The transition succeeded."""
        self.journal.moved(p, b, self.ctx.replica_states[p, b], target)
        self.ctx.replica_states[p, b] = target
        self.codes[p, b] = code

    def _refuse(self, p: Partition, b: int, target: ReplicaState, code: Code) -> None:
        """The transition failed; the state stays."""
        self.journal.refused(p, b, self.ctx.replica_states[p, b], target, code)
        self.codes[p, b] = code
