"""How a partition moves: who asks, what is checked, each step, and stores that fail on the way.

Random events (`tests/rules/test_random_events.py`) compare it with the twin at every stage, and
with it the kernels of `kfast.kernels.reassign`: `check_added`, `check_lists`, `check_safe`,
`check_complete`, `start_reassignments`, `assign_targets` and `touch`.

Source: docs/controller.md, sections 6.6 and 6.7; 6.1, 6.2 and 6.10 for when moves go on.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from kfast import ArgumentError, Code, Controller, ReplicaState, RowError, Store
from kfast.schema import FLAG_BEING_REASSIGNED
from kfast.testing import invariants
from tests.support.readings import announced, answers, lines, moves, refused, sent
from tests.support.states import assert_reads, read_state

ONE = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  1       7      ONLINE
"""
HALF_WAY = """
    partition  ar         adding  removing  isr    leader  epoch  state   replicas
    t-0        3,4,5,1,2  4,5     1,2       1,2,3  1       8      ONLINE  {}
""".format("1:ONLINE,2:ONLINE,3:ONLINE,4:NEW,5:NEW")


def run(text, **options):
    """A controller of the cluster that a text describes, with a full journal."""
    return Controller(read_state(text, **options), journal="full")


def reassign(controller, *brokers, partition=("t", 0)):
    """Ask for one partition to move; it is accepted, and the state is sound."""
    outcome = controller.alter_partition_reassignments({partition: list(brokers)})
    assert answers(outcome) == ["STARTED"]
    invariants.check(controller.state)
    return outcome


def is_being_reassigned(state, row=0):
    """Whether the controller keeps the partition among those that move."""
    return bool(state.records["flags"][row] & FLAG_BEING_REASSIGNED)


# --- the example --------------------------------------------------------------------------------


def test_a_reassignment_begins_with_a_union_and_an_epoch():
    """The example of section 6.7: U, A1 (`touch`, section 6.6) and A2."""
    controller = run(ONE, brokers=[4, 5])
    outcome = reassign(controller, 3, 4, 5)
    assert_reads(controller.state, HALF_WAY)
    assert is_being_reassigned(controller.state)
    assert sent(outcome) == lines("""
        A1 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 8, ISR 1,2,3
        A1 LeaderAndIsr(new) to 4,5: t-0, leader 1, epoch 8, ISR 1,2,3
        A2 LeaderAndIsr(new) to 4: t-0, leader 1, epoch 8, ISR 1,2,3
        A2 LeaderAndIsr(new) to 5: t-0, leader 1, epoch 8, ISR 1,2,3
    """)
    assert announced(outcome) == ["A1 to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3"] + 2 * [
        "A2 to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3"
    ]
    assert moves(outcome) == lines("""
        A2 t-0/4 NonExistentReplica to NewReplica
        A2 t-0/5 NonExistentReplica to NewReplica
    """)
    requests = outcome.requests.to_pylist()
    assert {(*r["replicas"],) for r in requests} == {(3, 4, 5, 1, 2)}
    assert {((*r["adding"],), (*r["removing"],)) for r in requests} == {((4, 5), (1, 2))}


