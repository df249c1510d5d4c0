"""Describe texts of every version, and their damage by copying, read as what they say."""

from __future__ import annotations

import gzip
import json
import random
import re
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfast import io
from kfast.errors import InputError
from kfast.io.describe import parser as describe_parser
from kfast.io.describe import reader as describe_reader
from kfast.kernels.describe import Key, Trouble, gather, survey
from kfast.kernels.unwrap import unwrap
from tests.support import reference_describe as reference

pytestmark = pytest.mark.kernels

V08 = "topic: t\tpartition: 0\tleader: 1\treplicas: 1,2\tisr: 1\n"
V081 = "Topic:t\tPartitionCount:1\tReplicationFactor:2\tConfigs:min.insync.replicas=2\n"
LINE = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1"
ADDED = "\tAdding Replicas: 2\tRemoving Replicas: "
HEAD24 = "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
HEAD28 = (
    "Topic: t\tTopicId: q6t8O81ZR3Odgwr8kOJx6Q\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
)
VERSIONS = {
    "0.8.0": V08,
    "0.8.1": f"{V081}{LINE}\n",
    "2.3 zookeeper": f"{V081.strip()}\tMarkedForDeletion:true\n{LINE}\tMarkedForDeletion: true\n",
    "2.4": f"{HEAD24}\n{LINE}\n",
    "2.6 reassigning": f"{HEAD24}\n{LINE}\tAdding Replicas: 2\tRemoving Replicas: \n",
    "2.8": f"{HEAD28}min.insync.replicas=2,cleanup.policy=compact,delete\n{LINE}\n",
    "3.8": f"{HEAD28}\n{LINE}\tElr: N/A\tLastKnownElr: N/A\n",
    "4.0": f"{HEAD28}\n{LINE}\tElr: \tLastKnownElr: 2\n",
    "Confluent": f"{HEAD28}\n{LINE}\tOffline: 2\tLiveObservers: 2\n",
    "headers missing": f"{LINE}\n",
    "topic column cut": f"{HEAD24}\n\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n",
}


def read(tmp_path, text):
    """Read a text through a file."""
    path = tmp_path / "describe.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return io.read_tables(path)


def rows(tables, *columns):
    """Some columns of the partitions, row by row."""
    chosen = tables.partitions.select(list(columns))
    return [tuple(row.values()) for row in chosen.to_pylist()]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_says_who_leads_and_who_is_in_sync(tmp_path, version):
    tables = read(tmp_path, VERSIONS[version])
    found = rows(tables, "topic", "partition", "leader", "replicas", "isr")
    assert found == [("t", 0, 1, [1, 2], [1])]
    adds = version == "2.6 reassigning"
    assert tables.brokers.to_pylist() == [
        {"broker_id": 1, "registered": True},
        {"broker_id": 2, "registered": adds},
    ]


def test_a_headers_settings_become_columns(tmp_path):
    settings = "follower.x=0:1,1:2,unclean.leader.election.enable=true,min.insync.replicas=3,a=b=c"
    tables = read(tmp_path, f"{HEAD28}{settings}\n{LINE}\n")
    assert tables.topics.to_pylist() == [
        {
            "topic": "t",
            "topic_id": "q6t8O81ZR3Odgwr8kOJx6Q",
            "unclean_leader_election": True,
            "min_insync_replicas": 3,
        }
    ]


@pytest.mark.parametrize(
    ("settings", "min_isr", "unclean"),
    [
        ("", None, None),
        ("x.min.insync.replicas=3", None, None),
        ('c.constraints={"version": 1,"a":[]},min.insync.replicas=2', 2, None),
        ("unclean.leader.election.enable=FALSE", None, False),
        ("min.insync.replicas=2 ", 2, None),
        ("a=xmin.insync.replicas=7", None, None),
    ],
)
@pytest.mark.parametrize("blank", ["\t", "    "], ids=["tabs", "spaces"])
def test_settings_may_hold_commas_blanks_and_equal_signs(
    tmp_path, settings, min_isr, unclean, blank
):
    text = f"{HEAD28}{settings}\tMarkedForDeletion: true\n{LINE}\n".replace("\t", blank)
    row = read(tmp_path, text).topics.to_pylist()[0]
    assert (row["min_insync_replicas"], row["unclean_leader_election"]) == (min_isr, unclean)
    assert row["queued_for_deletion"] is True


