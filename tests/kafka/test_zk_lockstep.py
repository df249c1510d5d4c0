"""Kafka's controller of ZooKeeper mode and kfast on the same random events; docs/lockstep.md."""

from __future__ import annotations

import json
from itertools import chain, islice

import numpy as np
import pytest

from kfast.controllers.zk import (
    broker_changes,
    controller_context,
    log_dirs,
    reassignment,
    topic_deletion,
)
from tests.kafka.kafka_classes import ZOOKEEPER, MissingToolError, build
from tests.kafka.lockstep import ZK_PROFILES, main, run
from tests.kafka.zk_cases import ZkKfast, ZkTwin, smaller_starts
from tests.kafka.zk_comparison import FAILOVER, RAISED, state_differences
from tests.kafka.zk_events import absolute, event_json, event_of, relative, smaller_events
from tests.kafka.zk_sequences import ZkSequence
from tests.kafka.zk_shrinking import run_zk_case
from tests.support.kfast_run import Setting
from tests.support.long_tests import share_of

MOST_EVENTS = 8
KAFKA = {"zk-2.4": "2.4.1", "zk-3.9": "3.9.1"}
"""The release that each profile is run with."""


@pytest.fixture(scope="module")
def _kafka():
    """Kafka's classes, from Maven Central or Maven's own folder; needs Java and Maven."""
    try:
        for version in KAFKA.values():
            build(version, ZOOKEEPER)
    except MissingToolError as error:
        pytest.skip(f"Kafka cannot run here: {error}")


def test_every_profile_has_its_release():
    assert tuple(KAFKA) == ZK_PROFILES


@pytest.mark.slow
@pytest.mark.usefixtures("_kafka")
@pytest.mark.parametrize("seed", share_of(range(1, 4)))
@pytest.mark.parametrize("profile", ZK_PROFILES)
def test_kafka_and_kfast_answer_equally(profile, seed, capsys):
    arguments = ["--kafka", KAFKA[profile], "--seed", str(seed), "--steps", "200"]
    assert main(arguments) == 0, capsys.readouterr().out


BROKEN = {
    "brokers that start are told of no leader": (
        broker_changes, "_announce_starting", lambda *_: None,
    ),
    "no reassignment is complete": (
        reassignment, "is_complete", lambda _, rows: np.zeros(len(rows), np.bool_),
    ),
    "a broker that shuts down leads nothing any more": (
        controller_context, "partition_leaders_on_broker", lambda *_: np.empty(0, np.int32),
    ),
    "failed log directories are not noted": (
        log_dirs, "note_offline_dirs", lambda *_: np.empty(0, np.int32),
    ),
    "replicas of a broker that fails can be deleted": (
        topic_deletion, "fail_replica_deletion", lambda *_: None,
    ),
    "added replicas are not started": (reassignment, "_start_new_replicas", lambda *_: None),
}
"""Rules of each part of the controller: where kfast has them, and what breaks them."""


@pytest.mark.slow
@pytest.mark.usefixtures("_kafka")
@pytest.mark.parametrize("rule", share_of(tuple(BROKEN)))
def test_a_broken_rule_is_found_and_shrunk_to_few_events(rule, monkeypatch):
    """And the test that is printed fails with the broken rule, and passes without it."""
    place, name, broken = BROKEN[rule]
    with monkeypatch.context() as patch:
        patch.setattr(place, name, broken)
        _, difference = run("3.9.1", 500, 10_000, "zk-3.9")
        assert difference is not None
        assert len(difference.steps) <= MOST_EVENTS
        with pytest.raises(AssertionError):
            run_text(difference.test)
    run_text(difference.test)


def run_text(text):
    """Run a test that was printed."""
    names = {"run_zk_case": run_zk_case}
    exec(text, names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()


@pytest.mark.parametrize("seed", [3, 4])
def test_events_are_the_same_as_json_and_with_relative_numbers(seed):
    """And kfast's state reads as the twin's does, which is what both are compared by."""
    sequence = ZkSequence(seed, "zk-3.9")
    sequence.run = twin = ZkTwin(sequence.case)
    kfast = ZkKfast(sequence.case, Setting())
    for event in chain([FAILOVER], islice(sequence.events(), 60)):
        assert absolute(relative(event, twin), twin) == json.loads(json.dumps(event))
        assert event_json(event_of(event)) == event | json.loads(json.dumps(event))
        twin.twin.controller.rank = kfast.rank
        seen, happened = twin.run(event)
        theirs = kfast.run(event)
        kfast.known.clear()
        assert kfast.state() == theirs.state  # read anew, where the digest was known
        if happened.error in RAISED:
            break
        assert state_differences(seen.state, theirs.state) == []


def test_a_smaller_event_lacks_one_item():
    event = {"op": "on_broker_change", "started": {"1": 5}, "bounced": {}, "failed": [2]}
    assert list(smaller_events(event)) == [{**event, "started": {}}, {**event, "failed": []}]


def test_a_smaller_start_lacks_one_thing():
    given = ZkSequence(5, "zk-3.9").case["given"]
    smaller = list(smaller_starts(given))
    assert all(start != given for start in smaller)
    assert len(smaller) > len(given["topics"]) + len(given["brokers"])
