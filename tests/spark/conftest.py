"""What all tests of this folder need."""

from __future__ import annotations

import pytest

from tests.support.spark_session import need_java


@pytest.fixture(scope="session", autouse=True)
def java() -> None:
    """Skip all tests where Spark cannot start."""
    need_java()
