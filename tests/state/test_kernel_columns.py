"""`ClusterState.columns`: what kernels take is never an array that the state has replaced."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.kernels import census, columns, hosting
from kfast.kernels.columns import ARRAYS, make_columns
from kfast.state.mutators import grow_slots, widen


def arrays_of(state):
    """The arrays that kernels see, in their order."""
    return [getattr(state, name) for name in ARRAYS]


@pytest.mark.parametrize("change", [
    widen,
    lambda state: grow_slots(state, state.n_slots + 1),
    lambda state: state.add_live_brokers({99: 1}),
    lambda state: state.recount(),
    lambda state: state.compact(),
])
def test_columns_are_made_anew_where_an_array_was_replaced(change):
    """The columns of a state hold the very arrays that it has."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    before = state.columns
    assert state.columns is before
    change(state)
    assert state.columns.holds(vars(state))
    assert before.holds(vars(state)) == (state.columns is before)


@pytest.mark.parametrize("name", ARRAYS)
def test_any_single_array_that_is_replaced_is_noticed(name):
    """Even by an equal one."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    before = state.columns
    setattr(state, name, getattr(state, name).copy())
    assert not before.holds(vars(state))
    assert state.columns is not before


def test_a_copy_has_columns_of_its_own():
    """What happens to the one does not show in the other."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    columns = state.columns
    other = state.copy()
    assert other.columns is not columns
    other.records["leader"] = other.replicas[:, 1]
    rows = np.arange(70, dtype=np.int32)
    assert census.count_imbalanced(state.columns, rows) == 0
    assert census.count_imbalanced(other.columns, rows) == 70


@pytest.mark.parametrize("at", [1, 2, 4, 5, 7, 8])
def test_arrays_of_another_length_are_refused(at):
    """Kernels check no index: lengths are compared when columns are made."""
    arrays = arrays_of(kfast.generate(brokers=5, partitions=70, seed=1))
    arrays[at] = arrays[at][:-1].copy()
    with pytest.raises(ValueError, match=r"differ|shorter"):
        make_columns(*arrays)


def test_kernels_that_write_refuse_what_is_read_only():
    """`kfast.open` gives columns that are shared files, without bitmaps."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    rows = np.arange(70, dtype=np.int32)
    state.records.flags.writeable = False
    state._columns = None
    with pytest.raises(ValueError, match="read-only"):
        hosting.refresh_leader_offline(state.columns, rows)
    assert census.count_imbalanced(state.columns, rows) == 0
    arrays = arrays_of(kfast.generate(brokers=5, partitions=70, seed=1))
    with pytest.raises(ValueError, match="without bitmaps"):
        hosting.refresh_leader_offline(make_columns(*arrays[:7]), rows)


@pytest.mark.parametrize("name", ["records", "replicas", "replica_state", "partition", "pending"])
def test_an_array_made_read_only_later_is_refused(name):
    """Its flags are looked at before each call, not only when columns are made."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    columns_before, rows = state.columns, np.arange(70, dtype=np.int32)
    hosting.refresh_leader_offline(columns_before, rows)
    getattr(state, name).flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hosting.refresh_leader_offline(columns_before, rows)
    with pytest.raises(ValueError, match="read-only"):
        kfast.Controller(state).on_controller_failover()


def test_columns_are_not_made_by_their_class():
    """They would hold no array: a kernel would read from nowhere."""
    for kind in (columns.NarrowColumns, columns.WideColumns):
        with pytest.raises(TypeError, match="made by make_columns"):
            kind()


def test_an_assignment_of_read_only_arrays_is_copied():
    """Arrow gives such arrays; events write into them."""
    topic_row, partition = np.zeros(4, np.int32), np.arange(4, dtype=np.int32)
    replicas = np.array([[0, 1], [1, 2], [2, 0], [0, 2]], np.uint16)
    for array in (topic_row, partition, replicas):
        array.flags.writeable = False
    state = kfast.ClusterState.from_assignment(
        broker_id=np.arange(3, dtype=np.int32), rack=None, topic=pa.array(["t"]),
        topic_row=topic_row, partition=partition, replicas=replicas,
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    assert controller.on_broker_failure([0]).counts.leaders_moved == 2


def test_a_state_that_was_opened_is_counted_afresh(tmp_path):
    """Its columns are read-only, the bitmaps are new: both are as they were."""
    state = kfast.generate(brokers=5, partitions=70, seed=1)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([0, 1, 2, 3, 4])
    state.save(tmp_path / "saved")
    opened = kfast.open(tmp_path / "saved")
    opened.recount()
    assert opened.list_marked(opened.pending).size == 70
    assert opened.digest() == state.digest()


def test_a_controller_is_copied_and_pickled_after_an_event():
    """The rules that kernels were given are not part of it."""
    controller = kfast.Controller(kfast.generate(brokers=5, partitions=70, seed=1))
    controller.on_controller_failover()
    wanted = copy.deepcopy(controller).on_broker_failure([1]).counts
    assert pickle.loads(pickle.dumps(controller)).on_broker_failure([1]).counts == wanted
