"""Writers, and the formats that are not describe text: what is written reads the same."""

from __future__ import annotations

import io as streams
import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast import ClusterState, generate, io
from kfast.analysis.broker_failure import fail_brokers
from kfast.errors import ArgumentError, InputError
from kfast.io.file_kinds import READS
from kfast.io.files import writing
from kfast.io.source_tables import SourceTables

EXPORTS = {
    "kraft_snapshot_39_62p.checkpoint": 62,
    "kraft_snapshot_39_62p.dump.txt": 62,
    "describe_43_reassigning_throttled.txt": 3,
    "describe_4x_elr_1_created.txt": 6,
    "describe_4x_elr_2_broker3_stopped.txt": 6,
    "describe_4x_elr_3_broker3_back.txt": 6,
    "describe_zk_leader_minus1_empty_isr.txt": 16,
    "reassign_43_execute.txt": 3,
    "topicmappr_map_256p.json": 256,
    "zk_dump_kafka31_topic_v3.jsonl": 61,
    "kcat_171_three_brokers.json": 51,
}
REFUSED = {
    "cc_capacity.json": "is a Cruise Control capacity file",
    "log_dirs_describe_4brokers.txt": "is kafka-log-dirs --describe, which does not list",
}


def cluster():
    """A small cluster with something in every column that a describe text has."""
    lists = pa.list_(pa.int32())
    partitions = pa.table(
        {
            "topic": pa.array(["b.x", "b.x", "a-1", "a-1"]).dictionary_encode(),
            "partition": pa.array([0, 1, 0, 1], pa.int32()),
            "replicas": pa.array([[3, 1], [1, 2, 3], [2, 3, 1], [1, 3]], lists),
            "leader": pa.array([3, 1, -1, 1], pa.int32()),
            "isr": pa.array([[3], [1, 2], [], [1, 3]], lists),
            "adding": pa.array([[], [3], [], []], lists),
            "removing": pa.array([[], [1], [], []], lists),
            "being_reassigned": pa.array([False, True, False, False]),
        }
    )
    topics = pa.table(
        {
            "topic": pa.array(["b.x", "a-1"]),
            "topic_id": pa.array(["q6t8O81ZR3Odgwr8kOJx6Q", None]),
            "unclean_leader_election": pa.array([True, None]),
            "min_insync_replicas": pa.array([2, None], pa.int32()),
            "queued_for_deletion": pa.array([False, True]),
        }
    )
    brokers = pa.table(
        {"broker_id": pa.array([1, 2, 3], pa.int32()), "registered": pa.array([True] * 3)}
    )
    return SourceTables("cluster", partitions, topics, brokers)


@pytest.mark.parametrize("name", EXPORTS)
def test_real_exports_read(shared_data, name):
    tables = io.read_tables(shared_data / "exports" / name)
    assert tables.partitions.num_rows == EXPORTS[name]
    assert io.read(shared_data / "exports" / name).n_partitions == EXPORTS[name]


@pytest.mark.parametrize("name", REFUSED)
def test_real_exports_of_other_kinds_are_refused_by_name(shared_data, name):
    path = shared_data / "exports" / name
    with pytest.raises(InputError) as caught:
        io.read(path)
    assert str(caught.value).startswith(f"{path}: {REFUSED[name]}")
    assert "the output of kafka-topics.sh --describe" in str(caught.value)


def test_every_export_is_tested(shared_data):
    names = {path.name for path in (shared_data / "exports").iterdir()}
    assert names == EXPORTS.keys() | REFUSED.keys()


