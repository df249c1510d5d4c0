"""Generated clusters: Kafka's placement exactly, sizes as asked, the same for the same seed."""

from __future__ import annotations

import importlib
import inspect
import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kfast
from kfast.errors import ArgumentError
from kfast.kernels import placement as kernel
from tests.support import reference_placement as reference

pytestmark = pytest.mark.kernels
generating = importlib.import_module("kfast.state.generation")


def place(circle, racks, n_partitions, n_replicas, start, shift, *, threads=1, dtype=np.uint16):
    """One topic through the kernel; `racks` are numbers in the order of the circle."""
    replicas = np.full((n_partitions, n_replicas), 65535, dtype)
    kernel.place_kafka(
        np.zeros(n_partitions, np.int32),
        np.arange(n_partitions, dtype=np.int32),
        np.array([start], np.int32),
        np.array([shift], np.int32),
        np.array(circle, np.int32),
        np.array(racks, np.int32),
        len(set(racks)),
        replicas,
        threads,
    )
    return replicas.tolist()


def lists(state):
    """Replica lists by topic name."""
    by_topic: dict[str, list[list[int]]] = {}
    names = state.topic.to_pylist()
    for topic_row, brokers in zip(state.topic_row, state.replicas.tolist(), strict=True):
        by_topic.setdefault(names[topic_row], []).append(brokers)
    return by_topic


def test_kafkas_own_examples_without_racks():
    """Kafka 3.9, AdminRackAwareTest, `testReplicaAssignment`."""
    assert place(range(5), [0] * 5, 10, 3, 0, 0) == [
        [0, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [3, 4, 0],
        [4, 0, 1],
        [0, 2, 3],
        [1, 3, 4],
        [2, 4, 0],
        [3, 0, 1],
        [4, 1, 2],
    ]


def test_kafkas_own_example_with_racks():
    """Kafka 3.9, AdminRackAwareTest, `testGetRackAlternatedBrokerListAndAssignReplicas...`."""
    rack_of = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    circle = reference.alternate_racks(rack_of)
    assert circle == [0, 3, 1, 5, 4, 2]
    assert place(circle, [int(rack_of[b][4:]) - 1 for b in circle], 7, 3, 0, 0) == [
        [0, 3, 1],
        [3, 1, 5],
        [1, 5, 4],
        [5, 4, 2],
        [4, 2, 0],
        [2, 0, 3],
        [0, 4, 2],
    ]


@pytest.mark.parametrize("threads", [1, 2])
@given(data=st.data())
@settings(max_examples=150)
def test_place_kafka_is_kafkas_rule(threads, data):
    """Any racks, uneven ones too, any replication factor, several times round the circle."""
    n_brokers = data.draw(st.integers(1, 12))
    rack_numbers = st.lists(st.integers(0, 4), min_size=n_brokers, max_size=n_brokers)
    rack_of = {b: f"rack{r}" for b, r in enumerate(data.draw(rack_numbers))}
    n_replicas = data.draw(st.integers(1, n_brokers))
    n_partitions = data.draw(st.integers(1, 4 * n_brokers))
    start = data.draw(st.integers(0, n_brokers - 1))
    shift = data.draw(st.integers(0, n_brokers - 1))
    shape = (n_partitions, n_replicas, start, shift)
    circle = reference.alternate_racks(rack_of)
    names = sorted(set(rack_of.values()))
    racks = [names.index(rack_of[b]) for b in circle]
    expected = reference.place_kafka_on_racks(rack_of, *shape)
    assert place(circle, racks, *shape, threads=threads) == expected
    assert place(circle, racks, *shape, threads=threads, dtype=np.int32) == expected
    plain = reference.place_kafka(list(rack_of), *shape)
    assert place(range(n_brokers), [0] * n_brokers, *shape, threads=threads) == plain


@pytest.mark.parametrize("racks", [0, 1, 3, 4])
@pytest.mark.parametrize(("brokers", "replication_factor"), [(4, 1), (6, 3), (10, 4), (11, 9)])
def test_generate_places_as_kafka_would(brokers, racks, replication_factor):
    """From the drawn start and shift of each topic on, every replica is where Kafka puts it."""
    state = kfast.generate(
        brokers=brokers,
        partitions=100,
        replication_factor=replication_factor,
        racks=racks,
        topics=3,
        seed=7,
    )
    for topic, (name, found) in enumerate(lists(state).items()):
        start = reference.random_below(7, 0, topic, brokers)
        shift = reference.random_below(7, 1, topic, brokers)
        shape = (len(found), replication_factor, start, shift)
        if racks:
            rack_of = dict(enumerate(state.rack.to_pylist()))
            expected = reference.place_kafka_on_racks(rack_of, *shape)
        else:
            expected = reference.place_kafka(list(range(brokers)), *shape)
        assert found == expected, name


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("brokers", "replication_factor"), [(3, 3), (20, 2), (64, 64)])
def test_place_uniform(brokers, replication_factor, threads):
    """Equal to plain Python for every row; no broker is favoured."""
    state = kfast.generate(
        brokers=brokers,
        partitions=3000 if replication_factor < 64 else 50,
        replication_factor=replication_factor,
        placement="uniform",
        seed=11,
        threads=threads,
    )
    for row, found in enumerate(state.replicas.tolist()):
        assert found == reference.place_uniform(11, 3 + row, brokers, replication_factor)
        assert len(set(found)) == replication_factor
    counts = np.bincount(state.replicas[:, 0], minlength=brokers)
    expected = state.n_partitions / brokers
    assert abs(counts - expected).max() < 6 * expected**0.5


