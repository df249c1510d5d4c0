"""Disks of brokers with several directories: the fullest, if it is known where replicas lie."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from random import Random

import kfast
from kfast.capacity.failures.broker_disks import BrokerDisks, DiskSums
from tests.capacity.test_partition_loads import BROKERS, cluster, loads

DIRECTORIES = ("/a", "/b", "/c")
MB = 1 << 20


def random_case(generator):
    """Replicas of topics, the directory (None: not known) and MB of each, and MB of directories."""
    unknown = generator.choice([0, 0, 0.05, 0.3])
    placed = {f"t{at}": generator.sample(BROKERS, generator.randint(1, 4))
              for at in range(generator.randint(1, 15))}
    replicas = {
        (topic, broker): (
            None if generator.random() < unknown else generator.choice(DIRECTORIES),
            generator.randint(0, 100),
        )
        for topic, brokers in placed.items() for broker in brokers
    }
    sizes = {
        broker: {name: generator.randint(1, 500)
                 for name in generator.sample(DIRECTORIES, generator.choice([1, 2, 3, 3, 3]))}
        for broker in BROKERS
    }
    return placed, replicas, sizes


def prepare(placed, replicas, sizes):
    """The product's state and plan."""
    state = cluster([(topic, 0, brokers, brokers[0]) for topic, brokers in placed.items()])
    load = kfast.partition_load(state, loads(*(
        {"topic": topic, "partition": 0, "broker_id": broker, "disk_bytes": size * MB,
         "log_dir": name}
        for (topic, broker), (name, size) in replicas.items()
    )))
    entries = [
        {"brokerId": str(broker), "capacity": {
            "DISK": {name: str(size) for name, size in of.items()}, "CPU": "100", "NW_IN": "9",
            "NW_OUT": "9"}}
        for broker, of in sizes.items()
    ]
    capacity = kfast.broker_capacity(state, kfast.read_capacity(
        ("jbod", json.dumps({"brokerCapacities": entries}).encode())))
    return state, load, capacity, kfast.prepare_capacity(state, load, capacity)


def expected_disks(replicas, sizes):
    """Of each broker MB used and MB of its fullest directory; brokers apart, and together."""
    disks, apart, together = {}, [], []
    for broker, of in sizes.items():
        used = [(name, size) for (_, at), (name, size) in replicas.items() if at == broker]
        total = sum(size for _, size in used)
        if len(of) == 1 or any(name not in of for name, _ in used):
            disks[broker] = total, sum(of.values()), total
            if len(of) > 1:
                together.append(broker)
            continue
        apart.append(broker)
        shares = [(Fraction(sum(size for at, size in used if at == name), of[name]), name)
                  for name in of]
        share, name = max(shares, key=lambda each: each[0])
        disks[broker] = share * of[name], of[name], total
    return disks, apart, together


def test_the_fullest_directory_is_a_brokers_disk():
    """Where the directory of a replica is not known, or has no capacity, the sum is, and is said.

    Random clusters: every failure's fullest disk, brokers over the limit, and the assumptions.
    """
    seen = [0, 0]
    for seed in range(150):
        placed, replicas, sizes = random_case(Random(seed))
        state, _, _, plan = prepare(placed, replicas, sizes)
        disks, apart, together = expected_disks(replicas, sizes)
        assert plan.disks.total_bytes.tolist() == [disks[b][2] * MB for b in BROKERS]
        scenarios = kfast.every_broker(state, 2)
        for number, row in enumerate(kfast.capacity_sweep(plan, scenarios).to_pylist()):
            shares = {b: Fraction(disks[b][0], disks[b][1]) for b in BROKERS
                      if b not in scenarios.brokers(number)}
            assert row["disk_max"] == float(max(shares.values())), f"seed {seed}"
            assert row["disk_broker"] == min(b for b in shares if shares[b] == max(shares.values()))
            assert row["over_limit_disk"] == sum(share > Fraction(8, 10)
                                                 for share in shares.values())
        assert [line.split(":")[0] for line in plan.disks.assumptions] == [
            f"disk of broker {', '.join(map(str, brokers))}"
            for brokers in (apart, together) if brokers
        ]
        seen[0] += len(apart)
        seen[1] += len(together)
    assert min(seen) > 50


def test_disks_of_parts_add_up():
    """Also where a part has no directories, or a broker no replicas there."""
    for seed in range(60):
        generator = Random(seed)
        placed, replicas, sizes = random_case(generator)
        first = {topic for topic in placed if generator.random() < 0.5}
        parts = []
        for own in (first, placed.keys() - first):
            if own:
                part = {topic: placed[topic] for topic in placed if topic in own}
                state, load, capacity, _ = prepare(
                    part, {key: value for key, value in replicas.items() if key[0] in own}, sizes
                )
                if generator.random() < 0.2:
                    load = replace(load, replica_log_dir=None)
                    replicas |= {
                        key: (None, size) for key, (_, size) in replicas.items() if key[0] in own
                    }
                parts.append(DiskSums.of(state, load, capacity))
        state, load, capacity, _ = prepare(placed, replicas, sizes)
        if not any(part.has_directories for part in parts):
            load = replace(load, replica_log_dir=None)
        added, whole = (
            repr(BrokerDisks.of(state.broker_id, sums, capacity))
            for sums in (DiskSums.add(parts), DiskSums.of(state, load, capacity))
        )
        assert added == whole, f"seed {seed}"


def test_answers_agree_on_disks():
    """Bytes are those of all directories; shares are those of the fullest."""
    placed = {"x": [1], "y": [1], "z": [2]}
    replicas = {("x", 1): ("/a", 90), ("y", 1): ("/b", 10), ("z", 2): (None, 50)}
    sizes = {broker: {"/a": 100, "/b": 100} for broker in BROKERS}
    state, load, capacity, plan = prepare(placed, replicas, sizes)
    table = kfast.capacity_brokers(plan, kfast.every_broker(state)).to_pylist()
    assert [(row["disk_bytes"], row["disk_max"]) for row in table[:2]] == [
        (100 * MB, 0.9), (50 * MB, 0.25)]
    first, second = plan.disks.assumptions
    assert first == "disk of broker 1, 5, 9: the fullest of several directories"
    assert second == (
        "disk of broker 2: several directories together, for it is not known in which of them each "
        "replica lies; one may be full before"
    )
    check = kfast.check_plan(state, {("z", 0): [5]}, load, capacity)
    for of_plan in (check.before, check.after):
        assert (of_plan.disks.used_bytes == of_plan.disks.total_bytes).all()
