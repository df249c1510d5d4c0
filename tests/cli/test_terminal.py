"""What a terminal shows: text from files as it is, and whole figures at any width."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from random import Random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import kfast
from kfast.cli.app import commands
from kfast.cli.exits import shown_lines
from kfast.report import writing
from kfast.report.tables import TableColumn, TextTable, text_column
from kfast.state.display import escape_control
from tests.support.cli_run import ESCAPE, ROOT, run_on_terminal

PIECES = (
    "\x1b]0;title\x07", "\x1b[31m", "\x1b[2J", "\x9b31m", "\x00", "\x08", "\x7f", "\r", "\t",
    "\u202e", "\u200b", "\u2028", "\ufeff", "[red]", "[/red]", "[/]", "[bold", "]", "\\[", "\\",
    ":smile:", "[link=http://x]", "[@click=f()]", "a", "rack", "eu-1", "漢字", "é", " ", ",", '"',
    "'", "<b>", "&amp;", "%s", "{}", "{0}",
)
"""Escape sequences, what is invisible, rich's markup and emoji, and plain text."""


def hostile(generator, n):
    """Different texts, each of up to eight pieces."""
    texts = {}
    while len(texts) < n:
        text = "".join(generator.choices(PIECES, k=generator.randint(1, 8))).strip()
        texts.setdefault(text)
    texts.pop("", None)
    return list(texts)


def check_shown(shown):
    """A terminal obeys nothing in it: apart from ends of lines, all of it can be printed."""
    obeyed = {
        (f"{ord(c):x}", unicodedata.name(c, "no name")) for c in shown
        if not c.isprintable() and c != "\n"
    }
    assert not obeyed


def run(*args, codes=(0,)):
    """Run a command; what it printed on both streams."""
    found = CliRunner().invoke(commands, [str(arg) for arg in args])
    assert found.exit_code in codes, (args, found.stderr, found.exception)
    check_shown(found.stdout)
    check_shown(found.stderr)
    return found.stdout + found.stderr


def draw(table, width):
    """Lines of a table on a terminal of so many columns."""
    console = Console(file=io.StringIO(), width=width, markup=True, emoji=True, highlight=False)
    table.draw(console)
    return console.file.getvalue().split("\n")


# --- text from files -----------------------------------------------------------------------------


def test_ten_thousand_texts_are_shown_as_they_are():
    """In messages and in cells: nothing is obeyed, and markup stays what is written."""
    texts = hostile(Random(12), 10_000)
    for start in range(0, len(texts), 100):
        table = TextTable("Racks", [text_column("rack"), "n"])
        for text in texts[start : start + 100]:
            check_shown(shown_lines(text))
            table.add_row(text, "1")
        lines = draw(table, 400)
        check_shown("\n".join(lines))
        for text, line in zip(texts[start : start + 100], lines[4:], strict=False):
            assert line.startswith(escape_control(text)), text


