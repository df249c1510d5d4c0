"""Batches of a plan: every rule on random clusters and plans, each rule by hand, and the files."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import kfast
from kfast.capacity.failures.limits import NORMAL_LIMITS
from kfast.capacity.placements import reassignment_batches
from kfast.errors import ArgumentError
from kfast.state.settings import override_settings
from tests.capacity.test_capacity_sweep import random_loads
from tests.capacity.test_plan_check import (
    NONE,
    capacity_of,
    load_of,
    partitions_of,
    random_capacity,
    random_cluster,
    random_plan,
)
from tests.support import plan_check_reference
from tests.support.long_tests import share_of
from tests.support.plan_batches_reference import batch_faults

MIN_ISR = "min.insync.replicas"
OBSTACLES = ("its disk", "its network")


def entries_of(table):
    return [((row["topic"], row["partition"]), row["replicas"]) for row in table.to_pylist()]


def placement_of(state, loads, held):
    brokers, partitions = state.broker_id.tolist(), partitions_of(state)
    up = {b for b, is_up in zip(brokers, state.up.tolist(), strict=True) if is_up}
    racks = dict(zip(brokers, state.rack.to_pylist(), strict=True))
    by_key = {key: tuple(int(column[row]) for column in loads)
              for row, key in enumerate(partitions)}
    return plan_check_reference.Placement(partitions, up, racks, by_key, held, (14, 3, 3))


def try_one(seed):
    """Batches of one random plan, and what came of its entries."""
    generator = Random(seed)
    state = override_settings(
        random_cluster(generator), [(".*", MIN_ISR, generator.choice(["1", "1", "2"]))]
    )
    loads = random_loads(generator, state.n_partitions)
    held = random_capacity(generator, state, loads)
    microcores = [NONE if held[b]["used"] is None else held[b]["used"]
                  for b in state.broker_id.tolist()]
    plan = random_plan(generator, partitions_of(state), state.broker_id.tolist())
    load, capacity = load_of(state, loads, microcores), capacity_of(state, held)
    options = {
        "seconds": generator.choice([1, 60, 3600, 100_000]),
        "moves_per_broker": generator.choice([1, 2, 5]),
        "throttle": generator.choice([None, None, generator.randint(1, 4 * 10**9)]),
    }
    digest = state.digest()
    batches = kfast.plan_batches(
        state, plan, load, capacity, batch_seconds=options["seconds"],
        moves_per_broker=options["moves_per_broker"], throttle=options["throttle"],
    )
    assert state.digest() == digest
    left_out = [((row["topic"], row["partition"]), row["replicas"], row["reason"])
                for row in batches.unscheduled.to_pylist()]
    parts = [entries_of(batch) for batch in batches.batches]
    assert all(part == sorted(part) for part in parts)
    merged = [*(entry for part in parts for entry in part), *(row[:2] for row in left_out)]
    assert sorted(merged) == sorted((key, list(target)) for key, target in plan.items())
    obstructed = [(key, target) for key, target, reason in left_out
                  if reason.startswith(OBSTACLES)]
    first = placement_of(state, loads, held)
    faults = batch_faults(
        first, parts, batches.throttles, batches.alone, obstructed, NORMAL_LIMITS, **options
    )
    assert list(faults) == [], f"seed {seed}"
    if parts:
        check_agrees(seed, state, batches, load, capacity, options["seconds"])
    return Counter({
        "batches": len(parts), "alone": len(batches.alone),
        **Counter(reason.split()[1] if reason.startswith(OBSTACLES) else "Kafka"
                  for *_, reason in left_out),
    })


def check_agrees(seed, state, batches, load, capacity, seconds):
    """The check of the batches: all complete, in time, and nothing becomes worse on the way."""
    check = kfast.check_plan(
        state, batches.batches, load, capacity, throttle=batches.throttles
    )
    for name in ("refused", "pending", "newly_offline", "newly_under_min_isr"):
        assert check.summary[name] == 0, f"seed {seed}: {name}"
    rules = check.broken_rules["rule"].to_pylist()
    assert "disk_limit_meanwhile" not in rules, f"seed {seed}"
    assert check.batches["throttle"].to_pylist() == list(batches.throttles)
    for row in check.batches.to_pylist():
        assert not row["stuck_brokers"], f"seed {seed}"
        if row["throttle"] is not None and row["batch"] not in batches.alone:
            assert row["seconds_bound"] <= seconds, f"seed {seed}"


def test_batches_of_random_plans_keep_every_rule():
    outcomes = sum((try_one(seed) for seed in range(20)), Counter())
    assert outcomes["batches"] > 30
    assert {"alone", "disk", "network", "Kafka"} <= {name for name, n in outcomes.items() if n}


@pytest.mark.slow
def test_batches_of_many_random_plans_keep_every_rule():
    for seed in share_of(range(1000, 2000)):
        try_one(seed)


# --- rule by rule, by hand -----------------------------------------------------------------------

GB = 10**9
UNKNOWN = 99


def cluster_of(assignments, min_isr=1, down=(), others=()):
    """First replicas lead, in sync but for brokers that are down; topic t has all partitions."""
    n = len(assignments)
    lines = [f"Topic: t\tPartitionCount: {n}\tReplicationFactor: 1\tConfigs: {MIN_ISR}={min_isr}"]
    lines += [
        f"\tTopic: t\tPartition: {number}\tLeader: {ids[0]}\t"
        f"Replicas: {','.join(map(str, ids))}\t"
        f"Isr: {','.join(str(broker) for broker in ids if broker not in down)}"
        for number, ids in enumerate(assignments)
    ]
    named = {broker for ids in assignments for broker in ids}
    return kfast.read(
        ("describe.txt", "\n".join(lines).encode()),
        add_brokers={broker: None for broker in others if broker not in named},
    )


def batches_of(
    assignments, plan, *, size=GB, live=0, min_isr=1, held=None, down=(), **options
):
    """Batches of a plan for partitions of one size; brokers are as `held` says, or huge."""
    others = {broker for ids in plan.values() for broker in ids or ()} - {UNKNOWN}
    state = cluster_of(assignments, min_isr, down, others)
    n = state.n_partitions
    load = load_of(state, ([live] * n, [0] * n, size if isinstance(size, list) else [size] * n))
    huge = {"nw_in": 10**12, "nw_out": 10**12, "disk": 10**15}
    capacity = capacity_of(state, {b: huge | (held or {}).get(b, {})
                                   for b in state.broker_id.tolist()})
    return kfast.plan_batches(
        state, {("t", number): ids for number, ids in plan.items()}, load, capacity, **options
    )


def numbers(batches):
    return [batch["partition"].to_pylist() for batch in batches.batches]


def test_leaders_move_before_replicas_do():
    batches = batches_of([[1, 2], [1, 2], [2, 3]], {0: [1, 3], 1: [2, 1], 2: [3, 2]})
    assert numbers(batches) == [[1, 2], [0]]
    assert batches.throttles[0] is None


def test_a_batch_moves_250_leaders_of_a_broker_and_1000_in_all():
    """Cruise Control, ExecutorConfig.java, `num.concurrent.leader.movements`."""
    one_pair = batches_of([[1, 2]] * 600, {at: [2, 1] for at in range(600)})
    assert [len(part) for part in numbers(one_pair)] == [250, 250, 100]
    pairs = [[2 * at, 2 * at + 1] for at in range(10)] * 150
    many = batches_of(pairs, {at: ids[::-1] for at, ids in enumerate(pairs)})
    assert [len(part) for part in numbers(many)] == [1000, 500]


def test_a_batch_copies_5_replicas_to_and_from_a_broker():
    batches = batches_of([[1, 3], [2, 4]] * 6, {at: [1 + at % 2, 5] for at in range(12)})
    assert [len(part) for part in numbers(batches)] == [5, 5, 2]
    batches = batches_of([[1, 3]] * 6 + [[4, 5]], {at: [1, 4 + at % 2] for at in range(6)},
                         moves_per_broker=2)
    assert [len(part) for part in numbers(batches)] == [2, 2, 2]


def test_a_batch_copies_1250_replicas():
    pairs = [[2 * at, 2 * at + 1] for at in range(300)] * 5
    plan = {at: [ids[0], (ids[1] + 2) % 600] for at, ids in enumerate(pairs)}
    assert [len(part) for part in numbers(batches_of(pairs, plan))] == [1250, 250]


def test_a_batch_takes_no_longer_than_it_may():
    """90 % of 100 MB/s for 100 s are 9 GB; producers write 10 MB/s to each copy, 1 GB of them."""
    held = {1: {"nw_out": 10**8}}
    plan = {at: [1, 3] for at in range(4)}
    idle = batches_of([[1, 2]] * 4, plan, size=3 * GB, batch_seconds=100, held=held)
    assert numbers(idle) == [[0, 1, 2], [3]]
    assert idle.throttles == (90_000_000, 90_000_000)
    busy = batches_of([[1, 2]] * 4 + [[3]], plan, size=3 * GB, live=10**7, batch_seconds=100,
                      held={1: {"nw_out": 10**8 + 4 * 10**7}})
    assert numbers(busy) == [[0, 1], [2, 3]]
    assert busy.throttles == (90_000_000, 90_000_000)


def test_the_throttle_is_what_the_busiest_broker_has_left_and_no_more_than_asked_for():
    held = {1: {"nw_out": 10**8}, 3: {"nw_in": 5 * 10**7}}
    batches = batches_of([[1, 2], [3, 2]], {0: [1, 3]}, held=held)
    assert batches.throttles == (45_000_000,)
    asked = batches_of([[1, 2], [3, 2]], {0: [1, 3]}, held=held, throttle=10**6)
    assert asked.throttles == (1_000_000,)


def test_an_entry_that_takes_too_long_is_a_batch_of_its_own():
    held = {1: {"nw_out": 10**8}}
    batches = batches_of([[1, 2]] * 3, {at: [1, 3] for at in range(3)}, held=held,
                         size=[GB, 20 * GB, GB], batch_seconds=100)
    assert numbers(batches) == [[1], [0, 2]]
    assert batches.alone == (1,)
    wide = batches_of([[1, 2, 3]], {0: [1, 4, 5]}, moves_per_broker=1)
    assert (numbers(wide), wide.alone) == ([[0]], (1,))


def test_brokers_that_are_over_a_limit_are_relieved_first():
    """Broker 9 has 3 GB of 3 GB; otherwise the largest partition would go first."""
    assignments, plan = [[1, 2], [3, 9], [3, 9], [3, 9]], {0: [1, 4], 2: [3, 4]}
    sizes = [5 * GB, GB, GB, GB]
    full = batches_of(assignments, plan, size=sizes, moves_per_broker=1,
                      held={9: {"disk": 3 * GB}})
    assert numbers(full) == [[2], [0]]
    wide = batches_of(assignments, plan, size=sizes, moves_per_broker=1)
    assert numbers(wide) == [[0], [2]]


def test_a_disk_has_room_for_old_and_new_replicas_at_once():
    """Broker 3 may hold 2.4 GB and has 2: what it gives away makes room only in the next batch."""
    held = {3: {"disk": 3 * GB}}
    batches = batches_of([[1, 3], [1, 3], [1, 2]], {0: [1, 2], 2: [1, 3]}, held=held)
    assert numbers(batches) == [[0], [2]]


def test_what_no_disk_has_room_for_is_named():
    """Brokers 2 and 3 are full and would exchange what they hold."""
    held = {2: {"disk": 1.25 * GB}, 3: {"disk": 1.25 * GB}}
    held = {b: {"disk": int(of["disk"])} for b, of in held.items()}
    batches = batches_of([[1, 2], [1, 3]], {0: [1, 3], 1: [1, 2]}, held=held)
    assert batches.batches == ()
    assert batches.unscheduled.to_pylist() == [
        {"topic": "t", "partition": at, "replicas": [1, broker], "broker_id": broker,
         "reason": "its disk would hold 2.0 GB of at most 1.0 GB"}
        for at, broker in enumerate((3, 2))
    ]


def test_what_would_never_be_copied_is_named():
    """Producers write 10 MB/s, and the broker has 9 MB/s left."""
    batches = batches_of([[1, 2], [3]], {0: [1, 3]}, live=10**7, held={3: {"nw_in": 2 * 10**7}})
    (row,) = batches.unscheduled.to_pylist()
    assert row["broker_id"] == 3
    assert row["reason"] == (
        "its network leaves 9.0 MB/s for copies, and producers write 10.0 MB/s to the new replicas"
    )


def test_what_kafka_refuses_or_cannot_complete_is_named():
    plan = {0: [1, UNKNOWN], 1: [1, 3], 2: [1, 2, 3], 7: [1]}
    batches = batches_of([[1, 2], [1, 2, 3], [2, 1, 3]], plan, down=[3])
    assert numbers(batches) == [[2]]
    reasons = dict(zip(*(batches.unscheduled[name].to_pylist()
                         for name in ("partition", "reason")), strict=True))
    assert reasons[0].startswith("refused: ")
    assert "broker 99" in reasons[0]
    assert reasons[1] == "pending: broker 3 has to be in sync and is down"
    assert reasons[7].startswith("refused: ")


def test_no_partition_falls_under_min_isr():
    """A second replica makes a partition of one need two in sync, where min ISR is 2."""
    batches = batches_of([[1], [1, 2]], {0: [2], 1: [3, 1]}, min_isr=2)
    assert numbers(batches) == [[1]]
    assert batches.unscheduled["reason"].to_pylist() == ["it would fall under min ISR"]
    assert numbers(batches_of([[1], [1, 2]], {0: [2], 1: [3, 1]})) == [[0, 1]]


def test_a_plan_that_is_under_way_is_left_alone():
    state = cluster_of([[1, 2], [2, 3], [3, 1]])
    moving = kfast.execute_plan(state, {("t", 0): [1, 3]}, pending=True).state
    load = load_of(moving, ([1] * 3, [1] * 3, [GB] * 3))
    capacity = capacity_of(moving, {b: {"disk": 10**15} for b in (1, 2, 3)})
    batches = kfast.plan_batches(moving, {("t", 0): [2, 3], ("t", 1): [3, 2]}, load, capacity)
    assert numbers(batches) == [[1]]
    assert batches.unscheduled["reason"].to_pylist() == ["it is being reassigned already"]


def test_nothing_is_known_of_networks_without_capacities():
    state = cluster_of([[1, 2], [3, 2]])
    load = load_of(state, ([1] * 2, [1] * 2, [GB] * 2))
    capacity = capacity_of(state, {b: {"disk": 10**15} for b in (1, 2, 3)})
    batches = kfast.plan_batches(state, {("t", 0): [1, 3]}, load, capacity)
    assert batches.throttles == (None,)


@pytest.mark.parametrize(("plan", "options", "message"), [
    ({0: None}, {}, "cancels a reassignment"),
    ({0: [1, 3]}, {"batch_seconds": 0}, "batch_seconds"),
    ({0: [1, 3]}, {"moves_per_broker": 0}, "moves_per_broker"),
    ({0: [1, 3]}, {"throttle": 0}, "throttle"),
])
def test_wrong_arguments(plan, options, message):
    with pytest.raises(ArgumentError, match=message):
        batches_of([[1, 2], [3, 2]], plan, **options)


# --- files ---------------------------------------------------------------------------------------


def test_files_are_plans_of_kafka(tmp_path):
    """Sorted by topic and partition; the rollback says what partitions have now."""
    batches = batches_of([[1, 2], [1, 2], [2, 3]], {2: [3, 2], 0: [1, 3], 1: [3, 1]})
    folder = tmp_path / "plans"
    batches.write(folder)
    assert sorted(path.name for path in folder.iterdir()) == [
        "batch-001.json", "batch-002.json", "plan.json", "rollback.json",
    ]
    rollback = json.loads((folder / "rollback.json").read_text())
    assert rollback == {"version": 1, "partitions": [
        {"topic": "t", "partition": number, "replicas": replicas}
        for number, replicas in enumerate([[1, 2], [1, 2], [2, 3]])
    ]}
    parts = [kfast.read_plan(folder / name) for name in batches.file_names]
    assert [entries_of(part) for part in parts] == [entries_of(b) for b in batches.batches]
    order = [("topic", "ascending"), ("partition", "ascending")]
    merged = pa.concat_tables(parts).sort_by(order)
    assert entries_of(kfast.read_plan(folder / "plan.json")) == entries_of(merged)


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    batches = batches_of([[1, 2], [1, 2]], {0: [1, 3], 1: [2, 1]})
    (tmp_path / "there").mkdir()
    for folder, message in ((tmp_path / "there", "is there already"),
                            (tmp_path / "no" / "plans", "does not exist"), ("", "a new folder")):
        with pytest.raises(ArgumentError, match=message):
            batches.write(folder)
    with pytest.raises(ArgumentError, match="no batch"):
        batches_of([[1, 2]], {0: [1, UNKNOWN]}).write(tmp_path / "plans")

    def interrupt(table, file):
        file.write(b"{")
        raise KeyboardInterrupt

    monkeypatch.setattr(reassignment_batches, "write_reassignment", interrupt)
    with pytest.raises(KeyboardInterrupt):
        batches.write(tmp_path / "plans")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
