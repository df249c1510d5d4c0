"""Random sequences of all events: kfast equals the twin, and no rule or refusal is left out.

Every release runs sequences with its older metadata versions, ELR on and off, mistakes among the
requests. Of the twin, which has every rule in plain Python, every line must have run; of the
refusals of kfast, each must have been answered; the few that cannot be are listed with a reason.

    python -m pytest -q -s -n 0 tests/kraft/test_kraft_random.py

prints how often each rule, refusal and mistake was met.

Source: docs/kraft.md, sections 6 to 9, 11 and 13.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import kfast.controllers.kraft
from kfast.testing import invariants
from tests.kraft.test_kraft_cases import depends_on_order, unordered, writes_stale_entries
from tests.kraft.test_quorum_refusals import REFUSALS, codes_in
from tests.support.kraft_cases import TwinRun, run_case
from tests.support.kraft_every_rule import MISTAKES, EveryRuleSequence
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_random import KAFKA_OF, random_case
from tests.support.kraft_reference import (
    broker_events,
    controller,
    heartbeats,
    indexes,
    partition_change,
    partition_requests,
    settings,
    state,
    topics,
)
from tests.support.reached_lines import ReachedLines

pytestmark = pytest.mark.kernels
RULES = (
    broker_events, controller, heartbeats, indexes, partition_change, partition_requests, settings,
    state, topics,
)
"""Modules of the twin, which write every rule once more."""

SEEDS = {
    "kraft-3.3": (3002, 3010, 3021, 3031, 3034, 3036), "kraft-3.4": (3000, 3025, 3033),
    "kraft-3.5": (3001, 3002, 3003), "kraft-3.6": (3000, 3001, 3039),
    "kraft-3.7": (3000, 3010, 3025), "kraft-3.8": (3001, 3002, 3031),
    "kraft-3.9": (3000, 3003, 3005), "kraft-4.0": (3008, 3030, 3036, 3037),
    "kraft-4.1": (3000, 3010, 3014, 3018), "kraft-4.2": (3000, 3001, 3002),
    "kraft-4.3": (3000, 3001, 3022),
}
"""Few sequences that meet everything together: others of their number leave something out."""
N_EVENTS = 120

SETTINGS = (
    {"journal": "full", "wide": False, "threads": 2}, {"journal": "full", "wide": True},
    {"journal": "counts", "wide": False}, {"journal": "off", "wide": True, "threads": 2},
)
"""Layouts, numbers of threads and levels of the journal, one after another."""

NO_ROOM = "takes an operation of more than 10 000 records: see test_quorum_refusals.limits"
CONSISTENT = "the log would contradict itself"
LONG_VALUE = "ends a sequence: see tests/kafka/test_differences.py"

UNREACHABLE = {
    'controller.QuorumController._run: raise ApiError("POLICY_VIOLATION")': NO_ROOM,
    'topics.create_topic: raise NotImplementedError("automatic placement is random")':
        "placement is random, see test_quorum_deviations",
    'settings.check_lengths: raise FaultError("a value does not fit into a record")': LONG_VALUE,
    "partition_change.PartitionChangeBuilder._update_elr: "
    "record.last_known_elr = self.target_last_known_elr":
        "a true last-known ELR, which Kafka's unit tests alone use",
    'indexes.without_entry: raise FaultError(f"there is no entry {entry}")':
        "every member of an ISR or ELR has an entry",
    "state.ClusterState._registered: "
    'raise FaultError(f"broker {broker} is not registered with epoch {epoch}")': CONSISTENT,
    'state.ClusterState.replay: raise FaultError(f"a topic {name} is there already")':
        CONSISTENT,
    'state.ClusterState.active_heartbeats: raise FaultError("this controller is not active")':
        "the controller of a sequence is active from the start",
    "state.is_online_dir: return False": "who may lead is registered: another is not asked",
    "state.ClusterState.default_dir: return UNASSIGNED":
        "a new replica's broker is registered: another is refused before",
    'state.ClusterState.min_isr: raise FaultError(f"topic {topic.name} has no partition 0")':
        "a topic is created with partitions from 0 on",
}
"""Lines of the twin that these sequences cannot reach, and why."""

UNREACHABLE_REFUSALS = {
    ("elect_leaders", "POLICY_VIOLATION"): NO_ROOM,
    ("unregister_broker", "POLICY_VIOLATION"): NO_ROOM,
    ("create_partitions", "UNKNOWN_SERVER_ERROR"): NO_ROOM,
}
"""Refusals that these sequences cannot meet, and why."""


class CheckedController(KfastController):
    """Checks the invariants after every event."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.before = self.kfast.state.copy()

    def _told(self, outcome, *response):
        after = self.kfast.state
        invariants.check(after)
        invariants.check_step(self.before, after, outcome)
        self.before = after.copy()
        return super()._told(outcome, *response)


