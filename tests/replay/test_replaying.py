"""The logs of two clusters that really ran replay, and one changed number in them is found."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import kfast
from kfast.controllers.zk.profiles import RELEASES
from kfast.log_replay import Replay, replay
from tests.support.long_tests import share_of
from tests.support.replay_story import write_logs

LOGS = ("zk-2.8-two-brokers", "zk-3.0-three-brokers")
SMALL = LOGS[1]
REASONS = {
    "written before the log begins",
    "changed in a hole of the log",
    "changed between two controllers",
    "a broker's answer that is not logged",
    "an ISR that a leader wrote, heard of later",
    "an ISR change whose partitions no line names",
    "an event that is inferred from these lines",
    "the last member of an ISR, taken from a later line",
    "the number of ISR writes, taken from a later line",
    "an election outside the ISR that nothing announced",
    "decided by a partition's leader",
    "given to a broker when it registered",
    "remembered by a broker from before the log",
}
"""All reasons there are for taking a fact from the log."""


@pytest.fixture(scope="module")
def folder(shared_data):
    """Folder of one of the two logs."""

    def named(log: str) -> Path:
        found = shared_data / "controller_logs" / log
        if not found.is_dir():
            pytest.skip(f"the real logs are not there ({found})")
        return found

    return named


@pytest.fixture(scope="module")
def replayed(folder):
    """What becomes of each log; each is replayed once."""
    known: dict[str, Replay] = {}

    def of(log: str) -> Replay:
        if log not in known:
            known[log] = replay(folder(log))
        return known[log]

    return of


@pytest.mark.parametrize("log", LOGS)
def test_nothing_is_contradicted_and_little_is_adopted(log, replayed):
    """At most a tenth of the facts is taken from the log, each for one of the named reasons."""
    found = replayed(log)
    assert [str(one) for one in found.contradictions] == []
    assert found.counts["contradicted"] == 0
    assert found.counts["predicted"] > 5000
    assert found.adopted_share <= 0.1
    assert set(found.reasons) <= REASONS
    assert found.warnings == ()


@pytest.mark.parametrize("log", LOGS)
def test_every_fact_has_a_verdict_and_an_adopted_one_a_reason(log, replayed):
    """A predicted fact is logged as predicted; a reason stands with what is adopted, only there."""
    found = replayed(log)
    facts = found.facts.to_pylist()
    assert Counter(fact["verdict"] for fact in facts) == +Counter(found.counts)
    assert {fact["verdict"] for fact in facts} <= {"predicted", "adopted", "unknown"}
    for fact in facts:
        assert bool(fact["reason"]) == (fact["verdict"] != "predicted"), fact
        assert fact["kind"], fact
        assert fact["subject"], fact
    adopted = Counter(fact["reason"] for fact in facts if fact["verdict"] == "adopted")
    assert adopted == Counter(found.reasons)


@pytest.mark.parametrize("log", LOGS)
def test_every_line_is_accounted_for(log, replayed, folder):
    """Each entry is one of four things; none is of unknown wording; every fact has its entry."""
    found = replayed(log)
    texts = {name: (folder(log) / name).read_text().splitlines() for name in found.files}
    assert found.n_lines == sum(map(len, texts.values()))
    heads = [
        (name, line) for name, lines in texts.items() for line in lines if line.startswith("[20")
    ]
    several = Counter(line for _, line in set(heads))
    copies = sum(
        n - max(Counter(heads)[name, line] for name in texts)
        for line, n in Counter(line for _, line in heads).items() if several[line] > 1
    )
    assert sum(found.lines.values()) == len(heads) - copies
    assert found.lines["not understood"] == 0
    assert found.not_understood == ()
    places = {(fact["file"], fact["line"]) for fact in found.facts.to_pylist() if fact["logged"]}
    assert len(places) == found.lines["with facts"]
    for name, line in places:
        assert texts[name][line - 1].startswith("[20"), (name, line)


@pytest.mark.parametrize("log", LOGS)
def test_the_parts_of_the_result_agree(log, replayed, folder):
    """Totals, tables, the timeline, and who was without a leader."""
    found = replayed(log)
    assert found.source == str(folder(log))
    assert set(found.files) == {path.name for path in folder(log).iterdir()}
    assert found.facts.num_rows == sum(found.counts.values())
    assert len(found.contradictions) == found.counts["contradicted"]
    assert found.release in RELEASES
    assert found.profile == f"zk-{found.release}"
    counted = f"{found.counts['predicted']} predicted, {found.counts['adopted']} adopted, "
    assert counted in repr(found)
    times = found.timeline.column("time").to_pylist()
    assert times == sorted(times)
    got = Counter(
        name for row in found.timeline.to_pylist() for name in row["got_leader"]
    )
    ended = Counter(
        row["partition"] for row in found.outages.to_pylist() if row["until"] is not None
    )
    assert got <= ended
    lost = Counter(
        name for row in found.timeline.to_pylist() for name in row["became_leaderless"]
    )
    assert lost == Counter(row["partition"] for row in found.outages.to_pylist())
    for row in found.outages.to_pylist():
        assert (row["until"] is None) == (row["duration_ms"] is None)
        assert row["until"] is None or row["until"] >= row["since"]


def test_the_timeline_tells_what_happened(replayed):
    """The two brokers' cluster was stopped and started: nine controllers' epochs, up to 9."""
    rows = replayed("zk-2.8-two-brokers").timeline.to_pylist()
    elected = [row["controller_epoch"] for row in rows if row["event"] == "failover"]
    assert set(range(1, 10)) >= set(elected) >= {8, 9}
    assert any(row["event"] == "shutdown" for row in rows)
    assert any(row["became_leaderless"] for row in rows)
    assert any(row["event"] == "topics" and "erstesTopic" in row["what"] for row in rows)


def test_the_profile_may_be_given(replayed, folder):
    """The one that is told from the wording, by its release or by the profile of its name."""
    told = replayed(SMALL)
    named = kfast.replay(folder(SMALL), profile=told.release)
    assert (named.profile, named.counts) == (told.profile, told.counts)
    assert named.facts.equals(told.facts)


class Number(NamedTuple):
    """A leader or an epoch in a line of a log."""

    kind: str
    file: str
    line: int
    begin: int
    end: int


NUMBERS = {
    "leader": (
        r"\bleader=(-?\d+)", r"\bLeader:(-?\d+)", r"[Nn]ew leader (?:is )?(-?\d+)",
        r"Broker (\d+) (?:has been|was) elected",
    ),
    "leader epoch": (
        r"\bleaderEpoch=(-?\d+)", r"\bLeaderEpoch:(-?\d+)", r"\bleader epoch (-?\d+)",
        r"[Pp]revious leader epoch was (-?\d+)",
    ),
    "controller epoch": (
        r"\bcontrollerEpoch=(\d+)", r"\bControllerEpoch:(\d+)",
        r"\[Controller id=\d+ epoch=(\d+)\]",
        r"[cC]ontroller \d+ epoch (\d+)", r"correlation id \d+ epoch (\d+)",
        r"Epoch incremented to (\d+)", r"controller with epoch (\d+)",
        r"last update controller epoch (\d+)",
    ),
    "version": (
        r"\bzkVersion=(\d+)", r"zkVersion updated to \[(\d+)\]", r"epoch zk version is now (\d+)",
    ),
}
"""How leaders and epochs are worded in the two logs, by kind."""


def find_numbers(texts: dict[str, list[str]]) -> dict[str, list[Number]]:
    """Leaders and epochs in the files, by wording, in order."""
    found: dict[str, list[Number]] = {}
    for kind, wordings in NUMBERS.items():
        for wording in wordings:
            places = [
                Number(kind, name, number, *match.span(1))
                for name, lines in texts.items()
                for number, line in enumerate(lines, 1)
                for match in re.finditer(wording, line)
            ]
            if places:
                found[wording] = places
    return found


def choose(texts: dict[str, list[str]], n: int, rng: Random) -> list[Number]:
    """`n` of the numbers; each wording has about as many, however rare it is."""
    piles = [rng.sample(places, len(places)) for places in find_numbers(texts).values()]
    chosen: list[Number] = []
    while len(chosen) < n:
        piles = [pile for pile in piles if pile]
        rng.shuffle(piles)
        chosen += [pile.pop() for pile in piles]
    return chosen[:n]


def changed(line: str, number: Number, rng: Random) -> str:
    """The line with another leader, or an epoch that is one off."""
    value = int(line[number.begin : number.end])
    others = {-1, 0, 1, 2} if number.kind == "leader" else {abs(value - 1), value + 1}
    other = rng.choice(sorted(others - {value}))
    return f"{line[: number.begin]}{other}{line[number.end :]}"


def unnoticed(source: Path, copy: Path, n: int, seed: int) -> list[str]:
    """Change `n` numbers in a copy of a log, one at a time; those that no contradiction tells."""
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    copy.chmod(0o755)
    texts = {path.name: path.read_text().splitlines() for path in sorted(copy.iterdir())}
    rng = Random(seed)
    passed = []
    for number in choose(texts, n, rng):
        lines = texts[number.file]
        before = lines[number.line - 1]
        after = changed(before, number, rng)
        lines[number.line - 1] = after
        (copy / number.file).write_text("\n".join(lines) + "\n")
        if not replay(copy).contradictions:
            passed.append(f"{number.file}:{number.line}: {before} became {after}")
        lines[number.line - 1] = before
        (copy / number.file).write_text("\n".join(lines) + "\n")
    return passed


def test_a_changed_leader_or_epoch_is_contradicted(folder, tmp_path):
    """Two changes in the smaller log."""
    assert unnoticed(folder(SMALL), tmp_path / "copy", 2, seed=3) == []


@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
def test_many_changed_leaders_and_epochs_are_contradicted(log, folder, tmp_path):
    """One at a time, in each of the two logs; fifty of all seeds."""
    assert unnoticed(folder(log), tmp_path / "copy", len(share_of(range(50))), seed=2026) == []


IGNORED = """\
[2020-09-13 12:27:50,160] INFO [Broker id=2] Ignoring StopReplica request (delete=false) from \
controller 1 with correlation id 60 epoch 4 for partition calm-0 since its associated leader epoch \
3 matches the current leader epoch (state.change.logger)
"""


def test_a_stop_that_a_broker_ignores_names_no_leader(tmp_path):
    """Nothing is known of what the broker remembers of the partition but the epoch."""
    write_logs(tmp_path, "2.8")
    (tmp_path / "broker-2" / "state-change.log").write_text(IGNORED)
    found = replay(tmp_path)
    assert found.facts["kind"].to_pylist().count("current leader epoch") == 0
    assert found.counts["predicted"] > 300


@pytest.mark.slow
def test_real_logs_of_several_clusters_with_stops_that_are_ignored(folder):
    """Five clusters in one folder; the last begins in a hole, and goes on counting epochs."""
    found = replay(folder("zk-2.7-stop-replica-ignored"))
    assert found.counts["contradicted"] == 0
    assert found.counts["predicted"] > 17_500
    assert any(note.startswith("5 clusters") for note in found.notes)
