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
from click.testing import CliRunner

from kfast.cli.app import commands
from tests.cli.test_cli_process import ROOT

DESCRIBE = str(ROOT / "bench_data" / "describe.txt")
KILLED = """
import os, signal
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
from kfast_command import main
main()
"""
"""kfast, killed when all is written and the file is to take its place."""

WRITERS = {
    "show": ("show", DESCRIBE),
    "fail": ("fail", DESCRIBE, "--brokers", "101"),
    "reassign": ("reassign", DESCRIBE, "--plan", str(ROOT / "bench_data" / "plan.json")),
    "delete": ("delete", DESCRIBE, "--topics", "scratch"),
    "sweep": ("sweep", DESCRIBE, "--every", "2"),
    "restart": ("restart", DESCRIBE),
    "risk": ("risk", DESCRIBE),
    "replay": ("replay", str(ROOT / "bench_data" / "incident")),
}
ENDINGS = (".txt", ".json", ".csv", ".parquet", ".arrow")


def run(*args, code=0):
    """Run a command; check its exit code; give what it printed on each stream."""
    found = CliRunner().invoke(commands, [str(arg) for arg in args])
    assert found.exit_code == code, (found.stdout, found.stderr, found.exception)
    return found


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
    found = run("convert", DESCRIBE, tmp_path / "x.json", "--format", "parquet", code=2)
    assert "--format says parquet" in found.stderr
    run("convert", DESCRIBE, tmp_path / "x.parquet", "--format", "parquet-flat")


# --- whole or not at all -------------------------------------------------------------------------


def run_killed(*args):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *map(str, args)], cwd=ROOT, capture_output=True, timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(("name", "ending"), [
    *((name, ".parquet") for name in WRITERS),
    *(("fail", ending) for ending in ENDINGS if ending != ".parquet"), ("sweep", ".csv"),
    ("sweep", ".arrow"),
])
def test_a_writer_that_is_killed_leaves_the_old_file(name, ending, tmp_path):
    """`sweep` left an unreadable file under the final name."""
    path = tmp_path / f"x{ending}"
    one_table = ("--table", "scenarios") if name == "sweep" else ()
    one_table = ("--table", "topics") if (name, ending) == ("fail", ".csv") else one_table
    path.write_bytes(b"old")
    run_killed(*WRITERS[name], *one_table, "-o", path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("ending", [".arrow", ".parquet", ".txt"])
def test_a_cluster_that_is_being_written_is_killed(ending, tmp_path):
    """`convert`, `generate` and `kfast.write` go the same way."""
    for args in (("convert", DESCRIBE), ("generate", "--brokers", "3", "--partitions", "9", "-o")):
        path = tmp_path / f"{args[0]}{ending}"
        run_killed(*args, path)
        assert not path.exists()
        path.write_bytes(b"old")
        run_killed(*args, path)
        assert path.read_bytes() == b"old"


def test_a_sweep_that_is_killed_between_rows_leaves_the_old_file(tmp_path):
    """Some scenarios are written, the next ones are not."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"old")
    script = KILLED.replace("os.fsync = lambda _:", (
        "import kfast.cli.output as output\n"
        "write, n = output.RowWriter.write, []\n"
        "output.RowWriter.write = lambda *a: write(*a) if not n.append(1) and len(n) < 3 else"))
    done = subprocess.run(
        [sys.executable, "-c", script, "sweep", DESCRIBE, "--random", "200000", "--down", "3", "-o",
         str(path)], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert path.read_bytes() == b"old"


# --- standard output -----------------------------------------------------------------------------


def run_shell(line):
    """A line of a shell, with `kfast` for this Python's."""
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("kfast", f"{sys.executable} -m kfast")], cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
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
