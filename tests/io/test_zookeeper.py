"""Znodes as a cluster: every form of a dump, what each znode says, and what is missing."""

from __future__ import annotations

import gzip
import json
import struct
import zlib

import pyarrow.compute as pc
import pytest

import kfast
from kfast import io
from kfast.errors import InputError
from kfast.io.zookeeper.znodes import Znode, tables_of_znodes
from tests.support.live_events import read_events, state_of

ZNODES = {
    "/brokers/ids/1": '{"version":5,"host":"h1","port":9092,"rack":"a","endpoints":[]}',
    "/brokers/ids/3": '{"version":5,"host":null,"port":-1,"endpoints":[]}',
    "/brokers/topics/b-1": '{"version":3,"topic_id":"XRnvgspBQPmwTEAXBZaszg",'
    '"partitions":{"10":[2,1],"2":[3,1,2]},"adding_replicas":{"2":[3]},'
    '"removing_replicas":{"2":[2]}}',
    "/brokers/topics/a": '{"version":3,"partitions":{"0":[2,1]},"adding_replicas":{},'
    '"removing_replicas":{}}',
    "/brokers/topics/b-1/partitions/2/state":
    '{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[1,3]}',
    "/brokers/topics/a/partitions/0/state": '{"controller_epoch":6,"leader":-1,"version":1,'
    '"leader_epoch":4,"isr":[2],"leader_recovery_state":1}',
    "/config/topics/a": '{"version":1,"config":{"min.insync.replicas":"2","retention.ms":"9",'
    '"unclean.leader.election.enable":"true"}}',
    "/config/topics/b-1": '{"version":1,"config":{}}',
    "/config/brokers/<default>": '{"version":1,"config":{"min.insync.replicas":"3"}}',
    "/admin/delete_topics/a": None,
    "/controller": '{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1}',
    "/controller_epoch": "7",
    "/cluster/id": '{"version":"1","id":"x"}',
}
VERSIONS = {"/brokers/topics/a/partitions/0/state": 5, "/controller_epoch": 9}
CZXIDS = {"/brokers/ids/1": 26, "/brokers/ids/3": 93}
PARTITIONS = [
    {"topic": "a", "partition": 0, "replicas": [2, 1], "adding": [], "removing": [],
     "being_reassigned": False, "has_leadership": True, "leader": -1, "isr": [2],
     "leader_epoch": 4, "controller_epoch": 6, "recovery": 1},
    {"topic": "b-1", "partition": 2, "replicas": [3, 1, 2], "adding": [3], "removing": [2],
     "being_reassigned": True, "has_leadership": True, "leader": 1, "isr": [1, 3],
     "leader_epoch": 3, "controller_epoch": 7, "recovery": 0},
    {"topic": "b-1", "partition": 10, "replicas": [2, 1], "adding": [], "removing": [],
     "being_reassigned": False, "has_leadership": False, "leader": -1, "isr": [],
     "leader_epoch": 0, "controller_epoch": 0, "recovery": 0},
]


def lines(znodes, **extra):
    """A dump of JSON lines."""
    return "".join(
        json.dumps({"path": path, "data": data, "version": VERSIONS.get(path, 0),
                    "czxid": CZXIDS.get(path, 0), "ephemeralOwner": 0, **extra}) + "\n"
        for path, data in znodes.items()
    ).encode()


def transcript(znodes):
    """What zookeeper-shell prints, with its prompt."""
    return "Connecting to localhost:2181\n\nWATCHER::\n\n" + "".join(
        f"[zk: localhost:2181(CONNECTED) {number}] get -s {path}\n{data or 'null'}\n"
        f"cZxid = {CZXIDS.get(path, 0):#x}\nctime = Thu Mar 31 16:03:54 UTC 2022\n"
        f"dataVersion = {VERSIONS.get(path, 0)}\naclVersion = 0\nephemeralOwner = 0x0\n"
        for number, (path, data) in enumerate(znodes.items())
    )


def text(value):
    """Bytes as the format of snapshots has them."""
    data = None if value is None else value.encode()
    return struct.pack(">i", -1 if data is None else len(data)) + (data or b"")


def snapshot(znodes):
    """A snapshot with a session and a list of rights."""
    body = struct.pack(">4siq", b"ZKSN", 2, -1)
    body += struct.pack(">iqi", 1, 0x1000, 18000)
    body += struct.pack(">iqii", 1, 1, 1, 31) + text("world") + text("anyone")
    for path, data in {"": "", **znodes}.items():
        stat = (1, CZXIDS.get(path, 0), 0, 0, 0, VERSIONS.get(path, 0), 0, 0, 0, 0)
        body += text(path) + text(data) + struct.pack(">qqqqqiiiqq", *stat)
    body += text("/")
    return body + struct.pack(">q", zlib.adler32(body)) + text("/")


