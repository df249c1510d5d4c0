"""`kfast restart` and `kfast risk`: answers, files, what is refused, and their pages."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time

import pyarrow.parquet as pq
import pytest

import kfast
from kfast import generate
from kfast.analysis.restart_readiness import CAUSES
from kfast.report.restart import PLAN_METRICS, READINESS_METRICS
from kfast.report.risk import RISK_COUNTS
from kfast.report.wording import broker_ranges, percent
from kfast.schema import RISK_METRICS
from tests.style.test_readme import blocks
from tests.support.cli_run import (
    KFAST,
    ROOT,
    answer,
    check_page,
    heed_interrupts,
    run,
    verdict_of,
)

pytestmark = pytest.mark.kernels
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("restart", "risk")}


@pytest.fixture
def many(tmp_path):
    """Name of a cluster of 40 brokers that share partitions at random."""
    path = tmp_path / "many.arrow"
    kfast.write(generate(brokers=40, partitions=300, placement="uniform", seed=2,
                         min_insync_replicas=2), path)
    return path


def test_restart_answers_what_the_library_says(cluster, racks):
    """The document has the plan's tables, counts, times and the settings to blame."""
    arguments = (cluster, "--brokers-file", racks, "--seconds-per-broker", 60, "--up", "4")
    document = answer("restart", *arguments)
    state = kfast.read(cluster, brokers_file=racks, up=[4])
    plan = kfast.restart_plan(state, seconds_per_broker=60)
    assert document["summary"] == plan.counts
    assert document["batches"] == plan.batches.to_pylist()
    assert document["brokers"] == plan.readiness.brokers.to_pylist()
    assert document["topics"] == plan.readiness.topics.to_pylist()
    assert (document["total_s"], document["is_optimal"]) == (plan.total_s, True)
    assert document["question"] == {
        "isr_margin": 0, "by_rack": False, "seconds_per_broker": 60.0,
    }
    assert {*PLAN_METRICS, *READINESS_METRICS} == {*plan.counts, "forbidding"}
    text = run("restart", *arguments).stdout
    assert verdict_of(text).startswith(
        f"NOT SAFE: 4 brokers in {plan.n_batches} batches; 2 partitions do not keep min ISR, "
    )
    may = plan.readiness.may_restart
    assert document["may_restart"] == plan.state.broker_id[may].tolist() == [2, 4]
    assert "Now, alone: brokers 2, 4 may be restarted; 2 may not." in text
    assert "No plan has fewer batches. At 60 s" in text
    assert f"this takes {plan.total_s:g} s; one broker at a time 240 s." in text
    assert "logs   replication_factor" in text
    margin = run("restart", cluster, "--isr-margin", 1, "--by-rack", "--brokers-file", racks).stdout
    assert "batches, rack by rack; 4 partitions do not keep min ISR and 1 in-sync replica" in margin
    assert "1 because the replication factor leaves less" not in text


def test_a_broker_that_is_down_is_noted(cluster):
    """It is in no batch, and the assumption that it is down is repeated."""
    text = run("restart", cluster).stdout
    assert "Note: broker 4 is not live, and in no batch" in text
    assert "taken for down" in text


def test_risk_answers_what_the_library_says(cluster, racks):
    """Chances, worst groups with the topics to blame, copysets and brokers."""
    arguments = (cluster, "--brokers-file", racks, "--up", "4")
    document = answer("risk", *arguments)
    found = kfast.risk(kfast.read(cluster, brokers_file=racks, up=[4]))
    assert document["chances"] == found.chances([1, 2, 3]).to_pylist()
    assert document["copysets"] == found.copysets.to_pylist()
    assert document["brokers"] == found.brokers.to_pylist()
    assert set(document["summary"]) == set(RISK_COUNTS)
    for name, k in (("broker", 1), ("pair", 2), ("triple", 3)):
        expected = found.worst(k).to_pylist()
        rows = document[f"worst_{name}s"]
        assert [row["brokers"] for row in rows] == [row["brokers"] for row in expected]
        worst = max(row["newly_offline_if_clean"] for row in expected)
        assert document["summary"][f"{name}_offline_if_clean"] == worst
        for row in rows:
            lost = found.lost(row["brokers"])
            some = lost.filter(lost[row["because"]]).to_pylist()
            assert row["partitions"] == [f"{r['topic']}-{r['partition']}" for r in some[:5]]
            assert sum(topic["partitions"] for topic in row["topics"]) == len(some)
    text = run("risk", *arguments).stdout
    assert "Worst three brokers to fail together" in text
    assert re.search(r"^3 +1 +\d+ +0 +a +logs 1$", text, re.MULTILINE)
    assert "drawn failures" not in text


