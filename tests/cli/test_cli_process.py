"""The command line as a process: streams, signals, pipes and terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from kfast import generate, read, write
from kfast.analysis.broker_failure import fail_brokers

ROOT = Path(__file__).resolve().parents[2]
KFAST = (sys.executable, "-m", "kfast")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Name of a describe text of 24 brokers, with long topic names."""
    path = tmp_path_factory.mktemp("cluster") / "describe.txt"
    write(generate(brokers=24, partitions=600, racks=3, topics=40, seed=1), path)
    text = path.read_text().replace("topic-", "a-topic.with_a-very.long-name_of.a-team-")
    path.write_text(text)
    return path


def run(*args, **options):
    """Run kfast in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), **options.pop("env", {}))
    return subprocess.run(
        [*KFAST, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        cwd=ROOT,
        **options,
    )


def run_on_terminal(*args, columns=80, **variables):
    """Run kfast on a terminal; what it shows there, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        size = struct.pack("HHHH", 50, columns, 0, 0)
        fcntl.ioctl(1, termios.TIOCSWINSZ, size)
        os.chdir(ROOT)
        # execve, for pytest's readline sets COLUMNS where os.environ does not show it.
        environment = dict(os.environ, PYTHONPATH=str(ROOT), TERM="xterm-256color") | variables
        environment.pop("COLUMNS", None)
        os.execve(KFAST[0], [*KFAST, *map(str, args)], environment)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--version",), 0),
        (("fail", "{}", "--brokers", "3"), 0),
        (("fail", "{}"), 2),
        (("fail", "{}", "--brokers", "99"), 2),
        (("fail", "{}", "--racks", "a"), 2),
        (("show", "/dev/null"), 3),
        (("show", "no-such-file"), 3),
        (("fail", "{}", "--brokers", "3", "--fail-on", "leaders_moved>0"), 4),
    ],
)
def test_exit_codes(cluster, args, code):
    """As the help lists them."""
    assert run(*(arg.format(cluster) for arg in args)).returncode == code


def test_our_own_fault_is_code_1_and_short(tmp_path):
    """A line on what failed and how to report it; the traceback only on demand."""
    (tmp_path / "sitecustomize.py").write_text(
        "import kfast.cli.options as options\n"
        "def broken(*args, **options):\n"
        "    raise ZeroDivisionError('a test')\n"
        "options.read = broken\n"
    )
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    found = subprocess.run(
        [*KFAST, "show", "x"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=paths),
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, "")
    assert "ZeroDivisionError: a test" in found.stderr
    assert "Please report it" in found.stderr
    assert "Traceback" not in found.stderr
    for args, more in (((), {"KFAST_TRACEBACK": "1"}), (("--debug",), {})):
        found = subprocess.run(
            [*KFAST, *args, "show", "x"],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
            check=False,
            env=dict(os.environ, PYTHONPATH=paths) | more,
        )
        assert found.returncode == 1
        assert "Traceback" in found.stderr


def test_standard_output_has_data_only(cluster, tmp_path):
    """JSON parses as it is; nothing is on standard error; with -o nothing is on either."""
    found = run("fail", cluster, "--brokers", "3", "--format", "json")
    assert json.loads(found.stdout)["summary"]["leaders_moved"] > 0
    assert found.stderr == ""
    found = run("fail", cluster, "--brokers", "3", "-o", tmp_path / "x.json")
    assert found.stdout == found.stderr == ""
    assert json.loads((tmp_path / "x.json").read_text())["command"] == "fail"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    found = run("convert", cluster, "-", "--format", "describe")
    assert found.stdout.startswith("Topic: ")
    with cluster.open() as text:
        assert run("show", "-", stdin=text).returncode == 0


def test_a_pipe_gets_plain_text_that_is_never_cut(cluster):
    """No escape sequences, no blanks at the ends of lines, whatever the width of the terminal."""
    narrow = run("fail", cluster, "--brokers", "3", env={"COLUMNS": "40"})
    wide = run("fail", cluster, "--brokers", "3", env={"COLUMNS": "300", "FORCE_COLOR": "1"})
    assert narrow.stdout == wide.stdout
    assert "\x1b" not in narrow.stdout
    assert "…" not in narrow.stdout
    assert "a-topic.with_a-very.long-name_of.a-team-" in narrow.stdout
    assert all(line == line.rstrip() for line in narrow.stdout.splitlines())


@pytest.mark.parametrize("columns", [40, 80, 132])
@pytest.mark.parametrize("command", ["fail", "show", "schema"])
def test_a_terminal_of_40_columns_is_enough(cluster, command, columns):
    """No line is longer, and nothing is cut off."""
    args = {
        "fail": (
            cluster,
            "--brokers",
            "3",
            "--explain",
            "a-topic.with_a-very.long-name_of.a-team-00-0",
        ),
        "show": (cluster,),
        "schema": (),
    }[command]
    shown, code = run_on_terminal(command, *args, columns=columns)
    assert code == 0
    lines = [ESCAPE.sub("", line).rstrip() for line in shown.replace("\r", "\n").splitlines()]
    assert max(map(len, lines)) <= columns
    assert "…" not in shown
    if command == "fail":
        moved = fail_brokers(read(cluster), [3]).impact.summary["leaders_moved"]
        assert ["leaders_moved", str(moved)] in [line.split() for line in lines]


def test_nobody_reads_on(cluster):
    """`kfast ... | head -1` ends quietly."""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [*KFAST, "convert", str(cluster), "-", "--format", "describe"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        os.close(writer)
        os.close(reader)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 141
    assert said == b""


def heed_interrupts():
    """What starts in the background of a script ignores SIGINT; the command here must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    what = signal.SIG_IGN if ignored else signal.SIG_DFL
    found = subprocess.run(
        [*KFAST, "schema"], capture_output=True, text=True,
        timeout=60, cwd=ROOT, env=dict(os.environ, PYTHONPATH=paths, INTERRUPT_AT=module),
        preexec_fn=lambda: signal.signal(signal.SIGINT, what), check=False,
    )
    wanted = (0, "") if ignored else (130, "Interrupted.\n")
    assert (found.returncode, found.stderr) == wanted


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
    assert run("convert", tmp_path / "in.txt", output).returncode == 3
    assert output.read_text() == "old"


def test_standard_output_by_its_name_in_the_file_system(cluster, tmp_path):
    """`/dev/stdout` is `-`: also into a pipe, which has no path, and behind what a file has."""
    right = run("convert", cluster, "-", "--format", "describe").stdout
    assert len(right.splitlines()) == 640
    for name in ("/dev/stdout", "/dev/fd/1"):
        assert run("convert", cluster, name, "--format", "describe").stdout == right
    kept = tmp_path / "kept.txt"
    kept.write_text("first\n")
    environment = dict(os.environ, PYTHONPATH=str(ROOT))
    with kept.open("a") as file:
        other = f"/dev/fd/{file.fileno()}"
        for name, output in (("/dev/stdout", file), (other, subprocess.DEVNULL)):
            subprocess.run(
                [*KFAST, "convert", cluster, name, "--format", "describe"], check=True, cwd=ROOT,
                env=environment, stdout=output, stderr=subprocess.DEVNULL,
                pass_fds=(file.fileno(),),
            )
    assert kept.read_text() == f"first\n{right}{right}"
    done = run("convert", cluster, "/dev/fd/99", "--format", "describe")
    assert done.returncode == 2
    assert "/dev/fd/99: cannot be written: Bad file descriptor" in done.stderr
