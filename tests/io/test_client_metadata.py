"""Metadata as clients print it: each form of a small cluster, with what each does not say."""

from __future__ import annotations

import json

import pytest

import kfast
from kfast import io
from kfast.errors import InputError

ROWS = [("b.x-1", 0, 3, [3, 1, 2], [3, 1]), ("b.x-1", 1, -1, [1, 2], []), ("a", 0, 1, [1], [1])]
"""Topic, partition, leader, replicas, ISR; broker 2 is down."""


def of_topics(partition):
    """Topics with their partitions, each made by a function of number, leader, replicas, ISR."""
    topics = {}
    for topic, *row in ROWS:
        topics.setdefault(topic, []).append(partition(*row))
    return topics


def ids(key):
    """What makes `{key: broker}` of brokers."""
    return lambda brokers: [{key: broker} for broker in brokers]


KCAT = {
    "originating_broker": {"id": 1, "name": "h1:9092/1"}, "query": {"topic": "*"},
    "controllerid": 3, "brokers": [{"id": 3, "name": "[::1]:9092"}, {"id": 1, "name": "h:9092"}],
    "topics": [
        {"topic": topic, "partitions": rows} for topic, rows in of_topics(
            lambda number, leader, replicas, isr: {
                "partition": number, "leader": leader, "replicas": ids("id")(replicas),
                "isrs": ids("id")(isr),
                **({"error": "Broker: Leader not available"} if leader < 0 else {}),
            }
        ).items()
    ],
}
KCAT_TEXT = """Metadata for all topics (from broker 1: h1:9092/1):
 2 brokers:
  broker 3 at [::1]:9092 (controller)
  broker 1 at h1:9092
 2 topics:
  topic "b.x-1" with 2 partitions:
    partition 0, leader 3, replicas: 3,1,2, isrs: 3,1
    partition 1, leader -1, replicas: 1,2, isrs: , Broker: Leader not available
  topic "a" with 1 partitions:
    partition 0, leader 1, replicas: 1, isrs: 1
"""
KAFKA_PYTHON = {
    "describe_cluster": {"cluster_id": "c", "brokers": [
        {"broker_id": 1, "rack": "r", "is_fenced": False}, {"broker_id": 3, "rack": None},
    ]},
    "describe_topics": [
        {"error_code": 0, "name": topic, "partitions": rows} for topic, rows in of_topics(
            lambda number, leader, replicas, isr: {
                "error_code": 0 if leader >= 0 else 5, "partition_index": number,
                "leader_id": leader, "leader_epoch": 7, "replica_nodes": replicas,
                "isr_nodes": isr, "offline_replicas": [2],
            }
        ).items()
    ],
}
AIOKAFKA = [
    {"error_code": 0, "topic": topic, "is_internal": False, "partitions": rows}
    for topic, rows in of_topics(
        lambda number, leader, replicas, isr: {
            "error_code": 0, "partition": number, "leader": leader, "replicas": replicas,
            "isr": isr, "offline_replicas": [],
        }
    ).items()
]
CONFLUENT = {
    "brokers": {"1": {"id": 1}, "3": {"id": 3}},
    "topics": {
        topic: {"error": None, "partitions": dict(rows)} for topic, rows in of_topics(
            lambda number, leader, replicas, isr: (
                str(number), {"leader": leader, "replicas": replicas, "isrs": isr, "error": None}
            )
        ).items()
    },
}
CONFLUENT_DESCRIBED = {
    "describe_cluster": {"nodes": [{"id": 1, "rack": "r"}, {"id": 3, "rack": None}]},
    "describe_topics": {
        topic: {"name": topic, "topic_id": "Dan9n2e5TVidwHbOOsP+Ew", "partitions": rows}
        for topic, rows in of_topics(
            lambda number, leader, replicas, isr: {
                "id": number, "leader": None if leader < 0 else {"id": leader},
                "replicas": ids("id")(replicas), "isr": ids("id")(isr),
            }
        ).items()
    },
}
TABLE = """BROKERS
=======
ID    HOST  PORT  RACK
1*    h     9092  r
3     h     9092

TOPIC       b.x-1
PARTITIONS  2
PARTITION  LEADER  EPOCH  REPLICAS  ISR    OFFLINE-REPLICAS
0          3       7      [3 1 2]   [3 1]  [2]
1          -1      7      [1 2]            [2]

TOPIC       a
PARTITION  LEADER  EPOCH  REPLICAS  ISR    OFFLINE-REPLICAS
0          1       7      1         1
"""


