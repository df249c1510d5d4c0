"""How long it takes to have a cluster at all: generated, or read from a describe text."""

from __future__ import annotations

import numpy as np
import pytest

import kfast
from benchmarks import plain_describe, plain_numba, plain_numpy
from kfast.kernels import placement
from tests.support.metadata_bulk import PARTITION, PER_BATCH, write_bulk_snapshot

ROUNDS = 3


class TestGenerate:
    """A cluster as Kafka would have placed it, names and all."""

    def test_kfast(self, benchmark, cluster, shape, n_partitions):
        benchmark.group = "generate"
        state = benchmark.pedantic(kfast.generate, kwargs=shape, rounds=ROUNDS)
        assert state == cluster
        benchmark.extra_info.update(
            partitions=n_partitions, digest=plain_numpy.digest(state.replicas)
        )

    @pytest.mark.parametrize("form", ["numpy", "numba"])
    def test_plain(self, benchmark, cluster, shape, n_partitions, n_brokers, form):
        """Placement alone: no state is made of it."""
        n_topics = cluster.n_topics
        start, shift = np.empty(n_topics, np.int32), np.empty(n_topics, np.int32)
        placement.random_below(shape["seed"], 0, n_brokers, 0, start)
        placement.random_below(shape["seed"], 1, n_brokers, 0, shift)
        rack = np.arange(n_brokers) % shape["racks"]
        columns = (cluster.topic_row, cluster.partition, start, shift, rack)
        place = {
            "numpy": lambda: plain_numpy.place_kafka(*columns, cluster.n_slots),
            "numba": lambda: plain_numba.place_kafka(*columns),
        }[form]
        benchmark.group = "generate"
        replicas = benchmark.pedantic(place, rounds=ROUNDS, warmup_rounds=1)
        found = plain_numpy.digest(replicas)
        assert found == plain_numpy.digest(cluster.replicas)
        benchmark.extra_info.update(partitions=n_partitions, digest=found)


@pytest.fixture(scope="session")
def text(cluster, tmp_path_factory):
    """The cluster's describe text."""
    path = tmp_path_factory.mktemp("describe") / "describe.txt"
    plain_describe.write(path, cluster)
    return path


class TestReadDescribe:
    """A describe text: about 120 bytes for each partition."""

    def test_kfast(self, benchmark, cluster, text, n_partitions):
        benchmark.group = "read describe"
        state = benchmark.pedantic(kfast.read, args=(text,), rounds=ROUNDS)
        found = plain_numpy.digest(state.partition, state.records["leader"], state.replicas)
        leader = cluster.records["leader"]
        assert found == plain_numpy.digest(cluster.partition, leader, cluster.replicas)
        benchmark.extra_info.update(
            partitions=n_partitions, digest=found, text_bytes=text.stat().st_size
        )

    @pytest.mark.parametrize("form", ["python", "numpy", "numba"])
    def test_plain(self, benchmark, cluster, text, n_partitions, form):
        """The numbers alone: no names, no checks, no state."""
        benchmark.group = "read describe"
        read = {
            "python": plain_describe.read, "numpy": plain_describe.read_numpy,
            "numba": plain_describe.read_numba,
        }[form]
        partition, leader, replicas, isr = benchmark.pedantic(
            read, args=(text,), rounds=1 if form == "python" else ROUNDS,
            warmup_rounds=int(form == "numba"),
        )
        assert (isr == replicas).all()
        found = plain_numpy.digest(partition, leader, replicas)
        expected = (cluster.partition, cluster.records["leader"], cluster.replicas)
        assert found == plain_numpy.digest(*expected)
        benchmark.extra_info.update(partitions=n_partitions, digest=found)


@pytest.fixture(scope="session")
def snapshot(n_partitions, n_brokers, tmp_path_factory):
    """A snapshot of KRaft's metadata log, with 100 partitions a topic, or fewer."""
    folder, per_topic = tmp_path_factory.mktemp("snapshot"), min(n_partitions, 100)
    n_topics = n_partitions // per_topic
    return write_bulk_snapshot(folder, n_topics, per_topic, n_brokers, n_configs=n_topics // 2)


class TestReadSnapshot:
    """A metadata snapshot: 123 bytes for each partition, three directories among them."""

    def test_kfast(self, benchmark, snapshot):
        benchmark.group = "read snapshot"
        state = benchmark.pedantic(kfast.read, args=(snapshot,), rounds=ROUNDS)
        found = plain_numpy.digest(state.partition, state.records["leader"], state.replicas)
        benchmark.extra_info.update(
            partitions=state.n_partitions, digest=found, file_bytes=snapshot.stat().st_size
        )
        expected = read_fixed(snapshot, state.n_partitions)
        assert found == plain_numpy.digest(*expected)

    def test_plain(self, benchmark, snapshot, n_partitions):
        """The numbers alone, of records whose length is known: no checks, no state."""
        benchmark.group = "read snapshot"
        n = n_partitions // min(n_partitions, 100) * min(n_partitions, 100)
        columns = benchmark.pedantic(read_fixed, args=(snapshot, n), rounds=ROUNDS)
        benchmark.extra_info.update(partitions=n, digest=plain_numpy.digest(*columns))


def read_fixed(path, n):
    """Partition, leader and replicas of the last n records of a snapshot, in numpy."""
    data = path.read_bytes()
    footer = 75
    n_batches = -(-n // PER_BATCH)
    at = len(data) - footer - n * PARTITION.itemsize - 61 * n_batches
    parts = []
    for start in range(0, n, PER_BATCH):
        size = min(PER_BATCH, n - start)
        parts.append(np.frombuffer(data, PARTITION, size, at + 61))
        at += 61 + size * PARTITION.itemsize
    rows = np.concatenate(parts)
    return (
        rows["partition"].astype(np.int32), rows["leader"].astype(np.int32),
        rows["replicas"].astype(np.uint16),
    )