def test_leaders_none_and_minus_one_are_no_leader(tmp_path):
    text = LINE.replace("Leader: 1", "Leader: none") + "\n"
    text += LINE.replace("Leader: 1", "Leader: -1").replace("Partition: 0", "Partition: 1") + "\n"
    tables = read(tmp_path, text)
    assert rows(tables, "leader", "isr") == [(-1, [1]), (-1, [1])]


def test_a_move_gives_adding_and_removing(tmp_path):
    text = f"{HEAD28}\n{LINE}\tAdding Replicas: 2\tRemoving Replicas: 1\n".replace(
        ": 1\tRep", ": 2\tRep"
    )
    text += LINE.replace("Partition: 0", "Partition: 1") + "\n"
    tables = read(tmp_path, text.replace("PartitionCount: 1", "PartitionCount: 2"))
    found = rows(tables, "adding", "removing", "being_reassigned")
    assert found == [([2], [1], True), ([], [], False)]


@pytest.mark.parametrize(
    ("adding", "removing", "is_over"),
    [("3", "", True), ("2", "3", True), ("2,3", "1", True), ("2", "1", False), ("", "2", False)],
)
def test_a_move_of_other_replicas_is_left_out(tmp_path, adding, removing, is_over):
    """Reassignments are asked for separately: one may begin or end between the two answers."""
    move = f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}\n"
    other = f"{LINE.replace('Partition: 0', 'Partition: 1')}{ADDED}\n"
    tables = read(tmp_path, f"{LINE}{move}{other}")
    found = rows(tables, "adding", "removing", "being_reassigned")
    lists = [[int(word) for word in text.split(",") if word] for text in (adding, removing)]
    assert found == [([], [], False) if is_over else (*lists, True), ([2], [], True)]
    assert [note[:50] for note in tables.notes if "is left out" in note] == (
        ["line 1 (topic t, partition 0): Adding Replicas or "] if is_over else []
    )
    named = {1, 2, *lists[0], *lists[1]}
    assert set(tables.brokers["broker_id"].to_pylist()) == named


def test_what_the_text_cannot_say_is_left_out(tmp_path):
    """Versions before 2.6 do not print moves; no version prints racks or epochs."""
    tables = read(tmp_path, VERSIONS["2.4"])
    assert set(tables.partitions.column_names) == {
        *("topic", "partition", "replicas", "leader", "isr", "line"),
    }
    assert tables.brokers.column_names == ["broker_id", "registered"]
    assert tables.cluster is None


def test_an_all_zero_topic_id_is_none(tmp_path):
    text = f"{HEAD28.replace('q6t8O81ZR3Odgwr8kOJx6Q', 'A' * 22)}\n{LINE}\n"
    assert read(tmp_path, text).topics["topic_id"].to_pylist() == [None]


def test_offline_replicas_of_brokers_that_are_up_are_offline_directories(tmp_path):
    text = f"{LINE}\tOffline: 2\n" + LINE.replace("0\tLeader: 1", "1\tLeader: 2") + "\tOffline: \n"
    assert rows(read(tmp_path, text), "offline_dir") == [([2],), ([],)]
    assert rows(read(tmp_path, f"{LINE}\tOffline: 2\n"), "offline_dir") == [([],)]


def test_a_broker_that_leads_nothing_and_is_in_no_isr_is_taken_for_down(tmp_path):
    tables = read(tmp_path, VERSIONS["2.4"])
    assert any("taken for down" in note and "broker 2" in note for note in tables.notes)
    path = tmp_path / "describe.txt"
    assert io.read_tables(path, up=[2]).brokers["registered"].to_pylist() == [True, True]


def test_the_isr_of_a_partition_without_leader_does_not_show_that_a_broker_is_up(tmp_path):
    """Kafka would have elected it: the last in sync stay in the ISR when they go down."""
    text = LINE.replace("Leader: 1", "Leader: none") + "\n"
    assert read(tmp_path, text).brokers["registered"].to_pylist() == [False, False]


