"""Several files make one cluster: which counts, what is said, and what each small tool adds."""

import json
import random

import pyarrow as pa
import pytest

import kfast
from kfast.errors import InputError, KfastError
from kfast.io import SourceTables
from kfast.io.merging.sources import merge
from kfast.io.source_tables import Coverage, Exactness
from tests.support.cli_run import ROOT
from tests.support.cli_run import run as run_command

MARK = "kraft_live/exports/mark"
DESCRIBE = (
    "Topic: t\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: min.insync.replicas=2\n"
    "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n"
    "\tTopic: t\tPartition: 1\tLeader: 2\tReplicas: 2,3\tIsr: 2\n"
)
VERSIONS = "".join(
    f"h{broker}:9092 (id: {broker} rack: {rack}) -> (\n\tProduce(0): 0 to 9 [usable: 9],\n"
    f"\tLeaderAndIsr(4): {leader_and_isr}\n)\n"
    for broker, rack, leader_and_isr in ((1, "a", "UNSUPPORTED,"), (2, "null", "UNSUPPORTED,"))
)
CONFIGS = (
    "Dynamic configs for topic t are:\n"
    "  min.insync.replicas=1 sensitive=false"
    " synonyms={DYNAMIC_TOPIC_CONFIG:min.insync.replicas=1}\n"
    "All configs for broker 1 are:\n"
    "  broker.rack=z sensitive=false synonyms={STATIC_BROKER_CONFIG:broker.rack=z}\n"
    "  unclean.leader.election.enable=true sensitive=false synonyms={}\n"
)
SIZES = json.dumps({"version": 1, "brokers": [
    {"broker": 1, "logDirs": [{"logDir": "/d", "error": None, "partitions": [
        {"partition": "t-0", "size": 9, "offsetLag": 0, "isFuture": False},
        {"partition": "t-1", "size": 9, "offsetLag": 0, "isFuture": False}]}]},
    {"broker": 2, "logDirs": [
        {"logDir": "/d", "error": None, "partitions": [
            {"partition": "t-0", "size": 9, "offsetLag": 0, "isFuture": False}]},
        {"logDir": "/e", "error": "KafkaStorageException", "partitions": []}]},
]})
LIST = "Current partition reassignments:\nt-0: replicas: 1,2. adding: 2. removing: 1.\n"
TEXTS = {"versions": VERSIONS, "configs": CONFIGS, "sizes": SIZES, "list": LIST}


def read(*names, describe=DESCRIBE):
    """The describe text, and supplements by their names."""
    texts = [("describe", describe), *((name, TEXTS[name]) for name in names)]
    return kfast.read(*((name, text.encode()) for name, text in texts))


# --- the rule, against plain dicts ----------------------------------------------------------------

COLUMNS = ("isr", "leader_epoch", "elr")


def random_sources(seed):
    """Two to four sources of overlapping topics, some without some columns."""
    draw = random.Random(seed)
    sources = []
    for number in range(draw.randint(2, 4)):
        rows = []
        for topic in draw.sample("abcd", draw.randint(1, 4)):
            for partition in draw.sample(range(4), draw.randint(1, 4)):
                replicas = draw.choice([[1, 2], [2, 1], [1, 2], [1, 3, 2]])
                leader = draw.choice([*replicas[:2], -1])
                rows.append({
                    "topic": topic, "partition": partition, "replicas": replicas, "leader": leader,
                    "isr": draw.choice([replicas, replicas[:1], None]),
                    "leader_epoch": draw.choice([None, number]), "elr": draw.choice([None, []]),
                })
        columns = ["topic", "partition", "replicas", "leader",
                   *draw.sample(COLUMNS, draw.randint(0, 3))]
        schema = pa.schema([(name, kfast.schema.PARTITIONS_SCHEMA.field(name).type)
                            for name in columns])
        rows = [{name: row[name] for name in columns} for row in rows]
        sources.append((rows, SourceTables(
            f"file-{number}", pa.Table.from_pylist(rows, schema),
            cluster=pa.table({"controller": ["kraft-4.1"]}),
            exactness=draw.choice([*Exactness]),
            coverage=Coverage.TOPICS if number == 0 else draw.choice([*Coverage]),
        )))
    return sources