@pytest.mark.parametrize("seed", range(20))
def test_hostile_racks_and_files_go_through_every_command(seed, tmp_path):
    """Racks, a file name, settings, and what is refused: topics, partitions, options."""
    texts = hostile(Random(seed), 40)
    state = kfast.generate(brokers=16, partitions=60, racks=0, topics=4, seed=seed)
    tables = state.to_tables()
    at = tables.brokers.schema.get_field_index("rack")
    brokers = tables.brokers.set_column(at, "rack", pa.array(texts[:16], pa.string()))
    state = kfast.ClusterState.from_tables(brokers, tables.topics, tables.partitions)
    name = re.sub(r"[/\x00]", "", texts[16]) or "x"
    path = tmp_path / f"{name}.arrow"
    kfast.write(state, path)
    shown = run("show", path)
    assert all(escape_control(rack) in shown for rack in texts[:16])
    rack = next(text for text in texts[:16] if "," not in text)
    topic = tables.topics["topic"][0].as_py()
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(
        {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [0, 1]}]}))
    for args in (
        ("fail", path, "--racks", rack, "--verbose", "--list", "offline,under-min-isr"),
        ("fail", path, "--brokers", "1", "--explain", f"{topic}-0"),
        ("sweep", path, "--each-rack"),
        ("risk", path), ("restart", path), ("restart", path, "--broker", "1"),
        ("restart", path, "--by-rack"), ("delete", path, "--topics", topic),
        ("reassign", path, "--plan", plan), ("reassign", path, "--plan", plan, "--pending"),
    ):
        run(*args)
    for args in (
        ("fail", path, "--racks", texts[17].replace(",", "")),
        ("fail", path, "--brokers", "1", "--set", f"{texts[18]}:min.insync.replicas=2"),
        ("fail", path, "--brokers", "1", "--set", f".*:min.insync.replicas={texts[19]}"),
        ("show", path, "--default", f"min.insync.replicas={texts[20]}"),
        ("show", path, "--default", f"{texts[21]}=1"), ("show", path, "--up", texts[22]),
        ("show", path, "--brokers-file", tmp_path / name), ("show", tmp_path / name),
        ("show", path, "-o", tmp_path / name), ("fail", path, "--explain", f"{texts[23]}-0"),
        ("delete", path, "--topics", texts[25]), ("reassign", path, "--plan", texts[26]),
        (texts[27], path), ("show", path, f"--{texts[28]}"),
    ):
        run(*args, codes=(2, 3))
    run("show", path, "--add-brokers", f"113:rack={texts[24]}", codes=(0, 2))


@pytest.mark.parametrize("seed", range(10))
def test_hostile_lines_of_text_exports_are_quoted(seed, tmp_path):
    """A describe text, a brokers file, a plan and a log whose words are hostile."""
    generator = Random(100 + seed)
    for number, text in enumerate(hostile(generator, 20)):
        word = text.replace("\n", "")
        describe = tmp_path / "describe.txt"
        describe.write_bytes((
            f"Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: a={word},b=1\n"
            f"\tTopic: {word if number % 2 else 't'}\tPartition: 0\tLeader: 1\tReplicas: 1\t"
            f"Isr: {1 if number % 3 else word}\n").encode())
        run("show", describe, codes=(0, 3))
        describe.write_text(
            "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs:\n"
            "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n")
        brokers = tmp_path / "brokers.csv"
        brokers.write_text(f'broker_id,rack\n{word},a\n1,"{word}"\n')
        run("show", describe, "--brokers-file", brokers, codes=(0, 3))
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps(
            {"version": 1, "partitions": [{"topic": text, "partition": 0, "replicas": [1]}]}))
        run("reassign", describe, "--plan", plan, codes=(0, 3))


