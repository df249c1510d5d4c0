"""Damaged, foreign and contradictory input: one clear line, and nothing is read."""

from __future__ import annotations

import gzip
import io as streams
import json
import lzma
import random
import sys
import tracemalloc
from types import SimpleNamespace

import pyarrow as pa
import pytest

import kfast
from kfast import io
from kfast.errors import InputError
from kfast.io.files import LOOK_BYTES

HEAD = (
    "Topic: t\tTopicId: q6t8O81ZR3Odgwr8kOJx6Q\tPartitionCount: 2\tReplicationFactor: 2\t"
    "Configs: \n"
)
LINE0 = "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: \n"
UNCLEAN = "unclean.leader.election.enable"
LINE1 = LINE0.replace("Partition: 0", "Partition: 1")
TEXT = HEAD + LINE0 + LINE1

HEADER, LINE, ROW = "line 1 (topic t): ", "line 2 (topic t): ", "line 2 (topic t, partition 0): "
LAST = "line 3 (topic t, partition 1): "
MIN_ISR = "min.insync.replicas"
REPLACED = {
    "no ISR": ("\tIsr: 1,2", "", f"{ROW}'Isr' is missing after"),
    "no leader": ("\tLeader: 1", "", f"{ROW}'Leader' is missing after"),
    "a leader that is no number": (
        "Leader: 1", "Leader: one", f"{ROW}found 'one' for 'Leader:'; right is a broker id, -1",
    ),
    "a leader that Kafka has no word for": (
        "Leader: 1", "Leader: -7",
        f"{ROW}found '-7' for 'Leader:'; right is a broker id, -1 or none",
    ),
    "a broker that is no number": (
        "1,2\tI", "1,b\tI", f"{ROW}found '1,b' for 'Replicas:'; right is broker ids with",
    ),
    "a broker id that is too large": (
        "1,2\tI", "1,2147483648\tI", f"{ROW}found '1,2147483648' for 'Replicas:'",
    ),
    "a negative broker id": ("1,2\tI", "1,-2\tI", f"{ROW}found '1,-2' for 'Replicas:'"),
    "a list that was shortened": ("1,2\tI", "1,...\tI", f"{ROW}found '1,...' for 'Replicas:'"),
    "a partition that is no number": (
        "Partition: 0", "Partition: zero",
        f"{LINE}found 'zero' for 'Partition:'; right is an integer from 0 to 2147483647",
    ),
    "a leader that is no replica": (
        "Leader: 1", "Leader: 7",
        (
            f"{ROW}found leader 7, which is not among the replicas 1,2; right is one of them, for"
            " Kafka elects no other"
        ),
    ),
    "a leader of no replicas": (
        "Replicas: 1,2", "Replicas: ",
        f"{ROW}found leader 1, which is not among the replicas ; right",
    ),
    "a setting twice": (
        "Configs: ", f"Configs: {MIN_ISR}=1,a=b,{MIN_ISR}=2",
        (f"{HEADER}found '{MIN_ISR}=2' for 'Configs:', which has a value for it already; right is"
        " each setting once"),
    ),
    "a permission twice": (
        "Configs: ", f"Configs: {UNCLEAN}=true,{UNCLEAN}=true",
        f"{HEADER}found '{UNCLEAN}=true' for 'Configs:', which has a value",
    ),
    "a negative replication factor": (
        "Factor: 2", "Factor: -1",
        f"{HEADER}found '-1' for 'ReplicationFactor:'; right is an integer from 0 to",
    ),
    "a replication factor that is too large": (
        "Factor: 2", "Factor: 2147483648",
        f"{HEADER}found '2147483648' for 'ReplicationFactor:'; right is an integer",
    ),
    "a topic with a space": ("Topic: t\tP", "Topic: t u\tP", f"{LINE}found 'u' between the values"),
    "a topic with a slash": (
        "Topic: t\tP", "Topic: t/u\tP", f"{LINE}found 't/u' for 'Topic:'; right is a topic name",
    ),
    "a setting that is no number": (
        "Configs: ", f"Configs: {MIN_ISR}=two", f"{HEADER}found '{MIN_ISR}=two' for 'Configs:'",
    ),
    "a topic id that is cut": (
        "Odgwr8kOJx6Q", "", f"{HEADER}found 'q6t8O81ZR3' for 'TopicId:'; right is 22 characters",
    ),
    "names of files before lines": (
        "\tTopic: t", "a.txt:\tTopic: t",
        "line 2: text stands before the description of a partition: 'a.txt:",
    ),
}
"""Part of the text, what stands instead, and the message."""