def merge_plainly(sources):
    """The rule of docs/formats.md over dicts: rows by key, and how many of them differ."""
    order = sorted(range(len(sources)), key=lambda n: (
        sources[n][1].exactness, -sources[n][1].coverage, n))
    order = [n for n in order if sources[n][1].coverage] + [
        n for n in order if not sources[n][1].coverage]
    tables = {n: {(r["topic"], r["partition"]): r for r in sources[n][0]} for n in order}
    keys, covered, everything = [], set(), False
    for n in order:
        coverage = sources[n][1].coverage
        if not coverage or everything:
            continue
        keys += [key for key in tables[n] if key not in keys and key[0] not in covered]
        if coverage == Coverage.TOPICS:
            covered |= {topic for topic, _ in tables[n]}
        everything |= coverage == Coverage.CLUSTER
    rows, differing = {}, {"replicas": 0, "leader": 0}
    for key in keys:
        row, agreeing = {}, [n for n in order if key in tables[n]]
        for column in ("replicas", "leader", *COLUMNS):
            value = None
            for n in agreeing:
                usable = sources[n][1].coverage or column in COLUMNS
                if value is None and usable:
                    value = tables[n][key].get(column)
                if sources[n][1].exactness == Exactness.RECORDS:
                    break
            row[column] = value
            if column in differing:
                for n in [n for n in order if key in tables[n]]:
                    other = tables[n][key][column]
                    differing[column] += other != value
                    if column == "replicas":
                        other, value_set = set(other), set(value)
                    else:
                        value_set = value
                    if other != value_set:
                        agreeing = [m for m in agreeing if m != n]
        rows[key] = row
    return rows, differing


def reached_from(sources, n):
    """The sources that share a topic with source n, or with one that does, and so on."""
    topics = [{row["topic"] for row in rows} for rows, _ in sources]
    reached = {n}
    for _ in sources:
        known = set().union(*(topics[m] for m in reached))
        reached |= {m for m in range(len(sources)) if topics[m] & known}
    return reached


@pytest.mark.parametrize("seed", range(72))
def test_the_rule_is_that_of_plain_dicts(seed):
    sources = random_sources(seed)
    everywhere = set(range(len(sources)))
    reached = [reached_from(sources, n) for n in sorted(everywhere)]
    if any(tables.coverage == Coverage.CLUSTER and related != everywhere
           for (_, tables), related in zip(sources, reached, strict=True)):
        with pytest.raises(InputError, match=r"are not in file-\d, which lists all of its cluster"):
            merge([tables for _, tables in sources])
        return
    expected, differing = merge_plainly(sources)
    merged = merge([tables for _, tables in sources])
    unrelated = any("these files have no topic in common" in note for note in merged.notes)
    assert unrelated == (reached[0] != everywhere)
    rows = {(r["topic"], r["partition"]): r for r in merged.partitions.to_pylist()}
    assert rows.keys() == expected.keys()
    for key, row in expected.items():
        assert {name: rows[key].get(name) for name in row} == row, key
    said = merged.provenance.to_pylist()
    for group, column in (("replicas", "replicas"), ("leaders", "leader")):
        counts = sum(r["contradictions"] for r in said if r["columns"] == group)
        assert counts == differing[column]
        assert any(f"contradiction: {column} of" in note for note in merged.notes) == bool(counts)


# --- what each file adds --------------------------------------------------------------------------


def test_one_file_is_read_as_before():
    state = read()
    assert state.provenance.to_pylist() == [{
        "columns": "all", "source": "describe", "kind": "kafka-topics --describe", "version": None,
        "captured": None, "values": 2, "contradictions": 0,
    }]
    assert not any("contradiction" in line for line in state.assumptions)


def test_versions_say_who_is_up_and_where():
    state = read("versions")
    rows = state.to_tables().brokers.select(["broker_id", "rack", "registered"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, "a", True), (2, None, True), (3, None, False)]
    assert not any("taken for down" in line for line in state.assumptions)


def test_versions_of_zookeeper_mode_say_the_controller():
    text = VERSIONS.replace("UNSUPPORTED,", "0 to 7 [usable: 7],").encode()
    state = kfast.read(("describe", DESCRIBE.encode()), ("versions", text))
    assert state.controller == "zk-3.9"


def test_versions_that_are_cut_off_are_refused():
    """Brokers behind the cut would be taken for down."""
    with pytest.raises(InputError, match="versions line 5: the versions of broker 2 are cut off"):
        kfast.read(("describe", DESCRIBE.encode()), ("versions", VERSIONS[:-3].encode()))


def test_configurations_count_and_what_differs_is_said():
    state = read("configs", "versions")
    assert state.topic_min_insync_replicas.tolist() == [1]
    assert state.default_unclean_leader_election
    notes = [line for line in state.assumptions if line.startswith("contradiction")]
    assert notes == [
        "contradiction: rack of 1 broker: configs counts, not versions: broker 1 (z, not a)",
        "contradiction: min insync replicas of 1 topic: configs counts, not describe: t (1, not 2)",
    ]


