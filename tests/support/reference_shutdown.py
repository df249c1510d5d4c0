"""Controlled shutdown in plain Python (docs/controller.md, section 6.3)."""

from __future__ import annotations

from functools import partial

from kfast.schema import UNKNOWN_BROKER_EPOCH, PartitionState, ReplicaState, Strategy
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Partition
from tests.support.reference_core import Core
from tests.support.reference_outcome import Happened


def controlled_shutdown(core: Core, b: int, epoch: int = UNKNOWN_BROKER_EPOCH) -> Happened:
    """6.3."""
    body = partial(shut_down, core, b, epoch)
    return core.event("controlled_shutdown", body, inactive="ControllerMoved")


def refusal(core: Core, b: int, epoch: int) -> str | None:
    """Section 6.3, steps 2 and 3; before 2.2 brokers have no epochs."""
    cached = core.ctx.live_broker_epochs.get(b)
    if epoch != UNKNOWN_BROKER_EPOCH and core.ctx.profile.has_broker_epochs:
        if cached is None:
            return "NoSuchElement"
        if epoch < cached:
            return "StaleBrokerEpoch"
    return "BrokerNotAvailable" if cached is None else None


def shut_down(core: Core, b: int, epoch: int) -> None:
    """Section 6.3, the steps; before 1.1 they are taken for one partition after the other."""
    ctx = core.ctx
    core.now.error = refusal(core, b, epoch)
    if core.now.error is not None:
        return
    ctx.shutting_down.add(b)
    acted_on = [
        p
        for p, _ in ctx.replicas_on_brokers([b])
        if len(ctx.assignment(p).replicas) > 1
        and p in ctx.leadership
        and not (ctx.is_queued(p) and ctx.profile.shutdown_skips_queued)
    ]
    apart = ctx.profile.batch_per_partition
    core.now.marks["shutdown of partitions one by one"] += apart
    for some in [[p] for p in acted_on] if apart else [acted_on]:
        act_on(core, b, some)
    core.now.remaining = ctx.partition_leaders_on_broker(b)


def act_on(core: Core, b: int, partitions: list[Partition]) -> None:
    """Section 6.3, steps 5 to 8."""
    led = [p for p in partitions if core.ctx.leadership[p].leader == b]
    followed = [p for p in partitions if p not in led]
    core.partitions().handle(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)

    def stop_followed(batch: RequestBatch) -> None:
        for p in followed:
            batch.add_stop_replica([b], p, delete=False)

    core.send(stop_followed)
    core.replicas().handle([(p, b) for p in followed], ReplicaState.OFFLINE)
