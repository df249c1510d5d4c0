"""Files that kfast writes: whole or not at all, in the form that the name says."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kfast.cli.app import commands
from tests.support.cli_run import ROOT, run

DESCRIBE = str(ROOT / "bench_data" / "describe.txt")
KILLED = """
import json, os, signal, sys
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
import kfast.cli.output as output
from kfast.cli.app import commands
from kfast_command import main
for name in commands.places:
    commands.get_command(None, name)
for args in json.loads(sys.argv[1]):
    if not (child := os.fork()):
        sys.argv[1:] = args
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs commands, each of which is killed when all is written and the file is to take its place."""

WRITERS = {
    "show": ("show", DESCRIBE),
    "fail": ("fail", DESCRIBE, "--brokers", "101"),
    "reassign": ("reassign", DESCRIBE, "--plan", str(ROOT / "bench_data" / "plan.json")),
    "delete": ("delete", DESCRIBE, "--topics", "scratch"),
    "sweep": ("sweep", DESCRIBE, "--every", "2"),
    "restart": ("restart", DESCRIBE),
    "risk": ("risk", DESCRIBE, "--mttf", "3y", "--replace-hours", "4"),
    "replay": ("replay", str(ROOT / "bench_data" / "incident")),
}
ENDINGS = (".txt", ".json", ".csv", ".parquet", ".arrow")


def rows_of(path):
    """Rows of a file of any form of tables, as texts by column."""
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    table = pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()
    return table.to_pylist()


def as_text(value):
    """A value as CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds")
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


