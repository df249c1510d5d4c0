"""`read_plan`: plans as requests, alone or in the output of kafka-reassign-partitions."""

from __future__ import annotations

import json
import tracemalloc

import pyarrow.json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_data import make
from kfast import io, read_broker_sets, read_plan
from kfast.errors import InputError
from kfast.io.kafka_tools import plan_json
from kfast.kernels.json_documents import document_end

pytestmark = pytest.mark.kernels

GENERATED = """\
Current partition replica assignment
{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

Proposed partition reassignment configuration
{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2],"log_dirs":["any","any"]}]}
"""

TWICE = (
    '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},'
    '{"topic":"a","partition":0,"replicas":[2]}]}'
)


def test_the_plan_of_the_tool_s_output(tmp_path):
    """Of --generate the proposed plan; a plan of bench_data is what its maker makes."""
    path = tmp_path / "generated.txt"
    path.write_text(GENERATED)
    asked = [{"topic": "a", "partition": 0, "replicas": [3, 2]}]
    assert read_plan(path).to_pylist() == asked
    folder = make.HERE
    text = (folder / "plan.json").read_text()
    assert text == make.plan((folder / "describe.txt").read_text())
    assert read_plan(folder / "plan.json").to_pylist() == json.loads(text)["partitions"]


def spread(text, indent):
    """Documents of the tool's output over many lines: with each partition in one, or as `jq`."""
    lines = []
    for line in text.splitlines():
        if line.startswith("{") and indent is None:
            line = line.replace("[{", "[\n{").replace("},{", "},\n{").replace("]}]}", "]}\n]}")
        elif line.startswith("{"):
            line = json.dumps(json.loads(line), indent=indent)
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("indent", [None, 0, 2], ids=["a partition a line", "no indent", "jq"])
def test_a_plan_may_stand_on_many_lines(tmp_path, indent):
    """Other brackets at the beginning of a line do not end it, and open no other plan."""
    path = tmp_path / "generated.txt"
    one = '{"topic":"a","partition":0,"replicas":'
    text = GENERATED.replace(one, f'{one}[7,8]}},{{"topic":"a","partition":1,"replicas":')
    path.write_text(spread(text, indent))
    assert read_plan(path).to_pylist() == [
        {"topic": "a", "partition": 0, "replicas": [7, 8]},
        {"topic": "a", "partition": 1, "replicas": [3, 2]},
    ]
    tables = io.read_tables(path)
    assert tables.partitions["replicas"].to_pylist() == [[7, 8], [1, 2]]
    assert tables.notes[1:] == (f"{path} holds 2 plans; the first, in line 2, was read",)


@pytest.mark.parametrize("prose", ["12:30:45", "Cluster ID: kfastLiveKraftRunAAAAw", "a:1"])
def test_prose_before_a_plan_is_not_taken_for_another_tool_s_output(tmp_path, prose):
    path = tmp_path / "plan.txt"
    path.write_text(f"{prose}\n{GENERATED}")
    assert read_plan(path).num_rows == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\{}[]\n')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('a"\\]}')), inner),
)