def folder(tmp_path, znodes):
    """A file for each znode."""
    for path, data in znodes.items():
        place = tmp_path / path[1:]
        if path.count("/") == 3 and path.startswith("/brokers/topics/"):
            place = place / "data"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(data or "")
    return tmp_path


def test_what_each_znode_says():
    tables = tables_of_znodes("dump", {
        path: Znode(data, VERSIONS.get(path), CZXIDS.get(path)) for path, data in ZNODES.items()
    })
    assert tables.partitions.drop_columns(["version"]).to_pylist() == PARTITIONS
    assert tables.partitions["version"].to_pylist() == [5, 0, 0]
    assert tables.topics.to_pylist() == [
        {"topic": "a", "topic_id": None, "unclean_leader_election": True,
         "min_insync_replicas": 2, "queued_for_deletion": True},
        {"topic": "b-1", "topic_id": "XRnvgspBQPmwTEAXBZaszg", "unclean_leader_election": None,
         "min_insync_replicas": None, "queued_for_deletion": False},
    ]
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": "a", "registered": True, "epoch": 26},
        {"broker_id": 2, "rack": None, "registered": False, "epoch": None},
        {"broker_id": 3, "rack": None, "registered": True, "epoch": 93},
    ]
    assert tables.cluster.to_pylist() == [
        {"controller": "zk-3.9", "controller_id": 3, "controller_epoch": 7,
         "epoch_store_version": 9, "default_min_insync_replicas": 3}
    ]
    assert tables.log_settings == {"a": {"retention.ms": "9"}}
    assert tables.notes[1:] == (
        ("dump: partitions without a state znode, which have had no leader yet: 1, the first is"
         " b-1-10"),
        "dump: brokers without a znode, which are not registered: 2",
    )


@pytest.mark.parametrize("data", [
    lines(ZNODES), b"prose\n" + lines(ZNODES), gzip.compress(lines(ZNODES)),
    lines({path: data and json.loads(data) for path, data in ZNODES.items()}),
    json.dumps(ZNODES, indent=1).encode(), transcript(ZNODES).encode(),
    transcript(ZNODES).replace("\n", "\r\n").encode(), snapshot(ZNODES),
    gzip.compress(snapshot(ZNODES)),
    lines({f"/kafka/prod{path}": data for path, data in ZNODES.items()}),
], ids=["lines", "prose", "gzip", "decoded", "map", "transcript", "crlf", "snapshot",
        "snapshot-gzip", "chroot"])
def test_every_form_reads_the_same(data):
    tables = io.read_tables(("dump", data))
    names = [*PARTITIONS[0]]
    assert tables.partitions.select(names).to_pylist() == PARTITIONS
    assert tables.brokers["registered"].to_pylist() == [True, False, True]
    state = kfast.read(("dump", data))
    assert (state.controller, state.controller_id, state.controller_epoch) == ("zk-3.9", 3, 7)


def test_a_folder_reads_the_same(tmp_path):
    for place in (tmp_path / "dump", tmp_path / "above" / "kafka"):
        folder(place, ZNODES)
    for place in (tmp_path / "dump", tmp_path / "above"):
        tables = io.read_tables(place)
        assert tables.partitions.to_pylist() == PARTITIONS


def test_a_list_of_children_says_who_is_registered():
    znodes = {path: data for path, data in ZNODES.items() if "/ids/" not in path}
    session = transcript(znodes) + "[zk: h(CONNECTED) 9] ls /brokers/ids\n[1, 2, 5]\n"
    tables = io.read_tables(("session", session.encode()))
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": None, "registered": True},
        {"broker_id": 2, "rack": None, "registered": True},
        {"broker_id": 3, "rack": None, "registered": False},
        {"broker_id": 5, "rack": None, "registered": True},
    ]


def test_without_znodes_of_brokers_leaders_and_isrs_show_who_is_up():
    """A broker that only a reassignment adds may be up: it has yet to catch up."""
    states = {
        "/brokers/topics/t": '{"version":2,"partitions":{"0":[1,2],"1":[1,4]},'
        '"adding_replicas":{"1":[4]},"removing_replicas":{}}',
        **{f"/brokers/topics/t/partitions/{number}/state":
           '{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
           for number in (0, 1)},
    }
    tables = tables_of_znodes("dump", states)
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "registered": True}, {"broker_id": 2, "registered": False},
        {"broker_id": 4, "registered": True},
    ]
    assert (tables.taken_for_down, tables.taken_for_up) == ((2,), (4,))


