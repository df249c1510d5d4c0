"""The output folder of a sharded run: one run at a time, and no dataset before the end."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest

import kfast
import kfast.spark
from tests.support.sharded import without_session

pytestmark = pytest.mark.spark


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """Give a folder of shards, whose tasks run here."""
    without_session(monkeypatch)
    state = kfast.generate(brokers=5, partitions=60, topics=6, seed=1)
    kfast.spark.split(state, tmp_path / "in", shards=3)
    return tmp_path / "in"


def hold(output, dataset, held) -> None:
    """Be at work in a folder until somebody kills this process."""
    from kfast.spark.dataset import output_folder

    with output_folder(output, dataset):
        held.set()
        signal.pause()


def test_another_run_is_kept_out_until_the_first_ends_or_is_killed(dataset, tmp_path):
    out = tmp_path / "out"
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    other = context.Process(target=hold, args=(out, dataset, held))
    other.start()
    assert held.wait(60)
    with pytest.raises(kfast.ArgumentError, match="out is being written by another run"):
        kfast.spark.fail(None, dataset, broker_ids=[1], output=out)
    os.kill(other.pid, signal.SIGKILL)
    other.join()
    first = kfast.spark.fail(None, dataset, broker_ids=[1], output=out)
    assert kfast.spark.fail(None, dataset, broker_ids=[1], output=out).digest == first.digest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"broker_ids": "104"}, "broker_ids is '104'"),
        ({"broker_ids": 104}, "broker_ids is 104"),
        ({"broker_ids": ["x"]}, "broker_ids has 'x'"),
        ({"events": [("on_broker_failure", [1.5])]}, "brokers has 1.5"),
        ({"broker_ids": [1], "output": "in/out"}, "out lies in .*in, so it would be taken for"),
        ({"broker_ids": [1], "output": "in/shard-000000.parquet"}, "lies in"),
        ({"broker_ids": [1], "output": "file"}, "is a file; a folder is needed"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_written(dataset, tmp_path, arguments, told):
    (tmp_path / "file").touch()
    before = sorted(tmp_path.rglob("*"))
    output = tmp_path / arguments.pop("output", "out")
    with pytest.raises(kfast.ArgumentError, match=told):
        kfast.spark.fail(None, dataset, output=output, **arguments)
    assert sorted(tmp_path.rglob("*")) == before


def test_tasks_of_a_run_that_has_ended_write_nothing(dataset, tmp_path):
    """Tasks on other machines can outlive the driver that was killed."""
    from kfast.spark.dataset import check_token, empty_folder, output_folder

    with output_folder(tmp_path / "out", dataset) as folder:
        old = empty_folder(folder)
        check_token(str(folder), old)
    with output_folder(tmp_path / "out", dataset) as folder:
        check_token(str(folder), empty_folder(folder))
        with pytest.raises(kfast.InputError, match="was taken by another run"):
            check_token(str(folder), old)


@pytest.mark.parametrize("where", ["tasks", "end"])
def test_a_run_that_ends_with_an_error_leaves_no_dataset(dataset, tmp_path, monkeypatch, where):
    from kfast.spark import sharded

    out = tmp_path / "out"
    cluster = out / "state" / "_cluster.arrow"
    events = ["on_controller_failover", "rebalance_leaders"]
    kfast.spark.fail(None, dataset, events=events, output=out)
    assert cluster.exists()

    def fails(*_):
        raise OSError("the disk is full")

    name = {"tasks": "run_share", "end": "_join_errors"}[where]
    with monkeypatch.context() as patched:
        patched.setattr(sharded, name, fails)
        with pytest.raises(OSError, match="the disk is full"):
            kfast.spark.fail(None, dataset, events=events, output=out)
    assert not cluster.exists()
    kfast.spark.fail(None, dataset, events=events, output=out)
    assert cluster.exists()