@pytest.mark.parametrize(("data", "lists_brokers"), [
    (json.dumps(KCAT), True), (json.dumps(KCAT) + "%", True), (KCAT_TEXT, True),
    ("some prose\n" + json.dumps(KAFKA_PYTHON, indent=1), True),
    (json.dumps(AIOKAFKA), False), (json.dumps(CONFLUENT), True),
    (json.dumps(CONFLUENT_DESCRIBED), True), (TABLE, True),
], ids=["kcat", "percent", "kcat-text", "kafka-python", "aiokafka", "confluent",
        "confluent-described", "table"])
def test_every_form_reads_the_same(data, lists_brokers):
    tables = io.read_tables(("dump", data.encode()))
    names = ["topic", "partition", "leader", "replicas", "isr"]
    assert [tuple(row.values()) for row in tables.partitions.select(names).to_pylist()] == ROWS
    brokers = tables.brokers.select(["broker_id", "registered"]).to_pylist()
    assert [tuple(row.values()) for row in brokers] == [(1, True), (2, False), (3, True)]
    missing = "dump: brokers that it does not list, which are not registered: 2"
    assert (missing in tables.notes) == lists_brokers
    assert tables.taken_for_down == (() if lists_brokers else (2,))
    state = kfast.read(("dump", data.encode()))
    assert (state.n_partitions, state.n_topics) == (3, 2)


def test_racks_epochs_and_ids_are_read_where_they_are():
    tables = io.read_tables(("d", json.dumps(KAFKA_PYTHON).encode()))
    assert tables.brokers["rack"].to_pylist() == ["r", None, None]
    assert tables.brokers["fenced"].to_pylist() == [False, False, False]
    assert tables.partitions["leader_epoch"].to_pylist() == [7, 7, 7]
    tables = io.read_tables(("d", json.dumps(CONFLUENT_DESCRIBED).encode()))
    assert tables.topics["topic_id"].to_pylist() == ["Dan9n2e5TVidwHbOOsP-Ew"] * 2
    assert io.read_tables(("d", TABLE.encode())).brokers["rack"].to_pylist() == ["r", None, None]


def test_rest_proxy_and_msk_name_one_topic():
    rest = {"name": "t", "configs": {"min.insync.replicas": "2"}, "partitions": [
        {"partition": 0, "leader": 2, "replicas": [
            {"broker": 2, "leader": True, "in_sync": True},
            {"broker": 1, "leader": False, "in_sync": False},
        ]},
    ]}
    msk = {"TopicName": "t", "Partitions": [
        {"Partition": 0, "Leader": 2, "Replicas": [2, 1], "Isr": [2]}
    ]}
    for document in (rest, msk):
        tables = io.read_tables(("d", json.dumps(document).encode()))
        assert tables.partitions.to_pylist() == [
            {"topic": "t", "partition": 0, "replicas": [2, 1], "leader": 2, "isr": [2]}
        ]
    assert io.read_tables(("d", json.dumps(rest).encode())).topics["min_insync_replicas"][
        0].as_py() == 2
    del msk["TopicName"]
    with pytest.raises(InputError, match="it has no name; right is one"):
        io.read_tables(("d", json.dumps(msk).encode()))


def test_an_elr_shows_that_it_is_on():
    answer = {"topics": [{"name": "t", "topic_id": "qs6_HstfQO6gYwRoJxlrKw", "partitions": [
        {"partition_index": 0, "leader_id": -1, "leader_epoch": 3, "replica_nodes": [1, 2],
         "isr_nodes": [], "eligible_leader_replicas": [2], "last_known_elr": None}]}],
        "next_cursor": {"topic_name": "u"}}
    tables = io.read_tables(("d", json.dumps(answer).encode()))
    assert tables.partitions["elr"].to_pylist() == [[2]]
    assert "d is partial: it has a next_cursor, so more topics follow" in tables.notes
    assert kfast.read(("d", json.dumps(answer).encode())).quorum.elr_on


def test_rpk_sorts_replicas_and_prints_no_isr():
    text = "NAME  t\n\nPARTITION  LEADER  EPOCH  REPLICAS  LOG-START-OFFSET\n0  "
    text = text[:-3] + "0          2       1      [1 2]     0\n"
    tables = io.read_tables(("d", text.encode()))
    assert tables.partitions["isr"].to_pylist() == [None]
    assert any("rpk sorts replicas by id" in note for note in tables.notes)
    with pytest.raises(InputError, match="nothing says which topic this is of"):
        io.read_tables(("d", text.partition("\n")[2].encode()))


