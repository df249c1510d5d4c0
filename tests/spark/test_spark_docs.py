"""The examples of docs/spark.md run as they stand, one after the other."""

from __future__ import annotations

import gzip
import re
import shutil

import pytest
from click.testing import CliRunner

import kfast
import kfast.spark
from kfast.cli.app import commands
from tests.conftest import ROOT
from tests.support.sharded import split

pytestmark = pytest.mark.spark


def test_the_examples_run(spark, tmp_path, capfd):
    """In a folder with the names that the page uses."""
    state = kfast.generate(brokers=20, partitions=300, racks=3, topics=12, seed=1)
    for name in ("exports", "snapshots", "log"):
        (tmp_path / name).mkdir()
    kfast.write(state, tmp_path / "exports" / "a.arrow")
    kfast.write(state, tmp_path / "snapshots" / "b.parquet")
    shutil.copy(ROOT / "bench_data" / "describe.txt", tmp_path)
    packed = gzip.compress((ROOT / "bench_data" / "describe.txt").read_bytes())
    (tmp_path / "exports" / "c.txt.gz").write_bytes(packed)
    split(state, tmp_path / "cluster", 3)
    controller = kfast.Controller(state.copy(), journal="full")
    controller.on_controller_failover()
    partitions = kfast.spark.to_dataframes(spark, state).partitions
    names = {
        "spark": spark,
        "kfast": kfast,
        "outcome": controller.on_broker_failure([3]),
        "table": partitions.withColumnRenamed("replicas", "r").selectExpr(
            "r as replicas", "isr", "leader", "leader_epoch", "r as live", "array() as elr",
            "array() as last_known_elr",
        ),
    }
    page = (ROOT / "docs" / "spark.md").read_text()
    blocks = re.findall(r"^```python spark\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    places = "exports|snapshots|cluster|after|later|moved|log|streamed|describe"
    for block in blocks:
        block = re.sub(rf'"((?:{places})[/.])', rf'"{tmp_path}/\1', block)
        block = re.sub(r"n=1_000_000", "n=1_000", block)
        block = re.sub(r"\.toTable\(.*\)", f'.start("{tmp_path}/streamed", format="parquet")'
                       ".awaitTermination()", block)
        exec(compile(block, "docs/spark.md", "exec"), names)
    assert names["done"].digest != names["again"].digest
    assert "offline" in capfd.readouterr().out


def test_the_page_of_commands_goes_from_exports_to_answers(spark, tmp_path, capfd, monkeypatch):
    """`stop` would take the session from the other tests."""
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(
        ROOT / "bench_data", tmp_path / "bench_data", ignore=shutil.ignore_patterns("out")
    )
    page = (ROOT / "docs" / "commands.md").read_text()
    [(command, said, block, table)] = re.findall(
        r"^```console spark\n\$ kfast (.*?)\n(.*?)```.*?"
        r"^```python spark\n(.*?)```\n\n```text\n(.*?)```$",
        page, re.MULTILINE | re.DOTALL,
    )
    done = CliRunner().invoke(commands, command.split())
    assert (done.exit_code, done.stdout) == (4, said)
    again = CliRunner().invoke(commands, command.split())
    assert again.stdout == said.replace("4 of them new", "0 of them new")
    capfd.readouterr()
    block = block.replace('"bench_data/', f'"{tmp_path}/bench_data/')
    exec(compile(block, "docs/commands.md", "exec"), {"spark": spark})
    assert capfd.readouterr().out.strip() == table.strip()
