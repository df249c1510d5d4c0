"""Names of a cluster that want to be a path, markup, a shell command or a formula stay names.

tests/report has the same of each element of the report page, and runs the commands that it shows.
"""

from __future__ import annotations

import ast
import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kfast
from tests.style.places import PACKAGE, assert_none, name_of
from tests.support.cli_run import run

TOPICS = ["../../x", "/etc/x", "<script>alert(1)</script>", "$(reboot)", "`reboot`", "; rm -rf x",
          "=1+1", "-x", "a\nb\tc", 'x","partition":0,"replicas":[9]},{"topic":"y', "back\\slash",
          "%2e%2e/x", "{{7*7}}"]
RACKS = ["../../r", "<script>r</script>", "$(reboot)"]
TABLES = ("topics", "brokers")


@pytest.fixture
def cluster(tmp_path):
    """Give a cluster of such names as a file, three folders deep, where nothing else is."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    state = kfast.ClusterState.from_assignment(
        broker_id=np.array([1, 2, 3], np.int32), rack=pa.array(RACKS), topic=pa.array(TOPICS),
        topic_row=np.arange(len(TOPICS), dtype=np.int32),
        partition=np.zeros(len(TOPICS), np.int32),
        replicas=np.array([[n % 3, (n + 1) % 3] for n in range(len(TOPICS))], np.int32),
    )
    kfast.write(state, folder / "in.parquet")
    return folder / "in.parquet"


def files_below(folder):
    """All files, by their paths below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def written(cluster, *args, more=()):
    """Run a command that writes below the cluster's folder: only the files that it was told."""
    root = cluster.parents[3]
    before = files_below(root)
    run(*args, code=0)
    made = {str(cluster.parent.relative_to(root) / name) for name in more}
    assert files_below(root) == before | made


@pytest.mark.parametrize("table", TABLES)
def test_tables_have_the_names_and_no_others(table, cluster):
    paths = [cluster.parent / f"x{ending}" for ending in (".csv", ".json", ".parquet")]
    for path in paths:
        written(cluster, "fail", cluster, "--brokers", "1,2", "--table", table, "-o", path,
                more=[path.name])
    with paths[0].open(newline="", encoding="utf-8") as file:
        in_csv = list(csv.DictReader(file))
    in_json = [json.loads(line) for line in paths[1].read_text(encoding="utf-8").splitlines()]
    in_parquet = pq.read_table(paths[2]).to_pylist()
    column, names = ("rack", RACKS) if table == "brokers" else ("topic", TOPICS)
    for rows in (in_csv, in_json, in_parquet):
        assert {row[column] for row in rows} == set(names)


def test_clusters_are_written_and_read_with_their_names(cluster):
    """What a format cannot say is refused by name, not written as something else."""
    state = kfast.read(cluster)
    for ending in (".arrow", ".parquet", ".json"):
        path = cluster.parent / f"y{ending}"
        written(cluster, "save", cluster, "-o", path, more=[path.name])
        if ending == ".json":
            plan = json.loads(path.read_text(encoding="utf-8"))
            assert {row["topic"] for row in plan["partitions"]} == set(TOPICS)
        else:
            assert kfast.read(path).topic.to_pylist() == state.topic.to_pylist()
    text = cluster.parent / "y.txt"
    with pytest.raises(kfast.ArgumentError, match=r"'a\\nb\\tc' has a control character"):
        kfast.write(state, text)
    assert not text.exists()
    state.save(cluster.parent / "saved")
    assert kfast.open(cluster.parent / "saved").topic.to_pylist() == state.topic.to_pylist()


def test_a_report_has_no_element_of_a_name(cluster):
    path = cluster.parent / "report.html"
    written(cluster, "report", cluster, "-o", path, more=[path.name])
    page = path.read_text(encoding="utf-8")
    assert "alert(1)" in page
    for name in ("<script>alert(1)</script>", "<script>r</script>"):
        assert name not in page


def test_plans_and_commands_quote_the_names(cluster, tmp_path):
    """The commands that `plan improve` prints have its files as one word of the shell each."""
    folder = cluster.parent / "$(reboot) plans"
    loads, capacities = tmp_path / "loads.csv", tmp_path / "capacities.csv"
    with loads.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["topic", "partition", "size", "bytes_in", "bytes_out"])
        rows.writerows([name, 0, 1000, 10**n, 10**n] for n, name in enumerate(TOPICS[:6]))
    rates = "".join(f"{broker},10000000,10000000\n" for broker in (1, 2, 3, 4))
    capacities.write_text(f"broker_id,nw_in,nw_out\n{rates}", encoding="utf-8")
    found = run("plan", "improve", cluster, "--load", loads, "--capacity", capacities,
                "--add-brokers", "4:rack=d", "--remove-brokers", "1", "-o", folder,
                "--format", "json")
    answer = json.loads(found.stdout)
    commands = [command for batch in answer["commands"] for command in batch]
    assert commands
    for command in commands:
        words = shlex.split(command)
        [file] = [word for word in words if word.endswith(".json")]
        assert "$(reboot)" not in words[0]
        assert (folder / Path(file).name).is_file()
    moved = {row["topic"] for path in folder.glob("batch-*.json")
             for row in json.loads(path.read_text(encoding="utf-8"))["partitions"]}
    assert moved <= set(TOPICS)
    assert moved


ALLOWED = {
    "kfast/controllers/zk/policy.py": {"exec"},
    "kfast/spark/dataset.py": {"pickle"},
    "kfast/spark/workers.py": {"pickle"},
    "kfast/spark/sweep_tasks.py": {"pickle"},
}
"""A rule that the caller wrote is compiled; Spark's own tasks and answers are pickled."""
UNSAFE = {"pickle", "cPickle", "shelve", "marshal", "subprocess", "xmlrpc", "dill"}
UNSAFE_CALLS = {"eval", "exec", "os.system", "os.popen"}


def unsafe_uses(path):
    """Modules and calls that can run what they are given."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] in UNSAFE)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in UNSAFE:
            yield node.module
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in UNSAFE_CALLS:
                yield name


def test_nothing_that_runs_its_input_is_used_elsewhere():
    assert_none(
        f"{name_of(path)} uses {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in unsafe_uses(path)
        if name not in ALLOWED.get(name_of(path), set())
    )