@pytest.mark.parametrize(
    ("folder", "name", "kind"),
    [
        ("kraft_live/exports/mark", "get-offsets.txt", "kafka-get-offsets"),
    ],
)
def test_the_output_of_other_tools_is_refused_by_the_tool_s_name(shared_data, folder, name, kind):
    """And the message names the commands whose output is read."""
    path = shared_data / folder / name
    with pytest.raises(InputError) as caught:
        io.read(path)
    assert str(caught.value) == (
        f"{path}: is output of {kind}, which kfast does not read yet; it reads {READS}"
    )
    for command in ("kafka-topics.sh --describe", "kafka-dump-log", "kcat -L", "rpk topic"):
        assert command in READS


def test_the_output_of_kafka_log_dirs_alone_is_no_cluster(shared_data):
    path = shared_data / "exports_zk39" / "log_dirs.txt"
    with pytest.raises(InputError, match="does not list the partitions; right is beside it a"):
        io.read(path)


def test_a_describe_text_of_a_running_cluster_reads(shared_data):
    """Kafka 3.9.1 in ZooKeeper mode, reassignments under way: nothing to presume of brokers."""
    state = io.read(shared_data / "exports_zk39" / "describe_reassigning.txt")
    assert (state.n_topics, state.n_partitions, state.registered.all()) == (21, 242, True)
    listed = (shared_data / "exports_zk39" / "list.txt").read_text().splitlines()
    partitions = state.to_tables().partitions
    lists = ("replicas", "adding", "removing")
    moving = [row for row in partitions.to_pylist() if row["adding"] or row["removing"]]
    assert sorted(
        f"{row['topic']}-{row['partition']}: "
        + " ".join(f"{name}: {','.join(map(str, row[name]))}." for name in lists)
        for row in moving
    ) == sorted(line for line in listed if ": replicas: " in line)
    assert not any("Elr" in note or "min.insync" in note for note in state.assumptions)


def test_the_tools_json_is_found_between_its_prose(shared_data):
    tables = io.read_tables(shared_data / "exports" / "reassign_43_execute.txt")
    assert tables.partitions["replicas"].to_pylist() == [[1, 2], [2, 1], [1, 2]]
    assert tables.partitions["topic"].to_pylist() == ["l07.move.test"] * 3


@pytest.mark.parametrize("name", ["c.txt", "c.arrow", "c.parquet"])
def test_what_is_written_reads_the_same(tmp_path, name):
    tables = cluster()
    io.write(tables, tmp_path / name)
    found = io.read_tables(tmp_path / name)
    for column in tables.partitions.column_names:
        assert found.partitions[column].to_pylist() == tables.partitions[column].to_pylist()
    assert found.topics.equals(tables.topics)
    assert found.brokers.equals(tables.brokers)


def test_the_written_text_is_what_kafka_prints(tmp_path):
    io.write(cluster(), tmp_path / "c.txt")
    assert (tmp_path / "c.txt").read_text() == (
        "Topic: b.x\tTopicId: q6t8O81ZR3Odgwr8kOJx6Q\tPartitionCount: 2\tReplicationFactor: 2\t"
        "Configs: min.insync.replicas=2,unclean.leader.election.enable=true\n"
        "\tTopic: b.x\tPartition: 0\tLeader: 3\tReplicas: 3,1\tIsr: 3\n"
        "\tTopic: b.x\tPartition: 1\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\t"
        "Adding Replicas: 3\tRemoving Replicas: 1\n"
        "Topic: a-1\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: \tMarkedForDeletion: true\n"
        "\tTopic: a-1\tPartition: 0\tLeader: none\tReplicas: 2,3,1\tIsr: \t"
        "MarkedForDeletion: true\n"
        "\tTopic: a-1\tPartition: 1\tLeader: 1\tReplicas: 1,3\tIsr: 1,3\tMarkedForDeletion: true\n"
    )


