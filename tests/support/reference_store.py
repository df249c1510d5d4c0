"""The store in plain Python: versions, compare-and-set, fencing, faults.

Source: docs/controller.md, section 1.7.

`TwinStore` keeps records of its own. `CacheStore` is what kfast does without a store: the cached
leadership is the stored record, and no conflict can happen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tests.support.reference_context import Context, Partition, Record

GARBAGE = "garbage"
"""A stored record that does not decode."""

Response = Record | str
"""A record, or the name of an error code; `GARBAGE` where the record does not decode."""

CONFLICT = "BADVERSION"


class ControllerMovedError(Exception):
    """The controller-epoch guard of a write failed: another controller has taken over."""


class CallFailedError(Exception):
    """A store call failed as a whole."""


@dataclass
class Fault:
    """One injected fault (../shared/data/README.md)."""

    op: str
    fault: str
    partition: Partition | None = None
    times: int = 1


@dataclass
class TwinStore:
    """Records, versions and faults; assignments are the cached ones, but for the unwritten."""

    records: dict[Partition, Record | str] = field(default_factory=dict)
    controller_epoch: int = 0
    epoch_version: int = 0
    next_version: int | None = None
    faults: list[Fault] = field(default_factory=list)
    config_faults: set[str] = field(default_factory=set)
    calls: list[tuple[str, frozenset[Partition]]] = field(default_factory=list)
    faults_hit: list[tuple[str, str]] = field(default_factory=list)

    def fail(
        self, op: str, fault: str, partitions: Collection[Partition] | None = None, times: int = 1
    ) -> None:
        """Inject a fault, one for each partition or one for a whole call."""
        named: list[Partition | None] = [None] if partitions is None else list(partitions)
        self.faults += [Fault(op, fault, p, times) for p in named]

    def forget(self, topic: str) -> None:
        """A topic's node is gone, and its records with it."""
        self.records = {p: r for p, r in self.records.items() if p[0] != topic}

    def write_assignments(self, p: Partition, ctx: Context) -> None:
        """Section 6.7: the node of p's topic is written as a whole; guarded as other writes are."""
        self.calls.append(("assign", frozenset([p])))
        self._injected("write_assignments", [p], ctx)
        self._guard(ctx, [p])

    def heal(self) -> None:
        """Forget every fault."""
        self.faults.clear()
        self.config_faults.clear()

    def _injected(
        self, op: str, partitions: Collection[Partition], ctx: Context | None = None
    ) -> dict[Partition, str]:
        """Use up the faults that meet this call; whole-call faults raise.

        One of a partition is used up once by each call that contains the partition; one of none
        by the next call that contains any partition. Writes without a guard meet no fence.
        """
        guarded = ctx is None or ctx.profile.guards_writes
        hit: dict[Partition, str] = {}
        for fault in self.faults:
            concerned = [p for p in partitions if fault.partition in (None, p)]
            if fault.op != op or fault.times == 0 or not concerned:
                continue
            if fault.fault == "controller_moved" and not guarded:
                continue
            fault.times -= 1
            self.faults_hit.append((op, fault.fault))
            hit |= dict.fromkeys(concerned, fault.fault)
        if "controller_moved" in hit.values():
            raise ControllerMovedError
        if "throw" in hit.values():
            raise CallFailedError
        return hit

    def read_states(self, partitions: Collection[Partition]) -> dict[Partition, Response]:
        """Section 1.7: not fenced; may raise `CallFailedError`."""
        self.calls.append(("read", frozenset(partitions)))
        hit = self._injected("read_states", partitions)
        return {p: hit.get(p) or self.records.get(p, "NONODE") for p in partitions}

    def create_states(
        self, records: Mapping[Partition, Record], ctx: Context
    ) -> dict[Partition, Response]:
        """Guarded by the controller epoch; a response is the record or an error code.

        Source: section 1.7.
        """
        self.calls.append(("create", frozenset(records)))
        hit = self._injected("create_states", records, ctx)
        self._guard(ctx, records)
        responses: dict[Partition, Response] = {}
        for p, record in records.items():
            if p in hit:
                responses[p] = hit[p]
            elif p in self.records:
                responses[p] = "NODEEXISTS"
            else:
                self.records[p] = responses[p] = record
        return responses

    def update_states(
        self, records: Mapping[Partition, Record], ctx: Context
    ) -> dict[Partition, Response]:
        """Section 1.7: compare and set on the version; `CONFLICT` where it is another one."""
        self.calls.append(("update", frozenset(records)))
        hit = self._injected("update_states", records, ctx)
        self._guard(ctx, records)
        responses: dict[Partition, Response] = {}
        for p, record in records.items():
            stored = self.records.get(p, "NONODE")
            if p in hit:
                responses[p] = hit[p]
            elif stored == "NONODE":
                responses[p] = "NONODE"
            elif isinstance(stored, str) or stored.version != record.version:
                responses[p] = CONFLICT
            else:
                self.records[p] = responses[p] = replace(record, version=self._version(record))
        return responses

    def write_isr(self, p: Partition, isr: tuple[int, ...], version: int | None) -> bool:
        """A leader writes its ISR; whether it knew the version. None: it knows the stored one."""
        found = self.records.get(p)
        if not isinstance(found, Record) or version not in (None, found.version):
            return False
        self.records[p] = replace(found, isr=isr, version=found.version + 1)
        return True

    def config_readable(self, topic: str) -> bool:
        """Section 1.7: whether the topic's configuration can be looked up."""
        readable = topic not in self.config_faults
        if not readable:
            self.faults_hit.append(("topic_config", "CONFIG_READ_FAILED"))
        return readable

    def _version(self, record: Record) -> int:
        """The version that this write reports: one more, or what a case prescribes."""
        if self.next_version is None:
            return record.version + 1
        version, self.next_version = self.next_version, None
        return version

    def elect_controller(self) -> None:
        """Section 6.1, step 1: one more, for us or for another controller."""
        self.controller_epoch += 1
        self.epoch_version += 1

    def _guard(self, ctx: Context, records: Collection[Partition]) -> None:
        """Section 1.7: a newer controller fences every write that has something to write."""
        stale = self.epoch_version != ctx.epoch_store_version
        if records and stale and ctx.profile.guards_writes:
            raise ControllerMovedError


