"""What only a KRaft cluster has: from tables and back, moved, copied, read as registrations.

Source: docs/kraft.md, section 1.
"""

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.errors import ArgumentError, InputError
from kfast.schema import CONTROLLERS
from kfast.state import ClusterState, flat_table
from kfast.state.cluster import with_controller
from kfast.state.kraft_releases import RELEASES
from kfast.state.mutators import add_brokers, grow_slots, widen
from kfast.state.registrations import (
    PartitionRegistration,
    remove_rows,
    set_broker_registration,
    set_registration,
)

A, B = "AAAAAAAAAAAAAAAAAAABAA", "AAAAAAAAAAAAAAAAAAABAQ"
UNASSIGNED, MIGRATING = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAA"


def kraft_state(controller="kraft-4.1", **columns):
    """Three partitions of brokers 1 to 4, of which 2 is fenced."""
    partitions = {
        "topic": ["a", "a", "b"], "partition": [0, 1, 0],
        "replicas": [[1, 2, 3], [2, 3, 4], [3, 1]], "isr": [[3, 1], [], [1]],
        "leader": [3, -1, 1], "elr": [[2], [4, 2], []], "last_known_elr": [[], [4], []],
        "leader_epoch": [5, 6, 7], "version": [8, 9, 10], **columns,
    }
    return ClusterState.from_tables(
        brokers=pa.table({
            "broker_id": [1, 2, 3, 4], "fenced": [False, True, False, False],
            "in_controlled_shutdown": [False, False, False, True],
            "directories": [[A], [B], [], []],
        }),
        partitions=pa.table(partitions), cluster=pa.table({"controller": [controller]}),
    )


def reloaded(state, **options):
    """The state from its own tables."""
    return ClusterState.from_tables(**vars(state.to_tables()), **options)


def registrations(state):
    """All partitions."""
    return [state.registration(row) for row in range(state.n_partitions)]


def test_controllers_are_the_releases_that_are_described():
    assert [name for name in CONTROLLERS if name.startswith("kraft-")] == list(RELEASES)


def test_a_registration_has_its_lists_in_their_order():
    state = kraft_state()
    assert state.registration(0) == PartitionRegistration(
        replicas=(1, 2, 3), directories=(MIGRATING,) * 3, isr=(3, 1), elr=(2,), leader=3,
        leader_epoch=5, partition_epoch=8,
    )
    assert state.registration(1).elr == (4, 2)
    assert state.registration(1).last_known_elr == (4,)
    assert state.live.tolist() == [True, False, True, False]
    assert state.up.tolist() == [True, False, True, True]
    broker = state.broker_registration(2)
    assert (broker.fenced, broker.directories) == (True, (B,))
    assert state.broker_registration(9) is None


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_tables_say_all_of_it(layout):
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    other = reloaded(state, layout=layout)
    assert other == state
    assert registrations(other) == registrations(state)


def test_a_registration_can_be_replaced_by_any_other():
    """Brokers, slots and columns grow as they must; nothing else changes."""
    state, before = kraft_state(), registrations(kraft_state())
    new = replace(
        before[1], replicas=(9, 4, 2), adding=(9, 2), isr=(9,), elr=(2, 7), leader=9,
        directories=(UNASSIGNED, B, MIGRATING), last_known_elr=(-1,),
    )
    copy = state.copy()
    set_registration(copy, 0, new)
    assert registrations(state) == before
    assert registrations(copy) == [new, *before[1:]]
    assert registrations(reloaded(copy)) == [new, *before[1:]]
    counters = ("offline_partition_count", "preferred_imbalance_count", "n_led", "n_reassigned")
    kept, bits = [getattr(copy, name) for name in counters], copy.leader_offline.copy()
    copy.recount()
    assert kept == [getattr(copy, name) for name in counters]
    assert np.array_equal(bits, copy.leader_offline)