DAMAGED = {case: (TEXT.replace(old, new, 1), at) for case, (old, new, at) in REPLACED.items()} | {
    "a line cut off in its keys": (
        TEXT[:-40], f"{LAST}found 'Repl' between the values; the text is cut off here",
    ),
    "a line cut off before its ISR": (
        TEXT[: TEXT.rindex("\tIsr")], f"{LAST}'Isr' is missing after",
    ),
    "a line cut off behind its ISR": (
        TEXT[: TEXT.rindex("\tElr")], f"{LAST}'Elr' is missing, which every line before it has",
    ),
    "a line cut off in a list": (
        TEXT[: TEXT.rindex("2\tElr")],
        f"{LAST}found '1,' for 'Isr:'; the text is cut off here; right is",
    ),
    "two lines run together": (
        TEXT.replace(": \n\t", ": \t"), f"{HEADER}'Topic:' stands there twice",
    ),
    "lines cut off": (
        HEAD + LINE0, f"{HEADER}found PartitionCount 2, but the text has 1 line of its partitions",
    ),
    "the first line lost": (
        LINE0 + LINE1 + HEAD.replace("Topic: t", "Topic: u").replace("Count: 2", "Count: 0"),
        f"{HEADER}the topic has no header with PartitionCount, but others have",
    ),
    "a partition without topic": (
        "Partition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n", "line 1: a partition without a topic",
    ),
    "the same dump twice": (
        TEXT + TEXT, "line 4 (topic t): the topic is described again; its first header is line 1",
    ),
    "the dumps of two clusters": (
        TEXT + TEXT.replace("q6t8", "ZZZZ"),
        ("line 4 (topic t): the topic is described again with TopicId ZZZZO81ZR3Odgwr8kOJx6Q, there"
        " with q6t8O81ZR3Odgwr8kOJx6Q; its first header is line 1: the text holds the dumps of two"
        " clusters; right is one dump of one cluster"),
    ),
}

CONTRADICTORY = {
    "a partition twice": (HEAD + LINE0 + LINE0, ["line 3", "line 2", "t", "0"]),
    "a partition twice without headers": (LINE0 + LINE1 + LINE0, ["line 3", "line 1", "t", "0"]),
    "a broker twice among the replicas": (
        TEXT.replace("Replicas: 1,2", "Replicas: 1,1", 1),
        ["line 2", "t", "0", "1", "twice"],
    ),
    "a broker twice in the ISR": (
        TEXT.replace("Isr: 1,2", "Isr: 2,2", 1),
        ["line 2", "t", "0", "2", "twice"],
    ),
    "more brokers than a mask has bits": (
        LINE0.replace("Replicas: 1,2", "Replicas: " + ",".join(map(str, range(65)))),
        ["line 1", "t", "0", "64"],
    ),
}

PLAN = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}


def plan(**changes):
    """A plan with one partition, changed."""
    return json.dumps(PLAN | {"partitions": [PLAN["partitions"][0] | changes]})


