"""`read_plan`: plans as requests, alone or in the output of kafka-reassign-partitions."""

from __future__ import annotations

import json

import pytest

from bench_data import make
from kfast import read_plan
from kfast.errors import InputError

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
