"""`kfast replay`, as a user types it, and the page that tells of it."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import kfast
from kfast.replay_results.verdicts import VERDICTS
from kfast.report.replay import INCIDENT_TABLES, REPLAY_METRICS
from kfast.report.writing import ANSWER_KEY
from kfast.schema import (
    BROKER_SESSIONS,
    CONTROLLER_TERMS,
    FACTS,
    OUTAGES,
    REPLAY_REASSIGNMENTS,
    TIMELINE,
)
from tests.style.test_readme import blocks
from tests.support.cli_run import ROOT, answer, check_page, run
from tests.support.replay_story import CONTROLLER_LOG, OF_ANY_RELEASE, STATE_CHANGE_LOG, write_logs

pytestmark = pytest.mark.kernels

PAGE = (ROOT / "docs" / "replay.md").read_text()
INCIDENT_RESULTS = TIMELINE, OUTAGES, REPLAY_REASSIGNMENTS, BROKER_SESSIONS, CONTROLLER_TERMS
ELECTED = "with state LeaderAndIsr(leader=3, leaderEpoch=2,"
CONDITION_HOLDS = 4


@pytest.fixture
def incident(tmp_path, monkeypatch):
    """Name of a folder with logs in which everything agrees; it is in the current one."""
    monkeypatch.chdir(tmp_path)
    write_logs(tmp_path / "incident")
    return "incident"


@pytest.fixture
def wrong(incident):
    """The same with another leader epoch in one line; its number."""
    path = Path(incident) / STATE_CHANGE_LOG
    lines = path.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if ELECTED in line)
    lines[number] = lines[number].replace("leaderEpoch=2,", "leaderEpoch=7,")
    path.write_text("".join(lines))
    return number + 1


def test_recall_is_unknown_where_no_decision_could_be_looked_for(incident):
    """Without state-change.log of the controller: null with the reason, in every form."""
    (Path(incident) / STATE_CHANGE_LOG).unlink()
    found = kfast.replay(incident, "zk-2.4")
    reason = "no line of its level is in the controller's state-change.log"
    assert (found.decisions, found.recall_percent, found.why_no_recall) == (0, None, reason)
    arguments = ["replay", incident, "--profile", "zk-2.4"]
    document = answer(*arguments)
    assert (document["summary"]["recall_percent"], document["why_no_recall"]) == (None, reason)
    run(*arguments, "-o", "facts.parquet")
    refused = run(*arguments, "--fail-on", "recall_percent<100", code=2)
    assert "nothing in the input tells recall_percent" in refused.stderr
    assert f"no decision could be looked for: {reason}." in run(*arguments).stdout
    told = json.loads(pq.read_schema("facts.parquet").metadata[ANSWER_KEY])
    assert told["summary"]["recall_percent"] is None


def test_replay_answers_what_the_library_says(incident):
    """The document has the counts, the reasons, and every row of the timeline."""
    document = answer("replay", incident)
    found = kfast.replay(incident)
    assert document["inputs"] == [incident]
    assert (document["profile"], document["release"]) == (found.profile, found.release)
    assert document["files"] == list(found.files)
    assert document["lines"] == found.n_lines
    assert document["notes"] == list(found.notes)
    assert document["adopted"] == found.reasons
    assert document["unknown"] == found.unknown_reasons == {}
    assert document["entries"] == found.lines
    assert document["contradictions"] == document["warnings"] == document["not_understood"] == []
    for verdict, n in found.counts.items():
        assert document["summary"][verdict] == n
        assert sum(kind[verdict] for kind in document["kinds"]) == n
    assert set(document["summary"]) == set(REPLAY_METRICS)
    assert document["summary"]["facts"] == found.facts.num_rows
    for name, result in zip(INCIDENT_TABLES, INCIDENT_RESULTS, strict=True):
        rows = [set(result.schema.names)] * getattr(found, name).num_rows
        assert [set(row) for row in document[name]] == rows


def test_the_timeline_tells_the_story(incident):
    """Who came and went, and that `solo-0` had no leader until broker 3 was back."""
    document = answer("replay", incident)
    assert [row["what"] for row in document["timeline"]] == [
        "broker 1 becomes controller, epoch 4; brokers 1,2,3",
        "topic created: solo, wide (4 partitions)",
        "brokers gone: 3",
        "brokers up: 3",
        "leaders change 2 ISRs",
        "leaders change 2 ISRs",
        "automatic balancing of leaders",
        "broker 2 asks to shut down",
        "brokers gone: 2",
    ]
    failed, back = document["timeline"][2:4]
    assert failed["became_leaderless"] == back["got_leader"] == ["solo-0"]
    (outage,) = document["outages"]
    assert (outage["since"], outage["until"]) == (failed["time"], back["time"])
    assert back["longest_ms"] == outage["duration_ms"]


def test_sessions_and_terms_of_the_incident(incident):
    """Who was up when, as the controller saw it; it was one controller all along."""
    document = answer("replay", incident)
    created, failed, back, stopped = (document["timeline"][at]["time"] for at in (0, 2, 3, 8))
    assert [(row["broker_id"], row["since"], row["until"]) for row in document["broker_sessions"]] \
        == [(1, None, None), (2, None, stopped), (3, None, failed), (3, back, None)]
    (term,) = document["controller_terms"]
    assert (term["controller"], term["controller_epoch"]) == (1, 4)
    assert term["since"] <= created
    assert term["until"] is None
    assert document["reassignments"] == []


def test_the_text_says_the_same(incident):
    """Verdicts, reasons, the timeline and who was without a leader."""
    document = answer("replay", incident)
    text = run("replay", incident).stdout
    assert f"{document['summary']['predicted']} " in text
    for word in (*document["adopted"], *document["notes"], *document["entries"]):
        assert word in text
    for row in document["timeline"]:
        assert row["what"] in text
    assert re.search(r"10\.\d{3} s +1  solo-0$", text, re.MULTILINE)
    assert "Contradictions" not in text
    assert "Damaged lines" not in text


def test_a_contradiction_ends_with_4(incident, wrong):
    """The line is shown with what was predicted, in every form."""
    document = answer("replay", incident, code=CONDITION_HOLDS)
    assert document["summary"]["contradicted"] == len(document["contradictions"]) > 0
    first = document["contradictions"][0]
    assert (first["kind"], first["logged"], first["predicted"]) == ("leader epoch", "7", "2")
    assert (first["line"]["file"], first["line"]["line"]) == (STATE_CHANGE_LOG, wrong)
    found = run("replay", incident, code=CONDITION_HOLDS)
    assert f"leader epoch of {first['subject']}: logged 7, predicted 2" in found.stdout
    assert f"  {STATE_CHANGE_LOG}:{wrong}: " in found.stdout
    n = document["summary"]["contradicted"]
    assert found.stderr == f"--fail-on contradicted>0 holds: contradicted is {n}\n"


def test_a_damaged_line_is_shown_and_does_not_fail(incident):
    """Unless a condition says that it shall."""
    path = Path(incident) / CONTROLLER_LOG
    path.write_bytes(path.read_bytes()[:-2])
    number = len(path.read_text().splitlines())
    shown = f"{CONTROLLER_LOG}:{number}: the file ends within this line"
    assert shown in run("replay", incident).stdout
    failed = run("replay", incident, "--fail-on", "warnings>0", code=CONDITION_HOLDS)
    assert "--fail-on warnings>0 holds: warnings is 1" in failed.stderr


@pytest.mark.parametrize(
    ("condition", "code"),
    [("adopted_percent>10", 0), ("leaderless>=1", 4), ("longest_leaderless_s>60", 0)],
)
def test_conditions(condition, code, incident):
    """Exit code 4 where one holds; the document says which."""
    document = answer("replay", incident, "--fail-on", condition, code=code)
    metric = re.match(r"\w+", condition)[0]
    assert document["fail_on"] == [
        {"condition": "contradicted>0", "value": 0, "holds": False},
        {"condition": "missing>0", "value": 0, "holds": False},
        {
            "condition": condition, "value": document["summary"][metric],
            "holds": code == CONDITION_HOLDS,
        },
    ]


def test_parquet_has_one_row_per_fact(incident):
    """The report is in the metadata; the name of the file tells the form."""
    assert run("replay", incident, "-o", "facts.parquet").stderr == "Wrote facts.parquet.\n"
    table = pq.read_table("facts.parquet")
    assert table.equals(kfast.replay(incident).facts)
    assert table.column_names == FACTS.schema.names
    document = json.loads(table.schema.metadata[b"kfast.answer"])
    assert document["summary"]["facts"] == table.num_rows
    run("replay", incident, "-o", "answer.json")
    assert json.loads(Path("answer.json").read_text())["summary"] == document["summary"]


def test_several_folders_are_one_cluster(incident):
    """Each broker's folder by its own name, and files."""
    whole = answer("replay", incident)["summary"]
    folders = [f"{incident}/broker-{n}" for n in (1, 2, 3)]
    assert answer("replay", *folders)["summary"] == whole


