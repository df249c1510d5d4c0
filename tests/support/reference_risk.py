"""Blast radius again, in plain Python, from the definitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction
from itertools import combinations

from kfast import ClusterState
from tests.support.reference_planning import kept_alive


def live_ids(state: ClusterState) -> list[int]:
    """Brokers that may fail."""
    return [
        int(b)
        for b, up, leaving in zip(state.broker_id, state.registered, state.shutting_down,
                                  strict=True)
        if up and not leaving
    ]


def replica_sets(state: ClusterState) -> dict[tuple[str, int], tuple[int, ...]]:
    """Assigned replicas of each partition that has any."""
    topics = state.topic.to_pylist()
    return {
        (topics[int(state.topic_row[row])], int(state.partition[row])): replicas
        for row in range(state.n_partitions)
        if (replicas := state.assignment(row).replicas)
    }


def live_replicas(state: ClusterState) -> dict[tuple[str, int], frozenset[int]]:
    """Assigned replicas that are live."""
    topics = state.topic.to_pylist()
    return {
        (topics[int(state.topic_row[row])], int(state.partition[row])): frozenset(
            b for b in state.assignment(row).replicas if state.is_replica_online(b, row)
        )
        for row in range(state.n_partitions)
    }


class Plain:
    """A cluster whose failures are tried one by one."""

    def __init__(self, state: ClusterState) -> None:
        self.live = live_ids(state)
        self.kept = kept_alive(state)
        self.replicas = live_replicas(state)

    def lost(self, failing: Collection[int]) -> dict[str, set[tuple[str, int]]]:
        """Partitions of which each metric becomes true if some brokers fail."""
        down = set(failing)
        return {
            "offline_if_clean": {p for p, (isr, _, _) in self.kept.items() if isr and isr <= down},
            "no_live_replica": {p for p, live in self.replicas.items() if live and live <= down},
            "under_min_isr": {p for p, (isr, needed, _) in self.kept.items()
                              if len(isr) >= needed > len(isr - down)},
        }

    def chances(self, down: int) -> dict[str, tuple[Fraction, Fraction]]:
        """Chance that any partition is lost, and how many are on average, per metric."""
        taken = [self.lost(group) for group in combinations(self.live, down)]
        return {
            metric: (Fraction(sum(bool(found[metric]) for found in taken), len(taken)),
                     Fraction(sum(len(found[metric]) for found in taken), len(taken)))
            for metric in taken[0]
        }

    def scored(self, k: int) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
        """Every group of k live brokers with its score, the worst first."""
        found = []
        for group in combinations(self.live, k):
            taken = self.lost(group)
            score = (len(taken["offline_if_clean"]), len(taken["under_min_isr"]))
            if any(score):
                found.append((score, group))
        return sorted(found, key=lambda item: (-item[0][0], -item[0][1], item[1]))

    def together(self, group: Iterable[int], metric: str) -> int:
        """Partitions that a group takes down, and no smaller part of it."""
        every = tuple(group)
        taken = self.lost(every)[metric]
        for part in combinations(every, len(every) - 1):
            taken = taken - self.lost(part)[metric]
        return len(taken)