def test_what_a_real_controller_cannot_have_is_refused():
    with pytest.raises(InputError, match="last_known_elr has 2 brokers"):
        kraft_state(last_known_elr=[[], [4, 3], []])
    with pytest.raises(InputError, match="in the ISR and in the ELR"):
        kraft_state(elr=[[3], [], []])
    with pytest.raises(InputError, match="directories has 1 ids for 3 replicas"):
        kraft_state(directories=[[A], None, None])
    with pytest.raises(InputError, match="only KRaft has"):
        kraft_state(controller="zk-3.9")
    with pytest.raises(InputError, match="controller 'kraft-9' is unknown"):
        kraft_state(controller="kraft-9")


@pytest.mark.parametrize(("table", "column", "value"), [
    ("cluster", "features", [{"name": "metadata.version", "level": None}]),
    ("cluster", "features", [None]),
    ("cluster", "configurations",
     [{"resource_type": 2, "resource": "a", "key": "k", "value": None}]),
    ("cluster", "static_configuration", [{"key": "k", "value": None}]),
    ("brokers", "feature_ranges", [{"name": "metadata.version", "min": None, "max": 7}]),
    ("brokers", "directories", [A, None]),
    ("brokers", "cordoned", [None]),
])
def test_a_null_within_a_list_is_refused_by_name(table, column, value):
    """A list that is null says nothing, and is right."""
    tables = vars(kraft_state().to_tables())
    for values, right in ((None, True), (value, False)):
        changed = tables[table].to_pylist()
        changed[0][column] = values
        made = pa.Table.from_pylist(changed, tables[table].schema)
        if right:
            ClusterState.from_tables(**tables | {table: made})
            continue
        with pytest.raises(InputError, match=f"column {column} of {table} has a list with a null"):
            ClusterState.from_tables(**tables | {table: made})


def test_only_a_kraft_cluster_has_registrations():
    state = ClusterState.from_tables()
    assert not state.is_kraft
    with pytest.raises(ArgumentError, match="with_controller"):
        state.broker_registration(1)


def test_a_saved_state_is_opened_as_it_was(tmp_path):
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    state.quorum.set_configuration(2, "a", "min.insync.replicas", "2")
    state.quorum.set_configuration(4, "", "unclean.leader.election.enable", "true")
    state.quorum.set_feature("eligible.leader.replicas.version", 1)
    state.save(tmp_path / "saved")
    opened = kfast.open(tmp_path / "saved")
    assert opened == state
    assert opened.digest() == state.digest()
    assert registrations(opened) == registrations(state)
    assert opened.quorum.min_insync_replicas.tolist() == [2, 1]
    assert opened.quorum.elr_on
    set_registration(opened.copy(), 0, state.registration(1))


def changes_of(state):
    """Copies that differ from a state in one thing each."""
    registration = state.registration(1)
    other_partitions = [
        {"elr": (2, 4)}, {"elr": (4,)}, {"isr": (3,), "elr": ()}, {"last_known_elr": ()},
        {"last_known_elr": (-1,)}, {"directories": (A, B, MIGRATING)}, {"leader_epoch": 9},
        {"partition_epoch": 1}, {"recovery": 1}, {"leader": 3},
    ]
    for change in other_partitions:
        copy = state.copy()
        set_registration(copy, 1, replace(registration, **change))
        yield str(change), copy
    brokers = [
        {"fenced": False}, {"in_controlled_shutdown": True}, {"incarnation_id": A},
        {"directories": (A,)}, {"cordoned": (B,)}, {"features": {"metadata.version": (1, 2)}},
    ]
    for change in brokers:
        copy = state.copy()
        set_broker_registration(copy, 2, replace(copy.broker_registration(2), **change))
        yield str(change), copy
    settings = {
        "min ISR": lambda q: q.set_configuration(2, "a", "min.insync.replicas", "3"),
        "another key": lambda q: q.set_configuration(2, "a", "retention.ms", "3"),
        "unclean": lambda q: q.set_configuration(4, "", "unclean.leader.election.enable", "true"),
        "feature": lambda q: q.set_feature("eligible.leader.replicas.version", 1),
    }
    for name, change in settings.items():
        copy = state.copy()
        change(copy.quorum)
        yield name, copy


