"""Census, impact, `fail_brokers` and `explain`."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from kfast import ClusterState, Controller, generate
from kfast.analysis.broker_failure import fail_brokers
from kfast.analysis.explain import explain
from kfast.analysis.impact import CHANGE_METRICS, impact
from kfast.errors import ArgumentError
from kfast.state.census import CENSUS_METRICS, take_census
from tests.support.random_clusters import random_context
from tests.support.reference_profiles import PROFILES
from tests.support.twin_state import state_of

pytestmark = pytest.mark.kernels


def random_cluster(seed, layout="narrow", profile="zk-3.9"):
    """A random cluster with min ISRs; with it, the context it was made from."""
    generator = Random(seed)
    ctx = random_context(generator, PROFILES[profile])
    state = state_of(ctx, layout)
    state.default_min_insync_replicas = generator.randint(1, 2)
    for row in range(state.n_topics):
        state.topic_min_insync_replicas[row] = generator.choice((-1, 1, 2, 3))
    return ctx, state


def marks_of(ctx, state, topic, partition):
    """The metrics that hold for one partition, counted in plain Python."""
    p = (topic, partition)
    assignment, record = ctx.assignments.get(p), ctx.leadership.get(p)
    if assignment is None:
        return set()
    min_isr = int(state.topic_min_insync_replicas[state.topic.index(topic).as_py()])
    needed = state.default_min_insync_replicas if min_isr < 0 else min_isr
    needed = min(needed, len(assignment.replicas))
    live = {b for b in assignment.replicas if ctx.is_replica_online(b, p)}
    isr = () if record is None else [b for b in record.isr if ctx.is_replica_online(b, p)]
    offline = record is None or not ctx.is_replica_online(record.leader, p)
    found = {
        "offline": offline,
        "under_min_isr": offline or len(isr) < needed,
        "at_min_isr": not offline and len(isr) == needed,
        "under_replicated": len(set(assignment.replicas) & set(isr)) < len(assignment.origin),
        "no_live_replica": not live,
        "not_preferred": not offline and record.leader != assignment.replicas[0],
    }
    return {name for name, holds in found.items() if holds}


@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("seed", range(40))
def test_a_census_counts_what_plain_python_counts(seed, layout):
    """`take_census`, on clusters with offline directories, dead brokers and odd ISRs."""
    ctx, state = random_cluster(seed, layout)
    census = take_census(state)
    total = Counter()
    for row in census.partitions.to_pylist():
        expected = marks_of(ctx, state, row["topic"], row["partition"])
        assert {name for name in CENSUS_METRICS if row[name]} == expected, row
        total.update(expected)
    assert census.counts == {name: total[name] for name in CENSUS_METRICS}
    for row in census.brokers.to_pylist():
        b = row["broker_id"]
        led = [p for p, r in ctx.leadership.items() if r.leader == b and p in ctx.assignments]
        assert row["leaders"] == sum(ctx.is_replica_online(b, p) for p in led)
        assert row["replicas"] == sum(b in a.replicas for a in ctx.assignments.values())


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_an_impact_is_the_difference_of_two_states(seed, controlled):
    """Leaders moved, what is new, and requests agree with the tables before and after."""
    generator = Random(seed)
    state = random_cluster(seed)[1]
    before = state.digest()
    up = state.broker_id[state.registered].tolist()
    ids = generator.sample(up, min(len(up), generator.randint(1, 3)))
    failure = fail_brokers(state, ids, controlled=controlled)
    assert state.digest() == before
    start, found = failure.start, failure.impact
    assert found.before is start.after
    again = state.copy()
    controller = Controller(again)
    controller.on_controller_failover()
    started = again.copy()
    outcomes = []
    for group in [[b] for b in ids] if controlled else [ids]:
        if controlled:
            outcomes.append(controller.controlled_shutdown(group[0]))
        outcomes.append(controller.on_broker_failure(group))
    assert failure.state == again
    assert failure.remaining == sum(o.remaining.size for o in outcomes)
    summary = found.summary
    assert summary["requests"] == sum(sum(o.counts.requests.values()) for o in outcomes)
    assert sum(found.requests["requests"].to_pylist()) == summary["requests"]
    assert sum(found.brokers["requests"].to_pylist()) == summary["requests"]
    assert summary["unclean"] == again.unclean_elections - started.unclean_elections
    moved = offline = 0
    for row in found.partitions.to_pylist():
        both = not row["offline_before"] and not row["offline"]
        assert row["leader_moved"] == (both and row["leader_before"] != row["leader"])
        moved += row["leader_moved"]
        offline += row["offline"] and not row["offline_before"]
    assert (summary["leaders_moved"], summary["newly_offline"]) == (moved, offline)
    assert list(summary) == [*CENSUS_METRICS, *CHANGE_METRICS]


def test_the_worst_topics_come_first():
    """Most partitions offline, then most under min ISR; topics that are well are left out."""
    state = ClusterState.from_tables(
        partitions=pa_table(
            [
                ("well", 0, [3, 4]),
                ("moved", 0, [1, 3]),
                ("gone", 0, [1, 2]),
                ("gone", 1, [2, 1]),
                ("half", 0, [1, 2]),
                ("half", 1, [3, 4]),
                ("short", 0, [3, 1]),
                ("short", 1, [4, 3]),
            ]
        )
    )
    state.topic_min_insync_replicas[state.topic.index("short").as_py()] = 2
    topics = fail_brokers(state, [1, 2]).impact.topics.to_pylist()
    assert [row["topic"] for row in topics] == ["gone", "half", "short", "moved"]
    assert [row["offline"] for row in topics] == [2, 1, 0, 0]
    assert [row["under_min_isr"] for row in topics] == [2, 1, 1, 0]
    assert [row["leaders_moved"] for row in topics] == [0, 0, 0, 1]


def pa_table(rows):
    """A table of partitions from (topic, partition, replicas)."""
    import pyarrow as pa

    names, numbers, replicas = zip(*rows, strict=True)
    return pa.table(
        {
            "topic": pa.array(names),
            "partition": pa.array(numbers, pa.int32()),
            "replicas": pa.array(replicas, pa.list_(pa.int32())),
        }
    )


def test_brokers_that_cannot_fail_are_refused():
    """An unknown broker, and one that is down; nothing changes."""
    state = generate(brokers=4, partitions=8)
    with pytest.raises(ArgumentError, match="broker 9 is unknown; the cluster has brokers 0, 1"):
        fail_brokers(state, [9])
    state.remove_live_brokers([2])
    with pytest.raises(ArgumentError, match="broker 2 is not registered"):
        fail_brokers(state, [1, 2])


def test_two_clusters_have_no_impact_on_each_other():
    """Censuses of clusters of other sizes are refused."""
    small, large = (take_census(generate(brokers=n, partitions=9)) for n in (3, 4))
    with pytest.raises(ArgumentError, match="9 partitions and 3 brokers"):
        impact(small, large)


def test_the_journal_level_does_not_change_the_impact():
    """`off` counts no requests, and everything else alike."""
    state = random_cluster(3)[1]
    ids = state.broker_id[state.registered].tolist()[:2]
    levels = {
        level: fail_brokers(state, ids, journal=level).impact.summary
        for level in ("off", "counts", "full")
    }
    assert levels["counts"] == levels["full"]
    differ = {k for k in levels["off"] if levels["off"][k] != levels["full"][k]}
    assert all("requests" in name for name in differ)


def test_a_census_stays_as_it_was():
    """Later events do not change it."""
    state = generate(brokers=5, partitions=40, replication_factor=2)
    controller = Controller(state)
    controller.on_controller_failover()
    census = take_census(state)
    counts, leaders = census.counts, census.leader_ids.to_pylist()
    controller.on_broker_failure([0, 1])
    assert (census.counts, census.leader_ids.to_pylist()) == (counts, leaders)
    assert take_census(state).counts["offline"] > 0 == counts["offline"]


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_an_explanation_ends_where_the_cluster_ends(seed, controlled):
    """Each partition alone takes the way that it takes among all; the last line says its record."""
    generator = Random(seed)
    state = random_cluster(seed)[1]
    up = state.broker_id[state.registered].tolist()
    ids = generator.sample(up, min(len(up), 2))
    whole = fail_brokers(state, ids, controlled=controlled).state
    names = state.topic.to_pylist()
    keys = [
        (names[t], p)
        for t, p in zip(state.topic_row.tolist(), state.partition.tolist(), strict=True)
    ]
    for row, story in enumerate(explain(state, ids, keys, controlled=controlled)):
        assert (story.topic, story.partition) == keys[row]
        record = whole.leadership(row)
        end = story.sections[-1].lines[0]
        label = whole.partition_state(row).label
        assert end.startswith(f"{label}; "), (end, label)
        if record is not None:
            leader = record.leader if record.leader >= 0 else "none"
            isr = ",".join(map(str, record.isr)) or "none"
            said = f"leader {leader}; ISR {isr}; leader epoch {record.leader_epoch}"
            assert said in end, story


def test_an_explanation_says_why_nobody_is_elected():
    """The sole ISR member dies, and unclean election is not allowed."""
    state = generate(brokers=3, partitions=1, replication_factor=3)
    leader, *others = state.assignment(0).replicas
    state.set_leadership(
        0, leader=leader, isr=[leader], leader_epoch=7, version=3, controller_epoch=1, recovery=0
    )
    text = str(explain(state, [leader], [("topic-0", 0)])[0])
    assert "no member of the ISR is live, and unclean leader election is not allowed" in text
    assert f"{leader} is the last member of the ISR, which is never emptied" in text
    assert f"OfflinePartition; leader none; ISR {leader}; leader epoch 8" in text
    state.topic_unclean_leader_election[0] = np.int8(1)
    text = str(explain(state, [leader], [("topic-0", 0)])[0])
    assert f"leader is {others[0]}: no member of the ISR is live; unclean leader election" in text
    assert "RECOVERING" in text


def test_an_unknown_partition_is_not_explained():
    """`ArgumentError`, naming it."""
    with pytest.raises(ArgumentError, match="nope"):
        explain(generate(brokers=3, partitions=3), [1], [("nope", 0)])
