"""Interrupted system calls, and clocks that jump: answers and files are the same."""

from __future__ import annotations

import json
import signal
import time
from itertools import count

import pytest

import kfast
from kfast.controllers import open_events
from tests.faults.writers import DESCRIBE
from tests.support.cli_run import run

EVERY_SECONDS = 0.0005


@pytest.fixture
def storm():
    """Give the number of signals that have arrived; one comes every half of a millisecond."""
    arrived = []
    before = signal.signal(signal.SIGALRM, lambda *_: arrived.append(1))
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, EVERY_SECONDS, EVERY_SECONDS)
    yield arrived
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def answers(folder):
    """What reading, events, sweeps and writing come to."""
    state = kfast.read(DESCRIBE)
    controller = open_events(state.copy(), journal="full", threads=2)
    controller.start()
    controller.brokers_failed([101, 102])
    state.save(folder / "saved")
    for ending in (".txt", ".parquet", ".arrow"):
        kfast.write(state, folder / f"x{ending}")
    return (
        controller.state.digest(), kfast.open(folder / "saved").digest(),
        *(kfast.read(folder / f"x{ending}").digest() for ending in (".txt", ".parquet", ".arrow")),
        kfast.sweep(state, kfast.every_broker(state)),
        run("fail", DESCRIBE, "--brokers", "101", "--format", "json").stdout,
    )


def test_a_storm_of_signals_changes_nothing(tmp_path, request):
    """Reads, writes and waits for the disk are begun again (EINTR)."""
    for name in ("quiet", "storm"):
        (tmp_path / name).mkdir()
    expected = answers(tmp_path / "quiet")
    arrived = request.getfixturevalue("storm")
    assert answers(tmp_path / "storm") == expected
    assert len(arrived) > 20


def test_clocks_that_jump_back_change_nothing(tmp_path, monkeypatch):
    """The time of day and even the monotonic clock; a search that has a deadline ends."""
    for name in ("now", "back"):
        (tmp_path / name).mkdir()
    expected = answers(tmp_path / "now")
    ticks = count()
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: 1e9 - 3600.0 * (next(ticks) % 7))
    assert answers(tmp_path / "back") == expected
    assert json.loads(run("show", DESCRIBE, "--format", "json").stdout)["command"] == "show"
