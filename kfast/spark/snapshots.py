"""What the pipeline does with one export: tables, sweeps, summaries, alerts, and a manifest.

Every file is written whole or not at all, and holds nothing but what follows from the export and
the configuration. The manifest goes first and comes last: where it is, all files beside it are of
the export that it names. So whatever is killed, the next run ends with the same files. A lock on
each snapshot keeps two runs apart, for the tasks of a killed driver may go on for a while.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kfast import __version__
from kfast.errors import KfastError
from kfast.io.files import writing
from kfast.spark.dataset import locked
from kfast.spark.fleets import Exports, fleet_schema, labelled
from kfast.spark.questions import Question, make_scenarios, maker_of
from kfast.spark.tallies import ALERTS, SUMMARY, Sweep, Tally, say
from kfast.state import ClusterState
from kfast.state.build import build_digest
from kfast.sweeps import SWEEP_COUNTS, SweepPlan, prepare_sweep, sweep_reader

__all__ = ["Job", "label_of", "run_snapshot"]

TABLES = ("brokers", "topics", "partitions", "cluster")


@dataclass(frozen=True)
class Job:
    """What is done with every export.

    Attributes
    ----------
    exports : Exports
        How exports are read.
    sweeps : tuple of Sweep
    output : str
        Folder of the results.
    """

    exports: Exports
    sweeps: tuple[Sweep, ...]
    output: str

    def fingerprint(self) -> str:
        """Stand for all that results follow from, besides the export."""
        sweeps = [(s.name, s.question, [a.text for a in s.alerts]) for s in self.sweeps]
        said = repr(
            (build_digest(), sorted(self.exports.defaults.items()), self.exports.brokers_name,
             sweeps)
        )
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


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
    alerts: list[str]
    rows: dict[str, int]
    files: dict[str, str]


@dataclass
class _Written:
    """Files of a snapshot as they are written: how many rows, and what hash."""

    root: Path
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
        self.rows[name], self.files[name] = rows, _hash(path)

    def path(self, name: str) -> Path:
        """Where one file lies."""
        return self.root / name / self.label / "part.parquet"

    def drop_others(self) -> None:
        """Remove what an earlier run with other sweeps left of this snapshot."""
        for place in ("tables/*", "sweeps/*", "summaries", "alerts"):
            for folder in self.root.glob(place):
                path = folder / self.label / "part.parquet"
                if folder.relative_to(self.root).as_posix() not in self.files and path.exists():
                    path.unlink()


def label_of(source: str | Path) -> tuple[str, str]:
    """Cluster and time of capture: the export's folder, and its name up to the first dot."""
    path = Path(source)
    return path.absolute().parent.name, path.name.split(".")[0]


