"""Who asks for reassignments, what is checked, and when they go on.

Source: docs/controller.md, sections 6.7, 6.1, 6.2 and 6.10.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from kfast import ArgumentError, Controller, ReplicaState, RowError, Store
from kfast.testing import invariants
from tests.rules.test_reassignment import HALF_WAY, is_being_reassigned
from tests.support.readings import answers, moves, refused, sent
from tests.support.states import assert_reads, read_state

CLUSTER = """
    partition  ar     adding  removing  isr    leader  epoch  state
    t-0        1,2,3  -       -         1,2,3  1       7      ONLINE
    t-1        1,5    -       -         1      1       7      ONLINE
    t-2        4,1,2  4       1         1,2    1       7      ONLINE
    t-3        -      -       -         -      -       -      -
    q-0        1,2    -       -         1,2    1       7      ONLINE
"""
INVALID, UNKNOWN, NOTHING = (
    "INVALID_REPLICA_ASSIGNMENT", "UNKNOWN_TOPIC_OR_PARTITION", "NO_REASSIGNMENT_IN_PROGRESS",
)


def cluster(**options):
    """Brokers 1 to 4 are up, 5 is down, 6 shuts down; q is queued for deletion."""
    return read_state(CLUSTER, down=[5], shutting_down=[6], queued=["q"], **options)


# --- what is checked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "targets", "code"),
    [
        (("t", 0), [], INVALID),
        (("t", 0), [1, 2, 1], INVALID),
        (("t", 0), [1, -2], INVALID),
        (("t", 0), [1, 5], INVALID),
        (("t", 0), [6], INVALID),
        (("t", 0), [77], INVALID),
        (("t", 0), None, NOTHING),
        (("q", 0), None, NOTHING),
        (("n", 0), None, NOTHING),
        (("q", 0), [1, 3], UNKNOWN),
        (("t", 3), [1, 3], UNKNOWN),
        (("t", 9), [1, 3], UNKNOWN),
        (("n", 0), [1, 3], UNKNOWN),
        (("q", 0), [1, 1], INVALID),
        (("n", 0), [], INVALID),
        (("n", 0), [1, 5], INVALID),
        (("q", 0), [5], INVALID),
    ],
)
def test_every_line_of_the_table_of_checks_in_its_order(partition, targets, code):
    """Section 6.7, requests: list, live, nothing in progress, topic and assignment."""
    state = cluster()
    before = state.copy()
    outcome = Controller(state).alter_partition_reassignments({partition: targets})
    assert answers(outcome) == [code]
    assert (outcome.error, outcome.failure, outcome.actions) == (None, None, ())
    assert state == before


def test_only_added_replicas_must_be_live():
    """Section 6.7, note: existing dead ones may be kept."""
    controller = Controller(cluster())
    assert answers(controller.alter_partition_reassignments({("t", 1): [5, 4]})) == ["STARTED"]


def test_a_half_added_replica_must_be_live_to_stay():
    """Section 6.7: `reassign_to(list).adding` starts from the origin; cancelling asks nobody."""
    controller = Controller(cluster())
    controller.on_broker_failure([4])
    again = controller.alter_partition_reassignments({("t", 2): [4, 2]})
    assert answers(again) == [INVALID]
    assert answers(controller.alter_partition_reassignments({("t", 2): None})) == ["STARTED"]
    assert controller.state.assignment(2).replicas == (1, 2)


def test_legal_partitions_move_beside_the_others():
    """Each partition has its own answer, in the order asked."""
    state = cluster()
    outcome = Controller(state).alter_partition_reassignments({
        ("t", 2): None, ("t", 9): [1], ("t", 0): [4, 2], ("t", 1): [5, 6],
    })
    assert answers(outcome) == ["STARTED", UNKNOWN, "STARTED", INVALID]
    assert state.assignment(0).adding == (4,)
    assert not state.assignment(2).being_reassigned
    invariants.check(state)


def test_a_table_asks_the_same():
    """Columns topic, partition and replicas of whatever integers; a null list cancels."""
    state, other = cluster(), cluster()
    asked = {("t", 2): None, ("t", 0): [4, 2], ("t", 1): [1, 5, 3]}
    table = pa.table({
        "topic": [t for t, _ in asked], "partition": [p for _, p in asked],
        "replicas": pa.array(asked.values(), pa.list_(pa.int64())),
    })
    by_table = Controller(state).alter_partition_reassignments(table)
    by_mapping = Controller(other).alter_partition_reassignments(asked)
    assert answers(by_table) == answers(by_mapping) == ["STARTED", "STARTED", "STARTED"]
    assert state == other


def test_a_partition_that_stands_twice_is_a_mistake():
    """A caller's mistake: raised before anything changes."""
    state = cluster()
    before = state.copy()
    table = pa.table({"topic": ["t", "t"], "partition": [0, 0], "replicas": [[4], [3]]})
    with pytest.raises(ArgumentError, match="partition t-0 is listed twice; nothing was changed"):
        Controller(state).alter_partition_reassignments(table)
    with pytest.raises(RowError, match="partition row 5 "):
        Controller(state).on_partition_reassignment([5])
    assert state == before


