"""What tests share: the folder of cases and real exports, which may be absent."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
SHARED_DATA = ROOT.parent / "shared" / "data"

# A slow machine is no failure; all else is as hypothesis has it, which differs in CI.
settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


def pytest_terminal_summary(terminalreporter):
    """Say why tests were skipped, and how they could run, once for each reason."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, n in reasons.items():
        terminalreporter.write_line(f"{n} skipped: {reason}", yellow=True)


def pytest_configure(config) -> None:
    """PySpark 4.1 does not close the sockets that results come through; 4.2 does."""
    if importlib.util.find_spec("pyspark") and version("pyspark").startswith("4.1."):
        for said in (r"unclosed <socket:ResourceWarning",
                     r"Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"):
            config.addinivalue_line("filterwarnings", f"ignore:{said}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of cases and real exports; without it the test is skipped, but fails in CI."""
    if not SHARED_DATA.is_dir():
        reason = f"the shared test data is not there ({SHARED_DATA})"
        if os.environ.get("CI"):
            pytest.fail(f"{reason}, and CI needs it")
        pytest.skip(reason)
    return SHARED_DATA


@pytest.fixture(scope="session")
def spark():
    """Give a session of two tasks, two tries each; skip without Java, but fail in CI."""
    from tests.support import spark_session

    spark_session.need_java()
    spark_session.set_environment(os.environ)
    session = spark_session.start("local[2,2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def s3():
    """Give an S3 server, which this process reads and writes."""
    from tests.support.s3_server import S3Server

    with S3Server().running() as server:
        yield server


@pytest.fixture
def bucket(s3):
    """Give a bucket of it."""
    return s3.new_bucket()
