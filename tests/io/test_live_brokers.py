"""Real brokers, started from Maven Central's jars, are read as they are."""

import asyncio
import gc
import time

import pytest

import kfast
from tests.support.kafka_brokers import KafkaBrokers, create_topics, why_not

pytest.importorskip("kafka", reason="kafka-python is not installed")
pytestmark = [
    pytest.mark.slow,
    # kafka-python leaves sockets to the garbage collector where nobody listens any more.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KRAFT, ZOOKEEPER = "4.1.2", "3.9.1"
PLACEMENT = {0: [1, 2, 3], 1: [3, 1, 2]}
LONGEST_S = 60


def cluster_of(version, n_brokers):
    """Brokers, or the reason why there are none here."""
    if reason := why_not(version):
        pytest.skip(reason)
    return KafkaBrokers(version, n_brokers)


@pytest.fixture(autouse=True)
def _collected(caplog):
    """What kafka-python logs of a refused connection holds its socket: nobody shall find it."""
    yield
    caplog.get_records("call").clear()
    gc.collect()


def rows_of(state, *columns):
    rows = state.to_tables().partitions.to_pylist()
    return [tuple(row[name] for name in columns) for row in rows]


def read_until(address, holds):
    """Read a cluster again and again until something holds of it."""
    deadline = time.monotonic() + LONGEST_S
    while not holds(state := kfast.read(address)):
        assert time.monotonic() < deadline, state.to_tables().brokers.to_pylist()
        time.sleep(0.5)
    return state


async def aiokafkas_answers(bootstrap):
    from aiokafka.admin import AIOKafkaAdminClient

    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        return {
            "describe_cluster": await client.describe_cluster(),
            "describe_topics": await client.describe_topics(["orders"]),
        }
    finally:
        await client.close()


def test_a_kraft_cluster_before_and_after_a_broker_is_killed():
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    pytest.importorskip("aiokafka", reason="aiokafka is not installed")
    from confluent_kafka.admin import AdminClient
    from kafka import KafkaAdminClient

    with cluster_of(KRAFT, 3) as brokers:
        create_topics(brokers.bootstrap, {"orders": {
            "assignments": PLACEMENT,
            "configs": {"min.insync.replicas": "2", "retention.ms": "7"},
        }})
        address = f"kafka://{brokers.bootstrap}"
        state = kfast.read(address)
        assert (state.controller, state.quorum.elr_on) == ("kraft-4.1", True)
        assert state.controller_id in brokers.ids
        assert rows_of(state, "topic", "partition", "replicas", "leader") == [
            ("orders", 0, [1, 2, 3], 1), ("orders", 1, [3, 1, 2], 3)]
        assert state.to_tables().brokers["rack"].to_pylist() == ["rack-1", "rack-2", "rack-3"]
        assert state.topic_min_insync_replicas.tolist() == [2]
        assert state.quorum.configurations[2, "orders"]["retention.ms"] == "7"
        with KafkaAdminClient(bootstrap_servers=brokers.bootstrap.split(",")) as client:
            assert kfast.read(client).digest() == state.digest()
        columns = ("topic", "partition", "replicas", "leader")
        confluent = AdminClient({"bootstrap.servers": brokers.bootstrap})
        answers = asyncio.run(aiokafkas_answers(brokers.bootstrap))
        for other in (confluent, answers):
            assert rows_of(kfast.read(other), *columns) == rows_of(state, *columns)

        brokers.kill(3)
        # Topics and brokers are two answers: one may be of before the kill, the other of after it.
        state = read_until(
            address, lambda state: state.to_tables().brokers["fenced"].to_pylist()[2]
            and rows_of(state, "leader", "isr") == [(1, [1, 2])] * 2,
        )
        assert rows_of(state, "partition", "leader", "isr") == [(0, 1, [1, 2]), (1, 1, [1, 2])]


def test_a_cluster_with_zookeeper_is_the_same_from_both_sides():
    with cluster_of(ZOOKEEPER, 2) as brokers:
        create_topics(brokers.bootstrap, {
            "orders": {"assignments": {0: [1, 2], 1: [2, 1]},
                       "configs": {"min.insync.replicas": "2"}},
        })
        columns = ("topic", "partition", "replicas", "leader", "isr", "leader_epoch")
        asked = kfast.read(f"kafka://{brokers.bootstrap}")
        znodes = kfast.read(f"zk://localhost:{brokers.zookeeper_port}/kafka")
        assert rows_of(asked, *columns) == rows_of(znodes, *columns)
        assert rows_of(asked, "replicas") == [([1, 2],), ([2, 1],)]
        for state in (asked, znodes):
            assert state.controller == "zk-3.9"
            assert state.controller_id in brokers.ids
            assert state.topic_min_insync_replicas.tolist() == [2]
            assert state.to_tables().brokers["rack"].to_pylist() == ["rack-1", "rack-2"]

        brokers.kill(2)
        read_until(
            f"zk://localhost:{brokers.zookeeper_port}/kafka",
            lambda state: state.to_tables().brokers["registered"].to_pylist() == [True, False],
        )
        state = read_until(
            f"kafka://{brokers.bootstrap}",
            lambda state: rows_of(state, "leader", "isr") == [(1, [1]), (1, [1])],
        )
        assert state.to_tables().brokers["registered"].to_pylist() == [True, False]
