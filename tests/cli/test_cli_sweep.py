"""`kfast sweep`: the worst scenarios lead and say why; rows go to Parquet."""

from __future__ import annotations

import io
import json
import re

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyarrow import dataset

import kfast
from kfast.cli import sweep as command
from kfast.controllers.zk.profiles import PROFILES
from kfast.report import writing
from tests.support.cli_run import ROOT, verdict_of
from tests.support.cli_run import run as run_command

DATA = ROOT / "bench_data"
CLUSTER = (str(DATA / "describe.txt"), "--brokers-file", str(DATA / "brokers.csv"))


def run(*arguments, code=0):
    """Run `kfast sweep` on the cluster in bench_data."""
    return run_command("sweep", *CLUSTER, *arguments, code=code)


@pytest.fixture(scope="module")
def state():
    """The cluster in bench_data."""
    return kfast.read(CLUSTER[0], brokers_file=CLUSTER[2])


def test_the_worst_scenarios_lead_and_say_why(state):
    """JSON: counts are those of the sweep; the reasons are those of the failure."""
    answer = json.loads(run("--every", 2, "--top", 3, "--format", "json").stdout)
    table = kfast.sweep(state, kfast.every_broker(state, 2)).slice(1).to_pylist()
    assert answer["summary"]["offline"] == max(row["offline"] for row in table)
    key = ("offline", "no_live_replica", "under_min_isr", "unclean", "leaders_moved")
    table.sort(key=lambda row: tuple(-row[name] for name in key))
    worst = answer["worst"]
    assert [row["offline"] for row in worst] == [row["offline"] for row in table[:3]]
    failure = kfast.fail_brokers(state, worst[0]["brokers"]).impact
    reason = worst[0]["reasons"][0]
    assert reason["reason"] == "newly_offline"
    assert reason["partitions"] == failure.summary["newly_offline"] == worst[0]["offline"]
    offline = failure.partitions.filter(failure.partitions["offline"]).to_pylist()
    assert reason["first"] == [f"{p['topic']}-{p['partition']}" for p in offline[:5]]


def test_the_text_names_racks_topics_and_partitions():
    """One line per reason below the table of the worst."""
    text = run("--each-rack").stdout
    assert verdict_of(text).startswith(
        "Each rack: 3 of 3 scenarios take partitions offline; in 3 some fall under min ISR, where "
        "acks=all is refused.\nThe worst is scenario 1, brokers 101, 104, 107, 110 (rack a): 7 "
        "partitions are offline, 47 under min ISR.\n"
    )
    assert re.search(r"^ +1  101, 104, 107, 110 .* a$", text, re.MULTILINE)
    assert "Scenario 1: 7 partitions newly offline, of 2 topics: legacy-imports (4)" in text