@pytest.mark.parametrize(
    ("text", "up"),
    [
        (LINE + ADDED, True),
        (LINE + ADDED + "\tOffline: 2", False),
        (LINE + ADDED.replace("Removing Replicas: ", "Removing Replicas: 2"), False),
        (LINE + ADDED + "\n" + LINE.replace("Partition: 0", "Partition: 1"), False),
        (LINE + ADDED + "\n" + LINE.replace("Partition: 0", "Partition: 1") + ADDED, True),
        (LINE.replace("Isr: 1", "Isr: 1,2") + ADDED, True),
        (LINE.replace("Leader: 1", "Leader: none").replace("Isr: 1", "Isr: 2") + ADDED, False),
        (LINE.replace("1,2", "1") + ADDED, True),
    ],
    ids=[
        "only added", "offline there", "removed too", "out of sync elsewhere", "added twice",
        "in sync already", "in the ISR of a partition without leader", "no more a replica",
    ],
)
def test_a_broker_that_is_only_being_added_is_up_unless_something_says_otherwise(
    tmp_path, text, up
):
    """It has yet to catch up: an ISR that lacks it where it is added is no evidence."""
    tables = read(tmp_path, f"{text}\n")
    assert dict(zip(*tables.brokers.to_pydict().values(), strict=True))[2] is up
    notes = [note.split(",")[0] for note in tables.notes if re.search(r"brokers? (1, )?2\b", note)]
    concluded = "taken for up" if up else "taken for down"
    assert notes == ([] if "Isr: 1,2" in text else [concluded])


def test_a_caller_who_says_who_is_up_has_the_last_word(tmp_path):
    """A brokers file may say either, `up` says that they are; neither leaves a presumption."""
    read(tmp_path, f"{LINE}{ADDED}\n")
    path = tmp_path / "describe.txt"
    for arguments, up in (
        ({"up": [2]}, True),
        ({"brokers_file": ("b", b"broker_id,registered\n2,false\n")}, False),
        ({"brokers_file": ("b", b"broker_id,registered\n2,true\n")}, True),
    ):
        tables = io.read_tables(path, **arguments)
        assert tables.brokers["registered"].to_pylist() == [True, up]
        assert not any("taken for" in note for note in tables.notes)
    tables = io.read_tables(path, brokers_file=("b", b"broker_id,rack\n2,x\n"))
    assert any("taken for up" in note and "broker 2" in note for note in tables.notes)


def test_brokers_of_a_live_cluster_are_up_where_the_text_says_so(tmp_path, shared_data):
    """28 texts of one cluster, while brokers are killed, restarted and moved to."""
    live = shared_data / "kraft_live"
    captures = gzip.decompress((live / "captures.jsonl.gz").read_bytes()).splitlines()
    fenced = {
        capture["label"]: {row["id"] for row in capture["brokers"] if row["fenced"]}
        for capture in map(json.loads, captures)
    }
    with tarfile.open(live / "describe.tar.gz") as archive:
        texts = {
            int(Path(member.name).stem): archive.extractfile(member).read()
            for member in archive if re.fullmatch(r"\d+\.txt", Path(member.name).name)
        }
    empty = [label for label, text in texts.items() if not text.strip()]
    assert empty == [1]
    for label in texts.keys() - {1}:
        brokers = io.read_tables((f"{label}.txt", texts[label])).brokers
        down = brokers.filter(pc.invert(brokers["registered"]))["broker_id"].to_pylist()
        assert set(down) == fenced[label], label


def test_lists_keep_their_order_and_may_name_anyone(tmp_path):
    text = LINE.replace("Replicas: 1,2\tIsr: 1", "Replicas: 3,1,2\tIsr: 9,1") + "\n"
    assert rows(read(tmp_path, text), "replicas", "isr", "line") == [([3, 1, 2], [9, 1], 1)]


