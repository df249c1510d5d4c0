"""Runs of the pipeline and of sharded events without Spark, which may be killed at any file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kfast.spark
import kfast.spark.sharded
from kfast.io.file_systems import RemotePath
from kfast.spark.pipeline import find_exports, run_snapshot
from kfast.spark.pipeline_config import make_job, path_in, read_config
from tests.support.s3_server import S3Server
from tests.support.sharded import without_session

EVENTS = [
    "on_controller_failover", ("on_broker_failure", [1]), ("on_broker_startup", [1]),
    ("catch_up", [1]), ("rebalance_leaders", 10), ("on_broker_failure", [2]),
]
READER = SimpleNamespace(
    read=SimpleNamespace(schema=lambda _: SimpleNamespace(parquet=str))
)
"""A session that reads nothing: DataFrames of the outcome are the names of their folders."""


def run_pipeline(folder: Path) -> None:
    """Do what the tasks of the pipeline do, in this process."""
    config = read_config(folder / "pipeline.toml")
    job = make_job(config, folder)
    for name in find_exports(path_in(folder, "exports", config.exports), job):
        run_snapshot(job, name)


def run_sharded(folder: Path) -> None:
    """Let events happen to the dataset `in`; what comes out is in `out`."""
    with pytest.MonkeyPatch.context() as patched:
        without_session(patched)
        kfast.spark.fail(
            READER, folder / "in", events=EVENTS, output=folder / "out", journal="full"
        )


def run_sharded_remotely(place: RemotePath) -> None:
    """The same in a bucket."""
    with pytest.MonkeyPatch.context() as patched:
        without_session(patched)
        patched.setattr("kfast.spark.sharded.parquet_frame", lambda *_: None)
        kfast.spark.fail(
            READER, str(place / "in"), events=EVENTS, output=str(place / "out"), journal="full"
        )


def run_against(server: S3Server, run, place, dies_at: int = -1) -> bool:
    """Run in a process that the server kills at its n-th write; whether it lived."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_with_environment, args=(server.environment, run, place))
    server.writes, server.dies_at = 0, -1
    process.start()
    server.victim, server.dies_at = process.pid, dies_at
    process.join()
    server.dies_at = -1
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == 0


def _with_environment(environment: dict[str, str], run, place) -> None:
    os.environ.update(environment)
    run(place)


def run_apart(run, folder: Path, dies_at: int = -1) -> int | None:
    """Run in a process that is killed when a file of the output is touched for the n-th time.

    Returns
    -------
    int or None
        How often one was opened, moved, made or removed; None where the process was killed.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_watched, args=(run, folder, dies_at, theirs))
    process.start()
    theirs.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return None
    assert process.exitcode == 0
    return ours.recv()


def _watched(run, folder: Path, dies_at: int, counter) -> None:
    touched = 0
    place = str((folder / "out").absolute())

    def watch(event: str, arguments: tuple) -> None:
        nonlocal touched
        on_files = event in ("open", "os.rename", "os.remove", "os.mkdir")
        if on_files and str(arguments[0]).startswith(place):
            if touched == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            touched += 1

    sys.addaudithook(watch)
    run(folder)
    counter.send(touched)
