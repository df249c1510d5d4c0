"""`read_plan`: plans as requests, alone or in the output of kafka-reassign-partitions."""

from __future__ import annotations

import json
import tracemalloc

import pyarrow.json
import pytest

from bench_data import make
from kfast import read_plan
from kfast.errors import InputError
from kfast.io import reassignment

pytestmark = pytest.mark.kernels

GENERATED = """\
Current partition replica assignment
{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

Proposed partition reassignment configuration
{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[3,2],"log_dirs":["any","any"]}]}
"""

TWICE = (
    '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},'
    '{"topic":"a","partition":0,"replicas":[2]}]}'
)


def test_the_plan_of_the_tool_s_output(tmp_path):
    """Of --generate the proposed plan; a plan of bench_data is what its maker makes."""
    path = tmp_path / "generated.txt"
    path.write_text(GENERATED)
    asked = [{"topic": "a", "partition": 0, "replicas": [3, 2]}]
    assert read_plan(path).to_pylist() == asked
    folder = make.HERE
    text = (folder / "plan.json").read_text()
    assert text == make.plan((folder / "describe.txt").read_text())
    assert read_plan(folder / "plan.json").to_pylist() == json.loads(text)["partitions"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GENERATED.replace("Proposed", "Another"), "holds 2 plans; right is a file with one"),
        (TWICE, "line 1: partition a-0 stands twice in the plan"),
        ('{"version":2,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}', "version 2"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "line 1"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[-1]}]}', "line 1"),
        ('{"partitions":[]}', "line 1"),
        ('{"partitions":[{"topic":null,"partition":0,"replicas":[1]}]}', "Expected `str`"),
        ('{"partitions":[{"topic":"a","partition":"0","replicas":[1]}]}', "Expected `int`"),
        (TWICE.replace(',"replicas":[2]', ""), "missing required field `replicas`"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1,null]}]}', "Expected `int`"),
        ('{"partitions":[{"topic":"a","topic":"b","partition":0,"replicas":[1]}]}', "twice"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":[]}]}', "0 log_dirs"),
        ('{"partitions":[null]}', "Expected `object`"),
        ('{"partitions":[{"topic":"a"', "damaged JSON"),
        ("Topic: a\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n", "is describe text"),
        ("", "is empty"),
        ("hello\n", "is not recognised"),
        ("\xff", "is not recognised"),
    ],
)
def test_texts_that_are_no_plan(tmp_path, text, said):
    """One line that names the file and what is right."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said) as raised:
        read_plan(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_a_plan_is_read_without_an_object_for_each_partition(tmp_path):
    """Python's own memory stays that of the text, and of what cuts the plan out of it."""
    rows = ",".join(f'{{"topic":"t-{n}","partition":0,"replicas":[1,2]}}' for n in range(20_000))
    path = tmp_path / "plan.json"
    path.write_text(f'{{"partitions":[{rows}]}}')
    read_plan(path)
    tracemalloc.start()
    plan = read_plan(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plan.num_rows == 20_000
    assert peak_bytes < 3.5 * path.stat().st_size


def test_a_plan_beyond_what_arrow_reads_is_refused_by_name(tmp_path, monkeypatch):
    """A document is one block, whose size is an int32: the limit is just what fits."""
    pyarrow.json.ReadOptions(block_size=reassignment.MOST_BYTES + 1)
    with pytest.raises(OverflowError):
        pyarrow.json.ReadOptions(block_size=reassignment.MOST_BYTES + 2)
    path = tmp_path / "plan.json"
    text = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    path.write_text(text)
    monkeypatch.setattr(reassignment, "MOST_BYTES", len(text))
    assert read_plan(path).num_rows == 1
    monkeypatch.setattr(reassignment, "MOST_BYTES", len(text) - 1)
    with pytest.raises(InputError, match=f"a plan of {len(text)} bytes; right is at most"):
        read_plan(path)
