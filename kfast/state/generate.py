"""Clusters made up from a few numbers: any size, the same for the same seed on every machine.

Placement is Kafka's own rule by default, so that a generated cluster looks like one whose topics
Kafka created. The rule itself is in `kernels/placement.pyx`.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kfast.errors import ArgumentError
from kfast.kernels import placement as kernel
from kfast.schema import MAX_SLOTS, NARROW_BROKERS, NARROW_SLOTS, broker_dtype
from kfast.state.cluster import ClusterState

__all__ = ["MAX_BROKERS", "MAX_PARTITIONS", "MAX_TOPICS", "generate"]

MAX_BROKERS = 1_000_000
MAX_BROKER_ID = 2**31 - 1
MAX_THREADS = 1024
MAX_PARTITIONS = 2**31 - 1
"""A partition's row is an int32."""

MAX_TOPICS = 100_000_000
"""The names of all topics lie in one Arrow array, whose offsets are int32."""

PARTITIONS_PER_TOPIC = 100
"""What `topics=None` aims at."""

PLACEMENTS = ("kafka", "uniform", "ring")
TOPIC_SIZES = ("equal", "zipf")

START_STREAM, SHIFT_STREAM, UNCLEAN_STREAM, REPLICA_STREAM = range(4)
"""Streams of random numbers; partition row i draws its replicas from `REPLICA_STREAM + i`."""

WEIGHT_UNIT = 2**31 - 1
"""Weight of the largest topic; with at most as many partitions, weight times count fits int64."""


def generate(
    *,
    brokers: int,
    partitions: int,
    replication_factor: int = 3,
    racks: int = 0,
    topics: int | None = None,
    seed: int = 0,
    placement: Literal["kafka", "uniform", "ring"] = "kafka",
    topic_sizes: Literal["equal", "zipf"] = "equal",
    zipf_exponent: float = 1.0,
    min_insync_replicas: int | None = None,
    unclean_topics: float = 0.0,
    first_broker_id: int = 0,
    threads: int = 1,
) -> ClusterState:
    """Make a cluster as it is right after its topics were created.

    Every broker is registered; every partition's leader is its preferred replica, its ISR is its
    AR, and all epochs are 0. No machine has started, so there are no states.

    Parameters
    ----------
    brokers : int
        How many; ids are `first_broker_id` and up.
    partitions : int
        How many, of all topics together.
    replication_factor : int, default 3
        Replicas of each partition, at most as many as there are brokers.
    racks : int, default 0
        How many racks the brokers are dealt to in turn; 0 for no racks. They are named `a`, `b`,
        `c`, ...; all names are of one length.
    topics : int, optional
        How many; by default about one for every 100 partitions. Named `topic-0`, `topic-1`, ...,
        with leading zeros, so that names sort as rows do.
    seed : int, default 0
        Every draw follows from it. 0 to 2**64 - 1.
    placement : {"kafka", "uniform", "ring"}
        `kafka`: Kafka's rack-aware rule, from a random start and shift per topic. `uniform`: any
        different brokers, without regard to racks. `ring`: row i on brokers i, i+1, ...
    topic_sizes : {"equal", "zipf"}
        `equal`: sizes differ by 1 at most. `zipf`: topic k (from 1) has one partition and a share
        of the rest that goes with 1 / k**zipf_exponent.
    zipf_exponent : float, default 1.0
        Only for `topic_sizes="zipf"`; 0 to 10.
    min_insync_replicas : int, optional
        Every topic's min.insync.replicas; by default unset.
    unclean_topics : float, default 0.0
        Share of the topics (on average) whose unclean.leader.election.enable is set to true.
    first_broker_id : int, default 0
        Id of the first broker.
    threads : int, default 1
        Threads to use. The result does not depend on it.

    Returns
    -------
    ClusterState
        In the narrow layout where that holds it.

    Raises
    ------
    ArgumentError
        An argument is outside its range.

    References
    ----------
    Kafka 3.9, AdminUtils.java, `assignReplicasToBrokers`.
    """
    recipe = _Recipe(
        n_brokers=_count("brokers", brokers, 1, MAX_BROKERS),
        n_partitions=_count("partitions", partitions, 1, MAX_PARTITIONS),
        n_replicas=_count("replication_factor", replication_factor, 1, min(MAX_SLOTS, brokers)),
        n_racks=_count("racks", racks, 0, brokers),
        n_topics=_topic_count(topics, partitions),
        seed=_count("seed", seed, 0, 2**64 - 1),
        threads=_count("threads", threads, 1, MAX_THREADS),
    )
    _choice("placement", placement, PLACEMENTS)
    _choice("topic_sizes", topic_sizes, TOPIC_SIZES)
    exponent = _share("zipf_exponent", zipf_exponent, 10.0) if topic_sizes == "zipf" else 0.0
    first_id = _count("first_broker_id", first_broker_id, 0, MAX_BROKER_ID + 1 - brokers)
    if min_insync_replicas is not None:
        _count("min_insync_replicas", min_insync_replicas, 1, 2**31 - 1)
    min_isr = -1 if min_insync_replicas is None else min_insync_replicas
    unclean = recipe.unclean(_share("unclean_topics", unclean_topics, 1.0))
    topic_row, partition = recipe.number_partitions(exponent)
    return ClusterState.from_assignment(
        broker_id=np.arange(first_id, first_id + brokers, dtype=np.int32),
        rack=_rack_names(recipe.n_brokers, recipe.n_racks),
        topic=_numbered_names("topic-", recipe.n_topics),
        topic_row=topic_row,
        partition=partition,
        replicas=recipe.place(placement, topic_row, partition),
        topic_min_insync_replicas=np.full(recipe.n_topics, min_isr, np.int32),
        topic_unclean_leader_election=unclean,
    )


