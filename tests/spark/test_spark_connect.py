"""Spark Connect: what classic sessions answer, a live local server answers too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.spark_session import CONNECT, set_environment

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # A server starts for it alone.

SAME = (
    "tables.py::test_a_cluster_comes_back_from_dataframes_as_it_went",
    "tables.py::test_a_stream_reads_each_snapshot_once",
    "functions.py::test_elect_is_the_election_of_each_row[offline-10000]",
    "functions.py::test_fail_is_what_the_controller_does[13-7]",
    "sweeps.py::test_the_rows_are_those_of_one_machine[7]",
    "sweeps.py::test_partitions_and_brokers_are_counted_as_on_one_machine[2]",
    "sweeps.py::test_a_path_is_read_and_scenarios_are_rows",
    "sharded.py::test_an_election_of_all_fails_for_a_partition_of_another_shard",
    "sharded_capacity.py::test_rows_over_spark_are_those_of_one_machine[5-2]",
    "fleet.py::test_rows_and_errors[7]",
    "fleet.py::test_exports_in_the_rows_of_a_frame[1]",
    "results.py::test_a_frame_has_the_types_that_the_schema_says",
)
"""One test of everything that touches the session."""


def test_connect_answers_as_a_classic_session():
    """In a process of its own: a session of each kind cannot share one."""
    environ = os.environ | {CONNECT: "1"}
    set_environment(environ)
    # The server then takes a port that is free, for another may listen on Spark's own.
    environ["SPARK_TESTING"] = "1"
    names = [f"tests/spark/test_spark_{name}" for name in SAME]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", *names],
        capture_output=True, text=True, cwd=ROOT, env=environ, timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert f"{len(SAME)} passed" in done.stdout