@pytest.mark.parametrize("threads", [1, 2])
def test_place_ring(threads):
    """Row i is on the brokers i, i+1, ..."""
    state = kfast.generate(
        brokers=5, partitions=23, replication_factor=4, placement="ring", threads=threads
    )
    expected = [reference.place_ring(row, 5, 4) for row in range(23)]
    assert state.replicas.tolist() == expected


def test_random_below_is_splitmix():
    """The same numbers on every machine."""
    numbers = np.empty(200, np.int32)
    for seed, stream, bound in [(0, 0, 1), (1, 2, 300), (2**64 - 1, 3, 2**31 - 1)]:
        for first in (0, 77, 2**40):
            kernel.random_below(seed, stream, bound, first, numbers)
            places = range(first, first + 200)
            assert numbers.tolist() == [
                reference.random_below(seed, stream, i, bound) for i in places
            ]


@pytest.mark.parametrize("threads", [1, 2])
def test_number_partitions(threads):
    """Topics one after the other, an empty one among them; any range of rows."""
    starts = [0, 3, 3, 8]
    expected = reference.number_partitions(starts)
    for first in range(9):
        for stop in range(first, 9):
            topic_row = np.empty(stop - first, np.int32)
            partition = np.empty(stop - first, np.int32)
            kernel.number_partitions(np.array(starts), first, topic_row, partition, threads)
            found = list(zip(topic_row.tolist(), partition.tolist(), strict=True))
            assert found == expected[first:stop]


def test_topic_sizes():
    """Equal: they differ by 1 at most. Zipf: the k-th has 1 / k of the first, about."""
    equal = kfast.generate(brokers=3, partitions=1003, topics=10)
    sizes = np.bincount(equal.topic_row)
    assert sizes.tolist() == [101] * 3 + [100] * 7
    zipf = kfast.generate(brokers=3, partitions=100_000, topics=100, topic_sizes="zipf")
    sizes = np.bincount(zipf.topic_row)
    assert sizes.sum() == 100_000
    assert (np.diff(sizes) <= 0).all()
    assert sizes[9] == pytest.approx(sizes[0] / 10, rel=0.01)
    steep = kfast.generate(
        brokers=3, partitions=1000, topics=50, topic_sizes="zipf", zipf_exponent=10.0
    )
    assert np.bincount(steep.topic_row).min() == 1
    flat = kfast.generate(
        brokers=3, partitions=1003, topics=10, topic_sizes="zipf", zipf_exponent=0.0
    )
    assert flat == equal


