"""How long it takes to have a cluster at all: generated, or read from a describe text."""

from __future__ import annotations

import numpy as np
import pytest

import kfast
from benchmarks import plain_describe, plain_numba, plain_numpy
from kfast.kernels import placement

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
