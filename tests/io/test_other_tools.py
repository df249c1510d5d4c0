"""Clusters as other tools show them: Cruise Control, kafka-assigner, Strimzi, metadata shell."""

from __future__ import annotations

import json

import pytest

import kfast
from kfast import io
from kfast.errors import InputError
from kfast.io.planners.cruise_control_state import read_load_brokers
from kfast.io.planners.strimzi import read_strimzi


def partition(number, leader, replicas, in_sync, topic="t"):
    return {"topic": topic, "partition": number, "leader": leader, "replicas": replicas,
            "in-sync": in_sync, "out-of-sync": [], "offline": [], "min-isr": 2}


STATE = {
    "version": 1,
    "KafkaBrokerState": {"IsController": {"1": False, "3": True}, "LeaderCountByBrokerId": {"1": 1},
                         "Summary": {"Replicas": 5}},
    "KafkaPartitionState": {
        "offline": [partition(1, -1, [2], [])], "with-offline-replicas": [],
        "urp": [partition(1, -1, [2], []), partition(0, 1, [1, 2], [1])], "under-min-isr": [],
        "other": [partition(0, 3, [3, 1], [1, 3], "u")],
    },
}


def read(document):
    return io.read_tables(("state", json.dumps(document).encode()))


def test_the_cluster_state_of_cruise_control():
    """A partition stands in several lists; brokers are up that it asked who the controller is."""
    tables = read(STATE)
    assert [tuple(row.values()) for row in tables.partitions.to_pylist()] == [
        ("t", 1, [2], -1, []), ("t", 0, [1, 2], 1, [1]), ("u", 0, [3, 1], 3, [1, 3]),
    ]
    assert tables.brokers["registered"].to_pylist() == [True, False, True]
    assert tables.topics["min_insync_replicas"].to_pylist() == [2, 2]
    assert kfast.read(("state", json.dumps(STATE).encode())).n_partitions == 3


def test_a_state_without_healthy_partitions_is_partial():
    document = json.loads(json.dumps(STATE))
    document["KafkaPartitionState"]["other"] = []
    assert any(note.startswith("state is partial: it lists 3 of 5 replicas, without verbose=true")
               for note in read(document).notes)
    document["KafkaPartitionState"] |= {"offline": [], "urp": []}
    with pytest.raises(InputError, match="lists no partition; right is what kafka_cluster_state"):
        read(document)


def test_old_servers_write_strings():
    document = json.loads(json.dumps(STATE))
    document["KafkaPartitionState"]["other"] = [
        partition("0", "3", "[3, 1]", "[1, 3]", "u") | {"min-isr": "2"}
    ]
    assert read(document).partitions.equals(read(STATE).partitions)


def test_a_state_that_contradicts_itself_is_refused():
    document = json.loads(json.dumps(STATE))
    document["KafkaPartitionState"]["urp"][0]["replicas"] = [3]
    with pytest.raises(InputError, match="t-1 stands twice and differs"):
        read(document)
    del document["KafkaPartitionState"]["urp"]
    with pytest.raises(InputError, match="missing required field `urp`"):
        read(document)


LOAD = {"version": 1, "hosts": [], "brokers": [
    {"Broker": 1, "Host": "h1", "Rack": "a", "BrokerState": "ALIVE"},
    {"Broker": 2, "Host": "h2", "Rack": "h2", "BrokerState": "DEAD"},
]}


def test_the_load_of_cruise_control_has_racks_and_dead_brokers():
    """It takes a host for a rack where brokers have none."""
    tables = read_load_brokers("load", json.dumps(LOAD).encode(), 0)
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": "a", "registered": True},
        {"broker_id": 2, "rack": None, "registered": False},
    ]
    assert tables.partitions.num_rows == 0
    for key, value, message in (("Broker", 2, "broker 2 stands twice"),
                                ("BrokerState", "ALIVF", "broker 1 is 'ALIVF'; allowed: ALIVE,")):
        wrong = json.loads(json.dumps(LOAD))
        wrong["brokers"][0][key] = value
        with pytest.raises(InputError, match=message):
            read_load_brokers("load", json.dumps(wrong).encode(), 0)


def test_kafka_assigner_shows_the_cluster_before_its_changes():
    before = {
        "brokers": {"1": {"id": 1, "rack": "a"}, "3": {"id": 3, "rack": None}},
        "topics": {"t": {"retention": 9, "partitions": {
            "0": {"size": 5, "replicas": [3, 1]}, "1": {"size": 5, "replicas": [1, 2]}}}},
    }
    tables = read({"before": before, "after": before})
    assert [tuple(row.values()) for row in tables.partitions.to_pylist()] == [
        ("t", 0, [3, 1], None, None), ("t", 1, [1, 2], None, None),
    ]
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": "a", "registered": True},
        {"broker_id": 2, "rack": None, "registered": False},
        {"broker_id": 3, "rack": None, "registered": True},
    ]
    assert tables.log_settings == {"t": {"retention.ms": "9"}}
    with pytest.raises(InputError, match="not output of kafka-assigner"):
        read({"before": {"brokers": {}}})


REGISTRATION = (
    "PartitionRegistration(replicas=[3, 1, 2], directories=[lmVf8z6y6ySkWtEUBwqoiA], isr=[3, 1],"
    " removingReplicas=[], addingReplicas=[], elr=[2], lastKnownElr=[], leader=1,"
    " leaderRecoveryState=RECOVERED, leaderEpoch=7, partitionEpoch=16)"
)