@dataclass(frozen=True)
class _Recipe:
    """Checked sizes, and the arrays that follow from them."""

    n_brokers: int
    n_partitions: int
    n_replicas: int
    n_racks: int
    n_topics: int
    seed: int
    threads: int

    def topic_starts(self, exponent: float) -> NDArray[np.int64]:
        """First row of each topic, and the row count: one partition each, the rest by weight.

        All is done in whole numbers, so that it is the same on every machine. What rounding
        leaves over goes to the first topics, one each. Exponent 0 gives equal sizes.
        """
        ranks = np.arange(1, self.n_topics + 1, dtype=np.float64)
        weights = (WEIGHT_UNIT / ranks**exponent).astype(np.int64)
        sizes = 1 + weights * (self.n_partitions - self.n_topics) // weights.sum()
        sizes[: self.n_partitions - int(sizes.sum())] += 1
        starts = np.zeros(self.n_topics + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        return starts

    def number_partitions(self, exponent: float) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Topic row and partition number of every partition."""
        topic_row = np.empty(self.n_partitions, np.int32)
        partition = np.empty(self.n_partitions, np.int32)
        kernel.number_partitions(self.topic_starts(exponent), topic_row, partition, self.threads)
        return topic_row, partition

    def place(
        self, placement: str, topic_row: NDArray[np.int32], partition: NDArray[np.int32]
    ) -> NDArray[Any]:
        """Broker rows of every partition.

        Brokers are dealt to the racks in turn, so the order in which Kafka alternates between
        racks is that of their rows.
        """
        narrow = self.n_brokers < NARROW_BROKERS and self.n_replicas <= NARROW_SLOTS
        replicas = np.empty((self.n_partitions, self.n_replicas), broker_dtype(narrow))
        if placement == "uniform":
            kernel.place_uniform(self.seed, REPLICA_STREAM, self.n_brokers, replicas, self.threads)
        elif placement == "ring":
            kernel.place_ring(self.n_brokers, replicas, self.threads)
        else:
            start = self.draw(START_STREAM, self.n_brokers)
            shift = self.draw(SHIFT_STREAM, self.n_brokers)
            circle = np.arange(self.n_brokers, dtype=np.int32)
            racks = max(1, self.n_racks)
            where = (topic_row, partition, start, shift, circle, circle % racks, racks)
            kernel.place_kafka(*where, replicas, self.threads)
        return replicas

    def unclean(self, share: float) -> NDArray[np.int8]:
        """Topic overrides: 1 for about this share of the topics, else -1, unset."""
        draws = self.draw(UNCLEAN_STREAM, WEIGHT_UNIT)
        return np.where(draws < share * WEIGHT_UNIT, 1, -1).astype(np.int8)

    def draw(self, stream: int, bound: int) -> NDArray[np.int32]:
        """One random number below `bound` for each topic."""
        numbers = np.empty(self.n_topics, np.int32)
        kernel.random_below(self.seed, stream, bound, numbers)
        return numbers


def _count(name: str, value: int, low: int, high: int) -> int:
    """Check a whole number; return it."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise ArgumentError(f"{name} is {value!r}: a whole number is needed") from error
    if not low <= number <= high:
        raise ArgumentError(f"{name} is {number}: from {low} to {high} is allowed")
    return number


def _share(name: str, value: object, high: float) -> float:
    """Check a number from 0 to `high`; return it."""
    if not isinstance(value, (int, float)) or not 0.0 <= value <= high:
        raise ArgumentError(f"{name} is {value!r}: a number from 0 to {high:g} is allowed")
    return float(value)


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Check one of a few words."""
    if value not in allowed:
        raise ArgumentError(f"{name} is {value!r}: one of {', '.join(allowed)} is allowed")


def _topic_count(topics: int | None, partitions: int) -> int:
    """Check the number of topics, or choose it."""
    if topics is None:
        return min(MAX_TOPICS, max(1, partitions // PARTITIONS_PER_TOPIC))
    return _count("topics", topics, 1, min(MAX_TOPICS, partitions))


def _numbered_names(prefix: str, count: int) -> pa.StringArray:
    """`prefix` and 0, 1, 2, ..., all of one length, without a Python object per name."""
    width = len(str(count - 1))
    numbers = np.arange(count)
    text = np.empty((count, len(prefix) + width), np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    for place in range(1, width + 1):
        text[:, -place] = numbers % 10 + ord("0")
        numbers //= 10
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(text.shape[1])
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


def _rack_names(n_brokers: int, n_racks: int) -> pa.StringArray | None:
    """Rack of each broker: numbers written with letters, all of one length; None for no racks."""
    if n_racks == 0:
        return None
    names = list(ascii_lowercase)
    while len(names) < n_racks:
        names = [name + letter for name in names for letter in ascii_lowercase]
    return pa.array(names[:n_racks], pa.string()).take(pa.array(np.arange(n_brokers) % n_racks))
