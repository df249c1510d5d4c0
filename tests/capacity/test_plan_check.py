"""The check of a plan against plain Python: random clusters, plans good and bad, rule by rule."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import HARD_RULES, BrokerCapacity, CpuWeights, PartitionLoad
from kfast.capacity.failures.broker_disks import disk_by_broker
from kfast.capacity.failures.broker_totals import broker_totals, replica_sizes
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.controllers import open_events
from tests.analysis.test_impact import random_cluster as random_events_cluster
from tests.analysis.test_sweep import starts
from tests.capacity.test_capacity_sweep import random_loads
from tests.support import cruise_control_reference as goals_twin
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
    throttle = generator.choice([None, generator.randint(1, 4 * 10**9)])
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
        normal_limits={"cpu": 0.7}, throttle=throttle,
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
    for row, start, of in zip(check.batches.to_pylist(), moments[::2], moves, strict=False):
        seconds = twin.copy_time(first, start, of, throttle)
        assert row["seconds_bound"] == (None if seconds is None else float(seconds)), f"seed {seed}"
        assert seconds is None or row["seconds_fair"] >= row["seconds_bound"], f"seed {seed}"
    broken = compare_rules(seed, check, first, placements[-1], entries, moments, work,
                           topics, excluded, sets)
    compare_objective(seed, check, first, placements[-1], work, entries, moves, broken)
    compare_goals(seed, check.goals, (first, placements[-1]), work)
    return {rule for rule, *_ in broken}


def compare_goals(seed, table, placements, work):
    rows = table.to_pylist()
    assert [row["goal"] for row in rows] == goals_twin.ORDER
    assert [row["hard"] for row in rows] == [at < goals_twin.N_HARD for at in range(len(rows))]
    for when, placement in zip(("before", "after"), placements, strict=True):
        distances = goals_twin.goals(placement, work)
        for row in rows:
            where, expected = f"seed {seed}: {row['goal']} {when}", (None, None, None)
            if (of := distances[row["goal"]]) is not None:
                n = sum(distance > 0 for distance in of)
                expected = n, math.ceil(max(of, default=0) * 1_000_000), n == 0
            found = tuple(row[f"{name}_{when}"] for name in ("broken", "worst", "satisfied"))
            assert found == expected, where


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
    rules = set().union(*(compare(seed) for seed in range(30)))
    assert rules == set(HARD_RULES)


def test_plain_sums_are_those_of_a_sweep_without_a_failure():
    """On clusters with odd ISRs, dead directories, reassignments under way and queued topics."""
    n_compared = 0
    for seed in range(40):
        generator = Random(seed)
        state = random_events_cluster(seed, generator.choice(["narrow", "wide"]), "zk-3.9")[1]
        if not starts(state):
            continue
        n_compared += 1
        load = load_of(state, random_loads(generator, state.n_partitions))
        held = {broker: dict.fromkeys(RESOURCES, 1) for broker in state.broker_id.tolist()}
        sweep = kfast.prepare_sweep(state)
        plan = kfast.prepare_capacity(sweep, load, capacity_of(state, held))
        uses = plan.broker_loads(np.zeros(2, np.int64), np.zeros(0, np.int32))[0]
        started = sweep.cluster
        totals = broker_totals(started, load, replica_sizes(started, load), CpuWeights())
        assert np.array_equal(totals[:, :2], uses[:, :2]), f"seed {seed}"
        assert np.array_equal(totals[:, 3], disk_by_broker(started, load)), f"seed {seed}"
        assert np.array_equal(totals[:, 5], plan.replicas), f"seed {seed}"
    assert n_compared > 25


@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 30), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_search_for_better_placements_and_the_check_agree(seeds):
    """What a search says of its plan, the check finds: the worst share and the bytes that move."""
    n_plans = 0
    for seed in seeds:
        generator = Random(seed)
        state = random_cluster(generator)
        loads = random_loads(generator, state.n_partitions)
        load = load_of(state, loads)
        capacity = capacity_of(state, random_capacity(generator, state, loads))
        better = kfast.improve_placement(state, load, capacity, seed=seed)
        if not better.plan.num_rows:
            continue
        n_plans += 1
        check = kfast.check_plan(
            state, better.plan, load, capacity, scenarios=kfast.every_broker(state)
        )
        share = min(math.ceil(better.after.share * 1_000_000), 2**63 - 1)
        assert check.objective_after[1] == share, f"seed {seed}"
        assert check.summary["bytes_moved"] == better.bytes_moved, f"seed {seed}"
        assert check.summary["refused"] == 0, f"seed {seed}"
    assert n_plans > len(seeds) / 2


# --- rule by rule, by hand -----------------------------------------------------------------------

DESCRIBE = b"""\
Topic: pay\tPartitionCount: 1\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: pay\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
Topic: log\tPartitionCount: 2\tReplicationFactor: 2\tConfigs:
\tTopic: log\tPartition: 0\tLeader: 4\tReplicas: 4,5\tIsr: 4,5
\tTopic: log\tPartition: 1\tLeader: 5\tReplicas: 5,7\tIsr: 5
"""
RACKS = b"broker_id,rack\n1,a\n2,b\n3,c\n4,a\n5,a\n6,b\n7,c\n"
LOADS = b"""\
topic,partition,bytes_in,bytes_out,disk_bytes
pay,0,100,300,1000
log,0,60,60,400
log,1,0,0,10
"""
CAPACITIES = b"broker_id,nw_in,nw_out,disk_bytes,replicas_max\n-1,1000,1000,10000,4\n"


def check_by_hand(plan, capacities=CAPACITIES, **options):
    """Seven brokers, of which 7 is down, in racks a, b and c."""
    state = kfast.read(("describe.txt", DESCRIBE), brokers_file=("brokers.csv", RACKS))
    load = kfast.partition_load(state, kfast.read_load(("loads.csv", LOADS), window="p95"))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", capacities)))
    return kfast.check_plan(state, plan, load, capacity, **options)


def test_a_plan_that_keeps_all_rules_is_good():
    """pay-0 goes from broker 3 to nobody's harm: 1000 bytes from its leader."""
    check = check_by_hand({("log", 0): [4, 6]})
    assert check.reasons == {}
    assert check.moves.to_pylist() == [{
        "batch": 1, "source": 4, "destination": 6, "replicas": 1, "bytes_moved": 400,
        "bytes_in": 60,
    }]
    disks = {row["broker_id"]: [row[f"disk_bytes_{when}"] for when in ("before", "during", "after")]
             for row in check.brokers.to_pylist()}
    assert disks[4] == [400, 400, 400]
    assert disks[5] == [410, 410, 10]
    assert disks[6] == [0, 400, 400]
    sent = next(row for row in check.brokers.to_pylist() if row["broker_id"] == 4)
    assert [sent[f"bytes_out_{when}"] for when in ("before", "during", "after")] == [120, 180, 120]


