"""kfast's KRaft controller and its plain Python twin answer as Kafka's own classes did.

`kraft_cases_executed.json` (../shared/data/README.md) holds sequences of events that Kafka 4.0.2,
4.1.2 and 4.3.1 answered: every record with its fields, every response, every state.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

import copy
import json
import random
from functools import partial
from pathlib import Path

import pytest

from tests.cases import main
from tests.support.kraft_cases import TwinRun, differences, load, run_case
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_reference.controller import QuorumController

N_CASES = 600
N_EVENTS = 18_236


@pytest.fixture(scope="module")
def cases(shared_data):
    """All sequences of the file."""
    return list(load(shared_data / "kraft_cases_executed.json"))


CONTROLLERS = pytest.mark.parametrize("make", [QuorumController, KfastController])


@pytest.mark.parametrize(
    "make", [QuorumController, pytest.param(KfastController, marks=pytest.mark.slow)]
)
def test_every_event_is_answered_as_kafka_did(cases, make):
    """Records in their order and with their fields in order, responses, states.

    `python -m tests.cases ../shared/data/kraft_cases_executed.json` runs the same.
    """
    equal, wrong = 0, []
    for case in cases:
        n_equal, differences = run_case(case, make)
        equal += n_equal
        wrong += [f"{case['id']}: {text}" for text in differences]
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong[:10]])
    assert (len(cases), equal) == (N_CASES, N_EVENTS)


def test_a_twelfth_of_the_sequences_is_answered_by_kfast_as_kafka_did(cases):
    """The slow test above runs all of them."""
    wrong = [text for case in cases[::12] for text in run_case(case, KfastController)[1]]
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong[:10]])


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


@CONTROLLERS
def test_older_releases_are_answered_as_kafka_did(make):
    """Sequences of the same form that the classes of Kafka 3.3.2 to 3.9.1 answered.

    Each tells its release from a later one.
    """
    older = list(load(Path(__file__).parent.parent / "support" / "data" / "kraft_older.jsonl.gz"))
    wrong = [f"{case['id']}: {text}" for case in older for text in run_case(case, make)[1]]
    assert not wrong, "\n".join([f"{len(wrong)} differences:", *wrong[:10]])
    assert {case["profile"] for case in older} == set(NEXT_RELEASE)
    for case in older:
        assert run_case({**case, "profile": NEXT_RELEASE[case["profile"]]}, make)[1], case["id"]


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


def planted_changes(value):
    """Plant each wrong value, one at a time: yields what was done, then takes it back."""
    for container, key in list(leaves(value)):
        kept = container[key]
        container[key] = planted(kept, PLANTED)
        yield f"{key} is {container[key]}"
        container[key] = kept
        yield from dropped(container, key)
    for container in [value, *(at[key] for at, key in list(leaves(value)))]:
        if isinstance(container, dict):
            container["unexpected"] = 1
            yield "a field more"
            del container["unexpected"]
        elif isinstance(container, list):
            yield from reordered(container)


def dropped(container, key):
    """A container without one of its items."""
    items = list(container.items() if isinstance(container, dict) else container)
    del container[key]
    yield f"{key} is dropped"
    container.clear()
    (container.update if isinstance(container, dict) else container.extend)(items)


def reordered(items):
    """A list with an item twice, and with each two neighbours exchanged."""
    for at, item in enumerate(list(items)):
        items.insert(at, item)
        yield f"item {at} twice"
        del items[at]
        if at and items[at - 1] != item:
            items[at - 1 : at + 1] = [item, items[at - 1]]
            yield f"items {at - 1} and {at} exchanged"
            items[at - 1 : at + 1] = [items[at], item]


PLANTED = random.Random(14)


def missed_changes(expect, seen):
    """How many changes of an expectation were planted, and those that the comparison missed.

    Its keys are compared by themselves, so each is planted in by itself.
    """
    assert not differences(expect, seen)
    n_planted, missed = 0, []
    for key in list(expect):
        part, seen_part = {key: expect[key]}, {key: seen[key]}
        for text in planted_changes(part):
            n_planted += 1
            if not differences(part, seen_part):
                missed.append(text)
        assert not differences(part, seen_part)
    return n_planted, missed


@pytest.mark.slow
def test_every_planted_change_of_an_expected_answer_is_reported(cases):
    """Each value, dropped, added and reordered records and fields of a sixth of the sequences.

    What is seen is the twin's; that kfast's has the same text is what the other tests compare.
    """
    n_planted, missed = 0, []
    for case in cases[::6]:
        run = TwinRun(case)
        for event in case["setup"]:
            run.run(event)
        answers = [(case["start"], run.full_state())]
        answers += [(step["expect"], run.run(step["event"])) for step in case["events"]]
        answers.append((case["end"], run.full_state()))
        for expect, seen in answers:
            n, texts = missed_changes(expect, seen)
            n_planted += n
            missed += [f"{case['id']}: {text}" for text in texts]
    assert not missed, "\n".join([f"{len(missed)} of {n_planted} missed:", *missed[:20]])
    assert n_planted > 300_000


def test_a_fault_is_compared_with_its_records():
    """Only its text is kfast's own; what else is expected with it counts."""
    expect = {"fault": "RuntimeException", "records": []}
    assert not differences(expect, {"fault": "row 3 is not there", "records": []})
    for other in ({"records": []}, {"fault": "x", "records": [{"type": "NO_OP_RECORD"}]}):
        assert differences(expect, other)
        assert differences(other, expect)


