"""The check of a plan against plain Python: random clusters, plans good and bad, rule by rule."""

from __future__ import annotations

from random import Random

import numpy as np

import kfast
from kfast.capacity import HARD_RULES, BrokerCapacity, CpuWeights, PartitionLoad
from kfast.capacity.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.controllers import open_events
from tests.capacity.test_capacity_sweep import random_loads
from tests.support import plan_check_reference as twin
from tests.support.capacity_reference import RESOURCES

NONE = -1


def load_of(state, columns, microcores=None):
    """A load of columns: bytes in, out and on disk by partition row."""
    bytes_in, bytes_out, disk = (np.array(column, np.int64) for column in columns)
    return PartitionLoad(
        bytes_in=bytes_in, bytes_out=bytes_out, disk_bytes=disk,
        cpu_microcores=None if microcores is None else np.array(microcores, np.int64),
        milli_msgs_in=np.zeros_like(bytes_in), replica_bytes=None, replica_log_dir=None,
        log_dirs=(), window=None, topic=state.topic, share_model=np.zeros((4, 0), np.int8),
        source_of=np.zeros((4, 0), np.int16), sources=(), topics_without_load=(), assumptions=(),
        warnings=(),
    )


def capacity_of(state, held):
    """Capacities by broker id and resource; None or 0 where there is none."""
    def column(name):
        return np.array([held[b].get(name) or NONE for b in state.broker_id.tolist()], np.int64)

    none = np.full(state.n_brokers, NONE)
    return BrokerCapacity(
        nw_in=column("nw_in"), nw_out=column("nw_out"), disk_bytes=column("disk"),
        cpu_microcores=column("cpu"), disk_write=none, disk_read=none,
        replicas_max=column("replicas_max"), log_dirs=({},) * state.n_brokers,
        price_class=(None,) * state.n_brokers, source="test",
    )


def random_cluster(generator):
    """A cluster after its start; perhaps a broker is down, and leaders are elsewhere."""
    brokers = generator.randint(3, 8)
    state = kfast.generate(
        brokers=brokers, partitions=generator.randint(4, 30), topics=generator.randint(1, 4),
        replication_factor=generator.randint(1, min(4, brokers)),
        racks=generator.randint(0, min(3, brokers)), seed=generator.randrange(1 << 30),
        first_broker_id=generator.choice([0, 101]),
    )
    if generator.random() < 0.5:
        state = kfast.with_controller(state, "kraft-4.1", elr=False)
    fallen = generator.sample(state.broker_id.tolist(), generator.choice([0, 1, 1, 2]))
    events = open_events(state)
    events.start()
    if fallen:
        events.brokers_failed(fallen)
        back = fallen[:generator.randint(0, 1)]
        events.brokers_returned(back)
        events.caught_up(back)
    return state


def partitions_of(state):
    """Partitions as the twin has them, by (topic, number), in the order of the rows."""
    return {
        (row["topic"], row["partition"]): {
            "replicas": row["replicas"], "isr": row["isr"],
            "leader": row["leader"] if row["leader"] is not None and row["leader"] >= 0 else None,
        }
        for row in state.to_tables().partitions.to_pylist()
    }


def random_plan(generator, partitions, brokers):
    """Targets by partition: mostly sensible ones, some that break rules or are refused."""
    plan = {}
    for key, partition in partitions.items():
        if generator.random() < 0.5:
            continue
        now = partition["replicas"]
        kind = generator.random()
        if kind < 0.25:
            target = generator.sample(now, len(now))
        elif kind < 0.85:
            target = generator.sample(brokers, len(now))
        elif kind < 0.92:
            target = generator.sample(brokers, generator.randint(1, len(brokers)))
        elif kind < 0.96:
            target = [*now[:-1], 999]
        else:
            target = [now[0], *now]
        plan[key] = target
    if generator.random() < 0.2:
        plan["unknown", 0] = [brokers[0]]
    return plan


