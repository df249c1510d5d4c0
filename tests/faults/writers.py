"""What writes: commands, and saving a state; each in a process that a fault can end.

A process that has everything loaded is forked for each run, so that a kill meets the work and not
the imports.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import kfast
from tests.support.cli_run import ROOT

DESCRIBE = str(ROOT / "bench_data" / "describe.txt")
OLD = b"old"

RUNS = """
import json, os, random, signal, sys, time
import kfast
from kfast.cli.app import commands
from kfast_command import main
for name in commands.places:
    commands.get_command(None, name)
made = kfast.generate(brokers=6, partitions=3000, seed=1)

def run(args):
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    if args[0] == "state.save":
        made.save(args[1])
    else:
        sys.argv[1:] = args
        main()

def child(args):
    pid = os.fork()
    if pid:
        return pid
    try:
        run(args)
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(0)

for line in sys.stdin:
    args, after = json.loads(line)
    begin = time.monotonic()
    pid = child(args)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([status, time.monotonic() - begin]), flush=True)
"""


class Runner:
    """Runs commands one after another, each for as long as one likes."""

    def __enter__(self) -> Runner:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            cwd=ROOT, text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def run(self, args: list[str], after: float | None = None) -> tuple[int, float]:
        """Run a command, kill it after some seconds; its exit code, and how long it took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([args, after]), file=self.process.stdin, flush=True)
        code, seconds = json.loads(self.process.stdout.readline())
        return code, seconds


KILLED = -signal.SIGKILL


def read_tables(path: Path) -> None:
    """Read a file of one table to its end."""
    if path.suffix == ".parquet":
        pq.read_table(path).validate(full=True)
    else:
        pa.ipc.open_file(path).read_all().validate(full=True)


def read_page(path: Path) -> None:
    """A page that has its end."""
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")


def read_csv(path: Path) -> None:
    """A table whose last line is whole."""
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    assert len({line.count(",") for line in lines[:1]}) == 1


@dataclass(frozen=True)
class Writer:
    """A command that writes one file, and what reads it back."""

    args: tuple[str, ...]
    ending: str
    read: Callable[[Path], object]
    output: tuple[str, ...] = ("-o",)

    def command(self, path: Path) -> list[str]:
        """Arguments that write to a path."""
        return [*self.args, *self.output, str(path)]


WRITERS = {
    "state": Writer(("state.save",), "", lambda path: kfast.open(path).digest(), ()),
    "save": Writer(("save", DESCRIBE), ".parquet", kfast.read),
    "save as text": Writer(("save", DESCRIBE), ".txt", kfast.read),
    "save as Arrow": Writer(("save", DESCRIBE), ".arrow", kfast.read),
    "generate": Writer(
        ("generate", "--brokers", "9", "--partitions", "4000"), ".txt", kfast.read
    ),
    "fail": Writer(
        ("fail", DESCRIBE, "--brokers", "101"), ".json", lambda path: json.loads(path.read_bytes())
    ),
    "sweep": Writer(
        ("sweep", DESCRIBE, "--every", "2", "--table", "scenarios"), ".parquet", read_tables
    ),
    "show": Writer(("show", DESCRIBE, "--table", "topics"), ".csv", read_csv),
    "report": Writer(("report", DESCRIBE), ".html", read_page),
}


def put_old(writer: Writer, path: Path) -> None:
    """Something of an earlier run."""
    if writer.output:
        path.write_bytes(OLD)
    else:
        kfast.generate(brokers=3, partitions=10).save(path)


def is_old(writer: Writer, path: Path) -> bool:
    """Whether what is there is of the earlier run."""
    if writer.output:
        return path.read_bytes() == OLD
    return kfast.open(path).n_partitions == 10


def left_behind(path: Path) -> list[Path]:
    """Hidden parts of runs that were killed; none has the name of an output."""
    return [other for other in path.parent.iterdir() if other != path and path.name in other.name]


def environment() -> dict[str, str]:
    """That of this process, for one that imports this kfast."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