def test_without_state_znodes_nothing_is_known_of_leaders():
    state = kfast.read(("dump", lines({"/brokers/topics/a": ZNODES["/brokers/topics/a"]})))
    assert "dump has no state znode: leaders and ISRs are not known" in state.assumptions
    assert any(note.startswith("the leader of 1 partitions") for note in state.assumptions)


@pytest.mark.parametrize(("topic", "rest", "controller"), [
    ('{"version":1,"partitions":{"0":[1]}}', {}, "zk-2.3"),
    ('{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}', {},
     "zk-2.7"),
    ('{"version":3,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}',
     {"/controller": '{"version":1,"brokerid":1,"timestamp":"1"}'}, "zk-3.3"),
    ('{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}',
     {"/brokers/ids/1": '{"version":4,"host":"h"}'}, "zk-2.6"),
])
def test_the_release_is_the_newest_that_writes_such_znodes(topic, rest, controller):
    assert kfast.read(("d", lines({"/brokers/topics/t": topic, **rest}))).controller == controller


@pytest.mark.parametrize(("change", "message"), [
    ({"/b/brokers/topics/t": ZNODES["/brokers/topics/a"]}, "has znodes of 2 clusters, below /, /b"),
    ({"/brokers/topics/c": None}, "/brokers/topics/c': not what Kafka writes there: Input data"),
    ({"/brokers/topics/c": '{"version":2,"partitions":{"0":[1]}}'}, "has no adding_replicas"),
    ({"/brokers/topics/c": '{"version":4,"partitions":{"0":[1]}}'}, "found version 4; right is 1,"),
    ({"/brokers/topics/c": '{"version":1,"partitions":{"0":[-1]}}'}, "Expected `int` >= 0"),
    ({"/brokers/topics/c": '{"version":1,"partitions":{"99999999999":[1]}}'}, "<= 2147483647"),
    ({"/controller_epoch": "x"}, "/controller_epoch': not what Kafka writes there"),
    ({"/config/topics/a": '{"config":{"min.insync.replicas":"0"}}'}, "topic a: min.insync"),
    ({"/brokers/topics/a/partitions/0/state": None}, "has no data; right is a partition's"),
    ({"/brokers/topics/a/partitions/0/state": '{"controller_epoch":6,"leader":7,"version":1,'
      '"leader_epoch":4,"isr":[2]}'}, "the leader of a-0, 7, is not among its replicas"),
    ({"/brokers/topics/a/partitions/0/state": '{"leader":7,"version":1}'}, "missing required"),
    ({"/brokers/ids/9999999999": "{}"}, "9999999999 is no broker id"),
])
def test_damage_is_refused(change, message):
    with pytest.raises(InputError) as caught:
        io.read_tables(("dump", lines(ZNODES | change)))
    assert str(caught.value).startswith("dump: ")
    assert message in str(caught.value)


def test_a_znode_that_stands_twice_is_refused():
    for path in ZNODES:
        if "partitions" in path or "topics" in path:
            if ZNODES[path] is None:
                continue
            with pytest.raises(InputError, match="stands twice; right is once"):
                io.read_tables(("dump", lines(ZNODES) + lines({path: ZNODES[path]})))


def test_what_is_passed_over_is_said():
    more = {
        "/brokers/topicz/t": "", "/hbase": None, "/admin/delete_topics/gone": None,
        "/brokers/topics/z/partitions/0/state": ZNODES["/brokers/topics/b-1/partitions/2/state"],
        "/brokers/topics/b-1/partitions/10/state":
        '{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[2],"tier":1}',
        "/config/brokers/1": '{"config":{"min.insync.replicas":"2"}}',
        "/admin/reassign_partitions": '{"version":1,"partitions":[{"topic":"a","partition":0,'
        '"replicas":[1,3]}]}',
    }
    tables = tables_of_znodes("dump", ZNODES | more)
    assert tables.partitions["being_reassigned"].to_pylist() == [True, True, False]
    assert tables.notes[1:] == (
        "dump: state znodes of partitions that no topic assigns, passed over: 1",
        "dump: the leader of b-1-10, 1, is not in the ISR; kept",
        "dump: brokers without a znode, which are not registered: 2",
        ("dump: /admin/reassign_partitions asks to move 1 partitions; its targets are not read"
         " (give them as a plan, with --plan)"),
        "dump: topics to be deleted that do not exist: gone",
        "dump: settings of single brokers are not read: those of 1",
        ("dump: fields passed over, the first: /brokers/topics/b-1/partitions/10/state: Object"
         " contains unknown field `tier`"),
        "dump: znodes passed over that are not Kafka's: 2, the first is '/brokers/topicz/t'",
    )


