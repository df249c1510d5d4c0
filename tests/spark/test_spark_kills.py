"""Pipeline and sharded events killed at any moment: the next run ends with the same bytes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

import kfast
from tests.conftest import ROOT
from tests.spark.test_spark_pipeline import CONFIG, check_results, files, folder
from tests.support import sharded_driver
from tests.support.pipeline_driver import run_here
from tests.support.spark_session import SETTINGS, need_java, set_environment

pytestmark = pytest.mark.spark
__all__ = ["folder"]


def environment() -> dict[str, str]:
    environ = dict(os.environ)
    set_environment(environ)
    return environ


def run_tasks(folder, dies_at: int = -1) -> tuple[int, str]:
    """Run the pipeline's tasks in a process of their own, without Spark."""
    return run_alone("tests.support.pipeline_driver", folder / "pipeline.toml", dies_at)


def run_alone(driver: str, what, dies_at: int) -> tuple[int, str]:
    """Run a driver in a process of its own; -1: it lives."""
    done = subprocess.run(
        [sys.executable, "-m", driver, str(what), str(dies_at)], cwd=ROOT, env=environment(),
        capture_output=True, text=True,
    )
    return done.returncode, done.stdout


def killed_at(folder, shares) -> None:
    """Kill a run after these shares of all that it does with files; the next one ends it."""
    code, touched = run_tasks(folder)
    assert code == 0
    check_results(folder)
    wanted = files(folder)
    for share in shares:
        shutil.rmtree(folder / "out")
        assert run_tasks(folder, int(share * int(touched)))[0] == -signal.SIGKILL
        assert {name: wanted[name] for name in seen_in(folder)} != wanted
        run_here(folder / "pipeline.toml")
        assert files(folder) == wanted


def seen_in(folder) -> list[str]:
    """Names of the finished files."""
    out = folder / "out"
    return [
        path.relative_to(out).as_posix() for path in out.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]


def test_killed_runs_are_gone_on_with(folder):
    killed_at(folder, [0.02, 0.5, 0.97])


@pytest.mark.slow
def test_killed_at_twenty_moments(folder):
    rng = random.Random(11)
    killed_at(folder, [(at + rng.random()) / 20 * 0.99 for at in range(20)])


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Give a folder with a dataset, what a run makes of it, and how many files it touches."""
    need_java()
    import kfast.spark

    root = tmp_path_factory.mktemp("shards")
    state = kfast.generate(brokers=6, partitions=90, topics=9, seed=3)
    kfast.spark.split(state, root / "in", shards=3)
    code, touched = run_alone("tests.support.sharded_driver", root, -1)
    assert code == 0
    return root, made(root), int(touched)


def made(root) -> dict[str, bytes]:
    """All that a sharded run wrote, hidden files (the lock, whose turn it is) left out."""
    found = {p.relative_to(root / "out").as_posix(): p for p in (root / "out").rglob("*.*")}
    return {name: path.read_bytes() for name, path in found.items() if path.name[0] != "."}


def sharded_killed_at(shards, shares) -> None:
    """Kill a run after these shares of all that it does with files; the next one ends it."""
    root, wanted, touched = shards
    assert {name.split("/")[0] for name in wanted} == {
        "state", "requests", "transitions", "elections"
    }
    for share in shares:
        if random.Random(share).random() < 0.5:
            shutil.rmtree(root / "out")
        dies_at = int(share * touched)
        assert run_alone("tests.support.sharded_driver", root, dies_at)[0] == -signal.SIGKILL
        left = made(root)
        assert left == wanted or "state/_cluster.arrow" not in left, "half a dataset"
        sharded_driver.run_here(root)
        assert made(root) == wanted, f"killed at file {dies_at} of {touched}"


def test_killed_sharded_runs_are_done_again(shards):
    sharded_killed_at(shards, [0.3, 0.7, 0.95])


@pytest.mark.slow
def test_sharded_runs_killed_at_twenty_moments(shards):
    rng = random.Random(5)
    sharded_killed_at(shards, [(at + rng.random()) / 20 * 0.99 for at in range(20)])


def start(folder) -> subprocess.Popen:
    """Start the command, with a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kfast", "pipeline", str(folder / "pipeline.toml")], cwd=ROOT,
        env=environment(), start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_the_driver_killed_at_twenty_moments(folder):
    """Through Spark: the driver's Python alone, or with the JVM and all workers.

    The moments are spread over the run by the number of files that are finished.
    """
    for seed in range(6):
        state = kfast.generate(brokers=40, partitions=3000, racks=4, seed=seed)
        (folder / "fleet" / f"more-{seed}").mkdir()
        kfast.write(state, folder / "fleet" / f"more-{seed}" / "20261120T0600.arrow")
    settings = "".join(f'"{name}" = "{value}"\n' for name, value in SETTINGS.items())
    spark = f"[spark]\ntasks = 5\n[spark.settings]\n{settings}"
    (folder / "pipeline.toml").write_text(CONFIG.replace("n = 50", "n = 20000") + spark)
    assert start(folder).wait(timeout=120) == 4
    check_results(folder)
    wanted = files(folder)
    rng = random.Random(7)
    moments = [int((at + rng.random()) / 20 * len(wanted)) for at in range(20)]
    rng.shuffle(moments)
    deaths = 0
    for number, moment in enumerate(moments):
        shutil.rmtree(folder / "out")
        process = start(folder)
        while process.poll() is None and len(seen_in(folder)) < moment:
            time.sleep(0.005)
        if number % 2:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        deaths += process.wait(timeout=60) == -signal.SIGKILL
        if number % 5:
            run_here(folder / "pipeline.toml")
        else:
            assert start(folder).wait(timeout=120) == 4
        assert files(folder) == wanted, f"killed when {moment} of {len(wanted)} files were there"
    assert deaths == 20
