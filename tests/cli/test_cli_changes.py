"""`kfast reassign` and `kfast delete`, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kfast
from kfast.analysis.impact import CHANGE_METRICS
from kfast.analysis.plan_execution import REASSIGNMENT_METRICS
from kfast.analysis.topic_deletion import DELETION_METRICS
from kfast.cli.app import commands
from kfast.state.census import CENSUS_METRICS
from tests.support.cli_run import DESCRIBE, PLAN, RACKS, ROOT, answer, run, verdict_of

pytestmark = pytest.mark.kernels


def numbers(text, name):
    """The cells after a name at the beginning of a line."""
    return next(line.split()[1:] for line in text.splitlines() if line.startswith(f"{name} "))


def test_reassign_answers_what_the_library_says(cluster, plan):
    """The document has the metrics of `execute_plan`, and every part of the answer."""
    document = answer("reassign", cluster, "--plan", plan, "--up", "4")
    found = kfast.execute_plan(kfast.read(cluster, up=[4]), PLAN)
    assert document["summary"] == found.summary
    assert document["before"] == found.before.counts
    assert document["under_way"] == found.under_way
    assert document["requests"] == found.requests.to_pylist()
    assert document["brokers"] == found.brokers.to_pylist()
    assert document["topics"] == found.topics.to_pylist()
    assert document["notes"] == list(found.notes)
    rows = found.partitions.to_pylist()
    assert document["refused"] == [row for row in rows if row["status"] == "refused"]
    assert document["refused_listed_of"] == len(document["refused"]) == 2
    assert document["pending"] == []
    assert document["scenario"] == {"plan": plan, "brokers": [], "pending": False}
    assert list(document) == [
        "schema_version", "controller", "kfast", "command", "verdict", "input", "assumptions",
        "notes", "provenance", "cluster",
        "safe", "reasons", "scenario", "start", "before", "under_way", "summary", "requests",
        "brokers", "top",
        "refused_listed_of", "refused", "pending_listed_of", "pending", "topics_listed_of",
        "topics", "defaults", "fail_on",
    ]


def test_reassign_prints_what_an_operator_asks(cluster, plan):
    """Every number of the summary, who is refused and why, brokers and requests."""
    args = ("reassign", cluster, "--plan", plan, "--up", "4")
    text, document = run(*args, "--verbose").stdout, answer(*args)
    assert verdict_of(text).startswith(
        "NOT SAFE: 3 of 5 partitions complete; 2 partitions are refused.\n"
        "2 replicas added, 2 removed; no leader moves.\n"
    )
    assert (document["safe"], document["reasons"]) == (False, {"refused": 2})
    summary = document["summary"]
    for metric in ("refused", "completed", "pending", "replicas_added", "replicas_removed",
                   "leaders_moved", "leader_epoch_bumps"):
        assert numbers(text, metric) == [str(summary[metric])]
    for metric in CENSUS_METRICS:
        before, way = document["before"][metric], document["under_way"][metric]
        assert numbers(text, metric)[:3] == [str(before), str(way), str(summary[metric])]
    for row in document["requests"]:
        assert numbers(text, row["kind"]) == [str(row["requests"]), str(row["partitions"])]
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "logs 0 INVALID_REPLICA_ASSIGNMENT of those to be added, broker 9 is unknown 9" in lines
    assert "logs 7 UNKNOWN_TOPIC_OR_PARTITION the topic has 2 partitions 1" in lines
    assert "kafka-reassign-partitions refuses such a plan as a whole" in text


def test_pending_and_brokers_that_fail_meanwhile(cluster, plan):
    """Nobody has caught up; or a target died, and its partition waits for it."""
    args = ("reassign", cluster, "--plan", plan, "--up", "4")
    document = answer(*args, "--pending")
    assert document["summary"]["pending"] == 2
    assert {metric: document["summary"][metric] for metric in document["under_way"]} == (
        document["under_way"]
    )
    text = run(*args, "--pending").stdout
    assert verdict_of(text).startswith(
        "NOT SAFE: 5 partitions being reassigned; no new replica has caught up yet; 2 partitions "
        "are refused.\n"
    )
    assert "broker 4 has not caught up yet" in text
    assert len(numbers(text, "offline")) == 3
    text = run(*args, "--brokers", "4").stdout
    assert "2 of 5 partitions complete while broker 4 fails; 1 partition does not" in text
    assert "orders          1  broker 4 has to be in sync and is down  2, 3, 1  2, 3, 4, 1" in text
    text = run(*args, "--brokers", "4", "--brokers", "1", "--top", "1").stdout
    assert "while brokers 1, 4 fail; " in text
    assert "Pending partitions (1 of 2)" in text or "Refused partitions (1 of 2)" in text


def test_conditions_on_a_plan(cluster, plan):
    """`--fail-on` knows every metric of a plan, and no other."""
    args = ("reassign", cluster, "--plan", plan, "--up", "4")
    for metric in (*CENSUS_METRICS, *REASSIGNMENT_METRICS):
        run(*args, "--fail-on", f"{metric}<0")
    found = run(*args, "--fail-on", "refused>0", "--fail-on", "pending>0", code=4)
    assert found.stderr == "--fail-on refused>0 holds: refused is 2\n"
    assert "Refused partitions" in found.stdout
    for metric in DELETION_METRICS:
        run("delete", cluster, "--topics", "logs", "--fail-on", f"{metric}<0")


def test_parquet_of_both(cluster, plan, tmp_path):
    """A row per partition of the plan, a row per topic; the document in the metadata."""
    path = tmp_path / "answer.parquet"
    run("reassign", cluster, "--plan", plan, "-o", path)
    table = pq.read_table(path)
    assert table.num_rows == len(PLAN)
    assert set(table["status"].to_pylist()) == {"refused", "completed"}
    assert json.loads(table.schema.metadata[b"kfast.answer"])["command"] == "reassign"
    run("delete", cluster, "--topics", "logs,orders", "-o", path)
    table = pq.read_table(path)
    assert table["topic"].to_pylist() == ["logs", "orders"]
    assert json.loads(table.schema.metadata[b"kfast.answer"])["command"] == "delete"


def test_delete_answers_and_prints(cluster, tmp_path):
    """Broker 4 is down, and holds a replica of logs: logs waits, orders is gone."""
    args = ("delete", cluster, "--topics", "orders,logs")
    document, text = answer(*args), run(*args).stdout
    found = kfast.delete_topics(kfast.read(cluster), ["orders", "logs"])
    assert document["summary"] == found.summary
    assert document["topics"] == found.topics.to_pylist()
    assert document["brokers"] == found.brokers.to_pylist()
    assert list(document) == [
        "schema_version", "controller", "kfast", "command", "verdict", "input", "assumptions",
        "notes", "provenance", "cluster",
        "safe", "reasons", "scenario", "start", "summary", "requests", "brokers", "top",
        "topics_listed_of", "topics", "defaults", "fail_on",
    ]
    assert verdict_of(text).startswith("NOT SAFE: 1 topic is deleted; 1 topic waits.\n")
    assert (document["safe"], document["reasons"]) == (False, {"topics_waiting": 1})
    assert " ".join(numbers(text, "logs")) == "waiting 2 3 broker 4 is down"
    assert numbers(text, "orders") == ["deleted", "2", "6", "-"]
    for metric, value in found.summary.items():
        if "requests" not in metric:
            assert numbers(text, metric) == [str(value)]
    text = run("delete", cluster, "--topics", "orders", "--brokers", "2,3", "--up", "4").stdout
    assert verdict_of(text).startswith(
        "NOT SAFE: no topic is deleted while brokers 2, 3 fail; 1 topic waits; 1 other partition "
        "goes offline"
    )
    assert " ".join(numbers(text, "orders")) == "waiting 2 6 brokers 2, 3 are down"
    text = run("delete", cluster, "--topics", "orders").stdout
    assert verdict_of(text).startswith("SAFE: 1 topic is deleted.\n6 replicas are gone")
    listed = tmp_path / "brokers.csv"
    listed.write_text(RACKS)
    found = answer("delete", cluster, "--topics", "logs", "--brokers-file", listed)
    assert {row["broker_id"]: row["rack"] for row in found["brokers"]}[4] == "b"


@pytest.mark.parametrize(("text", "words"), [
    (DESCRIBE, "is describe text, which says how a cluster is"),
    ('{"version":1,"partitions":[]}', "not a whole reassignment plan"),
    ('{"version":1,"partitions":[{"topic":"orders","partition":0', "damaged JSON"),
    ('{"topics":[{"topic":"orders"}],"version":1}', "--generate"), (None, "No such file"),
])
def test_plans_that_are_none(cluster, tmp_path, text, words):
    """Code 3, one line that names the plan, and nothing is written."""
    path, output = tmp_path / "wrong.json", tmp_path / "out.json"
    if text is not None:
        path.write_text(text)
    found = run("reassign", cluster, "--plan", path, "-o", output, code=3)
    assert found.stdout == ""
    assert len(found.stderr.splitlines()) == 1
    assert str(path) in found.stderr
    assert words in found.stderr
    assert not output.exists()


def test_a_real_cluster_during_a_reassignment(shared_data, tmp_path):
    """It goes on, it waits for broker 3, or the tool's own rollback takes it back.

    That broker 3 lags where it is being added does not show that it is down; a caller may say so.
    """
    exports = shared_data / "exports"
    source = exports / "describe_43_reassigning_throttled.txt"
    on = answer("reassign", source)
    assert on["scenario"]["plan"] is None
    assert on["summary"]["pending"] == 0
    assert (on["summary"]["completed"], on["summary"]["under_replicated"]) == (3, 0)
    assert [row["leaders"] for row in on["brokers"]] == [2, 1, 0]
    assert any("taken for up" in line and "broker 3 (" in line for line in on["assumptions"])
    down = tmp_path / "brokers.csv"
    down.write_text("broker_id,registered\n3,false\n")
    waits = answer("reassign", source, "--brokers-file", down)
    assert waits["summary"]["pending"] == 3
    assert {row["reason"] for row in waits["pending"]} == {
        "broker 3 has to be in sync and is down"
    }
    back = answer("reassign", source, "--plan", exports / "reassign_43_execute.txt")
    assert (back["summary"]["completed"], back["summary"]["replicas_removed"]) == (3, 3)
    assert any("--additional" in note for note in back["notes"])
    gone = answer("delete", source, "--topics", "l07.move.test", "--brokers-file", down)
    assert gone["topics"][0]["waiting_for"] == []
    older = ("--controller", "zk-3.9")
    dead = answer("delete", source, "--topics", "l07.move.test", "--brokers-file", down, *older)
    assert dead["topics"][0]["waiting_for"] == [3]
    real = exports / "describe_4x_elr_2_broker3_stopped.txt"
    gone = answer("delete", real, "--topics", "l07.cdr.ha")
    assert gone["summary"]["replicas_waiting"] == 0
    dead = answer("delete", real, "--topics", "l07.cdr.ha", *older)
    assert dead["summary"]["replicas_waiting"] == 6


def test_a_plan_from_a_pipe_and_an_answer_into_one(cluster, plan):
    """Standard input for either; nothing but data comes out, and it is never folded."""
    found = run("reassign", cluster, "--plan", "-", "--up", "4", input=Path(plan).read_text())
    assert found.stderr == ""
    assert "\x1b" not in found.stdout
    assert all(line == line.rstrip() for line in found.stdout.splitlines())
    found = run("delete", "-", "--topics", "orders", "--format", "json",
                input=Path(cluster).read_text())
    assert json.loads(found.stdout)["input"] == "-"


def test_the_page_of_formats_has_every_metric():
    """`docs/formats.md` says what the tables in the source say."""
    text = (ROOT / "docs" / "formats.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    for metric, meaning in {**REASSIGNMENT_METRICS, **DELETION_METRICS}.items():
        assert listed[metric] == meaning == CHANGE_METRICS.get(metric, meaning)


def test_examples_stand_on_lines_of_their_own():
    """The help of every command shows them as they are typed."""
    for name in commands.places:
        text = run(name, "--help").stdout
        assert "\\b" not in text
        assert re.search(rf"^    kfast {name}\b", text, re.MULTILINE), name
    assert "\n    kfast show describe.txt\n" in run("--help").stdout
