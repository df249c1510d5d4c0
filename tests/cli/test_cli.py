"""The command line within the process: answers, conditions, and what is refused."""

from __future__ import annotations

import json

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kfast
from kfast import generate, schema
from kfast.analysis.broker_failure import fail_brokers
from kfast.analysis.impact import CHANGE_METRICS
from kfast.cli.app import commands
from kfast.state.census import CENSUS_METRICS, take_census

pytestmark = pytest.mark.kernels

TITLE = "Kafka 3.9, ZooKeeper mode"
DESCRIBE = """\
Topic: orders\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1
Topic: logs\tPartitionCount: 2\tReplicationFactor: 1\tConfigs:
\tTopic: logs\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
\tTopic: logs\tPartition: 1\tLeader: 3\tReplicas: 3,4\tIsr: 3
"""
RACKS = "broker_id,rack\n1,a\n2,b\n3,a\n4,b\n"


@pytest.fixture
def cluster(tmp_path):
    """Name of a describe text; broker 4 looks down in it."""
    path = tmp_path / "describe.txt"
    path.write_text(DESCRIBE)
    return str(path)


@pytest.fixture
def racks(tmp_path):
    """Name of a brokers file."""
    path = tmp_path / "brokers.csv"
    path.write_text(RACKS)
    return str(path)


def run(*args, code=0, **options):
    """Run a command; check its exit code; give what it printed on each stream."""
    found = CliRunner().invoke(commands, [str(arg) for arg in args], **options)
    assert found.exit_code == code, (found.stdout, found.stderr, found.exception)
    return found


def answer(*args, code=0):
    """What a command answers as JSON."""
    return json.loads(run(*args, "--format", "json", code=code).stdout)


def test_fail_answers_what_the_library_says(cluster):
    """The document has the metrics of `fail_brokers`, and every part of the answer."""
    document = answer("fail", cluster, "--brokers", "1")
    found = fail_brokers(kfast.read(cluster), [1]).impact
    assert document["summary"] == found.summary
    assert document["before"] == found.before.counts
    assert document["requests"] == found.requests.to_pylist()
    assert document["brokers"] == found.brokers.to_pylist()
    assert document["topics"] == found.topics.to_pylist()
    assert document["controller"] == TITLE
    assert document["scenario"] == {"brokers": [1], "racks": [], "controlled": False}
    assert list(document) == [
        "kfast",
        "command",
        "verdict",
        "controller",
        "input",
        "assumptions",
        "notes",
        "cluster",
        "scenario",
        "start",
        "steps",
        "before",
        "summary",
        "requests",
        "brokers",
        "top",
        "topics_listed_of",
        "topics",
        "remaining",
        "explanations",
        "lists",
        "fail_on",
    ]
    step = document["steps"][0]
    assert (step["kind"], step["broker_ids"]) == ("fail", [1])
    shared = set(step) & set(document)
    assert {name: step[name] for name in shared} == {name: document[name] for name in shared}
    assert document["cluster"]["replication_factors"] == {"1": 1, "2": 1, "3": 2}


def test_fail_prints_what_an_operator_asks(cluster):
    """Every number of the summary is in the text, and the assumptions, and the controller."""
    text = run("fail", cluster, "--brokers", "1").stdout
    document = answer("fail", cluster, "--brokers", "1")
    assert text.startswith(
        "Broker 1 fails: 1 partition goes offline; no other partition refuses acks=all; "
        "1 leader moves; broker 2 leads most, 2.\n"
    )
    assert document["verdict"] == text.split("\n\n")[0].splitlines()
    assert TITLE in text
    for line in document["assumptions"]:
        assert f"Assumed: {line}\n" in text
    assert any("4" in line and "down" in line for line in document["assumptions"])
    assert any("min.insync.replicas" in line for line in document["assumptions"])
    for metric in CENSUS_METRICS:
        before, after = document["before"][metric], document["summary"][metric]
        line = next(line.split() for line in text.splitlines() if line.startswith(f"{metric} "))
        assert line[1:] == [str(before), str(after), f"{after - before:+d}".replace("+0", "0")]
    assert "the controller's start, which changes no leader and no ISR" in text