def test_what_is_drawn_has_its_interval(many):
    """14 of 40 brokers cannot be counted: the text says how sure it is, JSON has both ends."""
    document = answer("risk", many, "--down", "14", "--random", 500, "--top", 1)
    row = document["chances"][0]
    assert (row["method"], row["scenarios"]) == ("sampled", 500)
    assert row["any_probability_low"] < row["any_probability"] <= row["any_probability_high"]
    text = run("risk", many, "--down", "14", "--random", 500, "--top", 1).stdout
    assert "Intervals have 99 % confidence, from 500 drawn failures." in text
    assert f"{percent(row['any_probability_low'])}-" in text


def test_files_have_full_results(many, tmp_path):
    """Every broker, every pair, every partition that cannot be satisfied."""
    state = kfast.read(many)
    plan, found = kfast.restart_plan(state, 1), kfast.risk(state)
    out, rest = tmp_path / "plan.parquet", tmp_path / "rest.parquet"
    run("restart", many, "--isr-margin", 1, "-o", out)
    run("restart", many, "--isr-margin", 1, "--table", "partitions", "-o", rest)
    assert pq.read_table(out).to_pylist() == plan.brokers.to_pylist()
    summary = json.loads(pq.read_schema(out).metadata[b"kfast.answer"])["summary"]
    assert summary == plan.counts
    assert pq.read_table(rest).to_pylist() == plan.readiness.partitions.to_pylist()
    assert pq.read_table(rest).num_rows == 300
    run("risk", many, "-o", out)
    assert pq.read_table(out).to_pylist() == found.pairs.to_pylist()


def test_conditions_end_with_code_4(cluster):
    """On either command; what holds is said."""
    found = run("restart", cluster, "--fail-on", "may_not_restart>0", code=4)
    assert "may_not_restart is 2" in found.stderr
    run("risk", cluster, "--fail-on", "broker_offline_if_clean>0", code=4)
    run("risk", cluster, "--fail-on", "copysets>99")


def test_ctrl_c_ends_a_plan(tmp_path):
    """Sent when the input has been read: code 130, one line, and no file."""
    path, out = tmp_path / "hard.arrow", tmp_path / "plan.json"
    kfast.write(generate(brokers=300, partitions=400_000, placement="uniform"), path)
    with subprocess.Popen(
        [*KFAST, "restart", "-", "-o", str(out)], cwd=ROOT, stdin=subprocess.PIPE,
        stderr=subprocess.PIPE, env=dict(os.environ, PYTHONPATH=str(ROOT)),
        preexec_fn=heed_interrupts,
    ) as process:
        process.stdin.write(path.read_bytes())
        process.stdin.close()
        time.sleep(0.8)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert (process.returncode, said) == (130, b"Interrupted.\n")
    assert not out.exists()


