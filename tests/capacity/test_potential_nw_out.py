"""What brokers would send if they led all that they hold: a bound of what any failure gives."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np

import kfast
from tests.capacity.test_partition_loads import BROKERS, cluster, loads


def random_case(generator):
    """A cluster with all replicas in sync, its loads and capacities; replicas, bytes in and out."""
    partitions = [
        (generator.sample(BROKERS, generator.randint(1, 4)), generator.randint(0, 10**6),
         generator.randint(0, 10**6))
        for _ in range(generator.randint(1, 12))
    ]
    state = cluster([(f"t{at}", 0, replicas, replicas[0])
                     for at, (replicas, _, _) in enumerate(partitions)])
    load = kfast.partition_load(state, loads(*(
        {"topic": f"t{at}", "partition": 0, "bytes_in": into, "bytes_out": out}
        for at, (_, into, out) in enumerate(partitions)
    )))
    return state, load, partitions


def test_no_failure_makes_a_broker_send_more_than_if_it_led_all_that_it_holds():
    """Every set of failed brokers; where a broker is alone in the end it leads all of its own."""
    capacity = kfast.read_capacity(("c", b"broker_id,nw_out\n-1,1000\n"))
    for seed in range(30):
        state, load, partitions = random_case(Random(seed))
        potential = kfast.potential_nw_out(state, load).tolist()
        assert potential == [
            sum(out + into * (len(replicas) - 1)
                for replicas, into, out in partitions if broker in replicas)
            for broker in BROKERS
        ]
        plan = kfast.prepare_capacity(state, load, kfast.broker_capacity(state, capacity))
        sent = np.concatenate([
            plan.broker_loads(np.array([0, size]), np.array(down, np.int32))[:, :, 1]
            for size in range(len(BROKERS)) for down in combinations(range(len(BROKERS)), size)
        ])
        assert (sent <= potential).all()
        for at, broker in enumerate(BROKERS):
            alone = plan.broker_loads(
                np.array([0, 3]), np.array([b for b in range(4) if b != at], np.int32))
            assert alone[0, at, 1] == sum(out for replicas, _, out in partitions
                                          if broker in replicas)