def test_a_plan_is_sorted_and_reads_the_same(tmp_path):
    io.write(cluster(), tmp_path / "plan.json")
    text = (tmp_path / "plan.json").read_text()
    assert json.loads(text) == {
        "version": 1,
        "partitions": [
            {"topic": "a-1", "partition": 0, "replicas": [2, 3, 1]},
            {"topic": "a-1", "partition": 1, "replicas": [1, 3]},
            {"topic": "b.x", "partition": 0, "replicas": [3, 1]},
            {"topic": "b.x", "partition": 1, "replicas": [1, 2, 3]},
        ],
    }
    again = io.read_tables(tmp_path / "plan.json")
    io.write(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == text


@pytest.mark.parametrize("name", ["c.arrow", "c.parquet"])
def test_a_whole_state_survives_arrow_and_parquet(tmp_path, name):
    state = generate(brokers=12, partitions=500, replication_factor=3, racks=3, seed=7)
    io.write(state, tmp_path / name)
    assert io.read(tmp_path / name).difference(state) is None


def test_a_described_state_keeps_leaders_isrs_and_assignment(tmp_path):
    state = generate(brokers=12, partitions=500, replication_factor=3, seed=7)
    io.write(state, tmp_path / "c.txt")
    found = io.read(tmp_path / "c.txt").to_tables().partitions
    for column in ("topic", "partition", "replicas", "leader", "isr"):
        assert found[column].to_pylist() == state.to_tables().partitions[column].to_pylist()


def test_more_partitions_than_one_chunk_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("kfast.io.text_columns._CHUNK", 7)
    state = generate(brokers=5, partitions=100, topics=9, replication_factor=2, seed=1)
    for name in ("c.txt", "c.json"):
        io.write(state, tmp_path / name)
        found = io.read_tables(tmp_path / name).partitions
        assert found.num_rows == 100
        whole = {(r["topic"], r["partition"]): r["replicas"] for r in found.to_pylist()}
        rows = state.to_tables().partitions.to_pylist()
        assert whole == {(r["topic"], r["partition"]): r["replicas"] for r in rows}


def test_a_foreign_parquet_of_partitions_is_read(tmp_path):
    """Three columns are enough; integers of any width are taken."""
    table = pa.table({"topic": ["t"], "partition": [0], "replicas": [[2, 1]], "extra": ["x"]})
    pq.write_table(table, tmp_path / "x.parquet")
    found = io.read_tables(tmp_path / "x.parquet")
    assert found.partitions.to_pylist() == [{"topic": "t", "partition": 0, "replicas": [2, 1]}]
    assert found.brokers is None


def test_an_arrow_stream_is_read_too(tmp_path):
    table = cluster().partitions
    with pa.ipc.new_stream(tmp_path / "x.arrows", table.schema) as writer:
        writer.write_table(table)
    assert io.read_tables(tmp_path / "x.arrows").partitions.equals(table)


def test_an_arrow_file_can_be_mapped(tmp_path):
    io.write(cluster(), tmp_path / "c.arrow")
    with pa.memory_map(str(tmp_path / "c.arrow")) as file:
        assert pa.ipc.open_file(file).read_all().num_rows == 4


# --- the brokers file, defaults, up ---------------------------------------------------------


@pytest.fixture
def describe(tmp_path):
    path = tmp_path / "describe.txt"
    path.write_text("\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n")
    return path


def test_a_brokers_file_gives_racks_and_spare_brokers(tmp_path, describe):
    (tmp_path / "b.csv").write_text("broker_id,rack\n1,a\n2,b\n7, c\n")
    tables = io.read_tables(describe, brokers_file=tmp_path / "b.csv")
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": "a", "registered": True},
        {"broker_id": 2, "rack": "b", "registered": False},
        {"broker_id": 7, "rack": "c", "registered": True},
    ]
    assert any("only" in note and "7" in note for note in tables.notes)


def test_a_brokers_file_may_say_who_is_up(tmp_path, describe):
    (tmp_path / "b.csv").write_text("broker_id,rack,registered\r\n1,,false\r\n2,b,TRUE\r\n")
    tables = io.read_tables(describe, brokers_file=tmp_path / "b.csv")
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "rack": None, "registered": False},
        {"broker_id": 2, "rack": "b", "registered": True},
    ]


