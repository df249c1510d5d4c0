"""The configuration file of a pipeline: what it has, the job that it asks for, and its session."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kfast.analysis.conditions import parse_condition
from kfast.arguments import MAX_INT
from kfast.capacity import CAPACITY_METRICS
from kfast.capacity.failures.cpu_models import MEASURED
from kfast.capacity.loads.client_racks import LEADER
from kfast.errors import ArgumentError, InputError
from kfast.io.file_systems import AnyPath, RemotePath, parse_path
from kfast.spark.fleets import ExportReader
from kfast.spark.pipeline import CapacityFiles, Job, Sweep
from kfast.sweeps import SWEEP_COUNTS

__all__ = ["Config", "make_job", "open_session", "path_in", "read_config"]

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by `spark-submit`, which says itself what Python its workers run."""

LOCAL_SETTINGS = {"spark.python.unix.domain.socket.enabled": "true"}
"""Unless the configuration has others: what halves the cost of a task."""

CONNECT_PORT = 15002
CONNECT_SECONDS = 10

_ERROR = re.compile(r"(\w+\.)*\w*(Error|Exception): ")


class SweepConfig(msgspec.Struct, forbid_unknown_fields=True):
    """One `[[sweep]]`."""

    name: str
    scenarios: str
    arguments: dict[str, Any] = {}
    fail_on: list[str] = []


class CapacityConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`[capacity]`: files beside the exports, and how full brokers may be."""

    load: Annotated[list[str], msgspec.Meta(min_length=1)]
    capacity: str
    window: str | None = None
    normal_limits: dict[str, float] = {}
    failed_limits: dict[str, float] = {}
    replicas_limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)] | None = None
    cpu_model: str = MEASURED
    fetch_from: str = LEADER
    consumer_racks: dict[str, str] | None = None


class SparkConfig(msgspec.Struct, forbid_unknown_fields=True):
    """`[spark]`: how to get a session."""

    remote: str | None = None
    settings: dict[str, str] = {}
    tasks: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Config(msgspec.Struct, forbid_unknown_fields=True):
    """A configuration file."""

    exports: str
    output: str
    sweep: list[SweepConfig]
    brokers_name: str = "brokers.csv"
    controller: str | None = None
    elr: bool | None = None
    defaults: dict[str, Any] = {}
    capacity: CapacityConfig | None = None
    spark: SparkConfig = msgspec.field(default_factory=SparkConfig)


def read_config(path: Path) -> Config:
    """Read a configuration file.

    Raises
    ------
    InputError
        It cannot be read, or says something else than a configuration should.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Config)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def make_job(configuration: Config, folder: Path) -> Job:
    """The job of a configuration, whose paths are relative to a folder."""
    capacity = configuration.capacity
    metrics = [*SWEEP_COUNTS, *(CAPACITY_METRICS if capacity is not None else ())]
    sweeps = tuple(
        Sweep(
            sweep.name, (sweep.scenarios, sweep.arguments),
            tuple(parse_condition(text, metrics) for text in sweep.fail_on),
        )
        for sweep in configuration.sweep
    )
    exports = ExportReader(
        configuration.defaults, configuration.brokers_name, configuration.controller,
        configuration.elr,
    )
    output = path_in(folder, "output", configuration.output)
    files = None if capacity is None else CapacityFiles(
        tuple(capacity.load), capacity.capacity, capacity.window, capacity.normal_limits,
        capacity.failed_limits, capacity.replicas_limit, capacity.cpu_model, capacity.fetch_from,
        capacity.consumer_racks,
    )
    return Job(exports, sweeps, str(output.absolute()), files)


def path_in(folder: Path, name: str, text: str) -> AnyPath:
    """A path of the configuration, which is relative to its folder unless it is a URL."""
    try:
        place = parse_path(text.removeprefix("file://").removeprefix("file:"))
    except InputError as error:
        raise ArgumentError(f"{name}: {error}") from error
    return place if isinstance(place, RemotePath) else folder / place


@contextmanager
def open_session(configuration: SparkConfig) -> Iterator[SparkSession]:
    """A session that is stopped in the end; what Spark cannot do is told in a line."""
    if configuration.remote is None and SUBMITTED not in os.environ:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    if configuration.remote is not None:
        _check_remote(configuration.remote)
        builder = builder.remote(configuration.remote)
    own = LOCAL_SETTINGS if configuration.remote is None else {}
    for name, value in {**own, **configuration.settings}.items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except PySparkException as error:
        raise InputError(
            f"Spark did not start: {_last_error(error)}\nA local session needs Java 17 or newer, on"
            " the PATH or in JAVA_HOME: apt-get install openjdk-17-jre-headless"
        ) from error
    try:
        yield spark
    except PySparkException as error:
        raise InputError(f"the job failed in Spark: {_last_error(error)}") from error
    finally:
        spark.stop()


def _check_remote(remote: str) -> None:
    """Refuse a server that nobody answers for: Spark itself would try for ten minutes."""
    if not remote.startswith(("sc://", "local")) or remote.startswith("localhost"):
        raise InputError(f"remote is {remote!r}; right is sc://HOST, sc://HOST:PORT or local[N]")
    url = urlsplit(remote)
    if url.scheme != "sc" or url.hostname is None or getproxies():
        return
    try:
        socket.create_connection((url.hostname, url.port or CONNECT_PORT), CONNECT_SECONDS).close()
    except OSError as error:
        raise InputError(f"{remote}: no Spark Connect server answers: {error}") from error


def _last_error(error: Exception) -> str:
    """The line that says what happened: of a worker's traceback the last."""
    lines = [line for line in str(error).split("JVM stacktrace:")[0].splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [type(error).__name__])[-1].strip()
