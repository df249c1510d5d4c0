"""Two runs on one output, threads that ask one cluster, and processes forked after kernels ran."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import kfast
from kfast.state import saved_state
from tests.faults.writers import WRITERS, environment, left_behind
from tests.support.cli_run import KFAST, ROOT

N_SAVERS = 3


def save_again_and_again(place, seed, n, errors):
    """Save a cluster of its own many times."""
    state = kfast.generate(brokers=3, partitions=200 + seed, seed=seed)
    for _ in range(n):
        state.save(place)
    errors.put(None)


@pytest.mark.parametrize("n", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_several_saves_of_one_name(n, tmp_path):
    """The last one stays, whole; who opens it meanwhile reads one of them, or that none is there.

    A save that found the place of the old state taken by another save raised, and left the old
    state behind under a hidden name.
    """
    place, context = tmp_path / "cluster", multiprocessing.get_context("fork")
    sizes = {200 + seed for seed in range(N_SAVERS)}
    kfast.generate(brokers=3, partitions=200, seed=0).save(place)
    done = context.Queue()
    savers = [
        context.Process(target=save_again_and_again, args=(place, seed, n, done))
        for seed in range(N_SAVERS)
    ]
    for saver in savers:
        saver.start()
    opened = 0
    while any(saver.is_alive() for saver in savers):
        try:
            state = kfast.open(place, verify=opened % 2 == 0)
        except kfast.InputError as error:
            assert "holds no saved state: No such file" in str(error)  # noqa: PT017 - between two
            continue
        assert state.n_partitions in sizes
        assert state.replicas.shape[0] == state.partition.size == state.n_partitions
        opened += 1
    for saver in savers:
        saver.join()
    assert [saver.exitcode for saver in savers] == [0] * N_SAVERS
    assert opened
    assert kfast.open(place).n_partitions in sizes
    assert [path.name for path in tmp_path.iterdir()] == ["cluster"]


def test_a_state_that_comes_and_goes_while_it_is_opened(tmp_path, monkeypatch):
    """It is not there before and after: that is the answer, not a column that is missing."""
    place, elsewhere = tmp_path / "cluster", tmp_path / "elsewhere"
    kfast.generate(brokers=3, partitions=20, seed=0).save(elsewhere)
    read_document = saved_state._read_document

    def read_between_two_saves(directory):
        elsewhere.rename(place)
        document = read_document(directory)
        place.rename(elsewhere)
        return document

    monkeypatch.setattr(saved_state, "_read_document", read_between_two_saves)
    with pytest.raises(kfast.InputError, match="cluster holds no saved state: No such file"):
        kfast.open(place)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, writer in WRITERS.items() if writer.output])
def test_two_commands_with_one_output(name, tmp_path):
    writer = WRITERS[name]
    path = tmp_path / f"x{writer.ending}"
    both = [
        subprocess.Popen([*KFAST, *writer.command(path)], cwd=ROOT, env=environment(),
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert [process.wait(120) for process in both] == [0, 0]
    writer.read(path)
    assert left_behind(path) == []


def questions(state):
    """Questions that leave the cluster as it is."""
    broker = int(state.broker_id[0])
    return [
        lambda: kfast.sweep(state, kfast.every_broker(state), threads=2),
        lambda: kfast.take_census(state).counts,
        lambda: kfast.fail_brokers(state, [broker]).impact.summary,
        state.digest,
        lambda: state.to_tables().partitions,
        lambda: state.replicas_on_brokers([broker]).rows.tolist(),
    ]


def ask_all(state, first):
    """All answers by the number of their question, asked from one of them on."""
    asked = list(enumerate(questions(state)))
    begin = first % len(asked)
    return {number: ask() for number, ask in asked[begin:] + asked[:begin]}


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_threads_ask_one_cluster(controller, tmp_path):
    """Eight Python threads, each with its questions in another order, as of one thread."""
    made = kfast.generate(brokers=12, partitions=3000, racks=3, seed=1)
    if controller != "zk-3.9":
        made = kfast.with_controller(made, controller)
    made.save(tmp_path / "cluster")
    for state in (made, kfast.open(tmp_path / "cluster")):
        expected = [ask() for ask in questions(kfast.open(tmp_path / "cluster"))]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask_all, [state] * 24, range(24)))
        for answer in answers:
            assert [answer[n] for n in sorted(answer)] == expected


def fail_in_a_child(state, threads, digests):
    """An event on a copy."""
    own = state.copy()
    kfast.Controller(own, threads=threads).on_broker_failure([1, 2, 3])
    digests.put(own.digest())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing can be forked")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_fork_after_kernels_ran_on_threads(threads):
    """A process that used threads is forked; its child uses them too, and ends."""
    state = kfast.generate(brokers=30, partitions=30_000, racks=3, seed=1)
    kfast.Controller(state, threads=threads).on_controller_failover()
    context = multiprocessing.get_context("fork")
    digests = context.Queue()
    child = context.Process(target=fail_in_a_child, args=(state, threads, digests))
    child.start()
    until = time.monotonic() + 60
    while digests.empty() and child.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    is_hung = digests.empty()
    found = None if is_hung else digests.get()
    if is_hung:
        child.kill()
    child.join()
    assert not is_hung
    kfast.Controller(state, threads=threads).on_broker_failure([1, 2, 3])
    assert found == state.digest()


def test_free_threaded_python_is_declared():
    """Importing a kernel leaves the global lock as it is: each says that it needs none."""
    code = (
        "import sys, warnings; warnings.simplefilter('error'); import kfast;"
        "kfast.Controller(kfast.generate(brokers=3, partitions=9)).on_broker_failure([1]);"
        "print(getattr(sys, '_is_gil_enabled', lambda: True)())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True,
        text=True, timeout=60, check=True,
    )
    assert done.stdout.strip() == str(not sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert '"freethreading_compatible": True' in (ROOT / "setup.py").read_text(encoding="utf-8")
