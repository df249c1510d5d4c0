"""`kfast capacity sweep --restore`: times in the rows and in the verdict, and what never ends."""

from __future__ import annotations

import json

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.schema import CAPACITY_SWEEP, RESTORATION
from tests.support.cli_run import ROOT, verdict_of
from tests.support.cli_run import run as run_command

DATA = ROOT / "bench_data"
CLUSTER = (DATA / "describe.txt", "--brokers-file", DATA / "brokers.csv")
FILES = ("--load", DATA / "loads.csv", "--capacity", DATA / "capacities.csv")
MB = 10**6


def run(*arguments, code=0):
    """Run a sweep over the cluster in bench_data."""
    return run_command("capacity", "sweep", *CLUSTER, *FILES, *arguments, code=code)


def document(*arguments):
    return json.loads(run(*arguments, "--format", "json").stdout)


@pytest.fixture(scope="module")
def state():
    return kfast.read(CLUSTER[0], brokers_file=CLUSTER[2])


@pytest.fixture(scope="module")
def plan(state):
    """The cluster in bench_data with its loads and capacities."""
    load = kfast.partition_load(state, kfast.read_load(FILES[1]))
    return kfast.prepare_capacity(
        state, load, kfast.broker_capacity(state, kfast.read_capacity(FILES[3])))


# --- a broker that comes back: the example of three brokers --------------------------------------


DESCRIBE = """\
Topic: t PartitionCount: 2 ReplicationFactor: 2 Configs:
\tTopic: t Partition: 0 Leader: 1 Replicas: 1,2 Isr: 1,2
\tTopic: t Partition: 1 Leader: 1 Replicas: 1,3 Isr: 1,3
"""
LOADS = "topic,partition,bytes_in,bytes_out,disk_bytes\nt,0,20000000,0,10000000000000\nt,1,0,0,0\n"