def test_the_table_of_requests_is_a_detail(cluster):
    """Without `--verbose` one line says how many there are."""
    requests = answer("fail", cluster, "--brokers", "1")["requests"]
    text = run("fail", cluster, "--brokers", "1").stdout
    line = ", ".join(f"{row['requests']} {row['kind']}" for row in requests)
    assert text.endswith(f"Requests that the controller then sends: {line}.\n")
    full = run("fail", cluster, "--brokers", "1", "--verbose").stdout
    assert full.startswith(text)
    for row in requests:
        assert [row["kind"], str(row["requests"]), str(row["partitions"])] in [
            words.split() for words in full[len(text):].splitlines()
        ]


def test_what_the_start_changes_is_a_line_of_its_own(tmp_path):
    """Broker 4 leads by the text, but is down by the brokers file: the start elects another."""
    path = tmp_path / "describe.txt"
    path.write_text(
        DESCRIBE.replace("Leader: 3\tReplicas: 3,4\tIsr: 3", "Leader: 4\tReplicas: 4,3\tIsr: 4,3")
    )
    listed = tmp_path / "brokers.csv"
    listed.write_text("broker_id,rack,registered\n1,a,true\n2,b,true\n3,a,true\n4,b,false\n")
    args = ("fail", path, "--brokers", "2", "--brokers-file", listed)
    start = answer(*args)["start"]
    assert start["before"]["offline"] == 1
    assert start["summary"]["offline"] == 0
    assert start["summary"]["back_online"] == start["summary"]["isr_shrunk"] == 1
    assert answer(*args)["before"]["offline"] == 0
    assert "shrinks 1 ISR, brings 1 partition back" in run(*args).stdout


def test_racks_need_racks(cluster, racks):
    """Without racks in the input it is a usage error that says how to supply them."""
    said = run("fail", cluster, "--racks", "a", code=2).stderr
    assert "has no racks" in said
    assert "--brokers-file CSV" in said
    document = answer("fail", cluster, "--racks", "a", "--brokers-file", racks)
    assert document["scenario"] == {"brokers": [1, 3], "racks": ["a"], "controlled": False}
    document = answer("fail", cluster, "--racks", "b", "--brokers-file", racks)
    assert document["scenario"]["brokers"] == [2]
    assert document["notes"] == ["broker 4 of these racks is down already"]
    said = run("fail", cluster, "--racks", "z", "--brokers-file", racks, code=2).stderr
    assert "rack z is unknown; the cluster has racks a, b" in said


def test_defaults_and_brokers_that_are_up(cluster):
    """`--default` and `--up` replace what is assumed."""
    document = answer("show", cluster, "--default", "min.insync.replicas=2", "--up", "4")
    assert document["cluster"]["registered"] == 4
    assert not any("min.insync" in line or "down" in line for line in document["assumptions"])
    said = run("fail", cluster, "--brokers", "4", code=2).stderr
    assert "broker 4 is down already" in said
    assert "--up 4" in said
    answer("fail", cluster, "--brokers", "4", "--up", "4")


@pytest.mark.parametrize("controlled", [False, True])
def test_fail_explains(cluster, controlled):
    """`--explain` tells event by event, as text and as JSON."""
    args = ["fail", cluster, "--brokers", "1", "--explain", "orders-0", "--explain", "logs-0"]
    args += ["--controlled"] if controlled else []
    stories = answer(*args)["explanations"]
    assert [(s["topic"], s["partition"]) for s in stories] == [("orders", 0), ("logs", 0)]
    text = run(*args).stdout
    for story in stories:
        for section in story["sections"]:
            assert section["heading"] in text
            assert all(line.strip() in text for line in section["lines"])
    headings = [section["heading"] for section in stories[0]["sections"]]
    assert headings[1] == "The controller starts (on_controller_failover)"
    assert ("controlled_shutdown" in " ".join(headings)) == controlled
    assert "leader is 2: the first replica that is live and in the ISR" in text


