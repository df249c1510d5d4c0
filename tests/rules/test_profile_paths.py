"""Two ways through the rules give one answer in every profile: kernels, and store conversations.

A controller whose cache is the store runs each call as one kernel; one with a store that never
fails or changes by itself reads, decides and writes. Both must end alike after every event, with
the same journal, and so must other layouts, threads and journal levels.

To repeat one run: `pytest tests/rules/test_profile_paths.py -k 'zk-2.0-3'`.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kfast import (
    ClusterState,
    Controller,
    PartitionState,
    PartitionStateMachine,
    ReplicaState,
    ReplicaStateMachine,
    Store,
    Strategy,
)
from kfast.controllers.zk.profiles import PROFILES, Profile
from kfast.journal import Counts
from kfast.testing.invariants import check, check_step
from tests.support.random_clusters import random_context, recount
from tests.support.twin_state import state_of

EVENTS = 40
TABLES = ("transitions", "elections", "refusals", "additions", "requests", "update_metadata",
          "update_metadata_brokers")
UNCOMPARED = ("controller_epoch", "broker_epoch")
"""An adopted controller epoch counts as stored where the cache is the store."""

Step = Callable[["Run"], Any]


class Run:
    """One way to run kfast."""

    def __init__(
        self, state: ClusterState, profile: Profile, with_store: bool, journal: str, threads: int
    ) -> None:
        self.state = state
        self.store = Store(state) if with_store else None
        options: Any = {"journal": journal, "threads": threads, "profile": profile}
        self.controller = Controller(state, store=self.store, **options)
        self.replicas = ReplicaStateMachine(state, self.store, **options)
        self.partitions = PartitionStateMachine(state, self.store, **options)


def clusters(seed: int, profile: Profile) -> list[Run]:
    """The same random cluster, run in each way."""
    random = Random(seed)
    ctx = random_context(random)
    for p, assignment in ctx.assignments.items():
        ctx.assignments[p] = replace(assignment, adding=(), removing=())
    if not profile.has_log_dirs:
        ctx.offline_dir_replicas.clear()
    recount(ctx)
    return [
        Run(state_of(ctx, layout), profile, with_store, journal, threads)
        for layout, with_store, journal, threads in (
            ("narrow", False, "full", 1), ("narrow", True, "full", 1),
            ("wide", False, "counts", 2), ("wide", True, "counts", 1),
        )
    ]


def next_step(random: Random, run: Run) -> tuple[str, Step]:
    """What happens next, chosen by what one of the runs shows."""
    state, profile = run.state, run.controller.profile
    ids = state.broker_id.tolist()
    up = [b for b, r in zip(ids, state.registered.tolist(), strict=True) if r]
    down = [b for b in ids if b not in up]

    def pick(some: Sequence[int], most: int) -> list[int]:
        return sorted(random.sample(some, min(len(some), random.randint(1, most))))

    some_up, some_down, rows = pick(up, 3), pick(down, 3), pick(range(state.n_partitions), 6)
    names = [
        (state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row])) for row in rows
    ]
    topic, broker = names[0][0], random.choice(ids)
    new_topic = f"made-{random.randint(0, 10**6)}"
    lists = {n: random.sample(ids, min(len(ids), random.randint(1, 4))) for n in range(3)}
    replica_target = random.choice([s for s in ReplicaState if s != ReplicaState.NO_ENTRY])
    triples = [(t, n, random.choice(ids)) for t, n in names]
    strategy = random.choice([None, *(
        s for s in Strategy if profile.has_admin_elections or not s.allows_unclean
    )])
    online = PartitionState.ONLINE
    target = random.choice([online, online, online, *(s for s in PartitionState if s >= 0)])
    steps: list[tuple[int, str, Step]] = [
        (8, f"fail {some_up[:2]}", lambda r: r.controller.on_broker_failure(some_up[:2])),
        (8, f"start {some_down}", lambda r: r.controller.on_broker_startup(some_down)),
        (3, f"bounce {some_up}", lambda r: r.controller.on_broker_change(bounced=some_up)),
        (6, f"shut {broker} down", lambda r: r.controller.controlled_shutdown(broker)),
        (5, f"create {lists}", lambda r: r.controller.on_topic_change({new_topic: lists})),
        (4, f"catch up {some_up}", lambda r: r.controller.catch_up(some_up)),
        (4, "rebalance", lambda r: r.controller.rebalance_leaders()),
        (5, f"prefer {names}",
         lambda r: r.controller.elect_leaders(names, trigger="ZkTriggered")),
        (2, f"notify {names}", lambda r: r.controller.on_isr_change_notification(
            r.state.find_partitions(names))),
        (2, f"unclean {topic}", lambda r: r.controller.enable_unclean_leader_election([topic])),
        (2, f"lose dirs {some_up[:1]} {names[:2]}", lambda r: r.controller.on_log_dir_failure(
            some_up[0], r.state.find_partitions(names[:2]))),
        (1, f"queue {topic}", lambda r: r.state.queue_topic_deletion([topic])),
        (14, f"{triples} to {replica_target.name}", lambda r: r.replicas.handle_state_changes(
            r.state.find_replicas(triples), replica_target)),
        (10, f"{names} to {target.name} by {strategy}", lambda r: r.partitions.handle_state_changes(
            r.state.find_partitions(names), target, strategy if target == online else None)),
    ]
    weights = [
        0 if (not up and "up" in name) or (not some_up and n in (0, 2, 5, 10))
        or (not down and n == 1) else weight
        for n, (weight, name, _) in enumerate(steps)
    ]
    _, name, step = random.choices(steps, weights)[0]
    return name, step


def comparable(outcome: Any, table: str) -> list[str]:
    """Rows of a table whose order says nothing."""
    rows = getattr(outcome, table).to_pylist()
    return sorted(str({k: v for k, v in row.items() if k not in UNCOMPARED}) for row in rows)


def counts_of(outcome: Any) -> Counts:
    """Counts, but for codes: a call that fails as a whole counts them in one of the ways only."""
    return replace(outcome.counts, codes={})


def records_of(state: ClusterState) -> list[dict[str, Any]]:
    """Every partition, as an Arrow row without the controller epoch."""
    rows: list[dict[str, Any]] = state.to_tables().partitions.drop(["controller_epoch"]).to_pylist()
    return rows


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("profile", PROFILES)
def test_both_ways_agree(profile, seed):
    """State, journal and counts after every event; and the rules of section 9."""
    version = PROFILES[profile]
    runs = clusters(seed, version)
    random = Random(seed)
    for run in runs:
        run.controller.on_controller_failover()
    log = []
    for _ in range(EVENTS):
        name, step = next_step(random, runs[0])
        log.append(name)
        before = runs[0].state.copy()
        outcomes = [step(run) for run in runs]
        said = "\n".join(log[-4:])
        first = records_of(runs[0].state)
        for run, outcome in zip(runs[1:], outcomes[1:], strict=True):
            assert records_of(run.state) == first, said
            check(run.state)
            if outcome is not None:
                assert counts_of(outcome) == counts_of(outcomes[0]), said
        if outcomes[0] is None:
            continue
        for table in TABLES:
            assert comparable(outcomes[0], table) == comparable(outcomes[1], table), (table, said)
        check_step(before, runs[0].state, outcomes[0], profile=version)
