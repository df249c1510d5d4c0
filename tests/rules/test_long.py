"""What takes longer: long random sequences, and a million partitions.

Left out by `make test`; `make slow` runs it.
"""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import kfast
from kfast import ClusterState, Controller
from tests.support.event_run import Sequence
from tests.support.long_tests import share_of

pytestmark = pytest.mark.slow

MILLION = 1_000_000
READ = """
import pathlib, re, sys
import kfast
state = kfast.read(sys.argv[1])
status = pathlib.Path("/proc/self/status").read_text()
print(state.n_partitions, re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
"""


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("seed", share_of(range(101, 104)))
def test_long_sequences_agree_with_the_twin(seed, with_store):
    Sequence(seed, with_store).run(400)


@pytest.fixture(scope="module")
def large():
    """A million partitions on 300 brokers, the controller started."""
    state = kfast.generate(brokers=300, partitions=MILLION, seed=1, unclean_topics=0.1)
    Controller(state, journal="off").on_controller_failover()
    return state


def failed(state, threads, journal):
    """Digest after a third of the brokers failed and came back."""
    controller = Controller(state, threads=threads, journal=journal)
    third = state.broker_id[::3].tolist()
    controller.on_broker_failure(third)
    controller.on_broker_startup(third)
    controller.catch_up(third)
    controller.rebalance_leaders()
    return state.digest()


def test_a_million_partitions_are_the_same_for_threads_levels_and_layouts(large):
    expected = failed(large.copy(), 1, "counts")
    assert failed(large.copy(), 2, "off") == expected
    assert failed(large.copy(), 5, "counts") == expected
    tables = large.to_tables()
    wide = ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster, layout="wide"
    )
    assert wide.digest() == large.digest()
    assert failed(wide, 2, "counts") == expected


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_a_describe_text_is_read_in_three_times_its_size(tmp_path):
    """About 120 MB: a million partitions of topics with names of usual length."""
    n_topics = 10_000
    names = pa.array([f"payments.settlement.eu-central-1.ledger.{i:05}" for i in range(n_topics)])
    made = kfast.generate(brokers=300, partitions=MILLION, topics=n_topics, seed=1)
    state = ClusterState.from_assignment(
        broker_id=made.broker_id, rack=None, topic=names, topic_row=made.topic_row,
        partition=made.partition, replicas=made.replicas,
    )
    path = tmp_path / "describe.txt"
    kfast.write(state, path)
    command = [sys.executable, "-c", READ, str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(said[0]) == MILLION
    size_bytes = path.stat().st_size
    assert size_bytes > 100e6
    assert 1024 * int(said[1]) <= 3 * size_bytes