@settings(max_examples=30)
@given(
    st.lists(JSON) | st.dictionaries(st.text(), JSON), st.sampled_from([None, 0, 2]),
    st.sampled_from(["", "prose\n", "  "]), st.sampled_from(["", "\n", "]}", '{"a":1}']),
)
def test_a_document_ends_where_python_s_decoder_ends_it(document, indent, before, behind):
    text = before + json.dumps(document, indent=indent)
    start = len(before.rstrip(" "))
    assert document_end((text + behind).encode(), start) == len(text)
    for cut in range(start, len(text)):
        assert document_end(text[:cut].encode(), start) == -1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GENERATED.replace("Proposed", "Another"), "holds 2 plans; right is a file with one"),
        (TWICE, "line 1: partition a-0 stands twice in the plan"),
        ('{"version":2,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}', "version 2"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "line 1"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[-1]}]}', "line 1"),
        ('{"partitions":[]}', "line 1"),
        ('{"partitions":[{"topic":null,"partition":0,"replicas":[1]}]}', "Expected `str`"),
        ('{"partitions":[{"topic":"a","partition":"0","replicas":[1]}]}', "Expected `int`"),
        (TWICE.replace(',"replicas":[2]', ""), "missing required field `replicas`"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1,null]}]}', "Expected `int`"),
        ('{"partitions":[{"topic":"a","topic":"b","partition":0,"replicas":[1]}]}', "twice"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":[]}]}', "0 log_dirs"),
        ('{"partitions":[null]}', "Expected `object`"),
        ('{"partitions":[{"topic":"a"', "damaged JSON"),
        ("Topic: a\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n", "is describe text"),
        ("", "is empty"),
        ("hello\n", "is not recognised"),
        ("\xff", "is not recognised"),
    ],
)
def test_texts_that_are_no_plan(tmp_path, text, said):
    """One line that names the file and what is right."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as raised:
        read_plan(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_a_plan_is_read_without_an_object_for_each_partition(tmp_path):
    """Python's own memory stays that of the text, and of what cuts the plan out of it."""
    rows = ",".join(f'{{"topic":"t-{n}","partition":0,"replicas":[1,2]}}' for n in range(20_000))
    path = tmp_path / "plan.json"
    path.write_text(f'{{"partitions":[{rows}]}}')
    read_plan(path)
    tracemalloc.start()
    plan = read_plan(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.num_rows == 20_000
    assert peak_bytes < 3.5 * path.stat().st_size


def test_a_plan_beyond_what_arrow_reads_is_refused_by_name(tmp_path, monkeypatch):
    """A document is one block, whose size is an int32: the limit is just what fits."""
    pyarrow.json.ReadOptions(block_size=plan_json.MOST_BYTES + 1)
    with pytest.raises(OverflowError):
        pyarrow.json.ReadOptions(block_size=plan_json.MOST_BYTES + 2)
    path = tmp_path / "plan.json"
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    path.write_text(text)
    monkeypatch.setattr(plan_json, "MOST_BYTES", len(text))
    assert read_plan(path).num_rows == 1
    monkeypatch.setattr(plan_json, "MOST_BYTES", len(text) - 1)
    with pytest.raises(InputError, match=f"a plan of {len(text)} bytes; right is at most"):
        read_plan(path)


# --- Cruise Control ------------------------------------------------------------------------------

PROPOSAL = {
    "summary": {"numReplicaMovements": 1}, "goalSummary": [],
    "proposals": [
        {"topicPartition": {"hash": 3, "partition": 7, "topic": "a-b"}, "oldLeader": 1,
         "oldReplicas": [1, 2], "newReplicas": [3, 2]},
        {"topicPartition": "a-b-0", "oldLeader": 1, "oldReplicas": [1], "newReplicas": [4]},
    ],
    "version": 1,
}


def test_proposals_of_cruise_control_are_a_plan(tmp_path):
    path = tmp_path / "proposals.json"
    path.write_text(json.dumps(PROPOSAL))
    assert read_plan(path).to_pylist() == [
        {"topic": "a-b", "partition": 7, "replicas": [3, 2]},
        {"topic": "a-b", "partition": 0, "replicas": [4]},
    ]


def test_a_topic_may_be_called_proposals(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"partitions":[{"topic":"proposals","partition":0,"replicas":[1]}]}')
    assert read_plan(path)["topic"].to_pylist() == ["proposals"]


def test_wrong_proposals_are_one_line(tmp_path):
    path = tmp_path / "proposals.json"
    one = PROPOSAL["proposals"][0]
    wrong = {
        "does not list what it moves": {k: v for k, v in PROPOSAL.items() if k != "proposals"},
        "proposals[0] is of 'a'; right is topic-partition": {
            "proposals": [{**one, "topicPartition": "a"}]},
        "Expected `int` >= 0": {"proposals": [{**one, "newReplicas": [-1]}]},
        "length >= 1": {"proposals": [{**one, "newReplicas": []}]},
        "missing required field `newReplicas`": {"proposals": [{"topicPartition": "a-0"}]},
        "stands twice in the plan": {"proposals": [one, one]},
    }
    for message, document in wrong.items():
        path.write_text(json.dumps(document))
        with pytest.raises(InputError) as caught:
            read_plan(path)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{path} line 1: ")
    path.write_text(json.dumps(PROPOSAL)[:-30])
    with pytest.raises(InputError, match=r"not what Cruise Control writes"):
        read_plan(path)


BROKER_SETS = (
    b'{"brokerSets":[{"brokerSetId":"Blue","brokerIds":[0,1]},'
    b'{"brokerSetId":7,"brokerIds":[2]}]}'
)


def test_broker_sets():
    assert read_broker_sets(("sets.json", BROKER_SETS)) == {"Blue": (0, 1), "7": (2,)}


@pytest.mark.parametrize(("old", "new", "message"), [
    (b"7", b'"Blue"', "broker set 'Blue' stands twice"),
    (b"[2]", b"[1]", "broker set '7' has 1 twice or from another set"),
    (b"[2]", b"[2,2]", "broker set '7' has 2, 2 twice or from another set"),
    (b"[2]", b"[-2]", "not what Cruise Control writes"),
    (b"}]}", b"", "not what Cruise Control writes"),
    (b"brokerSets", b"sets", "right are the broker sets of Cruise Control"),
    (b"Blue", b"\xe9", "line 1: byte 0xe9 at offset 31 is not UTF-8"),
])
def test_wrong_broker_sets_are_one_line(old, new, message):
    with pytest.raises(InputError) as caught:
        read_broker_sets(("sets.json", BROKER_SETS.replace(old, new)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