def test_every_difference_shows_in_digest_and_tables():
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    for name, changed in changes_of(state):
        assert changed.digest() != state.digest(), name
        assert changed.difference(state) is not None, name
    order = state.copy()
    set_registration(order, 0, replace(state.registration(0), isr=(1, 3)))
    assert order.digest() != state.digest()
    assert "column isr: [1, 3] against [3, 1]" in order.difference(state)


@pytest.mark.parametrize("change", [
    widen, lambda state: grow_slots(state, 9), lambda state: state.quorum.allocate_directories(),
    lambda state: state.quorum.allocate_elr(), lambda state: state.recount(),
])
def test_moves_change_nothing_that_is_said(change):
    """Rows of brokers, the layout and the number of slots are nobody's business."""
    state, before = kraft_state(), kraft_state()
    change(state)
    assert state == before
    assert state.digest() == before.digest()
    assert registrations(state) == registrations(before)


def test_brokers_may_come_between_others():
    """Their rows move, and all that names them."""
    state, before = kraft_state(), kraft_state()
    add_brokers(state, [0, 77])
    assert state.digest() == before.digest()
    assert registrations(state) == registrations(before)
    assert state.broker_registration(2) == before.broker_registration(2)


def test_rows_of_removed_partitions_are_free_and_taken_again():
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    kept, first = state.registration(2), state.registration(0)
    remove_rows(state, np.array([0, 1], np.int32))
    assert (state.offline_partition_count, state.n_led) == (0, 1)
    assert state.quorum.first_partition.tolist() == [-1, 2]
    rows = state.add_partitions(["c", "c", "c"], [0, 1, 2])
    for row in rows.tolist():
        assert state.registration(row).elr == ()
        set_registration(state, row, first)
    assert registrations(reloaded(state)) == [first, first, kept, first]
    remove_rows(state, rows[:2])
    other, before = state.copy(), state.digest()
    other.compact()
    assert other.digest() == before
    assert other == state
    assert registrations(other) == [kept, first]


def test_a_copy_is_independent():
    state, before = kraft_state(), kraft_state()
    copy = state.copy()
    copy.quorum.set_configuration(2, "a", "min.insync.replicas", "2")
    copy.quorum.elr[0], copy.quorum.member_order[0], copy.quorum.directories[0] = 0, 255, (B,)
    copy.quorum.set_feature("eligible.leader.replicas.version", 1)
    assert state == before
    assert state.digest() == before.digest()


def test_configurations_decide_by_the_order_of_section_1_5():
    state = kraft_state()
    quorum = state.quorum
    quorum.static_configuration["min.insync.replicas"] = "4"
    quorum.derive_settings()
    assert quorum.min_insync_replicas.tolist() == [4, 4]
    assert quorum.min_isr_of(np.array([0, 1])).tolist() == [3, 2]
    quorum.set_configuration(4, "", "min.insync.replicas", "2")
    assert quorum.min_insync_replicas.tolist() == [2, 2]
    quorum.set_configuration(4, "3000", "min.insync.replicas", "1")
    assert quorum.min_insync_replicas.tolist() == [2, 2]
    state.controller_id = 3000
    quorum.derive_settings()
    assert quorum.min_insync_replicas.tolist() == [1, 1]
    quorum.set_configuration(2, "b", "min.insync.replicas", "7")
    assert quorum.min_insync_replicas.tolist() == [1, 7]
    quorum.set_configuration(2, "b", "unclean.leader.election.enable", "TRUE")
    assert quorum.unclean_leader_election.tolist() == [False, True]
    quorum.remove_topic_configurations("b")
    assert quorum.unclean_leader_election.tolist() == [False, False]
    state.controller = "kraft-3.8"
    quorum.set_configuration(4, "", "unclean.leader.election.enable", "true")
    assert quorum.unclean_leader_election.tolist() == [False, False]


def test_a_topic_without_partitions_has_no_min_isr():
    tables = kraft_state().to_tables()
    state = ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions.slice(0, 0), tables.cluster
    )
    assert state.n_partitions == 0
    assert state.quorum.min_isr_of(np.array([0, 1])).tolist() == [0, 0]