@pytest.mark.parametrize("text", [
    f">> cat /image/topics/byName/t-1/0\n{REGISTRATION}\n",
    f"$ kafka-metadata-shell.sh -s x cat image/topics/byName/t-1/0\n{REGISTRATION}\n",
    f"t-1:\n  0:\n    {REGISTRATION}\n",
    f"topics:\n  byName:\n    t-1:\n      0:\n        {REGISTRATION}\n",
])
def test_partitions_of_the_metadata_shell(text):
    tables = io.read_tables(("shell", text.encode()))
    assert tables.partitions.to_pylist() == [{
        "topic": "t-1", "partition": 0, "replicas": [3, 1, 2], "leader": 1, "isr": [3, 1],
        "leader_epoch": 7, "elr": [2], "last_known_elr": [],
    }]
    for old, new in (("leader=1", "leader=x"), ("isr=[3, 1]", "isr=[3, 1"), ("isr=", "irs=")):
        with pytest.raises(InputError):
            io.read_tables(("shell", text.replace(old, new).encode()))


def test_a_partition_without_its_name_is_refused(shared_data):
    """The command whose output is read is named."""
    folder = shared_data / "kraft_live" / "exports" / "mark-offline"
    with pytest.raises(InputError, match="right is the output of tree image/topics/byName"):
        kfast.read(folder / "metadata-shell-cat-image-topics-byName-p-pinned-0.txt")


STRIMZI = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: west, labels: {strimzi.io/cluster: c1}}
spec: {replicas: 2, roles: [broker], storage: {type: jbod}}
status: {nodeIds: [4, 5]}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: controllers}
spec: {replicas: 1, roles: [controller]}
status: {nodeIds: [0]}
---
apiVersion: v1
kind: ConfigMap
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: c1}
spec:
  kafka:
    rack: {topologyKey: zone}
    config: {min.insync.replicas: 2, unclean.leader.election.enable: false}
---
apiVersion: v1
kind: List
items:
- apiVersion: kafka.strimzi.io/v1beta2
  kind: KafkaTopic
  metadata: {name: t}
  spec: {partitions: 3, replicas: 2, config: {min.insync.replicas: "1", retention.ms: 60000}}
  status: {topicId: Zk3v0s0yQ1qAqk1b2s3d4A}
- apiVersion: kafka.strimzi.io/v1
  kind: KafkaTopic
  metadata: {name: u---1}
  spec: {topicName: U}
"""


def test_resources_of_strimzi():
    pytest.importorskip("yaml", reason="the package pyyaml is missing")
    tables = read_strimzi("c.yaml", STRIMZI.encode(), 0)
    assert tables.brokers["broker_id"].to_pylist() == [4, 5]
    assert tables.cluster.to_pylist() == [
        {"default_min_insync_replicas": 2, "default_unclean_leader_election": False}
    ]
    assert tables.topics.to_pylist() == [
        {"topic": "t", "topic_id": "Zk3v0s0yQ1qAqk1b2s3d4A", "unclean_leader_election": None,
         "min_insync_replicas": 1},
        {"topic": "U", "topic_id": None, "unclean_leader_election": None,
         "min_insync_replicas": None},
    ]
    assert tables.log_settings == {"t": {"retention.ms": "60000"}}
    assert tables.notes == (
        "c.yaml: document 4 (Kafka): racks are labels of Kubernetes' nodes, and are not in it",
    )


@pytest.mark.parametrize(("text", "message"), [
    (STRIMZI.replace("[4, 5]", "[4, 5"), "is damaged YAML: "),
    (STRIMZI.replace("[4, 5]", "[-4]"), "document 1 (KafkaNodePool): not a resource of Strimzi"),
    (STRIMZI.replace("name: u---1", "name: u---1").replace("topicName: U", "topicName: t"),
     "topic t stands twice"),
    (STRIMZI.replace('min.insync.replicas: "1"', "min.insync.replicas: x"), "topic t: min.insync"),
    (STRIMZI + "---\n" + "[" * 5000, "is damaged YAML: "),
    (STRIMZI + "---\n!!python/object:os.system {}\n", "is damaged YAML: could not determine a"),
    (STRIMZI + "---\napiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: c2}\n"
     "spec: {kafka: {}}\n", "has resources of 2 clusters: c1, c2"),
    (STRIMZI.replace("name: u---1", "name: u---1, labels: {strimzi.io/cluster: c2}"),
     "has resources of 2 clusters: c1, c2"),
])
def test_damaged_resources_are_refused(text, message):
    pytest.importorskip("yaml", reason="the package pyyaml is missing")
    with pytest.raises(InputError) as caught:
        read_strimzi("c.yaml", text.encode(), 0)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_lists_no_partitions_is_read_beside_what_does(tmp_path):
    """Racks of Cruise Control's load, settings of Strimzi; alone each is refused."""
    pytest.importorskip("yaml", reason="the package pyyaml is missing")
    state, load = (("state", json.dumps(STATE).encode()), ("load", json.dumps(LOAD).encode()))
    strimzi = ("c.yaml", STRIMZI.replace("[4, 5]", "[1, 2, 3]").encode())
    merged = kfast.read(state, load, strimzi)
    assert merged.rack.to_pylist() == ["a", None, None]
    assert merged.n_partitions == 3
    assert merged.default_min_insync_replicas == 2
    for alone in (load, strimzi):
        with pytest.raises(InputError, match="which does not list the partitions; right is beside"):
            kfast.read(alone)
