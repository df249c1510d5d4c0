"""A real Kafka 4.1.2 cluster: the twin predicts what its controller wrote.

`../shared/data/kraft_live/` holds the metadata log of 29 events, the cause of every operation, and
what the AdminClient saw after each event.
"""

from __future__ import annotations

import pytest

from tests.support.kraft_live import LivePrediction, compare_capture, lines_of, operations

N_EVENTS = 29
N_CAPTURED = 17_412
RESTARTED_AT = 8455
"""From here on the controller knows a snapshot, whose order of topics the dump does not tell."""


@pytest.fixture(scope="module")
def folder(shared_data):
    """The folder of the live cluster."""
    return shared_data / "kraft_live"


def test_the_log_gives_what_was_seen_after_each_event(folder):
    """Leaders, replicas, ISRs, ELRs, last known leaders, fenced brokers."""
    captures = list(lines_of(folder / "captures.jsonl.gz"))
    live, wrong, n_partitions = LivePrediction(), [], 0
    ahead = operations(folder)
    operation = next(ahead)
    for capture in captures:
        end = capture["quorum"]["high_watermark"]
        while operation is not None and operation.first < end:
            live.apply(operation)
            operation = next(ahead, None)
        wrong += [f"event {capture['label']}: {text}"
                  for text in compare_capture(live.state, capture)]
        n_partitions += sum(len(t["partitions"]) for t in capture["topics"].values())
    assert not wrong, "\n".join(wrong[:10])
    assert (len(captures), n_partitions) == (N_EVENTS, N_CAPTURED)


def test_every_operation_is_predicted(folder):
    """Every record that is not a wish of a leader or an administrator, in Kafka's order."""
    live = LivePrediction()
    for operation in operations(folder):
        live.compare(operation, in_order=operation.first < RESTARTED_AT)
        live.apply(operation)
    assert not live.differences, "\n".join(live.differences[:10])
    assert live.counts == {
        "adopted": 5,
        "alterPartition": 2781,
        "alterPartitionReassignments": 26,
        "assignReplicasToDirs": 616,
        "createPartitions": 4,
        "createTopics": 773,
        "deleteTopics": 2,
        "electLeaders": 444,
        "incrementalAlterConfigs": 21,
        "maybeFenceStaleBroker": 2729,
        "processBrokerHeartbeat": 788,
        "registerBroker": 531,
    }
