"""The clusters that benchmarks work on: `--partitions` of them, 10 000 replicas per broker."""

from __future__ import annotations

import pytest

import kfast
from benchmarks.cases import FEWEST_BROKERS, REPLICATION_FACTOR

SMALL = 20_000
REPLICAS_PER_BROKER = 10_000


def pytest_addoption(parser):
    parser.addoption(
        "--partitions",
        type=int,
        default=SMALL,
        help=f"size of the cluster that benchmarks work on (default {SMALL})",
    )
    parser.addoption(
        "--brokers", type=int, default=0, help="brokers; by default 10 000 replicas for each"
    )
    parser.addoption(
        "--scenarios", type=int, default=5_000, help="size of Spark's sweeps (default 5000)"
    )


@pytest.fixture(scope="session")
def n_partitions(request):
    """How many partitions."""
    return request.config.getoption("--partitions")


@pytest.fixture(scope="session")
def n_brokers(n_partitions, request):
    """300 for a million partitions, 3000 for ten million, unless told otherwise."""
    asked: int = request.config.getoption("--brokers")
    return asked or max(FEWEST_BROKERS, n_partitions * REPLICATION_FACTOR // REPLICAS_PER_BROKER)


@pytest.fixture(scope="session")
def shape(n_partitions, n_brokers):
    """Arguments of `kfast.generate`."""
    return {
        "brokers": n_brokers,
        "partitions": n_partitions,
        "replication_factor": REPLICATION_FACTOR,
        "racks": 3,
        "seed": 42,
    }


@pytest.fixture(scope="session")
def cluster(shape):
    """A cluster that no controller has looked at. Do not change it: copy it."""
    return kfast.generate(**shape)
