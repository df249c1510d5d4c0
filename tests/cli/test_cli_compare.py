"""`kfast compare`: several answers side by side, of a failure or of a sweep."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

import kfast
from tests.support.cli_run import ESCAPE, ROOT, answer, run, run_on_terminal, verdict_of

pytestmark = pytest.mark.kernels

UNCLEAN = "unclean.leader.election.enable"
BENCH = ROOT / "bench_data" / "describe.txt"


@pytest.fixture
def lagging(tmp_path):
    """Name of a describe text: only broker 1 is in sync with one of the partitions."""
    path = tmp_path / "lagging.txt"
    path.write_text(
        "Topic: orders\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2\n"
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1\n"
        "\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1\n")
    return str(path)


def test_each_answer_is_that_of_a_cluster_with_these_settings(lagging):
    """The first is for the cluster as it is."""
    document = answer("compare", lagging, "--brokers", "1", "--with", f"{UNCLEAN}=true",
                      "--with", "min.insync.replicas=1,controller=zk-2.4")
    as_it_is, unclean, older = document["answers"]
    assert as_it_is["summary"] == answer("fail", lagging, "--brokers", "1")["summary"]
    assert unclean["summary"] == answer(
        "fail", lagging, "--brokers", "1", "--set", f".*:{UNCLEAN}=true")["summary"]
    assert older["summary"] == answer(
        "fail", lagging, "--brokers", "1", "--set", ".*:min.insync.replicas=1",
        "--controller", "zk-2.4")["summary"]
    assert [one["answer"] for one in document["answers"]] == [
        "as it is", f"{UNCLEAN}=true", "min.insync.replicas=1, controller=zk-2.4"]
    assert older["controller"] == {"name": "zk-2.4", "elr": None, "why": "told"}


def test_partitions_that_end_differently_are_listed(lagging):
    """With what each answer says of them; the others are left out."""
    asked = ("compare", lagging, "--brokers", "1", "--with", f"{UNCLEAN}=true")
    document = answer(*asked)
    assert document["differing"] == 1
    [row] = document["differences"]
    assert (row["topic"], row["partition"]) == ("orders", 0)
    ends = row["answers"]
    assert (ends["as it is"]["offline"], ends[f"{UNCLEAN}=true"]["leader"]) == (True, 2)
    text = run(*asked).stdout
    assert verdict_of(text).splitlines()[:3] == [
        "Broker 1 fails, answered 2 ways: 1 partition ends differently.",
        ("As it is: 1 partition goes offline; no other partition refuses acks=all; no leader "
         "moves; broker 2 leads most, 1."),
        (f"With {UNCLEAN}=true: no partition goes offline; no further partition refuses acks=all, "
         "1 still does; 1 leader moves; broker 2 leads most, 2."),
    ]
    assert "offline, ISR 1  leader 2, ISR 2, under min ISR" in text


def test_steps_are_part_of_the_question(lagging):
    """Each answer is about all of them."""
    document = answer("compare", lagging, "--brokers", "1", "--then", "2", "--then-start", "1",
                      "--with", f"{UNCLEAN}=true")
    assert document["scenario"]["steps"] == [["fail", [1]], ["fail", [2]], ["start", [1]]]
    assert document["verdict"][0].startswith(
        "Broker 1 fails, then broker 2 fails, then broker 1 starts, answered 2 ways")


def test_a_sweep_is_compared_scenario_by_scenario(lagging):
    """The largest counts side by side, and the scenarios that differ."""
    document = answer("compare", lagging, "--every", "1", "--with", f"{UNCLEAN}=true")
    swept = [answer("sweep", lagging, "--every", "1", *more)
             for more in ((), ("--set", f".*:{UNCLEAN}=true"))]
    assert [one["summary"] for one in document["answers"]] == [one["summary"] for one in swept]
    assert document["scenarios"] == {"what": "Every broker", "of": 4}
    [row] = document["differences"]
    assert (row["brokers"], row["answers"]["as it is"]["offline"]) == ([1], 1)
    assert row["answers"][f"{UNCLEAN}=true"]["offline"] == 0


def test_tables_have_a_row_per_answer_and_per_difference(lagging, tmp_path):
    path = tmp_path / "answers.parquet"
    asked = ("compare", lagging, "--brokers", "1", "--with", f"{UNCLEAN}=true", "-o", path)
    run(*asked)
    rows = pq.read_table(path)
    assert rows["answer"].to_pylist() == ["as it is", f"{UNCLEAN}=true"]
    assert rows["newly_offline"].to_pylist() == [1, 0]
    assert json.loads(rows.schema.metadata[b"kfast.answer"])["command"] == "compare"
    run(*asked, "--table", "differences")
    assert pq.read_table(path)["leader"].to_pylist() == [-1, 2]


def test_a_condition_is_tested_for_each_answer(lagging):
    """The message says of which answer it holds."""
    found = run("compare", lagging, "--brokers", "1", "--with", f"{UNCLEAN}=true",
                "--fail-on", "unclean>0", code=4)
    assert found.stderr == f"--fail-on unclean>0 holds, {UNCLEAN}=true: unclean is 1\n"
    refused = run("compare", lagging, "--every", "1", "--with", "min.insync.replicas=1",
                  "--fail-on", "newly_offline>0", code=2)
    assert "a sweep has the metrics offline, " in refused.stderr


@pytest.mark.parametrize(("arguments", "words"), [
    (("--brokers", "1"), "Missing option '--with'"),
    (("--brokers", "1", "--with", "elr"), "is not NAME=VALUE, such as elr=off"),
    (("--brokers", "1", "--with", "elr="), "is not NAME=VALUE"),
    (("--brokers", "1", "--with", "elr=off,elr=on"), "is not NAME=VALUE"),
    (("--brokers", "1", "--with", "elr=maybe"), "elr is 'maybe'; right is on or off"),
    (("--brokers", "1", "--with", "acks=all"), "setting 'acks' is unknown; these can be compared:"),
    (("--brokers", "1", "--with", "controller=kraft-9.9"), "kraft-9.9"),
    (("--brokers", "1", "--with", "min.insync.replicas=0"), "min.insync.replicas"),
    (("--brokers", "1", "--with", "order=x"), "'x' is not a broker id"),
    (("--with", "min.insync.replicas=1"), "give the brokers that fail"),
    (("--brokers", "1", "--every", "2", "--with", "elr=off"), "give the brokers that fail"),
    (("--every", "1", "--then", "2", "--with", "min.insync.replicas=1"), "go with --brokers"),
])
def test_what_cannot_be_compared_is_refused_in_one_line(lagging, arguments, words):
    """And nothing is printed."""
    found = run("compare", lagging, *arguments, code=2)
    assert words in found.stderr
    assert found.stdout == ""


@pytest.mark.parametrize("columns", [50, 80])
def test_it_fits_a_terminal(columns):
    """No line is wider; columns for which there is no room are named."""
    text, code = run_on_terminal(
        "compare", BENCH, "--brokers", "104,107", "--with", "min.insync.replicas=1",
        "--with", f"{UNCLEAN}=true", columns=columns)
    assert code == 0
    lines = ESCAPE.sub("", text[text.index("Controller: "):]).splitlines()
    assert max(map(len, lines)) <= columns
    assert sum(f"{UNCLEAN}=true" in line for line in lines) >= 3


def test_the_library_answers_the_same():
    """`kfast.compare` gives tables; the state stays as it is."""
    state = kfast.read(BENCH)
    before = state.digest()
    found = kfast.compare(state, [104, 107], settings=[{"min.insync.replicas": 1}])
    assert state.digest() == before
    assert found.table["under_min_isr"].to_pylist() == [
        one["summary"]["under_min_isr"] for one in answer(
            "compare", BENCH, "--brokers", "104,107", "--with", "min.insync.replicas=1")["answers"]]
    differing = found.differences
    assert differing.num_rows == 2 * found.differing_rows.sum() > 0
    assert differing["answer"].to_pylist()[:2] == ["as it is", "min.insync.replicas=1"]
    with pytest.raises(kfast.ArgumentError, match="give broker_ids or scenarios"):
        kfast.compare(state, settings=[{"elr": True}])
    with pytest.raises(kfast.ArgumentError, match="is not a mapping such as"):
        kfast.compare(state, [104], settings=["elr"])
