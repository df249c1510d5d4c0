"""`kfast plan check`: the verdict, batches, conditions, and what is refused."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.cli.app import commands
from kfast.report.plan_check import PLAN_TABLES
from tests.support.cli_run import ROOT, all_commands, plan_text, verdict_of
from tests.support.cli_run import run as run_command

DATA = ROOT / "bench_data"
CLUSTER = (DATA / "describe.txt", "--brokers-file", DATA / "brokers.csv")
PLAN = DATA / "plan.json"
LOADS = ("--load", DATA / "metrics.prom.gz", "--load", DATA / "log-dirs.json.gz")
CAPACITY = ("--capacity", DATA / "capacities.csv")


def run(*arguments, cluster=CLUSTER, plans=(PLAN,), code=0):
    """Run `kfast plan check` on the cluster and the plan in bench_data."""
    named = [part for plan in plans for part in ("--plan", plan)]
    return run_command("plan", "check", *cluster, *named, *LOADS, *CAPACITY, *arguments, code=code)


@pytest.fixture(scope="module")
def check():
    """The check of the plan in bench_data by the library."""
    state = kfast.read(CLUSTER[0], brokers_file=CLUSTER[2])
    load = kfast.partition_load(state, kfast.read_load(LOADS[1], LOADS[3]))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(CAPACITY[1]))
    return kfast.check_plan(state, kfast.read_plan(PLAN), load, capacity)


def test_the_answer_is_that_of_the_library(check):
    answer = json.loads(run("--format", "json").stdout)
    assert answer["summary"] == check.summary
    assert answer["objective"] == check.objective.to_pylist()
    assert answer["brokers"] == check.brokers.to_pylist()
    assert answer["reasons"] == check.reasons == {"broken_rules": 8}
    assert not answer["safe"]


def test_the_verdict_says_what_speaks_against_the_plan():
    verdict = verdict_of(run().stdout).splitlines()
    assert verdict[0] == (
        "NOT SAFE: 20 entries in 1 batch, 20 replicas copied (1.1 TB); 8 violations of hard rules."
    )
    assert verdict[1].startswith("Before the plan: broker 111 sends 71.5 % of its nw_out capacity")
    assert verdict[2].startswith("After the plan: broker 111 sends 71.5 %")
    assert verdict[3].startswith("Worst failure after it, brokers 101, 104, 107, 110 (rack a): ")
    assert verdict[4] == "Lowest headroom of any failure: -4.3 % before, -4.6 % after."


def test_goals_of_cruise_control_are_there_if_asked_for(check):
    answer = json.loads(run("--goals", "cruise-control", "--format", "json").stdout)
    assert answer["goals"] == check.goals.to_pylist()
    assert "goals" not in json.loads(run("--format", "json").stdout)
    lines = run("--goals", "cruise-control").stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Default goals of Cruise"))
    rows = {line.split()[0]: line for line in lines[start:] if "Goal " in line}
    assert list(rows) == check.goals["goal"].to_pylist()
    assert re.search(r"60 partitions.*48 partitions", rows["RackAwareGoal"])
    assert re.search(r"unknown +unknown", rows["CpuCapacityGoal"])
    assert re.search(r"met +met +nothing: ", rows["MinTopicLeadersPerBrokerGoal"])
    assert "goals" in run("--goals", "kafka", code=2).stderr


def test_a_plan_that_keeps_every_rule_is_safe(tmp_path):
    """Another leader for one partition: nothing is copied."""
    state = kfast.read(CLUSTER[0])
    first = state.assignment(0).replicas
    key = state.topic[int(state.topic_row[0])].as_py(), int(state.partition[0])
    path = tmp_path / "plan.json"
    path.write_text(plan_text({key: [*first[1:], first[0]]}))
    answer = json.loads(run("--format", "json", plans=[path]).stdout)
    assert answer["safe"]
    assert answer["batches"][0]["leadership_only"] == answer["summary"]["leaders_moved"] == 1
    assert answer["summary"]["replicas_added"] == 0
    kept = json.loads(run("--keep-leaders", "--format", "json", plans=[path]).stdout)
    assert kept["summary"]["leaders_moved"] == 0


def test_files_are_batches_one_after_another(tmp_path):
    """The same entries in two files end where one file ends, and more slowly."""
    plan = json.loads(PLAN.read_text())["partitions"]
    files = []
    for number, part in enumerate((plan[:12], plan[12:])):
        files.append(tmp_path / f"batch-{number}.json")
        files[-1].write_text(json.dumps({"version": 1, "partitions": part}))
    whole = json.loads(run("--format", "json").stdout)
    parts = json.loads(run("--format", "json", plans=files).stdout)
    assert [row["partitions"] for row in parts["batches"]] == [12, 8]
    assert parts["objective"] == whole["objective"]
    for one, other in zip(parts["brokers"], whole["brokers"], strict=True):
        assert one["disk_bytes_after"] == other["disk_bytes_after"]
        assert one["disk_bytes_during"] <= other["disk_bytes_during"]


def test_rules_of_the_caller_count_too():
    text = run("--exclude-topics", "legacy-.*", "--exclude-brokers", "102").stdout
    assert "topic_excluded" in text
    answer = json.loads(run("--exclude-brokers", "102", "--top", 99, "--format", "json").stdout)
    excluded = [row for row in answer["broken_rules"] if row["rule"] == "broker_excluded"]
    assert {row["broker_id"] for row in excluded} == {102}


def test_broker_sets_come_from_a_file(tmp_path):
    path = tmp_path / "brokerSets.json"
    brokers = [*range(101, 113)]
    path.write_text(json.dumps({"brokerSets": [
        {"brokerSetId": "low", "brokerIds": brokers[:6]},
        {"brokerSetId": "high", "brokerIds": brokers[6:]},
    ]}))
    answer = json.loads(run("--broker-sets", path, "--top", 99, "--format", "json").stdout)
    rows = [row for row in answer["broken_rules"] if row["rule"] == "broker_set"]
    assert rows
    assert {row["amount"] for row in rows} <= {"high", "low", "high,low"}
    path.write_text("{}")
    wrong = run("--broker-sets", path, code=3)
    assert "right are the broker sets of Cruise Control" in wrong.stderr


def test_proposals_of_cruise_control_are_a_plan(tmp_path, check):
    plan = json.loads(PLAN.read_text())["partitions"]
    path = tmp_path / "proposals.json"
    path.write_text(json.dumps({"goalSummary": [], "proposals": [
        {"topicPartition": {"topic": row["topic"], "partition": row["partition"], "hash": 0},
         "oldLeader": 1, "oldReplicas": [1], "newReplicas": row["replicas"]} for row in plan
    ]}))
    answer = json.loads(run("--format", "json", plans=[path]).stdout)
    assert answer["summary"] == check.summary


def test_copying_takes_as_long_as_the_throttle_lets_it():
    text = run("--throttle", "30MB/s").stdout
    assert "1 h 10 min" in text
    never = run("--throttle", "1kB/s").stdout
    assert "never: brokers 101" in never
    wrong = run("--throttle", "30", "--throttle", "x", code=2)
    assert "--throttle" in wrong.stderr


def test_failures_are_those_that_are_asked_for():
    answer = json.loads(run("--each-rack", "--format", "json").stdout)
    assert answer["failures_listed_of"] == 3
    answer = json.loads(run("--every", 2, "--format", "json").stdout)
    assert answer["failures_listed_of"] == 66


def test_conditions():
    failed = run("--fail-on", "broken_rules>0", code=4)
    assert "--fail-on broken_rules>0 holds: broken_rules is 8" in failed.stderr
    run("--fail-on", "refused>0", "--fail-on", "over_limit_during>0")


def test_tables_are_written(tmp_path, check):
    run("-o", tmp_path / "x.csv")
    names = {path.stem.removeprefix("x-") for path in tmp_path.iterdir()}
    assert names == {"brokers", "broken_rules", "batches", "partitions", "moves", "failures",
                     "objective", "goals"}
    lines = (tmp_path / "x-moves.csv").read_text().splitlines()
    assert len(lines) == 1 + check.moves.num_rows


@pytest.mark.parametrize("ending", [".json", ".parquet", ".arrow"])
def test_every_table_is_written_in_every_form(ending, tmp_path, check):
    for name in PLAN_TABLES:
        path = tmp_path / f"{name}{ending}"
        run("--table", name, "-o", path)
        expected = getattr(check, name)
        if ending == ".json":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
        else:
            table = pq.read_table(path) if ending == ".parquet" else (
                pa.ipc.open_file(path).read_all())
            rows = table.to_pylist()
        assert rows == expected.to_pylist()


WRONG = {
    "no plan": "hello\n",
    "truncated": '{"version":1,"partitions":[{"topic":"scratch","partition":0,"repl',
    "a partition twice": plan_text({("scratch", 0): [101, 102]}).replace(
        "]}]}", ']},{"topic":"scratch","partition":0,"replicas":[103]}]}'),
    "another version": '{"version":2,"partitions":[]}',
    "empty": "",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_plan_is_one_line(name, tmp_path):
    path = tmp_path / "wrong"
    path.write_text(WRONG[name])
    wrong = run(plans=[path], code=3)
    assert wrong.stdout == ""
    assert re.fullmatch(r"Error: \S+wrong\b.*: .+\n", wrong.stderr)


REFUSED = {
    "--exclude-topics nobody.*": "no topic's whole name matches",
    "--exclude-topics (": "is not a regular expression",
    "--exclude-brokers 7": "7",
    "--limit nw_out=x": "'nw_out=x' is not RESOURCE=SHARE",
    "--fail-on offline>0": "metric 'offline' is unknown",
    "--fail-on worst_headroom_after<0 --each-rack --every 1": "give one kind of failures",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run(*arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_standard_input_is_one_file():
    wrong = run(cluster=["-"], plans=["-"], code=2)
    assert "- stands for INPUT and --plan" in " ".join(wrong.stderr.split())


def test_help_lists_the_commands_and_each_has_an_example():
    """What the list says is what the help of each command begins with."""
    group = commands.get_command(None, "plan")
    listed = " ".join(run_command("plan", "--help").stdout.split())
    for name, command in all_commands(group):
        text = group.places[name][2]
        assert text in listed
        assert command.get_short_help_str(1000) == text
        help_text = run_command("plan", name, "--help").stdout
        assert re.search(rf"^    kfast plan {name}\b", help_text, re.MULTILINE)