def run_snapshot(job: Job, source: str) -> dict[str, Any]:
    """Make the results of one export, unless they are there.

    Returns
    -------
    dict
        cluster, captured, source, fresh (whether anything was done), error, alerts, digest.
    """
    cluster, captured = label_of(source)
    written = _Written(Path(job.output), f"cluster={cluster}/captured={captured}")
    place = written.root / "manifests" / written.label / "manifest.json"
    with _alone_in(place.parent):
        inputs, fingerprint = _inputs(job, source), job.fingerprint()
        known = _read_manifest(place)
        if (
            known is not None
            and (known.inputs, known.configuration) == (inputs, fingerprint)
            and all(written.path(name).is_file() for name in known.files)
        ):
            return _row(known, fresh=False)
        if Path(source).name not in inputs:  # it was moved away since it was found
            return _undone(source, "is not there any more") if known is None else _row(known)
        place.unlink(missing_ok=True)
        made = _make(job, source, written)
        if _inputs(job, source) != inputs:
            return _undone(source, "was replaced while it was read; the next run reads it again")
        manifest = Manifest(
            cluster, captured, source, inputs, fingerprint,
            {s.name: _plainly(s.question) for s in job.sweeps}, _versions(), **made,
        )
        with writing(place) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
        return _row(manifest, fresh=True)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait until nobody else makes this snapshot; a process that is killed lets go of its lock."""
    with locked(folder, wait=True):
        _clear(folder)
        yield


def _clear(folder: Path) -> None:
    """Remove the unfinished files of whoever was killed here."""
    for left in folder.glob(".*.part"):
        left.unlink()


def _plainly(question: Question) -> dict[str, Any]:
    """A question as a manifest has it: seeds are among the arguments."""
    if callable(question):
        return {"scenarios": repr(question), "arguments": {}}
    name, arguments = maker_of(question)
    return {"scenarios": name, "arguments": dict(arguments)}


def _undone(source: str, why: str) -> dict[str, Any]:
    """What is said of an export that has no manifest now."""
    cluster, captured = label_of(source)
    return {"cluster": cluster, "captured": captured, "source": source, "fresh": False,
            "error": f"{source}: {why}", "alerts": [], "digest": None}


def _row(manifest: Manifest, *, fresh: bool = False) -> dict[str, Any]:
    names = ("cluster", "captured", "source", "error", "alerts", "digest")
    return {**{name: getattr(manifest, name) for name in names}, "fresh": fresh}


def _read_manifest(place: Path) -> Manifest | None:
    """A manifest; None where there is none, or an earlier kfast wrote it."""
    if not place.is_file():
        return None
    try:
        return msgspec.json.decode(place.read_bytes(), type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _inputs(job: Job, source: str) -> dict[str, str]:
    """Hashes of the files that results follow from, or why one cannot be read."""
    found = {}
    for path in (Path(source), Path(source).parent / job.exports.brokers_name):
        try:
            found[path.name] = _hash(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            found[path.name] = str(error.strerror)
    return found


def _versions() -> dict[str, str]:
    return {
        "kfast": __version__, "build": build_digest(), "python": platform.python_version(),
        "pyarrow": pa.__version__, "numpy": np.__version__,
    }


def _make(job: Job, source: str, written: _Written) -> dict[str, Any]:
    """Write everything; what cannot be read is an error, and has no results."""
    error: str | None = None
    digest: str | None = None
    assumptions: tuple[str, ...] = ()
    said: list[str] = []
    try:
        state = job.exports.read(source)
        asked = [(sweep, make_scenarios(sweep.question, state)) for sweep in job.sweeps]
        plan = prepare_sweep(state)
    except KfastError as problem:
        error = str(problem)
    else:
        digest, assumptions = f"{state.digest():016x}", state.assumptions
        tables = state.to_tables()
        for name in TABLES:
            table: pa.Table = getattr(tables, name)
            written.write(f"tables/{name}", table.schema, iter(table.to_batches()))
        summary: list[dict[str, Any]] = []
        alerts: list[dict[str, Any]] = []
        for sweep, scenarios in asked:
            tally = Tally(sweep)
            batches = tally.watch(_batches(plan, state, scenarios, source))
            written.write(f"sweeps/{sweep.name}", fleet_schema(tuple(SWEEP_COUNTS)), batches)
            summary += tally.summary()
            alerts += tally.alerts()
        for name, rows, schema in (("summaries", summary, SUMMARY), ("alerts", alerts, ALERTS)):
            batch = pa.RecordBatch.from_pylist(rows, schema=schema)
            written.write(name, schema, iter([batch]))
        said = [say(alert) for alert in alerts]
    written.drop_others()
    return {
        "error": error, "digest": digest, "assumptions": list(assumptions), "alerts": said,
        "rows": written.rows, "files": written.files,
    }


def _batches(
    plan: SweepPlan, state: ClusterState, scenarios: Any, source: str
) -> Iterator[pa.RecordBatch]:
    with sweep_reader(plan, scenarios) as reader:
        for batch in reader:
            yield labelled(batch, source, state, scenarios, tuple(SWEEP_COUNTS))