def test_parquet_is_a_row_per_partition(cluster, tmp_path):
    """With the document in its metadata."""
    path = tmp_path / "impact.parquet"
    found = run("fail", cluster, "--brokers", "1", "-o", path)
    assert found.stdout == run("fail", cluster, "--brokers", "1").stdout
    assert found.stderr == f"Wrote {path}.\n"
    table = pq.read_table(path)
    assert table.num_rows == 4
    assert table.equals(fail_brokers(kfast.read(cluster), [1]).impact.partitions)
    assert json.loads(table.schema.metadata[b"kfast.answer"])["command"] == "fail"
    run("fail", cluster, "--brokers", "1", "-o", path, "--explain", "logs-0", code=2)
    run("show", cluster, "-o", path)
    assert pq.read_table(path).equals(take_census(kfast.read(cluster)).partitions)


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("offline>0", 4),
        ("offline > 1", 0),
        ("offline>=1", 4),
        ("offline==1", 4),
        ("offline!=1", 0),
        ("offline<1", 0),
        ("leaders_moved<=1", 4),
        ("requests<0", 0),
        ("back_online>-1", 4),
        ("offline>0.5", 4),
        ("offline>1.5", 0),
    ],
)
def test_fail_on(cluster, condition, code):
    """The answer is given whatever holds; code 4 says that it does."""
    found = run("fail", cluster, "--brokers", "1", "--fail-on", condition, code=code)
    assert TITLE in found.stdout
    assert ("holds" in found.stderr) == (code == 4)
    document = answer("fail", cluster, "--brokers", "1", "--fail-on", condition, code=code)
    assert document["fail_on"][0]["holds"] == (code == 4)
    assert document["fail_on"][0]["condition"] == condition.replace(" ", "")


def test_fail_on_knows_its_metrics(cluster):
    """Every metric of the summary can be asked for, and no other."""
    for metric in (*CENSUS_METRICS, *CHANGE_METRICS):
        run("fail", cluster, "--brokers", "1", "--fail-on", f"{metric}<0")
    for wrong in ("offlin>0", "offline=>0", "offline", "offline>x", "offline>0.", ">0"):
        said = run("fail", cluster, "--brokers", "1", "--fail-on", wrong, code=2).stderr
        assert "--fail-on" in said
    assert (
        "these are: offline, under_min_isr"
        in run("fail", cluster, "--brokers", "1", "--fail-on", "offlin>0", code=2).stderr
    )
    assert (
        "these are: > >= < <= == !="
        in run("show", cluster, "--fail-on", "offline=>0", code=2).stderr
    )
    run("show", cluster, "--fail-on", "leaders_moved>0", code=2)


@pytest.mark.parametrize(
    "args",
    [
        ("fail",),
        ("fail", "{}"),
        ("fail", "{}", "--brokers", "x"),
        ("fail", "{}", "--brokers", ""),
        ("fail", "{}", "--brokers", "1,,2"),
        ("fail", "{}", "--brokers", "-1"),
        ("fail", "{}", "--brokers", "1", "--default", "min.insync.replicas"),
        ("fail", "{}", "--brokers", "1", "--default", "min.insync.replicas=0"),
        ("fail", "{}", "--brokers", "1", "--default", "log.dirs=1"),
        ("fail", "{}", "--brokers", "1", "--explain", "orders"),
        ("fail", "{}", "--brokers", "1", "--explain", "orders-9"),
        ("fail", "{}", "--brokers", "1", "--up", "77"),
        ("fail", "{}", "--racks", "a,"),
        ("fail", "{}", "--brokers", "1", "-o", "no/such/folder/x.json"),
        ("nope",),
        ("fail", "{}", "--brokers", "1", "--threads", "0"),
        ("convert", "{}", "x.docx"),
        (
            "generate",
            "--brokers",
            "2",
            "--partitions",
            "3",
            "--format",
            "arrow",
            "-o",
            "-",
            "--replication-factor",
            "3",
        ),
    ],
)
def test_usage_errors(cluster, args):
    """Code 2, nothing on standard output, and a line that says what is wrong."""
    found = run(*(arg.format(cluster) for arg in args), code=2)
    assert found.stdout == ""
    assert "Error: " in found.stderr


