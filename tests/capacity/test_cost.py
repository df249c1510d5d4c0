"""Costs of a month beside their twin, and worked by hand."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random

import numpy as np
import pytest

import kfast
from kfast.capacity.loads.client_racks import FETCH_FROM
from kfast.errors import ArgumentError, InputError
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import starts
from tests.capacity.test_capacity_sweep import prepare, random_capacities, random_loads
from tests.support.capacity_reference import left_by_zk
from tests.support.reference_costs import SECONDS, cents, cross_rack

CROSS = ("cross-rack producers", "cross-rack replication", "cross-rack consumers")


def with_racks(state, racks):
    """The cluster with a rack for each broker."""
    tables = state.to_tables()
    at = tables.brokers.column_names.index("rack")
    brokers = tables.brokers.set_column(at, tables.brokers.schema.field("rack"), [racks])
    return kfast.ClusterState.from_tables(
        brokers, tables.topics, tables.partitions, tables.cluster
    )


def capacity_of(state, disk=10**12, classes=("large",)):
    """Capacities of disk, and classes in turn."""
    lines = ["broker_id,disk_bytes,class"]
    lines += [f"{broker},{disk + at},{classes[at % len(classes)]}"
              for at, broker in enumerate(state.broker_id.tolist())]
    table = kfast.read_capacity(("capacity.csv", "\n".join(lines).encode()))
    return kfast.broker_capacity(state, table)


def shares_of(generator, racks):
    """Shares of all racks, or of some, as texts."""
    parts = [generator.randrange(5) for _ in racks]
    parts[generator.randrange(len(racks))] += 1
    return {rack: f"{part}/{sum(parts)}" for rack, part in zip(racks, parts, strict=True)}


def compare(seed):
    """One random cluster; whether its controller could start."""
    generator = Random(seed)
    state = random_cluster(seed, "narrow", "zk-3.9")[1]
    if not starts(state, "zk-3.9"):
        return False
    ids = state.broker_id.tolist()
    racks = [generator.choice("abc") for _ in ids]
    state = with_racks(state, racks)
    plan = kfast.prepare_sweep(state)
    loads = random_loads(generator, state.n_partitions)
    load, _ = prepare(plan, loads, random_capacities(generator, ids), None, None)
    names = sorted(set(racks))
    producers, consumers = (generator.choice([None, shares_of(generator, names)]) for _ in "pc")
    equal = dict.fromkeys(names, f"1/{len(names)}")
    nearest = generator.random() < 0.5

    def in_sync(row):
        return plan.cluster.leadership(row).isr

    expected = cross_rack(
        left_by_zk(plan.cluster, [], "zk-3.9"), in_sync, loads, dict(zip(ids, racks, strict=True)),
        *({rack: Fraction(text) for rack, text in (shares or equal).items()}
          for shares in (producers, consumers)), nearest,
    )
    cost = kfast.capacity_cost(
        state, load, capacity_of(state, classes=("large", "old")),
        class_prices={"large": "512.345", "old": "77", "unused": "1"}, disk_gb_month="0.08",
        cross_rack_gb="0.010000001", producer_racks=producers, consumer_racks=consumers,
        fetch_from=FETCH_FROM[nearest],
    )
    n = len(ids)
    disk = n * 10**12 + sum(range(n))
    exact = [(n - n // 2) * Fraction("512.345"), *([Fraction(77 * (n // 2))] if n > 1 else []),
             disk * Fraction("0.08") / 10**9]
    exact += [rate * SECONDS / 10**9 * Fraction("0.010000001") for rate in expected.values()]
    rows = cost.items.to_pylist()
    assert [int(row["cost"] * 100) for row in rows] == [cents(amount) for amount in exact], seed
    assert int(cost.total * 100) == cents(sum(exact))
    assert [row["quantity"] for row in rows if row["unit"] == "B/s"] == [
        round(rate) for rate in expected.values()]
    return True


def test_costs_are_the_twin_partition_by_partition():
    """Dead brokers, partial ISRs, racks of any size; shares, and where consumers fetch."""
    assert sum(compare(seed) for seed in range(60)) > 40


def example(racks=("a", "b", "c", "a"), classes=("large",)):
    """Three partitions on four brokers in three racks."""
    import pyarrow as pa

    state = kfast.ClusterState.from_tables(
        pa.table({"broker_id": pa.array([1, 2, 3, 4], pa.int32()),
                  "rack": pa.array(racks, pa.string())}),
        None,
        pa.table({
            "topic": pa.array(["pay", "pay", "log"]).dictionary_encode(),
            "partition": pa.array([0, 1, 0], pa.int32()),
            "replicas": pa.array([[1, 2, 3], [2, 3, 4], [3, 1]], pa.list_(pa.int32())),
            "isr": pa.array([[1, 2, 3], [2, 3, 4], [3, 1]], pa.list_(pa.int32())),
            "leader": pa.array([1, 2, 3], pa.int32()),
        }), pa.table({"controller": ["kraft-4.1"]}),
    )
    rows = "topic,partition,bytes_in,bytes_out\npay,0,100000,300000\npay,1,60000,60000\n"
    load = kfast.partition_load(state, kfast.read_load(
        ("loads.csv", f"{rows}log,0,200000,0\n".encode()), window="mean"))
    return state, load, capacity_of(state, classes=classes)


def test_a_month_worked_by_hand():
    """4 brokers at 100, 4 TB and 6 bytes at 0.05 a GB, and what crosses racks.

    Producers: 360 kB/s * 2/3 = 240 kB/s. Replication: pay-0 from a to b and c, 200; pay-1 from b
    to c and a, 120; log-0 from c to a, 200: 520 kB/s. Consumers of 300 + 60 kB/s: 240 kB/s. A
    month of 2 629 800 s: 631.152, 1367.496 and 631.152 GB, at 0.02.
    """
    state, load, capacity = example()
    cost = kfast.capacity_cost(
        state, load, capacity, class_prices={"large": "100"}, disk_gb_month="0.05",
        cross_rack_gb="0.02",
    )
    rows = cost.items.to_pylist()
    assert [str(row["cost"]) for row in rows] == ["400.00", "200.00", "12.62", "27.35", "12.62"]
    assert [row["quantity"] for row in rows[2:]] == [240_000, 520_000, 240_000]
    assert cost.total == Decimal("652.60")
    near = kfast.capacity_cost(
        state, load, capacity, class_prices={"large": "100"}, cross_rack_gb="0.02",
        fetch_from="nearest", producer_racks={"a": "1"},
    )
    # Both topics with consumers have a replica in every rack; producers in a reach pay-0 there.
    assert [row["quantity"] for row in near.items.to_pylist()[2:]] == [260_000, 520_000, 0]
    assert [row["cost"] for row in near.items.to_pylist()][1] is None


def test_without_racks_nothing_crosses_them():
    state, load, capacity = example(racks=("a", "b", "c", None))
    cost = kfast.capacity_cost(state, load, capacity, class_prices={"large": "100"})
    assert cost.items["item"].to_pylist() == ["brokers", "disk"]
    assert cost.total == 400
    assert cost.assumptions == ("bytes between racks are left out: a broker has no rack",)
    with pytest.raises(InputError, match="cross_rack_gb: a broker has no rack"):
        kfast.capacity_cost(state, load, capacity, class_prices={"large": "1"}, cross_rack_gb="1")


REFUSED = {
    "the price of class large is '-1'": {"class_prices": {"large": "-1"}},
    "disk_gb_month is '1e3'": {"disk_gb_month": "1e3"},
    "cross_rack_gb is 0.01": {"cross_rack_gb": 0.01},
    "producer_racks: shares add up to 1/2": {"producer_racks": {"a": "1/2"}},
    "producer_racks: no broker is in rack": {"producer_racks": {"z": "1"}},
    "consumer_racks: a is '3/2'": {"consumer_racks": {"a": "3/2"}},
    "fetch_from is 'near'": {"fetch_from": "near"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    state, load, capacity = example()
    arguments = {"class_prices": {"large": "1"}} | REFUSED[message]
    with pytest.raises(ArgumentError, match=message):
        kfast.capacity_cost(state, load, capacity, **arguments)


def test_a_broker_without_a_class_or_disk_is_named():
    state, load, _ = example()
    table = kfast.read_capacity(("capacity.csv", b"broker_id,nw_in,class\n-1,5,\n1,5,large\n"))
    capacity = kfast.broker_capacity(state, table)
    with pytest.raises(InputError, match=r"capacity.csv: broker 2, 3, 4 has no class"):
        kfast.capacity_cost(state, load, capacity, class_prices={"large": "1"})
    table = kfast.read_capacity(("capacity.csv", b"broker_id,nw_in,class\n-1,5,large\n"))
    capacity = kfast.broker_capacity(state, table)
    with pytest.raises(InputError, match=r"capacity.csv: a broker has no disk_bytes"):
        kfast.capacity_cost(
            state, load, capacity, class_prices={"large": "1"}, disk_gb_month="1")


def test_a_class_without_a_price_and_too_much_disk_are_named():
    state, load, capacity = example()
    with pytest.raises(InputError, match=r"class large has no price; right is one for each class"):
        kfast.capacity_cost(state, load, capacity, class_prices={"small": "1"})
    with pytest.raises(InputError, match=r"all disk_bytes together are \d+; right is at most 9223"):
        kfast.capacity_cost(
            state, load, capacity_of(state, disk=2**62), class_prices={"large": "1"})


def test_prices_are_read():
    assert kfast.read_prices(("p.csv", b"class,price_month\nlarge,512.50\n\nold, 400\n")) == {
        "large": "512.50", "old": "400",
    }
    for text, message in (
        (b"class,price\nlarge,5\n", "line 1: found .*class,price_month"),
        (b"class,price_month\nlarge,5 EUR\n", "line 2: price_month is '5 EUR'"),
        (b"class,price_month\nlarge,5\nlarge,6\n", "line 3: class 'large' is empty or listed"),
        (b"class,price_month\n", "has no price"),
    ):
        with pytest.raises(InputError, match=message):
            kfast.read_prices(("p.csv", text))


def test_a_total_is_rounded_once():
    """Three halves of a cent: rounded each, they would be nothing."""
    state, load, capacity = example(classes=("x", "y", "z"))
    cost = kfast.capacity_cost(
        state, load, capacity, class_prices={"x": "0.0025", "y": "0.005", "z": "0.005"}
    )
    assert [str(row["cost"]) for row in cost.items.to_pylist()[:3]] == ["0.00", "0.00", "0.00"]
    assert cost.total == Decimal("0.02")
    assert np.isclose(float(cost.total), 0.02)
