"""Kafka's own answers: every case passes, and a case whose answer is changed fails.

Cases are of all chapters of docs/controller.md, section 5.5 among them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cases import failures, load, main, run_case, runs_without_store
from tests.support.cases_adapters import KfastAdapter, TwinAdapter
from tests.support.cases_format import Adapter, Case

EXECUTED = "controller_cases_executed.json"
BY_HAND = "controller_cases.json"

ADAPTERS = pytest.mark.parametrize("adapter", [TwinAdapter, KfastAdapter])


def maker(adapter: Callable[..., Adapter], no_store: bool = False) -> Callable[[Case], Adapter]:
    """Make adapters of one kind."""
    return lambda case: adapter(case, no_store)


@ADAPTERS
@pytest.mark.parametrize("file", [EXECUTED, BY_HAND])
def test_every_case_passes(shared_data, file, adapter):
    """1500 cases that Kafka's classes answered, and 154 of Kafka's tests and source."""
    cases = load(shared_data / file)
    assert len(cases) == (1500 if file == EXECUTED else 154)
    assert dict(failures(cases, maker(adapter))) == {}


@ADAPTERS
@pytest.mark.parametrize("file", [EXECUTED, BY_HAND])
def test_every_case_passes_without_a_store(shared_data, file, adapter):
    """Where the cached leadership is what is stored, the cache can be the store."""
    cases = [case for case in load(shared_data / file) if runs_without_store(case)]
    assert len(cases) >= (380 if file == EXECUTED else 80)
    assert dict(failures(cases, maker(adapter, no_store=True), no_store=True)) == {}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to every value that has no parts; an empty list or dictionary is one."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif isinstance(value, list) and value:
        for at, part in enumerate(value):
            yield from leaves(part, (*path, at))
    else:
        yield path


def expected_values(case: Case) -> list[tuple[Any, ...]]:
    """Paths to every expected value of a case, those of its steps included."""
    paths = [("expect", *path) for path in leaves(case["expect"]) if path]
    for number, step in enumerate(case["when"]["args"].get("steps", ())):
        head = ("when", "args", "steps", number, "expect")
        paths += [(*head, *path) for path in leaves(step.get("expect", {})) if path]
    return paths


def another(value: Any) -> Any:
    """A value of the same kind that is not this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1000
    if isinstance(value, str):
        head, separator, rest = value.partition(":")
        return f"{head}{separator}changed-7" if separator else f"changed {rest or value}"
    if isinstance(value, list):
        return [1000]
    return {"changed-7": "changed"}


def tampered(case: Case, path: tuple[Any, ...]) -> Case:
    """A copy of a case with the expected value at `path` changed."""
    case = copy.deepcopy(case)
    place: Any = case
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = another(place[path[-1]])
    return case


@ADAPTERS
@pytest.mark.parametrize("file", [EXECUTED, BY_HAND])
def test_a_changed_answer_fails(shared_data, file, adapter):
    """One expected value is changed, in every fourth of the executed cases: all must fail."""
    generator = random.Random(2)
    passed = []
    for case in load(shared_data / file)[:: 4 if file == EXECUTED else 1]:
        path = generator.choice(expected_values(case))
        if not run_case(tampered(case, path), maker(adapter)):
            passed.append((case["id"], path))
    assert passed == []


def test_what_is_unknown_fails():
    """An operation, a key or a given thing that the runner does not know fails the case."""
    flying = {"op": "context.fly", "args": {}}
    case = {"id": "x", "given": {}, "when": flying, "expect": {"value": 1}}
    known = {"op": "context.is_replica_online", "args": {
        "broker": 1, "partition": "t-0", "include_shutting_down": False,
    }}
    for adapter in (TwinAdapter, KfastAdapter):
        make = maker(adapter)
        assert run_case(case, make) == ["unknown operation context.fly"]
        fine = {**case, "when": known, "expect": {"value": False}}
        assert run_case(fine, make) == []
        assert run_case({**fine, "expect": {"value": False, "height": 1}}, make) == [
            "unknown key height"
        ]
        assert run_case({**fine, "given": {"wings": 2}}, make) != []
        assert run_case({**fine, "expect": {}}, make) == ["the case expects nothing"]


def test_the_command_counts(shared_data, capsys):
    """The last line says how many passed and failed; the exit code is 1 where one failed."""
    assert main([str(shared_data / BY_HAND), "--twin"]) == 0
    assert capsys.readouterr().out.endswith("154 passed, 0 failed\n")
    assert main([str(shared_data / BY_HAND)]) == 0
    assert capsys.readouterr().out.endswith("154 passed, 0 failed\n")
