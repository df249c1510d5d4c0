"""The command line within the process: answers, conditions, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast import generate, schema
from kfast.analysis.broker_failure import fail_brokers
from kfast.analysis.impact import CHANGE_METRICS
from kfast.cli.app import commands
from kfast.kernels.source_digest import compiler, sources_digest
from kfast.state.census import CENSUS_METRICS, take_census
from tests.support.cli_run import DESCRIBE, answer, run, verdict_of

pytestmark = pytest.mark.kernels

TITLE = "zk-3.9"

def test_fail_answers_what_the_library_says(cluster):
    """The document has the metrics of `fail_brokers`, and every part of the answer."""
    document = answer("fail", cluster, "--brokers", "1")
    found = fail_brokers(kfast.read(cluster), [1]).impact
    assert document["summary"] == found.summary
    assert document["before"] == found.before.counts
    assert document["requests"] == found.requests.to_pylist()
    assert document["brokers"] == found.brokers.to_pylist()
    assert document["topics"] == found.topics.to_pylist()
    assert document["controller"]["name"] == TITLE
    assert document["scenario"] == {"brokers": [1], "racks": [], "controlled": False}
    assert list(document) == [
        "schema_version", "controller", "kfast", "command", "verdict", "input", "assumptions",
        "notes", "provenance", "cluster",
        "scenario", "start", "steps", "before", "summary", "requests", "brokers", "top",
        "topics_listed_of", "topics", "remaining", "order_matters", "surprises_listed_of",
        "surprises", "explanations", "lists", "defaults", "fail_on",
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
    assert verdict_of(text).startswith(
        "Broker 1 fails: 1 partition goes offline; no other partition refuses acks=all; "
        "1 leader moves; broker 2 leads most, 2.\n"
    )
    assert document["verdict"] == verdict_of(text).split("\n\n")[0].splitlines()
    assert text.startswith(f"Controller: {TITLE}")
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


def test_racks_stand_for_their_brokers(cluster, racks):
    """Those that are up; the others are noted."""
    document = answer("fail", cluster, "--racks", "a", "--brokers-file", racks)
    assert document["scenario"] == {"brokers": [1, 3], "racks": ["a"], "controlled": False}
    document = answer("fail", cluster, "--racks", "b", "--brokers-file", racks)
    assert document["scenario"]["brokers"] == [2]
    assert document["notes"] == ["broker 4 of these racks is down already"]


def test_defaults_and_brokers_that_are_up(cluster):
    """`--default` and `--up` replace what is assumed."""
    document = answer("show", cluster, "--default", "min.insync.replicas=2", "--up", "4")
    assert document["cluster"]["registered"] == 4
    assert not any("min.insync" in line or "down" in line for line in document["assumptions"])
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


@pytest.mark.parametrize(("condition", "code"), [
    ("offline>0", 4), ("offline > 1", 0), ("offline>=1", 4), ("offline==1", 4), ("offline!=1", 0),
    ("offline<1", 0), ("leaders_moved<=1", 4), ("requests<0", 0), ("back_online>-1", 4),
    ("offline>0.5", 4), ("offline>1.5", 0),
])
def test_fail_on(cluster, condition, code):
    """The answer is given whatever holds; code 4 says that it does."""
    found = run("fail", cluster, "--brokers", "1", "--fail-on", condition, code=code)
    assert TITLE in found.stdout
    assert ("holds" in found.stderr) == (code == 4)
    document = answer("fail", cluster, "--brokers", "1", "--fail-on", condition, code=code)
    assert document["fail_on"][0]["holds"] == (code == 4)
    assert document["fail_on"][0]["condition"] == condition.replace(" ", "")


def test_fail_on_knows_its_metrics(cluster):
    """Every metric of the summary can be asked for."""
    for metric in (*CENSUS_METRICS, *CHANGE_METRICS):
        run("fail", cluster, "--brokers", "1", "--fail-on", f"{metric}<0")


@pytest.mark.parametrize(("data", "words"), [
    (b"", "is empty"), (b"hello\n", "kfast"), (b"Topic: \xff\tPartitionCount: 1\n", "UTF-8"),
    (DESCRIBE.replace("Partition: 1\tLeader: 2", "Partition: 0\tLeader: 2").encode(), "line 3"),
    (DESCRIBE.replace("1,2,3\tIsr", "1,2,1\tIsr").encode(), "line 2"), (None, "No such file"),
])
@pytest.mark.parametrize("command", ["show", "fail", "save"])
def test_input_errors(tmp_path, command, data, words):
    """Code 3, one line that names the file, and nothing is written."""
    path, output = tmp_path / "in.txt", tmp_path / "out.json"
    if data is not None:
        path.write_bytes(data)
    args = {"show": (), "fail": ("--brokers", "1"), "save": ()}
    found = run(command, path, *args[command], "-o", output, code=3)
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1
    assert str(path) in found.stderr
    assert words in found.stderr
    assert not output.exists()


def test_generate_makes_the_cluster_of_the_library(tmp_path):
    """Through every format that keeps it."""
    sizes = {"brokers": 6, "partitions": 40, "racks": 3, "seed": 5, "replication_factor": 2}
    args = [part for name, value in sizes.items()
            for part in (f"--{name.replace('_', '-')}", str(value))]
    for name in ("c.arrow", "c.parquet"):
        found = run("generate", *args, "-o", tmp_path / name)
        assert "6 brokers, 40 partitions" in found.stderr
        assert kfast.read(tmp_path / name) == generate(**sizes)


def test_save_keeps_what_the_formats_keep(cluster, tmp_path):
    """Describe text to Arrow, and back to the same text but for what kfast does not keep."""
    run("save", cluster, "-o", tmp_path / "c.arrow")
    assert kfast.read(tmp_path / "c.arrow") == kfast.read(cluster)
    run("save", tmp_path / "c.arrow", "-o", tmp_path / "c.txt")
    lines = [line.rstrip() for line in (tmp_path / "c.txt").read_text().splitlines()]
    assert lines == [line.rstrip() for line in DESCRIBE.split("\n") if line]
    plan = json.loads(run("save", cluster, "-o", "-", "--format", "reassignment").stdout)
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
    first, libraries, kernels, _, place = run("--version").stdout.splitlines()
    assert first == f"kfast {kfast.__version__}"
    assert f"numpy {np.__version__}, pyarrow {pa.__version__}" in libraries
    assert kernels == f"kernels compiled from sources {sources_digest()} by {compiler()}"
    assert re.search(r" by (gcc|clang) \d+.*, (OpenMP \d{6}|without OpenMP)", kernels)
    kind, folder = place.split(" in ", 1)
    assert kind in ("checkout", "installed")
    assert Path(folder) == Path(kfast.__file__).parent
    for command in commands.places:
        assert f"kfast {command}" in run(command, "--help").stdout.split("Examples:")[1]


def test_the_list_of_commands_says_what_their_help_begins_with():
    """The list is made without loading them."""
    context = click.Context(commands)
    for name, (module, _, text) in commands.places.items():
        command = commands.get_command(context, name)
        assert command.get_short_help_str(1000) == text
        assert command.callback.__module__ == f"kfast.cli.{module}"
        assert f"\n  {name} " in run("--help").stdout
