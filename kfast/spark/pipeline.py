"""The pipeline as a job: exports in, tables, sweeps, summaries and alerts out.

A task takes the names of some exports and makes the results of each. What is there already is left
alone, so a run after new exports came does only these, and a run after a kill does only what is
missing.

Every file is written whole or not at all, and holds nothing but what follows from the export and
the configuration. The manifest goes first and comes last: where it is, all files beside it are of
the export that it names. So whatever is killed, the next run ends with the same files. A lock on
each snapshot keeps two runs apart, for the tasks of a killed driver may go on for a while.
"""

from __future__ import annotations

import hashlib
import operator
import platform
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kfast import __version__
from kfast.analysis.conditions import Condition
from kfast.capacity import (
    CAPACITY_METRICS,
    CapacityPlan,
    broker_capacity,
    partition_load,
    prepare_capacity,
)
from kfast.capacity.failures.cpu_models import MEASURED, check_cpu_model
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS, check_limits
from kfast.capacity.loads.client_racks import LEADER, check_fetch_from
from kfast.errors import ArgumentError, InputError, KfastError
from kfast.io.file_systems import AnyPath, parse_path, size_of
from kfast.io.files import writing
from kfast.io.loads import read_capacity, read_load
from kfast.schema import FLEET_CAPACITY, PIPELINE_ALERTS, PIPELINE_RUN, PIPELINE_SUMMARIES
from kfast.spark.dataset import TASK_BYTES, locked
from kfast.spark.fleets import ExportReader, fleet_batch, fleet_schema
from kfast.spark.paths import (
    absolute,
    check_tasks,
    distribute_files,
    find_files,
    folder_with,
    hash_file,
    look_at,
)
from kfast.spark.sweeps import ScenarioSpec, check_spec, make_scenarios, parse_spec
from kfast.spark.workers import gather
from kfast.state import ClusterState
from kfast.state.build import build_digest
from kfast.sweeps import SWEEP_COUNTS, SweepPlan, prepare_sweep, sweep_reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CapacityFiles", "Job", "Sweep", "find_exports", "run_pipeline", "run_snapshot"]

TABLES = ("brokers", "topics", "partitions", "cluster")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_SMALLER = (operator.lt, operator.le)
_WORSE_IF_LESS = ("headroom",)