DAMAGE = {
    "spaces for tabs": lambda text: text.replace("\t", "    "),
    "single spaces": lambda text: text.replace("\t", " "),
    "indented": lambda text: "".join(f"    {line}" for line in text.splitlines(keepends=True)),
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "byte order mark": lambda text: "\ufeff" + text,
    "blank lines": lambda text: text.replace("\n", "\n\n"),
    "prompt before": lambda text: f"[me@host bin]$ kafka-topics.sh --describe\n{text}$ \n",
    "warnings within": lambda text: text.replace("\n", "\nWARN log4j: no appender (x=1)\n"),
    "no last line break": lambda text: text.removesuffix("\n"),
    "unknown columns": lambda text: text.replace("\tLeader", "\tEligible: x,y z\tLeader"),
    "upper case": lambda text: text.replace("Isr:", "ISR:"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("version", VERSIONS)
def test_harmless_damage_changes_nothing(tmp_path, version, damage):
    whole = read(tmp_path, VERSIONS[version])
    damaged = read(tmp_path, DAMAGE[damage](VERSIONS[version]))
    assert damaged.partitions.drop_columns("line").equals(whole.partitions.drop_columns("line"))
    assert damaged.topics.equals(whole.topics)
    assert damaged.brokers.equals(whole.brokers)


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda data: pa.compress(data, "zstd", asbytes=True)]
)
def test_packed_texts_are_unpacked(tmp_path, pack):
    text = VERSIONS["2.8"].encode()
    assert read(tmp_path, pack(text)).partitions.equals(read(tmp_path, text).partitions)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("blank", ["\t", "  "], ids=["tabs", "spaces"])
def test_a_line_wrapped_anywhere_reads_the_same_or_is_refused(tmp_path, version, blank):
    """Every place of every line; most of them read the same."""
    text = VERSIONS[version].replace("\t", blank)
    whole = read(tmp_path, text)
    same = refused = 0
    for at in range(1, len(text) - 1):
        if text[at - 1] == "\n" or text[at] == "\n":
            continue
        try:
            found = read(tmp_path, f"{text[:at]}\n{text[at:]}")
        except InputError:
            refused += 1
            continue
        assert found.topics.equals(whole.topics), text[:at]
        for name in ("topic", "partition", "replicas", "leader", "isr"):
            assert found.partitions[name].equals(whole.partitions[name]), text[:at]
        same += 1
    assert same > 3 * refused


def test_joined_lines_keep_the_numbers_of_the_lines_behind_them(tmp_path):
    text = f"{HEAD28[:30]}\n{HEAD28[30:]}\n{LINE}\n".replace("Count: 1", "Count: 2")
    tables = read(tmp_path, text + LINE.replace("Partition: 0", "Partition: 1"))
    assert rows(tables, "line") == [(3,), (4,)]
    assert any("wrapped lines joined" in note for note in tables.notes)


def test_columns_that_are_passed_over_are_said_once(tmp_path):
    text = VERSIONS["4.0"].replace("\tLeader", "\tEligible: x\tLeader")
    notes = read(tmp_path, text).notes
    assert sum("'Eligible:' in line 2" in note for note in notes) == 1


@pytest.mark.parametrize(("text", "controller", "elr", "why"), [
    (f"{HEAD28}\n{LINE}", "kraft-4.3", False, "assumed, the newest: nothing in "),
    (f"{HEAD28}\n{LINE}\tElr: N/A\tLastKnownElr: N/A", "kraft-4.3", False, "assumed, the newest"),
    (f"{HEAD28}\n{LINE}\tElr: \tLastKnownElr: ", "kraft-4.1", False, "ELR is taken for off"),
    (f"{HEAD28}\n{LINE}\tElr: 3\tLastKnownElr: ", "kraft-4.1", True, "line 2 of .* names an ELR"),
    (f"{HEAD28}\n{LINE}\tElr: \tLastKnownElr: 2", "kraft-4.1", True, "line 2 of .* names an ELR"),
    (LINE, "kraft-4.3", False, "assumed, the newest"),
    (VERSIONS["2.4"], "zk-3.9", None, "no topic ids, as before Kafka 2.8"),
    (f"{HEAD28}\tMarkedForDeletion: true\n{LINE}", "zk-3.9", None, "as only ZooKeeper mode does"),
])
def test_the_controller_is_what_a_text_tells_or_the_newest(tmp_path, text, controller, elr, why):
    """docs/formats.md, section "Which controller is simulated"; it is said with the reason."""
    path = tmp_path / "describe.txt"
    path.write_text(f"{text}\n")
    state = io.read(path)
    assert state.controller == controller
    assert (state.quorum.elr_on if state.is_kraft else None) is elr
    assert state.assumptions[0].startswith("controller: ")
    assert re.search(why, state.assumptions[0])
    assert not any(line.startswith("controller: ") for line in state.assumptions[1:])


