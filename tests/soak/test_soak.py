"""A soak finds what is broken, repeats a round from its seed, and goes on where it was stopped."""

from __future__ import annotations

import os
import signal
from collections import Counter
from random import Random

import pytest

from kfast.controllers.kraft import partition_requests
from tests.soak import __main__ as soak
from tests.soak import rounds
from tests.soak.coverage import report, tables
from tests.soak.progress import Progress, ProgressError, read_progress
from tests.soak.rounds import Met, Round
from tests.support.cli_run import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rounds are forked")


@pytest.fixture
def quick(monkeypatch):
    """Rounds that only say which random number they drew."""
    made = dict.fromkeys(rounds.KINDS, lambda draw: Met(10, Counter({str(draw.random()): 1})))
    monkeypatch.setattr(rounds, "KINDS", made)
    return made


@pytest.mark.parametrize("kind", ["ZooKeeper mode", "KRaft"])
def test_a_round_is_the_same_for_the_same_seed(kind, monkeypatch):
    monkeypatch.setattr(rounds, "STEPS", dict.fromkeys(rounds.STEPS, 1))
    monkeypatch.setattr(rounds, "ZK_EVENTS", 50)
    first, second = (rounds.KINDS[kind](Random("a seed")) for _ in range(2))
    assert first == second
    assert first.steps > 50
    assert first.counts


def test_a_broken_rule_is_a_difference_of_its_round(monkeypatch):
    """The same rule that tests/kafka breaks; the round shrinks it and prints a test."""
    monkeypatch.setattr(partition_requests, "is_ineligible", lambda *_: False)
    with pytest.raises(rounds.RoundError, match=r"def test_alter_partition_\d+"):
        rounds.KINDS["KRaft, many sizes"](Random("a seed"))


def test_a_run_goes_on_where_it_was_stopped(quick, tmp_path, capsys):
    """What two runs met together is what one run meets."""
    first, whole = tmp_path / "first.json", tmp_path / "whole.json"
    for path, all_steps in ((first, (30, 100)), (whole, (100,))):
        for steps in all_steps:
            arguments = ["--seed", "5", "--steps", str(steps), "--state", str(path)]
            assert soak.main(arguments) == 0
    there, expected = read_progress(first), read_progress(whole)
    assert there.n_rounds == expected.n_rounds == 10
    assert there.counts == expected.counts
    assert len(there.counts) == 10
    assert "seed 5, 3 rounds done" in capsys.readouterr().out


def test_rounds_side_by_side_are_those_of_one_after_another(quick, tmp_path):
    """A round that is done before one with a smaller number is not done again."""
    one, three = Progress(8), Progress(8)
    soak.run(one, 60, float("inf"), 1, None)
    soak.run(three, 60, float("inf"), 3, None)
    assert one.counts.keys() <= three.counts.keys()
    ahead = Progress(8, done_below=1, done_ahead={2, 3})
    assert [number for number, _ in zip(ahead.numbers(), range(3), strict=False)] == [1, 4, 5]
    ahead.add(1, "KRaft", Met(5), 0.1)
    assert (ahead.done_below, ahead.done_ahead, ahead.n_rounds) == (4, set(), 4)


def test_a_round_that_raises_or_dies_is_noted_and_the_next_begins(quick, tmp_path, capsys):
    def killed(_draw):
        os.kill(os.getpid(), signal.SIGKILL)

    def raised(_draw):
        raise rounds.RoundError("leaders differ")

    quick["ZooKeeper mode"], quick["KRaft"] = killed, raised
    path = tmp_path / "soak.json"
    arguments = ["--seed", "0", "--steps", "50", "--state", str(path)]
    assert soak.main(arguments) == 1
    printed = capsys.readouterr().out
    assert "its process ended with -9" in printed
    assert "repeat with: python -m tests.soak --seed 0 --round" in printed
    assert "RoundError: leaders differ" in printed
    assert read_progress(path).steps.total() == 50
    assert {one["kind"] for one in read_progress(path).differences} == {"ZooKeeper mode", "KRaft"}


def test_a_round_that_does_not_end_is_stopped(quick, monkeypatch, capsys):
    quick["sweeps"] = lambda _draw: signal.pause()
    monkeypatch.setattr(soak, "PATIENCE", 0.2)
    number = rounds.ORDER.index("sweeps")
    running = [soak.Running.start(Round(0, number))]
    seen = []
    while running:
        seen += [met for _, met in soak.finished(running)]
    assert seen == ["it did not end in 0 s"]


def test_another_seed_and_a_torn_file_are_refused(quick, tmp_path, capsys):
    path = tmp_path / "soak.json"
    Progress(5).write(path)
    assert soak.main(["--seed", "6", "--state", str(path)]) == 2
    assert f"{path} is of seed 5, not of 6" in capsys.readouterr().err
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(ProgressError, match="is not the progress of a soak"):
        read_progress(path)


def test_what_was_not_met_is_named():
    progress = Progress(1)
    assert any("refusal heartbeat | STALE_BROKER_EPOCH" in line for line in report(progress))
    for names in tables().values():
        progress.counts.update(names)
    progress.lines_left = set()
    assert not any("not met" in line or "did not run" in line for line in report(progress))


def test_the_page_has_the_figures_of_the_run_of_ten_million_steps():
    """Whoever goes on with it says so there."""
    kept = read_progress(ROOT / "tests" / "soak" / "ten_million.json")
    n_steps, n_rounds = (f"{n:,}".replace(",", " ") for n in (kept.steps.total(), kept.n_rounds))
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f"| {n_steps} steps in {n_rounds} rounds; seed {kept.seed}" in page
    assert f"| {len(kept.differences)} rounds differed" in page