@pytest.fixture
def small(tmp_path):
    """Broker 2 follows 20 MB/s of broker 1, and has 10 TB; what fails is broker 2."""
    texts = {"describe.txt": DESCRIBE, "loads.csv": LOADS,
             "capacities.csv": "broker_id,nw_in,nw_out,disk_bytes\n-1,1e9,1e9,1.4e13\n",
             "failures.csv": "scenario,broker\n1,2\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    def sweep(*arguments, code=0):
        return run_command(
            "capacity", "sweep", tmp_path / "describe.txt", "--load", tmp_path / "loads.csv",
            "--capacity", tmp_path / "capacities.csv", "--scenarios", tmp_path / "failures.csv",
            *arguments, code=code)
    return sweep


def test_a_throttle_has_to_be_above_what_producers_write(small):
    """Down for an hour at 20 MB/s: 72 GB; at 60 MB/s 1800 s, at 20 MB/s never."""
    down = ("--restore", "return", "--down-for", "1h")
    enough = small(*down, "--throttle", "60MB/s", "--fail-on", "restore_seconds_bound>1800")
    assert (
        "The longest restoration is that of scenario 1, broker 2: 72.0 GB take at least 30 min 0 s,"
        " 30 min 0 s where fetchers share networks fairly."
    ) in verdict_of(enough.stdout)
    never = small(*down, "--throttle", "20MB/s", "--fail-on", "restore_seconds_bound>1800", code=4)
    assert (
        "1 of 1 failure is NEVER restored: copies get no faster than producers write on 2 brokers: "
        "1, 2.\nThe smallest throttle that makes progress is 20000001 B/s (20.0 MB/s); only what a "
        "throttle has above that copies."
    ) in verdict_of(never.stdout)
    assert "restore_seconds_bound is without end" in never.stderr
    small(*down, "--throttle", "20000001", "--fail-on", "stuck_brokers>0")
    small(*down, "--throttle", "20MB/s", "--fail-on", "restore_seconds_fair<=1000000")


def test_a_restoration_without_end_is_valid_json(small):
    """A time that is longer than any is null, and named as endless."""
    answer = json.loads(small(
        "--restore", "return", "--throttle", "20MB/s", "--fail-on", "restore_seconds_bound>1",
        "--format", "json", code=4).stdout, parse_constant=pytest.fail)
    assert answer["summary"]["restore_seconds_bound"] is None
    assert answer["endless"] == [
        f"restore_seconds_{name}" for name in ("bound", "fair", "half", "min_isr")]
    assert answer["fail_on"] == [
        {"condition": "restore_seconds_bound>1", "holds": True, "value": None}]
    restoration = answer["restoration"]
    assert restoration["stuck_brokers"] == [1, 2]
    assert restoration["throttle_needed"] == 20 * MB + 1
    assert restoration["failures_without_end"] == 1


def test_ten_terabytes_at_a_hundred_megabytes_a_second(small, tmp_path):
    """An empty broker, to whose partition nobody writes."""
    (tmp_path / "loads.csv").write_text(LOADS.replace("20000000", "0"))
    text = small("--restore", "replace", "--throttle", "100MB/s").stdout
    assert "10.0 TB take at least 27 h 46 min" in text
    answer = json.loads(small(
        "--restore", "replace", "--throttle", "100MB/s", "--format", "json").stdout)
    assert answer["summary"]["restore_seconds_bound"] == 100_000


def test_no_throttle_helps_where_a_round_trip_is_too_long(small):
    """10 MiB a second are less than 20 MB/s, whatever the throttle; two fetchers suffice."""
    slow = ("--restore", "return", "--throttle", "60MB/s", "--round-trip", "1s")
    assert "No throttle is enough for 1 of them" in small(*slow).stdout
    assert "NEVER" not in small(*slow, "--fetchers", 2).stdout
    assert "fetchers 2, round trip 1000 ms" in small(*slow, "--fetchers", 2).stdout


def test_new_replicas_of_a_plan_count_on_the_disks_of_their_brokers(small, tmp_path):
    """10 TB on a disk of 14 TB are within 80 %; broker 3 gets them, and broker 1 goes on."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": [
        {"topic": "t", "partition": 0, "replicas": [1, 3]}]}))
    text = small("--restore", "redistribute", "--new-replicas", path).stdout
    assert "no failure leaves a broker over a limit" in text
    tight = small("--restore", "redistribute", "--new-replicas", path, "--limit", "disk=0.7",
                  "--fail-on", "over_limit_restored>0", code=4).stdout
    assert "1 of 1 failure leaves brokers over a limit that holds without a failure." in tight
    same = json.loads(small("--restore", "redistribute", "--format", "json").stdout)
    with_plan = json.loads(small(
        "--restore", "redistribute", "--new-replicas", path, "--format", "json").stdout)
    assert same["restoration"]["slowest"] == with_plan["restoration"]["slowest"]
    path.write_text(path.read_text().replace("3]", "2]"))
    wrong = small("--restore", "redistribute", "--new-replicas", path, code=2)
    assert "t-0 is to have a replica on broker 2, which fails" in wrong.stderr


# --- the cluster in bench_data -------------------------------------------------------------------


SETTINGS = {
    ("--restore", "return", "--down-for", "2h"): {"down_for_seconds": 7200},
    ("--restore", "replace", "--throttle", "30MB/s"):
        {"mode": "replace", "leader_throttle": 30 * MB, "follower_throttle": 30 * MB},
    ("--restore", "redistribute", "--round-trip", "2ms", "--fetchers", "4"):
        {"mode": "redistribute", "round_trip_seconds": 0.002, "fetchers": 4},
}


@pytest.mark.parametrize("arguments", SETTINGS)
def test_rows_are_those_of_the_sweep_with_times(state, plan, tmp_path, arguments):
    """In Parquet and in CSV; without --restore, a sweep has the columns that it had."""
    path, text = tmp_path / "rows.parquet", tmp_path / "rows.csv"
    run("--every", 1, *arguments, "-o", path)
    scenarios = kfast.every_broker(state)
    expected = kfast.restoration(plan, scenarios, kfast.Restoration(**SETTINGS[arguments]))
    table = pq.read_table(path).replace_schema_metadata(None)
    assert table == expected
    assert table.schema.names == RESTORATION.schema.names
    sweep = kfast.capacity_sweep(plan, scenarios)
    assert table.select(CAPACITY_SWEEP.schema.names) == sweep
    run("--every", 1, *arguments, "--table", "scenarios", "-o", text)
    assert pa_csv.read_csv(text)["restore_bytes"].to_pylist() == table["restore_bytes"].to_pylist()
    run("--every", 1, "-o", path)
    assert pq.read_table(path).replace_schema_metadata(None) == sweep


@pytest.mark.parametrize("arguments", SETTINGS)
def test_the_verdict_names_the_longest_restoration(state, plan, arguments):
    answer = document("--every", 1, *arguments, "--top", 4)
    scenarios = kfast.every_broker(state)
    rows = kfast.restoration(
        plan, scenarios, kfast.Restoration(**SETTINGS[arguments])).slice(1).to_pylist()
    never = [row for row in rows if row["stuck_brokers"]]
    rows.sort(key=lambda row: (
        not row["stuck_brokers"], -(row["restore_seconds_bound"] or 0), row["scenario"]))
    listed = answer["restoration"]["slowest"]
    assert [row["scenario"] for row in listed] == [row["scenario"] for row in rows[:4]]
    assert all({name: mine[name] for name in row} == row
               for mine, row in zip(listed, rows, strict=False))
    assert answer["restoration"]["failures_without_end"] == len(never)
    assert answer["restoration"]["stuck_brokers"] == sorted(
        {broker for row in never for broker in row["stuck_brokers"]})
    words = "NEVER restored" if never else f"scenario {rows[0]['scenario']}, broker"
    assert any(words in line for line in answer["verdict"])
    for name in ("restore_bytes", "bytes_without_source", "over_limit_restored"):
        values = [row[name] for row in rows if row[name] is not None]
        assert answer["summary"][name] == max(values, default=None)


def test_the_table_of_worst_failures_has_the_time_until_they_are_restored():
    text = run("--every", 1, "--restore", "return", "--top", 2).stdout
    worst = text[text.index("Worst failures"):text.index("Longest restorations")]
    assert "restored" in worst
    assert worst.count(" min ") >= 2
    assert "restored" not in run("--every", 1, "--top", 2).stdout


def test_bytes_do_not_depend_on_slices(state, plan):
    """Of pairs: any part of the scenarios has the rows that all have."""
    settings = kfast.Restoration("redistribute")
    pairs = kfast.every_broker(state, 2)
    whole = kfast.restoration(plan, pairs, settings)
    assert kfast.restoration(plan, pairs.slice(20, 31), settings) == whole.slice(20, 11)
    assert kfast.restoration(plan, pairs, settings, method="pass") == whole


REFUSED = {
    "--down-for 600": "--down-for goes with --restore return",
    "--restore replace --down-for 600": "--down-for goes with --restore return",
    "--throttle 60MB/s": "--throttle goes with --restore",
    "--round-trip 1ms": "--round-trip goes with --restore",
    "--restore return --fetchers 4": "--fetchers goes with --round-trip",
    "--restore return --new-replicas plan.json": "--new-replicas goes with --restore redistribute",
    "--restore rebuild": "'rebuild' is not one of 'return', 'replace', 'redistribute'",
    "--restore return --down-for soon": "--down-for is 'soon': a time is needed",
    "--restore return --down-for 0": "down_for_seconds is 0",
    "--restore return --throttle 60MB": "--throttle is '60MB': a rate is needed",
    "--restore return --throttle 0": "leader_throttle is 0",
    "--restore return --round-trip 2h": "round_trip_seconds is 7200",
    "--fail-on restore_seconds_bound>3600": "restore_seconds_bound>3600 goes with --restore",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run("--every", 1, *arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_a_plan_that_cannot_be_read_is_one_line(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text("{")
    wrong = run("--every", 1, "--restore", "redistribute", "--new-replicas", path, code=3)
    assert wrong.stderr.startswith("Error: ")
    assert "plan.json" in wrong.stderr
    assert wrong.stderr.count("\n") == 1
