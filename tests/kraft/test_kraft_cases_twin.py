"""The plain Python twin of the KRaft controller answers as Kafka's own classes did.

`kraft_cases_executed.json` (../shared/data/README.md) holds sequences of events that Kafka 4.0.2,
4.1.2 and 4.3.1 answered: every record with its fields, every response, every state.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.support.kraft_cases import load, run_case

N_CASES = 600
N_EVENTS = 18_236


@pytest.fixture(scope="module")
def cases(shared_data):
    """All sequences of the file."""
    return list(load(shared_data / "kraft_cases_executed.json"))


def test_every_event_is_answered_as_kafka_did(cases):
    """Records in their order and with their fields in order, responses, states."""
    equal, wrong = 0, []
    for case in cases:
        n_equal, differences = run_case(case)
        equal += n_equal
        wrong += [f"{case['id']}: {text}" for text in differences]
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong[:10]])
    assert (len(cases), equal) == (N_CASES, N_EVENTS)


NEXT_RELEASE = {
    "kraft-3.3": "kraft-3.4",
    "kraft-3.4": "kraft-3.7",
    "kraft-3.5": "kraft-3.7",
    "kraft-3.6": "kraft-3.7",
    "kraft-3.7": "kraft-3.8",
    "kraft-3.8": "kraft-3.9",
    "kraft-3.9": "kraft-4.0",
}
"""Each older release to one that decides otherwise."""


def test_older_releases_are_answered_as_kafka_did():
    """Sequences of the same form that the classes of Kafka 3.3.2 to 3.9.1 answered.

    Each tells its release from a later one.
    """
    older = list(load(Path(__file__).parent.parent / "support" / "data" / "kraft_older.jsonl.gz"))
    wrong = [f"{case['id']}: {text}" for case in older for text in run_case(case)[1]]
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong[:10]])
    assert {case["profile"] for case in older} == set(NEXT_RELEASE)
    for case in older:
        assert run_case({**case, "profile": NEXT_RELEASE[case["profile"]]})[1], case["id"]


def planted(value, rng):
    """A value like this one that is wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + rng.choice((-1, 1))
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return value[:-1] if value else [7]
    return {"unexpected": 1}


def leaves(value):
    """(container, key) of every value below."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from leaves(item)


def test_a_planted_change_of_an_expected_value_fails(cases):
    """One value of one event's expectation, its start or its end, at a time."""
    rng = random.Random(14)
    kinds = Counter()
    for case in rng.sample(cases, 200):
        case = copy.deepcopy(case)
        step = rng.choice([*case["events"], {"expect": case["start"]}, {"expect": case["end"]}])
        places = list(leaves(step["expect"]))
        if not places:
            continue
        container, key = rng.choice(places)
        kinds[key if isinstance(key, str) else "an item of a list"] += 1
        container[key] = planted(container[key], rng)
        assert run_case(case)[1], (case["id"], step, key)
    assert len(kinds) > 20
