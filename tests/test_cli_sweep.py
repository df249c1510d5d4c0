"""`kfast sweep`: the worst scenarios lead and say why; rows go to Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kfast
from kfast.cli import sweep as command
from kfast.cli.app import commands

DATA = Path(__file__).resolve().parent.parent / "bench_data"
CLUSTER = (str(DATA / "describe.txt"), "--brokers-file", str(DATA / "brokers.csv"))


def run(*arguments, code=0):
    """Run `kfast sweep` on the cluster in bench_data."""
    result = CliRunner().invoke(commands, ["sweep", *CLUSTER, *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


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
    text = run("--racks").stdout
    assert text.startswith("Every rack: 4 of 4 scenarios.\n")
    assert "101,104,107,110  a" in text
    assert "Scenario 1: 7 partitions newly offline, of 2 topics: legacy-imports (4)" in text


def test_rows_go_to_parquet(state, tmp_path):
    """All rows; the summary stands in the file's metadata."""
    path = tmp_path / "sweep.parquet"
    run("--random", 300, "--down", 2, "--seed", 4, "-o", path)
    expected = kfast.sweep(state, kfast.random_brokers(state, 2, 300, 4))
    assert pq.read_table(path).replace_schema_metadata(None) == expected
    summary = json.loads(pq.read_metadata(path).metadata[b"kfast.sweep"])
    assert summary["offline"] == max(expected["offline"].to_pylist()[1:])


def test_an_interrupted_sweep_leaves_whole_batches(state, tmp_path, monkeypatch):
    """Ctrl-C after two batches: the file can be read, and --from goes on where it ended."""
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    real = command.sweep_reader

    def stops(*args, **options):
        reader = real(*args, **options)

        def batches():
            yield reader.read_next_batch()
            yield reader.read_next_batch()
            raise KeyboardInterrupt

        return batches()

    asked = ("--random", 9000, "--down", 3)
    monkeypatch.setattr(command, "sweep_reader", stops)
    said = run(*asked, "-o", first, code=130).stderr
    assert "holds 4096 scenarios, up to number 4095; go on with the same command, --from 4096" in (
        " ".join(said.split())
    )
    monkeypatch.setattr(command, "sweep_reader", real)
    run(*asked, "-o", second, "--from", 4096)
    both = pa.concat_tables([pq.read_table(path) for path in (first, second)])
    expected = kfast.sweep(state, kfast.random_brokers(state, 3, 9000, 1))
    assert both.replace_schema_metadata(None) == expected


def test_scenarios_from_a_file(tmp_path):
    """CSV and Parquet tell the same."""
    (tmp_path / "s.csv").write_text("scenario,broker\n1,101\n1,102\n2,103\n")
    table = pa.table({"scenario": [1, 1, 2], "broker": [101, 102, 103]})
    pq.write_table(table, tmp_path / "s.parquet")
    answers = [
        json.loads(run("--table", tmp_path / name, "--format", "json").stdout)
        for name in ("s.csv", "s.parquet")
    ]
    assert answers[0]["worst"] == answers[1]["worst"]
    assert sorted(row["brokers"] for row in answers[0]["worst"]) == [[101, 102], [103]]


def test_a_condition_ends_with_its_exit_code():
    """--fail-on compares the largest value of any scenario."""
    said = run("--every", 1, "--fail-on", "offline>0", code=4).stderr
    assert "--fail-on offline>0 holds: offline is 1" in said
    run("--every", 1, "--fail-on", "offline>1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which failures"),
        (("--racks", "--every", 1), "say which failures"),
        (("--random", 5), "goes with one of --down K and --probability P"),
        (("--every", 1, "--down", 3), "goes with one of --down K and --probability P"),
        (("--every", 13), "k is 13; 12 brokers are registered"),
        (("--every", 1, "-o", "rows.csv"), "end the name in .parquet"),
        (("--every", 1, "--from", 14), "the last scenario is 12"),
    ],
)
def test_what_cannot_be_asked_is_refused(arguments, message):
    assert message in " ".join(run(*arguments, code=2).stderr.replace("│", " ").split())