def test_a_generated_cluster_is_fresh():
    """Leader is the preferred replica, ISR is AR, nothing has happened yet."""
    state = kfast.generate(
        brokers=6,
        partitions=250,
        racks=2,
        topics=12,
        min_insync_replicas=2,
        unclean_topics=0.5,
        first_broker_id=1000,
    )
    assert state.broker_id.tolist() == list(range(1000, 1006))
    assert state.rack.to_pylist() == ["a", "b"] * 3
    assert state.topic.to_pylist() == [f"topic-{k:02}" for k in range(12)]
    assert state.layout == "narrow"
    records = state.records
    assert (records["leader"] == state.replicas[:, 0]).all()
    assert (records["isr"] == 0b111).all()
    for column in ("leader_epoch", "version", "adding", "removing", "offline_dir"):
        assert not records[column].any(), column
    assert (state.topic_min_insync_replicas == 2).all()
    assert set(state.topic_unclean_leader_election.tolist()) == {-1, 1}
    assert state.registered.all()
    assert not state.shutting_down.any()


def test_names_sort_as_rows_do():
    """One length for all names of topics and of racks."""
    state = kfast.generate(brokers=30, partitions=1001, racks=28, topics=1001)
    names = state.topic.to_pylist()
    assert names == sorted(names)
    assert names[-1] == "topic-1000"
    racks = state.rack.to_pylist()[:28]
    assert racks[:2] == ["aa", "ab"]
    assert racks == sorted(set(racks))


def test_the_layout_is_wide_where_it_must_be():
    """More slots than a byte has bits."""
    state = kfast.generate(brokers=20, partitions=40, replication_factor=9)
    assert state.layout == "wide"
    assert (state.records["isr"] == 0x1FF).all()


@pytest.mark.parametrize("placement", ["kafka", "uniform", "ring"])
@pytest.mark.parametrize("topic_sizes", ["equal", "zipf"])
def test_one_seed_one_cluster(placement, topic_sizes):
    """Whatever the number of threads; another seed gives another cluster."""

    def make(**more):
        return kfast.generate(
            brokers=9,
            partitions=5000,
            racks=3,
            placement=placement,
            topic_sizes=topic_sizes,
            unclean_topics=0.3,
            **more,
        )

    first = make(seed=5)
    assert first == make(seed=5, threads=2)
    assert first.digest() == make(seed=5, threads=2).digest()
    assert first.digest() != make(seed=6).digest()


@pytest.mark.parametrize("placement", ["kafka", "uniform", "ring"])
@pytest.mark.parametrize(("topic_sizes", "block"), [("equal", 7), ("zipf", 7), ("zipf", 1 << 18)])
def test_any_part_is_as_in_the_whole(placement, topic_sizes, block, monkeypatch):
    """Rows, names and settings; parts that begin and end anywhere, also within a topic."""
    monkeypatch.setattr(generating, "TOPIC_BLOCK", block)
    arguments = {
        "brokers": 9, "partitions": 500, "racks": 3, "topics": 40, "seed": 5,
        "placement": placement, "topic_sizes": topic_sizes, "unclean_topics": 0.3,
        "min_insync_replicas": 2, "first_broker_id": 7,
    }
    whole = kfast.generate(**arguments).to_tables()
    recipe = generating.Recipe(**arguments)
    for cuts in ([0, 500], [0, 1, 2, 250, 499, 500], list(range(0, 501, 50)), [0, 0, 500, 500]):
        parts = [recipe.part(a, b, threads=1 + a % 2).to_tables() for a, b in pairwise(cuts)]
        assert pa.concat_tables([part.partitions for part in parts]).equals(whole.partitions)
        assert all(part.brokers.equals(whole.brokers) for part in parts)
        for (start, stop), part in zip(pairwise(cuts), parts, strict=True):
            names = whole.partitions["topic"].to_pylist()[start:stop]
            at = whole.topics["topic"].to_pylist().index(names[0]) if names else 0
            assert part.topics.equals(whole.topics.slice(at, len(set(names))))
    topics = [recipe.part_of_topics(a, b).to_tables() for a, b in ((0, 7), (7, 8), (8, 40))]
    assert pa.concat_tables([part.topics for part in topics]).equals(whole.topics)
    assert sum(part.partitions.num_rows for part in topics) == 0