def test_the_profile_may_be_given(incident):
    """By its name or as a release; a wrong one is an error of usage that lists the right ones."""
    by_name = answer("replay", incident, "--profile", "zk-2.4")
    assert (by_name["profile"], by_name["release"]) == ("zk-2.4", None)
    assert by_name["notes"] == ["zk-2.4, as asked"]
    assert by_name["summary"]["contradicted"] == 0
    assert answer("replay", incident, "--profile", "2.5")["profile"] == "zk-2.5"
    refused = run("replay", incident, "--profile", "kraft", code=2)
    assert "profile 'kraft' is unknown; allowed: zk-3.9" in refused.stderr


def test_what_cannot_be_replayed_is_refused(incident):
    """Bad input ends with 3 and says what is missing; bad usage with 2."""
    Path("empty").mkdir()
    assert "there is no such file or folder" in run("replay", "nowhere", code=3).stderr
    refused = run("replay", "empty", code=3).stderr
    assert "empty: no controller.log or state-change.log is in it" in refused
    assert "DIRECTORY" in run("replay", code=2).stderr
    assert "ends in .pdf" in run("replay", incident, "-o", "x.pdf", code=2).stderr
    assert sorted(path.name for path in Path().iterdir()) == ["empty", "incident"]


def test_a_release_that_cannot_be_told_asks_for_a_profile(tmp_path):
    """The error names the option; with it the replay goes on."""
    (tmp_path / "controller.log").write_text(OF_ANY_RELEASE)
    refused = run("replay", tmp_path, code=3).stderr
    assert "cannot be told" in refused
    assert "--profile" in refused
    document = answer("replay", tmp_path, "--profile", "2.4")
    assert (document["profile"], document["summary"]["contradicted"]) == ("zk-2.4", 0)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder in which the page's commands run as at the top of the tree, and leave nothing."""
    (tmp_path / "bench_data").symlink_to(ROOT / "bench_data")
    monkeypatch.chdir(tmp_path)
    here = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    for commands in blocks(PAGE, "sh"):
        subprocess.run(["sh", "-e"], input=commands, text=True, check=True)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("block", blocks(PAGE, "console"), ids=lambda b: b.splitlines()[0][2:])
def test_the_page_shows_what_the_command_prints(block):
    """A line of three dots stands for any lines."""
    check_page(block, CONDITION_HOLDS if "Contradictions" in block else 0)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("name", ["replay", "line_to_verdict"])
def test_the_pages_show_what_python_answers(name):
    """Every `>>>` line of a page, in one session."""
    page = (ROOT / "docs" / f"{name}.md").read_text()
    examples = "\n".join(blocks(page, "pycon"))
    session = doctest.DocTestParser().get_doctest(examples, {}, "page", None, 0)
    assert len(session.examples) > 4
    assert doctest.DocTestRunner().run(session).failed == 0


def test_the_page_has_every_metric_column_and_reason():
    """As the tables in the source have them."""
    for metric, meaning in REPLAY_METRICS.items():
        assert f"| `{metric}` | {meaning} |" in PAGE
    for result in (FACTS, *INCIDENT_RESULTS):
        assert f"`{result.name.removeprefix('replay.')}`" in PAGE or result in (FACTS, TIMELINE)
        for name in result.schema.names:
            assert f"`{name}`" in PAGE
    for verdict in VERDICTS:
        assert f"\n| {verdict} | " in PAGE
        assert verdict in next(one.meaning for one in FACTS.columns if one.name == "verdict")
