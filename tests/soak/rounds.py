"""Kinds of rounds: each draws clusters and events from one seed, and compares after every step.

A step is one event that a controller of kfast handled, or one scenario of a sweep, compared with
the plain Python twin; in `large_clusters`, which no twin can follow, with kfast in other layouts,
with other numbers of threads and other levels of the journal. A round raises at the first
difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import kfast
from kfast.controllers import open_events
from kfast.state.kraft_releases import RELEASES
from kfast.state.mutators import widen
from kfast.testing import invariants
from tests.analysis import test_sweep, test_sweep_kraft
from tests.capacity import test_capacity_sweep
from tests.kafka.lockstep import Counts, run_sequence
from tests.kafka.sequences import LockstepSequence
from tests.kafka.test_shrinking import TwinAsKafka
from tests.kraft import test_kraft_random
from tests.rules.test_random_events import seen
from tests.support.event_run import Sequence
from tests.support.kfast_run import SETTINGS, Setting
from tests.support.kraft_cases import run_case
from tests.support.kraft_every_rule import EveryRuleSequence
from tests.support.kraft_random import random_case
from tests.support.reference_profiles import PROFILES

SEEDS = 1 << 31
ZK_EVENTS = 200
LARGE_EVENTS = 25
STEPS = {
    "ZooKeeper mode": 600, "KRaft": 1800, "KRaft, many sizes": 4000, "sweeps": 1200,
    "capacity": 500, "large clusters": 25,
}
"""Steps of a round of each kind: some seconds' worth."""


class RoundError(AssertionError):
    """A difference that has no exception of its own."""


@dataclass
class Met:
    """What a round did: its steps, what it met how often, and the twin's lines that did not run."""

    steps: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    lines_left: set[str] | None = None


def newest_half_of_the_time(draw: Random, names: Any, newest: str) -> str:
    """One of some releases."""
    return newest if draw.random() < 0.5 else draw.choice(list(names))


def zookeeper_mode(draw: Random) -> Met:
    """Events and faults of the store on the ZooKeeper-mode controllers of all versions."""
    met = Met()
    while met.steps < STEPS["ZooKeeper mode"]:
        setting = Setting(
            draw.choice(("narrow", "wide")), draw.choice((1, 2, 3)),
            draw.choice(("full", "counts", "off")),
        )
        profile = newest_half_of_the_time(draw, PROFILES, "zk-3.9")
        sequence = Sequence(
            draw.randrange(SEEDS), draw.random() < 0.5, profile, settings=(setting,)
        )
        try:
            coverage = sequence.run(ZK_EVENTS)
        except Exception as error:
            error.add_note(
                f"seed {sequence.seed}, with_store {sequence.with_store}, {profile}, {setting}: "
                + "\n".join(sequence.log[-6:])
            )
            raise
        met.steps += sum(coverage.events.values())
        met.counts.update(seen(coverage))
        met.counts[f"setting {setting}"] += 1
    return met


def kraft(draw: Random) -> Met:
    """Every rule and refusal of the KRaft controllers of all releases, and their mistakes."""
    found = test_kraft_random.Met()
    met = Met()
    while met.steps < STEPS["KRaft"]:
        seed, profile = draw.randrange(SEEDS), draw.choice(list(RELEASES))
        with found.rules:
            case = random_case(
                seed, profile, n_brokers=draw.choice((5, 7, 9)), n_partitions=4,
                n_events=test_kraft_random.N_EVENTS, kind=EveryRuleSequence,
            )
        options = draw.choice(test_kraft_random.SETTINGS)
        try:
            test_kraft_random.check_invariants(case)
            make = partial(test_kraft_random.CheckedController, **options)
            if options["journal"] != "full":
                test_kraft_random.run_with_counts(case, make)
            elif wrong := run_case(case, make)[1]:
                raise RoundError("\n".join(map(str, wrong)))
        except Exception as error:
            error.add_note(f"sequence {case['id']}, {options}")
            raise
        found.add(case)
        met.steps += len(case["events"])
        met.counts[f"setting {options}"] += 1
    for name, table in (("refusal", found.refusals), ("mistake", found.mistakes)):
        met.counts.update({f"{name} {' | '.join(key)}": n for key, n in table.items()})
    met.counts.update({f"record {kind}": n for kind, n in found.records.items()})
    met.lines_left = found.rules.unreached()
    return met


def kraft_of_many_sizes(draw: Random) -> Met:
    """KRaft clusters of 2 to 40 brokers, requests of several rows; a difference is shrunk."""
    counts = Counts()
    while counts.steps < STEPS["KRaft, many sizes"]:
        profile = draw.choice(list(RELEASES))
        sequence = LockstepSequence(draw.randrange(SEEDS), profile)
        kafka: Any = TwinAsKafka(profile)
        difference = run_sequence(kafka, sequence, counts, STEPS["KRaft, many sizes"])
        if difference is not None:
            wrong = "\n".join(difference.step.differences)
            raise RoundError(f"the twin stands for Kafka here: {wrong}\n{difference.test}")
    return Met(counts.steps)


