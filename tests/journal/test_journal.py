"""The journal: levels, what the tables say, and that they agree with the counts.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from kfast import (
    ArgumentError,
    Controller,
    PartitionState,
    PartitionStateMachine,
    ReplicaState,
    ReplicaStateMachine,
    Store,
    Strategy,
)
from kfast.journal.outcome import FULL_TABLES
from tests.support.random_clusters import random_context
from tests.support.states import QUIET, read_state
from tests.support.twin_state import state_of


def some_events(state, **options):
    """Failover, failures, a start, a shutdown: the outcomes of a controller."""
    controller = Controller(state, **options)
    ids = state.broker_id[state.registered].tolist()
    outcomes = [controller.on_controller_failover(), controller.on_broker_failure(ids[:2])]
    if len(ids) > 2:
        outcomes.append(controller.controlled_shutdown(ids[2]))
    outcomes.append(controller.on_broker_startup(ids[:1]))
    outcomes.append(controller.catch_up(ids[:1]))
    outcomes.append(controller.rebalance_leaders())
    return outcomes


@pytest.mark.parametrize("with_store", [False, True])
def test_the_level_changes_nothing_but_what_is_recorded(with_store):
    """Design: it never changes the outcome; counts are the same at `counts` and `full`."""
    for seed in range(12):
        ctx = random_context(Random(seed))
        digests, counts, sent = [], [], []
        for level in ("off", "counts", "full"):
            state = state_of(ctx)
            store = Store(state) if with_store else None
            outcomes = some_events(state, store=store, journal=level)
            digests.append(state.digest())
            counts.append([outcome.counts for outcome in outcomes])
            sent.append([outcome.request_counts.to_pylist() for outcome in outcomes])
        assert len(set(digests)) == 1
        assert counts[1] == counts[2]
        assert sent[1] == sent[2]
        assert not any(sent[0])


def test_tables_are_there_only_at_level_full():
    """An error that says which level is needed, not an empty table."""
    outcome = Controller(read_state(QUIET), journal="counts").on_broker_failure([1])
    for name in FULL_TABLES:
        message = f"{name} is recorded at journal level 'full' only; this was recorded at 'counts'"
        with pytest.raises(ArgumentError, match=message):
            getattr(outcome, name)
    assert outcome.request_counts.num_rows > 0
    with pytest.raises(AttributeError, match="anything"):
        _ = outcome.anything
    full = Controller(read_state(QUIET), journal="full").on_broker_failure([1])
    assert all(getattr(full, name) is not None for name in FULL_TABLES)
    with pytest.raises(ArgumentError, match="journal 'all' is unknown; allowed: off, counts, full"):
        Controller(read_state(QUIET), journal="all")


def test_an_outcome_shows_what_happened_in_a_line():
    """For whoever looks at it in a notebook."""
    outcome = Controller(read_state(QUIET)).on_broker_failure([1])
    assert repr(outcome) == (
        "<Outcome of on_broker_failure: 3 steps, 5 transitions, 1 leaders_moved, "
        "0 unclean_elections, 8 requests, journal counts>"
    )


def count_requests(outcome):
    """Requests and partitions by (step, kind, broker), from the full tables.

    Every batch is a request; where each partition had its own, there are as many as partitions.
    """
    partitions = Counter(
        (r["step"], r["kind"], r["broker_id"]) for r in outcome.requests.to_pylist()
    )
    entries = Counter(outcome.update_metadata.column("step").to_pylist())
    for row in outcome.update_metadata_brokers.to_pylist():
        partitions[row["step"], "UpdateMetadata", row["broker_id"]] = entries[row["step"]]
    alone = {batch["step"]: batch["per_partition"] for batch in outcome.batches}
    return {key: (n if alone[key[0]] else 1, n) for key, n in partitions.items()}


@pytest.mark.parametrize("with_store", [False, True])
def test_counts_are_what_the_full_tables_say(with_store):
    """`request_counts` is `requests` grouped; the totals are their sums."""
    for seed in range(12):
        state = state_of(random_context(Random(seed)))
        store = Store(state) if with_store else None
        for outcome in some_events(state, store=store, journal="full"):
            counted = {
                (r["step"], r["kind"], r["broker_id"]): (r["requests"], r["partitions"])
                for r in outcome.request_counts.to_pylist()
            }
            assert len(counted) == outcome.request_counts.num_rows
            assert counted == count_requests(outcome)
            for at, totals in enumerate(
                (outcome.counts.requests, outcome.counts.request_partitions)
            ):
                for kind, n in totals.items():
                    assert n == sum(v[at] for (_, k, _), v in counted.items() if k == kind)
            seen_by_brokers = Counter(
                said["kind"] for sent in outcome.by_broker().values() for said in sent
            )
            assert +seen_by_brokers == +Counter(outcome.counts.requests)
            moved = Counter(
                (t["from_state"], t["to_state"]) for t in outcome.transitions.to_pylist()
            )
            assert dict(outcome.counts.transitions) == dict(moved)
            codes = Counter(outcome.elections.column("code").to_pylist())
            for code in ("ELECTED", "INITIALIZED", "NO_ELIGIBLE_LEADER"):
                assert outcome.counts.codes.get(code, 0) == codes[code]
            replaced = [
                e for e in outcome.elections.to_pylist()
                if e["code"] == "ELECTED" and e["leader_before"] not in (-1, e["leader"])
            ]
            assert outcome.counts.leaders_moved == len(replaced)


def test_threads_do_not_show_in_the_outcome():
    """Design: counts and tables are those of one thread."""
    ctx = random_context(Random(4))
    alone, together = state_of(ctx), state_of(ctx)
    for one, other in zip(
        some_events(alone, journal="full"), some_events(together, journal="full", threads=5),
        strict=True,
    ):
        assert one.counts == other.counts
        for name in FULL_TABLES:
            assert getattr(one, name).equals(getattr(other, name))
    for threads in (0, 65):
        with pytest.raises(ArgumentError, match=f"threads is {threads}: from 1 to 64 is allowed"):
            Controller(alone, threads=threads)
    with pytest.raises(ArgumentError, match="profile 'zk-9' is unknown"):
        Controller(alone, profile="zk-9")


def test_update_metadata_is_never_multiplied_out():
    """Design: one set of partitions and one set of brokers."""
    n = 50
    lines = [f"t-{i}  1,2,3  1,2,3  1  7  ONLINE" for i in range(n)]
    state = read_state(
        "\n".join(["partition ar isr leader epoch state", *lines]), brokers=range(4, 20)
    )
    outcome = Controller(state, journal="full").on_broker_failure([1])
    steps = Counter(outcome.update_metadata.column("step").to_pylist())
    brokers = Counter(outcome.update_metadata_brokers.column("step").to_pylist())
    assert set(steps.values()) == {n}
    assert set(brokers.values()) == {18}
    assert outcome.counts.request_partitions["UpdateMetadata"] == 18 * n * len(steps)
    assert "UpdateMetadata" not in set(outcome.requests.column("kind").to_pylist())


def test_the_two_deletion_markers_differ():
    """Section 5.2, note: StopReplica -2; UpdateMetadata leader -2, epoch 0."""
    state = read_state("""
        partition  ar   isr  leader  epoch  version
        t-0        1,2  1,2  1       7      4
        q-0        1,2  1,2  1       7      4
    """, queued=["q"])
    machine = ReplicaStateMachine(state)
    online = machine.handle_state_changes(state.replicas_on_brokers([2]), ReplicaState.ONLINE)
    entries = {e["topic"]: e for e in online.update_metadata.to_pylist()}
    assert [entries[t]["leader"] for t in "tq"] == [1, -2]
    assert [entries[t]["leader_epoch"] for t in "tq"] == [7, 0]
    assert [entries[t]["version"] for t in "tq"] == [4, 0]
    assert [entries[t]["isr"] for t in "tq"] == [[1, 2], [1, 2]]
    told = {r["topic"]: r for r in online.requests.to_pylist()}
    assert [(told[t]["leader"], told[t]["leader_epoch"]) for t in "tq"] == [(1, 7), (1, 7)]
    offline = machine.handle_state_changes(state.replicas_on_brokers([2]), ReplicaState.OFFLINE)
    stops = {
        r["topic"]: r["leader_epoch"] for r in offline.requests.to_pylist()
        if r["kind"] == "StopReplica"
    }
    assert stops == {"t": 7, "q": -2}
    assert offline.update_metadata.column("topic").to_pylist() == ["t"]


def test_a_later_addition_replaces_an_earlier_one():
    """Section 5.1: per broker and partition, as the record was when added."""
    state = read_state("""
        partition  ar     isr    leader  epoch
        t-0        1,2,3  1,2,3  3       7
    """)
    machine = ReplicaStateMachine(state)
    outcome = machine.handle_state_changes(state.replicas_on_brokers([1, 2]), ReplicaState.OFFLINE)
    added = [
        (a["to"], a["leader_epoch"], a["isr"]) for a in outcome.additions.to_pylist()
        if a["kind"] == "LeaderAndIsr"
    ]
    assert added == [([2, 3], 8, [2, 3]), ([1, 3], 9, [3])]
    sent = {
        r["broker_id"]: r["leader_epoch"] for r in outcome.requests.to_pylist()
        if r["kind"] == "LeaderAndIsr"
    }
    assert sent == {1: 9, 2: 8, 3: 9}
    assert outcome.update_metadata.column("leader_epoch").to_pylist() == [9]


def test_the_error_log_names_what_kafka_names():
    """Section 2.4, NewReplica, note: the log says OfflineReplica."""
    state = read_state("""
        partition  ar   isr  leader  epoch  replicas
        t-0        1,2  1,2  1       7      -
    """)
    machine = ReplicaStateMachine(state)
    outcome = machine.handle_state_changes(state.replicas_of([0]), ReplicaState.NEW)
    assert outcome.refusals.to_pylist() == [{
        "step": 0, "topic": "t", "partition": 0, "partition_row": 0, "broker_id": 1,
        "from_state": "NonExistentReplica", "to_state": "OfflineReplica",
        "code": "LEADER_IS_NEW_REPLICA", "error": "StateChangeFailed",
    }]
    assert [t["to_state"] for t in outcome.transitions.to_pylist()] == ["NewReplica"]
    assert state.replica_states_of(0) == {1: ReplicaState.NON_EXISTENT, 2: ReplicaState.NEW}


def test_initialisation_is_in_no_result_map():
    """Section 3.4, note; it is among the elections nevertheless."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  1       7      ONLINE
        t-1        1,2  -    -       -      NEW
        t-2        1,2  1,2  1       7      NON_EXISTENT
        t-3        1,2  3    1       7      ONLINE
    """)
    machine = PartitionStateMachine(state)
    rows = np.array([3, 1, 2, 0], np.int32)
    outcome = machine.handle_state_changes(rows, PartitionState.ONLINE, Strategy.PREFERRED_REPLICA)
    assert outcome.in_result.tolist() == [True, False, False, True]
    tried = [(e["partition"], e["strategy"], e["code"]) for e in outcome.elections.to_pylist()]
    assert tried == [
        (0, "PREFERRED_REPLICA", "ELECTED"), (1, "INITIALIZATION", "INITIALIZED"),
        (3, "PREFERRED_REPLICA", "NO_ELIGIBLE_LEADER"),
    ]


def test_a_target_is_a_state():
    """A caller's mistake."""
    state = read_state(QUIET)
    machine = ReplicaStateMachine(state)
    with pytest.raises(ArgumentError, match="is not a ReplicaState to move to"):
        machine.handle_state_changes(state.replicas_of([0]), ReplicaState.NO_ENTRY)
    with pytest.raises(ArgumentError, match="is not a PartitionState to move to"):
        PartitionStateMachine(state).handle_state_changes([0], ReplicaState.ONLINE)
    unused = state.replicas_of([0])
    unused.slots[0] = 8
    with pytest.raises(ArgumentError, match="names a slot that its partition does not use"):
        machine.handle_state_changes(unused, ReplicaState.OFFLINE)
