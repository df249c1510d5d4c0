"""Differences are found, shrunk and printed as tests; here the plain Python twin is Kafka."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from kfast.controllers.kraft import configurations, partition_requests, reassignments
from kfast.controllers.kraft.heartbeats import Heartbeats
from tests.kafka import lockstep
from tests.kafka.lockstep import Counts, profile_of, run_sequence
from tests.kafka.sequences import LockstepSequence
from tests.kafka.shrinking import absolute, relative, smaller_events
from tests.support.kraft_cases import TwinRun, run_case
from tests.support.kraft_kfast_run import KfastController

MOST_EVENTS = 8


class TwinAsKafka:
    """Answers as `KafkaProcess` does, by the twin."""

    def __init__(self, profile):
        self.profile, self.answers = profile, []

    def start(self, given):
        self.run = TwinRun({"profile": self.profile, "given": given})
        return "as the twin has it"

    def ask(self, event):
        self.send([event])
        return self.answer()

    def send(self, events):
        for event in events:
            whole = event["op"] == "describe_all"
            self.answers.append(self.run.full_state() if whole else self.run.run(event))

    def answer(self):
        return json.loads(json.dumps(self.answers.pop(0)))


def first_difference(profile, seed, n_steps=10_000):
    """The first difference of a run beside the twin, and what the run met."""
    counts, kafka = Counts(), TwinAsKafka(profile)
    while counts.steps < n_steps:
        sequence = LockstepSequence(seed + counts.sequences, profile)
        difference = run_sequence(kafka, sequence, counts, n_steps)
        if difference is not None:
            return difference, counts
    return None, counts


def test_no_difference_without_a_broken_rule():
    difference, counts = first_difference("kraft-4.1", 5, 400)
    assert difference is None
    assert counts.steps == 400
    assert len(counts.answers) > 20


BROKEN = {
    "features: any level is allowed": (configurations, "is_allowed", lambda *_: True),
    "cluster: brokers that are behind do not delay a shutdown": (
        Heartbeats, "lowest_active_offset", lambda _: float("inf"),
    ),
    "configuration: no ELR is cleared": (configurations, "clear_elr_records", lambda *_: []),
    "replication: any member may join an ISR": (
        partition_requests, "is_ineligible", lambda *_: False,
    ),
    "replication: the factor counts replicas that are being removed": (
        reassignments, "current_factor", lambda partition: len(partition.replicas),
    ),
}
"""Rules of each of Kafka's managers: where kfast has them, and what breaks them."""


FIRST, *OTHERS = BROKEN


@pytest.mark.parametrize(
    "rule", [FIRST, *(pytest.param(rule, marks=pytest.mark.slow) for rule in OTHERS)]
)
def test_a_broken_rule_is_found_and_shrunk_to_few_events(rule, monkeypatch):
    """And the test that is printed fails with the broken rule, and passes without it."""
    place, name, broken = BROKEN[rule]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, broken)
        difference, _ = first_difference("kraft-4.1", 9)
        assert difference is not None
        assert 1 <= len(difference.steps) <= MOST_EVENTS
        with pytest.raises(AssertionError):
            run_text(difference.test)
    run_text(difference.test)


def run_text(text):
    """Run a test that was printed."""
    names = {"run_case": run_case, "KfastController": KfastController}
    exec(text, names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()


def test_events_are_the_same_after_relative_and_absolute_numbers():
    sequence = LockstepSequence(3, "kraft-4.1")
    for event in islice(sequence.events(), 150):
        noted = relative(event, sequence.run)
        assert absolute(noted, sequence.run) == json.loads(json.dumps(event))
        if "fault" in sequence.run.run(event):
            break


def test_a_smaller_event_lacks_one_item():
    event = {"op": "elect_leaders", "type": 0, "partitions": {"t": [0, 1]}, "mistake": "none"}
    assert list(smaller_events(event)) == [
        {"op": "elect_leaders", "type": 0, "partitions": {"t": [0, 1]}},
        {**event, "partitions": {"t": [0]}},
        {**event, "partitions": {"t": [1]}},
    ]


@pytest.mark.parametrize(("version", "profile"), [
    ("4.1.2", "kraft-4.1"), ("4.3.0-rc1", "kraft-4.3"), ("9.0", "kraft-4.3"),
    ("3.9.1", "zk-3.9"), ("3.8.0", "kraft-3.8"),
])
def test_a_version_is_compared_with_the_newest_release_up_to_it(version, profile):
    assert profile_of(version) == profile


def test_an_older_version_is_refused():
    with pytest.raises(ValueError, match="older"):
        profile_of("2.3.1")
    with pytest.raises(ValueError, match="no version"):
        profile_of("newest")


def test_without_java_the_exit_code_says_so(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    assert lockstep.main(["--steps", "1"]) == 2
    assert "java is not on the PATH" in capsys.readouterr().err
