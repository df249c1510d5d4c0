"""The command line as a process: streams, signals, pipes and terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kfast import generate, read, write
from kfast.analysis.broker_failure import fail_brokers
from tests.support.cli_run import (
    ESCAPE,
    KFAST,
    ROOT,
    heed_interrupts,
    run,
    run_on_terminal,
    run_process,
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Name of a describe text of 24 brokers, with long topic names."""
    path = tmp_path_factory.mktemp("cluster") / "describe.txt"
    write(generate(brokers=24, partitions=600, racks=3, topics=40, seed=1), path)
    text = path.read_text().replace("topic-", "a-topic.with_a-very.long-name_of.a-team-")
    path.write_text(text)
    return path


@pytest.mark.parametrize(("args", "code"), [
    (("fail", "{}"), 2), (("show", "no-such-file"), 3),
    (("fail", "{}", "--brokers", "3", "--fail-on", "leaders_moved>0"), 4),
])
def test_exit_codes(cluster, args, code):
    """As the help lists them."""
    assert run_process(*(arg.format(cluster) for arg in args)).returncode == code


def test_our_own_fault_is_code_1_and_short(tmp_path):
    """A line on what failed and how to report it; the traceback only on demand."""
    (tmp_path / "sitecustomize.py").write_text(
        "import kfast.cli.options as options\n"
        "def broken(*args, **options):\n"
        "    raise ZeroDivisionError('a test')\n"
        "options.read = broken\n"
    )
    found = run_process("show", "x", paths=[tmp_path])
    assert (found.returncode, found.stdout) == (1, "")
    assert "ZeroDivisionError: a test" in found.stderr
    assert "Please report it" in found.stderr
    assert "Traceback" not in found.stderr
    for args, more in (((), {"KFAST_TRACEBACK": "1"}), (("--debug",), {})):
        found = run_process(*args, "show", "x", paths=[tmp_path], env=more)
        assert found.returncode == 1
        assert "Traceback" in found.stderr


def test_standard_output_has_data_only(cluster, tmp_path):
    """JSON parses as it is; nothing is on standard error; with -o nothing is on either."""
    found = run_process("fail", cluster, "--brokers", "3", "--format", "json")
    assert json.loads(found.stdout)["summary"]["leaders_moved"] > 0
    assert found.stderr == ""
    found = run("fail", cluster, "--brokers", "3", "-o", tmp_path / "x.json")
    assert found.stdout == found.stderr == ""
    assert json.loads((tmp_path / "x.json").read_text())["command"] == "fail"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert run("save", cluster, "-o", "-", "--format", "describe").stdout.startswith("Topic: ")
    with cluster.open() as text:
        assert run_process("show", "-", stdin=text).returncode == 0


def test_a_pipe_gets_plain_text_that_is_never_cut(cluster):
    """No escape sequences, no blanks at the ends of lines, whatever the width of the terminal."""
    narrow = run("fail", cluster, "--brokers", "3", env={"COLUMNS": "40"})
    wide = run("fail", cluster, "--brokers", "3", env={"COLUMNS": "300", "FORCE_COLOR": "1"})
    assert narrow.stdout == wide.stdout
    assert "\x1b" not in narrow.stdout
    assert "…" not in narrow.stdout
    assert "a-topic.with_a-very.long-name_of.a-team-" in narrow.stdout
    assert all(line == line.rstrip() for line in narrow.stdout.splitlines())


@pytest.mark.parametrize("columns", [40, 132])
def test_a_terminal_of_40_columns_is_enough(cluster, columns):
    """No line is longer, and nothing is cut off; `test_terminal` tries every command."""
    topic = "a-topic.with_a-very.long-name_of.a-team-00-0"
    args = ("fail", cluster, "--brokers", "3", "--explain", topic)
    shown, code = run_on_terminal(*args, columns=columns)
    assert code == 0
    lines = [ESCAPE.sub("", line).rstrip() for line in shown.replace("\r", "\n").splitlines()]
    assert max(map(len, lines)) <= columns
    assert "…" not in shown
    moved = fail_brokers(read(cluster), [3]).impact.summary["leaders_moved"]
    assert ["leaders_moved", str(moved)] in [line.split() for line in lines]


