"""`kfast.toml`: defaults of options, the working directory's or of the nearest folder above."""

from __future__ import annotations

import pytest

from kfast.cli.app import commands
from kfast.cli.command import ConfiguredCommand
from tests.support.cli_run import ROOT, all_commands, answer, run

BENCH = ROOT / "bench_data"


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Write the file in a folder, and work in a folder below."""
    below = tmp_path / "deep" / "down"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    def write(text):
        path = tmp_path / "kfast.toml"
        path.write_text(text)
        return path

    return write


def test_every_command_takes_defaults_and_can_be_quiet():
    for name, command in all_commands(commands):
        assert isinstance(command, ConfiguredCommand), name
        assert "--quiet" in [option for p in command.params for option in p.opts]


@pytest.mark.kernels
def test_defaults_are_those_of_the_options(configure, cluster, racks):
    """A table is for one command; files are relative to the folder of kfast.toml."""
    path = configure(
        'controller = "kraft-4.0"\nbrokers-file = "brokers.csv"\n'
        'default = ["min.insync.replicas=2"]\n'
        '[fail]\ncontroller = "3.9"\nbrokers = 1\n[show]\ntop = 3\n'
    )
    assert racks == str(path.parent / "brokers.csv")
    document = answer("fail", cluster)
    assert document["controller"]["name"] == "zk-3.9"
    assert document["scenario"]["brokers"] == [1]
    assert document["brokers"][0]["rack"] == "a"
    assert document["defaults"] == {"file": str(path), "options": {
        "controller": "3.9", "brokers-file": "brokers.csv",
        "default": ["min.insync.replicas=2"], "brokers": 1,
    }}
    wanted = answer("fail", cluster, "--controller", "3.9", "--brokers", 1)
    assert wanted["defaults"]["options"].keys() == {"brokers-file", "default"}
    assert answer("show", cluster)["controller"]["name"] == "kraft-4.0"


@pytest.mark.kernels
def test_the_command_line_wins_and_a_note_names_what_counts(configure, cluster):
    path = configure('controller = "kraft-4.0"\ntop = 1\n')
    found = run("show", cluster, "--profile", "zk-3.9")
    assert found.stdout.startswith("Controller: zk-3.9")
    assert found.stderr == f"Note: defaults of {path} are used: top = 1\n"
    assert answer("show", cluster, "--controller", "zk-3.9", "--top", 2)["defaults"] is None
    assert run("show", cluster, "--quiet").stderr == ""
    assert run("-q", "show", cluster).stderr == ""


@pytest.mark.kernels
def test_what_the_command_line_requires_may_be_a_default(configure):
    configure(
        f'load = ["{BENCH}/metrics.prom.gz", "{BENCH}/log-dirs.json.gz"]\n'
        f'capacity = "{BENCH}/capacities.csv"\nlimit = "nw_out=0.7"\n'
        '["capacity sweep"]\nevery = 1\n'
    )
    document = answer("capacity", "sweep", BENCH / "describe.txt")
    assert document["command"] == "capacity sweep"
    assert document["limits"]["normal"]["nw_out"] == 7000


@pytest.mark.kernels
def test_steps_may_be_defaults(configure, cluster):
    configure('[fail]\nthen = ["2", "3"]\n')
    steps = answer("fail", cluster, "--brokers", 1)["steps"]
    assert [step["broker_ids"] for step in steps] == [[1], [2], [3]]


REFUSED = {
    "controler = 'zk-3.9'": "controler: no command has an option --controler; did you mean contro",
    "[shwo]\ntop = 3": "[shwo]: there is no such command; did you mean show?",
    "[show]\nbrokers-fil = 'x'": "[show] brokers-fil: kfast show has no option --brokers-fil; did",
    "[capacity.sweep]\nevery = 1": "[capacity]: there is no such command; did you mean capacity ",
    "top = '3'": "top is '3'; right is a number",
    "top = true": "top is True; right is a number",
    "top = 1.5": "top is 1.5; right is a number",
    "top = -1": "top: -1 is not in the range x>=0.",
    "verbose = 1": "verbose is 1; right is true or false",
    "elr = true": "elr is True; right is one of on, off",
    "elr = 'perhaps'": "elr: 'perhaps' is not one of 'on', 'off'.",
    "up = ['a']": "up: 'a' is not a broker id",
    "up = [[1]]": "up is [[1]]; right is a text or a list of them",
    "controller = ['zk-3.9']": "controller is ['zk-3.9']; right is a text",
    "at = 'never'": "at: 'never' is neither an offset such as",
    'brokers-file = "\\u0000"': "is no name of a file",
    "version = true": "version: no command has an option --version",
    "help = true": "help: no command has an option --help",
    "top = ": "is not TOML: Invalid value",
    "\udcff": "is not TOML",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_names_the_file_and_the_key(configure, cluster, text):
    path = configure("")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = run("show", cluster, code=3)
    assert found.stdout == ""
    assert found.stderr.startswith(f"Error: {path}: ")
    assert REFUSED[text] in found.stderr


def test_another_command_may_have_what_this_one_has_not(configure):
    configure('limit = "nw_out=0.7"\n["capacity sweep"]\nevery = 1\n')
    assert run("schema").stderr == ""
