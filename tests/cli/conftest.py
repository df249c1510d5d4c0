"""Inputs of the commands."""

from __future__ import annotations

import pytest

from tests.support.cli_run import DESCRIBE, PLAN, RACKS, plan_text


@pytest.fixture
def cluster(tmp_path):
    """Name of a describe text; broker 4 looks down in it."""
    path = tmp_path / "describe.txt"
    path.write_text(DESCRIBE)
    return str(path)


@pytest.fixture
def racks(tmp_path):
    """Name of a brokers file."""
    path = tmp_path / "brokers.csv"
    path.write_text(RACKS)
    return str(path)


@pytest.fixture
def plan(tmp_path):
    """Name of a plan of which two partitions are refused."""
    path = tmp_path / "plan.json"
    path.write_text(plan_text(PLAN))
    return str(path)