def test_a_reassignment_ends_when_all_targets_are_in_sync():
    """The example of section 6.7: B1 to B8, from the ISR change that completes it."""
    controller = run(HALF_WAY)
    outcome = controller.alter_partition(1, 0, [0], 8, [[1, 2, 3, 4, 5]], 8)
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  state   replicas
        t-0        3,4,5  -       -         3,4,5  3       11     ONLINE  3:ONLINE,4:ONLINE,5:ONLINE
    """)
    invariants.check(controller.state)
    assert not is_being_reassigned(controller.state)
    assert outcome.actions == (
        "announce the ISRs",
        "B1: replicas to OnlineReplica",
        "B3: partitions to OnlinePartition (REASSIGN)",
        "B4: replicas to OfflineReplica",
        "B4: replicas to ReplicaDeletionStarted",
        "B4: replicas to ReplicaDeletionSuccessful",
        "B4: replicas to NonExistentReplica",
        "B8: announce the assignment",
    )


def test_who_is_told_at_the_end():
    """Section 6.7: B1 tells nobody; all targets hear of the leader; 1 then 2 leave the ISR."""
    outcome = run(HALF_WAY).alter_partition(1, 0, [0], 8, [[1, 2, 3, 4, 5]], 8)
    assert sent(outcome) == lines("""
        B3 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
        B4 StopReplica to 1: t-0, epoch 9
        B4 StopReplica to 2: t-0, epoch 10
        B4 StopReplica(delete) to 1,2: t-0, epoch 11
    """)
    assert announced(outcome) == lines("""
        announce the ISRs to 1,2,3,4,5: t-0, leader 1, epoch 8, ISR 1,2,3,4,5
        B3 to 1,2,3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 to 1,2,3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
        B8 to 1,2,3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
    """)
    assert outcome.counts.requests == {"LeaderAndIsr": 6, "UpdateMetadata": 20, "StopReplica": 4}


# --- B3: who leads afterwards -------------------------------------------------------------------


def test_a_leader_that_stays_gets_a_new_epoch():
    """Section 6.7, B3: L in TRS and online is touched, with {TRS}: no adding replicas are left."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,3  3  "))
    outcome = controller.catch_up([4, 5])
    assert "B3: raise the leader epoch" in outcome.actions
    assert sent(outcome)[:2] == lines("""
        B3 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 11, ISR 3,4,5
    """)
    assert controller.state.leadership(0).leader_epoch == 11


def test_the_first_target_that_is_live_and_in_sync_leads():
    """Section 4.1, Reassign: all targets are told, dead ones dropped when it is sent."""
    controller = run("""
        partition  ar         adding  removing  isr        leader  epoch  state
        t-0        3,4,5,1,2  4,5     1,2       1,2,3,4,5  1       8      ONLINE
    """, down=[3])
    outcome = controller.on_partition_reassignment([0])
    assert controller.state.leadership(0).leader == 4
    assert sent(outcome)[:3] == lines("""
        B1 LeaderAndIsr to 4,5: t-0, leader 1, epoch 8, ISR 1,2,3,4,5
        B3 LeaderAndIsr to 4,5: t-0, leader 4, epoch 9, ISR 1,2,3,4,5
        B4 LeaderAndIsr to 4,5: t-0, leader 4, epoch 11, ISR 3,4,5
    """)


