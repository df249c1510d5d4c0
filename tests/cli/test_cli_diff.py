"""`kfast diff`: two exports of one cluster."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from kfast.report.cluster_diff import DIFF_TABLES
from kfast.schema import DIFF_METRICS
from tests.support.cli_run import ESCAPE, ROOT, answer, run, run_on_terminal, verdict_of

pytestmark = pytest.mark.kernels

OLD, NEW = (str(ROOT / "bench_data" / name) for name in ("describe.txt", "describe_later.txt.gz"))
RACKS = ("--brokers-file", str(ROOT / "bench_data" / "brokers.csv"))


def describe(tmp_path, name, *topics):
    """A describe text of some topics, each (name, id, partitions as (leader, replicas, isr))."""
    lines = []
    for topic, topic_id, partitions in topics:
        lines.append(f"Topic: {topic}\tTopicId: {topic_id}\tPartitionCount: {len(partitions)}"
                     f"\tReplicationFactor: {len(partitions[0][1].split(','))}"
                     "\tConfigs: min.insync.replicas=2")
        lines += [
            f"\tTopic: {topic}\tPartition: {number}\tLeader: {leader}\tReplicas: {replicas}"
            f"\tIsr: {isr}" for number, (leader, replicas, isr) in enumerate(partitions)
        ]
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_real_exports_of_a_cluster_whose_broker_stops(shared_data):
    """Kafka 4.x: broker 3 stops, and comes back."""
    created, stopped, back = sorted(map(str, (shared_data / "exports").glob("describe_4x_elr_*")))
    document = answer("diff", created, stopped)
    summary = {name: n for name, n in document["summary"].items() if n and name in DIFF_METRICS}
    assert summary == {
        "brokers_down": 1, "partitions_changed": 6, "leader_changed": 2, "leaders_moved": 2,
        "isr_shrunk": 6, "newly_fragile": 6, "worse": 3,
    }
    assert document["verdict"][0] == "WORSE: 1 broker went down; 2 leaders moved; 6 ISRs shrank."
    assert document["verdict"][-1] == (
        "6 partitions are newly fragile: broker 1 alone takes 6 under min ISR.")
    document = answer("diff", stopped, back)
    assert document["verdict"][0] == "BETTER: 1 broker came up; 6 ISRs grew."
    assert (document["summary"]["no_longer_fragile"], document["worse"]) == (6, [])


def test_two_moments_of_one_metadata_log(shared_data):
    """Kafka 4.1 before broker 1 is killed, and afterwards: event 4 of the capture."""
    log = shared_data / "kraft_live" / "metadata" / "__cluster_metadata-0"
    document = answer("diff", log, log, "--at-old", 1375, "--at-new", 1707)
    assert document["verdict"][0] == (
        "WORSE: 1 broker went down; 97 leaders moved; 328 ISRs shrank; 36 ELRs grew; 100 leader "
        "epochs differ.")
    [broker] = document["brokers"]
    assert (broker["broker_id"], broker["status_before"], broker["status"]) == (1, "up", "fenced")
    summary = document["summary"]
    after = answer("show", log, "--at", 1707)["summary"]
    assert {name: summary[name] for name in after} == after
    assert summary["newly_offline"] == after["offline"] == 3


def test_each_measure_is_what_its_own_command_says():
    """`show` and `sweep` of both exports."""
    document = answer("diff", OLD, NEW, *RACKS)
    measures = {row["measure"]: row for row in document["measures"]}
    for source, column in ((OLD, "partitions_before"), (NEW, "partitions")):
        shown = answer("show", source, *RACKS)["summary"]
        for name in ("offline", "under_min_isr", "at_min_isr", "under_replicated"):
            assert measures[name][column] == shown[name]
        for kind, option in (("broker", ("--every", "1")), ("rack", ("--each-rack",))):
            swept = answer("sweep", source, *RACKS, *option)
            for name in ("offline", "under_min_isr"):
                assert measures[f"worst_{kind}_{name}"][column] == swept["summary"][name]
            suffix = column.removeprefix("partitions")
            [worst] = [row for row in document["worst"] if row["kind"] == kind]
            assert worst[f"brokers{suffix}"] == swept["worst"][0]["brokers"]
    assert document["old"]["input"] == OLD
    assert document["summary"]["worse"] == len(document["worse"]) > 0


def test_equal_exports_have_no_difference():
    """The verdict says so; nothing else is drawn, and no condition holds."""
    text = run("diff", OLD, OLD, "--fail-on", "worse>0", "--fail-on", "newly_fragile>0").stdout
    verdict, rest = verdict_of(text).split("\n\n", 1)
    assert verdict == "NO DIFFERENCE: brokers, topics, partitions and settings are the same."
    assert rest.startswith("Cluster: ")
    assert rest.count("─") == 0


def test_topics_and_placement_by_name(tmp_path):
    """Created, deleted, grown and recreated topics; replicas in another order."""
    old = describe(
        tmp_path, "old.txt", ("a", "A" * 22, [("1", "1,2,3", "1,2,3")]),
        ("b", "B" * 22, [("1", "1,2,3", "1,2,3"), ("2", "2,3,1", "2,3,1")]),
        ("gone", "C" * 22, [("1", "1,2,3", "1,2,3")]))
    new = describe(
        tmp_path, "new.txt", ("b", "D" * 22, [("1", "1,2,3", "1,2,3"), ("2", "2,1,3", "2,1,3")]),
        ("a", "A" * 22, [("1", "1,2,4", "1,2,4"), ("none", "4", "4")]),
        ("new", "E" * 22, [("1", "1", "1")]))
    document = answer("diff", old, new)
    assert {row["topic"]: row["change"] for row in document["topics"]} == {
        "a": "changed", "b": "recreated", "gone": "deleted", "new": "created"}
    text = run("diff", old, new).stdout
    assert "PARTLY WORSE" not in text
    for line in (
        "a      partitions 1 -> 2; replication factor 3 -> 1",
        "b      recreated",
        "gone   deleted: partitions 1, replication factor 3, min.insync.replicas 2",
        "b-1        replicas 2, 3, 1 -> 2, 1, 3; ISR 2, 3, 1 -> 2, 1, 3",
        "a-0        replicas 1, 2, 3 -> 1, 2, 4; ISR 1, 2, 3 -> 1, 2, 4",
        "new-0      1",
    ):
        assert line in text, text


@pytest.mark.parametrize("columns", [50, 80])
def test_no_line_is_wider_than_the_terminal(columns):
    """Tables fold, and nothing is cut."""
    shown, code = run_on_terminal("diff", OLD, NEW, *RACKS, "--top", "3", columns=columns)
    text = ESCAPE.sub("", shown).replace("\r", "")
    assert code == 0
    assert "WORSE: 1 broker went down" in text
    assert max(map(len, text.split("Controller", 1)[1].splitlines())) <= columns
    for title in ("Worst failures", "Newly fragile partitions (3 of", "Brokers", "Topics",
                  "Partitions (3 of"):
        assert f"\n{title}" in text


def test_every_form(tmp_path):
    """JSON, CSV, Parquet; a condition ends with 4."""
    run("diff", OLD, NEW, *RACKS, "-o", tmp_path / "diff.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"diff-{name}.csv" for name in DIFF_TABLES)
    run("diff", OLD, NEW, "-o", tmp_path / "fragile.parquet", "--table", "newly_fragile")
    rows = pq.read_table(tmp_path / "fragile.parquet")
    document = answer("diff", OLD, NEW, "--top", "2", "--fail-on", "newly_fragile>0", code=4)
    assert rows.num_rows == document["newly_fragile_listed_of"]
    assert rows.slice(0, 2).to_pylist() == document["newly_fragile"]
    assert document["fail_on"] == [
        {"condition": "newly_fragile>0", "value": rows.num_rows, "holds": True}]
    assert json.loads(json.dumps(document)) == document


def test_what_cannot_be_compared_is_refused(tmp_path):
    """One line, and what is right."""
    other = describe(tmp_path, "other.txt", ("x", "A" * 22, [("1", "1,2", "1,2")]))
    assert "two clusters" in run("diff", OLD, other, code=2).stderr
    zk = tmp_path / "zk.arrow"
    run("save", OLD, "-o", zk, "--controller", "zk-3.9")
    assert "run by zk-3.9 and new by kraft" in run("diff", zk, NEW, code=2).stderr
    assert run("diff", zk, NEW, "--controller", "zk-3.9").stdout.startswith(
        "Controller: zk-3.9 (told)\nWORSE: ")
    assert "standard input" in run("diff", "-", "-", code=2).stderr
    assert "no metric" in run("diff", zk, NEW, "--controller", "zk-3.9", "--fail-on", "with_elr>0",
                              code=2).stderr
    assert "--at-old" in run("diff", OLD, NEW, "--at-old", "x", code=2).stderr


def test_two_answers_of_one_command_are_compared_by_their_metrics(tmp_path):
    """Those of summaries, and of each step; with both verdicts."""
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, source in zip(paths, (OLD, NEW), strict=True):
        run("fail", source, "--brokers", "101", "--then", "102", "-o", path)
    before, after = (json.loads(path.read_text()) for path in paths)
    document = answer("diff", *paths)
    found = {row["metric"]: (row["value_before"], row["value"]) for row in document["metrics"]}
    for at, (one, other) in enumerate(zip(before["steps"], after["steps"], strict=True), 1):
        for name, value in one["summary"].items():
            if value != other["summary"][name]:
                assert found.pop(f"{name}, step {at}") == (value, other["summary"][name])
    assert found == {
        name: (value, after["summary"][name]) for name, value in before["summary"].items()
        if value != after["summary"][name]
    }
    assert document["other_question"] == []
    text = run("diff", *paths).stdout
    assert f"Before: {before['verdict'][0]}" in text
    assert f"After: {after['verdict'][0]}" in text
    run("diff", *paths, "-o", tmp_path / "metrics.parquet")
    assert pq.read_table(tmp_path / "metrics.parquet").num_rows == len(document["metrics"])
    same = run("diff", paths[0], paths[0]).stdout
    assert same.startswith("NO DIFFERENCE: ")
    run("fail", NEW, "--brokers", "102", "--controller", "zk-3.9", "-o", paths[1])
    other = answer("diff", *paths)
    assert other["other_question"] == ["controller", "scenario"]
    assert other["verdict"][1] == "They answer different questions: controller, scenario."


def test_answers_that_cannot_be_compared_are_refused(tmp_path):
    """Other commands, a cluster, damage, and options of clusters."""
    show, sweep, damaged = (tmp_path / f"{name}.json" for name in ("show", "sweep", "damaged"))
    run("show", OLD, "-o", show)
    run("sweep", OLD, "--every", "1", "-o", sweep)
    damaged.write_text(show.read_text()[:-9])
    empty = tmp_path / "empty.json"
    empty.write_text('{\n  "kfast": "0.1.0",\n  "command": "show"\n}\n')
    assert "of kfast show" in run("diff", show, sweep, code=3).stderr
    assert "two of a kind" in run("diff", show, OLD, code=3).stderr
    assert "is damaged" in run("diff", show, damaged, code=3).stderr
    assert "has no verdict" in run("diff", show, empty, code=3).stderr
    wrong = run("diff", show, show, "--up", "3", "--fail-on", "worse>0", code=2).stderr
    assert "--up, --fail-on: OLD and NEW are answers" in wrong
    assert "no table topics" in run("diff", show, show, "--table", "topics", code=2).stderr