def batches_of(generator, plan):
    keys, n = list(plan), generator.randint(1, 3)
    return [{key: plan[key] for key in keys[at::n]} for at in range(n)]


def random_capacity(generator, state, loads):
    """Capacities about as large as what brokers carry."""
    mean = [sum(column.tolist()) * 3 // state.n_brokers + 1 for column in loads]
    sizes = {"nw_in": mean[0], "nw_out": mean[0] * 2 + mean[1], "disk": mean[2], "cpu": 10**7}
    held = {}
    for broker in state.broker_id.tolist():
        held[broker] = {
            name: 0 if generator.random() < 0.1 else generator.randint(size // 2, 3 * size) + 1
            for name, size in sizes.items()
        }
        held[broker]["used"] = generator.choice([None, generator.randint(0, 10**7)])
        held[broker]["replicas_max"] = generator.choice([None, None, generator.randint(1, 20)])
    return held


def statuses(check):
    """Per batch (key, target, status) of what the plan asks for."""
    rows = check.partitions.to_pylist()
    return [
        [((r["topic"], r["partition"]), r["target"], r["status"]) for r in rows
         if r["batch"] == number and r["planned"]]
        for number in check.batches["batch"].to_pylist()
    ]


def compare(seed):
    """One random cluster and plan; the rules that were broken."""
    generator = Random(seed)
    state = random_cluster(generator)
    partitions = partitions_of(state)
    brokers = state.broker_id.tolist()
    loads = random_loads(generator, state.n_partitions)
    held = random_capacity(generator, state, loads)
    microcores = [NONE if held[b]["used"] is None else held[b]["used"] for b in brokers]
    equivalent = generator.random() < 0.3
    plan = batches_of(generator, random_plan(generator, partitions, brokers))
    sets = generator.choice([{}, {"a": brokers[::2], "b": brokers[1::2]}])
    excluded = generator.choice([[], [brokers[-1]]])
    topics = generator.choice([[], [state.topic[0].as_py()]])
    check = kfast.check_plan(
        state, plan, load_of(state, loads, microcores), capacity_of(state, held),
        excluded_topics=topics, excluded_brokers=excluded, broker_sets=sets,
        weights=None if equivalent else CpuWeights(),
        cpu_model="write-equivalent" if equivalent else "measured",
        normal_limits={"cpu": 0.7},
    )
    up = {b for b, is_up in zip(brokers, state.up.tolist(), strict=True) if is_up}
    racks = dict(zip(brokers, state.rack.to_pylist(), strict=True))
    by_key = {key: tuple(int(column[row]) for column in loads)
              for row, key in enumerate(partitions)}
    weights = (4, 1, 4) if equivalent else (14, 3, 3)
    first = twin.Placement(
        partitions, up, racks, by_key, held, weights, work_per_microcore=80 if equivalent else None
    )
    entries = statuses(check)
    placements, moments, moves = [first], [first.totals()], []
    for batch in entries:
        moves.append(twin.moves_of(placements[-1], batch))
        accepted, ended = twin.execute(placements[-1], batch)
        moments += [twin.most_meanwhile(accepted, ended), ended.totals()]
        placements.append(ended)
    work = {b: of["work"] for b, of in moments[0].items()}
    compare_brokers(seed, check, first, moments, work, moves)
    compare_moves(seed, check, moves)
    broken = compare_rules(seed, check, first, placements[-1], entries, moments, work,
                           topics, excluded, sets)
    compare_objective(seed, check, first, placements[-1], work, entries, moves, broken)
    return {rule for rule, *_ in broken}


def compare_brokers(seed, check, first, moments, work, moves):
    during = {
        b: {name: max(moment[b][name] for moment in moments) for name in twin.AMOUNTS}
        for b in first.racks
    }
    for when, totals in (("before", moments[0]), ("during", during), ("after", moments[-1])):
        uses = first.uses(totals, work)
        over = twin.over_limits(first, totals, work, NORMAL_LIMITS)
        for row in check.brokers.to_pylist():
            broker = row["broker_id"]
            where = f"seed {seed}, broker {broker} {when}"
            for name in ("bytes_in", "bytes_out", "disk_bytes", "leaders", "replicas"):
                assert row[f"{name}_{when}"] == totals[broker][name], f"{where}: {name}"
            assert row[f"cpu_microcores_{when}"] == uses["cpu"][broker], where
            assert row[f"over_limit_{when}"] == [
                name for name in (*RESOURCES, "replicas") if (broker, name) in over
            ], where
    for row in check.brokers.to_pylist():
        for name, place in (("bytes_sent", 0), ("bytes_received", 1)):
            assert row[name] == sum(
                n for of in moves for key, n in of.items()
                if key[place] == row["broker_id"] and key[2] == "bytes_moved"
            ), f"seed {seed}"


def compare_moves(seed, check, moves):
    rows = {
        (row["batch"], row["source"], row["destination"], name): row[name]
        for row in check.moves.to_pylist() for name in ("replicas", "bytes_moved", "bytes_in")
    }
    assert rows == {
        (number, *key): n for number, of in enumerate(moves, 1) for key, n in of.items()
    }, f"seed {seed}"


def compare_rules(seed, check, first, last, entries, moments, work, topics, excluded, sets):
    expected = []
    for number, batch in enumerate(entries, 1):
        expected += [
            (rule, number, key, None, broker) for rule, key, broker in
            twin.broken_rules(first, batch, topics, excluded, sets)
        ]
        start, meanwhile = moments[2 * number - 2], moments[2 * number - 1]
        over = [first.shares(totals, work, NORMAL_LIMITS) for totals in (start, meanwhile)]
        expected += [
            ("disk_limit_meanwhile", number, None, "disk", broker)
            for (broker, name), share in over[1].items()
            if name == "disk" and share > 1 >= over[0][broker, name]
        ]
    expected += [
        (rule, None, None, resource, broker) for rule, resource, broker in
        twin.broken_limits(last, moments[-1], work, NORMAL_LIMITS)
    ]
    rows = check.broken_rules.to_pylist()
    assert sorted(map(repr, expected)) == sorted(
        repr((r["rule"], r["batch"], None if r["topic"] is None else (r["topic"], r["partition"]),
              r["resource"], r["broker_id"])) for r in rows
    ), f"seed {seed}"
    before = {
        (rule, resource, broker) for rule, resource, broker in
        twin.broken_limits(first, moments[0], work, NORMAL_LIMITS)
    }
    for row in rows:
        expected_before = (row["rule"], row["resource"], row["broker_id"]) in before
        assert row["broken_before"] == expected_before, f"seed {seed}"
    return expected


def compare_objective(seed, check, first, last, work, entries, moves, broken):
    racks = {}
    for broker in first.up:
        if first.racks[broker] is not None:
            racks.setdefault(first.racks[broker], []).append(broker)
    failures = [[broker] for broker in first.up] + [*racks.values()]
    before, after = (
        twin.objective(*measured, NORMAL_LIMITS, FAILED_LIMITS, failures)
        for measured in ((first, work), last.measured_now(work))
    )
    of_entries = sum(key is not None and rule != "racks" for rule, _, key, _, _ in broken)
    bytes_moved = sum(n for of in moves for key, n in of.items() if key[2] == "bytes_moved")
    n_entries = sum(map(len, entries))
    assert check.objective_before == (*before, 0, 0), f"seed {seed}"
    assert check.objective_after == (
        after[0] + of_entries, *after[1:], bytes_moved, n_entries
    ), f"seed {seed}"


def test_a_check_is_what_plain_python_makes_of_the_plan():
    """Before, at the worst moment and after; moves, rules and the objective of every failure."""
    rules = set().union(*(compare(seed) for seed in range(60)))
    assert rules == set(HARD_RULES)