@pytest.mark.parametrize("how", ["down", "shutting_down"])
def test_a_leader_that_is_a_target_but_dead_gives_way(how):
    """Section 6.7, B3, third case: L in TRS but not online, dead or in controlled shutdown."""
    controller = run("""
        partition  ar     adding  removing  isr    leader  epoch  state
        t-0        3,4,1  4       1         3,4,1  3       8      ONLINE
    """, **{how: [3]})
    outcome = controller.on_partition_reassignment([0])
    assert "B3: partitions to OnlinePartition (REASSIGN)" in outcome.actions
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch
        t-0        3,4  3,4  4       10
    """)


def test_without_a_target_that_can_lead_the_reassignment_ends_all_the_same():
    """Sections 6.7, B3, and 9, rule 25: the failed election is logged, and B4 takes the leader."""
    controller = run("""
        partition  ar   adding  removing  isr  leader  epoch  state
        t-0        3,1  3       1         3,1  1       8      ONLINE
    """, down=[3])
    outcome = controller.on_partition_reassignment([0])
    assert refused(outcome) == ["B3 t-0 OnlinePartition to OnlinePartition: StateChangeFailed"]
    assert_reads(controller.state, """
        partition  ar  isr  leader  epoch  adding  removing  state   replicas
        t-0        3   3    -       9      -       -         ONLINE  3:ONLINE
    """)
    assert outcome.error is None
    invariants.check(controller.state)


# --- nothing to copy ----------------------------------------------------------------------------


@pytest.mark.parametrize("targets", [(1, 2, 3), (3, 2, 1)])
def test_a_reassignment_that_adds_nobody_is_complete_at_once(targets):
    """Section 6.7, note: reordering, or changing nothing, still bumps the epoch and notifies."""
    controller = run(ONE)
    outcome = reassign(controller, *targets)
    assert outcome.actions == ("B3: raise the leader epoch", "B8: announce the assignment")
    assert sent(outcome) == ["B3 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 8, ISR 1,2,3"]
    assert_reads(controller.state, f"""
        partition  ar                         adding  removing  isr    leader  epoch
        t-0        {",".join(map(str, targets))}  -   -         1,2,3  1       8
    """)
    assert not is_being_reassigned(controller.state)
    assert controller.state.preferred_imbalance_count == int(targets[0] != 1)


def test_a_reassignment_that_changes_nothing_is_written_all_the_same():
    """Section 6.7, note: the store is rewritten once, at B6."""
    state = read_state(ONE)
    store = Store(state)
    reassign(Controller(state, store=store), 1, 2, 3)
    assert [call for call, _ in store.calls] == ["read", "update", "assign"]
    assert store.get("t", 0).leader_epoch == 8


def test_shrinking_to_replicas_in_sync_is_complete_at_once():
    """Section 6.7, note: no replica is added, so it is synchronous."""
    controller = run(ONE)
    outcome = reassign(controller, 2, 3)
    assert_reads(controller.state, """
        partition  ar   adding  removing  isr  leader  epoch  replicas
        t-0        2,3  -       -         2,3  2       9      2:ONLINE,3:ONLINE
    """)
    assert sent(outcome) == lines("""
        B3 LeaderAndIsr to 2,3: t-0, leader 2, epoch 8, ISR 1,2,3
        B4 LeaderAndIsr to 2,3: t-0, leader 2, epoch 9, ISR 2,3
        B4 StopReplica to 1: t-0, epoch 8
        B4 StopReplica(delete) to 1: t-0, epoch 9
    """)


# --- override and cancel ------------------------------------------------------------------------


def test_another_target_drops_what_was_half_added():
    """Sections 1.3 and 6.7, phase U: it starts from the origin; 4 is stopped, 5 goes on."""
    controller = run(HALF_WAY, brokers=[6])
    outcome = reassign(controller, 5, 6, 1)
    assert_reads(controller.state, """
        partition  ar         adding  removing  isr    leader  epoch  replicas
        t-0        5,6,1,3,2  5,6     3,2       1,2,3  1       9      {}
    """.format("1:ONLINE,2:ONLINE,3:ONLINE,5:NEW,6:NEW"))
    assert moves(outcome) == lines("""
        U t-0/4 NewReplica to OfflineReplica
        U t-0/4 OfflineReplica to ReplicaDeletionStarted
        U t-0/4 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        U t-0/4 ReplicaDeletionSuccessful to NonExistentReplica
        A2 t-0/6 NonExistentReplica to NewReplica
    """)
    assert refused(outcome) == ["A2 t-0/5 NewReplica to NewReplica: IllegalState"]
    assert sent(outcome) == lines("""
        U LeaderAndIsr to 1,2,3,5,6: t-0, leader 1, epoch 8, ISR 1,2,3
        U StopReplica to 4: t-0, epoch 8
        U StopReplica(delete) to 4: t-0, epoch 8
        A1 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 9, ISR 1,2,3
        A1 LeaderAndIsr(new) to 5,6: t-0, leader 1, epoch 9, ISR 1,2,3
        A2 LeaderAndIsr(new) to 6: t-0, leader 1, epoch 9, ISR 1,2,3
    """)


def test_cancelling_goes_back_to_the_origin():
    """Section 6.7: null; the replicas that were added are dropped, and it is complete at once.

    Section 1.3, note: the original order cannot be restored, the targets are in front.
    """
    controller = run(HALF_WAY)
    outcome = controller.alter_partition_reassignments({("t", 0): None})
    assert answers(outcome) == ["STARTED"]
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  replicas
        t-0        3,1,2  -       -         1,2,3  1       9      1:ONLINE,2:ONLINE,3:ONLINE
    """)
    assert not is_being_reassigned(controller.state)
    assert [line.split(" ")[0] for line in moves(outcome)] == 8 * ["U"]
    assert "B3 LeaderAndIsr to 1,2,3: t-0, leader 1, epoch 9, ISR 1,2,3" in sent(outcome)
    invariants.check(controller.state)


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
    targets = {("t", 2): None, ("t", 0): [4, 2], ("t", 1): [1, 5, 3]}
    table = pa.table({
        "topic": [t for t, _ in targets], "partition": [p for _, p in targets],
        "replicas": pa.array(targets.values(), pa.list_(pa.int64())),
    })
    by_table = Controller(state).alter_partition_reassignments(table)
    by_mapping = Controller(other).alter_partition_reassignments(targets)
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
    partitions = [("t", 2), ("t", 0), ("n", 7), ("t", 8)]
    assert controller.list_partition_reassignments(partitions).to_pylist() == [two]
    controller.alter_partition_reassignments({("t", 1): None, ("t", 2): None})
    assert controller.list_partition_reassignments().num_rows == 0


