"""Growing loads and forecasts beside their twins in plain Python."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

import kfast
from kfast.capacity.failures.broker_disks import disk_by_broker
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.capacity.planning import load_growth
from kfast.capacity.planning.load_growth import multiplied, parse_growth
from kfast.errors import ArgumentError, InputError
from kfast.state.metadata_records import ResourceType
from tests.capacity.test_capacity_sweep import prepare, random_capacities, random_loads
from tests.support import reference_growth as twin
from tests.support.capacity_reference import left_by_zk


def cluster(seed, controller="zk-3.9"):
    return kfast.generate(
        brokers=6, partitions=40, topics=5, racks=3, seed=seed, controller=controller
    )


def inputs(seed, state):
    """Loads and capacities of a cluster, as the product and the twin take them."""
    generator = Random(seed)
    plan = kfast.prepare_sweep(state)
    columns = random_loads(generator, state.n_partitions)
    columns = [column // 100 for column in columns]
    held = random_capacities(generator, state.broker_id.tolist())
    for own in held.values():
        own |= {"replicas": 0, "replicas_most": []}
    load, _ = prepare(plan, columns, held, None, None)
    return plan, columns, held, load


@pytest.mark.parametrize("seed", range(12))
def test_a_forecast_is_the_twin_month_by_month(seed):
    state = cluster(seed)
    plan, columns, held, load = inputs(seed, state)
    generator = Random(seed)
    rules = [(f"topic-{generator.randrange(5)}", generator.choice(["7.5%", "-3%", "100%/month"]))
             for _ in range(generator.randrange(3))]
    exact = [(regex, parse_growth("growth", text)) for regex, text in rules]
    ups = state.broker_id.tolist()
    topics = [state.topic[row].as_py() for row in state.topic_row.tolist()]
    rates = [twin.rate_of(topic, Fraction(37, 1000), exact) for topic in topics]
    loads = [
        [np.array([twin.grown_rate(int(value), rate, month)
                   for value, rate in zip(column, rates, strict=True)]) for column in columns]
        for month in range(5)
    ]
    scenarios = kfast.every_broker(state, generator.choice([1, 2]))

    def disk_of(month):
        total = dict.fromkeys(ups, 0)
        for row in range(state.n_partitions):
            for broker in state.assignment(row).replicas:
                total[broker] += int(loads[month][2][row])
        return total

    expected = twin.forecast(
        lambda down: left_by_zk(plan.cluster, down, "zk-3.9"),
        [scenarios.brokers(number) for number in range(len(scenarios))], loads, ups, held,
        disk_of, {False: NORMAL_LIMITS, True: FAILED_LIMITS}, (14, 3, 3),
    )
    capacity = kfast.broker_capacity(state, table_of(held))
    forecast = kfast.capacity_forecast(
        state, load, capacity, scenarios, growth="3.7%/month", topic_growth=rules, months=4,
    )
    assert forecast.months.to_pylist() == expected
    for name, first in forecast.first_month_over_limit.items():
        over = [row["month"] for row in expected if row["resource"] == name and row["over_limit"]]
        assert first == min(over, default=None)


def table_of(held):
    """A capacity table of the twin's capacities."""
    names = {"nw_in": "nw_in", "nw_out": "nw_out", "disk": "disk_bytes", "cpu": "cpu_microcores"}
    lines = [f"broker_id,{','.join(names.values())}"]
    lines += [",".join(map(str, [broker, *(own[name] or "" for name in names)]))
              for broker, own in held.items()]
    return kfast.read_capacity(("held.csv", "\n".join(lines).encode()))