def test_elections_outside_the_isr_are_said(state, tmp_path):
    """They lose records even where nothing goes offline."""
    answer = json.loads(run("--each-rack", "--format", "json").stdout)
    rows = kfast.sweep(state, kfast.every_rack(state)).slice(1)["unclean"].to_pylist()
    n, most = sum(n > 0 for n in rows), max(rows)
    assert (answer["n_worse"]["unclean"], most) == (2, 5)
    assert answer["verdict"][-1] == (
        f"{n} of 3 scenarios elect leaders outside the ISR, {most} at most: records that only other"
        " replicas had are lost."
    )
    path = tmp_path / "d.txt"
    path.write_text(
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\t"
        "Configs: unclean.leader.election.enable=true\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    )
    arguments = ("sweep", path, "--up", "2", "--every", 1)
    assert verdict_of(run_command(*arguments).stdout).startswith(
        "Every broker: none of 2 scenarios takes any partition offline or under min ISR.\n"
        "1 of 2 scenarios elects leaders outside the ISR, 1 at most: records that only other"
        " replicas had are lost.\n"
    )


def test_rows_go_to_parquet(state, tmp_path):
    """All rows; the answer stands in the file's metadata."""
    path = tmp_path / "sweep.parquet"
    said = run("--random", 300, "--down", 2, "--seed", 4, "-o", path)
    assert f"One row per scenario: {path}\n" in said.stdout
    expected = kfast.sweep(state, kfast.random_brokers(state, 2, 300, 4))
    assert pq.read_table(path).replace_schema_metadata(None) == expected
    answer = json.loads(pq.read_metadata(path).metadata[b"kfast.answer"])
    assert answer["summary"]["offline"] == max(expected["offline"].to_pylist()[1:])


@pytest.mark.parametrize("end", ["parquet", "csv", "arrow"])
def test_an_interrupted_sweep_leaves_what_is_done_beside(state, tmp_path, monkeypatch, end):
    """Ctrl-C after two batches: the old file stays, and --from goes on where the sweep ended."""
    first, second = tmp_path / f"a.{end}", tmp_path / f"b.{end}"
    first.write_text("old")
    real = command.sweep_reader

    def stops(*args, **options):
        reader = real(*args, **options)

        def batches():
            yield reader.read_next_batch()
            yield reader.read_next_batch()
            raise KeyboardInterrupt

        return batches()

    asked = ("--random", 9000, "--down", 3, "--table", "scenarios")
    monkeypatch.setattr(command, "sweep_reader", stops)
    said = run(*asked, "-o", first, code=130).stderr
    partial = tmp_path / f"a.partial.{end}"
    assert said == (
        f"{partial} holds 4096 scenarios, up to number 4095; go on with the same command, "
        "--from 4096 and another file\nInterrupted.\n"
    )
    assert first.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, partial.name]
    monkeypatch.setattr(command, "sweep_reader", real)
    run(*asked, "-o", second, "--from", 4096)
    expected = kfast.sweep(state, kfast.random_brokers(state, 3, 9000, 0))
    both = pa.concat_tables([
        dataset.dataset(path, format=end).to_table(columns=expected.column_names)
        for path in (partial, second)
    ])
    assert both.cast(expected.schema) == expected


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sweep_is_of_any_controller(state, profile):
    """`--controller` is that of `prepare_sweep`, in the counts and in the reasons."""
    asked = ("--each-rack", "--controller", profile, "--format", "json")
    answer = json.loads(run(*asked).stdout)
    assert answer["controller"]["name"] == profile
    plan = kfast.prepare_sweep(kfast.with_controller(state, profile))
    rows = kfast.sweep(plan, kfast.every_rack(state)).to_pylist()[1:]
    assert {row["scenario"]: row["offline"] for row in answer["worst"]} == {
        row["scenario"]: row["offline"] for row in rows
    }


def test_rows_go_to_a_pipe(state):
    """`--format csv` without a file: rows on standard output, and nothing else."""
    found = run("--every", 1, "--format", "csv")
    rows = pa_csv.read_csv(io.BytesIO(found.stdout.encode()))
    assert rows.num_rows == 13
    assert rows["offline"].to_pylist() == (
        kfast.sweep(state, kfast.every_broker(state))["offline"].to_pylist()
    )


def test_scenarios_from_a_file(tmp_path):
    """CSV and Parquet tell the same."""
    (tmp_path / "s.csv").write_text("scenario,broker\n1,101\n1,102\n2,103\n")
    table = pa.table({"scenario": [1, 1, 2], "broker": [101, 102, 103]})
    pq.write_table(table, tmp_path / "s.parquet")
    answers = [
        json.loads(run("--scenarios", tmp_path / name, "--format", "json").stdout)
        for name in ("s.csv", "s.parquet")
    ]
    assert answers[0]["worst"] == answers[1]["worst"]
    assert sorted(row["brokers"] for row in answers[0]["worst"]) == [[101, 102], [103]]


def test_a_condition_ends_with_its_exit_code():
    """--fail-on compares the largest value of any scenario."""
    said = run("--every", 1, "--fail-on", "offline>0", code=4).stderr
    assert "--fail-on offline>0 holds: offline is 1" in said
    run("--every", 1, "--fail-on", "offline>1")


def test_a_sweep_that_goes_on_compares_with_the_baseline_too():
    """Without it, what is under min ISR anyway counted as a scenario's doing."""
    whole, rest = (
        json.loads(run("--every", 1, *more, "--format", "json").stdout)
        for more in ((), ("--from", "1"))
    )
    assert rest["n_worse"] == whole["n_worse"]
    assert rest["verdict"] == whole["verdict"]


def test_an_interrupted_batch_does_not_count(tmp_path, monkeypatch):
    """Whoever goes on with --from would miss rows that were never written."""
    made = []

    def interrupted(column, to_terminal):
        made.append(column)
        if len(made) > 20:
            raise KeyboardInterrupt
        return column

    monkeypatch.setattr(writing, "_csv_column", interrupted)
    found = run("--random", 9000, "--down", 3, "--table", "scenarios", "-o",
                tmp_path / "x.csv", code=130)
    n = len((tmp_path / "x.partial.csv").read_text().splitlines()) - 1
    assert f"holds {n} scenarios, up to number {n - 1}" in found.stderr


def test_a_file_of_scenarios_that_is_not_there_is_named(tmp_path):
    found = run("--scenarios", tmp_path / "none.csv", code=3)
    assert found.stderr.startswith(f"Error: {tmp_path / 'none.csv'}: ")
