"""Running commands within the process, in a process of their own, and on a terminal."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from kfast.cli.app import commands
from kfast.report.answer_schema import answer_schema

ROOT = Path(__file__).resolve().parents[2]
KFAST = (sys.executable, "-m", "kfast")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DESCRIBE = """\
Topic: orders\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: min.insync.replicas=2
\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1
Topic: logs\tPartitionCount: 2\tReplicationFactor: 1\tConfigs:
\tTopic: logs\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1
\tTopic: logs\tPartition: 1\tLeader: 3\tReplicas: 3,4\tIsr: 3
"""
RACKS = "broker_id,rack\n1,a\n2,b\n3,a\n4,b\n"
PLAN = {
    ("orders", 0): [2, 3, 1],
    ("orders", 1): [2, 3, 4],
    ("logs", 0): [9],
    ("logs", 7): [1],
    ("logs", 1): [3, 1],
}


def all_commands(group=commands, prefix=""):
    """Every command by its name, those of groups as `capacity sweep`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def plan_text(plan):
    """A plan as kafka-reassign-partitions takes it."""
    rows = [{"topic": t, "partition": p, "replicas": ids} for (t, p), ids in plan.items()]
    return json.dumps({"version": 1, "partitions": rows})


def run(*args, code=0, **options):
    """Run a command; check its exit code; give what it printed on each stream."""
    found = CliRunner().invoke(commands, [str(arg) for arg in args], **options)
    assert found.exit_code == code, (found.stdout, found.stderr, found.exception)
    return found


def answer(*args, code=0):
    """What a command answers as JSON, which is as the JSON Schema says."""
    document = json.loads(run(*args, "--format", "json", code=code).stdout)
    answer_validator().validate(document)
    return document


@functools.cache
def answer_validator():
    """What compares an answer with the schema that ships with the package."""
    return Draft202012Validator(json.loads(answer_schema()))


def verdict_of(text):
    """What follows the first line of an answer, which names the controller."""
    first, rest = text.split("\n", 1)
    assert first.startswith("Controller: "), first
    return rest


def check_page(block, code=0):
    """Run the command of a page's block; what is printed is as shown, three dots are any lines."""
    command, shown = block.split("\n", 1)
    program, *args = shlex.split(command.removeprefix("$ "))
    assert program == "kfast"
    printed = run(*args, code=code).stdout
    pattern = "(.*\n)*".join(re.escape(part) for part in shown.split("...\n"))
    assert re.fullmatch(pattern, printed), printed


def run_process(*args, paths=(), env=(), **options):
    """Run kfast in a process of its own."""
    path = os.pathsep.join(map(str, (*paths, ROOT)))
    return subprocess.run(
        [*KFAST, *map(str, args)], capture_output=True, text=True, timeout=60, check=False,
        env=dict(os.environ, PYTHONPATH=path, **dict(env)), cwd=ROOT, **options,
    )


def run_on_terminal(*args, columns=80, **variables):
    """Run kfast on a terminal; what it shows there, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        heed_interrupts()
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


def heed_interrupts():
    """What starts in the background of a script ignores SIGINT; the command here must not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
