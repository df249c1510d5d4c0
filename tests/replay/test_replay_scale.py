"""Replay is linear in lines and failovers, says how far it is, and ends when it is interrupted."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from kfast.errors import InputError
from kfast.log_replay import ReplayInterrupted, brokers, replay, steps
from kfast.log_replay.engine import predictions, simulation
from kfast.log_replay.report import replay as replaying
from kfast.log_replay.report.verdicts import Checker
from tests.support.cli_run import ROOT, heed_interrupts
from tests.support.log_writer import LoggedController
from tests.support.states import read_state


@pytest.fixture(autouse=True)
def _is_told_often(monkeypatch):
    monkeypatch.setattr(steps, "EVERY", 16)


BEFORE = """
    partition  ar     isr    leader  epoch  state
    a-0        1,2,3  1,2,3  1       4      ONLINE
    b-0        2,3,1  2,3,1  2       4      ONLINE
    c-0        3,1,2  3,1,2  3       4      ONLINE
"""


def write_failovers(n, folder):
    """The logs of a cluster in which brokers 1 and 2 are the controller in turn, n times each."""
    logged = LoggedController(read_state(BEFORE, brokers=[1, 2, 3], controller_id=-1), "2.8")
    for _ in range(n):
        for controller in (1, 2):
            logged.fail_over(controller)
            logged.change_brokers(failed=[3])
            logged.change_brokers(started=[3])
            logged.catch_up([3])
            logged.rebalance()
    logged.log.save(folder)
    return folder


def test_a_replay_leaves_no_cycles_and_starts_the_collector_again(tmp_path):
    write_failovers(2, tmp_path)
    gc.collect()
    replay(tmp_path)
    assert gc.isenabled()
    assert gc.collect() == 0
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    (nothing / "controller.log").write_text("[2024-01-01 00:00:00,000] INFO a line (kafka.x)\n")
    with pytest.raises(InputError, match="no line of an active controller"):
        replay(nothing)
    assert gc.isenabled()


def calls(folder):
    """How often functions are called while some logs are replayed."""
    counted = Counter()
    sys.setprofile(lambda _frame, event, _argument: counted.update((event,)))
    try:
        found = replay(folder)
    finally:
        sys.setprofile(None)
    assert found.counts["contradicted"] == 0
    return counted["call"] + counted["c_call"]


@pytest.fixture
def small_limits(monkeypatch):
    """Little is kept, so that it is reached soon."""
    monkeypatch.setattr(predictions, "MOST_KEPT", 6)
    monkeypatch.setattr(simulation, "MOST_RAN", 8)
    monkeypatch.setattr(brokers, "MOST_USED", 4)


@pytest.mark.usefixtures("small_limits")
def test_work_grows_with_the_lines(tmp_path):
    """As many more calls from 3 to 6 pairs of failovers as from 6 to 9."""
    replay(write_failovers(1, tmp_path / "first"))  # Loads all modules.
    few, more, most = (calls(write_failovers(n, tmp_path / str(n))) for n in (3, 6, 9))
    assert most - more < 1.02 * (more - few)


def kept(checker):
    """Sizes of what is kept of a simulation at its end."""
    world = checker.world
    rows = world.simulation.items.values()
    return {
        "items": sum(len(items) for row in rows for items in row.by_kind.values()),
        "marks": sum(len(row.takers) for row in rows),
        "events": len(world.simulation.ran),
        "requests": sum(
            len(used) for row in world.brokers.rows.values() for used in row.used.values()
        ),
    }


@pytest.mark.usefixtures("small_limits")
def test_nothing_is_kept_of_what_is_long_over(tmp_path, monkeypatch):
    """A simulation is as large after 24 failovers as after 16."""
    checkers = []
    check = Checker.check
    monkeypatch.setattr(Checker, "check", lambda self: checkers.append(self) or check(self))
    sizes = []
    for n in (8, 12):
        replay(write_failovers(n, tmp_path / str(n)))
        sizes.append(kept(checkers[-1]))
    assert sizes[0]["items"] > 50
    for name, size in sizes[0].items():
        assert sizes[1][name] <= 1.2 * size + 12, name
    assert sizes[1]["events"] <= 16


def test_progress_ends_at_the_total(tmp_path):
    """Every entry is read, simulated and judged."""
    shown = []
    found = replay(
        write_failovers(6, tmp_path), progress=lambda done, total: shown.append((done, total))
    )
    assert {total for _, total in shown} == {3 * sum(found.lines.values())}
    assert shown == sorted(shown)
    assert shown[-1][0] > 0.95 * shown[-1][1]


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_what_is_interrupted_keeps_what_is_judged(share, tmp_path):
    """While it is simulated, or judged: facts up to a line, which a note names."""
    folder = write_failovers(6, tmp_path)

    def interrupt(done, total):
        if done > share * total and not raised:
            raised.append(done)
            raise KeyboardInterrupt

    raised = []
    with pytest.raises(ReplayInterrupted) as stopped:
        replay(folder, progress=interrupt)
    found, complete = stopped.value.replay, replay(folder)
    assert 0 < found.facts.num_rows < complete.facts.num_rows
    assert found.counts["contradicted"] == 0
    n, total = sum(found.lines.values()), sum(complete.lines.values())
    assert n < total
    assert any(note.endswith(f"entry {n} of {total} in order of time") for note in found.notes)


def test_an_interrupted_simulation_is_judged_for_a_moment_only(tmp_path, monkeypatch):
    """When that is over the rest is left."""
    monkeypatch.setattr(replaying, "MOMENT_S", 0.0)
    folder = write_failovers(6, tmp_path)

    def interrupt(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(ReplayInterrupted) as stopped:
        replay(folder, progress=interrupt)
    assert stopped.value.replay.facts.num_rows == 0
    assert "judged up to no line" in stopped.value.replay.notes[-1]


SHOWS_STEPS = """
import contextlib, sys, time
import kfast.cli.replay
from kfast_command import main

shown = []

def wait_at_half(done, total):
    if done > total / 2 and not shown:
        shown.append(done)
        print("half", file=sys.stderr, flush=True)
        time.sleep(60)  # Until the signal comes: the rest may take less than that does.

@contextlib.contextmanager
def bar(_action):
    yield wait_at_half

kfast.cli.replay.progress_bar = bar
main()
"""


def test_ctrl_c_gives_what_is_known(tmp_path):
    """The answer, then that it was interrupted, with the code of every command."""
    folder = write_failovers(12, tmp_path / "logs")
    arguments = ["replay", str(folder), "--format", "json"]
    with subprocess.Popen(
        [sys.executable, "-c", SHOWS_STEPS, *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=heed_interrupts,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().endswith("Interrupted.\n")
    answer = json.loads(output)
    assert any("interrupted: facts are judged up to" in note for note in answer["notes"])
    assert answer["summary"]["contradicted"] == 0


@pytest.mark.slow
def test_a_real_log_with_hundreds_of_failovers(shared_data):
    """54 000 entries of Kafka 3.7: nothing is contradicted."""
    found = replay(shared_data / "controller_logs" / "zk-3.7-hundreds-of-failovers")
    assert found.counts["contradicted"] == 0
    assert found.counts["predicted"] >= 166_000
    assert found.counts["adopted"] <= 723