FOREIGN = {
    "nothing": (b"", "is empty"),
    "blanks": (b" \n\t\n", "is empty"),
    "prose": (b"hello\nworld\n", "is not recognised, it begins with 'hello'"),
    "a description behind a mebibyte of prose": (
        b"INFO\n" * (LOOK_BYTES // 5 + 1) + TEXT.encode(),
        "is not recognised in its first 1048576 bytes, it begins with 'INFO'",
    ),
    "blanks beyond a mebibyte": (b"\n" * (LOOK_BYTES + 1), "begins with 1048576 blanks"),
    "an error message": (b"Error while executing topic command : x\n", "is an error message"),
    "UTF-16": ("Topic: t".encode("utf-16"), "is UTF-16 text"),
    "a zip archive": (b"PK\x03\x04xxxx", "is a zip archive; unpack it first"),
    "an xz archive": (lzma.compress(b"x"), "is an xz archive; unpack it first"),
    "a ZooKeeper snapshot": (b"ZKSN" + b"\0" * 32, "is a ZooKeeper snapshot"),
    "a brokers file": (b"broker_id,rack\n1,a\n", "is a brokers file; give it as brokers_file"),
    "kcat's text": (
        b'Metadata for all topics:\n 3 brokers:\n  topic "t" with 1 partitions:\n',
        "kcat",
    ),
    "Strimzi": (
        b"apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: c}\nspec: {kafka: {}}\n",
        "is Strimzi custom resources",
    ),
    "verify": (b"Status of partition reassignment:\nx\n", "kafka-reassign-partitions --verify"),
    "list": (b"Current partition reassignments:\nt-0: replicas: 1.\n", "--list"),
    "a topics file": (b'{"version":1,"topics":[{"topic":"t"}]}', "is a list of topics"),
    "an election file": (b'{"partitions":[{"topic":"t","partition":0}]}', "kafka-leader-election"),
    "a topic node": (b'{"version":1,"partitions":{"0":[1,2]}}', "is a ZooKeeper topic node"),
    "a JSON list": (b'[{"a":1}]', "is a JSON list"),
    "other JSON": (b'{"a":1}', "JSON of an unknown kind"),
    "cut JSON": (plan().encode()[:-9], "line 1: damaged JSON"),
    "deep JSON": (
        b'{"partitions":[{"topic":"t","x":' + 5000 * b"[" + 5000 * b"]" + b"}]}",
        "line 1: damaged JSON",
    ),
    "a cut gzip file": (gzip.compress(TEXT.encode())[:-12], "damaged gzip file"),
    "a cut Arrow file": (b"ARROW1\0\0" + b"\0" * 20, "damaged Arrow file"),
    "a cut Parquet file": (b"PAR1" + b"\0" * 20, "damaged Parquet file"),
    "Latin-1": (
        TEXT.encode() + b"caf\xe9\n",
        f"line 4: byte 0xe9 at offset {len(TEXT) + 3} is not UTF-8; save the text as UTF-8",
    ),
    "UTF-8 that is cut": (TEXT.encode() + "é".encode()[:1], "line 4: byte 0xc3 at offset"),
}

PLANS = {
    "no partition": (json.dumps(PLAN | {"partitions": []}), "length >= 1"),
    "no replicas": (plan(replicas=[]), "of length >= 1 - at `$.partitions[0].replicas`"),
    "a name for a broker": (plan(replicas=[1, "b"]), "at `$.partitions[0].replicas[1]`"),
    "a negative broker": (plan(replicas=[1, -1]), "at `$.partitions[0].replicas[1]`"),
    "a negative partition": (plan(partition=-1), "at `$.partitions[0].partition`"),
    "a wrong topic": (plan(topic="a b"), "found topic 'a b'; right is at most 249 letters"),
    "another version": (json.dumps(PLAN | {"version": 2}), "found version 2; right is version 1"),
    "too few directories": (plan(log_dirs=["any"]), "1 log_dirs for 2 replicas"),
    "no topic": (
        '{"partitions":[{"partition":0,"replicas":[1]}]}',
        "missing required field `topic`",
    ),
}


def refuse(tmp_path, data, reader=io.read_tables):
    """The message that a file is refused with, without the name of the file."""
    path = tmp_path / "input"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(InputError) as caught:
        reader(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path)).lstrip(": ")


@pytest.mark.kernels
@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_text_is_refused_with_line_value_and_remedy(tmp_path, case):
    text, message = DAMAGED[case]
    assert message in refuse(tmp_path, text, io.read)


@pytest.mark.kernels
@pytest.mark.parametrize("case", CONTRADICTORY)
def test_contradictions_are_refused_with_file_and_line(tmp_path, case):
    text, words = CONTRADICTORY[case]
    message = refuse(tmp_path, text, io.read)
    for word in words:
        assert word in message, message


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_files_are_refused_by_name(tmp_path, case):
    data, message = FOREIGN[case]
    assert message in refuse(tmp_path, data)


@pytest.mark.parametrize("case", PLANS)
def test_wrong_plans_are_refused_with_their_place(tmp_path, case):
    text, message = PLANS[case]
    assert message in refuse(tmp_path, "prose\n" + text)
    assert "line 2" in refuse(tmp_path, "prose\n" + text)


@pytest.mark.parametrize(
    ("entry", "words"),
    [({"partition": 0}, ["t-0"]), ({"partition": 1, "replicas": [3, 3]}, ["t-1", "3", "twice"])],
)
def test_contradictory_plans_are_refused(tmp_path, entry, words):
    both = PLAN | {"partitions": [PLAN["partitions"][0], PLAN["partitions"][0] | entry]}
    message = refuse(tmp_path, json.dumps(both), io.read)
    for word in words:
        assert word in message