# --- forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".html", ".md", ".tsv", ""])
@pytest.mark.parametrize("name", WRITERS)
def test_an_ending_that_is_not_written_is_refused(name, ending, tmp_path):
    """The text of the terminal was written to x.html and x.csv, with exit code 0."""
    found = run(*WRITERS[name], "-o", tmp_path / f"x{ending}", code=2)
    assert "right is one of" in " ".join(found.stderr.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", WRITERS)
def test_every_table_is_written_in_every_form(name, tmp_path):
    """CSV has a file for each table; --table takes one; all forms have the same rows."""
    run(*WRITERS[name], "-o", tmp_path / "x.csv")
    tables = sorted(path.stem.removeprefix("x-") for path in tmp_path.iterdir())
    option = next(p for p in commands.get_command(None, name).params if "--table" in p.opts)
    assert tables == sorted(option.type.choices)
    for table in tables:
        in_csv = rows_of(tmp_path / f"x-{table}.csv")
        one = tmp_path / f"{table}.csv"
        run(*WRITERS[name], "--table", table, "-o", one)
        assert rows_of(one) == in_csv
        for ending in (".parquet", ".arrow"):
            path = tmp_path / f"{table}{ending}"
            run(*WRITERS[name], "--table", table, "-o", path)
            rows = rows_of(path)
            if not any(isinstance(v, float) for row in rows[:1] for v in row.values()):
                assert [{k: as_text(v) for k, v in row.items()} for row in rows] == in_csv
            assert len(rows) == len(in_csv)


@pytest.mark.parametrize("name", WRITERS)
def test_an_answer_is_json(name, tmp_path):
    run(*WRITERS[name], "-o", tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["command"] == name
    assert run(*WRITERS[name], "--format", "json").stdout == (tmp_path / "x.json").read_text()


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_is_json_too(name, tmp_path):
    """An object a line, with the keys and values of the same rows as CSV."""
    option = next(p for p in commands.get_command(None, name).params if "--table" in p.opts)
    for table in option.type.choices:
        run(*WRITERS[name], "--table", table, "-o", tmp_path / "x.csv")
        path = tmp_path / "x.json"
        run(*WRITERS[name], "--table", table, "-o", path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        in_csv = rows_of(tmp_path / "x.csv")
        assert len(rows) == len(in_csv)
        assert [list(row) for row in rows[:1]] == [list(row) for row in in_csv[:1]]


def test_an_input_whose_name_is_not_utf_8(tmp_path):
    """Its JSON was a fault of kfast's own."""
    path = tmp_path / os.fsdecode(b"bad\xff.txt")
    path.write_text((ROOT / "bench_data" / "describe.txt").read_text())
    assert json.loads(run("show", path, "--format", "json").stdout)["input"] == str(path)
    run("show", path, "-o", tmp_path / "x.parquet")


def test_a_cluster_is_not_written_under_the_ending_of_another_format(tmp_path):
    found = run("save", DESCRIBE, "-o", tmp_path / "x.json", "--format", "parquet", code=2)
    assert "--format says parquet" in found.stderr
    run("save", DESCRIBE, "-o", tmp_path / "x.parquet", "--format", "parquet-flat")


# --- whole or not at all -------------------------------------------------------------------------


def run_killed(*commands, script=KILLED):
    """Run commands in processes that are killed while they write."""
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps([[*map(str, args)] for args in commands])],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(commands), done.stderr


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path):
    """Of every command and in every form; `sweep` left an unreadable file under the final name."""
    written = [*((name, ".parquet") for name in WRITERS), *(("fail", end) for end in ENDINGS),
               ("sweep", ".csv"), ("sweep", ".arrow")]
    paths = [tmp_path / f"{number}{ending}" for number, (_, ending) in enumerate(written)]
    for path in paths:
        path.write_bytes(b"old")
    tables = {("fail", ".csv"): ("--table", "topics")}
    run_killed(*(
        (*WRITERS[name], *tables.get((name, ending), ("--table", "scenarios") * (name == "sweep")),
         "-o", path)
        for path, (name, ending) in zip(paths, written, strict=True)
    ))
    assert {path.read_bytes() for path in paths} == {b"old"}


def test_a_cluster_that_is_being_written_is_killed(tmp_path):
    """`save`, `generate` and `kfast.write` go the same way."""
    made = ("generate", "--brokers", "3", "--partitions", "9", "-o")
    writers = [(*args, tmp_path / f"{args[0]}{ending}") for ending in (".arrow", ".parquet", ".txt")
               for args in (("save", DESCRIBE, "-o"), made)]
    run_killed(*writers)
    assert not any(path.exists() for *_, path in writers)
    for *_, path in writers:
        path.write_bytes(b"old")
    run_killed(*writers)
    assert {path.read_bytes() for *_, path in writers} == {b"old"}


def test_a_sweep_that_is_killed_between_rows_leaves_the_old_file(tmp_path):
    """Some scenarios are written, the next ones are not."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"old")
    kill = "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
    killed_later = KILLED.replace(kill, "").replace("for args in", (
        "write, n = output.RowWriter.write, []\n"
        "output.RowWriter.write = lambda *a: (write(*a) if not n.append(1) and len(n) < 3\n"
        "                                     else os.kill(os.getpid(), signal.SIGKILL))\n"
        "for args in"))
    run_killed(("sweep", DESCRIBE, "--random", 200_000, "--down", 3, "-o", path),
               script=killed_later)
    assert path.read_bytes() == b"old"


# --- standard output -----------------------------------------------------------------------------


def run_shell(line):
    """A line of a shell, with `kfast` for this Python's."""
    command = f'kfast() {{ "{sys.executable}" -m kfast "$@"; }}\n{line}'
    return subprocess.run(
        ["/bin/sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )


@pytest.mark.parametrize("form", ["", "--format json", "--format csv", "--format parquet"])
def test_a_full_standard_output_is_named(form):
    """It ended with 3, and no file in the message."""
    done = run_shell(f"kfast show {DESCRIBE} {form} > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "Error: standard output: No space left on device\n"


@pytest.mark.parametrize("option", ["--help", "--version", "show --help"])
def test_help_on_a_full_standard_output(option):
    done = run_shell(f"kfast {option} > /dev/full")
    assert done.returncode == 3
    assert done.stderr == "Error: standard output: No space left on device\n"


def test_a_name_without_an_ending_takes_the_form_that_is_given():
    """Such as a pipe of the shell's, /dev/fd/63."""
    done = run_shell(f"kfast show {DESCRIBE} --format json -o /dev/fd/3 3>&1")
    assert json.loads(done.stdout)["command"] == "show"
    done = run_shell(f"kfast show {DESCRIBE} --format json -o /dev/full")
    assert done.returncode == 3
    assert done.stderr == "Error: /dev/full: No space left on device\n"


@pytest.mark.parametrize(("closed", "code", "said"), [
    (">&-", 3, "Error: standard output: it is closed\n"), ("2>&-", 0, ""), ("<&-", 0, ""),
])
def test_closed_streams_are_no_fault_of_kfast(closed, code, said):
    """They were, with a request to report it."""
    done = run_shell(f"kfast show {DESCRIBE} {closed}")
    assert (done.returncode, done.stderr) == (code, said)


def test_a_closed_input_is_named():
    done = run_shell("kfast show - <&-")
    assert (done.returncode, done.stderr) == (3, "Error: standard input: it is closed\n")