@dataclass
class CacheStore:
    """Without a store: the cache is the store, and an adopted controller epoch counts as stored."""

    ctx: Context

    def forget(self, topic: str) -> None:
        """The cache forgets it by itself."""

    def write_assignments(self, _p: Partition, _ctx: Context) -> None:
        """The cache is the topic node."""

    def read_states(self, partitions: Collection[Partition]) -> dict[Partition, Response]:
        """The cached record, or that there is none."""
        return {p: self.ctx.leadership.get(p, "NONODE") for p in partitions}

    def create_states(
        self, records: Mapping[Partition, Record], ctx: Context
    ) -> dict[Partition, Response]:
        """A partition with cached leadership has a record already."""
        return {p: "NODEEXISTS" if p in ctx.leadership else r for p, r in records.items()}

    def update_states(
        self, records: Mapping[Partition, Record], ctx: Context
    ) -> dict[Partition, Response]:
        """Every write succeeds, except that of a version that is not the cached one."""
        return {
            p: replace(r, version=r.version + 1)
            if p in ctx.leadership and ctx.leadership[p].version == r.version
            else CONFLICT
            for p, r in records.items()
        }

    def write_isr(self, p: Partition, isr: tuple[int, ...], version: int | None) -> bool:
        """The cached record is the stored one."""
        found = self.ctx.leadership.get(p)
        if found is None or version not in (None, found.version):
            return False
        self.ctx.put_leadership(p, replace(found, isr=isr, version=found.version + 1))
        return True

    def config_readable(self, _topic: str) -> bool:
        """Always."""
        return True


Store = TwinStore | CacheStore
"""What the machines are given: records of its own, or the cache itself."""