def sweeps(draw: Random) -> Met:
    """Sweeps of both controllers, each scenario against an event on the whole cluster."""
    met = Met()
    while met.steps < STEPS["sweeps"]:
        profile = newest_half_of_the_time(draw, PROFILES, "zk-3.9")
        met.steps += 7 * test_sweep.compare(draw.randrange(SEEDS), profile)
        test_sweep_kraft.compare(draw.randrange(SEEDS), draw.choice(list(RELEASES)))
        met.steps += 4
    return met


def capacity(draw: Random) -> Met:
    """Capacity sweeps of both controllers in bytes, against sums over the partitions."""
    met = Met()
    while met.steps < STEPS["capacity"]:
        profile = newest_half_of_the_time(draw, PROFILES, "zk-3.9")
        release = draw.choice(list(RELEASES))
        for features in (
            test_capacity_sweep.compare_zk(draw.randrange(SEEDS), profile),
            test_capacity_sweep.compare_kraft(draw.randrange(SEEDS), release),
        ):
            if features is not None:
                met.steps += 6
                met.counts.update(f"capacity {feature}" for feature in features)
    return met


# --------------------------------------------------------------------------------- large clusters


def large_cluster(draw: Random) -> kfast.ClusterState:
    """Hundreds or thousands of partitions, so that threads have rows to share."""
    brokers = draw.randint(6, 60)
    state = kfast.generate(
        brokers=brokers, partitions=draw.randint(500, 5000),
        replication_factor=draw.randint(1, 5), racks=draw.randint(1, 5),
        unclean_topics=draw.choice((0.0, 0.3)), seed=draw.randrange(SEEDS),
    )
    if draw.random() < 0.5:
        return kfast.with_controller(state, draw.choice(list(RELEASES)))
    return state


def common_event(draw: Random, state: kfast.ClusterState) -> tuple[str, Any]:
    """The name of an event of every controller, and its argument."""
    up = state.broker_id[state.up].tolist()
    down = state.broker_id[~state.up].tolist()
    kind = draw.choice((
        "brokers_failed", "brokers_failed", "brokers_returned", "brokers_returned",
        "brokers_shut_down_in_order", "caught_up", "caught_up", "preferred_leaders_elected",
    ))
    if kind == "preferred_leaders_elected":
        return kind, None
    among = down if kind == "brokers_returned" else up
    most = 3 if kind == "brokers_shut_down_in_order" else max(1, len(among) // 2)
    return kind, sorted(draw.sample(among, min(len(among), draw.randint(1, most))))


def large_clusters(draw: Random) -> Met:
    """Events on large clusters in both layouts, 1 to 5 threads, every level of the journal."""
    met = Met()
    while met.steps < STEPS["large clusters"]:
        state = large_cluster(draw)
        settings = (*SETTINGS, Setting("narrow", draw.randint(3, 5), "counts"))
        events = []
        for setting in settings:
            own = state.copy()
            if setting.layout == "wide":
                widen(own)
            events.append(open_events(own, journal=setting.journal, threads=setting.threads))
        first, log = events[0], ["start"]
        for controller in events:
            controller.start()
        for _ in range(LARGE_EVENTS):
            name, argument = common_event(draw, first.state)
            log.append(f"{name}({argument})")
            outcomes = [getattr(controller, name)(argument) for controller in events]
            compare_settings(settings, events, outcomes, log)
            invariants.check(first.state)
            met.counts[f"{state.controller[:2]} {name}"] += 1
        met.steps += LARGE_EVENTS
    return met


def compare_settings(settings: Any, events: Any, outcomes: Any, log: list[str]) -> None:
    """Compare digests, and what the journals counted."""
    expected = events[0].state.digest()
    counted = [[one.outcome.counts for one in outcome] for outcome in outcomes]
    for setting, controller, counts in zip(settings, events, counted, strict=True):
        if controller.state.digest() != expected:
            raise RoundError(f"{setting} has another digest after {log[-6:]}")
        if setting.journal != "off" and counts != counted[0]:
            raise RoundError(f"{setting} counted {counts}, not {counted[0]}, after {log[-6:]}")


KINDS: dict[str, Callable[[Random], Met]] = {
    "ZooKeeper mode": zookeeper_mode, "KRaft": kraft, "KRaft, many sizes": kraft_of_many_sizes,
    "sweeps": sweeps, "capacity": capacity, "large clusters": large_clusters,
}
ORDER = (
    "ZooKeeper mode", "KRaft", "KRaft, many sizes", "sweeps", "ZooKeeper mode", "KRaft",
    "KRaft, many sizes", "capacity", "large clusters",
)
"""Kinds one after another; where a run begins depends on its seed."""


@dataclass(frozen=True)
class Round:
    """One round of a run: the same for the same seed of the run and the same number."""

    run_seed: int
    number: int

    @property
    def kind(self) -> str:
        """What it does."""
        return ORDER[(self.run_seed + self.number) % len(ORDER)]

    def run(self) -> Met:
        """Do it; raise at the first difference."""
        return KINDS[self.kind](Random(f"{self.run_seed} {self.number}"))
