"""Restarts and batches again, in plain Python, from the definitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from kfast import ClusterState

Limit = tuple[tuple[int, ...], int]
"""Brokers, and how many of them one batch may hold."""


def kept_alive(state: ClusterState) -> dict[tuple[str, int], tuple[frozenset[int], int, int]]:
    """Per assigned partition: ids of the live ISR, min ISR in force, assigned replicas."""
    found = {}
    topics = state.topic.to_pylist()
    for row in range(state.n_partitions):
        if not int(state.records["flags"][row]) & 1:
            continue
        replicas = state.assignment(row).replicas
        record = state.leadership(row)
        isr = record.isr if record else ()
        topic_row = int(state.topic_row[row])
        setting = int(state.topic_min_insync_replicas[topic_row])
        setting = state.default_min_insync_replicas if setting < 0 else setting
        live = frozenset(b for b in isr if state.is_replica_online(b, row))
        name = (topics[topic_row], int(state.partition[row]))
        found[name] = (live, min(setting, len(replicas)), len(replicas))
    return found


def forbidding(state: ClusterState, margin: int) -> dict[int, set[tuple[str, int]]]:
    """Partitions that forbid the restart of each live broker."""
    live = [int(b) for b, up, down in zip(state.broker_id, state.registered, state.shutting_down,
                                          strict=True) if up and not down]
    kept = kept_alive(state)
    return {
        b: {p for p, (isr, needed, _) in kept.items() if b in isr
            and len(isr - {b}) < needed + margin}
        for b in live
    }


def limits_of(state: ClusterState, margin: int, ignore: bool = False) -> list[Limit]:
    """What bounds a batch, in ids: the live ISR of each partition, and what it can spare."""
    limits = []
    for isr, needed, _ in kept_alive(state).values():
        spare = len(isr) - needed - margin
        if spare >= 1 or not ignore:
            limits.append((tuple(sorted(isr)), max(spare, 1)))
    return limits


def is_allowed(batches: Sequence[Sequence[int]], limits: Sequence[Limit]) -> bool:
    """Whether no batch holds too many members of a set."""
    return all(len(set(batch) & set(isr)) <= most for batch in batches for isr, most in limits)


def partitions_of(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Every way to put some items into batches."""
    if not items:
        yield []
        return
    for rest in partitions_of(items[1:]):
        yield [[items[0]], *rest]
        for at in range(len(rest)):
            yield [*rest[:at], [items[0], *rest[at]], *rest[at + 1 :]]


def fewest_batches(brokers: Sequence[int], limits: Sequence[Limit]) -> int:
    """The fewest batches, by trying all ways."""
    return min(
        (len(ways) for ways in partitions_of(brokers) if is_allowed(ways, limits)), default=0
    )


def blocked_by(
    broker: int, batch: int, batch_of: dict[int, int], limits: Sequence[Limit]
) -> int:
    """How many limits keep a broker out of a batch."""
    return sum(
        broker in members
        and sum(batch_of.get(m, -1) == batch for m in members if m != broker) >= most
        for members, most in limits
    )


def fill(brokers: int, limits: Sequence[Limit], degree: Sequence[int],
         order: Sequence[int] | None) -> dict[int, int]:
    """Every broker in the first batch that is open to it; the most saturated next without order."""
    batch_of: dict[int, int] = {}

    def rank(broker: int) -> tuple[int, int, int]:
        closed = sum(
            blocked_by(broker, k, batch_of, limits) > 0 for k in set(batch_of.values())
        )
        return (-closed, -degree[broker], broker)

    while len(batch_of) < brokers:
        left = [b for b in range(brokers) if b not in batch_of]
        broker = min(left, key=rank) if order is None else order[len(batch_of)]
        batch = 0
        while blocked_by(broker, batch, batch_of, limits):
            batch += 1
        batch_of[broker] = batch
    return batch_of


def is_needed(members: tuple[int, ...], most: int, apart: set[frozenset[int]]) -> bool:
    """Whether a limit above 1 says more than the pairs that may not be together."""
    return most > 1 and any(
        not any(frozenset(pair) in apart for pair in combinations(some, 2))
        for some in combinations(members, most + 1)
    )