def test_configurations_of_kafka_2_4_are_read():
    text = b"Configs for topic 't' are cleanup.policy=compact,delete,min.insync.replicas=1\n"
    state = kfast.read(("describe", DESCRIBE.encode()), ("configs", text))
    assert state.topic_min_insync_replicas.tolist() == [1]
    assert state.log_settings == {"t": {"cleanup.policy": "compact,delete"}}


def test_a_setting_of_one_broker_is_no_default():
    text = (b"Dynamic configs for broker 2 are:\n  min.insync.replicas=2 sensitive=false"
            b" synonyms={DYNAMIC_BROKER_CONFIG:min.insync.replicas=2}\n")
    state = kfast.read(("describe", DESCRIBE.encode()), ("configs", text))
    assert state.default_min_insync_replicas == 1
    assert "configs: settings of single brokers are not read: those of 2" in state.assumptions


def test_all_settings_of_the_default_broker_are_defaults():
    text = (b"All configs for broker <default> are:\n  min.insync.replicas=2 sensitive=false"
            b" synonyms={}\n")
    state = kfast.read(("describe", DESCRIBE.encode()), ("configs", text))
    assert state.default_min_insync_replicas == 2


def test_a_text_of_an_option_hides_no_partition():
    """Texts without headers show partitions that an option of kafka-topics picks."""
    part = "".join(line for line in DESCRIBE.splitlines(keepends=True)
                   if "PartitionCount" not in line and "Partition: 1" not in line)
    assert "Partition: 0" in part
    whole = read()
    for files in (("part", part), ("whole", DESCRIBE)), (("whole", DESCRIBE), ("part", part)):
        state = kfast.read(*((name, text.encode()) for name, text in files))
        assert (state.n_partitions, state.topic_min_insync_replicas.tolist()) == (
            whole.n_partitions, whole.topic_min_insync_replicas.tolist())
        assert not any("contradiction" in line for line in state.assumptions)


def test_log_directories_show_strays_and_what_failed():
    """Of a ZooKeeper cluster the replicas in a failed directory are offline."""
    state = read("sizes")
    notes = " ".join(state.assumptions)
    assert "replicas in its log directories that are not assigned: 1, t-1 on broker 1" in notes
    assert "log directories failed: /e of broker 2; replicas that are assigned to their" in notes
    assert state.controller.startswith("zk-")
    assert state.to_tables().partitions["offline_dir"].to_pylist() == [[], [2]]


def test_a_list_of_reassignments_says_what_is_under_way():
    state = read("list")
    row = state.to_tables().partitions.to_pylist()[0]
    assert (row["adding"], row["removing"]) == ([2], [1])


def test_a_supplement_alone_is_refused_with_what_it_is():
    for name, text in TEXTS.items():
        with pytest.raises(InputError, match=f"{name}: is kafka-.* does not list the partitions"):
            kfast.read((name, text.encode()))


def test_a_plan_may_name_a_topic_like_a_key():
    plan = b'{"version":1,"partitions":[{"topic":"leader","partition":0,"replicas":[1]}]}'
    assert kfast.read(("plan", plan)).provenance["kind"].to_pylist() == ["a reassignment plan"]


def test_files_of_two_clusters_are_refused():
    other = DESCRIBE.replace("1,2", "7,8").replace("2,3", "7,8").replace("Leader: 1", "Leader: 7")
    other = other.replace("Leader: 2", "Leader: 8").replace("Isr: 2", "Isr: 8").encode()
    with pytest.raises(InputError, match="right are files of one cluster"):
        kfast.read(("one", DESCRIBE.encode()), ("other", other))
    with pytest.raises(InputError, match=r"one \(x\) and other \(y\) are of different clusters"):
        kfast.read(*(
            ("d", DESCRIBE.encode()), ("one", b"Cluster ID: x\n"), ("other", b"Cluster ID: y\n"),
        ))


def test_files_whose_brokers_alone_agree_are_merged_with_a_note():
    """Two clusters may number their brokers alike, and each has the internal topics."""
    internal = DESCRIBE.replace("Topic: t", "Topic: __consumer_offsets")
    one, other = DESCRIBE + internal, DESCRIBE.replace("Topic: t", "Topic: u") + internal
    state = kfast.read(("one", one.encode()), ("other", other.encode()))
    note = ("these files have no topic in common, internal ones aside, and are taken for files of"
            " one cluster: one, other")
    assert note in state.assumptions
    # A third that names topics of both makes them one cluster.
    state = kfast.read(("one", one.encode()), ("other", other.encode()), ("both", (
        DESCRIBE + DESCRIBE.replace("Topic: t", "Topic: u")).encode()))
    assert not any("no topic in common" in line for line in state.assumptions)
    assert not any("no topic in common" in line for line in read("configs").assumptions)