def test_the_first_of_several_plans_is_read_and_said(tmp_path):
    path = tmp_path / "generate.txt"
    path.write_text(f"Current partition replica assignment\n{plan()}\n\nProposed\n{plan()}\n")
    notes = io.read_tables(path).notes
    assert any("2 plans; the first, in line 2, was read" in note for note in notes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": [1]}), "no column topic and partition"),
        (pa.table({"topic": ["t"], "partition": ["x"]}), "a column of partitions has another type"),
        (
            pa.table({"topic": ["t"], "partition": [0]}).replace_schema_metadata(
                {"kfast.version": "9"}
            ),
            "found version 9 of kfast's tables",
        ),
        (
            pa.table({"topic": ["t"], "partition": [0]}).replace_schema_metadata(
                {"kfast.brokers": "!"}
            ),
            "the table of brokers in it is damaged",
        ),
    ],
)
def test_wrong_arrow_tables_are_refused(tmp_path, table, message):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert message in refuse(tmp_path, sink.getvalue().to_pybytes())


@pytest.mark.parametrize("data", [TEXT, plan()], ids=["describe text", "plan"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_prose_of_less_than_a_mebibyte_may_stand_before(tmp_path, data, pack):
    prose = b"INFO\n" * ((LOOK_BYTES - len(data) - 1) // 5)
    (tmp_path / "x").write_bytes(pack(prose + data.encode()))
    n_partitions = data.count("Partition: ") + data.count('"partition":')
    assert io.read_tables(tmp_path / "x").partitions.num_rows == n_partitions


class Endless(streams.RawIOBase):
    """A pipe that gives zeros for ever, and counts them."""

    def __init__(self):
        self.n_bytes = 0

    def readinto(self, buffer):
        buffer[:] = bytes(len(buffer))
        self.n_bytes += len(buffer)
        return len(buffer)


@pytest.mark.parametrize("reader", [io.read, kfast.read_plan, io.read_brokers_file])
def test_what_is_not_recognised_is_not_read_to_its_end(monkeypatch, reader):
    pipe = Endless()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
    with pytest.raises(InputError, match="standard input"):
        reader("-")
    assert pipe.n_bytes == LOOK_BYTES


def test_an_archive_that_is_not_recognised_is_not_unpacked(tmp_path):
    """64 MiB of zeros are 64 KiB as gzip."""
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1 << 26)))
    tracemalloc.start()
    with pytest.raises(InputError, match="is not recognised in its first 1048576 bytes"):
        io.read(tmp_path / "x.gz")
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1 << 23


@pytest.mark.parametrize("reader", [io.read, kfast.read_plan, io.read_brokers_file])
def test_an_empty_name_is_called_so(reader):
    with pytest.raises(InputError, match="the name of the input is ''; right is a file, or -"):
        reader("")
    with pytest.raises(kfast.ArgumentError, match="the name of the output is ''"):
        io.write(kfast.generate(brokers=1, partitions=1, replication_factor=1), "", format="arrow")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.txt: cannot be read: No such file"):
        io.read(tmp_path / "nowhere.txt")
    with pytest.raises(InputError, match="is a folder without a metadata log"):
        io.read(tmp_path)


def test_isr_members_that_are_not_assigned_are_kept_and_reported(tmp_path):
    path = tmp_path / "describe.txt"
    path.write_text(TEXT.replace("Isr: 1,2", "Isr: 1,9", 1))
    state = io.read(path)
    assert set(state.leadership(0).isr) == {1, 9}
    assert any(str(path) in note and "line 2" in note for note in state.assumptions)


@pytest.mark.parametrize("end", ["arrow", "parquet", "txt", "json"])
def test_damage_is_refused_or_harmless(tmp_path, end):
    """Bytes changed, lost and added anywhere: an `InputError`, or a cluster that holds together."""
    rng = random.Random(8)
    path = tmp_path / f"x.{end}"
    io.write(kfast.generate(brokers=6, partitions=40, racks=2, seed=1), path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 3, 20])):
            at, size = rng.randrange(len(data)), rng.randrange(9)
            data[at : at + rng.choice([size, size, 0])] = rng.randbytes(rng.choice([size, 0]))
        path.write_bytes(data if rng.random() < 0.8 else data[: rng.randrange(len(data))])
        try:
            io.read(path).to_tables()
        except InputError:
            refused += 1
    assert 500 < refused < 1000
