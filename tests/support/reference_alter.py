"""AlterPartition in plain Python (docs/controller.md, section 6.10)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kfast.schema import NO_LEADER, AlterCode
from tests.support.reference_context import (
    RECOVERED,
    RECOVERING,
    Context,
    Partition,
    Record,
    same_allowing_stale_version,
)
from tests.support.reference_store import CONFLICT, GARBAGE, CacheStore, CallFailedError, Store


@dataclass(frozen=True)
class AlterRequest:
    """One broker's request: the record it proposes for each partition."""

    broker: int
    broker_epoch: int
    records: dict[Partition, Record]


def check_proposal(ctx: Context, p: Partition, proposed: Record) -> AlterCode | None:
    """Section 6.10, rows 1 to 8; None where the proposal may be written."""
    current = ctx.leadership.get(p)
    if current is None:
        return AlterCode.UNKNOWN_TOPIC_OR_PARTITION
    if (
        proposed.version > current.version
        or proposed.leader_epoch > current.leader_epoch
    ):
        return AlterCode.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return AlterCode.FENCED_LEADER_EPOCH
    if same_allowing_stale_version(proposed, current):
        return AlterCode.UNCHANGED
    if proposed.version < current.version:
        return AlterCode.INVALID_UPDATE_VERSION
    if proposed.recovery == RECOVERING and len(proposed.isr) > 1:
        return AlterCode.INVALID_REQUEST
    if proposed.recovery == RECOVERING and current.recovery == RECOVERED:
        return AlterCode.INVALID_REQUEST
    if not set(proposed.isr) <= ctx.live:
        return AlterCode.INELIGIBLE_REPLICA
    return None


def alter_partition(
    ctx: Context, store: Store, request: AlterRequest
) -> dict[Partition, AlterCode]:
    """Section 6.10: a code per partition; what was written is taken into the cache."""
    codes: dict[Partition, AlterCode] = {}
    writes: dict[Partition, Record] = {}
    for p, asked in request.records.items():
        proposed = replace(asked, leader=request.broker, controller_epoch=ctx.epoch)
        refused = check_proposal(ctx, p, proposed)
        if refused is None:
            writes[p] = proposed
        else:
            codes[p] = refused
    try:
        responses = store.update_states(writes, ctx)
    except CallFailedError:
        responses = dict.fromkeys(writes, "throw")
    written = {p: r for p, r in responses.items() if isinstance(r, Record)}
    if isinstance(store, CacheStore):
        for p, record in written.items():
            ctx.put_leadership(p, record)
    reload(ctx, store, list(written))
    for p, response in responses.items():
        if isinstance(response, Record):
            codes[p] = AlterCode.WRITTEN
        else:
            conflict = response == CONFLICT
            codes[p] = AlterCode.INVALID_UPDATE_VERSION if conflict else AlterCode.STORE_ERROR
    return {p: codes[p] for p in request.records}


def reload(ctx: Context, store: Store, partitions: list[Partition]) -> None:
    """Section 6.10: what was written is read again; what does not decode is left out."""
    found = store.read_states(partitions) if partitions else {}
    if any(not isinstance(r, Record) and r not in (GARBAGE, "NONODE") for r in found.values()):
        raise CallFailedError
    for p, record in found.items():
        if isinstance(record, Record):
            ctx.put_leadership(p, record)


def catch_up_requests(ctx: Context, brokers: Collection[int]) -> list[AlterRequest]:
    """What the leaders ask for when these brokers have caught up: they join the ISR.

    Only leaders that are up ask, for assigned replicas that are online; one request per leader,
    in ascending id.
    """
    asked: dict[int, dict[Partition, Record]] = {}
    for p, record in ctx.leadership.items():
        if record.leader == NO_LEADER or not ctx.is_replica_online(record.leader, p):
            continue
        joining = [
            b
            for b in ctx.assignment(p).replicas
            if b in brokers and b not in record.isr and ctx.is_replica_online(b, p)
        ]
        if joining:
            longer = replace(record, isr=(*record.isr, *joining), recovery=RECOVERED)
            asked.setdefault(record.leader, {})[p] = longer
    return [AlterRequest(b, ctx.live_broker_epochs[b], asked[b]) for b in sorted(asked)]


def write_isrs(ctx: Context, store: Store, request: AlterRequest) -> list[Partition]:
    """Before 2.7 leaders wrote ISRs themselves, where they knew the stored version.

    The version rises, and nothing else changes. Before 2.4 LeaderAndIsr could tell a leader of a
    version that the controller itself had not cached.
    """
    return [
        p
        for p, wanted in request.records.items()
        if store.write_isr(p, wanted.isr, wanted.version if ctx.profile.touch_is_cached else None)
    ]