def test_an_unknown_broker_is_named_with_those_that_exist(cluster):
    """Code 2."""
    said = run("fail", cluster, "--brokers", "1,9", code=2).stderr
    assert "broker 9 is unknown; the cluster has brokers 1, 2, 3, 4" in said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"hello\n", "kfast"),
        (b"Topic: \xff\tPartitionCount: 1\n", "UTF-8"),
        (DESCRIBE.replace("Partition: 1\tLeader: 2", "Partition: 0\tLeader: 2").encode(), "line 3"),
        (DESCRIBE.replace("1,2,3\tIsr", "1,2,1\tIsr").encode(), "line 2"),
        (None, "No such file"),
    ],
)
@pytest.mark.parametrize("command", ["show", "fail", "convert"])
def test_input_errors(tmp_path, command, data, said):
    """Code 3, one line that names the file, and nothing is written."""
    path, output = tmp_path / "in.txt", tmp_path / "out.json"
    if data is not None:
        path.write_bytes(data)
    args = {"show": ["-o", output], "fail": ["--brokers", "1", "-o", output], "convert": [output]}
    found = run(command, path, *args[command], code=3)
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1
    assert str(path) in found.stderr
    assert said in found.stderr
    assert not output.exists()


def test_generate_makes_the_cluster_of_the_library(tmp_path):
    """Through every format that keeps it."""
    sizes = {"brokers": 6, "partitions": 40, "racks": 3, "seed": 5, "replication_factor": 2}
    args = [
        part
        for name, value in sizes.items()
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    for name in ("c.arrow", "c.parquet"):
        found = run("generate", *args, "-o", tmp_path / name)
        assert "6 brokers, 40 partitions" in found.stderr
        assert kfast.read(tmp_path / name) == generate(**sizes)


def test_convert_keeps_what_the_formats_keep(cluster, tmp_path):
    """Describe text to Arrow, and back to the same text but for what kfast does not keep."""
    run("convert", cluster, tmp_path / "c.arrow")
    assert kfast.read(tmp_path / "c.arrow") == kfast.read(cluster)
    run("convert", tmp_path / "c.arrow", tmp_path / "c.txt")
    lines = [line.rstrip() for line in (tmp_path / "c.txt").read_text().splitlines()]
    assert lines == [line.rstrip() for line in DESCRIBE.split("\n") if line]
    plan = json.loads(run("convert", cluster, "-", "--format", "reassignment").stdout)
    assert plan["partitions"][0] == {"topic": "logs", "partition": 0, "replicas": [1]}


def test_schema_lists_every_column():
    """`kfast schema` is made from `schema.py`."""
    listed = json.loads(run("schema", "--format", "json").stdout)["columns"]
    expected = [
        (table, column.name)
        for table, columns in (
            ("cluster", schema.CLUSTER),
            ("brokers", schema.BROKERS),
            ("topics", schema.TOPICS),
            ("partitions", (*schema.PARTITIONS, *schema.FLAG_COLUMNS)),
            ("replicas", schema.REPLICAS),
        )
        for column in columns
    ]
    assert [(row["table"], row["column"]) for row in listed] == expected
    text = run("schema").stdout
    assert all(row["meaning"] in text for row in listed)


def test_help_and_version():
    """Every command has help with an example."""
    assert run("--version").stdout == f"kfast {kfast.__version__}\n"
    for command in commands.places:
        assert f"kfast {command}" in run(command, "--help").stdout.split("Examples:")[1]


def test_the_list_of_commands_says_what_their_help_begins_with():
    """The list is made without loading them."""
    context = click.Context(commands)
    for name, (module, _, said) in commands.places.items():
        command = commands.get_command(context, name)
        assert command.get_short_help_str(1000) == said
        assert command.callback.__module__ == module
        assert f"\n  {name} " in run("--help").stdout
