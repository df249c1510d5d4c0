"""Consumers that fetch from the nearest replica (KIP-392): who serves them, and what is refused.

Random clusters are compared with the controller in `test_capacity_sweep.py`.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity.loads.client_racks import ConsumerRacks
from kfast.capacity.planning.load_growth import LoadGrowth
from kfast.errors import ArgumentError

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


def cluster(partitions, racks=None, **columns):
    """Partitions of one topic each, by name brokers and ISR; the first broker leads."""
    racks = RACKS if racks is None else racks
    return kfast.ClusterState.from_tables(
        pa.table({
            "broker_id": pa.array(list(racks), pa.int32()),
            "rack": pa.array(list(racks.values()), pa.string()),
        }),
        None,
        pa.table({
            "topic": pa.array(list(partitions)).dictionary_encode(),
            "partition": pa.array([0] * len(partitions), pa.int32()),
            "replicas": pa.array([row[0] for row in partitions.values()], pa.list_(pa.int32())),
            "isr": pa.array([row[1] for row in partitions.values()], pa.list_(pa.int32())),
            "leader": pa.array([row[0][0] for row in partitions.values()], pa.int32()),
            **columns,
        }),
        pa.table({"controller": ["kraft-4.1"]}),
    )


def prepare(state, bytes_in=0, bytes_out=60, **settings):
    """A plan in which every partition carries the same."""
    text = f"topic,bytes_in,bytes_out\n.*,{bytes_in},{bytes_out}\n"
    lines = text.splitlines()[:1] + [
        f"{topic},{bytes_in},{bytes_out}" for topic in state.topic.to_pylist()]
    load = kfast.partition_load(state, kfast.read_load(("load.csv", "\n".join(lines).encode())))
    held = b"broker_id,nw_in,nw_out\n-1,1000,1000\n"
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", held)))
    return kfast.prepare_capacity(state, load, capacity, **{"fetch_from": "nearest", **settings})


def nw_out(plan, failed=()):
    """Bytes out of each broker by id after some have failed, those of 0 left out."""
    rows = np.searchsorted(plan.broker_id, sorted(failed)).astype(np.int32)
    offsets = np.array([0, rows.size], np.int64)
    loads = plan.broker_loads(offsets, rows, "pass")
    assert (plan.broker_loads(offsets, rows, "terms") == loads).all()
    return {broker: used for broker, used in zip(
        plan.broker_id.tolist(), loads[0, :, 1].tolist(), strict=True) if used}


@pytest.mark.parametrize(("failed", "expected"), [
    ([], {2: 20, 3: 20, 5: 20}),        # in each rack one replica, the leader in rack a
    ([3], {2: 20, 4: 20, 5: 20}),       # the next one of rack b in the order of replicas
    ([3, 4], {2: 40, 5: 20}),           # nobody in rack b: the leader
    ([5], {2: 40, 3: 20}),
    ([2], {3: 40, 5: 20}),              # broker 3 leads, and serves racks a and b
    ([2, 3], {4: 40, 5: 20}),
    ([2, 3, 4, 5], {}),
])
def test_consumers_fetch_in_their_rack_or_else_from_the_leader(failed, expected):
    plan = prepare(cluster({"t": ([2, 3, 4, 5], [2, 3, 4, 5])}))
    assert nw_out(plan, failed) == expected


def test_the_leader_comes_before_other_replicas_of_its_rack():
    """Broker 4 leads; broker 3 is in its rack and before it in the order of replicas."""
    state = cluster({"t": ([4, 3, 1], [4, 3, 1])})
    state.replicas[0, :2] = state.replicas[0, [1, 0]]
    assert state.assignment(0).replicas == (3, 4, 1)
    assert nw_out(prepare(state)) == {1: 20, 4: 40}
    assert nw_out(prepare(state), [4]) == {1: 20, 3: 40}


def test_a_replica_out_of_sync_serves_nobody():
    plan = prepare(cluster({"t": ([2, 3, 5], [2, 5])}))
    assert nw_out(plan) == {2: 40, 5: 20}


def test_a_replica_without_a_rack_serves_as_the_leader_alone():
    racks = {**RACKS, 2: None, 5: None}
    plan = prepare(cluster({"t": ([2, 3, 5], [2, 3, 5])}, racks))
    assert nw_out(plan) == {2: 30, 3: 30}
    assert nw_out(plan, [2]) == {3: 60}
    assert nw_out(plan, [2, 3]) == {5: 60}


def test_replication_is_the_leaders_alone():
    plan = prepare(cluster({"t": ([2, 3, 5], [2, 3, 5])}), bytes_in=7)
    assert nw_out(plan) == {2: 20 + 14, 3: 20, 5: 20}
    assert nw_out(plan, [2]) == {3: 40 + 7, 5: 20}


def test_the_order_of_replicas_decides_where_the_order_of_fencing_does():
    """A reassignment that a failure may complete needs a table, whose brokers are ascending."""
    column = {
        "removing": pa.array([[1]], pa.list_(pa.int32())),
        "adding": pa.array([[]], pa.list_(pa.int32())),
    }
    state = cluster({"t": ([5, 4, 3, 1], [5, 4, 3, 1])}, **column)
    assert kfast.prepare_sweep(state).in_sync_places.size > 0
    plan = prepare(state)
    assert nw_out(plan) == {1: 20, 4: 20, 5: 20}
    assert nw_out(plan, [4]) == {1: 20, 3: 20, 5: 20}
    assert nw_out(plan, [5]) == {1: 20, 4: 40}


def test_shares_of_racks_are_dealt_by_the_largest_remainder():
    """Of equal remainders the first rack has more; the parts add up."""
    state = cluster({"t": ([2, 3, 5], [2, 3, 5])})
    plan = prepare(state, bytes_out=100)
    assert nw_out(plan) == {2: 34, 3: 33, 5: 33}
    shares = {"a": "0.25", "b": "0.75"}
    assert nw_out(prepare(state, bytes_out=5, consumer_racks=shares)) == {2: 1, 3: 4}
    assert nw_out(prepare(state, bytes_out=2, consumer_racks=shares)) == {2: 1, 3: 1}
    consumers = ConsumerRacks.of(state, "nearest", {"a": "1/3", "b": "0.1", "c": "17/30"})
    bytes_out = np.array([0, 1, 2, 59, 2**40 - 1, 999_999_999_999], np.int64)
    parts = consumers.deal(bytes_out)
    assert (parts.sum(axis=1) == bytes_out).all()
    for total, dealt in zip(bytes_out.tolist(), parts.tolist(), strict=True):
        exact = [total * share for share in (Fraction(1, 3), Fraction(1, 10), Fraction(17, 30))]
        assert all(abs(part - share) < 1 for part, share in zip(dealt, exact, strict=True))


def test_partitions_are_split_some_at_a_time(monkeypatch):
    """As those of a large cluster with many racks; the bytes are the same."""
    state = kfast.generate(brokers=9, partitions=200, topics=3, racks=3, seed=5)
    pairs = kfast.every_broker(state, 2)
    expected = kfast.capacity_sweep(prepare(state, bytes_out=10**6 + 1), pairs)
    monkeypatch.setattr("kfast.capacity.failures.nearest_replicas.DEALT_AT_A_TIME", 20)
    plan = prepare(state, bytes_out=10**6 + 1)
    assert kfast.capacity_sweep(plan, pairs, method="terms") == expected


def test_what_nobody_asks_for_costs_nothing():
    """Consumers that fetch from the leader: no row is split, no array copied."""
    rows = prepare(cluster({"t": ([2, 3], [2, 3])}), fetch_from="leader").rows
    assert rows.split_effects is rows.effects
    assert rows.split_load is rows.load


def test_a_failure_says_who_serves_which_consumers_instead():
    plan = prepare(cluster({"t": ([2, 3, 4, 5], [2, 3, 4, 5])}), bytes_in=7)
    row = {"topic": "t", "partition": 0, "cpu_microcores": None}
    assert kfast.capacity_of(plan, [3]).explain(4).to_pylist() == [
        {**row, "failed_broker": 3, "reason": "serves", "bytes_in": 0, "bytes_out": 20},
    ]
    failure = kfast.capacity_of(plan, [2])
    assert [(part["reason"], part["bytes_out"]) for part in failure.explain(3).to_pylist()] == [
        ("leads", 34),
    ]
    assert failure.topics.to_pylist() == [{
        "topic": "t", "from_broker": 2, "to_broker": 3, "partitions": 1, "bytes_in": 7,
        "bytes_out": 60,
    }]
    # Broker 4 served rack b while broker 2 led; now that broker 3 leads there, it serves no more.
    moved = prepare(cluster({"t": ([2, 4, 5], [2, 4, 5])}))
    assert kfast.capacity_of(moved, [2, 5]).explain(4).to_pylist() == [
        {**row, "failed_broker": 2, "reason": "leads", "bytes_in": 0, "bytes_out": 20},
        {**row, "failed_broker": 5, "reason": "serves", "bytes_in": 0, "bytes_out": 20},
    ]


def test_all_answers_of_a_plan_are_about_the_same_bytes():
    """Statistics, one failure, restoration, and a plan that was sent elsewhere."""
    state = kfast.generate(brokers=9, partitions=200, topics=3, racks=3, seed=5)
    plan = prepare(state, bytes_in=100, bytes_out=10**6)
    singles = kfast.every_broker(state)
    table = kfast.capacity_sweep(plan, singles)
    assert kfast.capacity_sweep(pickle.loads(pickle.dumps(plan)), singles) == table
    loads = plan.broker_loads(*singles.down(0, len(singles)))
    most = kfast.capacity_brokers(plan, singles)["bytes_out_most"].to_pylist()
    assert most == loads[:, :, 1].max(axis=0).tolist()
    failure = kfast.capacity_of(plan, [3])
    assert failure.brokers["bytes_out_after"].to_pylist() == [
        None if broker == 3 else used
        for broker, used in zip(state.broker_id.tolist(), loads[4, :, 1].tolist(), strict=True)]


def test_processors_grow_with_what_brokers_serve():
    """Broker 3 serves rack b of t, a third, and leads u: 20 + 60 become 40 + 60."""
    state = cluster({"t": ([2, 3], [2, 3]), "u": ([3], [3])})
    rows = b"topic,bytes_in,bytes_out\nt,0,60\nu,0,60\n"
    load = kfast.partition_load(state, kfast.read_load(("load.csv", rows)))
    load = replace(load, cpu_microcores=np.full(5, 8_000, np.int64))
    grown = {
        fetch_from: LoadGrowth(
            state, load, "0%", [("t", "100%")], None, None,
            ConsumerRacks.of(state, fetch_from, None),
        ).after(1).cpu_microcores.tolist()
        for fetch_from in ("nearest", "leader")
    }
    assert grown["nearest"] == [8_000, 16_000, 10_000, 8_000, 8_000]
    assert grown["leader"] == [8_000, 16_000, 8_000, 8_000, 8_000]
    capacity = kfast.broker_capacity(
        state, kfast.read_capacity(("capacity.csv", b"broker_id,cores\n-1,1\n")))
    forecast = kfast.capacity_forecast(
        state, load, capacity, kfast.every_broker(state), growth="0%",
        topic_growth=[("t", "100%")], months=1, fetch_from="nearest",
    )
    shares = [row["normal"] for row in forecast.months.to_pylist() if row["resource"] == "cpu"]
    assert shares == [0.008, 0.016]


def test_brokers_send_as_much_together_as_leaders_would_alone():
    """After every failure of up to two brokers; and they receive the same."""
    state = kfast.generate(brokers=9, partitions=200, topics=3, racks=3, seed=5)
    state.records["isr"][::3] = 3
    pairs = kfast.every_broker(state, 2)
    nearest, leader = (
        prepare(state, bytes_in=100, bytes_out=10**6 + 1, fetch_from=fetch_from).broker_loads(
            *pairs.down(0, len(pairs))) for fetch_from in ("nearest", "leader")
    )
    assert (nearest[:, :, 1].sum(axis=1) == leader[:, :, 1].sum(axis=1)).all()
    assert (nearest[:, :, 0] == leader[:, :, 0]).all()
    assert (nearest[0, :, 1] != leader[0, :, 1]).any()


def test_a_leader_that_serves_fewer_consumers_restores_faster():
    state = cluster({"t": ([2, 3, 5], [2, 3, 5])})
    settings = kfast.Restoration("return", down_for_seconds=600)
    nearest, leader = (
        kfast.restoration(
            prepare(state, bytes_in=7, fetch_from=fetch_from), kfast.every_broker(state), settings
        )["restore_seconds_bound"].to_pylist()[5] for fetch_from in ("nearest", "leader")
    )
    # What the leader may send less, 40 to consumers and 7 to broker 3; or 60 and 7.
    assert nearest == pytest.approx(7 * 600 / (0.9 * (1000 - 47) - 7), rel=1e-2)
    assert leader == pytest.approx(7 * 600 / (0.9 * (1000 - 67) - 7), rel=1e-2)
    assert nearest < leader


@pytest.mark.parametrize(("settings", "message"), [
    ({"fetch_from": "follower"}, "fetch_from is 'follower'; allowed are leader, nearest"),
    ({"fetch_from": "leader", "consumer_racks": {"a": "1"}},
     "consumer_racks goes with fetch_from 'nearest'"),
    ({"consumer_racks": {"a": "0.5"}}, "consumer_racks: shares add up to 1/2; right is 1"),
    ({"consumer_racks": {"d": "1"}}, "consumer_racks: no broker is in rack d; racks are a, b, c"),
    ({"consumer_racks": {"a": "2"}}, "consumer_racks: a is '2': a share is needed"),
    ({"consumer_racks": "a=1"}, "consumer_racks is 'a=1'; right is a mapping of rack to share"),
])
def test_what_is_refused(settings, message):
    state = cluster({"t": ([2, 3], [2, 3])})
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(")):
        prepare(state, **settings)


def test_shares_without_a_common_denominator_are_refused():
    shares = {}
    for number, denominator in enumerate((999_999_993, 999_999_996, 999_999_987)):
        shares["abcdef"[2 * number]] = f"1/{denominator}"
        shares["abcdef"[2 * number + 1]] = f"{denominator // 3 - 1}/{denominator}"
    state = cluster({"t": ([1], [1])}, dict(enumerate(shares, 1)))
    with pytest.raises(ArgumentError, match="no common denominator"):
        prepare(state, consumer_racks=shares)


def test_a_cluster_without_racks_is_refused():
    state = cluster({"t": ([1, 2], [1, 2])}, {1: None, 2: None})
    with pytest.raises(ArgumentError, match="no broker of the cluster has a rack"):
        prepare(state)


def test_the_answer_says_which_replica_is_taken():
    plan = prepare(cluster({"t": ([2, 3], [2, 3])}))
    spread, source = plan.consumers.assumptions
    assert spread == "consumers are spread equally over 3 racks"
    assert "in the order of assigned replicas" in source
    shares = prepare(cluster({"t": ([2, 3], [2, 3])}), consumer_racks={"a": "1"})
    assert shares.consumers.assumptions == (source,)