def test_the_command_says_what_differs(cases, tmp_path, capsys):
    """`python -m tests.cases FILE` fails where one value of one case is changed."""
    good, bad = cases[0], copy.deepcopy(cases[0])
    bad["events"][-1]["expect"]["records"] = [{"type": "NO_OP_RECORD"}]
    for case, code, text in ((good, 0, "1 of 1 cases"), (bad, 1, "0 of 1 cases")):
        file = tmp_path / "cases.json"
        file.write_text(json.dumps({"cases": [case]}), encoding="utf-8")
        assert main([str(file)]) == code
        assert text in capsys.readouterr().out


# ------------------------------------------------------------------- without Kafka's own order


def writes_stale_entries(step):
    """Whether the index of ELRs may differ from the ELRs after an event (section 9.3)."""
    return any(record["type"] == "CLEAR_ELR_RECORD" for record in step["expect"]["records"])


def depends_on_order(step):
    """Whether what is written depends on which partition, or session, comes first."""
    response = step["expect"].get("response") or {}
    return step["event"]["op"] == "failover" or response.get("more") is True or (
        "fault" in step["expect"]
    )


def unordered(seen):
    """What an event did, with its records as a set."""
    records = sorted(json.dumps(record, sort_keys=True) for record in seen["records"])
    return {**seen, "records": records}


def written(run, step):
    """How many records the last event wrote, at any journal level."""
    if step["event"]["op"] in ("failover", "advance_time") or "error" in step["expect"]:
        return len(step["expect"]["records"])
    return run.controller.last.n_records


def start(case, **options):
    """Run kfast's controller up to the start of a case."""
    run = TwinRun(case, partial(KfastController, **options))
    for event in case["setup"]:
        run.run(event)
    return run


@pytest.mark.parametrize("journal", ["full", "counts"])
def test_rows_in_ascending_order_give_the_same_records(cases, journal):
    """Until a cap, a failover or a stale entry lets the order decide (docs/deviations.md)."""
    compared = 0
    for case in cases[::9]:
        run = start(case, tracks_history=False, journal=journal)
        for number, step in enumerate(case["events"], start=1):
            if depends_on_order(step):
                break
            seen, expect = run.run(step["event"]), step["expect"]
            if journal == "counts":
                assert written(run, step) == len(expect["records"]), (case["id"], number)
                seen, expect = {**seen, "records": []}, {**expect, "records": []}
            assert unordered(seen) == unordered(expect), (case["id"], number)
            compared += 1
            if writes_stale_entries(step):
                break
    assert compared > 800


@pytest.mark.parametrize(
    "options", [{"journal": "counts"}, {"journal": "off"}, {"wide": True}, {"threads": 2}]
)
def test_the_outcome_does_not_depend_on_journal_layout_or_threads(cases, options):
    """Responses, states and numbers of records are those of Kafka."""
    keeps_records = options.get("journal", "full") == "full"
    for case in cases[::30]:
        run = start(case, **options)
        for number, step in enumerate(case["events"], start=1):
            seen, expect = run.run(step["event"]), step["expect"]
            if "fault" in expect:
                break
            if not keeps_records:
                assert written(run, step) == len(expect["records"]), (case["id"], number)
                expect = {**expect, "records": []}
            assert seen == expect, (case["id"], number)