def test_a_transcript_without_commands_is_refused():
    with pytest.raises(InputError, match="nothing says which znode this is"):
        io.read_tables(("s", b'{"version":1}\ncZxid = 0x1\ndataVersion = 0\n'))


def test_a_damaged_snapshot_is_refused():
    """Every bit is under the checksum; behind it stands what nobody reads."""
    whole = snapshot(ZNODES)
    end = len(whole) - 5
    for at in range(0, end, 7):
        flipped = bytearray(whole)
        flipped[at] ^= 4
        with pytest.raises(InputError):
            io.read_tables(("snapshot.0", bytes(flipped)))
        with pytest.raises(InputError):
            io.read_tables(("snapshot.0", whole[:at]))


def test_a_real_dump_reads(shared_data):
    state = kfast.read(shared_data / "exports" / "zk_dump_kafka31_topic_v3.jsonl")
    assert (state.n_partitions, state.n_topics, state.n_brokers) == (61, 6, 1)
    assert (state.controller_epoch, state.epoch_store_version) == (5, 5)
    assert state.log_settings == {
        "__consumer_offsets": {"segment.bytes": "104857600", "cleanup.policy": "compact"}
    }


def znodes_of(cluster):
    """The znodes of a picture that ../shared/data/controller_logs/zk-3.9-live has."""
    znodes = {
        f"/brokers/ids/{broker}": Znode(json.dumps({"version": 5, "rack": node["rack"]}), 0,
                                        node["epoch"])
        for broker, node in cluster["brokers"].items()
    }
    znodes["/controller"] = Znode(json.dumps({"version": 2, "brokerid": cluster["controller"]}))
    znodes["/controller_epoch"] = Znode(
        str(cluster["controller_epoch"]), cluster["controller_epoch_version"]
    )
    assignments = {
        topic: {"version": 3, "topic_id": node["id"], "partitions": {}, "adding_replicas": {},
                "removing_replicas": {}} for topic, node in cluster["topics"].items()
    }
    for topic, number, replicas, adding, removing, *record in cluster["partitions"]:
        assignments[topic]["partitions"][number] = replicas
        for name, brokers in (("adding_replicas", adding), ("removing_replicas", removing)):
            if brokers:
                assignments[topic][name][number] = brokers
        leader, isr, leader_epoch, version, controller_epoch, recovery = record
        if leader is not None:
            state = {"controller_epoch": controller_epoch, "leader": leader, "version": 1,
                     "leader_epoch": leader_epoch, "isr": isr}
            state |= {"leader_recovery_state": recovery} if recovery else {}
            znodes[f"/brokers/topics/{topic}/partitions/{number}/state"] = Znode(
                json.dumps(state), version
            )
    for topic, node in cluster["topics"].items():
        znodes[f"/brokers/topics/{topic}"] = Znode(json.dumps(assignments[topic]))
        znodes[f"/config/topics/{topic}"] = Znode(json.dumps({"config": node["config"]}))
        if node["deleting"]:
            znodes[f"/admin/delete_topics/{topic}"] = Znode()
    default = {"version": 1, "config": cluster["default_config"]}
    return znodes | {"/config/brokers/<default>": Znode(json.dumps(default))}


def test_the_znodes_of_a_live_cluster_give_the_state_that_events_start_from(shared_data):
    """The two are written apart; states of partitions and replicas are the controller's memory."""
    events = read_events(shared_data / "controller_logs" / "zk-3.9-live" / "events.jsonl.gz")
    memory = ["partition_state", "replica_state_broker_ids", "replica_states"]
    for event in events:
        cluster = event["before"]
        if not cluster["topics"]:
            continue
        tables = tables_of_znodes("live", znodes_of(cluster))
        read = kfast.ClusterState.from_tables(
            tables.brokers, tables.topics, tables.partitions, tables.cluster
        ).to_tables()
        expected = state_of(cluster).to_tables()
        keys = [("topic", "ascending"), ("partition", "ascending")]
        ours, theirs = (
            tables.partitions.sort_by(keys).drop_columns(memory) for tables in (read, expected)
        )
        assigned = ["topic", "partition", "replicas", "adding", "removing", "has_leadership"]
        assert ours.select(assigned).equals(theirs.select(assigned))
        led = pc.field("has_leadership")
        assert ours.filter(led).to_pylist() == theirs.filter(led).to_pylist()
        registered = pc.field("registered")
        assert read.brokers.filter(registered).equals(expected.brokers.filter(registered))
        for column in ("controller_id", "controller_epoch", "epoch_store_version"):
            assert read.cluster[column] == expected.cluster[column]