def test_a_recipe_takes_what_generate_takes():
    """The same names and defaults."""
    takes = dict(inspect.signature(kfast.generate).parameters)
    assert takes.pop("threads").default == 1
    assert {name: one.default for name, one in takes.items()} == {
        name: one.default for name, one in inspect.signature(generating.Recipe).parameters.items()
    }


def test_a_seed_means_the_same_on_every_machine():
    """The lists themselves, as one number each."""
    expected = {"kafka": 3587641733, "uniform": 879007238, "ring": 842630597}
    for placement in expected:
        state = kfast.generate(
            brokers=50,
            partitions=10_000,
            racks=4,
            topic_sizes="zipf",
            zipf_exponent=0.8,
            placement=placement,
            seed=2024,
        )
        found = zlib.crc32(state.replicas.astype("<i4").tobytes())
        assert found == expected[placement], placement


@pytest.mark.parametrize(
    ("argument", "value", "words"),
    [
        ("brokers", 0, "brokers is 0: from 1 to 1000000 is allowed"),
        ("brokers", "six", "brokers is 'six': a whole number is needed"),
        ("partitions", 0, "partitions is 0: from 1 to 2147483647 is allowed"),
        ("partitions", 2**31, "partitions is 2147483648: from 1 to 2147483647"),
        ("replication_factor", 0, "replication_factor is 0: from 1 to 6 is allowed"),
        ("replication_factor", 7, "replication_factor is 7: from 1 to 6 is allowed"),
        ("racks", -1, "racks is -1: from 0 to 6 is allowed"),
        ("racks", 7, "racks is 7: from 0 to 6 is allowed"),
        ("topics", 0, "topics is 0: from 1 to 60 is allowed"),
        ("topics", 61, "topics is 61: from 1 to 60 is allowed"),
        ("seed", -1, "seed is -1: from 0 to 18446744073709551615 is allowed"),
        ("seed", 1.5, "seed is 1.5: a whole number is needed"),
        ("placement", "best", "placement is 'best': one of kafka, uniform, ring is allowed"),
        ("topic_sizes", "odd", "topic_sizes is 'odd': one of equal, zipf is allowed"),
        ("min_insync_replicas", 0, "min_insync_replicas is 0: from 1 to 2147483647 is allowed"),
        ("unclean_topics", 1.1, "unclean_topics is 1.1: a number from 0 to 1 is allowed"),
        ("unclean_topics", float("nan"), "unclean_topics is nan: a number from 0 to 1"),
        ("first_broker_id", 2**31, "first_broker_id is 2147483648: from 0 to 2147483642"),
        ("threads", 0, "threads is 0: from 1 to 1024 is allowed"),
    ],
)
def test_arguments_outside_their_range(argument, value, words):
    """The message names the argument, what was found and what is allowed."""
    with pytest.raises(ArgumentError) as caught:
        kfast.generate(**{"brokers": 6, "partitions": 60, argument: value})
    assert str(caught.value).startswith(words)


def test_more_than_64_replicas_are_refused():
    """A mask has 64 bits."""
    with pytest.raises(ArgumentError, match="from 1 to 64 is allowed"):
        kfast.generate(brokers=100, partitions=10, replication_factor=65)


def test_a_zipf_exponent_is_checked_where_it_is_used():
    """Too steep a law is refused."""
    with pytest.raises(ArgumentError, match=r"zipf_exponent is 11: .* 0 to 10"):
        kfast.generate(brokers=3, partitions=10, topic_sizes="zipf", zipf_exponent=11)
