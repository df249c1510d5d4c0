"""A function of `kfast.spark` takes what its twin in `kfast` takes, in the same order."""

from __future__ import annotations

import inspect
from inspect import Parameter

import pytest

import kfast
import kfast.spark
from kfast.analysis.broker_failure import fail_brokers

pytestmark = pytest.mark.spark

TWINS = {
    "sweep": kfast.sweep,
    "sweep_partitions": kfast.sweep_partitions,
    "sweep_brokers": kfast.sweep_brokers,
    "from_dataframes": kfast.ClusterState.from_tables,
    "to_dataframes": kfast.ClusterState.to_tables,
    "fail": fail_brokers,
    "scenario_rows": kfast.Scenarios.to_table,
}
RENAMED = {"self": "state", "dataset": "state"}
"""A method's own object, and a cluster that is a folder, stand where a function has the state."""

OWN = {"scenario_rows": {"self": "scenarios"}}
LEADING = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def parameters(name, function):
    """Names of the parameters that may be given by position, and the others with their defaults."""
    renamed = RENAMED | OWN.get(name, {})
    found = inspect.signature(function).parameters.values()
    leading = [renamed.get(p.name, p.name) for p in found if p.kind in LEADING]
    others = {p.name: p.default for p in found if p.kind is Parameter.KEYWORD_ONLY}
    return [p for p in leading if p != "spark"], others


@pytest.fixture
def spark_functions():
    """All functions of `kfast.spark`."""
    pytest.importorskip("pyspark", reason="kfast.spark needs PySpark")
    return {
        name: getattr(kfast.spark, name) for name in kfast.spark.__all__
        if inspect.isfunction(getattr(kfast.spark, name))
    }


@pytest.mark.parametrize("name", TWINS)
def test_twins_take_leading_arguments_in_one_order(spark_functions, name):
    mine, _ = parameters(name, spark_functions[name])
    theirs, _ = parameters(name, TWINS[name])
    assert mine == theirs


@pytest.mark.parametrize("name", TWINS)
def test_what_both_twins_take_by_keyword_has_one_default(spark_functions, name):
    _, mine = parameters(name, spark_functions[name])
    _, theirs = parameters(name, TWINS[name])
    for shared in set(mine) & set(theirs):
        assert mine[shared] == theirs[shared], shared


def test_the_session_comes_first_and_what_is_optional_by_keyword(spark_functions):
    """Of functions that run something; frames and ids of the twins may stand in their place."""
    for name, function in spark_functions.items():
        found = list(inspect.signature(function).parameters.values())
        if name in ("load_from_dataframe", "capacity_from_dataframe"):
            assert found[0].name == "frame", name
        elif name not in ("from_dataframes", "split"):
            assert found[0].name == "spark", name
        optional = [p.name for p in found if p.default is not Parameter.empty and p.kind in LEADING]
        assert name == "from_dataframes" or optional in ([], ["broker_ids"]), name
