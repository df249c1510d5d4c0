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
import kfast.spark
from tests.conftest import ROOT
from tests.spark.test_spark_pipeline import CONFIG, check_results, files, folder
from tests.support.long_tests import only_whole, share_of
from tests.support.spark_session import SETTINGS, set_environment

pytestmark = pytest.mark.spark
__all__ = ["folder"]


@pytest.fixture
def shards(tmp_path):
    """Give a folder with a dataset."""
    state = kfast.generate(brokers=6, partitions=90, topics=9, seed=3)
    kfast.spark.split(state, tmp_path / "in", shards=3)
    return tmp_path


def finished(folder) -> dict[str, bytes]:
    """All finished files; hidden ones (locks, whose run it is) are left out."""
    out = folder / "out"
    return {
        path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def check_killed(run, folder, moments, leftovers=False) -> None:
    """Kill a run after these shares of all that it does with files; the next one ends it.

    With leftovers, some runs begin with what an earlier one made.
    """
    from tests.support.killed_runs import run_apart

    touched = run_apart(run, folder)
    wanted = finished(folder)
    for moment in moments:
        if not leftovers or random.Random(moment).random() < 0.5:
            shutil.rmtree(folder / "out")
        dies_at = int(moment * touched)
        assert run_apart(run, folder, dies_at) is None
        left = finished(folder)
        assert left == wanted or "state/_cluster.arrow" not in left, "half a dataset"
        run(folder)
        assert not list((folder / "out").rglob("*.part"))
        assert finished(folder) == wanted, f"killed at file {dies_at} of {touched}"


def many(seed):
    """Twenty moments all over a run, or those that CI has the time for."""
    rng = random.Random(seed)
    return [(at + rng.random()) / 20 * 0.99 for at in share_of(range(20))]


@pytest.mark.parametrize(
    "moments", [(0.02, 0.5, 0.97), pytest.param(many(11), marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_killed_runs_are_gone_on_with(folder, moments):
    from tests.support.killed_runs import run_pipeline

    check_killed(run_pipeline, folder, moments)
    check_results(folder)


@pytest.mark.parametrize(
    "moments", [(0.3, 0.7, 0.95), pytest.param(many(5), marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_killed_sharded_runs_are_done_again(shards, moments):
    from tests.support.killed_runs import run_sharded

    check_killed(run_sharded, shards, moments, leftovers=True)
    names = {name.split("/")[0] for name in finished(shards)}
    assert names == {"state", "requests", "transitions", "elections"}


def start(folder) -> subprocess.Popen:
    """Start the command, with a session of its own."""
    environ = dict(os.environ)
    set_environment(environ)
    return subprocess.Popen(
        [sys.executable, "-m", "kfast", "pipeline", str(folder / "pipeline.toml")], cwd=ROOT,
        env=environ, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
@only_whole
def test_the_driver_killed_at_many_moments(folder):
    """Through Spark: the driver's Python alone, or with the JVM and all workers.

    The moments are spread over the run by the number of files that are finished.
    """
    from tests.support.killed_runs import run_pipeline

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
    moments = [int((at + rng.random()) / 20 * len(wanted)) for at in share_of(range(20))]
    rng.shuffle(moments)
    deaths = 0
    for number, moment in enumerate(moments):
        shutil.rmtree(folder / "out")
        process = start(folder)
        while process.poll() is None and len(finished(folder)) < moment:
            time.sleep(0.005)
        if number % 2:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        deaths += process.wait(timeout=60) == -signal.SIGKILL
        if number % 5:
            run_pipeline(folder)
        else:
            assert start(folder).wait(timeout=120) == 4
        assert files(folder) == wanted, f"killed when {moment} of {len(wanted)} files were there"
    assert deaths == len(moments)
