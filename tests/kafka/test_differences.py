"""Differences that `make lockstep` found, each with Kafka's answers; docs/lockstep.md."""

from __future__ import annotations

import pytest

from tests.support.kraft_cases import TwinRun, run_case
from tests.support.kraft_every_rule import LONGEST_CONFIG
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_reference.controller import QuorumController

CONTROLLERS = pytest.mark.parametrize("make", [QuorumController, KfastController])


def case_of(profile, level, *steps):
    """A case of an empty cluster: events, each with what it is answered and writes."""
    records = [{"type": "FEATURE_LEVEL_RECORD", "name": "metadata.version", "featureLevel": level}]
    given = {"controller_id": 3000, "session_timeout_ms": 9000, "max_elections": 1000,
             "static_config": {}, "records": records}
    return {
        "id": "found", "profile": profile, "given": given, "setup": [],
        "start": {"partitions": {}, "brokers": {}, "next_offset": 1},
        "events": [{"event": event, "expect": expect} for event, expect in steps],
    }


@CONTROLLERS
@pytest.mark.parametrize(("level", "direction", "code", "records"), [
    (1, "upgrade", "NONE", [{"type": "NO_OP_RECORD", "version": 0}]),
    (1, "safe_downgrade", "NONE", []),
    (0, "upgrade", "INVALID_UPDATE_VERSION", []),
    (0, "unsafe_downgrade", "INVALID_UPDATE_VERSION", []),
])
def test_kraft_version_is_a_level_of_the_raft_layer(make, level, direction, code, records):
    """Kafka 4.1.2."""
    event = {"op": "update_features", "updates": {"kraft.version": level},
             "types": {"kraft.version": direction}}
    case = case_of("kraft-4.1", 27, (event, {"response": {"error": code}, "records": records}))
    assert run_case(case, make)[1] == []


def long_value(characters):
    """Set a value of the cluster."""
    ops = [["x", "set", characters]]
    return {"op": "incremental_alter_configs",
            "resources": [{"type": "broker", "name": "", "ops": ops}]}


@CONTROLLERS
def test_a_long_value_is_refused(make):
    """Kafka 4.1.2."""
    case = case_of("kraft-4.1", 27, (
        long_value("x" * (LONGEST_CONFIG + 1)),
        {"response": {"broker:": "INVALID_CONFIG"}, "records": []},
    ))
    assert run_case(case, make)[1] == []


@CONTROLLERS
@pytest.mark.parametrize(("profile", "level", "value"), [
    ("kraft-4.0", 25, "x" * (LONGEST_CONFIG + 1)), ("kraft-4.1", 27, "é" * LONGEST_CONFIG),
])
def test_a_value_that_no_record_can_hold_is_a_fault(make, profile, level, value):
    """Kafka 4.0.2: 'value' field is too long to be serialized; 4.1.2 counts characters."""
    fault = {"records": [], "replay_fault": "'value' field is too long to be serialized"}
    case = case_of(profile, level, (long_value(value), fault))
    assert run_case(case, make)[1] == []


@CONTROLLERS
@pytest.mark.parametrize(("level", "code"), [
    (2, "INVALID_UPDATE_VERSION"), (3, "INVALID_UPDATE_VERSION"), (4, "NONE"),
])
def test_no_metadata_version_below_4_can_be_finalized(make, level, code):
    """Kafka 3.9.1."""
    record = {"type": "FEATURE_LEVEL_RECORD", "version": 0, "name": "metadata.version",
              "featureLevel": level}
    case = case_of("kraft-3.9", 1, (
        {"op": "update_features", "updates": {"metadata.version": level}},
        {"response": {"error": code}, "records": [record] if code == "NONE" else []},
    ))
    assert run_case(case, make)[1] == []


@CONTROLLERS
@pytest.mark.parametrize("level", [5, 6])
def test_levels_5_and_6_changed_the_metadata(make, level):
    """Kafka 3.9.1."""
    event = {"op": "update_features", "updates": {"metadata.version": level - 1},
             "types": {"metadata.version": "unsafe_downgrade"}}
    answer = {"response": {"error": "INVALID_UPDATE_VERSION"}, "records": []}
    assert run_case(case_of("kraft-3.9", level, (event, answer)), make)[1] == []


@CONTROLLERS
def test_10_001_partitions_are_too_many_for_one_request_from_3_9_1(make):
    """Kafka 3.9.1."""
    topic = {"name": "t", "topic_id": "IPS5xrTzWr_Yvd38Ws2xtA", "configs": {}, "assignments": [],
             "replication_factor": 0, "num_partitions": 10_001}
    answer = {"error": "POLICY_VIOLATION", "records": []}
    case = case_of("kraft-3.9", 21, ({"op": "create_topics", "topics": [topic]}, answer))
    assert run_case(case, make)[1] == []


@CONTROLLERS
def test_before_4_0_a_feature_that_kafka_does_not_have_may_be_0(make):
    """Kafka 3.9.1."""
    record = {"type": "FEATURE_LEVEL_RECORD", "version": 0, "name": "unknown", "featureLevel": 0}
    case = case_of("kraft-3.9", 21, (
        {"op": "update_features", "updates": {"unknown": 0}},
        {"response": {"error": "NONE"}, "records": [record]},
    ))
    assert run_case(case, make)[1] == []


@CONTROLLERS
def test_a_last_known_leader_without_a_replica_is_a_fault_when_it_is_unfenced(make):
    """Kafka 4.3.1, IllegalArgumentException: the broker has no directory of the partition."""
    case = case_of("kraft-4.3", 30)
    case["given"]["records"] += [
        {"type": "FEATURE_LEVEL_RECORD", "name": "eligible.leader.replicas.version",
         "featureLevel": 1},
        *({"type": "REGISTER_BROKER_RECORD", "version": 3, "brokerId": broker,
           "incarnation": f"i{broker}", "brokerEpoch": broker + 1, "rack": None, "fenced": False,
           "inControlledShutdown": False, "logDirs": [f"{broker}/0"]} for broker in (1, 2)),
    ]
    run = TwinRun(case, make)
    moved = "alter_partition_reassignments"
    for event in (
        {"op": "create_topics", "topics": [{
            "name": "t", "topic_id": "dWDeWJTLXNOhuV_Z9ftDsg", "assignments": [[0, [2]], [1, [1]]],
            "configs": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
        }]},
        {"op": "assign_replicas_to_dirs", "broker": 1, "broker_epoch": 2,
         "dirs": [{"dir": "LOST", "topics": [{"topic": "t", "partitions": [1]}]}]},
        {"op": "incremental_alter_configs", "resources": [
            {"type": "topic", "name": "t",
             "ops": [["unclean.leader.election.enable", "set", "true"]]},
        ]},
        {"op": moved,
         "topics": [{"topic": "t", "partitions": [{"partition": 1, "replicas": [2]}]}]},
        {"op": "elect_unclean_leaders"},
        {"op": moved,
         "topics": [{"topic": "t", "partitions": [{"partition": 1, "replicas": None}]}]},
        {"op": "advance_time", "ms": 9001, "contacts": [1]},
        {"op": "fence_stale"},
        {"op": "advance_time", "ms": 9001, "contacts": []},
        {"op": "register_broker", "broker": 1, "incarnation": "i25", "rack": None,
         "log_dirs": ["1/0"], "previous_broker_epoch": -1},
    ):
        assert "fault" not in run.run(event)
    assert run.full_state()["partitions"]["t-1"]["last_known_elr"] == [2]
    unfenced = {"op": "heartbeat", "broker": 2, "broker_epoch": 3, "metadata_offset": 30}
    assert "fault" in run.run(unfenced)