# --- when they go on ----------------------------------------------------------------------------


def test_resuming_bumps_the_epoch_and_is_refused_by_a2():
    """Section 6.7, note: A1 reruns every time; A2's replicas are New already."""
    controller = run(HALF_WAY)
    for epoch in (9, 10):
        outcome = controller.on_partition_reassignment([0])
        assert controller.state.leadership(0).leader_epoch == epoch
        assert [line.split(" ")[0] for line in refused(outcome)] == ["A2", "A2"]
        assert moves(outcome) == []


@pytest.mark.parametrize(("broker", "goes_on"), [(4, True), (3, True), (2, False)])
def test_a_target_broker_that_starts_resumes_it(broker, goes_on):
    """Section 6.2, step 6: target, not only added; a removed replica's broker does not."""
    controller = run(HALF_WAY, down=[broker])
    epoch = controller.state.leadership(0).leader_epoch
    outcome = controller.on_broker_startup([broker])
    assert ("A1: raise the leader epoch" in outcome.actions) == goes_on
    assert controller.state.leadership(0).leader_epoch == epoch + goes_on
    if broker == 4:
        assert refused(outcome) == [
            "A2 t-0/4 OnlineReplica to NewReplica: IllegalState",
            "A2 t-0/5 NewReplica to NewReplica: IllegalState",
        ]


def test_a_new_controller_resumes_all():
    """Section 6.1, step 9: replicas are Online by then, so A2 is refused; one epoch for A1."""
    controller = run(HALF_WAY)
    outcome = controller.on_controller_failover()
    assert outcome.error is None
    assert controller.state.leadership(0).leader_epoch == 9
    assert refused(outcome) == [
        "A2 t-0/4 OnlineReplica to NewReplica: IllegalState",
        "A2 t-0/5 OnlineReplica to NewReplica: IllegalState",
    ]
    invariants.check(controller.state)


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
    controller = run(HALF_WAY)
    controller.alter_partition(1, 0, [0], 8, [isr], version)
    assert is_being_reassigned(controller.state) != goes_on
    assert controller.state.leadership(0).leader_epoch == (11 if goes_on else 8)


FAILED = ["UNKNOWN_SERVER_ERROR"]
IN_SYNC = HALF_WAY.replace("1,2,3  1  ", "1,2,3,4,5  3  ")
TWO = """
    partition  ar       adding  removing  isr  leader  epoch  state   replicas
    t-0        3,1,2    3       1         1,2  1       7      ONLINE  1:ONLINE,2:ONLINE,3:NEW
    t-1        3,1,2    3       1         1,2  2       7      ONLINE  1:ONLINE,2:ONLINE,3:NEW
"""


def with_store(text, **options):
    """A controller with a store, and a full journal."""
    state = read_state(text, **options)
    return Controller(state, store=Store(state), journal="full")


def ask(controller, *brokers, partition=("t", 0)):
    """Ask for one partition to move."""
    return controller.alter_partition_reassignments({partition: list(brokers)})


@contextmanager
def failing_call(store, operation, number):
    """Let one of the next calls of an operation fail, counted from 1."""
    plain, calls = getattr(store, operation), []

    def counted(*arguments, **options):
        calls.append(operation)
        if len(calls) == number:
            store.fail(operation, "NOAUTH")
        return plain(*arguments, **options)

    setattr(store, operation, counted)
    yield
    delattr(store, operation)
    assert len(calls) >= number


def begun(fault_of, fault, **options):
    """Begin the example while an operation of the store fails."""
    controller = with_store(ONE, brokers=[4, 5])
    controller.store.fail(fault_of, fault, **options)
    return controller, ask(controller, 3, 4, 5)