def test_a_broker_that_the_file_forgets_has_no_rack_and_is_named(tmp_path, describe):
    (tmp_path / "b.csv").write_text("broker_id,rack\n1,a\n")
    tables = io.read_tables(describe, brokers_file=tmp_path / "b.csv")
    assert tables.brokers["rack"].to_pylist() == ["a", None]
    assert any("have no rack: 2" in note for note in tables.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,a\n", "line 1: found '1,a'; right is a line that names the columns"),
        ("broker_id,zone\n", "line 1: found 'broker_id,zone'"),
        ("broker_id,rack\n1,a\nx,b\n", "line 3: found broker_id 'x'; right is an integer"),
        ("broker_id,rack\n1,a\n1,b\n", "line 3: broker 1 is listed twice"),
        ("broker_id,rack\n1\n", "line 2: found 1 values; right is broker_id,rack"),
        ("broker_id,rack\n", "lists no broker"),
        ("broker_id,rack,registered\n1,a,yes\n", "line 2: found registered 'yes'; right is true"),
    ],
)
def test_a_wrong_brokers_file_is_refused(tmp_path, describe, text, message):
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        io.read_tables(describe, brokers_file=tmp_path / "b.csv")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "b.csv"))


@pytest.mark.parametrize(
    "data", [b"broker_id,rack\n1," + b"x" * 200_000, b'broker_id,rack\n1,"' + b"x" * 200_000]
)
def test_a_brokers_file_with_a_cell_of_any_length_is_refused_or_read(describe, data):
    """Python's reader of CSV has a limit, and says so by an error of its own."""
    with pytest.raises(InputError, match=r"b\.csv line 2: damaged CSV: field larger than"):
        io.read_tables(describe, brokers_file=("b.csv", data))


def test_a_number_of_any_length_is_refused(describe):
    """Python refuses to turn more than 4300 digits into a number."""
    digits = "1" * 5000
    with pytest.raises(InputError, match="line 2: found broker_id '1111"):
        io.read_tables(describe, brokers_file=("b.csv", f"broker_id,rack\n{digits},a\n".encode()))
    with pytest.raises(ArgumentError, match="right is an integer of at least 1"):
        io.read_tables(describe, defaults={"min.insync.replicas": digits})


# --- brokers that the export does not name --------------------------------------------------


def test_brokers_can_be_added_with_a_rack_or_without(describe):
    """They are registered and hold nothing; the others stay as the export shows them."""
    state = io.read(describe, add_brokers={113: "b", 9: None})
    assert state.broker_id.tolist() == [1, 2, 9, 113]
    assert state.up.tolist() == [True, False, True, True]
    assert state.rack.to_pylist() == [None, None, None, "b"]
    assert state.replicas_on_brokers([9, 113]).rows.size == 0
    assert any(
        note == "brokers added, which hold no replica: 113 (rack b), 9 (no rack)"
        for note in state.assumptions
    )
    assert any("taken for down" in note and "broker 2 " in note for note in state.assumptions)