def test_a_terminal_shows_a_rack_that_looks_like_markup(tmp_path):
    """`a[/b]` ended in a traceback, `[red]r[/red]` printed as `r`, escapes were obeyed."""
    describe, brokers = tmp_path / "describe.txt", tmp_path / "brokers.csv"
    describe.write_text(
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 3\tConfigs:\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\n")
    brokers.write_text("broker_id,rack\n1,a[/b]\n2,[red]r[/red]\n3,\x1b]0;x\x07\n")
    shown, code = run_on_terminal("show", describe, "--brokers-file", brokers)
    assert code == 0
    assert all(rack in shown for rack in ("a[/b]", "[red]r[/red]", r"\x1b]0;x\x07"))
    check_shown(ESCAPE.sub("", shown).replace("\r\n", "\n"))


def test_a_replay_shows_lines_of_logs_as_they_are(tmp_path):
    """What a log says is quoted in the answer, and so is the name of its folder."""
    folder = tmp_path / "a[/b]\x1b[31m"
    folder.mkdir(parents=True)
    (folder / "controller.log").write_text(
        "[2024-01-01 00:00:00,000] INFO [Controller id=1] \x1b]0;x\x07 [red]odd[/red]"
        " (kafka.controller.KafkaController)\n")
    run("replay", folder, codes=(0, 3))


# --- width ---------------------------------------------------------------------------------------

WIDTHS = (40, 50, 60, 80, 120, 200)


CELLS = {
    "number": st.integers(0, 10**12).map(str),
    "text": st.from_regex(r"[a-z._-]{1,60}", fullmatch=True),
    "ids": st.lists(st.integers(0, 2**31 - 1).map(str), min_size=1, max_size=12).map(", ".join),
}


@given(
    width=st.integers(40, 200),
    columns=st.lists(st.tuples(
        st.from_regex(r"[a-z]{1,12}( [a-z]{1,10}){0,3}", fullmatch=True),
        st.sampled_from(["number", "text", "ids"]),
    ), min_size=1, max_size=14),
    data=st.data(),
)
def test_no_figure_is_cut_and_no_line_too_wide(width, columns, data):
    """Each number of a column that is shown stands there whole; others are named below."""
    table = TextTable("Title", [
        TableColumn(heading, kind != "number") for heading, kind in columns
    ])
    rows = data.draw(st.lists(st.tuples(*(
        CELLS[kind] for _, kind in columns
    )), min_size=1, max_size=4))
    for row in rows:
        table.add_row(*row)
    lines = draw(table, width)
    assert max(map(cell_len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    named = " ".join(lines).partition("Not shown for lack of width:")[2]
    n_shown = len(columns) - (named.count(",") + 1 if named else 0)
    figures = re.findall(r"\d+", text)
    for row in rows:
        for cell, (_, kind) in list(zip(row, columns, strict=True))[:n_shown]:
            if kind != "text":
                assert set(cell.split(", ")) <= set(figures)


COMMANDS = {
    "show": ("show", "{}", "--list", "offline"),
    "fail": ("fail", "{}", "--brokers", "101", "--verbose", "--list", "under-min-isr"),
    "steps": ("fail", "{}", "--brokers", "101", "--then", "102", "--then-start", "101"),
    "restart": ("restart", "{}"),
    "restart one": ("restart", "{}", "--broker", "105"),
    "sweep": ("sweep", "{}", "--every", "2"),
    "risk": ("risk", "{}"),
    "reassign": ("reassign", "{}", "--plan", "bench_data/plan.json", "--verbose"),
    "delete": ("delete", "{}", "--topics", "orders.events"),
    "explain": ("fail", "{}", "--brokers", "104", "--explain", "legacy-imports-6"),
    "times": ("restart", "{}", "--seconds-per-broker", "90"),
    "chances": ("risk", "{}", "--top", "3", "--down", "3,5", "--random", "300"),
    "pending": ("reassign", "{}", "--plan", "bench_data/plan.json", "--pending"),
    "waiting": ("delete", "{}", "--topics", "scratch,clicks.audit", "--brokers", "101,102"),
    "replay": ("replay", "bench_data/incident"),
    "capacity show": (
        "capacity", "show", "{}", "--load", "bench_data/loads.csv", "--capacity",
        "bench_data/capacities.csv",
    ),
    "capacity sweep": (
        "capacity", "sweep", "{}", "--load", "bench_data/metrics.prom.gz", "--load",
        "bench_data/log-dirs.json.gz", "--capacity", "bench_data/capacities.csv", "--every", "1",
        "--explain", "102",
    ),
    "plan check": (
        "plan", "check", "{}", "--plan", "bench_data/plan.json", "--load", "bench_data/loads.csv",
        "--capacity", "bench_data/capacities.csv",
    ),
    "schema": ("schema",),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_answer_fits_its_terminal(name, monkeypatch):
    """The figures of a narrow terminal are those of a wide one: 244 was shown as 24."""
    monkeypatch.chdir(ROOT)
    args = [arg.format("bench_data/describe.txt") for arg in COMMANDS[name]]
    figure = re.compile(r"(?<![\w.,-])\d+(?![\w.,-])")
    figures = set(figure.findall(CliRunner().invoke(commands, args).stdout))
    for columns in WIDTHS:
        monkeypatch.setattr(writing, "WIDE", columns)
        done = CliRunner().invoke(commands, args)
        assert done.exit_code == 0
        assert max(map(cell_len, done.stdout.splitlines())) <= columns
        assert "…" not in done.stdout
        assert set(figure.findall(done.stdout)) <= figures, columns