def test_files_of_one_cluster_id_need_no_common_topic():
    metadata = {"cluster_id": "c", "topics": [{"topic": "t", "partitions": [
        {"partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1, 2]}]}]}
    other = json.loads(json.dumps(metadata).replace('"t"', '"u"'))
    files = [("one", json.dumps(metadata).encode()), ("other", json.dumps(other).encode())]
    assert not any("no topic in common" in line for line in kfast.read(*files).assumptions)
    files[1] = ("other", files[1][1].replace(b'"cluster_id": "c", ', b""))
    assert any("no topic in common" in line for line in kfast.read(*files).assumptions)


def test_a_metadata_log_refuses_topics_of_another_cluster(shared_data):
    """The log lists all topics of its cluster; a text of its brokers lists none of them."""
    log = shared_data / "kraft_live/metadata/__cluster_metadata-0"
    with pytest.raises(InputError) as caught:
        kfast.read(log, ("other", DESCRIBE.encode()), at=8807)
    assert str(caught.value) == (
        f"other: its topics, t, are not in {log}, which lists all of its cluster; right are files"
        " of one cluster"
    )


def test_provenance_is_kept_in_files_and_shown(tmp_path):
    paths = [tmp_path / "d.txt", tmp_path / "v.txt"]
    for path, text in zip(paths, (DESCRIBE, VERSIONS), strict=True):
        path.write_text(text)
    run_command("save", *paths, "-o", tmp_path / "c.arrow")
    state, again = kfast.read(*paths), kfast.read(tmp_path / "c.arrow")
    assert again == state
    assert again.provenance == state.provenance
    shown = run_command("show", *paths, "--provenance").stdout
    assert "kafka-broker-api-versions" in shown
    document = json.loads(run_command("show", *paths, "--format", "json").stdout)
    assert {row["source"] for row in document["provenance"]} == {str(path) for path in paths}


def test_log_directories_among_the_inputs_are_loads():
    data = ROOT / "bench_data"
    common = ("--brokers-file", data / "brokers.csv", "--capacity", data / "capacities.csv",
              "--format", "json")
    files = data / "describe.txt", data / "log-dirs.json.gz"
    one = json.loads(run_command("capacity", "show", *files, *common).stdout)
    other = json.loads(
        run_command("capacity", "show", files[0], "--load", files[1], *common).stdout
    )
    assert one["brokers"] == other["brokers"]


# --- real files, and damaged ones -----------------------------------------------------------------


def test_a_log_is_not_changed_by_a_text_of_its_moment(shared_data):
    log = shared_data / "kraft_live/metadata/__cluster_metadata-0"
    merged = kfast.read(log, shared_data / MARK / "topics-describe.txt", at=8807)
    assert merged.difference(kfast.read(log, at=8807)) is None
    assert not any("contradiction" in line for line in merged.assumptions)


def test_exports_of_the_live_cluster_make_the_cluster_of_its_log(shared_data):
    """All but the epochs and the directories, which no tool prints."""
    names = ("topics-describe", "broker-api-versions", "configs-topics", "configs-brokers-default",
             "features", "quorum-status", "cluster-id", "cluster-endpoints-fenced", "log-dirs")
    merged = kfast.read(*(shared_data / MARK / f"{name}.txt" for name in names))
    log = kfast.read(shared_data / "kraft_live/metadata/__cluster_metadata-0", at=8807)
    assert (merged.controller, merged.quorum.elr_on) == (log.controller, log.quorum.elr_on)
    ours, theirs = merged.to_tables(), log.to_tables()
    columns = ["broker_id", "rack", "registered", "fenced"]
    assert ours.brokers.select(columns).to_pylist() == theirs.brokers.select(columns).to_pylist()
    key = ("topic", "partition", "replicas", "leader")
    assert sorted(map(str, ours.partitions.select(key).to_pylist())) == sorted(
        map(str, theirs.partitions.select(key).to_pylist()))
    assert merged.default_min_insync_replicas == 2
    assert not any("contradiction" in line for line in merged.assumptions)


@pytest.mark.parametrize("name", TEXTS)
def test_damage_is_read_or_refused_in_one_line(name):
    draw, messages = random.Random(name), []
    text = TEXTS[name].encode()
    for _ in range(60):
        damaged = bytearray(text)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(damaged))
            kind = draw.randrange(3)
            if kind == 0:
                damaged[at] = draw.randrange(256)
            elif kind == 1:
                del damaged[at : at + draw.randint(1, 9)]
            else:
                damaged[at:at] = damaged[draw.randrange(len(damaged)) :][:7]
            damaged = damaged or bytearray(b"x")
        try:
            kfast.read(("describe", DESCRIBE.encode()), (name, bytes(damaged)))
        except KfastError as error:
            messages.append(str(error))
    assert not any("\n" in message for message in messages)