# --- phases U and A -----------------------------------------------------------------------------


def test_without_its_first_write_nothing_begins():
    """Section 6.7, phase U: the topic node comes before the cache."""
    controller, outcome = begun("write_assignments", "throw")
    assert answers(outcome) == FAILED
    assert controller.state.difference(read_state(ONE, brokers=[4, 5])) is None
    assert outcome.actions == ()
    assert not is_being_reassigned(controller.state)
    assert answers(ask(controller, 3, 4, 5)) == ["STARTED"]


@pytest.mark.parametrize("fault", ["throw", "CONNECTIONLOSS"])
def test_a_record_that_cannot_be_read_stops_it_after_the_first_write(fault):
    """Section 6.7, step 3: the assignment is set and p is being reassigned; nothing was sent."""
    controller, outcome = begun("read_states", fault)
    assert (answers(outcome), outcome.actions) == (FAILED, ())
    assert_reads(controller.state, """
        partition  ar         adding  removing  epoch  replicas
        t-0        3,4,5,1,2  4,5     1,2       7      1:ONLINE,2:ONLINE,3:ONLINE
    """)
    assert is_being_reassigned(controller.state)
    assert controller.on_partition_reassignment([0]).error is None
    assert controller.state.leadership(0).leader_epoch == 8


def test_a_conflict_at_the_touch_is_read_again():
    """Section 6.6, step 1: conflict, repeat; one epoch only."""
    controller, outcome = begun("update_states", "BADVERSION", times=2)
    assert answers(outcome) == ["STARTED"]
    calls = [call for call, _ in controller.store.calls]
    assert calls == ["assign", "read", "read", "update", "read", "update", "read", "update"]
    assert controller.state.leadership(0).leader_epoch == 8


@pytest.mark.parametrize("with_store", [False, True])
def test_a_record_of_a_newer_controller_is_left_alone(with_store):
    """Section 6.6: StateChangeFailed; neither store nor cache changes (9, rule 9)."""
    state = read_state(ONE + "", brokers=[4])
    state.set_leadership(
        0, leader=1, isr=[1, 2, 3], leader_epoch=7, version=7, controller_epoch=9
    )
    store = Store(state) if with_store else None
    controller = Controller(state, store=store)
    record = state.leadership(0)
    assert answers(ask(controller, 4)) == FAILED
    assert controller.on_partition_reassignment([0]).error == "StateChangeFailed"
    assert state.leadership(0) == record


# --- phase B ------------------------------------------------------------------------------------