def test_columns_of_topics_and_defaults_become_configurations():
    state = ClusterState.from_tables(
        topics=pa.table({"topic": ["a", "b"], "min_insync_replicas": [2, None],
                         "unclean_leader_election": [None, True]}),
        cluster=pa.table({"controller": ["kraft-4.1"], "default_min_insync_replicas": [3]}),
    )
    assert state.quorum.configurations == {
        (2, "a"): {"min.insync.replicas": "2"},
        (2, "b"): {"unclean.leader.election.enable": "true"},
        (4, ""): {"min.insync.replicas": "3"},
    }
    assert state.quorum.min_insync_replicas.tolist() == [2, 3]
    assert reloaded(state) == state


def test_one_broker_with_an_elr_has_a_flat_form():
    """No last known leader is -2, which is no place in a column of one broker."""
    state = ClusterState.from_tables(
        brokers=pa.table({"broker_id": [1], "fenced": [True]}),
        partitions=pa.table({
            "topic": ["a", "b"], "partition": [0, 0], "replicas": [[1], [1]], "isr": [[], []],
            "leader": [-1, -1], "elr": [[1], []], "last_known_elr": [[], [1]],
        }),
        cluster=pa.table({"controller": ["kraft-4.1"]}),
    )
    flat = state.to_tables(flat=True)
    assert flat.partitions["last_known_elr"].to_pylist() == [-2, 1]
    assert registrations(ClusterState.from_tables(**vars(flat))) == registrations(state)
    assert state.to_tables().partitions["last_known_elr"].to_pylist() == [[], [1]]


@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("form", ["arrow", "parquet", "parquet-flat"])
def test_files_say_all_of_it(form, layout, tmp_path):
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    state.quorum.set_configuration(2, "a", "min.insync.replicas", "2")
    state = reloaded(state, layout=layout)
    kfast.write(state, tmp_path / "cluster", format=form)
    other = kfast.read(tmp_path / "cluster")
    assert other == state
    assert other.digest() == state.digest()
    assert registrations(other) == registrations(state)


def test_the_flat_form_is_filled_in_as_the_form_with_lists_is(monkeypatch):
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    tables = state.to_tables(flat=True)
    assert "member_order" in tables.partitions.column_names
    assert ClusterState.from_tables(
        **vars(tables) | {"partitions": flat_table.to_lists(tables.partitions)}
    ) == state
    monkeypatch.setattr(flat_table, "to_lists", None)
    filled = ClusterState.from_tables(**vars(tables))
    assert filled == state
    assert filled.digest() == state.digest()


@pytest.mark.parametrize(("name", "values", "message"), [
    ("elr", [1, 0, 0], "member_order is 66"), ("elr", [64, 0, 0], "elr is 64"),
    ("member_order", [0, 1, 0], "member_order is 0"), ("last_known_elr", [0, -5, 9], "-5"),
])
def test_a_flat_table_that_contradicts_itself_is_refused(name, values, message):
    tables = kraft_state().to_tables(flat=True)
    at = tables.partitions.column_names.index(name)
    wrong = tables.partitions.set_column(at, name, pa.array(values, pa.int32()))
    with pytest.raises(InputError, match=message):
        ClusterState.from_tables(**vars(tables) | {"partitions": wrong})


def test_mutators_of_single_partitions_keep_what_they_do_not_name():
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    state.set_assignment(0, [3, 4, 1], adding=[4], removing=[1])
    state.set_leadership(0, leader=1, isr=[1, 2], leader_epoch=6, version=9, recovery=1)
    assert state.registration(0) == PartitionRegistration(
        replicas=(3, 4, 1), directories=(UNASSIGNED, MIGRATING, A), isr=(1, 2), adding=(4,),
        removing=(1,), leader=1, leader_epoch=6, partition_epoch=9, recovery=1,
    )
    state.set_unclean_leader_election(True, ["a"])
    state.set_unclean_leader_election(True)
    state.set_unclean_leader_election(False, ["b"])
    assert state.quorum.unclean_leader_election.tolist() == [True, False]


