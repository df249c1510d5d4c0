"""Clusters made up from a few numbers: any size, the same for the same seed on every machine.

Every draw has a place in a stream (`kernels/splitmix.pxd`), so that any range of rows can be made
without those before it, and is the same as in the whole.

Placement is Kafka's own rule by default, so that a generated cluster looks like one whose topics
Kafka created. The rule itself is in `kernels/placement.pyx`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kfast.arguments import MAX_BROKER_ID, number, whole
from kfast.errors import ArgumentError
from kfast.kernels import placement as kernel
from kfast.schema import (
    CONTROLLERS,
    DEFAULT_CONTROLLER,
    MAX_SLOTS,
    NARROW_BROKERS,
    NARROW_SLOTS,
    broker_dtype,
)
from kfast.state.cluster import ClusterState
from kfast.state.controller_change import TOLD, change_controller
from kfast.state.kraft_releases import RELEASES

__all__ = ["MAX_BROKERS", "MAX_PARTITIONS", "MAX_TOPICS", "Recipe", "generate"]

MAX_BROKERS = 1_000_000
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

TOPIC_BLOCK = 1 << 18
"""Topics whose sizes are worked out at once."""


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
    controller: str = DEFAULT_CONTROLLER,
    elr: bool | None = None,
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
        Every topic's min.insync.replicas, in KRaft that of the cluster; by default unset.
    unclean_topics : float, default 0.0
        Share of the topics (on average) whose unclean.leader.election.enable is set to true.
    first_broker_id : int, default 0
        Id of the first broker.
    controller : str
        One of `schema.CONTROLLERS`. In KRaft no broker is fenced, features are those of a new
        cluster of the release, and replicas are in no directories.
    elr : bool, optional
        Whether eligible leader replicas are on; by default where new clusters have them.
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
    recipe = Recipe(
        brokers, partitions, replication_factor, racks, topics, seed, placement, topic_sizes,
        zipf_exponent, min_insync_replicas, unclean_topics, first_broker_id, controller, elr,
    )
    return recipe.part(threads=threads)


@dataclass(frozen=True)
class Recipe:
    """A made-up cluster of which any part can be made; the arguments are those of `generate`."""

    brokers: int
    partitions: int
    replication_factor: int = 3
    racks: int = 0
    topics: int | None = None
    seed: int = 0
    placement: str = "kafka"
    topic_sizes: str = "equal"
    zipf_exponent: float = 1.0
    min_insync_replicas: int | None = None
    unclean_topics: float = 0.0
    first_broker_id: int = 0
    controller: str = DEFAULT_CONTROLLER
    elr: bool | None = None

    def __post_init__(self) -> None:
        """Check all arguments."""
        self._check("brokers", 1, MAX_BROKERS)
        self._check("partitions", 1, MAX_PARTITIONS)
        self._check("replication_factor", 1, min(MAX_SLOTS, self.brokers))
        self._check("racks", 0, self.brokers)
        if self.topics is not None:
            self._check("topics", 1, min(MAX_TOPICS, self.partitions))
        self._check("seed", 0, 2**64 - 1)
        _choice("placement", self.placement, PLACEMENTS)
        _choice("topic_sizes", self.topic_sizes, TOPIC_SIZES)
        _choice("controller", self.controller, CONTROLLERS)
        number("zipf_exponent", self.zipf_exponent, 0, 10)
        self._check("first_broker_id", 0, MAX_BROKER_ID + 1 - self.brokers)
        if self.min_insync_replicas is not None:
            self._check("min_insync_replicas", 1, 2**31 - 1)
        number("unclean_topics", self.unclean_topics, 0, 1)

    def _check(self, name: str, low: int, high: int) -> None:
        """Check a whole number, and keep it as one."""
        object.__setattr__(self, name, whole(name, getattr(self, name), low, high))

    @property
    def n_topics(self) -> int:
        """How many topics: as asked for, or one for about 100 partitions."""
        if self.topics is not None:
            return self.topics
        return min(MAX_TOPICS, max(1, self.partitions // PARTITIONS_PER_TOPIC))

    def part(self, start: int = 0, stop: int | None = None, *, threads: int = 1) -> ClusterState:
        """Make some rows of the cluster, the topics that these are of, and all brokers.

        Parameters
        ----------
        start, stop : int
            Rows of partitions; by default all of them.
        threads : int, default 1
            Threads to use. The result does not depend on it.

        Returns
        -------
        ClusterState
            Its rows, topics and brokers are as in the whole cluster.
        """
        last = self.partitions if stop is None else stop
        return self._make(*self._sizes.holding(start, last), start, last, threads)

    def part_of_topics(self, first: int, last: int) -> ClusterState:
        """Make some topics of the cluster without their partitions, and all brokers."""
        return self._make(first, last, 0, 0, 1)

    def _make(self, first: int, last: int, start: int, stop: int, threads: int) -> ClusterState:
        """Make the topics from `first` to `last` and the rows from `start` to `stop`."""
        whole("threads", threads, 1, MAX_THREADS)
        n, n_topics, ids = stop - start, last - first, self.first_broker_id
        topic_row, partition = np.empty(n, np.int32), np.empty(n, np.int32)
        starts = self._sizes.starts(first, last)
        kernel.number_partitions(starts, start, topic_row, partition, threads)
        min_isr = -1 if self.min_insync_replicas is None else self.min_insync_replicas
        draws = self._draw(UNCLEAN_STREAM, WEIGHT_UNIT, first, last)
        unclean = np.where(draws < self.unclean_topics * WEIGHT_UNIT, 1, -1).astype(np.int8)
        state = ClusterState.from_assignment(
            broker_id=np.arange(ids, ids + self.brokers, dtype=np.int32),
            rack=_rack_names(self.brokers, self.racks),
            topic=_numbered_names("topic-", first, last, self.n_topics),
            topic_row=topic_row,
            partition=partition,
            replicas=self._place(topic_row, partition, first, last, start, threads),
            topic_min_insync_replicas=np.full(n_topics, min_isr, np.int32),
            topic_unclean_leader_election=unclean,
        )
        if self.controller != DEFAULT_CONTROLLER or self.elr is not None:
            self._set_controller(state)
        return state

    def _set_controller(self, state: ClusterState) -> None:
        """Let the cluster be one that its controller has made."""
        release, elr = RELEASES.get(self.controller), self.elr
        if release is not None:
            elr = release.elr_in_new_clusters if elr is None else elr
            if self.min_insync_replicas is not None:
                # Of the cluster, not of each topic: a configuration is a Python object.
                state.topic_min_insync_replicas[:] = -1
                state.default_min_insync_replicas = self.min_insync_replicas
        change_controller(state, self.controller, elr=elr)
        state.assumptions = (TOLD,)

    @cached_property
    def _sizes(self) -> _TopicSizes:
        exponent = float(self.zipf_exponent) if self.topic_sizes == "zipf" else 0.0
        return _TopicSizes(self.partitions, self.n_topics, exponent)

    def _place(
        self, topic_row: NDArray[np.int32], partition: NDArray[np.int32], first: int, last: int,
        start: int, threads: int,
    ) -> NDArray[Any]:
        """Broker rows of some partitions, of the topics from `first` to `last`.

        Brokers are dealt to the racks in turn, so the order in which Kafka alternates between
        racks is that of their rows.
        """
        narrow = self.brokers < NARROW_BROKERS and self.replication_factor <= NARROW_SLOTS
        replicas = np.empty((partition.size, self.replication_factor), broker_dtype(narrow))
        if self.placement == "uniform":
            stream = REPLICA_STREAM + start
            kernel.place_uniform(self.seed, stream, self.brokers, replicas, threads)
        elif self.placement == "ring":
            kernel.place_ring(self.brokers, start, replicas, threads)
        else:
            begin = self._draw(START_STREAM, self.brokers, first, last)
            shift = self._draw(SHIFT_STREAM, self.brokers, first, last)
            circle = np.arange(self.brokers, dtype=np.int32)
            racks = max(1, self.racks)
            where = (topic_row, partition, begin, shift, circle, circle % racks, racks)
            kernel.place_kafka(*where, replicas, threads)
        return replicas

    def _draw(self, stream: int, bound: int, first: int, last: int) -> NDArray[np.int32]:
        """One random number below `bound` for each topic from `first` to `last`."""
        numbers = np.empty(last - first, np.int32)
        kernel.random_below(self.seed, stream, bound, first, numbers)
        return numbers


class _TopicSizes:
    """How many partitions each topic has: one each, the rest by weight.

    All is done in whole numbers, so that it is the same on every machine. What rounding leaves over
    goes to the first topics, one each. Exponent 0 gives equal sizes. Of many topics, only where
    blocks of them begin is kept.
    """

    def __init__(self, n_partitions: int, n_topics: int, exponent: float) -> None:
        self.n_topics, self.exponent = n_topics, exponent
        self._spread = n_partitions - n_topics
        self._whole = sum(int(self._weights(*block).sum()) for block in self._blocks())
        totals = [int(self._rounded(*block).sum()) for block in self._blocks()]
        self._left = n_partitions - sum(totals)
        edges = np.minimum(np.arange(len(totals) + 1) * TOPIC_BLOCK, n_topics)
        self._begins = np.cumsum([0, *totals]) + np.minimum(edges, self._left)
        self._kept: tuple[int, NDArray[np.int64]] = -1, edges

    def _blocks(self) -> Iterator[tuple[int, int]]:
        for first in range(0, self.n_topics, TOPIC_BLOCK):
            yield first, min(first + TOPIC_BLOCK, self.n_topics)

    def _weights(self, first: int, last: int) -> NDArray[np.int64]:
        ranks = np.arange(first + 1, last + 1, dtype=np.float64)
        weights: NDArray[np.int64] = (WEIGHT_UNIT / ranks**self.exponent).astype(np.int64)
        return weights

    def _rounded(self, first: int, last: int) -> NDArray[np.int64]:
        """Sizes without what rounding leaves over."""
        return 1 + self._weights(first, last) * self._spread // self._whole

    def starts(self, first: int, last: int) -> NDArray[np.int64]:
        """First row of each topic from `first` to `last`, and the row after their last one."""
        pieces, end = [np.empty(0, np.int64)], 0
        for block in range(first // TOPIC_BLOCK, -(-last // TOPIC_BLOCK)):
            begin, starts = block * TOPIC_BLOCK, self._block(block)
            pieces.append(starts[max(0, first - begin) : min(last - begin, starts.size - 1)])
            end = starts[min(last - begin, starts.size - 1)]
        return np.concatenate([*pieces, [end]]).astype(np.int64)

    def holding(self, start: int, stop: int) -> tuple[int, int]:
        """The topics, from one to before another, of which there are rows in a range."""
        if start >= stop:
            return 0, 0
        return self._topic_of(start), self._topic_of(stop - 1) + 1

    def _topic_of(self, row: int) -> int:
        block = int(np.searchsorted(self._begins, row, side="right")) - 1
        at = int(np.searchsorted(self._block(block), row, side="right")) - 1
        return block * TOPIC_BLOCK + at

    def _block(self, number: int) -> NDArray[np.int64]:
        """First row of each topic of a block, and the row after the block; the last is kept."""
        kept = self._kept
        if kept[0] != number:
            first = number * TOPIC_BLOCK
            sizes = self._rounded(first, min(first + TOPIC_BLOCK, self.n_topics))
            sizes[: max(0, self._left - first)] += 1
            begin = self._begins[number]
            kept = self._kept = number, np.concatenate([[begin], begin + np.cumsum(sizes)])
        return kept[1]


def _choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Check one of a few words."""
    if value not in allowed:
        raise ArgumentError(f"{name} is {value!r}: one of {', '.join(allowed)} is allowed")


def _numbered_names(prefix: str, first: int, last: int, count: int) -> pa.StringArray:
    """`prefix` and a number, for some of 0, 1, 2, ..., `count` - 1, all of one length.

    Without a Python object per name.
    """
    width = len(str(count - 1))
    numbers = np.arange(first, last)
    text = np.empty((last - first, len(prefix) + width), np.uint8)
    text[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    for place in range(1, width + 1):
        text[:, -place] = numbers % 10 + ord("0")
        numbers //= 10
    offsets = np.arange(last - first + 1, dtype=np.int32) * np.int32(text.shape[1])
    return pa.StringArray.from_buffers(last - first, pa.py_buffer(offsets), pa.py_buffer(text))


def _rack_names(n_brokers: int, n_racks: int) -> pa.StringArray | None:
    """Rack of each broker: numbers written with letters, all of one length; None for no racks."""
    if n_racks == 0:
        return None
    names = list(ascii_lowercase)
    while len(names) < n_racks:
        names = [name + letter for name in names for letter in ascii_lowercase]
    return pa.array(names[:n_racks], pa.string()).take(pa.array(np.arange(n_brokers) % n_racks))