def change(document, *path, value=None):
    """JSON of a document in which one value is another, or gone."""
    document = json.loads(json.dumps(document))
    place = document
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(("data", "message"), [
    (change(KCAT, "topics", 0, "partitions", 0, "leader"), "a partition has no leader"),
    (change(KCAT, "topics", 0, "partitions", 0, "isrs"), "a list of brokers is missing"),
    (change(KCAT, "topics", 0, "partitions", 0, "leader", value=7), "is not among its replicas"),
    (change(KCAT, "topics", 0, "partitions", 0, "leader", value="1"), "Expected `"),
    (change(KCAT, "topics", 0, "partitions", 0, "partition", value=1 << 40), "<= 2147483647"),
    (change(KCAT, "topics", 0, "topic", value="a/b"), "found topic 'a/b'"),
    (change(KCAT, "brokers", 0, "id", value=1), "a broker stands twice"),
    (change(KCAT, "topics", value=[]), "lists no partition"),
    (change(KAFKA_PYTHON, "describe_topics", 0, "partitions", 0, "error_code", value=29),
     "a partition has the error 29"),
    (change(CONFLUENT_DESCRIBED, "describe_topics", "a", "name", value="c"), "it calls itself 'c'"),
    (change(CONFLUENT_DESCRIBED, "describe_topics", "a", "topic_id", value="x"), "badly formed"),
    (json.dumps(KCAT)[:-30], "damaged JSON"),
    (KCAT_TEXT.replace("    partition 0, leader 1", "    partition 0, lead 1"), "line 10: found"),
    ("".join(KCAT_TEXT.splitlines(keepends=True)[:-1]), "lists 0 of 1 partitions of a"),
    (KCAT_TEXT.replace(" 2 topics", " 3 topics"), "lists 2 of 3 topics"),
    (KCAT_TEXT.replace("isrs: 3,1", "isrs: 3,,1"), "with ids of brokers"),
    (KCAT_TEXT.replace("replicas: 1, isrs: 1", "replicas: 9999999999, isrs: "), "above 2147483647"),
    (TABLE.replace("0          3 ", "0         33 "), "right are cells below their columns' names"),
    (TABLE.replace("[3 1 2]", "[3 x 2]"), "found 'x'; right is an integer of at least 0"),
])
def test_damage_is_refused(data, message):
    with pytest.raises(InputError) as caught:
        io.read_tables(("dump", data.encode()))
    assert str(caught.value).startswith("dump")
    assert message in str(caught.value)


def test_topics_with_errors_are_said():
    tables = io.read_tables(("d", change(
        KAFKA_PYTHON, "describe_topics", 1, "error_code", value=3).encode()))
    assert "d: topic 'a' is not read, for it has the error 3" in tables.notes
    text = KCAT_TEXT.replace('"a" with 1 partitions:', '"a" with 0 partitions: Broker: Unknown')
    tables = io.read_tables(("d", text.rpartition("    partition")[0].encode()))
    assert "d: topic a is not read, for it has the error 'Broker: Unknown'" in tables.notes
    assert tables.topics["topic"].to_pylist() == ["b.x-1"]


@pytest.mark.parametrize("name", ["kafka_python.json.gz", "confluent.json.gz"])
def test_real_clients_say_what_kafka_topics_says(shared_data, name):
    """Taken from one cluster at rest, one after the other."""
    folder = shared_data / "kraft_live" / "exports" / "mark"
    columns = ["topic", "partition", "leader", "replicas", "isr"]
    read, described = (
        io.read_tables(folder / file).partitions.select(columns).to_pylist()
        for file in (name, "topics-describe.txt")
    )
    keyed = [
        {(row["topic"], row["partition"]): (row["leader"], row["replicas"], sorted(row["isr"]))
         for row in rows} for rows in (read, described)
    ]
    assert len(keyed[0]) == 620
    assert keyed[0] == keyed[1]


def test_kcat_s_json_of_a_real_cluster(shared_data):
    state = kfast.read(shared_data / "exports" / "kcat_171_three_brokers.json")
    assert (state.n_brokers, state.n_topics, state.n_partitions) == (3, 2, 51)