@pytest.mark.parametrize("name", ["c.txt", "c.arrow", "c.parquet", "c.json", "flat.parquet"])
@pytest.mark.parametrize("bare", [False, True], ids=["as written", "partitions alone"])
def test_brokers_can_be_added_to_every_form(tmp_path, name, bare):
    """Where no table of brokers is in it, those that partitions name are registered as before."""
    path = tmp_path / name
    io.write(kfast.generate(brokers=4, partitions=8, racks=2, seed=1), path,
             format="parquet-flat" if name.startswith("flat") else None)
    if bare and name.endswith("parquet"):
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    state = io.read(path, add_brokers={9: "z"}, up=[0, 9])
    assert state.broker_id.tolist() == [0, 1, 2, 3, 9]
    assert state.registered.all()
    assert state.rack[4].as_py() == "z"
    presumed = "no brokers are given: every broker that a partition names is registered"
    for arguments in (
        {}, {"add_brokers": {9: "z"}}, {"brokers_file": ("b", b"broker_id,rack\n9,z\n")}
    ):
        listed = not (bare and name.endswith("parquet")) and name != "c.json"
        assert (presumed in io.read(path, **arguments).assumptions) is not listed
    with pytest.raises(ArgumentError, match=r"add_brokers: broker 3 appears in .* already"):
        io.read(path, add_brokers={9: "z", 3: "z"})
    with pytest.raises(ArgumentError, match="up: broker 8 does not appear"):
        io.read(path, up=[8])


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ({1: "a"}, r"broker 1 appears in .*describe.txt already; right are brokers that do not"),
        ({2: None}, r"and a brokers file \(brokers_file, --brokers-file\) for the racks of those"),
        ({-1: "a"}, "add_brokers"),
        ({2**31: "a"}, "add_brokers"),
        ({"7": "a"}, "add_brokers"),
        ({True: "a"}, "add_brokers"),
        ({7: ""}, "the rack of broker 7 is ''; right is a name, or None for none"),
        ({7: 3}, "the rack of broker 7 is 3; right is a name"),
        ([7], r"add_brokers is \[7\]: broker ids mapped to a rack or None are needed"),
    ],
)
def test_brokers_that_cannot_be_added_are_refused(describe, brokers, message):
    with pytest.raises(ArgumentError, match=message):
        io.read(describe, add_brokers=brokers)


def test_a_broker_of_the_brokers_file_cannot_be_added_again(describe):
    with pytest.raises(ArgumentError, match="broker 7 appears in"):
        io.read(describe, brokers_file=("b", b"broker_id,rack\n7,c\n"), add_brokers={7: "c"})


def test_whoever_names_an_unknown_broker_hears_how_it_comes_in(describe):
    """A plan, a what-if and `up` say the same; with either way the plan is carried out."""
    both = "by a brokers file, or by add_brokers (--add-brokers 113:rack=RACK)"
    plan = {("t", 0): [1, 113]}
    state = kfast.with_controller(io.read(describe), "zk-3.9")
    for ask in (
        lambda: io.read(describe, up=[113]),
        lambda: state.find_brokers([113]),
        lambda: fail_brokers(state, [113]),
        lambda: kfast.execute_plan(state, plan, profile="zk-2.0"),
    ):
        with pytest.raises(ArgumentError) as caught:
            ask()
        assert both in str(caught.value)
    refused = kfast.execute_plan(state, plan)
    assert refused.partitions["reason"].to_pylist() == [
        "of those to be added, broker 113 is unknown"
    ]
    assert refused.notes[1] == (
        f"broker 113 is unknown: a broker that an export does not name comes {both}"
    )
    for arguments in (
        {"add_brokers": {113: "b"}},
        {"brokers_file": ("b", b"broker_id,rack\n113,b\n")},
    ):
        for controller in ("zk-3.9", "kraft-4.3"):
            larger = kfast.with_controller(io.read(describe, **arguments), controller)
            done = kfast.execute_plan(larger, plan).partitions
            assert done["status"].to_pylist() == ["completed"]


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("113", {113: None}),
        ("113:rack=b", {113: "b"}),
        (" 113:rack=b , 0,7:rack=eu-1:a", {113: "b", 0: None, 7: "eu-1:a"}),
    ],
)
def test_brokers_to_be_added_as_an_option_has_them(text, brokers):
    assert io.parse_brokers(text) == brokers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found ''; right is a broker id and perhaps a rack, as in 113:rack=b,114"),
        ("113:b", "found '113:b'"),
        ("113:rack=", "found '113:rack='"),
        ("b", "found 'b'"),
        ("-1", "found '-1'"),
        ("1,1:rack=b", "broker 1 is listed twice"),
    ],
)
def test_an_option_that_lists_no_brokers_is_refused(text, message):
    with pytest.raises(ArgumentError, match=message):
        io.parse_brokers(text)