def test_ids_and_percents():
    """Runs as ranges; chances near 100 percent are not said to be certain."""
    assert broker_ranges([1, 2, 3, 5, 6, 9]) == "1-3, 5, 6, 9"
    assert [percent(p) for p in (0, 1, 0.5, 0.0015704, 0.999998, 1 - 1e-12)] == [
        "0", "100", "50", "0.157", "99.9998", "99.9999999999",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_show_what_the_commands_print(page, monkeypatch):
    """A line of three dots stands for any lines."""
    monkeypatch.chdir(ROOT)
    shown_blocks = blocks(PAGES[page], "console")
    assert shown_blocks
    for block in shown_blocks:
        check_page(block)


def test_the_pages_have_every_metric_and_cause():
    """`docs/restart.md` and `docs/risk.md` say what the tables in the source say."""
    for page, tables in (("restart", (PLAN_METRICS, READINESS_METRICS, CAUSES)),
                         ("risk", (RISK_COUNTS, RISK_METRICS))):
        for name, meaning in (item for table in tables for item in table.items()):
            assert f"| `{name}` | {meaning} |" in PAGES[page], name


# --- risk in a year -----------------------------------------------------------------------------

YEARLY = ("risk", "--mttf", "1096d", "--replace-hours", "4")


def test_risk_in_a_year_is_the_librarys(many):
    """The table, the verdict and the note that independence flatters."""
    path = many
    rows = "topic,bytes_in\n" + "".join(
        f"{topic},1000000\n" for topic in kfast.read(path).topic.to_pylist()
    )
    loads = many.with_name("loads.csv")
    loads.write_text(rows)
    document = answer(*YEARLY, path, "--load", loads)
    state = kfast.read(path)
    load = kfast.partition_load(state, kfast.read_load(loads))
    found = kfast.durability(state, mttf_years=1096 / 365.25, repair_hours=4, load=load)
    assert document["yearly"]["durability"] == found.copysets.to_pylist()
    assert document["yearly"]["availability"] == found.availability.to_pylist()
    assert any("198 times" in note for note in document["notes"])
    assert any("if brokers fail independently" in line for line in document["verdict"])
    table = run(*YEARLY, path, "--table", "durability", "--format", "csv").stdout
    assert table.startswith('"copies","copysets","partitions","mttdl_years"')


def test_repair_times_follow_from_loads_and_capacities():
    """Of each broker, with the minutes until it is replaced, beside copysets and scatter widths."""
    data = ROOT / "bench_data"
    files = (data / "loads.csv", data / "capacities.csv")
    document = answer(
        "risk", data / "describe.txt", "--mttf", "3y", "--load", files[0], "--capacity", files[1],
        "--throttle", "80MB/s", "--detect-minutes", 30,
    )
    state = kfast.read(data / "describe.txt")
    load = kfast.partition_load(state, kfast.read_load(files[0]))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(files[1]))
    plan = kfast.prepare_capacity(state, load, capacity)
    throttled = kfast.Restoration(
        "replace", leader_throttle=80_000_000, follower_throttle=80_000_000)
    hours = kfast.repair_hours(plan, throttled, detect_minutes=30)
    found = kfast.durability(state, mttf_years=3, repair_hours=hours, load=load)
    assert document["yearly"]["durability"] == found.copysets.to_pylist()
    assert [row["seconds"] for row in document["yearly"]["repairs"]] == (hours * 3600).tolist()
    assert document["yearly"]["repair_seconds"] == max(hours * 3600)
    line = next(line for line in document["verdict"] if line.startswith("A lost broker"))
    assert re.fullmatch(
        r"A lost broker is restored within \d+ h \d+ min \(broker \d+\) to \d+ h \d+ min \(broker "
        r"\d+\), from the 10 brokers with which it shares partitions\. There are 157 "
        r"copysets; fewer would make losses rarer, and repairs slower\.", line)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mttf", "3y", "--replace-hours", "4", "--throttle", "5MB/s"),
         "--throttle goes with --capacity"),
        (("--mttf", "3y", "--replace-hours", "4", "--detect-minutes", "5"),
         "--detect-minutes goes with --capacity"),
        (("--mttf", "3y", "--capacity", "c.csv"), "--capacity goes with --load"),
        (("--mttf", "3y", "--capacity", "c.csv", "--replace-hours", "4"),
         "--mttf and --replace-hours go together, or --mttf and --capacity"),
        (("--capacity", "c.csv"), "or --mttf and --capacity"),
        (("--mttf", "3y"), "--mttf and --replace-hours go together"),
        (("--mttf", "3 weeks", "--replace-hours", "4"), "'3 weeks' is no time, such as 3y"),
        (("--outages-per-year", "3"), "go with --mttf and --replace-hours"),
        (("--window", "mean"), "--window goes with --load"),
        (("--mttf", "10h", "--replace-hours", "4"), "at least 1000 repair times"),
        (("--table", "durability", "--format", "csv"), "this answer has no table durability"),
    ],
)
def test_wrong_options_of_a_year_are_refused(many, options, message):
    error = run("risk", many, *options, code=2).stderr
    assert message in error