# ------------------------------------------------------------------------------- what was met


class Met:
    """Rules and refusals that the sequences of this file met."""

    def __init__(self) -> None:
        self.rules = ReachedLines(RULES)
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.mistakes: Counter[tuple[str, str, str]] = Counter()
        self.records: Counter[str] = Counter()
        self.n_sequences = 0

    def add(self, case):
        """Count what a sequence answered."""
        self.n_sequences += 1
        for step in case["events"]:
            event, expect = step["event"], step["expect"]
            codes = [expect["error"]] if "error" in expect else []
            codes += codes_in(expect.get("response"))
            self.refusals.update((event["op"], code) for code in codes if code != "NONE")
            if "mistake" in event:
                self.mistakes.update((event["op"], event["mistake"], code) for code in codes)
            self.records.update(record["type"] for record in expect["records"])


@pytest.fixture(scope="module")
def met():
    """What all sequences of this file met."""
    return Met()


# -------------------------------------------------------------------------------- the sequences


def assert_invariants(partition, before, changes, elr_on, *, is_torn):
    """Section 13; `before` is None for a new partition, `changes` are the event's records of it.

    `is_torn`: two records of one request have been written of it (the section's note).
    """
    isr, elr, leader = partition["isr"], partition.get("elr", []), partition["leader"]
    assert len({*isr, *elr}) == len(isr) + len(elr)
    assert len(partition.get("last_known_elr", [])) <= 1
    if not is_torn:
        assert set(isr) <= set(partition["replicas"])
        assert leader == -1 or leader in partition["replicas"]
    if before is not None:
        grown = partition["partition_epoch"] - before["partition_epoch"]
        assert grown >= len(changes)
        assert 0 <= partition["leader_epoch"] - before["leader_epoch"] <= grown
    if changes and changes[-1].get("leader", -1) >= 0:
        assert leader in isr
    if "recovery" in partition and (before is None or "recovery" not in before):
        assert isr == [leader]
    if not isr:
        assert elr_on or not before["isr"]


def check_invariants(case):
    """Of every partition that an event changes."""
    partitions = dict(case["start"]["partitions"])
    elr_on = case["given"]["elr"]
    torn = set()
    for step in case["events"]:
        records = step["expect"]["records"]
        for name, partition in step["expect"].get("partitions", {}).items():
            before = partitions.pop(name, None)
            if partition is not None:
                changes = [r for r in records if r["type"] == "PARTITION_CHANGE_RECORD"
                           and f"{r['topic']}-{r['partitionId']}" == name]
                if step["event"]["op"] == "assign_replicas_to_dirs" and len(changes) > 1:
                    torn.add(name)
                assert_invariants(partition, before, changes, elr_on, is_torn=name in torn)
                partitions[name] = partition
        for record in records:
            if record.get("name") == "eligible.leader.replicas.version":
                elr_on = bool(record["featureLevel"])


def run_with_counts(case, make):
    """What differs where no records are kept: responses, states, and numbers of records."""
    run = TwinRun(case, make)
    for event in case["setup"]:
        run.run(event)
    for number, step in enumerate(case["events"], start=1):
        seen, expect = run.run(step["event"]), step["expect"]
        if "fault" in expect:
            assert "fault" in seen
            return
        assert {**seen, "records": []} == {**expect, "records": []}, number
    assert run.full_state() == case["end"]