def test_defaults_go_to_the_cluster(describe):
    defaults = {"min.insync.replicas": "2", "unclean.leader.election.enable": True}
    cluster = io.read_tables(describe, defaults=defaults).cluster
    assert cluster.drop_columns(["controller", "features"]).to_pylist() == [
        {"default_min_insync_replicas": 2, "default_unclean_leader_election": True}
    ]
    assert io.read(describe, defaults=defaults).default_min_insync_replicas == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"defaults": {"min.isr": 2}}, "these are: min.insync.replicas, unclean.leader"),
        ({"defaults": {"min.insync.replicas": 0}}, "right is an integer of at least 1"),
        ({"defaults": {"min.insync.replicas": True}}, "right is an integer of at least 1"),
        ({"defaults": {"unclean.leader.election.enable": 2}}, "right is true or false"),
        ({"up": [9]}, "broker 9 does not appear"),
    ],
)
def test_arguments_are_checked(describe, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        io.read_tables(describe, **arguments)


# --- nothing is half-written ----------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_write_that_fails_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "c.txt"
    path.write_text("old")

    def write_half():
        with writing(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_plan_without_partitions_is_not_written(tmp_path):
    empty = SourceTables("x", cluster().partitions.slice(0, 0), cluster().topics)
    with pytest.raises(ArgumentError, match="a plan cannot be empty"):
        io.write(empty, tmp_path / "p.json")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ArgumentError, match=r"c.txt: cannot be written: No such file"):
        io.write(cluster(), tmp_path / "nowhere" / "c.txt")
    with pytest.raises(ArgumentError, match="cannot be written: Is a directory"):
        io.write(cluster(), tmp_path, format="describe")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    io.write(cluster(), tmp_path / "link.txt")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text().startswith("Topic: b.x")


@pytest.mark.parametrize("format", io.FORMATS)
def test_minus_is_standard_output_and_input(monkeypatch, format):
    out = streams.TextIOWrapper(streams.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    io.write(cluster(), "-", format=format)
    data = out.buffer.getvalue()
    monkeypatch.setattr(sys, "stdin", streams.TextIOWrapper(streams.BytesIO(data)))
    assert io.read_tables("-").partitions.num_rows == 4


def test_the_format_comes_from_the_name_or_is_asked_for(tmp_path):
    with pytest.raises(ArgumentError, match="its name tells no format"):
        io.write(cluster(), tmp_path / "x.csv")
    with pytest.raises(ArgumentError, match="not one of describe, reassignment, arrow, parquet"):
        io.write(cluster(), tmp_path / "x.txt", format="csv")


def test_null_lists_are_written_as_empty(tmp_path):
    """A partition that has no leadership yet: its ISR is null, its leader is none."""
    tables = cluster()
    at = tables.partitions.column_names.index("isr")
    isr = pa.array([[3], None, [], None], pa.list_(pa.int32()))
    partitions = tables.partitions.set_column(at, "isr", isr)
    io.write(SourceTables("x", partitions, tables.topics), tmp_path / "c.txt")
    found = io.read_tables(tmp_path / "c.txt").partitions["isr"].to_pylist()
    assert found == [[3], [], [], []]


def test_a_state_of_many_layouts_is_read_from_a_describe_text(tmp_path):
    """Lists of up to 64 brokers; the reader keeps the order of replicas."""
    replicas = np.arange(64)[::-1].tolist()
    text = ",".join(map(str, replicas))
    path = tmp_path / "wide.txt"
    path.write_text(f"Topic: t\tPartition: 0\tLeader: 63\tReplicas: {text}\tIsr: {text}\n")
    state = io.read(path)
    assert isinstance(state, ClusterState)
    assert state.assignment(0).replicas == tuple(replicas)