@pytest.mark.parametrize(("controller", "elr"), [
    ("kraft-3.9", False), ("kraft-4.0", False), ("kraft-4.1", True), ("kraft-4.3", True),
])
def test_a_generated_cluster_is_a_new_one_of_its_release(controller, elr):
    options = {"brokers": 9, "partitions": 300, "seed": 5, "racks": 3}
    state = kfast.generate(
        **options, controller=controller, min_insync_replicas=2, unclean_topics=0.5
    )
    zk = kfast.generate(**options, min_insync_replicas=2, unclean_topics=0.5)
    assert np.array_equal(state.replicas, zk.replicas)
    assert state.quorum.elr_on is elr
    assert state.quorum.metadata_version == RELEASES[controller].latest_metadata_version
    assert set(state.quorum.min_insync_replicas) == {2}
    assert set(state.quorum.unclean_leader_election) == {True, False}
    assert state.live.all()
    assert state.quorum.partition_columns() == {}
    assert "controller " + controller in repr(state)
    with pytest.raises(ArgumentError, match="no eligible leader replicas"):
        kfast.generate(**options, controller="zk-3.9", elr=True)


def test_controllers_change_there_and_back():
    zk = kfast.generate(brokers=9, partitions=300, seed=5, min_insync_replicas=2)
    zk.set_shutting_down([3])
    kraft = with_controller(zk, "kraft-4.1", elr=True)
    assert not zk.is_kraft
    assert (kraft.controller, kraft.quorum.elr_on) == ("kraft-4.1", True)
    assert kraft.assumptions[0] == "controller: told"
    assert with_controller(kraft, "kraft-4.3").quorum.elr_on
    older = with_controller(kraft, "kraft-3.8")
    assert older.quorum.features == {"metadata.version": 20}
    back = with_controller(kraft, "zk-3.9")
    assert back.difference(zk) is None
    assert back.digest() == zk.digest()


def test_an_older_release_has_no_directories():
    state = kraft_state(directories=[[A, B, UNASSIGNED], [B, A, A], None])
    assert with_controller(state, "kraft-4.3").registration(0).directories == (A, B, UNASSIGNED)
    older = with_controller(state, "kraft-3.6")
    assert older.registration(0).directories == (MIGRATING,) * 3
    assert reloaded(older) == older


def test_a_release_before_3_9_knows_no_unclean_election_by_configuration():
    state = kraft_state()
    state.set_unclean_leader_election(True)
    assert state.quorum.unclean_leader_election.all()
    assert not with_controller(state, "kraft-3.8").quorum.unclean_leader_election.any()


def test_a_running_cluster_can_be_sent_to_another_process():
    state = kraft_state()
    kfast.QuorumController(state).activate()
    sent = pickle.loads(pickle.dumps(state))
    assert sent == state
    assert sent.digest() == state.digest()


@pytest.mark.parametrize("value", ["two", "-1", "99999999999"])
def test_a_min_isr_that_is_no_number_is_named(value):
    with pytest.raises(InputError, match=f"of topic a is '{value}'"):
        kraft_state().quorum.set_configuration(2, "a", "min.insync.replicas", value)


def test_without_elr_nobody_is_in_one():
    state = with_controller(kraft_state(), "kraft-4.1", elr=False)
    assert [state.registration(row).elr for row in range(3)] == [()] * 3
    assert state.registration(0).isr == (3, 1)
    assert reloaded(state).digest() == state.digest()


def test_a_kraft_cluster_costs_what_it_uses():
    """Bytes beside the columns of every cluster: none, then one and four a partition."""
    state = kfast.generate(brokers=9, partitions=3000, controller="kraft-4.1")
    assert state.quorum.partition_columns() == {}
    state.quorum.allocate_elr()
    assert sum(of.nbytes for of in state.quorum.partition_columns().values()) == 5 * 3000
    state.quorum.allocate_orders()
    state.quorum.allocate_directories()
    assert sum(of.nbytes for of in state.quorum.partition_columns().values()) == 20 * 3000