@pytest.mark.parametrize("profile", KAFKA_OF)
def test_kfast_and_its_twin_agree_after_every_event(profile, met):
    """Every record in its order, every response and state; invariants hold after every event."""
    for seed in SEEDS[profile]:
        with met.rules:
            case = random_case(
                seed, profile, n_brokers=5 + 2 * (seed % 3), n_partitions=4, n_events=N_EVENTS,
                kind=EveryRuleSequence,
            )
        met.add(case)
        check_invariants(case)
        options = SETTINGS[seed % len(SETTINGS)]
        make = partial(CheckedController, **options)
        if options["journal"] == "full":
            assert run_case(case, make)[1] == [], seed
        else:
            run_with_counts(case, make)


def test_a_lost_directory_ends_a_reassignment_and_elects_whom_it_removes():
    """Section 13's note, met by a long run: the second record is made from what the first changes.

    The leader is outside the replicas then, in Kafka too.
    """
    case = random_case(
        1651523589, "kraft-4.3", n_brokers=5, n_partitions=4, n_events=N_EVENTS,
        kind=EveryRuleSequence,
    )
    check_invariants(case)
    led_from_outside = [
        (step["event"]["op"], partition["replicas"], partition["isr"], partition["leader"])
        for step in case["events"] for partition in step["expect"].get("partitions", {}).values()
        if partition and partition["leader"] not in (-1, *partition["replicas"])
    ]
    assert led_from_outside == [("assign_replicas_to_dirs", [101], [105], 105)]
    assert run_case(case, CheckedController)[1] == []


@pytest.mark.parametrize("journal", ["full", "counts"])
def test_random_sequences_by_ascending_row(journal):
    """The same records as a set, until a cap, a failover or a stale entry lets the order decide."""
    compared = 0
    for seed in range(100, 115):
        case = random_case(seed, "kraft-4.1", n_brokers=8, n_partitions=10)
        make = partial(CheckedController, tracks_history=False, journal=journal)
        run = TwinRun(case, make)
        for event in case["setup"]:
            run.run(event)
        for number, step in enumerate(case["events"], start=1):
            if depends_on_order(step):
                break
            seen, expect = run.run(step["event"]), step["expect"]
            if journal != "full":
                seen, expect = {**seen, "records": []}, {**expect, "records": []}
            assert unordered(seen) == unordered(expect), (seed, number)
            compared += 1
            if writes_stale_entries(step):
                break
    assert compared > 150


def test_every_rule_and_refusal_was_met(met):
    """By the sequences above; what cannot be met was not."""
    if met.n_sequences < sum(map(len, SEEDS.values())):
        pytest.skip("only meaningful after all sequences of this file")
    print(f"{met.n_sequences} sequences of {N_EVENTS} events at most")
    for name, count in sorted(met.rules.calls.items()):
        print(f"{count:9} rule {name}")
    for (op, code), count in sorted(met.refusals.items()):
        print(f"{count:9} refusal {op} {code}")
    for (op, mistake, code), count in sorted(met.mistakes.items()):
        print(f"{count:9} mistake {op}: {mistake} -> {code}")
    for kind, count in sorted(met.records.items()):
        print(f"{count:9} record {kind}")
    assert met.rules.unreached() == set(UNREACHABLE)
    refusals = {(op, code) for op, codes in REFUSALS.items() for code in codes.split()}
    assert set(met.refusals) == refusals - set(UNREACHABLE_REFUSALS)
    assert set(UNREACHABLE_REFUSALS) <= refusals
    mistakes = {(op, name, code) for op, of in MISTAKES.items() for name, (_, code) in of.items()}
    assert mistakes - set(met.mistakes) == set()


def test_the_refusals_are_those_that_the_controller_can_give():
    """Every error code that its source names is one that a table above lists."""
    folder = Path(kfast.controllers.kraft.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    named = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', text))
    listed = {code for codes in REFUSALS.values() for code in codes.split()}
    assert named == listed
