"""A local Spark session for tests; where there is no Java, a reason why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

OLDEST_JAVA = 17
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
CONNECT = "KFAST_TEST_CONNECT"
"""Environment variable: sessions are those of a local Connect server."""

NOT_FOR_CONNECT = ("spark.driver.bindAddress", "spark.driver.host")


def java_version() -> int:
    """Major version of the Java that Spark would start; 0 where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    number = said.split('"')[1].split(".")
    return int(number[1] if number[0] == "1" else number[0])


def need_java() -> None:
    """Skip where Spark cannot start, and say how it could; fail in CI."""
    found = java_version()
    if found >= OLDEST_JAVA:
        return
    reason = (
        f"Spark needs Java {OLDEST_JAVA} or newer, and {f'Java {found}' if found else 'none'} was "
        f"found: apt-get install openjdk-{OLDEST_JAVA}-jre-headless, or set JAVA_HOME"
    )
    if os.environ.get("CI"):
        pytest.fail(f"{reason}; CI needs it")
    pytest.skip(reason)


def set_environment(environ) -> None:
    """Let workers run this Python and this tree, and stay on this machine."""
    environ["PYSPARK_PYTHON"] = sys.executable
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *environ.get("PYTHONPATH", "").split()])
    environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def start(master: str):
    """A session with the settings of tests, on a local server where the environment says so."""
    from pyspark.sql import SparkSession

    connect = CONNECT in os.environ
    builder = SparkSession.builder.remote("local[2]") if connect else (
        SparkSession.builder.master(master)
    )
    for name, value in SETTINGS.items():
        if not connect or name not in NOT_FOR_CONNECT:
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    assert ("connect" in type(session).__module__) == connect
    return session