@dataclass(frozen=True)
class Sweep:
    """A sweep that is made of every snapshot."""

    name: str
    scenarios: ScenarioSpec
    alerts: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class CapacityFiles:
    """Files beside each export that say what its cluster carries and can carry.

    Attributes
    ----------
    load_names : tuple of str
        The most trusted first.
    capacity_name : str
    window : str or None
        As for `kfast.read_load`.
    normal_limits, failed_limits, replicas_limit, cpu_model, fetch_from, consumer_racks
        As for `kfast.prepare_capacity`.
    """

    load_names: tuple[str, ...]
    capacity_name: str
    window: str | None = None
    normal_limits: Mapping[str, float] = field(default_factory=dict)
    failed_limits: Mapping[str, float] = field(default_factory=dict)
    replicas_limit: int | None = None
    cpu_model: str = MEASURED
    fetch_from: str = LEADER
    consumer_racks: Mapping[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all files."""
        return (*self.load_names, self.capacity_name)

    def check(self) -> None:
        """Refuse what would be wrong for every export."""
        for name in self.names:
            if Path(name).name != name:
                raise ArgumentError(
                    f"capacity: {name!r} is no name of a file, which lies beside each export"
                )
        check_limits(self.normal_limits, NORMAL_LIMITS)
        check_limits(self.failed_limits, FAILED_LIMITS)
        check_cpu_model(self.cpu_model, None)
        check_fetch_from(self.fetch_from)

    def prepare(
        self, source: str, plan: SweepPlan, state: ClusterState
    ) -> tuple[CapacityPlan, tuple[str, ...], tuple[str, ...]]:
        """The cluster of an export with the files beside it; their warnings and assumptions."""
        folder = parse_path(source).parent
        tables = read_load(*(folder / name for name in self.load_names), window=self.window)
        capacity = broker_capacity(state, read_capacity(folder / self.capacity_name))
        load = partition_load(state, tables)
        prepared = prepare_capacity(
            plan, load, capacity, normal_limits=self.normal_limits,
            failed_limits=self.failed_limits, replicas_limit=self.replicas_limit,
            cpu_model=self.cpu_model, fetch_from=self.fetch_from,
            consumer_racks=self.consumer_racks,
        )
        return prepared, load.warnings, (
            *load.assumptions, *capacity.assumptions, *prepared.disks.assumptions,
            *(() if prepared.consumers is None else prepared.consumers.assumptions),
        )


@dataclass(frozen=True)
class Job:
    """What is done with every export.

    Attributes
    ----------
    exports : ExportReader
        How exports are read.
    sweeps : tuple of Sweep
    output : str
        Folder of the results.
    capacity : CapacityFiles or None
        With them, sweeps are measured in bytes too.
    """

    exports: ExportReader
    sweeps: tuple[Sweep, ...]
    output: str
    capacity: CapacityFiles | None = None

    @property
    def names_beside(self) -> tuple[str, ...]:
        """Names of files beside exports that are none."""
        capacity = () if self.capacity is None else self.capacity.names
        return (self.exports.brokers_name, *capacity)

    def check(self) -> None:
        """Refuse what would be wrong for every export."""
        names = [sweep.name for sweep in self.sweeps]
        if len(set(names)) != len(names):
            raise ArgumentError(f"two sweeps have one name: {', '.join(names)}")
        for sweep in self.sweeps:
            if not _NAME.fullmatch(sweep.name):
                raise ArgumentError(
                    f"sweep {sweep.name!r}: a name is a letter or digit, then these and _ - ."
                )
            check_spec(sweep.scenarios)
        if self.capacity is not None:
            self.capacity.check()
        self.exports.checked()

    def fingerprint(self) -> str:
        """Stand for all that results follow from, besides the export."""
        sweeps = [(s.name, s.scenarios, [a.text for a in s.alerts]) for s in self.sweeps]
        text = repr(
            (build_digest(), sorted(self.exports.defaults.items()), self.exports.brokers_name,
             self.exports.controller, self.exports.elr, self.capacity, sweeps)
        )
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def find_exports(where: str | AnyPath, job: Job) -> list[str]:
    """Exports of a folder or glob, once it is clear that the job can be done.

    Raises
    ------
    InputError
        There are none, or two are of one cluster and time.
    ArgumentError
        A sweep or its name cannot be, two have one name, or the results would lie among the
        exports.
    """
    job.check()
    files = [name for name in find_files(where) if Path(name).name not in job.names_beside]
    if not files:
        raise InputError(f"{where}: there is nothing but {', '.join(job.names_beside)}")
    output = absolute(job.output)
    root = folder_with(output, where)
    if root is not None:
        raise ArgumentError(
            f"output {output} lies in {root}, so results would be taken for exports"
        )
    seen: dict[tuple[str, str], str] = {}
    for name in files:
        if output in absolute(name).parents:
            raise ArgumentError(f"output {output} holds the export {name}")
        label = label_of(name)
        if label in seen:
            raise InputError(
                f"{seen[label]} and {name} are both cluster {label[0]} at {label[1]}: the folder"
                " names the cluster, and the file's name up to the first dot the time"
            )
        seen[label] = name
    return files


def label_of(source: str | Path) -> tuple[str, str]:
    """Cluster and time of capture: the export's folder, and its name up to the first dot."""
    path = absolute(source)
    return path.parent.name, path.name.split(".")[0]


def run_pipeline(
    spark: SparkSession, where: str | AnyPath, job: Job, *, tasks: int | None = None
) -> pa.Table:
    """Make the results of every export that has none yet.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. Driver and workers must see the files under the same names.
    where : path
        Folder or glob of exports.
    job : Job
    tasks : int, optional
        At most so many tasks. The results do not depend on it.

    Returns
    -------
    pa.Table
        One row per export (`schema.PIPELINE_RUN`): cluster, captured, source, fresh (whether it was
        done in this run), error, warnings (of its loads), alerts (a line for each condition that
        holds), digest (of the state, in hexadecimal).

    Raises
    ------
    InputError, ArgumentError
        As `find_exports`.
    """
    check_tasks(tasks)
    files = find_exports(where, job)
    size = sum(look_at(files, size_of).values())
    n = tasks if tasks is not None else max(min(len(files), 16), size // TASK_BYTES)
    shares = distribute_files(files, n)
    rows = [row for share in gather(spark, len(shares), partial(_run_share, job, shares))
            for row in share]
    done = pa.Table.from_pylist(rows, schema=PIPELINE_RUN.schema)
    return done.sort_by([("cluster", "ascending"), ("captured", "ascending")]).combine_chunks()


def _run_share(job: Job, shares: list[list[str]], task: int) -> list[dict[str, Any]]:
    return [run_snapshot(job, name) for name in shares[task]]


# --- one export --------------------------------------------------------------------------------


class Manifest(msgspec.Struct):
    """What stands beside the results of a snapshot."""

    cluster: str
    captured: str
    source: str
    inputs: dict[str, str]
    configuration: str
    sweeps: dict[str, dict[str, Any]]
    versions: dict[str, str]
    error: str | None
    digest: str | None
    assumptions: list[str]
    warnings: list[str]
    alerts: list[str]
    rows: dict[str, int]
    files: dict[str, str]


@dataclass
class _Results:
    """Files of a snapshot as they are written: how many rows, and what hash."""

    root: AnyPath
    label: str
    rows: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """Write one file whole, or not at all."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear(path.parent)
        rows = 0
        with writing(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        self.rows[name], self.files[name] = rows, hash_file(path)

    def path(self, name: str) -> AnyPath:
        """Where one file lies."""
        return self.root / name / self.label / "part.parquet"

    def drop_others(self) -> None:
        """Remove what an earlier run with other sweeps left of this snapshot."""
        for place in ("tables/*", "sweeps/*", "capacity/*", "summaries", "alerts"):
            for folder in self.root.glob(place):
                path = folder / self.label / "part.parquet"
                if folder.relative_to(self.root).as_posix() not in self.files and path.exists():
                    path.unlink()


def run_snapshot(job: Job, source: str) -> dict[str, Any]:
    """Make the results of one export, unless they are there.

    Returns
    -------
    dict
        As a row of `run_pipeline`.
    """
    cluster, captured = label_of(source)
    results = _Results(parse_path(job.output), f"cluster={cluster}/captured={captured}")
    place = results.root / "manifests" / results.label / "manifest.json"
    with locked(place.parent, wait=True):
        _clear(place.parent)
        inputs, fingerprint = _inputs(job, source), job.fingerprint()
        known = _read_manifest(place)
        if (
            known is not None
            and (known.inputs, known.configuration) == (inputs, fingerprint)
            and all(results.path(name).is_file() for name in known.files)
        ):
            return _row(known)
        if Path(source).name not in inputs:  # it was moved away since it was found
            if known is None:
                return _without_manifest(source, "is not there any more")
            return _row(known)
        place.unlink(missing_ok=True)
        contents = _make(job, source, results)
        if _inputs(job, source) != inputs:
            return _without_manifest(
                source, "was replaced while it was read; the next run reads it again"
            )
        specs = {sweep.name: _plain_spec(sweep.scenarios) for sweep in job.sweeps}
        versions = {
            "kfast": __version__, "build": build_digest(), "python": platform.python_version(),
            "pyarrow": pa.__version__, "numpy": np.__version__,
        }
        manifest = Manifest(
            cluster, captured, source, inputs, fingerprint, specs, versions, **contents
        )
        with writing(place) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        return _row(manifest) | {"fresh": True}


def _clear(folder: AnyPath) -> None:
    """Remove the unfinished files of whoever was killed here."""
    for left in folder.glob(".*.part"):
        left.unlink()


def _plain_spec(spec: ScenarioSpec) -> dict[str, Any]:
    """A spec as a manifest has it: seeds are among the arguments."""
    if callable(spec):
        return {"scenarios": repr(spec), "arguments": {}}
    name, arguments = parse_spec(spec)
    return {"scenarios": name, "arguments": dict(arguments)}


def _without_manifest(source: str, why: str) -> dict[str, Any]:
    """The row of an export that has no manifest now."""
    cluster, captured = label_of(source)
    return {"cluster": cluster, "captured": captured, "source": source, "fresh": False,
            "error": f"{source}: {why}", "warnings": [], "alerts": [], "digest": None}


def _row(manifest: Manifest) -> dict[str, Any]:
    names = ("cluster", "captured", "source", "error", "warnings", "alerts", "digest")
    return {**{name: getattr(manifest, name) for name in names}, "fresh": False}


def _read_manifest(place: AnyPath) -> Manifest | None:
    """A manifest; None where there is none, or an earlier kfast wrote it."""
    if not place.is_file():
        return None
    try:
        return msgspec.json.decode(place.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _inputs(job: Job, source: str) -> dict[str, str]:
    """Hashes of the files that results follow from, or why one cannot be read."""
    hashes = {}
    export = parse_path(source)
    folder = export.parent
    for path in (export, *(folder / name for name in job.names_beside)):
        try:
            hashes[path.name] = hash_file(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            hashes[path.name] = str(error.strerror or error)
    return hashes


def _make(job: Job, source: str, results: _Results) -> dict[str, Any]:
    """Write everything; what cannot be read is an error, and has no results."""
    error: str | None = None
    digest: str | None = None
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    alerts: list[dict[str, Any]] = []
    try:
        state = job.exports.read(source)
        sweeps = [(sweep, make_scenarios(sweep.scenarios, state)) for sweep in job.sweeps]
        plan = prepare_sweep(state)
        capacity, warnings, of_capacity = (
            (None, (), ()) if job.capacity is None else job.capacity.prepare(source, plan, state)
        )
    except KfastError as problem:
        error = str(problem)
    else:
        digest, assumptions = f"{state.digest():016x}", (*state.assumptions, *of_capacity)
        tables = state.to_tables()
        for name in TABLES:
            table: pa.Table = getattr(tables, name)
            results.write(f"tables/{name}", table.schema, iter(table.to_batches()))
        summary: list[dict[str, Any]] = []
        for sweep, scenarios in sweeps:
            with sweep_reader(plan, scenarios) as reader:
                measured: list[
                    tuple[str, Collection[str], pa.Schema, Iterable[pa.RecordBatch]]
                ] = [("sweeps", SWEEP_COUNTS, fleet_schema(tuple(SWEEP_COUNTS)), reader)]
                if capacity is not None:
                    measured.append((
                        "capacity", CAPACITY_METRICS, FLEET_CAPACITY.schema,
                        capacity.batches(scenarios),
                    ))
                for folder, metrics, schema, batches in measured:
                    worst = WorstCases(sweep, metrics)
                    rows = (
                        fleet_batch(batch, source, state, scenarios, schema) for batch in batches
                    )
                    results.write(f"{folder}/{sweep.name}", schema, worst.watch(rows))
                    summary += worst.summary()
                    alerts += worst.alerts()
        for name, cases, result in (
            ("summaries", summary, PIPELINE_SUMMARIES), ("alerts", alerts, PIPELINE_ALERTS)
        ):
            batch = pa.RecordBatch.from_pylist(cases, schema=result.schema)
            results.write(name, result.schema, iter([batch]))
    results.drop_others()
    return {
        "error": error, "digest": digest, "assumptions": list(assumptions),
        "warnings": list(warnings), "alerts": [alert_sentence(alert) for alert in alerts],
        "rows": results.rows, "files": results.files,
    }


class WorstCases:
    """The worst of a sweep, and the alerts that hold, found while its rows go by.

    Metrics are compared as float64, which is exact for counts, and for bytes below 2^53.
    """

    def __init__(self, sweep: Sweep, metrics: Collection[str]) -> None:
        self.sweep = sweep
        self.metrics = metrics
        self.conditions = [alert for alert in sweep.alerts if alert.metric in metrics]
        self.baseline: dict[str, float | None] = {}
        self.worst: dict[str, dict[str, Any]] = {}

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the batches on."""
        for batch in batches:
            for name in self.metrics:
                values = _numbers(batch, name)
                if values.size:
                    first = float(values[0])
                    self.baseline.setdefault(name, None if np.isnan(first) else first)
                sign = -1 if name in _WORSE_IF_LESS else 1
                self._see(name, batch, values, sign, ~np.isnan(values))
            for alert in self.conditions:
                values = _numbers(batch, alert.metric)
                sign = -1 if alert.compare in _SMALLER else 1
                holds = alert.compare(values, alert.limit) & ~np.isnan(values)
                self._see(f"if {alert.text}", batch, values, sign, holds)
            yield batch

    def _see(
        self, key: str, batch: pa.RecordBatch, values: npt.NDArray[np.float64], sign: int,
        holds: npt.NDArray[np.bool_],
    ) -> None:
        """Remember the worst of some scenarios, the first of equals, and how many they are."""
        if not holds.any():
            return
        rank = np.where(holds, sign * values, -np.inf)
        at = int(rank.argmax())
        known = self.worst.get(key)
        n = int(holds.sum()) + (0 if known is None else known["scenarios"])
        if known is None or rank[at] > known["rank"]:
            known = {
                "rank": rank[at], "worst": float(values[at]),
                "worst_scenario": batch.column("scenario")[at].as_py(),
                "worst_brokers": sorted(batch.column("brokers")[at].as_py()),
            }
        self.worst[key] = {**known, "scenarios": n}

    def summary(self) -> list[dict[str, Any]]:
        """Rows of `PIPELINE_SUMMARIES`."""
        return [self._case(name, PIPELINE_SUMMARIES.schema) | {"metric": name, "baseline": n}
                for name, n in self.baseline.items() if name in self.worst]

    def alerts(self) -> list[dict[str, Any]]:
        """Rows of `PIPELINE_ALERTS`."""
        return [
            self._case(f"if {alert.text}", PIPELINE_ALERTS.schema) | {"condition": alert.text}
            for alert in self.conditions
            if f"if {alert.text}" in self.worst
        ]

    def _case(self, key: str, schema: pa.Schema) -> dict[str, Any]:
        worst = self.worst[key]
        return {k: v for k, v in worst.items() if k in schema.names} | {"sweep": self.sweep.name}


def _numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.float64]:
    """A column of numbers; NaN for null."""
    values: npt.NDArray[np.float64] = batch.column(name).cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    return values


def alert_sentence(alert: Mapping[str, Any]) -> str:
    """An alert in words."""
    down = ",".join(map(str, alert["worst_brokers"]))
    when = f"when {down} fail{'' if ',' in down else 's'}" if down else "as it is"
    n = alert["scenarios"]
    return (
        f"{alert['sweep']}: {alert['condition']} in {n} scenario{'' if n == 1 else 's'};"
        f" the worst is {alert['worst']:.15g}, {when}"
    )
