"""Random KRaft clusters in every form: each says what the twin says, with one digest.

Source: docs/kraft.md, section 1.
"""

import numpy as np
import pytest

import kfast
from kfast.state.kraft_releases import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from kfast.state.mutators import add_brokers, grow_slots, widen
from kfast.state.registrations import remove_rows, set_registration
from tests.support.kraft_clusters import RandomCluster
from tests.support.kraft_states import random_twin, registrations, state_of_twin

RELEASES = ("kraft-4.0", "kraft-4.1", "kraft-4.3", "kraft-4.1")
PROFILES = ("kraft-3.7", "kraft-4.0", "kraft-4.1", "kraft-4.3")
TWINS = [random_twin(seed, RELEASES[seed % 4]) for seed in range(12)] + [
    RandomCluster(seed, PROFILES[seed % 4]).controller().state for seed in range(40)
]


def check(state, twin):
    """The state says of every partition, broker and topic what the twin says."""
    keys = zip(
        state.topic.take(state.topic_row.clip(0)).to_pylist(), state.partition.tolist(),
        strict=True,
    )
    found = {
        key: state.registration(row) for row, key in enumerate(keys) if key[1] >= 0
    }
    assert found == registrations(twin)
    for broker in twin.brokers.values():
        assert state.broker_registration(broker.id) == broker
    assert state.up.tolist() == [
        bool(broker and not broker.fenced)
        for broker in map(twin.brokers.get, state.broker_id.tolist())
    ]
    assert state.live.tolist() == [twin.is_active(broker) for broker in state.broker_id.tolist()]
    leaderless = sum(held.leader == -1 for held in found.values())
    assert (state.offline_partition_count, state.n_led) == (leaderless, len(found))
    assert state.preferred_imbalance_count == sum(
        held.leader != held.replicas[0] for held in found.values()
    )
    quorum = state.quorum
    assert quorum.elr_on == twin.elr_on
    for topic in twin.topics.values():
        row = state.lookup.topic_or_none(topic.name)
        configured = int(twin.topic_config(topic.name, MIN_INSYNC_REPLICAS))
        assert quorum.min_insync_replicas[row] == configured
        assert quorum.min_isr_of(np.array([row]))[0] == twin.min_isr(topic)
        assert quorum.unclean_leader_election[row] == twin.unclean(topic)
        assert twin.topic_config(topic.name, UNCLEAN_LEADER_ELECTION) is not None


@pytest.fixture(params=range(len(TWINS)))
def twin(request):
    return TWINS[request.param]


def test_every_form_says_the_same(twin, tmp_path):
    state = state_of_twin(twin)
    digest = state.digest()
    check(state, twin)
    wide = state_of_twin(twin, "wide")
    forms = [wide, state.copy(), kfast.ClusterState.from_tables(**vars(state.to_tables()))]
    if state.n_slots <= 8 and not state.list_orders:
        forms.append(kfast.ClusterState.from_tables(**vars(wide.to_tables(flat=True))))
        kfast.write(state, tmp_path / "flat", format="parquet-flat")
        forms.append(kfast.read(tmp_path / "flat"))
    state.save(tmp_path / "saved")
    forms.append(kfast.open(tmp_path / "saved"))
    kfast.write(state, tmp_path / "lists", format="parquet")
    forms.append(kfast.read(tmp_path / "lists"))
    for form in forms:
        check(form, twin)
        assert form.digest() == digest
        assert form.difference(state) is None


def test_moves_lose_nothing(twin):
    """Rows, slots and brokers move; a partition is written anew, in another row."""
    state = state_of_twin(twin)
    digest = state.digest()
    widen(state)
    grow_slots(state, state.n_slots + 1)
    add_brokers(state, [0, 7777])
    check(state, twin)
    for row in range(state.n_partitions):
        held, other = state.registration(row), state.registration((row + 1) % state.n_partitions)
        set_registration(state, row, other)
        assert state.registration(row) == other
        set_registration(state, row, held)
    check(state, twin)
    key = state.topic[int(state.topic_row[0])].as_py(), int(state.partition[0])
    held = state.registration(0)
    remove_rows(state, np.array([0], np.int32))
    rows = state.add_partitions([key[0], "another"], [key[1], 0])
    set_registration(state, int(state.find_partitions([key])[0]), held)
    remove_rows(state, state.find_partitions([("another", 0)]))
    check(state, twin)
    assert rows.size == 2
    state.topic_flags[state.n_topics - 1] = 0
    state.compact()
    check(state, twin)
    assert state.digest() == digest
