"""Every refusal of the KRaft controller is reached, by Kafka's own cases or by what follows here.

Source: docs/kraft.md, sections 6 to 8.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

import kfast
from kfast.controllers import AlterPartitionData, CreatableTopic
from tests.support.kraft_cases import TwinRun, load
from tests.support.kraft_kfast_run import KfastController

REFUSALS = {
    "register_broker": (
        "INCONSISTENT_CLUSTER_ID DUPLICATE_BROKER_REGISTRATION INVALID_REGISTRATION "
        "UNSUPPORTED_VERSION"
    ),
    "heartbeat": "STALE_BROKER_EPOCH",
    "unregister_broker": "BROKER_ID_NOT_REGISTERED POLICY_VIOLATION",
    "alter_partition": (
        "STALE_BROKER_EPOCH UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION NOT_CONTROLLER "
        "FENCED_LEADER_EPOCH INVALID_REQUEST INVALID_UPDATE_VERSION INELIGIBLE_REPLICA "
        "NEW_LEADER_ELECTED OPERATION_NOT_ATTEMPTED"
    ),
    "elect_leaders": (
        "INVALID_REQUEST UNKNOWN_TOPIC_OR_PARTITION ELECTION_NOT_NEEDED "
        "PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE POLICY_VIOLATION"
    ),
    "alter_partition_reassignments": (
        "UNKNOWN_TOPIC_OR_PARTITION NO_REASSIGNMENT_IN_PROGRESS INVALID_REPLICA_ASSIGNMENT "
        "INVALID_REPLICATION_FACTOR UNKNOWN_SERVER_ERROR"
    ),
    "assign_replicas_to_dirs": (
        "UNSUPPORTED_VERSION STALE_BROKER_EPOCH UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PARTITION "
        "NOT_LEADER_OR_FOLLOWER"
    ),
    "create_topics": (
        "POLICY_VIOLATION INVALID_TOPIC_EXCEPTION TOPIC_ALREADY_EXISTS INVALID_CONFIG "
        "INVALID_REQUEST INVALID_REPLICA_ASSIGNMENT INVALID_REPLICATION_FACTOR "
        "INVALID_PARTITIONS"
    ),
    "create_partitions": (
        "UNKNOWN_TOPIC_OR_PARTITION INVALID_PARTITIONS INVALID_REPLICA_ASSIGNMENT "
        "UNKNOWN_SERVER_ERROR"
    ),
    "delete_topics": "UNKNOWN_TOPIC_ID",
    "incremental_alter_configs": (
        "INVALID_CONFIG UNKNOWN_TOPIC_OR_PARTITION BROKER_ID_NOT_REGISTERED"
    ),
    "update_features": "INVALID_UPDATE_VERSION",
}
"""What each event refuses. Not listed: a delete or a configuration request of more than 10 000
topics or records, whose limit is the one that the others share."""


def codes_in(value):
    """Error codes anywhere in a response."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from codes_in(part)
    if isinstance(value, str) and value.isupper():
        yield value


def cluster(partitions, **options):
    """A controller of three brokers without ELR."""
    zk = kfast.generate(brokers=3, topics=1, partitions=partitions, seed=1)
    return kfast.QuorumController(kfast.with_controller(zk, "kraft-4.1"), **options)


def limits():
    """Operations of a user that would write more than 10 000 records, as (event, code)."""
    controller = cluster(33_000)
    controller.fence_broker(0)
    controller.unfence_broker(0)
    controller.catch_up([0])
    yield "elect_leaders", controller.elect_leaders().error
    yield "unregister_broker", controller.unregister_broker(1).error
    many = [(number, [0]) for number in range(10_001)]
    yield "create_topics", controller.create_topics([CreatableTopic("new", many)]).error
    topic = controller.state.topic[0].as_py()
    replicas = [[0, 1, 2]] * 10_001
    outcome = controller.create_partitions([(topic, 43_001, replicas)])
    yield "create_partitions", outcome.response[topic]
    plan = {(topic, number): [0, 1] for number in range(10_001)}
    yield "alter_partition_reassignments", (
        controller.alter_partition_reassignments(plan).response[-1]
    )


def single_refusals():
    """Refusals that need a request of their own, as (event, code)."""
    controller = cluster(6)
    for topic in (
        CreatableTopic("a", replication_factor=0), CreatableTopic("b", num_partitions=0),
    ):
        (code,) = controller.create_topics([topic]).response.values()
        yield "create_topics", code
    name = controller.state.topic[0].as_py()
    partition = controller.state.registration(0)
    other = next(b for b in partition.replicas if b != partition.leader)
    controller.fence_broker(other)
    epochs = controller.state.registration(0)
    data = AlterPartitionData(
        name, 0, epochs.leader_epoch, epochs.partition_epoch, [(epochs.leader, -1), (other, -1)]
    )
    outcome = controller.alter_partition(epochs.leader, 0, [data], with_topic_ids=False)
    yield "alter_partition", outcome.response[0].error


@pytest.mark.slow
def test_every_refusal_is_reached(shared_data, capsys):
    """The counts are printed; a code that is never answered fails."""
    reached = Counter()
    older = Path(__file__).parent.parent / "support" / "data" / "kraft_older.jsonl.gz"
    for file in (shared_data / "kraft_cases_executed.json", older):
        for case in load(file):
            run = TwinRun(case, partial(KfastController, journal="counts"))
            for event in case["setup"]:
                run.run(event)
            for step in case["events"]:
                seen = run.run(step["event"])
                if "fault" in seen:
                    break
                codes = [seen["error"]] if "error" in seen else []
                for code in [*codes, *codes_in(seen.get("response"))]:
                    reached[step["event"]["op"], code] += 1
    reached.update([*limits(), *single_refusals()])
    with capsys.disabled():
        for (event, code), n in sorted(reached.items()):
            print(f"{event:30} {code:35} {n:6}")
    listed = {(event, code) for event, codes in REFUSALS.items() for code in codes.split()}
    assert listed - set(reached) == set()
    assert {pair for pair in reached if pair[1] != "NONE"} - listed == set()


def test_limits_and_rare_refusals():
    """Those that no case of Kafka's reaches."""
    assert Counter([*limits(), *single_refusals()]) == Counter([
        ("elect_leaders", "POLICY_VIOLATION"), ("unregister_broker", "POLICY_VIOLATION"),
        ("create_topics", "POLICY_VIOLATION"), ("create_partitions", "UNKNOWN_SERVER_ERROR"),
        ("alter_partition_reassignments", "UNKNOWN_SERVER_ERROR"),
        ("create_topics", "INVALID_REPLICATION_FACTOR"), ("create_topics", "INVALID_PARTITIONS"),
        ("alter_partition", "OPERATION_NOT_ATTEMPTED"),
    ])
