"""What takes a cluster and is given something else says so, and how to read one from a file."""

from __future__ import annotations

import inspect
from enum import Enum
from pathlib import Path

import pyarrow as pa
import pytest

import kfast
from kfast import ArgumentError, ClusterState

OTHERS = {
    "controller": "zk-3.9", "settings": [],
    "broker_ids": [1], "partitions": [("t", 0)], "topics": ["t"], "plan": {}, "k": 1, "n": 1,
    "p": 0.5, "share": 0.5, "seed": 1, "table": pa.table({"scenario": [1], "broker": [1]}),
    "path": "never.arrow", "overrides": [("t", "min.insync.replicas", 2)],
    "tables": [], "load": None, "capacity": None,
    "mttf_years": 3, "repair_hours": 4, "growth": "4%", "months": 1, "class_prices": {},
}
"""Arguments besides the state that are right as far as can be said without it."""


def takes_a_state(value):
    if isinstance(value, type) and issubclass(value, Exception | Enum):
        return False
    return callable(value) and "state" in inspect.signature(value).parameters


TAKERS = [name for name in kfast.__all__ if takes_a_state(getattr(kfast, name))]
"""Public functions and classes with a parameter `state`."""


def call(name, state):
    function = getattr(kfast, name)
    needed = [
        parameter.name for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.name not in ("state", "options")
    ]
    others = OTHERS | {"scenarios": kfast.every_broker(kfast.generate(brokers=3, partitions=3))}
    return function(state, **{name: others[name] for name in needed})


def right_for(name):
    """What the message calls right."""
    also = {"write": " or a SourceTables"} | dict.fromkeys(
        ("sweep", "sweep_reader", "sweep_brokers", "sweep_partitions", "prepare_capacity"),
        " or a SweepPlan",
    )
    return f"right is a ClusterState{also.get(name, '')}"


def test_all_that_take_a_state_are_known():
    """A wrong count means that a parameter has another name, and is not tested below."""
    assert set(TAKERS) == {
        "Controller", "PartitionStateMachine", "ReplicaStateMachine", "Store", "broker_capacity",
        "bursts", "capacity_cost", "capacity_forecast", "capacity_size", "check_plan",
        "delete_topics", "durability", "grow_load",
        "every_broker", "every_rack", "every_rack_and_broker", "execute_plan",
        "explain", "fail_brokers", "improve_placement", "independent_brokers", "independent_racks",
        "may_restart",
        "open_controller", "override_settings", "partition_load", "plan_batches",
        "potential_nw_out", "prepare_capacity",
        "prepare_sweep", "random_brokers",
        "restart_plan", "risk", "scenarios_from_table", "sweep", "sweep_brokers",
        "sweep_partitions", "sweep_reader", "take_census", "write", "write_report",
        "QuorumController", "compare", "with_controller", "timeline",
        "timeline_compare", "timeline_restart", "timeline_sweep",
    }


@pytest.mark.parametrize("path", ["describe.txt", Path("describe.txt")], ids=["text", "path"])
@pytest.mark.parametrize("name", TAKERS)
def test_a_path_is_answered_with_the_call_that_reads_it(name, path):
    with pytest.raises(ArgumentError) as caught:
        call(name, path)
    assert str(caught.value) == (
        f"state is a path, 'describe.txt'; {right_for(name)}: kfast.read('describe.txt')"
    )


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None"), (3, "of type int"), (b"describe.txt", "of type bytes"),
        (pa.table({"partition": [0]}), "of type Table"), (ClusterState, "of type type"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", TAKERS)
def test_anything_else_is_refused_by_its_type(name, value, found):
    with pytest.raises(ArgumentError) as caught:
        call(name, value)
    assert str(caught.value) == f"state is {found}; {right_for(name)}"


@pytest.mark.parametrize("name", TAKERS)
def test_the_state_is_looked_at_first(name):
    """Whatever else is wrong as well."""
    function = getattr(kfast, name)
    wrong = {
        parameter.name: object() for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "state" and parameter.kind is not parameter.VAR_KEYWORD
    }
    with pytest.raises(ArgumentError, match=r"^state is a path, 'x\.txt'"):
        function("x.txt", **wrong)


@pytest.mark.parametrize("name", ["sweep", "sweep_reader", "sweep_brokers", "sweep_partitions"])
def test_scenarios_and_censuses_are_looked_at_too(name):
    state = kfast.generate(brokers=3, partitions=3)
    with pytest.raises(ArgumentError, match=r"^scenarios is of type str; right is a Scenarios$"):
        getattr(kfast, name)(state, "every_broker")
    with pytest.raises(ArgumentError, match=r"^after is of type ClusterState; right is a Census$"):
        kfast.impact(kfast.take_census(state), state)


def test_a_long_path_is_cut():
    with pytest.raises(ArgumentError) as caught:
        kfast.take_census("x" * 100_000)
    assert len(str(caught.value)) < 250


@pytest.mark.spark
def test_on_spark_what_reads_no_path_says_so():
    pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
    import kfast.spark

    message = r"^state is a path, 'x\.txt'; right is a ClusterState: kfast\.read\('x\.txt'\)$"
    with pytest.raises(ArgumentError, match=message):
        kfast.spark.split("x.txt", "folder", shards=2)
    with pytest.raises(ArgumentError, match=message):
        kfast.spark.to_dataframes(None, "x.txt")