@pytest.mark.parametrize("event", ["alter_partition_reassignments", "reassign_partitions"])
@pytest.mark.parametrize(
    "asked",
    [
        {("t", 0): [2**40]}, {("t", 0): ["a"]}, {("t", 0): [1.5]}, {("t", 0): [None, 1]},
        {("t", 0): 5}, {("t", 2**33): [1]}, {(5, 0): [1]},
    ],
)
def test_what_is_no_list_of_ids_is_a_mistake(event, asked):
    """A caller's mistake, whatever its type: raised before anything changes."""
    state = cluster()
    before = state.copy()
    with pytest.raises(ArgumentError, match=r"^reassignments has"):
        getattr(Controller(state), event)(asked)
    assert state == before


def test_nothing_asked_is_nothing_done():
    """An empty request is answered with nothing."""
    state = cluster()
    before = state.copy()
    outcome = Controller(state).alter_partition_reassignments({})
    assert (answers(outcome), outcome.actions) == ([], ())
    assert state == before


# --- the legacy node ----------------------------------------------------------------------------


def test_the_node_is_not_checked_as_the_api_is():
    """Section 6.7: targets may be dead, unknown or named twice; the first occurrence wins."""
    controller = Controller(cluster(), journal="full")
    outcome = controller.reassign_partitions({("t", 0): [9, 2, 9, 5]})
    assert answers(outcome) == ["STARTED"]
    assert_reads_first(controller.state, "9,2,5,1,3  9,5     1,3       1,2,3  1       8")
    assert {line.split(":")[0] for line in sent(outcome)} == {"A1 LeaderAndIsr to 1,2,3"}
    states = controller.state.replica_states_of(0)
    assert (states[9], states[5]) == (ReplicaState.NEW, ReplicaState.NEW)


def assert_reads_first(state, line):
    """Compare the first partition."""
    assert_reads(state, CLUSTER.replace("1,2,3  -       -         1,2,3  1       7", line))


def test_partitions_that_fail_are_named_by_their_codes():
    """Section 6.7: Kafka removes them from the node."""
    outcome = Controller(cluster()).reassign_partitions({
        ("q", 0): [3], ("t", 0): [2, 1], ("t", 3): [1], ("t", 2): [1, 2],
    })
    assert answers(outcome) == [UNKNOWN, "STARTED", UNKNOWN, "STARTED"]


@pytest.mark.parametrize("targets", [None, [], [1, -1]])
def test_a_node_that_kafka_could_not_hold_is_refused(targets):
    """A caller's mistake: raised before anything changes."""
    state = cluster()
    before = state.copy()
    with pytest.raises(ArgumentError, match="the reassignment node has a list that is null"):
        Controller(state).reassign_partitions({("t", 0): targets})
    assert state == before


# --- the list -----------------------------------------------------------------------------------


def test_what_is_being_reassigned_is_listed():
    """`list_partition_reassignments`: all, or those asked for; unknown ones are left out."""
    controller = Controller(cluster())
    controller.alter_partition_reassignments({("t", 0): [6, 3], ("t", 1): [3]})
    one = {"topic": "t", "partition": 1, "partition_row": 1, "replicas": [3, 1, 5],
           "adding": [3], "removing": [1, 5]}
    two = {"topic": "t", "partition": 2, "partition_row": 2, "replicas": [4, 1, 2],
           "adding": [4], "removing": [1]}
    assert controller.list_partition_reassignments().to_pylist() == [one, two]
    asked = [("t", 2), ("t", 0), ("n", 7), ("t", 8)]
    assert controller.list_partition_reassignments(asked).to_pylist() == [two]
    controller.alter_partition_reassignments({("t", 1): None, ("t", 2): None})
    assert controller.list_partition_reassignments().num_rows == 0


# --- when they go on ----------------------------------------------------------------------------


def half_way(**options):
    """A controller in the middle of the example of section 6.7."""
    return Controller(read_state(HALF_WAY, **options), journal="full")


def test_resuming_bumps_the_epoch_and_is_refused_by_a2():
    """Section 6.7, note: A1 reruns every time; A2's replicas are New already."""
    controller = half_way()
    for epoch in (9, 10):
        outcome = controller.on_partition_reassignment([0])
        assert controller.state.leadership(0).leader_epoch == epoch
        assert [line.split(" ")[0] for line in refused(outcome)] == ["A2", "A2"]
        assert moves(outcome) == []


@pytest.mark.parametrize(("broker", "goes_on"), [(4, True), (3, True), (2, False)])
def test_a_target_broker_that_starts_resumes_it(broker, goes_on):
    """Section 6.2, step 6: target, not only added; a removed replica's broker does not."""
    controller = half_way(down=[broker])
    epoch = controller.state.leadership(0).leader_epoch
    outcome = controller.on_broker_startup([broker])
    assert ("A1: raise the leader epoch" in outcome.actions) == goes_on
    assert controller.state.leadership(0).leader_epoch == epoch + goes_on
    if broker == 4:
        assert refused(outcome) == [
            "A2 t-0/4 OnlineReplica to NewReplica: IllegalState",
            "A2 t-0/5 NewReplica to NewReplica: IllegalState",
        ]