def test_eligible_leader_replicas_are_kept_in_their_order(tmp_path):
    """A broker that is only in the ELR is known, and down: registered and fenced."""
    path = tmp_path / "describe.txt"
    path.write_text(
        f"{HEAD28}\n\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2,3\tIsr: \t"
        "Elr: 3,1\tLastKnownElr: 2\n")
    state = io.read(path)
    registration = state.registration(0)
    assert (registration.isr, registration.elr, registration.last_known_elr) == ((), (3, 1), (2,))
    assert state.registered.all()
    assert state.fenced.all()
    assert io.read(path, up=[3]).fenced.tolist() == [True, True, False]


@pytest.mark.parametrize("end", ["N", "1,", "N/A,1", "x", "-1"])
def test_an_elr_that_is_no_list_is_refused(tmp_path, end):
    with pytest.raises(InputError, match=r"line 1 .*found '.*' for 'Elr:'.*right is broker ids"):
        read(tmp_path, f"{LINE}\tElr: {end}")


def test_partial_dumps_say_so(tmp_path):
    assert any("partial" in note for note in read(tmp_path, f"{LINE}\n").notes)
    headers = read(tmp_path, f"{HEAD28}\n")
    assert headers.partitions.num_rows == 0
    assert headers.topics.num_rows == 1
    assert any("headers only" in note for note in headers.notes)


def lines_of(*numbers, topic="t"):
    """Lines of some partitions of a topic, under a header that counts them."""
    head = HEAD24.replace("PartitionCount: 1", f"PartitionCount: {len(numbers)}")
    lines = (LINE.replace("Partition: 0", f"Partition: {number}") for number in numbers)
    return "\n".join([head, *lines]).replace("Topic: t", f"Topic: {topic}") + "\n"


def test_partitions_that_kafka_topics_did_not_print_are_unknown(tmp_path):
    """A broker that has just started prints those that it knows, and counts only them."""
    printed = [*range(8), 9, 11]
    text = lines_of(*printed) + lines_of(0, 1, topic="u") + lines_of(9, topic="v")
    tables = read(tmp_path, text)
    assert [number for _, number in rows(tables, "topic", "partition")] == [*printed, 0, 1, 9]
    assert io.read(tmp_path / "describe.txt").n_partitions == 13
    partial = [note for note in tables.notes if "is partial" in note]
    assert len(partial) == 1
    assert "no line for 11 partitions of 2 topics" in partial[0]
    assert "t (8, 10), v (0, 1, 2, ...)" in partial[0]


def test_a_text_with_gaps_that_lost_lines_is_refused(tmp_path):
    """The header counts the lines that were printed, so one that counts more tells of a loss."""
    whole = lines_of(0, 1, 4, 6)
    read(tmp_path, whole)
    with pytest.raises(InputError, match="found PartitionCount 4, but the text has 3 lines"):
        read(tmp_path, whole[: whole.rindex("\tTopic")])
    with pytest.raises(InputError, match="found PartitionCount 4, but the text has 3 lines"):
        read(tmp_path, whole.replace(LINE + "\n", ""))