def test_nobody_reads_on(cluster):
    """`kfast ... | head -1` ends quietly."""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [*KFAST, "save", str(cluster), "-o", "-", "--format", "describe"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        os.close(writer)
        os.close(reader)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 141
    assert said == b""


INTERRUPTS = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
"""


@pytest.mark.parametrize(
    ("module", "ignored"),
    [("kfast.cli", False), ("numpy", False), ("pyarrow", False), ("kfast.cli", True)],
)
def test_ctrl_c_while_kfast_loads(tmp_path, module, ignored):
    """No traceback. What runs in the background ignores the signal, and goes on."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    action = signal.SIG_IGN if ignored else signal.SIG_DFL
    found = run_process(
        "schema", paths=[tmp_path], env={"INTERRUPT_AT": module},
        preexec_fn=lambda: signal.signal(signal.SIGINT, action),
    )
    assert (found.returncode, found.stderr) == ((0, "") if ignored else (130, "Interrupted.\n"))


@pytest.mark.parametrize("module", ["kfast", "kfast.lazy_names", "typing"])
def test_ctrl_c_in_the_first_import_of_the_installed_command(tmp_path, module):
    """What the installed command runs handles it before the package is imported."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    ended = subprocess.run(
        [sys.executable, "-c", "from kfast_command import main; main()", "schema"],
        env={**os.environ, "PYTHONPATH": paths, "INTERRUPT_AT": module},
        capture_output=True, text=True, preexec_fn=heed_interrupts, timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (130, "Interrupted.\n")


def test_ctrl_c_is_told_on_a_line_of_its_own(tmp_path):
    """On a terminal, where ^C or a progress bar may stand on the line."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    shown, code = run_on_terminal("schema", PYTHONPATH=paths, INTERRUPT_AT="numpy")
    assert (code, shown) == (130, "\r\nInterrupted.\r\n")


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    """Interrupted while it writes: code 130, no traceback, no file and no part of one."""
    args = ("generate", "--brokers", "300", "--partitions", "3000000", "-o", tmp_path / "large.txt")
    command = [*KFAST, *map(str, args)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, cwd=ROOT, preexec_fn=heed_interrupts
    ) as process:
        while process.poll() is None and not list(tmp_path.iterdir()):
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130
    assert said == "Interrupted.\n"
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_outlives_a_failed_command(tmp_path):
    """A refused input leaves what was there as it was."""
    output = tmp_path / "old.txt"
    output.write_text("old")
    (tmp_path / "in.txt").write_text("nonsense\n")
    run("save", tmp_path / "in.txt", "-o", output, code=3)
    assert output.read_text() == "old"


def test_standard_output_by_its_name_in_the_file_system(cluster, tmp_path):
    """`/dev/stdout` is `-`: also into a pipe, which has no path, and behind what a file has."""
    right = run("save", cluster, "-o", "-", "--format", "describe").stdout
    assert len(right.splitlines()) == 640
    for name in ("/dev/stdout", "/dev/fd/1"):
        assert run_process("save", cluster, "-o", name, "--format", "describe").stdout == right
    kept = tmp_path / "kept.txt"
    kept.write_text("first\n")
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    with kept.open("a") as file:
        other = f"/dev/fd/{file.fileno()}"
        for name, output in (("/dev/stdout", file), (other, subprocess.DEVNULL)):
            subprocess.run(
                [*KFAST, "save", cluster, "-o", name, "--format", "describe"], check=True,
                cwd=ROOT, env=environment, stdout=output, stderr=subprocess.DEVNULL,
                pass_fds=(file.fileno(),),
            )
    assert kept.read_text() == f"first\n{right}{right}"
    done = run("save", cluster, "-o", "/dev/fd/99", "--format", "describe", code=2)
    assert "/dev/fd/99: cannot be written: Bad file descriptor" in done.stderr
