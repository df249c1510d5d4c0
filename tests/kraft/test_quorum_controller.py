"""The KRaft controller on random sequences with all events: equal to the twin, invariants kept.

Source: docs/kraft.md, sections 6 to 9 and 13.
"""

from __future__ import annotations

import pytest

import kfast
from kfast.controllers import AlterPartitionData, ConfigChange, CreatableTopic
from kfast.errors import InvariantError
from kfast.testing import invariants


def cluster(**options):
    """A controller of 6 brokers and 60 partitions with ELR on."""
    zk = kfast.generate(brokers=6, topics=3, partitions=60, min_insync_replicas=2, seed=5)
    state = kfast.with_controller(zk, "kraft-4.1", elr=True)
    return kfast.QuorumController(state, **options)


def eventful_digest(journal):
    """Brokers fail, return, catch up and shut down; plans are executed."""
    controller = cluster(journal=journal)
    controller.activate()
    for broker in (0, 1, 2):
        controller.fence_broker(broker)
    controller.unfence_broker(1)
    controller.catch_up([1])
    controller.begin_controlled_shutdown(4)
    plan = {("topic-0", 0): [3, 5, 1], ("topic-1", 3): [5, 3], ("topic-2", 1): [1]}
    outcome = controller.alter_partition_reassignments(plan)
    assert outcome.response == ["NONE"] * 3
    controller.catch_up_reassignments()
    invariants.check(controller.state)
    return controller.state.digest()


@pytest.mark.parametrize("journal", ["off", "counts"])
def test_the_digest_does_not_depend_on_the_journal(journal):
    """After events of all kinds it is that of a full journal."""
    assert eventful_digest(journal) == eventful_digest("full")


def test_the_table_of_records_says_what_the_records_say():
    """One row each, in order, with offsets; a field is null where a record does not set it."""
    controller = cluster(journal="full")
    outcome = controller.fence_broker(0)
    table, records = outcome.records.to_pylist(), outcome.metadata_records
    assert len(table) == len(records) == outcome.n_records > 20
    assert [row["offset"] for row in table] == list(
        range(outcome.first_offset, controller.next_offset)
    )
    for row, record in zip(table[:-1], records[:-1], strict=True):
        assert row["type"] == type(record).__name__ == "PartitionChangeRecord"
        assert row["partition"] == record.partition_id
        for name in ("isr", "eligible_leader_replicas", "last_known_elr", "replicas"):
            value = getattr(record, name)
            assert row[name] == (None if value is None else list(value))
        assert row["leader"] == record.leader
    assert table[-1]["type"] == "BrokerRegistrationChangeRecord"
    assert table[-1]["broker_id"] == 0
    assert outcome.counts.changes == len(records) - 1


def test_an_invariant_that_does_not_hold_is_named():
    """A counter, a mask, an order."""
    controller = cluster()
    controller.fence_broker(0)
    invariants.check(controller.state)
    broken = controller.state.copy()
    broken.preferred_imbalance_count += 1
    with pytest.raises(InvariantError, match="preferred_imbalance_count"):
        invariants.check(broken)
    broken = controller.state.copy()
    broken.quorum.allocate_elr()
    broken.quorum.elr[3] = broken.records["isr"][3]
    with pytest.raises(InvariantError, match="ISR and ELR have nobody in common"):
        invariants.check(broken)


def test_the_first_event_or_the_first_copy_makes_the_hosting_index():
    """A new controller does not: so it is active at once, and copies of its state share one."""
    states = [cluster().state for _ in range(2)]
    for state in states:
        kfast.QuorumController(state).activate()
        assert state._index is not None
        assert not state._index.is_made
    copies = [states[0].copy() for _ in range(2)]
    assert all(copy._index.hosted is states[0]._index.hosted for copy in copies)
    kfast.QuorumController(states[1]).fence_broker(1)
    assert states[0]._index.is_made
    assert states[1]._index.is_made


def test_an_inactive_controller_refuses_everything():
    """After a fault inside Kafka the controller has resigned, until one is active again."""
    controller = cluster()
    controller.active = False
    assert controller.fence_broker(0).error == "NOT_CONTROLLER"
    controller.restart()
    assert controller.fence_broker(0).error is None


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("fence_broker", ["x"]), ("fence_broker", [99]), ("begin_controlled_shutdown", [None]),
        ("elect_leaders", [5]), ("elect_leaders", [{"topic-0": ["x"]}]),
        ("elect_leaders", [[("topic-0", True)]]), ("elect_leaders", [None, 1]),
        ("advance_time", [-1]), ("advance_time", [float("nan")]), ("advance_time", [1, ["x"]]),
        ("unregister_broker", [True]), ("fence_broker", [0.5]),
        ("process_broker_heartbeat", [0, 1.5]), ("process_broker_heartbeat", [0, 1, "x"]),
        ("alter_partition", [True, 0, []]), ("alter_partition", [0, None, []]),
        ("assign_replicas_to_dirs", [0, 0, [("x",)]]), ("create_topics", [["t"]]),
        ("create_partitions", [[("t", 2)]]), ("create_partitions", [[("t", 2, [["x"]])]]),
        ("create_partitions", [[("t", 2, []), ("t", 3, [])]]), ("delete_topics", [["t", "t"]]),
        ("incremental_alter_configs", [["x"]]), ("update_features", [["x"]]),
        ("update_features", [{"metadata.version": 27}, {"metadata.version": "down"}]),
        ("register_broker", [-3]), ("register_broker", [7, "short"]),
        ("process_broker_heartbeat", ["a"]), ("delete_topics", ["abc"]), ("catch_up", [["x"]]),
        ("alter_partition", [0, 0, [1]]), ("assign_replicas_to_dirs", [0, 0, [("x", "t", 0)]]),
        ("alter_partition_reassignments", [{("topic-0", 0): ["x"]}]),
        ("create_partitions", [[("topic-0", "x", [])]]),
        ("update_features", [{"metadata.version": "x"}]),
    ],
)
def test_a_callers_mistake_changes_nothing(event, arguments):
    """An error that names the argument, before anything changes."""
    controller = cluster()
    digest = controller.state.digest()
    with pytest.raises(kfast.ArgumentError):
        getattr(controller, event)(*arguments)
    assert controller.state.digest() == digest


@pytest.mark.parametrize(
    ("request_class", "values"),
    [
        (AlterPartitionData, ("t", 0, 0, 0, [(1,)])), (AlterPartitionData, ("t", True, 0, 0, [])),
        (AlterPartitionData, ("t", 0, 0, 0, [], 2)), (CreatableTopic, (5,)),
        (CreatableTopic, ("t", [0])), (CreatableTopic, ("t", [(0, [0.5])])),
        (CreatableTopic, ("t", [], {"min.insync.replicas": 2})),
        (ConfigChange, (3, "t", [])), (ConfigChange, (2, "t", [("a", "put", "b")])),
        (ConfigChange, (2, "t", [("a", "set", 1)])),
    ],
)
def test_a_request_is_checked_when_it_is_made(request_class, values):
    """Wrong types, ranges and operations: Kafka's schema has no place for them."""
    with pytest.raises(kfast.ArgumentError):
        request_class(*values)


@pytest.mark.parametrize("option", [
    "now_ms", "session_timeout_ms", "max_elections", "next_offset", "threads",
])
@pytest.mark.parametrize("value", [True, 1.5, -1, "1", float("nan")])
def test_an_option_is_checked(option, value):
    """A truth value, a fraction, a text and a negative number are refused."""
    with pytest.raises(kfast.ArgumentError):
        kfast.QuorumController(cluster().state, **{option: value})