def test_a_leader_outside_the_isr_is_kept_and_named_by_line(tmp_path):
    """A ZooKeeper-mode controller does not check what a leader reports."""
    outside = LINE.replace("Leader: 1", "Leader: 2")
    text = f"{LINE}\n" + "".join(
        outside.replace("Partition: 0", f"Partition: {n}") + "\n" for n in (1, 2)
    )
    tables = read(tmp_path, text)
    assert rows(tables, "leader", "isr") == [(1, [1]), (2, [1]), (2, [1])]
    notes = [note for note in tables.notes if "not in the ISR" in note]
    assert notes == [
        (
            "line 2 (topic t, partition 1): the leader, 2, is not in the ISR; kept, as in 1 more"
            " partitions"
        )
    ]
    assert io.read(tmp_path / "describe.txt").leadership(1).leader == 2


@pytest.mark.parametrize(
    ("factor", "fits"),
    [("2", True), ("1", True), ("3", False), ("0", False), ("1000000000", False)],
)
def test_a_replication_factor_that_fits_no_partition_is_named_by_line(tmp_path, factor, fits):
    """It is that of one partition, and leaves out what a reassignment adds there."""
    text = f"{HEAD24.replace('Factor: 2', f'Factor: {factor}')}\n{LINE}{ADDED}\n"
    notes = [note for note in read(tmp_path, text).notes if "ReplicationFactor" in note]
    unfit = (
        f"line 1 (topic t): ReplicationFactor {factor} is that of no partition, they list 2"
        " replicas or fewer; the lists count"
    )
    assert notes == ([] if fits else [unfit])


def test_a_text_of_more_values_than_arrow_counts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(describe_parser, "MAX_VALUES", 3)
    with pytest.raises(InputError, match="has more than 3 broker ids and lines"):
        read(tmp_path, VERSIONS["2.8"])


def test_archives_of_several_parts_are_read_whole(tmp_path):
    text = VERSIONS["2.8"].encode()
    packed = gzip.compress(text[:50]) + gzip.compress(text[50:])
    assert read(tmp_path, packed).partitions.equals(read(tmp_path, text).partitions)