BROKEN = {  # rule: a plan that breaks it, options, and the row
    "replication_factor": ({("pay", 0): [1, 2]}, {}, ("pay", None, "2", "3")),
    "broker_twice": ({("pay", 0): [1, 2, 2]}, {}, ("pay", 2, "2 times", "once")),
    "broker_unknown": ({("pay", 0): [1, 2, 99]}, {}, ("pay", 99, "unknown", "a broker of the")),
    "broker_down": ({("pay", 0): [1, 2, 7]}, {}, ("pay", 7, "down", "a broker that is up")),
    "broker_excluded": (
        {("log", 0): [4, 6]}, {"excluded_brokers": [6]}, ("log", 6, "excluded", "another broker")),
    "topic_excluded": (
        {("log", 0): [4, 6]}, {"excluded_topics": ["l.g"]}, ("log", None, "4,6", "4,5")),
    "broker_set": (
        {("log", 0): [4, 6]}, {"broker_sets": {"blue": [1, 2, 3, 6], "red": [4, 5, 7]}},
        ("log", None, "blue,red", "red")),
    "racks": ({("pay", 0): [1, 2, 6]}, {}, ("pay", None, "2", "3")),
    "limit": (
        {("log", 0): [4, 2]},
        {"capacities": CAPACITIES + b"2,1000,1000,1700,\n", "replicas_limit": 9},
        (None, 2, "1400", "1360")),
    "disk_limit_meanwhile": (
        [{("pay", 0): [1, 2, 6]}, {("pay", 0): [1, 2, 3]}],
        {"capacities": CAPACITIES + b"6,1000,1000,1200,\n"}, (None, 6, "1000", "960")),
    "replicas_max": (
        {("log", 0): [4, 2]}, {"capacities": CAPACITIES + b"2,1000,1000,10000,1\n"},
        (None, 2, "2", "1")),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_a_row(rule):
    """And without what breaks it there is none."""
    plan, options, (topic, broker, amount, allowed) = BROKEN[rule]
    check = check_by_hand(plan, **options)
    rows = [row for row in check.broken_rules.to_pylist() if row["rule"] == rule]
    assert [(row["topic"], row["broker_id"], row["amount"]) for row in rows] == [
        (topic, broker, amount)]
    assert rows[0]["allowed"].startswith(allowed)
    assert not rows[0]["broken_before"]
    assert check.reasons["broken_rules"] >= 1
    quiet = check_by_hand({("log", 0): [5, 4]}, **{**options, "excluded_topics": []})
    assert rule not in quiet.broken_rules["rule"].to_pylist()


def test_every_rule_has_its_case():
    assert set(BROKEN) == set(HARD_RULES)


def test_where_racks_are_few_already_no_fewer_is_right():
    """log-0 is in rack a alone: it may stay there, and may leave it."""
    for target in ([5, 4], [1, 4], [4, 2]):
        assert check_by_hand({("log", 0): target}).reasons == {}


def test_a_limit_that_was_broken_before_does_not_speak_against_the_plan():
    tight = CAPACITIES + b"1,100,1000,10000,\n"
    check = check_by_hand({("log", 0): [5, 4]}, tight)
    assert [(row["rule"], row["resource"], row["broken_before"])
            for row in check.broken_rules.to_pylist()] == [("limit", "nw_in", True)]
    assert check.reasons == {}
    assert check.objective_before[0] == check.objective_after[0] > 0


def test_what_kafka_refuses_and_leaves_pending_is_there_with_its_reason():
    check = check_by_hand([
        {("pay", 0): [1, 2, 99]}, {("nobody", 0): [1]}, {("log", 1): [6, 7], ("log", 0): [5, 4]},
    ])
    rows = {(row["batch"], row["topic"]): (row["status"], row["reason"])
            for row in check.partitions.to_pylist()}
    assert rows[1, "pay"][0] == rows[2, "nobody"][0] == "refused"
    assert "99" in rows[1, "pay"][1]
    assert rows[2, "nobody"][1] == "the topic is unknown"
    assert rows[3, "log"][0] == "completed"
    assert check.summary["refused"] == 2


def test_an_order_alone_moves_a_leader_only_by_an_election():
    plan = {("pay", 0): [2, 1, 3]}
    assert check_by_hand(plan).summary["leaders_moved"] == 1
    still = check_by_hand(plan, elect_preferred=False)
    assert still.summary["leaders_moved"] == 0
    assert still.objective_after[3] == still.objective_before[3] + 1


def test_batches_go_from_where_the_one_before_ended():
    """There and back: everything is as before, and twice as much is copied."""
    there, back = {("log", 0): [4, 6]}, {("log", 0): [4, 5]}
    once, both = check_by_hand(there), check_by_hand([there, back])
    assert both.summary["bytes_moved"] == 2 * once.summary["bytes_moved"] == 800
    assert both.objective_after[:5] == both.objective_before[:5]
    assert [row["batch"] for row in both.moves.to_pylist()] == [1, 2]


def test_loads_of_single_replicas_move_with_them():
    """A replica keeps its own size; one that is copied has that of the partition."""
    state = kfast.read(("describe.txt", DESCRIBE), brokers_file=("brokers.csv", RACKS))
    load = kfast.partition_load(state, kfast.read_load(("loads.csv", LOADS), window="p95"))
    own = np.zeros((state.n_partitions, state.n_slots), np.int64)
    sizes = {"pay": [1000, 900, 800], "log": [400, 390]}
    for row, topic in enumerate(state.topic.take(state.topic_row).to_pylist()):
        n = int(state.records["n_replicas"][row])
        own[row, :n] = sizes[topic][:n]
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", CAPACITIES)))
    check = kfast.check_plan(
        state, {("pay", 0): [3, 1, 6]}, replace(load, replica_bytes=own), capacity
    )
    disk = dict(zip(check.brokers["broker_id"].to_pylist(),
                    check.brokers["disk_bytes_after"].to_pylist(), strict=True))
    assert (disk[1], disk[2], disk[3], disk[6]) == (1000, 0, 800, 1000)
    assert np.array_equal(disk_by_broker(check.state, check.load), [*disk.values()])


def test_copies_share_what_networks_leave():
    """400 bytes from 4 to 6: 4 sends 120 of 1000 B/s, 90 % of the rest is free, 60 go with it."""
    batch = check_by_hand({("log", 0): [4, 6]}).batches.to_pylist()[0]
    assert batch["seconds_bound"] == batch["seconds_fair"] == 400 / ((1000 - 120) * 0.9 - 60)
    batch = check_by_hand({("log", 0): [4, 6]}, throttle=80).batches.to_pylist()[0]
    assert batch["seconds_bound"] == 400 / (80 - 60)
    check = check_by_hand({("log", 0): [4, 6]}, throttle=60)
    batch = check.batches.to_pylist()[0]
    assert (batch["seconds_bound"], batch["stuck_brokers"]) == (None, [4, 6])
    assert check.summary["seconds_bound"] is None
    unknown = b"broker_id,disk_bytes\n-1,10000\n"
    batch = check_by_hand({("log", 0): [4, 6]}, unknown).batches.to_pylist()[0]
    assert (batch["seconds_bound"], batch["stuck_brokers"]) == (None, [])


WRONG = {
    "plan is 'plan.json'; right is": lambda: check_by_hand("plan.json"),
    "plan is []": lambda: check_by_hand([]),
    "partition pay-0 is listed twice": lambda: check_by_hand(pa.table({
        "topic": ["pay", "pay"], "partition": pa.array([0, 0], pa.int32()),
        "replicas": pa.array([[1], [2]], pa.list_(pa.int32())),
    })),
    "broker 99": lambda: check_by_hand({}, excluded_brokers=[99]),
    "no topic's whole name matches 'x'": lambda: check_by_hand({}, excluded_topics=["x"]),
    "broker_sets: broker 4 is in []; right is one set": lambda: check_by_hand(
        {}, broker_sets={"blue": [1, 2, 3]}),
    "limits has 'nw'": lambda: check_by_hand({}, normal_limits={"nw": 0.5}),
    "the scenarios are of a cluster with other brokers": lambda: check_by_hand(
        {}, scenarios=kfast.every_broker(kfast.generate(brokers=3, partitions=3))),
    "leader_throttle is 0": lambda: check_by_hand({}, throttle=0),
    "scenarios is of type int": lambda: check_by_hand({}, scenarios=[1]),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_argument_is_refused(message):
    with pytest.raises(kfast.ArgumentError) as caught:
        WRONG[message]()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_of_nothing_changes_nothing():
    check = check_by_hand({})
    assert check.objective_after == check.objective_before
    assert check.reasons == {}
    assert check.moves.num_rows == check.partitions.num_rows == 0


# --- goals of Cruise Control ----------------------------------------------------------------------


def goals_by_name(check):
    return {row["goal"]: row for row in check.goals.to_pylist()}


def test_goals_by_hand():
    """Broker 7 is down: means are over the other six, and its replica is part of them."""
    check = check_by_hand({("log", 0): [4, 2]})
    goals = goals_by_name(check)
    racks = goals["RackAwareGoal"]  # brokers 4 and 5 are in rack a, 2 in rack b
    assert (racks["broken_before"], racks["worst_before"], racks["broken_after"]) == (1, 500_000, 0)
    assert racks["hard"]
    assert racks["satisfied_after"]
    cpu = goals["CpuCapacityGoal"]
    assert cpu["broken_before"] is cpu["satisfied_before"] is cpu["satisfied_after"] is None
    led = goals["LeaderBytesInDistributionGoal"]  # 100 and 60 where 160 / 6 is the mean
    assert (led["unit"], led["broken_after"]) == ("brokers", 2)
    assert led["worst_after"] == math.ceil((100 / (160 / 6 * 1.1) - 1) * 1_000_000)


@pytest.mark.parametrize("counts", [(50, 50, 50), (90, 50, 10), (91, 50, 9), (91, 49, 10)])
def test_replicas_of_a_topic_may_be_40_from_their_mean(counts):
    state = kfast.generate(
        brokers=3, partitions=150, topics=1, replication_factor=1, racks=0, seed=1
    )
    partitions, brokers = partitions_of(state), state.broker_id.tolist()
    targets = [b for b, n in zip(brokers, counts, strict=True) for _ in range(n)]
    check = kfast.check_plan(
        state, {key: [b] for key, b in zip(partitions, targets, strict=True)},
        load_of(state, np.ones((3, 150))), capacity_of(state, {broker: {} for broker in brokers}),
    )
    goal = goals_by_name(check)["TopicReplicaDistributionGoal"]
    over, under = max(counts[0] - 90, 0) / 90, max(10 - counts[2], 0) / 10
    assert goal["satisfied_before"]
    assert goal["satisfied_after"] == (not over and not under)
    assert goal["worst_after"] == math.ceil(max(over, under) * 1_000_000)


@pytest.mark.parametrize("replicas", [10_000, 10_001])
def test_a_broker_may_have_10_000_replicas(replicas):
    state = kfast.generate(
        brokers=1, partitions=replicas, topics=1, replication_factor=1, racks=0, seed=1
    )
    check = kfast.check_plan(
        state, {}, load_of(state, np.ones((3, replicas))),
        capacity_of(state, {state.broker_id[0].item(): {}}),
    )
    goal = goals_by_name(check)["ReplicaCapacityGoal"]
    assert (goal["satisfied_after"], goal["worst_after"]) == (
        (True, 0) if replicas == 10_000 else (False, 100)
    )


def test_goals_of_loads_that_no_source_has_are_unknown():
    """Even where all capacities are known, what is not measured is never within a limit."""
    state = kfast.read(("describe.txt", DESCRIBE), brokers_file=("brokers.csv", RACKS))
    load = kfast.partition_load(
        state, kfast.read_load(("loads.csv", b"topic,partition,disk_bytes\npay,0,1000\n"))
    )
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", CAPACITIES)))
    goals = goals_by_name(kfast.check_plan(state, {}, load, capacity))
    unknown = {name for name, row in goals.items() if row["satisfied_before"] is None}
    assert unknown == {
        name for name in goals
        if name.startswith(("Network", "Cpu", "PotentialNwOut", "LeaderBytesIn"))
    }
    assert goals["DiskCapacityGoal"]["satisfied_before"]
    assert {name for name, row in goals.items() if row["broken_after"] is None} == unknown


@pytest.mark.parametrize(
    ("start", "stop"), [(0, 0), (0, 1), (0, 3), (1, 1), (1, 6), (2, 3), (5, 6)]
)
def test_a_part_of_the_failures_has_the_rows_of_that_part(start, stop):
    state = kfast.read(("describe.txt", DESCRIBE), brokers_file=("brokers.csv", RACKS))
    load = load_of(state, np.ones((3, state.n_partitions)))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", CAPACITIES)))
    failures = kfast.every_broker(state, k=2)
    assert len(failures) >= 6
    part = failures.slice(start, stop)
    check = kfast.check_plan(state, {}, load, capacity, scenarios=part)
    assert sorted(check.failures["brokers"].to_pylist()) == sorted(
        failures.brokers(number) for number in range(max(start, 1), stop)
    )
    sweep = kfast.capacity_sweep(check.after, part)
    assert sorted(check.failures["headroom"].to_pylist()) == sorted(
        row["headroom"] for row in sweep.to_pylist() if row["scenario"]
    )
