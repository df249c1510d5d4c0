"""Files of the repository that rules of style are about, and how a rule names its offenders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kfast"
FOLDERS = ("kfast", "pyspark_kfast", "tests", "benchmarks", "bench_data", "docs")
SOURCES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyx", ".pxd", ".pyi", ".h"}
    and ROOT / "docs" / "generated" not in path.parents
)
SOURCES.append(ROOT / "kfast_command.py")
PAGES = [
    *sorted(ROOT.glob("*.md")), ROOT / "bench_data" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def name_of(path: Path) -> str:
    """Path of a file in the repository."""
    return path.relative_to(ROOT).as_posix()


def assert_none(offenders: Iterable[str]) -> None:
    """Fail with every place that breaks a rule, a line for each."""
    places = list(offenders)
    assert not places, "\n".join([f"{len(places)} places break the rule:", *places])