def test_sizes_stay_where_retention_bytes_holds_them():
    """By topic: time alone, bytes that hold now, later, after shrinking, never, and compacted."""
    state = cluster(3, "kraft-4.1")
    settings = [
        {}, {"retention.bytes": "5000"}, {"retention.bytes": "1500000", "retention.ms": "86400000"},
        {"retention.bytes": "5000", "retention.ms": "-1"},
        {"retention.bytes": "5000", "cleanup.policy": "compact"},
    ]
    for topic, own in zip(state.topic.to_pylist(), settings, strict=True):
        state.quorum.configurations[ResourceType.TOPIC, topic] = own
    limits = [(-1, -1), (604_800_000, 5000), (86_400_000, 1_500_000), (-1, 5000), (-1, -1)]
    generator = np.random.default_rng(8)
    n = state.n_partitions
    bytes_in = generator.integers(0, 30, n)
    size = generator.integers(0, 10**7, n)
    _, _, _, load = inputs(3, state)
    replicas = np.stack([size, size // 2, size // 3], axis=1)
    load = replace(load, bytes_in=bytes_in, disk_bytes=size, replica_bytes=replicas,
                   cpu_microcores=None)
    for growth, months in (("10%", 7), ("-20%/month", 9), ("0%", 3), ("50%", 2)):
        grown = kfast.grow_load(state, load, growth, months)
        rate = parse_growth("growth", growth)
        for row in range(n):
            own = limits[int(state.topic_row[row])]
            expected = [
                twin.grown_size(int(value), int(bytes_in[row]), rate, months, *own)
                for value in (size[row], *replicas[row])
            ]
            assert [grown.disk_bytes[row], *grown.replica_bytes[row]] == expected, (growth, row)
        assert grown.bytes_in.tolist() == [
            twin.grown_rate(int(value), rate, months) for value in bytes_in
        ]
    held = kfast.grow_load(state, load, "10%", 7)
    bound = state.topic_row == 3
    assert (held.disk_bytes[bound] == size[bound]).all()
    assert (held.disk_bytes != size).any()


def test_products_are_rounded_half_to_even_once():
    """Exactly, also where a float could not tell."""
    values = np.array([1, 2, 3, 5, 7, 2**49 + 1, 2**50 - 1, 2**52 + 1, 0], np.int64)
    generator = np.random.default_rng(1)
    values = np.concatenate([values, generator.integers(0, 1 << 50, 2000)])
    for factor in (Fraction(1), Fraction(3, 2), Fraction(26, 25) ** 12, Fraction(1, 2),
                   Fraction(10**9 + 1, 10**9), Fraction(1037, 1000) ** 60, Fraction(2, 3)):
        assert multiplied(values, factor).tolist() == [round(int(v) * factor) for v in values]


def test_processors_grow_with_their_work():
    state = cluster(1)
    _, _, _, load = inputs(1, state)
    grown = kfast.grow_load(state, load, "100%", 3)
    used = load.cpu_microcores
    assert (grown.cpu_microcores != used).any()
    same = kfast.grow_load(state, load, "0%", 5)
    assert same.cpu_microcores.tolist() == used.tolist()
    # All bytes are eight times what they were, so that work is too.
    busy = grown.cpu_microcores != used
    assert (grown.cpu_microcores[busy] == 8 * used[busy]).all()


def test_growth_is_said():
    state = cluster(1)
    _, _, _, load = inputs(1, state)
    grown = kfast.grow_load(state, load, "4%/month", 12, topic_growth=[("topic-[12]", "7%")])
    assert grown.assumptions[-1] == (
        "loads are those after 12 months of growth by 4 % a month (3 topics), 7 % a month (2 "
        "topics)"
    )


@pytest.mark.parametrize("text", ["4", "4 percent", "%", "-100%", "1001%", "4%/year", "nan%", ""])
def test_growth_that_is_none_is_refused(text):
    with pytest.raises(ArgumentError, match="growth is "):
        parse_growth("growth", text)


def test_growth_of_topics_is_read(tmp_path):
    rules = kfast.read_growth(("g.csv", b"topic,growth\norders.*,4%/month\n\nlog,-2%\n"))
    assert rules == (("orders.*", "4%/month"), ("log", "-2%"))
    for text, message in (
        (b"topic,g\na,4%\n", "line 1: found .*topic,growth"),
        (b"topic,growth\na,4%,5\n", "line 2: found 3 values"),
        (b"topic,growth\na,four\n", "line 2: growth is 'four'"),
        (b"topic,growth\na,4%\n(,4%\n", r"line 3: topic: '\(' is not a regular expression"),
        (b"topic,growth\n", "has no topic"),
    ):
        with pytest.raises(InputError, match=message):
            kfast.read_growth(("g.csv", text))


def test_what_grows_too_large_is_refused():
    state = cluster(1)
    _, _, _, load = inputs(1, state)
    with pytest.raises(InputError, match=r"^after 120 months: partition topic-\d-\d+: bytes_in"):
        kfast.grow_load(state, load, "900%", 120)
    with pytest.raises(ArgumentError, match="months"):
        kfast.grow_load(state, load, "4%", load_growth.MOST_MONTHS + 1)
    with pytest.raises(ArgumentError, match="no topic"):
        kfast.grow_load(state, load, "4%", 1, topic_growth=[("nothing", "4%")])
    with pytest.raises(ArgumentError, match=re.escape("topic_growth has 'ab'")):
        kfast.grow_load(state, load, "4%", 1, topic_growth=["ab"])


def test_a_forecast_refuses_scenarios_of_another_cluster():
    state = cluster(1)
    _, _, held, load = inputs(1, state)
    other = kfast.every_broker(kfast.generate(brokers=3, partitions=4))
    capacity = kfast.broker_capacity(state, table_of(held))
    with pytest.raises(ArgumentError, match="other brokers"):
        kfast.capacity_forecast(state, load, capacity, other, growth="1%")


def test_disk_of_a_month_is_that_of_all_replicas():
    """The product's sum over replicas of grown sizes, as the twin has it."""
    state = cluster(2)
    _, columns, _, load = inputs(2, state)
    grown = kfast.grow_load(state, load, "3%", 2)
    total = sum(twin.grown_rate(int(size), Fraction(3, 100), 2) * 3 for size in columns[2])
    assert int(disk_by_broker(state, grown).sum()) == total
