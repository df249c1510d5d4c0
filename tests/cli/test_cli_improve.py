"""`kfast plan improve`: the files, the answer, what is refused; nothing is half written."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from kfast.report.plan_check import PLAN_TABLES
from kfast.report.plan_improve import IMPROVE_METRICS, IMPROVE_TABLES
from tests.support.cli_run import DESCRIBE, ESCAPE, RACKS, ROOT, run_on_terminal, verdict_of
from tests.support.cli_run import run as run_command

DATA = ROOT / "bench_data"
INPUT = (
    DATA / "describe.txt", "--brokers-file", DATA / "brokers.csv",
    "--load", DATA / "metrics.prom.gz", "--load", DATA / "log-dirs.json.gz",
    "--capacity", DATA / "capacities.csv",
)
REPLACED = ("--add-brokers", "113:rack=b")
MOVES = (*REPLACED, "--remove-brokers", "105", "--max-bytes", "30TB", "--batch-seconds", "86400")


def run(*arguments, code=0, cluster=INPUT):
    return run_command("plan", "improve", *cluster, *arguments, code=code)


@pytest.fixture(scope="module")
def replaced(tmp_path_factory):
    """Broker 105 is replaced by 113: the folder and the answer."""
    folder = tmp_path_factory.mktemp("improve") / "plans"
    found = run(*MOVES, "-o", folder, "--top", "9999", "--format", "json")
    assert found.stderr.startswith(f"Wrote {len(list(folder.iterdir()))} files to {folder}.")
    return folder, json.loads(found.stdout)


def test_the_check_of_the_files_agrees_with_every_figure(replaced):
    folder, answer = replaced
    files = sorted(folder.glob("batch-*.json"))
    assert len(files) == answer["summary"]["batches"] > 5
    rates = [row["throttle"] for row in answer["batches"]]
    assert rates[0] is None  # leaders alone move
    throttles = [part for rate in rates for part in ("--throttle", rate or 1)]
    plans = [part for file in files for part in ("--plan", file)]
    checked = json.loads(run_command(
        "plan", "check", *INPUT, *plans, *REPLACED, "--every", 1, *throttles,
        "--top", "9999", "--format", "json",
    ).stdout)
    same = ("objective", "brokers", "broken_rules", "failures", "moves", "baseline_before",
            "baseline_after", "reasons", "safe", "better")
    for name in same:
        assert checked[name] == answer[name], name
    for one, other in zip(checked["batches"], answer["batches"], strict=True):
        assert one | {"throttle": other["throttle"]} == other
    for name, value in checked["summary"].items():
        assert answer["summary"][name] == value, name


def test_files_are_plans_that_reach_the_goal(replaced):
    folder, answer = replaced
    state = kfast.read(INPUT[0], brokers_file=INPUT[2], add_brokers={113: "b"})
    after = kfast.execute_plan(state, kfast.read_plan(folder / "plan.json")).state
    held = after.to_tables().partitions["replicas"].combine_chunks().flatten().to_pylist()
    assert 105 not in held
    assert 113 in held
    back = kfast.execute_plan(after, kfast.read_plan(folder / "rollback.json")).state
    assert back.to_tables().partitions["replicas"] == state.to_tables().partitions["replicas"]
    assert answer["safe"]
    assert answer["better"]


def test_commands_execute_each_batch(replaced):
    folder, answer = replaced
    for number, (commands, row) in enumerate(
        zip(answer["commands"], answer["batches"], strict=True), 1
    ):
        file = f"{folder}/batch-{number:03}.json"
        execute, verify, elect = commands
        rate = "" if row["throttle"] is None else f" --throttle {row['throttle']}"
        assert execute.endswith(f"--reassignment-json-file {file} --execute{rate}")
        assert verify.endswith(f"--reassignment-json-file {file} --verify")
        assert elect.endswith(f"--election-type preferred --path-to-json-file {file}")


def test_the_verdict_says_how_good_it_is_and_why_the_search_ended():
    both = ("--protect", "every-broker,every-rack")
    found = run(*both)
    verdict = verdict_of(found.stdout).splitlines()
    assert verdict[0] == "SAFE: 82 entries in 1 batch, 0 replicas copied (0 B)."
    assert verdict[1] == (
        "At worst a broker uses 96.8 % of a limit, whether any broker or any rack fails or none; "
        "104.3 % before."
    )
    assert verdict[2].startswith("With all live replicas in sync and preferred leaders: 89.4 % (")
    assert verdict[3].startswith("No placement is below 87.6 % (nw_out: ")
    assert verdict[3].endswith("The search ended: that is as close as --gap asks for.")
    assert found.stderr == "No plan is written: -o FOLDER writes its batches.\n"
    ended = run(*both, "--gap", 0, "--search-seconds", 0).stdout
    assert "The search ended: the time of --search-seconds is over." in ended


def test_leaders_alone_copy_nothing():
    answer = json.loads(run("--leadership-only", "--format", "json").stdout)
    (batch,) = answer["batches"]
    assert batch["leadership_only"] == batch["partitions"] > 0
    assert answer["summary"]["bytes_moved"] == 0
    wrong = run("--leadership-only", "--remove-brokers", "105", code=2)
    assert "leadership_only" in wrong.stderr


def test_where_nothing_is_better_nothing_is_written(tmp_path):
    found = run("--gap", 10, "-o", tmp_path / "plans", "--fail-on", "batches>0")
    assert verdict_of(found.stdout).startswith("NOTHING TO MOVE: no placement was found that is ")
    assert list(tmp_path.iterdir()) == []
    answer = json.loads(run("--gap", 10, "--format", "json").stdout)
    assert answer["batches"] == answer["commands"] == []
    assert answer["folder"] is None


def small_cluster(folder, disk):
    """Four brokers, of which broker 4 is down, as INPUT and options."""
    texts = {
        "describe.txt": DESCRIBE, "brokers.csv": RACKS,
        "loads.csv": "topic,bytes_in,bytes_out,disk_bytes\norders,1000,1000,2000000\nlogs,9,9,9\n",
        "capacities.csv": f"broker_id,nw_in,nw_out,disk_bytes\n-1,1000000,1000000,{disk}\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return (folder / "describe.txt", "--brokers-file", folder / "brokers.csv",
            "--load", folder / "loads.csv", "--capacity", folder / "capacities.csv")


def test_replicas_leave_a_broker_that_is_down(tmp_path):
    cluster = small_cluster(tmp_path, 10**9)
    run("-o", tmp_path / "plans", cluster=cluster)
    plan = json.loads((tmp_path / "plans" / "plan.json").read_text())["partitions"]
    moved = {(row["topic"], row["partition"]): row["replicas"] for row in plan}
    assert 4 not in moved["logs", 1]
    kept = run("--keep-brokers", "4", "--format", "json", cluster=cluster)
    assert ("logs", 1) not in {
        (row["topic"], row["partition"]) for row in json.loads(kept.stdout).get("partitions", [])
    }


def test_replicas_that_stay_on_a_broker_that_should_be_empty_are_counted():
    found = run("--remove-brokers", "105", "--max-bytes", "1TB", "--format", "json")
    answer = json.loads(found.stdout)
    assert 0 < answer["summary"]["bytes_moved"] <= 10**12
    n = answer["placement"]["after"]["replicas_misplaced"]
    (line,) = [line for line in answer["verdict"] if line.startswith("Warning: ")]
    assert line.startswith(f"Warning: {n} replicas stay on brokers that are down, have to give up")
    (removed,) = [row for row in answer["brokers"] if row["broker_id"] == 105]
    assert removed["replicas_after"] == n


def test_what_no_batch_can_execute_is_named(tmp_path):
    """Producers write more to a new replica than the throttle lets through."""
    cluster = small_cluster(tmp_path, 10**9)
    options = ("--remove-brokers", "3", "--add-brokers", "5:rack=a", "--throttle", "400")
    found = run(*options, "-o", tmp_path / "plans", cluster=cluster)
    assert "of that can be in no batch, see below." in found.stdout
    assert "its network leaves 400 B/s for copies, and producers write 500 B/s" in found.stdout
    run(*options, "--fail-on", "unscheduled>0", cluster=cluster, code=4)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet", "arrow"])
@pytest.mark.parametrize("name", ["batches", "unscheduled"])
def test_tables_go_to_standard_output_in_every_form(name, kind):
    """Those of `kfast plan check`, and one more."""
    assert {name, *PLAN_TABLES} <= set(IMPROVE_TABLES)
    data = run("--format", kind, "--table", name).stdout_bytes
    if kind == "json":
        n = len(data.splitlines())
    elif kind == "csv":
        n = len(data.splitlines()) - 1
    else:
        n = (pq.read_table(pa.BufferReader(data)) if kind == "parquet"
             else pa.ipc.open_file(data).read_all()).num_rows
    assert n == (name == "batches")


def test_conditions():
    run("--fail-on", "gap>0.05", "--fail-on", "worst_share_after>1")
    failed = run("--fail-on", "worst_share_before>0.8", code=4)
    assert "--fail-on worst_share_before>0.8 holds" in failed.stderr
    assert set(IMPROVE_METRICS) <= set(json.loads(run("--format", "json").stdout)["summary"])


REFUSED = {
    "--remove-brokers 7": "7",
    "--remove-brokers 105 --keep-brokers 105": "both have broker 105",
    "--keep-topics (": "right is a regular expression",
    "--max-bytes 2XB": "--max-bytes",
    "--throttle fast": "--throttle",
    "--protect rack": "protect has 'rack'; allowed are every-broker, every-rack, none",
    "--batch-seconds 0": "--batch-seconds",
    "-o /dev/null/plans": "does not exist",
    "--fail-on offline>0": "metric 'offline' is unknown",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(arguments):
    wrong = run(*arguments.split(), code=2)
    assert wrong.stdout == ""
    assert REFUSED[arguments] in " ".join(wrong.stderr.split())


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    wrong = run("-o", tmp_path, code=2)
    assert "is there already; right is the name of a new folder" in " ".join(wrong.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    wrong = run("-o", tmp_path / "plans", code=2)
    assert "cannot be written" in wrong.stderr


@pytest.mark.parametrize("place", ["improve_placement", "plan_batches", "check_plan"])
def test_an_interrupt_leaves_nothing(place, tmp_path, monkeypatch):
    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"kfast.cli.plan.{place}", interrupt)
    assert run("-o", tmp_path / "plans", code=130).stderr.strip() == "Interrupted."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("columns", [50, 80])
def test_a_terminal_of_any_width(columns, tmp_path):
    """Tables fit; only commands are wider, for they are to be copied."""
    shown, code = run_on_terminal(
        "plan", "improve", *INPUT, "-o", tmp_path / "plans", columns=columns
    )
    assert code == 0
    text = ESCAPE.sub("", shown).partition("Controller: ")[2].partition("How to execute it")[0]
    assert max(map(len, text.splitlines()[1:])) <= columns
    assert f"--reassignment-json-file {tmp_path}/plans/batch-001.json --execute" in shown
