"""Sweeps of KRaft clusters against the twin: brokers fenced one after another, then counted.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

import math
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import kfast
from kfast.errors import ArgumentError
from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import RELEASES
from kfast.state.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    uuid_text,
)
from kfast.state.mutators import widen
from kfast.state.record_application import apply_records
from kfast.sweeps.sweep_plan import FIELDS
from tests.analysis.test_sweep import VECTORS
from tests.support.kraft_clusters import CONTROLLER_ID, RandomCluster
from tests.support.kraft_kfast_run import empty_state
from tests.support.long_tests import share_of
from tests.support.twin_kraft_sweep import TwinScenario, expected_row, partitions_of

pytestmark = pytest.mark.kernels


def state_of(cluster, wide=False):
    """The cluster in kfast."""
    state = empty_state(cluster.release, CONTROLLER_ID, {})
    apply_records(state, cluster.records(), 0)
    if wide:
        widen(state)
    return state


def compare(seed, release, elr=None):
    """Four scenarios of one random cluster, the empty one among them, by both methods."""
    generator = Random(seed)
    state = state_of(RandomCluster(seed, release, elr), generator.random() < 0.3)
    p = generator.choice([0.1, 0.3, 0.6, 0.9])
    scenarios = kfast.independent_brokers(state, p, 3, seed)
    plan = kfast.prepare_sweep(state)
    table = kfast.sweep(plan, scenarios, vectors=generator.choice(VECTORS), method="dense")
    assert kfast.sweep(plan, scenarios, method="sparse") == table, f"seed {seed}, {release}"
    for number, row in enumerate(table.to_pylist()):
        down = scenarios.brokers(number)
        expected = expected_row(
            lambda: RandomCluster(seed, release, elr).controller().state, down
        )
        assert row == {"scenario": number, **expected}, f"seed {seed}, {release}, brokers {down}"
    return plan


@pytest.mark.parametrize("release", RELEASES)
def test_a_sweep_is_the_controller_run_scenario_by_scenario(release):
    """Reassignments that are complete, an ELR that is off, dead members of ISRs: all releases.

    All kernels together: `find_shapes`, `write_sequences`, `count_dense`, `count_leaders`, and
    `count_live` for the tables of partitions that the order of fencings decides.
    """
    seen = Counter()
    for seed in range(30):
        plan = compare(seed, release)
        seen["table"] += plan.tables.size
        for name in ("clean", "eligible"):
            seen[name] += int(plan.groups[:, FIELDS.index(name)].sum())
    assert min(seen["clean"], seen["table"]) > 0
    assert bool(seen["eligible"]) == RELEASES[release].elr


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("elr", [False, True], ids=["ELR off", "ELR on"])
@pytest.mark.parametrize("start", [1000, 2000, 3000])
def test_a_sweep_is_the_controller_on_thousands_of_clusters(start, elr, release):
    """All are 10 560 clusters, 42 240 scenarios; releases without ELR draw others for both."""
    first = start + 500 * elr
    for seed in share_of(range(first, first + 160)):
        compare(seed, release, elr)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("seed", range(6))
def test_partitions_and_brokers_are_counted_as_the_controller_leaves_them(seed, vectors, threads):
    """`sweep_partitions` and `sweep_brokers` (`count_partitions`), any vectors and threads."""
    cluster = RandomCluster(seed, "kraft-4.1", elr=True)
    state = state_of(cluster)
    scenarios = kfast.independent_brokers(state, 0.4, 12, seed).slice(1, 13)
    offline, under, loads = Counter(), Counter(), {b: [] for b in state.broker_id.tolist()}
    for number in range(1, 13):
        down = scenarios.brokers(number)
        after = TwinScenario.of(
            lambda: RandomCluster(seed, "kraft-4.1", elr=True).controller().state, down
        )
        leaders = Counter()
        for place, partition in partitions_of(after.state).items():
            key = (after.state.topics[place.topic_id].name, place.partition_id)
            offline[key] += partition.leader == NO_LEADER
            under[key] += after.is_under(place)
            leaders[partition.leader] += 1
        for b, up in zip(state.broker_id.tolist(), state.up.tolist(), strict=True):
            if up and b not in down:
                loads[b].append(leaders[b])
    rows = kfast.sweep_partitions(state, scenarios, threads=threads, vectors=vectors).to_pylist()
    found = {(r["topic"], r["partition"]): r for r in rows}
    assert {key: r["scenarios_offline"] for key, r in found.items()} == dict(offline)
    assert {key: r["scenarios_under_min_isr"] for key, r in found.items()} == dict(under)
    for row in kfast.sweep_brokers(state, scenarios, threads=threads, vectors=vectors).to_pylist():
        load = sorted(loads[row["broker_id"]])
        assert row["scenarios_up"] == len(load)
        if load:
            assert row["leaders_most"] == load[-1]
            for percent in (50, 95, 99):
                at = math.ceil(len(load) * percent / 100) - 1
                assert row[f"leaders_p{percent}"] == load[at], percent


def test_the_result_is_the_same_in_every_way():
    """Threads, vectors, slices, batches: of a cluster with tables."""
    state = state_of(RandomCluster(56, "kraft-4.3", elr=True))
    plan = kfast.prepare_sweep(state)
    assert plan.tables.size
    scenarios = kfast.independent_brokers(state, 0.4, 3000, seed=9)
    expected = kfast.sweep(plan, scenarios, vectors="words")
    for options in (*({"vectors": name} for name in VECTORS), {"threads": 3}, {"method": "sparse"}):
        assert kfast.sweep(plan, scenarios, **options) == expected, options
    assert kfast.sweep(state, scenarios.slice(700, 701)) == expected.slice(700, 1)


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize(
    ("replicas", "in_sync", "min_isr"), [(2, 1, 2), (3, 2, 2), (3, 1, 2), (3, 2, 3), (3, 1, 3)]
)
def test_common_shapes_are_counted_as_all_others(replicas, in_sync, min_isr, vectors):
    """Nineteen partitions of one shape with an ELR; the sparse method counts them one by one."""
    given = []
    for first in range(19):
        ids = tuple(1 + (first + n) % 6 for n in range(replicas))
        given.append({
            "replicas": ids, "isr": ids[:in_sync], "eligible_leader_replicas": ids[in_sync:],
        })
    plan = kfast.prepare_sweep(cluster_of(*given, min_isr=min_isr))
    has_elr = in_sync - 1 < min_isr
    assert plan.groups[0, FIELDS.index("eligible")] == (replicas - in_sync) * has_elr
    scenarios = kfast.independent_brokers(plan.cluster, 0.4, 200, seed=1)
    dense = kfast.sweep(plan, scenarios, vectors=vectors, method="dense")
    assert dense == kfast.sweep(plan, scenarios, method="sparse")
    few = ["offline", "under_min_isr", "leaders_moved"]
    assert kfast.sweep(plan, scenarios, counts=few, vectors=vectors) == dense.select(
        ["scenario", "brokers_down", *few]
    )


# --- what the rules come to ----------------------------------------------------------------------


def cluster_of(
    *partitions, elr_on=True, min_isr=2, unclean=False, brokers=6, fenced=(), stopping=()
):
    """A 4.1 cluster of one topic: each partition is given by some fields of its record."""
    state = empty_state("kraft-4.1", CONTROLLER_ID, {})
    topic_id = uuid_text(1, 1)
    records = [
        FeatureLevelRecord(0, "metadata.version", 27),
        FeatureLevelRecord(0, "eligible.leader.replicas.version", int(elr_on)),
        ConfigRecord(0, 4, "", "min.insync.replicas", str(min_isr)),
        ConfigRecord(0, 4, "", "unclean.leader.election.enable", str(unclean).lower()),
        *(
            RegisterBrokerRecord(
                3, broker, uuid_text(2, broker), broker, fenced=broker in fenced,
                in_controlled_shutdown=broker in stopping,
            )
            for broker in range(1, brokers + 1)
        ),
        TopicRecord(0, "t", topic_id),
    ]
    for number, given in enumerate(partitions):
        fields = {
            "removing_replicas": (), "adding_replicas": (), "leader_recovery_state": 0,
            "leader_epoch": 0, "partition_epoch": 0, "eligible_leader_replicas": (),
            "isr": given["replicas"], "leader": given["replicas"][0], **given,
        }
        records.append(PartitionRecord(2, number, topic_id, **fields))
    apply_records(state, records, 0)
    return state


def of_scenario(state, brokers, *names):
    """Some counts of the one scenario in which these brokers fail."""
    table = pa.table({"scenario": [1] * len(brokers), "broker": list(brokers)})
    scenarios = kfast.scenarios_from_table(state, table)
    row = kfast.sweep(state, scenarios).to_pylist()[1]
    return tuple(row[name] for name in names)


def test_a_live_eligible_replica_takes_over_alone():
    """Section 3.2: by the ELR once the ISR is empty, cleanly, with an ISR of one."""
    state = cluster_of({"replicas": (1, 2, 3), "isr": (1,), "eligible_leader_replicas": (3,)})
    names = ("offline", "unclean", "under_min_isr", "offline_if_clean", "fullest_broker")
    assert of_scenario(state, [1], *names) == (0, 0, 1, 0, 3)
    assert of_scenario(state, [1, 3], *names) == (1, 0, 1, 1, -1)


def test_the_first_fencing_empties_an_elr_that_is_not_needed():
    """Section 3.1: three are in sync, min ISR is 2, so nobody of the ELR is left."""
    state = cluster_of(
        {"replicas": (1, 2, 3, 4), "isr": (1, 2, 3), "eligible_leader_replicas": (4,)}
    )
    assert of_scenario(state, [1, 2, 3], "offline") == (1,)


def test_an_elr_from_before_it_was_off_is_there_for_the_first_fencing_only():
    """Section 3, step 5: 1 before 3: 3 leads, and the ELR is gone; 3 before 1: 4 leads."""
    left = {"isr": (2,), "leader": 2, "eligible_leader_replicas": (3, 4)}
    state = cluster_of({"replicas": (2, 3, 4), **left}, elr_on=False)
    assert of_scenario(state, [2, 3], "offline", "fullest_broker") == (1, -1)
    left = {"isr": (5,), "leader": 5, "eligible_leader_replicas": (3, 4)}
    state = cluster_of({"replicas": (5, 3, 4), **left}, elr_on=False)
    assert of_scenario(state, [5, 3], "offline", "fullest_broker") == (0, 4)


def test_an_in_sync_replica_that_is_stopping_keeps_the_elr_from_leading():
    """Section 3.2: the ELR is asked only once the ISR is empty."""
    member = {"replicas": (1, 2, 3), "isr": (1, 2), "eligible_leader_replicas": (3,)}
    state = cluster_of(member, min_isr=3, stopping=(2,))
    assert of_scenario(state, [1], "offline") == (1,)
    assert of_scenario(state, [1, 2], "offline", "fullest_broker") == (0, 3)


def test_a_fenced_broker_is_down_already():
    """It is in no scenario, and may not be put into one."""
    state = cluster_of({"replicas": (1, 2, 3), "isr": (1,)}, fenced=(2, 3), brokers=3)
    assert kfast.every_broker(state).to_table()["broker"].to_pylist() == [1]
    with pytest.raises(ArgumentError, match="broker 2 of scenario 1 is fenced: it is down already"):
        of_scenario(state, [2])


def test_a_partition_whose_order_matters_with_too_many_brokers_is_refused():
    """A table for 13 brokers would have 8192 cells."""
    replicas = tuple(range(1, 14))
    state = cluster_of({"replicas": replicas, "leader": NO_LEADER}, brokers=13)
    with pytest.raises(ArgumentError, match=r"t-0 has 13 brokers, .* at most 12 such"):
        kfast.prepare_sweep(state)
    fewer = cluster_of({"replicas": replicas[1:], "leader": NO_LEADER}, brokers=13)
    singles = kfast.every_broker(fewer)
    dense = kfast.sweep(fewer, singles, method="dense")
    assert kfast.sweep(fewer, singles, method="sparse") == dense
    assert dense["offline"].to_pylist() == [1, 1, *[0] * 12]