def test_a_touch_that_fails_at_the_end_leaves_the_targets_in_memory_only():
    """Section 6.7, B2 and B3: a new controller reads the stored assignment, and completes it."""
    controller = with_store(IN_SYNC)
    controller.store.fail("update_states", "throw")
    outcome = controller.on_partition_reassignment([0])
    assert outcome.error == "StoreError"
    assert controller.state.assignment(0).replicas == (3, 4, 5)
    assert is_being_reassigned(controller.state)
    invariants.check(controller.state)
    assert controller.on_controller_failover().error is None
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  replicas
        t-0        3,4,5  -       -         3,4,5  3       11     3:ONLINE,4:ONLINE,5:ONLINE
    """)
    invariants.check(controller.state)


def test_a_shrink_that_fails_leaves_its_replica_behind():
    """Sections 2.5 and 6.7, B4: the error is logged, the four calls go on, B6 and B7 as well.

    Replica 1 stays Online and in the ISR; it is told to stop, but not to delete.
    """
    controller = with_store(IN_SYNC)
    with failing_call(controller.store, "update_states", 2):
        outcome = controller.on_partition_reassignment([0])
    assert outcome.error is None
    states = controller.state.replica_states_of(0)
    assert (states[1], 2 in states) == (ReplicaState.ONLINE, False)
    assert controller.state.leadership(0).isr == (3, 4, 5, 1)
    assert controller.state.assignment(0).replicas == (3, 4, 5)
    assert not is_being_reassigned(controller.state)
    assert refused(outcome) == [
        "B4 t-0/1 OnlineReplica to OfflineReplica: StoreError",
        "B4 t-0/1 OnlineReplica to ReplicaDeletionStarted: IllegalState",
        "B4 t-0/1 OnlineReplica to ReplicaDeletionSuccessful: IllegalState",
        "B4 t-0/1 OnlineReplica to NonExistentReplica: IllegalState",
    ]
    stops = [line.split(":")[0] for line in sent(outcome) if "Stop" in line]
    assert stops == ["B4 StopReplica to 1,2", "B4 StopReplica(delete) to 2"]
    invariants.check(controller.state)


def last_write_failed(text=ONE):
    """A shrinking reassignment whose last write (B6) failed."""
    controller = with_store(text)
    with failing_call(controller.store, "write_assignments", 2):
        outcome = ask(controller, 2, 3)
    assert answers(outcome) == FAILED
    assert "B8: announce the assignment" not in outcome.actions
    return controller


def test_without_its_last_write_p_is_still_being_reassigned():
    """Section 6.7, B6 and B7: memory says {TRS}; a new controller reads the union, and goes on."""
    controller = last_write_failed()
    state = controller.state
    assert (state.assignment(0).replicas, is_being_reassigned(state)) == ((2, 3), True)
    assert {row: a.removing for row, a in state.unwritten_assignments.items()} == {0: (1,)}
    outcome = controller.on_controller_failover()
    assert outcome.error is None
    assert "B6" not in "".join(outcome.actions)
    assert (state.assignment(0).replicas, is_being_reassigned(state)) == ((2, 3), False)
    assert 1 not in state.replica_states_of(0)
    assert not state.unwritten_assignments
    invariants.check(state)


def test_what_memory_says_decides_whether_there_is_something_to_cancel():
    """Sections 1.3 and 6.7: {TRS} has nothing adding or removing."""
    controller = last_write_failed()
    outcome = controller.alter_partition_reassignments({("t", 0): None})
    assert answers(outcome) == ["NO_REASSIGNMENT_IN_PROGRESS"]
    assert controller.list_partition_reassignments().num_rows == 0


# --- several partitions -------------------------------------------------------------------------


def test_each_partition_of_a_request_fails_by_itself():
    """Section 6.7: any other exception while working is that partition's error."""
    controller = with_store(TWO)
    controller.store.fail("update_states", "throw", [("t", 0)])
    outcome = controller.alter_partition_reassignments({("t", 1): [3, 1], ("t", 0): [3, 1]})
    assert answers(outcome) == ["STARTED", "UNKNOWN_SERVER_ERROR"]
    assert [controller.state.leadership(row).leader_epoch for row in (0, 1)] == [7, 8]


@pytest.mark.parametrize("start", ["broker", "controller", "rows"])
def test_one_that_cannot_go_on_ends_the_event(start):
    """Section 6.0: what a handler raises ends it; partitions behind it are not looked at."""
    controller = with_store(TWO, down=[3] if start == "broker" else [])
    controller.store.fail("update_states", "throw", [("t", 0)])
    outcome = {
        "broker": lambda: controller.on_broker_startup([3]),
        "controller": controller.on_controller_failover,
        "rows": lambda: controller.on_partition_reassignment(np.array([1, 0])),
    }[start]()
    assert outcome.error == "StoreError"
    assert controller.active == (start != "controller")
    assert [controller.state.leadership(row).leader_epoch for row in (0, 1)] == [7, 7]


@pytest.mark.parametrize("operation", ["write_assignments", "update_states"])
def test_another_controller_ends_it(operation):
    """Sections 6.0 and 6.7: ControllerMoved is rethrown, and this controller resigns."""
    controller, outcome = begun(operation, "controller_moved")
    assert (outcome.failure, controller.active) == (Code.CONTROLLER_MOVED, False)
    assert controller.store.get("t", 0).leader_epoch == 7


def test_a_partition_that_fails_in_the_node_fails_the_new_controller():
    """Section 6.1, step 9: p is being reassigned by then and not handled, so it is resumed."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        5,6  -    -       -
        t-1        1,2  1,2  1       7
    """, down=[5, 6])
    controller = Controller(state)
    node = {("t", 0): [6, 5], ("t", 1): [2, 1]}
    outcome = controller.on_controller_failover(reassignments=node)
    assert (outcome.error, controller.active) == ("NoSuchElement", False)
    assert state.assignment(1).replicas == (2, 1)