def test_a_broker_that_starts_completes_what_was_complete():
    """Section 6.2, step 6: `reassign` looks at the ISR again."""
    controller = half_way(down=[3])
    controller.state.set_leadership(0, leader=1, isr=[1, 3, 4, 5], leader_epoch=8, version=8)
    controller.on_broker_startup([3])
    assert not is_being_reassigned(controller.state)
    assert controller.state.assignment(0).replicas == (3, 4, 5)


@pytest.mark.parametrize("with_store", [False, True])
def test_a_new_controller_resumes_all(with_store):
    """Section 6.1, step 9: replicas are Online by then, so A2 is refused; one epoch for A1."""
    state = read_state(HALF_WAY)
    store = Store(state) if with_store else None
    outcome = Controller(state, store=store, journal="full").on_controller_failover()
    assert outcome.error is None
    assert state.leadership(0).leader_epoch == 9
    assert refused(outcome) == [
        "A2 t-0/4 OnlineReplica to NewReplica: IllegalState",
        "A2 t-0/5 OnlineReplica to NewReplica: IllegalState",
    ]
    invariants.check(state)


@pytest.mark.parametrize("with_store", [False, True])
def test_a_new_controller_completes_what_is_complete(with_store):
    """Section 6.1, step 9; every added replica hears of it at B1, as it is Online already."""
    state = read_state(HALF_WAY.replace("1,2,3  1  ", "1,3,4,5  1  "))
    store = Store(state) if with_store else None
    controller = Controller(state, store=store, journal="full")
    outcome = controller.on_controller_failover()
    assert "B1 LeaderAndIsr to 4,5: t-0, leader 1, epoch 8, ISR 1,3,4,5" in sent(outcome)
    assert_reads(state, """
        partition  ar     isr    leader  epoch  state   replicas
        t-0        3,4,5  3,4,5  3       10     ONLINE  3:ONLINE,4:ONLINE,5:ONLINE
    """)
    assert not is_being_reassigned(state)


def test_a_new_controller_begins_with_the_node():
    """Section 6.1, step 9: what the node started is not resumed as well; what failed is."""
    state = read_state("""
        partition  ar     adding  removing  isr  leader  epoch
        t-0        1,2    -       -         1,2  1       7
        t-1        3,1,2  3       1         1,2  1       7
        t-2        3,1,2  3       1         1,2  1       7
    """)
    outcome = Controller(state, journal="full").on_controller_failover(
        reassignments={("t", 0): [3, 2], ("t", 1): [1, 2], ("gone", 4): [1]}
    )
    assert outcome.error is None
    assert_reads(state, """
        partition  ar     adding  removing  isr  leader  epoch
        t-0        3,2,1  3       1         1,2  1       8
        t-1        1,2    -       -         1,2  1       8
        t-2        3,1,2  3       1         1,2  1       8
    """)
    invariants.check(state)


@pytest.mark.parametrize(
    ("isr", "version", "goes_on"),
    [([1, 2, 3, 4, 5], 8, True), ([1, 2, 3, 4], 8, False), ([1, 2, 3, 4, 5], 7, False)],
)
def test_an_isr_change_goes_on_where_it_succeeds_and_completes(isr, version, goes_on):
    """Section 6.10, after the writes: only successes, only where step 3 of section 6.7 is true."""
    controller = half_way()
    controller.alter_partition(1, 0, [0], 8, [isr], version)
    assert is_being_reassigned(controller.state) != goes_on
    assert controller.state.leadership(0).leader_epoch == (11 if goes_on else 8)


def test_an_isr_that_is_reported_again_completes_as_well():
    """Section 6.10: rows 4 and 9 are successes."""
    controller = half_way()
    controller.state.set_leadership(0, leader=1, isr=[3, 4, 5], leader_epoch=8, version=8)
    controller.alter_partition(1, 0, [0], 8, [[3, 4, 5]], 8)
    assert not is_being_reassigned(controller.state)


def test_a_notified_isr_completes_it():
    """Section 6.10, legacy path: reload, announce, then `reassign` the completed ones."""
    state = read_state(HALF_WAY + "        t-1  1,2  -  -  1,2  1  8  ONLINE  1:ONLINE,2:ONLINE\n")
    store = Store(state)
    store.put("t", 0, leader=3, isr=[3, 5, 4, 1], leader_epoch=8, version=9, controller_epoch=3)
    controller = Controller(state, store=store, journal="full")
    outcome = controller.on_isr_change_notification([1, 0])
    assert outcome.actions[:2] == ("announce the ISRs", "B1: replicas to OnlineReplica")
    assert state.leadership(0).isr == (3, 4, 5)
    assert store.get("t", 0).leader_epoch == state.leadership(0).leader_epoch == 10
    assert state.leadership(1).leader_epoch == 8