def test_progress_ends_at_the_size_of_the_text(tmp_path):
    path = tmp_path / "describe.txt"
    path.write_text(VERSIONS["2.8"])
    seen = []
    io.read_tables(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


# --- the kernels against the twin -----------------------------------------------------------

TOKENS = [
    *("Topic: ", "Topic:", "t", "a.b-1", "\tPartition: ", "0", "12", "\tLeader: ", "none", "-1"),
    *("\tReplicas: ", "1,2,3", "\tIsr: ", "3", ",", "\tAdding Replicas: ", "\tRemoving Replicas: "),
    *("\tElr: ", "N/A", "\tLastKnownElr: ", "\tOffline: ", "\tObservers: ", "\tPartitionCount: "),
    *("\tReplicationFactor: ", "\tTopicId: ", "q6t8O81ZR3Odgwr8kOJx6Q", "\tConfigs: ", "a=b"),
    *("Elr: 3,4", "\tReplicationFactor: 3", ",min.insync.replicas=1", "N/"),
    *("min.insync.replicas=", "unclean.leader.election.enable=", "true", "false", "\n", "\r\n"),
    *("\tMarkedForDeletion: true", " ", "\t", "2147483648", "Foo: ", "x", "...", "=", "-", ":"),
    f"{HEAD28}min.insync.replicas=2\n",
    f"{HEAD24.replace('t', 'u', 1)}\n",
    f"{LINE}\n",
    f"{LINE}\tAdding Replicas: 2\tRemoving Replicas: \tElr: \tLastKnownElr: 5\n",
    LINE.replace("Leader: 1", "Leader: none").replace("\t", "   ") + "\n",
    "\tPartition: 3\tLeader: 4\tReplicas: 4\tIsr: \tOffline: 4,5\tNew: 1 2\n",
    "INFO nothing here\n",
]


def kernel_parse(text):
    """What the kernels find, in the twin's form."""
    parsed = describe_parser._parse_once(text.encode(), (0, 0), None)
    if parsed.trouble != Trouble.FINE:
        raise reference.DamagedError(int(parsed.cursor["line"]), parsed.trouble.name)
    named = describe_reader._names(parsed)
    names = named.to_pylist()
    keys = (*reference.LISTS, *reference.ELRS)
    lists = {key: parsed.list_of(Key[key]).to_pylist() for key in keys}
    partitions = [
        {name: int(row[name]) for name in ("partition", "leader", "line")}
        | {"topic": names[row["topic"]]}
        | {"moving": bool(row["keys"] & (1 << Key.ADDING | 1 << Key.REMOVING))}
        | {key: lists[key][i] for key in keys}
        for i, row in enumerate(parsed.partitions)
    ]
    table = describe_reader._topics(parsed, named).to_pylist()
    topics = {}
    for row, columns in zip(parsed.topics, table, strict=True):
        topics[columns["topic"]] = {
            "header_line": int(row["header_line"]) if row["header_line"] > 0 else None,
            "first_line": int(row["first_line"]),
            "lines": int(row["lines"]),
            "highest": int(row["highest"]),
            "sizes": (int(row["fewest"]), int(row["most"])) if row["lines"] else None,
            "marked": columns.get("queued_for_deletion", False),
        }
        if row["header_line"] > 0:
            topics[columns["topic"]] |= {
                "count": int(row["count"]),
                "factor": int(row["factor"]) if row["factor"] >= 0 else None,
                "topic_id": columns["topic_id"],
                "min_insync_replicas": columns["min_insync_replicas"],
                "unclean": columns["unclean_leader_election"],
            }
    cursor = parsed.cursor
    elr = int(cursor["elr_line"])
    outside = int(cursor["n_outside"]), int(cursor["outside_row"])
    return topics, partitions, elr, outside


def twin_parse(text):
    """What the twin finds, with what the kernels count of it."""
    topics, partitions = reference.parse(text)
    for topic in topics.values():
        fewest, most = zip(*topic["sizes"], strict=True) if topic["sizes"] else ((), ())
        topic["sizes"] = (min(fewest), max(most)) if fewest else None
    lines = [row["line"] for row in partitions if row.pop("knows_elr")]
    outside = [
        at for at, row in enumerate(partitions) if row["leader"] not in (-1, *row["ISR"])
    ]
    elr = lines[0] if lines else -1
    return topics, partitions, elr, (len(outside), outside[0] if outside else -1)


def outcome(parse, text):
    """What a parser gives, or which line it refuses and why."""
    try:
        return parse(text)
    except reference.DamagedError as error:
        return error.args


@settings(max_examples=600)
@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
def test_kernel_and_twin_read_and_refuse_alike(text):
    assert outcome(kernel_parse, text) == outcome(twin_parse, text)


@pytest.mark.parametrize("seed", range(20))
def test_kernel_and_twin_agree_on_random_damage(seed):
    """Whole texts with a few bytes lost, doubled or replaced."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(40):
        text = "".join(rng.choices(list(VERSIONS.values()), k=4))
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", "\t", " ", "7", "x", ":", ","]) + text[at + 1 :]
        found = outcome(kernel_parse, text)
        assert found == outcome(twin_parse, text), text
        refused += isinstance(found[0], int)
    assert refused > 0


def test_survey_counts_lines_commas_and_foreign_bytes():
    assert survey(b"a,b\n,\n") == (2, 2, False)
    assert survey("é".encode()) == (0, 0, True)


def test_gather_copies_words():
    words = np.empty(5, np.uint8)
    at, offsets = np.array([4, 0], np.int64), np.array([0, 3, 5], np.int32)
    gather(b"ab, cde", at, offsets, words)
    assert words.tobytes() == b"cdeab" or words.tobytes() == b" cdab"


def test_unwrap_leaves_a_whole_text_alone():
    text = VERSIONS["2.8"].encode()
    joined = np.empty(2 * len(text), np.uint8)
    assert unwrap(text, joined) == (len(text) - 1, 0, 0)
    assert joined[: len(text) - 1].tobytes() == text[:-1]


def test_chunks_of_any_size_give_the_same(monkeypatch):
    text = "".join(VERSIONS[name].replace(" t", f" t{i}") for i, name in enumerate(("2.8", "4.0")))
    whole = kernel_parse(text)
    for size in (1, 7, 64):
        monkeypatch.setattr(describe_parser, "_CHUNK", size)
        assert kernel_parse(text) == whole
