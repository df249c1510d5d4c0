"""One run of sharded events whose tasks run here, which may be killed at a file it touches."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import kfast.spark
from tests.support.pipeline_driver import die_at
from tests.support.sharded import without_session

EVENTS = [
    "on_controller_failover", ("on_broker_failure", [1]), ("on_broker_startup", [1]),
    ("catch_up", [1]), ("rebalance_leaders", 10), ("on_broker_failure", [2]),
]
READER = SimpleNamespace(read=SimpleNamespace(parquet=str))
"""A session that reads nothing: DataFrames of the outcome are the names of their folders."""


def run_here(folder: Path) -> int:
    """Let events happen to the dataset `in`; give the digest of what comes out in `out`."""
    with pytest.MonkeyPatch.context() as patched:
        without_session(patched)
        done = kfast.spark.fail(
            READER, folder / "in", events=EVENTS, output=folder / "out", journal="full"
        )
    return done.digest


if __name__ == "__main__":
    path = Path(sys.argv[1])
    touched = die_at(int(sys.argv[2]), str((path / "out").absolute()))
    run_here(path)
    print(touched[0])
