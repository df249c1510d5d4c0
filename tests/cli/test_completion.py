"""`kfast completion`: what shells ask, and what they are answered."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kfast.cli.app import commands
from tests.support.cli_run import run, run_process

FILES = {
    "bash": ".local/share/bash-completion/completions/kfast",
    "zsh": ".local/share/zsh/site-functions/_kfast",
    "fish": ".config/fish/completions/kfast.fish",
}


@pytest.mark.parametrize("shell", FILES)
def test_the_script_is_printed_or_installed(shell, tmp_path):
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": None, "XDG_CONFIG_HOME": None}
    printed = run("completion", shell)
    path = tmp_path / FILES[shell]
    assert "_KFAST_COMPLETE" in printed.stdout
    assert not path.exists()
    installed = run("completion", shell, "--install", env=home)
    assert (installed.stdout, path.read_text()) == ("", printed.stdout.removesuffix("\n"))
    assert installed.stderr.startswith(f"Wrote {path}. New shells have it")
    if shutil.which(shell):
        subprocess.run([shell, "-n", path], check=True, capture_output=True)


def complete(*words):
    """What a shell is answered at the end of some words."""
    answered = run_process(env={
        "_KFAST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    })
    assert (answered.returncode, answered.stderr) == (0, "")
    return answered.stdout.split()


def test_commands_options_and_files_are_completed():
    assert complete("kfast", "ca") == ["plain,capacity"]
    assert complete("kfast", "capacity", "s") == ["plain,show", "plain,size", "plain,sweep"]
    assert complete("kfast", "show", "--brokers-f") == ["plain,--brokers-file"]
    assert complete("kfast", "fail", "--format", "pa") == ["plain,parquet"]
    assert complete("kfast", "show", "bench_data/d") == ["file,bench_data/d"]
    assert complete("kfast", "show", "--brokers-file", "bench_data/b") == ["file,bench_data/b"]


def test_commands_are_completed_without_loading_them():
    context = commands.make_context("kfast", [], resilient_parsing=True)
    loaded = set(commands.commands)
    assert "sweep" in {item.value for item in commands.shell_complete(context, "")}
    assert set(commands.commands) == loaded
